//! Gemini: calls carry signatures of the thoughts behind them, which go back with them.

use super::Ask;
use super::content::{self, Forms};
use super::decode::{Answer, Decode, count, field, json as parse};
use super::known::Tokens;
use super::order::{self, Part};
use super::schema;
use super::trouble::Trouble;
use crate::http::sse;
use crate::model::{Finish, Message, ToolRequest};
use serde_json::{Value, json};

const FORMS: Forms = Forms {
    text: |text| json!({ "text": text }),
    image: |mime, data| json!({ "inlineData": { "mimeType": mime, "data": data } }),
};

/// The path and the body of a request.
pub fn request(ask: &Ask<'_>) -> (String, Value) {
    let mut contents: Vec<Value> = Vec::new();
    for message in &ask.request.messages {
        let (role, parts) = turn(message, ask);
        content::add(&mut contents, role, "parts", parts);
    }
    let tools = ask.tools(|tool| {
        let mut declared = json!({ "name": tool.name, "description": tool.description });
        if let Some(schema) = schema::gemini(tool) {
            declared["parametersJsonSchema"] = schema;
        }
        declared
    });
    let mut settings = json!({});
    if let Some(most) = ask.request.max_tokens {
        settings["maxOutputTokens"] = most.into();
    }
    if !["gemini-1", "gemini-2.0", "gemma"].iter().any(|start| ask.model.starts_with(start)) {
        settings["thinkingConfig"] = json!({ "includeThoughts": true });
        match ask.level {
            Some(level) if ask.model.starts_with("gemini-2.5") => {
                settings["thinkingConfig"]["thinkingBudget"] = match level {
                    "low" => 2048,
                    "medium" => 8192,
                    _ => 24_576,
                }
                .into();
            }
            Some(level) => settings["thinkingConfig"]["thinkingLevel"] = level.into(),
            None => {}
        }
    }
    let body = json!({
        "contents": contents,
        "systemInstruction": ask.system().map(|text| json!({ "parts": [{ "text": text }] })),
        "tools": tools.map(|tools| json!([{ "functionDeclarations": tools }])),
        "generationConfig": settings,
    });
    let model = ask.model.strip_prefix("models/").unwrap_or(ask.model);
    (format!("/v1beta/models/{model}:streamGenerateContent?alt=sse"), body)
}

fn turn(message: &Message, ask: &Ask<'_>) -> (&'static str, Vec<Value>) {
    match message {
        Message::User(blocks) => ("user", ask.parts(blocks, &FORMS)),
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
                let (text, mut images) = ask.result(result, &FORMS);
                let key = if result.is_error { "error" } else { "result" };
                parts.push(json!({ "functionResponse": { "name": result.name, "response": { key: text } } }));
                pictures.append(&mut images);
            }
            parts.extend(pictures);
            ("user", parts)
        }
    }
}

/// Reads an answer.
pub struct Decoder;

fn part(part: &Value, answer: &mut Answer) {
    let signature = Some(&part["thoughtSignature"]).filter(|signature| signature.is_string());
    if part["thought"] == true {
        answer.think(&part["text"]);
    } else {
        answer.say(&part["text"]);
        if let (true, Some(signature)) = (part["text"].is_string(), signature) {
            // It may come behind the text, with an empty one.
            answer.order.text("");
            answer.order.mark_text(signature);
        }
    }
    if let Some(call) = part.get("functionCall") {
        let arguments = call.get("args").filter(|args| !args.is_null()).map_or_else(String::new, Value::to_string);
        let call = ToolRequest { id: field(call, "id"), name: field(call, "name"), arguments };
        answer.call(call, signature.cloned().unwrap_or_default());
    }
}

impl Decode for Decoder {
    fn take(&mut self, event: &sse::Event, answer: &mut Answer) -> Result<bool, Trouble> {
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
            answer.tokens = Some(Tokens { input, cached, written: 0, output });
        }
        if data["promptFeedback"]["blockReason"].is_string() {
            answer.finish = Some(Finish::Refusal);
        }
        let candidate = &data["candidates"][0];
        for part in candidate["content"]["parts"].as_array().into_iter().flatten() {
            self::part(part, answer);
        }
        match candidate["finishReason"].as_str() {
            None | Some("FINISH_REASON_UNSPECIFIED") => {}
            Some("STOP") => answer.finish = Some(Finish::Done),
            Some("MAX_TOKENS") => answer.finish = Some(Finish::MaxTokens),
            Some(reason @ ("MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "OTHER")) => {
                let why = format!("the model could not finish its answer ({reason})");
                return Err(Trouble::passing(why));
            }
            Some(_) => answer.finish = Some(Finish::Refusal),
        }
        Ok(false)
    }
}
