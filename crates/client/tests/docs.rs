//! What the page about the services says can be typed as it stands.

#![allow(clippy::unwrap_used, missing_docs, reason = "tests")]

use tieline_host::rules::{Config, Preset};

#[test]
fn the_rules_and_presets_of_the_page_exist() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/services.md");
    let text = std::fs::read_to_string(page).unwrap();
    let block = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("rules");
    let rules = Config::parse(block).unwrap();
    assert!(!rules.allow.is_empty() && !rules.ask.is_empty() && !rules.deny.is_empty());
    for preset in Preset::ALL {
        assert!(text.contains(&format!("| `{preset}`")), "{preset} is not on the page");
    }
}
