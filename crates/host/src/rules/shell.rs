//! Takes a shell command line apart, or says why that can't be done safely.
//!
//! What is understood: plain commands with quoting, joined by `&&`, `||`, `;`, `|` and line ends, and redirections that
//! write no file. Everything else makes the line *complex*. A complex line is still taken apart as far as it goes, because
//! rules that forbid want to see it; rules that allow don't.

use super::action::Location;
use super::hidden::hidden;
use super::runners::runs_another;

/// A command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    text: String,
    commands: Vec<Vec<Word>>,
    unread: Option<&'static str>,
    complex: Option<&'static str>,
    folder: Option<Location>,
    exposed: bool,
}

/// A word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// What the program gets, unless the shell puts something else in its place.
    pub(crate) text: String,
    /// As it was written.
    raw: String,
    /// Whether the shell puts file names or a home directory in its place.
    pub(crate) expands: bool,
}

/// So many bytes of a line are judged. A longer one is complex, whatever it says.
pub(super) const MAX_BYTES: usize = 64 << 10;
/// So many words of a line are judged.
const MAX_WORDS: usize = 4096;
/// Why such a line is complex.
const TOO_LONG: &str = "it is too long to be judged";

const RESERVED: &str = "! [[ ]] case do done elif else esac fi for function if in select then until while";

/// The name of a program without its directory. What is reached through a process (`/proc/self/exe`, `/dev/fd/3`) has none: it may be the
/// shell itself.
pub(super) fn program(text: &str) -> String {
    let mut parts = text.rsplit('/');
    let name = parts.next().unwrap_or_default().to_ascii_lowercase();
    let of_process = name == "exe" && parts.clone().any(|part| part == "proc");
    if of_process || parts.next() == Some("fd") && text.starts_with('/') { "sh".to_owned() } else { name }
}

impl Word {
    pub(super) fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), raw: String::new(), expands: false }
    }

    /// A way to write it that means the same.
    pub(crate) fn quoted(&self) -> String {
        let safe = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
        if self.expands {
            self.raw.clone()
        } else if !self.text.is_empty() && self.text.chars().all(safe) {
            self.text.clone()
        } else {
            format!("'{}'", self.text.replace('\'', "'\\''"))
        }
    }

    /// The program's name without its directory.
    pub(crate) fn program(&self) -> String {
        program(&self.text)
    }

    fn is_assignment(&self) -> bool {
        let Some((name, _)) = self.raw.split_once('=') else { return false };
        let name = name.strip_suffix('+').unwrap_or(name);
        let name = name.split('[').next().unwrap_or(name);
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    }
}

impl CommandLine {
    /// Reads a line that a shell will run.
    pub fn parse(text: &str) -> Self {
        let judged = &text[..text.floor_char_boundary(MAX_BYTES)];
        let complex = (judged.len() < text.len()).then_some(TOO_LONG);
        let mut parser = Parser { rest: judged, complex, ..Parser::default() };
        parser.run();
        Self::judged(text.trim().to_owned(), parser.commands, parser.complex)
    }

    /// A program and its arguments, run without a shell.
    pub fn from_words<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> Self {
        let mut words: Vec<Word> = words.into_iter().map(|word| Word::plain(word.as_ref())).collect();
        let text: Vec<String> = words.iter().map(Word::quoted).collect();
        let odd = words.iter().any(|word| word.text.chars().any(hidden));
        let mut bytes = 0;
        let fits = |word: &&Word| {
            bytes += word.text.len();
            bytes <= MAX_BYTES
        };
        let judged = words.iter().take(MAX_WORDS).take_while(fits).count();
        let unread = (judged < words.len()).then_some(TOO_LONG);
        let unread = unread.or(odd.then_some("it has a character that can't be seen"));
        words.truncate(judged);
        Self::judged(text.join(" "), vec![words], unread)
    }

