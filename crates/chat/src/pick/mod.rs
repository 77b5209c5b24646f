//! The picker: one list with a filter, for deeds, sessions, agents, options, the queue, undo and every "are you sure".

mod lists;

use crate::Which;
use crate::keys::Deed;
use crate::rows::look as theme;
use crate::state::For;
use crate::text::fit;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
pub use lists::{
    Change, Stored, agents, chosen, counts, files, history, hunks, options, palette, queue, sessions, turns, words,
};
use ratatui::text::{Line, Span};
use tieline::schema::ConfigValue;

/// What has to be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The sessions of the journal.
    Sessions,
    /// The agents.
    Agents,
    /// The turns that changed files.
    Turns,
    /// The files of a turn: its id, and what it is called.
    Files(String, String),
    /// The hunks of a file in a turn.
    Hunks(String, String),
    /// The frames.
    Traffic,
}

/// What is done with something that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    /// Deletes a session.
    Delete(String),
    /// Gives a session a name.
    Rename(String, String),
    /// Writes a session into a file.
    Export(String),
    /// Takes a turn back, or one file of it.
    Undo(String, Option<String>),
    /// Takes one hunk of a file back: its number.
    UndoHunk(String, String, usize),
}

/// What comes of a pick.
#[derive(Debug, Clone)]
pub enum Pick {
    /// A deed.
    Deed(Deed),
    /// A session in a new tab.
    Open(Which),
    /// Another picker that has to be looked for.
    Look(Source),
    /// A text to read, with its title; then this picker again.
    Read(String, Vec<String>),
    /// Another picker that is there.
    Menu(Box<Picker>),
    /// Words for the composer.
    Write(String),
    /// An option of the session.
    Set(String, ConfigValue),
    /// Something with what is kept.
    Do(Errand),
    /// A line is asked for.
    Ask(For),
    /// Something with what waits, by its number.
    Waiting(u64, Waiting),
    /// Nothing.
    Nothing,
}

/// What is done with something that waits.
#[derive(Debug, Clone, Copy)]
pub enum Waiting {
    /// It is sent now.
    Now,
    /// It comes back into the composer.
    Edit,
    /// It goes one place up.
    Raise,
    /// It is forgotten.
    Drop,
}

/// One line of a picker.
#[derive(Debug, Clone)]
pub struct Line1 {
    /// What it is, safe to show.
    pub label: String,
    /// More, dim, safe to show.
    pub more: String,
    /// What comes of it.
    pub pick: Pick,
}

/// A list to pick from.
#[derive(Debug, Clone, Default)]
pub struct Picker {
    /// What is picked.
    pub title: String,
    /// The lines.
    pub lines: Vec<Line1>,
    /// Only lines with these words.
    pub filter: String,
    /// The chosen one of those.
    pub at: usize,
    /// What it shows is still being looked for.
    pub looking: bool,
}

impl Picker {
    /// A picker without lines.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// One that shows what is still being looked for.
    pub fn looking(title: &str) -> Self {
        Self { looking: true, ..Self::new(title) }
    }

    /// Adds a line.
    #[must_use]
    pub fn line(mut self, label: impl Into<String>, more: impl Into<String>, pick: Pick) -> Self {
        self.lines.push(Line1 { label: label.into(), more: more.into(), pick });
        self
    }

    fn fitting(&self) -> Vec<&Line1> {
        let words: Vec<String> = self.filter.split_whitespace().map(str::to_lowercase).collect();
        let fits = |line: &&Line1| {
            let text = format!("{} {}", line.label, line.more).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.lines.iter().filter(fits).collect()
    }

    /// A key. Gives what was picked.
    pub fn key(&mut self, key: KeyEvent) -> Option<Pick> {
        let fitting = self.fitting();
        let last = fitting.len().saturating_sub(1);
        match (key.code, key.modifiers) {
            (KeyCode::Up, _) => self.at = self.at.saturating_sub(1),
            (KeyCode::Down, _) => self.at = (self.at + 1).min(last),
            (KeyCode::PageUp, _) => self.at = self.at.saturating_sub(10),
            (KeyCode::PageDown, _) => self.at = (self.at + 10).min(last),
            (KeyCode::Enter, _) => return fitting.get(self.at).map(|line| line.pick.clone()),
            (KeyCode::Backspace, _) => {
                self.filter.pop();
                self.at = 0;
            }
            (KeyCode::Char('u'), KeyModifiers::CONTROL) => (self.filter, self.at) = (String::new(), 0),
            (KeyCode::Char(c), KeyModifiers::NONE | KeyModifiers::SHIFT) if self.filter.len() < 200 => {
                self.filter.push(c);
                self.at = 0;
            }
            _ => {}
        }
        None
    }

    /// Its rows.
    pub fn rows(&self, width: u16, height: u16) -> Vec<Line<'static>> {
        let (width, room) = (usize::from(width), usize::from(height).saturating_sub(2));
        let filter = if self.filter.is_empty() { String::new() } else { format!(" · {}▏", self.filter) };
        let mut rows = vec![Line::styled(fit(&format!("{}{filter}", self.title), width), theme::STRONG)];
        let fitting = self.fitting();
        if fitting.is_empty() {
            let none = if self.looking { "looking …" } else { "nothing here" };
            rows.push(Line::styled(fit(none, width), theme::QUIET));
        }
        let skip = (self.at + 1).saturating_sub(room);
        for (at, line) in fitting.iter().enumerate().skip(skip).take(room) {
            let chosen = at == self.at;
            let label = fit(&format!("{} {}", if chosen { "❯" } else { " " }, line.label), width);
            let left = width.saturating_sub(unicode_width::UnicodeWidthStr::width(label.as_str()) + 2);
            let more =
                if left > 4 && !line.more.is_empty() { format!("  {}", fit(&line.more, left)) } else { String::new() };
            let style = if chosen { theme::CHOSEN } else { theme::PLAIN };
            rows.push(Line::from(vec![Span::styled(label, style), Span::styled(more, theme::QUIET)]));
        }
        rows.push(Line::styled(fit("type to search · ↑↓ · Enter · Esc", width), theme::QUIET));
        rows
    }
}
