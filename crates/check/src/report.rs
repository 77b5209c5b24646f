//! Reports: findings for people, for programs, for CI, and as one page.

use crate::sheet::{Finding, Sheet, Verdict};
use crate::table::{Level, REVISIONS, all};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use tieline_json::push_line;
use tieline_trace::time;

/// So many frames before a breach are shown.
const FRAMES: usize = 12;

/// What was found out about one peer.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it is called: the program.
    pub name: String,
    /// One for each dialect.
    pub sheets: Vec<Sheet>,
}

/// How findings are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// They hold.
    pub holds: usize,
    /// MUST, and broken.
    pub broken: usize,
    /// SHOULD, and broken.
    pub warned: usize,
    /// Told, and nothing more.
    pub noted: usize,
    /// Not looked at.
    pub open: usize,
    /// Not for this peer.
    pub idle: usize,
    /// We are at fault.
    pub ours: usize,
}

impl Count {
    fn of<'f>(findings: impl Iterator<Item = &'f Finding>) -> Self {
        let mut count = Self::default();
        for finding in findings {
            *match (&finding.verdict, finding.check.level) {
                (Verdict::Holds, _) => &mut count.holds,
                (Verdict::Broken, Level::Must) => &mut count.broken,
                (Verdict::Broken, Level::Should) => &mut count.warned,
                (Verdict::Broken, Level::Note) => &mut count.noted,
                (Verdict::NotExercised, _) => &mut count.open,
                (Verdict::NotApplicable, _) => &mut count.idle,
                (Verdict::KitAtFault, _) => &mut count.ours,
            } += 1;
        }
        count
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} hold, {} broken, {} warnings, {} notes", self.holds, self.broken, self.warned, self.noted)?;
        write!(f, "; {} not exercised, {} not applicable", self.open, self.idle)?;
        if self.ours > 0 { write!(f, "; {} times the kit is at fault", self.ours) } else { Ok(()) }
    }
}

impl Report {
    /// All findings, with the names of their dialects.
    pub fn findings(&self) -> impl Iterator<Item = (&'static str, &Finding)> {
        self.sheets.iter().flat_map(|sheet| sheet.findings.values().map(|finding| (sheet.dialect.name(), finding)))
    }

    /// All of them counted.
    pub fn count(&self) -> Count {
        Count::of(self.findings().map(|(_, finding)| finding))
    }

    /// True if at least one dialect was judged.
    pub fn is_judged(&self) -> bool {
        self.sheets.iter().any(|sheet| sheet.dead.is_none() && sheet.unspoken.is_none())
    }

