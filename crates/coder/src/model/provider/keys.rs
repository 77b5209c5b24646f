//! Keys: how they are held, so that they are never shown, and the file that remembers them.
//!
//! The file is readable for the user alone and lies in the state folder, which commands in the sandbox can't see and
//! which nobody puts under version control.

use std::collections::BTreeMap;
use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tieline_host::store::Store;
use tieline_host::whole::{lock, write_whole};

/// How long another process may take to change the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a key can't be found, kept or forgotten.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Somebody has to unlock the keyring first.
    #[error("the keyring is locked; unlock it and try again")]
    Locked,
    /// No keyring answers; most likely there is none.
    #[error("{0}")]
    NoKeyring(String),
    /// The keyring said no, in its words.
    #[error("the keyring said no{0}")]
    Refused(String),
    /// Anything else, in words.
    #[error("{0}")]
    Failed(String),
}

/// Something that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Holds a text. `None` if there is nothing but spaces, or something that no key has.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        plain.then(|| Self(text.into()))
    }

    /// The text itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The file with the keys that the user typed.
#[derive(Debug, Clone)]
pub struct Keys {
    path: Option<PathBuf>,
}

impl Default for Keys {
    /// Beside the store: `$XDG_STATE_HOME/tieline/keys.toml`, or below `~/.local/state`.
    fn default() -> Self {
        Self { path: Store::default_path().ok().map(|store| store.with_file_name("keys.toml")) }
    }
}

impl Keys {
    /// The keys in this file.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: Some(path.into()) }
    }

    /// Where the file is.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// All keys. Where nothing was ever stored there are none.
    fn load(&self) -> Result<BTreeMap<String, String>, KeyError> {
        let Some(path) = &self.path else { return Ok(BTreeMap::new()) };
        let text = match std::fs::read_to_string(path) {
            Err(error) if tieline_host::config::is_absent(&error) => return Ok(BTreeMap::new()),
            read => read.map_err(|error| self.failed(&error))?,
        };
        // Nobody else's business, whoever made the file.
        if std::fs::metadata(path).is_ok_and(|meta| meta.permissions().mode() & 0o077 != 0) {
            let _ = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600));
        }
        // What is wrong with it may be next to a key, so only that it is wrong is told.
        toml::from_str(&text)
            .map_err(|_| KeyError::Failed(format!("{} is not as it should be: NAME = \"KEY\"", path.display())))
    }

    fn failed(&self, error: &std::io::Error) -> KeyError {
        let path = self.path.as_deref().unwrap_or(Path::new("keys.toml")).display();
        KeyError::Failed(match error.kind() {
            std::io::ErrorKind::WouldBlock => format!("{path} is in use by another login"),
            _ => format!("{path}: {error}"),
        })
    }

    /// Changes the file. One process at a time: what another one stores in between must not get lost.
    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, String>) -> T) -> Result<T, KeyError> {
        let missing = || KeyError::Failed("there is no home folder to keep a key in; set HOME".into());
        let path = self.path.as_ref().ok_or_else(missing)?;
        let _lock = lock(&path.with_extension("lock"), LOCK_TIMEOUT).map_err(|error| self.failed(&error))?;
        let mut keys = self.load()?;
        let told = change(&mut keys);
        let text = toml::to_string(&keys).map_err(|_| KeyError::Failed("the keys can't be written".into()))?;
        write_whole(path, text.as_bytes()).map_err(|error| self.failed(&error))?;
        Ok(told)
    }

    /// The key of a provider.
    pub fn get(&self, provider: &str) -> Result<Option<Secret>, KeyError> {
        Ok(self.load()?.get(provider).and_then(|key| Secret::new(key)))
    }

    /// Remembers the key of a provider.
    pub fn set(&self, provider: &str, key: &Secret) -> Result<(), KeyError> {
        self.change(|keys| drop(keys.insert(provider.to_owned(), key.expose().to_owned())))
    }

    /// Forgets the key of a provider; false if there was none.
    pub fn remove(&self, provider: &str) -> Result<bool, KeyError> {
        // Where nothing was ever stored, nothing is made.
        Ok(self.load()?.contains_key(provider) && self.change(|keys| keys.remove(provider).is_some())?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_kept_and_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let keys = Keys::at(folder.path().join("deep/keys.toml"));
        let key = Secret::new(" sk-1 \n").unwrap();
        assert_eq!((key.expose(), format!("{key:?}").as_str()), ("sk-1", "Secret(..)"));
        assert_eq!(keys.get("a").unwrap(), None);
        keys.set("a", &key).unwrap();
        keys.set("b", &key).unwrap();
        assert_eq!(keys.get("a").unwrap(), Some(key));
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let path = keys.path().unwrap();
        assert_eq!((mode(path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!((keys.remove("a"), keys.remove("a")), (Ok(true), Ok(false)));
        std::fs::write(path, "b = sk-2").unwrap();
        let why = keys.get("b").unwrap_err();
        let words = why.to_string();
        assert!(words.contains("keys.toml") && !words.contains("sk-2"), "{words}");
        assert_eq!(
            keys.set("c", &Secret::new("sk-3").unwrap()).unwrap_err(),
            why,
            "a file like that is not thrown away"
        );
        assert!(Secret::new("two words").is_none() && Secret::new("").is_none() && Secret::new("é").is_none());
    }

    #[test]
    fn no_key_gets_lost_when_many_are_stored_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let store = |number: u32| {
            let keys = Keys::at(&path);
            move || keys.set(&format!("p{number}"), &Secret::new("sk").unwrap()).unwrap()
        };
        let all: Vec<_> = (0..20).map(|number| std::thread::spawn(store(number))).collect();
        for one in all {
            one.join().unwrap();
        }
        let keys = Keys::at(&path);
        let missing: Vec<u32> = (0..20).filter(|number| keys.get(&format!("p{number}")).unwrap().is_none()).collect();
        assert_eq!(missing, [0; 0]);
    }
}
