//! Judges every message of the agent by the protocol: what is forgiven elsewhere is named here.

use std::collections::{BTreeMap, HashMap};
use tieline::json::{Names, Reader};
use tieline::schema::{
    ClientCall, Decode, Dialect, InitializeResponse, MethodKind, PromptResponse, Raw, Update, find as find_method,
    from_json, from_json_strict,
};

/// A message, each value as it came: made a tree of, some would take twenty times as much.
type Fields = BTreeMap<String, Raw>;

fn text(raw: &Raw) -> Result<String, tieline::json::Error> {
    from_json(raw.get())
}

fn is<T: Decode>(raw: Option<&Raw>) -> bool {
    raw.is_some_and(|raw| from_json::<T>(raw.get()).is_ok())
}

/// So many requests of ours are remembered until they are answered.
const ASKED: usize = 10_000;

/// So many violations are told one by one.
const MAX_TOLD: usize = 20;

/// Judges messages.
#[derive(Debug, Default)]
pub struct Judge {
    /// How the agent broke the protocol, the first times.
    pub told: Vec<String>,
    /// How often it did.
    pub count: u64,
    dialect: Option<Dialect>,
    /// What we asked, by its id.
    asked: HashMap<String, String>,
}

impl Judge {
    /// The dialect is known now.
    pub fn speaks(&mut self, dialect: Dialect) {
        self.dialect = Some(dialect);
    }

    /// Remembers what we ask.
    pub fn sent(&mut self, json: &str) {
        let Ok(message) = from_json::<Fields>(json) else { return };
        if let (Some(id), Some(Ok(method))) = (message.get("id"), message.get("method").map(text))
            && self.asked.len() < ASKED
        {
            self.asked.insert(id.get().to_owned(), method);
        }
    }

    /// Takes note of what is wrong with a frame of the agent; `None` is one that is no JSON.
    pub fn heard(&mut self, json: Option<&str>) {
        let mut wrong = Vec::new();
        match json.map(|json| (json, json.trim_start().starts_with('['))) {
            None => wrong.push("a line that is no message".to_owned()),
            Some((json, true)) => match from_json::<Vec<Raw>>(json) {
                Ok(batch) if batch.is_empty() => wrong.push("an empty batch".to_owned()),
                Ok(batch) => batch.iter().for_each(|message| self.message(message.get(), &mut wrong)),
                Err(error) => wrong.push(format!("a batch that can't be read: {error}")),
            },
            Some((json, false)) => self.message(json, &mut wrong),
        }
        for one in wrong {
            self.breach(one);
        }
    }

    /// Takes note of one thing that is wrong.
    pub fn breach(&mut self, what: String) {
        self.count += 1;
        let what = tieline_host::text::cut(&what, 300);
        if self.told.len() < MAX_TOLD && !self.told.contains(&what) {
            self.told.push(what);
        }
    }

    fn message(&mut self, json: &str, wrong: &mut Vec<String>) {
        let message = match from_json::<Fields>(json) {
            Ok(message) => message,
            Err(error) if error.is_syntax() => return wrong.push(format!("a message that can't be read: {error}")),
            Err(_) => return wrong.push("a message that is no object".into()),
        };
        if message.get("jsonrpc").is_none_or(|version| version.get() != "\"2.0\"") {
            wrong.push("a message without `\"jsonrpc\": \"2.0\"`".into());
        }
        match message.get("method").map(text) {
            Some(Ok(method)) => self.call(&method, &message, wrong),
            None => self.answer(&message, wrong),
            Some(Err(_)) => wrong.push("a message whose `method` is no text".into()),
        }
    }

    fn call(&self, method: &str, message: &Fields, wrong: &mut Vec<String>) {
        // Names of the connection, and those of implementations, are not ours to judge.
        if method.starts_with("$/") || method.starts_with('_') {
            return;
        }
        let mut reader = Reader::strict(message.get("params").map_or("null", Raw::get));
        if let Some(dialect) = self.dialect {
            reader = reader.minding(if dialect == Dialect::V2 { Names::New } else { Names::Old });
        }
        let call = match ClientCall::decode(method, &mut reader) {
            Ok(Some(call)) => call,
            Ok(None) => return wrong.push(format!("the method `{method}` does not exist for clients")),
            Err(error) => return wrong.push(format!("`{method}`: {error}")),
        };
        wrong.extend(reader.deviations().iter().map(|deviation| format!("`{method}`: {deviation}")));
        let id = message.get("id").is_some();
        match ClientCall::kind(method) {
            Some(MethodKind::Request) if !id => wrong.push(format!("`{method}` is a request and has no `id`")),
            Some(MethodKind::Notification) if id => wrong.push(format!("`{method}` is a notification and has an `id`")),
            _ => {}
        }
        let Some(dialect) = self.dialect else { return };
        if find_method(method).is_some_and(|method| !method.dialects.has(dialect)) {
            wrong.push(format!("`{method}` is not of version {dialect}"));
        }
        if let ClientCall::Update(notification) = &call {
            match &notification.update {
                Update::Other(unknown) if unknown.tag.starts_with('_') => {}
                Update::Other(unknown) => wrong.push(format!("`{method}`: the kind `{}` does not exist", unknown.tag)),
                update if !update.speaks(dialect) => {
                    wrong.push(format!("`{method}`: an update that is not of version {dialect}"));
                }
                _ => {}
            }
        }
    }

    fn answer(&mut self, message: &Fields, wrong: &mut Vec<String>) {
        let Some(id) = message.get("id") else {
            return wrong.push("a message with neither `method` nor `id`".into());
        };
        let (result, error) = (message.get("result"), message.get("error"));
        if let (Some(_), Some(_)) | (None, None) = (result, error) {
            wrong.push("an answer needs one of `result` and `error`".into());
        }
        let fields = error.map(|error| from_json::<Fields>(error.get()).unwrap_or_default());
        if let Some(fields) = fields
            && !(is::<i64>(fields.get("code")) && is::<String>(fields.get("message")))
        {
            wrong.push("an error needs `code`, a whole number, and `message`, a text".into());
        }
        // What can't be read may be refused without an id.
        if id.is_null() && error.is_some() {
            return;
        }
        let Some(method) = self.asked.remove(id.get()) else {
            return wrong.push("an answer to nothing that was asked".into());
        };
        let Some(result) = result.filter(|_| error.is_none()).map(Raw::get) else { return };
        let found = match method.as_str() {
            "initialize" => from_json_strict::<InitializeResponse>(result, None).map(|(_, found)| found),
            "session/prompt" => from_json_strict::<PromptResponse>(result, self.dialect).map(|(_, found)| found),
            _ => Ok(Vec::new()),
        };
        match found {
            Ok(found) => wrong.extend(found.iter().map(|found| format!("the answer to `{method}`: {found}"))),
            Err(error) => wrong.push(format!("the answer to `{method}`: {error}")),
        }
    }
}
