//! What a scripted model makes the agent report, so that client authors can see any behaviour.

use crate::model::Report;
use crate::tools::ToolContext;
use serde::Serialize;
use std::time::Duration;
use tieline::schema::{CompactionUpdate, Decode, Items, from_json};
use tieline::{Command, ConfigValue, Error, Patch, Result, StopReason, Update};
use tieline_script::Compaction;

/// Reports it. `Some` if the turn ends here.
pub async fn play(ctx: &ToolContext, report: Report) -> Result<Option<StopReason>> {
    let turn = &ctx.turn;
    let session = turn.session();
    match report {
        Report::Title(title) => session.title(title).await?,
        Report::Notice { severity, title } => ctx.notices.tell(wire(&severity)?, title, None).await,
        Report::Commands(list) => {
            let commands = list.into_iter().map(|offer| Command::new(offer.name, offer.description)).collect();
            session.commands(commands).await?;
        }
        Report::Mode(id) => {
            if let Some(mode) = ctx.permissions.mode_named(&id) {
                ctx.permissions.engine.set_preset(mode);
            }
            session.set_option("mode", ConfigValue::Id(id)).await?;
        }
        Report::Context { used, size } => turn.usage(used, size, None).await?,
        Report::Plan(entries) => turn.plan(entries.iter().map(wire).collect::<Result<_>>()?).await?,
        Report::Compaction(Compaction { id, status, summary, error }) => {
            let update = CompactionUpdate {
                compaction_id: id,
                status: wire(&status)?,
                summary: summary.map_or(Patch::Keep, |text| Patch::Set(Items(vec![text.into()]))),
                error: error.map_or(Patch::Keep, Patch::Set),
                ..CompactionUpdate::default()
            };
            turn.update(Update::Compaction(update)).await?;
        }
        Report::Raw(raw) => turn.update(wire::<Update>(&raw)?).await?,
        Report::Later { after_ms, prompt } => {
            if let Err(why) = ctx.commands.jobs().later(Duration::from_millis(after_ms), prompt) {
                turn.say(why).await?;
            }
        }
        Report::Stop(reason) => return Ok(Some(reason.as_str().into())),
        Report::Fail { code, message } => return Err(Error::wire(code, message)),
    }
    Ok(None)
}

/// A value of a script as one of the protocol: both are written the same way.
fn wire<T: Decode>(value: &impl Serialize) -> Result<T> {
    let text = serde_json::to_string(value).map_err(Error::internal)?;
    from_json(&text).map_err(Error::internal)
}
