//! Every view at three sizes, beside what it looked like before: `tests/views/NAME.txt`. `WRITE_VIEWS=1` writes them anew, to be
//! looked at.
#![allow(clippy::unwrap_used)]

mod desk;

use crossterm::event::{KeyCode, KeyModifiers};
use desk::{Chat, facts, question};
use std::collections::BTreeSet;
use tieline::json::Reader;
use tieline::rpc::Direction;
use tieline::schema::{
    Command, ConfigOption, Decode as _, Diff, ElicitMode, ElicitRequest, MessageKind, Plan, PlanEntry, PlanStatus,
    PlanUpdate, SelectOption, SelectOptions, ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind, Update,
};
use tieline_chat::effect::Effect;
use tieline_chat::event::{About, Event};
use tieline_chat::pick::{self, Change, Picker, Stored};
use tieline_chat::{AgentChoice, Log};
use tieline_client::elicit::{Form, Page};
use tieline_client::live::{self, Conversation, Now, Part, Queued, State as Doing, What, When};
use tieline_client::login::{self, Method};
use tieline_host::snapshot::{Hunk, Undone};

const SIZES: [(u16, u16); 3] = [(40, 12), (80, 24), (140, 45)];

fn update(chat: &mut Chat, update: Update) {
    for event in chat.talk.take(update, When::Turn) {
        chat.live(event);
    }
}

/// A turn with everything in it.
fn turn(chat: &mut Chat) {
    chat.said(MessageKind::User, "Make it greet in the morning.");
    chat.said(MessageKind::Thought, "The greeting is in one place.\n\nIt is a string.");
    chat.said(
        MessageKind::Agent,
        "I change **one** line of `greet.py`:\n\n1. look\n2. change it\n\n```python\nprint(greet())\n```\n",
    );
    let entry = |content: &str, status| PlanEntry { content: content.into(), status, ..PlanEntry::default() };
    let entries = vec![entry("Look", PlanStatus::Completed), entry("Change it", PlanStatus::InProgress)];
    update(chat, Update::Plan(PlanUpdate { plan: Plan::main(entries), ..PlanUpdate::default() }));
    let diff = Diff::of("/project/greet.py", Some("a\nhello\nb\n".into()), "a\ngood morning\nb\n");
    let call = ToolCallUpdate::new("c").title("Edit greet.py").kind(ToolKind::Edit).status(ToolCallStatus::Completed);
    update(chat, Update::ToolCall(Box::new(call.content(vec![ToolCallContent::Diff(diff)]))));
}

fn queued(number: u64, text: &str) -> Queued {
    Queued { number, parts: vec![Part::Text(text.into())] }
}

/// A list that was looked for.
fn found(chat: &mut Chat, list: Picker) {
    chat.key(KeyCode::F(2));
    chat.state.handle(Event::Found(list), chat.now);
}

fn stored() -> impl Iterator<Item = Stored> {
    let session = |title: &str, ago: &str, agent: &str, turns| Stored {
        id: "4f2".into(),
        title: Some(title.into()),
        agent: agent.into(),
        turns,
        ago: ago.into(),
        cwd: "/project".into(),
    };
    [session("Make it greet", "3 min", "tieline", 3), session("why does it fail?", "12 Nov", "codex", 1)].into_iter()
}

fn form() -> Form {
    let request = r#"{"message":"Which name shall the release have?","mode":"form","sessionId":"s","requestedSchema":{"type":"object",
        "title":"Release","required":["name"],"properties":{"name":{"type":"string","title":"Name","description":"as it is written in the list"},
        "kind":{"type":"string","title":"Kind","enum":["major","minor"]},"public":{"type":"boolean","title":"For all","default":true}}}}"#;
    let request = ElicitRequest::decode(&mut Reader::new(request)).unwrap();
    let ElicitMode::Form(schema) = &request.mode else { panic!("{request:?}") };
    Form::of(&request, schema, "codex")
}

fn undo_turn(chat: &mut Chat) {
    let restored = vec!["/project/greet.py".into(), "/project/logo.png".into()];
    let diff = "--- a/greet.py\n+++ b/greet.py\n@@ -1,2 +1,3 @@\n a\n-good morning\n+hello\n+\u{1b}[2Jb\n";
    let preview = Undone { restored, ..Undone::default() };
    found(
        chat,
        pick::files(
            "3",
            "turn 3: Make it greet",
            &preview,
            &BTreeSet::new(),
            &[Some(diff.into()), None],
            "/project".as_ref(),
        ),
    );
}

