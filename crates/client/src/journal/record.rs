//! A session that is being written down: prompts, updates, decisions and ends, each before it is shown.

use super::{Entry, Journal, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tieline::rpc::sync::Lock;
use tieline::schema::{ContentBlock, Dialect, Patch, Raw, SessionId, StopReason, Update};
pub use tieline_host::snapshot::Kind as HowChanged;
use tieline_host::snapshot::Unkept;
use tieline_host::store::{Change, Event, Log};

/// How long a title is that we make from the user's words, in characters.
const TITLE: usize = 80;
/// Pieces of text that come faster than this share a write; others are on the disk before they are shown.
const BURST: Duration = Duration::from_millis(50);

/// The kind of the event that says which files a turn changed.
pub(super) const CHANGES: &str = "changes";

/// The kind of the event that says how a turn ended.
pub const OUTCOME: &str = "outcome";

/// The kind of the event that says what we told the user ourselves.
pub const NOTICE: &str = "notice";

/// The kind of the event that says which prompts wait.
pub(super) const QUEUE: &str = "queue";

/// What was decided about something the agent asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Decision {
    /// The tool call it is about; empty if it is about none.
    #[serde(skip)]
    pub tool_call_id: String,
    /// What was asked, in words; from the agent, so not yet safe to show.
    pub title: String,
    /// The exact command or the paths that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub about: Vec<String>,
    /// `allowed`, `refused` or `cancelled`.
    pub decision: String,
    /// The option that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// Who decided: `user`, `rule`, `default`, or `nobody` where there was nobody to ask.
    pub by: String,
    /// Why, such as the text of the rule.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub because: String,
}

/// Something we said to the user ourselves.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Said {
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// The words.
    pub text: String,
}

/// A part of a prompt that waits, as the journal keeps it: files by their names, to be read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kept {
    /// Words.
    Text(String),
    /// What another program wrote.
    Piped(String),
    /// A file.
    File(PathBuf),
    /// A picture.
    Image(PathBuf),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The agent said why it stopped.
    Stopped {
        /// The reason, in the words of the protocol.
        reason: String,
    },
    /// It failed.
    Failed {
        /// What was being done.
        phase: String,
        /// What went wrong.
        message: String,
    },
    /// The user or the system ended us, or a time-out did.
    Interrupted {
        /// By what.
        by: String,
    },
}

impl From<&StopReason> for Outcome {
    fn from(reason: &StopReason) -> Self {
        Self::Stopped { reason: reason.to_string() }
    }
}

/// Whether anyone was asked about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HowAsked {
    /// It was asked for, made through us, or allowed by our rules.
    Asked,
    /// Not by name; but it changed while a command that was allowed ran, and only then.
    Command,
    /// It changed while a question stood.
    Waiting,
    /// Not by this run, and another one was at work in the same folder.
    Beside,
    /// It changed between two turns, while the agent was there.
    Between,
    /// The turn was cut off, and it is not known any more.
    Unknown,
    /// Never.
    Never,
}

impl HowAsked {
    /// True if it may have been somebody else than the agent.
    pub fn is_unclear(self) -> bool {
        matches!(self, Self::Waiting | Self::Beside | Self::Between)
    }

    /// In words, where there is something to say.
    pub fn words(self) -> Option<&'static str> {
        match self {
            Self::Asked => None,
            Self::Command => Some("changed while a command that you allowed was running"),
            Self::Waiting => Some("changed while a question stood: by you or by the agent"),
            Self::Beside => {
                Some("changed while another run was at work here: by it or by the agent, and nobody was asked")
            }
            Self::Between => Some("changed after the turn: by you or by the agent"),
            Self::Unknown => Some("the turn was cut off: who was asked is not known"),
            Self::Never => Some("nobody was asked"),
        }
    }
}

/// How much of a change was undone since.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HowUndone {
    /// Nothing.
    #[default]
    Not,
    /// Some places in the file.
    Partly,
    /// All of it.
    Whole,
}

/// A file that a turn changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The whole path.
    pub path: String,
    /// How.
    pub how: HowChanged,
    /// Whether anyone was asked.
    pub asked: HowAsked,
    /// The tool call that says it did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Why it can't be undone, if it can't.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unkept: Option<Unkept>,
    /// How much of it was; not written down, see [`Undo::mark_undone`](crate::undo::Undo::mark_undone).
    #[serde(skip)]
    pub undone: HowUndone,
    /// The difference as a unified diff, if it is text and not too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// A session that is being written down. Nobody else can until this is dropped.
#[derive(Debug)]
pub struct Recording {
    journal: Journal,
    log: Box<dyn Log>,
    entry: Entry,
    titled: AtomicBool,
    /// When the last piece of text came.
    last: Mutex<Option<Instant>>,
    pub(super) interrupted: bool,
    pub(super) lost: Option<String>,
}

impl Recording {
    pub(super) fn new(journal: Journal, log: Box<dyn Log>, entry: Entry) -> Self {
        let titled = AtomicBool::new(entry.title.is_some());
        Self { journal, log, entry, titled, last: Mutex::new(None), interrupted: false, lost: None }
    }

    /// Our id of the session.
    pub fn id(&self) -> &SessionId {
        self.log.id()
    }

    /// The session as it was when it was opened here.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// The journal.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// True if a turn was found open when the session was opened again: its process had died.
    pub fn interrupted(&self) -> bool {
        self.interrupted
    }

    /// What is lost of the session because the journal was damaged once, for people.
    pub fn lost(&self) -> Option<String> {
        Some(format!("a part of session {} is lost: {}", self.id(), self.lost.as_ref()?))
    }

