//! Judges every message of the agent by the protocol: what is forgiven elsewhere is named here.

use serde_json::Value;
use std::collections::HashMap;
use tieline::json::{Names, Reader};
use tieline::schema::{
    ClientCall, Dialect, InitializeResponse, MethodKind, PromptResponse, Update, find as find_method, from_json_strict,
};

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
        let Ok(Value::Object(message)) = serde_json::from_str(json) else { return };
        if let (Some(id), Some(Value::String(method))) = (message.get("id"), message.get("method"))
            && self.asked.len() < ASKED
        {
            self.asked.insert(id.to_string(), method.clone());
        }
    }

    /// Takes note of what is wrong with a frame of the agent; `None` is one that is no JSON.
    pub fn heard(&mut self, json: Option<&str>) {
        let mut wrong = Vec::new();
        match json.map(serde_json::from_str) {
            None => wrong.push("a line that is no message".to_owned()),
            Some(Ok(Value::Array(batch))) if !batch.is_empty() => {
                for message in &batch {
                    self.message(message, &mut wrong);
                }
            }
            Some(Ok(message)) => self.message(&message, &mut wrong),
            Some(Err(error)) => wrong.push(format!("a message that can't be read: {error}")),
        }
        for one in wrong {
            self.count += 1;
            let one = tieline_host::text::cut(&one, 300);
            if self.told.len() < MAX_TOLD && !self.told.contains(&one) {
                self.told.push(one);
            }
        }
    }

    fn message(&mut self, message: &Value, wrong: &mut Vec<String>) {
        if !message.is_object() {
            return wrong.push("a message that is no object".into());
        }
        if message["jsonrpc"] != "2.0" {
            wrong.push("a message without `\"jsonrpc\": \"2.0\"`".into());
        }
        match &message["method"] {
            Value::String(method) => self.call(method, message, wrong),
            Value::Null if message.get("method").is_none() => self.answer(message, wrong),
            _ => wrong.push("a message whose `method` is no text".into()),
        }
    }

    fn call(&self, method: &str, message: &Value, wrong: &mut Vec<String>) {
        // Names of the connection, and those of implementations, are not ours to judge.
        if method.starts_with("$/") || method.starts_with('_') {
            return;
        }
        let params = message.get("params").map_or_else(|| "null".to_owned(), Value::to_string);
        let mut reader = Reader::strict(&params);
        if let Some(dialect) = self.dialect {
            reader = reader.minding(if dialect == Dialect::V2 { Names::New } else { Names::Old });
        }
        let call = match ClientCall::decode(method, &mut reader) {
            Ok(Some(call)) => call,
            Ok(None) => return wrong.push(format!("the method `{method}` does not exist for clients")),
            Err(error) => return wrong.push(format!("`{method}`: {error}")),
        };
        wrong.extend(reader.deviations().iter().map(|deviation| format!("`{method}`: {}", deviation.0)));
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

    fn answer(&mut self, message: &Value, wrong: &mut Vec<String>) {
        let Some(id) = message.get("id") else {
            return wrong.push("a message with neither `method` nor `id`".into());
        };
        let (result, error) = (message.get("result"), message.get("error"));
        if let (Some(_), Some(_)) | (None, None) = (result, error) {
            wrong.push("an answer needs one of `result` and `error`".into());
        }
        if let Some(error) = error
            && !(error["code"].is_i64() && error["message"].is_string())
        {
            wrong.push("an error needs `code`, a whole number, and `message`, a text".into());
        }
        // What can't be read may be refused without an id.
        if id.is_null() && error.is_some() {
            return;
        }
        let Some(method) = self.asked.remove(&id.to_string()) else {
            return wrong.push("an answer to nothing that was asked".into());
        };
        let Some(result) = result.filter(|_| error.is_none()).map(Value::to_string) else { return };
        let found = match method.as_str() {
            "initialize" => from_json_strict::<InitializeResponse>(&result, None).map(|(_, found)| found),
            "session/prompt" => from_json_strict::<PromptResponse>(&result, self.dialect).map(|(_, found)| found),
            _ => Ok(Vec::new()),
        };
        match found {
            Ok(found) => wrong.extend(found.iter().map(|found| format!("the answer to `{method}`: {found}"))),
            Err(error) => wrong.push(format!("the answer to `{method}`: {error}")),
        }
    }
}