    /// For people. `whole` also shows what holds and what was not looked at.
    pub fn text(&self, whole: bool) -> String {
        let mut text = String::new();
        for sheet in &self.sheets {
            push_line(&mut text, format_args!("{} {}, protocol {}", sheet.side, self.name, sheet.dialect));
            if let Some(why) = &sheet.dead {
                push_line(&mut text, format_args!("  nothing can be said: {why}"));
                text.push('\n');
                continue;
            }
            if let Some(why) = &sheet.unspoken {
                push_line(&mut text, format_args!("  not judged: {why}"));
                text.push('\n');
                continue;
            }
            let findings: Vec<&Finding> = sheet.findings.values().collect();
            // What weighs most comes first, and what everything else stands on before the rest: the table begins with it.
            let mut wrong: Vec<&Finding> = findings.clone();
            wrong.retain(|finding| finding.verdict == Verdict::Broken || finding.fails());
            wrong.sort_by_key(|finding| (finding.check.level, all().position(|check| check.id == finding.check.id)));
            for finding in wrong {
                told(&mut text, finding);
            }
            if whole {
                for finding in findings.iter().filter(|finding| finding.verdict != Verdict::Broken) {
                    let why = if finding.said.is_empty() { String::new() } else { format!(": {}", finding.said) };
                    push_line(&mut text, format_args!("  {:14} {}{why}", finding.verdict.name(), finding.check.id));
                }
            } else {
                unexercised(&mut text, &findings);
            }
            let _ = writeln!(text, "  {}\n", Count::of(findings.into_iter()));
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let dialects: Vec<Value> = self
            .sheets
            .iter()
            .map(|sheet| {
                let checks: Vec<Value> = sheet.findings.values().map(finding_json).collect();
                json!({"side": sheet.side.name(), "dialect": sheet.dialect.name(), "dead": sheet.dead, "unspoken": sheet.unspoken, "checks": checks})
            })
            .collect();
        json!({"tieline-check": 1, "rules": REVISIONS[REVISIONS.len() - 1], "name": self.name, "dialects": dialects})
    }

    /// For CI that reads `JUnit`.
    pub fn junit(&self) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        for sheet in &self.sheets {
            let failed = sheet.findings.values().filter(|finding| finding.fails()).count();
            let name = format!("{} {} {}", sheet.side, self.name, sheet.dialect);
            let _ = writeln!(
                text,
                "<testsuite name=\"{}\" tests=\"{}\" failures=\"{failed}\">",
                xml(&name),
                sheet.findings.len()
            );
            for finding in sheet.findings.values() {
                let _ = write!(text, "<testcase classname=\"{}\" name=\"{}\">", xml(&name), finding.check.id);
                match &finding.verdict {
                    _ if finding.fails() => {
                        let mut more = String::new();
                        told(&mut more, finding);
                        let _ = write!(text, "<failure message=\"{}\">{}</failure>", xml(&finding.said), xml(&more));
                    }
                    Verdict::Broken => {
                        let _ = write!(
                            text,
                            "<system-out>{}</system-out>",
                            xml(&format!("{}: {}", finding.check.level.name(), finding.said))
                        );
                    }
                    Verdict::Holds => {}
                    verdict => {
                        let _ = write!(
                            text,
                            "<skipped message=\"{}\"/>",
                            xml(&format!("{}: {}", verdict.name(), finding.said))
                        );
                    }
                }
                text += "</testcase>\n";
            }
            text += "</testsuite>\n";
        }
        text + "</testsuites>\n"
    }

    /// For a page of a project.
    pub fn markdown(&self) -> String {
        matrix(&[self.json()])
    }

    /// For a badge service that reads an endpoint.
    pub fn badge(&self) -> Value {
        let count = self.count();
        let dialects: Vec<&str> = self
            .sheets
            .iter()
            .filter(|sheet| sheet.dead.is_none() && sheet.unspoken.is_none())
            .map(|sheet| sheet.dialect.name())
            .collect();
        let (message, color) = match (self.is_judged(), count.broken + count.ours) {
            (false, _) => ("not judged".to_owned(), "lightgrey"),
            (true, 0) => (format!("{} checks hold ({})", count.holds, dialects.join(", ")), "brightgreen"),
            (true, broken) => (format!("{broken} broken ({})", dialects.join(", ")), "red"),
        };
        json!({"schemaVersion": 1, "label": "ACP", "message": message, "color": color})
    }
}

/// What is wrong, in full.
fn told(text: &mut String, finding: &Finding) {
    let check = finding.check;
    let word = match (&finding.verdict, check.level) {
        (Verdict::KitAtFault, _) => "KIT AT FAULT",
        (_, Level::Must) => "BROKEN",
        (_, Level::Should) => "warning",
        (_, Level::Note) => "note",
    };
    push_line(text, format_args!("  {word} {}: {}", check.id, check.says));
    if check.level == Level::Note {
        let said: String = finding.said.chars().take(160).collect();
        push_line(text, format_args!("    {said}"));
        return;
    }
    push_line(text, format_args!("    {}", finding.said));
    push_line(text, format_args!("    rule: {} ({}); found in: {}", check.rules, check.source, finding.part));
    push_line(text, format_args!("    to change: {}", check.fix));
    for (number, line) in shown(finding) {
        let mark = if number == finding.frame { '>' } else { ' ' };
        let cut: String = line.text.chars().take(160).collect();
        push_line(text, format_args!("    {mark} {:>9} {:6} {cut}", time(line.at), line.from.name()));
    }
}

fn shown(finding: &Finding) -> impl Iterator<Item = (usize, &crate::sheet::Line)> {
    let end = (finding.frame + 1).min(finding.log.len());
    let lines = if finding.part == "probes" { 4 } else { FRAMES / 2 };
    finding.log.iter().enumerate().take(end).skip(end.saturating_sub(lines))
}

