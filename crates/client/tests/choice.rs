//! Laws of the answers to permission questions, whatever options are offered.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use proptest::prelude::*;
use tieline::{PermissionOption, PermissionOptionKind, PermissionOutcome};
use tieline_client::permission::{allow, refuse};

fn options() -> impl Strategy<Value = Vec<PermissionOption>> {
    let kind =
        prop::sample::select(vec!["allow_once", "allow_always", "reject_once", "reject_always", "_mine", "future"]);
    prop::collection::vec(kind, 0..6).prop_map(|kinds| {
        let option = |(at, kind): (usize, &str)| PermissionOption {
            option_id: format!("o{at}"),
            name: "allow".into(),
            kind: PermissionOptionKind::from(kind),
            meta: None,
        };
        kinds.into_iter().enumerate().map(option).collect()
    })
}

proptest! {
    #[test]
    fn to_refuse_never_allows_and_says_when_it_can_not(options in options(), always: bool) {
        let chosen = refuse(&options, always);
        prop_assert!(!chosen.allows);
        let offered = options.iter().any(|option| option.kind.as_str().starts_with("reject"));
        prop_assert_eq!(chosen.outcome == PermissionOutcome::cancelled(), !offered);
        prop_assert_eq!(chosen.note.is_some(), !offered);
        if let Some(option) = chosen.outcome.chosen(&options) {
            prop_assert!(option.kind.as_str().starts_with("reject"));
        }
    }

    #[test]
    fn to_allow_once_never_allows_for_ever(options in options(), always: bool) {
        let chosen = allow(&options, always);
        let picked = chosen.outcome.chosen(&options).map(|option| option.kind.as_str().to_owned());
        prop_assert_eq!(chosen.allows, picked.as_deref().is_some_and(|kind| kind.starts_with("allow")));
        if picked.as_deref() == Some("allow_always") {
            prop_assert!(always);
        }
        let once = options.iter().any(|option| option.kind == PermissionOptionKind::AllowOnce);
        prop_assert!(chosen.allows || !once);
        prop_assert!(chosen.allows || chosen.note.is_some(), "a yes that is none is said");
    }
}
