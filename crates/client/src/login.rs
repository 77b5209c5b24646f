//! Logging in: which method, by whom, and what to do afterwards.
//!
//! That an agent has methods does not mean that login is needed; only an answer of -32000 does. A method of the agent is one
//! call, after which the same request is tried again. A terminal method runs the agent's own program once more, in the
//! foreground on the user's terminal, after which the agent is started anew. Variables can only be named: whoever starts the
//! agent has to set them.

use crate::{Future, sanitize};
use serde_json::Value;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tieline::client::AgentHandle;
use tieline::process::Spec;
use tieline::schema::{AuthMethod, OtherAuth, TerminalAuth};
use tieline::{Error, Result};
use tokio::sync::Notify;

/// A person may have to act elsewhere, but not for ever.
const PATIENCE: Duration = Duration::from_mins(15);

/// True if an answer says that login is needed.
pub fn is_needed(error: &Error) -> bool {
    error.code() == Some(-32000)
}

/// What the agent said, for people: that login is needed is known, and the methods in its data are shown by their names.
pub fn words(error: &Error) -> String {
    match error {
        Error::AuthRequired { error, .. } => error.message.clone(),
        error => error.to_string(),
    }
}

/// How the agent is started; terminal logins start the same program.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Launch {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables that are set for it.
    pub env: Vec<(OsString, OsString)>,
    /// Where it runs.
    pub folder: Option<PathBuf>,
}

impl fmt::Debug for Launch {
    /// Without the environment, which may hold secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch").field("program", &self.program).field("args", &self.args).finish_non_exhaustive()
    }
}

impl Launch {
    /// A program and its arguments.
    pub fn new(program: impl Into<OsString>, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let args = args.into_iter().map(Into::into).collect();
        Self { program: program.into(), args, ..Self::default() }
    }

    /// The same for a child process.
    pub fn spec(&self) -> Spec {
        let mut spec = Spec::new(&self.program).args(&self.args);
        for (name, value) in &self.env {
            spec = spec.env(name, value);
        }
        match &self.folder {
            Some(folder) => spec.current_dir(folder),
            None => spec,
        }
    }

    /// Runs a terminal login in the foreground and waits for its end.
    async fn log_in(&self, method: &TerminalAuth) -> Result<(), Failed> {
        let mut command = tokio::process::Command::new(&self.program);
        command.args(&self.args).args(&method.args).envs(self.env.iter().map(|(name, value)| (name, value)));
        for variable in &method.env.0 {
            if variable.name.is_empty() || variable.name.contains(['=', '\0']) || variable.value.contains('\0') {
                return Err(Failed::Program("the agent names a variable that can't be one".into()));
            }
            command.env(&variable.name, &variable.value);
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit()).kill_on_drop(true);
        let named = |why: &dyn fmt::Display| Failed::Program(format!("`{}`: {why}", self.program.display()));
        let mut child = command.spawn().map_err(|error| named(&error))?;
        match tokio::time::timeout(PATIENCE, child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(named(&format_args!("the login ended with {status}"))),
            Ok(Err(error)) => Err(named(&error)),
            Err(_) => Err(Failed::TimedOut),
        }
    }
}

/// One method, as a person can be shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Method {
    /// Its id.
    pub id: String,
    /// What people call it, safe to show.
    pub name: String,
    /// More about it, safe to show.
    pub description: Option<String>,
    /// How it works.
    pub kind: Kind,
}

/// How a method works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// The agent does it when asked.
    Agent,
    /// A person does it in a terminal.
    Terminal,
    /// These variables have to be set before the agent is started; perhaps with a page that says how.
    Variables {
        /// Their names.
        names: Vec<String>,
        /// Where to get what belongs in them, safe to show.
        link: Option<String>,
    },
    /// A kind that nobody here knows.
    Unknown(String),
}