fn press(chat: &mut Chat, letter: char) -> Vec<Effect> {
    chat.chord(KeyCode::Char(letter), KeyModifiers::CONTROL)
}

type Open = fn(&mut Chat);

/// Each view by its name, and how it is come to.
const VIEWS: &[(&str, Open)] = &[
    ("first", |_| {}),
    ("turn", turn),
    ("works", |chat| {
        turn(chat);
        chat.doing(Doing::Running);
        chat.state.handle(Event::Queue(1, vec![queued(1, "and test it"), queued(2, "then commit")].into()), chat.now);
        chat.later(3000);
    }),
    ("stops", |chat| {
        turn(chat);
        chat.doing(Doing::Cancelling);
        chat.later(2000).key(KeyCode::Esc);
    }),
    ("gone", |chat| {
        turn(chat);
        chat.doing(Doing::Lost);
    }),
    ("question", |chat| {
        turn(chat);
        drop(chat.later(2000).ask(question()));
        chat.key(KeyCode::Down);
    }),
    ("strip", |chat| {
        turn(chat);
        chat.typed("and then");
        drop(chat.ask(question()));
    }),
    ("whole", |chat| {
        drop(chat.later(2000).ask(question()));
        press(chat, 'o');
    }),
    ("draft", |chat| {
        turn(chat);
        chat.typed(&"many words ".repeat(12));
    }),
    ("palette", |chat| drop(press(chat, 'p'))),
    ("help", |chat| drop(chat.key(KeyCode::F(1)))),
    ("queue", |chat| {
        chat.state.handle(Event::Queue(1, vec![queued(1, "and test it"), queued(2, "then commit")].into()), chat.now);
        press(chat, 'q');
        chat.key(KeyCode::Enter);
    }),
    ("sessions", |chat| found(chat, pick::sessions(stored()))),
    ("session", |chat| {
        found(chat, pick::sessions(stored()));
        chat.key(KeyCode::Enter);
    }),
    ("name", |chat| {
        found(chat, pick::sessions(stored()));
        for key in [KeyCode::Enter, KeyCode::Down, KeyCode::Enter] {
            chat.key(key);
        }
        chat.typed("greetings");
    }),
    ("agents", |chat| {
        let agent = |name: &str, about: &str, found| AgentChoice { name: name.into(), about: about.into(), found };
        let codex = agent("codex", "npm install -g @agentclientprotocol/codex-acp", false);
        found(chat, pick::agents(vec![agent("tieline", "the built-in agent", true), codex]));
    }),
    ("agent-missing", |chat| {
        let about = "npm install -g @agentclientprotocol/codex-acp".into();
        found(chat, pick::agents(vec![AgentChoice { name: "codex".into(), about, found: false }]));
        chat.key(KeyCode::Enter);
    }),
    ("undo", |chat| {
        let change = |id: &str, prompt: &str, ago: &str, names: &[&str]| {
            Change::new(id, prompt, ago, &names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        let turns = [
            change("1~undo1", "Write down what you know\nof it", "2 h", &["notes.txt"]),
            change("3", "Make it greet in the morning, and in the evening, too", "3 min", &["greet.py", "test.py"]),
            change("1", "Write down what you know\nof it", "2 h", &["notes.txt"]),
        ];
        found(chat, pick::turns(turns.into_iter()));
    }),
    ("undo-turn", undo_turn),
    ("undo-diff", |chat| {
        undo_turn(chat);
        chat.key(KeyCode::Down);
        chat.key(KeyCode::Enter);
    }),
    ("undo-file", |chat| {
        let hunk = |line: usize, old: &str, new: &str| Hunk {
            old_lines: line..line + 1,
            new_lines: line..line + 1,
            old: old.into(),
            new: new.into(),
        };
        let hunks = [hunk(1, "hello\n", "good morning\n"), hunk(40, "exit()\n", "")];
        found(chat, pick::hunks("3", "/project/greet.py", &hunks, "/project".as_ref()));
    }),
    ("looking", |chat| drop(chat.key(KeyCode::F(4)))),
    ("frames", |chat| {
        let log = Log::default();
        log.push(
            Direction::Out,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
        );
        log.push(Direction::In, r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{}}}"#);
        log.push(Direction::In, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
        // Times differ from run to run.
        let timeless = |line: String| match line.split_once(" ms ") {
            Some((_, rest)) => format!("       0 ms {rest}"),
            None => line,
        };
        let lines = log.lines().into_iter().map(timeless).collect();
        chat.state.handle(Event::Read("Frames".into(), lines), chat.now);
    }),
    ("form", |chat| {
        turn(chat);
        chat.later(2000).ask_what(What::Form(form()));
        chat.key(KeyCode::Tab);
        chat.key(KeyCode::Down);
    }),
    ("form-strip", |chat| _ = chat.later(2000).ask_what(What::Form(form()))),
    ("login", |chat| {
        turn(chat);
        let method = |id: &str, name: &str, kind| Method { id: id.into(), name: name.into(), description: None, kind };
        let names = vec!["AGENT_KEY".to_owned()];
        let methods = vec![
            method("browser", "In the browser", login::Kind::Agent),
            method("shell", "With a code", login::Kind::Terminal),
            method(
                "key",
                "With a key",
                login::Kind::Variables { names, link: Some("https://example.org/keys".into()) },
            ),
        ];
        chat.later(2000).ask_what(What::Login(methods));
        chat.key(KeyCode::Down);
    }),
    ("page", |chat| {
        let warnings = vec!["the host is not the one that the words name".into()];
        let (agent, message) = ("codex".into(), "Log in at example.com to go on.".into());
        let (url, host) = ("https://login.example.org/device?code=1234".into(), "login.example.org".into());
        chat.later(2000).ask_what(What::Page(Page { agent, session: None, message, url, host, warnings }));
        chat.key(KeyCode::Down);
    }),
    ("said-before", |chat| {
        chat.typed("make it greet");
        chat.key(KeyCode::Enter);
        press(chat, 'r');
    }),
    ("commands", |chat| {
        let command =
            |name: &str, about: &str| Command { name: name.into(), description: about.into(), ..Command::default() };
        let commands = vec![command("plan", "thinks before it works"), command("compact", "makes the context shorter")];
        chat.state.handle(Event::About(1, Box::new(About { options: Vec::new(), commands, now: Now::Join })), chat.now);
        chat.typed("/");
    }),
    ("opening", |chat| {
        chat.doing(Doing::Opening);
        chat.live(live::Event::Phase(live::Phase::Start));
        chat.later(2000);
    }),
    ("options", |chat| {
        let value = |name: &str| SelectOption { value: name.into(), name: name.into(), ..SelectOption::default() };
        let options = SelectOptions::Flat(vec![value("ask"), value("edit")]);
        let option = ConfigOption::select("mode", "Mode", "ask", options);
        let about = About { options: vec![option], commands: Vec::new(), now: Now::Interrupt };
        chat.state.handle(Event::About(1, Box::new(about)), chat.now);
        chat.key(KeyCode::F(3));
    }),
    ("search", |chat| {
        turn(chat);
        press(chat, 'f');
        chat.typed("greet");
        chat.screen(40, 12);
        chat.key(KeyCode::Enter);
    }),
    ("tabs", |chat| {
        turn(chat);
        press(chat, 't');
        chat.state.handle(Event::Opened(2, Box::new(facts(&Conversation::default()))), chat.now);
        chat.state.handle(Event::Live(2, Box::new(live::Event::State(Doing::Idle))), chat.now);
    }),
];

#[test]
fn complaint_09_every_view_at_three_sizes() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/views");
    let write = std::env::var_os("WRITE_VIEWS").is_some();
    let mut other = Vec::new();
    for (name, open) in VIEWS {
        let mut all = String::new();
        for (width, height) in SIZES {
            let mut chat = Chat::new();
            open(&mut chat);
            let screen = chat.screen(width, height);
            all.extend(["== ", &format!("{width}x{height}"), "\n", &screen]);
        }
        let file = folder.join(format!("{name}.txt"));
        if write {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &all).unwrap();
        } else if std::fs::read_to_string(&file).unwrap_or_default() != all {
            other.push(format!("{name} is another one now:\n{all}"));
        }
    }
    assert!(other.is_empty(), "{}", other.join("\n"));
}
