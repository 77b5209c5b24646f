//! What git runs by itself: hooks, and the programs that its settings name. Read without running it: they may be hostile.

use crate::roots::promise;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// No file of settings is longer.
const MAX_CONFIG_BYTES: u64 = 1 << 20;
/// No repository has more of them, with those that they include.
const MAX_CONFIG_FILES: usize = 64;

/// No repository has settings with more words.
const MAX_WORDS: usize = 10_000;
/// Settings whose value begins with a program, by the last part of their names.
const PROGRAMS: &str = "alternaterefscommand askpass clean cmd command defaultkeycommand difffilter driver editor external \
    fsmonitor gitproxy helper pager packobjectshook process program receivepack smudge sshcommand templatedir textconv uploadpack";
/// What makes a folder a repository, or is run or read for what to run if it is one.
const PARTS: &[&str] =
    &["HEAD", "commondir", "config", "config.worktree", "hooks", "modules", "objects", "refs", "worktrees"];

/// What the settings of a repository lead to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Folders of hooks, files of settings and programs, which may not exist.
    pub(super) paths: Vec<PathBuf>,
    /// Something could not be read to its end.
    pub(super) unclear: bool,
}

/// True if a folder with these names in it is a repository, whatever it is called.
pub(super) fn is_repository(has: impl Fn(&str) -> bool) -> bool {
    has("HEAD") && (has("commondir") || (has("objects") && has("refs")))
}

/// Whether git would run what is at this path, or read from it what to run: because a repository around it names it, or because it
/// is, or would become, part of a repository that is not called `.git`.
pub(crate) fn runs(path: &Path) -> bool {
    let leads_here = |named: &PathBuf| {
        let Some(real) = promise(named) else { return false };
        let links = fs::read_dir(&real).into_iter().flatten().flatten().filter(|entry| entry.path().is_symlink());
        path.starts_with(&real)
            || links.take(MAX_WORDS).any(|link| link.path().canonicalize().is_ok_and(|to| to == path))
    };
    let global = globals();
    for folder in path.ancestors().skip(1) {
        let git = folder.join(".git");
        if git.exists() {
            let found = look(&git, folder, &global);
            if found.unclear || found.paths.iter().any(leads_here) {
                return true;
            }
        }
    }
    is_part(path) || is(path, "HEAD")
}

fn is(path: &Path, name: &str) -> bool {
    path.file_name().is_some_and(|file| file.eq_ignore_ascii_case(name))
}

/// Whether a path is, or would be, in what a repository keeps for itself, whatever that is called.
pub(super) fn is_part(path: &Path) -> bool {
    let head = |folder: &Path| fs::symlink_metadata(folder.join("HEAD")).is_ok_and(|head| !head.is_dir());
    let steps = path.ancestors().zip(path.ancestors().skip(1));
    steps.into_iter().any(|(inner, folder)| PARTS.iter().any(|part| is(inner, part)) && head(folder))
}

/// Settings of git for all repositories of the user.
pub(super) fn globals() -> Vec<PathBuf> {
    let home = std::env::home_dir();
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let config = config.or_else(|| home.as_ref().map(|home| home.join(".config")));
    let mut all = vec![PathBuf::from("/etc/gitconfig")];
    all.extend(home.map(|home| home.join(".gitconfig")));
    all.extend(config.map(|config| config.join("git/config")));
    all.extend(["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"].into_iter().filter_map(std::env::var_os).map(PathBuf::from));
    all
}

