//! The agent: its settings, the store, and its sessions from new to deleted.

use crate::commands;
use crate::history::History;
use crate::http::Http;
use crate::mcp;
use crate::model::Model;
use crate::model::addresses::{Choice, FindModel, Kept};
use crate::model::provider::Provider;
use crate::notice;
use crate::permission::Configure;
use crate::report::{Log, store_failed};
use crate::session::{Conversation, Past};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tieline::agent::{About, Agent, ClientHandle, Opened, Opening, Resuming, SessionHandle};
use tieline::schema::{Items, ListRequest, ListResponse, Message, SessionInfo};
use tieline::{Error, MessageKind, Patch, Result, SessionId, Update};
use tieline_host::files::Hash;
use tieline_host::rules::{Limits, Preset};
use tieline_host::sandbox::Level;
use tieline_host::store::{self, Claim, Event, ListQuery, NewSession, Retention, Store};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

/// The name under which sessions are stored.
const NAME: &str = "coder";
/// An agent whose client was killed gives its sessions back in a moment. Whoever comes next waits for that so long.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(3);
/// How often it looks.
const RELEASE_PAUSE: Duration = Duration::from_millis(50);

/// Where sessions are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Keep {
    /// In the user's store.
    #[default]
    Default,
    /// In this file.
    At(PathBuf),
    /// Nowhere.
    Nothing,
}

/// How the agent works: [`Settings::new`], and what is to be otherwise.
#[derive(Clone, Default)]
pub struct Settings {
    /// Who answers; the first one unless the user chooses another. There must be one.
    pub models: Vec<Arc<dyn Model>>,
    /// The mode of a new session; otherwise what the configuration says.
    pub mode: Option<Preset>,
    /// How often a model may be asked in one turn.
    pub max_requests: u32,
    /// How far commands can reach.
    pub sandbox: Level,
    /// Where sessions are kept.
    pub keep: Keep,
    /// For how long they are kept there.
    pub retention: Retention,
    /// What the configuration says about permission.
    pub permissions: Option<Configure>,
    /// What whoever started the agent adds to hold it back.
    pub limits: Limits,
    /// The way to the network.
    pub http: Http,
    /// How long MCP servers may take.
    pub mcp: mcp::Limits,
    /// Whether the MCP servers of the configuration that counts where a session works are used, too.
    pub own_servers: bool,
    /// How hard a model should think: a value of its `thought_level` option.
    pub thought_level: Option<String>,
    /// Finds the model of an older session that is not among `models`.
    pub find: Option<FindModel>,
    /// Who answered in the session that this agent is started for, and where, should it have lost it.
    pub kept: Kept,
    /// What is done before each turn that nobody else watches, given the folder of the store.
    pub before_turn: Option<BeforeTurn>,
}

/// Something that is done before a turn.
pub type BeforeTurn = Arc<dyn Fn(PathBuf) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

impl Settings {
    /// The usual settings with one model.
    pub fn new(model: impl Model) -> Self {
        Self { models: vec![Arc::new(model)], max_requests: 50, sandbox: Level::Workspace, ..Self::default() }
    }

    /// Who users can log in to: first whose model answers unless they choose another, then those of the others.
    fn providers(&self) -> Vec<&Arc<Provider>> {
        let mut all: Vec<&Arc<Provider>> = Vec::new();
        for provider in self.models.iter().filter_map(|model| model.provider()) {
            if !all.iter().any(|known| known.name == provider.name) {
                all.push(provider);
            }
        }
        all
    }

    /// Who answers in a session with these stored options.
    pub(crate) fn choice(&self, options: &serde_json::Value) -> Choice {
        Choice::of(&self.models, options, &self.kept, self.find.as_ref())
    }
}

/// True for a file that begins as every store does.
fn is_database(path: &Path) -> bool {
    let mut begin = [0; 16];
    // A FIFO would be waited for.
    let read = path.is_file() && File::open(path).and_then(|mut file| file.read_exact(&mut begin)).is_ok();
    read && begin == *b"SQLite format 3\0"
}

/// The coding agent.
pub struct Coder {
    settings: Arc<Settings>,
    store: OnceCell<Store>,
}

