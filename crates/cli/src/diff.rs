//! `tieline diff`: which files a session changed, and how.

use crate::shared::{Failed, WRONG, bad_journal, block_on, colours, find_session, finish, note, open_journal};
use crate::undo::{bad_undo, open_undo, whole_path};
use clap::Args;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline_client::export::changed_text;
use tieline_client::journal::{Changed, Entry, Journal};
use tieline_client::sanitize;

/// What the files of a session look like now, compared with before: by turn or file
///
/// Works for every agent, with or without git. Changes that nobody was asked about are marked.
#[derive(Args)]
pub struct Arguments {
    /// The session; without it the last one of this folder
    session: Option<String>,

    /// Only this file
    file: Option<PathBuf>,

    /// Only this turn
    #[arg(long, value_name = "N")]
    turn: Option<u64>,

    /// Number the places in the file, for `tieline undo --hunk N`
    #[arg(long)]
    hunks: bool,

    /// Only the names of the files
    #[arg(long, conflicts_with = "hunks")]
    names: bool,
}

/// Shows the differences.
pub fn run(arguments: Arguments) -> ExitCode {
    finish("diff", block_on(work(arguments)))
}

async fn work(mut arguments: Arguments) -> Result<String, Failed> {
    let journal = open_journal()?;
    let entry = match (arguments.session.as_deref(), &arguments.file) {
        // One name may also be that of a file.
        (Some(name), None)
            if journal.find(name).await.is_err() && (Path::new(name).exists() || name.contains(['/', '.'])) =>
        {
            arguments.file = Some(name.into());
            find_session(&journal, None).await?
        }
        (name, _) => find_session(&journal, name).await?,
    };
    let file = arguments.file.as_deref().map(whole_path).transpose()?;
    if arguments.hunks {
        let file =
            file.ok_or((crate::shared::USAGE, "--hunks needs a file: tieline diff SESSION FILE --hunks".to_owned()))?;
        return hunks(&journal, &entry, arguments.turn, &file).await;
    }
    let story = journal.story(&entry.id).await.map_err(bad_journal)?;
    let mut out = String::new();
    let colours = colours();
    for turn in story.turns.iter().filter(|turn| arguments.turn.is_none_or(|wanted| wanted == turn.number)) {
        let fits = |changed: &&Changed| file.as_ref().is_none_or(|file| Path::new(&changed.path) == file);
        for changed in turn.changes.iter().filter(fits) {
            let _ = writeln!(out, "# turn {}: {}", turn.number, changed_text(changed, &entry.cwd));
            if let Some(diff) = changed.diff.as_ref().filter(|_| !arguments.names) {
                paint(&mut out, &sanitize::text(diff), colours);
            }
        }
    }
    if out.is_empty() {
        note(format_args!("session {} changed no such file", entry.id));
    }
    Ok(out)
}

fn paint(out: &mut String, diff: &str, colours: bool) {
    for line in diff.lines() {
        let colour = match line.as_bytes().first() {
            Some(b'+') => "32",
            Some(b'-') => "31",
            Some(b'@') => "36",
            _ => "",
        };
        let _ = match (colours, colour) {
            (true, colour) if !colour.is_empty() => writeln!(out, "\u{1b}[{colour}m{line}\u{1b}[0m"),
            _ => writeln!(out, "{line}"),
        };
    }
}

async fn hunks(journal: &Journal, entry: &Entry, turn: Option<u64>, file: &Path) -> Result<String, Failed> {
    let (_held, undo) = open_undo(journal, entry).await?;
    let has = |turn: &String| undo.files(turn).iter().any(|known| known == file);
    let turn = turn.map(|turn| turn.to_string()).or_else(|| undo.turns().into_iter().rfind(has));
    let turn = turn.ok_or((WRONG, format!("session {} changed no such file", entry.id)))?;
    let mut out = String::new();
    for (at, hunk) in undo.hunks(&turn, file).map_err(bad_undo)?.iter().enumerate() {
        let (old, new) = (&hunk.old_lines, &hunk.new_lines);
        let _ = writeln!(
            out,
            "# hunk {} of turn {turn}: lines {}-{} were {}-{}",
            at + 1,
            new.start + 1,
            new.end,
            old.start + 1,
            old.end
        );
        let old = hunk.old.lines().map(|line| format!("-{line}"));
        let lines: Vec<String> = old.chain(hunk.new.lines().map(|line| format!("+{line}"))).collect();
        paint(&mut out, &sanitize::text(&lines.join("\n")), colours());
    }
    Ok(out)
}
