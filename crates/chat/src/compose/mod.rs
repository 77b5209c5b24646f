//! The composer: where a prompt is written. Lines, history, drafts on disk, pastes, files, commands and pictures; the caret is the
//! terminal's own.

mod attach;
mod complete;
mod history;
mod offers;
mod pace;

pub use attach::clipboard_picture;
use attach::{Chip, Stands};
use complete::Files;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use history::History;
use offers::Offers;
use pace::Enter;
pub(crate) use pace::Pace;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect, Size};
use ratatui::style::Style;
use ratatui::widgets::Widget as _;
use ratatui_textarea::{CursorMove, DataCursor, TextArea, WrapMode};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tieline::schema::Command;
use tieline_client::live::Part;
use tieline_client::sanitize;

use crate::event::Wake;
use crate::rows::look::PLAIN;
use crate::rows::wrap::{Break, Piece, wrap};

/// What a key leads to outside the composer.
#[derive(Debug, Clone)]
pub enum Deed {
    /// Nothing; the text may have changed.
    None,
    /// The key means nothing here: it is for somebody else.
    Pass,
    /// The prompt is to be sent. The composer is empty now.
    Submit(Vec<Part>),
    /// A command for the shell (`!`). The composer is empty now.
    Shell(String),
    /// The draft is to be edited with `$EDITOR`; what comes back goes to [`Composer::set_text`].
    Editor(String),
    /// A picture is wanted from the clipboard: [`clipboard_picture`], not on the thread that draws; then [`Composer::attach`].
    Clipboard,
    /// Something is to be said to the user, in one line.
    Say(String),
}

/// The parts of a prompt that was typed elsewhere: its words, and the files of a folder that it names with `@`.
pub fn parts(text: &str, folder: &Path) -> Vec<Part> {
    attach::parts(text, &[], folder)
}

/// Where a prompt is written.
#[derive(Debug, Default)]
pub struct Composer {
    text: Text,
    folder: PathBuf,
    history: History,
    /// So many steps back in the history; what was written before.
    back: Option<(usize, String)>,
    chips: Vec<Chip>,
    /// So many there were.
    chip_count: usize,
    commands: Vec<Command>,
    files: Files,
    /// To be called when something changed that no key brought.
    woken: Option<Wake>,
    offers: Option<Offers>,
    /// For this word nothing is offered any more.
    declined: Option<String>,
    pace: Pace,
    /// So large it was drawn last.
    drawn: Size,
}

