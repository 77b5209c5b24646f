//! The tools of the agent: what they are called, what they take, how they are shown and what they do.

mod ask;
mod blind;
mod edit;
mod fetch;
mod find;
mod grep;
mod guard;
mod html;
mod list;
mod manage;
mod mode;
mod patch;
mod read;
mod run;
mod todo;
mod unified;
mod walk;
mod write;

use crate::http::Http;
use crate::mcp::Servers;
use crate::model::ToolSpec;
use crate::notice::Notices;
use crate::permission::Permissions;
use crate::report::{Call, Reporter};
use crate::workspace::Workspace;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::pin::Pin;
use std::sync::Arc;
use tieline::{ContentBlock, Location, ToolCallContent, ToolKind};
use tieline_host::roots::{self, Place};
use tieline_host::rules::Action;

pub use run::Commands;

/// Work that is under way.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Something the model can use.
pub trait Tool: Send + Sync {
    /// What the model calls it.
    fn name(&self) -> &'static str;

    /// What it does and when to use it, for the model.
    fn description(&self) -> &'static str;

    /// The JSON schema of its arguments.
    fn schema(&self) -> Value;

    /// What kind of thing it does.
    fn kind(&self) -> ToolKind;

    /// True if it changes nothing, so that several can run side by side.
    fn reads_only(&self) -> bool {
        false
    }

    /// True if the client may stop it alone.
    fn stoppable(&self) -> bool {
        false
    }

    /// Looks at the arguments and says what would be done. Changes nothing yet.
    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>>;
}

/// What tools work with during a turn.
pub struct ToolContext {
    /// The reports of the turn.
    pub(crate) reporter: Arc<Reporter>,
    /// The files.
    pub(crate) workspace: Workspace,
    /// Who decides.
    pub(crate) permissions: Arc<Permissions>,
    /// The commands.
    pub(crate) commands: Arc<Commands>,
    /// The way to the network.
    pub(crate) http: Http,
    /// The MCP servers.
    pub(crate) servers: Arc<Servers>,
    /// What is no part of the conversation.
    pub(crate) notices: Arc<Notices>,
}

/// What a call does once it may.
pub type Work = Box<dyn FnOnce(Arc<Call>) -> Boxed<Output> + Send>;

/// A call that is ready to run.
pub struct Prepared {
    /// What it does, for people.
    pub title: String,
    /// The files it works on.
    pub locations: Vec<Location>,
    /// What is known of the result, such as a diff.
    pub content: Vec<ToolCallContent>,
    /// The facts that rules look at.
    pub actions: Vec<Action>,
    /// What else the user should know before deciding.
    pub note: Option<String>,
    /// Does it.
    pub work: Work,
}

impl Prepared {
    /// A call that needs no permission.
    pub fn new<F>(title: impl Into<String>, work: impl FnOnce(Arc<Call>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Output> + Send + 'static,
    {
        let work: Work = Box::new(move |call| Box::pin(work(call)));
        Self { title: title.into(), locations: Vec::new(), content: Vec::new(), actions: Vec::new(), note: None, work }
    }

    /// Adds a file and the fact that it is touched.
    #[must_use]
    pub fn at(mut self, place: &Place, line: u32, action: Action) -> Self {
        self.locations.push(Location::new(place.real_path().to_string_lossy(), line));
        self.actions.push(action);
        self
    }
}

/// What came of a call.
#[derive(Default)]
pub struct Output {
    /// What the model is told.
    pub content: Vec<ContentBlock>,
    /// What the client shows; `None` leaves what it shows already.
    pub shown: Option<Vec<ToolCallContent>>,
    /// The result as data.
    pub raw: Option<Value>,
    /// It did not work.
    pub failed: bool,
    /// The user stopped it.
    pub stopped: bool,
}

impl Output {
    /// Text for the model; the client shows it too.
    pub fn text(text: impl Into<String>) -> Self {
        let text = text.into();
        let shown = Some(vec![ToolCallContent::from(text.clone())]);
        Self { content: vec![text.into()], shown, ..Self::default() }
    }

    /// Text for the model; the client goes on to show what it shows.
    pub fn quiet(text: impl Into<String>) -> Self {
        Self { content: vec![text.into().into()], ..Self::default() }
    }

    /// It was not even begun: it was refused, or could not be.
    pub fn not_done(why: impl Into<String>) -> Self {
        let why = why.into();
        let raw = serde_json::json!({ "error": why, "ran": false });
        Self::error(why).raw(raw)
    }

    /// It did not work.
    pub fn error(why: impl Into<String>) -> Self {
        let why = why.into();
        let raw = Some(serde_json::json!({ "error": why }));
        Self { content: vec![why.into()], raw, failed: true, ..Self::default() }
    }

    /// The same with data.
    #[must_use]
    pub fn raw(mut self, raw: Value) -> Self {
        self.raw = Some(raw);
        self
    }

    /// The output of work that gives text or a reason.
    pub fn of(result: Result<Self, String>) -> Self {
        result.unwrap_or_else(Self::error)
    }
}

/// All tools, in the order the model is told of them.
pub fn all() -> &'static [&'static dyn Tool] {
    &[
        &read::Read,
        &write::Write,
        &edit::Edit,
        &patch::Patch,
        &list::List,
        &find::Glob,
        &grep::Grep,
        &manage::Move,
        &manage::Delete,
        &run::Run,
        &run::OutputOf,
        &run::Stop,
        &fetch::Fetch,
        &todo::Todo,
        &ask::Ask,
        &mode::SwitchMode,
    ]
}

/// The tool of this name.
pub fn find(name: &str) -> Option<&'static dyn Tool> {
    all().iter().copied().find(|tool| tool.name() == name)
}

