//! The one table of checks: what is judged, of whom, how sternly, where it is written, and what to change.

use crate::laws::LAWS;
use crate::probes::PROBES;
use crate::{agent, client};

use tieline_schema::{Dialect, Dialects};
use tieline_trace::Side;

/// How much a rule weighs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The protocol says MUST: who breaks it fails.
    Must,
    /// The protocol says SHOULD: who breaks it is warned.
    Should,
    /// The official libraries differ, or the protocol is silent: it is only told.
    Note,
}

impl Level {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
            Self::Note => "note",
        }
    }
}

/// How something is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By looking at any recording.
    Law,
    /// By sending one thing and looking at what comes back.
    Probe,
    /// By playing a part: the scenarios that assert it.
    Scenario(&'static str),
}

impl Kind {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Law => "law",
            Self::Probe => "probe",
            Self::Scenario(_) => "scenario",
        }
    }
}

/// One check.
#[derive(Debug, Clone, Copy)]
pub struct Check {
    /// Its name, for the command line and for baselines.
    pub id: &'static str,
    /// Who is judged; `None`: either side.
    pub side: Option<Side>,
    /// How it is found out.
    pub kind: Kind,
    /// How much it weighs.
    pub level: Level,
    /// Where it holds.
    pub dialects: Dialects,
    /// The rules of `docs/rules.md` that it stands for.
    pub rules: &'static str,
    /// What has to be true.
    pub says: &'static str,
    /// Where that is written.
    pub source: &'static str,
    /// What to change if it is not.
    pub fix: &'static str,
}

/// Who is judged: one side.
pub(crate) const AGENT: Option<Side> = Some(Side::Agent);
pub(crate) const CLIENT: Option<Side> = Some(Side::Client);

impl Check {
    /// A row of a table.
    #[allow(clippy::too_many_arguments)]
    pub(crate) const fn row(
        kind: Kind,
        side: Option<Side>,
        id: &'static str,
        level: Level,
        dialects: Dialects,
        rules: &'static str,
        says: &'static str,
        source: &'static str,
        fix: &'static str,
    ) -> Self {
        Self { id, side, kind, level, dialects, rules, says, source, fix }
    }

    /// True if this side is judged by it in this dialect.
    pub fn applies(&self, side: Side, dialect: Dialect) -> bool {
        self.side.is_none_or(|judged| judged == side) && self.dialects.has(dialect)
    }
}

/// The revisions of the table, oldest first. What a revision has never changes: new checks come with a new one.
pub const REVISIONS: [&str; 1] = ["2026-11"];

/// All checks.
pub fn all() -> impl Iterator<Item = &'static Check> {
    LAWS.iter().chain(PROBES.iter().map(|probe| &probe.check)).chain(agent::CHECKS).chain(client::CHECKS)
}

/// True if a scenario asserts a check.
pub(crate) fn asserts(part: &str, check: &Check) -> bool {
    match check.kind {
        Kind::Law => false,
        Kind::Probe => part == "probes",
        Kind::Scenario(parts) => parts.split(' ').any(|name| name == part),
    }
}

/// The scenarios that have to be played to judge the wanted checks of a side. What no scenario has for its own is found in any of them.
pub fn scenarios(side: Side, wanted: &dyn Fn(&Check) -> bool) -> Vec<&'static str> {
    let parts: &[&'static str] = if side == Side::Agent { &agent::SCENARIOS } else { &client::SCENARIOS };
    let of_side = |check: &&Check| check.side.is_none_or(|judged| judged == side) && wanted(check);
    let wanted: Vec<&Check> = all().filter(of_side).collect();
    let all = wanted.iter().any(|check| !parts.iter().any(|part| asserts(part, check)));
    let has = |part: &&str| all || wanted.iter().any(|check| asserts(part, check));
    parts.iter().copied().filter(has).collect()
}

/// The check of this name.
pub fn find(id: &str) -> Option<&'static Check> {
    all().find(|check| check.id == id)
}
