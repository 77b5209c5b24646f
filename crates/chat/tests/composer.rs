//! The composer: what keys and pastes do, and that nothing that was typed is lost.
#![allow(clippy::unwrap_used)]

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use std::path::Path;
use std::time::{Duration, Instant};
use tieline::schema::Command;
use tieline_chat::compose::{Composer, Deed};
use tieline_client::live::Part;

/// A composer and a clock: each key comes long after the one before.
struct Desk {
    composer: Composer,
    now: Instant,
}

impl Desk {
    fn new() -> Self {
        Self { composer: Composer::default(), now: Instant::now() }
    }

    fn at(folder: &Path, state: &Path) -> Self {
        let mut desk = Self::new();
        desk.composer.open(folder, Some(state), "one");
        desk
    }

    fn press(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Deed {
        self.now += Duration::from_millis(100);
        self.composer.key(KeyEvent::new(code, modifiers), self.now)
    }

    /// Keys by their names, others are typed: `hello <Enter>`.
    fn keys(&mut self, keys: &str) -> Deed {
        let mut deed = Deed::None;
        let mut rest = keys;
        while let Some(c) = rest.chars().next() {
            if let Some((name, after)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
                let (modifiers, name) = match name.split_once('-') {
                    Some(("C", name)) => (KeyModifiers::CONTROL, name),
                    Some(("A", name)) => (KeyModifiers::ALT, name),
                    Some(("S", name)) => (KeyModifiers::SHIFT, name),
                    _ => (KeyModifiers::NONE, name),
                };
                let code = match name {
                    "Enter" => KeyCode::Enter,
                    "Up" => KeyCode::Up,
                    "Down" => KeyCode::Down,
                    "Left" => KeyCode::Left,
                    "Esc" => KeyCode::Esc,
                    "Tab" => KeyCode::Tab,
                    "BS" => KeyCode::Backspace,
                    name => KeyCode::Char(name.chars().next().unwrap()),
                };
                deed = self.press(code, modifiers);
                rest = after;
            } else {
                deed = self.press(KeyCode::Char(c), KeyModifiers::NONE);
                rest = &rest[c.len_utf8()..];
            }
        }
        deed
    }

    fn hints(&self) -> Vec<String> {
        let rows = self.composer.hints(60, 10);
        rows.iter()
            .map(|row| row.spans.iter().map(|span| &*span.content).collect::<String>().trim_end().to_owned())
            .collect()
    }
}

fn words(deed: &Deed) -> String {
    match deed {
        Deed::Submit(parts) => match &parts[0] {
            Part::Text(text) => text.clone(),
            part => panic!("{part:?}"),
        },
        deed => panic!("{deed:?}"),
    }
}

#[test]
fn complaint_07_these_keys_make_a_line_and_enter_sends() {
    for key in ["<S-Enter>", "<A-Enter>", "<C-j>", "\\<Enter>"] {
        let mut desk = Desk::new();
        desk.keys(&format!("one{key}two"));
        assert_eq!(desk.composer.text(), "one\ntwo", "{key}");
        assert_eq!(words(&desk.keys("<Enter>")), "one\ntwo");
        assert!(desk.composer.is_empty());
    }
    // In the middle of a line a backslash is one.
    assert_eq!(words(&Desk::new().keys("a\\b<Enter>")), "a\\b");
    assert!(matches!(Desk::new().keys("  <Enter>"), Deed::None));
}

#[test]
fn complaint_06_nothing_that_was_typed_is_lost() {
    // The keys, what is written then.
    let table = [
        ("draft<C-c>", ""),
        ("draft<C-c><Up>", "draft"),
        ("sent<Enter>draft<Up>", "sent"),
        ("sent<Enter>draft<Up><Down>", "draft"),
        ("a<Enter>b<Enter>draft<Up><Up><Up><Down><Down>", "draft"),
        ("a<Enter>b<Enter>draft<Up><Up><Down>", "b"),
        ("a<Enter>b<Enter>draft<Up>x", "bx"),
        ("draft<Esc>", "draft"),
        ("draft<Up>", "draft"),
        ("one<C-j>two<Up>", "one\ntwo"),
    ];
    for (keys, text) in table {
        let mut desk = Desk::new();
        desk.keys(keys);
        assert_eq!(desk.composer.text(), text, "{keys}");
    }
}

#[test]
fn complaint_06_drafts_and_history_are_on_disk() {
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    Desk::at(folder.path(), state.path()).keys("first<Enter>half a thou");
    // The program is killed here.
    let mut desk = Desk::at(folder.path(), state.path());
    assert_eq!(desk.composer.text(), "half a thou");
    desk.keys("<Up>");
    assert_eq!(desk.composer.text(), "first");
    let mut desk = Desk::at(folder.path(), state.path());
    assert_eq!(
        desk.composer.text(),
        "half a thou",
        "the draft is the one that was typed, not the one that was looked at"
    );
    desk.keys("<C-c>");
    assert!(Desk::at(folder.path(), state.path()).composer.is_empty());
    // Another folder has another history; what is broken in the file is passed over.
    let other = tempfile::tempdir().unwrap();
    assert!(matches!(Desk::at(other.path(), state.path()).keys("<Up>"), Deed::Pass));
    for entry in std::fs::read_dir(state.path().join("chat")).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("\"cut\n{text}\"not closed")).unwrap();
    }
    let mut desk = Desk::at(folder.path(), state.path());
    desk.keys("<Up><Up>");
    assert_eq!(desk.composer.text(), "first");
}

