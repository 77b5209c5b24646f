//! The state and the screen, without a terminal: what keys and events do, as data. Names carry the number of the complaint.

#![allow(clippy::unwrap_used)]

mod desk;

use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use desk::{Chat, facts, question};
use ratatui::buffer::Cell;
use ratatui::layout::Position;
use ratatui::style::{Color, Modifier};
use std::time::Duration;
use tieline::schema::{
    ConfigOption, Diff, DiffPatch, MessageKind, PermissionOption, PermissionOptionKind, StopReason, ToolCallStatus,
    ToolCallUpdate, Update,
};
use tieline_chat::effect::Effect;
use tieline_chat::event::{About, Event};
use tieline_chat::pick::{self, Errand};
use tieline_chat::state::Over;
use tieline_client::live::{
    self, Conversation, Ending, Failure, Now, Part, Phase, Queued, Reply, State as Doing, When,
};
use tieline_client::permission::{Answer, Keep, Question};
use tieline_host::snapshot::Undone;
use tieline_host::text::RECORD;

fn answered(effects: &[Effect]) -> Option<&Answer> {
    effects.iter().find_map(|effect| match effect {
        Effect::Reply(_, Reply::Permission(answer)) => Some(answer),
        _ => None,
    })
}

#[test]
fn complaint_02_rule_1_the_conversation_can_be_scrolled_under_a_question() {
    let mut chat = Chat::new();
    for number in 0..100 {
        chat.said(MessageKind::Agent, &format!("line {number}\n\n"));
    }
    chat.later(2000).ask(question());
    assert!(chat.has_keys());
    assert!(chat.screen(80, 24).contains("line 99"));
    chat.key(KeyCode::PageUp);
    let screen = chat.screen(80, 24);
    assert!(chat.has_keys() && !screen.contains("line 99") && screen.contains("would: run rm -rf build"), "{screen}");
}

#[test]
fn complaint_02_rule_2_no_key_is_taken_from_who_types_or_holds_a_draft() {
    let mut chat = Chat::new();
    chat.typed("fix");
    chat.ask(question());
    let screen = chat.screen(80, 24);
    assert!(
        !chat.has_keys() && screen.contains("Tab answers") && screen.contains("would: run rm -rf build"),
        "{screen}"
    );
    // A draft holds it off for ever.
    chat.later(60_000);
    assert!(!chat.has_keys());
    assert!(matches!(&chat.key(KeyCode::Enter)[..], [Effect::Prompt(1, _)]));
    // Empty now, but just touched.
    chat.later(900);
    assert!(!chat.has_keys());
    chat.later(200);
    assert!(chat.has_keys());
    // Tab gives the keys back, and it does not take them again by itself.
    chat.key(KeyCode::Tab);
    chat.later(60_000);
    assert!(!chat.has_keys());
    chat.key(KeyCode::Tab);
    assert!(chat.has_keys());
}

#[test]
fn complaint_02_rule_3_no_yes_by_accident() {
    // What is pressed, so long after it got the keys, and what is answered.
    let rows: &[(&[KeyCode], u64, Option<Answer>)] = &[
        (&[KeyCode::Enter], 1000, None),
        (&[KeyCode::Char('y'), KeyCode::Enter], 1000, None),
        (&[KeyCode::Char('1'), KeyCode::Enter], 0, None),
        (&[KeyCode::Char('1'), KeyCode::Enter], 1000, Some(Answer::Allow)),
        (&[KeyCode::Char('2'), KeyCode::Enter], 1000, Some(Answer::AllowFor(Keep::Run))),
        (&[KeyCode::Char('3'), KeyCode::Enter], 1000, Some(Answer::AllowFor(Keep::Always))),
        (&[KeyCode::Char('4'), KeyCode::Enter], 0, Some(Answer::Refuse)),
        (&[KeyCode::Char('6'), KeyCode::Enter], 0, Some(Answer::RefuseFor(Keep::Always))),
        (&[KeyCode::Down, KeyCode::Enter], 0, None),
        (&[KeyCode::Down, KeyCode::Enter], 1000, Some(Answer::Allow)),
        (&[KeyCode::Esc], 0, Some(Answer::Refuse)),
        (&[KeyCode::Char('9'), KeyCode::Enter], 1000, None),
    ];
    for (keys, wait, expected) in rows {
        let mut chat = Chat::new();
        chat.later(2000).ask(question());
        assert!(chat.has_keys());
        chat.later(*wait);
        let mut effects = Vec::new();
        for key in *keys {
            effects.extend(chat.later(150).key(*key));
        }
        assert_eq!(answered(&effects), expected.as_ref(), "{keys:?} after {wait} ms");
    }
    // Nobody types like this: it is a paste, and the terminal did not say so.
    for number in ['1', '2', '3'] {
        let mut chat = Chat::new();
        chat.later(2000).ask(question());
        chat.later(1000).key(KeyCode::Char(number));
        let at_once = chat.now + Duration::from_millis(3);
        let effects = chat.state.handle(Event::Key(KeyCode::Enter.into()), at_once);
        assert_eq!(answered(&effects), None, "{number}");
        assert!(chat.screen(80, 24).contains("too quick"), "{}", chat.screen(80, 24));
        // Who meant it presses once more.
        let effects = chat.later(300).key(KeyCode::Enter);
        assert!(answered(&effects).is_some(), "{number}");
    }
}

#[test]
fn complaint_02_rule_3_a_paste_never_answers_and_words_go_to_the_composer() {
    let mut chat = Chat::new();
    chat.later(2000).ask(question());
    chat.later(1000);
    let effects = chat.state.handle(Event::Paste("1\n".into()), chat.now);
    assert!(answered(&effects).is_none() && !chat.state.tab().composer.is_empty());
    // Somebody who types a sentence that begins with a number.
    let mut chat = Chat::new();
    chat.later(2000).ask(question());
    chat.later(1000);
    chat.typed("1. build it");
    assert_eq!(chat.state.tab().composer.text(), "1. build it");
    let effects = chat.key(KeyCode::Enter);
    assert!(answered(&effects).is_none() && matches!(&effects[..], [Effect::Prompt(..)]), "{effects:?}");
}

