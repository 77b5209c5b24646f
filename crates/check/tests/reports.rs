//! Every form of a report has one order: what is wrong, by its weight, then as in the table.

#![allow(clippy::unwrap_used)]

use serde_json::Value;
use tieline_check::table::{all, find};
use tieline_check::{Finding, Log, Report, Sheet, Verdict, matrix, page};
use tieline_schema::Dialect;
use tieline_trace::Side;

/// What is wrong here, against the alphabet.
const WRONG: [(&str, Verdict); 4] = [
    ("agent-lives", Verdict::Broken),
    ("cancel-then", Verdict::KitAtFault),
    ("hello-info", Verdict::Broken),
    ("turn-last", Verdict::Broken),
];
const FIRST: [&str; 4] = ["turn-last", "agent-lives", "cancel-then", "hello-info"];

fn report(wrong: &[(&str, Verdict)]) -> Report {
    let mut sheet = Sheet::new(Side::Agent, Dialect::V1);
    for (id, verdict) in wrong {
        let (check, said) = (find(id).unwrap(), "broken on purpose".to_owned());
        sheet.add(Finding { check, verdict: *verdict, said, part: "turn".into(), log: Log::default(), frame: 0 });
    }
    sheet.complete(&|_| true);
    Report { name: "it".into(), sheets: vec![sheet] }
}

/// The places of these texts, which have to be there.
fn places(text: &str, start: &str, ids: &[&str], end: &str) -> Vec<usize> {
    ids.iter().map(|id| text.find(&format!("{start}{id}{end}")).unwrap_or_else(|| panic!("{id}: {text}"))).collect()
}

fn ids(report: &Report) -> Vec<String> {
    let json = report.json();
    let checks = json["dialects"][0]["checks"].as_array().unwrap();
    checks.iter().map(|check| check["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_wrong_comes_first_and_then_it_is_as_in_the_table() {
    let report = report(&WRONG);
    let applies = all().filter(|check| check.applies(Side::Agent, Dialect::V1)).map(|check| check.id);
    let wanted: Vec<&str> = FIRST.into_iter().chain(applies.filter(|id| !FIRST.contains(id))).collect();
    assert_eq!(ids(&report), wanted);
    for (text, start, ids, end) in [
        (report.text(true), " ", &FIRST[..], ": "),
        (report.text(true), "not exercised  ", &wanted[4..], ": "),
        (report.junit(), "name=\"", &wanted, "\""),
        (matrix(&[report.json()]), "| ", &FIRST, " |"),
    ] {
        assert!(places(&text, start, ids, end).is_sorted(), "{text}");
    }
    // What the kit is at fault for is told once.
    assert_eq!(report.text(true).matches("cancel-then").count(), 1);
}

#[test]
fn a_page_of_several_reports_has_that_order_too() {
    let text = page(&[report(&[]).json(), report(&WRONG).json(), report(&[("wire-json", Verdict::Broken)]).json()]);
    let (_, data) = text.split_once("const [reports, ids] = ").unwrap();
    let data: Value = serde_json::from_str(data.split_once(";\n").unwrap().0).unwrap();
    let ids: Vec<&str> = data[1].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let first = ["wire-json", "turn-last", "agent-lives", "cancel-then", "hello-info", "rpc-version"];
    assert_eq!(ids[..6], first);
    assert_eq!(ids.len(), data[0][0]["dialects"][0]["checks"].as_array().unwrap().len());
}
