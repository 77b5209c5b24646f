//! What people and the model see of a command: its line, its output as it comes, and what is left of a long one.

use crate::report::Call;
use crate::tools::Output;
use std::path::{Path, PathBuf};
use tieline::schema::{Terminal, TerminalOutputChunk, TerminalUpdate, to_base64};
use tieline::{Dialect, Patch, ToolCallContent, Update};
use tieline_host::roots;
use tieline_host::run::{Outcome, View, exit_status};
use tieline_host::store::new_id;

/// As much output as the model is told, in bytes: as much from the beginning as from the end.
const MAX_TOLD_BYTES: usize = 32 * 1024;
/// As much of a running command's output as is shown to a client without terminals, in bytes.
const MAX_TAIL_BYTES: usize = 16 * 1024;
/// As much of a command as is in its title, in bytes.
const MAX_TITLE_BYTES: usize = 4 * 1024;

/// The command as the user is asked about it: each character can be seen, and if it is cut, it says so.
pub fn visible(command: &str) -> String {
    let (start, rest) = command.split_at(command.floor_char_boundary(MAX_TITLE_BYTES));
    let line = start.replace('\n', "⏎").replace('\t', " ");
    // It is no path, so a backslash is one.
    let line = roots::shown(Path::new(&line)).replace("\\\\", "\\");
    if rest.is_empty() { line } else { format!("{line}… [{} more bytes]", rest.len()) }
}

/// What came of a command that the user stopped.
pub fn stopped(output: &str, shown: Option<Vec<ToolCallContent>>) -> Output {
    let text = format!("{}\n(the user stopped the command)", middle_out(output));
    Output { content: vec![text.into()], shown, failed: true, stopped: true, ..Output::default() }
}

/// Where the output of a command is shown: a display terminal where the client knows such, text elsewhere.
pub struct Screen(pub Option<String>);

impl Screen {
    /// Announces it to a client that knows such.
    pub async fn open(call: &Call, line: &str, cwd: PathBuf) -> tieline::Result<Self> {
        if call.turn().dialect() != Dialect::V2 {
            return Ok(Self(None));
        }
        let terminal_id = new_id();
        let update = TerminalUpdate {
            terminal_id: terminal_id.clone(),
            command: Patch::Set(line.to_owned()),
            cwd: Patch::Set(cwd.to_string_lossy().into_owned()),
            ..TerminalUpdate::default()
        };
        call.turn().update(Update::Terminal(Box::new(update))).await?;
        let screen = Self(Some(terminal_id));
        call.update(tieline::ToolCallUpdate::default().content(screen.content("", ""))).await?;
        Ok(screen)
    }

    /// What a call shows: the terminal, or the output so far and how it ended.
    pub fn content(&self, output: &str, end: &str) -> Vec<ToolCallContent> {
        match &self.0 {
            Some(id) => vec![ToolCallContent::Terminal(Terminal { terminal_id: id.clone(), ..Default::default() })],
            None => vec![format!("```\n{}\n```{end}", output.trim_end().replace("```", "` ` `")).into()],
        }
    }

    /// Shows what is new.
    pub async fn show(&self, call: &Call, news: &str, running: &View) -> tieline::Result<()> {
        match &self.0 {
            Some(id) => {
                let data = to_base64(news.as_bytes());
                let chunk = TerminalOutputChunk { terminal_id: id.clone(), data, ..Default::default() };
                call.turn().update(Update::TerminalOutput(chunk)).await
            }
            None => {
                let output = running.output(0).text;
                let start = output.ceil_char_boundary(output.len().saturating_sub(MAX_TAIL_BYTES));
                call.show(self.content(&output[start..], "")).await
            }
        }
    }

    /// Shows how the command ended, and gives what stays.
    pub async fn close(&self, call: &Call, output: &str, outcome: &Outcome) -> tieline::Result<Vec<ToolCallContent>> {
        if let Some(id) = &self.0 {
            let exit_status = Patch::Set(exit_status(outcome.end));
            let update = TerminalUpdate { terminal_id: id.clone(), exit_status, ..TerminalUpdate::default() };
            call.turn().update(Update::Terminal(Box::new(update))).await?;
        }
        Ok(self.content(&middle_out(output), &format!("\nThe command {outcome}.")))
    }
}

/// A long text without its middle; whole lines are left out where there are any.
pub fn middle_out(text: &str) -> String {
    if text.len() <= MAX_TOLD_BYTES {
        return text.trim_end().to_owned();
    }
    let (first, last) =
        (text.ceil_char_boundary(MAX_TOLD_BYTES / 2), text.ceil_char_boundary(text.len() - MAX_TOLD_BYTES / 2));
    let first = text[..first].rfind('\n').map_or(first, |end| end + 1);
    let last = text[last..].find('\n').map_or(last, |end| last + end + 1);
    let (begin, middle) = (&text[..first], &text[first..last]);
    let begin = begin.strip_suffix('\n').unwrap_or(begin);
    // What was left out before counts, too.
    let lines = lines(middle) - usize::from(!middle.ends_with('\n'));
    format!("{begin}\n[… {} bytes, {lines} lines left out …]\n{}", middle.len(), text[last..].trim_end())
}

/// How many lines an output had, also where it says that some are left out.
pub fn lines(told: &str) -> usize {
    let left_out = |line: &str| -> Option<usize> {
        let (_, lines) = line.strip_prefix("[… ")?.strip_suffix(" lines left out …]")?.split_once(" bytes, ")?;
        lines.parse().ok()
    };
    told.lines().map(|line| left_out(line).unwrap_or(1)).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_whatever_is_left_out() {
        let all = (1..=200_000).map(|number| number.to_string()).collect::<Vec<_>>().join("\n") + "\n";
        let told = middle_out(&all);
        assert_eq!(lines(&told), 200_000);
        assert!(
            told.len() < MAX_TOLD_BYTES + 100 && told.starts_with("1\n2\n") && told.ends_with("\n200000"),
            "{told}"
        );
        assert_eq!(lines(&middle_out(&format!("[… 7 bytes, 3 lines left out …]\n{all}"))), 200_003);
        assert_eq!(lines(&middle_out(&"x".repeat(100_000))), 2);
        assert_eq!(lines("a\nb"), 2);
    }
}
