//! The agent is killed at random moments of its turns: nothing acknowledged is missing, every file is whole, nobody is left.
//!
//! `TIELINE_KILL_RUNS=200` makes it long, `TIELINE_SEED` plays one again.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod common;

use common::{Client, DIALECTS, Dice, Place, is_marked, number, soon};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use tieline_host::store::{Event, Store};

const FILES: [&str; 3] = ["a.txt", "b.txt", "deep/c.txt"];

/// A content that tells if it is whole: each line is the same, and the last one says so.
fn content(tag: &str) -> String {
    format!("{}end {tag}\n", format!("line {tag}\n").repeat(3000))
}

/// What the client was told of a session, so what must be there later.
#[derive(Default)]
struct Known {
    /// The prompts whose turns were heard of.
    prompts: Vec<String>,
    /// All that the agent said, as it was when the session was last loaded.
    said: String,
    /// How each tool call ended.
    ended: BTreeMap<String, String>,
    /// The calls that were allowed by hand and then began.
    decided: BTreeSet<String>,
}

/// What is heard of one turn.
#[derive(Default)]
struct Heard {
    begun: bool,
    over: bool,
    said: String,
    inputs: BTreeMap<String, Value>,
    statuses: BTreeMap<String, String>,
    asked: BTreeSet<String>,
}

impl Heard {
    fn take(&mut self, message: &Value, prompt: i64, dialect: &str) {
        let update = &message["params"]["update"];
        if message.get("method").is_none() && message["id"] == prompt {
            assert!(message.get("error").is_none(), "{message}");
            self.begun = true;
            self.over |= dialect != "2";
        }
        if message["method"] == "session/request_permission" {
            // The newest draft names the call inside the subject.
            let subject = &message["params"]["subject"];
            let call = [&message["params"]["toolCall"], &subject["toolCall"], subject];
            let id = call.iter().find_map(|call| call["toolCallId"].as_str()).expect("a call");
            self.asked.insert(id.to_owned());
        }
        if message["method"] != "session/update" {
            return;
        }
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        // What comes around a session says nothing about its turn.
        self.begun |= kind.starts_with("agent_") || kind.starts_with("tool_call");
        self.over |= kind == "state_update" && update["state"] == "idle";
        if kind == "agent_message_chunk" {
            self.said.push_str(update["content"]["text"].as_str().unwrap_or_default());
        }
        if let Some(id) = update["toolCallId"].as_str() {
            if let Some(status) = update["status"].as_str() {
                self.statuses.insert(id.to_owned(), status.to_owned());
            }
            if update["rawInput"].is_object() {
                self.inputs.insert(id.to_owned(), update["rawInput"].clone());
            }
        }
    }
}

fn is_final(status: &str) -> bool {
    ["completed", "failed", "cancelled"].contains(&status)
}

