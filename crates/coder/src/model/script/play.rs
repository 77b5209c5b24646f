//! Plays the steps of one answer.

use super::pick::View;
use super::scenario::text_of;
use super::step::{Arguments, Flood, Say, Step};
use crate::model::{Event, Finish, Message, ModelError, Request, ToolRequest};
use serde_json::Value;
use std::sync::Arc;
use tieline::schema::to_json;
use tieline::{ContentBlock, Dialect};
use tokio::sync::mpsc::{Sender, error::SendError};
use tokio::time::sleep;

type Out = Sender<Result<Event, ModelError>>;
type Sent = Result<(), SendError<Result<Event, ModelError>>>;

/// One answer that is about to be played.
pub(super) struct Performance {
    pub(super) steps: Arc<[Step]>,
    /// What the placeholders stand for.
    pub(super) facts: Facts,
    /// The number of the first call.
    pub(super) first_call: u64,
}

impl Performance {
    /// Plays to the end, or until nobody listens.
    pub(super) async fn run(self, out: Out) {
        // Nobody listens any more: that is how an answer is stopped.
        let _ = self.steps_to(&out).await;
    }

    async fn steps_to(&self, out: &Out) -> Sent {
        let mut number = self.first_call;
        for step in &*self.steps {
            match step {
                Step::Say(say) => self.say(say, out).await?,
                Step::Flood(flood) => pour(*flood, out).await?,
                Step::Pause(time) => sleep(*time).await,
                Step::Call(call) => {
                    let id = call.id.clone().unwrap_or_else(|| format!("call_{number}"));
                    number = number.wrapping_add(1);
                    let arguments = match &call.arguments {
                        Arguments::Raw(text) => text.clone(),
                        Arguments::Json(value) => self.facts.fill_json(value).to_string(),
                    };
                    out.send(Ok(Event::Call(ToolRequest { id, name: call.name.clone(), arguments }))).await?;
                }
                Step::Usage(usage) => out.send(Ok(Event::Usage(*usage))).await?,
                Step::Report(report) => out.send(Ok(Event::Report(report.clone()))).await?,
                Step::Stall => {
                    out.closed().await;
                    return Ok(());
                }
                Step::Cut => return Ok(()),
                Step::Error(error) => return out.send(Err(error.clone())).await,
                Step::Finish(finish) => return out.send(Ok(Event::Finish(*finish))).await,
            }
        }
        out.send(Ok(Event::Finish(Finish::Done))).await
    }

    async fn say(&self, say: &Say, out: &Out) -> Sent {
        let filled = if say.fill { self.facts.fill(&say.text) } else { say.text.clone() };
        for _ in 0..say.times {
            let mut rest = filled.as_str();
            loop {
                let end = match say.chunk {
                    0 => rest.len(),
                    chunk => rest.char_indices().nth(chunk).map_or(rest.len(), |(at, _)| at),
                };
                let (piece, behind) = rest.split_at(end);
                rest = behind;
                if !say.pause.is_zero() {
                    sleep(say.pause).await;
                }
                let piece = piece.to_owned();
                out.send(Ok(if say.thought { Event::Thought(piece) } else { Event::Text(piece) })).await?;
                if rest.is_empty() {
                    break;
                }
            }
        }
        Ok(())
    }
}

/// Says numbered pieces of the same size, so that a lost one is noticed.
async fn pour(flood: Flood, out: &Out) -> Sent {
    for number in 1..=flood.pieces {
        let mut piece = format!("{number} ");
        piece.truncate(flood.size);
        piece.extend(std::iter::repeat_n('.', flood.size - piece.len()));
        if flood.size > 1 {
            piece.pop();
            piece.push('\n');
        }
        out.send(Ok(Event::Text(piece))).await?;
    }
    Ok(())
}

/// What placeholders stand for.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) prompt: String,
    /// What the last tools gave back.
    pub(super) result: String,
    /// What the model was told: the words before the conversation and its last message.
    pub(super) told: String,
}

impl Facts {
    pub(super) fn of(view: &View<'_>, request: &Request) -> Self {
        let result = view.results().iter().map(text_of).collect::<Vec<_>>().join("\n");
        let last: Vec<&ContentBlock> = match request.messages.last() {
            Some(Message::User(content)) => content.iter().collect(),
            Some(Message::Results(results)) => results.iter().flat_map(|result| &result.content).collect(),
            _ => Vec::new(),
        };
        let blocks = last.into_iter().map(|block| to_json(block, Dialect::V2));
        let told = std::iter::once(request.system.clone()).chain(blocks).collect::<Vec<_>>().join("\n");
        Self { prompt: view.prompt().to_owned(), result, told }
    }

    /// Fills in `{prompt}`, `{result}`, `{told}` and `{after WORDS}`: the word behind these words in the result.
    pub(super) fn fill(&self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            filled.push_str(before);
            let found = behind.split_once('}').and_then(|(name, behind)| Some((self.value(name)?, behind)));
            if let Some((value, behind)) = found {
                filled.push_str(value);
                rest = behind;
            } else {
                filled.push('{');
                rest = behind;
            }
        }
        filled.push_str(rest);
        filled
    }

    fn value(&self, name: &str) -> Option<&str> {
        match name {
            "prompt" => Some(&self.prompt),
            "result" => Some(&self.result),
            "told" => Some(&self.told),
            other => {
                let behind = self.result.split_once(other.strip_prefix("after ")?).map_or("", |(_, behind)| behind);
                let part_of_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
                let word = behind.trim_start_matches(|c| !part_of_word(c));
                Some(word.split(|c| !part_of_word(c)).next().unwrap_or_default())
            }
        }
    }

    fn fill_json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.fill(text)),
            Value::Array(items) => items.iter().map(|item| self.fill_json(item)).collect(),
            Value::Object(fields) => {
                Value::Object(fields.iter().map(|(key, value)| (key.clone(), self.fill_json(value))).collect())
            }
            other => other.clone(),
        }
    }
}
