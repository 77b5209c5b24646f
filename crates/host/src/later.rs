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
        ".git .hg .svn .jj .bzr .pijul .sl _darcs _FOSSIL_ .fslckout .gitconfig .config/git .gitmodules .hgrc .config/hg \
         .jjconfig.toml .config/jj .subversion",
        "a version control runs its hooks and the programs of its settings, `git status` in a prompt included",
    ),
    kind(
        ".githooks .git-hooks .husky .huskyrc .huskyrc.json .huskyrc.js .huskyrc.cjs .huskyrc.yml .huskyrc.yaml \
         husky.config.js .pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml prek.toml .overcommit.yml \
         captainhook.json grumphp.yml .trunk/trunk.yaml lefthook.yml .lefthook.yml lefthook.yaml .lefthook.yaml \
         lefthook.toml .lefthook.toml lefthook.json .lefthook.json lefthook-local.yml .lefthook-local.yml \
         lefthook-local.yaml .lefthook-local.yaml lefthook-local.toml .lefthook-local.toml lefthook-local.json \
         .lefthook-local.json .lefthook .lefthook-local .simple-git-hooks.json .simple-git-hooks.cjs .simple-git-hooks.js \
         simple-git-hooks.json simple-git-hooks.cjs simple-git-hooks.js .lintstagedrc .lintstagedrc.json .lintstagedrc.yaml \
         .lintstagedrc.yml .lintstagedrc.js .lintstagedrc.cjs .lintstagedrc.mjs lint-staged.config.js \
         lint-staged.config.cjs lint-staged.config.mjs .commitlintrc.js .commitlintrc.cjs commitlint.config.js \
         commitlint.config.cjs commitlint.config.mjs commitlint.config.ts .rusty-hook.toml rusty-hook.toml .cargo-husky",
        "hooks that are installed already read them at the next commit or push",
    ),
    kind(
        ".github/workflows .github/actions .gitlab-ci.yml .gitlab-ci.yaml .gitlab/ci .circleci .forgejo/workflows \
         .forgejo/actions .gitea/workflows .gitea/actions .woodpecker .woodpecker.yml .woodpecker.yaml .drone.yml \
         .drone.yaml .drone.star .drone.jsonnet .buildkite .travis.yml azure-pipelines.yml azure-pipelines.yaml \
         .azure-pipelines .azuredevops .vsts-ci.yml bitbucket-pipelines.yml Jenkinsfile .teamcity appveyor.yml \
         .appveyor.yml cloudbuild.yaml cloudbuild.yml .cirrus.yml .cirrus.star .semaphore codefresh.yml .codefresh \
         wercker.yml .scrutinizer.yml buildspec.yml buildspec.yaml bitrise.yml codemagic.yaml amplify.yml .readthedocs.yaml \
         .readthedocs.yml readthedocs.yml .build.yml .builds .onedev-buildspec.yml .tekton .harness .zuul.yaml .zuul.d \
         zuul.yaml zuul.d .prow.yaml .rwx .depot/workflows .mergify.yml Dangerfile dangerfile.js dangerfile.ts \
         codeship-steps.yml codeship-services.yml",
        "a server runs them after a push, with secrets",
    ),
    kind(
        ".vscode .idea .zed .cursor .fleet .helix .nova .vs .theia .lapce .devcontainer .devcontainer.json *.code-workspace \
         *.sublime-project .exrc _exrc .vimrc _vimrc .gvimrc .vim .nvim .nvimrc .nvim.lua .lvimrc .lnvim.lua .neoconf.json \
         .nlsp-settings .dir-locals.el .dir-locals-2.el .emacs .emacs.d .kakrc.local .project .settings \
         .externalToolBuilders .bsp hie.yaml .merlin omnisharp.json .luarc.json .luarc.jsonc .pylintrc pylintrc .gitpod.yml \
         .gitpod.Dockerfile devfile.yaml .devfile.yaml .replit replit.nix .idx .codesandbox .stackblitzrc",
        "an editor runs their tasks, servers and settings when the folder is opened",
    ),
    kind(
        ".tieline .config/tieline state/tieline .claude .claude.json .codex .gemini .qwen .opencode opencode.json \
         opencode.jsonc .goose .copilot .agent .agents .crush.json crush.json .crush .amp .factory .kiro .amazonq .continue \
         .windsurf .codeium .roo .roomodes .cline .kilocode .kilocodemodes .augment .junie .trae .zencoder .rovodev \
         .openhands .devin .warp .void .kimi .vibe .iflow .codebuddy .qoder .forge forge.yaml .grok .antigravity .gptme \
         gptme.toml .plandex .aider.conf.yml .aider.model.settings.yml .mcp .mcp.json .config/opencode .config/goose \
         .config/amp .config/crush",
        "an agent runs their hooks, commands and MCP servers when it is started in the folder",
    ),
    kind(
        ".envrc .direnv .mise.toml mise.toml .mise .mise.local.toml mise.local.toml mise/config.toml mise/config.local.toml \
         .config/mise .config/mise.toml .rtx.toml rtx.toml .autoenv .autoenv.zsh .autoenv_leave.zsh .env.leave .smartcd \
         .shadowenv.d .ondirrc .rvmrc .sdkmanrc .tool-versions .prototools .vfox.toml .pkgx.yaml .flox rust-toolchain \
         rust-toolchain.toml .python-version .ruby-version .ruby-gemset .node-version .nvmrc .java-version",
        "a shell runs them, or what they choose, when the folder is entered",
    ),
    kind(
        ".bashrc .bashrc.d .bash_profile .bash_login .bash_logout .bash_aliases .profile .kshrc .mkshrc .cshrc .tcshrc \
         .login .logout .zshrc .zshenv .zprofile .zlogin .zlogout .zsh .oh-my-zsh .config/zsh .config/bash .config/fish \
         .config/nushell .config/powershell .config/xonsh .xonshrc .config/elvish .config/starship.toml .config/direnv \
         .direnvrc .config/nvim .config/vim .config/emacs .config/helix .config/kak .config/zed .config/Code .config/kitty \
         .config/alacritty .config/wezterm .wezterm.lua .config/ghostty .config/tmux .tmux .tmux.conf .screenrc .inputrc \
         .pam_environment .xprofile .xinitrc .xsession .xsessionrc .xbindkeysrc .config/sxhkd .config/i3 .i3 .config/sway \
         .config/hypr .config/awesome .config/openbox .config/bspwm .config/plasma-workspace .config/autostart \
         .config/systemd .config/environment.d share/applications share/systemd share/dbus-1 .local/bin .ssh .rhosts \
         .shosts .netrc .gnupg .aws .kube .docker/config.json .docker/cli-plugins .config/gh .forward .procmailrc .mailcap \
         .lessfilter .curlrc .wgetrc",
        "a login, a new shell or a program that everybody starts runs them, if the folder is a home",
    ),
    kind(
        ".gdbinit .gdbearlyinit .lldbinit .lldbinit-lldb .radare2rc .pdbrc .irbrc .pryrc .byebugrc .perldb .ghci .ocamlinit \
         .iex.exs .Rprofile .Renviron .sqliterc .psqlrc sitecustomize.py usercustomize.py ansible.cfg .ansible.cfg",
        "a debugger, a shell of a language or another tool that is started in the folder runs them",
    ),
    kind(
        ".npmrc .yarnrc .yarnrc.yml .yarn/releases .yarn/plugins .yarn/sdks .pnpmfile.cjs .pnpmfile.mjs bunfig.toml \
         .bunfig.toml .cargo/config.toml .cargo/config .mvn .m2/settings.xml gradle/wrapper .gradle/init.d \
         .gradle/init.gradle .gradle/gradle.properties .sbtopts .jvmopts .bazelrc .bazelversion tools/bazel .buckconfig \
         .buckconfig.local .buckconfig.d .pantsrc .condarc .mambarc uv.toml .pypirc .config/pip .pip .bundle/config \
         .bundle/plugin .gemrc nuget.config .swiftpm/configuration .terraformrc .terraform.d",
        "a package manager or a build takes programs, plug-ins or other sources of packages from them, whatever it was asked for",
    ),
];

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
