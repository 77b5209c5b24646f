//! `tieline show`: what happened in a recording, on the terminal or as a page.

use crate::record::Keep;
use crate::shared::{Failed, USAGE, cut, failed, note, open, print};
use clap::{Args, ValueHint};
use std::fmt::Write as _;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tieline_check::{Breach, Judge};
use tieline_client::sanitize;
use tieline_trace::{Frame, Frames, Kept, Kind, Page, Row, Side, Story, bytes, time};

/// How often a file that grows is looked at.
const POLL: Duration = Duration::from_millis(100);
/// What `--full` shows of one message at most.
const MAX_SHOWN_CHARS: usize = 1 << 20;

/// Show a recording: messages, turns, tool calls, times, sizes, what is wrong
///
/// Reads recordings of `tieline record` and `tieline exec --trace`, traces of the conductor, logs of acpx and what Zed copies from its ACP
/// logs. The exit code is 0 if the file could be read, whatever is in it.
#[derive(Args)]
#[allow(clippy::struct_excessive_bools)]
pub struct Arguments {
    /// The recording; `-` is standard input
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Only methods with this in their name
    #[arg(long, value_name = "TEXT")]
    method: Option<String>,

    /// Only what this side sent
    #[arg(long, value_parser = ["client", "agent", "stderr", "exit"])]
    side: Option<String>,

    /// Only this session; the start of its id is enough
    #[arg(long, value_name = "ID")]
    session: Option<String>,

    /// Only errors, what is no message, and breaches of the protocol
    #[arg(long)]
    errors: bool,

    /// Each message in full
    #[arg(long)]
    full: bool,

    /// Only the summary
    #[arg(long, conflicts_with_all = ["full", "follow"])]
    summary: bool,

    /// Go on while the file grows, until the agent has ended
    #[arg(long, short, conflicts_with = "html")]
    follow: bool,

    /// Print one page of HTML with all of it, which needs nothing else
    #[arg(long, conflicts_with_all = ["full", "summary"])]
    html: bool,

    #[command(flatten)]
    keep: Keep,
}

/// Shows.
pub fn run(arguments: Arguments) -> ExitCode {
    match work(&arguments) {
        Ok(code) => code,
        Err((code, why)) => failed("show", &(code, sanitize::line(&why))),
    }
}

fn work(arguments: &Arguments) -> Result<ExitCode, Failed> {
    let named = |error: &dyn std::fmt::Display| format!("{}: {error}", arguments.file.display());
    // What ends on standard input does not grow again.
    let follow = arguments.follow && arguments.file.as_os_str() != "-";
    if follow
        && !arguments.file.exists()
        && arguments.file.parent().is_some_and(|it| it.as_os_str().is_empty() || it.is_dir())
    {
        note(format_args!("tieline show: {} is not there yet; waiting for it", arguments.file.display()));
        while !arguments.file.exists() {
            std::thread::sleep(POLL);
        }
    }
    let input = open(&arguments.file)?;
    let mut frames = Frames::new(BufReader::new(input), arguments.keep.kept());
    let (mut story, mut page, mut judge) = (Story::default(), Page::default(), Judge::default());
    judge.shape = arguments.keep.kept() == Kept::Shape;
    let (mut any, mut matched) = (false, false);
    loop {
        let Some(frame) = frames.next_frame().map_err(|error| (USAGE, named(&error)))? else {
            if follow {
                std::thread::sleep(POLL);
                continue;
            }
            break;
        };
        any = true;
        let breaches = judge.recorded(&frame, &frames.header).into_iter().flatten().map(|breach| told(&breach));
        let mut rows = story.take(&frame, breaches.collect());
        rows.retain(|row| arguments.wants(row));
        matched |= !rows.is_empty();
        if arguments.html {
            page.add(&frame, &rows);
        } else if !arguments.summary {
            for row in &rows {
                let mut text = line(row);
                if arguments.full && row.kind != Kind::End {
                    text += &full(&frame);
                }
                // Whoever has read enough closes the pipe.
                if print(&text) != ExitCode::SUCCESS {
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
        if follow && frame.from == Side::Exit {
            break;
        }
    }
    if !any {
        return Err((USAGE, named(&"there is nothing in it")));
    }
    if !matched {
        note(format_args!("tieline show: nothing in {} matches", arguments.file.display()));
    }
    if frames.left_out() > 0 {
        note(format_args!("{} messages between proxies or of MCP are left out", frames.left_out()));
    }
    if arguments.html {
        let title = arguments.file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        return Ok(print(&page.html(&title, &story)));
    }
    let summary: String = story.summary().lines().map(|line| sanitize::exact_line(line) + "\n").collect();
    Ok(print(&if arguments.summary { summary } else { format!("\n{summary}") }))
}

impl Arguments {
    fn wants(&self, row: &Row) -> bool {
        let side = self.side.as_ref().is_none_or(|side| row.from.to_string() == *side);
        let session = |wanted: &String| row.session.as_ref().is_some_and(|session| session.starts_with(wanted));
        side && self.method.as_ref().is_none_or(|method| row.method.contains(method))
            && self.session.as_ref().is_none_or(session)
            && (!self.errors || row.is_wrong())
    }
}

/// How a side breaks the protocol.
fn told(breach: &Breach) -> String {
    let should = if breach.is_must() { "" } else { " (should)" };
    format!("{}{should}: {}", breach.law, breach.said)
}

/// A row for the terminal.
fn line(row: &Row) -> String {
    let mut text = format!("{:>4} {:>9}  {:6}  {:>7}  ", row.frame, time(row.at), row.from, bytes(row.size));
    text += &if row.method.is_empty() { row.kind.to_string() } else { row.method.clone() };
    if let Some(id) = &row.id {
        let _ = write!(text, " #{id}");
    }
    let _ = match (row.kind, row.took) {
        (Kind::Answer | Kind::Error, Some(took)) => write!(text, " {} in {}", row.kind, time(took)),
        (Kind::Answer | Kind::Error, None) => write!(text, " {} to nothing", row.kind),
        _ => Ok(()),
    };
    let _ = write!(text, "  {}", row.about);
    let mut text = sanitize::exact_line(text.trim_end()) + "\n";
    for breach in &row.breaches {
        let _ = writeln!(text, "                breach: {}", sanitize::exact_line(breach));
    }
    text
}

/// The message, line by line.
fn full(frame: &Frame) -> String {
    let body = match &frame.message {
        Some(message) => serde_json::to_string_pretty(message).unwrap_or_default(),
        None => String::from_utf8_lossy(&frame.body).into_owned(),
    };
    let mut text = String::new();
    for line in cut(&body, MAX_SHOWN_CHARS).lines() {
        let _ = writeln!(text, "    {}", sanitize::exact_line(line));
    }
    text
}
