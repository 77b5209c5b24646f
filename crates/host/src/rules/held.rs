//! Whether a line has a command in it that a rule holds back: more readily than a rule that allows would say so.
//!
//! What no list foresees is better held back once too often. So a rule `run git push` also counts with options between its words,
//! whatever they mean (`git -C x --no-pager push`), behind programs that start others, and in texts that are run.

use super::runners::{is_option, starts_others};
use super::shell::{CommandLine, Word};
use std::collections::BTreeSet;

/// Texts that are run are looked into so deep.
const MAX_DEPTH: usize = 4;

/// Programs that take any beginning of a subcommand for it: `npm pub`.
const SHORTENING: &[&str] = &["npm", "hg", "ip", "tc", "nmcli"];

/// Programs that do nothing with words that name a command.
const TELLING: &[&str] = &["echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "man", "which", "type"];

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
}

impl<'a> Held<'a> {
    fn new(program: String, rest: &'a [Word]) -> Self {
        let mut held = Self { program, deeds: Vec::new(), options: Vec::new(), values: Vec::new() };
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
            let anywhere = behind || !one_word && !TELLING.contains(&&*first);
            let is_run = |word: &Word| {
                word.text.contains([' ', '\t', '\n', ';', '&', '|', '(', '`', '{', '<', '>'])
                    && self.is_in_line(&CommandLine::parse(&word.text), depth + 1)
            };
            self.is_in(words, anywhere, unclear) || behind && depth < MAX_DEPTH && words.iter().any(is_run)
        })
    }

    /// Whether one command has them all. What is neither an option nor perhaps the value of one may stand between them only where
    /// the words are a guess.
    fn is_in(&self, words: &[Word], anywhere: bool, guessed: bool) -> bool {
        // All ways to read the words so far: how many deeds were met, and whether the next word may be a value.
        let mut ways: BTreeSet<(usize, bool)> = BTreeSet::new();
        let mut met_all = false;
        for (at, word) in words.iter().enumerate() {
            let is_option = word.text.starts_with(['-', '+']);
            let mut next = BTreeSet::new();
            for (met, value) in ways {
                let deed = self.deeds.get(met).is_some_and(|deed| self.is_deed(deed, word));
                next.extend(deed.then_some((met + 1, guessed)));
                next.extend(is_option.then_some((met, true)));
                next.extend(value.then_some((met, guessed)));
            }
            if at == 0 || anywhere {
                next.extend(self.begins(&word.program()).map(|met| (met, guessed)));
            }
            met_all |= next.iter().any(|(met, _)| *met == self.deeds.len());
            ways = next;
        }
        let given = |option: &&str| gives(words, option);
        let named = |value: &&str| words.iter().any(|word| word.expands || word.text.ends_with(value));
        met_all && self.options.iter().all(given) && self.values.iter().all(named)
    }

    /// How many deeds a program's name has met: `git-push` is `git push`.
    fn begins(&self, program: &str) -> Option<usize> {
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

/// Whether words give an option, also shortened, with a value, or as letters of one word or of several: `-rf` is `-f -r`.
fn gives(words: &[Word], option: &str) -> bool {
    let letters = option.strip_prefix('-').filter(|letters| letters.len() <= 4 && !letters.starts_with('-'));
    let has = |letter| {
        let short = words.iter().filter(|word| word.text.starts_with('-') && !word.text.starts_with("--"));
        short.into_iter().any(|word| word.text.contains(letter))
    };
    letters.is_some_and(|letters| letters.chars().all(has)) || words.iter().any(|word| is_option(&word.text, option))
}
