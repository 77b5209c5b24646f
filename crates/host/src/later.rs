//! What runs by itself later: the one table, with reasons, that rules and the sandbox take their names from.
//!
//! A name is in it if some program runs what it says, or what is in it, although the person meant to do something else: look at
//! a repository, enter a folder, open an editor, log in, push, build. What only runs when somebody asks for it by name is work,
//! and not in it; see [`WORK`].

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

/// What runs, or decides what runs, without anyone looking at it again.
pub const LATER: &[Kind] = &[
    kind(
        ".git .hg .svn .jj .gitconfig .config/git .gitmodules",
        "a version control runs its hooks and the programs of its settings, `git status` in a prompt included",
    ),
    kind(
        ".githooks .husky .pre-commit-config.yaml .pre-commit-hooks.yaml lefthook.yml .lefthook.yml lefthook.yaml .lefthook.yaml \
         lefthook.toml .lefthook.toml lefthook.json .lefthook.json lefthook-local.yml .lefthook-local.yml .lefthook .overcommit.yml \
         .git-hooks .simple-git-hooks.json .simple-git-hooks.cjs .simple-git-hooks.js .lintstagedrc .lintstagedrc.json",
        "hooks that are installed already read them at the next commit or push",
    ),
    kind(
        ".github/workflows .github/actions .gitlab-ci.yml .gitlab/ci .circleci .forgejo/workflows .gitea/workflows .woodpecker \
         .woodpecker.yml .drone.yml .buildkite .travis.yml azure-pipelines.yml .azure-pipelines bitbucket-pipelines.yml Jenkinsfile \
         .teamcity appveyor.yml .appveyor.yml cloudbuild.yaml",
        "a server runs them after a push, with secrets",
    ),
    kind(
        ".vscode .idea .zed .cursor .fleet .helix .nova .devcontainer .devcontainer.json *.code-workspace *.sublime-project .exrc .vimrc \
         .nvimrc .nvim.lua .lvimrc .dir-locals.el .dir-locals-2.el",
        "an editor runs their tasks, servers and settings when the folder is opened",
    ),
    kind(
        ".tieline .config/tieline state/tieline .claude .codex .gemini .qwen .opencode opencode.json opencode.jsonc .goose .copilot .agents .crush.json crush.json .amp \
         .factory .kiro .amazonq .continue .windsurf .roo .cline .aider.conf.yml .mcp.json",
        "an agent runs their hooks, commands and MCP servers when it is started in the folder",
    ),
    kind(
        ".envrc .mise.toml mise.toml .mise .autoenv .autoenv.zsh .tool-versions",
        "a shell runs them, or what they choose, when the folder is entered",
    ),
    kind(
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin .zlogout .config/fish \
         .inputrc .pam_environment .xprofile .xinitrc .xsession .xsessionrc .config/autostart .config/systemd .config/environment.d \
         .local/bin .ssh .netrc",
        "a login or a new shell runs them, if the folder is a home",
    ),
    kind(
        ".npmrc .yarnrc .yarnrc.yml .pnpmfile.cjs .cargo/config.toml .cargo/config .mvn .bazelrc .condarc",
        "a package manager or a build takes programs, plug-ins or other sources of packages from them, whatever it was asked for",
    ),
];

/// What was thought about and is left writable, and why.
pub const WORK: &[Kind] = &[
    kind(
        "Makefile justfile package.json Cargo.toml pyproject.toml build.rs CMakeLists.txt Dockerfile",
        "they run when somebody runs them; changing them is the work, and every change is listed",
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
    static BY_NAME: LazyLock<HashMap<String, Vec<Option<&str>>>> = LazyLock::new(|| {
        let mut all: HashMap<String, Vec<Option<&str>>> = HashMap::new();
        for name in names() {
            let (folder, name) = name.split_once('/').map_or((None, name), |(folder, name)| (Some(folder), name));
            all.entry(name.to_ascii_lowercase()).or_default().push(folder);
        }
        all
    });
    let name = name.to_ascii_lowercase();
    let meant = |name: &str| {
        let folders = BY_NAME.get(name).into_iter().flatten();
        folders.copied().any(|folder| folder.is_none_or(|folder| around.eq_ignore_ascii_case(folder)))
    };
    meant(&name) || name.rsplit_once('.').is_some_and(|(_, end)| meant(&format!("*.{end}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_meant_wherever_they_stand() {
        for (around, name) in
            [("x", ".git"), ("x", ".GIT"), (".github", "workflows"), ("x", "a.code-workspace"), ("", "Jenkinsfile")]
        {
            assert!(is_guarded(around, name), "{around}/{name}");
        }
        for (around, name) in
            [("x", "workflows"), ("x", "git"), ("x", "Makefile"), ("x", "package.json"), ("x", ".github")]
        {
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
