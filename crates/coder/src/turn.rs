//! The turn loop: ask the model, run the tools it wants, tell it what came of them, and again until it is done.

use crate::busy;
use crate::compaction::compact;
use crate::history;
use crate::model::{Event, Finish, Message, Model, ModelError, Request, ToolRequest, ToolResult, Usage};
use crate::permission::{FINAL, Verdict};
use crate::report::Call;
use crate::script_reports;
use crate::tools::{self, Output, Prepared, Tool, ToolContext, ToolError};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tieline::schema::{ErrorData, Items, UsageUpdate};
use tieline::{
    ContentBlock, Cost, Error, Patch, Raw, Result, StopReason, ToolCallStatus, ToolCallUpdate, ToolKind, WireError,
};
use tieline_host::roots;
use tieline_host::store::new_id;
use tokio::task::JoinSet;

/// Why calls are not carried out whose answer was cut: they may be cut, too, and half a call does harm.
const TOO_LONG: &str = "Not done: the answer reached the model's length limit, so this call may be incomplete. Go on with smaller steps, such as a \
                        long file in several parts.";
/// Why calls are not carried out that belong to a refusal.
const REFUSED: &str = "Not done: the answer ended with a refusal.";
/// One answer of a model has at most so many bytes of text and thoughts.
const MAX_TEXT_BYTES: usize = 16 << 20;
/// One answer of a model has at most so many calls.
const MAX_CALLS: usize = 128;
/// The calls of one answer have at most so many bytes of arguments together.
const MAX_ARGUMENT_BYTES: usize = 16 << 20;
/// The code for a provider that takes no more for a while; one of those that implementations may choose.
const RATE_LIMITED: i64 = -32001;

/// One turn at work. What it knows stays when it is dropped halfway, so that a cancel loses nothing that was said.
pub struct TurnLoop<'a> {
    /// What the tools work with.
    pub ctx: Arc<ToolContext>,
    /// Who answers.
    pub model: Arc<dyn Model>,
    /// How hard it should think.
    pub thought_level: Option<String>,
    /// Who it is and how it should work.
    pub system: String,
    /// The conversation; it grows.
    pub messages: &'a mut Vec<Message>,
    /// The answer that is coming in.
    pub answer: Answer,
    /// A script wants the turn to end like this.
    pub stop: Option<StopReason>,
    /// The model is asked at most this often.
    pub max_requests: u32,
    /// What came of the calls that are being carried out, so far, with their places.
    pub done: Vec<(usize, ToolResult)>,
    /// What the session cost so far, in US dollars.
    pub cost: &'a mut f64,
}

/// What the model said so far in one answer.
#[derive(Default)]
pub struct Answer {
    text: String,
    thought: String,
    calls: Vec<ToolRequest>,
    kept: Option<Raw>,
}

impl Answer {
    /// What is too much in it, if anything is. A model that does not stop must not fill the memory.
    fn excess(&self) -> Option<ModelError> {
        let arguments = || self.calls.iter().map(|call| call.arguments.len() + call.name.len()).sum::<usize>();
        let why = if self.text.len() + self.thought.len() > MAX_TEXT_BYTES {
            format!("more than {} MiB of text", MAX_TEXT_BYTES >> 20)
        } else if self.calls.len() > MAX_CALLS {
            format!("more than {MAX_CALLS} tool calls in one step")
        } else if arguments() > MAX_ARGUMENT_BYTES {
            format!("more than {} MiB of arguments for its tools", MAX_ARGUMENT_BYTES >> 20)
        } else {
            return None;
        };
        Some(ModelError::Failed(format!("the model's answer is too long: {why}; none of its tools were run")))
    }
}