impl Method {
    /// What is known of a method.
    pub fn of(method: &AuthMethod) -> Self {
        let (kind, description) = match method {
            AuthMethod::Agent(method) => (Kind::Agent, method.description.clone()),
            AuthMethod::Terminal(method) => (Kind::Terminal, method.description.clone()),
            AuthMethod::Other(other) => variables(other),
        };
        Self {
            id: method.id().to_owned(),
            name: sanitize::exact_line(method.name()),
            description: description.as_deref().map(sanitize::exact_line),
            kind,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", sanitize::exact_line(&self.id), self.name)?;
        match &self.kind {
            Kind::Agent => Ok(()),
            Kind::Terminal => f.write_str(" (in a terminal)"),
            Kind::Variables { names, link } => {
                write!(f, " (set {}", names.join(", "))?;
                link.as_ref().map_or(Ok(()), |link| write!(f, "; see {link}"))?;
                f.write_str(" and start again)")
            }
            Kind::Unknown(kind) => write!(f, " (of the unknown kind `{kind}`)"),
        }
    }
}

/// A method of the kind `env_var` has a list of variables, or one as older agents say it.
fn variables(other: &OtherAuth) -> (Kind, Option<String>) {
    let raw: Value = other.raw.parse().unwrap_or_default();
    let description = raw.get("description").and_then(Value::as_str).map(str::to_owned);
    if &*other.kind != "env_var" {
        return (Kind::Unknown(sanitize::exact_line(&other.kind)), description);
    }
    let list = raw.get("vars").and_then(Value::as_array).into_iter().flatten();
    let mut names: Vec<&str> = list.filter_map(|var| var.get("name").unwrap_or(var).as_str()).collect();
    names.extend(raw.get("varName").and_then(Value::as_str));
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let names = names.into_iter().filter(is_name).map(str::to_owned).collect();
    let link = raw.get("link").and_then(Value::as_str).map(sanitize::exact_line);
    (Kind::Variables { names, link }, description)
}

/// Lets a person choose a method.
pub trait Chooser: Send + Sync {
    /// The place of the chosen one; `None` if none is wanted.
    fn choose<'a>(&'a self, agent: &'a str, methods: &'a [Method]) -> Future<'a, Option<usize>>;

    /// The terminal for a program that a person logs in with, until what is given is dropped; `None` if it can't be had. It is free
    /// where nobody draws on it.
    fn lend(&self) -> Future<'_, Option<Lent>> {
        Box::pin(async { Some(Lent::default()) })
    }
}

/// The terminal is somebody else's until this is dropped.
#[derive(Debug, Default)]
pub struct Lent(Option<Arc<Notify>>);

impl Lent {
    /// One whose end is told there.
    pub fn until(over: Arc<Notify>) -> Self {
        Self(Some(over))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(over) = &self.0 {
            over.notify_one();
        }
    }
}

/// How to log in.
#[derive(Clone, Copy, Default)]
pub struct Login<'l> {
    /// The method, if it is settled.
    pub method: Option<&'l str>,
    /// Who chooses, if somebody can.
    pub chooser: Option<&'l dyn Chooser>,
    /// How the agent is started. Without it, or without a terminal for people, there are no terminal logins.
    pub launch: Option<&'l Launch>,
}

/// What follows a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Try the same request again.
    Retry,
    /// Start the agent anew, say hello, then try the same request again.
    Reconnect,
}

/// Why nobody is logged in.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Failed {
    /// Login is needed, and nobody can choose how.
    #[error("{}", offered("the agent wants a login", .0))]
    Needed(Vec<Method>),
    /// There is no such method.
    #[error("{}", offered(&format!("the agent has no login method `{}`", sanitize::exact_line(.wanted)), .methods))]
    NoSuchMethod {
        /// The one that was asked for.
        wanted: String,
        /// Those that there are.
        methods: Vec<Method>,
    },
    /// Variables have to be set first.
    #[error("to log in, set what this method needs: {0}")]
    Variables(Method),
    /// This can't be done here.
    #[error("this login can't be done from here: {0}")]
    NotHere(Method),
    /// The person did not want to.
    #[error("nobody wanted to log in")]
    Declined,
    /// The agent's program did not do it.
    #[error("the login in the terminal failed: {0}")]
    Program(String),
    /// It took too long.
    #[error("the login was not done after {} minutes", PATIENCE.as_secs() / 60)]
    TimedOut,
    /// The agent said no, or something else went wrong on the way.
    #[error("{}", sanitize::text(&words(.0)))]
    Agent(Error),
}

