//! `write`, `delete` and `move`, and the one way to change texts: the rules are asked, then the files are looked at.

use super::{Output, Prepared, Tool, ToolContext, ToolError, Type, argument, full, shown};
use crate::workspace::Now;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;
use tieline::{Diff, Location, ToolCallContent, ToolKind};
use tieline_host::roots::Place;
use tieline_host::rules::Action;

pub const WRITE: Tool = Tool::new(
    "write",
    ToolKind::Edit,
    "Writes a whole file; makes it and its folders if needed. For changes of an existing file prefer `edit`.",
    &[("path", Type::Text, ""), ("content", Type::Text, "")],
    |input, ctx| Box::pin(write(input, ctx)),
);

pub const DELETE: Tool =
    Tool::new("delete", ToolKind::Delete, "Deletes a file.", &[("path", Type::Text, "")], |input, ctx| {
        Box::pin(delete(input, ctx))
    });

pub const MOVE: Tool = Tool::new(
    "move",
    ToolKind::Move,
    "Moves or renames a file to where nothing is yet.",
    &[("from", Type::Text, ""), ("to", Type::Text, "")],
    |input, ctx| Box::pin(relocate(input, ctx)),
);

async fn write(input: Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let place = ctx.workspace.place(argument(&input, "path")?)?;
    let content: String = argument(&input, "content")?;
    let edit: Edit = Box::new(move |_| Ok(content));
    change("Write", "Written", vec![Change { place, delete: false, edit: Some(edit) }], ctx).await
}

async fn delete(input: Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let place = ctx.workspace.entry(argument(&input, "path")?)?;
    change("Delete", "Deleted", vec![Change { place, delete: true, edit: None }], ctx).await
}

async fn relocate(input: Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let place = |name| ctx.workspace.entry(argument(&input, name)?);
    let (from, to) = (place("from")?, place("to")?);
    let action = Action::Move { from: from.location(), to: to.location() };
    // Nobody is asked about what can't be done.
    if ctx.permissions.lets_look(&from, &action) && matches!(ctx.workspace.version(&from).await, Ok(None)) {
        return Err(format!("There is no file {}; nothing was moved", shown(&from)).into());
    }
    let title = format!("Move {} to {}", shown(&from), shown(&to));
    let (source, target) = (from.clone(), to.clone());
    let mut prepared = Prepared::new(title, move |_| async move {
        for place in [&source, &target] {
            ctx.commands.check_replaced(&place.real_path())?;
        }
        ctx.workspace.rename(&source, &target).await?;
        Ok(Output::quiet(format!("Moved {} to {}.", shown(&source), shown(&target)))
            .raw(json!({ "from": full(&source), "to": full(&target) })))
    });
    prepared.content.push(ToolCallContent::Diff(Diff::moved(full(&from), full(&to))));
    prepared.locations.push(Location::new(full(&from), 0));
    Ok(prepared.at(&to, 0, action))
}

/// Makes the new text of a file from the one that it has now, if it is there.
pub type Edit = Box<dyn FnOnce(Option<&str>) -> Result<String, ToolError> + Send>;

/// What becomes of one file.
pub struct Change {
    /// Where it is.
    pub place: Place,
    /// It is deleted in the end.
    pub delete: bool,
    /// Its new text; `None` if it does not matter what is in it.
    pub edit: Option<Edit>,
}

impl Change {
    fn action(&self) -> Action {
        if self.delete { Action::Delete(self.place.location()) } else { Action::Write(self.place.location()) }
    }
}

/// A change of files, such as "Edit", told as "Written" when it is done. While the rules may forbid to look at one of them, only
/// their names are known: the look comes after the permission, so that no error tells about what is hidden.
pub async fn change(
    verb: &'static str,
    done: &'static str,
    changes: Vec<Change>,
    ctx: Arc<ToolContext>,
) -> Result<Prepared, ToolError> {
    if changes.iter().all(|change| ctx.permissions.lets_look(&change.place, &change.action())) {
        return look(verb, done, changes, ctx).await;
    }
    let names: Vec<String> = changes.iter().map(|change| shown(&change.place)).collect();
    let facts: Vec<(Place, Action)> = changes.iter().map(|change| (change.place.clone(), change.action())).collect();
    let mut prepared = Prepared::new(format!("{verb} {}", names.join(", ")), move |call| async move {
        let prepared = look(verb, done, changes, ctx).await?;
        let mut output = (prepared.work?)(call).await?;
        output.shown.get_or_insert(prepared.content);
        Ok(output)
    });
    for (place, action) in facts {
        prepared = prepared.at(&place, 0, action);
        // Whether it works tells what is in a file.
        prepared.actions.push(Action::Read(place.location()));
    }
    Ok(prepared)
}