/// What the repository at `git` (a folder, or a file that names one) leads to, for the work tree around it.
pub(super) fn look(git: &Path, work_tree: &Path, global: &[PathBuf]) -> Found {
    let mut found = Found::default();
    let mut folder = git.to_owned();
    if !git.is_dir() {
        match read(git) {
            Some(text) => match text.strip_prefix("gitdir:") {
                Some(path) => folder = git.parent().unwrap_or(work_tree).join(path.trim()),
                None => return found,
            },
            None => {
                found.unclear = git.exists();
                return found;
            }
        }
    }
    let common = match read(&folder.join("commondir")) {
        Some(path) => folder.join(path.trim()),
        None => folder.clone(),
    };
    let mut todo: Vec<PathBuf> = vec![common.join("config"), folder.join("config.worktree"), folder.join("config")];
    todo.extend_from_slice(global);
    let mut done: Vec<PathBuf> = Vec::new();
    let mut words = 0;
    // What is said by variables has no file; what it includes begins wherever git stands.
    let said = in_variables(|name| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned()));
    let mut said = Some(said);
    while let Some(path) = said.as_ref().map(|_| work_tree.join(".")).or_else(|| todo.pop()) {
        if done.contains(&path) {
            continue;
        }
        if done.len() == MAX_CONFIG_FILES || words > MAX_WORDS {
            found.unclear = true;
            break;
        }
        let all = said.take().unwrap_or_else(|| {
            let text = read(&path);
            found.unclear |= text.is_none() && std::fs::symlink_metadata(&path).is_ok();
            settings(&text.unwrap_or_default())
        });
        for (key, value) in all {
            match &*key {
                "core.hookspath" => found.paths.extend(named(&value, work_tree)),
                // Those with a condition count as well: it may come true later.
                "include.path" | "includeif.path" => {
                    let included = named(&value, path.parent().unwrap_or(work_tree));
                    found.paths.extend(included.clone());
                    todo.extend(included);
                }
                _ => words += programs(&key, &value, work_tree, &mut found.paths),
            }
        }
        found.unclear |= words > MAX_WORDS;
        done.push(path);
    }
    // The usual place, for a repository that is not guarded as a whole.
    found.paths.extend([common.join("hooks"), common.join("config"), folder.join("config.worktree")]);
    found.paths.dedup();
    found
}

/// The settings that variables have, as git reads them: pairs with numbers, and what `git -c` hands on.
fn in_variables(variable: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let count = variable("GIT_CONFIG_COUNT").and_then(|count| count.trim().parse().ok()).unwrap_or(0);
    let pair = |at| Some((variable(&format!("GIT_CONFIG_KEY_{at}"))?, variable(&format!("GIT_CONFIG_VALUE_{at}"))?));
    let mut all: Vec<(String, String)> = (0..usize::min(count, MAX_WORDS)).map_while(pair).collect();
    // `'a.b'='c'`, in older versions `'a.b=c'`, with the quotes of a shell.
    let text = variable("GIT_CONFIG_PARAMETERS").unwrap_or_default();
    let (mut word, mut quoted, mut chars) = (String::new(), false, text.chars());
    loop {
        match chars.next() {
            Some('\'') => quoted = !quoted,
            Some('\\') if !quoted => word.extend(chars.next()),
            Some(c) if quoted || !c.is_whitespace() => word.push(c),
            end => {
                let (key, value) = word.split_once('=').unwrap_or((&word, ""));
                all.extend((!key.is_empty()).then(|| (key.to_owned(), value.to_owned())));
                word.clear();
                if end.is_none() {
                    break;
                }
            }
        }
    }
    // Without the part in the middle, as in files.
    let plain = |key: &str| {
        let section = key.split('.').next().unwrap_or_default();
        format!("{section}.{}", key.rsplit('.').next().unwrap_or_default()).to_ascii_lowercase()
    };
    all.into_iter().map(|(key, value)| (plain(&key), value)).collect()
}

