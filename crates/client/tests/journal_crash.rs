//! `kill -9` while a session is written down: what was acknowledged is there, and the session goes on.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tieline::schema::{Dialect, Item, StopReason, ToolCallStatus, ToolCallUpdate, Update};
use tieline_client::journal::{Begin, Decision, Journal, Note, Outcome};
use tieline_host::store::Claim;

/// How often the writer is killed.
const KILLS: u32 = 25;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if let [role, path] = &arguments[..]
        && role == "write"
    {
        return runtime.block_on(write(path.as_ref()));
    }
    if arguments.iter().any(|argument| argument == "--list") {
        println!("killed_while_recording: test");
        return;
    }
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    if filter.is_some_and(|filter| !"killed_while_recording".contains(&**filter)) {
        return;
    }
    runtime.block_on(killed_while_recording());
    println!("test killed_while_recording ... ok");
}

/// Writes turns for ever and says what was acknowledged.
async fn write(path: &Path) {
    let journal = Journal::open(path).unwrap();
    let begin = Begin {
        agent: "a".into(),
        agent_session: Some("s1".into()),
        cwd: "/".into(),
        protocol: Some(Dialect::V1),
        ..Begin::default()
    };
    let recording = journal.begin(begin).await.unwrap();
    let say = |line: String| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").unwrap();
        out.flush().unwrap();
    };
    say(format!("session {}", recording.id()));
    for turn in 1.. {
        recording.prompt(&[format!("prompt {turn}").as_str().into()]).await.unwrap();
        say(format!("prompt {turn}"));
        for call in 0..3 {
            let id = format!("call {turn}.{call}");
            let update = ToolCallUpdate::new(id.clone()).title(id.clone()).status(ToolCallStatus::Completed);
            recording.update(&Update::ToolCall(Box::new(update))).await.unwrap();
            say(id.clone());
            let decision = Decision {
                tool_call_id: id.clone(),
                title: id.clone(),
                decision: "allowed".into(),
                ..Decision::default()
            };
            recording.decision(&decision).await.unwrap();
            say(format!("decision {id}"));
        }
        recording.end(&Outcome::from(&StopReason::EndTurn)).await.unwrap();
        say(format!("end {turn}"));
    }
}

async fn killed_while_recording() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.db");
    let mut acknowledged = 0;
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("write")
            .arg(&path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let id = lines.next().unwrap().strip_prefix("session ").unwrap().to_owned();
        // At another moment each time.
        let until = Instant::now() + Duration::from_millis(u64::from(round * 7 % 60));
        let mut told = Vec::new();
        while Instant::now() < until {
            told.extend(lines.next());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What was still in the pipe was acknowledged as well.
        told.extend(lines);
        acknowledged += told.len();
        let journal = Journal::open(&path).unwrap();
        let recording = journal.reopen(&id, Claim::IfFree).await.unwrap();
        let story = journal.story(&id).await.unwrap();
        assert_eq!(story.damage, None);
        let found = found(&story);
        for line in &told {
            assert!(found.contains(line), "round {round}: {line:?} was acknowledged and is lost");
        }
        // It can go on.
        recording.prompt(&["again".into()]).await.unwrap();
        recording.end(&Outcome::from(&StopReason::EndTurn)).await.unwrap();
    }
    println!("{acknowledged} acknowledged events in {KILLS} rounds, none lost");
    assert!(acknowledged > 0);
}

/// All that is there, in the words of the writer.
fn found(story: &tieline_client::journal::Story) -> Vec<String> {
    let mut found = Vec::new();
    for turn in &story.turns {
        found.extend(turn.prompt.iter().filter_map(|block| block.as_text().map(str::to_owned)));
        for item in story.items(turn) {
            if let Item::ToolCall(call) = item {
                found.push(call.id.clone());
            }
        }
        for (_, note) in &turn.notes {
            if let Note::Decision(decision) = note {
                found.push(format!("decision {}", decision.tool_call_id));
            }
        }
        if turn.outcome.is_some() {
            found.push(format!("end {}", turn.number));
        }
    }
    found
}
