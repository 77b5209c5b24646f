//! Pipes, colours, homes that are missing or read-only, floods, long waits, traces: all as a person would hope.

use super::harness::{Place, harmless, lines, wait};
use serde_json::{Value, json};

#[test]
fn pipes_get_the_answer_and_nothing_else() {
    let place = Place::new();
    let done = place.agent("plan", "1", &[]).run().ends(0);
    assert_eq!(done.out, "planned\n");
    done.err_has("[x] Look").err_has("[>] Leap");
    assert!(!done.out.contains('\u{1b}') && !done.err.contains('\u{1b}'));
}

#[test]
fn colours_only_when_wanted() {
    let place = Place::new();
    let done = place.agent("crash", "1", &[]).env("CLICOLOR_FORCE", "1").run();
    done.err_has("\u{1b}[31m");
    let done = place.agent("crash", "1", &[]).env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1").run();
    assert!(harmless(&done.err), "{done:#?}");
}

#[test]
fn a_flood_comes_out_whole() {
    for format in ["text", "json", "stream-json"] {
        let place = Place::new();
        let done = place.agent("flood", "1", &["--format", format]).words(&["20000"]).run().ends(0);
        let text = match format {
            "text" => done.out.clone(),
            "json" => done.object()["text"].as_str().unwrap().to_owned(),
            _ => done.events().last().unwrap()["text"].as_str().unwrap().to_owned(),
        };
        let expect = lines(0..20000);
        assert!(text == expect, "{format}: {} bytes", text.len());
    }
}

#[test]
fn a_long_wait_tells_its_phase_and_age() {
    let place = Place::new();
    let run = place.agent("no_hello", "1", &[]).start();
    wait("word of the wait", || run.err().contains("(initialize) … 1"));
    run.signal("INT");
    run.done().ends(130);
}

#[test]
fn start_up_problems_name_the_phase_the_status_and_the_last_words() {
    let place = Place::new();
    let done = place.agent("dies_at_start", "1", &[]).run().ends(7);
    done.err_has("exited with status 1")
        .err_has("while waiting for the agent's first answer")
        .err_has("left-pad")
        .err_has("by hand");
    let done = place.exec(&["go", "--", "true"]).run().ends(7);
    done.err_has("exited with status 0").err_has("--acp");
    let done = place.exec(&["go", "--", "sh", "-c", "echo oops >&2; exit 127"]).run().ends(7);
    done.err_has("exited with status 127").err_has("oops");
    let done = place.agent("dies_at_session", "1", &[]).run().ends(1);
    done.err_has("exited with status 4").err_has("while waiting for the session").err_has("quota file is missing");
    let done = place.agent("no_hello", "1", &["--start-timeout", "500ms"]).run().ends(3);
    done.err_has("waiting for the agent's first answer").err_has("0.5 s").err_has("--start-timeout");
    assert!(!done.err.contains("while waiting"), "said twice: {}", done.err);
    // A program that talks, but not this protocol.
    place.exec(&["go", "--", "yes"]).args(&["--start-timeout", "1s"]).run();
    place.exec(&["go", "--", "cat", "/etc/passwd"]).run().ends(7);
}

#[test]
fn missing_agents() {
    let place = Place::new();
    let done = place.exec(&["go", "--", "no-such-program"]).run().ends(7);
    done.err_has("not found on PATH").err_has("tieline agents list");
    place.exec(&["go", "--agent", "./no-such-file"]).run().ends(7).err_has("no such file");
    place.exec(&["go", "--agent", "tielin"]).run().ends(7).err_has("tieline");
    place.write("plain.txt", "");
    place.exec(&["go", "--agent", "./plain.txt"]).run().ends(7).err_has("not executable");
    place.exec(&["go", "--agent", "./"]).run().ends(7).err_has("folder");
    for format in ["json", "stream-json", "acp"] {
        let done = place.exec(&["go", "--format", format, "--agent", "no-such-agent"]).run().ends(7);
        let end = done.events().pop().unwrap();
        let end = if format == "acp" { &end["params"] } else { &end };
        assert_eq!((&end["status"], &end["error"]["phase"]), (&json!("not_started"), &json!("find")), "{done:#?}");
    }
}

