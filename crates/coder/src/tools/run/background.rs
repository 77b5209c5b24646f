//! Commands in the background: started by `run`, seen by `output`, ended by `stop`.

use super::apart;
use super::screen::{Screen, middle_out};
use crate::history::cut;
use crate::report::Call;
use crate::tools::guard::Watch;
use crate::tools::{Output, Prepared, Tool, ToolContext, ToolError, Type, ready};
use serde_json::{Value, json};
use std::sync::Arc;
use tieline::ToolKind;
use tieline_host::run::Request;
use tieline_host::sandbox::Guarded;
use tieline_rpc::sync::Lock;

pub const OUTPUT: Tool = Tool::new(
    "output",
    ToolKind::Read,
    "What a command in the background has written, and whether it still runs.",
    &[("id", Type::Integer, "")],
    |input, ctx| ready(output(&input, ctx)),
);

pub const STOP: Tool = Tool::new(
    "stop",
    ToolKind::Execute,
    "Stops a command in the background.",
    &[("id", Type::Integer, "")],
    |input, ctx| ready(stop(&input, ctx)),
);

/// The id of a command; models also write it in quotes.
fn id_in(input: &Value) -> Result<u32, ToolError> {
    let id = &input["id"];
    let number = id.as_u64().or_else(|| id.as_str()?.trim().parse().ok());
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| "The arguments are not right: `id` is the number that `run` gave".into())
}

/// Starts a command and goes on.
pub async fn start(
    ctx: &ToolContext,
    call: &Call,
    request: Request,
    watch: Option<Watch>,
    held: Option<Guarded>,
) -> Result<Output, ToolError> {
    let line = request.line();
    let commands = &ctx.commands;
    let owner = Arc::clone(commands);
    let id = apart(|give| async move {
        // If nobody wants it any more, it is ended again.
        if let Err(Ok(id)) = give.send(owner.background.start(request).await) {
            owner.background.stop(id).await;
        }
    })
    .await?;
    if let Some(guarded) = held {
        let mut held = commands.held.locked();
        held.insert(id, guarded);
        held.retain(|id, _| commands.background.get(*id).is_some());
    }
    if let Some(watch) = watch {
        let mut before = commands.before.locked();
        before.insert(id, watch);
        before.retain(|id, _| commands.background.get(*id).is_some());
    }
    let text = format!("Started in the background with id {id}: `{}`. It is ended with the session.", cut(&line, 120));
    let mut output = Output::text(text.clone()).raw(json!({ "id": id }));
    let screen = Screen::open(call, &line, ctx.workspace.cwd()).await?;
    if let (Screen(Some(terminal)), Some(command)) = (&screen, commands.background.get(id)) {
        commands.jobs().add(terminal.clone(), command).await;
        output.shown = Some([screen.content("", ""), vec![text.into()]].concat());
    }
    Ok(output)
}

fn output(input: &Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let id = id_in(input)?;
    Ok(Prepared::new(format!("Output of command {id}"), move |_| async move {
        let found = ctx.commands.background.poll(id, 0);
        let (output, outcome) = found.ok_or_else(|| format!("There is no command {id}."))?;
        let how = outcome.map_or("still runs".to_owned(), |outcome| outcome.to_string());
        let news = ctx.commands.news(id).await;
        let text = format!("{}\n(the command {how}){news}", middle_out(&output.to_string()));
        Ok(Output::text(text).raw(json!({ "id": id, "running": outcome.is_none() })))
    }))
}

fn stop(input: &Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let id = id_in(input)?;
    Ok(Prepared::new(format!("Stop command {id}"), move |_| async move {
        let stopped = ctx.commands.background.stop(id).await;
        let outcome = stopped.ok_or_else(|| format!("There is no command {id}."))?;
        let news = ctx.commands.news(id).await;
        Ok(Output::text(format!("Command {id} {outcome}.{news}")).raw(json!({ "id": id })))
    }))
}
