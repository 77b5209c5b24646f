//! Baselines: what is known to be broken. What is new fails, and so does what is no longer broken.

use crate::report::Report;
use crate::sheet::Verdict;
use std::collections::BTreeSet;

/// What is known to be broken: a dialect and a check per line.
#[derive(Debug, Default)]
pub struct Baseline(BTreeSet<String>);

impl Baseline {
    /// Reads a file: `DIALECT CHECK` per line; what follows `#` is a comment.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut known = BTreeSet::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                [_, check] if crate::table::find(check).is_some() => drop(known.insert(words.join(" "))),
                _ => return Err(format!("line {}: a dialect and the name of a check were expected", number + 1)),
            }
        }
        Ok(Self(known))
    }

    /// What a baseline of this report would say.
    pub fn of(report: &Report) -> String {
        let lines = report.findings().filter(|(_, finding)| finding.fails());
        lines.fold(String::new(), |text, (dialect, finding)| text + dialect + " " + finding.check.id + "\n")
    }

    /// What fails and is known, what fails and is not, and what is known and was seen to hold.
    pub fn compare(&self, report: &Report) -> [Vec<String>; 3] {
        let mut found = <[Vec<String>; 3]>::default();
        for (dialect, finding) in report.findings() {
            let known = self.0.contains(&format!("{dialect} {}", finding.check.id));
            let which = match (finding.fails(), known) {
                (true, true) => 0,
                (true, false) => 1,
                (false, true) if finding.verdict == Verdict::Holds => 2,
                (false, _) => continue,
            };
            found[which].push(format!("{} (protocol {dialect})", finding.check.id));
        }
        found
    }
}