/// What was not looked at, by the reason.
fn unexercised(text: &mut String, findings: &[&Finding]) {
    let mut why: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for finding in
        findings.iter().filter(|finding| matches!(finding.verdict, Verdict::NotExercised | Verdict::NotApplicable))
    {
        why.entry((finding.verdict.name(), &finding.said)).or_default().push(finding.check.id);
    }
    for ((verdict, said), ids) in why {
        push_line(text, format_args!("  {verdict} ({said}): {}", ids.join(", ")));
    }
}

fn finding_json(finding: &Finding) -> Value {
    let mut value = json!({
        "id": finding.check.id, "kind": finding.check.kind.name(), "level": finding.check.level.name(), "verdict": finding.verdict.name(),
    });
    if finding.verdict != Verdict::Holds {
        value["said"] = finding.said.clone().into();
    }
    if finding.verdict == Verdict::Broken {
        let end = (finding.frame + 1).min(finding.log.len());
        let from = end.saturating_sub(FRAMES);
        let frames: Vec<Value> = finding.log[from..end]
            .iter()
            .map(|line| json!({"at": line.at, "from": line.from.name(), "text": line.text}))
            .collect();
        value["part"] = finding.part.clone().into();
        value["says"] = finding.check.says.into();
        value["fix"] = finding.check.fix.into();
        value["rules"] = finding.check.rules.into();
        value["source"] = finding.check.source.into();
        value["frames"] = frames.into();
    }
    value
}

/// Text inside of XML, without what XML can't hold.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' => out.push(character),
            character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            character => out.push(character),
        }
    }
    out
}

/// Text inside of a table, where nothing of it may be markup.
fn cell(text: &str) -> String {
    let text: String = text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('`', "'")
}

/// Several reports as one page: checks down, peers across, each cell with its frames. It needs nothing else and asks nobody.
pub fn page(reports: &[Value]) -> String {
    // Nothing in the data can end the script it stands in.
    let data = Value::from(reports.to_vec()).to_string().replace('<', "\\u003c");
    include_str!("page.html").replacen("/*DATA*/[]", &data, 1)
}

/// The same as a table: peers down, what was counted across.
pub fn matrix(reports: &[Value]) -> String {
    let mut text = String::from(
        "| peer | protocol | holds | broken | warnings | notes | not exercised | not applicable |\n|---|---|---|---|---|---|---|---|\n",
    );
    let word = |value: &Value| cell(value.as_str().unwrap_or_default());
    for report in reports {
        for sheet in report["dialects"].as_array().into_iter().flatten() {
            let _ =
                write!(text, "| {} {} | {} |", word(&sheet["side"]), word(&report["name"]), word(&sheet["dialect"]));
            if let Some(why) = sheet["dead"].as_str().or(sheet["unspoken"].as_str()) {
                let _ = writeln!(text, " {} | | | | | |", cell(why));
                continue;
            }
            let checks = || sheet["checks"].as_array().into_iter().flatten();
            let count = |verdict: &str, level: &str| {
                checks()
                    .filter(|check| check["verdict"] == verdict && (level.is_empty() || check["level"] == level))
                    .count()
            };
            let counts = [
                count("holds", ""),
                count("broken", "must"),
                count("broken", "should"),
                count("broken", "note"),
                count("not exercised", ""),
                count("not applicable", ""),
            ];
            let counts: Vec<String> = counts.iter().map(ToString::to_string).collect();
            let _ = writeln!(text, " {} |", counts.join(" | "));
        }
    }
    let mut broken = String::new();
    for report in reports {
        for sheet in report["dialects"].as_array().into_iter().flatten() {
            for check in sheet["checks"].as_array().into_iter().flatten().filter(|check| check["verdict"] == "broken") {
                let cells = [&sheet["dialect"], &check["id"], &check["level"], &check["said"]].map(word);
                let _ =
                    writeln!(broken, "| {} {} | {} |", word(&sheet["side"]), word(&report["name"]), cells.join(" | "));
            }
        }
    }
    if !broken.is_empty() {
        text += "\n| peer | protocol | check | level | what is wrong |\n|---|---|---|---|---|\n";
    }
    text + &broken
}