/// The tools as a model is told about them.
pub fn specs() -> Vec<ToolSpec> {
    let spec = |tool: &&'static dyn Tool| ToolSpec {
        name: tool.name().into(),
        description: tool.description().into(),
        parameters: tool.schema().into(),
    };
    all().iter().map(spec).collect()
}

/// The files that a call changes if it works, by the names that the model gave them.
pub fn changes(name: &str, input: &Value) -> Vec<String> {
    let text = |field: &str| input[field].as_str().map(str::to_owned);
    match name {
        "write" | "edit" | "delete" => text("path").into_iter().collect(),
        "move" => [text("from"), text("to")].into_iter().flatten().collect(),
        "patch" => {
            let sections = unified::parse(input["patch"].as_str().unwrap_or_default()).unwrap_or_default();
            sections.into_iter().filter_map(|section| section.new.or(section.old)).collect()
        }
        _ => Vec::new(),
    }
}

/// What a call that can't begin was about: a title, and the files that it names.
pub fn attempted(name: &str, input: &Value, workspace: &Workspace) -> (String, Vec<Location>) {
    let mut named = changes(name, input);
    if named.is_empty() && find(name).is_some() {
        named.extend(input["path"].as_str().map(str::to_owned));
    }
    if named.is_empty() {
        return (name.to_owned(), Vec::new());
    }
    let places: Vec<Option<Place>> = named.iter().map(|path| workspace.place(path).ok()).collect();
    let shown: Vec<String> =
        places.iter().zip(named).map(|(place, given)| place.as_ref().map_or(given, shown)).collect();
    let locations = places.iter().flatten().map(|place| Location::new(full(place), 0)).collect();
    let (first, rest) = name.split_at(1);
    (format!("{}{rest} {}", first.to_uppercase(), shown.join(", ")), locations)
}

/// Reads the arguments of a tool, or says what is wrong with them.
fn arguments<T: DeserializeOwned>(input: Value) -> Result<T, String> {
    serde_json::from_value(input).map_err(|error| format!("The arguments are not right: {error}"))
}

/// A path as people are shown it: below the working directory without it.
fn shown(place: &Place) -> String {
    if place.root().is_cwd() && !place.relative().as_os_str().is_empty() {
        return roots::shown(place.relative());
    }
    roots::shown(&place.real_path())
}

/// The whole path as text.
fn full(place: &Place) -> String {
    place.real_path().to_string_lossy().into_owned()
}

/// An object schema in short: `(name, type or schema, what it means)`; a name that ends in `?` may be left out.
fn object(fields: &[(&str, Value, &str)]) -> Value {
    let mut properties = serde_json::Map::new();
    let mut required = Vec::new();
    for (name, kind, meaning) in fields {
        let mut schema = match kind {
            Value::String(kind) => serde_json::json!({ "type": kind }),
            schema => schema.clone(),
        };
        if !meaning.is_empty() {
            schema["description"] = (*meaning).into();
        }
        let plain = name.trim_end_matches('?');
        if plain == *name {
            required.push(plain);
        }
        properties.insert(plain.into(), schema);
    }
    serde_json::json!({ "type": "object", "properties": properties, "required": required })
}