/// Adds the files that a setting runs or may run, and says how many words were looked at. A value may be a line for the shell, so each
/// word that is a file counts; if it has to begin with a program, also one that is not there yet.
pub(super) fn programs(key: &str, value: &str, work_tree: &Path, found: &mut Vec<PathBuf>) -> usize {
    let (section, name) = key.split_once('.').unwrap_or_default();
    // People, files that are only read, and other words for git's own commands.
    if section == "user" || name.ends_with("file") || (section == "alias" && !value.starts_with('!')) {
        return 0;
    }
    let signs = |c: char| c.is_whitespace() || "\"'`!;|&()<>{}$=".contains(c);
    let before = found.len();
    let mut count = 0;
    let joined = shell_words(value);
    let joined = joined.iter().map(String::as_str);
    for word in value.split(signs).chain(value.split(['"', '\''])).chain(joined).filter(|word| !word.is_empty()) {
        count += 1;
        // What follows the name of the top folder, which only the shell knows: `$(git rev-parse --show-toplevel)/run`.
        let below = named(word.trim_start_matches('/'), work_tree).filter(|_| word.starts_with('/'));
        found.extend(named(word, work_tree).into_iter().chain(below).filter(|path| path.is_file()));
        if count == MAX_WORDS {
            break;
        }
    }
    let runs = ["alias", "pager"].contains(&section) || PROGRAMS.split_whitespace().any(|program| program == name);
    let first = value.split(signs).find(|word| !word.is_empty());
    if let Some(word) = first.filter(|word| runs && found.len() == before && word.contains('/')) {
        found.extend(named(word, work_tree));
    }
    count
}

/// The words of a line as a shell takes them: `my\ dir/h`, `"my dir"/h` and `t"ool"s/h` are one each.
fn shell_words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut chars) = (Vec::new(), String::new(), None, line.chars());
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None | Some('"'), '\\') => word.extend(chars.next()),
            (None, _) if c.is_whitespace() || "!;|&()<>".contains(c) => words.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    words.push(word);
    words
}

/// A path as git reads it in its settings.
fn named(value: &str, from: &Path) -> Option<PathBuf> {
    match value.strip_prefix("~/") {
        Some(rest) => Some(std::env::home_dir()?.join(rest)),
        None if value.is_empty() => None,
        None => Some(from.join(value)),
    }
}

/// The text of a plain file, if it is not too long. Never waits for somebody to write.
fn read(path: &Path) -> Option<String> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path).ok()?;
    let facts = file.metadata().ok()?;
    if !facts.is_file() || facts.len() > MAX_CONFIG_BYTES {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_CONFIG_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The settings of a file in git's format: `section.key` in lower case, without what stands in quotes after the section.
fn settings(text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut section = String::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    loop {
        rest = rest.trim_start();
        if let Some(head) = rest.strip_prefix('[') {
            let mut quoted = false;
            let end = head.char_indices().find(|(_, c)| {
                quoted ^= *c == '"';
                (*c == ']' && !quoted) || *c == '\n'
            });
            let end = end.map_or(head.len(), |(at, _)| at);
            let name = head[..end].split(['"', ' ', '\t', '.']).next().unwrap_or_default();
            section = name.to_ascii_lowercase();
            rest = head.get(end + 1..).unwrap_or_default();
        } else if rest.starts_with(['#', ';']) {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        } else if rest.is_empty() {
            return all;
        } else {
            let end = rest.find(['=', '\n', '#', ';']).unwrap_or(rest.len());
            let key = rest[..end].trim().to_ascii_lowercase();
            let (value, after) = match rest[end..].strip_prefix('=') {
                Some(text) => value(text),
                None => (String::new(), rest[end..].split_once('\n').map_or("", |(_, rest)| rest)),
            };
            rest = after;
            all.push((format!("{section}.{key}"), value));
        }
    }
}

/// A value up to the end of its line, and what follows.
fn value(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut quoted = false;
    let mut blank = 0;
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\n' => return (trimmed(out, blank), &text[at + 1..]),
            '#' | ';' if !quoted => {
                return (trimmed(out, blank), text[at..].split_once('\n').map_or("", |(_, rest)| rest));
            }
            '"' => quoted = !quoted,
            '\\' => match chars.next() {
                Some((_, '\n')) | None => continue,
                Some((at, '\r')) if text[at + 1..].starts_with('\n') => {
                    chars.next();
                    continue;
                }
                Some((_, 'n')) => out.push('\n'),
                Some((_, 't')) => out.push('\t'),
                Some((_, c)) => out.push(c),
            },
            ' ' | '\t' | '\r' if !quoted => {
                if !out.is_empty() {
                    out.push(c);
                    blank += c.len_utf8();
                }
                continue;
            }
            c => out.push(c),
        }
        blank = 0;
    }
    (trimmed(out, blank), "")
}

