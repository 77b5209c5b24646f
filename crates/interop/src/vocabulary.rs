//! The prompts that every interop agent understands, and the fixed things it answers with.

/// The one tool call of a `tool` turn.
pub const CALL_ID: &str = "call-1";
/// Its title.
pub const CALL_TITLE: &str = "Edit file";
/// The text a tool call ends with when it was allowed.
pub const CALL_RESULT: &str = "done";
/// The thought that comes before the text of a `say` turn.
pub const THOUGHT: &str = "thinking about it";
/// The entries of the plan: what, priority, status.
pub const PLAN: [(&str, &str, &str); 3] =
    [("Look", "high", "completed"), ("Think", "medium", "in_progress"), ("Write", "low", "pending")];

/// What a prompt asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Say the text in two pieces, after one thought.
    Say(String),
    /// Make one tool call and ask permission for it.
    Tool,
    /// Show a plan.
    Plan,
    /// Work until cancelled.
    Wait,
    /// Read a file of the client (v1).
    Read(String),
    /// Write a file of the client: path, text (v1).
    Write(String, String),
    /// Run a command in a terminal of the client: program, arguments (v1).
    Run(String, Vec<String>),
    /// Fail.
    Fail,
    /// Anything else.
    Unknown(String),
}

impl Command {
    /// Reads the text of a prompt. Words are separated by one space.
    pub fn parse(prompt: &str) -> Self {
        let (word, rest) = prompt.split_once(' ').unwrap_or((prompt, ""));
        match word {
            "say" => Self::Say(rest.into()),
            "tool" => Self::Tool,
            "plan" => Self::Plan,
            "wait" => Self::Wait,
            "fail" => Self::Fail,
            "read" if !rest.is_empty() => Self::Read(rest.into()),
            "write" if !rest.is_empty() => {
                let (path, text) = rest.split_once(' ').unwrap_or((rest, ""));
                Self::Write(path.into(), text.into())
            }
            "run" if !rest.is_empty() => {
                let mut words = rest.split(' ').map(String::from);
                Self::Run(words.next().unwrap_or_default(), words.collect())
            }
            _ => Self::Unknown(prompt.into()),
        }
    }
}

/// Cuts a text in two near its middle, between characters.
pub fn halves(text: &str) -> (&str, &str) {
    let mut middle = text.len() / 2;
    while !text.is_char_boundary(middle) {
        middle += 1;
    }
    text.split_at(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_read() {
        assert_eq!(Command::parse("say a  b"), Command::Say("a  b".into()));
        assert_eq!(Command::parse("write /x a b"), Command::Write("/x".into(), "a b".into()));
        assert_eq!(Command::parse("run echo a b"), Command::Run("echo".into(), vec!["a".into(), "b".into()]));
        assert_eq!(Command::parse("read"), Command::Unknown("read".into()));
    }

    #[test]
    fn halves_keep_characters_whole() {
        assert_eq!(halves("aéb"), ("aé", "b"));
        assert_eq!(halves(""), ("", ""));
    }
}
