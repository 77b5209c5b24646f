//! Which of the offered options an answer picks.

use tieline::{PermissionOption, PermissionOptionKind, PermissionOutcome};

/// An option that was picked, or none.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen {
    /// What the agent is told.
    pub outcome: PermissionOutcome,
    /// Whether that allows it.
    pub allows: bool,
    /// What is odd about it, in words.
    pub note: Option<String>,
}

/// The first option of this kind that the agent can't take for one of another kind: all it hears is the id.
fn first<'o>(options: &'o [PermissionOption], kind: &PermissionOptionKind) -> Option<&'o PermissionOption> {
    options.iter().find(|option| option.kind == *kind && is_clear(options, &option.option_id))
}

/// Whether all options with this id say the same.
fn is_clear(options: &[PermissionOption], id: &str) -> bool {
    let mut kinds = options.iter().filter(|option| option.option_id == id).map(|option| &option.kind);
    let first = kinds.next();
    kinds.all(|kind| Some(kind) == first)
}

fn cancelled(note: &str) -> Chosen {
    Chosen { outcome: PermissionOutcome::cancelled(), allows: false, note: Some(note.to_owned()) }
}

fn pick(option: &PermissionOption) -> Chosen {
    Chosen {
        outcome: PermissionOutcome::selected(&*option.option_id),
        allows: option.kind.allows(),
        note: match &option.kind {
            PermissionOptionKind::Other(kind) => Some(format!("the option is of the unknown kind `{kind}`")),
            _ => None,
        },
    }
}

/// The rules that an option keeps, by the agent's own word; none if it does not say.
pub(crate) fn kept_by(option: &PermissionOption) -> Vec<String> {
    let meta: Option<serde_json::Value> = option.meta.as_ref().and_then(|meta| meta.0.parse().ok());
    let rules = meta.as_ref().and_then(|meta| meta.get("rules")?.as_array()).into_iter().flatten();
    rules.filter_map(|rule| rule.as_str().map(str::to_owned)).collect()
}

/// Picks what allows it once: what lasts is kept here, not by the agent. If only a lasting permission is offered, it is picked
/// for a person who said `always`; otherwise it is refused.
pub fn allow(options: &[PermissionOption], always: bool) -> Chosen {
    let lasting = || first(options, &PermissionOptionKind::AllowAlways).filter(|_| always);
    match first(options, &PermissionOptionKind::AllowOnce).or_else(lasting) {
        Some(option) => pick(option),
        None => {
            let why = if options.iter().any(|option| option.kind == PermissionOptionKind::AllowAlways) {
                "only a lasting permission was offered, which nobody gave"
            } else {
                "no option that allows was offered"
            };
            let refused = refuse(options);
            let note = refused.note.map_or_else(|| why.to_owned(), |note| format!("{why}; {note}"));
            Chosen { note: Some(note), ..refused }
        }
    }
}

/// Picks what refuses it. `cancelled` only if nothing of the kind is offered, or the agent could take it for a yes; a note says so.
pub fn refuse(options: &[PermissionOption]) -> Chosen {
    let (once, ever) =
        (first(options, &PermissionOptionKind::RejectOnce), first(options, &PermissionOptionKind::RejectAlways));
    let offered = |option: &PermissionOption| {
        matches!(option.kind, PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways)
    };
    match once.or(ever) {
        Some(option) => pick(option),
        None if options.iter().any(offered) => {
            cancelled("the option that refuses has the id of another option, so the answer was `cancelled`")
        }
        None => cancelled("no option that refuses was offered, so the answer was `cancelled`"),
    }
}

/// Picks exactly this option. One that is not offered refuses, and one that can't be told from another cancels.
pub(crate) fn exactly(options: &[PermissionOption], id: &str) -> Chosen {
    match options.iter().find(|option| option.option_id == id) {
        Some(_) if !is_clear(options, id) => {
            cancelled("the option has the id of another one, so the answer was `cancelled`")
        }
        Some(option) => pick(option),
        None => {
            let refused = refuse(options);
            Chosen { note: Some("the option that was answered is not offered".into()), ..refused }
        }
    }
}