#[test]
fn complaint_06_a_draft_is_found_again_with_its_session_and_in_another_one() {
    let (state, folder) = (tempfile::tempdir().unwrap(), Path::new("/project"));
    let open = |name: &str| {
        let mut desk = Desk::new();
        desk.composer.open(folder, Some(state.path()), name);
        desk
    };
    // Typed before the session has an id, and killed after that.
    let mut desk = open("new");
    desk.keys("half a");
    desk.composer.name_draft("s-1");
    desk.keys(" sentence");
    drop(desk);
    assert_eq!(open("s-1").composer.text(), "half a sentence");
    let mut other = open("new");
    assert!(other.composer.is_empty() && other.composer.adopt_drafts() && !other.composer.adopt_drafts());
    other.keys("<Up>");
    assert_eq!(other.composer.text(), "half a sentence");
    assert!(open("s-1").composer.is_empty());
}

#[test]
fn complaint_16_keys_that_waited_for_us_are_no_paste() {
    let mut desk = Desk::new();
    desk.composer.was_busy(Duration::from_secs(1), desk.now);
    let mut sent = Vec::new();
    for c in "one\ntwo\n".chars() {
        desk.now += Duration::from_millis(1);
        let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
        let deed = desk.composer.key(KeyEvent::from(code), desk.now);
        if matches!(deed, Deed::Submit(_)) {
            sent.push(words(&deed));
        }
    }
    assert_eq!(sent, ["one", "two"]);
}

#[test]
fn complaint_16_a_paste_goes_on_behind_a_frame_that_took_long() {
    let mut desk = Desk::new();
    for c in "l1\nl2\nl3\n".chars() {
        let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
        assert!(matches!(desk.composer.key(KeyEvent::from(code), desk.now), Deed::None));
        // A frame is drawn behind every key from the third on.
        if desk.composer.text().len() > 4 {
            desk.now += Duration::from_millis(200);
            desk.composer.was_busy(Duration::from_millis(200), desk.now);
            assert!(matches!(desk.composer.tick(desk.now), Deed::None));
        }
    }
    assert_eq!(desk.composer.text(), "l1\nl2\nl3\n");
}

#[test]
fn complaint_06_a_prompt_that_was_not_sent_comes_back() {
    let mut desk = Desk::new();
    let Deed::Submit(parts) = desk.keys("one<C-j>two<Enter>") else { panic!() };
    desk.composer.take_back(&parts);
    assert_eq!(desk.composer.text(), "one\ntwo");
}

#[test]
fn the_history_is_searched() {
    let mut desk = Desk::new();
    desk.keys("fix the parser<Enter>write a test<Enter>fix the tests<Enter>write a test<Enter>draft");
    assert_eq!(desk.composer.said_before().collect::<Vec<_>>(), ["write a test", "fix the tests", "fix the parser"]);
    desk.composer.write_instead("fix the parser");
    assert_eq!(desk.composer.text(), "fix the parser");
    assert_eq!(desk.composer.said_before().next(), Some("draft"), "it is not lost");
}

#[test]
fn complaint_08_the_caret_is_where_the_next_letter_goes() {
    let table = [
        ("", (2, 5)),
        ("ab", (4, 5)),
        ("日本", (6, 5)),
        ("e\u{301}x", (4, 5)),
        ("a<C-j>b", (3, 6)),
        ("ab<Left>", (3, 5)),
        ("word another", (9, 6)),
    ];
    for (keys, (x, y)) in table {
        let mut desk = Desk::new();
        desk.keys(keys);
        let area = Rect { x: 2, y: 5, width: 10, height: 3 };
        let mut buffer = Buffer::empty(Rect { x: 0, y: 0, width: 20, height: 10 });
        desk.composer.draw(area, &mut buffer);
        assert_eq!(desk.composer.cursor(area), Position { x, y }, "{keys}");
        let painted = buffer.content().iter().any(|cell| cell.modifier.contains(ratatui::style::Modifier::REVERSED));
        assert!(!painted, "{keys}: a caret is painted");
    }
}

