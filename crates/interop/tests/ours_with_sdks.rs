//! Runs our agent and our client through the scenario, against the official SDKs and against each other.

use tieline_interop::{
    Framing, Outcome, RUN_DEADLINE, all_steps, our_agent, our_client, run, rust_agent, rust_client, ts_agent, ts_client,
};

#[track_caller]
fn whole_scenario(client: &[String], agent: &[String], version: u16) -> Outcome {
    let outcome = run(client, agent, RUN_DEADLINE);
    outcome.expect_ok();
    outcome.expect_steps(&all_steps(version));
    outcome
}

#[track_caller]
fn says(outcome: &Outcome, agent: &str, version: u16) {
    let hello = outcome.step("initialize").unwrap_or_else(|| panic!("{outcome}"));
    assert_eq!((hello["agent"].as_str(), hello["protocol"].as_u64()), (Some(agent), Some(version.into())), "{outcome}");
}

fn ours(protocol: &str) -> Vec<String> {
    our_client(protocol, Framing::Lines)
}

#[test]
fn our_agent_with_the_rust_client() {
    says(&whole_scenario(&rust_client(1), &our_agent("auto"), 1), "ours-agent", 1);
    says(&whole_scenario(&rust_client(2), &our_agent("auto"), 2), "ours-agent", 2);
}

#[test]
fn our_agent_with_the_ts_client() {
    says(&whole_scenario(&ts_client(1), &our_agent("auto"), 1), "ours-agent", 1);
    says(&whole_scenario(&ts_client(2), &our_agent("auto"), 2), "ours-agent", 2);
}

#[test]
fn our_agent_bound_to_one_protocol_with_the_official_clients() {
    for version in [1, 2] {
        whole_scenario(&rust_client(version), &our_agent(&version.to_string()), version);
        whole_scenario(&ts_client(version), &our_agent(&version.to_string()), version);
    }
}

#[test]
fn our_client_with_the_rust_agent() {
    says(&whole_scenario(&ours("1"), &rust_agent(1), 1), "sdk-agent", 1);
    says(&whole_scenario(&ours("2"), &rust_agent(2), 2), "sdk-agent", 2);
}

#[test]
fn our_client_with_the_ts_agent() {
    says(&whole_scenario(&ours("1"), &ts_agent(1), 1), "ts-agent", 1);
    says(&whole_scenario(&ours("2"), &ts_agent(2), 2), "ts-agent", 2);
}

#[test]
fn our_client_settles_on_what_the_agent_speaks() {
    for version in [1, 2] {
        says(&whole_scenario(&ours("auto"), &rust_agent(version), version), "sdk-agent", version);
        says(&whole_scenario(&ours("auto"), &ts_agent(version), version), "ts-agent", version);
    }
}

#[test]
fn ours_with_ours_in_all_dialects_and_framings() {
    for framing in [Framing::Lines, Framing::Headers] {
        for (protocol, version) in [("1", 1), ("2-seed", 2), ("2", 2)] {
            // The agent finds the dialect and the framing by itself, or is told the dialect.
            whole_scenario(&our_client(protocol, framing), &our_agent("auto"), version);
            let told = whole_scenario(&our_client("auto", framing), &our_agent(protocol), version);
            // Only current v2 has states, so this tells the two drafts apart.
            let states = told.step("say").is_some_and(|line| line["states"].is_array());
            assert_eq!(states, protocol == "2", "{protocol}: {told}");
        }
        says(&whole_scenario(&our_client("auto", framing), &our_agent("auto"), 2), "ours-agent", 2);
    }
}

#[test]
fn all_clients_report_the_same_about_our_agent_and_ours_the_same_as_the_official_ones() {
    for version in [1, 2] {
        for agent in [our_agent("auto"), rust_agent(version)] {
            let rust = run(&rust_client(version), &agent, RUN_DEADLINE);
            let ours = run(&ours(&version.to_string()), &agent, RUN_DEADLINE);
            for step in ["say", "tool_allow", "tool_reject", "plan", "wait", "fail", "again"] {
                assert_eq!(rust.step(step), ours.step(step), "version {version}, {step}:\n{rust}\n{ours}");
            }
        }
    }
}

#[test]
fn an_agent_of_the_other_version_is_refused_in_words() {
    for (client, agent) in [
        (ours("2"), rust_agent(1)),
        (ours("2"), ts_agent(1)),
        (ours("1"), rust_agent(2)),
        (ours("1"), ts_agent(2)),
        (rust_client(2), our_agent("1")),
        (ts_client(2), our_agent("1")),
        (rust_client(1), our_agent("2")),
        (ts_client(1), our_agent("2")),
    ] {
        let outcome = run(&client, &agent, RUN_DEADLINE);
        assert_eq!((outcome.code, outcome.late), (Some(1), false), "{client:?} {agent:?}: {outcome}");
        assert!(outcome.stderr.contains("initialize"), "{client:?} {agent:?}: {outcome}");
    }
}

#[test]
fn an_agent_that_leaves_at_once_fails_the_run() {
    let outcome = run(&ours("auto"), &["false".into()], RUN_DEADLINE);
    assert!(!outcome.ok() && !outcome.late && outcome.stderr.contains("initialize"), "{outcome}");
}
