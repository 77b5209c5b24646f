//! Elicitations: forms whose answers are checked, and web pages that are shown and never opened by themselves.

mod check;
mod page;

pub use check::{Problem, check, parse};
pub use page::Page;

use crate::{Future, sanitize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use tieline::rpc::sync::Lock;
use tieline::schema::{
    ChoiceItems, Dialect, ElicitAction, ElicitMode, ElicitRequest, ElicitResponse, ElicitValue, FormField, FormSchema,
    SessionId, to_json,
};
use tieline_host::{secret, text};

/// So often a person may correct a form.
const ATTEMPTS: usize = 5;
/// So many pages can be open at once; older ones are forgotten.
const PAGES: usize = 64;
/// The longest form that a person is shown, in bytes of JSON.
const MAX_FORM_BYTES: usize = 64 << 10;
/// As much of a form as is quoted when it is declined, in characters.
const MAX_QUOTED_CHARACTERS: usize = 60;

/// A form to be filled in. All texts are safe to show.
#[derive(Debug, Clone)]
pub struct Form {
    /// The agent that asks.
    pub agent: String,
    /// Which session, if it belongs to one.
    pub session: Option<SessionId>,
    /// What is asked.
    pub message: String,
    /// The heading.
    pub title: Option<String>,
    /// What it is for.
    pub description: Option<String>,
    /// The fields, in order.
    pub fields: Vec<Field>,
    /// What was filled in before and is not right yet; the problems are in `problems`.
    pub filled: BTreeMap<String, ElicitValue>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
}

/// One field of a form.
#[derive(Debug, Clone)]
pub struct Field {
    /// Its name, as the answer has it.
    pub name: String,
    /// What to call it, safe to show.
    pub label: String,
    /// What is wanted, safe to show.
    pub help: Option<String>,
    /// Whether it must be filled in.
    pub required: bool,
    /// What it holds at first.
    pub default: Option<ElicitValue>,
    /// The choices: value, and label that is safe to show. Empty if it is free.
    pub choices: Vec<(String, String)>,
    /// All about it, for [`parse`] and [`check`].
    pub schema: FormField,
}

/// What a person did with a form.
#[derive(Debug, Clone, PartialEq)]
pub enum Filled {
    /// Filled it in and sent it.
    Accept(BTreeMap<String, ElicitValue>),
    /// Said no.
    Decline,
    /// Went away.
    Cancel,
}

/// What a person says to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// It may be opened; whoever asked the person opens it.
    Accept,
    /// It may not.
    Decline,
    /// Went away.
    Cancel,
}

/// Asks a person. What nobody wants to know any more is dropped with its future.
pub trait Asker: Send + Sync + 'static {
    /// Lets a person fill in a form, review it, and send, decline or leave it.
    fn fill<'a>(&'a self, form: &'a Form) -> Future<'a, Filled>;

    /// Shows a page's whole address and asks whether to open it. Opening it is this one's work, and only after a yes.
    fn visit<'a>(&'a self, page: &'a Page) -> Future<'a, Consent>;

    /// A page that was accepted has done its work.
    fn visited(&self, elicitation_id: &str) {
        let _ = elicitation_id;
    }
}

/// Answers elicitations with the help of an asker, or declines them all.
#[derive(Default)]
pub(crate) struct Elicitor {
    pub(crate) asker: Option<std::sync::Arc<dyn Asker>>,
    pages: Mutex<VecDeque<String>>,
}

impl Elicitor {
    pub(crate) fn new(asker: Option<std::sync::Arc<dyn Asker>>) -> Self {
        Self { asker, pages: Mutex::default() }
    }

    /// Why nobody is asked this, safe to show: what is typed into a form is seen on the screen, and the agent keeps it. Our own agent
    /// has judged its forms, without the names of servers that it puts before them.
    pub(crate) fn refusal(&self, request: &ElicitRequest, agent: &str, ours: bool) -> Option<String> {
        let (Some(_), ElicitMode::Form(form)) = (&self.asker, &request.mode) else { return None };
        let why = if request.message.len() + to_json(form, Dialect::V2).len() > MAX_FORM_BYTES {
            "nobody could read all of it".to_owned()
        } else {
            let words =
                text::cut_line(&secret::asked_by(&request.message, form).filter(|_| !ours)?, MAX_QUOTED_CHARACTERS);
            format!(
                "it asks for a secret (\"{}\"), which would stand on the screen and in the agent's records. Give it to the \
                 agent by its own login, a variable or a file",
                sanitize::exact_line(&words)
            )
        };
        Some(format!("declined a form of {}: {why}", sanitize::exact_line(agent)))
    }

