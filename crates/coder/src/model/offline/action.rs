//! What an instruction comes down to.

use super::words::code;

/// A file that an instruction is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A path the user wrote.
    Named(String),
    /// "it": what was spoken of before, or what is attached.
    It,
    /// The text of an attachment that is no file, by its number.
    Text(usize),
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Lines,
    Words,
    Characters,
}

/// What is done to a project as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Test,
    Build,
    Format,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Help,
    Read { place: Place, line: Option<u64>, limit: Option<u64> },
    List { path: Option<String> },
    Glob { pattern: String, path: Option<String> },
    Grep { pattern: String, path: Option<String>, glob: Option<String>, ignore_case: bool },
    Write { path: String, content: String },
    Replace { old: String, new: String, place: Place },
    RenameWord { from: String, to: String, place: Place },
    Move { from: String, to: String },
    Delete { place: Place },
    Patch { patch: String },
    PatchIt,
    Run { command: String, background: bool, timeout: Option<u64> },
    RunFile { place: Place },
    Project { task: Task, arguments: String },
    Count { unit: Unit, place: Place },
    Outline { place: Place },
    Explain,
    Fetch { url: String },
    Todo(Vec<(String, bool)>),
}

impl Action {
    /// A read of a whole file.
    pub fn read(place: Place) -> Self {
        Self::Read { place, line: None, limit: None }
    }

    /// A command in the foreground.
    pub fn run(command: impl Into<String>) -> Self {
        Self::Run { command: command.into(), background: false, timeout: None }
    }

    /// Something done to the project.
    pub fn project(task: Task) -> Self {
        Self::Project { task, arguments: String::new() }
    }

    /// What the plan shows.
    pub fn title(&self) -> String {
        match self {
            Self::Help => "Show help".to_owned(),
            Self::Read { place, .. } => format!("Read {}", place.title()),
            Self::List { path: Some(path) } => format!("List {}", code(path)),
            Self::List { path: None } => "List the files".to_owned(),
            Self::Glob { pattern, .. } => format!("Find files {}", code(pattern)),
            Self::Grep { pattern, .. } => format!("Search for {}", code(pattern)),
            Self::Write { path, .. } => format!("Write {}", code(path)),
            Self::Replace { old, new, place } => {
                format!("Replace {} with {} in {}", code(old), code(new), place.title())
            }
            Self::RenameWord { from, to, place } => {
                format!("Rename {} to {} in {}", code(from), code(to), place.title())
            }
            Self::Move { from, to } => format!("Move {} to {}", code(from), code(to)),
            Self::Delete { place } => format!("Delete {}", place.title()),
            Self::Patch { .. } | Self::PatchIt => "Apply the patch".to_owned(),
            Self::Run { command, .. } => format!("Run {}", code(command)),
            Self::RunFile { place } => format!("Run {}", place.title()),
            Self::Project { task: Task::Test, .. } => "Run the tests".to_owned(),
            Self::Project { task: Task::Build, .. } => "Build the project".to_owned(),
            Self::Project { task: Task::Format, .. } => "Format the code".to_owned(),
            Self::Count { unit, place } => format!("Count the {} of {}", unit.name(), place.title()),
            Self::Outline { place } => format!("Outline {}", place.title()),
            Self::Explain => "Look for errors in the last output".to_owned(),
            Self::Fetch { url } => format!("Fetch {}", code(url)),
            Self::Todo(_) => "Write down the plan".to_owned(),
        }
    }

    /// The file it is about, where there is one.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Read { place, .. }
            | Self::Replace { place, .. }
            | Self::RenameWord { place, .. }
            | Self::Delete { place }
            | Self::RunFile { place }
            | Self::Count { place, .. }
            | Self::Outline { place } => Some(place),
            _ => None,
        }
    }

    /// The same, to fill it in.
    pub fn place_mut(&mut self) -> Option<&mut Place> {
        match self {
            Self::Read { place, .. }
            | Self::Replace { place, .. }
            | Self::RenameWord { place, .. }
            | Self::Delete { place }
            | Self::RunFile { place }
            | Self::Count { place, .. }
            | Self::Outline { place } => Some(place),
            _ => None,
        }
    }

    /// The path that "it" means in the step after this one.
    pub fn leaves(&self) -> Option<&str> {
        match self {
            Self::Write { path, .. } | Self::Move { to: path, .. } => Some(path),
            Self::Delete { .. } => None,
            _ => match self.place() {
                Some(Place::Named(path)) => Some(path),
                _ => None,
            },
        }
    }
}

impl Place {
    fn title(&self) -> String {
        match self {
            Self::Named(path) => code(path),
            Self::It => "the attached file".to_owned(),
            Self::Text(_) => "the attached text".to_owned(),
        }
    }
}

impl Unit {
    /// Its plural.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Words => "words",
            Self::Characters => "characters",
        }
    }

    /// How many of it are in `text`.
    pub fn count(self, text: &str) -> usize {
        match self {
            Self::Lines => text.lines().count(),
            Self::Words => text.split_whitespace().count(),
            Self::Characters => text.chars().count(),
        }
    }
}
