//! Whether a line has a command in it that a rule holds back: more readily than a rule that allows would say so.
//!
//! What no list foresees is better held back once too often. So a rule `run git push` also counts with options between its words,
//! whatever they mean (`git -C x --no-pager push`), behind programs that start others, and in texts that are run.

use super::runners::{is_judged, is_option, runs_code, sed, starts_others};
use super::shell::{CommandLine, MAX_BYTES, Word, program};
use std::cell::Cell;
use std::collections::BTreeSet;

/// Texts that are run are looked into so deep.
const MAX_DEPTH: usize = 4;

/// So many bytes of them are looked into; what has more counts as held.
const MAX_RUN_BYTES: usize = 4 * MAX_BYTES;

/// Programs that take any beginning of a subcommand for it: `npm pub`.
const SHORTENING: &[&str] = &["npm", "hg", "ip", "tc", "nmcli"];

/// Programs that do nothing with words that name a command.
const TELLING: &[&str] = &[
    "echo",
    "printf",
    "grep",
    "egrep",
    "fgrep",
    "zgrep",
    "bzgrep",
    "xzgrep",
    "zstdgrep",
    "pcregrep",
    "pcre2grep",
    "ugrep",
    "ack",
    "rg",
    "rga",
    "ag",
    "man",
    "which",
    "type",
];

/// Parts of the names of long options that are given a command, whatever the program: `--strip-program`, `-exec`.
const RUNNING: &[&str] = &["command", "cmd", "exec", "eval", "run", "call", "shell", "program", "entrypoint"];

/// Folders in which a program is what its name says.
const SYSTEM: &[&str] =
    &["", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin"];

/// Whether a command in the line has these words.
pub(super) fn holds_line(wanted: &[Word], line: &CommandLine) -> bool {
    let Some((program, rest)) = wanted.split_first() else { return true };
    Held::new(program.program(), rest).is_in_line(line, 0)
}

/// The words of a rule.
struct Held<'a> {
    program: String,
    /// In their order.
    deeds: Vec<&'a str>,
    /// Wherever they stand.
    options: Vec<&'a str>,
    /// What follows an option in the rule, and may be its value.
    values: Vec<&'a str>,
    /// So many bytes of texts that are run may still be looked into.
    left: Cell<usize>,
}

impl<'a> Held<'a> {
    fn new(program: String, rest: &'a [Word]) -> Self {
        let left = Cell::new(MAX_RUN_BYTES);
        let mut held = Self { program, deeds: Vec::new(), options: Vec::new(), values: Vec::new(), left };
        let mut after_option = false;
        for word in rest.iter().map(|word| word.text.as_str()) {
            let is_option = word.starts_with('-');
            let list = if is_option {
                &mut held.options
            } else if after_option {
                &mut held.values
            } else {
                &mut held.deeds
            };
            list.push(word);
            after_option = is_option;
        }
        held
    }

    fn is_in_line(&self, line: &CommandLine, depth: usize) -> bool {
        let unclear = line.complex().is_some();
        line.words().iter().any(|words| {
            let first = words.first().map(Word::program).unwrap_or_default();
            let behind = unclear || starts_others(&first);
            let one_word = self.deeds.is_empty() && self.options.is_empty();
            // In a text that is run nobody knows which of its words is one: `spawn curl x`.
            let anywhere = behind || (!one_word || depth > 0) && !is_telling(words);
            let is_line = |text: &&str| text.contains([' ', '\t', '\n', ';', '&', '|', '(', '`', '{', '<', '>']);
            let is_run = |text: &str| match self.left.get().checked_sub(text.len()) {
                Some(left) => {
                    self.left.set(left);
                    self.is_in_line(&CommandLine::parse(text), depth + 1)
                }
                None => true,
            };
            let lines = words.iter().filter(|_| behind).flat_map(|word| texts(&word.text)).filter(is_line);
            let lines = lines.chain((!behind).then(|| given(words)).into_iter().flatten());
            self.is_in(words, anywhere, unclear)
                || self.is_in_code(words)
                || depth < MAX_DEPTH
                    && ({ lines }.any(is_run) || scripts(words).any(|text| is_line(&&*text) && is_run(&text)))
        })
    }

    /// Whether code that an interpreter is given names them one after the other, whatever it does with them:
    /// `python -c "run(['git', 'push'])"`.
    fn is_in_code(&self, words: &[Word]) -> bool {
        let is_name = |c: char| c.is_alphanumeric() || "-_./+".contains(c);
        let code = words.iter().skip_while(|word| !runs_code(&word.program())).skip(1);
        code.filter(|word| !word.text.chars().all(is_name)).any(|word| {
            let names = word.text.split(|c: char| !is_name(c)).filter(|name| !name.is_empty());
            self.is_in(&names.map(Word::plain).collect::<Vec<_>>(), true, true)
        })
    }

    /// Whether one command has them all. What is neither an option nor perhaps the value of one may stand between them only where
    /// the words are a guess.
    fn is_in(&self, words: &[Word], anywhere: bool, guessed: bool) -> bool {
        // All ways to read the words so far: how many deeds were met, whether the next word may be a value, and whether anything may
        // stand between them, as behind `--command=git`.
        let mut ways: BTreeSet<(usize, bool, bool)> = BTreeSet::new();
        let mut met_all = false;
        for (at, word) in words.iter().enumerate() {
            let is_option = word.text.starts_with(['-', '+']);
            let mut next = BTreeSet::new();
            for (met, value, loose) in ways {
                let is_deed =
                    |deed: &&str| self.is_deed(deed, word) || guessed && texts(&word.text).any(|text| text == *deed);
                let deed = self.deeds.get(met).is_some_and(is_deed);
                next.extend(deed.then_some((met + 1, loose, loose)));
                next.extend(is_option.then_some((met, true, loose)));
                next.extend(value.then_some((met, loose, loose)));
            }
            // What follows the end of options is often a command.
            let after_end = || at > 0 && words[at - 1].text == "--" && !is_telling(words);
            if at == 0 || anywhere || after_end() {
                let begin = texts(&word.text).filter_map(|text| self.begins(&program(text)));
                let is_given = is_running(&word.text) || at > 0 && is_running(&words[at - 1].text);
                let loose = guessed || is_given;
                next.extend(begin.map(|met| (met, loose, loose)));
            }
            met_all |= next.iter().any(|(met, ..)| *met == self.deeds.len());
            ways = next;
        }
        let given = |option: &&str| gives(words, option);
        let named = |value: &&str| words.iter().any(|word| word.expands || word.text.ends_with(value));
        met_all && self.options.iter().all(given) && self.values.iter().all(named)
    }