/// Which contents each file may have: what was acknowledged last, and all that was asked for since.
struct Disk(BTreeMap<&'static str, Vec<String>>);

impl Disk {
    fn new() -> Self {
        Self(FILES.map(|name| (name, vec![String::new()])).into())
    }

    fn acknowledge(&mut self, name: &str, text: &str) {
        let (_, contents) = self.0.iter_mut().find(|(known, _)| **known == name).unwrap();
        // One that is not there any more came before another that was acknowledged.
        let at = contents.iter().position(|known| known == text).unwrap_or(0);
        contents.drain(..at);
    }

    /// Each file is one of them, whole.
    fn check(&mut self, place: &Place, round: u64) {
        for (name, contents) in &mut self.0 {
            let now = std::fs::read_to_string(place.project().join(name)).unwrap_or_default();
            let why = || format!("round {round}: {name} has {} bytes, {} contents fit", now.len(), contents.len());
            assert!(contents.contains(&now), "{}", why());
            *contents = vec![now];
        }
    }
}

struct World {
    place: Place,
    mark: String,
    dice: Dice,
    disk: Disk,
    sessions: BTreeMap<String, Known>,
}

impl World {
    /// What a turn does, in the words of the puppet.
    fn turn(&mut self, tag: &str) -> String {
        let mut lines = vec![format!("say begin {tag} ")];
        for step in 0..2 + self.dice.roll(4) {
            let step = format!("{tag}-{step}");
            let mark = &self.mark;
            match self.dice.roll(9) {
                0 => lines.push(format!("flood 300 {}", 10 + self.dice.roll(200))),
                1 => lines.push(format!("run echo out {step}; setsid sleep 1000.{mark} & sleep 0.02")),
                2 => lines.push(format!("run trap '' TERM; setsid sleep 1000.{mark} & sleep 1000.{mark}")),
                3 => {
                    let input = json!({"command": format!("sleep 1000.{mark}"), "background": true});
                    lines.push(format!("call run {input}"));
                }
                _ => {
                    let name = FILES[usize::try_from(self.dice.roll(3)).unwrap()];
                    let text = content(&step);
                    lines.push(format!("call write {}", json!({"path": name, "content": text})));
                    self.disk.0.get_mut(name).unwrap().push(text);
                }
            }
            lines.push(format!("say did {step} "));
        }
        lines.join("\n")
    }

    /// Begins a turn, kills the agent in the middle of it, and notes what was acknowledged by then.
    fn round(&mut self, round: u64) {
        let dialect = DIALECTS[usize::try_from(round % 3).unwrap()];
        let mode = if round.is_multiple_of(2) { "auto" } else { "ask" };
        let arguments = ["--script", "puppet", "--mode", mode];
        let mark = self.mark.clone();
        let mut client = Client::start_as(&self.place, dialect, &arguments, &json!({}), |command| {
            command.env("TIELINE_TEST_MARK", mark);
        });
        // A new session, or one that was killed before.
        let old = (round % 4 > 1).then(|| self.sessions.keys().next_back().cloned()).flatten();
        if let Some(id) = old {
            let answer = client.try_load(&id, &self.place.project());
            assert!(answer.get("error").is_none(), "round {round}: {answer}");
        } else {
            let params = json!({"cwd": self.place.project(), "mcpServers": []});
            client.session = client.call("session/new", params)["sessionId"].as_str().unwrap().into();
            self.sessions.insert(client.session.clone(), Known::default());
        }
        let tag = format!("t{round}");
        let text = self.turn(&tag);
        let mut heard = Heard::default();
        let prompt = client.begin(&text);
        // Killed after some time, or right after some message.
        let (time, mut messages) = match self.dice.roll(3) {
            0 => (self.dice.roll(100_000), u64::MAX),
            1 => (self.dice.roll(1_500_000), u64::MAX),
            // A turn that waits for a command says nothing more.
            _ => (2_000_000, self.dice.roll(400)),
        };
        let end = Instant::now() + Duration::from_micros(time);
        while messages > 0 && !heard.over {
            let Some(message) = client.next(end.saturating_duration_since(Instant::now())) else { break };
            heard.take(&message, prompt, dialect);
            messages -= 1;
        }
        let answered = heard.asked.clone();
        for message in client.kill() {
            heard.take(&message, prompt, dialect);
        }
        let session = client.session.clone();
        soon(&format!("round {round}: nobody is left"), || !is_marked(&self.mark));
        for (id, status) in &heard.statuses {
            let input = &heard.inputs[id];
            if status == "completed"
                && let (Some(name), Some(text)) = (input["path"].as_str(), input["content"].as_str())
            {
                self.disk.acknowledge(name, text);
            }
        }
        self.disk.check(&self.place, round);
        self.inspect(&session, &tag, &heard, &answered, (round, dialect));
    }

    /// Loads the session again and compares.
    fn inspect(
        &mut self,
        session: &str,
        tag: &str,
        heard: &Heard,
        answered: &BTreeSet<String>,
        (round, dialect): (u64, &'static str),
    ) {
        let known = self.sessions.get_mut(session).unwrap();
        if heard.begun {
            known.prompts.push(format!("begin {tag} "));
        }
        for (id, status) in &heard.statuses {
            if is_final(status) {
                known.ended.insert(id.clone(), status.clone());
            }
            if status != "pending" && answered.contains(id) {
                known.decided.insert(id.clone());
            }
        }
        check_store(&self.place, session, known, round);
        let mut client = Client::start(&self.place, dialect, &["--script", "puppet", "--mode", "edit"]);
        let answer = client.try_load(session, &self.place.project());
        assert!(answer.get("error").is_none(), "round {round}: {answer}");
        let said = client.said();
        let news = said.strip_prefix(&known.said).unwrap_or_else(|| panic!("round {round}: what was said is gone"));
        if heard.over {
            assert_eq!(news, heard.said, "round {round}: a turn that was told to be over");
        } else {
            let longer = news.starts_with(&heard.said) || heard.said.starts_with(news);
            assert!(longer, "round {round}: {news:?} and {:?}", heard.said);
        }
        let mut rest = client
            .updates
            .iter()
            .filter(|update| update["sessionUpdate"].as_str().is_some_and(|kind| kind.starts_with("user_message")));
        for prompt in &known.prompts {
            assert!(rest.any(|update| update.to_string().contains(prompt)), "round {round}: {prompt} is missing");
        }
        let mut now: BTreeMap<&str, &str> = BTreeMap::new();
        for update in &client.updates {
            if let (Some(id), Some(status)) = (update["toolCallId"].as_str(), update["status"].as_str()) {
                now.insert(id, status);
            }
        }
        for (id, status) in &known.ended {
            assert_eq!(now.get(&**id), Some(&&**status), "round {round}: the end of {id}");
        }
        for (id, status) in now {
            assert!(is_final(status), "round {round}: {id} is {status} for ever");
        }
        known.said = said;
        // And it goes on.
        let text = format!("say ok {tag} ");
        assert_eq!(client.prompt(&text), "end_turn", "round {round}");
        known.said = client.said();
        known.prompts.push(text);
        assert!(client.hang_up().success(), "round {round}");
    }
}

/// The store is sound, and every decision that a call began with is in it.
fn check_store(place: &Place, session: &str, known: &Known, round: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(place.folder.path().join("state/store.db")).unwrap();
        assert_eq!(store.integrity().await.unwrap(), [""; 0], "round {round}");
        let events = store.load(&session.into()).all().await.unwrap();
        let decided: BTreeSet<String> = events
            .into_iter()
            .filter_map(|stored| match stored.event {
                Event::Permission { tool_call_id, .. } => Some(tool_call_id),
                _ => None,
            })
            .collect();
        assert!(decided.is_superset(&known.decided), "round {round}: {:?} not in {decided:?}", known.decided);
        store.close().await.unwrap();
    });
}

