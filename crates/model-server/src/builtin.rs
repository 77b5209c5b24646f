//! The scripts that ship inside.

use crate::choose::script;
use tieline_script::Script;

const ALL: [(&str, &str); 10] = [
    ("directives", include_str!("../scripts/directives.toml")),
    ("text", include_str!("../scripts/text.toml")),
    ("thought", include_str!("../scripts/thought.toml")),
    ("tool", include_str!("../scripts/tool.toml")),
    ("parallel", include_str!("../scripts/parallel.toml")),
    ("error", include_str!("../scripts/error.toml")),
    ("stall", include_str!("../scripts/stall.toml")),
    ("refusal", include_str!("../scripts/refusal.toml")),
    ("length", include_str!("../scripts/length.toml")),
    ("repair", include_str!("../scripts/repair.toml")),
];

/// The names of the scripts that ship inside, each with its one line of explanation.
pub fn builtins() -> impl Iterator<Item = (&'static str, &'static str)> {
    ALL.iter().map(|(name, text)| (*name, text.lines().next().unwrap_or_default().trim_start_matches("# ")))
}

/// A script that ships inside, by name.
pub fn builtin(name: &str) -> Option<Script> {
    let (_, text) = ALL.iter().find(|(known, _)| *known == name)?;
    script(name, text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_them_can_be_read() {
        for (name, text) in ALL {
            assert_eq!(script(name, text).map(|_| ()), Ok(()), "{name}");
            assert!(text.starts_with("# "), "{name} has no explanation");
        }
        assert!(builtin("nothing").is_none());
    }
}
