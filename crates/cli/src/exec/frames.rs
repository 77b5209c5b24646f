//! The output `acp`: every frame as it is on the wire, one per line, and one closing frame.

use super::json::outcome_value;
use super::printer::{Printer, To};
use serde_json::{Value, json};
use tieline::json::whole_pairs;
use tieline_client::run::Outcome;
use tieline_client::sanitize;

/// Prints one frame.
pub fn frame(printer: &Printer, json: &str) {
    // Many readers refuse half a surrogate pair.
    let mut line = sanitize::json(whole_pairs(json).as_deref().unwrap_or(json));
    line.push('\n');
    printer.push(To::Out, line);
}

/// The last frame: a notification of our own, without the text, which is in the frames.
pub fn end(printer: &Printer, outcome: &Outcome) {
    let params = Value::Object(outcome_value(outcome));
    frame(printer, &json!({"jsonrpc": "2.0", "method": "_tieline/end", "params": params}).to_string());
}
