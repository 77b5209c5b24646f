//! The agent: its settings, the store, and its sessions from new to deleted.

use crate::commands;
use crate::history;
use crate::model::Model;
use crate::permission::mode_id;
use crate::report::store_failed;
use crate::session::{Conversation, Past};
use std::path::PathBuf;
use std::sync::Arc;
use tieline::agent::{About, Agent, Opened, Opening, Resuming, SessionHandle};
use tieline::schema::{
    ConfigCategory, Items, ListRequest, ListResponse, Message, SelectOption, SelectOptions, SessionInfo,
};
use tieline::{ConfigOption, Error, MessageKind, Patch, Result, SessionId, Severity, Update};
use tieline_host::files::Hash;
use tieline_host::rules::Mode;
use tieline_host::sandbox::Level;
use tieline_host::store::{self, Claim, Event, ListQuery, NewSession, Store};
use tokio::sync::OnceCell;

/// The name under which sessions are stored.
const NAME: &str = "coder";

/// Where sessions are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// In the user's store.
    Default,
    /// In this file.
    At(PathBuf),
    /// Nowhere.
    Nothing,
}

/// How the agent works.
#[derive(Clone)]
pub struct Settings {
    /// Who answers; the first one unless the user chooses another. There must be one.
    pub models: Vec<Arc<dyn Model>>,
    /// The mode of a new session.
    pub mode: Mode,
    /// How often a model may be asked in one turn.
    pub max_requests: u32,
    /// How far commands can reach.
    pub sandbox: Level,
    /// Where sessions are kept.
    pub keep: Keep,
    /// The folder of the user's own rules.
    pub rules: Option<PathBuf>,
}

impl Settings {
    /// The usual settings with one model.
    pub fn new(model: impl Model) -> Self {
        Self {
            models: vec![Arc::new(model)],
            mode: Mode::Ask,
            max_requests: 50,
            sandbox: Level::Workspace,
            keep: Keep::Default,
            rules: config_folder(),
        }
    }
}

/// `$XDG_CONFIG_HOME/tieline`, or below `~/.config`.
fn config_folder() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CONFIG_HOME").or_else(|| Some(absolute("HOME")?.join(".config")))?;
    Some(base.join("tieline"))
}

/// The coding agent.
pub struct Coder {
    settings: Arc<Settings>,
    store: OnceCell<Store>,
}

impl Coder {
    /// An agent with these settings.
    pub fn new(settings: Settings) -> Self {
        // Ready when the first session wants them, and `initialize` does not wait.
        std::thread::spawn(|| {
            std::sync::LazyLock::force(&crate::permission::PROTECTED);
        });
        Self { settings: Arc::new(settings), store: OnceCell::new() }
    }

    /// The store, opened on first use; `None` if nothing is to be kept.
    async fn store(&self) -> Result<Option<&Store>> {
        let keep = self.settings.keep.clone();
        if keep == Keep::Nothing {
            return Ok(None);
        }
        let open = || async move {
            let open = move || match keep {
                Keep::At(path) => Store::open(path),
                _ => Store::open_default(),
            };
            tokio::task::spawn_blocking(open).await.map_err(Error::internal)?.map_err(|error| {
                Error::wire(-32603, format!("{error} (to work without a store, start the agent with --no-store)"))
            })
        };
        self.store.get_or_try_init(open).await.map(Some)
    }

    /// What a session may be told when it is opened, new or again.
    async fn ready(&self, session: Conversation, servers: usize) -> Result<Opened<Conversation>> {
        if servers > 0 {
            let words = "MCP servers are not supported yet; the session works without them.";
            session.handle().notice(Severity::Warning, words).await?;
        }
        let options = self.options(&session);
        let commands = commands::advertised(&session).await;
        Ok(Opened::new(session).options(options).commands(commands))
    }

    fn options(&self, session: &Conversation) -> Vec<ConfigOption> {
        let choice = |value: &str, name: &str, meaning: &str| SelectOption {
            value: value.into(),
            name: name.into(),
            description: (!meaning.is_empty()).then(|| meaning.into()),
            ..SelectOption::default()
        };
        let ways = crate::permission::MODES.iter().map(|(id, name, meaning)| choice(id, name, meaning)).collect();
        let now = mode_id(session.mode());
        let mut mode = ConfigOption::select("mode", "Mode", now, SelectOptions::Flat(ways));
        mode.category = Some(ConfigCategory::Mode);
        let known = self.settings.models.iter().map(|one| choice(one.id(), one.name(), "")).collect();
        let mut model = ConfigOption::select("model", "Model", session.model().id(), SelectOptions::Flat(known));
        model.category = Some(ConfigCategory::Model);
        vec![mode, model]
    }

    fn snapshots(store: &Store, id: &SessionId) -> PathBuf {
        let folder = store.path().parent().map(|path| path.join("snapshots")).unwrap_or_default();
        folder.join(&Hash::of(id.as_bytes()).to_string()[..32])
    }
}