#[test]
fn complaint_02_rule_4_several_wait_with_their_age_and_one_taken_back_goes_with_a_word() {
    let mut chat = Chat::new();
    let (first, _) = chat.later(2000).ask(question());
    chat.ask(Question { title: "Another".into(), facts: vec!["write b".into()], ..question() });
    chat.later(5000);
    let screen = chat.screen(80, 24);
    assert!(screen.contains("1 of 2") && screen.contains("5 s"), "{screen}");
    chat.key(KeyCode::Char('1'));
    chat.live(live::Event::Settled(first));
    // The choice was for the other one; this one has to be read first.
    assert!(answered(&chat.key(KeyCode::Enter)).is_none());
    let screen = chat.screen(80, 24);
    assert!(screen.contains("would: write b") && !screen.contains("1 of 2"), "{screen}");
    assert!(screen.contains("not asked any more"), "{screen}");
    // All of it is one key away, and nothing is answered by looking.
    assert!(chat.chord(KeyCode::Char('o'), KeyModifiers::CONTROL).is_empty());
    assert!(
        matches!(&chat.state.over, Some(Over::Read(reading)) if reading.lines.iter().any(|line| line.contains("write b")))
    );
    chat.key(KeyCode::Esc);
    assert_eq!(chat.state.tab().questions.len(), 1);
}

#[test]
fn complaint_02_rule_5_a_reason_is_queued_first() {
    let mut chat = Chat::new();
    chat.later(2000).ask(question());
    let waiting = Queued { number: 7, parts: vec![Part::Text("later".into())] };
    chat.state.handle(Event::Queue(1, vec![waiting].into()), chat.now);
    chat.key(KeyCode::Char('5'));
    let effects = chat.key(KeyCode::Enter);
    // What waits is held before the agent hears of the no: its turn may be over with that.
    assert!(matches!(effects[..], [Effect::Hold(1), Effect::Reply(..)]), "{effects:?}");
    assert_eq!(answered(&effects), Some(&Answer::Refuse));
    chat.live(live::Event::Ended { stop: Ok(StopReason::EndTurn), changed: Vec::new(), remarks: Vec::new() });
    assert!(chat.screen(80, 24).contains("sends it without your reason"));
    chat.typed("use trash");
    let effects = chat.key(KeyCode::Enter);
    let [Effect::First(1, parts)] = &effects[..] else { panic!("{effects:?}") };
    assert!(matches!(&parts[..], [Part::Text(text)] if text == "use trash"));
}

#[test]
fn leaving_a_turn_says_what_becomes_of_it_and_wants_a_second_key() {
    let ctrl_d = |chat: &mut Chat| chat.chord(KeyCode::Char('d'), KeyModifiers::CONTROL);
    let mut chat = Chat::new();
    assert!(matches!(ctrl_d(&mut chat)[..], [Effect::Quit]));
    let mut chat = Chat::new();
    chat.doing(Doing::Running);
    assert!(ctrl_d(&mut chat).is_empty());
    assert!(chat.screen(40, 12).contains("Ctrl+D again stops the turn"));
    chat.later(10_000);
    assert!(ctrl_d(&mut chat).is_empty());
    assert!(matches!(ctrl_d(&mut chat)[..], [Effect::Quit]));
    // What waits is kept; that is said, too.
    let mut chat = Chat::new();
    let waiting = Queued { number: 7, parts: vec![Part::Text("later".into())] };
    chat.state.handle(Event::Queue(1, vec![waiting].into()), chat.now);
    assert!(ctrl_d(&mut chat).is_empty());
    assert!(chat.screen(80, 24).contains("keeps 1 prompt in the queue"));
}

#[test]
fn complaint_02_rule_6_always_shows_the_rule_and_its_place() {
    let mut chat = Chat::new();
    chat.later(2000).ask(question());
    let screen = chat.screen(140, 30);
    assert!(screen.contains("always in this folder: `run rm -rf build`"), "{screen}");
    assert!(screen.contains("learned.toml") && screen.contains("agent is not told"), "{screen}");
}

#[test]
fn complaint_03_the_conversation_is_printed_whole() {
    let mut chat = Chat::new();
    chat.said(MessageKind::User, "the first thing");
    for number in 0..200 {
        chat.said(MessageKind::Agent, &format!("answer {number}\n\n"));
    }
    let printed = chat.state.tab().list.print(&chat.talk, 80, 10_000).join("\n");
    assert!(printed.contains("the first thing") && printed.contains("answer 0") && printed.contains("answer 199"));
}

#[test]
fn complaint_03_all_tabs_are_printed_the_one_that_is_shown_last() {
    let mut chat = Chat::new();
    chat.said(MessageKind::Agent, "in the first tab");
    chat.chord(KeyCode::Char('t'), KeyModifiers::CONTROL);
    let talk = Conversation::default();
    chat.state.handle(Event::Opened(2, Box::new(facts(&talk))), chat.now);
    for event in talk.take(Update::text(MessageKind::Agent, None, "in the second tab"), When::Turn) {
        chat.state.handle(Event::Live(2, Box::new(event)), chat.now);
    }
    let printed = chat.state.print(80, 1000).join("\n");
    let (first, second) = (printed.find("in the first tab"), printed.find("in the second tab"));
    assert!(first.is_some() && first < second, "{printed}");
}

#[test]
fn what_terminals_draw_with_different_widths_is_drawn_otherwise() {
    let mut chat = Chat::new();
    chat.said(MessageKind::Agent, "🇩🇪 flag, 👩‍👩‍👧 family, ❤️ heart, 👍🏽 thumb, 1️⃣ key.");
    chat.typed("🇫🇷");
    let screen = chat.screen(80, 24);
    assert!(screen.contains("DE flag, 👩  family, ❤  heart, 👍  thumb, 1  key."), "{screen}");
    assert!(screen.contains("❯ FR"), "{screen}");
    // Letters that are written as one have a cell each, with their marks: what counts them by cells leaves none of them behind.
    chat.said(MessageKind::Agent, "\n\nनमस्ते हिन्दी.");
    let (buffer, _) = chat.buffer(80, 24);
    let cells = (0..24).flat_map(|y| (0..80).map(move |x| (x, y)));
    let begin = cells.clone().find(|at| buffer[*at].symbol() == "न").unwrap();
    let shown: Vec<&str> = (0..11).map(|x| buffer[(begin.0 + x, begin.1)].symbol()).collect();
    assert_eq!(shown, ["न", "म", "स्", "ते", " ", "ह", "ि", "न्", "द", "ी", "."]);
}

