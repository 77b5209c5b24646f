//! Which programs run, or write to, what their arguments say: the one table, with the arguments that make them do so.
//!
//! A rule like `run printf *` is meant for printing, and `run git log *` for looking. Where a program in this table is given such an
//! argument, the line is complex, so that no rule that allows covers it, unless the rule has that argument in it. Of programs that are not in it, some options count by
//! their names ([`table::TELLING_NAMES`]). Interpreters and package runners (`python *`, `npx *`) are not in it: who allows them with any
//! argument can see that this is everything.

pub(super) mod sed;
mod table;

use super::shell::Word;
use table::When::{Alone, Always, Doing, Given, Goals, Has, If, More, Named, With};
use table::{
    BUILDERS, CODE, OTHER_NAMES, PLAIN, STARTERS, TELLING_LETTERS, TELLING_NAMES, TELLING_PROPERTIES, When, rows,
};

/// Among so many first words the program is looked for that another one starts.
const MAX_LEADING_WORDS: usize = 16;

/// Whether a program is there to run what its arguments say, so that a command behind its name counts as one.
pub(super) fn starts_others(program: &str) -> bool {
    is_known(STARTERS, program)
}

/// Whether a program is there to run code that it is given as text.
pub(super) fn runs_code(program: &str) -> bool {
    is_known(CODE, program)
}

/// Whether the table says of a program what it does with its arguments, or that it does nothing with them.
pub(super) fn is_judged(program: &str) -> bool {
    is_listed(PLAIN, program) || starts_others(program) || !rows_of(program).is_empty()
}

/// What the table says of a program, also by a name without a version, in its order.
fn rows_of(program: &str) -> Vec<(usize, &'static When)> {
    let known = known_as(program);
    let mut rows: Vec<_> = rows(program).chain(rows(known).filter(|_| known != program)).collect();
    rows.sort_by_key(|(at, _)| *at);
    rows.dedup_by_key(|(at, _)| *at);
    rows
}

/// Whether a program is one of these, also by a name with a version, or as one of a family.
fn is_known(names: &str, program: &str) -> bool {
    is_listed(names, program) || is_listed(names, known_as(program))
}

/// What a program is called without its version: `python3.12`, `gcc-14`, `cmd.exe`, and the system's loader (`ld-linux-x86-64.so.2`),
/// which runs any program, as emulators of one processor do.
fn known_as(program: &str) -> &str {
    let name = program.strip_suffix(".exe").unwrap_or(program);
    let loads = ["ld-", "ld.", "ld64.", "ld32."].iter().any(|start| name.starts_with(start)) && name.contains(".so");
    let machine = name.strip_prefix("qemu-").filter(|machine| {
        !machine.starts_with("system") && !is_listed("img nbd io ga edid keymap pr-helper storage-daemon", machine)
    });
    if loads || name.starts_with("ld-musl") {
        return "ld.so";
    }
    if machine.is_some() {
        return "qemu-user";
    }
    name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').trim_end_matches('-')
}

fn is_listed(names: &str, program: &str) -> bool {
    names.split_whitespace().any(|name| name == program)
}

/// Why a command may run or write something that only its arguments name, those after the first `named` words.
pub(super) fn runs_another(words: &[Word], named: usize) -> Option<&'static str> {
    let starts = words.first().is_some_and(|word| starts_others(&word.program()));
    let is_known = |at: &usize| rows_of(&words[*at].program()).iter().any(|(_, when)| !matches!(when, Always));
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
    let given = |options: &str| gives(more, options);
    let told = |when: &When| match when {
        Always => true,
        Given(options) => given(options),
        Named(deeds, options) => named > 1 && (deeds.is_empty() || does(&arguments, deeds)) && given(options),
        Goals(valued) => {
            let rule = arguments.get(..named.saturating_sub(1)).unwrap_or_default();
            has_goal(rule, valued) && has_goal(more, valued)
        }
        Alone(deeds) => named < 2 && does_short(&arguments, deeds),
        More(so) => more.iter().any(|word| so(word)),
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
        Doing(deeds, options) => does(&arguments, deeds) && (options.is_empty() || given(options)),
        If(so) => so(&arguments),
    };
    match rows_of(&program).into_iter().map(|(_, when)| when).find(|when| told(when)) {
        Some(Always) => Some("its program runs another one"),
        Some(_) => Some("its arguments may run another program or write a file"),
        // Who allows all that it starts can see that.
        None if is_listed(OTHER_NAMES, &program) || named < 2 && starts_others(&program) => None,
        None => {
            let known = is_judged(&program);
            let tells = |word: &&str| tells_by_name(word) || !known && tells_by_letter(word);
            let builds = is_known(BUILDERS, &program) && more.iter().any(|word| leads_out(word));
            let by_option =
                || more.iter().any(tells).then_some("an option of it may run another program or write a file");
            builds.then_some("it may run what is not of this project").or_else(by_option)
        }
    }
}