#[test]
fn complaint_16_a_paste_is_not_sent_line_by_line() {
    // With marks.
    let mut desk = Desk::new();
    assert!(matches!(desk.composer.paste("one\r\ntwo\rthree\n", desk.now), Deed::None));
    assert_eq!(desk.composer.text(), "one\ntwo\nthree\n");
    // Without: keys come as fast as nobody types.
    let mut desk = Desk::new();
    for c in "some words\nmore\n".chars() {
        desk.now += Duration::from_millis(1);
        let code = if c == '\n' { KeyCode::Enter } else { KeyCode::Char(c) };
        let deed = desk.composer.key(KeyEvent::new(code, KeyModifiers::NONE), desk.now);
        assert!(matches!(deed, Deed::None), "{deed:?}");
    }
    assert_eq!(desk.composer.text(), "some words\nmore\n");
    assert_eq!(words(&desk.keys("<BS><Enter>")), "some words\nmore");
    // One line of a program that types, or of a machine that was slow: it is sent when nothing follows.
    let mut desk = Desk::new();
    for code in [KeyCode::Char('a'), KeyCode::Char('b'), KeyCode::Char('c'), KeyCode::Char('d'), KeyCode::Enter] {
        desk.composer.key(KeyEvent::new(code, KeyModifiers::NONE), desk.now);
    }
    assert_eq!(desk.composer.text(), "abcd");
    let due = desk.composer.due().unwrap();
    assert!(matches!(desk.composer.tick(desk.now), Deed::None));
    assert_eq!(words(&desk.composer.tick(due)), "abcd");
    assert!(desk.composer.is_empty() && desk.composer.due().is_none());
}

#[test]
fn complaint_16_a_long_paste_is_a_chip_and_is_sent_whole() {
    let long = "line\n".repeat(40);
    let mut desk = Desk::new();
    desk.keys("see ");
    desk.composer.paste(&long, desk.now);
    assert_eq!(desk.composer.text(), "see [Paste 1: 40 lines] ");
    assert_eq!(words(&desk.keys("ok<Enter>")), format!("see {long} ok"));
    // It goes as a whole.
    desk.composer.paste(&long, desk.now);
    desk.keys("<BS><BS>");
    assert!(desk.composer.is_empty());
    // What controls a terminal is left out.
    desk.composer.paste("a\u{1b}[31mb\u{7}", desk.now);
    assert_eq!(desk.composer.text(), "a[31mb");
}

#[test]
fn complaint_12_pictures_come_by_path_and_it_is_said_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bad) = (folder.path().join("a b.png"), folder.path().join("bad.png"));
    std::fs::write(&good, [0x89, b'P', b'N', b'G', 1, 2]).unwrap();
    std::fs::write(&bad, "text").unwrap();
    for form in
        [good.display().to_string(), format!("'{}'", good.display()), good.display().to_string().replace(' ', "\\ ")]
    {
        let mut desk = Desk::new();
        let Deed::Say(said) = desk.composer.paste(&form, desk.now) else { panic!("{form}") };
        assert_eq!(said, "Picture 1: a b.png is attached");
        let Deed::Submit(parts) = desk.keys("what is this?<Enter>") else { panic!() };
        assert!(
            matches!(&parts[..], [Part::Text(text), Part::Image { .. }] if text == "[Picture 1: a b.png] what is this?"),
            "{parts:?}"
        );
        // A prompt that comes back brings its picture.
        desk.composer.take_back(&parts);
        assert!(matches!(desk.keys("<Enter>"), Deed::Submit(parts) if parts.len() == 2));
    }
    let mut desk = Desk::new();
    let Deed::Say(said) = desk.composer.paste(&bad.display().to_string(), desk.now) else { panic!() };
    assert_eq!(said, "bad.png is not attached: this is no PNG, JPEG, GIF or WebP picture");
    assert!(matches!(desk.keys("<C-v>"), Deed::Clipboard));
}

