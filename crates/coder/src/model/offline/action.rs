//! What an instruction comes down to.

use crate::text::code;
use serde_json::{Value, json};

/// One step: a tool and what it is given. `replace`, `append` and `test` are no tools themselves, but made of some.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    pub tool: &'static str,
    pub arguments: Value,
}

impl Action {
    /// What has no value is not given.
    pub fn new(tool: &'static str, mut arguments: Value) -> Self {
        if let Some(all) = arguments.as_object_mut() {
            all.retain(|_, value| !value.is_null());
        }
        Self { tool, arguments }
    }

    /// A command in the foreground.
    pub fn run(command: impl Into<String>) -> Self {
        Self::new("run", json!({ "command": command.into() }))
    }

    /// A text that it is given; empty if it is not.
    pub fn text(&self, key: &str) -> &str {
        self.arguments[key].as_str().unwrap_or_default()
    }

    /// What the plan shows.
    pub fn title(&self) -> String {
        let arg = |key| code(self.text(key));
        match self.tool {
            "list" if self.text("path").is_empty() => "List the files".to_owned(),
            "list" => format!("List {}", arg("path")),
            "read" => format!("Read {}", arg("path")),
            "glob" => format!("Find files {}", arg("pattern")),
            "grep" => format!("Search for {}", arg("pattern")),
            "write" => format!("Write {}", arg("path")),
            "append" => format!("Append to {}", arg("path")),
            "replace" => format!("Replace {} with {} in {}", arg("old"), arg("new"), arg("path")),
            "move" => format!("Move {} to {}", arg("from"), arg("to")),
            "delete" => format!("Delete {}", arg("path")),
            "patch" => "Apply the patch".to_owned(),
            "run" => format!("Run {}", arg("command")),
            "test" => "Run the tests".to_owned(),
            "fetch" => format!("Fetch {}", arg("url")),
            _ => "Write down the plan".to_owned(),
        }
    }
}
