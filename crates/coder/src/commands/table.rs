//! The one table of what can be typed: `/help`, the list that clients show and what the offline agent understands are made
//! from it.

use crate::model::offline::Parse;
use crate::model::offline::parse;
use std::fmt::Write as _;
use tieline::Command;

/// One thing that can be typed.
pub struct Row {
    /// Behind the slash.
    pub name: &'static str,
    /// What follows the name.
    pub input: &'static str,
    /// What it does, in a sentence.
    pub about: &'static str,
    /// Other words that a plain instruction may begin with; the name always is one.
    pub verbs: &'static [&'static str],
    /// The same in plain words.
    pub plain: &'static str,
    /// How the offline agent reads what follows. `None`: the agent itself carries it out, whatever model is on.
    pub parse: Option<Parse>,
}

impl Row {
    /// How it is typed.
    pub fn usage(&self) -> String {
        format!("/{} {}", self.name, self.input).trim_end().to_owned()
    }

    /// Whether the first word of a plain instruction is for it.
    pub fn begins(&self, word: &str) -> bool {
        self.name == word || self.verbs.contains(&word)
    }

    fn command(&self) -> Command {
        let command = Command::new(self.name, self.about);
        if self.input.is_empty() { command } else { command.with_input(self.input) }
    }
}

const fn own(name: &'static str, input: &'static str, about: &'static str) -> Row {
    Row { name, input, about, verbs: &[], plain: "", parse: None }
}

/// All of them.
pub const ROWS: &[Row] = &[
    own("undo", "", "Restores the files of the last turn that changed some."),
    own("diff", "", "Shows what the last turn that changed files did to them."),
    own("compact", "", "Shortens the conversation to a summary."),
    own("rules", "remove N", "Lists the permission rules; `remove N` removes one."),
    own("mcp", "SERVER TOOL {json}", "Lists the MCP servers and their tools, or calls a tool."),
    own("help", "", "Says what can be typed here."),
    Row {
        name: "list",
        input: "[FOLDER]",
        about: "Lists a folder.",
        verbs: &["ls"],
        plain: "list the files in src",
        parse: Some(parse::list),
    },
    Row {
        name: "read",
        input: "FILE [FIRST-LAST]",
        about: "Shows a file, or some lines of it.",
        verbs: &["show", "open", "cat", "view", "print", "display"],
        plain: "show README.md",
        parse: Some(parse::read),
    },
    Row {
        name: "find",
        input: "PATTERN [FOLDER]",
        about: "Finds files by their names; in plain words also text.",
        verbs: &["locate"],
        plain: "find TODO in src",
        parse: Some(parse::find),
    },
    Row {
        name: "grep",
        input: "[-i] REGEX [PATH]",
        about: "Finds lines by a regular expression.",
        verbs: &["search", "look"],
        plain: "search for \"some words\" in src",
        parse: Some(parse::grep),
    },
    Row {
        name: "write",
        input: "FILE TEXT",
        about: "Writes a file.",
        verbs: &["create", "make", "save", "put"],
        plain: "create notes.txt with some text",
        parse: Some(parse::write),
    },
    Row {
        name: "append",
        input: "FILE TEXT",
        about: "Adds lines to the end of a file.",
        verbs: &["add"],
        plain: "append one more line to notes.txt",
        parse: Some(parse::append),
    },
    Row {
        name: "replace",
        input: "OLD NEW [FILE]",
        about: "Replaces a text wherever it stands in a file.",
        verbs: &["change", "substitute", "edit"],
        plain: "replace old with new in notes.txt",
        parse: Some(parse::replace),
    },
    Row {
        name: "move",
        input: "OLD NEW",
        about: "Moves or renames a file.",
        verbs: &["rename", "mv"],
        plain: "rename a.txt to b.txt",
        parse: Some(parse::rename),
    },
    Row {
        name: "delete",
        input: "FILE",
        about: "Deletes a file.",
        verbs: &["remove", "rm"],
        plain: "delete notes.txt",
        parse: Some(parse::delete),
    },
    Row {
        name: "patch",
        input: "DIFF",
        about: "Applies the diff that follows.",
        verbs: &["apply"],
        plain: "a diff, and nothing else",
        parse: Some(parse::patch),
    },
    Row {
        name: "run",
        input: "[--background] [--timeout SECONDS] COMMAND",
        about: "Runs a command.",
        verbs: &["execute", "rerun"],
        plain: "run cargo test, or later: run it again",
        parse: Some(parse::run),
    },
    Row {
        name: "test",
        input: "[ARGUMENTS]",
        about: "Runs the project's tests.",
        verbs: &[],
        plain: "run the tests",
        parse: Some(parse::test),
    },
    Row {
        name: "git",
        input: "ARGUMENTS",
        about: "Runs git.",
        verbs: &[],
        plain: "git status",
        parse: Some(parse::git),
    },
    Row {
        name: "fetch",
        input: "URL",
        about: "Gets a page from the network.",
        verbs: &["download", "get"],
        plain: "fetch https://example.com",
        parse: Some(parse::fetch),
    },
    Row {
        name: "todo",
        input: "FIRST; SECOND",
        about: "Shows a plan.",
        verbs: &["plan"],
        plain: "plan look around; tidy up",
        parse: Some(parse::todo),
    },
];

/// The row of this name.
pub fn named(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// The rows that count: the agent's own, and with the offline agent all.
fn rows(offline: bool) -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(move |row| offline || row.parse.is_none())
}

/// What clients are told.
pub fn commands(offline: bool) -> Vec<Command> {
    rows(offline).map(Row::command).collect()
}

/// The lines of `/help`.
pub fn help(offline: bool) -> String {
    let mut text = String::new();
    for row in rows(offline) {
        let plain = if row.plain.is_empty() { String::new() } else { format!(" In plain words: {}.", row.plain) };
        let _ = writeln!(text, "- `{}`: {}{plain}", row.usage(), row.about);
    }
    text
}