#[test]
fn agents_by_name_and_by_command_line() {
    let place = Place::new();
    let script = super::harness::script("agent.py");
    let line = format!("python3 '{script}' hello");
    place.exec(&["go", "--agent", &line]).run().ends(0).out_has("Hello, world.");
    std::fs::create_dir_all(place.path("config").join("tieline")).unwrap();
    let config = format!(
        "agent = \"mine\"\nformat = \"json\"\n[agents.mine]\ncommand = [\"python3\", {script:?}, \"environment\", \"1\", \"COLOUR\", \"SHAPE\"]\nenv = {{ COLOUR = \"red\" }}\n"
    );
    std::fs::write(place.path("config").join("tieline/config.toml"), config).unwrap();
    for flags in [&["--agent", "mine"][..], &["--agent", "@mine"], &[]] {
        let done = place.exec(&["go", "--env", "SHAPE=round"]).args(flags).run().ends(0);
        let said: Value = serde_json::from_str(done.object()["text"].as_str().unwrap()).unwrap();
        assert_eq!(said, json!({"COLOUR": "red", "SHAPE": "round"}));
    }
    std::fs::write(place.path("config").join("tieline/config.toml"), "formmat = \"json\"\n").unwrap();
    place.exec(&["go"]).run().ends(14).err_has("format");
}

#[test]
fn a_trace_has_every_frame_and_no_secrets() {
    for dialect in super::harness::DIALECTS {
        let place = Place::new();
        let servers = r#"{"mcpServers": {"docs": {"command": "true", "env": {"KEY": "s3cret"}},
            "web": {"url": "https://example.org", "headers": {"Authorization": "Bearer s3cret"}}}}"#;
        place.write("mcp.json", servers);
        let trace = place.path("trace.jsonl").display().to_string();
        let done = place.agent("rubbish", dialect, &["--trace", &trace, "--mcp-config", "mcp.json"]).run().ends(0);
        let text = std::fs::read_to_string(&trace).unwrap();
        assert!(!text.contains("s3cret"), "{text}");
        assert!(done.log.iter().any(|frame| frame.to_string().contains("s3cret")), "the agent needs them");
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((&lines[0]["tieline-trace"], &lines[0]["kept"]), (&json!(1), &json!("redacted")));
        let from = |side: &'static str| lines.iter().filter(move |line| line["from"] == side);
        assert_eq!(from("client").count(), done.log.len(), "{text}");
        assert!(from("agent").any(|line| line["raw"] == "npm WARN deprecated something@1.0.0\n"), "{text}");
        let message = |line: &Value| serde_json::from_str::<Value>(line["raw"].as_str().unwrap()).unwrap_or_default();
        assert!(from("agent").any(|line| message(line)["result"].is_object()), "{text}");
        // The same holds for the frames on standard output.
        let done = place.agent("hello", dialect, &["--format", "acp", "--mcp-config", "mcp.json"]).run().ends(0);
        assert!(!done.out.contains("s3cret"), "{done:#?}");
    }
}

#[test]
fn both_framings() {
    for dialect in super::harness::DIALECTS {
        let place = Place::new();
        let done = place.agent("hello", dialect, &["--framing", "content-length"]).words(&["--framed"]).run();
        done.ends(0).out_has("Hello, world.");
    }
}

#[test]
fn the_agents_own_words_are_shown_when_wanted() {
    let place = Place::new();
    let done = place.agent("crash", "1", &["--verbose"]).run().ends(1);
    done.err_has("agent: reason: the disk caught fire");
    assert!(harmless(&done.err));
}
