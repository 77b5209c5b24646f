//! One conversation: its files, its rules, its history, and what happens around a turn.

use crate::agent::Settings;
use crate::busy::Busy;
use crate::commands::{self, Typed};
use crate::editor_prompts;
use crate::history;
use crate::jobs::Jobs;
use crate::mcp::Servers;
use crate::model::addresses::{Addresses, Choice};
use crate::model::{Message, Model, ToolRequest};
use crate::notice::Notices;
use crate::permission::Permissions;
use crate::prompt;
use crate::report::{Log, Recording, one_line, store_failed};
use crate::tools::{Commands, ToolContext, ToolError};
use crate::turn::{Answer, TurnLoop};
use crate::workspace::{Seen, Workspace};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tieline::agent::{ClientHandle, Opening, Session, SessionHandle, Turn};
use tieline::schema::{ConfigCategory, SelectOption};
use tieline::{ConfigOption, ConfigValue, ContentBlock, Error, Result, Severity, StopReason, ToolCallStatus};
use tieline_host::files::Files;
use tieline_host::roots::Roots;
use tieline_host::rules::Settings as Stated;
use tieline_host::snapshot::{Recorder, Snapshots};
use tieline_host::store::{Event, Store};
use tieline_rpc::sync::Lock;

/// So many bytes of old contents are kept for undo.
const MAX_SNAPSHOT_BYTES: u64 = 256 << 20;
/// So many cancelled prompts in a row are known again when an editor repeats them.
const MAX_CANCELLED: usize = 16;

/// What a session brings from earlier; a new one has only its log.
#[derive(Default)]
pub struct Past {
    /// Where it is written down.
    pub log: Log,
    /// The store, and the folder for snapshots.
    pub kept: Option<(Store, PathBuf)>,
    /// The conversation so far.
    pub messages: Vec<Message>,
    /// It has a title.
    pub titled: bool,
    /// The options that were chosen.
    pub options: serde_json::Value,
    /// What is lost of it, for the user.
    pub damage: Option<String>,
}

/// One conversation.
pub struct Conversation {
    settings: Arc<Settings>,
    handle: SessionHandle,
    store: Option<Store>,
    pub(crate) log: Arc<Log>,
    pub(crate) files: Files,
    seen: Seen,
    /// What files were before each turn, if that is kept.
    pub(crate) snapshots: Option<Arc<Snapshots>>,
    pub(crate) permissions: Arc<Permissions>,
    pub(crate) commands: Arc<Commands>,
    pub(crate) servers: Arc<Servers>,
    notices: Arc<Notices>,
    /// Who can be chosen to answer.
    models: Mutex<Vec<Arc<dyn Model>>>,
    /// Where their providers are.
    addresses: Addresses,
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
    /// Remembers what the turn changes.
    recorder: Option<Arc<Recorder>>,
}

/// A word with a capital letter.
fn title(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Where a model is, if that is not where its provider is for everybody.
fn address(model: &dyn Model) -> String {
    let elsewhere = model.provider().filter(|provider| provider.is_elsewhere());
    elsewhere.map_or_else(String::new, |provider| format!("at {}", provider.shown_url()))
}

/// Does work that may block, outside of any turn.
async fn off_runtime<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(Error::internal)
}

