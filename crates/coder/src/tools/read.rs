//! `read`: the text of a file, or a window of it; images as pictures.

use super::{Output, Prepared, Tool, ToolContext, ToolError, Type, argument, full, ready, shown};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use tieline::schema::{Image, to_base64};
use tieline::{ContentBlock, ToolCallContent, ToolKind};
use tieline_host::files::Files;

/// As many lines as are given at once unless the model asks for another number.
const USUAL_LINES: usize = 2000;
/// As many bytes as are given at once.
const MAX_BYTES: usize = 100 * 1024;

pub const READ: Tool = Tool::new(
    "read",
    ToolKind::Read,
    "Reads a file. Text comes with line numbers; `line` (from 1) and `limit` choose a window. Images come as pictures.",
    &[("path", Type::Text, ""), ("line?", Type::Integer, ""), ("limit?", Type::Integer, "")],
    |input, ctx| ready(prepare(&input, ctx)),
);

fn prepare(input: &Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let path: &str = argument(input, "path")?;
    let (line, limit): (Option<usize>, Option<usize>) = (argument(input, "line")?, argument(input, "limit")?);
    let (place, image) = (ctx.workspace.place(path)?, image_type(path));
    let target = place.clone();
    let work = async move {
        if let Some(mime) = image {
            let bytes = ctx.workspace.disk(&target, Files::read_bytes).await?.bytes;
            let image = Image { data: to_base64(&bytes), mime_type: mime.into(), ..Image::default() };
            let image = ContentBlock::Image(image);
            let shown = Some(vec![ToolCallContent::from(image.clone())]);
            let raw = Some(json!({ "bytes": bytes.len() }));
            return Ok(Output { content: vec![image], shown, raw, ..Output::default() });
        }
        let now = ctx.workspace.now(&target).await?;
        let text = now.text.ok_or_else(|| format!("There is no file {}.", full(&target)))?;
        ctx.workspace.saw(&target, &text);
        Ok(window(&text, line.unwrap_or(1).max(1), limit.unwrap_or(USUAL_LINES)))
    };
    let line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
    Ok(Prepared::reading(format!("Read {}", shown(&place)), &place, line, work))
}

fn image_type(path: &str) -> Option<&'static str> {
    let (_, end) = path.rsplit_once('.')?;
    Some(match end.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        _ => return None,
    })
}

/// The lines that are wanted: with numbers for the model, plain for people.
fn window(text: &str, first: usize, limit: usize) -> Output {
    let total = text.lines().count();
    let (mut numbered, mut plain, mut count) = (String::new(), String::new(), 0);
    for (at, line) in text.lines().enumerate().skip(first - 1).take(limit) {
        if numbered.len() + line.len() > MAX_BYTES && count > 0 {
            break;
        }
        let line = &line[..line.floor_char_boundary(MAX_BYTES)];
        let _ = writeln!(numbered, "{:>5}  {line}", at + 1);
        let _ = writeln!(plain, "{line}");
        count += 1;
    }
    let last = (first - 1).saturating_add(count);
    if total == 0 {
        numbered.push_str("(the file is empty)\n");
    } else if count == 0 {
        let _ = writeln!(numbered, "(the file has only {total} lines)");
    } else if last < total {
        let _ = writeln!(numbered, "(lines {first} to {last} of {total}; go on with `line`: {})", last + 1);
    }
    let raw = json!({ "firstLine": first, "lines": count, "totalLines": total });
    Output { content: vec![numbered.into()], shown: Some(vec![plain.into()]), raw: Some(raw), ..Output::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows() {
        let said = |output: &Output| output.content[0].as_text().unwrap_or_default().to_owned();
        assert_eq!(said(&window("a\nb\nc\n", 2, 1)), "    2  b\n(lines 2 to 2 of 3; go on with `line`: 3)\n");
        assert_eq!(said(&window("", 1, 5)), "(the file is empty)\n");
        assert_eq!(said(&window("a", 9, 5)), "(the file has only 1 lines)\n");
        assert!(said(&window(&"ü".repeat(200_000), 1, 5)).len() < 110_000);
    }
}
