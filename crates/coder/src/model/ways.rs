//! The ways from the offline agent to a language model, each a line that works at a terminal.

/// The three ways, in a sentence.
pub fn ways() -> String {
    let key = "`tieline agent login anthropic` keeps a key of yours";
    let local = "`tieline models --local` finds model servers on this machine";
    let all = "`tieline models` lists every provider with the line to type";
    format!("Three ways to one: {key}; {local}; {all}.")
}