/// Looks at the files and works out what they become, which is shown beforehand.
async fn look(
    verb: &'static str,
    done: &'static str,
    changes: Vec<Change>,
    ctx: Arc<ToolContext>,
) -> Result<Prepared, ToolError> {
    let mut files: Vec<(Place, Now, Option<String>)> = Vec::new();
    for Change { place, delete, edit } in changes {
        if files.iter().any(|(other, ..)| full(other) == full(&place)) {
            return Err(format!("{} is there twice; nothing was changed", shown(&place)).into());
        }
        let (now, after) = match edit {
            Some(edit) => {
                let now = ctx.workspace.now(&place).await?;
                ctx.workspace.check_fresh(&place, &now)?;
                let after = edit(now.text.as_deref())?;
                (now, after)
            }
            None => (ctx.workspace.anything(&place).await?, String::new()),
        };
        files.push((place, now, (!delete).then_some(after)));
    }
    files.sort_by_key(|(.., after)| after.is_none());
    let names: Vec<String> = files.iter().map(|(place, ..)| shown(place)).collect();
    let verb = if verb == "Write" && files.iter().all(|(_, now, _)| now.text.is_none()) { "Create" } else { verb };
    let (mut content, mut facts) = (Vec::new(), Vec::new());
    for (place, now, after) in &files {
        let (path, old) = (full(place), now.text.clone());
        let (diff, line, action) = match after {
            Some(new) => {
                let line = old.as_deref().map_or(1, |old| first_change(old, new));
                (Some(Diff::of(path, old, new.clone())), line, Action::Write(place.location()))
            }
            None => (old.map(|old| Diff::deleted(path, old)), 0, Action::Delete(place.location())),
        };
        content.extend(diff.map(ToolCallContent::Diff));
        facts.push((place.clone(), line, action));
    }
    let work = move |asked| async move { carry_out(&ctx, done, files, asked).await };
    let title = format!("{verb} {}", names.join(", "));
    let mut prepared = Prepared::new(title, move |call| work(call.is_asked()));
    prepared.content = content;
    Ok(facts.into_iter().fold(prepared, |prepared, (place, line, action)| prepared.at(&place, line, action)))
}

async fn carry_out(
    ctx: &ToolContext,
    word: &str,
    files: Vec<(Place, Now, Option<String>)>,
    asked: bool,
) -> Result<Output, ToolError> {
    let (mut done, mut reformatted) = (Vec::new(), String::new());
    for (place, now, after) in files {
        let as_told = match (ctx.commands.check_replaced(&place.real_path()), &after) {
            (Err(why), _) => Err(why),
            (Ok(()), Some(text)) => ctx.workspace.write(&place, &now, text, asked).await,
            (Ok(()), None) => ctx.workspace.delete(&place, now.version).await.map(|()| true),
        };
        let as_told = as_told.map_err(|why| {
            let before = if done.is_empty() { String::new() } else { format!(" Done before: {}.", done.join(", ")) };
            format!("{}: {why}.{before}", shown(&place))
        })?;
        if !as_told {
            let words = " The editor changed it while saving; read it before you edit it again:";
            let _ = write!(reformatted, "{words} {}.", shown(&place));
        }
        done.push(shown(&place));
    }
    let text = format!("{word}: {}.{reformatted}", done.join(", "));
    Ok(Output::quiet(text).raw(json!({ (word.to_lowercase()): done })))
}

/// The first line that differs, from 1.
fn first_change(old: &str, new: &str) -> u32 {
    let same = old.lines().zip(new.lines()).take_while(|(a, b)| a == b).count();
    u32::try_from(same).unwrap_or(0).saturating_add(1)
}
