//! `edit`: exact pieces of a file replaced by others.

use super::blind::look_first;
use super::write::change;
use super::{Boxed, Prepared, Tool, ToolContext, arguments, object, shown};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tieline::ToolKind;
use tieline_host::roots::Place;

/// No text becomes longer, in bytes.
const LONGEST: usize = 16 << 20;

pub struct Edit;

#[derive(Deserialize)]
struct Input {
    path: String,
    edits: Vec<Replace>,
}

#[derive(Deserialize)]
struct Replace {
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

impl Replace {
    /// The same with the line ends of a text; models know only one kind, and so do editors.
    fn in_lines_of(&self, text: &str) -> Self {
        let Self { old, new, all } = self;
        if !text.contains("\r\n") || old.contains('\r') || new.contains('\r') {
            return Self { old: old.clone(), new: new.clone(), all: *all };
        }
        Self { old: old.replace('\n', "\r\n"), new: new.replace('\n', "\r\n"), all: *all }
    }
}

impl Tool for Edit {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn description(&self) -> &'static str {
        "Replaces exact pieces of a text file, in order. `old` must be there exactly once, unless `all` is true."
    }

    fn schema(&self) -> Value {
        let edit =
            object(&[("old", "string".into(), ""), ("new", "string".into(), ""), ("all?", "boolean".into(), "")]);
        object(&[("path", "string".into(), ""), ("edits", json!({ "type": "array", "items": edit }), "")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Edit
    }

    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let input: Input = arguments(input)?;
            let place = ctx.workspace.place(&input.path)?;
            Ok(match look_first(format!("Edit {}", shown(&place)), &ctx, &[(place.clone(), false)]) {
                Some(blind) => blind.then(move || prepare(place, input.edits, ctx)),
                None => prepare(place, input.edits, ctx).await?,
            })
        })
    }
}

async fn prepare(place: Place, edits: Vec<Replace>, ctx: Arc<ToolContext>) -> Result<Prepared, String> {
    let now = ctx.workspace.now(&place).await?;
    ctx.workspace.check_fresh(&place, &now)?;
    let Some(text) = &now.text else { return Err(format!("There is no file {}.", shown(&place))) };
    let text = apply(text, &edits).map_err(|why| format!("{}: {why}", shown(&place)))?;
    Ok(change(format!("Edit {}", shown(&place)), ctx, vec![(place, now, text)]))
}

fn apply(text: &str, edits: &[Replace]) -> Result<String, String> {
    if edits.is_empty() {
        return Err("there are no edits".into());
    }
    let mut text = text.to_owned();
    for (at, edit) in edits.iter().enumerate() {
        let number = at + 1;
        let edit = &edit.in_lines_of(&text);
        if edit.old.is_empty() {
            return Err(format!("edit {number}: `old` is empty; nothing was changed"));
        }
        if edit.old == edit.new {
            return Err(format!("edit {number}: `old` and `new` are the same; nothing was changed"));
        }
        let count = text.matches(&edit.old).count();
        // Edits can breed: each may make more of what the next one replaces.
        if text.len() - count * edit.old.len() + count.saturating_mul(edit.new.len()) > LONGEST {
            return Err(format!("edit {number}: the text would become too long; nothing was changed"));
        }
        match count {
            0 => return Err(format!("edit {number}: {}; nothing was changed", miss(&text, &edit.old))),
            1 => text = text.replacen(&edit.old, &edit.new, 1),
            _ if edit.all => text = text.replace(&edit.old, &edit.new),
            count => {
                return Err(format!(
                    "edit {number}: `old` is there {count} times; give more of the text around it, or set `all`; nothing was changed"
                ));
            }
        }
    }
    Ok(text)
}

/// Why a text was not found: the nearest thing that is there.
fn miss(text: &str, old: &str) -> String {
    let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let found = text.lines().position(|line| line.trim() == first);
    match found {
        Some(at) if squeeze(text).contains(&squeeze(old)) => {
            format!("`old` is there from line {} on, but with other white space", at + 1)
        }
        Some(at) => format!("`old` is not there; its first line is at line {}, but what follows differs", at + 1),
        None => "`old` is not there; read the file again".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(old: &str, new: &str, all: bool) -> Replace {
        Replace { old: old.into(), new: new.into(), all }
    }

    #[test]
    fn edits_and_misses() {
        assert_eq!(apply("a b a", &[edit("b", "c", false)]).as_deref(), Ok("a c a"));
        assert_eq!(apply("a b a", &[edit("a", "x", true), edit("b", "y", false)]).as_deref(), Ok("x y x"));
        assert_eq!(apply("a\r\nb\r\n", &[edit("a\nb", "c\nd", false)]).as_deref(), Ok("c\r\nd\r\n"));
        assert!(apply("a b a", &[edit("a", "x", false)]).is_err_and(|why| why.contains("2 times")));
        assert!(
            apply("  if x\n    y\n", &[edit("if x\n  y", "z", false)]).is_err_and(|why| why.contains("white space"))
        );
        assert!(apply("one\ntwo\n", &[edit("one\nthree", "z", false)]).is_err_and(|why| why.contains("line 1")));
        assert!(apply("one", &[edit("none", "z", false)]).is_err_and(|why| why.contains("not there")));
        assert!(apply("one", &[edit("", "z", false)]).is_err());
        assert!(apply("one", &[]).is_err());
    }
}
