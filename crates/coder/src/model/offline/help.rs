//! What the interpreter says about itself.

use super::commands::{BEFORE, USAGE};
use super::words::{code, distance};
use std::fmt::Write as _;

/// The first line of a conversation.
pub const INTRO: &str =
    "This is Tieline's offline agent: no language model, but a fixed set of instructions. `/help` lists them.";

/// How to get a real model.
pub const CONNECT: &str = "To work with a language model instead, set `TIELINE_MODEL=PROVIDER/MODEL` or add `--model PROVIDER/MODEL` to `tieline agent` or `tieline exec`; `tieline models` lists them.";

/// The sentences with the words that hint at them.
const FORMS: &[(&str, &str)] = &[
    ("read FILE", "read show open cat view display print file content see look"),
    ("list DIRECTORY", "list ls files directory folder contents"),
    ("find TEXT in PATH", "find search grep look where locate occurrences uses"),
    ("find files named PATTERN", "find files named called matching locate"),
    ("create FILE with TEXT", "create write make add new save file generate"),
    ("replace OLD with NEW in FILE", "replace change substitute edit modify update fix refactor with by"),
    ("rename OLD to NEW", "rename refactor name"),
    ("rename OLD to NEW in FILE", "rename function variable class symbol refactor"),
    ("move OLD to NEW", "move mv relocate"),
    ("delete FILE", "delete remove rm erase drop"),
    ("run COMMAND", "run execute start launch command shell"),
    ("run the tests", "test tests testing check suite verify"),
    ("build the project", "build compile make"),
    ("format the code", "format fmt formatter style lint pretty"),
    ("count lines in FILE", "count lines words characters many number"),
    ("outline FILE", "outline summarise summarize summary overview structure describe explain"),
    ("explain the error", "explain error errors why wrong failed failing debug problem"),
    ("fetch URL", "fetch download get url web page http https"),
];

/// Commands that a sentence may have meant.
const HINTS: &[(&str, &str)] = &[
    ("/undo", "undo revert restore back"),
    ("/diff", "diff changes changed differences"),
    ("/git ARGUMENTS", "git commit push branch status log checkout merge"),
    ("/compact", "compact shorten forget"),
];

/// All that it understands.
pub fn help() -> String {
    let mut out = String::from("I am no language model. I carry out these instructions:\n\n**Commands**\n");
    for (_, usage) in USAGE {
        let _ = writeln!(out, "- `{usage}`");
    }
    let before: Vec<String> = BEFORE.iter().map(|name| format!("`/{name}`")).collect();
    let _ = write!(out, "\nThe agent itself carries out {}.\n\n**Sentences**\n", before.join(", "));
    for (form, _) in FORMS {
        let _ = writeln!(out, "- {form}");
    }
    out.push_str(
        "\n**Blocks**\n\
         - a `diff` block is applied\n\
         - a `sh` block is run\n\
         - a block with a path in its header, such as `rust src/main.rs`, is written to that file\n\n\
         Several sentences, list items or \"then\" become a plan. Quotes and backticks keep an argument together; \
         `\\n` and `\\t` work in double quotes. \"it\" is the file of the step before, or what is attached.\n\n",
    );
    out.push_str(CONNECT);
    out
}

/// The answer to what is no instruction.
pub fn unknown(parts: &[String]) -> String {
    let mut quoted: Vec<String> = parts.iter().take(3).map(|part| code(part)).collect();
    if parts.len() > 3 {
        quoted.push(format!("{} more", parts.len() - 3));
    }
    let near = nearest(parts.first().map_or("", String::as_str));
    let near: Vec<String> = near.iter().map(|form| format!("- `{form}`")).collect();
    format!(
        "I am no language model, and this is none of the instructions I know: {}. Nothing was done.\n\n\
         The nearest forms I know:\n{}\n\n{CONNECT}",
        quoted.join(", "),
        near.join("\n"),
    )
}

/// The two forms that are nearest to a text.
fn nearest(text: &str) -> [&'static str; 2] {
    let mut best = [(0, "read FILE"), (0, "run COMMAND")];
    if let Some(name) = text.strip_prefix('/') {
        for (known, usage) in USAGE {
            let name: String = name.chars().take(32).collect();
            rank(&mut best, 100_usize.saturating_sub(distance(&name.to_lowercase(), known) * 10), usage);
        }
        return best.map(|(_, form)| form);
    }
    let lower: String = text.chars().take(400).collect::<String>().to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| word.len() > 2 && word.len() <= 32)
        .take(40)
        .collect();
    for (form, hints) in FORMS.iter().chain(HINTS) {
        let mut score = 0;
        for (place, word) in words.iter().enumerate() {
            let nearness = hints.split(' ').map(|hint| alike(word, hint)).max().unwrap_or(0);
            // What a sentence asks for mostly stands at its start.
            score += if place < 3 { nearness * 3 } else { nearness };
        }
        rank(&mut best, score, form);
    }
    best.map(|(_, form)| form)
}

fn rank(best: &mut [(usize, &'static str); 2], score: usize, form: &'static str) {
    if score > best[0].0 {
        if best[0].1 != form {
            best[1] = best[0];
        }
        best[0] = (score, form);
    } else if score > best[1].0 && best[0].1 != form {
        best[1] = (score, form);
    }
}

fn alike(word: &str, hint: &str) -> usize {
    match distance(word, hint) {
        0 => 4,
        1 if hint.len() > 3 => 2,
        2 if hint.len() > 6 => 1,
        _ => 0,
    }
}
