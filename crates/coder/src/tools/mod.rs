//! The tools of the agent: what they are called, what they take, how they are shown and what they do.

mod ask;
mod change;
mod edit;
mod fetch;
mod guard;
mod html;
mod list;
mod mode;
mod patch;
mod read;
mod run;
mod search;
mod todo;
mod unified;
mod walk;

use crate::http::Http;
use crate::mcp::Servers;
use crate::model::ToolSpec;
use crate::notice::{self, Notices};
use crate::permission::Permissions;
use crate::report::{Call, Log, one_line};
use crate::workspace::Workspace;
use serde::Deserialize;
use serde_json::{Value, json};
use std::pin::Pin;
use std::sync::Arc;
use tieline::agent::Turn;
use tieline::{ContentBlock, Location, Severity, ToolCallContent, ToolKind};
use tieline_host::roots::{self, Place};
use tieline_host::rules::Action;

pub use run::{Commands, lines as printed_lines};

/// Why a tool could not do its work. It is told to the model and shown, and nobody tells one from another.
pub type ToolError = Box<dyn std::error::Error + Send + Sync>;

/// Work that is under way.
pub type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Something the model can use.
pub struct Tool {
    /// What the model calls it.
    pub name: &'static str,
    /// What kind of thing it does.
    pub kind: ToolKind,
    /// What it does and when to use it, for the model.
    about: &'static str,
    input: &'static [Field],
    /// The client may stop it alone.
    pub stoppable: bool,
    /// Looks at the arguments and says what would be done. Changes nothing yet.
    pub prepare: Prepare,
}

/// How a call is prepared.
pub type Prepare = fn(Value, Arc<ToolContext>) -> Boxed<Result<Prepared, ToolError>>;

/// An argument: its name, with a `?` if it may be left out, its type, and what it means if that is not plain.
type Field = (&'static str, Type, &'static str);