/// What is wrong, and the ways to log in.
fn offered(what: &str, methods: &[Method]) -> String {
    if methods.is_empty() {
        return format!("{what} but offers no way to log in; log in with its own program");
    }
    methods.iter().fold(format!("{what}; it offers:"), |text, method| format!("{text}\n  {method}"))
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Agent(error)
    }
}

impl Login<'_> {
    /// Logs in once.
    pub async fn run(&self, agent: &AgentHandle) -> Result<Next, Failed> {
        let methods: Vec<Method> = agent.auth_methods().iter().map(Method::of).collect();
        let at = match (self.method, self.chooser) {
            (Some(wanted), _) => methods.iter().position(|method| method.id == wanted),
            (None, Some(chooser)) => {
                // Only what can be done here is offered.
                let here = |method: &&Method| method.kind != Kind::Terminal || self.launch.is_some();
                let offered: Vec<Method> = methods.iter().filter(here).cloned().collect();
                if offered.is_empty() {
                    return Err(Failed::Needed(methods));
                }
                let name = agent.info().map_or("the agent", |info| &info.name);
                let at = chooser.choose(&sanitize::exact_line(name), &offered).await.ok_or(Failed::Declined)?;
                offered.get(at).and_then(|chosen| methods.iter().position(|method| method.id == chosen.id))
            }
            _ => return Err(Failed::Needed(methods)),
        };
        let found = at.and_then(|at| Some((methods.get(at)?.clone(), agent.auth_methods().get(at)?)));
        let Some((shown, method)) = found else {
            return Err(Failed::NoSuchMethod { wanted: self.method.unwrap_or_default().to_owned(), methods });
        };
        match (method, self.launch) {
            (AuthMethod::Agent(method), _) => {
                match tokio::time::timeout(PATIENCE, agent.login(&method.method_id)).await {
                    Ok(answer) => answer.map(|()| Next::Retry).map_err(Failed::Agent),
                    Err(_) => Err(Failed::TimedOut),
                }
            }
            (AuthMethod::Terminal(method), Some(launch)) => {
                let lent = match self.chooser {
                    Some(chooser) => chooser.lend().await,
                    None => Some(Lent::default()),
                };
                let Some(_lent) = lent else { return Err(Failed::NotHere(shown)) };
                launch.log_in(method).await.map(|()| Next::Reconnect)
            }
            (AuthMethod::Other(_), _) if matches!(shown.kind, Kind::Variables { .. }) => Err(Failed::Variables(shown)),
            _ => Err(Failed::NotHere(shown)),
        }
    }

    /// Does some work with an agent; if that needs a login, logs in, starts the agent anew if need be, and does it again.
    /// Gives the agent that the work was done with.
    pub async fn with<T>(
        &self,
        agent: AgentHandle,
        connect: impl AsyncFn() -> Result<AgentHandle>,
        work: impl AsyncFn(&AgentHandle) -> Result<T>,
    ) -> Result<(AgentHandle, T), Failed> {
        match work(&agent).await {
            Ok(done) => return Ok((agent, done)),
            Err(error) if is_needed(&error) => {}
            Err(error) => return Err(error.into()),
        }
        let agent = match self.run(&agent).await? {
            Next::Retry => agent,
            Next::Reconnect => {
                agent.close().await;
                connect().await?
            }
        };
        let done = work(&agent).await?;
        Ok((agent, done))
    }
}