impl Conversation {
    /// Sets a session up.
    pub async fn new(settings: Arc<Settings>, opening: Opening, past: Past) -> Result<Self> {
        let Opening { session: handle, cwd, additional_directories: more, mcp_servers, .. } = opening;
        let folders: Vec<PathBuf> = std::iter::once(&cwd).chain(&more).map(PathBuf::from).collect();
        // One that is not there may be the client's own, or come later. One that is a file never works.
        if folders.iter().any(|folder| std::fs::metadata(folder).is_ok_and(|facts| !facts.is_dir())) {
            return Err(Error::invalid_params("a working directory or additional directory is no directory"));
        }
        let roots = Roots::new(&cwd, &more).map_err(Error::invalid_params)?;
        let (store, snapshots) = match past.kept {
            Some((store, folder)) => {
                let opened = off_runtime(move || Snapshots::open(folder, MAX_SNAPSHOT_BYTES)).await?;
                (Some(store), Some(opened.map_err(|error| Error::wire(-32603, format!("snapshots: {error}")))?))
            }
            None => (None, None),
        };
        let (rules, place) = (settings.permissions.clone(), PathBuf::from(&cwd));
        let stated = off_runtime(move || rules.map_or_else(|| Ok(Stated::default()), |read| read(&place))).await?;
        // No session without the rules that may hold it back.
        let unreadable = |why: ToolError| Error::wire(-32603, format!("The rules can't be read: {why}"));
        let stated = stated.map_err(|why| unreadable(why.into()))?;
        let permissions = Permissions::load(settings.mode, &stated, &settings.limits, cwd.as_ref(), settings.sandbox);
        let permissions = permissions.map_err(unreadable)?;
        let choice = settings.choice(&past.options);
        let model = choice.answers().cloned().ok_or_else(|| Error::internal("no model"))?;
        let Choice { models, addresses, .. } = choice;
        // The files with the keys of all who can answer here, which commands must not see.
        let providers = models.iter().filter_map(|model| model.provider());
        let key_files = providers.filter_map(|provider| provider.key_file_path().map(PathBuf::from)).collect();
        let log = Arc::new(past.log);
        handle.record_to(Arc::new(Recording(Arc::downgrade(&log))));
        let jobs = Jobs::new(handle.clone()).await;
        // Last of all, so that nothing is started for a session that can't be opened.
        let notices = Arc::new(Notices::new(handle.clone()));
        let told = Arc::clone(&notices);
        let servers = Arc::new(Servers::start(mcp_servers, folders.clone(), &handle, told, &settings).await);
        let session = Self {
            servers,
            notices,
            commands: Arc::new(Commands::new(settings.sandbox, folders, key_files, jobs)),
            thought_level: Mutex::new(settings.thought_level.clone()),
            settings,
            handle,
            store,
            log,
            files: Files::new(roots),
            seen: Seen::default(),
            snapshots,
            permissions: Arc::new(permissions),
            models: Mutex::new(models),
            addresses,
            model: Mutex::new(model),
            state: tokio::sync::Mutex::new(State {
                messages: past.messages,
                cancelled: Vec::new(),
                titled: past.titled,
                cost: 0.0,
                recorder: None,
            }),
        };
        for note in stated.notes.into_iter().chain(past.damage) {
            session.notices.tell(Severity::Warning, note, None).await;
        }
        for id in ["mode", "thought_level"] {
            let _ = session.choose(id, past.options[id].as_str().unwrap_or_default());
        }
        Ok(session)
    }

    /// The files as this client sees them, recorded for undo if there is a recorder.
    pub fn workspace(&self, client: ClientHandle, recorder: Option<Arc<Recorder>>) -> Workspace {
        Workspace::new(self.files.clone(), Arc::clone(&self.seen), client, recorder)
    }

    /// Who answers.
    pub fn model(&self) -> Arc<dyn Model> {
        Arc::clone(&self.model.locked())
    }

    /// How hard it should think, if it was told and can be.
    fn thought_level(&self) -> Option<String> {
        let levels = self.model().thought_levels();
        self.thought_level.locked().clone().filter(|level| levels.contains(&level.as_str()))
    }

