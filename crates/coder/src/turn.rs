//! The turn loop: ask the model, run the tools it wants, tell it what came of them, and again until it is done.

use crate::busy;
use crate::compaction::summarize;
use crate::history;
use crate::model::{Event, Finish, Message, Model, ModelError, Request, ToolRequest, ToolResult};
use crate::permission::Verdict;
use crate::report::{Call, Reporter};
use crate::script_reports;
use crate::tools::{self, Output, Prepared, Tool, ToolContext};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tieline::schema::{ErrorData, Items};
use tieline::{
    Cost, Error, MessageKind, Patch, Raw, Result, StopReason, ToolCallStatus, ToolCallUpdate, ToolKind, WireError,
};
use tokio::task::JoinSet;

/// Why calls are not carried out whose answer was cut: they may be cut, too, and half a call does harm.
const TOO_LONG: &str = "Not done: the answer reached the model's length limit, so this call may be incomplete. Go on with smaller steps, such as a \
                        long file in several parts.";
/// Why calls are not carried out that belong to a refusal.
const REFUSED: &str = "Not done: the answer ended with a refusal.";
/// One answer of a model has at most so many bytes of text and thoughts,
const SAID: usize = 16 << 20;
/// so many calls,
const CALLS: usize = 128;
/// and so many bytes of arguments in all of them.
const ARGUMENTS: usize = 16 << 20;
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
        let why = if self.text.len() + self.thought.len() > SAID {
            format!("more than {} MiB of text", SAID >> 20)
        } else if self.calls.len() > CALLS {
            format!("more than {CALLS} tool calls in one step")
        } else if arguments() > ARGUMENTS {
            format!("more than {} MiB of arguments for its tools", ARGUMENTS >> 20)
        } else {
            return None;
        };
        Some(ModelError::Failed(format!("the model's answer is too long: {why}; none of its tools were run")))
    }
}