enum Type {
    Text,
    Integer,
    Number,
    Boolean,
    OneOf(&'static [&'static str]),
    List(&'static Type),
    Object(&'static [Field]),
}

impl Type {
    /// As a JSON schema.
    fn schema(&self) -> Value {
        match self {
            Self::Text => json!({ "type": "string" }),
            Self::Integer => json!({ "type": "integer" }),
            Self::Number => json!({ "type": "number" }),
            Self::Boolean => json!({ "type": "boolean" }),
            Self::OneOf(words) => json!({ "enum": words }),
            Self::List(item) => json!({ "type": "array", "items": item.schema() }),
            Self::Object(fields) => {
                let mut properties = serde_json::Map::new();
                for (name, of, meaning) in *fields {
                    let mut schema = of.schema();
                    if !meaning.is_empty() {
                        schema["description"] = (*meaning).into();
                    }
                    properties.insert(name.trim_end_matches('?').into(), schema);
                }
                let names = fields.iter().map(|(name, ..)| name);
                let required: Vec<_> = names.filter(|name| !name.ends_with('?')).collect();
                json!({ "type": "object", "properties": properties, "required": required })
            }
        }
    }
}

impl Tool {
    const fn new(
        name: &'static str,
        kind: ToolKind,
        about: &'static str,
        input: &'static [Field],
        prepare: Prepare,
    ) -> Self {
        Self { name, kind, about, input, stoppable: false, prepare }
    }

    const fn stoppable(mut self) -> Self {
        self.stoppable = true;
        self
    }

    /// It changes nothing, so that several can run side by side.
    pub fn reads_only(&self) -> bool {
        matches!(self.kind, ToolKind::Read | ToolKind::Search)
    }
}

/// All tools, in the order the model is told of them.
static ALL: [Tool; 16] = [
    read::READ,
    change::WRITE,
    edit::EDIT,
    patch::PATCH,
    list::LIST,
    search::GLOB,
    search::GREP,
    change::MOVE,
    change::DELETE,
    run::RUN,
    run::OUTPUT,
    run::STOP,
    fetch::FETCH,
    todo::TODO,
    ask::ASK,
    mode::SWITCH_MODE,
];

/// What tools work with during a turn.
pub struct ToolContext {
    /// The turn.
    pub(crate) turn: Turn,
    /// Where it is written down.
    pub(crate) log: Arc<Log>,
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

impl ToolContext {
    /// Tells the user beside a call what they should know of it, where notices are shown. Elsewhere the call shows it.
    pub(crate) async fn tell(&self, severity: Severity, text: &str) {
        if notice::shows(&self.turn.client()) {
            self.notices.tell(severity, one_line(text), None).await;
        }
    }
}

/// What a call does once it may.
pub type Work = Box<dyn FnOnce(Arc<Call>) -> Boxed<Result<Output, ToolError>> + Send>;

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
    /// Does it; or why it can't even begin.
    pub work: Result<Work, ToolError>,
}

impl Prepared {
    /// A call that needs no permission.
    pub fn new<F>(title: impl Into<String>, work: impl FnOnce(Arc<Call>) -> F + Send + 'static) -> Self
    where
        F: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        let work: Result<Work, _> = Ok(Box::new(move |call| Box::pin(work(call))));
        Self { title: title.into(), locations: Vec::new(), content: Vec::new(), actions: Vec::new(), note: None, work }
    }

    /// A call that only reads a file or folder.
    pub fn reading<F>(title: String, place: &Place, line: u32, work: F) -> Self
    where
        F: Future<Output = Result<Output, ToolError>> + Send + 'static,
    {
        Self::new(title, move |_| work).at(place, line, Action::Read(place.location()))
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
    /// What only the model is told behind the rest.
    pub advice: &'static str,
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

    /// It was not even begun: it could not be.
    pub fn not_done(why: impl ToString) -> Self {
        let why = why.to_string();
        let raw = json!({ "error": why, "ran": false, "refused": false });
        Self::error(why).raw(raw)
    }

    /// It was not even begun: it was refused. By what, if nobody was asked: a preset, `rule`, or `roots`.
    pub fn refused(why: impl ToString, by: Option<&str>, advice: &'static str) -> Self {
        let why = why.to_string();
        let raw = json!({ "error": why, "ran": false, "refused": true, "by": by });
        Self { advice, ..Self::error(why).raw(raw) }
    }

    /// It did not work.
    pub fn error(why: impl ToString) -> Self {
        let why = why.to_string();
        let raw = Some(json!({ "error": why }));
        Self { content: vec![why.into()], raw, failed: true, ..Self::default() }
    }

    /// The same with data.
    #[must_use]
    pub fn raw(mut self, raw: Value) -> Self {
        self.raw = Some(raw);
        self
    }
}

/// The tool of this name.
pub fn find(name: &str) -> Option<&'static Tool> {
    ALL.iter().find(|tool| tool.name == name)
}

/// The tools as a model is told about them.
pub fn specs() -> Vec<ToolSpec> {
    let spec = |tool: &Tool| ToolSpec {
        name: tool.name.into(),
        description: tool.about.into(),
        parameters: Type::Object(tool.input).schema().into(),
    };
    ALL.iter().map(spec).collect()
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

/// A call that can't begin, and why: what it was about, and the files that it names.
pub fn attempted(name: &str, input: &Value, workspace: &Workspace, why: ToolError) -> Prepared {
    let mut paths = changes(name, input);
    if paths.is_empty() && find(name).is_some() {
        paths.extend(input["path"].as_str().map(str::to_owned));
    }
    let mut prepared = Prepared { work: Err(why), ..Prepared::new(name, |_| async { Ok(Output::default()) }) };
    let mut names = Vec::new();
    for path in paths {
        let place = workspace.place(&path).ok();
        names.push(place.as_ref().map_or(path, shown));
        prepared.locations.extend(place.map(|place| Location::new(full(&place), 0)));
    }
    if !names.is_empty() {
        let (first, rest) = name.split_at(1);
        prepared.title = format!("{}{rest} {}", first.to_uppercase(), names.join(", "));
    }
    prepared
}

/// A call that was prepared without waiting for anything.
fn ready(prepared: Result<Prepared, ToolError>) -> Boxed<Result<Prepared, ToolError>> {
    Box::pin(std::future::ready(prepared))
}

/// Reads an argument of a tool, or says what is wrong with it. One that may be left out is an `Option`.
fn argument<'v, T: Deserialize<'v>>(input: &'v Value, name: &str) -> Result<T, ToolError> {
    let value = &input[name];
    T::deserialize(value).map_err(|error| match value {
        Value::Null => format!("The arguments are not right: missing field `{name}`").into(),
        _ => format!("The arguments are not right: `{name}`: {error}").into(),
    })
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
