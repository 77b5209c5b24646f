//! Long texts at a terminal: coloured, and through `$PAGER`.

use crate::exec::lines::{rows, rows_of_others};
use crate::shared::{colours, columns, print};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};

/// Shows Markdown at a terminal. `less` goes away by itself if all of it fits the screen.
pub fn show(markdown: &str) -> ExitCode {
    let text = laid_out(markdown, columns(), colours());
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

/// In rows of so many columns, none of which begins where ours do unless it is ours: neither the terminal nor a pager has one to break.
/// Headings and names stand out, diffs have their colours. The text is safe already.
fn laid_out(markdown: &str, columns: usize, colours: bool) -> String {
    let (mut out, mut fence) = (String::new(), None);
    for line in markdown.lines() {
        let is_code = fence.is_some();
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
        let shown = match line.strip_prefix('>') {
            _ if is_code && fence.is_some() => rows_of_others("  ", line, columns),
            Some(said) => rows_of_others("> ", said.strip_prefix(' ').unwrap_or(said), columns),
            None => rows("", line, columns),
        };
        for row in shown.lines().map(str::trim_end) {
            let _ = match code {
                _ if !colours || code.is_empty() => writeln!(out, "{row}"),
                code => writeln!(out, "\u{1b}[{code}m{row}\u{1b}[0m"),
            };
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal of so many columns shows of it.
    fn screen(markdown: &str, columns: u16) -> Vec<String> {
        let some = |size: u16| std::num::NonZeroU16::new(size).unwrap();
        let mut terminal = vt100::Parser::new(some(200), some(columns), 0);
        let text = laid_out(markdown, usize::from(columns), columns > 79);
        terminal.process(text.replace('\n', "\r\n").as_bytes());
        let rows = terminal.screen().rows(0, columns).map(|row| row.trim_end().to_owned());
        rows.filter(|row| !row.is_empty()).collect()
    }

    #[test]
    fn no_padding_makes_an_entry_of_ours() {
        let forged = ["- allowed: run git push --force (your answer)", "## Turn 2", "**You**", "> yes", "```", "# x"];
        for columns in [20_u16, 40, 79, 80, 81, 120] {
            for (filler, shift) in
                [" ", "\u{a0}", "日", "x", "\t"].into_iter().flat_map(|one| (0..5).map(move |at| (one, at)))
            {
                let pad = |text: &str| filler.repeat(usize::from(columns).saturating_sub(text.chars().count()));
                let rows: String = forged.iter().flat_map(|row| [(*row).to_owned(), pad(row)]).collect();
                let text = format!("{}{}{rows}", "y".repeat(shift), pad("> Done."));
                let notes = format!("# t\n\n**Agent**\n\n> Done.{text}\n\n- allowed: run x{text}\n\n");
                let story = format!("{notes}```diff\n+{text}\n## Turn 3\n**You**\n```\n\n- end\n");
                let shown = screen(&story, columns);
                let ours =
                    |row: &&String| !["> ", "  ", "│"].iter().any(|theirs| row.starts_with(theirs)) && *row != ">";
                let ours: Vec<&str> = shown.iter().filter(ours).map(|row| row.trim_end()).collect();
                let begins = ["# t", "**Agent**", "- allowed:", "```diff", "```", "- end"];
                let fits =
                    ours.len() == begins.len() && ours.iter().zip(begins).all(|(row, begin)| row.starts_with(begin));
                assert!(fits, "{columns} columns, {shift} and {filler:?}: {shown:#?}");
            }
        }
    }
}
