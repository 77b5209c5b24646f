//! Crosses the official SDKs with each other, which proves that the common vocabulary is right.

use std::time::{Duration, Instant};
use tieline_interop::oracle::check_wire;
use tieline_interop::{RUN_DEADLINE, all_steps, run, rust_agent, rust_client, tap, tapped, ts_agent, ts_client};

#[track_caller]
fn whole_scenario(client: &[String], agent: &[String], version: u16) {
    let outcome = run(client, agent, RUN_DEADLINE);
    outcome.expect_ok();
    outcome.expect_steps(&all_steps(version));
}

#[test]
fn rust_client_with_ts_agent_v1() {
    whole_scenario(&rust_client(1), &ts_agent(1), 1);
}

#[test]
fn rust_client_with_ts_agent_v2() {
    whole_scenario(&rust_client(2), &ts_agent(2), 2);
}

#[test]
fn ts_client_with_rust_agent_v1() {
    whole_scenario(&ts_client(1), &rust_agent(1), 1);
}

#[test]
fn ts_client_with_rust_agent_v2() {
    whole_scenario(&ts_client(2), &rust_agent(2), 2);
}

#[test]
fn rust_client_with_rust_agent() {
    whole_scenario(&rust_client(1), &rust_agent(1), 1);
    whole_scenario(&rust_client(2), &rust_agent(2), 2);
}

#[test]
fn ts_client_with_ts_agent() {
    whole_scenario(&ts_client(1), &ts_agent(1), 1);
    whole_scenario(&ts_client(2), &ts_agent(2), 2);
}

#[test]
fn both_clients_report_the_same_about_the_same_agent() {
    for version in [1, 2] {
        let rust = run(&rust_client(version), &rust_agent(version), RUN_DEADLINE);
        let ts = run(&ts_client(version), &rust_agent(version), RUN_DEADLINE);
        for step in ["say", "tool_allow", "tool_reject", "plan", "fail"] {
            assert_eq!(rust.step(step), ts.step(step), "version {version}:\n{rust}\n{ts}");
        }
    }
}

#[test]
fn the_wires_of_the_official_peers_please_the_oracle() {
    for version in [1, 2] {
        for (client, agent) in [(rust_client(version), ts_agent(version)), (ts_client(version), rust_agent(version))] {
            let folder = tempfile::tempdir().unwrap();
            run(&client, &tap(&agent, folder.path()), RUN_DEADLINE).expect_ok();
            let wire = tapped(folder.path());
            assert!(wire.len() > 50, "only {} messages", wire.len());
            assert_eq!(check_wire(version, &wire), [""; 0], "{client:?} with {agent:?}");
        }
    }
}

#[test]
fn an_agent_of_the_other_version_fails_the_run() {
    for (client, agent) in [
        (rust_client(2), rust_agent(1)),
        (rust_client(1), ts_agent(2)),
        (ts_client(2), ts_agent(1)),
        (ts_client(1), rust_agent(2)),
    ] {
        let outcome = run(&client, &agent, RUN_DEADLINE);
        assert!(!outcome.ok() && !outcome.late, "{outcome}");
        assert_eq!(outcome.code, Some(1), "{outcome}");
        assert!(outcome.step("done").is_some_and(|line| line["ok"] == false), "{outcome}");
        assert!(outcome.stderr.contains("initialize"), "{outcome}");
    }
}

#[test]
fn an_agent_that_leaves_at_once_fails_the_run() {
    for client in [rust_client(1), ts_client(1)] {
        let outcome = run(&client, &["false".into()], RUN_DEADLINE);
        assert!(!outcome.ok() && !outcome.late, "{outcome}");
        assert!(!outcome.stderr.is_empty(), "{outcome}");
    }
}

#[test]
fn a_client_that_hangs_is_ended() {
    let client = ["sh", "-c", "echo '{\"step\":\"begun\"}'; sleep 60"].map(String::from);
    let start = Instant::now();
    let outcome = run(&client, &[], Duration::from_millis(300));
    assert!(outcome.late && !outcome.ok(), "{outcome}");
    assert!(outcome.step("begun").is_some(), "{outcome}");
    assert!(start.elapsed() < Duration::from_secs(10), "{outcome}");
}
