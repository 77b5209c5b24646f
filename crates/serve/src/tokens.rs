//! Who may come in: tokens with a name, a role and an end, of which only hashes are kept; and codes that are good for one visit.

use crate::hub::{Role, Visitor};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tieline::rpc::sync::Lock as _;
use tieline_host::whole::{lock, write_whole};

/// How long another process is waited for that changes the file.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// A code that is not used is forgotten after this time.
const CODE_LIFE: Duration = Duration::from_mins(10);
/// A browser that came in by a code stays for this long.
const BROWSER_LIFE: Duration = Duration::from_hours(30 * 24);
/// So many codes wait at once.
const MAX_CODES: usize = 100;
/// The longest name of a token, in characters.
const MAX_NAME_CHARS: usize = 64;

/// A token, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// What it is called.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// When it was made, in seconds since 1970.
    pub made: u64,
    /// Until when it is good, in seconds since 1970; `None` for ever.
    pub until: Option<u64>,
    hash: String,
}

/// The tokens of a server, in one file for the user alone.
#[derive(Debug, Clone)]
pub struct Tokens {
    path: PathBuf,
}

/// Why a token can't be made.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// There is one of this name.
    #[error("there is a token `{0}` already; revoke it first, or take another name")]
    Taken(String),
    /// It is no name.
    #[error("a name has 1 to {MAX_NAME_CHARS} letters, digits, spaces, dots, dashes and underscores")]
    Name,
    /// The file can't be used.
    #[error("{0}")]
    File(#[from] io::Error),
}

impl Tokens {
    /// Those in this file, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All of them, the newest last.
    pub fn list(&self) -> io::Result<Vec<Token>> {
        match std::fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| io::Error::other(format!("{}: {error}", self.path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Makes one, and tells it: it is told once and kept nowhere.
    pub fn add(&self, name: &str, role: Role, life: Option<Duration>) -> Result<String, TokenError> {
        let plain = |letter: char| letter.is_alphanumeric() || " .-_".contains(letter);
        if name.trim().is_empty() || name.chars().count() > MAX_NAME_CHARS || !name.chars().all(plain) {
            return Err(TokenError::Name);
        }
        let secret = format!("tl-{}", random()?);
        self.change(|tokens| {
            tokens.retain(Token::is_good);
            if tokens.iter().any(|token| token.name == name) {
                return Err(TokenError::Taken(name.to_owned()));
            }
            let until = life.map(|life| now() + life.as_secs());
            tokens.push(Token { name: name.to_owned(), role, made: now(), until, hash: hash(&secret) });
            Ok(())
        })?;
        Ok(secret)
    }

    /// Takes one back. False if there is none of this name.
    pub fn revoke(&self, name: &str) -> Result<bool, TokenError> {
        self.change(|tokens| {
            let before = tokens.len();
            tokens.retain(|token| token.name != name);
            Ok(tokens.len() < before)
        })
    }

    /// Who has this token. The file is read each time: what is revoked is good no more.
    pub fn find(&self, secret: &str) -> Option<Visitor> {
        let given = hash(secret);
        let tokens = self.list().inspect_err(|error| tracing::error!(%error, "no token can be read")).ok()?;
        // Hashes are compared, so how long that takes tells nothing about the token.
        let known = tokens.into_iter().find(|token| token.hash == given && token.is_good())?;
        Some(Visitor { name: known.name, role: known.role })
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<Token>) -> Result<T, TokenError>) -> Result<T, TokenError> {
        let _lock = lock(&self.path.with_extension("lock"), LOCK_TIMEOUT)?;
        let mut tokens = self.list()?;
        let done = change(&mut tokens)?;
        let bytes = serde_json::to_vec_pretty(&tokens).map_err(io::Error::other)?;
        write_whole(&self.path, &bytes)?;
        Ok(done)
    }
}

impl Token {
    /// True until it ends.
    pub fn is_good(&self) -> bool {
        self.until.is_none_or(|until| now() < until)
    }
}

/// Codes for the page: each is good for one visit, and then the browser has a token of its own.
#[derive(Debug, Default)]
pub struct Codes(Mutex<HashMap<String, Instant>>);

impl Codes {
    /// Makes one.
    pub fn make(&self) -> io::Result<String> {
        let code = random()?;
        let mut codes = self.0.locked();
        codes.retain(|_, since| since.elapsed() < CODE_LIFE);
        if codes.len() < MAX_CODES {
            codes.insert(hash(&code), Instant::now());
        }
        Ok(code)
    }

    /// Uses one up. The browser gets a token that is good for a month.
    pub fn redeem(&self, code: &str, tokens: &Tokens) -> Option<String> {
        let since = self.0.locked().remove(&hash(code))?;
        if since.elapsed() >= CODE_LIFE {
            return None;
        }
        let name = format!("browser {}", &random().ok()?[..8]);
        let made = tokens.add(&name, Role::Admin, Some(BROWSER_LIFE));
        made.inspect_err(|error| tracing::error!(%error, "no token could be made")).ok()
    }

    /// How long a browser stays that came in by a code.
    pub fn browser_life() -> Duration {
        BROWSER_LIFE
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn hash(secret: &str) -> String {
    hex(&Sha256::digest(secret.as_bytes()))
}

/// 256 random bits as text.
fn random() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_kept_as_a_hash_and_ends() {
        let folder = tempfile::tempdir().unwrap();
        let tokens = Tokens::at(folder.path().join("a/tokens.json"));
        assert!(tokens.find("anything").is_none());
        let secret = tokens.add("ci", Role::Use, None).unwrap();
        let found = tokens.find(&secret).unwrap();
        assert_eq!((&*found.name, found.role), ("ci", Role::Use));
        assert!(!std::fs::read_to_string(tokens.path()).unwrap().contains(&secret[3..]));
        assert!(matches!(tokens.add("ci", Role::Read, None), Err(TokenError::Taken(_))));
        for bad in ["", "  ", "a\nb", "a\u{1b}[2J", &"x".repeat(65)] {
            assert!(matches!(tokens.add(bad, Role::Read, None), Err(TokenError::Name)), "{bad:?}");
        }
        let ended = tokens.add("ended", Role::Admin, Some(Duration::ZERO)).unwrap();
        assert!(tokens.find(&ended).is_none());
        assert!(tokens.revoke("ci").unwrap() && !tokens.revoke("ci").unwrap());
        assert!(tokens.find(&secret).is_none());
    }

    #[test]
    fn a_code_is_good_for_one_visit() {
        let folder = tempfile::tempdir().unwrap();
        let (tokens, codes) = (Tokens::at(folder.path().join("tokens.json")), Codes::default());
        let code = codes.make().unwrap();
        assert!(codes.redeem("another", &tokens).is_none());
        let browser = codes.redeem(&code, &tokens).unwrap();
        assert!(codes.redeem(&code, &tokens).is_none());
        assert_eq!(tokens.find(&browser).unwrap().role, Role::Admin);
        assert!(tokens.find(&code).is_none());
    }
}
