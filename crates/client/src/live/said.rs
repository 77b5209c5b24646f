//! What one side said: messages that grow or are replaced, kept without holding them all in memory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::io::{self, Read, Seek, SeekFrom, Write};
use tempfile::SpooledTempFile;

/// How much is read at once.
const PIECE: usize = 64 * 1024;
/// More messages of one turn than this are told as part of the last one.
const MESSAGES: usize = 10_000;
/// So many times a message may be left and taken up again; from then on all is told as part of the last one.
const MAX_PARTS: usize = 500_000;

/// So many bytes stay in memory, the rest is in a file without a name.
const MEMORY: usize = 1 << 20;
/// What was said last is written there in pieces of so many bytes, not word by word.
const TAIL_BYTES: usize = 16 << 10;

/// The agent's messages, in order.
#[derive(Debug)]
pub struct Said {
    /// What was said, one after the other.
    store: RefCell<SpooledTempFile>,
    /// The end of it, which is not written there yet.
    tail: Vec<u8>,
    /// How many bytes are in both.
    size: u64,
    messages: Vec<Saying>,
    /// The first of the turn that runs, or ran last.
    first: usize,
    /// Where each message is, by its id, which may be long.
    places: HashMap<u64, usize>,
    keys: RandomState,
    /// How many parts they have.
    parts: usize,
    /// A chunk without an id goes on with the last message.
    run: bool,
    /// Where something was said last.
    at: usize,
    /// Something could not be kept.
    lost: bool,
}

impl Default for Said {
    fn default() -> Self {
        let store = RefCell::new(SpooledTempFile::new(MEMORY));
        let (messages, places, keys) = (Vec::new(), HashMap::new(), RandomState::new());
        Self {
            store,
            tail: Vec::new(),
            size: 0,
            messages,
            first: 0,
            places,
            keys,
            parts: 0,
            run: false,
            at: 0,
            lost: false,
        }
    }
}

#[derive(Debug, Default)]
struct Saying {
    parts: Vec<(u64, u64)>,
    /// How often it became another one.
    replaced: u64,
}

/// What is new for somebody who prints the text as it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// Goes on where the message ended.
    More(String),
    /// Begins another message.
    Fresh(String),
    /// The message is another one now; what was printed does not hold.
    Instead(String),
    /// Nothing.
    Nothing,
}

impl Said {
    /// Appends to a message.
    pub fn append(&mut self, id: Option<&str>, text: String) -> News {
        if text.is_empty() {
            return News::Nothing;
        }
        let (at, fresh) = self.place(id);
        self.add(at, &text);
        self.run = true;
        if fresh { News::Fresh(text) } else { News::More(text) }
    }

    /// Sets the whole text of a message.
    pub fn set(&mut self, id: &str, mut text: String) -> News {
        let (at, fresh) = self.place(Some(id));
        self.run = false;
        let had = self.length(at);
        if fresh || had == 0 {
            self.add(at, &text);
            return if text.is_empty() { News::Nothing } else { News::Fresh(text) };
        }
        if had <= text.len() as u64 && self.begins(at, &text) {
            let more = text.split_off(had as usize);
            self.add(at, &more);
            return if more.is_empty() { News::Nothing } else { News::More(more) };
        }
        self.messages[at].parts.clear();
        self.messages[at].replaced += 1;
        self.add(at, &text);
        News::Instead(text)
    }

    /// A turn begins: what was said before is no part of its answer, and an id from then is another message now.
    pub(super) fn begin_turn(&mut self) {
        (self.first, self.run) = (self.messages.len(), false);
        self.places.clear();
    }

    /// The number of the message that the last news is about.
    pub(super) fn last_at(&self) -> usize {
        self.at
    }

    /// How many messages there are.
    pub(super) fn count(&self) -> usize {
        self.messages.len()
    }

    /// Gives a message in pieces, by its number.
    pub(super) fn message(&self, number: usize, mut give: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        self.messages.get(number).map_or(Ok(()), |message| self.one(message, &mut give))
    }

