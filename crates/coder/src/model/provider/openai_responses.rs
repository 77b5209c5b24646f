//! `OpenAI` responses, without anything stored there: the model's thoughts travel with the conversation, encrypted.

use super::Ask;
use super::content::{self, Growing, PICTURES, Piece, data_url};
use super::decode::{Decode, count, json as parse, text};
use super::known::Tokens;
use super::order::{self, Order, Part};
use super::schema;
use super::trouble::Trouble;
use crate::http::sse;
use crate::model::{Event, Finish, Message};
use serde_json::{Value, json};

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
    let tool = |tool: &crate::model::ToolSpec| {
        json!({ "type": "function", "name": tool.name, "description": tool.description,
                "parameters": schema::plain(tool), "strict": false })
    };
    let tools: Vec<Value> = ask.request.tools.iter().map(tool).collect();
    let mut body = json!({ "model": ask.model, "instructions": ask.request.system, "input": input,
                           "stream": true, "store": false });
    if !tools.is_empty() {
        body["tools"] = tools.into();
    }
    if let Some(most) = ask.request.max_tokens {
        body["max_output_tokens"] = most.into();
    }
    if thinks(ask.model) || ask.level.is_some() {
        body["include"] = json!(["reasoning.encrypted_content"]);
        body["reasoning"] = json!({ "summary": "auto" });
        if let Some(level) = ask.level {
            body["reasoning"]["effort"] = level.word().into();
        }
    }
    ("/responses".into(), body)
}

fn add(input: &mut Vec<Value>, message: &Message, ask: &Ask<'_>) {
    match message {
        Message::User(blocks) => input.push(json!({ "role": "user", "content": parts(blocks, ask) })),
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
                let (text, images) = content::result(result, ask.seen(PICTURES));
                let text = if result.is_error { format!("Error: {text}") } else { text };
                let output = if images.is_empty() {
                    Value::from(text)
                } else {
                    let pictures = images.into_iter().map(|(mime, data)| image(mime, data));
                    std::iter::once(json!({ "type": "input_text", "text": text })).chain(pictures).collect()
                };
                input.push(
                    json!({ "type": "function_call_output", "call_id": content::id(&result.id), "output": output }),
                );
            }
        }
    }
}

fn image(mime: &str, data: &str) -> Value {
    json!({ "type": "input_image", "image_url": data_url(mime, data) })
}

fn parts(blocks: &[tieline::ContentBlock], ask: &Ask<'_>) -> Value {
    let part = |piece| match piece {
        Piece::Text(text) => json!({ "type": "input_text", "text": text }),
        Piece::Image(mime, data) => image(mime, data),
    };
    content::pieces(blocks, ask.seen(PICTURES)).into_iter().map(part).collect()
}

/// Reads an answer.
pub struct Decoder {
    by: String,
    calls: Vec<Growing>,
    order: Order,
    thought: bool,
    refused: bool,
    finish: Option<Finish>,
    tokens: Option<Tokens>,
}

impl Decoder {
    pub fn new(by: &str) -> Self {
        let (calls, order) = (Vec::new(), Order::default());
        Self { by: by.to_owned(), calls, order, thought: false, refused: false, finish: None, tokens: None }
    }

    fn say(&mut self, value: &Value, out: &mut Vec<Event>) {
        if let Some(more) = text(value) {
            self.order.text(&more);
            out.push(Event::Text(more));
        }
    }

    fn item(&mut self, item: &Value) {
        let said = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        match item["type"].as_str() {
            Some("function_call") => {
                self.calls.push(Growing { id: said("call_id"), name: said("name"), arguments: said("arguments") });
                self.order.call(Value::Null);
            }
            Some("reasoning") if item["encrypted_content"].is_string() => {
                let mut kept = item.clone();
                if let Some(kept) = kept.as_object_mut() {
                    kept.retain(|key, _| matches!(key.as_str(), "type" | "id" | "summary" | "encrypted_content"));
                }
                self.order.own(kept);
            }
            // Which part of the work a text belongs to; newer models want to see it again.
            Some("message") if item["phase"].is_string() => self.order.mark_text(&item["phase"]),
            _ => {}
        }
    }

    fn usage(&mut self, response: &Value) {
        let usage = &response["usage"];
        if usage.is_object() {
            let cached = count(&usage["input_tokens_details"]["cached_tokens"]);
            let input = count(&usage["input_tokens"]).saturating_sub(cached);
            self.tokens = Some(Tokens { input, cached, written: 0, output: count(&usage["output_tokens"]) });
        }
    }
}

impl Decode for Decoder {
    fn take(&mut self, event: &sse::Event, out: &mut Vec<Event>) -> Result<bool, Trouble> {
        if event.data.trim() == "[DONE]" {
            return Ok(true);
        }
        let data = parse(event)?;
        match data["type"].as_str().unwrap_or(&event.name) {
            "response.output_item.added" if data["item"]["type"] == "message" => self.order.begin_text(),
            "response.output_text.delta" => self.say(&data["delta"], out),
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                self.thought = true;
                out.extend(text(&data["delta"]).map(Event::Thought));
            }
            "response.reasoning_summary_part.added" if self.thought => out.push(Event::Thought("\n\n".into())),
            "response.refusal.delta" => {
                self.refused = true;
                self.say(&data["delta"], out);
            }
            "response.output_item.done" => self.item(&data["item"]),
            "response.completed" => {
                self.usage(&data["response"]);
                self.finish = Some(Finish::Done);
                return Ok(true);
            }
            "response.incomplete" => {
                self.usage(&data["response"]);
                let filtered = data["response"]["incomplete_details"]["reason"] == "content_filter";
                self.finish = Some(if filtered { Finish::Refusal } else { Finish::MaxTokens });
                return Ok(true);
            }
            "response.failed" => return Err(Trouble::of_event(&data["response"]["error"])),
            "error" => return Err(Trouble::of_event(data.get("error").unwrap_or(&data))),
            _ => {}
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
        let finish = if self.refused && finish == Finish::Done { Finish::Refusal } else { finish };
        Some((finish, self.tokens))
    }
}