    /// The same line, run in this folder. Unless that is the session's working directory, a rule has to name it.
    #[must_use]
    pub fn in_folder(self, folder: Location) -> Self {
        let is_cwd = folder.in_cwd().is_some_and(|below| below.as_os_str().is_empty());
        Self { folder: (!is_cwd).then_some(folder), ..self }
    }

    /// Where it runs, if that is not the session's working directory.
    pub fn folder(&self) -> Option<&Location> {
        self.folder.as_ref()
    }

    /// The same line where nothing keeps it from files that a rule denies: only a rule for all of its words allows it.
    pub(super) fn exposed(self) -> Self {
        Self { exposed: true, ..self }
    }

    /// Whether nothing keeps it from files that a rule denies.
    pub(super) fn is_exposed(&self) -> bool {
        self.exposed
    }

    /// The same line where variables are set for all of it, such as `A='1' B='2'`: they can make another command of one.
    #[must_use]
    pub fn with_variables(self, set: &str) -> Self {
        let simple = self.unread.is_none() && self.commands.len() == 1;
        let text = if simple { format!("{set} {}", self.text) } else { format!("export {set}; {}", self.text) };
        let why = Some("it sets a variable");
        Self { text, unread: self.unread.or(why), complex: self.complex.or(why), ..self }
    }

    /// The whole line.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why it is complex; `None` if it is fully understood.
    pub fn complex(&self) -> Option<&'static str> {
        self.complex
    }

    /// Why its words can't be told; `None` if they can, whatever they do then.
    pub(super) fn unread(&self) -> Option<&'static str> {
        self.unread
    }

    /// The words of each command in it. For a complex line that is only a guess.
    pub fn commands(&self) -> impl Iterator<Item = Vec<&str>> {
        self.commands.iter().map(|words| words.iter().map(|word| word.text.as_str()).collect())
    }

    pub(crate) fn words(&self) -> &[Vec<Word>] {
        &self.commands
    }

    /// What only shows when the words are known.
    fn judged(text: String, commands: Vec<Vec<Word>>, unread: Option<&'static str>) -> Self {
        let mut why = commands.is_empty().then_some("it is empty");
        for first in commands.iter().filter_map(|words| words.first()) {
            if first.is_assignment() {
                why = Some("it sets a variable");
            } else if RESERVED.split(' ').any(|word| word == first.raw) {
                why = Some("it uses the shell's grammar");
            } else if first.expands || first.text.is_empty() {
                why = Some("its program is not a plain name");
            }
        }
        for words in &commands {
            if words.iter().any(|word| word.expands && word.text.starts_with(['*', '?', '['])) {
                why = Some("it has a pattern that may become an option");
            }
        }
        let unread = unread.or(why);
        let complex = unread.or_else(|| commands.iter().find_map(|words| runs_another(words, 0)));
        Self { text, commands, unread, complex, folder: None, exposed: false }
    }
}

#[derive(Default)]
struct Parser<'a> {
    rest: &'a str,
    word: Option<Word>,
    words: Vec<Word>,
    commands: Vec<Vec<Word>>,
    complex: Option<&'static str>,
    /// A command must follow.
    joined: bool,
    /// So many words there were.
    count: usize,
}

