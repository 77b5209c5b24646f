//! `switch_mode`: the model wants to work in another mode, such as out of planning; the user decides.

use super::{Boxed, Output, Prepared, Tool, ToolContext, arguments, object};
use crate::report::Call;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tieline::agent::{Ask, Decision};
use tieline::{ConfigValue, PermissionOptionKind, ToolKind};
use tieline_host::rules::Preset;

pub struct SwitchMode;

#[derive(Deserialize)]
struct Input {
    mode: String,
}

impl Tool for SwitchMode {
    fn name(&self) -> &'static str {
        "switch_mode"
    }

    fn description(&self) -> &'static str {
        "Asks the user to switch the mode: ask, plan, edit or auto. Use it when a plan is ready to be carried out."
    }

    fn schema(&self) -> Value {
        object(&[("mode", json!({ "enum": ["ask", "plan", "edit", "auto"] }), "")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::SwitchMode
    }

    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let Input { mode } = arguments(input)?;
            let wanted = ctx.permissions.mode_named(&mode).ok_or_else(|| format!("There is no mode `{mode}`."))?;
            let title = format!("Switch to mode {mode}");
            Ok(Prepared::new(title, move |call| async move { Output::of(switch(&ctx, &call, wanted).await) }))
        })
    }
}

async fn switch(ctx: &ToolContext, call: &Call, wanted: Preset) -> Result<Output, String> {
    let now = ctx.permissions.mode();
    if now == wanted {
        return Ok(Output::text("That mode is on already."));
    }
    let id = wanted.mode();
    let mut ask = Ask::about(call.announced().clone()).description(wanted.about());
    if now == Preset::Plan && wanted != Preset::AllowReads {
        ask = ask
            .option(id, &format!("Yes, go on in mode {id}"), PermissionOptionKind::AllowAlways)
            .option("ask", "Yes, but ask before each change", PermissionOptionKind::AllowOnce)
            .option("stay", "No, keep planning", PermissionOptionKind::RejectOnce);
    } else {
        ask = ask.option(id, &format!("Yes, switch to {id}"), PermissionOptionKind::AllowOnce).option(
            "stay",
            "No",
            PermissionOptionKind::RejectOnce,
        );
    }
    let answer = call.reporter().turn.ask(ask).await.map_err(|error| error.to_string())?;
    let Decision::Chosen(option) = &answer else { return Err("The question was withdrawn.".into()) };
    match ctx.permissions.mode_named(&option.option_id).filter(|_| answer.is_allowed()) {
        Some(mode) => {
            ctx.permissions.set_mode(mode);
            let value = ConfigValue::Id(option.option_id.clone());
            let session = call.reporter().turn.session();
            session.set_option("mode", value).await.map_err(|error| error.to_string())?;
            Ok(Output::text(format!("The mode is now {}.", option.option_id)).raw(json!({ "mode": option.option_id })))
        }
        None => Err("The user wants to stay in this mode.".into()),
    }
}
