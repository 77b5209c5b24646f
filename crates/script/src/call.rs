//! A tool that a model wants to use: by its name, or by what it should do.

use serde_json::Value;

/// A call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// What is wanted.
    pub wish: Wish,
    /// The id of the call; without it, it is made up.
    pub id: Option<String>,
    /// The longest text in the arguments is made at least so many bytes long.
    pub huge: usize,
}

/// What a call is to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Wish {
    /// The first of these tools that is offered, with these arguments.
    Named {
        /// Their names.
        names: Vec<String>,
        /// Values, whose placeholders are filled in.
        arguments: Value,
    },
    /// This tool with exactly this text as its arguments.
    Raw {
        /// Its name.
        name: String,
        /// As broken as you like.
        text: String,
    },
    /// A tool of an MCP server, with exactly this text as its arguments.
    Mcp {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// As broken as you like.
        text: String,
    },
    /// Writes a file.
    Write {
        /// Where.
        path: String,
        /// All of it.
        content: String,
    },
    /// Replaces a text in a file.
    Edit {
        /// Where.
        path: String,
        /// What is there,
        old: String,
        /// and what comes instead.
        new: String,
    },
    /// Reads a file.
    Read {
        /// Which.
        path: String,
    },
    /// Runs a command.
    Run {
        /// For a shell.
        command: String,
    },
}

impl Call {
    /// Calls this tool with these arguments, whether it is offered or not.
    pub fn named(name: impl Into<String>, arguments: Value) -> Self {
        Self::any([name.into()], arguments)
    }

    /// Calls the first of these tools that is offered; the first of all if none is.
    pub fn any<T: Into<String>>(names: impl IntoIterator<Item = T>, arguments: Value) -> Self {
        Self::of(Wish::Named { names: names.into_iter().map(Into::into).collect(), arguments })
    }

    /// Calls this tool with a text in place of JSON, as broken as you like.
    pub fn raw(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self::of(Wish::Raw { name: name.into(), text: text.into() })
    }

    /// Writes a file with whatever tool is offered for that, with arguments by its schema.
    pub fn write(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self::of(Wish::Write { path: path.into(), content: content.into() })
    }

    /// Replaces a text in a file with whatever tool is offered for that.
    pub fn edit(path: impl Into<String>, old: impl Into<String>, new: impl Into<String>) -> Self {
        Self::of(Wish::Edit { path: path.into(), old: old.into(), new: new.into() })
    }

    /// Reads a file with whatever tool is offered for that.
    pub fn read(path: impl Into<String>) -> Self {
        Self::of(Wish::Read { path: path.into() })
    }

    /// Runs a command with whatever tool is offered for that.
    pub fn run(command: impl Into<String>) -> Self {
        Self::of(Wish::Run { command: command.into() })
    }

    /// Makes the longest text in the arguments at least so many bytes long, by repeating it.
    #[must_use]
    pub fn huge(mut self, bytes: usize) -> Self {
        self.huge = bytes;
        self
    }

    /// A call for this wish.
    pub fn of(wish: Wish) -> Self {
        Self { wish, id: None, huge: 0 }
    }

    /// Makes arguments as huge as they are to be.
    pub fn swell(&self, arguments: &mut Value) {
        fn longest(value: &mut Value) -> Option<&mut String> {
            match value {
                Value::String(text) => Some(text),
                Value::Array(all) => all.iter_mut().filter_map(longest).max_by_key(|text| text.len()),
                Value::Object(all) => all.values_mut().filter_map(longest).max_by_key(|text| text.len()),
                _ => None,
            }
        }
        if let Some(text) = longest(arguments).filter(|text| text.len() < self.huge) {
            let unit = if text.is_empty() { "x".to_owned() } else { text.clone() };
            *text = unit.repeat(self.huge.div_ceil(unit.len()));
        }
    }
}
