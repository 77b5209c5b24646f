//! The one table of checks, `rules/checks.txt`: what is judged, of whom, how sternly, where it is written, and what to change.

use std::collections::HashSet;
use std::sync::LazyLock;
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
        ["must", "should", "note"][self as usize]
    }
}

/// How something is found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// By looking at any recording.
    Law,
    /// By sending one thing and looking at what comes back.
    Probe(Probe),
    /// By playing a part.
    Scenario,
}

impl Kind {
    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Law => "law",
            Self::Probe(_) => "probe",
            Self::Scenario => "scenario",
        }
    }
}

/// What is sent, and what has to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// What is sent: `$ID` is our id, `$SESSION` and `$CWD` are those of the session, `$BLANK` is a blank.
    pub send: &'static str,
    /// What has to come back.
    pub expect: Expect,
}

/// What has to come back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// An error with this code; none: with any.
    Error(Option<i64>),
    /// An error without an id.
    Unnamed(Option<i64>),
    /// A result.
    Result,
    /// Nothing at all.
    Silence,
    /// Whatever comes, something does.
    Anything,
    /// An array of so many answers, or one error without an id.
    Batch(usize),
}

impl Expect {
    fn parse(text: &str) -> Option<Self> {
        let (word, number) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "error" => Self::Error(number.parse().ok()),
            "unnamed" => Self::Unnamed(number.parse().ok()),
            "result" => Self::Result,
            "silence" => Self::Silence,
            "anything" => Self::Anything,
            "batch" => Self::Batch(number.parse().ok()?),
            _ => return None,
        })
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
    /// The scenarios that assert it, with blanks between them.
    parts: &'static str,
    /// How much it weighs.
    pub level: Level,
    /// Where it holds.
    pub dialects: Dialects,
    /// The rules of `docs/rules.md` that it stands for.
    pub rules: &'static str,
    /// It can't be judged by the shape of values.
    pub needs_values: bool,
    /// Where one of these is broken, nothing can be said of this one.
    pub after: &'static str,
    /// What has to be true.
    pub says: &'static str,
    /// Where that is written.
    pub source: &'static str,
    /// What to change if it is not.
    pub fix: &'static str,
}

impl Check {
    /// A block of the table; `None` for what is no check. What the table has to have is in a list for each revision.
    fn parse(block: &'static str) -> Option<Self> {
        let (id, head) = block.lines().next()?.split_once(": ")?;
        let [kind, side, level, dialects] = head.split(", ").collect::<Vec<_>>().try_into().ok()?;
        let part = |name: &str| block.lines().find_map(|line| line.trim_start().strip_prefix(name));
        let needs_values = kind == "law of values";
        let (kind, parts) = match kind.split_once(' ').unwrap_or((kind, "")) {
            ("law", _) => (Kind::Law, ""),
            ("scenario", parts) => (Kind::Scenario, parts),
            _ => {
                let (send, expect) = (part("sends: ")?, Expect::parse(part("wants: ")?)?);
                (Kind::Probe(Probe { send, expect }), "probes")
            }
        };
        let side = [Side::Agent, Side::Client].into_iter().find(|one| one.to_string() == side);
        let level = [Level::Must, Level::Should, Level::Note].into_iter().find(|known| known.name() == level)?;
        let dialects = self::dialects(dialects)?;
        let [rules, source, says, fix] = [part("rules: ")?, part("from: ")?, part("says: ")?, part("fix: ")?];
        let after = part("after: ").unwrap_or_default();
        Some(Self { id, side, kind, parts, level, dialects, rules, needs_values, after, says, source, fix })
    }

    /// True if this side is judged by it in this dialect.
    pub fn applies(&self, side: Side, dialect: Dialect) -> bool {
        self.side.is_none_or(|judged| judged == side) && self.dialects.has(dialect)
    }
}

/// A set of dialects by its name in tables.
pub(crate) fn dialects(name: &str) -> Option<Dialects> {
    Some(match name {
        "all" => Dialects::ALL,
        "1" => Dialects::V1,
        "2-seed" => Dialects::SEED,
        "2" => Dialects::V2,
        "1 2" => Dialects::NOT_SEED,
        "1 2-seed" => Dialects::OLD,
        "2-seed 2" => Dialects::BOTH_V2,
        _ => return None,
    })
}

/// The revisions of the table, oldest first. What a revision has never changes: new checks come with a new one.
pub const REVISIONS: [&str; 1] = ["2026-11"];

static CHECKS: LazyLock<Vec<Check>> =
    LazyLock::new(|| include_str!("../rules/checks.txt").split("\n\n").filter_map(Check::parse).collect());

/// All checks.
pub fn all() -> impl Iterator<Item = &'static Check> {
    CHECKS.iter()
}

/// True if a scenario asserts a check.
pub(crate) fn asserts(part: &str, check: &Check) -> bool {
    check.parts.split(' ').any(|name| name == part)
}

/// The scenarios for a side, as they come in the table.
pub fn parts(side: Side) -> Vec<&'static str> {
    let mut seen = HashSet::new();
    let names = all().filter(|check| check.side == Some(side)).flat_map(|check| check.parts.split_whitespace());
    names.filter(|name| seen.insert(*name)).collect()
}

/// The scenarios that have to be played to judge the wanted checks of a side. What no scenario has for its own is found in any of them.
pub fn scenarios(side: Side, wanted: &dyn Fn(&Check) -> bool) -> Vec<&'static str> {
    let mut parts = parts(side);
    let of_side = |check: &&Check| check.side.is_none_or(|judged| judged == side) && wanted(check);
    let wanted: Vec<&Check> = all().filter(of_side).collect();
    let all = wanted.iter().any(|check| !parts.iter().any(|part| asserts(part, check)));
    let has = |part: &&str| all || wanted.iter().any(|check| asserts(part, check));
    parts.retain(has);
    parts
}

/// The check of this name.
pub fn find(id: &str) -> Option<&'static Check> {
    all().find(|check| check.id == id)
}