#[test]
fn complaint_04_one_key_gives_the_mouse_back() {
    let mut chat = Chat::new();
    assert!(chat.screen(120, 24).contains("F6 mouse off"));
    assert!(matches!(chat.key(KeyCode::F(6))[..], [Effect::Mouse(false)]));
    assert!(matches!(chat.key(KeyCode::F(6))[..], [Effect::Mouse(true)]));
}

#[test]
fn complaint_04_what_is_selected_with_the_mouse_is_copied_as_it_was_said() {
    let mut chat = Chat::new();
    let code = format!("let long = {};", "\"word\" + ".repeat(20));
    chat.said(MessageKind::Agent, &format!("Some **strong** and `quoted` words.\n\n```rust\n{code}\n```\n"));
    let screen = chat.screen(40, 24);
    let place = |words: &str| {
        let (y, line) = screen.lines().enumerate().find(|(_, line)| line.contains(words)).unwrap();
        (line[..line.find(words).unwrap()].chars().count() as u16, y as u16)
    };
    let mut select = |(x, y): (u16, u16), (to_x, to_y): (u16, u16)| {
        let left = MouseButton::Left;
        let mut effects = Vec::new();
        for (kind, column, row) in [
            (MouseEventKind::Down(left), x, y),
            (MouseEventKind::Drag(left), to_x, to_y),
            (MouseEventKind::Up(left), to_x, to_y),
        ] {
            let mouse = MouseEvent { kind, column, row, modifiers: KeyModifiers::NONE };
            effects = chat.state.handle(Event::Mouse(mouse), chat.now);
        }
        let marked = chat.buffer(40, 24).0.content.iter().any(|cell| cell.modifier.contains(Modifier::REVERSED));
        let Some(Effect::Copy(text)) = effects.pop() else { return None };
        assert!(marked);
        Some(text)
    };
    // A click selects nothing, nor does what is between two things.
    let (x, y) = place("Some");
    assert_eq!(select((x, y - 1), (x + 9, y - 1)), None);
    assert_eq!(select(place("strong"), place("strong")), None);
    let (x, y) = place("words.");
    assert_eq!(select(place("strong"), (x + 5, y)).as_deref(), Some("**strong** and `quoted` words."));
    // Backwards, over rows that the screen broke: no breaks, no marks.
    let (x, y) = place("let long");
    let last = screen.lines().enumerate().filter(|(_, line)| line.contains("word")).last().unwrap().0 as u16;
    assert_eq!(select((39, last), (x, y)).as_deref(), Some(code.as_str()));
}

#[test]
fn complaint_02_a_click_gives_a_question_the_keys_and_answers_nothing() {
    let mut chat = Chat::new();
    chat.typed("draft");
    chat.ask(question());
    let screen = chat.screen(80, 24);
    let row = screen.lines().position(|line| line.contains("asks for permission")).unwrap() as u16;
    let mouse =
        MouseEvent { kind: MouseEventKind::Down(MouseButton::Left), column: 5, row, modifiers: KeyModifiers::NONE };
    assert!(chat.state.handle(Event::Mouse(mouse), chat.now).is_empty());
    assert!(chat.has_keys() && chat.state.tab().questions.len() == 1);
}

#[test]
fn complaint_05_what_is_copied_is_what_was_said() {
    let mut chat = Chat::new();
    let text = format!("```sh\necho {}\n```", "word ".repeat(60).trim());
    chat.said(MessageKind::Agent, &text);
    let effects = chat.chord(KeyCode::Char('c'), KeyModifiers::ALT);
    assert!(matches!(&effects[..], [Effect::Copy(copied)] if *copied == text), "{effects:?}");
}

#[test]
fn complaint_06_no_draft_is_lost() {
    let mut chat = Chat::new();
    chat.typed("a draft");
    assert!(chat.chord(KeyCode::Char('c'), KeyModifiers::CONTROL).is_empty());
    assert!(chat.state.tab().composer.is_empty());
    chat.key(KeyCode::Up);
    assert_eq!(chat.state.tab().composer.text(), "a draft");
    // A prompt that is stopped before anything came of it comes back.
    let mut chat = Chat::new();
    let queued = Queued { number: 1, parts: vec![Part::Text("do it".into())] };
    chat.state.handle(Event::Queue(1, vec![queued].into()), chat.now);
    chat.live(live::Event::Begun(1));
    chat.doing(Doing::Running);
    assert!(matches!(chat.key(KeyCode::Esc)[..], [Effect::Cancel(1)]));
    chat.live(live::Event::Ended { stop: Ok(StopReason::Cancelled), changed: Vec::new(), remarks: Vec::new() });
    assert_eq!(chat.state.tab().composer.text(), "do it");
}

#[test]
fn complaint_08_the_caret_is_where_is_typed() {
    let mut chat = Chat::new();
    chat.typed("日本");
    let (_, caret) = chat.buffer(80, 24);
    assert_eq!(caret, Some(Position { x: 3 + 4, y: 22 }));
    // While a question has the keys there is none.
    let mut chat = Chat::new();
    chat.later(2000).ask(question());
    assert_eq!(chat.buffer(80, 24).1, None);
}

#[test]
fn complaint_09_every_view_fits_every_screen() {
    type Open = fn(&mut Chat);
    let views: &[(&str, Open)] = &[
        ("first", |_| {}),
        ("question", |chat| drop(chat.later(2000).ask(question()))),
        ("palette", |chat| drop(chat.chord(KeyCode::Char('p'), KeyModifiers::CONTROL))),
        ("help", |chat| drop(chat.key(KeyCode::F(1)))),
        ("draft", |chat| chat.typed(&"many words ".repeat(40))),
        ("search", |chat| drop(chat.chord(KeyCode::Char('f'), KeyModifiers::CONTROL))),
    ];
    for (name, open) in views {
        for (width, height) in [(40, 12), (80, 24), (140, 45), (10, 4), (1, 1), (300, 5)] {
            let mut chat = Chat::new();
            chat.said(MessageKind::Agent, "Hello.\n\n- one\n- two\n");
            open(&mut chat);
            let screen = chat.screen(width, height);
            if width >= 40 {
                let foot = screen.lines().last().unwrap_or_default();
                assert!(!foot.trim().is_empty(), "{name} at {width}x{height}:\n{screen}");
            }
            // The same state is the same screen.
            assert_eq!(screen, chat.screen(width, height), "{name} at {width}x{height}");
        }
    }
    // The choices of a question are in view on the smallest screen.
    let mut chat = Chat::new();
    chat.later(2000).ask(question());
    let screen = chat.screen(40, 12);
    assert!(screen.contains("would: run rm -rf build") && screen.contains("1 Yes"), "{screen}");
}

