//! Laws of the answers to permission questions, whatever options are offered, also if several have one id.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use proptest::prelude::*;
use tieline::{PermissionOption, PermissionOptionKind, PermissionOutcome};
use tieline_client::permission::{allow, refuse};

fn options() -> impl Strategy<Value = Vec<PermissionOption>> {
    let kind =
        prop::sample::select(vec!["allow_once", "allow_always", "reject_once", "reject_always", "_mine", "future"]);
    // Few ids, so that some options share theirs.
    prop::collection::vec((kind, 0..8_u8), 0..6).prop_map(|options| {
        let option = |(kind, id): (&str, u8)| PermissionOption {
            option_id: format!("o{id}"),
            name: "allow".into(),
            kind: PermissionOptionKind::from(kind),
            ..Default::default()
        };
        options.into_iter().map(option).collect()
    })
}

/// The kinds that an agent may read out of an answer.
fn kinds(options: &[PermissionOption], outcome: &PermissionOutcome) -> Vec<String> {
    let Some(id) = outcome.chosen(options).map(|option| &option.option_id) else { return Vec::new() };
    options.iter().filter(|option| option.option_id == *id).map(|option| option.kind.as_str().to_owned()).collect()
}

/// Whether an option of this kind is there that can't be taken for another.
fn clear(options: &[PermissionOption], begins: &str) -> bool {
    options
        .iter()
        .filter(|option| option.kind.as_str().starts_with(begins))
        .any(|option| options.iter().all(|other| other.option_id != option.option_id || other.kind == option.kind))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn to_refuse_never_allows_and_says_when_it_can_not(options in options()) {
        let chosen = refuse(&options);
        prop_assert!(!chosen.allows);
        let offered = clear(&options, "reject");
        prop_assert_eq!(chosen.outcome == PermissionOutcome::cancelled(), !offered);
        prop_assert_eq!(chosen.note.is_some(), !offered);
        prop_assert!(kinds(&options, &chosen.outcome).iter().all(|kind| kind.starts_with("reject")));
    }

    #[test]
    fn to_allow_once_never_allows_for_ever(options in options(), always: bool) {
        let chosen = allow(&options, always);
        let read = kinds(&options, &chosen.outcome);
        prop_assert_eq!(chosen.allows, read.first().is_some_and(|kind| kind.starts_with("allow")));
        prop_assert!(read.iter().all(|kind| *kind == read[0]), "{:?}", read);
        if read.iter().any(|kind| kind == "allow_always") {
            prop_assert!(always);
        }
        prop_assert!(chosen.allows || !clear(&options, "allow_once"));
        prop_assert!(chosen.allows || chosen.note.is_some(), "a yes that is none is said");
    }
}
