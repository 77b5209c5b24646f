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

fn first<'o>(options: &'o [PermissionOption], kind: &PermissionOptionKind) -> Option<&'o PermissionOption> {
    options.iter().find(|option| option.kind == *kind)
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

/// Picks what allows it once; for ever only if the person said `always`. If there is nothing of the kind, it is refused.
pub fn allow(options: &[PermissionOption], always: bool) -> Chosen {
    let lasting = always.then(|| first(options, &PermissionOptionKind::AllowAlways)).flatten();
    match lasting.or_else(|| first(options, &PermissionOptionKind::AllowOnce)) {
        Some(option) => pick(option),
        None => {
            let why = if first(options, &PermissionOptionKind::AllowAlways).is_some() {
                "only a lasting permission was offered, which nobody gave"
            } else {
                "no option that allows was offered"
            };
            let refused = refuse(options, false);
            let note = refused.note.map_or_else(|| why.to_owned(), |note| format!("{why}; {note}"));
            Chosen { note: Some(note), ..refused }
        }
    }
}

/// Picks what refuses it. `cancelled` only if nothing of the kind is offered, with a note that says so.
pub fn refuse(options: &[PermissionOption], always: bool) -> Chosen {
    let (once, ever) =
        (first(options, &PermissionOptionKind::RejectOnce), first(options, &PermissionOptionKind::RejectAlways));
    let option = if always { ever.or(once) } else { once.or(ever) };
    option.map_or_else(
        || Chosen {
            outcome: PermissionOutcome::cancelled(),
            allows: false,
            note: Some("no option that refuses was offered, so the answer was `cancelled`".into()),
        },
        pick,
    )
}

/// Picks exactly this option; one that is not offered refuses.
pub(crate) fn exactly(options: &[PermissionOption], id: &str) -> Chosen {
    match options.iter().find(|option| option.option_id == id) {
        Some(option) => pick(option),
        None => {
            let refused = refuse(options, false);
            Chosen { note: Some("the option that was answered is not offered".into()), ..refused }
        }
    }
}
