//! Runs that are killed at random moments: no process is left, and no session is lost.

use super::harness::{Place, alive, mark, wait};
use super::sessions::recorded;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// How many runs are killed; 500 for the full proof (`TIELINE_KILLS=500`).
fn runs() -> u64 {
    std::env::var("TIELINE_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(15)
}

fn prompts(place: &Place) -> u64 {
    let log = std::fs::read_to_string(place.path("log")).unwrap_or_default();
    log.lines().filter(|line| line.contains("\"session/prompt\"")).count() as u64
}

#[test]
fn runs_killed_at_any_moment_leave_no_process_and_lose_no_session() {
    let place = Place::new();
    // How long a whole run takes here and now.
    let start = Instant::now();
    place.agent("hello", "1", &[]).run().ends(0);
    let whole = start.elapsed().as_millis() as u64;
    let mut killed_in_turn = 0;
    for number in 0..runs() {
        let (mark, before) = (mark("kill"), prompts(&place));
        let behaviour = ["orphan", "ask_edit", "flood", "waits"][(number % 4) as usize];
        let dialect = ["1", "2"][(number / 4 % 2) as usize];
        let mut exec = place.agent(behaviour, dialect, &["--allow-all"]).env("MARK", &mark);
        exec.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let word = if behaviour == "flood" { "100000" } else { &mark };
        exec.command.args(["--", "python3", &super::harness::script("agent.py"), behaviour, dialect, word]);
        let mut child = exec.command.spawn().unwrap();
        // Not the same moments each time the test is run.
        let chance = number * 7919 + u64::from(std::process::id()) * 31 + u64::from(child.id());
        if number % 3 == 0 {
            // In the turn.
            wait("the prompt", || prompts(&place) > before || child.try_wait().unwrap().is_some());
            std::thread::sleep(Duration::from_millis(chance % 100));
        } else {
            std::thread::sleep(Duration::from_millis(chance % (whole * 5 / 4)));
        }
        let _ = child.kill();
        child.wait().unwrap();
        wait("the end of everything that was started", || !alive(&mark));
        // What reached the agent is in the journal.
        killed_in_turn += u64::from(prompts(&place) > before);
        let turns: u64 = recorded(&place).iter().map(|entry| entry.turns).sum();
        assert!(turns >= prompts(&place), "{number}: {turns} turns for {} prompts", prompts(&place));
    }
    assert!(killed_in_turn > 0, "no run got as far as its prompt");
    // And one can go on with them.
    place.agent("hello", "1", &["--continue"]).run().ends(0).out_has("Hello, world.");
}
