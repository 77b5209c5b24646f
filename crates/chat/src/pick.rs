//! The picker: one list with a filter, for deeds, sessions, agents, options, the queue, undo and every "are you sure".

use crate::Which;
use crate::keys::{Deed, KEYS};
use crate::rows::look as theme;
use crate::text::fit;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::{Line, Span};
use tieline::schema::{ConfigKind, ConfigOption, ConfigValue, Select, SelectOption, SelectOptions};
use tieline_client::live::{Part, Queued};
use tieline_client::sanitize;

/// What has to be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The sessions of the journal.
    Sessions,
    /// The agents.
    Agents,
    /// The turns that changed files.
    Turns,
    /// The files of a turn.
    Files(String),
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
    /// Takes a turn back.
    Undo(String),
    /// Takes one file of a turn back.
    UndoFile(String, String),
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
    /// Another picker that is there.
    Menu(Box<Picker>),
    /// An option of the session.
    Set(String, ConfigValue),
    /// Something with what is kept.
    Do(Errand),
    /// The name of a session is asked for.
    AskName(String),
    /// Something that waits: sent now.
    Now(u64),
    /// Something that waits: back into the composer.
    Edit(u64),
    /// Something that waits: one place up.
    Raise(u64),
    /// Something that waits: forgotten.
    Drop(u64),
    /// The agent is killed.
    Kill,
    /// Nothing.
    Nothing,
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

/// What a key does to a picker.
#[derive(Debug)]
pub enum Pressed {
    /// It stays.
    Stay,
    /// It goes away.
    Leave,
    /// This was picked.
    Picked(Pick),
}

impl Picker {
    /// A picker with these lines.
    pub fn new(title: impl Into<String>, lines: Vec<Line1>) -> Self {
        Self { title: title.into(), lines, ..Self::default() }
    }

    /// One that shows what is still being looked for.
    pub fn looking(title: &str) -> Self {
        Self { title: title.into(), looking: true, ..Self::default() }
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

    /// A key.
    pub fn key(&mut self, key: KeyEvent) -> Pressed {
        let count = self.fitting().len();
        match (key.code, key.modifiers) {
            (KeyCode::Esc, _) | (KeyCode::Char('c'), KeyModifiers::CONTROL) => return Pressed::Leave,
            (KeyCode::Up, _) => self.at = self.at.saturating_sub(1),
            (KeyCode::Down, _) => self.at = (self.at + 1).min(count.saturating_sub(1)),
            (KeyCode::PageUp, _) => self.at = self.at.saturating_sub(10),
            (KeyCode::PageDown, _) => self.at = (self.at + 10).min(count.saturating_sub(1)),
            (KeyCode::Enter, _) => {
                let picked = self.fitting().get(self.at).map(|line| line.pick.clone());
                return picked.map_or(Pressed::Stay, Pressed::Picked);
            }
            (KeyCode::Backspace, _) => {
                self.filter.pop();
                self.at = 0;
            }
            (KeyCode::Char(c), KeyModifiers::NONE | KeyModifiers::SHIFT) if self.filter.len() < 200 => {
                self.filter.push(c);
                self.at = 0;
            }
            _ => {}
        }
        Pressed::Stay
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

/// Everything that can be done.
pub fn palette() -> Picker {
    let line = |binding: &crate::keys::Binding| Line1 {
        label: binding.help.to_owned(),
        more: binding.name.to_owned(),
        pick: Pick::Deed(binding.deed),
    };
    Picker::new("What can be done", KEYS.iter().filter(|binding| binding.deed != Deed::Palette).map(line).collect())
}

/// The values of an option, with and without headings.
fn values(select: &Select) -> Vec<&SelectOption> {
    match &select.options {
        SelectOptions::Flat(flat) => flat.iter().collect(),
        SelectOptions::Grouped(groups) => groups.iter().flat_map(|group| &group.options).collect(),
    }
}

/// What is chosen of an option, by its name.
pub fn chosen(option: &ConfigOption) -> Option<String> {
    let ConfigKind::Select(select) = &option.kind else { return None };
    let named = values(select).into_iter().find(|value| value.value == select.current_value);
    Some(sanitize::line(named.map_or(&select.current_value, |value| &value.name)))
}

/// The options of a session, each with its values behind it.
pub fn options(options: &[ConfigOption]) -> Picker {
    let mut all = Picker::new("Options of this session", Vec::new());
    for option in options {
        let (id, name) = (&option.config_id, sanitize::line(&option.name));
        match &option.kind {
            ConfigKind::Select(select) => {
                let mut values = Picker::new(name.clone(), Vec::new());
                for (at, value) in self::values(select).into_iter().enumerate() {
                    let label = sanitize::line(&value.name);
                    if value.value == select.current_value {
                        values.at = at;
                    }
                    let more = value.description.as_deref().map(sanitize::line).unwrap_or_default();
                    values = values.line(label, more, Pick::Set(id.clone(), value.value.as_str().into()));
                }
                all = all.line(name, chosen(option).unwrap_or_default(), Pick::Menu(Box::new(values)));
            }
            ConfigKind::Boolean(on) => {
                let now = if *on { "on" } else { "off" };
                all = all.line(name, now, Pick::Set(id.clone(), (!on).into()));
            }
            ConfigKind::Other(_) => {}
        }
    }
    all
}

/// What waits, each with what can be done with it.
pub fn queue(queue: &[Queued], now: &str) -> Picker {
    let mut all = Picker::new("What waits", Vec::new());
    for queued in queue {
        let words = words(&queued.parts);
        let number = queued.number;
        let menu = Picker::new(fit(&words, 60), Vec::new())
            .line("Send it now", now, Pick::Now(number))
            .line("Edit it", "back into the composer", Pick::Edit(number))
            .line("One place up", "", Pick::Raise(number))
            .line("Drop it", "", Pick::Drop(number));
        all = all.line(words, "", Pick::Menu(Box::new(menu)));
    }
    all
}

/// A prompt in one line.
pub fn words(parts: &[Part]) -> String {
    let word = |part: &Part| match part {
        Part::Text(text) | Part::Piped(text) => sanitize::line(text.trim()),
        Part::File { path, .. } | Part::Image { path, .. } => sanitize::line(&format!("[{}]", path.display())),
        Part::Block(block) => format!("[{}]", sanitize::line(block.tag())),
    };
    parts.iter().map(word).collect::<Vec<_>>().join(" ")
}
