//! What runs by itself later: the one table, with reasons, that rules and the sandbox take their names from.
//!
//! A name is in it if some program runs what it says, or what is in it, although the person meant to do something else: look at
//! a repository, enter a folder, open an editor, log in, push, build. What only runs when somebody asks for it by name is work,
//! and not in it; see [`WORK`]. What has no name of its own is found where it is said: hooks in the settings of git, folders on
//! `PATH`, what variables and our own configuration have run (`sandbox/named.rs`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Names of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Names that may stand in any folder; `a/b` is `b` in a folder `a`, and `*.x` ends in `.x`.
    pub names: &'static str,
    /// Who runs it, and when.
    pub reason: &'static str,
}

const fn kind(names: &'static str, reason: &'static str) -> Kind {
    Kind { names, reason }
}

/// What runs, or decides what runs, without anyone looking at it again, as `later.txt` has it.
static LATER: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let text = include_str!("later.txt").split_once("\n\n").map_or("", |(_, text)| text);
    let kinds = text.trim_end().split("\n\n").filter_map(|block| block.split_once("\n= "));
    kinds.map(|(names, reason)| kind(names, reason)).collect()
});

/// What was thought about and is left writable, and why.
pub const WORK: &[Kind] = &[
    kind(
        "Makefile justfile package.json Cargo.toml pyproject.toml build.rs CMakeLists.txt Dockerfile eslint.config.js vite.config.ts",
        "they run when somebody builds, tests or lets an editor check the project; changing them is the work, and every change is listed",
    ),
    kind(
        "AGENTS.md CLAUDE.md GEMINI.md",
        "text that a model reads, and that runs nothing; what the model does then is asked for",
    ),
    kind(
        ".gitattributes .gitignore .editorconfig .env",
        "they choose among what is set elsewhere, but name no program",
    ),
];

/// Each of the names that are guarded.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    LATER.iter().flat_map(|kind| kind.names.split_whitespace())
}

/// Whether something on the way to a path runs by itself later.
pub fn is_on_the_way_to(path: &str) -> bool {
    let mut around = "";
    path.split('/').any(|name| is_guarded(std::mem::replace(&mut around, name), name))
}

/// Whether names in a folder of this name may be guarded that elsewhere are not.
pub(crate) fn is_around(folder: &str) -> bool {
    names().any(|name| name.split_once('/').is_some_and(|(around, _)| around.eq_ignore_ascii_case(folder)))
}

/// Whether a name in a folder, whose own name is `around`, is one of those that are guarded, in any case of letters.
pub(crate) fn is_guarded(around: &str, name: &str) -> bool {
    type Folders = HashMap<String, Vec<Option<&'static str>>>;
    // Whole names, and the ends of names.
    static TABLES: LazyLock<(Folders, Folders)> = LazyLock::new(|| {
        let (mut whole, mut ends) = (Folders::new(), Folders::new());
        for name in names() {
            let (folder, name) = name.split_once('/').map_or((None, name), |(folder, name)| (Some(folder), name));
            let (table, name) = name.strip_prefix("*.").map_or((&mut whole, name), |end| (&mut ends, end));
            table.entry(name.to_ascii_lowercase()).or_default().push(folder);
        }
        (whole, ends)
    });
    // This is asked for every file of a folder: nothing is made anew for most of them.
    let name = if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        Cow::Borrowed(name)
    };
    let meant = |table: &Folders, name: &str| {
        let mut folders = table.get(name).into_iter().flatten();
        folders.any(|folder| folder.is_none_or(|folder| around.eq_ignore_ascii_case(folder)))
    };
    let (whole, ends) = &*TABLES;
    meant(whole, &name) || name.rsplit_once('.').is_some_and(|(_, end)| meant(ends, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_meant_wherever_they_stand() {
        for (around, name) in [
            ("x", ".git"),
            ("x", ".GIT"),
            (".github", "workflows"),
            ("x", "a.code-workspace"),
            ("", "Jenkinsfile"),
            (".yarn", "releases"),
            ("mise", "config.toml"),
            ("x", "MISE.local.toml"),
            ("x", ".gdbinit"),
        ] {
            assert!(is_guarded(around, name), "{around}/{name}");
        }
        for (around, name) in [
            ("x", "workflows"),
            ("x", "releases"),
            ("x", "config.toml"),
            ("x", "git"),
            ("x", "Makefile"),
            ("x", "package.json"),
            ("x", ".github"),
        ] {
            assert!(!is_guarded(around, name), "{around}/{name}");
        }
        for kind in WORK {
            assert!(kind.names.split_whitespace().all(|name| !is_guarded("x", name)), "{}", kind.names);
        }
    }

    #[test]
    fn the_page_on_security_has_each_row() {
        let page = include_str!("../../../docs/security.md");
        for kind in LATER.iter().chain(WORK) {
            let names: Vec<String> = kind.names.split_whitespace().map(|name| format!("`{name}`")).collect();
            let row = format!("| {} | {} |", names.join(" "), kind.reason);
            assert!(page.contains(&row), "docs/security.md lacks: {row}");
        }
    }

    #[test]
    fn names_have_at_most_two_parts_and_are_given_once() {
        let mut all: Vec<&str> = names().collect();
        assert!(all.iter().all(|name| name.split('/').count() <= 2 && !name.contains(['?', '['])));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
