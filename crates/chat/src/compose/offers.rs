//! What is offered below the text: files behind `@`, commands behind `/`; and the keys for it.

use super::complete::{self, Offer};
use super::{Composer, Deed};
use crate::rows::look::{PLAIN, QUIET, STRONG};
use crate::rows::wrap::{fit, width};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::{Line, Span};
use ratatui_textarea::DataCursor;
use tieline_client::sanitize;

/// What is offered below the text.
#[derive(Debug)]
pub(super) struct Offers {
    pub(super) list: Vec<Offer>,
    pub(super) chosen: usize,
}

impl Composer {
    /// A key while something is offered.
    pub(super) fn offers_key(&mut self, key: KeyEvent) -> Option<Deed> {
        let word = self.word();
        let offers = self.offers.as_mut()?;
        let last = offers.list.len().saturating_sub(1);
        match (key.code, key.modifiers) {
            (KeyCode::Up, KeyModifiers::NONE) => offers.chosen = offers.chosen.checked_sub(1).unwrap_or(last),
            (KeyCode::Down, KeyModifiers::NONE) => {
                offers.chosen = if offers.chosen >= last { 0 } else { offers.chosen + 1 }
            }
            (KeyCode::Esc, _) => (self.offers, self.declined) = (None, word),
            (KeyCode::Enter | KeyCode::Tab, KeyModifiers::NONE) => {
                let Offer { text, .. } = offers.list.get(offers.chosen)?.clone();
                self.offers = None;
                // What is typed already is sent.
                if key.code == KeyCode::Enter && word.as_ref() == Some(&text) {
                    return None;
                }
                (0..word.map_or(0, |word| word.chars().count())).for_each(|_| _ = self.text.delete_char());
                self.text.insert_str(&text);
                // Into a folder one may want to go on.
                if !text.ends_with('/') {
                    self.text.insert_char(' ');
                }
            }
            _ => return None,
        }
        Some(Deed::None)
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
    pub(super) fn offer(&mut self) {
        let word = self.word().filter(|word| self.declined.as_ref() != Some(word));
        let list = match &word {
            Some(word) if word.starts_with('@') => {
                let woken = self.woken.clone();
                self.files.look(move || woken.iter().for_each(|wake| (wake.0)()));
                self.files.offers(&word[1..])
            }
            Some(word) => complete::commands(&word[1..], &self.commands),
            None => Vec::new(),
        };
        let same = self.offers.take().filter(|offers| offers.list == list);
        let chosen = same.map_or(0, |offers| offers.chosen);
        self.offers = Some(Offers { list, chosen }).filter(|offers| !offers.list.is_empty());
    }

    /// The list of files is there: what is offered may be more now.
    pub fn woken(&mut self) {
        self.offer();
    }

    /// What is offered: rows to be shown beside the text, at most so many. None if nothing is.
    pub fn hints(&self, columns: u16, most: usize) -> Vec<Line<'static>> {
        let room = usize::from(columns);
        let Some(offers) = &self.offers else {
            let looking = self.files.is_looking() && self.word().is_some_and(|word| word.starts_with('@'));
            let words = if looking { Some("looking for files …".to_owned()) } else { self.command_hint() };
            return words.into_iter().take(most).map(|words| Line::styled(fit(&words, room), QUIET)).collect();
        };
        let row = |(number, offer): (usize, &Offer)| {
            let (sign, style) = if number == offers.chosen { ("› ", STRONG) } else { ("  ", PLAIN) };
            let text = fit(&format!("{sign}{}", sanitize::line(&offer.text)), room);
            let hint = fit(&format!("  {}", offer.hint), room.saturating_sub(width(&text)));
            Line::from(vec![Span::styled(text, style), Span::styled(hint, QUIET)])
        };
        offers.list.iter().enumerate().take(most).map(row).collect()
    }

    /// What may follow a command that is written.
    fn command_hint(&self) -> Option<String> {
        let line = self.text.lines().first()?.strip_prefix('/')?;
        let name = line.strip_suffix(' ')?;
        let offer = complete::commands(name, &self.commands).into_iter().find(|offer| offer.text[1..] == *name)?;
        Some(offer.hint).filter(|hint| !hint.is_empty())
    }
}
