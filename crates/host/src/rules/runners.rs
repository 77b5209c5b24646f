//! Which programs run, or write to, what their arguments say: the one table, with the arguments that make them do so.
//!
//! A rule like `run printf *` is meant for printing, and `run git log *` for looking. Where a program in this table is given such an
//! argument, the line is complex, so that no rule that allows covers it, unless the rule has that argument in it. Of programs that are not in it, some options count by
//! their names ([`table::TELLING_NAMES`]). Interpreters and package runners (`python *`, `npx *`) are not in it: who allows them with any
//! argument can see that this is everything.

pub(super) mod sed;
mod table;

use super::shell::Word;
use table::When::{Always, Doing, Given, Has, If, With};
use table::{OTHER_NAMES, STARTERS, TELLING_NAMES, When, rows};

/// Among so many first words the program is looked for that another one starts.
const MAX_LEADING_WORDS: usize = 16;

/// Whether a program is there to run what its arguments say, so that a command behind its name counts as one.
pub(super) fn starts_others(program: &str) -> bool {
    is_listed(STARTERS, program)
}

fn is_listed(names: &str, program: &str) -> bool {
    names.split_whitespace().any(|name| name == program)
}

/// Why a command may run or write something that only its arguments name, those after the first `named` words.
pub(super) fn runs_another(words: &[Word], named: usize) -> Option<&'static str> {
    let starts = words.first().is_some_and(|word| starts_others(&word.program()));
    let is_known = |at: &usize| {
        let inner = words[*at].program();
        rows().any(|(names, when)| is_listed(names, &inner) && !matches!(when, Always))
    };
    // What it starts may be one of the table: `npx jest`, `python -m pytest`. The script of `npm test` counts as `test`.
    let inner = (1..words.len().min(MAX_LEADING_WORDS)).find(is_known).filter(|_| starts);
    told_by(words, named).or_else(|| inner.and_then(|at| told_by(&words[at..], named.saturating_sub(at))))
}

/// The same by what the table says of its first word alone.
fn told_by(words: &[Word], named: usize) -> Option<&'static str> {
    let [program, arguments @ ..] = words else { return None };
    let program = program.program();
    let arguments: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
    let more = arguments.get(named.saturating_sub(1)..).unwrap_or_default();
    let lists = |names| is_listed(names, &program);
    let given = |options: &str| gives(more, options);
    let told = |when: &When| match when {
        Always => true,
        Given(options) => given(options),
        With(options, so) => more.iter().enumerate().any(|(at, word)| {
            let next = more.get(at + 1).copied().unwrap_or_default();
            let value = match word.split_once('=') {
                Some((_, value)) => value,
                None if word.len() > 2 && !word.starts_with("--") => word.get(2..).unwrap_or_default(),
                None => next,
            };
            gives(&[word], options) && so(value)
        }),
        Has(texts) => more.iter().any(|word| {
            let word = word.to_ascii_lowercase();
            texts.split_whitespace().any(|text| word.contains(text))
        }),
        Doing(deeds, options) => {
            first_words(&arguments).any(|word| deeds.split_whitespace().any(|deed| deed == word))
                && (options.is_empty() || given(options))
        }
        If(so) => so(&arguments),
    };
    let mut rows = rows().filter(|(names, _)| lists(names)).map(|(_, when)| when).filter(|when| told(when));
    match rows.next() {
        Some(Always) => Some("its program runs another one"),
        Some(_) => Some("its arguments may run another program or write a file"),
        // Who allows all that it starts can see that.
        None if lists(OTHER_NAMES) || named < 2 && starts_others(&program) => None,
        None => given(TELLING_NAMES).then_some("an option of it may run another program or write a file"),
    }
}

/// The words that may be the subcommand: the first that is no option, and those before it that may only be values of options.
fn first_words<'a>(words: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let mut after_option = false;
    let (mut ended, is_option) = (false, |word: &str| word.starts_with('-'));
    let candidates = words.iter().copied().take_while(move |word| {
        let goes_on = !ended;
        ended |= !is_option(word) && !after_option;
        after_option = is_option(word);
        goes_on
    });
    candidates.filter(move |word| !is_option(word))
}

/// Whether words give one of these options.
fn gives(words: &[&str], options: &str) -> bool {
    words.iter().any(|word| options.split_whitespace().any(|option| is_option(word, option)))
}

/// Whether a word gives an option.
pub(super) fn is_option(word: &str, option: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    match option.as_bytes() {
        // `--outDir`, `--out-dir` and `--outdir` are one to many programs.
        [b'-', b'-', ..] => name.len() > 2 && name.starts_with("--") && joined(option).starts_with(&joined(name)),
        [b'-', letter] => {
            !word.starts_with("--") && word.starts_with('-') && word.bytes().skip(1).any(|byte| byte == *letter)
        }
        [b'-', ..] => {
            let name = if name.starts_with("--") { &name[1..] } else { name };
            name.len() > 2 && option.starts_with(name)
        }
        [b'^', ..] => word.starts_with(&option[1..]),
        _ => word.starts_with(option),
    }
}

/// The name of an option without what joins its words.
fn joined(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).map(|c| c.to_ascii_lowercase()).collect()
}

/// Whether the value of an option is a path, not a name that the program knows.
fn is_path(value: &str) -> bool {
    value.starts_with('.') || value.contains('/')
}

/// Whether a folder may be outside the one that the command runs in.
fn is_elsewhere(folder: &str) -> bool {
    folder.starts_with(['/', '~']) || folder.split('/').any(|part| part == "..")
}

/// An element of an array, whose number is worked out.
fn names_element(word: &str) -> bool {
    word.contains('[') && word.contains(['$', '`'])
}

/// Whether one of the words is one of these.
fn names_one(words: &[&str], names: &str) -> bool {
    words.iter().any(|word| is_listed(names, word))
}

fn tar_runs(words: &[&str]) -> bool {
    const LONG: &str = "--checkpoint-action --use-compress-program --to-command --info-script --new-volume-script --rsh-command \
        --rmt-command";
    // The first word may be letters without a dash.
    let letters = |(at, word): (usize, &&str)| {
        (at == 0 || word.starts_with('-')) && !word.starts_with("--") && word.contains(['I', 'F'])
    };
    gives(words, LONG) || words.iter().enumerate().any(letters)
}

/// Whether git is given settings or another repository before it is told what to do.
fn git_is_led(words: &[&str]) -> bool {
    let mut rest = words.iter();
    while let Some(word) = rest.next().filter(|word| word.starts_with('-')) {
        if *word == "-c" || gives(&[word], "--config-env --git-dir") || word.starts_with("--exec-path=") {
            return true;
        }
        if ["-C", "--work-tree", "--namespace"].contains(word) {
            rest.next();
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use crate::rules::CommandLine;

    #[test]
    fn arguments_that_are_run_are_known() {
        let lines = include_str!("../../tests/commands/running.txt").lines();
        let plain: Vec<&str> = lines.filter(|line| CommandLine::parse(line).complex().is_none()).collect();
        assert!(plain.is_empty(), "{plain:#?}");
    }

    #[test]
    fn what_runs_nothing_else_is_plain() {
        let lines = include_str!("../../tests/commands/plain.txt").lines();
        let running: Vec<&str> = lines.filter(|line| CommandLine::parse(line).complex().is_some()).collect();
        assert!(running.is_empty(), "{running:#?}");
    }
}
