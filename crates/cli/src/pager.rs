//! Long texts at a terminal: coloured, and through `$PAGER`.

use crate::shared::{colours, print};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};

/// Shows Markdown at a terminal. `less` goes away by itself if all of it fits the screen.
pub fn show(markdown: &str) -> ExitCode {
    let text = if colours() { painted(markdown) } else { markdown.to_owned() };
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less".to_owned());
    if matches!(pager.trim(), "" | "cat") {
        return print(&text);
    }
    let mut command = Command::new("sh");
    // The shell says by its code whether there is such a program.
    command.args(["-c", &format!("command -v {} >/dev/null || exit 127; exec {pager}", first_word(&pager))]);
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.stdin(Stdio::piped()).spawn() else { return print(&text) };
    if let Some(mut stdin) = child.stdin.take() {
        // Whoever leaves the pager has read enough.
        let _ = stdin.write_all(text.as_bytes());
    }
    match child.wait() {
        Ok(status) if status.code() == Some(127) => print(&text),
        _ => ExitCode::SUCCESS,
    }
}

fn first_word(line: &str) -> &str {
    line.split_whitespace().next().unwrap_or_default()
}

/// Headings and names stand out, diffs have their colours. The text is safe already.
fn painted(markdown: &str) -> String {
    let (mut out, mut fence) = (String::new(), None);
    for line in markdown.lines() {
        let ticks: String = line.chars().take_while(|c| *c == '`').collect();
        let code = match &fence {
            Some((open, _)) if *open == line => {
                fence = None;
                "2"
            }
            None if ticks.len() >= 3 => {
                fence = Some((ticks.clone(), &line[ticks.len()..] == "diff"));
                "2"
            }
            Some((_, true)) if line.starts_with('+') => "32",
            Some((_, true)) if line.starts_with('-') => "31",
            Some((_, true)) if line.starts_with('@') => "36",
            None if line.starts_with('#') => "1",
            None if line.starts_with("**") => "1;36",
            None if line.starts_with("- ") => "2",
            _ => "",
        };
        let _ = if code.is_empty() { writeln!(out, "{line}") } else { writeln!(out, "\u{1b}[{code}m{line}\u{1b}[0m") };
    }
    out
}