#[test]
fn killed_at_any_moment_nothing_acknowledged_is_lost() {
    let runs: u64 = number("TIELINE_KILL_RUNS", 12);
    let mark = format!("625{}", std::process::id());
    let mut world =
        World { place: Place::new(), mark, dice: Dice::new(), disk: Disk::new(), sessions: BTreeMap::new() };
    for round in 0..runs {
        world.round(round);
    }
    // The leftovers of writers that were killed go away with the next write.
    for name in FILES {
        let mut client = Client::open(&world.place, "1", &["--script", "puppet", "--mode", "edit"]);
        assert_eq!(client.prompt(&format!("write {name} last")), "end_turn");
        assert_eq!(world.place.read(name), "last");
    }
    for folder in [world.place.project(), world.place.project().join("deep")] {
        let left: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.to_string_lossy().starts_with('.')), "{left:?}");
    }
    let ended: usize = world.sessions.values().map(|known| known.ended.len()).sum();
    let prompts: usize = world.sessions.values().map(|known| known.prompts.len()).sum();
    let decided: usize = world.sessions.values().map(|known| known.decided.len()).sum();
    eprintln!(
        "{runs} kills in {} sessions: {prompts} prompts, {ended} tool calls, {decided} decisions, none lost",
        world.sessions.len()
    );
    assert!(ended > 0 && prompts > 0, "too little was acknowledged to mean anything");
}