/// The text, as it is edited.
#[derive(Debug)]
struct Text(TextArea<'static>);

impl Default for Text {
    fn default() -> Self {
        Self(area(""))
    }
}

impl std::ops::Deref for Text {
    type Target = TextArea<'static>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::ops::DerefMut for Text {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

fn area(text: &str) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.set_wrap_mode(WrapMode::WordOrGlyph);
    // The terminal's own cursor is the caret; none is painted.
    area.set_cursor_line_style(Style::new());
    area.set_cursor_style(Style::new());
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

impl Composer {
    /// Writes for a folder: its files can be named, its history and the draft of this name are kept below `state`. Brings the draft
    /// back; where something is written already it goes into the history.
    pub fn open(&mut self, folder: &Path, state: Option<&Path>, draft: &str) {
        folder.clone_into(&mut self.folder);
        self.files = Files::below(folder);
        if let Some(history) = state.and_then(|state| History::open(state, folder, draft).ok()) {
            self.history = history;
        }
        match self.history.draft() {
            Some(draft) if self.is_empty() => return self.write(&draft),
            Some(draft) => self.history.push(&draft),
            None => {}
        }
        self.keep();
    }

    /// The session of the draft is known now: with it the draft is found again.
    pub fn name_draft(&mut self, session: &str) {
        self.history.name_draft(session);
        self.keep();
    }

    /// Takes drafts that were left behind in this folder into the history. True if there are.
    pub fn adopt_drafts(&mut self) -> bool {
        self.history.adopt_drafts()
    }

    /// To be called, from any thread, when the list of files is there and the screen is to be drawn again.
    pub fn wake_with(&mut self, woken: Wake) {
        self.woken = Some(woken);
    }

    /// The commands of the agent.
    pub fn set_commands(&mut self, commands: &[Command]) {
        self.commands = commands.to_vec();
    }

    /// A key was pressed.
    pub fn key(&mut self, key: KeyEvent, now: Instant) -> Deed {
        if key.kind == KeyEventKind::Release {
            return Deed::None;
        }
        if self.pace.key(now) {
            self.text.insert_newline();
        }
        let deed = self.offers_key(key).unwrap_or_else(|| self.text_key(key));
        if !matches!(deed, Deed::Pass) {
            self.offer();
            self.keep();
        }
        deed
    }

    fn text_key(&mut self, key: KeyEvent) -> Deed {
        const NONE: KeyModifiers = KeyModifiers::NONE;
        const CTRL: KeyModifiers = KeyModifiers::CONTROL;
        match (key.code, key.modifiers) {
            (KeyCode::Enter, NONE) => return self.enter(),
            (KeyCode::Enter, _) | (KeyCode::Char('j'), CTRL) => self.text.insert_newline(),
            (KeyCode::Char('c'), CTRL) if !self.is_empty() => self.put_away(),
            (KeyCode::Char('c' | 'd'), CTRL) if self.is_empty() => return Deed::Pass,
            (KeyCode::Char('g'), CTRL) => return Deed::Editor(attach::written_out(&self.text(), &self.chips)),
            (KeyCode::Char('v'), CTRL) => return Deed::Clipboard,
            (KeyCode::Char('u'), CTRL) => _ = self.text.delete_line_by_head(),
            (KeyCode::Char('_' | '/' | '7'), CTRL) => _ = self.text.undo(),
            (KeyCode::Up, NONE) if self.text.cursor().0 == 0 => return self.step_back(),
            (KeyCode::Down, NONE) if self.text.cursor().0 + 1 == self.text.lines().len() => return self.step_on(),
            (KeyCode::Backspace, NONE) if self.delete_chip() => {}
            (KeyCode::Tab | KeyCode::BackTab | KeyCode::Esc | KeyCode::PageUp | KeyCode::PageDown, _) => {
                return Deed::Pass;
            }
            _ => {
                let before = self.text.cursor();
                // Keys of the text area that others know as something else.
                let ours =
                    key.modifiers == CTRL && matches!(key.code, KeyCode::Char('p' | 'n' | 'x' | 'y' | 'm' | 'v' | 'z'));
                if ours || !(self.text.input(key) || self.text.cursor() != before) {
                    return Deed::Pass;
                }
            }
        }
        if !matches!(key.code, KeyCode::Up | KeyCode::Down) {
            self.stay();
        }
        Deed::None
    }

    fn enter(&mut self) -> Deed {
        let DataCursor(row, column) = self.text.cursor();
        let line = self.text.lines().get(row).map(String::as_str).unwrap_or_default();
        if line.ends_with('\\') && line.chars().count() == column {
            self.text.delete_char();
            self.text.insert_newline();
            return Deed::None;
        }
        match self.pace.enter() {
            Enter::Sends => return self.send(),
            Enter::Breaks => self.text.insert_newline(),
            Enter::Waits => {}
        }
        Deed::None
    }

    /// Nobody took keys for this long: those that come together now were typed one by one.
    pub fn was_busy(&mut self, time: Duration, now: Instant) {
        self.pace.was_busy(time, now);
    }

    /// When [`Self::tick`] is to be called, if it is.
    pub fn due(&self) -> Option<Instant> {
        self.pace.due()
    }

    /// What time alone does: an Enter that nothing followed sends.
    pub fn tick(&mut self, now: Instant) -> Deed {
        if !self.pace.sends(now) {
            return Deed::None;
        }
        let deed = self.send();
        self.keep();
        deed
    }

    fn send(&mut self) -> Deed {
        let text = self.text();
        if text.trim().is_empty() {
            self.write("");
            return Deed::None;
        }
        self.history.push(&attach::written_out(&text, &self.chips));
        let deed = match text.strip_prefix('!') {
            Some(line) if !line.trim().is_empty() => Deed::Shell(attach::written_out(line.trim(), &self.chips)),
            _ => Deed::Submit(attach::parts(&text, &self.chips, &self.folder)),
        };
        self.clear();
        deed
    }

    /// Puts the draft into the history and begins anew.
    fn put_away(&mut self) {
        self.history.push(&attach::written_out(&self.text(), &self.chips));
        self.clear();
    }

    fn clear(&mut self) {
        (self.offers, self.declined) = (None, None);
        self.stay();
        self.write("");
        self.chips.clear();
    }

    /// One step back in the history; what is written is kept for the way back.
    fn step_back(&mut self) -> Deed {
        let (steps, draft) = self.back.take().unwrap_or_else(|| (0, self.text()));
        match self.history.back(steps).map(str::to_owned) {
            Some(entry) => {
                self.write(&entry);
                self.back = Some((steps + 1, draft));
                Deed::None
            }
            None if steps > 0 => {
                self.back = Some((steps, draft));
                Deed::None
            }
            None => Deed::Pass,
        }
    }

    /// There is no way back any more: what was written before goes into the history.
    fn stay(&mut self) {
        if let Some((_, draft)) = self.back.take() {
            self.history.push(&attach::written_out(&draft, &self.chips));
        }
    }

    fn step_on(&mut self) -> Deed {
        let Some((steps, draft)) = self.back.take() else { return Deed::Pass };
        match steps.checked_sub(2).and_then(|steps| self.history.back(steps)).map(str::to_owned) {
            Some(entry) => {
                self.write(&entry);
                self.back = Some((steps - 1, draft));
            }
            None => self.write(&draft),
        }
        Deed::None
    }

    /// A chip before the caret goes as a whole.
    fn delete_chip(&mut self) -> bool {
        let DataCursor(row, column) = self.text.cursor();
        let line = self.text.lines().get(row).map(String::as_str).unwrap_or_default();
        let before: String = line.chars().take(column).collect();
        let Some(chip) = self.chips.iter().position(|chip| before.ends_with(&chip.label)) else { return false };
        let chip = self.chips.remove(chip);
        (0..chip.label.chars().count()).for_each(|_| _ = self.text.delete_char());
        true
    }

    /// Text was pasted.
    pub fn paste(&mut self, text: &str, now: Instant) -> Deed {
        self.pace.paste(now);
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if let Some(path) = attach::picture_path(&text).filter(|path| path.exists()) {
            return self.attach(&path);
        }
        // What drives a terminal has no place in a prompt.
        let text: String = text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
        match attach::long_paste(&text, self.chip_count + 1) {
            Some(chip) => self.add(chip),
            None => _ = self.text.insert_str(&text),
        }
        self.stay();
        self.offer();
        self.keep();
        Deed::None
    }

    /// Attaches a picture, and says what happened.
    pub fn attach(&mut self, path: &Path) -> Deed {
        match attach::picture(path, self.chip_count + 1) {
            Ok(chip) => {
                let said = format!("{} is attached", chip.label.trim_matches(['[', ']']));
                self.add(chip);
                self.keep();
                Deed::Say(said)
            }
            Err(why) => Deed::Say(why),
        }
    }

    fn add(&mut self, chip: Chip) {
        self.chip_count += 1;
        self.text.insert_str(&chip.label);
        self.text.insert_char(' ');
        self.chips.push(chip);
    }

    /// What is written, with chips as they are written.
    pub fn text(&self) -> String {
        self.text.lines().join("\n")
    }

    /// Replaces what is written by what an editor brought back. Pictures stay attached as long as their words stand there.
    pub fn set_text(&mut self, text: &str) {
        let chips = std::mem::take(&mut self.chips);
        self.clear();
        self.chips.extend(chips.into_iter().filter(|chip| matches!(chip.what, Stands::Picture(_))));
        self.write(text);
        self.keep();
    }

    /// What was said before in this folder, the last first.
    pub fn said_before(&self) -> impl Iterator<Item = &str> {
        self.history.all()
    }

    /// Writes something else. A draft makes room for it.
    pub fn write_instead(&mut self, text: &str) {
        self.put_away();
        self.write(text);
        self.keep();
    }

    /// Brings a prompt back that was not sent after all. A draft makes room for it.
    pub fn take_back(&mut self, parts: &[Part]) {
        self.put_away();
        let texts = parts.iter().filter_map(|part| match part {
            Part::Text(text) | Part::Piped(text) => Some(text.as_str()),
            _ => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        for part in parts {
            // Its label is in the text, as it was.
            let Part::Image { path, .. } = part else { continue };
            let name = sanitize::exact_line(&path.file_name().unwrap_or_default().to_string_lossy());
            let label = text.split('[').map(|rest| format!("[{rest}")).find_map(|rest| {
                let label = &rest[..=rest.find(']')?];
                (label.starts_with("[Picture ") && label.ends_with(&format!(": {name}]"))).then(|| label.to_owned())
            });
            self.chips.extend(label.map(|label| Chip { label, what: Stands::Picture(Box::new(part.clone())) }));
        }
        self.write(&text);
        self.keep();
    }

    fn write(&mut self, text: &str) {
        self.text = Text(area(text));
    }

    /// Keeps the draft on disk.
    fn keep(&self) {
        let draft = self.back.as_ref().map(|(_, draft)| draft.clone()).filter(|draft| !draft.is_empty());
        self.history.keep_draft(&attach::written_out(&draft.unwrap_or_else(|| self.text()), &self.chips));
    }

    /// True if nothing is written.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// When a key was last pressed or something pasted.
    pub fn last_touched(&self) -> Option<Instant> {
        self.pace.last()
    }

    /// So many rows it wants at this width, at most `most`.
    pub fn height(&self, columns: u16, most: u16) -> u16 {
        let mut rows = Vec::new();
        for line in self.text.lines() {
            wrap(&[Piece::new(line, PLAIN, 0)], usize::from(columns), Break::Words, 0, &mut rows);
            if rows.len() >= usize::from(most) {
                break;
            }
        }
        u16::try_from(rows.len()).unwrap_or(most).clamp(1, most.max(1))
    }

    /// Draws it. At another size it shows the caret and as much above it as fits: the text area would stay where it was.
    pub fn draw(&mut self, area: Rect, buffer: &mut Buffer) {
        if std::mem::replace(&mut self.drawn, area.as_size()) != area.as_size() {
            let DataCursor(row, column) = self.text.cursor();
            self.text.scroll((-i16::MAX, 0));
            let [row, column] = [row, column].map(|at| u16::try_from(at).unwrap_or(u16::MAX));
            self.text.move_cursor(CursorMove::Jump(row, column));
        }
        (&*self.text).render(area, buffer);
    }

    /// Where the caret stands, after it was drawn there.
    pub fn cursor(&self, area: Rect) -> Position {
        let (at, (top, left)) = (self.text.screen_cursor(), self.text.scroll_offset());
        let x = area.x + (at.col as u16).saturating_sub(left).min(area.width.saturating_sub(1));
        let y = area.y + (at.row as u16).saturating_sub(top).min(area.height.saturating_sub(1));
        Position { x, y }
    }
}