impl Coder {
    /// An agent with these settings.
    pub fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), store: OnceCell::new() }
    }

    /// The store, opened on first use; `None` if nothing is to be kept.
    async fn store(&self) -> Result<Option<&Store>> {
        let (keep, retention) = (self.settings.keep.clone(), self.settings.retention);
        if keep == Keep::Nothing {
            return Ok(None);
        }
        let open = || async move {
            let open = move || match keep {
                // A file that somebody named by mistake is not moved aside.
                Keep::At(path) if is_database(&path) => Store::open_mended(&path),
                Keep::At(path) => Store::open(path),
                _ => Store::open_default(),
            };
            let store = tokio::task::spawn_blocking(open).await.map_err(Error::internal)?.map_err(|error| {
                Error::wire(-32603, format!("{error} (to work without a store, start the agent with --no-store)"))
            })?;
            let old = store.clone();
            tokio::spawn(async move { clear_out(&old, retention).await });
            Ok(store)
        };
        self.store.get_or_try_init(open).await.map(Some)
    }

    /// Opens a session, new or again, with what it is told then.
    async fn begin(&self, opening: Opening, past: Past) -> Result<Opened<Conversation>> {
        let session = Conversation::new(Arc::clone(&self.settings), opening, past).await?;
        let options = session.options();
        let commands = commands::advertised(&session).await;
        Ok(Opened::new(session).options(options).commands(commands))
    }

    /// Refuses a session while no model that would answer can be asked: neither its own nor the one that is named now. The engine
    /// adds the ways to log in.
    async fn check_login(&self, choice: &Choice) -> Result<()> {
        let Some(named) = choice.models.first() else { return Ok(()) };
        let Err(error) = named.ready().await else { return Ok(()) };
        match &choice.own {
            Some(own) if own.id() != named.id() && own.ready().await.is_ok() => Ok(()),
            _ => Err(error.told(&**named)),
        }
    }

    /// Where the old contents of a session's files are. Those of the version before had a folder of their own, and are moved.
    fn snapshots(store: &Store, id: &SessionId) -> PathBuf {
        let folder = store.undo_folder(id);
        let old = store.path().with_file_name("snapshots").join(&Hash::of(id.as_bytes()).to_string()[..32]);
        if old.exists() && !folder.exists() {
            let _ = folder.parent().map(std::fs::create_dir_all);
            if let Err(error) = std::fs::rename(&old, &folder) {
                tracing::warn!(%error, folder = %old.display(), "old contents of files could not be moved");
            }
        }
        folder
    }
}

impl Agent for Coder {
    type Session = Conversation;

    fn about(&self) -> About {
        let mut about = About::new("tieline", env!("CARGO_PKG_VERSION"));
        about.info.title = Some(match self.settings.models.first() {
            Some(model) => format!("Tieline ({})", model.name().replace(" (", ", ").replace(')', "")),
            None => "Tieline".into(),
        });
        let kept = self.settings.keep != Keep::Nothing;
        let can = &mut about.capabilities;
        (can.load, can.list, can.resume, can.delete) = (kept, kept, kept, kept);
        let providers = self.settings.providers();
        about.auth_methods = providers.iter().flat_map(|provider| provider.auth_methods()).collect();
        can.logout = !about.auth_methods.is_empty();
        let can = &mut about.capabilities;
        (can.close, can.additional_directories, can.image, can.embedded_context) = (true, true, true, true);
        (can.mcp_stdio, can.mcp_http, can.mcp_sse) = (true, true, true);
        about
    }

    async fn open(&self, opening: Opening) -> Result<Opened<Conversation>> {
        let choice = self.settings.choice(&serde_json::Value::Null);
        self.check_login(&choice).await?;
        opening.session.set_id(store::new_id().into());
        let id = opening.session.id().clone();
        let store = self.store().await?;
        let mut past = Past::default();
        if let Some(store) = store {
            let new = NewSession {
                id: Some(id.clone()),
                agent: NAME.into(),
                cwd: opening.cwd.clone(),
                directories: opening.additional_directories.clone(),
                options: choice.answers().map(|model| choice.addresses.to_store(&**model).into()),
                ..NewSession::default()
            };
            past.log = Log::new(store.create(new).await.map_err(store_failed)?);
            past.kept = Some((store.clone(), Self::snapshots(store, &id)));
        }
        self.begin(opening, past).await
    }

