//! The files of a session through one code path: the client's text where it offers it, the disk otherwise.

use crate::busy;
use crate::editor_files::{meant, same};
use crate::tools::ToolError;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::Error;
use tieline::agent::ClientHandle;
use tieline_host::files::{Expect, Files, Hash, Version, Write};
use tieline_host::roots::{self, Place, Roots};
use tieline_host::snapshot::Recorder;
use tieline_rpc::sync::Lock;

/// The code for a method that is not there.
const METHOD_NOT_FOUND: i64 = -32601;
/// The code for what is refused.
const PERMISSION_DENIED: i64 = -32003;

/// How a recorder takes note of a file.
type Note = fn(&Recorder, &Files, &Place) -> roots::Result<()>;

/// What the model has seen of each file: the hash of its text.
pub type Seen = Arc<Mutex<HashMap<PathBuf, Hash>>>;

/// The files of a session during one turn.
#[derive(Clone)]
pub struct Workspace {
    files: Files,
    seen: Seen,
    client: ClientHandle,
    recorder: Option<Arc<Recorder>>,
}

/// A text file as it is now.
#[derive(Clone, Debug)]
pub struct Now {
    /// Its text; `None` if there is no such file.
    pub text: Option<String>,
    /// Which version is on the disk; `None` if there is no file.
    pub version: Option<Version>,
    from_client: bool,
}

impl Workspace {
    /// The files below the roots of `files`, recorded for undo.
    pub fn new(files: Files, seen: Seen, client: ClientHandle, recorder: Option<Arc<Recorder>>) -> Self {
        let files = match &recorder {
            Some(recorder) => files.with_journal(Arc::clone(recorder)),
            None => files,
        };
        Self { files, seen, client, recorder }
    }

    /// The roots.
    pub fn roots(&self) -> &Roots {
        self.files.roots()
    }

    /// The files themselves, for work off the runtime.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The working directory.
    pub fn cwd(&self) -> PathBuf {
        let cwd = self.roots().list().next();
        cwd.map(|root| root.real_path().unwrap_or(root.given_path()).to_path_buf()).unwrap_or_default()
    }

    /// What a path means, or why it can't be used.
    pub fn place(&self, path: &str) -> Result<Place, ToolError> {
        Ok(self.roots().resolve(if path.is_empty() { "." } else { path })?)
    }

