//! `OpenAI` responses, without anything stored there: the model's thoughts travel with the conversation, encrypted.

use super::Ask;
use super::content::{self, Forms, data_url};
use super::decode::{Answer, Decode, count, field, json as parse};
use super::known::Tokens;
use super::order::{self, Part};
use super::schema;
use super::trouble::Trouble;
use crate::http::sse;
use crate::model::{Event, Finish, Message, ToolRequest};
use serde_json::{Value, json};

const FORMS: Forms = Forms {
    text: |text| json!({ "type": "input_text", "text": text }),
    image: |mime, data| json!({ "type": "input_image", "image_url": data_url(mime, data) }),
};

/// True for models that think; the others refuse what is about thinking.
fn thinks(model: &str) -> bool {
    let family = ["o1", "o3", "o4", "gpt-5", "gpt-6", "codex"].iter().any(|start| model.starts_with(start));
    family && !model.contains("-chat")
}

/// The path and the body of a request.
pub fn request(ask: &Ask<'_>) -> (String, Value) {
    let mut input = Vec::new();
    for message in &ask.request.messages {
        add(&mut input, message, ask);
    }
    let tools = ask.tools(|tool| {
        json!({ "type": "function", "name": tool.name, "description": tool.description,
                "parameters": schema::plain(tool), "strict": false })
    });
    let mut body = json!({
        "model": ask.model,
        "instructions": ask.request.system,
        "input": input,
        "tools": tools,
        "max_output_tokens": ask.request.max_tokens,
        "stream": true,
        "store": false,
    });
    if thinks(ask.model) || ask.level.is_some() {
        body["include"] = json!(["reasoning.encrypted_content"]);
        body["reasoning"] = json!({ "summary": "auto" });
        if let Some(level) = ask.level {
            body["reasoning"]["effort"] = level.into();
        }
    }
    ("/responses".into(), body)
}

fn add(input: &mut Vec<Value>, message: &Message, ask: &Ask<'_>) {
    match message {
        Message::User(blocks) => input.push(json!({ "role": "user", "content": ask.parts(blocks, &FORMS) })),
        Message::Assistant { text, calls, .. } => {
            // A thought without what follows it is refused.
            if text.is_empty() && calls.is_empty() {
                return;
            }
            let item = |part| match part {
                Part::Text("", _) => None,
                Part::Text(text, phase) => {
                    let content = json!([{ "type": "output_text", "text": text }]);
                    let mut said = json!({ "role": "assistant", "content": content });
                    if !phase.is_null() {
                        said["phase"] = phase;
                    }
                    Some(said)
                }
                Part::Call(call, _) => {
                    let arguments = content::arguments(call).to_string();
                    Some(json!({ "type": "function_call", "call_id": content::id(&call.id), "name": call.name,
                                 "arguments": arguments }))
                }
                Part::Own(thought) => Some(thought),
            };
            input.extend(order::parts(message, ask.by).into_iter().filter_map(item));
        }
        Message::Results(results) => {
            for result in results {
                let (text, mut parts) = ask.result(result, &FORMS);
                let text = if result.is_error { format!("Error: {text}") } else { text };
                let output = if parts.is_empty() {
                    Value::from(text)
                } else {
                    parts.insert(0, (FORMS.text)(&text));
                    parts.into()
                };
                input.push(
                    json!({ "type": "function_call_output", "call_id": content::id(&result.id), "output": output }),
                );
            }
        }
    }
}

/// Reads an answer.
#[derive(Default)]
pub struct Decoder {
    /// A thought has begun.
    thought: bool,
}

fn item(item: &Value, answer: &mut Answer) {
    match item["type"].as_str() {
        Some("function_call") => {
            let (id, name, arguments) = (field(item, "call_id"), field(item, "name"), field(item, "arguments"));
            answer.call(ToolRequest { id, name, arguments }, Value::Null);
        }
        Some("reasoning") if item["encrypted_content"].is_string() => {
            let mut kept = item.clone();
            if let Some(kept) = kept.as_object_mut() {
                kept.retain(|key, _| matches!(key.as_str(), "type" | "id" | "summary" | "encrypted_content"));
            }
            answer.order.own(kept);
        }
        // Which part of the work a text belongs to; newer models want to see it again.
        Some("message") if item["phase"].is_string() => answer.order.mark_text(&item["phase"]),
        _ => {}
    }
}

fn usage(response: &Value, answer: &mut Answer) {
    let usage = &response["usage"];
    if usage.is_object() {
        let cached = count(&usage["input_tokens_details"]["cached_tokens"]);
        let input = count(&usage["input_tokens"]).saturating_sub(cached);
        answer.tokens = Some(Tokens { input, cached, written: 0, output: count(&usage["output_tokens"]) });
    }
}

impl Decode for Decoder {
    fn take(&mut self, event: &sse::Event, answer: &mut Answer) -> Result<bool, Trouble> {
        if event.data.trim() == "[DONE]" {
            return Ok(true);
        }
        let data = parse(event)?;
        match data["type"].as_str().unwrap_or(&event.name) {
            "response.output_item.added" if data["item"]["type"] == "message" => answer.order.begin_text(),
            "response.output_text.delta" => answer.say(&data["delta"]),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thought = true;
                answer.think(&data["delta"]);
            }
            "response.reasoning_summary_part.added" if self.thought => answer.out.push(Event::Thought("\n\n".into())),
            "response.refusal.delta" => {
                answer.refused = true;
                answer.say(&data["delta"]);
            }
            "response.output_item.done" => item(&data["item"], answer),
            "response.completed" => {
                usage(&data["response"], answer);
                answer.finish = Some(Finish::Done);
                return Ok(true);
            }
            "response.incomplete" => {
                usage(&data["response"], answer);
                let filtered = data["response"]["incomplete_details"]["reason"] == "content_filter";
                answer.finish = Some(if filtered { Finish::Refusal } else { Finish::MaxTokens });
                return Ok(true);
            }
            "response.failed" => return Err(Trouble::of_event(&data["response"]["error"])),
            "error" => return Err(Trouble::of_event(data.get("error").unwrap_or(&data))),
            _ => {}
        }
        Ok(false)
    }
}
