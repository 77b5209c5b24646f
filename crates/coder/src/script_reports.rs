//! What a scripted model makes the agent report, so that client authors can see any behaviour.

use crate::model::Report;
use crate::tools::Scene;
use tieline::schema::{CommandsUpdate, CompactionUpdate, Items, Plan, PlanUpdate, UsageUpdate};
use tieline::{Command, ConfigValue, Error, MessageKind, Patch, Result, StopReason, Update};

/// Reports it. `Some` if the turn ends here.
pub async fn play(scene: &Scene, report: Report) -> Result<Option<StopReason>> {
    let teller = &scene.teller;
    let session = teller.turn.session();
    match report {
        Report::Title(title) => session.title(title).await?,
        Report::Notice { severity, title } => scene.notices.tell(severity, title, None).await,
        Report::Commands(list) => {
            let commands = list.into_iter().map(|(name, about)| Command::new(name, about)).collect();
            teller.turn.update(CommandsUpdate { commands, meta: None }).await?;
        }
        Report::Mode(id) => {
            if let Some(mode) = scene.permissions.mode_named(&id) {
                scene.permissions.set_mode(mode);
            }
            session.set_option("mode", ConfigValue::Id(id)).await?;
        }
        Report::Context { used, size } => {
            teller.update(UsageUpdate { used, size, ..UsageUpdate::default() }).await?;
        }
        Report::Plan(entries) => teller.update(PlanUpdate::from(Plan::main(entries))).await?,
        Report::Compaction { id, status, summary, error } => {
            let update = CompactionUpdate {
                compaction_id: id,
                status,
                summary: summary.map_or(Patch::Keep, |text| Patch::Set(Items(vec![text.into()]))),
                error: error.map_or(Patch::Keep, Patch::Set),
                ..CompactionUpdate::default()
            };
            teller.update(Update::Compaction(update)).await?;
        }
        Report::Update(update) => teller.update(*update).await?,
        Report::Later { after, prompt } => {
            if let Err(why) = scene.commands.jobs().later(after, prompt) {
                teller.say(MessageKind::Agent, why).await?;
            }
        }
        Report::Stop(reason) => return Ok(Some(reason.as_str().into())),
        Report::Fail { code, message } => return Err(Error::wire(code, message)),
    }
    Ok(None)
}
