//! The user's keyring (that of GNOME, KDE or another), through `secret-tool`, the program of libsecret.
//!
//! A program and no library: the crates that speak with a keyring bring a whole D-Bus stack. A key goes through pipes, never
//! through arguments, which everybody on the machine can read.

use super::{KeyError, Secret};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tieline_host::run::base_environment;
use tieline_host::text::cut;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

const PROGRAM: &str = "secret-tool";
/// Why there is none.
const NO_KEYRING: &str = "there is no keyring here: that needs the program secret-tool (Debian: apt install \
                          libsecret-tools) and the session bus of a desktop";
/// A keyring that did not answer in time is not asked again, except by a login: nobody should wait for it twice.
static SILENT: AtomicBool = AtomicBool::new(false);
/// As much as is read of what it prints, in bytes.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;
/// What it needs to find the keyring and, for the question of a person, the screen.
const VARIABLES: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_CURRENT_DESKTOP",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_TYPE",
];

/// The user's keyring.
#[derive(Debug, Clone)]
pub struct Keyring {
    program: PathBuf,
    /// How long an answer may take that needs nobody.
    soon: Duration,
    /// How long a person has to unlock it.
    patience: Duration,
}

impl Keyring {
    /// The keyring of this desktop, if there is a `secret-tool` and a session bus that would lead to a keyring.
    pub fn find() -> Result<Self, KeyError> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let bus = set("DBUS_SESSION_BUS_ADDRESS").is_some()
            || set("XDG_RUNTIME_DIR").is_some_and(|folder| Path::new(&folder).join("bus").exists());
        let runs = |path: &PathBuf| {
            path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let path = set("PATH").filter(|_| bus).unwrap_or_default();
        let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
        let program = folders.map(|folder| folder.join(PROGRAM)).find(runs);
        let program = program.ok_or_else(|| KeyError::NoKeyring(NO_KEYRING.into()))?;
        Ok(Self { program, soon: Duration::from_secs(10), patience: Duration::from_mins(1) })
    }

    /// The same, if it answers.
    pub async fn working() -> Result<Self, KeyError> {
        let keyring = Self::find()?;
        keyring.search("").await.map(|_| keyring)
    }

    /// The key of a provider. With `unlock` a person may be asked to unlock the keyring.
    pub async fn get(&self, provider: &str, unlock: bool) -> Result<Option<Secret>, KeyError> {
        match self.search(provider).await {
            // Some keyrings don't tell what they have before they are unlocked.
            Err(KeyError::Locked) | Ok(None) if unlock => {}
            found => return found,
        }
        match self.call("lookup", &[], provider, None, self.patience).await {
            // The same answer means that there is none and that nobody unlocked it.
            Err(KeyError::Refused(_)) => self.search(provider).await,
            found => Ok(Secret::new(&String::from_utf8_lossy(&found?))),
        }
    }

    /// Keeps the key of a provider. A person may be asked to unlock the keyring.
    pub async fn set(&self, provider: &str, key: &Secret) -> Result<(), KeyError> {
        let label = format!("--label=Tieline: {provider}");
        self.call("store", &[&label], provider, Some(key), self.patience).await.map(drop)
    }

    /// Forgets the key of a provider; false if there was none. A person may be asked to unlock the keyring.
    pub async fn remove(&self, provider: &str) -> Result<bool, KeyError> {
        match self.search(provider).await {
            Ok(None) => return Ok(false),
            Ok(Some(_)) | Err(KeyError::Locked) => {}
            Err(error) => return Err(error),
        }
        let gone = match self.call("clear", &[], provider, None, self.patience).await {
            Err(KeyError::Refused(why)) => why,
            done => done.map(|_| String::new())?,
        };
        match self.search(provider).await {
            Ok(None) => Ok(true),
            Ok(Some(_)) => Err(KeyError::Refused(gone)),
            Err(KeyError::Locked) => Err(KeyError::Failed(
                "the keyring is locked, so the key in it is still there; unlock it and try again".into(),
            )),
            Err(error) => Err(error),
        }
    }

    /// What it has for a provider. Never asks anybody to unlock it.
    async fn search(&self, provider: &str) -> Result<Option<Secret>, KeyError> {
        if SILENT.load(Ordering::Relaxed) {
            return Err(KeyError::NoKeyring("the keyring did not answer before".into()));
        }
        let listed = self.call("search", &[], provider, None, self.soon).await;
        let listed = listed.map_err(|error| KeyError::NoKeyring(error.to_string()))?;
        let text = String::from_utf8_lossy(&listed);
        match text.lines().find_map(|line| line.strip_prefix("secret = ")) {
            Some(secret) => Ok(Secret::new(secret)),
            None if text.starts_with('[') => Err(KeyError::Locked),
            None => Ok(None),
        }
    }