    /// How many deeds a program's name has met: `git-push` is `git push`, and `x@2`, `x:latest`, `npm:x`, `packages#x` and `["x"]` are
    /// `x`.
    fn begins(&self, program: &str) -> Option<usize> {
        program.split(['@', ':', '#', '[', ']', '{', '}', '"', ',']).find_map(|name| self.begins_with(name))
    }

    fn begins_with(&self, program: &str) -> Option<usize> {
        let rest = program.strip_prefix(&self.program)?;
        let joined = self.deeds.first().is_some_and(|deed| rest.strip_prefix('-') == Some(*deed));
        if rest.is_empty() { Some(0) } else { joined.then_some(1) }
    }

    fn is_deed(&self, deed: &str, word: &Word) -> bool {
        let start = word.text.split(['*', '?', '[']).next().unwrap_or_default();
        // The shell may put the deed there: `git pus?`.
        let becomes = word.expands && deed.starts_with(start);
        let short = SHORTENING.contains(&&*self.program) && !word.text.is_empty() && deed.starts_with(&word.text);
        deed == word.text || becomes || short
    }
}

/// What scripts of `sed` among the words may run.
fn scripts(words: &[Word]) -> impl Iterator<Item = String> {
    let at = words.iter().position(|word| matches!(&*word.program(), "sed" | "gsed"));
    let scripts = at.map_or(&[][..], |at| &words[at + 1..]);
    let plain: Vec<&str> = scripts.iter().map(|word| &*word.text).collect();
    let scripts = if sed::is_plain_sed(&plain) { &[] } else { scripts };
    scripts.iter().flat_map(|word| sed::may_run(&word.text))
}

/// Whether a command only tells of others.
fn is_telling(words: &[Word]) -> bool {
    words.first().is_some_and(|word| is_itself(word) && TELLING.contains(&&*word.program()))
}

/// Whether a program is the one that its name says: elsewhere `grep` may be a link to a shell.
fn is_itself(program: &Word) -> bool {
    let folder = program.text.rsplit_once('/').map_or("", |(folder, _)| folder);
    SYSTEM.contains(&folder)
}

/// The texts that options of a command give it to run: by their names, and of a program of which nothing is known by the letters that
/// mean so to shells and terminals (`-c`, `-e`, also among others).
fn given(words: &[Word]) -> impl Iterator<Item = &str> {
    let known = words.first().is_some_and(|word| is_itself(word) && is_judged(&word.program()));
    let words = if is_telling(words) { &[] } else { words.get(1..).unwrap_or_default() };
    // More options may stand between the one that says so and its text.
    let mut waits = false;
    words.iter().flat_map(move |word| {
        let says_so = is_running(&word.text) || !known && runs_by_letter(&word.text);
        let is_option = word.text.starts_with(['-', '+']);
        let next = Some(&*word.text).filter(|_| waits && !is_option);
        waits = says_so || waits && is_option;
        texts(&word.text).skip(1).filter(move |_| says_so).chain(next)
    })
}

/// Whether a word is a long option that is given a command.
fn is_running(word: &str) -> bool {
    let option = word.split('=').next().unwrap_or(word);
    let name = option.strip_prefix("--").or_else(|| option.strip_prefix('-').filter(|name| name.len() > 2));
    name.is_some_and(|name| name.split(['-', '_', '.']).any(|part| RUNNING.iter().any(|run| part.starts_with(run))))
}

/// Whether a word is, or has among its letters, an option that often is given a command.
fn runs_by_letter(word: &str) -> bool {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-')).unwrap_or_default();
    letters.chars().take_while(char::is_ascii_alphabetic).any(|letter| matches!(letter, 'c' | 'e'))
}

/// What of a word may be run: the word, and the value that it gives to a name or an option (`--call=x`, `-cx`), without the sign that
/// some programs want before a command.
fn texts(word: &str) -> impl Iterator<Item = &str> {
    let value = word.split_once('=').map(|(_, value)| value);
    let letters =
        word.strip_prefix('-').filter(|letters| !letters.starts_with('-')).and_then(|letters| letters.get(1..));
    let all = std::iter::once(word).chain(value).chain(letters);
    all.map(|text| text.trim_start_matches([':', '!'])).filter(|text| !text.is_empty())
}

/// Whether words give an option, also shortened, with a value, or as letters of one word or of several: `-rf` is `-f -r`.
fn gives(words: &[Word], option: &str) -> bool {
    let letters = option.strip_prefix('-').filter(|letters| letters.len() <= 4 && !letters.starts_with('-'));
    let has = |letter| {
        let short = words.iter().filter(|word| word.text.starts_with('-') && !word.text.starts_with("--"));
        short.into_iter().any(|word| word.text.contains(letter))
    };
    letters.is_some_and(|letters| letters.chars().all(has)) || words.iter().any(|word| is_option(&word.text, option))
}