impl Parser<'_> {
    fn run(&mut self) {
        if self.rest.chars().any(|c| hidden(c) && !matches!(c, '\n' | '\t')) {
            self.complex("it has a character that can't be seen");
        }
        while let Some(c) = self.next() {
            match c {
                ' ' | '\t' => self.end_word(),
                '\n' => {
                    if !self.words.is_empty() || self.word.is_some() {
                        self.end_command(false);
                    }
                }
                ';' => self.end_command(false),
                '&' if self.eat("&") => self.end_command(true),
                '&' => {
                    self.complex("it runs something in the background");
                    self.end_command(false);
                }
                '|' if self.eat("&") => {
                    self.complex("it redirects");
                    self.end_command(true);
                }
                '|' => {
                    self.eat("|");
                    self.end_command(true);
                }
                '<' | '>' => self.redirection(c),
                '\'' => match self.rest.split_once('\'') {
                    Some((text, rest)) => {
                        let word = self.word();
                        word.text.push_str(text);
                        word.raw.extend(["'", text, "'"]);
                        self.rest = rest;
                    }
                    None => self.complex("its quotes don't match"),
                },
                '"' => self.double_quoted(),
                '\\' => match self.next() {
                    Some('\n') => {}
                    Some(c) => {
                        let word = self.word();
                        word.text.push(c);
                        word.raw.push('\\');
                        word.raw.push(c);
                    }
                    None => self.complex("it ends in a backslash"),
                },
                '$' => {
                    self.complex("it has a variable or substitution");
                    self.push(c);
                }
                '`' | '(' | ')' => {
                    self.complex("it has a substitution or a sub-shell");
                    self.end_word();
                    self.finish();
                }
                '{' | '}' => {
                    self.complex("it has braces");
                    self.push(c);
                }
                '#' if self.word.is_none() => {
                    self.complex("it has a comment");
                    self.push(c);
                }
                '~' if self.word.is_none() => self.expanding(c),
                '*' | '?' | '[' => self.expanding(c),
                c => self.push(c),
            }
        }
        self.end_word();
        if self.joined && self.words.is_empty() {
            self.complex("a command is missing");
        }
        self.finish();
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn eat(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn complex(&mut self, why: &'static str) {
        self.complex = self.complex.or(Some(why));
    }

    fn word(&mut self) -> &mut Word {
        self.word.get_or_insert_with(|| Word::plain(""))
    }

    fn push(&mut self, c: char) {
        let word = self.word();
        word.text.push(c);
        word.raw.push(c);
    }

    fn expanding(&mut self, c: char) {
        self.push(c);
        self.word().expands = true;
    }

    fn end_word(&mut self) {
        let Some(word) = self.word.take() else { return };
        self.words.push(word);
        self.count += 1;
        if self.count == MAX_WORDS {
            self.complex(TOO_LONG);
            self.rest = "";
        }
    }

    fn finish(&mut self) {
        if !self.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.words));
            self.joined = false;
        }
    }

    fn end_command(&mut self, joined: bool) {
        self.end_word();
        if self.words.is_empty() {
            self.complex("a command is missing");
        }
        self.finish();
        self.joined = joined;
    }

    fn double_quoted(&mut self) {
        let start = self.rest;
        self.word();
        loop {
            let Some(c) = self.next() else {
                return self.complex("its quotes don't match");
            };
            let literal = match c {
                '"' => break,
                '\\' => match self.next() {
                    Some('\n') | None => None,
                    Some(c @ ('$' | '`' | '"' | '\\')) => Some(c),
                    Some(c) => {
                        self.word().text.push('\\');
                        Some(c)
                    }
                },
                '$' | '`' => {
                    self.complex("it has a variable or substitution");
                    Some(c)
                }
                c => Some(c),
            };
            self.word().text.extend(literal);
        }
        let raw = format!("\"{}", &start[..start.len() - self.rest.len()]);
        self.word().raw.push_str(&raw);
    }

    /// Fine are only those that write no file: to `/dev/null`, from it, and onto another output.
    fn redirection(&mut self, sign: char) {
        if self.word.as_ref().is_some_and(|word| word.raw.bytes().all(|byte| byte.is_ascii_digit())) {
            self.word = None;
        }
        self.end_word();
        let start = self.rest;
        if sign == '>' {
            self.eat(">");
        }
        let harmless = if sign == '>' && (self.eat("&1") || self.eat("&2")) {
            true
        } else {
            self.rest = self.rest.trim_start_matches([' ', '\t']);
            self.eat("/dev/null")
        };
        if !harmless || self.rest.starts_with(|c: char| !" \t\n;&|".contains(c)) {
            self.rest = start;
            self.complex("it redirects to or from a file");
        }
    }
}
