//! What an instruction comes down to.

use super::words::code;

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    List { path: Option<String> },
    Read { path: String, line: Option<u64>, limit: Option<u64> },
    Glob { pattern: String, path: Option<String> },
    Grep { pattern: String, path: Option<String>, ignore_case: bool },
    Write { path: String, content: String },
    Append { path: String, text: String },
    Replace { path: String, old: String, new: String },
    Move { from: String, to: String },
    Delete { path: String },
    Patch { patch: String },
    Run { command: String, background: bool, timeout: Option<u64> },
    Test { arguments: String },
    Fetch { url: String },
    Todo(Vec<(String, bool)>),
}

impl Action {
    /// A command in the foreground.
    pub fn run(command: impl Into<String>) -> Self {
        Self::Run { command: command.into(), background: false, timeout: None }
    }

    /// What the plan shows.
    pub fn title(&self) -> String {
        match self {
            Self::List { path: Some(path) } => format!("List {}", code(path)),
            Self::List { path: None } => "List the files".to_owned(),
            Self::Read { path, .. } => format!("Read {}", code(path)),
            Self::Glob { pattern, .. } => format!("Find files {}", code(pattern)),
            Self::Grep { pattern, .. } => format!("Search for {}", code(pattern)),
            Self::Write { path, .. } => format!("Write {}", code(path)),
            Self::Append { path, .. } => format!("Append to {}", code(path)),
            Self::Replace { path, old, new } => format!("Replace {} with {} in {}", code(old), code(new), code(path)),
            Self::Move { from, to } => format!("Move {} to {}", code(from), code(to)),
            Self::Delete { path } => format!("Delete {}", code(path)),
            Self::Patch { .. } => "Apply the patch".to_owned(),
            Self::Run { command, .. } => format!("Run {}", code(command)),
            Self::Test { .. } => "Run the tests".to_owned(),
            Self::Fetch { url } => format!("Fetch {}", code(url)),
            Self::Todo(_) => "Write down the plan".to_owned(),
        }
    }
}
