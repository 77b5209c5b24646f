//! The composer: where a prompt is written. Lines, history, drafts on disk, pastes, files, commands and pictures; the caret is the
//! terminal's own.

mod attach;
mod complete;
mod history;

pub use attach::clipboard_picture;
use attach::{Chip, Stands};
use complete::{Files, MAX_OFFERS, Offer};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use history::History;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::Span;
use ratatui::widgets::Widget as _;
use ratatui_textarea::{CursorMove, DataCursor, TextArea, WrapMode};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline::schema::Command;
use tieline_client::live::Part;
use tieline_client::sanitize;

use crate::rows::Row;
use crate::rows::look::{PLAIN, QUIET, STRONG};
use crate::rows::wrap::{Break, Piece, fit, width, wrap};

/// Keys that come faster are no typing but a paste of a terminal that does not say so.
const BURST_GAP: Duration = Duration::from_millis(8);
/// So many of them, one after the other.
const BURST_KEYS: usize = 3;
/// An Enter behind such keys sends, if nothing follows it for this long.
const BURST_END: Duration = Duration::from_millis(60);

/// Nobody types two keys in less; so many of them may have waited while we were busy.
const TYPED_GAP: Duration = Duration::from_millis(40);
/// Keys that waited come within this time.
const WAITED: Duration = Duration::from_millis(100);

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
#[derive(Debug)]
pub struct Composer {
    text: TextArea<'static>,
    placeholder: String,
    touched: Option<Instant>,
    folder: PathBuf,
    history: History,
    /// So many steps back in the history; what was written before.
    back: Option<(usize, String)>,
    chips: Vec<Chip>,
    /// So many there were.
    chip_count: usize,
    commands: Vec<Command>,
    files: Files,
    woken: Waker,
    offers: Option<Offers>,
    /// For this word nothing is offered any more.
    declined: Option<String>,
    /// Keys that came right behind each other.
    burst: usize,
    /// A line was broken among them: it is a paste.
    burst_lines: bool,
    /// An Enter behind such keys that may be the last: nobody knows yet if it breaks the line or sends.
    held: Option<Instant>,
    /// The terminal says what is pasted.
    pastes: bool,
    /// So many keys may have been typed while nobody took them, and when that was over.
    waited: Option<(Instant, u128)>,
}

