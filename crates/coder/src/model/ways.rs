//! The ways from the offline agent to a language model, each a line that works at a terminal.

/// The three ways, in a sentence.
pub fn ways() -> String {
    let model = "anthropic/claude-sonnet-5-5";
    let key = format!(
        "a key of yours: `tieline agent login anthropic`, then `{}`, or `/model {model}` in a chat",
        line(model)
    );
    let local = "a model server on this machine: `tieline models --local`";
    let other = "another agent: `tieline agents list`";
    format!("Three ways to one: {key}; {local}; {other}. `tieline models` lists every provider with the line to type.")
}

/// The line that asks a model at a terminal.
pub fn line(model: &str) -> String {
    format!("tieline exec --model {model} \"what to do\"")
}
