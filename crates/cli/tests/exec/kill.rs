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

/// Every process below one, with its command line.
#[cfg(target_os = "linux")]
fn below(top: u32) -> Vec<(u32, String)> {
    let read = |pid: u32, file: &str| std::fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let pids: Vec<u32> = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok())
        .collect();
    let parent = |pid: u32| -> Option<u32> {
        let stat = String::from_utf8_lossy(&read(pid, "stat")).into_owned();
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let mut all = vec![top];
    let mut at = 0;
    while let Some(&above) = all.get(at) {
        all.extend(pids.iter().filter(|pid| parent(**pid) == Some(above)));
        at += 1;
    }
    all.into_iter().map(|pid| (pid, String::from_utf8_lossy(&read(pid, "cmdline")).replace('\0', " "))).collect()
}

/// A name for those who are killed, and how their command line is told.
type Victim = (&'static str, fn(&str) -> bool);

/// `kill -9` of the run, of its agent, of those who supervise, of all that has our name: with a sandbox and without.
#[cfg(target_os = "linux")]
#[test]
fn whoever_is_killed_no_command_is_left() {
    let is_supervisor = |line: &str| line.starts_with("child-supervisor ");
    let is_command = |line: &str| line.starts_with("sleep ");
    let victims: [Victim; 4] = [
        ("the run", |line| line.contains(" exec ")),
        ("its agent", |line| line.contains(" agent ") && !line.contains(" exec ")),
        ("supervisors", |line| line.starts_with("child-supervisor ")),
        ("all of our name", |line| line.contains("tieline")),
    ];
    for sandbox in ["workspace", "off"] {
        for (number, (what, is_victim)) in victims.iter().enumerate() {
            let place = Place::new();
            let time = format!("60.{}{}{number}", std::process::id(), sandbox.len());
            let command = format!("run setsid sleep {time} & sleep {time} & sleep {time}");
            let agent = [env!("CARGO_BIN_EXE_tieline"), "agent", "--sandbox", sandbox];
            let mut exec = place.exec(&["--allow-all", &command, "--"]).args(&agent);
            exec.command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = exec.command.spawn().unwrap();
            let commands = || below(child.id()).iter().filter(|(_, line)| is_command(line)).count();
            wait("the command", || commands() == 3);
            let all = below(child.id());
            assert!(all.iter().any(|(_, line)| is_supervisor(line)), "{all:?}");
            let killed: Vec<String> =
                all.iter().filter(|(_, line)| is_victim(line)).map(|(pid, _)| pid.to_string()).collect();
            assert!(!killed.is_empty(), "{what}: {all:?}");
            std::process::Command::new("kill").arg("-9").args(&killed).status().unwrap();
            wait(&format!("the end of the command after {what} was killed ({sandbox})"), || {
                !alive(&format!("sleep\0{time}"))
            });
            let _ = child.kill();
            child.wait().unwrap();
        }
    }
}