impl TurnLoop<'_> {
    fn reporter(&self) -> &Arc<Reporter> {
        &self.ctx.reporter
    }

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
        let said = said.join("\n");
        self.reporter().say(MessageKind::Agent, said.clone()).await?;
        self.reporter().end_message();
        self.answer.text = said;
        self.keep_answer().await?;
        Ok(StopReason::EndTurn)
    }

    /// Leaves a conversation that the next turn can go on with, however this one ended.
    pub async fn close(&mut self) -> Result<()> {
        self.keep_answer().await?;
        if let Some(results) = history::mend(self.messages, self.done.drain(..).map(|(_, result)| result).collect()) {
            let event = history::event(results)?;
            self.ctx.reporter.note(vec![event]).await?;
        }
        Ok(())
    }

    async fn push(&mut self, message: Message) -> Result<()> {
        let event = history::event(&message)?;
        self.messages.push(message);
        self.reporter().note(vec![event]).await
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
                    room = compact(&self.ctx.reporter, self.messages, cut).await?;
                }
                if room {
                    continue;
                }
            }
            // What is refused once would be refused with each prompt that follows.
            if let ModelError::Refused(_) = &error
                && let Some(event) = history::take_back(self.messages)
            {
                self.reporter().note(vec![event]).await?;
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
        error.data = ErrorData::RateLimited { retry_after, scope: None }.to_raw(self.reporter().turn.dialect());
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
                    self.reporter().say(MessageKind::Agent, text).await?;
                    if let Some(error) = self.answer.excess() {
                        break Err(error);
                    }
                }
                Some(Ok(Event::Thought(text))) => {
                    self.answer.thought.push_str(&text);
                    self.reporter().say(MessageKind::Thought, text).await?;
                    if let Some(error) = self.answer.excess() {
                        break Err(error);
                    }
                }
                Some(Ok(Event::Call(call))) => {
                    self.answer.calls.push(call);
                    if let Some(error) = self.answer.excess() {
                        // It is not kept either: no later request would be shorter.
                        self.answer.calls.clear();
                        break Err(error);
                    }
                }
                Some(Ok(Event::Keep(raw))) => self.answer.kept = Some(raw),
                Some(Ok(Event::Usage(usage))) => {
                    cost = usage.cost.unwrap_or(cost);
                    // Without the noise of adding.
                    let sum = ((*self.cost + cost) * 1e9).round() / 1e9;
                    let paid = (sum > 0.0).then(|| Cost { amount: sum, currency: "USD".into(), meta: None });
                    let size = self.model.context_size();
                    // The size must be there. That 0 says nothing is understood by our own client; others would divide.
                    let client = self.reporter().turn.client();
                    if size > 0 || client.info().is_some_and(|info| info.name == "tieline") {
                        let cost = paid.map_or(Patch::Keep, Patch::Set);
                        let size = if size > 0 { size.max(usage.used) } else { 0 };
                        let update = tieline::schema::UsageUpdate { used: usage.used, size, cost, meta: None };
                        self.reporter().update(update).await?;
                    }
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
        };
        *self.cost += cost;
        self.reporter().end_message();
        Ok(done)
    }

    /// Puts a summary in place of the older part of the conversation when it grows too long.
    async fn shorten(&mut self) -> Result<()> {
        let size = self.model.context_size();
        if size > 0 && history::tokens(self.messages) > size / 5 * 4 {
            compact(&self.ctx.reporter, self.messages, history::Cut::Nothing).await?;
        }
        Ok(())
    }

    /// Tells the client and the model why calls were not carried out.
    async fn leave_out(&mut self, calls: Vec<ToolRequest>, why: &str) -> Result<()> {
        let mut results = Vec::new();
        for call in calls {
            let kind = tools::find(&call.name).map_or(ToolKind::Unspecified, Tool::kind);
            let output = not_begun(&self.ctx, &call, kind, why.to_owned()).await?;
            results.push(ToolResult { id: call.id, name: call.name, content: output.content, is_error: true });
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
                let work = async move { carry_out(&ctx, call).await.map(|result| (at, result)) };
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

/// Shortens a conversation and says so. False if there is nothing to make shorter.
pub async fn compact(reporter: &Arc<Reporter>, messages: &mut Vec<Message>, cut: history::Cut) -> Result<bool> {
    use tieline::schema::{CompactionStatus, CompactionUpdate};
    // When everything is cut, there is a summary already.
    let summary = if cut == history::Cut::Everything { None } else { summarize(messages) };
    let cut = if history::trim(messages, cut) { cut } else { history::Cut::Nothing };
    if summary.is_none() && cut == history::Cut::Nothing {
        return Ok(false);
    }
    let compaction_id = reporter.new_id("compaction");
    let update = |status, summary| CompactionUpdate {
        compaction_id: compaction_id.clone(),
        status,
        summary,
        ..CompactionUpdate::default()
    };
    reporter.update(tieline::Update::Compaction(update(CompactionStatus::InProgress, Patch::Keep))).await?;
    let (summary, kept) = summary.map_or((None, 0), |(summary, kept)| (Some(summary), kept));
    reporter.note(vec![history::compaction_event(summary.as_deref(), kept, cut)]).await?;
    let told = match summary {
        Some(summary) => {
            history::replace(messages, &summary, kept);
            summary
        }
        None if cut == history::Cut::Everything => "Long prompts were cut.".into(),
        None => "Long results of tools were cut.".into(),
    };
    let told = Patch::Set(Items(vec![told.into()]));
    reporter.update(tieline::Update::Compaction(update(CompactionStatus::Completed, told))).await?;
    Ok(true)
}

/// One call from the model's words to the result it is told.
async fn carry_out(ctx: &Arc<ToolContext>, request: ToolRequest) -> Result<ToolResult> {
    let output = match prepare(ctx, &request).await {
        Ok(ready) => perform(ctx, &request, ready).await?,
        Err((kind, why)) => not_begun(ctx, &request, kind, why).await?,
    };
    Ok(ToolResult { id: request.id, name: request.name, content: output.content, is_error: output.failed })
}

/// Reports a call that can't even begin, so that the user sees what the model tried.
async fn not_begun(ctx: &Arc<ToolContext>, request: &ToolRequest, kind: ToolKind, why: String) -> Result<Output> {
    // What is no JSON that everybody can read is shown as text.
    let input = serde_json::from_str(&request.arguments).unwrap_or_else(|_| Value::from(&*request.arguments));
    let (title, locations) = tools::attempted(&request.name, &input, &ctx.workspace);
    let mut update = ToolCallUpdate::new(ctx.reporter.new_id("c")).title(title).kind(kind);
    update.name = Patch::Set(request.name.clone());
    update.locations = Patch::Set(Items(locations));
    update.raw_input = Patch::Set(input.into());
    let call = ctx.reporter.call(update, false).await?;
    finish(&call, request, Output::not_done(why)).await
}

/// A call that is ready to run, with what the client is told about it.
struct Ready {
    kind: ToolKind,
    stoppable: bool,
    input: Value,
    prepared: Prepared,
}

async fn prepare(ctx: &Arc<ToolContext>, request: &ToolRequest) -> std::result::Result<Ready, (ToolKind, String)> {
    let own = tools::find(&request.name);
    let (kind, stoppable) = own.map_or((ToolKind::Unspecified, true), |tool| (tool.kind(), tool.stoppable()));
    let text = if request.arguments.trim().is_empty() { "{}" } else { &request.arguments };
    let input = serde_json::from_str::<Value>(text)
        .map_err(|error| format!("The arguments of `{}` are no JSON: {error}", request.name));
    let prepared = match (own, input) {
        (Some(_), Err(why)) => Err(why),
        (Some(tool), Ok(input)) => tool.prepare(input.clone(), Arc::clone(ctx)).await.map(|ready| (input, ready)),
        (None, input) => match ctx.servers.find(&request.name) {
            Some(tool) => input.and_then(|input| Ok((input.clone(), tool.prepare(input)?))),
            None => {
                let own = tools::specs().into_iter().map(|tool| tool.name);
                let known: Vec<String> = own.chain(ctx.servers.names()).collect();
                Err(format!("There is no tool `{}`. There are: {}.", request.name, known.join(", ")))
            }
        },
    };
    match prepared {
        Ok((input, prepared)) => Ok(Ready { kind, stoppable, input, prepared }),
        Err(why) => Err((kind, why)),
    }
}

/// Reports a call, asks for permission, does it, and reports what came of it.
async fn perform(
    ctx: &Arc<ToolContext>,
    request: &ToolRequest,
    Ready { kind, stoppable, input, prepared }: Ready,
) -> Result<Output> {
    let mut update = ToolCallUpdate::new(ctx.reporter.new_id("c")).title(prepared.title).kind(kind);
    update.name = Patch::Set(request.name.clone());
    update.locations = Patch::Set(Items(prepared.locations));
    update.raw_input = Patch::Set(input.into());
    if !prepared.content.is_empty() {
        update = update.content(prepared.content);
    }
    let call = ctx.reporter.call(update, stoppable).await?;
    match ctx.permissions.check(&call, &prepared.actions, prepared.note.as_deref()).await? {
        Verdict::Allowed => {}
        Verdict::Refused(why) => return finish(&call, request, Output::not_done(why)).await,
        Verdict::Cancelled => return Err(Error::Cancelled),
    }
    call.running().await?;
    let output = (prepared.work)(Arc::clone(&call)).await;
    finish(&call, request, output).await
}

/// Writes a result down, then tells the client.
async fn finish(call: &Call, request: &ToolRequest, output: Output) -> Result<Output> {
    let result = ToolResult {
        id: request.id.clone(),
        name: request.name.clone(),
        content: output.content.clone(),
        is_error: output.failed,
    };
    call.reporter().note(vec![history::result_event(call.id(), result)?]).await?;
    let status = match (output.stopped, output.failed) {
        (true, _) => ToolCallStatus::Cancelled,
        (false, true) => ToolCallStatus::Failed,
        (false, false) => ToolCallStatus::Completed,
    };
    let shown = match (&output.shown, output.failed) {
        (Some(shown), _) => Some(shown.clone()),
        // A diff that was not made stays to be seen, and the reason with it.
        (None, true) => {
            for block in &output.content {
                call.append(block.clone()).await?;
            }
            None
        }
        (None, false) => None,
    };
    call.finish(status, shown, output.raw.clone().map(Raw::from)).await?;
    Ok(output)
}
