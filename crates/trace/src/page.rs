//! A recording as one page that needs nothing else: timeline, frames, diffs, search.

use crate::{Frame, Row, Story};
use serde_json::{Value, json};
use std::mem::take;
use tieline_schema::{Diff, from_json};

/// Of a longer message only the start is on the page.
const MAX_BODY_BYTES: usize = 128 * 1024;

/// Gathers what the page shows.
#[derive(Debug, Default)]
pub struct Page {
    rows: Vec<Value>,
}

impl Page {
    /// Adds the rows of a frame; what stands in it goes with the first.
    pub fn add(&mut self, frame: &Frame, rows: &[Row]) {
        let body = String::from_utf8_lossy(&frame.body);
        let end = body.floor_char_boundary(MAX_BODY_BYTES);
        let (cut, mut body) = (body.len() - end, body[..end].to_owned());
        let mut patches = Vec::new();
        if let Some(message) = &frame.message {
            find_patches(message, &mut patches);
        }
        for row in rows {
            let (body, patches) = (take(&mut body), take(&mut patches));
            let mut shown = json!(row);
            (shown["body"], shown["cut"], shown["patches"]) = (body.into(), cut.into(), patches.into());
            self.rows.push(shown);
        }
    }

    /// The page. Nothing of the recording can become a tag or a script: it is data, and is shown as text.
    pub fn html(&self, title: &str, story: &Story) -> String {
        let (turns, calls) = (&story.turns, &story.calls);
        let data =
            json!({"title": title, "summary": story.summary(), "rows": self.rows, "turns": turns, "calls": calls});
        // In JSON these can only stand in texts, so they can be written as escapes.
        let data = data.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026");
        include_str!("page.html").replace("{{data}}", &data)
    }
}

/// Changes of files anywhere in a message, as patches.
fn find_patches(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            if object.get("type").is_some_and(|kind| kind == "diff")
                && let Ok(diff) = from_json::<Diff>(&value.to_string())
            {
                found.extend(diff.patch().map(|patch| patch.text));
            }
            object.values().for_each(|value| find_patches(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| find_patches(value, found)),
        _ => {}
    }
}
