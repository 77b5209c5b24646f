//! One conversation: its files, its rules, its history, and what happens around a turn.

use crate::agent::Settings;
use crate::busy::Busy;
use crate::commands::{self, Typed};
use crate::editor_prompts;
use crate::history;
use crate::jobs::Jobs;
use crate::mcp::Servers;
use crate::model::{Message, Model, ToolRequest};
use crate::notice::Notices;
use crate::permission::Permissions;
use crate::prompt;
use crate::report::{Reporter, one_line, store_failed};
use crate::tools::{Commands, ToolContext};
use crate::turn::{Answer, TurnLoop};
use crate::workspace::{Seen, Workspace};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::agent::{ClientHandle, Session, SessionHandle, Turn};
use tieline::schema::{ConfigCategory, SelectOption, SelectOptions};
use tieline::{ConfigOption, ConfigValue, ContentBlock, Error, McpServer, MessageKind, Result, StopReason};
use tieline_host::files::Files;
use tieline_host::roots::Roots;
use tieline_host::rules::{Preset, Settings as Stated};
use tieline_host::snapshot::{Recorder, Snapshots};
use tieline_host::store::{Event, SessionLog, Store};
use tieline_rpc::sync::Lock;

/// So many bytes of old contents are kept for undo.
const SNAPSHOTS: u64 = 256 << 20;
/// So many cancelled prompts in a row are known again when an editor repeats them.
const MAX_CANCELLED: usize = 16;

/// What a session brings from earlier; a new one has only its log.
#[derive(Default)]
pub struct Past {
    /// Where it is written down.
    pub log: Option<Arc<SessionLog>>,
    /// The store, and the folder for snapshots.
    pub kept: Option<(Store, PathBuf)>,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// It has a title.
    pub titled: bool,
    /// The options that were chosen.
    pub options: serde_json::Value,
}

/// Where a session works, and with which MCP servers.
pub struct Place {
    /// The working directory.
    pub cwd: String,
    /// More folders.
    pub more: Vec<String>,
    /// The servers to connect to.
    pub servers: Vec<McpServer>,
}

/// One conversation.
pub struct Conversation {
    settings: Arc<Settings>,
    handle: SessionHandle,
    store: Option<Store>,
    log: Mutex<Option<Arc<SessionLog>>>,
    files: Files,
    seen: Seen,
    snapshots: Option<Arc<Snapshots>>,
    permissions: Arc<Permissions>,
    commands: Arc<Commands>,
    servers: Arc<Servers>,
    notices: Arc<Notices>,
    /// Who can be chosen to answer.
    models: Vec<Arc<dyn Model>>,
    model: Mutex<Arc<dyn Model>>,
    thought_level: Mutex<Option<String>>,
    state: tokio::sync::Mutex<State>,
}

struct State {
    messages: Vec<Message>,
    /// The words of the prompt that runs, and of those before it that were cancelled.
    cancelled: Vec<String>,
    titled: bool,
    cost: f64,
}

/// A word with a capital letter.
fn title(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.locked()
}

/// No session without the rules that may hold it back.
fn unreadable(why: String) -> Error {
    Error::wire(-32603, format!("The rules can't be read: {why}"))
}

impl Conversation {
    /// Sets a session up.
    pub async fn new(
        settings: Arc<Settings>,
        handle: SessionHandle,
        Place { cwd, more, servers }: Place,
        past: Past,
    ) -> Result<Self> {
        // One that is not there may be the client's own, or come later. One that is a file never works.
        for folder in std::iter::once(&cwd).chain(&more) {
            if std::fs::metadata(folder).is_ok_and(|facts| !facts.is_dir()) {
                return Err(Error::invalid_params("a working directory or additional directory is no directory"));
            }
        }
        let roots = Roots::new(&cwd, &more).map_err(Error::invalid_params)?;
        let folders: Vec<PathBuf> = std::iter::once(&cwd).chain(&more).map(PathBuf::from).collect();
        let (store, snapshots) = match past.kept {
            Some((store, folder)) => {
                let open = move || Snapshots::open(folder, SNAPSHOTS);
                let opened = tokio::task::spawn_blocking(open).await.map_err(Error::internal)?;
                (Some(store), Some(opened.map_err(|error| Error::wire(-32603, format!("snapshots: {error}")))?))
            }
            None => (None, None),
        };
        let files = Files::new(roots);
        let stated = match settings.permissions.clone() {
            Some(read) => {
                let cwd = PathBuf::from(&cwd);
                let read = tokio::task::spawn_blocking(move || read(&cwd)).await.map_err(Error::internal)?;
                read.map_err(unreadable)?
            }
            None => Stated::default(),
        };
        let permissions =
            Permissions::load(settings.mode, &stated, &settings.limits, Path::new(&cwd)).map_err(unreadable)?;
        let (own, models) = settings.restored(&past.options);
        let model = own.or_else(|| models.first().cloned()).ok_or_else(|| Error::internal("no model"))?;
        let thought_level = Mutex::new(settings.thought_level.clone());
        let jobs = Jobs::new(handle.clone(), past.log.as_ref()).await;
        // Last of all, so that nothing is started for a session that can't be opened.
        let notices = Arc::new(Notices::new(handle.clone()));
        let told = Arc::clone(&notices);
        let servers = Arc::new(Servers::start(servers, folders.clone(), &handle, told, &settings).await);
        let session = Self {
            servers,
            notices,
            commands: Arc::new(Commands::new(settings.sandbox, folders, settings.key_files(), jobs)),
            settings,
            handle,
            store,
            log: Mutex::new(past.log),
            files,
            seen: Seen::default(),
            snapshots,
            permissions: Arc::new(permissions),
            models,
            model: Mutex::new(model),
            thought_level,
            state: tokio::sync::Mutex::new(State {
                messages: past.messages,
                cancelled: Vec::new(),
                titled: past.titled,
                cost: 0.0,
            }),
        };
        for note in stated.notes {
            session.notices.tell(tieline::Severity::Warning, note, None).await;
        }
        for id in ["mode", "thought_level"] {
            let _ = session.choose(id, past.options[id].as_str().unwrap_or_default());
        }
        Ok(session)
    }

