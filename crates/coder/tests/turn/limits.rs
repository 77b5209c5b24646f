//! What comes from a model or a project in any amount and any shape is bounded, and made harmless where it is shown.

use super::editor::{Editor, Listed, Said, call, calls, text};
use serde_json::json;
use tieline_coder::model::{Event, Finish, Message};

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    let mebibyte = "x".repeat(1 << 20);
    let endless = |event: fn(String) -> Event| (0..40).map(|_| Ok(event(mebibyte.clone()))).collect::<Said>();
    let many = |count: usize| {
        let write = |at: usize| call("write", json!({"path": format!("{at}.txt"), "content": ""}));
        (0..count).map(write).chain([Ok(Event::Finish(Finish::Done))]).collect::<Said>()
    };
    let large: Said = (0..40).map(|_| call("write", json!({"path": "a.txt", "content": mebibyte}))).collect();
    for (answer, why) in [
        (endless(Event::Text), "more than 16 MiB of text"),
        (endless(Event::Thought), "more than 16 MiB of text"),
        (many(129), "more than 128 tool calls in one step"),
        (large, "more than 16 MiB of arguments"),
    ] {
        let model = Listed::new([answer, text("fine again")]);
        let mut editor = Editor::open(&model, None).await;
        let error = editor.prompt("go").await["error"]["message"].as_str().unwrap().to_owned();
        assert!(error.contains(why), "{error}");
        let files = std::fs::read_dir(editor.path("")).unwrap().count();
        assert_eq!(files, 0, "{why}: nothing was run");
        assert_eq!(editor.prompt("again").await["result"]["stopReason"], "end_turn", "{why}");
        let calls = model
            .last()
            .messages
            .iter()
            .any(|message| matches!(message, Message::Assistant { calls, .. } if !calls.is_empty()));
        assert!(!calls, "{why}: no call without a result");
    }
    let model = Listed::new([many(128), text("done")]);
    let mut editor = Editor::open(&model, None).await;
    assert_eq!(editor.prompt("go").await["result"]["stopReason"], "end_turn");
    assert_eq!(std::fs::read_dir(editor.path("")).unwrap().count(), 128);
}

#[tokio::test]
async fn files_of_a_project_have_their_limits() {
    let model = Listed::new([text("one"), text("two")]);
    let mut editor = Editor::open(&model, None).await;
    let folder = editor.path(".tieline/commands");
    std::fs::create_dir_all(format!("{folder}/deep/er")).unwrap();
    for number in 0..120 {
        std::fs::write(format!("{folder}/c{number:03}.md"), format!("Number {number}")).unwrap();
    }
    std::fs::write(format!("{folder}/deep/er/hidden.md"), "no").unwrap();
    std::fs::write(format!("{folder}/c000.md"), "x".repeat((64 << 10) + 1)).unwrap();
    std::fs::write(format!("{folder}/c001.md"), "y".repeat(64 << 10)).unwrap();
    std::fs::write(format!("{folder}/c002.md"), [0xff]).unwrap();
    std::fs::write(format!("{folder}/c003.md"), "\u{1b}]0;x\u{7}Title\u{202e}").unwrap();
    let said = |editor: &mut Editor| {
        let said: String = editor.updates.iter().filter_map(|update| update["content"]["text"].as_str()).collect();
        editor.updates.clear();
        said
    };
    editor.prompt("/help").await;
    let help = said(&mut editor);
    assert!(help.contains("20 more in `.tieline/commands` are not used: 100 is the most."), "{help}");
    assert!(help.contains("`/c099`") && !help.contains("`/c100`") && !help.contains("hidden"), "{help}");
    assert!(help.contains("- `/c000`: Can't be used: its file is longer than 64 KiB.\n"), "{help}");
    assert!(help.contains("- `/c002`: Can't be used: "), "{help}");
    assert!(!help.contains('\u{1b}') && !help.contains('\u{202e}'), "{help}");
    editor.prompt("/c000").await;
    assert_eq!(said(&mut editor), "`/c000` can't be used: its file is longer than 64 KiB.");
    assert!(model.asked.lock().unwrap().is_empty(), "the model was not asked");
    editor.prompt("/c001").await;
    assert!(
        matches!(&model.last().messages[..], [Message::User(content)] if content[0].as_text().unwrap().len() == 64 << 10)
    );
    // The guide is cut, and one that can't be read is said to be.
    std::fs::write(editor.path("AGENTS.md"), "é".repeat(5000)).unwrap();
    editor.prompt("go").await;
    assert!(model.last().system.contains("(cut after 4096 of 10000 bytes; read the file for the rest)"));
    // However long it is, no more is read.
    std::fs::File::create(editor.path("AGENTS.md")).unwrap().set_len(1 << 40).unwrap();
    editor.prompt("go").await;
    assert!(model.last().system.contains("(cut after 4096 of 1099511627776 bytes;"), "{}", model.last().system);
    std::fs::remove_file(editor.path("AGENTS.md")).unwrap();
    std::fs::create_dir(editor.path("AGENTS.md")).unwrap();
    editor.prompt("go").await;
    assert!(model.last().system.contains("The project's AGENTS.md can't be used: "), "{}", model.last().system);
}

#[tokio::test]
async fn titles_are_harmless_and_the_input_stays_true() {
    let odd = "a\nb\u{1b}]52;c;AA\u{7}\u{202e}c\u{200b}";
    let list = vec![
        ("glob", json!({"pattern": odd})),
        ("grep", json!({"pattern": odd})),
        ("read", json!({"path": odd})),
        ("write", json!({"path": odd, "content": odd})),
        ("run", json!({"command": odd})),
        ("no\nsuch\u{1b}[2J", json!({"x": odd})),
        ("fetch", json!({"url": format!("http://x/{odd}")})),
    ];
    let model = Listed::new([calls(list.clone()), text("done")]);
    let mut editor = Editor::open(&model, None).await;
    editor.prompt("go").await;
    let announced: Vec<_> = editor.updates.iter().filter(|update| update["sessionUpdate"] == "tool_call").collect();
    assert_eq!(announced.len(), list.len());
    for ((name, input), update) in list.iter().zip(announced) {
        let title = update["title"].as_str().unwrap();
        let bad = title.chars().find(|c| c.is_control() || ('\u{200b}'..='\u{202e}').contains(c));
        assert!(bad.is_none() && !title.is_empty(), "{name:?}: {title:?}");
        assert_eq!(&update["rawInput"], input, "{name:?}");
    }
    for asked in &editor.asked {
        for option in asked["options"].as_array().unwrap() {
            let name = option["name"].as_str().unwrap();
            assert!(!name.chars().any(char::is_control), "{name:?}");
        }
    }
}