    async fn resume(&self, resuming: Resuming) -> Result<Opened<Conversation>> {
        let session = &resuming.session;
        let id = session.id().clone();
        let Some(store) = self.store().await? else { return Err(Error::unknown_session(&id)) };
        let known = store.session(&id).await.map_err(store_failed)?;
        if known.agent != NAME {
            return Err(Error::unknown_session(&id));
        }
        let options = known.options.as_ref().and_then(|raw| raw.parse().ok()).unwrap_or_default();
        self.check_login(&self.settings.choice(&options)).await?;
        let until = Instant::now() + RELEASE_TIMEOUT;
        let opened = loop {
            match store.open_session(&id, Claim::IfFree).await {
                Err(store::Error::InUse { .. }) if Instant::now() < until => sleep(RELEASE_PAUSE).await,
                Err(error @ store::Error::InUse { .. }) => return Err(Error::wire(-32004, error.to_string())),
                opened => break opened.map_err(store_failed)?,
            }
        };
        let mut pages = store.load(&id);
        let mut history = History::default();
        while let Some(page) = pages.next().await.map_err(store_failed)? {
            for stored in page {
                history.take(&stored.event)?;
                if resuming.replay {
                    tell_again(session, stored).await?;
                }
            }
        }
        let mut damage = opened.lost.map(|damage| format!("A part of this session is lost: {damage}"));
        // A client that shows no notices hears it with what is told again, and not only when the next turn begins.
        if resuming.replay
            && !notice::shows(&session.client())
            && let Some(text) = damage.take()
        {
            session.update(Update::text(MessageKind::Agent, Some(store::new_id()), text)).await?;
        }
        let past = Past {
            log: Log::new(opened.log),
            kept: Some((store.clone(), Self::snapshots(store, &id))),
            messages: history.end(),
            titled: known.title.is_some(),
            options,
            damage,
        };
        self.begin(resuming.into(), past).await
    }

    async fn login(&self, method_id: String, _: ClientHandle) -> Result<()> {
        let providers = self.settings.providers();
        let meant = providers.into_iter().find(|provider| provider.method_ids().contains(&method_id));
        let Some(provider) = meant else { return Err(Error::invalid_params("unknown methodId")) };
        provider.log_in().await.map_err(|error| Error::login_needed(error.to_string(), &provider.method_ids()))
    }

    async fn logout(&self, _: ClientHandle) -> Result<()> {
        for provider in self.settings.providers() {
            provider.log_out().await.map_err(|why| Error::wire(-32603, why.to_string()))?;
        }
        Ok(())
    }

    async fn list(&self, request: ListRequest) -> Result<Option<ListResponse>> {
        let Some(store) = self.store().await? else { return Ok(None) };
        // Editors open a session with each window; one that nobody spoke in is nothing to go on with.
        let query =
            ListQuery { cwd: request.cwd, agent: Some(NAME.into()), begun: true, cursor: request.cursor, limit: 0 };
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
        // A session of another agent is none of ours.
        let ours = store.session(&id).await.map(|known| known.agent == NAME);
        if matches!(ours, Ok(false)) {
            return Ok(());
        }
        match store.delete(&id).await {
            Ok(()) => {
                // What an older version kept elsewhere is brought here first.
                Self::snapshots(store, &id);
                let store = store.clone();
                let _ = tokio::task::spawn_blocking(move || tieline_host::store::remove_undo(store.path(), &id)).await;
                Ok(())
            }
            Err(store::Error::NotFound(_)) => Ok(()),
            Err(error) => Err(store_failed(error)),
        }
    }
}

/// Removes the sessions that are not to be kept any longer, and the old contents of files that go with them.
async fn clear_out(store: &Store, retention: Retention) {
    match store.retain(Retention { agent: Some(NAME), ..retention }).await {
        Ok(gone) if gone.is_empty() => {}
        Ok(gone) => tracing::info!(count = gone.len(), "old sessions were removed"),
        // What can't be removed now can be next time.
        Err(error) => tracing::warn!(%error, "old sessions could not be removed"),
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
