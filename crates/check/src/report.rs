//! Reports: findings for people, for programs, for CI, and as one page.

use crate::sheet::{FRAMES, Finding, Sheet, Verdict, is_wrong, rank};
use crate::table::{Level, REVISIONS};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write as _;
use tieline_json::push_line;
use tieline_trace::time;

/// What was found out about one peer.
#[derive(Debug, Clone)]
pub struct Report {
    /// What it is called: the program.
    pub name: String,
    /// One for each dialect.
    pub sheets: Vec<Sheet>,
}

/// How many findings hold, are broken (MUST), are warnings (SHOULD), are notes, were not looked at, are not for this peer; and for how many
/// we are at fault.
type Count = [usize; 7];

/// Counts by the names of verdicts and levels, as they are in a report for programs.
fn count<'n>(findings: impl Iterator<Item = (&'n str, &'n str)>) -> Count {
    findings.fold(Count::default(), |mut count, finding| {
        count[match finding {
            ("holds", _) => 0,
            ("broken", "must") => 1,
            ("broken", "should") => 2,
            ("broken", _) => 3,
            ("not exercised", _) => 4,
            ("not applicable", _) => 5,
            _ => 6,
        }] += 1;
        count
    })
}

/// A count in words.
fn counted([holds, broken, warned, noted, open, idle, ours]: Count) -> String {
    let ours = if ours > 0 { format!("; {ours} times the kit is at fault") } else { String::new() };
    let all = format!("{holds} hold, {broken} broken, {warned} warnings, {noted} notes");
    format!("{all}; {open} not exercised, {idle} not applicable{ours}")
}

impl Report {
    /// All findings, with the names of their dialects.
    pub fn findings(&self) -> impl Iterator<Item = (&'static str, &Finding)> {
        self.sheets.iter().flat_map(|sheet| sheet.findings.values().map(|finding| (sheet.dialect.name(), finding)))
    }

    /// True if at least one dialect was judged.
    pub fn is_judged(&self) -> bool {
        self.sheets.iter().any(Sheet::is_judged)
    }

    /// Why a dialect was hardly judged although it is spoken.
    pub fn barred(&self) -> Option<&str> {
        self.sheets.iter().find_map(|sheet| sheet.barred.as_deref())
    }

    /// For people. `whole` also shows what holds and what was not looked at.
    pub fn text(&self, whole: bool) -> String {
        let mut text = String::new();
        for sheet in &self.sheets {
            push_line(&mut text, format_args!("{} {}, protocol {}", sheet.side, self.name, sheet.dialect));
            let dead = sheet.dead.as_ref().map(|why| format!("nothing can be said: {why}"));
            let unspoken = sheet.unspoken.as_ref().map(|why| format!("not judged: {why}"));
            if let Some(why) = dead.or(unspoken) {
                push_line(&mut text, format_args!("  {why}"));
                text.push('\n');
                continue;
            }
            if let Some(why) = &sheet.barred {
                push_line(&mut text, format_args!("  only what needs no session could be judged: {why}"));
            }
            let findings = sheet.in_order();
            for finding in &findings {
                let why = if finding.said.is_empty() { String::new() } else { format!(": {}", finding.said) };
                if is_wrong(finding.verdict.name()) {
                    told(&mut text, finding);
                } else if whole {
                    push_line(&mut text, format_args!("  {:14} {}{why}", finding.verdict.name(), finding.check.id));
                }
            }
            if !whole {
                unexercised(&mut text, &findings);
            }
            let _ = writeln!(text, "  {}\n", counted(count(findings.into_iter().map(Finding::names))));
        }
        text
    }

    /// For programs.
    pub fn json(&self) -> Value {
        let dialect = |sheet: &Sheet| {
            let checks: Vec<Value> = sheet.in_order().into_iter().map(finding_json).collect();
            json!({"side": sheet.side, "dialect": sheet.dialect.name(), "dead": sheet.dead, "unspoken": sheet.unspoken, "barred": sheet.barred, "checks": checks})
        };
        let dialects: Vec<Value> = self.sheets.iter().map(dialect).collect();
        json!({"tieline-check": 1, "rules": REVISIONS[REVISIONS.len() - 1], "name": self.name, "dialects": dialects})
    }