/// Whether a word leads what builds or tests a project out of it: to a file or folder elsewhere, by itself or as the value of an option,
/// or to other programs by a variable (`CC=x`). What begins with `//` is a target of the project to some of them.
fn leads_out(word: &str) -> bool {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
            && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let assigns = word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let letter = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')).and_then(|rest| rest.get(1..));
    let mut texts = word.split(['=', ':']).chain(letter);
    assigns || texts.any(|text| !text.starts_with('-') && !text.starts_with("//") && is_elsewhere(text))
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

/// Whether one of the words that may be the subcommand is one of these.
fn does(words: &[&str], deeds: &str) -> bool {
    first_words(words).any(|word| is_listed(deeds, word))
}

/// Whether there is a word that is no option, no number, and not the value of one of these options.
fn has_goal(words: &[&str], valued: &str) -> bool {
    let is_goal = |at: usize, word: &str| {
        let is_value = at.checked_sub(1).is_some_and(|before| is_listed(valued, words[before]));
        !word.starts_with('-') && !is_value && !word.bytes().all(|byte| byte.is_ascii_digit())
    };
    words.iter().enumerate().any(|(at, word)| is_goal(at, word))
}

/// Whether a filter of warnings names a class of a module, which is imported for it: `error::x.W`. Names of tests begin with a file.
fn imports_category(word: &str) -> bool {
    let mut parts = word.split(':');
    let (action, category) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
    !action.contains(['.', '/']) && category.contains('.') && !category.trim().starts_with("pytest.")
}

/// Whether a word is an option, or sets a property, whose name says that it runs or writes what it is given, whatever the program.
fn tells_by_name(word: &str) -> bool {
    // Many programs have long options with one dash, and then in full.
    let one_dash = word.strip_prefix('-').filter(|name| !name.starts_with('-')).map(|name| {
        let name = name.split('=').next().unwrap_or(name);
        TELLING_NAMES.split_whitespace().any(|option| joined(option) == joined(name))
    });
    let property = word.strip_prefix("-D").or_else(|| word.strip_prefix("-P")).and_then(|word| word.split_once('='));
    // A macro of a compiler has no dot.
    let property = property.filter(|(name, _)| name.contains('.')).is_some_and(|(name, _)| {
        let name = name.to_ascii_lowercase();
        TELLING_PROPERTIES.split_whitespace().any(|part| name.contains(part))
    });
    gives(&[word], TELLING_NAMES) || one_dash == Some(true) || property
}

/// Whether a word is an option of one letter that most programs write to or go to, or a file with more arguments. Only of programs of
/// which nothing is known.
fn tells_by_letter(word: &str) -> bool {
    let letter = |option: &str| word == option || word.starts_with(option) && !word.starts_with("--");
    TELLING_LETTERS.split_whitespace().any(letter) || word.len() > 1 && word.starts_with('@')
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
        [b'-', b'-', ..] => {
            let begins = |name: &str| joined(option).starts_with(&joined(name));
            // Of `--a.b.c` each part is judged: `--poolOptions.forks.execArgv`.
            let part = || name.contains('.') && name[2..].split('.').any(|part| part.len() > 2 && begins(part));
            name.len() > 2 && name.starts_with("--") && (begins(name) || part())
        }
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
        --rmt-command --index-file --volno-file --listed-incremental --absolute-names --absolute-paths";
    // The first word may be letters without a dash.
    let letters = |(at, word): &(usize, &&str)| (*at == 0 || word.starts_with('-')) && !word.starts_with("--");
    let lettered = |set: &[char]| words.iter().enumerate().filter(letters).any(|(_, word)| word.contains(set));
    // What is taken out goes where the archive says, or into another folder.
    let takes_out = lettered(&['x']) || gives(words, "--extract --get");
    gives(words, LONG)
        || lettered(&['I', 'F', 'g', 'P'])
        || takes_out && (lettered(&['C']) || gives(words, "--directory --cd --one-top-level"))
}

/// Whether a database is told more than to be looked at and changed: what its shell does beside SQL, and functions that reach out.
fn sqlite_runs(words: &[&str]) -> bool {
    const HARMLESS: &str = ".bail .changes .databases .dbinfo .dump .echo .eqp .exit .explain .fullschema .headers .help .indexes .indices \
        .limit .lint .mode .nullvalue .print .prompt .quit .schema .separator .show .stats .tables .timer .version .width";
    const REACHING: &str = "attach edit fts3_tokenizer into load_extension sqlar writefile zipfile";
    let command = |line: &str| line.split_whitespace().next().is_some_and(|word| !is_listed(HARMLESS, word));
    let lines = words.iter().flat_map(|word| word.lines()).map(str::trim_start);
    let commands = lines.filter(|line| line.starts_with('.') && !line.starts_with("./") && !line.starts_with("../"));
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = |word: &&str| {
        let word = word.to_ascii_lowercase();
        word.split(|c: char| !is_name(c)).any(|name| is_listed(REACHING, name))
    };
    { commands }.any(command)
        || words.iter().any(names)
        || words.iter().any(|word| word.starts_with("-A") || word.starts_with("--A"))
        || gives(words, "-init -cmd -vfs -zip")
}

/// Whether the first words are these, or beginnings of them: `ip net e`.
fn begins_with(words: &[&str], first: &str, second: &str) -> bool {
    let short = |word: &str, whole: &str| !word.is_empty() && whole.starts_with(word);
    words.iter().zip(words.iter().skip(1)).any(|(a, b)| short(a, first) && short(b, second))
}

/// Whether one of the words that may be the subcommand is one of these, or the beginning of one.
fn does_short(words: &[&str], deeds: &str) -> bool {
    first_words(words)
        .any(|word| deeds.split_whitespace().any(|deed| word == deed || word.len() > 2 && deed.starts_with(word)))
}

/// Whether a word names a file or folder that may be outside the one that the command runs in.
fn leads_elsewhere(word: &str) -> bool {
    !word.starts_with('-') && is_elsewhere(word)
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