#[test]
fn files_are_offered_and_sent() {
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::create_dir_all(folder.path().join("src/deep")).unwrap();
    for (name, text) in [
        ("src/main.rs", "fn main() {}"),
        ("src/deep/mainly.rs", ""),
        ("secret.txt", ""),
        (".ignore", "secret.txt\n"),
        ("bad\u{1b}name.rs", ""),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let mut desk = Desk::at(folder.path(), state.path());
    let (sender, receiver) = std::sync::mpsc::channel();
    desk.composer.wake_with(tieline_chat::event::Call(std::sync::Arc::new(move || _ = sender.send(()))));
    desk.keys("see @");
    receiver.recv_timeout(Duration::from_secs(30)).unwrap();
    desk.composer.woken();
    assert_eq!(desk.hints(), ["› @src/", "  @src/main.rs", "  @src/deep/", "  @src/deep/mainly.rs"]);
    desk.keys("mainrs");
    assert_eq!(desk.hints()[0], "› @src/main.rs");
    assert!(matches!(desk.keys("<Tab>"), Deed::None));
    assert_eq!(desk.composer.text(), "see @src/main.rs ");
    let Deed::Submit(parts) = desk.keys("@nobody @src/main.rs.<Enter>") else { panic!() };
    assert!(
        matches!(&parts[..], [Part::Text(_), Part::File { text: Some(text), .. }] if text == "fn main() {}"),
        "{parts:?}"
    );
    // Esc closes the list for this word; then it is for others again.
    desk.keys("@ma");
    assert!(!desk.hints().is_empty());
    assert!(matches!(desk.keys("<Esc>"), Deed::None));
    assert!(desk.hints().is_empty());
    assert!(matches!(desk.keys("<Esc>"), Deed::Pass));
}

#[test]
fn commands_are_offered_with_hints() {
    let mut desk = Desk::new();
    desk.composer.set_commands(&[
        Command::new("plan", "Makes a plan").with_input("what to plan"),
        Command::new("compact", "Forgets\u{1b}[2J"),
        Command::new("evil\u{202e}", "x"),
    ]);
    desk.keys("/");
    assert_eq!(desk.hints(), ["› /plan  <what to plan>  Makes a plan", "  /compact  Forgets"]);
    desk.keys("<Down><Tab>");
    assert_eq!(desk.composer.text(), "/compact ");
    assert_eq!(words(&desk.keys("<BS><Enter>")), "/compact", "a name that is complete is sent with one Enter");
    desk.keys("/plan ");
    assert_eq!(desk.hints(), ["<what to plan>  Makes a plan"]);
    desk.keys("<C-c>see /pl");
    assert!(desk.hints().is_empty(), "only at the beginning");
}

#[test]
fn a_line_for_the_shell_and_the_editor() {
    assert!(matches!(Desk::new().keys("!ls -l<Enter>"), Deed::Shell(line) if line == "ls -l"));
    let mut desk = Desk::new();
    assert!(matches!(desk.keys("text<C-g>"), Deed::Editor(text) if text == "text"));
    desk.composer.set_text("from the editor");
    assert_eq!(words(&desk.keys("<Enter>")), "from the editor");
    for key in ["<Esc>", "<Tab>", "<C-c>", "<C-p>", "<Up>", "<Down>"] {
        assert!(matches!(Desk::new().keys(key), Deed::Pass), "{key}");
    }
}

#[test]
fn complaint_12_a_picture_is_still_attached_after_the_editor() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("a.png");
    std::fs::write(&picture, [0x89, b'P', b'N', b'G', 1, 2]).unwrap();
    for (edited, attached) in [("[Picture 1: a.png] what is it?", 1), ("nothing", 0)] {
        let mut desk = Desk::new();
        desk.composer.attach(&picture);
        assert!(matches!(desk.keys("<C-g>"), Deed::Editor(_)));
        desk.composer.set_text(edited);
        let Deed::Submit(parts) = desk.keys("<Enter>") else { panic!() };
        assert_eq!(parts.iter().filter(|part| matches!(part, Part::Image { .. })).count(), attached, "{parts:?}");
    }
}

#[test]
fn complaint_06_a_draft_that_something_else_takes_the_place_of_is_in_the_history() {
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut desk = Desk::at(folder.path(), state.path());
    desk.keys("said before<Enter>");
    // What is found in the history.
    desk.keys("a draft");
    desk.composer.write_instead("said before");
    assert_eq!(desk.composer.text(), "said before");
    desk.keys("<Up>");
    assert_eq!(desk.composer.text(), "a draft");
    // What was sent before, with a word more.
    desk.keys("<C-c>another draft<Up>!<Enter>");
    desk.keys("<Up><Up>");
    assert_eq!(desk.composer.text(), "another draft");
    // What was kept for the session, where something is typed before that is open.
    drop(desk);
    let mut desk = Desk::at(folder.path(), state.path());
    desk.keys("<C-c>kept");
    drop(desk);
    let mut desk = Desk::new();
    desk.keys("typed early");
    desk.composer.open(folder.path(), Some(state.path()), "one");
    assert_eq!(desk.composer.text(), "typed early");
    desk.keys("<Up>");
    assert_eq!(desk.composer.text(), "kept");
}
