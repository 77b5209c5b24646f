//! What was sent before in this folder, and the draft: kept on disk, so that nothing that was typed is lost.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tieline_host::whole::write_own;

/// So many prompts are remembered.
const MAX_ENTRIES: usize = 1000;
/// So much is read of the file, from its end, in bytes.
const MAX_READ_BYTES: u64 = 1 << 20;
/// A file that is longer is written anew with what is remembered, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// A longer prompt is remembered for this run only, in bytes.
const MAX_ENTRY_BYTES: usize = 64 << 10;

/// What was sent before, the oldest first.
#[derive(Debug, Default)]
pub struct History {
    entries: Vec<String>,
    files: Option<Files>,
}

#[derive(Debug)]
struct Files {
    history: PathBuf,
    draft: PathBuf,
}

impl History {
    /// What is known of a folder, kept below `state`. Drafts have a name, one for each session.
    pub fn open(state: &Path, folder: &Path, draft: &str) -> io::Result<Self> {
        let below = state.join("chat");
        std::fs::create_dir_all(&below)?;
        let history = below.join(format!("{}.history", key(folder)));
        let draft = draft_path(&history, draft);
        let mut entries = Vec::new();
        if let Ok(mut file) = File::open(&history) {
            let length = file.metadata()?.len();
            file.seek(SeekFrom::Start(length.saturating_sub(MAX_READ_BYTES)))?;
            let mut bytes = Vec::new();
            file.take(MAX_READ_BYTES).read_to_end(&mut bytes)?;
            let text = String::from_utf8_lossy(&bytes);
            // A line that is cut or was not written to its end is no string and is passed over.
            entries.extend(text.lines().filter_map(|line| serde_json::from_str::<String>(line).ok()));
            if length > MAX_FILE_BYTES {
                let lines: String = entries.iter().map(|entry| json(entry) + "\n").collect();
                write_own(&history, lines.as_bytes(), false)?;
            }
        }
        entries.drain(..entries.len().saturating_sub(MAX_ENTRIES));
        Ok(Self { entries, files: Some(Files { history, draft }) })
    }

    /// Remembers a prompt, at once on disk.
    pub fn push(&mut self, text: &str) {
        if text.trim().is_empty() || self.entries.last().is_some_and(|last| last == text) {
            return;
        }
        self.entries.push(text.to_owned());
        if self.entries.len() > MAX_ENTRIES {
            self.entries.remove(0);
        }
        if let Some(files) = self.files.as_ref().filter(|_| text.len() <= MAX_ENTRY_BYTES)
            && let Ok(mut file) = OpenOptions::new().append(true).create(true).mode(0o600).open(&files.history)
        {
            // One write, so that two chats in one folder don't mix their lines.
            let _ = file.write_all((json(text) + "\n").as_bytes());
        }
    }

    /// The prompt so many steps back; 0 is the last one.
    pub fn back(&self, steps: usize) -> Option<&str> {
        self.entries.iter().rev().nth(steps).map(String::as_str)
    }

    /// All of them, the last first, each once.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        let mut seen = HashSet::new();
        self.entries.iter().rev().map(String::as_str).filter(move |entry| seen.insert(*entry))
    }

    /// Keeps the draft, or forgets it if it is empty.
    pub fn keep_draft(&self, text: &str) {
        let Some(files) = &self.files else { return };
        let _ = if text.is_empty() {
            std::fs::remove_file(&files.draft)
        } else {
            write_own(&files.draft, text.as_bytes(), false)
        };
    }

    /// The draft has another name from now on.
    pub fn name_draft(&mut self, name: &str) {
        let Some(files) = &mut self.files else { return };
        let path = draft_path(&files.history, name);
        if path != files.draft {
            let _ = std::fs::remove_file(&files.draft);
            files.draft = path;
        }
    }

    /// Takes in the drafts that other sessions in this folder left behind: they are the last things said before. True if there are.
    pub fn adopt_drafts(&mut self) -> bool {
        let Some(Files { history, draft }) = &self.files else { return false };
        let (own, begin) = (draft.clone(), draft_path(history, "").with_extension(""));
        let begin = begin.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(all) = history.parent().and_then(|folder| std::fs::read_dir(folder).ok()) else { return false };
        let mut left: Vec<_> = all.flatten().map(|file| file.path()).collect();
        left.retain(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            *path != own && name.starts_with(&begin) && name.ends_with(".draft")
        });
        left.sort_by_key(|path| path.metadata().and_then(|meta| meta.modified()).ok());
        for path in &left {
            if let Ok(text) = std::fs::read_to_string(path) {
                self.push(&text);
            }
            let _ = std::fs::remove_file(path);
        }
        !left.is_empty()
    }

    /// The draft that was kept.
    pub fn draft(&self) -> Option<String> {
        let files = self.files.as_ref()?;
        std::fs::read_to_string(&files.draft).ok().filter(|text| !text.is_empty())
    }
}

fn draft_path(history: &Path, name: &str) -> PathBuf {
    let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(64).collect();
    let key = history.file_stem().unwrap_or_default().to_string_lossy();
    history.with_file_name(format!("{key}-{name}.draft"))
}

/// What a folder is called here: the same with every version of us (FNV-1a).
fn key(folder: &Path) -> String {
    let bytes = folder.as_os_str().as_encoded_bytes();
    let hash = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", bytes.iter().fold(0xcbf2_9ce4_8422_2325, hash))
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