    /// For CI that reads `JUnit`.
    pub fn junit(&self) -> String {
        let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        for sheet in &self.sheets {
            let failed = sheet.findings.values().filter(|finding| finding.fails()).count();
            let name = xml(&format!("{} {} {}", sheet.side, self.name, sheet.dialect));
            let tests = sheet.findings.len();
            let _ = writeln!(text, r#"<testsuite name="{name}" tests="{tests}" failures="{failed}">"#);
            for finding in sheet.in_order() {
                let id = finding.check.id;
                let (verdict, level) = (finding.verdict.name(), finding.check.level.name());
                let said = xml(&finding.said);
                let outcome = match finding.verdict {
                    _ if finding.fails() => {
                        let mut more = String::new();
                        told(&mut more, finding);
                        format!(r#"<failure message="{said}">{}</failure>"#, xml(&more))
                    }
                    Verdict::Broken => format!("<system-out>{level}: {said}</system-out>"),
                    Verdict::Holds => String::new(),
                    _ => format!(r#"<skipped message="{verdict}: {said}"/>"#),
                };
                let _ = writeln!(text, r#"<testcase classname="{name}" name="{id}">{outcome}</testcase>"#);
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
        let [holds, broken, .., ours] = count(self.findings().map(|(_, finding)| finding.names()));
        let judged = self.sheets.iter().filter(|sheet| sheet.is_judged());
        let dialects: Vec<&str> = judged.map(|sheet| sheet.dialect.name()).collect();
        let (message, color) = match (self.is_judged(), broken + ours) {
            (false, _) => ("not judged".to_owned(), "lightgrey"),
            (true, 0) if self.barred().is_some() => ("no session".to_owned(), "lightgrey"),
            (true, 0) => (format!("{holds} checks hold ({})", dialects.join(", ")), "brightgreen"),
            (true, broken) => (format!("{broken} broken ({})", dialects.join(", ")), "red"),
        };
        json!({"schemaVersion": 1, "label": "ACP", "message": message, "color": color})
    }
}

/// What is wrong, in full.
fn told(text: &mut String, finding: &Finding) {
    let check = finding.check;
    let word = match (finding.verdict, check.level) {
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
    for (number, line) in finding.said.lines().enumerate() {
        push_line(text, format_args!("    {}{line}", if number == 0 { "" } else { "also: " }));
    }
    push_line(text, format_args!("    rule: {} ({}); found in: {}", check.rules, check.source, finding.part));
    push_line(text, format_args!("    to change: {}", check.fix));
    for (number, line) in finding.frames(if finding.part == "probes" { 4 } else { FRAMES / 2 }) {
        // The one that it is about has what it is about.
        let (mark, most) = if number == finding.frame { ('>', 1000) } else { (' ', 160) };
        let cut: String = line.text.chars().take(most).collect();
        push_line(text, format_args!("    {mark} {} {:>9} {:6} {cut}", line.frame, time(line.at), line.from));
    }
}

/// What was not looked at, by the reason.
fn unexercised(text: &mut String, findings: &[&Finding]) {
    let mut why: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    let open = |finding: &&&Finding| matches!(finding.verdict, Verdict::NotExercised | Verdict::NotApplicable);
    for finding in findings.iter().filter(open) {
        why.entry((finding.verdict.name(), &finding.said)).or_default().push(finding.check.id);
    }
    for ((verdict, said), ids) in why {
        push_line(text, format_args!("  {verdict} ({said}): {}", ids.join(", ")));
    }
}

pub(crate) fn finding_json(finding: &Finding) -> Value {
    let mut value = json!({
        "id": finding.check.id, "kind": finding.check.kind.name(), "level": finding.check.level.name(), "verdict": finding.verdict.name(),
    });
    if finding.verdict != Verdict::Holds {
        value["said"] = finding.said.clone().into();
    }
    if finding.verdict == Verdict::Broken {
        value["part"] = finding.part.clone().into();
        value["says"] = finding.check.says.into();
        value["fix"] = finding.check.fix.into();
        value["rules"] = finding.check.rules.into();
        value["source"] = finding.check.source.into();
        value["frames"] = finding.frames(FRAMES).map(|(_, line)| json!(line)).collect();
    }
    value
}

/// Text inside of XML, without what XML can't hold.
fn xml(text: &str) -> String {
    let bad = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{fffe}' | '\u{ffff}');
    let text = text.replace(bad, "\u{fffd}").replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Text inside of a table, where nothing of it may be markup.
fn cell(text: &str) -> String {
    let text: String = text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace('`', "'")
}

/// A text of a report for programs.
fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What is in a list; nothing if it is none.
pub(crate) fn items(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// Several reports as one page: checks down, peers across, each cell with its frames. It needs nothing else and asks nobody.
pub fn page(reports: &[Value]) -> String {
    let sheets = reports.iter().flat_map(|report| items(&report["dialects"]));
    let checks = sheets.flat_map(|sheet| items(&sheet["checks"]));
    let mut ids: Vec<_> = checks
        .map(|check| [&check["verdict"], &check["level"], &check["id"]].map(plain))
        .map(|[verdict, level, id]| (rank(verdict, level, id), id))
        .collect();
    ids.sort_unstable();
    let mut seen = HashSet::new();
    let ids: Vec<&str> = ids.into_iter().map(|(_, id)| id).filter(|id| seen.insert(*id)).collect();
    // Nothing in the data can end the script it stands in.
    let data = json!([reports, ids]).to_string().replace('<', "\\u003c");
    include_str!("page.html").replacen("/*DATA*/[[], []]", &data, 1)
}

/// The same as a table: peers down, what was counted across.
pub fn matrix(reports: &[Value]) -> String {
    let mut text = String::from(
        "| peer | protocol | holds | broken | warnings | notes | not exercised | not applicable |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut wrong = String::new();
    let word = |value: &Value| cell(plain(value));
    for report in reports {
        for sheet in items(&report["dialects"]) {
            let checks = items(&sheet["checks"]);
            let [side, name, dialect] = [&sheet["side"], &report["name"], &sheet["dialect"]].map(word);
            let peer = format!("| {side} {name} | {dialect} |");
            text += &peer;
            if let Some(why) = sheet["dead"].as_str().or(sheet["unspoken"].as_str()) {
                let _ = writeln!(text, " {} | | | | | |", cell(why));
                continue;
            }
            let names = checks.iter().map(|check| (plain(&check["verdict"]), plain(&check["level"])));
            let [holds, broken, warned, noted, open, idle, _] = count(names);
            let _ = writeln!(text, " {holds} | {broken} | {warned} | {noted} | {open} | {idle} |");
            for check in checks.iter().filter(|check| is_wrong(plain(&check["verdict"]))) {
                let cells = [&check["id"], &check["level"], &check["said"]].map(word);
                let _ = writeln!(wrong, "{peer} {} |", cells.join(" | "));
            }
        }
    }
    if !wrong.is_empty() {
        text += "\n| peer | protocol | check | level | what is wrong |\n|---|---|---|---|---|\n";
    }
    text + &wrong
}