/// Called when something changed that no key brought.
#[derive(Clone)]
struct Waker(Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// What is offered below the text.
#[derive(Debug)]
struct Offers {
    list: Vec<Offer>,
    chosen: usize,
    /// Words that are looked for in the history; `None` for what follows `@` and `/`.
    search: Option<String>,
}

impl Default for Composer {
    fn default() -> Self {
        Self {
            text: area(""),
            placeholder: String::new(),
            touched: None,
            folder: PathBuf::new(),
            history: History::default(),
            back: None,
            chips: Vec::new(),
            chip_count: 0,
            commands: Vec::new(),
            files: Files::default(),
            woken: Waker(Arc::new(|| {})),
            offers: None,
            declined: None,
            burst: 0,
            burst_lines: false,
            held: None,
            pastes: false,
            waited: None,
        }
    }
}

fn area(text: &str) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.set_wrap_mode(WrapMode::WordOrGlyph);
    // The terminal's own cursor is the caret; none is painted.
    area.set_cursor_line_style(Style::new());
    area.set_cursor_style(Style::new());
    area.set_placeholder_style(QUIET);
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

impl Composer {
    /// Writes for a folder: its files can be named, its history and the draft of this name are kept below `state`. Brings the draft
    /// back unless something is written already.
    pub fn open(&mut self, folder: &Path, state: Option<&Path>, draft: &str) {
        folder.clone_into(&mut self.folder);
        self.files = Files::below(folder);
        if let Some(history) = state.and_then(|state| History::open(state, folder, draft).ok()) {
            self.history = history;
        }
        match self.history.draft().filter(|_| self.is_empty()) {
            Some(draft) => self.write(&draft),
            None => self.keep(),
        }
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
    pub fn wake_with(&mut self, woken: impl Fn() + Send + Sync + 'static) {
        self.woken = Waker(Arc::new(woken));
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
        let waited = self.waited.as_mut().filter(|(at, left)| *left > 0 && *at + WAITED > now);
        let fast =
            waited.is_none() && self.touched.is_some_and(|before| now.saturating_duration_since(before) < BURST_GAP);
        if let Some((_, left)) = waited {
            *left -= 1;
        }
        self.burst = if fast { self.burst + 1 } else { 0 };
        self.burst_lines &= fast;
        if self.held.take().is_some() {
            self.text.insert_newline();
            self.burst_lines = true;
        }
        self.touched = Some(now);
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
            (KeyCode::Char('r'), CTRL) => {
                self.offers = Some(Offers { list: Vec::new(), chosen: 0, search: Some(String::new()) });
                self.search();
            }
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
            self.back = None;
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
        // Among keys that nobody types so fast it is a line of a paste, unless it is the last of them: a machine that is slow, or
        // a program that types, brings them together, too.
        if !self.pastes && self.burst >= BURST_KEYS {
            if self.burst_lines {
                self.text.insert_newline();
            } else {
                self.held = self.touched;
            }
            return Deed::None;
        }
        self.send()
    }

    /// Nobody took keys for this long: those that come together now were typed one by one.
    pub fn was_busy(&mut self, time: Duration, now: Instant) {
        self.waited = Some((now, time.as_millis() / TYPED_GAP.as_millis()));
    }

    /// When [`Self::tick`] is to be called, if it is.
    pub fn due(&self) -> Option<Instant> {
        self.held.map(|held| held + BURST_END)
    }

    /// What time alone does: an Enter that nothing followed sends.
    pub fn tick(&mut self, now: Instant) -> Deed {
        if self.due().is_none_or(|due| due > now) {
            return Deed::None;
        }
        self.held = None;
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
        (self.offers, self.declined, self.back) = (None, None, None);
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
        (self.touched, self.pastes) = (Some(now), true);
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
        self.back = None;
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

    /// A key while something is offered.
    fn offers_key(&mut self, key: KeyEvent) -> Option<Deed> {
        let word = self.word();
        let offers = self.offers.as_mut()?;
        let last = offers.list.len().saturating_sub(1);
        match (key.code, key.modifiers) {
            (KeyCode::Up, KeyModifiers::NONE) => offers.chosen = offers.chosen.checked_sub(1).unwrap_or(last),
            (KeyCode::Down, KeyModifiers::NONE) => {
                offers.chosen = if offers.chosen >= last { 0 } else { offers.chosen + 1 }
            }
            (KeyCode::Char('r'), KeyModifiers::CONTROL) if offers.search.is_some() => {
                offers.chosen = if offers.chosen >= last { 0 } else { offers.chosen + 1 };
            }
            (KeyCode::Esc, _) | (KeyCode::Char('c' | 'g'), KeyModifiers::CONTROL) if offers.search.is_some() => {
                self.offers = None;
            }
            (KeyCode::Esc, _) => (self.offers, self.declined) = (None, word),
            (KeyCode::Enter | KeyCode::Tab, KeyModifiers::NONE) => {
                let taken = offers.list.get(offers.chosen).cloned();
                let search = offers.search.is_some();
                self.offers = None;
                match taken {
                    Some(offer) if search => self.write(&offer.text),
                    // What is typed already is sent.
                    Some(offer) if key.code == KeyCode::Enter && Some(&offer.text) == word.as_ref() => return None,
                    Some(offer) => {
                        (0..word.map_or(0, |word| word.chars().count())).for_each(|_| _ = self.text.delete_char());
                        self.text.insert_str(&offer.text);
                        // Into a folder one may want to go on.
                        if !offer.text.ends_with('/') {
                            self.text.insert_char(' ');
                        }
                    }
                    None if search => {}
                    None => return None,
                }
            }
            (KeyCode::Char(c), KeyModifiers::NONE | KeyModifiers::SHIFT) if offers.search.is_some() => {
                offers.search.get_or_insert_default().push(c);
                self.search();
            }
            (KeyCode::Backspace, KeyModifiers::NONE) if offers.search.is_some() => {
                offers.search.get_or_insert_default().pop();
                self.search();
            }
            _ if offers.search.is_some() => {
                self.offers = None;
                return None;
            }
            _ => return None,
        }
        Some(Deed::None)
    }

    fn search(&mut self) {
        let Some(Offers { search: Some(words), .. }) = &self.offers else { return };
        let offer = |text: &&str| Offer { text: (*text).to_owned(), hint: String::new() };
        let (list, words) = (self.history.find(words, MAX_OFFERS).iter().map(offer).collect(), words.clone());
        self.offers = Some(Offers { list, chosen: 0, search: Some(words) });
    }

    /// The word before the caret that something can be offered for.
    fn word(&self) -> Option<String> {
        let DataCursor(row, column) = self.text.cursor();
        let before: String = self.text.lines().get(row)?.chars().take(column).collect();
        let word = before.rsplit(char::is_whitespace).next()?;
        let command = row == 0 && word.starts_with('/') && word.len() == before.len();
        (command || word.starts_with('@')).then(|| word.to_owned())
    }

    /// Offers what can follow what is written.
    fn offer(&mut self) {
        if self.offers.as_ref().is_some_and(|offers| offers.search.is_some()) {
            return;
        }
        let word = self.word().filter(|word| self.declined.as_ref() != Some(word));
        let list = match &word {
            Some(word) if word.starts_with('@') => {
                let woken = self.woken.clone();
                self.files.look(move || woken.0());
                self.files.offers(&word[1..])
            }
            Some(word) => complete::commands(&word[1..], &self.commands),
            None => Vec::new(),
        };
        let same = self.offers.take().filter(|offers| offers.list == list);
        let chosen = same.map_or(0, |offers| offers.chosen);
        self.offers = Some(Offers { list, chosen, search: None }).filter(|offers| !offers.list.is_empty());
    }

    /// The list of files is there: what is offered may be more now.
    pub fn woken(&mut self) {
        self.offer();
    }

    /// What is offered, and what is looked for: rows to be shown beside the text, at most so many. None if nothing is.
    pub fn hints(&self, columns: u16, most: usize) -> Vec<Row> {
        let room = usize::from(columns);
        let row = |spans: Vec<Span<'static>>| Row { spans, gutter: columns, ..Row::default() };
        let Some(offers) = &self.offers else {
            let looking = self.files.is_looking() && self.word().is_some_and(|word| word.starts_with('@'));
            let words = if looking { Some("looking for files …".to_owned()) } else { self.command_hint() };
            return words
                .map(|words| row(vec![Span::styled(fit(&words, room), QUIET)]))
                .into_iter()
                .take(most)
                .collect();
        };
        let mut rows = Vec::new();
        if let Some(words) = &offers.search {
            let found = if offers.list.is_empty() { "  nothing found" } else { "" };
            rows.push(row(vec![Span::styled(
                fit(&format!("said before: {}{found}", sanitize::line(words)), room),
                STRONG,
            )]));
        }
        for (number, offer) in offers.list.iter().enumerate() {
            let (sign, style) = if number == offers.chosen { ("› ", STRONG) } else { ("  ", PLAIN) };
            let text = fit(&format!("{sign}{}", sanitize::line(&offer.text)), room);
            let hint = fit(&format!("  {}", offer.hint), room.saturating_sub(width(&text)));
            rows.push(row(vec![Span::styled(text, style), Span::styled(hint, QUIET)]));
        }
        rows.truncate(most);
        rows
    }

    /// What may follow a command that is written.
    fn command_hint(&self) -> Option<String> {
        let line = self.text.lines().first()?.strip_prefix('/')?;
        let name = line.strip_suffix(' ')?;
        let offer = complete::commands(name, &self.commands).into_iter().find(|offer| offer.text[1..] == *name)?;
        Some(offer.hint).filter(|hint| !hint.is_empty())
    }

    /// What is written, with chips as they are written.
    pub fn text(&self) -> String {
        self.text.lines().join("\n")
    }

    /// Replaces what is written, such as by what an editor brought back.
    pub fn set_text(&mut self, text: &str) {
        self.clear();
        self.write(text);
        self.keep();
    }

    /// Brings a prompt back that was not sent after all.
    pub fn take_back(&mut self, parts: &[Part]) {
        self.clear();
        let texts = parts.iter().filter_map(|part| match part {
            Part::Text(text) | Part::Piped(text) => Some(text.as_str()),
            _ => None,
        });
        let text = texts.collect::<Vec<_>>().join("\n");
        for part in parts.iter().filter(|part| matches!(part, Part::Image { .. })) {
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
        self.text = area(text);
        self.text.set_placeholder_text(self.placeholder.as_str());
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
        self.touched
    }

    /// What stands there while nothing is written.
    pub fn set_placeholder(&mut self, words: &str) {
        words.clone_into(&mut self.placeholder);
        self.text.set_placeholder_text(words);
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

    /// Draws it.
    pub fn draw(&self, area: Rect, buffer: &mut Buffer) {
        (&self.text).render(area, buffer);
    }

    /// Where the caret stands, after it was drawn there.
    pub fn cursor(&self, area: Rect) -> Position {
        let (at, (top, left)) = (self.text.screen_cursor(), self.text.scroll_offset());
        let x = area.x + (at.col as u16).saturating_sub(left).min(area.width.saturating_sub(1));
        let y = area.y + (at.row as u16).saturating_sub(top).min(area.height.saturating_sub(1));
        Position { x, y }
    }
}