impl TurnLoop<'_> {
    /// Works until the model is done or may not go on. To cancel it, drop it, then call [`TurnLoop::close`].
    pub async fn go(&mut self) -> Result<StopReason> {
        for _ in 0..self.max_requests {
            self.shorten().await?;
            let finish = self.ask().await?;
            let calls = self.answer.calls.clone();
            self.keep_answer().await?;
            if let Some(stop) = self.stop.take() {
                return Ok(stop);
            }
            match finish {
                Finish::MaxTokens => {
                    self.leave_out(calls, TOO_LONG).await?;
                    return Ok(StopReason::MaxTokens);
                }
                Finish::Refusal => {
                    self.leave_out(calls, REFUSED).await?;
                    return Ok(StopReason::Refusal);
                }
                Finish::Done if calls.is_empty() => return Ok(StopReason::EndTurn),
                Finish::Done => {}
            }
            self.run(calls).await?;
        }
        Ok(StopReason::MaxTurnRequests)
    }

    /// Carries out one call that the user typed, as if the model had wanted it, and says what came of it.
    pub async fn carry_out(&mut self, call: ToolRequest) -> Result<StopReason> {
        self.answer.calls.push(call.clone());
        self.keep_answer().await?;
        self.run(vec![call]).await?;
        let Some(Message::Results(results)) = self.messages.last() else { return Ok(StopReason::EndTurn) };
        let said: Vec<&str> = results.iter().flat_map(|result| &result.content).map(history::text_of).collect();
        let (said, failed) = (said.join("\n"), results.iter().any(|result| result.is_error));
        let said = said.trim_end_matches(FINAL).trim_end();
        self.ctx.turn.say(said).await?;
        self.ctx.turn.end_message();
        said.clone_into(&mut self.answer.text);
        self.keep_answer().await?;
        // What was typed and could not be done is no success.
        Ok(if failed { StopReason::Refusal } else { StopReason::EndTurn })
    }

    /// Leaves a conversation that the next turn can go on with, however this one ended.
    pub async fn close(&mut self) -> Result<()> {
        self.keep_answer().await?;
        if let Some(results) = history::mend(self.messages, self.done.drain(..).map(|(_, result)| result).collect()) {
            self.ctx.log.note(history::event(results)?).await?;
        }
        Ok(())
    }

    async fn push(&mut self, message: Message) -> Result<()> {
        let event = history::event(&message)?;
        self.messages.push(message);
        self.ctx.log.note(event).await
    }

    async fn keep_answer(&mut self) -> Result<()> {
        let Answer { text, thought, calls, kept } = std::mem::take(&mut self.answer);
        if text.is_empty() && thought.is_empty() && calls.is_empty() {
            return Ok(());
        }
        self.push(Message::Assistant { text, thought, calls, kept }).await
    }

    /// Asks the model and passes on what it says as it comes.
    async fn ask(&mut self) -> Result<Finish> {
        // First what can be done without, at last even long prompts: they would come again with each request.
        let mut cuts = [history::Cut::Results, history::Cut::Everything].into_iter();
        loop {
            let error = match self.listen().await? {
                Ok(finish) => return Ok(finish),
                Err(error) => error,
            };
            if error == ModelError::Overflow {
                self.answer = Answer::default();
                let mut room = false;
                while let (false, Some(cut)) = (room, cuts.next()) {
                    room = compact(&self.ctx.turn, &self.ctx.log, self.messages, cut).await?;
                }
                if room {
                    continue;
                }
            }
            // What is refused once would be refused with each prompt that follows.
            if let ModelError::Refused(_) = &error
                && let Some(event) = history::take_back(self.messages)
            {
                self.ctx.log.note(event).await?;
            }
            return Err(match error {
                ModelError::RateLimited { why, after } => self.limited(why, after),
                error => error.told(&*self.model),
            });
        }
    }

    /// The provider takes no more for a while: the client is told for how long, in whole seconds.
    fn limited(&self, why: String, after: Option<Duration>) -> Error {
        let retry_after = after.map(|after| after.as_secs() + u64::from(after.subsec_nanos() > 0));
        let mut error = WireError::new(RATE_LIMITED, why);
        error.data = ErrorData::RateLimited { retry_after, scope: None }.to_raw(self.ctx.turn.dialect());
        Error::Wire(error)
    }

    async fn listen(&mut self) -> Result<std::result::Result<Finish, ModelError>> {
        let request = Request {
            system: self.system.clone(),
            messages: self.messages.clone(),
            tools: [tools::specs(), self.ctx.servers.offer().await].concat(),
            thought_level: self.thought_level.clone(),
            ..Request::default()
        };
        let mut reply = self.model.reply(request);
        let mut cost = 0.0;
        let done = loop {
            match reply.next().await {
                Some(Ok(Event::Text(text))) => {
                    self.answer.text.push_str(&text);
                    self.ctx.turn.say(text).await?;
                }
                Some(Ok(Event::Thought(text))) => {
                    self.answer.thought.push_str(&text);
                    self.ctx.turn.think(text).await?;
                }
                Some(Ok(Event::Call(call))) => self.answer.calls.push(call),
                Some(Ok(Event::Keep(raw))) => self.answer.kept = Some(raw),
                Some(Ok(Event::Usage(usage))) => {
                    cost = usage.cost.unwrap_or(cost);
                    self.tell_usage(&usage, *self.cost + cost).await?;
                }
                Some(Ok(Event::Report(report))) => {
                    self.stop = script_reports::play(&self.ctx, report).await?;
                    if self.stop.is_some() {
                        break Ok(Finish::Done);
                    }
                }
                Some(Ok(Event::Finish(finish))) => break Ok(finish),
                Some(Err(error)) => break Err(error),
                None => break Err(ModelError::Failed("the model's answer was cut off".into())),
            }
            if let Some(error) = self.answer.excess() {
                // They are not kept either: no later request would be shorter.
                self.answer.calls.clear();
                break Err(error);
            }
        };
        *self.cost += cost;
        self.ctx.turn.end_message();
        Ok(done)
    }

    async fn tell_usage(&self, usage: &Usage, paid: f64) -> Result<()> {
        let size = self.model.context_size();
        // The size must be there. That 0 says nothing is understood by our own client; others would divide.
        let knows_zero = self.ctx.turn.client().info().is_some_and(|info| info.name == "tieline");
        if size == 0 && !knows_zero {
            return Ok(());
        }
        // Without the noise of adding.
        let amount = (paid * 1e9).round() / 1e9;
        let cost = (amount > 0.0).then(|| Cost { amount, currency: "USD".into(), ..Default::default() });
        let size = if size > 0 { size.max(usage.used) } else { 0 };
        let cost = cost.map_or(Patch::Keep, Patch::Set);
        self.ctx.turn.update(UsageUpdate { used: usage.used, size, cost, ..Default::default() }).await
    }

    /// Puts a summary in place of the older part of the conversation when it grows too long.
    async fn shorten(&mut self) -> Result<()> {
        let size = self.model.context_size();
        if size > 0 && history::tokens(self.messages) > size / 5 * 4 {
            compact(&self.ctx.turn, &self.ctx.log, self.messages, history::Cut::Nothing).await?;
        }
        Ok(())
    }

    /// Tells the client and the model why calls were not carried out.
    async fn leave_out(&mut self, calls: Vec<ToolRequest>, why: &str) -> Result<()> {
        let mut results = Vec::new();
        for call in calls {
            results.push(carry_out(&self.ctx, call, Some(why)).await?);
        }
        if results.is_empty() { Ok(()) } else { self.push(Message::Results(results)).await }
    }

    /// Runs the calls of one answer: neighbours that only read side by side, all others in order.
    async fn run(&mut self, calls: Vec<ToolRequest>) -> Result<()> {
        let mut begun = 0;
        let reads = |call: &ToolRequest| tools::find(&call.name).is_some_and(Tool::reads_only);
        for group in calls.chunk_by(|a, b| reads(a) && reads(b)) {
            let mut running = JoinSet::new();
            for call in group.iter().cloned() {
                let ctx = Arc::clone(&self.ctx);
                let at = begun;
                begun += 1;
                let work = async move { carry_out(&ctx, call, None).await.map(|result| (at, result)) };
                running.spawn(busy::keep(busy::hold(), work));
            }
            while let Some(result) = running.join_next().await {
                self.done.push(result.map_err(Error::internal)??);
            }
        }
        self.done.sort_by_key(|(at, _)| *at);
        let results = self.done.drain(..).map(|(_, result)| result).collect();
        self.push(Message::Results(results)).await
    }
}

