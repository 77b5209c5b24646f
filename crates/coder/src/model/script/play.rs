//! Plays the steps of one answer.

use super::pick::View;
use crate::mcp::tool_name;
use crate::model::{Event, Finish, Message, ModelError, Report, Request, ToolRequest, Usage};
use serde_json::json;
use tieline::schema::{from_json, to_json};
use tieline::{ContentBlock, Dialect};
use tieline_script::{self as script, Call, Facts, Flood, Say, Step, Wish};
use tokio::sync::mpsc::{Sender, error::SendError};
use tokio::time::sleep;

type Out = Sender<Result<Event, ModelError>>;
type Sent = Result<(), SendError<Result<Event, ModelError>>>;

/// One answer that is about to be played.
pub(super) struct Performance {
    pub(super) steps: Vec<Step>,
    /// What the placeholders stand for.
    pub(super) facts: Facts,
    /// The number of the first call.
    pub(super) first_call: u64,
}

impl Performance {
    /// Plays to the end, or until nobody listens: that is how an answer is stopped.
    pub(super) async fn run(&self, out: &Out) -> Sent {
        let mut number = self.first_call;
        for step in &self.steps {
            match step {
                Step::Say(say) => self.say(say, out).await?,
                Step::Flood(flood) => pour(*flood, out).await?,
                Step::Pause(time) => sleep(*time).await,
                Step::Redacted(text) => out.send(Ok(Event::Thought(text.clone()))).await?,
                Step::Call(call) => {
                    let id = call.id.clone().unwrap_or_else(|| format!("call_{number}"));
                    number = number.wrapping_add(1);
                    let (name, arguments) = request(call, &self.facts);
                    out.send(Ok(Event::Call(ToolRequest { id, name, arguments }))).await?;
                }
                Step::Usage(usage) => {
                    let used = usage.input.saturating_add(usage.output);
                    out.send(Ok(Event::Usage(Usage { used, cost: usage.cost }))).await?;
                }
                Step::Update(report) => {
                    let event = match check(report) {
                        Ok(()) => Event::Report(report.clone()),
                        Err(why) => Event::Text(format!("{why}\n")),
                    };
                    out.send(Ok(event)).await?;
                }
                Step::Stall => {
                    out.closed().await;
                    return Ok(());
                }
                Step::Cut => return Ok(()),
                Step::Overflow => return out.send(Err(ModelError::Overflow)).await,
                Step::Error(why) => return out.send(Err(ModelError::Failed(why.clone()))).await,
                Step::Login(why) => return out.send(Err(ModelError::LoginNeeded(why.clone()))).await,
                Step::Finish(finish) => {
                    let finish = match finish {
                        script::Finish::Done => Finish::Done,
                        script::Finish::MaxTokens => Finish::MaxTokens,
                        script::Finish::Refusal | script::Finish::Filter => Finish::Refusal,
                    };
                    return out.send(Ok(Event::Finish(finish))).await;
                }
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

/// What the placeholders stand for.
pub(super) fn facts(view: &View, request: &Request) -> Facts {
    let result = view.results().iter().map(|(text, _)| text.as_str()).collect::<Vec<_>>().join("\n");
    let last: Vec<&ContentBlock> = match request.messages.last() {
        Some(Message::User(content)) => content.iter().collect(),
        Some(Message::Results(results)) => results.iter().flat_map(|result| &result.content).collect(),
        _ => Vec::new(),
    };
    let blocks = last.into_iter().map(|block| to_json(block, Dialect::V2));
    let told = std::iter::once(request.system.clone()).chain(blocks).collect::<Vec<_>>().join("\n");
    Facts { prompt: view.prompt().to_owned(), result, told }
}

/// A call as our tools take it.
fn request(call: &Call, facts: &Facts) -> (String, String) {
    let (name, mut arguments) = match &call.wish {
        Wish::Raw { name, text } => return (name.clone(), text.clone()),
        Wish::Mcp { server, tool, text } => return (tool_name(server, tool), text.clone()),
        Wish::Named { names, arguments } => (names.first().cloned().unwrap_or_default(), facts.fill_json(arguments)),
        Wish::Read { path } => ("read".into(), json!({ "path": path })),
        Wish::Write { path, content } => ("write".into(), json!({ "content": content, "path": path })),
        Wish::Edit { path, old, new } => {
            ("edit".into(), json!({ "path": path, "edits": [{ "old": old, "new": new }] }))
        }
        Wish::Run { command } => ("run".into(), json!({ "command": command })),
    };
    call.swell(&mut arguments);
    (name, arguments.to_string())
}

/// Says why something can't be reported, if it can't.
pub(super) fn check(report: &Report) -> Result<(), String> {
    let Report::Raw(raw) = report else { return Ok(()) };
    let update = from_json::<tieline::Update>(&raw.to_string());
    update.map(drop).map_err(|error| format!("`update.raw` is no update: {error}"))
}
