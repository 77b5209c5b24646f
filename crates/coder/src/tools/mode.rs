//! `switch_mode`: the model wants to work in another mode, such as out of planning; the user decides.

use super::{Output, Prepared, Tool, ToolContext, ToolError, Type, argument, ready};
use crate::report::Call;
use serde_json::{Value, json};
use std::sync::Arc;
use tieline::agent::{Ask, Decision};
use tieline::{ConfigValue, PermissionOptionKind, ToolKind};
use tieline_host::rules::Preset;

pub const SWITCH_MODE: Tool = Tool::new(
    "switch_mode",
    ToolKind::SwitchMode,
    "Asks the user to switch the mode: ask, plan, edit or auto. Use it when a plan is ready to be carried out.",
    &[("mode", Type::OneOf(&["ask", "plan", "edit", "auto"]), "")],
    |input, ctx| ready(prepare(&input, ctx)),
);

fn prepare(input: &Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let mode: &str = argument(input, "mode")?;
    let wanted = ctx.permissions.mode_named(mode).ok_or_else(|| format!("There is no mode `{mode}`."))?;
    Ok(Prepared::new(format!("Switch to mode {mode}"), move |call| async move { switch(&ctx, &call, wanted).await }))
}

async fn switch(ctx: &ToolContext, call: &Call, wanted: Preset) -> Result<Output, ToolError> {
    let now = ctx.permissions.engine.preset();
    if now == wanted {
        return Ok(Output::text("That mode is on already."));
    }
    let id = wanted.mode();
    let ask = Ask::about(call.announced.clone()).description(wanted.about());
    let ask = if now == Preset::Plan && wanted != Preset::AllowReads {
        ask.option(id, &format!("Yes, go on in mode {id}"), PermissionOptionKind::AllowAlways)
            .option("ask", "Yes, but ask before each change", PermissionOptionKind::AllowOnce)
            .option("stay", "No, keep planning", PermissionOptionKind::RejectOnce)
    } else {
        let ask = ask.option(id, &format!("Yes, switch to {id}"), PermissionOptionKind::AllowOnce);
        ask.option("stay", "No", PermissionOptionKind::RejectOnce)
    };
    let answer = ctx.turn.ask(ask).await?;
    let Decision::Chosen(option) = &answer else { return Err("The question was withdrawn.".into()) };
    match ctx.permissions.mode_named(&option.option_id).filter(|_| answer.is_allowed()) {
        Some(mode) => {
            ctx.permissions.engine.set_preset(mode);
            ctx.turn.session().set_option("mode", ConfigValue::Id(option.option_id.clone())).await?;
            Ok(Output::text(format!("The mode is now {}.", option.option_id)).raw(json!({ "mode": option.option_id })))
        }
        None => Err("The user wants to stay in this mode.".into()),
    }
}
