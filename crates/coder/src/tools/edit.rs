//! `edit`: exact pieces of a file replaced by others.

use super::change::{Change, change};
use super::{Prepared, Tool, ToolContext, ToolError, Type, argument, shown};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use tieline::ToolKind;

/// No text becomes longer, in bytes.
const MAX_TEXT_BYTES: usize = 16 << 20;

pub const EDIT: Tool = Tool::new(
    "edit",
    ToolKind::Edit,
    "Replaces exact pieces of a text file, in order. `old` must be there exactly once, unless `all` is true.",
    &[
        ("path", Type::Text, ""),
        (
            "edits",
            Type::List(&Type::Object(&[("old", Type::Text, ""), ("new", Type::Text, ""), ("all?", Type::Boolean, "")])),
            "",
        ),
    ],
    |input, ctx| Box::pin(prepare(input, ctx)),
);

#[derive(Clone, Deserialize)]
struct Replace {
    old: String,
    new: String,
    #[serde(default)]
    all: bool,
}

async fn prepare(input: Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let place = ctx.workspace.place(argument(&input, "path")?)?;
    let edits: Vec<Replace> = argument(&input, "edits")?;
    let name = shown(&place);
    let edit = move |text: Option<&str>| {
        let text = text.ok_or_else(|| format!("There is no file {name}."))?;
        apply(text, &edits).map_err(|why| format!("{name}: {why}").into())
    };
    change("Edit", "Written", vec![Change { place, delete: false, edit: Some(Box::new(edit)) }], ctx).await
}

fn apply(text: &str, edits: &[Replace]) -> Result<String, ToolError> {
    if edits.is_empty() {
        return Err("there are no edits".into());
    }
    let mut text = text.to_owned();
    for (at, edit) in edits.iter().enumerate() {
        text = edit.apply(&text).map_err(|why| format!("edit {}: {why}; nothing was changed", at + 1))?;
    }
    Ok(text)
}

impl Replace {
    /// The same with the line ends of a text; models know only one kind, and so do editors.
    fn in_lines_of(&self, text: &str) -> Self {
        let Self { old, new, all } = self;
        if !text.contains("\r\n") || old.contains('\r') || new.contains('\r') {
            return self.clone();
        }
        Self { old: old.replace('\n', "\r\n"), new: new.replace('\n', "\r\n"), all: *all }
    }

    fn apply(&self, text: &str) -> Result<String, ToolError> {
        let Self { old, new, all } = &self.in_lines_of(text);
        if old.is_empty() {
            return Err("`old` is empty".into());
        }
        if old == new {
            return Err("`old` and `new` are the same".into());
        }
        let count = text.matches(old).count();
        // Edits can breed: each may make more of what the next one replaces.
        if text.len() - count * old.len() + count.saturating_mul(new.len()) > MAX_TEXT_BYTES {
            return Err("the text would become too long".into());
        }
        match count {
            0 => Err(miss(text, old).into()),
            2.. if !all => {
                Err(format!("`old` is there {count} times; give more of the text around it, or set `all`").into())
            }
            _ => Ok(text.replace(old, new)),
        }
    }
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
        let check = |text: &str, edits: &[Replace], expect: Result<&str, &str>| match (apply(text, edits), expect) {
            (Ok(text), Ok(expect)) => assert_eq!(text, expect),
            (Err(why), Err(expect)) => assert!(why.to_string().contains(expect), "{why}"),
            other => panic!("{other:?}"),
        };
        check("a b a", &[edit("b", "c", false)], Ok("a c a"));
        check("a b a", &[edit("a", "x", true), edit("b", "y", false)], Ok("x y x"));
        check("a\r\nb\r\n", &[edit("a\nb", "c\nd", false)], Ok("c\r\nd\r\n"));
        check("a b a", &[edit("a", "x", false)], Err("2 times"));
        check("  if x\n    y\n", &[edit("if x\n  y", "z", false)], Err("white space"));
        check("one\ntwo\n", &[edit("one\nthree", "z", false)], Err("line 1"));
        check("one", &[edit("none", "z", false)], Err("not there"));
        check("one", &[edit("", "z", false)], Err("empty"));
        check("one", &[], Err("no edits"));
    }
}