    /// The number of the turn that runs, or of the last one; 0 before the first.
    pub async fn turn(&self) -> Result<u64> {
        Ok(self.journal.entry(self.id()).await?.turns)
    }

    /// A turn begins with what the user says. To be called before the prompt is sent. Gives the number of the turn.
    pub async fn prompt(&self, content: &[ContentBlock]) -> Result<u64> {
        self.prompt_named(None, content).await
    }

    /// The same for a prompt that has a name, by which it is found again.
    pub async fn prompt_named(&self, name: Option<String>, content: &[ContentBlock]) -> Result<u64> {
        let prompt = Event::Prompt { message_id: name, content: content.to_vec() };
        self.log.append(vec![Event::TurnBegin, prompt]).await?;
        if !self.titled.swap(true, Ordering::Relaxed) {
            let words: String = content.iter().filter_map(ContentBlock::as_text).collect();
            let line = words.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
            let title: String = line.chars().take(TITLE).collect();
            if !title.is_empty() {
                self.journal.store.change(self.log.id(), Change::Title(Some(title))).await?;
            }
        }
        self.turn().await
    }

    /// What the agent reported, before it is shown. It is on the disk when this comes back; only in a burst of pieces of
    /// text the later ones take about 20 ms more.
    pub async fn update(&self, update: &Update) -> Result<()> {
        let dialect = self.entry.protocol.unwrap_or(Dialect::V2);
        let update = update.clone().heard_from(dialect);
        if let Update::SessionInfo(info) = &update
            && let Patch::Set(title) = &info.title
        {
            self.titled.store(true, Ordering::Relaxed);
            self.journal.store.change(self.log.id(), Change::Title(Some(title.clone()))).await?;
        }
        match update {
            Update::Chunk(_)
            | Update::TerminalOutput(_)
            | Update::CompactionSummary(_)
            | Update::ToolCallContent(_)
                if self.is_burst() =>
            {
                self.log.stream(update).await?;
            }
            update => drop(self.log.append(vec![Event::Update(update)]).await?),
        }
        Ok(())
    }

    fn is_burst(&self) -> bool {
        let last = self.last.locked().replace(Instant::now());
        last.is_some_and(|last| last.elapsed() < BURST)
    }

    /// What was decided, before the agent is told.
    pub async fn decision(&self, decision: &Decision) -> Result<()> {
        let tool_call_id = decision.tool_call_id.clone();
        self.log.append(vec![Event::Permission { tool_call_id, decision: raw(decision) }]).await?;
        Ok(())
    }

    /// What we told the user ourselves.
    pub async fn notice(&self, severity: &str, text: impl Into<String>) -> Result<()> {
        self.other(NOTICE, &Said { severity: severity.to_owned(), text: text.into() }).await
    }

    /// Which files a turn changed.
    pub async fn changes(&self, changed: &[Changed]) -> Result<()> {
        self.other(CHANGES, changed).await
    }

    /// Something of whoever has the session, under a name of its own.
    pub async fn note(&self, kind: &str, body: &impl Serialize) -> Result<()> {
        self.other(kind, body).await
    }

    /// Which prompts wait from now on.
    pub async fn queue(&self, waiting: &[Vec<Kept>]) -> Result<()> {
        self.other(QUEUE, waiting).await
    }

    /// The agent gave the session another id: its old one was lost, and the user said to go on, perhaps with a record of what
    /// was said.
    pub async fn moved(&mut self, agent_session: impl Into<String>, handed_over: bool) -> Result<()> {
        self.entry.agent_session = Some(agent_session.into());
        self.journal.store.change(self.log.id(), Change::Meta(self.entry.meta())).await?;
        let with = if handed_over { "with a record of" } else { "without" };
        let text = format!("the agent had lost this session; it goes on in a new one, {with} what was said before");
        self.notice("warning", text).await
    }

    /// Who answers from now on, and where; written down if that is new.
    pub async fn answers(&mut self, model: Option<String>, addresses: &BTreeMap<String, String>) -> Result<()> {
        if self.entry.model == model && self.entry.addresses == *addresses {
            return Ok(());
        }
        (self.entry.model, self.entry.addresses) = (model, addresses.clone());
        Ok(self.journal.store.change(self.log.id(), Change::Meta(self.entry.meta())).await.map(drop)?)
    }

    /// A turn ended. When this comes back, all of it is on the disk.
    pub async fn end(&self, outcome: &Outcome) -> Result<()> {
        self.end_with(outcome, None).await
    }

    /// The same, with what can be done about it.
    pub async fn end_with(&self, outcome: &Outcome, hint: Option<&str>) -> Result<()> {
        let stop = match outcome {
            Outcome::Stopped { reason } => StopReason::from(reason.as_str()),
            Outcome::Failed { .. } => StopReason::Error,
            Outcome::Interrupted { .. } => StopReason::Cancelled,
        };
        let mut body = serde_json::to_value(outcome).unwrap_or_default();
        if let (Some(hint), Some(body)) = (hint, body.as_object_mut()) {
            body.insert("hint".to_owned(), hint.into());
        }
        let told = Event::Other { kind: OUTCOME.to_owned(), body: body.into() };
        self.log.append(vec![told, Event::TurnEnd { stop, interrupted: false }]).await?;
        Ok(())
    }

    /// Lets the session go.
    pub async fn close(self) -> Result<()> {
        Ok(self.log.close().await?)
    }

    async fn other(&self, kind: &str, body: &(impl Serialize + ?Sized)) -> Result<()> {
        self.log.append(vec![Event::Other { kind: kind.to_owned(), body: raw(body) }]).await?;
        Ok(())
    }
}

fn raw(value: &(impl Serialize + ?Sized)) -> Raw {
    serde_json::to_value(value).unwrap_or_default().into()
}
