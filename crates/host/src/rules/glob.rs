//! Path patterns: one that allows means just what it says, one that holds back means a little more.

use super::action::Location;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::{path::Path, sync::OnceLock};

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
        GlobBuilder::new(text).build().map_err(|error| error.to_string())?;
        Ok(Self { text: text.to_owned(), exact: OnceLock::new(), wide: OnceLock::new() })
    }

    /// The pattern that matches just this path.
    pub(super) fn exactly(location: &Location) -> Option<String> {
        let path = location.in_cwd().unwrap_or(location.absolute());
        if path.as_os_str().is_empty() || !location.is_clean() {
            return None;
        }
        let text = globset::escape(path.to_str()?).replace('\\', "[\\]");
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

    /// In any case of letters, everything below too, and relative patterns in any root or from the top.
    pub(super) fn holds(&self, location: &Location) -> bool {
        let wide = self.wide.get_or_init(|| {
            let base = self.text.trim_end_matches('/');
            compile(&[base, &format!("{base}/**")], true)
        });
        // What can't be made ready holds everything.
        let matches = |path: &Path| wide.as_ref().is_none_or(|glob| glob.is_match(path));
        let absolute = location.absolute();
        if self.text.starts_with('/') {
            return matches(absolute);
        }
        location.relative().is_some_and(matches) || matches(absolute.strip_prefix("/").unwrap_or(absolute))
    }
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