    /// Changes an option; false if there is no such value.
    fn choose(&self, id: &str, value: &str) -> bool {
        match id {
            "mode" => self.permissions.mode_named(value).map(|mode| self.permissions.engine.set_preset(mode)).is_some(),
            "model" => {
                let found = self.models.locked().iter().find(|model| model.id() == value).cloned();
                found.map(|model| *self.model.locked() = model).is_some()
            }
            "thought_level" if self.model().thought_levels().contains(&value) => {
                *self.thought_level.locked() = Some(value.to_owned());
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
        let select = |id: &str, name: &str, now: &str, choices: Vec<SelectOption>, category| {
            ConfigOption::select(id, name, now, choices).category(category)
        };
        let ways = self.permissions.modes.iter();
        let ways = ways.map(|mode| choice(mode.mode(), mode.title(), mode.about())).collect();
        let mode = select("mode", "Mode", self.permissions.engine.preset().mode(), ways, ConfigCategory::Mode);
        let known = self.models.locked().iter().map(|one| choice(one.id(), one.name(), &address(&**one))).collect();
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

    /// Has a model answer from here on that may not be among those to choose from yet.
    pub async fn answer_with(&self, id: &str) -> std::result::Result<Arc<dyn Model>, String> {
        if !self.choose("model", id) {
            let model = self.addresses.look_for(id, self.settings.find.as_ref()).map_err(|why| why.to_string())?;
            // Its key must not be where commands can read it: what they don't see was settled when the session began.
            let file = |model: &Arc<dyn Model>| model.provider()?.key_file_path().map(PathBuf::from);
            if let Some(path) =
                file(&model).filter(|path| self.models.locked().iter().all(|one| file(one).as_ref() != Some(path)))
            {
                let path = path.display();
                return Err(format!(
                    "Commands of this session could read {path}, its key. Begin with it: `tieline chat --model {id}`"
                ));
            }
            self.models.locked().push(Arc::clone(&model));
            *self.model.locked() = model;
        }
        self.save_options().await.map_err(|error| error.to_string())?;
        self.handle.set_options(self.options()).await.map_err(|error| error.to_string())?;
        Ok(self.model())
    }

    async fn save_options(&self) -> Result<()> {
        let Some(store) = &self.store else { return Ok(()) };
        let mut options = self.addresses.to_store(&*self.model());
        options["mode"] = self.permissions.engine.preset().mode().into();
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

    async fn work(&self, turn: &Turn, state: &mut State, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        self.notices.begin(turn).await?;
        self.commands.tell_news(&self.notices).await;
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
            Typed::Ours((name, rest)) => {
                let done = commands::carry_out(self, turn, &mut state.messages, &name, &rest);
                return turn.unless_cancelled(done).await?;
            }
            Typed::Project(at, text) => content[at] = text.into(),
            Typed::Useless(why) => {
                turn.say(why).await?;
                return Ok(StopReason::EndTurn);
            }
            Typed::Call(name, arguments) => {
                let id = format!("{}-typed", turn.prompt_id());
                typed_call = Some(ToolRequest { id, name, arguments });
            }
            Typed::Not => {}
        }
        self.log.note(history::user_event(&content, content == prompt && !own)?).await?;
        state.messages.push(Message::User(content));
        if let (Some(snapshots), Some(before)) = (&self.snapshots, &self.settings.before_turn)
            && let Some(store) = snapshots.unwatched()
        {
            before(store.to_owned()).await;
        }
        state.recorder = self.snapshots.as_ref().map(|snapshots| snapshots.join(turn.prompt_id()));
        let workspace = self.workspace(turn.client(), state.recorder.clone());
        let system = prompt::system(&workspace, &self.permissions.engine).await + &self.servers.instructions();
        let ctx = ToolContext {
            turn: turn.clone(),
            log: Arc::clone(&self.log),
            workspace,
            permissions: Arc::clone(&self.permissions),
            commands: Arc::clone(&self.commands),
            http: self.settings.http.clone(),
            servers: Arc::clone(&self.servers),
            notices: Arc::clone(&self.notices),
        };
        let mut work = TurnLoop {
            ctx: Arc::new(ctx),
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
        work.close().await?;
        self.commands.tell_news(&self.notices).await;
        result?
    }
}

impl Session for Conversation {
    async fn accept(&self, message_id: &str, prompt: &[ContentBlock]) -> Result<()> {
        if let Some(log) = self.log.open() {
            // Before the client hears a word of it.
            log.begin_turn(Some(message_id.to_owned()), prompt.to_vec()).await.map_err(store_failed)?;
        }
        Ok(())
    }

    async fn prompt(&self, turn: Turn, prompt: Vec<ContentBlock>) -> Result<StopReason> {
        let mode = self.permissions.engine.preset();
        if turn.is_own() {
            // There is no prompt to write down, so the turn begins here.
            self.log.note(Event::TurnBegin).await?;
        }
        let mut state = self.state.lock().await;
        let busy = Busy::new();
        let result = Box::pin(busy.during(self.work(&turn, &mut state, prompt))).await;
        // A cancel cuts tools off, but what they were about to do may still happen. Nothing does once the turn is over.
        busy.rest().await;
        if let Some(recorder) = state.recorder.take()
            && let Err(error) = off_runtime(move || recorder.end()).await?
        {
            tracing::warn!(%error, "what commands changed can't be undone");
        }
        let (stop, calls) = match &result {
            Ok(stop) => (stop.clone(), ToolCallStatus::Failed),
            Err(error) if *error == Error::Cancelled || turn.is_cancelled() => {
                (StopReason::Cancelled, ToolCallStatus::Cancelled)
            }
            Err(_) => (StopReason::Error, ToolCallStatus::Failed),
        };
        if stop != StopReason::Cancelled {
            state.cancelled.clear();
        }
        // A client that is gone need not hear it.
        let _ = turn.end_calls(calls).await;
        self.log.note(Event::TurnEnd { stop: stop.clone(), interrupted: false }).await?;
        if mode != self.permissions.engine.preset() {
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
        // Also of what one made when it was told to end.
        self.commands.tell_news(&self.notices).await;
        self.log.close().await;
    }
}
