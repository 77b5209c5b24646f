//! Values that may be secrets: written down as they are, or taken from a variable or a command when they are needed.

use super::Error;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt as _;

/// How long a command may take to give its secret.
const SECRET_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a secret may be, in bytes.
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// A value of an agent's or server's environment. What it shows of itself is never the secret.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Value {
    /// The value of one of our variables.
    Env(String),
    /// What a program prints, without the line end.
    Command(Vec<String>),
    /// As it stands in the file.
    #[serde(untagged)]
    Plain(String),
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(_) => f.write_str("\"…\""),
            Self::Env(name) => write!(f, "{{ env = {name:?} }}"),
            Self::Command(words) => write!(f, "{{ command = {words:?} }}"),
        }
    }
}

impl Value {
    /// The value itself. A command gets 30 seconds.
    pub async fn resolve(&self) -> Result<String, Error> {
        match self {
            Self::Plain(text) => Ok(text.clone()),
            Self::Env(name) => match std::env::var(name) {
                Ok(text) => Ok(text),
                Err(std::env::VarError::NotPresent) => {
                    Err(Error::new(format!("the variable {name} is not set; type: export {name}=…")))
                }
                Err(_) => Err(Error::new(format!("the variable {name} is not text"))),
            },
            Self::Command(words) => run(words).await,
        }
    }
}

async fn run(words: &[String]) -> Result<String, Error> {
    let (program, arguments) = words.split_first().ok_or_else(|| Error::new("an empty command gives no secret"))?;
    let failed = |why: String| Error::new(format!("the command `{program}`, which gives a secret, {why}"));
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| failed(format!("can't be started: {error}")))?;
    let mut text = Vec::new();
    let work = async {
        if let Some(out) = child.stdout.take() {
            out.take(MAX_SECRET_BYTES + 1).read_to_end(&mut text).await?;
        }
        child.wait().await
    };
    let status = match tokio::time::timeout(SECRET_TIMEOUT, work).await {
        Err(_) => return Err(failed(format!("gave none within {} s", SECRET_TIMEOUT.as_secs()))),
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Ok(Ok(status)) => status,
    };
    if !status.success() {
        return Err(failed(format!("failed ({status})")));
    }
    if text.len() as u64 > MAX_SECRET_BYTES {
        return Err(failed("printed far too much".into()));
    }
    let text = String::from_utf8(text).map_err(|_| failed("printed something that is not text".into()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// All values of a table, by name.
pub async fn resolve_all(values: &BTreeMap<String, Value>) -> Result<Vec<(String, String)>, Error> {
    let mut all = Vec::with_capacity(values.len());
    for (name, value) in values {
        let value = value.resolve().await.map_err(|error| Error::new(format!("{name}: {error}")))?;
        all.push((name.clone(), value));
    }
    Ok(all)
}
