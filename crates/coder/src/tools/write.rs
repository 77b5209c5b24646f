//! `write`: a whole file, new or in place of the old one.

use super::blind::look_first;
use super::{Boxed, Output, Prepared, Tool, ToolContext, arguments, full, object, shown};
use crate::workspace::Now;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use tieline::{Diff, ToolCallContent, ToolKind};
use tieline_host::roots::Place;
use tieline_host::rules::Action;

pub struct Write;

#[derive(Deserialize)]
struct Input {
    path: String,
    content: String,
}

impl Tool for Write {
    fn name(&self) -> &'static str {
        "write"
    }

    fn description(&self) -> &'static str {
        "Writes a whole file; makes it and its folders if needed. For changes of an existing file prefer `edit`."
    }

    fn schema(&self) -> Value {
        object(&[("path", "string".into(), ""), ("content", "string".into(), "")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Edit
    }

    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let input: Input = arguments(input)?;
            let place = ctx.workspace.place(&input.path)?;
            let title = format!("Write {}", shown(&place));
            Ok(match look_first(title, &ctx, &[(place.clone(), false)]) {
                Some(blind) => blind.then(move || prepare(place, input.content, ctx)),
                None => prepare(place, input.content, ctx).await?,
            })
        })
    }
}

async fn prepare(place: Place, content: String, ctx: Arc<ToolContext>) -> Result<Prepared, String> {
    let now = ctx.workspace.now(&place).await?;
    ctx.workspace.check_fresh(&place, &now)?;
    let title = format!("{} {}", if now.text.is_some() { "Write" } else { "Create" }, shown(&place));
    Ok(change(title, ctx, vec![(place, now, content)]))
}

/// A call that gives files a new text, with the diffs shown beforehand.
pub fn change(title: String, ctx: Arc<ToolContext>, files: Vec<(Place, Now, String)>) -> Prepared {
    let mut content = Vec::new();
    let mut places = Vec::new();
    for (place, now, text) in &files {
        content.push(ToolCallContent::Diff(Diff::of(full(place), now.text.clone(), text.clone())));
        let line = now.text.as_deref().map_or(1, |old| first_change(old, text));
        places.push((place.clone(), line));
    }
    let mut prepared = Prepared::new(title, move |call| async move {
        let mut done = Vec::new();
        let mut changed = String::new();
        for (place, now, text) in files {
            match ctx.workspace.write(&place, &now, &text, call.is_asked()).await {
                Ok(true) => {}
                Ok(false) => {
                    let words = " The editor changed it while saving; read it before you edit it again:";
                    let _ = write!(changed, "{words} {}.", shown(&place));
                }
                Err(why) => {
                    let before =
                        if done.is_empty() { String::new() } else { format!(" Done before: {}.", done.join(", ")) };
                    return Output::error(format!("{}: {why}.{before}", shown(&place)));
                }
            }
            done.push(shown(&place));
        }
        Output::quiet(format!("Written: {}.{changed}", done.join(", "))).raw(json!({ "written": done }))
    });
    prepared.content = content;
    for (place, line) in places {
        let action = Action::Write(place.location());
        prepared = prepared.at(&place, line, action);
    }
    prepared
}

/// The first line that differs, from 1.
fn first_change(old: &str, new: &str) -> u32 {
    let same = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    u32::try_from(same).unwrap_or(0).saturating_add(1)
}
