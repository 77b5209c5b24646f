//! Path patterns: one that allows means just what it says, one that holds back means a little more.

use super::action::Location;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// A pattern for paths. It is made ready when it is first needed, because most never are.
#[derive(Clone, Debug)]
pub(super) struct PathGlob {
    text: String,
    exact: OnceLock<Option<GlobSet>>,
    wide: OnceLock<Option<GlobSet>>,
}

impl PathGlob {
    pub(super) fn new(text: &str) -> Result<Self, String> {
        if text.split('/').any(|part| part == ".." || part == ".") {
            return Err("a path pattern has no `.` or `..` in it".to_owned());
        }
        // A rule that can never match is worse than none.
        if text == "~" || text.starts_with("~/") {
            return Err("`~` is not understood; write the whole path".to_owned());
        }
        let expands = |rest: &str| rest.starts_with(|c: char| "{(".contains(c) || c.is_ascii_uppercase());
        if text.split('$').skip(1).any(expands) {
            return Err(
                "variables are not understood; write the whole path, and `[$]` for a dollar in a name".to_owned()
            );
        }
        if ['"', '\''].iter().any(|quote| text.len() > 1 && text.starts_with(*quote) && text.ends_with(*quote)) {
            return Err("quotes are not taken off; leave them out".to_owned());
        }
        if text.contains("//") {
            return Err("a path pattern has no `//` in it".to_owned());
        }
        if plainly(text, Path::new("")).is_none() {
            GlobBuilder::new(text).build().map_err(|error| error.to_string())?;
        }
        Ok(Self { text: text.to_owned(), exact: OnceLock::new(), wide: OnceLock::new() })
    }

    /// The pattern that matches just this path.
    pub(super) fn exactly(location: &Location) -> Option<String> {
        let path = location.in_cwd().unwrap_or(location.absolute());
        if path.as_os_str().is_empty() || !location.is_clean() {
            return None;
        }
        let text = globset::escape(path.to_str()?).replace('\\', "[\\]").replace('$', "[$]");
        let text = text.strip_prefix('~').map_or(text.clone(), |rest| format!("[~]{rest}"));
        let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
        let text = quote.map_or(text.clone(), |quote| format!("[{quote}]{}", &text[1..]));
        // A space at either end would be lost.
        let text = text.strip_prefix(' ').map_or(text.clone(), |rest| format!("[ ]{rest}"));
        Some(text.strip_suffix(' ').map_or(text.clone(), |rest| format!("{rest}[ ]")))
    }

    /// Just what it says: relative patterns are below the working directory, a slash at the end means everything below.
    pub(super) fn allows(&self, location: &Location) -> bool {
        let exact = self.exact.get_or_init(|| {
            let below = self.text.ends_with('/').then(|| format!("{}**", self.text));
            compile(&[below.as_deref().unwrap_or(&self.text)], false)
        });
        let path = if self.text.starts_with('/') { Some(location.absolute()) } else { location.in_cwd() };
        let matches = |path| exact.as_ref().is_some_and(|glob| glob.is_match(path));
        location.is_clean() && path.is_some_and(matches)
    }

    /// In any case of letters, everything below too, by any name of the file, and relative patterns in any root, in the folder that the
    /// rule was written for, or from the top.
    pub(super) fn holds(&self, location: &Location, written_for: Option<&Path>) -> bool {
        let base = self.text.trim_end_matches('/');
        let compiled = |path: &Path| {
            let wide = self.wide.get_or_init(|| compile(&[base, &format!("{base}/**")], true));
            // What can't be made ready holds everything.
            wide.as_ref().is_none_or(|glob| glob.is_match(path))
        };
        let matches = |path: &Path| plainly(base, path).unwrap_or_else(|| compiled(path));
        if self.text.starts_with('/') {
            return location.names().any(matches);
        }
        let bases = || location.bases().iter().map(PathBuf::as_path).chain(written_for).chain([Path::new("/")]);
        location.relative().is_some_and(matches)
            || location.names().any(|name| bases().filter_map(|base| name.strip_prefix(base).ok()).any(matches))
    }

    /// The folders and the name that it begins with, as far as they are plain.
    pub(super) fn begins(&self) -> PathBuf {
        let plain = |part: &&str| !part.contains(['*', '?', '[', ']', '{', '}', '\\']);
        self.text.split_inclusive('/').take_while(plain).collect::<String>().trim_end_matches('/').into()
    }
}

/// What the wide meaning of a pattern of plain names, perhaps below `**/`, says about a path; `None` for other patterns.
/// The rules that are built in are all like this, and to compile them takes longer than all else before a first write.
fn plainly(pattern: &str, path: &Path) -> Option<bool> {
    let (anywhere, names) = pattern.strip_prefix("**/").map_or((false, pattern), |names| (true, names));
    if names.is_empty() || !names.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte)) {
        return None;
    }
    let wanted: Vec<&[u8]> = names.split('/').map(str::as_bytes).collect();
    let parts: Vec<&[u8]> = path.as_os_str().as_encoded_bytes().split(|&byte| byte == b'/').collect();
    let same = |run: &[&[u8]]| run.iter().zip(&wanted).all(|(a, b)| a.eq_ignore_ascii_case(b));
    let mut runs = parts.windows(wanted.len()).take(if anywhere { usize::MAX } else { 1 });
    Some(runs.any(same))
}

fn compile(patterns: &[&str], caseless: bool) -> Option<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        let mut glob = GlobBuilder::new(pattern);
        glob.literal_separator(true).backslash_escape(true).case_insensitive(caseless);
        set.add(glob.build().ok()?);
    }
    set.build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_names_mean_what_the_compiled_pattern_means() {
        let paths = [
            "a",
            "A",
            "a/b",
            "a/B/c",
            "x/a/b",
            "x/a/b/c",
            "x/ab",
            "ab",
            "a-b",
            "x/.git",
            "x/.GIT/hooks/y",
            ".git",
            "/a/b",
            "/x/a/b/c",
            "b/a",
            "x",
            "a/x/b",
            ".github/workflows/x.yml",
            ".github",
            "aab",
            "x/a.b",
        ];
        for pattern in ["a", "a/b", "**/a", "**/a/b", "**/.git", "**/.github/workflows", "/a", "/a/b", "a.b", "x/a"] {
            let compiled = compile(&[pattern, &format!("{pattern}/**")], true).unwrap_or_default();
            for path in paths.map(Path::new) {
                assert_eq!(plainly(pattern, path), Some(compiled.is_match(path)), "{pattern} {path:?}");
            }
        }
        for pattern in ["*.rs", "**", "a?", "[a]", "{a,b}", "**/ä", "a b", "", "a/**/b"] {
            assert_eq!(plainly(pattern, Path::new("a")), None, "{pattern}");
        }
    }
}