    /// Runs the program once. Gives what it printed.
    async fn call(
        &self,
        action: &str,
        options: &[&str],
        provider: &str,
        input: Option<&Secret>,
        limit: Duration,
    ) -> Result<Vec<u8>, KeyError> {
        let mut command = Command::new(&self.program);
        command.arg(action).args(options).args(["service", "tieline", "provider", provider]);
        let needed = VARIABLES.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        command.env_clear().envs(base_environment()).envs(needed).current_dir("/").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: std::io::Error| KeyError::Failed(format!("{}: {error}", self.program.display()));
        let mut child = command.spawn().map_err(failed)?;
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let work = async {
            if let (Some(mut stdin), Some(key)) = (stdin, input) {
                // If it does not want it, how it ends says why.
                let _ = stdin.write_all(key.expose().as_bytes()).await;
            }
            let (out, words) = tokio::join!(start(stdout), start(stderr));
            Ok((child.wait().await?, out?, words?))
        };
        let late = || {
            KeyError::Failed(format!(
                "the keyring did not answer within {} s; it may be waiting for somebody to unlock it",
                limit.as_secs_f32().ceil()
            ))
        };
        let ended = tokio::time::timeout(limit, work).await;
        SILENT.store(ended.is_err() && action == "search", Ordering::Relaxed);
        let (status, out, words) = ended.map_err(|_| late())?.map_err(failed)?;
        if status.success() {
            return Ok(out);
        }
        let words = String::from_utf8_lossy(&words);
        let words = words.lines().find_map(|line| line.trim().strip_prefix(PROGRAM)).unwrap_or_default();
        let words: String = words.trim_start_matches(':').trim().chars().filter(|c| !c.is_control()).collect();
        Err(KeyError::Refused(if words.is_empty() { String::new() } else { format!(": {}", cut(&words, 200)) }))
    }
}

/// The beginning of what a pipe holds.
async fn start(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MAX_OUTPUT_BYTES).read_to_end(&mut bytes).await?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A keyring that is a script.
    fn fake(folder: &Path, script: &str) -> Keyring {
        let program = folder.join(PROGRAM);
        std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        Keyring { program, soon: Duration::from_secs(30), patience: Duration::from_millis(300) }
    }

    #[tokio::test]
    async fn answers_are_understood() {
        let folder = tempfile::tempdir().unwrap();
        let key = Secret::new("sk-1").unwrap();
        for (script, expect) in [
            ("echo '[/1]'; echo 'label = x'; echo 'secret = sk-1'; echo 'attribute.a = b' >&2", Ok(Some(key))),
            (
                "echo '[/1]'; echo 'label = x'; echo 'secret-tool: Cannot get secret of a locked object' >&2",
                Err(KeyError::Locked),
            ),
            ("exit 0", Ok(None)),
            ("yes '[' | head -c 1000000", Err(KeyError::NoKeyring("the keyring said no".into()))),
            (
                "echo noise >&2; echo 'secret-tool: no bus' >&2; exit 1",
                Err(KeyError::NoKeyring("the keyring said no: no bus".into())),
            ),
        ] {
            assert_eq!(fake(folder.path(), script).get("a", false).await, expect, "{script}");
        }
    }

    #[tokio::test]
    async fn a_question_that_nobody_answers_ends() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = fake(folder.path(), "[ $1 = search ] && exit 0; exec sleep 1000");
        let key = Secret::new("sk-1").unwrap();
        for why in [keyring.get("a", true).await.unwrap_err(), keyring.set("a", &key).await.unwrap_err()] {
            let why = why.to_string();
            assert!(why.contains("did not answer within 1 s") && why.contains("unlock"), "{why}");
        }
        let started = fake(folder.path(), "sleep 10 & exit 0");
        let why = started.get("a", true).await.unwrap_err().to_string();
        assert!(why.contains("did not answer"), "a pipe that stays open is no answer: {why}");
    }

    #[tokio::test]
    async fn a_key_is_in_no_argument_and_no_variable() {
        let folder = tempfile::tempdir().unwrap();
        let mut keyring = fake(folder.path(), "echo \"$@\" > \"$0.args\"; env >> \"$0.args\"; cat > \"$0.in\"");
        keyring.patience = Duration::from_secs(30);
        keyring.set("a", &Secret::new("sk-1").unwrap()).await.unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("secret-tool.in"), "sk-1");
        let seen = read("secret-tool.args");
        assert!(seen.starts_with("store --label=Tieline: a service tieline provider a\n"), "{seen}");
        assert!(!seen.contains("sk-1") && !seen.contains("CARGO_MANIFEST_DIR"), "{seen}");
    }
}