    /// The way to tell the client something outside a turn.
    pub fn handle(&self) -> &SessionHandle {
        &self.handle
    }

    /// The files.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// The files as this client sees them, recorded for undo if there is a recorder.
    pub fn workspace(&self, client: ClientHandle, recorder: Option<Arc<Recorder>>) -> Workspace {
        Workspace::new(self.files.clone(), Arc::clone(&self.seen), client, recorder)
    }

    /// What files were before each turn, if that is kept.
    pub fn snapshots(&self) -> Option<&Arc<Snapshots>> {
        self.snapshots.as_ref()
    }

    /// The rules.
    pub fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// The MCP servers.
    pub fn servers(&self) -> &Arc<Servers> {
        &self.servers
    }

    /// The mode that is on.
    pub fn mode(&self) -> Preset {
        self.permissions.mode()
    }

    /// Who answers.
    pub fn model(&self) -> Arc<dyn Model> {
        Arc::clone(&lock(&self.model))
    }

    /// How hard it should think, if it was told and can be.
    pub fn thought_level(&self) -> Option<String> {
        let levels = self.model().thought_levels();
        lock(&self.thought_level).clone().filter(|level| levels.contains(&level.as_str()))
    }

    /// Changes an option; false if there is no such value.
    fn choose(&self, id: &str, value: &str) -> bool {
        match id {
            "mode" => self.permissions.mode_named(value).map(|mode| self.permissions.set_mode(mode)).is_some(),
            "model" => {
                let found = self.models.iter().find(|model| model.id() == value);
                found.map(|model| *lock(&self.model) = Arc::clone(model)).is_some()
            }
            "thought_level" if self.model().thought_levels().contains(&value) => {
                *lock(&self.thought_level) = Some(value.to_owned());
                true
            }
            _ => false,
        }
    }

    /// The options as they are now.
    pub fn options(&self) -> Vec<ConfigOption> {
        let choice = |value: &str, name: &str, meaning: &str| SelectOption {
            value: value.into(),
            name: name.into(),
            description: (!meaning.is_empty()).then(|| meaning.into()),
            ..SelectOption::default()
        };
        let select = |id: &str, name: &str, now: &str, choices, category| {
            let mut option = ConfigOption::select(id, name, now, SelectOptions::Flat(choices));
            option.category = Some(category);
            option
        };
        let ways = self.permissions.modes().iter();
        let ways = ways.map(|mode| choice(mode.mode(), mode.title(), mode.about())).collect();
        let mode = select("mode", "Mode", self.mode().mode(), ways, ConfigCategory::Mode);
        let known = self.models.iter().map(|one| choice(one.id(), one.name(), "")).collect();
        let model = self.model();
        let mut options = vec![mode, select("model", "Model", model.id(), known, ConfigCategory::Model)];
        if let [usual, ..] = model.thought_levels() {
            let levels = model.thought_levels().iter().map(|level| choice(level, &title(level), "")).collect();
            let now = self.thought_level();
            let now = now.as_deref().unwrap_or(usual);
            options.push(select("thought_level", "Thinking", now, levels, ConfigCategory::ThoughtLevel));
        }
        options
    }

