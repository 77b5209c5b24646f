//! A request as the script sees it: what was said, which tools are offered; the same for all formats.

use serde_json::Value;

/// The wire format of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// `OpenAI` chat completions, spoken by very many servers.
    Chat,
    /// `OpenAI` responses.
    Responses,
    /// Anthropic messages.
    Messages,
    /// Gemini.
    Gemini,
    /// No question to a model: a list of models, a count of tokens, something unknown.
    Other,
}

/// A tool that the client offers to the model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) schema: Value,
    /// It takes free text, not JSON.
    pub(crate) free: bool,
}

/// One thing in a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    /// Words of the user.
    User(String),
    /// Calls of the model, by id.
    Calls(Vec<String>),
    /// What a tool gave back, and for which call.
    Result { id: String, text: String },
}

/// A request to a model.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) format: Format,
    pub(crate) model: String,
    pub(crate) stream: bool,
    pub(crate) tools: Vec<Tool>,
    pub(crate) said: Vec<Said>,
    /// The answer has to be JSON of this schema.
    pub(crate) schema: Option<Value>,
    /// Chat: the client wants the usage in the stream. Responses: it wants thoughts it can send back.
    pub(crate) extra: bool,
    /// Gemini without `alt=sse`: the stream is one JSON array.
    pub(crate) array: bool,
}

impl Asked {
    /// What came after the last words of the user.
    fn since_user(&self) -> &[Said] {
        let start = self.said.iter().rposition(|said| matches!(said, Said::User(_))).map_or(0, |at| at + 1);
        &self.said[start..]
    }

    /// How often tools were called since the last words of the user.
    pub(crate) fn rounds(&self) -> usize {
        let (mut rounds, mut seen, mut open) = (0, Vec::new(), false);
        for said in self.since_user() {
            match said {
                // Our own ids tell which calls belong together, however the client arranges them.
                Said::Calls(ids) => {
                    let serial = ids.iter().find_map(|id| serial(id));
                    let known = serial.is_some_and(|serial| seen.contains(&serial));
                    if !known && (serial.is_some() || !open) {
                        rounds += 1;
                    }
                    seen.extend(serial);
                    open = true;
                }
                _ => open = false,
            }
        }
        rounds
    }

    /// The last words of the user.
    pub(crate) fn prompt(&self) -> &str {
        match self.said.iter().rfind(|said| matches!(said, Said::User(_))) {
            Some(Said::User(text)) => text,
            _ => "",
        }
    }

    /// What the tools gave back in the last round.
    pub(crate) fn results(&self) -> String {
        let tail = self.since_user();
        let start = tail.iter().rposition(|said| matches!(said, Said::Calls(_))).map_or(0, |at| at + 1);
        let text = |said: &_| if let Said::Result { text, .. } = said { Some(String::clone(text)) } else { None };
        tail[start..].iter().filter_map(text).collect::<Vec<_>>().join("\n")
    }
}

/// The id of a call: which answer it belongs to, and its place there.
pub(crate) fn call_id(format: Format, serial: u64, place: usize) -> String {
    let prefix = if format == Format::Messages { "toolu" } else { "call" };
    format!("{prefix}_{serial:06}_{place}")
}

fn serial(id: &str) -> Option<u64> {
    let rest = id.strip_prefix("toolu_").or_else(|| id.strip_prefix("call_"))?;
    rest.split_once('_')?.0.parse().ok()
}

/// What the user said, without what agents put beside it: texts that are one element, such as `<environment>…</environment>`.
///
/// `beside` the results of tools a text may be the user's, after a turn that was cut off, or a reminder of the agent: there only
/// orders to the model are the user's.
pub(crate) fn words<'a>(texts: impl IntoIterator<Item = &'a str>, beside: bool) -> Option<Said> {
    let ordered = |text: &str| !beside || text.lines().any(|line| line.trim_start().starts_with("model:"));
    let real = |text: &&str| !text.is_empty() && !is_element(text) && ordered(text);
    let real: Vec<_> = texts.into_iter().map(str::trim).filter(real).collect();
    (!real.is_empty()).then(|| Said::User(real.join("\n")))
}

fn is_element(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('<') else { return false };
    let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-')).collect();
    !name.is_empty() && text.ends_with(&format!("</{name}>"))
}

/// The texts of a content: a string, or a list of blocks with a `text`.
pub(crate) fn texts(content: &Value) -> Vec<&str> {
    match content {
        Value::String(text) => vec![text],
        Value::Array(blocks) => blocks.iter().filter_map(|block| block.get("text").unwrap_or(block).as_str()).collect(),
        _ => Vec::new(),
    }
}

/// The items of a list, or none.
pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A string, or an empty one.
pub(crate) fn string(value: &Value, key: &str) -> String {
    value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(said: Vec<Said>, rounds: usize, prompt: &str) {
        let asked = Asked {
            format: Format::Chat,
            model: String::new(),
            stream: true,
            tools: Vec::new(),
            said,
            schema: None,
            extra: false,
            array: false,
        };
        assert_eq!((asked.rounds(), asked.prompt()), (rounds, prompt), "{:?}", asked.said);
    }

    fn user(text: &str) -> Said {
        Said::User(text.into())
    }

    fn calls(ids: &[&str]) -> Said {
        Said::Calls(ids.iter().map(|id| (*id).to_owned()).collect())
    }

    fn result() -> Said {
        Said::Result { id: String::new(), text: "r".into() }
    }

    #[test]
    fn rounds_are_counted_from_the_last_words_of_the_user() {
        check(vec![], 0, "");
        check(vec![user("a")], 0, "a");
        check(vec![user("a"), calls(&["x"]), result()], 1, "a");
        check(vec![user("a"), calls(&["x"]), result(), user("b")], 0, "b");
        check(vec![user("a"), calls(&["x"]), result(), calls(&["y", "z"]), result(), result()], 2, "a");
        // Parallel calls as single items, with foreign ids next to each other, with ours in any order.
        check(vec![user("a"), calls(&["x"]), calls(&["y"]), result(), result()], 1, "a");
        check(vec![user("a"), calls(&["call_000007_0"]), result(), calls(&["call_000007_1"]), result()], 1, "a");
        check(vec![user("a"), calls(&["call_000007_0"]), result(), calls(&["call_000008_0"]), result()], 2, "a");
    }

    #[test]
    fn what_agents_add_is_not_the_user() {
        assert_eq!(words(["<system-reminder>x</system-reminder>"], false), None);
        assert_eq!(words([" ", "<env_x>\ny</env_x>\n", "do <b>it</b>"], false), Some(user("do <b>it</b>")));
        assert_eq!(words(["<b>it</b> now"], false), Some(user("<b>it</b> now")));
        assert_eq!(words(["be careful"], true), None);
        assert_eq!(words(["model: say x"], true), Some(user("model: say x")));
    }
}