#[test]
fn complaint_11_no_timer_when_nothing_moves() {
    let mut chat = Chat::new();
    assert_eq!(chat.state.deadline(chat.now), None);
    chat.typed("draft");
    assert_eq!(chat.state.deadline(chat.now), None);
    chat.doing(Doing::Running);
    let next = chat.state.deadline(chat.now).map(|at| at - chat.now);
    assert!(next.is_some_and(|next| next > Duration::from_millis(500) && next <= Duration::from_secs(1)), "{next:?}");
}

#[test]
fn complaint_15_three_levels_on_one_key_and_one_item_where_it_stands() {
    let mut chat = Chat::new();
    chat.said(MessageKind::Thought, "first thought\n\nsecond thought\n\nthird thought");
    let folded = chat.screen(80, 24);
    chat.chord(KeyCode::Up, KeyModifiers::ALT);
    chat.chord(KeyCode::Char('o'), KeyModifiers::ALT);
    let open = chat.screen(80, 24);
    assert!(!folded.contains("third thought") && open.contains("third thought"), "{folded}\n{open}");
    for word in ["full", "brief", "normal"] {
        chat.chord(KeyCode::Char('o'), KeyModifiers::CONTROL);
        assert!(chat.screen(80, 24).contains(&format!("detail: {word}")));
    }
}

#[test]
fn complaint_17_a_turn_of_the_queue_is_seen_to_run_and_waits_behind_one_that_failed() {
    let mut chat = Chat::new();
    chat.doing(Doing::Running);
    let ended = |stop| live::Event::Ended { stop, changed: Vec::new(), remarks: Vec::new() };
    // The session tells only what changes: from one turn to the next it goes on running.
    chat.live(ended(Ok(StopReason::EndTurn)));
    chat.live(live::Event::Begun(2));
    let screen = chat.screen(80, 24);
    assert!(!screen.contains("ready"), "{screen}");
    let waiting = Queued { number: 3, parts: vec![Part::Text("then".into())] };
    chat.state.handle(Event::Queue(1, vec![waiting].into()), chat.now);
    chat.live(ended(Err(Failure::new(Ending::Failed, Phase::Turn, "boom"))));
    let screen = chat.screen(80, 24);
    assert!(screen.contains("boom") && screen.contains("the queue waits"), "{screen}");
    // An agent that died comes back, and nothing is sent by itself.
    let died = Failure::new(Ending::Failed, Phase::Turn, "it died");
    assert!(matches!(&chat.live(live::Event::Lost(died))[..], [Effect::Restart(1), ..]));
}