    async fn save_options(&self) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let mut options = self.settings.chosen(&*self.model());
        options["mode"] = self.mode().mode().into();
        options["thought_level"] = self.thought_level().into();
        store.set_options(self.handle.id(), options.into()).await.map_err(store_failed)
    }

    /// The first words that the person typed are the title.
    async fn entitle(&self, prompt: &[ContentBlock], titled: &mut bool) -> Result<()> {
        let words = editor_prompts::words(prompt);
        let Some(line) = words.lines().find(|line| !*titled && !line.trim().is_empty()) else { return Ok(()) };
        *titled = true;
        let title = one_line(&history::cut(line, 60));
        if let Some(store) = &self.store
            && !store.set_title(self.handle.id(), Some(&title)).await.map_err(store_failed)?
        {
            return Ok(());
        }
        self.handle.title(title).await
    }

    async fn work(&self, reporter: &Arc<Reporter>, state: &mut State, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        let turn = &reporter.turn;
        self.notices.begin(reporter).await?;
        turn.unless_cancelled(self.servers.settle()).await?;
        // What the agent itself starts with is for the model; nobody typed it.
        let own = turn.is_own();
        let mut content = prompt.clone();
        let mut typed_call = None;
        let mut typed = Typed::Not;
        if !own {
            content = editor_prompts::clean(content, !state.messages.is_empty(), &state.cancelled);
            state.cancelled.truncate(MAX_CANCELLED);
            state.cancelled.insert(0, editor_prompts::words(&content));
            typed = commands::typed(self, &content).await;
            self.entitle(&content, &mut state.titled).await?;
        }
        match typed {
            Typed::Ours(command) => {
                let done = commands::carry_out(self, reporter, &mut state.messages, command);
                return turn.unless_cancelled(done).await?;
            }
            Typed::Project(at, text) => content[at] = text.into(),
            Typed::Useless(why) => {
                reporter.say(MessageKind::Agent, why).await?;
                return Ok(StopReason::EndTurn);
            }
            Typed::Call(name, arguments) => {
                let id = reporter.new_id("typed");
                typed_call = Some(ToolRequest { id, name, arguments });
            }
            Typed::Not => {}
        }
        reporter.note(vec![history::user_event(&content, content == prompt && !own)?]).await?;
        state.messages.push(Message::User(content));
        let recorder = self.snapshots.as_ref().map(|snapshots| snapshots.join(turn.prompt_id()));
        let workspace = self.workspace(turn.client(), recorder);
        let system = prompt::system(&workspace, self.mode()).await + &self.servers.instructions();
        let ctx = Arc::new(ToolContext {
            reporter: Arc::clone(reporter),
            workspace,
            permissions: Arc::clone(&self.permissions),
            commands: Arc::clone(&self.commands),
            http: self.settings.http.clone(),
            servers: Arc::clone(&self.servers),
            notices: Arc::clone(&self.notices),
        });
        let mut work = TurnLoop {
            ctx,
            model: self.model(),
            thought_level: self.thought_level(),
            system,
            messages: &mut state.messages,
            answer: Answer::default(),
            stop: None,
            done: Vec::new(),
            max_requests: self.settings.max_requests,
            cost: &mut state.cost,
        };
        let result = match typed_call {
            Some(call) => turn.unless_cancelled(work.carry_out(call)).await,
            None => turn.unless_cancelled(work.go()).await,
        };
        let result = result.and_then(|result| result);
        work.close().await?;
        result
    }
}

impl Session for Conversation {
    async fn accept(&self, message_id: &str, prompt: &[ContentBlock]) -> Result<()> {
        let log = lock(&self.log).clone();
        if let Some(log) = log {
            // Before the client hears a word of it.
            log.begin_turn(Some(message_id.to_owned()), prompt.to_vec()).await.map_err(store_failed)?;
        }
        Ok(())
    }

    async fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        let log = lock(&self.log).clone();
        let reporter = Reporter::new(turn, log);
        let mode = self.mode();
        if reporter.turn.is_own() {
            // There is no prompt to write down, so the turn begins here.
            reporter.note(vec![Event::TurnBegin]).await?;
        }
        let mut state = self.state.lock().await;
        let busy = Busy::new();
        let result = Box::pin(busy.during(self.work(&reporter, &mut state, prompt))).await;
        // A cancel cuts tools off, but what they were about to do may still happen. Nothing does once the turn is over.
        busy.rest().await;
        self.notices.end().await;
        let stop = match &result {
            Ok(stop) => stop.clone(),
            Err(Error::Cancelled) => StopReason::Cancelled,
            Err(_) if reporter.turn.is_cancelled() => StopReason::Cancelled,
            Err(_) => StopReason::Error,
        };
        if stop != StopReason::Cancelled {
            state.cancelled.clear();
        }
        let mut events = reporter.cut_off();
        events.push(Event::TurnEnd { stop: stop.clone(), interrupted: false });
        reporter.note(events).await?;
        if mode != self.mode() {
            self.save_options().await?;
        }
        if stop == StopReason::Cancelled { Ok(stop) } else { result }
    }

    async fn set_option(&self, id: String, value: ConfigValue) -> Result<Option<Vec<ConfigOption>>> {
        let ConfigValue::Id(value) = value else { return Err(Error::invalid_params("no such value")) };
        if !self.choose(&id, &value) {
            return Err(Error::invalid_params("no such option or value"));
        }
        self.save_options().await?;
        // Another model may think in other ways, or not at all.
        Ok((id == "model").then(|| self.options()))
    }

    async fn close(&self) {
        self.commands.stop_all().await;
        let log = lock(&self.log).take();
        if let Some(log) = log.and_then(Arc::into_inner)
            && let Err(error) = log.close().await
        {
            tracing::warn!(%error, "a session could not be closed in the store");
        }
    }
}