    /// The same for a name that is to be moved or deleted: a link stands for itself.
    pub fn entry(&self, path: &str) -> Result<Place, ToolError> {
        Ok(self.roots().resolve_entry(path)?)
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<PathBuf, Hash>> {
        self.seen.locked()
    }

    /// Does something with a place on the disk.
    pub async fn disk<T, E, W>(&self, place: &Place, work: W) -> Result<T, ToolError>
    where
        T: Send + 'static,
        E: Into<ToolError>,
        W: FnOnce(&Files, &Place) -> Result<T, E> + Send + 'static,
    {
        let (files, place) = (self.files.clone(), place.clone());
        blocking(move || work(&files, &place).map_err(Into::into)).await
    }

    /// The text of a file as the user sees it: unsaved text in an editor wins.
    pub async fn now(&self, place: &Place) -> Result<Now, ToolError> {
        if self.client.capabilities().fs_read {
            match self.client.read_text_file(&named(place)?, None, None).await {
                Ok(text) => {
                    let disk = self.or_version(self.on_disk(place).await, place).await?;
                    let is_no_text = disk.version.is_some() && disk.text.is_none();
                    let text = if is_no_text { Some(text) } else { meant(text, disk.text.as_deref()) };
                    return Ok(Now { text, version: disk.version, from_client: true });
                }
                // What is on the disk all the same must not be overwritten unseen.
                Err(error) if is_missing(&error) => {
                    if self.version(place).await?.is_none() {
                        return Ok(Now { text: None, version: None, from_client: true });
                    }
                }
                // A client that turns out not to read files leaves them to us.
                Err(Error::Unsupported(_) | Error::NotInDialect { .. }) => {}
                Err(error) if error.code() == Some(METHOD_NOT_FOUND) => {}
                // A no is a no: what the client does not show is not read from the disk.
                Err(error) => return Err(error.into()),
            }
        }
        self.on_disk(place).await
    }

    /// The same for a file that may be anything; what is no text has none.
    pub async fn anything(&self, place: &Place) -> Result<Now, ToolError> {
        self.or_version(self.now(place).await, place).await
    }

    /// What was read, or only the version of what is no text.
    async fn or_version(&self, read: Result<Now, ToolError>, place: &Place) -> Result<Now, ToolError> {
        match read {
            Ok(now) => Ok(now),
            Err(_) => Ok(Now { text: None, version: self.version(place).await?, from_client: false }),
        }
    }

    /// The text of a file on the disk.
    async fn on_disk(&self, place: &Place) -> Result<Now, ToolError> {
        self.disk(place, |files, place| match files.read_text(place) {
            Ok(text) => Ok(Now { text: Some(text.text), version: Some(text.version), from_client: false }),
            Err(roots::Error::NotFound(_)) => Ok(Now { text: None, version: None, from_client: false }),
            Err(error) => Err(error),
        })
        .await
    }

    /// Which version is on the disk; `None` if there is no file.
    pub async fn version(&self, place: &Place) -> Result<Option<Version>, ToolError> {
        self.disk(place, Files::version).await
    }

    /// Notes that the model has seen this text.
    pub fn saw(&self, place: &Place, text: &str) {
        self.seen().insert(place.real_path(), Hash::of(text.as_bytes()));
    }

    /// Refuses a file that is not what the model last saw of it.
    pub fn check_fresh(&self, place: &Place, now: &Now) -> Result<(), ToolError> {
        let path = place.real_path();
        match (self.seen().get(&path), &now.text) {
            (Some(seen), Some(text)) if *seen != Hash::of(text.as_bytes()) => {
                Err(format!("{} changed since it was read; read it again first", roots::shown(&path)).into())
            }
            _ => Ok(()),
        }
    }

    /// Writes a whole file, if it still is what `before` says. The client's text is looked at again only if some time has
    /// `passed` since then; the disk always is. False if the client made something else of the text, such as formatted it.
    pub async fn write(&self, place: &Place, before: &Now, text: &str, passed: bool) -> Result<bool, ToolError> {
        let shown = || roots::shown(&place.real_path());
        let can = self.client.capabilities();
        if passed && (can.fs_write || before.from_client) && self.now(place).await?.text != before.text {
            return Err(format!("{} changed meanwhile; read it again first", shown()).into());
        }
        let mut held = None;
        if can.fs_write {
            held = self.write_by_client(place, text).await?;
            // Some clients answer a write that failed like one that did not.
            let same = held == before.text && text != before.text.as_deref().unwrap_or_default();
            if same && can.fs_read {
                return Err(format!("the client did not write {}", shown()).into());
            }
        } else {
            let (bytes, how) = (text.as_bytes().to_vec(), Write::expecting(expect(before.version)).with_parents());
            self.disk(place, move |files, place| files.write(place, &bytes, &how).map(drop)).await?;
        }
        let held = held.as_deref().unwrap_or(text);
        self.saw(place, held);
        Ok(same(held, text))
    }

    /// Has the client put back what a file was. False if it takes no files; refused if it shows what is not saved.
    pub async fn put_back(&self, path: &Path, text: &str) -> Result<bool, ToolError> {
        if !self.client.capabilities().fs_write {
            return Ok(false);
        }
        let place = self.roots().resolve(path)?;
        let disk = self.or_version(self.on_disk(&place).await, &place).await?;
        if self.now(&place).await?.text != disk.text {
            return Err("it has changes that are not saved".into());
        }
        self.write_by_client(&place, text).await?;
        self.saw(&place, text);
        Ok(true)
    }

    /// Has the client write a file, recorded for undo. Gives what it holds then.
    async fn write_by_client(&self, place: &Place, text: &str) -> Result<Option<String>, ToolError> {
        let name = named(place)?;
        self.record(place, Recorder::before).await?;
        // Not every client makes the folder, and it may have a disk of its own.
        if let Some(folder) = place.parent_folder()
            && let Err(error) = self.disk(&folder, |files, folder| files.create_dirs(folder).map(drop)).await
        {
            tracing::debug!(%error, "a folder could not be made");
        }
        self.client.write_text_file(&name, text).await?;
        let mut held = self.now(place).await?.text;
        // Where the text becomes lines, its last newline may become an empty one.
        if let Some(lines) = text.strip_suffix('\n')
            && held.as_deref().and_then(|held| held.strip_suffix('\n')) == Some(text)
        {
            self.client.write_text_file(&name, lines).await?;
            held = self.now(place).await?.text;
        }
        self.record(place, Recorder::after).await?;
        Ok(held)
    }

    /// Deletes a file, if it still is this version.
    pub async fn delete(&self, place: &Place, version: Option<Version>) -> Result<(), ToolError> {
        self.disk(place, move |files, place| files.delete(place, expect(version))).await?;
        self.seen().remove(&place.real_path());
        Ok(())
    }

    /// Moves a file to where nothing is.
    pub async fn rename(&self, from: &Place, to: &Place) -> Result<(), ToolError> {
        let target = to.clone();
        self.disk(from, move |files, from| files.rename(from, &target, Expect::Any, true)).await?;
        let mut seen = self.seen();
        if let Some(hash) = seen.remove(&from.real_path()) {
            seen.insert(to.real_path(), hash);
        }
        Ok(())
    }

    /// Looks before a command, so that an undo takes back what it changes, too. Gives what it is known by.
    pub async fn before_command(&self) -> Option<usize> {
        let (recorder, files) = (self.recorder.clone()?, self.files.clone());
        blocking(move || Ok(recorder.before_command(&files))).await.ok()
    }

    /// The command is over.
    pub async fn after_command(&self, number: Option<usize>) -> Result<(), ToolError> {
        let (Some(recorder), Some(number)) = (self.recorder.clone(), number) else { return Ok(()) };
        blocking(move || Ok(recorder.after_command(number)?)).await
    }

    /// Notes what a file is before or after the client writes it.
    async fn record(&self, place: &Place, note: Note) -> Result<(), ToolError> {
        let Some(recorder) = self.recorder.clone() else { return Ok(()) };
        self.disk(place, move |files, place| note(&recorder, files, place)).await
    }
}

fn expect(version: Option<Version>) -> Expect {
    version.map_or(Expect::New, Expect::Version)
}

/// True if the client says that there is no such file: by code, or by text as some clients do.
fn is_missing(error: &Error) -> bool {
    // It is the method that was not found, or the client refuses, with words of its own about the file.
    if matches!(error.code(), Some(METHOD_NOT_FOUND | PERMISSION_DENIED)) {
        return false;
    }
    let text = error.to_string().to_lowercase();
    error.code() == Some(-32002) || ["not found", "enoent", "no such file"].iter().any(|words| text.contains(words))
}

/// The whole path of a file for the client.
fn named(place: &Place) -> Result<String, ToolError> {
    place.real_path().into_os_string().into_string().map_err(|_| "its path is no text".into())
}

/// Does work that may block, off the runtime. A turn that is dropped meanwhile is not at rest before it is done.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let hold = busy::hold();
    let all = move || {
        let done = work();
        drop(hold);
        done
    };
    tokio::task::spawn_blocking(all).await.unwrap_or_else(|_| Err("the work was cut off".into()))
}