/// One call from the model's words to the result it is told. `left_out` says why it is not even begun.
async fn carry_out(ctx: &Arc<ToolContext>, request: ToolRequest, left_out: Option<&str>) -> Result<ToolResult> {
    let text = if request.arguments.trim().is_empty() { "{}" } else { &request.arguments };
    let input = serde_json::from_str::<Value>(text)
        .map_err(|error| format!("The arguments of `{}` are no JSON: {error}", request.name));
    let prepared = match (left_out, &input) {
        (Some(why), _) => Err(why.into()),
        (None, Ok(input)) => prepare(ctx, &request.name, input.clone()).await,
        (None, Err(why)) => Err(why.as_str().into()),
    };
    // What is no JSON that everybody can read is shown as text.
    let input = input.unwrap_or_else(|_| Value::from(&*request.arguments));
    // The user sees what the model tried, also if it can't even begin.
    let prepared = prepared.unwrap_or_else(|why| tools::attempted(&request.name, &input, &ctx.workspace, why));
    let own = tools::find(&request.name);
    let kind = own.map_or(ToolKind::Unspecified, |tool| tool.kind.clone());
    let mut update = ToolCallUpdate::new(new_id()).title(prepared.title).kind(kind);
    update.name = Patch::Set(request.name.clone());
    update.locations = Patch::Set(Items(prepared.locations));
    update.raw_input = Patch::Set(input.into());
    if !prepared.content.is_empty() {
        update = update.content(prepared.content);
    }
    let stoppable = prepared.work.is_ok() && own.is_none_or(|tool| tool.stoppable);
    let call = Call::announce(ctx, update, stoppable).await?;
    let output = match prepared.work {
        Err(why) => {
            // What no answer could allow counts as refused.
            let outside =
                matches!(why.downcast_ref(), Some(roots::Error::Outside { .. } | roots::Error::OtherMount(_)));
            if outside { Output::refused(why, Some("roots"), "") } else { Output::not_done(why) }
        }
        Ok(work) => match ctx.permissions.check(&call, &prepared.actions, prepared.note.as_deref()).await? {
            Verdict::Allowed(by) => {
                call.runs(by).await?;
                work(Arc::clone(&call)).await.unwrap_or_else(Output::error)
            }
            Verdict::Refused(why, by) => Output::refused(why, by, FINAL),
            Verdict::Cancelled => return Err(Error::Cancelled),
        },
    };
    finish(&call, request, output).await
}

