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

/// What the offline agent understands: name, input and sentence, then what it reads, the other verbs and the plain words.
const fn plain(
    (name, input, about): (&'static str, &'static str, &'static str),
    parse: Parse,
    verbs: &'static [&'static str],
    plain: &'static str,
) -> Row {
    Row { name, input, about, verbs, plain, parse: Some(parse) }
}

/// All of them.
pub const ROWS: &[Row] = &[
    own("undo", "", "Restores the files of the last turn that changed some."),
    own("diff", "", "Shows what the last turn that changed files did to them."),
    own("compact", "", "Shortens the conversation to a summary."),
    own("rules", "remove N", "Lists the permission rules; `remove N` removes one."),
    own("model", "PROVIDER/MODEL", "Has another model answer from here on, or says who answers."),
    own("mcp", "SERVER TOOL {json}", "Lists the MCP servers and their tools, or calls a tool."),
    own("help", "", "Says what can be typed here."),
    plain(("list", "[FOLDER]", "Lists a folder."), parse::list, &["ls"], "list the files in src"),
    plain(
        ("read", "FILE [FIRST-LAST]", "Shows a file, or some lines of it."),
        parse::read,
        &["show", "open", "cat", "view", "print", "display"],
        "show README.md",
    ),
    plain(
        ("find", "PATTERN [FOLDER]", "Finds files by their names; in plain words also text."),
        parse::find,
        &["locate"],
        "find TODO in src",
    ),
    plain(
        ("grep", "[-i] REGEX [PATH]", "Finds lines by a regular expression."),
        parse::grep,
        &["search", "look"],
        "search for \"some words\" in src",
    ),
    plain(
        ("write", "FILE TEXT", "Writes a file."),
        parse::write,
        &["create", "make", "save", "put"],
        "create notes.txt with some text",
    ),
    plain(
        ("append", "FILE TEXT", "Adds lines to the end of a file."),
        parse::append,
        &["add"],
        "append one more line to notes.txt",
    ),
    plain(
        ("replace", "OLD NEW [FILE]", "Replaces a text wherever it stands in a file."),
        parse::replace,
        &["change", "substitute", "edit"],
        "replace old with new in notes.txt",
    ),
    plain(("move", "OLD NEW", "Moves or renames a file."), parse::rename, &["rename", "mv"], "rename a.txt to b.txt"),
    plain(("delete", "FILE", "Deletes a file."), parse::delete, &["remove", "rm"], "delete notes.txt"),
    plain(("patch", "DIFF", "Applies the diff that follows."), parse::patch, &["apply"], "a diff, and nothing else"),
    plain(
        ("run", "[--background] [--timeout SECONDS] COMMAND", "Runs a command."),
        parse::run,
        &["execute", "rerun"],
        "run cargo test, or later: run it again",
    ),
    plain(("test", "[ARGUMENTS]", "Runs the project's tests."), parse::test, &[], "run the tests"),
    plain(("git", "ARGUMENTS", "Runs git."), parse::git, &[], "git status"),
    plain(
        ("fetch", "URL", "Gets a page from the network."),
        parse::fetch,
        &["download", "get"],
        "fetch https://example.com",
    ),
    plain(("todo", "FIRST; SECOND", "Shows a plan."), parse::todo, &["plan"], "plan look around; tidy up"),
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