#[test]
fn complaint_17_the_queue_is_seen_edited_and_says_what_now_means() {
    let mut chat = Chat::new();
    chat.doing(Doing::Running);
    chat.typed("next");
    assert!(matches!(&chat.key(KeyCode::Enter)[..], [Effect::Prompt(1, _)]));
    let queued = |number, text: &str| Queued { number, parts: vec![Part::Text(text.into())] };
    chat.state.handle(Event::Queue(1, vec![queued(1, "next"), queued(2, "then")].into()), chat.now);
    let ways = [
        (Now::Interrupt, "Enter stops this turn, then sends"),
        (Now::Steer, "Enter joins this turn (steering)"),
        (Now::Join, "Enter joins this turn: the agent takes it in when it can"),
    ];
    for (now, words) in ways {
        let about = About { options: Vec::<ConfigOption>::new(), commands: Vec::new(), now };
        chat.state.handle(Event::About(1, Box::new(about)), chat.now);
        let screen = chat.screen(80, 24);
        assert!(
            screen.contains("1 waits: next") && screen.contains("2 waits: then") && screen.contains(words),
            "{screen}"
        );
    }
    assert!(matches!(&chat.key(KeyCode::Enter)[..], [Effect::SendNow(1, 1)]));
    // What is more than text can't be steered: that is said, too. An agent that did not take it keeps nothing.
    let about = About { options: Vec::new(), commands: Vec::new(), now: Now::Steer };
    chat.state.handle(Event::About(1, Box::new(about)), chat.now);
    let file = Queued { number: 3, parts: vec![Part::Text("see".into()), Part::Piped("a file".into())] };
    chat.state.handle(Event::Queue(1, vec![file].into()), chat.now);
    assert!(chat.screen(80, 24).contains("Enter stops this turn, then sends"));
    chat.live(live::Event::Given(Err("no\u{1b}[2J".into())));
    chat.state.handle(Event::Queue(1, vec![queued(1, "next"), queued(2, "then")].into()), chat.now);
    let screen = chat.screen(80, 24);
    assert!(
        screen.contains("! the agent does not take it into the turn: no") && screen.contains("1 waits: next"),
        "{screen}"
    );
    // The second goes up, then is dropped.
    let pick = |chat: &mut Chat, down: usize, action: usize| {
        chat.chord(KeyCode::Char('q'), KeyModifiers::CONTROL);
        (0..down).for_each(|_| drop(chat.key(KeyCode::Down)));
        chat.key(KeyCode::Enter);
        (0..action).for_each(|_| drop(chat.key(KeyCode::Down)));
        chat.key(KeyCode::Enter)
    };
    let numbers = |effects: &[Effect]| match effects {
        [Effect::SetQueue(1, queue)] => queue.iter().map(|queued| queued.number).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(numbers(&pick(&mut chat, 1, 2)), [2, 1]);
    assert_eq!(numbers(&pick(&mut chat, 0, 3)), [1]);
    assert_eq!(numbers(&pick(&mut chat, 0, 1)), [0_u64; 0]);
    assert_eq!(chat.state.tab().composer.text(), "next");
}

#[test]
fn complaint_19_only_palette_colours_and_no_background() {
    let mut chat = Chat::new();
    chat.said(MessageKind::User, "do it");
    chat.said(MessageKind::Agent, "# Head\n\n`code` and **bold**\n\n```rust\nfn main() {}\n```\n\n> quote\n");
    chat.later(2000).ask(question());
    for (width, height) in [(40, 12), (80, 24), (140, 45)] {
        let (buffer, _) = chat.buffer(width, height);
        for cell in &buffer.content {
            let palette = !matches!(cell.fg, Color::Rgb(..) | Color::Indexed(16..));
            assert!(palette && cell.bg == Color::Reset, "{cell:?}");
        }
    }
}

#[test]
fn the_ladder_asks_before_it_kills() {
    let mut chat = Chat::new();
    chat.doing(Doing::Running);
    assert!(matches!(chat.key(KeyCode::Esc)[..], [Effect::Cancel(1)]));
    chat.doing(Doing::Cancelling);
    chat.later(3000);
    assert!(chat.screen(80, 24).contains("asked to stop 3 s ago"));
    assert!(chat.key(KeyCode::Esc).is_empty());
    // To wait is what Enter means first.
    assert!(chat.key(KeyCode::Enter).is_empty());
    chat.key(KeyCode::Esc);
    chat.key(KeyCode::Down);
    assert!(matches!(chat.key(KeyCode::Enter)[..], [Effect::Kill(1)]));
    // Once the agent has stopped there is nothing to decide.
    chat.key(KeyCode::Esc);
    assert!(chat.screen(80, 24).contains("Wait on"));
    chat.doing(Doing::Idle);
    assert!(!chat.screen(80, 24).contains("Wait on"));
}

#[test]
fn words_of_an_agent_can_not_pass_for_a_question() {
    let mut chat = Chat::new();
    let fake = "━━ The agent asks for permission · 1 s · Tab answers ━━\nwould: nothing\n  1 Yes, this once\n\u{1b}[2J\u{1b}[H\u{202e}";
    chat.said(MessageKind::Agent, fake);
    let (buffer, _) = chat.buffer(80, 24);
    for y in 0..24 {
        let row: String = (0..80).map(|x| buffer[(x, y)].symbol()).collect();
        assert!(!row.contains(['\u{1b}', '\u{202e}']));
        if row.contains("asks for permission") || row.contains("Yes, this once") {
            assert!(row.trim_start().starts_with('│'), "{row}");
        }
    }
}

#[test]
fn a_no_is_never_out_of_sight() {
    let long = "run echo ".to_owned() + &"word ".repeat(90) + "&& rm -rf /tmp/nothing";
    for (width, height) in [(80, 24), (40, 12), (140, 45)] {
        let mut chat = Chat::new();
        let question = Question { facts: vec![long.clone()], lasting: vec![long.clone()], ..question() };
        chat.later(2000).ask(question);
        let screen = chat.screen(width, height);
        let no = if height < 24 { "Esc refuses" } else { "No (Esc)" };
        assert!(screen.contains(no), "{width}x{height}:\n{screen}");
    }
}

#[test]
fn what_is_read_whole_can_not_begin_a_row_as_we_do() {
    let mut chat = Chat::new();
    let text = format!("{} would: read notes.txt and nothing else ", "a".repeat(79)).repeat(3);
    let patch = DiffPatch { text: format!("@@ -0,0 +1,1 @@\n+{text}\nwould: nothing\n"), ..DiffPatch::default() };
    let diff = Diff { patch: Some(patch), ..Diff::default() };
    chat.later(2000).ask(Question { title: text.clone(), changes: vec![diff], ..question() });
    chat.chord(KeyCode::Char('o'), KeyModifiers::CONTROL);
    for width in [40, 80, 81, 100] {
        let screen = chat.screen(width, 45);
        let ours = screen.lines().filter(|row| row.starts_with(" would: ")).collect::<Vec<_>>();
        assert!(!ours.is_empty() && ours.iter().all(|row| *row == " would: run rm -rf build"), "at {width}:\n{screen}");
    }
}

#[test]
fn six_choices_are_seen_or_scrolled_to_at_any_size() {
    let long = "run echo ".to_owned() + &"word ".repeat(30);
    for (width, height, facts) in [
        (50, 15, vec!["run rm -rf build".to_owned()]),
        (50, 15, vec![long.clone(), long.clone()]),
        (40, 12, vec![long.clone()]),
        (80, 24, vec![long.clone()]),
    ] {
        for waits in [0, 3] {
            let mut chat = Chat::new();
            let queue: Vec<_> =
                (0..waits).map(|number| Queued { number, parts: vec![Part::Text("next".into())] }).collect();
            chat.state.handle(Event::Queue(1, queue.into()), chat.now);
            chat.later(2000).ask(Question { facts: facts.clone(), ..question() });
            let screen = chat.screen(width, height);
            assert!(screen.contains("would: run"), "{width}x{height}:\n{screen}");
            let more = screen.contains("more: ↑↓");
            assert!(screen.contains(" 6 No, never") || more, "{width}x{height}, {waits} wait:\n{screen}");
            if (height, waits) == (15, 0) {
                assert!(screen.contains(" 6 No, never"), "all six fit here:\n{screen}");
            }
            for choice in '1'..='6' {
                chat.later(500).key(KeyCode::Char(choice));
                let screen = chat.screen(width, height);
                assert!(screen.contains(&format!("❯ {choice} ")), "{width}x{height}, {choice}:\n{screen}");
            }
        }
    }
}

#[test]
fn the_margins_are_the_same_everywhere() {
    let mut chat = Chat::new();
    chat.said(MessageKind::Agent, "words");
    chat.typed("x");
    chat.ask(question());
    let (buffer, _) = chat.buffer(60, 20);
    for y in 0..20 {
        let row: String = (0..60).map(|x| buffer[(x, y)].symbol()).collect();
        let rule = row.starts_with(['─', '━']);
        assert!(rule || (row.starts_with(' ') && row.ends_with(' ')), "{row:?}");
    }
    for key in [KeyCode::F(1), KeyCode::F(2)] {
        chat.key(key);
        let (buffer, _) = chat.buffer(60, 20);
        assert!((0..14).all(|y| buffer[(0, y)].symbol() == " "), "{}", chat.screen(60, 20));
        chat.key(KeyCode::Esc);
    }
}

#[test]
fn complaint_02_all_that_is_decided_on_can_be_read_however_long_its_lines_are() {
    let mut chat = Chat::new();
    let fact = format!("run echo {} ; rm -rf build", "word ".repeat(2000));
    chat.later(2000).ask(Question { facts: vec![fact], ..question() });
    chat.chord(KeyCode::Char('o'), KeyModifiers::CONTROL);
    for key in [KeyCode::PageDown, KeyCode::Down] {
        chat.screen(80, 24);
        chat.key(KeyCode::Home);
        let reads = (0..300).any(|_| {
            chat.key(key);
            chat.screen(80, 24).contains("; rm -rf build")
        });
        assert!(reads, "{}", chat.screen(80, 24));
    }
    // Back again, row by row, and the wheel does the same.
    let begins = |screen: &str| screen.lines().nth(2).is_some_and(|row| row.contains("would: run echo"));
    assert!(!begins(&chat.screen(80, 24)));
    (0..300).for_each(|_| drop(chat.key(KeyCode::Up)));
    assert!(begins(&chat.screen(80, 24)));
    let wheel = MouseEvent { kind: MouseEventKind::ScrollDown, column: 5, row: 5, modifiers: KeyModifiers::NONE };
    chat.state.handle(Event::Mouse(wheel), chat.now);
    assert!(!begins(&chat.screen(80, 24)));
}

#[test]
fn however_much_an_agent_makes_us_remark_the_last_remark_is_seen() {
    let mut chat = Chat::new();
    for number in 0..20_001 {
        chat.live(live::Event::Warning(format!("warning {number}")));
    }
    chat.live(live::Event::Warning("the last one".into()));
    let screen = chat.screen(80, 24);
    assert!(screen.contains("! warning 20000\n ! the last one"), "{screen}");
    chat.chord(KeyCode::Home, KeyModifiers::CONTROL);
    let screen = chat.screen(80, 24);
    assert!(!screen.contains("warning 0") && screen.contains("is not kept any more"), "{screen}");
}

#[test]
fn a_draft_makes_room_for_a_prompt_that_waited_and_is_in_the_history() {
    let mut chat = Chat::new();
    let waiting = Queued { number: 1, parts: vec![Part::Text("next".into())] };
    chat.state.handle(Event::Queue(1, vec![waiting].into()), chat.now);
    chat.typed("a draft");
    chat.chord(KeyCode::Char('q'), KeyModifiers::CONTROL);
    for key in [KeyCode::Enter, KeyCode::Down, KeyCode::Enter] {
        chat.key(key);
    }
    assert_eq!(chat.state.tab().composer.text(), "next");
    chat.key(KeyCode::Up);
    assert_eq!(chat.state.tab().composer.text(), "a draft");
}

#[test]
fn what_leaving_ends_is_counted_in_words() {
    let mut chat = Chat::new();
    for _ in 0..2 {
        chat.typed("!sleep 9");
        chat.key(KeyCode::Enter);
    }
    chat.chord(KeyCode::Char('d'), KeyModifiers::CONTROL);
    let screen = chat.screen(80, 24);
    assert!(screen.contains("Ctrl+D again stops 2 lines of your own and leaves"), "{screen}");
}

#[test]
fn a_diff_is_read_before_the_yes_and_leads_back_to_it() {
    let mut chat = Chat::new();
    chat.key(KeyCode::F(5));
    let restored = vec!["/project/a".into(), "/project/made".into()];
    let preview = Undone { restored, ..Undone::default() };
    let diffs = ["@@ -1 +1 @@\n-new\n+old\n", "@@ -1 +0 @@\n-made\n"].map(|diff| Some(format!("--- a\n+++ b\n{diff}")));
    let added = ["/project/made".into()].into();
    let files = pick::files("3", "turn 3: do it", &preview, &added, &diffs, "/project".as_ref());
    chat.state.handle(Event::Found(files), chat.now);
    let screen = chat.screen(80, 24);
    assert!(screen.contains("turn 3: do it") && screen.contains("a  +1 -1"), "{screen}");
    assert!(screen.contains("puts 1 file back, removes 1 file"), "{screen}");
    assert!(screen.contains("made  +0 -1 · removed"), "{screen}");
    chat.key(KeyCode::Down);
    assert!(chat.key(KeyCode::Enter).is_empty());
    assert!(chat.screen(80, 24).contains(" -new\n +old"), "{}", chat.screen(80, 24));
    chat.key(KeyCode::Esc);
    chat.key(KeyCode::Up);
    let effects = chat.key(KeyCode::Enter);
    assert!(matches!(&effects[..], [Effect::Do(1, Errand::Undo(turn, None))] if turn == "3"), "{effects:?}");
}

#[test]
fn terminals_of_agents_follow_the_size_of_the_screen() {
    let mut chat = Chat::new();
    let effects = chat.state.handle(Event::Resize, chat.now);
    assert!(matches!(&effects[..], [Effect::Resize]), "{effects:?}");
}

/// Everything in a question that pushes the rest out: a long command, a warning, a long diff, many options with long names.
fn crowded() -> Question {
    let option = |at: usize| PermissionOption {
        option_id: format!("o{at}"),
        name: format!("option {at} {}", "of the agent ".repeat(12)),
        kind: PermissionOptionKind::AllowAlways,
        ..PermissionOption::default()
    };
    let [old, new] = ["old", "new"].map(|word| (0..30).map(|at| format!("{word} {at}")).collect::<Vec<_>>().join("\n"));
    Question {
        facts: vec![format!("write greet.py {}", "and words ".repeat(40))],
        hints: vec!["it is run by others".into()],
        changes: vec![Diff::of("/project/greet.py", Some(old), new)],
        options: (0..30).map(option).collect(),
        ..question()
    }
}

#[test]
fn what_is_judged_stays_in_view_however_much_else_there_is() {
    for (width, height) in [(40, 12), (50, 15), (80, 24), (200, 50)] {
        let mut chat = Chat::new();
        chat.later(2000).ask(crowded());
        for chosen in [None, Some(KeyCode::Up)] {
            chosen.map(|key| chat.key(key));
            let screen = chat.screen(width, height);
            let at = format!("{width}x{height}:\n{screen}");
            let place = if chosen.is_some() { "36 of 36: ↑↓" } else { "more: ↑↓" };
            assert!(screen.contains("would: write greet.py") && screen.contains("Mind: it is run by others"), "{at}");
            assert!(screen.contains("Esc refuses") && screen.contains(place) && screen.contains("Ctrl+O"), "{at}");
            let choices = screen.lines().filter(|row| row.contains("Yes") || row.contains("No")).count();
            // The chosen one is shown whole.
            assert!(choices >= if chosen.is_some() { 1 } else { 3 }, "{at}");
            assert!(screen.lines().any(|row| row.starts_with(" -old") || row.starts_with(" +new")), "{at}");
            if height >= 24 {
                assert!(screen.contains(" -old 0") && screen.contains(" +new 0"), "both sides, {at}");
            }
        }
    }
    // The whole of every answer is a key away.
    let mut chat = Chat::new();
    chat.later(2000).ask(crowded());
    chat.chord(KeyCode::Char('o'), KeyModifiers::CONTROL);
    chat.key(KeyCode::End);
    assert!(chat.screen(200, 50).contains("option 29"), "{}", chat.screen(200, 50));
    // Before it has the keys it is short, and says what to mind all the same.
    let mut chat = Chat::new();
    chat.typed("draft");
    chat.ask(crowded());
    let screen = chat.screen(40, 12);
    assert!(screen.contains("would: write") && screen.contains("Mind: it is"), "{screen}");
}

#[test]
fn what_is_looked_for_is_in_view_and_marked() {
    let mut chat = Chat::new();
    let words = |number: usize| format!("{} needle {number} in it\n\n", "many words ".repeat(8));
    chat.said(MessageKind::Agent, &(0..100).map(words).collect::<String>());
    chat.said(MessageKind::User, "no such thing");
    chat.typed("a draft");
    chat.ask(question());
    for (width, height) in [(40, 12), (80, 24)] {
        let marked = |chat: &mut Chat| {
            let (buffer, _) = chat.buffer(width, height);
            let marked = |cell: &&Cell| cell.modifier.contains(Modifier::REVERSED);
            buffer.content.iter().filter(marked).map(Cell::symbol).collect::<String>()
        };
        chat.screen(width, height);
        chat.chord(KeyCode::Char('f'), KeyModifiers::CONTROL);
        chat.typed("NEEDLE 7");
        // The first in a message of hundreds of rows, from the end back, and on again.
        for (key, found) in [
            (KeyCode::Enter, "needle 79"),
            (KeyCode::Up, "needle 78"),
            (KeyCode::Down, "needle 79"),
            (KeyCode::Down, "needle 7 "),
            (KeyCode::Enter, "needle 79"),
        ] {
            chat.key(key);
            let screen = chat.screen(width, height);
            assert!(screen.contains(found), "{found} at {width}x{height}:\n{screen}");
            assert!(marked(&mut chat).contains("needle 7"), "{found}");
        }
        chat.typed("x");
        chat.key(KeyCode::Enter);
        assert!(chat.screen(width, height).contains("not found"));
        chat.key(KeyCode::Esc);
        assert_eq!(marked(&mut chat), "");
        chat.chord(KeyCode::End, KeyModifiers::CONTROL);
    }
}

#[test]
fn what_a_line_of_ones_own_prints_is_seen_as_it_comes_where_it_was_typed() {
    let mut chat = Chat::new();
    chat.typed("!make");
    let effects = chat.key(KeyCode::Enter);
    let [Effect::Shell(1, place, line)] = &effects[..] else { panic!("{effects:?}") };
    let place = *place;
    assert_eq!(line, "make");
    assert!(chat.screen(80, 24).contains(" · ! make\n"), "{}", chat.screen(80, 24));
    chat.said(MessageKind::Agent, "meanwhile");
    for (text, over) in [("! make\none", false), ("! make\none\ntwo\n(you stopped it)", true)] {
        assert_eq!(chat.state.tab().shells, 1);
        chat.state.handle(Event::Ran(1, place, text.into(), over), chat.now);
        let screen = chat.screen(80, 24);
        assert!(screen.contains("! make\n   one") && screen.find("one") < screen.find("meanwhile"), "{screen}");
    }
    assert_eq!(chat.state.tab().shells, 0);
    assert!(chat.screen(80, 24).contains("(you stopped it)"));
}

#[test]
fn an_agent_is_started_by_its_command_and_it_is_said_how_to_keep_it() {
    let mut chat = Chat::new();
    assert!(matches!(chat.key(KeyCode::F(4))[..], [Effect::Look(1, pick::Source::Agents)]));
    chat.state.handle(Event::Found(pick::agents(Vec::new())), chat.now);
    chat.key(KeyCode::Enter);
    chat.typed("my-agent --acp");
    let effects = chat.key(KeyCode::Enter);
    let [Effect::Open(2, which, _)] = &effects[..] else { panic!("{effects:?}") };
    assert_eq!(which.agent.as_deref(), Some("my-agent --acp"));
    let screen = chat.screen(80, 24);
    assert!(screen.contains("to keep this agent: tieline agents add NAME -- my-agent --acp"), "{screen}");
}

#[test]
fn a_record_for_an_agent_that_lost_its_session_is_not_drawn_as_typed() {
    let record = format!("{} between the two.\n\n> user: old words\n\n{}\n", RECORD.0, RECORD.1);
    for texts in [vec![record.clone(), "go on".into()], vec![format!("{record}go on")]] {
        let mut chat = Chat::new();
        for text in texts {
            chat.said(MessageKind::User, &text);
        }
        let screen = chat.screen(80, 24);
        assert!(screen.contains("go on") && !screen.contains("old words") && !screen.contains("record"), "{screen}");
    }
    // Who types the same words sees them.
    let mut chat = Chat::new();
    chat.said(MessageKind::User, "what is a record of an earlier conversation?");
    assert!(chat.screen(80, 24).contains("a record of an earlier"));
}

#[test]
fn the_time_that_a_tool_waits_for_an_answer_is_not_its_own() {
    let mut chat = Chat::new();
    let call = ToolCallUpdate::new("c").title("Build it").status(ToolCallStatus::InProgress);
    for event in chat.talk.take(Update::ToolCall(Box::new(call.clone())), When::Turn) {
        chat.live(event);
    }
    chat.doing(Doing::Running);
    chat.later(2000).ask(Question { call: Some(call), ..question() });
    chat.later(60_000);
    let screen = chat.screen(80, 24);
    assert!(screen.contains("Build it  waits for you") && !screen.contains("1m"), "{screen}");
    chat.key(KeyCode::Char('1'));
    assert!(answered(&chat.later(200).key(KeyCode::Enter)).is_some());
    chat.later(3000);
    let screen = chat.screen(80, 24);
    assert!(screen.contains("Build it  5s\n"), "{screen}");
}

#[test]
fn the_time_of_a_call_counts_from_when_it_is_begun() {
    let mut chat = Chat::new();
    chat.doing(Doing::Running);
    for (status, seconds) in [(ToolCallStatus::Pending, 70), (ToolCallStatus::InProgress, 3)] {
        let call = ToolCallUpdate::new("c").title("Build it").status(status);
        for event in chat.talk.take(Update::ToolCall(Box::new(call)), When::Turn) {
            chat.live(event);
        }
        chat.later(seconds * 1000);
    }
    let screen = chat.screen(80, 24);
    assert!(screen.contains("● tool Build it  3s"), "{screen}");
}

#[test]
fn a_call_that_was_answered_does_not_wait_any_more() {
    let mut chat = Chat::new();
    chat.doing(Doing::Running);
    let call = ToolCallUpdate::new("c").title("Build it").status(ToolCallStatus::Pending);
    for event in chat.talk.take(Update::ToolCall(Box::new(call.clone())), When::Turn) {
        chat.live(event);
    }
    assert!(chat.screen(80, 24).contains("○ tool Build it  waits"));
    chat.later(2000).ask(Question { call: Some(call), ..question() });
    chat.later(2000).key(KeyCode::Char('1'));
    assert!(answered(&chat.later(500).key(KeyCode::Enter)).is_some());
    chat.later(1000);
    let screen = chat.screen(80, 24);
    assert!(screen.contains("● tool Build it  3s"), "{screen}");
}

#[test]
fn an_empty_enter_goes_to_the_end_and_ctrl_u_clears_what_a_list_is_searched_for() {
    let mut chat = Chat::new();
    (0..99).for_each(|number| chat.said(MessageKind::Agent, &format!("line {number}\n\n")));
    chat.screen(80, 24);
    chat.key(KeyCode::PageUp);
    assert!(!chat.screen(80, 24).contains("line 98"));
    chat.key(KeyCode::Enter);
    assert!(chat.screen(80, 24).contains("line 98"));
    chat.chord(KeyCode::Char('p'), KeyModifiers::CONTROL);
    chat.typed("zzz");
    assert!(chat.screen(80, 24).contains("nothing here"));
    chat.chord(KeyCode::Char('u'), KeyModifiers::CONTROL);
    assert!(!chat.screen(80, 24).contains("nothing here"));
}

#[test]
fn complaint_17_who_stops_a_turn_for_the_next_prompt_is_not_told_that_it_waits() {
    for now in [true, false] {
        let mut chat = Chat::new();
        chat.doing(Doing::Running);
        chat.state.tab_mut().queue = vec![Queued { number: 1, parts: vec![Part::Text("next".into())] }];
        if now {
            assert!(matches!(chat.key(KeyCode::Enter)[..], [Effect::SendNow(1, 1)]));
        }
        chat.live(live::Event::Ended { stop: Ok(StopReason::Cancelled), changed: Vec::new(), remarks: Vec::new() });
        assert_eq!(chat.screen(80, 24).contains("the queue waits"), !now);
    }
}

#[test]
fn a_prompt_that_is_edited_keeps_its_place_in_the_queue() {
    let edit = |chat: &mut Chat| {
        let queue = [(1, "one"), (2, "two"), (3, "three")];
        let queue = queue.map(|(number, text)| Queued { number, parts: vec![Part::Text(text.into())] });
        chat.state.handle(Event::Queue(1, queue.to_vec().into()), chat.now);
        chat.chord(KeyCode::Char('q'), KeyModifiers::CONTROL);
        for key in [KeyCode::Enter, KeyCode::Down, KeyCode::Enter] {
            chat.key(key);
        }
        assert_eq!(chat.state.tab().composer.text(), "one");
    };
    let mut chat = Chat::new();
    chat.doing(Doing::Running);
    edit(&mut chat);
    chat.typed(" more");
    let effects = chat.key(KeyCode::Enter);
    assert!(matches!(&effects[..], [Effect::Before(1, _, others)] if others[..] == [2, 3]), "{effects:?}");
    // Who drops it and types something else says something new.
    edit(&mut chat);
    chat.chord(KeyCode::Char('c'), KeyModifiers::CONTROL);
    chat.typed("other");
    assert!(matches!(&chat.key(KeyCode::Enter)[..], [Effect::Prompt(1, _)]));
}

#[test]
fn a_long_draft_has_the_rows_that_there_are_after_a_resize() {
    let mut chat = Chat::new();
    for number in 0..8 {
        chat.typed(&format!("line {number}"));
        chat.chord(KeyCode::Char('j'), KeyModifiers::CONTROL);
    }
    chat.typed("the end");
    let shown = |chat: &mut Chat, width, height| {
        let screen = chat.screen(width, height);
        (0..8).filter(|number| screen.contains(&format!("line {number}"))).count()
    };
    for (width, height, lines) in [(40, 12, 3), (80, 24, 7), (60, 13, 3), (140, 45, 8)] {
        assert_eq!(shown(&mut chat, width, height), lines, "{}", chat.screen(width, height));
        assert!(chat.screen(width, height).contains("the end"));
    }
    // The caret stays where it is.
    chat.key(KeyCode::Up);
    chat.screen(40, 12);
    chat.typed("x");
    assert!(chat.state.tab().composer.text().contains("line 7x"), "{}", chat.state.tab().composer.text());
}

#[test]
fn an_option_of_the_agent_that_lasts_says_that_it_holds_here_too() {
    for (lasting, words) in [
        (vec!["run make".to_owned()], "Yes until this chat ends, and the agent keeps it; the agent calls it: option 0"),
        (Vec::new(), "Yes, and the agent keeps it; the agent calls it: option 0"),
    ] {
        let mut chat = Chat::new();
        chat.later(2000).ask(Question { options: crowded().options[..1].to_vec(), lasting, ..question() });
        let screen = chat.screen(200, 30);
        assert!(screen.contains(words), "{screen}");
    }
}

#[test]
fn the_numbers_of_answers_are_the_same_on_the_screen_and_in_lines() {
    let question = question();
    for (at, answer) in question.answers().iter().enumerate() {
        let mut chat = Chat::new();
        chat.later(2000).ask(question.clone());
        chat.later(1000).key(KeyCode::Char(char::from_digit(at as u32 + 1, 10).unwrap()));
        assert_eq!(answered(&chat.later(500).key(KeyCode::Enter)), Some(answer), "{at}");
    }
}
