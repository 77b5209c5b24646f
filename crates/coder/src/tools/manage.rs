//! `move` and `delete`: files as a whole.

use super::blind::look_first;
use super::{Boxed, Output, Prepared, Tool, ToolContext, arguments, full, object, shown};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tieline::{Diff, Location, ToolCallContent, ToolKind};
use tieline_host::roots::Place;
use tieline_host::rules::Action;

pub struct Move;
pub struct Delete;

#[derive(Deserialize)]
struct MoveInput {
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct DeleteInput {
    path: String,
}

impl Tool for Move {
    fn name(&self) -> &'static str {
        "move"
    }

    fn description(&self) -> &'static str {
        "Moves or renames a file to where nothing is yet."
    }

    fn schema(&self) -> Value {
        object(&[("from", "string".into(), ""), ("to", "string".into(), "")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Move
    }

    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let input: MoveInput = arguments(input)?;
            let (from, to) = (ctx.workspace.entry(&input.from)?, ctx.workspace.entry(&input.to)?);
            let title = format!("Move {} to {}", shown(&from), shown(&to));
            let action = Action::Move { from: from.location(), to: to.location() };
            let (source, target) = (from.clone(), to.clone());
            let mut prepared = Prepared::new(title, move |_| async move {
                match ctx.workspace.rename(&source, &target).await {
                    Ok(()) => Output::quiet(format!("Moved {} to {}.", shown(&source), shown(&target)))
                        .raw(json!({ "from": full(&source), "to": full(&target) })),
                    Err(why) => Output::error(why),
                }
            });
            prepared.content.push(ToolCallContent::Diff(Diff::moved(full(&from), full(&to))));
            prepared.locations.push(Location::new(full(&from), 0));
            Ok(prepared.at(&to, 0, action))
        })
    }
}

impl Tool for Delete {
    fn name(&self) -> &'static str {
        "delete"
    }

    fn description(&self) -> &'static str {
        "Deletes a file."
    }

    fn schema(&self) -> Value {
        object(&[("path", "string".into(), "")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Delete
    }

    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let input: DeleteInput = arguments(input)?;
            let place = ctx.workspace.entry(&input.path)?;
            Ok(match look_first(format!("Delete {}", shown(&place)), &ctx, &[(place.clone(), true)]) {
                Some(blind) => blind.then(move || prepare(place, ctx)),
                None => prepare(place, ctx).await?,
            })
        })
    }
}

async fn prepare(place: Place, ctx: Arc<ToolContext>) -> Result<Prepared, String> {
    let version = ctx.workspace.version(&place).await?;
    // What is no text is deleted without a diff.
    let old = ctx.workspace.now(&place).await.ok().and_then(|now| now.text);
    let action = Action::Delete(place.location());
    let target = place.clone();
    let mut prepared = Prepared::new(format!("Delete {}", shown(&place)), move |_| async move {
        match ctx.workspace.delete(&target, version).await {
            Ok(()) => Output::quiet(format!("Deleted {}.", shown(&target))).raw(json!({ "deleted": full(&target) })),
            Err(why) => Output::error(why),
        }
    });
    if let Some(old) = old {
        prepared.content.push(ToolCallContent::Diff(Diff::deleted(full(&place), old)));
    }
    Ok(prepared.at(&place, 0, action))
}
