//! `patch`: a unified diff of one or several files.

use super::blind::look_first;
use super::write::change;
use super::{Boxed, Output, Prepared, Tool, ToolContext, arguments, full, object, shown, unified};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tieline::{Diff, ToolCallContent, ToolKind};
use tieline_host::roots::Place;
use tieline_host::rules::Action;

pub struct Patch;

#[derive(Deserialize)]
struct Input {
    patch: String,
}

impl Tool for Patch {
    fn name(&self) -> &'static str {
        "patch"
    }

    fn description(&self) -> &'static str {
        "Applies a unified diff (`---`, `+++`, `@@`), also of several files. `/dev/null` makes or deletes a file."
    }

    fn schema(&self) -> Value {
        object(&[("patch", "string".into(), "")])
    }

    fn kind(&self) -> ToolKind {
        ToolKind::Edit
    }

    fn prepare(&self, input: Value, ctx: Arc<ToolContext>) -> Boxed<Result<Prepared, String>> {
        Box::pin(async move {
            let input: Input = arguments(input)?;
            let mut sections = Vec::new();
            for section in unified::parse(&input.patch)? {
                let path = section.new.as_deref().or(section.old.as_deref()).ok_or("a file without a name")?;
                if section.old.is_some() && section.new.is_some() && section.old != section.new {
                    return Err(format!("{path}: a patch that moves a file; use `move` first"));
                }
                let place = ctx.workspace.place(path)?;
                sections.push((section, place));
            }
            let places: Vec<_> =
                sections.iter().map(|(section, place)| (place.clone(), section.new.is_none())).collect();
            let names: Vec<String> = places.iter().map(|(place, _)| shown(place)).collect();
            Ok(match look_first(format!("Patch {}", names.join(", ")), &ctx, &places) {
                Some(blind) => blind.then(move || prepare(sections, ctx)),
                None => prepare(sections, ctx).await?,
            })
        })
    }
}

async fn prepare(sections: Vec<(unified::Section, Place)>, ctx: Arc<ToolContext>) -> Result<Prepared, String> {
    let (mut written, mut removed) = (Vec::new(), Vec::new());
    for (section, place) in sections {
        let path = shown(&place);
        let now = ctx.workspace.now(&place).await?;
        ctx.workspace.check_fresh(&place, &now)?;
        let text = match (&now.text, &section.old) {
            (Some(_), None) => return Err(format!("{path} exists already; nothing was changed")),
            (None, Some(_)) => return Err(format!("There is no file {path}; nothing was changed")),
            (text, _) => text.clone().unwrap_or_default(),
        };
        let after = section.apply(&text).map_err(|why| format!("{path}: {why}; nothing was changed"))?;
        if section.new.is_none() {
            removed.push((place, text, now.version()));
        } else if written.iter().any(|(other, ..): &(Place, _, _)| full(other) == full(&place)) {
            return Err(format!("{path} is there twice; nothing was changed"));
        } else {
            written.push((place, now, after));
        }
    }
    let names: Vec<String> =
        written.iter().map(|(place, ..)| shown(place)).chain(removed.iter().map(|(place, ..)| shown(place))).collect();
    let title = format!("Patch {}", names.join(", "));
    let gone: Vec<_> = removed.iter().map(|(place, _, version)| (place.clone(), *version)).collect();
    let mut prepared = change(title, Arc::clone(&ctx), written);
    for (place, text, _) in removed {
        prepared.content.push(ToolCallContent::Diff(Diff::deleted(full(&place), text)));
        let action = Action::Delete(place.location());
        prepared = prepared.at(&place, 0, action);
    }
    let write = prepared.work;
    prepared.work = Box::new(move |call| {
        Box::pin(async move {
            let output = write(call).await;
            if output.failed {
                return output;
            }
            for (place, version) in gone {
                if let Err(why) = ctx.workspace.delete(&place, version).await {
                    return Output::error(format!("{}: {why}", shown(&place)));
                }
            }
            Output::quiet(format!("Patched: {}.", names.join(", "))).raw(json!({ "patched": names }))
        })
    });
    Ok(prepared)
}