fn trimmed(mut value: String, blank: usize) -> String {
    value.truncate(value.len() - blank);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let check = |text: &str, expect: &[(&str, &str)]| {
            let found = settings(text);
            let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(found, expect, "{text:?}");
        };
        check("[core]\n\thooksPath = a/b\n", &[("core.hookspath", "a/b")]);
        check("[CORE] HooksPath=a b # c\n[x]y", &[("core.hookspath", "a b"), ("x.y", "")]);
        check("[core]\n hooksPath = \"a ;b\" ; c\n", &[("core.hookspath", "a ;b")]);
        check("[core]\r\nhooksPath = a\\\nb\\\\c\r\n", &[("core.hookspath", "ab\\c")]);
        check("[includeIf \"gitdir:~/x]\"]\npath=y", &[("includeif.path", "y")]);
        check("; x\n# y\n[a \"b\"]\nc\nd = \"\"", &[("a.c", ""), ("a.d", "")]);
        check("[core", &[]);
        check("=\n[", &[(".", "")]);
        check("[core]hooksPath=", &[("core.hookspath", "")]);
    }

    #[test]
    fn words_are_those_of_a_shell() {
        let check = |line: &str, expect: &[&str]| {
            let mut words = shell_words(line);
            words.retain(|word| !word.is_empty());
            assert_eq!(words, expect, "{line:?}");
        };
        check(r#""my dir"/h -x"#, &["my dir/h", "-x"]);
        check(r"!my\ dir/h&&'it is'/g", &["my dir/h", "it is/g"]);
        check(r#"t"ool"s/h "a \" b""#, &["tools/h", "a \" b"]);
        check("'never closed", &["never closed"]);
        check("\\", &[]);
    }

    #[test]
    fn settings_in_variables_are_read_as_git_reads_them() {
        let check = |variables: &[(&str, &str)], expect: &[(&str, &str)]| {
            let get = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_owned());
            let found = in_variables(get);
            let found: Vec<(&str, &str)> = found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            assert_eq!(found, expect, "{variables:?}");
        };
        let pair = [("GIT_CONFIG_KEY_0", "core.hooksPath"), ("GIT_CONFIG_VALUE_0", "h k")];
        check(&pair, &[]);
        check(&[&pair[..], &[("GIT_CONFIG_COUNT", "9")]].concat(), &[("core.hookspath", "h k")]);
        let handed_on = |text| [("GIT_CONFIG_PARAMETERS", text)];
        check(
            &handed_on("'core.hooksPath'='h k' 'Filter.a.b.clean=x'"),
            &[("core.hookspath", "h k"), ("filter.clean", "x")],
        );
        check(&handed_on("'a.b'='it'\\''s' 'c.d'"), &[("a.b", "it's"), ("c.d", "")]);
        check(&handed_on("'"), &[]);
    }

    #[test]
    fn nothing_makes_it_wait_or_run_away() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        std::fs::create_dir(&git).unwrap();
        std::fs::write(git.join("config"), "[include]\npath = config\npath = ../loop\npath = ../pipe\n").unwrap();
        std::fs::write(folder.path().join("loop"), "[include]\npath = .git/config\n[core]\nhooksPath = ~/h\n").unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let found = look(&git, folder.path(), &[]);
        assert!(found.unclear, "a pipe can't be read");
        assert!(found.paths.contains(&git.join("../loop")), "{found:?}");
        let other = folder.path().join("other");
        std::fs::write(&other, "no repository").unwrap();
        assert_eq!(look(&other, folder.path(), &[]), Found::default());
    }
}
