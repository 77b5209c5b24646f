//! The user's keyring (that of GNOME, KDE or another), through `secret-tool`, the program of libsecret.
//!
//! A program and no library: the crates that speak with a keyring bring a whole D-Bus stack. A key goes through pipes, never
//! through arguments, which everybody on the machine can read.

use super::Secret;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tieline_host::run::base_environment;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

const PROGRAM: &str = "secret-tool";
/// A keyring that did not answer in time is not asked again, except by a login: nobody should wait for it twice.
static SILENT: AtomicBool = AtomicBool::new(false);
/// As much as is read of what it prints.
const MOST: u64 = 64 * 1024;
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

/// What a keyring says without asking anybody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// This is the key.
    Key(Secret),
    /// There is one, but somebody has to unlock the keyring first.
    Locked,
    /// There is none.
    Nothing,
}

/// The user's keyring.
#[derive(Debug, Clone)]
pub struct Keyring {
    program: PathBuf,
    /// How long an answer may take that needs nobody.
    soon: Duration,
    /// How long a person has to unlock it.
    patience: Duration,
}

/// How a call of the program ended.
struct Ended {
    good: bool,
    out: Vec<u8>,
    words: String,
}

impl Keyring {
    /// The keyring of this desktop; `None` if there is no `secret-tool`, or no session bus that would lead to a keyring.
    pub fn find() -> Option<Self> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let bus = || Path::new(&set("XDG_RUNTIME_DIR")?).join("bus").exists().then_some(());
        set("DBUS_SESSION_BUS_ADDRESS").map(drop).or_else(bus)?;
        let runs = |path: &PathBuf| {
            path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
        };
        let path = set("PATH")?;
        let program = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
        let program = program.map(|folder| folder.join(PROGRAM)).find(runs)?;
        Some(Self { program, soon: Duration::from_secs(10), patience: Duration::from_mins(1) })
    }

    /// Whether it answers at all.
    pub async fn answers(&self) -> Result<(), String> {
        self.search("").await.map(drop)
    }

    /// What it has for a provider. Never asks anybody to unlock it.
    pub async fn peek(&self, provider: &str) -> Result<Found, String> {
        let listed = self.search(provider).await?;
        let text = String::from_utf8_lossy(&listed.out);
        let secret = text.lines().find_map(|line| line.strip_prefix("secret = "));
        Ok(match secret.and_then(Secret::new) {
            Some(key) => Found::Key(key),
            None if secret.is_none() && text.starts_with('[') => Found::Locked,
            None => Found::Nothing,
        })
    }

    /// The key of a provider. A person may be asked to unlock the keyring.
    pub async fn get(&self, provider: &str) -> Result<Option<Secret>, String> {
        let found = self.call("lookup", &[], provider, None, self.patience).await?;
        if found.good {
            return Ok(Secret::new(&String::from_utf8_lossy(&found.out)));
        }
        // The same answer means that there is none and that nobody unlocked it.
        match self.peek(provider).await? {
            Found::Key(key) => Ok(Some(key)),
            Found::Nothing => Ok(None),
            Found::Locked => Err("the keyring is locked; unlock it and try again".into()),
        }
    }

    /// Keeps the key of a provider. A person may be asked to unlock the keyring.
    pub async fn set(&self, provider: &str, key: &Secret) -> Result<(), String> {
        let label = format!("--label=Tieline: {provider}");
        let kept = self.call("store", &[&label], provider, Some(key), self.patience).await?;
        if kept.good { Ok(()) } else { Err(kept.why()) }
    }

    /// Forgets the key of a provider; false if there was none. A person may be asked to unlock the keyring.
    pub async fn remove(&self, provider: &str) -> Result<bool, String> {
        if self.peek(provider).await? == Found::Nothing {
            return Ok(false);
        }
        let gone = self.call("clear", &[], provider, None, self.patience).await?;
        match self.peek(provider).await? {
            Found::Nothing => Ok(true),
            Found::Locked => {
                Err("the keyring is locked, so the key in it is still there; unlock it and try again".into())
            }
            Found::Key(_) => Err(gone.why()),
        }
    }

    async fn search(&self, provider: &str) -> Result<Ended, String> {
        if SILENT.load(Ordering::Relaxed) {
            return Err("the keyring did not answer before".into());
        }
        let listed = self.call("search", &[], provider, None, self.soon).await?;
        if listed.good { Ok(listed) } else { Err(listed.why()) }
    }

    /// Runs the program once.
    async fn call(
        &self,
        action: &str,
        options: &[&str],
        provider: &str,
        input: Option<&Secret>,
        limit: Duration,
    ) -> Result<Ended, String> {
        let mut command = Command::new(&self.program);
        command.arg(action).args(options).args(["service", "tieline", "provider", provider]);
        let needed = VARIABLES.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)));
        command.env_clear().envs(base_environment()).envs(needed).current_dir("/").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let failed = |error: std::io::Error| format!("{}: {error}", self.program.display());
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
        let ended = tokio::time::timeout(limit, work).await;
        SILENT.store(ended.is_err() && action == "search", Ordering::Relaxed);
        match ended {
            Ok(Ok((status, out, words))) => {
                let words = String::from_utf8_lossy(&words);
                let words = words.lines().map(str::trim).find(|line| line.starts_with(PROGRAM)).unwrap_or_default();
                let words = words.trim_start_matches(PROGRAM).trim_start_matches(':').trim();
                let words = words.chars().filter(|c| !c.is_control()).take(200).collect();
                Ok(Ended { good: status.success(), out, words })
            }
            Ok(Err(error)) => Err(failed(error)),
            Err(_) => Err(format!(
                "the keyring did not answer within {} s; it may be waiting for somebody to unlock it",
                limit.as_secs_f32().ceil()
            )),
        }
    }
}

impl Ended {
    /// What the program had to say.
    fn why(self) -> String {
        if self.words.is_empty() {
            "the keyring said no".into()
        } else {
            format!("the keyring said no: {}", self.words)
        }
    }
}

/// The beginning of what a pipe holds.
async fn start(pipe: Option<impl AsyncRead + Unpin>) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(MOST).read_to_end(&mut bytes).await?;
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
            ("echo '[/1]'; echo 'label = x'; echo 'secret = sk-1'; echo 'attribute.a = b' >&2", Ok(Found::Key(key))),
            (
                "echo '[/1]'; echo 'label = x'; echo 'secret-tool: Cannot get secret of a locked object' >&2",
                Ok(Found::Locked),
            ),
            ("exit 0", Ok(Found::Nothing)),
            ("yes '[' | head -c 1000000", Err("the keyring said no".to_owned())),
            ("echo noise >&2; echo 'secret-tool: no bus' >&2; exit 1", Err("the keyring said no: no bus".to_owned())),
        ] {
            assert_eq!(fake(folder.path(), script).peek("a").await, expect, "{script}");
        }
    }

    #[tokio::test]
    async fn a_question_that_nobody_answers_ends() {
        let folder = tempfile::tempdir().unwrap();
        let keyring = fake(folder.path(), "[ $1 = search ] && exit 0; exec sleep 1000");
        let key = Secret::new("sk-1").unwrap();
        for why in [keyring.get("a").await.unwrap_err(), keyring.set("a", &key).await.unwrap_err()] {
            assert!(why.contains("did not answer within 1 s") && why.contains("unlock"), "{why}");
        }
        let started = fake(folder.path(), "sleep 1000 & exit 0");
        assert!(started.get("a").await.unwrap_err().contains("did not answer"), "a pipe that stays open is no answer");
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
