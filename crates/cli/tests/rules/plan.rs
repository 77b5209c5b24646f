//! Plans.

use crate::bench::{ALL, Row, V2, check, of, row};
use serde_json::{Value, json};

fn entries(update: &Value) -> Option<Vec<Value>> {
    let list = update["entries"].as_array().or_else(|| update["plan"]["entries"].as_array())?;
    Some(list.clone())
}

pub const ROWS: &[Row] = &[
    row(&["V1-PLAN-01", "V1-PLAN-02", "V2-PLAN-01"], ALL, |b| {
        b.updates("plan First; Second");
        let plans: Vec<Vec<Value>> = b.client.updates.iter().filter_map(entries).collect();
        assert_eq!(plans.len(), 3);
        assert!(plans.iter().all(|entries| entries.len() == 2), "all entries each time: {plans:?}");
        let statuses = |at: usize| plans[at].iter().map(|entry| entry["status"].as_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(statuses(0), ["in_progress", "pending"]);
        assert_eq!(statuses(2), ["completed", "completed"]);
        assert!(plans[0].iter().all(|entry| entry["content"].is_string() && entry["priority"].is_string()));
    }),
    row(&["V1-PLAN-04"], ALL, |b| {
        b.updates("plan One; Two\nplan Three");
        let plans: Vec<Vec<Value>> = b.client.updates.iter().filter_map(entries).collect();
        assert_eq!((plans[0].len(), plans.last().unwrap().len()), (2, 1));
    }),
    row(&["V2-PLAN-02", "V2-PLAN-04"], V2, |b| {
        b.updates("plan One; Two");
        assert!(of(&b.client.updates, "plan").is_empty());
        let key = if b.is("2") { "planId" } else { "id" };
        let plans = of(&b.client.updates, "plan_update");
        assert!(!plans.is_empty() && plans.iter().all(|update| update["plan"][key] == plans[0]["plan"][key]));
        assert!(plans[0]["plan"][key].is_string(), "{}", plans[0]);
        b.updates(&format!("update {}", json!({"sessionUpdate": "plan_update", "plan": {"type": "items", "id": "two", "planId": "two", "entries": []}})));
        assert_eq!(of(&b.client.updates, "plan_update")[0]["plan"][key], "two");
    }),
];

#[test]
fn plan() {
    check(ROWS);
}
