//! Gemini: calls carry signatures of the thoughts behind them, which go back with them.

use super::content::{self, Growing, Piece};
use super::decode::{Decode, count, json as parse, text};
use super::known::Tokens;
use super::order::{self, Order, Part};
use super::schema;
use super::trouble::Trouble;
use super::{Ask, Level};
use crate::http::sse;
use crate::model::{Event, Finish, Message};
use serde_json::{Value, json};

/// The media types of pictures that it takes.
const PICTURES: &[&str] = &["image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"];

/// The path and the body of a request.
pub fn request(ask: &Ask<'_>) -> (String, Value) {
    let mut contents: Vec<Value> = Vec::new();
    for message in &ask.request.messages {
        let (role, parts) = turn(message, ask);
        if parts.is_empty() {
            continue;
        }
        match contents.last_mut() {
            Some(last) if last["role"] == role => {
                if let Some(list) = last["parts"].as_array_mut() {
                    list.extend(parts);
                }
            }
            _ => contents.push(json!({ "role": role, "parts": parts })),
        }
    }
    let tool = |tool: &crate::model::ToolSpec| {
        let mut declared = json!({ "name": tool.name, "description": tool.description });
        if let Some(schema) = schema::gemini(tool) {
            declared["parametersJsonSchema"] = schema;
        }
        declared
    };
    let tools: Vec<Value> = ask.request.tools.iter().map(tool).collect();
    let mut body = json!({ "contents": contents });
    if !ask.request.system.is_empty() {
        body["systemInstruction"] = json!({ "parts": [{ "text": ask.request.system }] });
    }
    if !tools.is_empty() {
        body["tools"] = json!([{ "functionDeclarations": tools }]);
    }
    let mut settings = json!({});
    if let Some(most) = ask.request.max_tokens {
        settings["maxOutputTokens"] = most.into();
    }
    if !["gemini-1", "gemini-2.0", "gemma"].iter().any(|start| ask.model.starts_with(start)) {
        settings["thinkingConfig"] = json!({ "includeThoughts": true });
        if let Some(level) = ask.level {
            let counts = ask.model.starts_with("gemini-2.5");
            let (name, value) =
                if counts { ("thinkingBudget", budget(level).into()) } else { ("thinkingLevel", json!(level.word())) };
            settings["thinkingConfig"][name] = value;
        }
    }
    body["generationConfig"] = settings;
    let model = ask.model.strip_prefix("models/").unwrap_or(ask.model);
    (format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"), body)
}

fn budget(level: Level) -> u64 {
    match level {
        Level::Low => 2048,
        Level::Medium => 8192,
        Level::High => 24_576,
    }
}

fn image(mime: &str, data: &str) -> Value {
    json!({ "inlineData": { "mimeType": mime, "data": data } })
}

fn turn(message: &Message, ask: &Ask<'_>) -> (&'static str, Vec<Value>) {
    match message {
        Message::User(blocks) => {
            let part = |piece| match piece {
                Piece::Text(text) => json!({ "text": text }),
                Piece::Image(mime, data) => image(mime, data),
            };
            ("user", content::pieces(blocks, ask.seen(PICTURES)).into_iter().map(part).collect())
        }
        Message::Assistant { .. } => {
            let part = |part| {
                let (mut part, signature) = match part {
                    Part::Text(text, mark) => (json!({ "text": text }), mark),
                    Part::Call(call, mark) => {
                        (json!({ "functionCall": { "name": call.name, "args": content::arguments(call) } }), mark)
                    }
                    Part::Own(part) => (part, Value::Null),
                };
                if !signature.is_null() {
                    part["thoughtSignature"] = signature;
                }
                part
            };
            let parts = order::parts(message, ask.by).into_iter();
            let parts = parts.filter(|part| !matches!(part, Part::Text("", Value::Null)));
            ("model", parts.map(part).collect())
        }
        Message::Results(results) => {
            let mut parts = Vec::new();
            let mut pictures = Vec::new();
            for result in results {
                let (text, images) = content::result(result, ask.seen(PICTURES));
                let key = if result.is_error { "error" } else { "result" };
                parts.push(json!({ "functionResponse": { "name": result.name, "response": { key: text } } }));
                pictures.extend(images.into_iter().map(|(mime, data)| image(mime, data)));
            }
            parts.extend(pictures);
            ("user", parts)
        }
    }
}

/// Reads an answer.
pub struct Decoder {
    by: String,
    calls: Vec<Growing>,
    order: Order,
    finish: Option<Finish>,
    tokens: Option<Tokens>,
}

impl Decoder {
    pub fn new(by: &str) -> Self {
        Self { by: by.to_owned(), calls: Vec::new(), order: Order::default(), finish: None, tokens: None }
    }

    fn part(&mut self, part: &Value, out: &mut Vec<Event>) {
        let signature = Some(&part["thoughtSignature"]).filter(|signature| signature.is_string());
        match text(&part["text"]) {
            Some(thought) if part["thought"] == true => out.push(Event::Thought(thought)),
            Some(said) => {
                self.order.text(&said);
                out.push(Event::Text(said));
            }
            None => {}
        }
        if part["text"].is_string()
            && part["thought"] != true
            && let Some(signature) = signature
        {
            // It may come behind the text, with an empty one.
            self.order.text("");
            self.order.mark_text(signature);
        }
        if let Some(call) = part.get("functionCall") {
            let said = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
            let arguments = call.get("args").filter(|args| !args.is_null()).map_or_else(String::new, Value::to_string);
            self.calls.push(Growing { id: said("id"), name: said("name"), arguments });
            self.order.call(signature.cloned().unwrap_or_default());
        }
    }
}

impl Decode for Decoder {
    fn take(&mut self, event: &sse::Event, out: &mut Vec<Event>) -> Result<bool, Trouble> {
        let data = parse(event)?;
        if let Some(error) = data.get("error") {
            return Err(Trouble::of_event(error));
        }
        let usage = &data["usageMetadata"];
        if usage.is_object() {
            let cached = count(&usage["cachedContentTokenCount"]);
            let input =
                (count(&usage["promptTokenCount"]) + count(&usage["toolUsePromptTokenCount"])).saturating_sub(cached);
            let output = count(&usage["candidatesTokenCount"]) + count(&usage["thoughtsTokenCount"]);
            self.tokens = Some(Tokens { input, cached, written: 0, output });
        }
        if data["promptFeedback"]["blockReason"].is_string() {
            self.finish = Some(Finish::Refusal);
        }
        let candidate = &data["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self.part(part, out);
        }
        match candidate["finishReason"].as_str() {
            None | Some("FINISH_REASON_UNSPECIFIED") => {}
            Some("STOP") => self.finish = Some(Finish::Done),
            Some("MAX_TOKENS") => self.finish = Some(Finish::MaxTokens),
            Some(reason @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "OTHER")) => {
                let why = format!("the model could not finish its answer ({reason})");
                return Err(Trouble::passing(why));
            }
            Some(_) => self.finish = Some(Finish::Refusal),
        }
        Ok(false)
    }

    fn finished(&self) -> bool {
        self.finish.is_some()
    }

    fn close(&mut self, out: &mut Vec<Event>) -> Option<(Finish, Option<Tokens>)> {
        let finish = self.finish?;
        out.extend(content::calls(&mut self.calls));
        out.extend(self.order.keep(&self.by));
        Some((finish, self.tokens))
    }
}
