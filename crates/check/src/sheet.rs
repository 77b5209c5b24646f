//! Verdicts: what was found out about each check, with the frames that show it.

use crate::table::{Check, Kind, Level, all, asserts};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use tieline_schema::Dialect;
use tieline_trace::Side;

/// So many frames are shown with a breach, the one that it is about and those before.
pub(crate) const FRAMES: usize = 12;

/// So many different faults of one kind are told.
const MAX_FAULTS: usize = 8;

/// One frame, as evidence.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    /// Its number: in the recording, or among all that one process and the kit said.
    pub frame: usize,
    /// Microseconds since the first frame, or since the start of the recording.
    pub at: u64,
    /// Who sent it.
    pub from: Side,
    /// What it says, cut if it is long.
    pub text: String,
}

/// Everything that one process and the kit said to each other.
pub type Log = Arc<Vec<Line>>;

/// What was found out about a check. Of two verdicts about one check the heavier one stays: the later one here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// It is not for this peer: what it is about was not offered.
    NotApplicable,
    /// It could not be looked at.
    NotExercised,
    /// It was looked at, and is true.
    Holds,
    /// We did something wrong, so nothing can be said.
    KitAtFault,
    /// It is not true.
    Broken,
}

impl Verdict {
    /// What was looked at holds, or does not; then it is said why.
    pub(crate) fn of(holds: bool, said: impl FnOnce() -> String) -> (Self, String) {
        if holds { (Self::Holds, String::new()) } else { (Self::Broken, said()) }
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        ["not applicable", "not exercised", "holds", "kit at fault", "broken"][self as usize]
    }
}

/// A verdict and why.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The check.
    pub check: &'static Check,
    /// The verdict.
    pub verdict: Verdict,
    /// Why: what is wrong, or why nothing can be said.
    pub said: String,
    /// Where it was found out.
    pub part: String,
    /// The frames up to it.
    pub log: Log,
    /// The frame it is about, an index into `log`.
    pub frame: usize,
}

impl Finding {
    /// One without frames.
    fn unseen(check: &'static Check, verdict: Verdict, why: &str, part: &str) -> Self {
        Self { check, verdict, said: why.to_owned(), part: part.to_owned(), log: Log::default(), frame: 0 }
    }

    /// The names of its verdict and its level.
    pub(crate) fn names(&self) -> (&'static str, &'static str) {
        (self.verdict.name(), self.check.level.name())
    }

    /// The frames that show it: so many, the last one is what it is about. With their places in the log.
    pub fn frames(&self, most: usize) -> impl Iterator<Item = (usize, &Line)> {
        let end = (self.frame + 1).min(self.log.len());
        self.log.iter().enumerate().take(end).skip(end.saturating_sub(most))
    }

    /// Other things that break the same law, a line for each.
    pub(crate) fn also(&mut self, said: &str) {
        // One fault with many ids is one.
        let bare = |line: &str| line.split('"').step_by(2).collect::<String>();
        for line in said.lines() {
            let known = self.said.lines().any(|known| bare(known) == bare(line));
            if !known && self.said.lines().count() < MAX_FAULTS {
                self.said = format!("{}\n{line}", self.said);
            }
        }
    }

    /// True if this fails a run: broken, and the protocol says MUST; or we could not judge.
    pub fn fails(&self) -> bool {
        self.verdict == Verdict::KitAtFault || self.verdict == Verdict::Broken && self.check.level == Level::Must
    }
}

/// True for the names of verdicts that are told in full.
pub(crate) fn is_wrong(verdict: &str) -> bool {
    [Verdict::Broken, Verdict::KitAtFault].map(Verdict::name).contains(&verdict)
}

/// Where a finding comes in reports, by the names of its verdict, its level and its check: what is wrong comes first, what weighs most before
/// the rest; then it is as in the table, which begins with what everything else stands on.
pub(crate) fn rank(verdict: &str, level: &str, id: &str) -> (usize, usize) {
    let levels = [Level::Must, Level::Should, Level::Note].map(Level::name);
    let weight = levels.into_iter().position(|name| name == level && is_wrong(verdict));
    (weight.unwrap_or(levels.len()), all().position(|check| check.id == id).unwrap_or(usize::MAX))
}