impl Agent for Coder {
    type Session = Conversation;

    fn about(&self) -> About {
        let mut about = About::new("tieline", env!("CARGO_PKG_VERSION"));
        about.info.title = Some(match self.settings.models.first() {
            Some(model) => format!("Tieline ({})", model.name()),
            None => "Tieline".into(),
        });
        let kept = self.settings.keep != Keep::Nothing;
        let can = &mut about.capabilities;
        (can.load, can.list, can.resume, can.delete) = (kept, kept, kept, kept);
        (can.close, can.additional_directories, can.image, can.embedded_context) = (true, true, true, true);
        about
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Conversation>> {
        let id = opening.session.id().clone();
        let store = self.store().await?;
        let mut past = Past::default();
        if let Some(store) = store {
            let new = NewSession {
                id: Some(id.clone()),
                agent: NAME.into(),
                cwd: opening.cwd.clone(),
                directories: opening.additional_directories.clone(),
                ..NewSession::default()
            };
            past.log = Some(Arc::new(store.create(new).await.map_err(store_failed)?));
            past.kept = Some((store.clone(), Self::snapshots(store, &id)));
        }
        let roots = (opening.cwd, opening.additional_directories);
        let session = Conversation::new(Arc::clone(&self.settings), opening.session, roots, past).await?;
        self.ready(session, opening.mcp_servers.len()).await
    }

    async fn resume(&self, resuming: Resuming) -> Result<Opened<Conversation>> {
        let id = resuming.session.id().clone();
        let Some(store) = self.store().await? else { return Err(Error::unknown_session(&id)) };
        let known = store.session(&id).await.map_err(store_failed)?;
        if known.agent != NAME {
            return Err(Error::unknown_session(&id));
        }
        let opened = store.open_session(&id, Claim::IfFree).await.map_err(|error| match error {
            store::Error::InUse { .. } => Error::wire(-32004, error.to_string()),
            error => store_failed(error),
        })?;
        let mut past = Past { titled: known.title.is_some(), options: known.options, ..Past::default() };
        past.log = Some(Arc::new(opened.log));
        past.kept = Some((store.clone(), Self::snapshots(store, &id)));
        let mut replay = store.load(&id);
        let mut prompt = Vec::new();
        while let Some(page) = replay.next().await.map_err(store_failed)? {
            for stored in page {
                history::take(&mut past.messages, &mut prompt, &stored);
                if resuming.replay {
                    tell_again(&resuming.session, stored).await?;
                }
            }
        }
        history::mend(&mut past.messages);
        if let Some(damage) = opened.damage {
            resuming.session.notice(Severity::Warning, format!("A part of this session is lost: {damage}")).await?;
        }
        let roots = (resuming.cwd, resuming.additional_directories);
        let session = Conversation::new(Arc::clone(&self.settings), resuming.session, roots, past).await?;
        self.ready(session, resuming.mcp_servers.len()).await
    }

    async fn list(&self, request: ListRequest) -> Result<Option<ListResponse>> {
        let Some(store) = self.store().await? else { return Ok(None) };
        let query = ListQuery { cwd: request.cwd, agent: Some(NAME.into()), cursor: request.cursor, limit: 0 };
        let page = store.list(query).await.map_err(store_failed)?;
        let info = |session: store::Session| SessionInfo {
            session_id: session.id,
            cwd: session.cwd,
            additional_directories: session.directories,
            title: session.title,
            updated_at: Some(session.updated.to_string()),
            ..SessionInfo::default()
        };
        let sessions = page.sessions.into_iter().map(info).collect();
        Ok(Some(ListResponse { sessions, next_cursor: page.next, ..ListResponse::default() }))
    }

    async fn delete(&self, id: SessionId) -> Result<()> {
        let Some(store) = self.store().await? else { return Ok(()) };
        match store.delete(&id).await {
            Ok(()) => {
                let folder = Self::snapshots(store, &id);
                let _ = tokio::task::spawn_blocking(move || std::fs::remove_dir_all(folder)).await;
                Ok(())
            }
            Err(store::Error::NotFound(_)) => Ok(()),
            Err(error) => Err(store_failed(error)),
        }
    }
}

/// Sends what happened earlier.
async fn tell_again(session: &SessionHandle, stored: store::Stored) -> Result<()> {
    match stored.event {
        Event::Prompt { message_id, content } => {
            let message_id = message_id.unwrap_or_else(|| format!("user-{}", stored.seq));
            let content = Patch::Set(Items(content));
            let message = Message { kind: MessageKind::User, message_id, content, ..Message::default() };
            session.update(message).await
        }
        Event::Update(Update::Notice(_)) => Ok(()),
        Event::Update(update) => session.update(update).await,
        _ => Ok(()),
    }
}
