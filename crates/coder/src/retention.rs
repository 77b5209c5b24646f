//! How long sessions are kept: what the user's `config.toml` says, and what holds if it says nothing.

use serde::Deserialize;
use std::path::Path;
use std::time::Duration;
use tieline_host::store::Retention;

/// A session that nobody used for longer than this is removed.
const DAYS: u64 = 365;
/// Of more sessions, those used last are kept.
const SESSIONS: usize = 5000;
const DAY: Duration = Duration::from_hours(24);

/// The part of the file that is ours. Other tables belong to others.
#[derive(Deserialize, Default)]
struct File {
    #[serde(default)]
    sessions: Table,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Table {
    keep_days: Option<u64>,
    keep_count: Option<usize>,
}

/// How long sessions are kept. 0 is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepFor {
    /// A session that was not used for so many days is removed.
    pub days: u64,
    /// Only so many are kept: those used last.
    pub count: usize,
}

impl Default for KeepFor {
    /// A year, and 5000 sessions.
    fn default() -> Self {
        Self { days: DAYS, count: SESSIONS }
    }
}

impl KeepFor {
    /// Reads the user's configuration file; the defaults if there is none.
    pub fn load(file: Option<&Path>) -> Result<Self, String> {
        let Some(path) = file else { return Ok(Self::default()) };
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map_err(|why| format!("{}: {why}", path.display())),
            Err(error) if crate::config::is_missing(&error) => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let Table { keep_days, keep_count } =
            toml::from_str::<File>(text).map_err(|error| crate::config::wrong(text, &error))?.sessions;
        let usual = Self::default();
        Ok(Self { days: keep_days.unwrap_or(usual.days), count: keep_count.unwrap_or(usual.count) })
    }

    /// The same in the words of the store, for the sessions of one agent.
    pub(crate) fn retention(self, agent: &'static str) -> Retention {
        let age = DAY.checked_mul(u32::try_from(self.days).unwrap_or(u32::MAX));
        Retention {
            agent: Some(agent),
            max_age: age.filter(|age| !age.is_zero()),
            max_count: (self.count > 0).then_some(self.count),
            max_bytes: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_and_its_mistakes_are_named() {
        let usual = KeepFor::default();
        assert_eq!(KeepFor::parse(""), Ok(usual));
        assert_eq!(KeepFor::parse("[other]\nx = 1"), Ok(usual));
        assert_eq!(KeepFor::parse("[sessions]\nkeep_days = 30"), Ok(KeepFor { days: 30, ..usual }));
        assert_eq!(KeepFor::parse("[sessions]\nkeep_count = 0"), Ok(KeepFor { count: 0, ..usual }));
        for (text, why) in [
            ("[sessions]\nkeep_day = 30", "keep_day"),
            ("[sessions]\nkeep_days = -1", "line 2"),
            ("[sessions]\nkeep_days = 'a'", "line 2"),
            ("[sessions", "line 1"),
        ] {
            assert!(KeepFor::parse(text).is_err_and(|error| error.contains(why)), "{text}");
        }
    }

    #[test]
    fn nothing_is_no_limit() {
        let keep = KeepFor { days: 0, count: 0 }.retention("x");
        assert_eq!((keep.max_age, keep.max_count, keep.agent), (None, None, Some("x")));
        assert_eq!(KeepFor { days: 2, count: 3 }.retention("x").max_age, Some(DAY * 2));
    }
}