/// The findings about one peer in one dialect.
#[derive(Debug, Clone)]
pub struct Sheet {
    /// The dialect.
    pub dialect: Dialect,
    /// Who is judged.
    pub side: Side,
    /// Why nothing can be said at all, if that is so: a dead peer scores nothing.
    pub dead: Option<String>,
    /// Why this dialect is not spoken, if that is so.
    pub unspoken: Option<String>,
    /// Why no session was opened, if none was: then little was judged.
    pub barred: Option<String>,
    /// One was.
    pub(crate) opened: bool,
    /// By the names of the checks.
    pub findings: BTreeMap<&'static str, Finding>,
}

impl Sheet {
    /// An empty one.
    pub fn new(side: Side, dialect: Dialect) -> Self {
        Self { dialect, side, dead: None, unspoken: None, barred: None, opened: false, findings: BTreeMap::new() }
    }

    /// True if something can be said about the peer in this dialect.
    pub fn is_judged(&self) -> bool {
        self.dead.is_none() && self.unspoken.is_none()
    }

    /// Takes a finding; the heavier one of two stays.
    pub fn add(&mut self, finding: Finding) {
        if !finding.check.applies(self.side, self.dialect) {
            return;
        }
        match self.findings.get_mut(finding.check.id) {
            Some(old) if old.verdict == finding.verdict && old.check.kind == Kind::Law => old.also(&finding.said),
            Some(old) if old.verdict >= finding.verdict => {}
            _ => drop(self.findings.insert(finding.check.id, finding)),
        }
    }

    /// A scenario found nothing out about what it asserts, and why.
    pub(crate) fn leave(&mut self, part: &str, verdict: Verdict, why: &str) {
        for check in all().filter(|check| asserts(part, check)) {
            self.add(Finding::unseen(check, verdict, why, part));
        }
    }

    /// All findings, in the order of reports.
    pub(crate) fn in_order(&self) -> Vec<&Finding> {
        let mut findings: Vec<&Finding> = self.findings.values().collect();
        findings.sort_by_cached_key(|it| rank(it.verdict.name(), it.check.level.name(), it.check.id));
        findings
    }

    /// All findings of another sheet.
    pub fn merge(&mut self, other: Sheet) {
        self.dead = self.dead.take().or(other.dead);
        self.opened |= other.opened;
        self.barred = self.barred.take().or(other.barred).filter(|_| !self.opened);
        other.findings.into_values().for_each(|finding| self.add(finding));
    }

    /// Everything that applies and that nobody looked at is said to be so.
    pub fn complete(&mut self, wanted: &dyn Fn(&Check) -> bool) {
        let why = self.dead.as_ref().or(self.unspoken.as_ref()).or(self.barred.as_ref()).cloned();
        if !self.is_judged() {
            self.findings.clear();
        }
        let broken: Vec<&str> =
            self.findings.values().filter(|it| it.verdict == Verdict::Broken).map(|it| it.check.id).collect();
        for finding in self.findings.values_mut().filter(|finding| broken.contains(&finding.check.id)) {
            // What follows from something else is no finding of its own.
            if let Some(first) = finding.check.after.split(' ').find(|id| broken.contains(id)) {
                finding.verdict = Verdict::NotExercised;
                finding.said = format!("`{first}` is broken: mend that first");
            }
        }
        let (side, dialect) = (self.side, self.dialect);
        for check in all().filter(|check| check.applies(side, dialect) && wanted(check)) {
            let why = why.as_deref().unwrap_or("it did not come up");
            let finding = Finding::unseen(check, Verdict::NotExercised, why, "");
            self.findings.entry(check.id).or_insert(finding);
        }
        self.findings.retain(|_, finding| wanted(finding.check));
    }
}
