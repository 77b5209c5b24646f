//! Scenario files: mistakes are explained, nothing makes the reader panic.

use crate::harness::{file, play, works};
use proptest::prelude::*;
use tieline::ContentBlock;
use tieline_coder::model::script::{Script, scenarios};
use tieline_coder::model::{Message, Model, Request, ToolResult};

#[test]
fn mistakes_are_explained() {
    let cases = [
        ("[[turn]]\nsteps = [\n  { txt = 'x' },\n]", 3, "unknown field `txt`"),
        ("[[turn]]\nsteps = [\n  { text = 3 },\n]", 3, "key `text`: invalid type: integer `3`, expected a string"),
        ("[[turn]]\nsteps = [\n  { text = 'a', call = 'b' },\n]", 3, "has `text`, `call`"),
        ("[[turn]]\nsteps = [\n  {},\n]", 3, "a step needs one of `text`"),
        ("[[turn]]\nsteps = [\n\n  { call = 'a', args = {}, raw = '' },\n]", 4, "either `args` or `raw`"),
        ("[[turn]]\nsteps = [{ finish = 'now' }]", 2, "unknown variant `now`"),
        ("[[turn]]\nsteps = [{ cut = false }]", 2, "`cut` can only be true"),
        ("[[turn]]\nsteps = [{ finish = 'done', chunk = 1 }]", 2, "`chunk` does not go with `finish`"),
        ("[[turn]]\nsteps = [{ usage = { cost = 1.0 } }]", 2, "missing field `input`"),
        ("[[turn]]\nsteps = [{ flood = { pieces = 1, size = 99999999999 } }]", 2, "`flood` can have"),
        ("[[turn]]\nsteps = [{ text = 'long', times = 9999999999 }]", 2, "`times` makes this too much"),
        (
            "[[turn]]\nsteps = [{ update = {} }]",
            2,
            "`update` reports one of `title`, `notice`, `commands`, `mode`, `context`, `plan`, `compaction`, `stop`, `fail`, `raw` or `later`, but this one nothing",
        ),
        ("[[turn]]\nsteps = [{ update = { title = 'a', mode = 'b' } }]", 2, "but this one has `mode`, `title`"),
        (
            "[[turn]]\nsteps = [{ update = { notice = { severity = 'bad', title = 'x' } } }]",
            2,
            "unknown variant `bad`, expected one of `info`, `warning`, `error`",
        ),
        (
            "[[turn]]\nsteps = [{ update = { tilte = 'x' } }]",
            2,
            "unknown variant `tilte`, expected one of `title`, `notice`",
        ),
        ("[[turn]]\nsteps = [{ update = 'title' }]", 2, "`update` reports one of `title`"),
        ("[[turn]]\nsteps = [{ update = { plan = [{ content = 'a', status = 'x' }] } }]", 2, "unknown variant `x`"),
        ("[[turn]]\nsteps = [{ update = { raw = { x = 1 } } }]", 2, "`update.raw` is no update"),
        ("[[turn]]\n[[turn.answer]]\nsteps = [{ cut = true }, { text = 'x' }]", 3, "no step can come here"),
        ("[[turn]]\nprompt = 'x'", 1, "a turn needs `steps`"),
        ("[[turn]]\nsteps = []\n[[turn.answer]]\nsteps = []", 1, "either `steps` or `answer`"),
        ("[[turn]]\n[[turn.answer]]\nwhen = { retry = true }", 1, "nothing failed before it"),
        ("[[turn]]\n[[turn.answer]]\nwhen = { say = 'x' }", 3, "unknown field `say`"),
        ("turns = []", 1, "unknown field `turns`"),
        ("", 1, "needs at least one `[[turn]]`"),
        ("[fallback]\nprompt = 'x'\nsteps = []", 1, "`fallback` can't have a `prompt`"),
        ("[[turn]]\nsteps = [", 2, ""),
        ("[[turn]\n", 1, ""),
        ("ü = [[\n", 1, ""),
    ];
    for (text, line, part) in cases {
        let error = Script::from_toml("mine", text).unwrap_err();
        let told = error.to_string();
        assert!(told.starts_with("scenario mine, line ") && told.contains(part), "{text}\n{told}");
        assert_eq!(error.line(), Some(line), "{text}\n{told}");
    }
}

