//! Every view at three sizes, beside what it looked like before: `tests/views/NAME.txt`. `WRITE_VIEWS=1` writes them anew, to be
//! looked at.
#![allow(clippy::unwrap_used)]

mod desk;

use crossterm::event::{KeyCode, KeyModifiers};
use desk::{Chat, facts, question};
use tieline::schema::{
    ConfigOption, Diff, MessageKind, Plan, PlanEntry, PlanStatus, PlanUpdate, SelectOption, SelectOptions,
    ToolCallContent, ToolCallStatus, ToolCallUpdate, ToolKind, Update,
};
use tieline_chat::effect::Effect;
use tieline_chat::event::{About, Event, Now};
use tieline_chat::pick::{Pick, Picker};
use tieline_client::live::{self, Conversation, Part, Queued, State as Doing, When};

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

fn press(chat: &mut Chat, letter: char) -> Vec<Effect> {
    chat.chord(KeyCode::Char(letter), KeyModifiers::CONTROL)
}

#[test]
fn complaint_09_every_view_at_three_sizes() {
    type Open = fn(&mut Chat);
    let views: &[(&str, Open)] = &[
        ("first", |_| {}),
        ("turn", turn),
        ("works", |chat| {
            turn(chat);
            chat.doing(Doing::Running);
            chat.state.handle(Event::Queue(1, vec![queued(1, "and test it"), queued(2, "then commit")]), chat.now);
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
            chat.state.handle(Event::Queue(1, vec![queued(1, "and test it"), queued(2, "then commit")]), chat.now);
            press(chat, 'q');
            chat.key(KeyCode::Enter);
        }),
        ("sessions", |chat| {
            chat.key(KeyCode::F(2));
            let sessions = Picker::new("Sessions: go on in a new tab", Vec::new())
                .line("Make it greet", "tieline · 3 turns · /project", Pick::Nothing)
                .line("why does it fail?", "codex · 1 turn · /project", Pick::Nothing);
            chat.state.handle(Event::Found(sessions), chat.now);
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
        }),
        ("tabs", |chat| {
            turn(chat);
            press(chat, 't');
            chat.state.handle(Event::Opened(2, Box::new(facts(&Conversation::default()))), chat.now);
            chat.state.handle(Event::Live(2, Box::new(live::Event::State(Doing::Idle))), chat.now);
        }),
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/views");
    let write = std::env::var_os("WRITE_VIEWS").is_some();
    let mut other = Vec::new();
    for (name, open) in views {
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
