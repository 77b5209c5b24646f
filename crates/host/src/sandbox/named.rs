//! What is run because a variable of the person's environment, or the command of something that we start ourselves, names it.
//!
//! Such a file has no name of its own that a table could hold, and may lie in the workspace: an MCP server of the project, the folder
//! `bin` of an environment that is in use, the settings that `GIT_CONFIG_GLOBAL` names. It is read-only for commands, and asked for
//! before an edit.

use super::around::links;
use super::git::programs;
use super::{Pinned, started};
use crate::roots::promise;
use std::env;
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Variables that are a file or a folder, or a list of them, of which all is run, or says what is run.
const FILES: &str = "
    PATH GIT_CONFIG GIT_CONFIG_GLOBAL GIT_CONFIG_SYSTEM GIT_TEMPLATE_DIR GIT_EXEC_PATH BASH_ENV ENV INPUTRC PYTHONSTARTUP
    LD_PRELOAD LD_AUDIT GOBIN PNPM_HOME IPYTHONDIR JUPYTER_CONFIG_DIR STARSHIP_CONFIG DIRENV_CONFIG RIPGREP_CONFIG_PATH
    FZF_DEFAULT_OPTS_FILE SCREENRC WGETRC CURL_HOME MAKEFILES CONDARC ANSIBLE_CONFIG PIP_CONFIG_FILE UV_CONFIG_FILE
    NPM_CONFIG_USERCONFIG NPM_CONFIG_GLOBALCONFIG BUNDLE_USER_CONFIG TF_CLI_CONFIG_FILE VIMRUNTIME MYVIMRC";

/// Variables that are a line with a program, or with files that a program loads.
const LINES: &str = "
    GIT_EXTERNAL_DIFF GIT_SSH GIT_SSH_COMMAND GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_ASKPASS GIT_PROXY_COMMAND SSH_ASKPASS
    SUDO_ASKPASS EDITOR VISUAL PAGER MANPAGER BROWSER TERMINAL SHELL LESSOPEN LESSCLOSE NODE_OPTIONS BUN_OPTIONS RUBYOPT PERL5OPT
    VIMINIT GVIMINIT EXINIT LUA_INIT PROMPT_COMMAND JAVA_TOOL_OPTIONS JDK_JAVA_OPTIONS _JAVA_OPTIONS MAVEN_OPTS GRADLE_OPTS
    RUSTC RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER CC CXX FZF_DEFAULT_COMMAND KUBECTL_EXTERNAL_DIFF PYTHONBREAKPOINT DIFFPROG";

/// The same with a number behind it.
const NUMBERED: &str = "GIT_CONFIG_VALUE_";

/// Variables that are a folder, and what of it is run.
const BELOW: &[(&str, &str)] = &[
    ("CARGO_HOME", "bin config config.toml env"),
    ("GOPATH", "bin"),
    ("NVM_DIR", "nvm.sh bash_completion"),
    ("PYENV_ROOT", "bin shims"),
    ("BUN_INSTALL", "bin"),
    ("DENO_INSTALL", "bin"),
    ("SDKMAN_DIR", "bin"),
    ("VIRTUAL_ENV", "bin"),
    ("CONDA_PREFIX", "bin etc/conda"),
    ("PERL_LOCAL_LIB_ROOT", "bin"),
    ("DOCKER_CONFIG", "cli-plugins"),
    ("ZSH", "oh-my-zsh.sh custom"),
];

fn words(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_whitespace()
}

/// What variables name as a path; some begin wherever a program stands.
fn paths() -> Vec<PathBuf> {
    let values = words(FILES).filter_map(env::var_os).flat_map(|value| env::split_paths(&value).collect::<Vec<_>>());
    // An empty entry of `PATH` is where the shell stands.
    let here = env::var_os("PATH").filter(|value| env::split_paths(value).any(|path| path.as_os_str().is_empty()));
    values.filter(|path| !path.as_os_str().is_empty()).chain(here.map(|_| PathBuf::from("."))).collect()
}

/// What of folders that variables name is there.
fn below() -> impl Iterator<Item = PathBuf> {
    let folders = BELOW.iter().filter_map(|(variable, names)| Some((env::var_os(variable)?, *names)));
    folders.flat_map(|(value, names)| {
        let folders: Vec<PathBuf> = env::split_paths(&value).filter(|path| path.is_absolute()).collect();
        folders.into_iter().flat_map(move |folder| words(names).map(move |name| folder.join(name)))
    })
}

/// What an option is given, if a word is one: `-r./x`, `--require=./x`.
fn value(word: &str) -> &str {
    match (word.strip_prefix('-'), word.split_once('=')) {
        (None, _) => word,
        (_, Some((_, value))) => value,
        (Some(letters), _) => letters.get(1..).filter(|_| !letters.starts_with('-')).unwrap_or_default(),
    }
}