async fn prepare(ctx: &Arc<ToolContext>, name: &str, input: Value) -> std::result::Result<Prepared, ToolError> {
    if let Some(tool) = tools::find(name) {
        return (tool.prepare)(input, Arc::clone(ctx)).await;
    }
    if let Some(prepared) = ctx.servers.prepare(name, input) {
        return prepared;
    }
    let known: Vec<String> = tools::specs().into_iter().map(|tool| tool.name).chain(ctx.servers.names()).collect();
    Err(format!("There is no tool `{name}`. There are: {}.", known.join(", ")).into())
}

/// Writes a result down, then tells the client.
async fn finish(call: &Call, ToolRequest { id, name, .. }: ToolRequest, output: Output) -> Result<ToolResult> {
    let mut content = output.content.clone();
    if let (Some(ContentBlock::Text(last)), false) = (content.last_mut(), output.advice.is_empty()) {
        last.text = format!("{} {}", last.text, output.advice);
    }
    let result = ToolResult { id, name, content, is_error: output.failed };
    call.note(history::result_event(call.id(), &result)?).await?;
    if output.failed && output.shown.is_none() {
        // A diff that was not made stays to be seen, and the reason with it.
        for block in output.content {
            call.append(block).await?;
        }
    }
    let mut end = ToolCallUpdate::default().status(match (output.stopped, output.failed) {
        (true, _) => ToolCallStatus::Cancelled,
        (false, true) => ToolCallStatus::Failed,
        (false, false) => ToolCallStatus::Completed,
    });
    end.content = output.shown.map_or(Patch::Keep, |content| Patch::Set(Items(content)));
    end.raw_output = output.raw.map_or(Patch::Keep, |raw| Patch::Set(raw.into()));
    call.update(end).await?;
    Ok(result)
}