    /// How often a message became another one, and its bytes.
    pub(super) fn state(&self, number: usize) -> Option<(u64, u64)> {
        let message = self.messages.get(number)?;
        Some((message.replaced, self.length(number)))
    }

    /// Some bytes of a message: whole characters from `from` on, at most `most` bytes.
    pub(super) fn piece(&self, number: usize, from: u64, most: usize) -> io::Result<String> {
        let Some(message) = self.messages.get(number) else { return Ok(String::new()) };
        let (mut bytes, mut skip) = (Vec::new(), from);
        for &(start, length) in &message.parts {
            if skip >= length {
                skip -= length;
                continue;
            }
            let take = (length - skip).min((most - bytes.len()) as u64);
            let at = bytes.len();
            bytes.resize(at + take as usize, 0);
            self.read(start + skip, &mut bytes[at..])?;
            skip = 0;
            if bytes.len() == most {
                break;
            }
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(text),
            // The last character may be cut.
            Err(error) => {
                let whole = error.utf8_error().valid_up_to();
                let mut bytes = error.into_bytes();
                bytes.truncate(whole);
                String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// The messages of the turn that say something.
    fn of_turn(&self) -> impl DoubleEndedIterator<Item = &Saying> {
        self.messages[self.first..].iter().filter(|message| !message.parts.is_empty())
    }

    /// Something else came: the next chunk without an id is another message.
    pub fn interrupt(&mut self) {
        self.run = false;
    }

    /// True if some of it could not be kept (no room on the disk).
    pub fn is_cut(&self) -> bool {
        self.lost
    }

    /// Gives all messages of the turn in pieces, an empty line between two. A piece is whole characters.
    pub fn all(&self, mut give: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        let mut first = true;
        for message in self.of_turn() {
            if !std::mem::take(&mut first) {
                give("\n\n")?;
            }
            self.one(message, &mut give)?;
        }
        Ok(())
    }

    /// Gives the last message of the turn in pieces.
    pub fn last(&self, mut give: impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        match self.of_turn().next_back() {
            Some(message) => self.one(message, &mut give),
            None => Ok(()),
        }
    }

    fn one(&self, message: &Saying, give: &mut impl FnMut(&str) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = vec![0; PIECE];
        for &(start, length) in &message.parts {
            let (mut at, end) = (start, start + length);
            while at < end {
                let piece = &mut buffer[..(end - at).min(PIECE as u64) as usize];
                self.read(at, piece)?;
                // The last character may be cut; it comes with the next piece.
                let whole = match std::str::from_utf8(piece) {
                    Ok(text) => text,
                    Err(error) if error.valid_up_to() == 0 => return Err(io::ErrorKind::InvalidData.into()),
                    Err(error) => std::str::from_utf8(&piece[..error.valid_up_to()]).unwrap_or_default(),
                };
                at += whole.len() as u64;
                give(whole)?;
            }
        }
        Ok(())
    }

    fn read(&self, from: u64, bytes: &mut [u8]) -> io::Result<()> {
        let written = self.size - self.tail.len() as u64;
        let (stored, tail) = bytes.split_at_mut(bytes.len().min(written.saturating_sub(from) as usize));
        if !stored.is_empty() {
            let mut store = self.store.borrow_mut();
            store.seek(SeekFrom::Start(from))?;
            store.read_exact(stored)?;
        }
        let skip = from.saturating_sub(written) as usize;
        (&self.tail[skip.min(self.tail.len())..]).read_exact(tail)
    }

    /// The place of a message, and whether it is new.
    fn place(&mut self, id: Option<&str>) -> (usize, bool) {
        let (at, fresh) = self.find(id);
        self.at = at;
        (at, fresh)
    }

    fn find(&mut self, id: Option<&str>) -> (usize, bool) {
        let key = id.map(|id| self.keys.hash_one(id));
        let last = self.messages.len().checked_sub(1);
        let known = match key {
            Some(key) => self.places.get(&key).copied(),
            None => last.filter(|_| self.run),
        };
        if let Some(at) = last.filter(|_| self.messages.len() - self.first >= MESSAGES || self.parts >= MAX_PARTS) {
            return (known.filter(|_| self.parts < MAX_PARTS).unwrap_or(at), false);
        }
        if let Some(at) = known {
            return (at, false);
        }
        self.places.extend(key.map(|key| (key, self.messages.len())));
        self.messages.push(Saying::default());
        (self.messages.len() - 1, true)
    }

    fn add(&mut self, at: usize, text: &str) {
        if text.is_empty() {
            return;
        }
        let (start, length) = (self.size, text.len() as u64);
        self.tail.extend_from_slice(text.as_bytes());
        if self.tail.len() >= TAIL_BYTES {
            let (store, begin) = (self.store.get_mut(), start + length - self.tail.len() as u64);
            if store.seek(SeekFrom::Start(begin)).and_then(|_| store.write_all(&self.tail)).is_err() {
                self.lost = true;
                self.tail.truncate((start - begin) as usize);
                return;
            }
            self.tail = Vec::new();
        }
        self.size += length;
        match self.messages[at].parts.last_mut() {
            Some((last, size)) if *last + *size == start => *size += length,
            _ => {
                self.messages[at].parts.push((start, length));
                self.parts += 1;
            }
        }
    }

    fn length(&self, at: usize) -> u64 {
        self.messages[at].parts.iter().map(|(_, length)| length).sum()
    }

    /// True if `text` begins with what the message says so far.
    fn begins(&self, at: usize, text: &str) -> bool {
        let mut rest = text;
        let compared = self.one(&self.messages[at], &mut |piece| match rest.strip_prefix(piece) {
            Some(after) => {
                rest = after;
                Ok(())
            }
            None => Err(io::ErrorKind::InvalidData.into()),
        });
        compared.is_ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn all(said: &Said) -> String {
        let mut text = String::new();
        said.all(|piece| {
            text.push_str(piece);
            Ok(())
        })
        .unwrap();
        text
    }

    #[test]
    fn messages_grow_and_are_replaced() {
        let mut said = Said::default();
        assert_eq!(said.append(None, "one ".into()), News::Fresh("one ".into()));
        assert_eq!(said.append(None, String::new()), News::Nothing);
        assert_eq!(said.append(None, "two".into()), News::More("two".into()));
        said.interrupt();
        assert_eq!(said.append(None, "three".into()), News::Fresh("three".into()));
        assert_eq!(said.append(Some("a"), "x".into()), News::Fresh("x".into()));
        assert_eq!(said.set("a", "xy".into()), News::More("y".into()));
        assert_eq!(said.set("a", "xy".into()), News::Nothing);
        assert_eq!(said.set("a", "z".into()), News::Instead("z".into()));
        assert_eq!(all(&said), "one two\n\nthree\n\nz");
        assert_eq!((said.state(0), said.state(2), said.state(3)), (Some((0, 7)), Some((1, 1)), None));
        let mut last = String::new();
        said.last(|piece| {
            last.push_str(piece);
            Ok(())
        })
        .unwrap();
        assert_eq!(last, "z");
    }

    #[test]
    fn much_text_goes_to_disk_and_comes_back_whole() {
        let mut said = Said::default();
        let piece = "é😀a".repeat(30_001);
        for _ in 0..40 {
            said.append(Some("m"), piece.clone());
            said.append(Some("n"), "-".into());
        }
        assert_eq!(all(&said), format!("{}\n\n{}", piece.repeat(40), "-".repeat(40)));
        // A piece begins and ends with whole characters, over the seams of what was kept apart.
        let (message, seam) = (piece.repeat(40), piece.len() as u64);
        assert_eq!(said.piece(0, 0, 4).unwrap(), "é");
        assert_eq!(said.piece(0, seam - 5, 13).unwrap(), "😀aé😀a");
        assert_eq!(said.piece(0, message.len() as u64 - 1, 100).unwrap(), "a");
        assert_eq!(said.piece(0, message.len() as u64, 100).unwrap(), "");
        assert!(!said.is_cut() && said.size > MEMORY as u64 && said.store.borrow().is_rolled());
    }
}
