//! The files of a session through one code path: the client's text where it offers it, the disk otherwise.

use crate::busy;
use crate::editor_files::{meant, same};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::Error;
use tieline::agent::ClientHandle;
use tieline_host::files::{Bytes, Expect, Files, Hash, Listing, Version, Window, Write};
use tieline_host::roots::{self, Place, Roots};
use tieline_host::snapshot::Recorder;
use tieline_rpc::sync::Lock;

/// The code for a method that is not there.
const METHOD_NOT_FOUND: i64 = -32601;
/// The code for what is refused.
const PERMISSION_DENIED: i64 = -32003;

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
    /// Which version is on the disk.
    version: Option<Version>,
    from_client: bool,
}

impl Now {
    /// Which version is on the disk; `None` if there is no file.
    pub fn version(&self) -> Option<Version> {
        self.version
    }
}

impl Workspace {
    /// The files below the roots of `files`, recorded for undo.
    pub fn new(files: Files, seen: Seen, client: ClientHandle, recorder: Option<Arc<Recorder>>) -> Self {
        let files = match &recorder {
            Some(recorder) => files.with_journal(Arc::clone(recorder) as _),
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
    pub fn place(&self, path: &str) -> Result<Place, String> {
        self.roots().resolve(if path.is_empty() { "." } else { path }).map_err(|error| error.to_string())
    }

    /// The same for a name that is to be moved or deleted: a link stands for itself.
    pub fn entry(&self, path: &str) -> Result<Place, String> {
        self.roots().resolve_entry(path).map_err(|error| error.to_string())
    }

    fn seen(&self) -> MutexGuard<'_, HashMap<PathBuf, Hash>> {
        self.seen.locked()
    }

    /// The text of a file as the user sees it: unsaved text in an editor wins.
    pub async fn now(&self, place: &Place) -> Result<Now, String> {
        if self.client.capabilities().fs_read {
            let path = place.real_path();
            let Some(path) = path.to_str() else { return Err("its path is no text".into()) };
            match self.client.read_text_file(path, None, None).await {
                Ok(text) => {
                    let (version, disk) = self.on_disk(place).await?;
                    let text = match (version, disk) {
                        // There is something that is no text.
                        (Some(_), None) => Some(text),
                        (_, disk) => meant(text, disk.as_deref()),
                    };
                    return Ok(Now { text, version, from_client: true });
                }
                // What is on the disk all the same must not be overwritten unseen.
                Err(error) if is_missing(&error) => {
                    if self.version(place).await?.is_none() {
                        return Ok(Now { text: None, version: None, from_client: true });
                    }
                }
                // A client that turns out not to read files leaves them to us.
                Err(error) if error.code() == Some(METHOD_NOT_FOUND) || matches!(error, Error::Unsupported(_)) => {}
                // A no is a no: what the client does not show is not read from the disk.
                Err(error) => return Err(error.to_string()),
            }
        }
        let (files, place) = (self.files.clone(), place.clone());
        blocking(move || match files.read_text(&place, &Window::ALL) {
            Ok(text) => Ok(Now { text: Some(text.text), version: Some(text.version), from_client: false }),
            Err(roots::Error::NotFound(_)) => Ok(Now { text: None, version: None, from_client: false }),
            Err(error) => Err(error.to_string()),
        })
        .await
    }

    /// Which version is on the disk, and its text if it is one.
    async fn on_disk(&self, place: &Place) -> Result<(Option<Version>, Option<String>), String> {
        let (files, place) = (self.files.clone(), place.clone());
        blocking(move || match files.read_text(&place, &Window::ALL) {
            Ok(text) => Ok((Some(text.version), Some(text.text))),
            Err(roots::Error::NotFound(_)) => Ok((None, None)),
            Err(_) => files.version(&place).map(|version| (version, None)).map_err(|error| error.to_string()),
        })
        .await
    }

    /// Which version is on the disk; `None` if there is no file.
    pub async fn version(&self, place: &Place) -> Result<Option<Version>, String> {
        let (files, place) = (self.files.clone(), place.clone());
        blocking(move || files.version(&place).map_err(|error| error.to_string())).await
    }

    /// The bytes of a file on the disk.
    pub async fn bytes(&self, place: &Place) -> Result<Bytes, String> {
        let (files, place) = (self.files.clone(), place.clone());
        blocking(move || files.read_bytes(&place).map_err(|error| error.to_string())).await
    }

    /// The entries of a directory.
    pub async fn list(&self, place: &Place) -> Result<Listing, String> {
        let (files, place) = (self.files.clone(), place.clone());
        blocking(move || files.list(&place).map_err(|error| error.to_string())).await
    }

    /// Notes that the model has seen this text.
    pub fn saw(&self, place: &Place, text: &str) {
        self.seen().insert(place.real_path(), Hash::of(text.as_bytes()));
    }

    /// Refuses a file that is not what the model last saw of it.
    pub fn check_fresh(&self, place: &Place, now: &Now) -> Result<(), String> {
        let path = place.real_path();
        match (self.seen().get(&path), &now.text) {
            (Some(seen), Some(text)) if *seen != Hash::of(text.as_bytes()) => {
                Err(format!("{} changed since it was read; read it again first", roots::shown(&path)))
            }
            _ => Ok(()),
        }
    }

    /// Writes a whole file, if it still is what `before` says. The client's text is looked at again only if some time has
    /// `passed` since then; the disk always is. False if the client made something else of the text, such as formatted it.
    pub async fn write(&self, place: &Place, before: &Now, text: &str, passed: bool) -> Result<bool, String> {
        let path = place.real_path();
        let mut held = None;
        let by_client = self.client.capabilities().fs_write;
        if passed && (by_client || before.from_client) && self.now(place).await?.text != before.text {
            return Err(format!("{} changed meanwhile; read it again first", roots::shown(&path)));
        }
        if by_client {
            let Some(name) = path.to_str() else { return Err("its path is no text".into()) };
            self.record(place, true).await?;
            self.make_folder(place).await;
            held = self.write_by_client(place, name, text).await?;
            self.record(place, false).await?;
            // Some clients answer a write that failed like one that did not.
            let same = held == before.text && text != before.text.as_deref().unwrap_or_default();
            if same && self.client.capabilities().fs_read {
                return Err(format!("the client did not write {}", roots::shown(&path)));
            }
        } else {
            let expect = expect(before.version);
            let (files, target, bytes) = (self.files.clone(), place.clone(), text.as_bytes().to_vec());
            let how = Write::expecting(expect).with_parents();
            blocking(move || files.write(&target, &bytes, &how).map(drop).map_err(|error| error.to_string())).await?;
        }
        let held = held.as_deref().unwrap_or(text);
        self.saw(place, held);
        Ok(same(held, text))
    }

    /// Has the client put back what a file was. False if it takes no files; refused if it shows what is not saved.
    pub async fn put_back(&self, path: &Path, text: &str) -> Result<bool, String> {
        if !self.client.capabilities().fs_write {
            return Ok(false);
        }
        let place = self.roots().resolve(path).map_err(|error| error.to_string())?;
        if self.now(&place).await?.text != self.on_disk(&place).await?.1 {
            return Err("it has changes that are not saved".into());
        }
        let name = path.to_str().ok_or("its path is no text")?;
        self.record(&place, true).await?;
        self.write_by_client(&place, name, text).await?;
        self.record(&place, false).await?;
        self.saw(&place, text);
        Ok(true)
    }

    /// Has the client write a file. Gives what it holds then.
    async fn write_by_client(&self, place: &Place, name: &str, text: &str) -> Result<Option<String>, String> {
        let write = |text| async move { self.client.write_text_file(name, text).await.map_err(|why| why.to_string()) };
        write(text).await?;
        let held = self.now(place).await?.text;
        // Where the text becomes lines, its last newline may become an empty one.
        match text.strip_suffix('\n') {
            Some(lines) if held.as_deref().and_then(|held| held.strip_suffix('\n')) == Some(text) => {
                write(lines).await?;
                Ok(self.now(place).await?.text)
            }
            _ => Ok(held),
        }
    }

    /// Makes the folder of a file that the client is about to write: not every client does. It may have a disk of its own.
    async fn make_folder(&self, place: &Place) {
        let files = self.files.clone();
        let Some(folder) = place.parent_folder() else { return };
        let made = blocking(move || files.create_dirs(&folder).map(drop).map_err(|error| error.to_string()));
        if let Err(why) = made.await {
            tracing::debug!(%why, "a folder could not be made");
        }
    }

    /// Deletes a file, if it still is this version.
    pub async fn delete(&self, place: &Place, version: Option<Version>) -> Result<(), String> {
        let (files, target) = (self.files.clone(), place.clone());
        blocking(move || files.delete(&target, expect(version)).map_err(|error| error.to_string())).await?;
        self.seen().remove(&place.real_path());
        Ok(())
    }

    /// Moves a file to where nothing is.
    pub async fn rename(&self, from: &Place, to: &Place) -> Result<(), String> {
        let (files, source, target) = (self.files.clone(), from.clone(), to.clone());
        blocking(move || files.rename(&source, &target, Expect::Any, true).map_err(|error| error.to_string())).await?;
        let mut seen = self.seen();
        if let Some(hash) = seen.remove(&from.real_path()) {
            seen.insert(to.real_path(), hash);
        }
        Ok(())
    }

    /// Notes what a file is before and after the client writes it.
    async fn record(&self, place: &Place, before: bool) -> Result<(), String> {
        let Some(recorder) = self.recorder.clone() else { return Ok(()) };
        let (files, place) = (self.files.clone(), place.clone());
        let note = move || if before { recorder.before(&files, &place) } else { recorder.after(&files, &place) };
        blocking(move || note().map_err(|error| error.to_string())).await
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

/// Does work that may block, off the runtime. A turn that is dropped meanwhile is not at rest before it is done.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let hold = busy::hold();
    let all = move || {
        let done = work();
        drop(hold);
        done
    };
    tokio::task::spawn_blocking(all).await.unwrap_or_else(|_| Err("the work was cut off".into()))
}
