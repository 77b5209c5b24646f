//! Every client in front of every agent, in any two dialects, through `tieline bridge`: the official SDKs' and ours.

use serde_json::Value;
use tieline_interop::{
    Framing, Outcome, RUN_DEADLINE, all_steps, bridged, our_agent, our_client, run, rust_agent, rust_client, ts_agent,
    ts_client,
};

/// What needs the client's files and terminals, which an agent of version 2 can't ask for.
const TOOLS: [&str; 3] = ["read", "write", "run"];

/// The steps that went wrong: what the client complains of, each behind the name of its step.
fn complaints(outcome: &Outcome) -> Vec<&str> {
    let steps = all_steps(1);
    let is_step = |line: &&str| line.split_once(": ").is_some_and(|(step, _)| steps.contains(&step));
    outcome.stderr.lines().filter(is_step).collect()
}

/// The whole scenario, each step as if nobody stood between.
#[track_caller]
fn holds(client: (&[String], &str), agent: (Vec<String>, &str)) -> Outcome {
    let ((client, theirs), (agent, speaks)) = (client, agent);
    let outcome = run(client, &bridged(&["--agent-protocol", speaks], &agent), RUN_DEADLINE);
    let tools_lost = theirs == "1" && speaks != "1";
    let wrong = complaints(&outcome);
    let wrong: Vec<_> =
        wrong.into_iter().filter(|why| !(tools_lost && TOOLS.iter().any(|step| why.starts_with(step)))).collect();
    assert!(wrong.is_empty() && !outcome.late, "{theirs} before {speaks}: {wrong:?}\n{outcome}");
    let version = if theirs == "1" { 1 } else { 2 };
    outcome.expect_steps(&all_steps(version));
    let hello = outcome.step("initialize").map(|hello| hello["protocol"].clone());
    assert_eq!(hello, Some(Value::from(version)), "{outcome}");
    outcome
}

#[test]
fn every_dialect_before_every_other() {
    for theirs in ["1", "2-seed", "2"] {
        for speaks in ["1", "2-seed", "2"] {
            holds((&our_client(theirs, Framing::Lines), theirs), (our_agent(speaks), speaks));
        }
    }
}

#[test]
fn the_rust_sdk_on_both_sides() {
    for (theirs, speaks) in [(1, 2), (2, 1), (1, 1), (2, 2)] {
        holds((&rust_client(theirs), &theirs.to_string()), (rust_agent(speaks), &speaks.to_string()));
    }
}

#[test]
fn the_typescript_sdk_on_both_sides() {
    for (theirs, speaks) in [(1, 2), (2, 1)] {
        holds((&ts_client(theirs), &theirs.to_string()), (ts_agent(speaks), &speaks.to_string()));
    }
}

#[test]
fn a_seed_era_client_before_the_official_agents() {
    for speaks in [1, 2] {
        let client = our_client("2-seed", Framing::Headers);
        holds((&client, "2-seed"), (rust_agent(speaks), &speaks.to_string()));
        holds((&client, "2-seed"), (ts_agent(speaks), &speaks.to_string()));
    }
}