    /// Answers one.
    pub(crate) async fn answer(&self, request: &ElicitRequest, agent: &str) -> ElicitResponse {
        let action = match (&self.asker, &request.mode) {
            (Some(asker), ElicitMode::Form(schema)) => fill(&**asker, request, schema, agent).await,
            (Some(asker), ElicitMode::Url { elicitation_id, url }) => match Page::of(request, url, agent) {
                Some(page) => match asker.visit(&page).await {
                    Consent::Accept => {
                        self.opened(elicitation_id);
                        ElicitAction::Accept(BTreeMap::new())
                    }
                    Consent::Decline => ElicitAction::Decline,
                    Consent::Cancel => ElicitAction::Cancel,
                },
                None => ElicitAction::Decline,
            },
            _ => ElicitAction::Decline,
        };
        ElicitResponse { action, meta: None }
    }

    fn opened(&self, id: &str) {
        let mut pages = self.pages.locked();
        pages.push_back(id.to_owned());
        if pages.len() > PAGES {
            pages.pop_front();
        }
    }

    /// A page did its work. True if it was one of ours; others are ignored.
    pub(crate) fn complete(&self, id: &str) -> bool {
        let mut pages = self.pages.locked();
        let before = pages.len();
        pages.retain(|other| other != id);
        let known = pages.len() < before;
        drop(pages);
        if known && let Some(asker) = &self.asker {
            asker.visited(id);
        }
        known
    }
}

async fn fill(asker: &dyn Asker, request: &ElicitRequest, schema: &FormSchema, agent: &str) -> ElicitAction {
    let mut form = Form::of(request, schema, agent);
    for _ in 0..ATTEMPTS {
        match asker.fill(&form).await {
            Filled::Decline => return ElicitAction::Decline,
            Filled::Cancel => return ElicitAction::Cancel,
            Filled::Accept(values) => {
                let problems = check(schema, &values);
                if problems.is_empty() {
                    return ElicitAction::Accept(values);
                }
                form.filled = values;
                form.problems = problems;
            }
        }
    }
    ElicitAction::Cancel
}

impl Form {
    /// The form of a request.
    pub fn of(request: &ElicitRequest, schema: &FormSchema, agent: &str) -> Self {
        let safe = |text: &Option<String>| text.as_deref().map(sanitize::exact);
        Self {
            agent: sanitize::exact_line(agent),
            session: request.scope.session().cloned(),
            message: sanitize::exact(&request.message),
            title: safe(&schema.title),
            description: safe(&schema.description),
            fields: schema.properties.iter().map(|(name, field)| Field::of(name, field, schema)).collect(),
            filled: BTreeMap::new(),
            problems: Vec::new(),
        }
    }
}

impl Field {
    fn of(name: &str, field: &FormField, schema: &FormSchema) -> Self {
        let (title, help, default) = match field {
            FormField::Text(text) => (&text.title, &text.description, text.default.clone().map(ElicitValue::Text)),
            FormField::Number(number) => (&number.title, &number.description, number.default.map(ElicitValue::Number)),
            FormField::Integer(number) => {
                (&number.title, &number.description, number.default.map(ElicitValue::Integer))
            }
            FormField::Boolean(yes) => (&yes.title, &yes.description, yes.default.map(ElicitValue::Bool)),
            FormField::Choices(choices) => {
                let default = (!choices.default.is_empty()).then(|| ElicitValue::Choices(choices.default.clone()));
                (&choices.title, &choices.description, default)
            }
            FormField::Other(_) => (&None, &None, None),
        };
        Self {
            name: name.to_owned(),
            label: sanitize::exact_line(title.as_deref().unwrap_or(name)),
            help: help.as_deref().map(sanitize::exact_line),
            required: schema.required.iter().any(|other| other == name),
            // A default that is not right is no help.
            default: default.filter(|value| check::value(field, value).is_ok()),
            choices: choices(field),
            schema: field.clone(),
        }
    }
}

/// The choices of a field: value and safe label.
fn choices(field: &FormField) -> Vec<(String, String)> {
    let plain = |values: &[String]| values.iter().map(|value| (value.clone(), sanitize::exact_line(value))).collect();
    let titled = |values: &[tieline::schema::Choice]| {
        values.iter().map(|choice| (choice.value.clone(), sanitize::exact_line(&choice.title))).collect()
    };
    match field {
        FormField::Text(text) => match (&text.choices, &text.titled_choices) {
            (_, Some(choices)) => titled(choices),
            (Some(choices), None) => plain(choices),
            (None, None) => Vec::new(),
        },
        FormField::Choices(field) => match &field.items {
            ChoiceItems::Plain(items) => plain(&items.choices),
            ChoiceItems::Titled(items) => titled(&items.choices),
            ChoiceItems::Other(_) => Vec::new(),
        },
        _ => Vec::new(),
    }
}
