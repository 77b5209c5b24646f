//! What a scripted model makes the agent report, so that client authors can see any behaviour.

use crate::model::Report;
use crate::tools::ToolContext;
use tieline::schema::{CommandsUpdate, CompactionUpdate, Items, Plan, PlanUpdate, UsageUpdate};
use tieline::{Command, ConfigValue, Error, MessageKind, Patch, Result, StopReason, Update};

/// Reports it. `Some` if the turn ends here.
pub async fn play(ctx: &ToolContext, report: Report) -> Result<Option<StopReason>> {
    let reporter = &ctx.reporter;
    let session = reporter.turn.session();
    match report {
        Report::Title(title) => session.title(title).await?,
        Report::Notice { severity, title } => ctx.notices.tell(severity, title, None).await,
        Report::Commands(list) => {
            let commands = list.into_iter().map(|(name, about)| Command::new(name, about)).collect();
            reporter.turn.update(CommandsUpdate { commands, meta: None }).await?;
        }
        Report::Mode(id) => {
            if let Some(mode) = ctx.permissions.mode_named(&id) {
                ctx.permissions.set_mode(mode);
            }
            session.set_option("mode", ConfigValue::Id(id)).await?;
        }
        Report::Context { used, size } => {
            reporter.update(UsageUpdate { used, size, ..UsageUpdate::default() }).await?;
        }
        Report::Plan(entries) => reporter.update(PlanUpdate::from(Plan::main(entries))).await?,
        Report::Compaction { id, status, summary, error } => {
            let update = CompactionUpdate {
                compaction_id: id,
                status,
                summary: summary.map_or(Patch::Keep, |text| Patch::Set(Items(vec![text.into()]))),
                error: error.map_or(Patch::Keep, Patch::Set),
                ..CompactionUpdate::default()
            };
            reporter.update(Update::Compaction(update)).await?;
        }
        Report::Update(update) => reporter.update(*update).await?,
        Report::Later { after, prompt } => {
            if let Err(why) = ctx.commands.jobs().later(after, prompt) {
                reporter.say(MessageKind::Agent, why).await?;
            }
        }
        Report::Stop(reason) => return Ok(Some(reason.as_str().into())),
        Report::Fail { code, message } => return Err(Error::wire(code, message)),
    }
    Ok(None)
}