/// What lines in variables name, for a program that stands in this folder.
fn in_lines(from: &Path) -> Vec<PathBuf> {
    let numbered = || env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with(NUMBERED));
    let lines: Vec<OsString> = words(LINES).filter_map(env::var_os).chain(numbered().map(|(_, value)| value)).collect();
    let mut found = Vec::new();
    for line in lines {
        // As a setting of git whose value is a program; some programs want a sign before the name of a file.
        let line = line.to_string_lossy().replace(['@', ':'], " ");
        let words: Vec<&str> = line.split_whitespace().map(value).collect();
        programs("core.editor", &words.join(" "), from, &mut found);
    }
    found
}

/// All of it that lies, or would lie, below these roots. What is not there yet can't be held.
pub(super) fn ways(roots: &[Pinned]) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = below().filter(|path| path.exists()).collect();
    for root in roots {
        all.extend(paths().into_iter().map(|path| root.path.join(path)));
        all.extend(in_lines(&root.path));
    }
    all.extend(links(searched(), 1, true).into_iter().map(|(path, _)| path));
    all.retain(|path| leads_into(path, roots));
    all.sort();
    all.dedup();
    all
}

/// What we start ourselves, and what any variable names, that lies below these roots: what must be there, and what is.
pub(super) fn started(roots: &[Pinned]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut must, mut there) = (Vec::new(), Vec::new());
    for root in roots {
        let code = started::code(&root.path);
        there.extend(code.there().filter(|path| leads_into(path, roots)).cloned());
        must.extend(code.must.into_iter().filter(|path| leads_into(path, roots)));
    }
    (must, there)
}

/// Whether a path lies in a root, leads there, or is another name of a file that may. A folder that holds a whole root is none that is
/// meant, but the root itself is: `.` on `PATH`.
fn leads_into(path: &Path, roots: &[Pinned]) -> bool {
    let within = |place: &Path| roots.iter().any(|root| place.starts_with(&root.path));
    let several_names = || {
        let facts = path.metadata().ok().filter(|facts| facts.is_file() && facts.nlink() > 1);
        let near = |facts: &Metadata| {
            roots.iter().any(|root| root.path.metadata().is_ok_and(|root| root.dev() == facts.dev()))
        };
        // What we can't write no command of ours can.
        facts.is_some_and(|facts| near(&facts)) && rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
    };
    within(path) || promise(path).is_some_and(|real| within(&real)) || several_names()
}

/// The folders in which a shell looks for programs; some begin wherever it stands.
fn searched() -> Vec<PathBuf> {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect()
}

/// Whether a program that is moved here may stand in the way of one that somebody means to run: it is a folder in which a shell looks
/// for programs, or lies in one.
pub(crate) fn is_searched(path: &Path) -> bool {
    let is = |named: &Path, path: &Path| match named.strip_prefix(".").unwrap_or(named) {
        named if named.is_absolute() => promise(named).is_some_and(|folder| folder == path),
        // Where the shell stands.
        named => path.ends_with(named),
    };
    searched().iter().any(|named| is(named, path) || path.parent().is_some_and(|around| is(named, around)))
}

/// Whether a change of this path, without links and in this root, changes what is run.
pub(crate) fn runs(path: &Path, root: Option<&Path>) -> bool {
    let is = |named: &Path| match named.strip_prefix(".").unwrap_or(named) {
        named if named.is_absolute() => promise(named).is_some_and(|real| path.starts_with(real)),
        named => !named.as_os_str().is_empty() && path.ends_with(named),
    };
    let search = searched();
    let is_program = || {
        let facts = path.metadata().ok().filter(Metadata::is_file);
        facts.is_some_and(|facts| facts.permissions().mode() & 0o111 != 0)
            && path.parent().is_some_and(|folder| search.iter().any(|named| promise(named).as_deref() == Some(folder)))
    };
    let started = || {
        let root = root.or(path.parent()).unwrap_or(path);
        let code = started::code(root);
        let is = |facts: &Metadata| (facts.dev(), facts.ino());
        let several = path.metadata().ok().filter(|facts| facts.is_file() && facts.nlink() > 1);
        let same = |several: Metadata| {
            code.there().any(|named| named.metadata().is_ok_and(|named| is(&named) == is(&several)))
        };
        code.covers(path, root) || several.is_some_and(same)
    };
    // New files in a folder of programs can't be run before somebody says so.
    paths().iter().filter(|named| !search.contains(named)).any(|named| is(named))
        || is_program()
        || started()
        || below().filter(|named| !search.contains(named)).any(|named| is(&named))
        || path.parent().is_some_and(|folder| in_lines(folder).iter().any(|named| is(named)))
}