#[test]
fn files_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("my scene.toml");
    std::fs::write(&path, "[[turn]]\nsteps = [{ text = 'x' }]").unwrap();
    let script = Script::from_file(&path).unwrap();
    assert_eq!((script.id(), script.name(), script.context_size()), ("script:my scene", "Script my scene", 200_000));
    std::fs::write(&path, "[[turn]]\nsteps = [{ text = 1 }]").unwrap();
    let told = Script::from_file(&path).unwrap_err().to_string();
    assert!(told.contains("my scene.toml, line 2, column 19, key `text`: invalid type"), "{told}");
    std::fs::write(&path, b"\xff\xfe").unwrap();
    assert!(Script::from_file(&path).unwrap_err().to_string().contains("can't read the file"));
    assert!(Script::from_file(folder.path()).is_err());
    let told = Script::from_file(folder.path().join("none.toml")).unwrap_err().to_string();
    assert!(told.contains("none.toml: can't read the file"), "{told}");
    let told = Script::named("helo").unwrap_err().to_string();
    assert!(told.starts_with("scenario helo: there is no such scenario; there are: hello, "), "{told}");
}

/// Pieces that random scenarios are made of.
const WORDS: &[&str] = &[
    "[[turn]]\n",
    "[[turn.answer]]\n",
    "[[turn.answer.steps]]\n",
    "[fallback]\n",
    "steps = [",
    "]\n",
    "{ ",
    " }",
    ", ",
    "\n",
    "text = ",
    "think = ",
    "call = ",
    "args = ",
    "raw = ",
    "id = ",
    "usage = ",
    "flood = ",
    "update = ",
    "finish = ",
    "error = ",
    "overflow = ",
    "stall = ",
    "cut = ",
    "pause_ms = ",
    "chunk = ",
    "times = ",
    "when = ",
    "contains = ",
    "retry = ",
    "again = ",
    "prompt = ",
    "context = ",
    "used = ",
    "size = ",
    "pieces = ",
    "'x'",
    "\"{result}\"",
    "'*'",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "3.5",
    "nan",
    "1979-05-27",
    "'done'",
    "{}",
    "[]",
    "title = ",
    "sessionUpdate = ",
    "ü",
    "{ text = 'a' }",
    "{ call = 'read', args = { path = '{prompt}' } }",
    "{ cut = true }",
    "steps = []\n",
    "\u{0}",
    "#",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn random_scenarios_never_panic(picks in prop::collection::vec(0..WORDS.len(), 0..40), prompt in "\\PC{0,40}") {
        let text: String = picks.iter().map(|&pick| WORDS[pick]).collect();
        try_out(&text, &prompt);
    }

    #[test]
    fn damaged_scenarios_never_panic(pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(),
        word in any::<prop::sample::Index>(), gone in 0_usize..20)
    {
        let all: Vec<_> = scenarios().into_iter().filter(|shipped| shipped.name != "puppet").collect();
        let mut text: Vec<char> = file(pick.get(&all).name).chars().collect();
        let start = at.index(text.len());
        let end = (start + gone).min(text.len());
        text.splice(start..end, word.get(WORDS).chars());
        try_out(&text.into_iter().collect::<String>(), "go");
    }
}

/// Reads a scenario and, if it is one, plays a little of it.
fn try_out(text: &str, prompt: &str) {
    let Ok(script) = Script::from_toml("random", text).map_err(|error| error.to_string()) else { return };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    runtime.block_on(async {
        let mut messages = vec![Message::Results(Vec::new())];
        for _ in 0..2 {
            play(&script, &mut messages, prompt, &works, 1).await;
        }
        let odd = vec![ContentBlock::from(prompt)];
        messages.push(Message::Results(vec![ToolResult {
            id: String::new(),
            name: String::new(),
            content: odd,
            is_error: true,
        }]));
        drop(script.reply(Request { messages, ..Request::default() }));
    });
}
