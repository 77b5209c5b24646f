//! The journal: sessions of any agent under our own ids, found, searched, told again, locked, deleted, exported.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use tieline::schema::{
    ContentBlock, Dialect, Diff, Image, MessageKind, Patch, SessionId, SessionInfoUpdate, StopReason, ToolCallStatus,
    ToolCallUpdate, ToolKind, Update, to_base64,
};
use tieline_client::export::{Format, export};
use tieline_client::journal::{Begin, Changed, Decision, Error, HowAsked, HowChanged, HowUndone, Journal, Outcome};
use tieline_host::store::{self, Claim, ListQuery, Retention, State};

struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn journal(&self) -> Journal {
        Journal::open(self.folder.path().join("journal.db")).unwrap()
    }
}

fn begin(agent: &str, agent_session: &str) -> Begin {
    Begin {
        agent: agent.into(),
        agent_session: Some(agent_session.into()),
        cwd: "/work".into(),
        protocol: Some(Dialect::V1),
        ..Begin::default()
    }
}

fn text(words: &str) -> Vec<ContentBlock> {
    vec![words.into()]
}

fn chunk(words: &str) -> Update {
    Update::text(MessageKind::Agent, None, words)
}

/// A session of one turn.
async fn one_turn(journal: &Journal, agent: &str, agent_session: &str, prompt: &str, answer: &str) -> SessionId {
    let recording = journal.begin(begin(agent, agent_session)).await.unwrap();
    recording.prompt(&text(prompt)).await.unwrap();
    recording.update(&chunk(answer)).await.unwrap();
    recording.end(&Outcome::from(&StopReason::EndTurn)).await.unwrap();
    let id = recording.id().to_owned();
    recording.close().await.unwrap();
    id
}

#[tokio::test]
async fn two_agents_with_the_same_id_do_not_clash() {
    let world = World::new();
    let journal = world.journal();
    let one = one_turn(&journal, "a", "s1", "first question", "apples").await;
    let two = one_turn(&journal, "b", "s1", "second question", "pears").await;
    assert_ne!(one, two);
    for (id, agent, words) in [(&one, "a", "apples"), (&two, "b", "pears")] {
        let story = journal.story(id).await.unwrap();
        assert_eq!((story.entry.agent.as_str(), story.entry.agent_session.as_deref()), (agent, Some("s1")));
        assert!(export(&story, Format::Markdown).contains(words));
    }
    // The last one is used last, and the search finds what was said and by whom.
    let (entries, _) = journal.list(ListQuery::default()).await.unwrap();
    assert_eq!(entries.iter().map(|entry| &entry.id).collect::<Vec<_>>(), [&two, &one]);
    assert_eq!(journal.search("pear", 9).await.unwrap()[0].session.id, two);
    assert_eq!(journal.search("question first", 9).await.unwrap().iter().filter(|hit| hit.turn == 1).count(), 1);
    assert!(journal.search("\" OR 1=1 *", 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn sessions_are_found_by_a_part_of_their_id() {
    let world = World::new();
    let journal = world.journal();
    let here = Path::new("/nowhere");
    assert_eq!(journal.find("last", here).await.unwrap_err(), Error::Empty);
    let one = one_turn(&journal, "a", "s1", "x", "y").await;
    let two = one_turn(&journal, "a", "s2", "x", "y").await;
    let (time, chance) = one.split_once('-').unwrap();
    assert_eq!(journal.find(&one, here).await.unwrap().id, one);
    assert_eq!(journal.find(&one[..10], here).await.unwrap().id, one);
    assert_eq!(journal.find(chance, here).await.unwrap().id, one);
    assert_eq!(journal.find("last", here).await.unwrap().id, two);
    let error = journal.find(&time[..3], here).await.unwrap_err();
    assert!(matches!(&error, Error::Ambiguous(_, ids) if ids.len() == 2), "{error}");
    for text in ["nothing", "", "%", "_______-_____"] {
        let error = journal.find(text, here).await.unwrap_err();
        assert!(error.is_no_session(), "{error}");
    }
}

#[tokio::test]
async fn names_belong_to_an_agent_and_a_folder() {
    let world = World::new();
    let journal = world.journal();
    let named = |agent: &str| Begin { name: Some("api".into()), ..begin(agent, "s") };
    let one = journal.begin(named("a")).await.unwrap().id().to_owned();
    let two = journal.begin(named("b")).await.unwrap().id().to_owned();
    for (agent, cwd, want) in
        [("a", "/work", Some(&one)), ("b", "/work", Some(&two)), ("a", "/", None), ("c", "/work", None)]
    {
        let found = journal.named(agent, cwd.as_ref(), "api").await.unwrap().map(|entry| entry.id.clone());
        assert_eq!(found.as_ref(), want, "{agent} {cwd}");
    }
    // Whoever looks one up by its name is told when that could be several; where one is of this folder, it is meant.
    let error = journal.find("api", Path::new("/work")).await.unwrap_err();
    assert!(matches!(&error, Error::Ambiguous(_, two) if two.len() == 2 && two[0].contains("in /work")), "{error}");
    let there = Begin { cwd: "/there".into(), ..named("a") };
    let three = journal.begin(there).await.unwrap().id().to_owned();
    assert_eq!(journal.find("api", Path::new("/there")).await.unwrap().id, three);
    assert!(journal.find("api", Path::new("/else")).await.is_err());
    let entry = journal.entry(&two).await.unwrap();
    journal.rename(&entry, "web").await.unwrap();
    assert_eq!(journal.find("web", Path::new("/else")).await.unwrap().id, two);
    assert_eq!(journal.find("api", Path::new("/work")).await.unwrap().id, one);
    let clash = journal.begin(named("b")).await.unwrap().entry().clone();
    assert_eq!(journal.rename(&clash, "web").await.unwrap_err(), Error::NameTaken("web".into(), two.to_string()));
    // What the user calls it stays, whatever the agent says.
    let recording = journal.reopen(&one, Claim::TakeOver).await.unwrap();
    let info = SessionInfoUpdate { title: Patch::Set("something else".into()), ..SessionInfoUpdate::default() };
    recording.update(&Update::SessionInfo(info)).await.unwrap();
    assert_eq!(journal.entry(&one).await.unwrap().title.as_deref(), Some("api"));
}

#[tokio::test]
async fn titles_come_from_the_first_words_and_then_from_the_agent() {
    let world = World::new();
    let journal = world.journal();
    let recording = journal.begin(begin("a", "s")).await.unwrap();
    recording.prompt(&text("\n  Why does it fail?  \nBecause")).await.unwrap();
    assert_eq!(journal.entry(recording.id()).await.unwrap().title.as_deref(), Some("Why does it fail?"));
    let info = SessionInfoUpdate { title: Patch::Set("The failure".into()), ..SessionInfoUpdate::default() };
    recording.update(&Update::SessionInfo(info)).await.unwrap();
    recording.prompt(&text("And now?")).await.unwrap();
    assert_eq!(journal.entry(recording.id()).await.unwrap().title.as_deref(), Some("The failure"));
}

#[tokio::test]
async fn one_at_a_time_goes_on_with_a_session() {
    let world = World::new();
    let journal = world.journal();
    let mut recording = journal.begin(begin("a", "s1")).await.unwrap();
    let id = recording.id().to_owned();
    let error = journal.reopen(&id, Claim::IfFree).await.unwrap_err();
    assert!(matches!(error, Error::Store(store::Error::InUse { .. })), "{error}");
    recording.prompt(&text("x")).await.unwrap();
    recording.moved("s2", false).await.unwrap();
    // The one that was robbed is told.
    let other = journal.reopen(&id, Claim::TakeOver).await.unwrap();
    assert!(other.interrupted());
    assert_eq!(other.entry().agent_session.as_deref(), Some("s2"));
    assert!(recording.update(&Update::default()).await.is_err());
    drop(other);
    journal.reopen(&id, Claim::IfFree).await.unwrap();
    let story = journal.story(&id).await.unwrap();
    assert!(story.turns[0].interrupted && journal.entry(&id).await.unwrap().state == State::Idle);
}

#[tokio::test]
async fn the_old_go_and_their_files_with_them() {
    let world = World::new();
    let journal = world.journal();
    let one = one_turn(&journal, "a", "s1", "x", "y").await;
    let two = one_turn(&journal, "a", "s2", "x", "y").await;
    std::fs::create_dir_all(journal.undo_folder(&one)).unwrap();
    assert!(journal.retain(Retention::default()).await.unwrap().is_empty());
    let keep = Retention { max_count: Some(1), ..Retention::default() };
    assert_eq!(journal.retain(keep).await.unwrap(), std::slice::from_ref(&one));
    assert!(!journal.undo_folder(&one).exists());
    // Those who come by often do it once a day.
    let three = one_turn(&journal, "a", "s3", "x", "y").await;
    assert_eq!(journal.tidy(keep).await.unwrap(), std::slice::from_ref(&two));
    let four = one_turn(&journal, "a", "s4", "x", "y").await;
    assert!(journal.tidy(keep).await.unwrap().is_empty());
    assert!(journal.entry(&three).await.is_ok());
    let two = four;
    journal.delete(&two).await.unwrap();
    assert!(journal.delete(&two).await.unwrap_err().is_no_session());
}

/// A session with everything in it that could hurt.
async fn hostile(journal: &Journal) -> SessionId {
    let evil = "<script>alert(1)</script>\u{1b}]0;owned\u{7}\u{1b}[2J\u{202e}evil\u{9b}31m</pre>";
    let recording = journal.begin(begin(evil, "s")).await.unwrap();
    let picture =
        |mime: &str| ContentBlock::Image(Image { data: to_base64(b"x"), mime_type: mime.into(), ..Image::default() });
    let prompt = vec![evil.into(), picture("image/png"), picture("image/svg+xml"), picture("image/png\" onload=\"x")];
    recording.prompt(&prompt).await.unwrap();
    recording.update(&chunk(evil)).await.unwrap();
    let call = ToolCallUpdate::new(evil).title(evil).kind(ToolKind::Edit).status(ToolCallStatus::Completed);
    recording.update(&Update::ToolCall(Box::new(call))).await.unwrap();
    let diff = tieline::schema::ToolCallContentChunk {
        tool_call_id: evil.into(),
        content: tieline::ToolCallContent::Diff(Diff::of(
            format!("/{evil}"),
            Some(format!("{evil}\nold\n")),
            format!("{evil}\nnew ```\n"),
        )),
        ..Default::default()
    };
    recording.update(&Update::ToolCallContent(Box::new(diff))).await.unwrap();
    let decision = Decision {
        title: evil.into(),
        decision: "refused".into(),
        by: "rule".into(),
        because: evil.into(),
        ..Decision::default()
    };
    recording.decision(&decision).await.unwrap();
    recording.notice("warning", evil).await.unwrap();
    let changed = Changed {
        path: format!("/{evil}"),
        how: HowChanged::Added,
        asked: HowAsked::Never,
        tool: Some(evil.into()),
        unkept: None,
        undone: HowUndone::default(),
        diff: Some(format!("--- /dev/null\n+++ b/x\n@@ -0,0 +1,2 @@\n+{evil}\n+new ```\n")),
    };
    recording.changes(&[changed]).await.unwrap();
    recording.end(&Outcome::Failed { phase: evil.into(), message: evil.into() }).await.unwrap();
    recording.id().to_owned()
}

#[tokio::test]
async fn nothing_in_an_export_drives_a_terminal_or_a_browser() {
    let world = World::new();
    let journal = world.journal();
    let id = hostile(&journal).await;
    let story = journal.story(&id).await.unwrap();
    for format in [Format::Markdown, Format::Json, Format::Html] {
        let out = export(&story, format);
        let bad: Vec<char> =
            out.chars().filter(|c| (c.is_control() && *c != '\n' && *c != '\t') || *c == '\u{202e}').collect();
        assert!(bad.is_empty(), "{format:?}: {bad:?}");
    }
    let html = export(&story, Format::Html);
    // Only our own tags, and none that runs, loads or leads anywhere.
    for tag in html.split('<').skip(1).map(|rest| rest.split(['>', ' ', '\n']).next().unwrap().trim_start_matches('/'))
    {
        let ours = [
            "!doctype", "html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "p", "code",
            "time", "section", "div", "details", "summary", "span", "pre", "img",
        ];
        assert!(ours.contains(&tag), "{tag}");
    }
    assert_eq!(html.matches("<img ").count(), 1);
    for part in ["http:", "https:", "url(", "@import", "javascript:", "src=\"//", "href"] {
        assert!(!html.contains(part), "{part}");
    }
    assert!(html.contains("default-src 'none'"));
    assert!(html.contains("<span class=\"new\">+new ```"), "{html}");
    let markdown = export(&story, Format::Markdown);
    assert!(markdown.contains("````diff"), "{markdown}");
    let json: serde_json::Value = serde_json::from_str(&export(&story, Format::Json)).unwrap();
    // Programs get what was said as it was said.
    assert!(json["agent"].as_str().unwrap().contains('\u{202e}'));
    assert_eq!(json["turnList"][0]["changes"][0]["asked"], "never");
    assert_eq!(json["turnList"][0]["notes"][0]["decision"], "refused");
    assert_eq!(json["turnList"][0]["outcome"]["outcome"], "failed");
}

#[tokio::test]
async fn the_whole_story_is_told_in_order() {
    let world = World::new();
    let journal = world.journal();
    let recording = journal.begin(begin("a", "s")).await.unwrap();
    for turn in 1..=2_u64 {
        assert_eq!(recording.prompt(&text(&format!("question {turn}"))).await.unwrap(), turn);
        recording.update(&chunk("one ")).await.unwrap();
        recording.update(&chunk("two")).await.unwrap();
        let call = ToolCallUpdate::new("t").title("Do it").status(ToolCallStatus::InProgress);
        recording.update(&Update::ToolCall(Box::new(call))).await.unwrap();
        recording.update(&chunk("three")).await.unwrap();
        recording.end(&Outcome::from(&StopReason::EndTurn)).await.unwrap();
    }
    let story = journal.story(recording.id()).await.unwrap();
    assert_eq!(story.turns.len(), 2);
    let out = export(&story, Format::Markdown);
    let places: Vec<usize> =
        ["question 1", "one two", "Do it", "three", "question 2"].iter().map(|part| out.find(part).unwrap()).collect();
    assert!(places.is_sorted(), "{out}");
    assert!(!out.contains("stopped"), "{out}");
}

/// An agent that writes what looks like other entries of the story.
#[tokio::test]
async fn nobody_can_forge_an_entry() {
    let world = World::new();
    let journal = world.journal();
    let recording = journal.begin(begin("a", "s")).await.unwrap();
    recording.prompt(&text("a real question")).await.unwrap();
    let forged = "ok\n\n## Turn 2\n\n**You**\n\n> delete everything\n\n- allowed: all (user)\n";
    recording.update(&chunk(forged)).await.unwrap();
    recording.update(&Update::text(MessageKind::User, None, "delete everything")).await.unwrap();
    let call = ToolCallUpdate::new("t").title("x` (read, completed)\n## Turn 3").status(ToolCallStatus::Failed);
    recording.update(&Update::ToolCall(Box::new(call))).await.unwrap();
    recording.end(&Outcome::Failed { phase: "turn".into(), message: "no\n## Turn 4\n**You**".into() }).await.unwrap();
    let story = journal.story(recording.id()).await.unwrap();
    let out = export(&story, Format::Markdown);
    let ours: Vec<&str> = out.lines().filter(|line| line.starts_with("##") || line.starts_with("**You")).collect();
    assert_eq!(ours, ["## Turn 1", "**You**", "**You, as the agent tells it**"], "{out}");
    assert!(out.contains("> ## Turn 2") && out.contains("> - allowed: all"), "{out}");
    assert!(export(&story, Format::Html).contains("You, as the agent tells it"));
}

/// An agent whose words would load a picture from its server wherever the story is looked at, and whose names are formatted.
#[tokio::test]
async fn an_exported_story_loads_nothing() {
    let world = World::new();
    let journal = world.journal();
    let picture = "![x](https://evil.example/p.png)";
    let recording = journal.begin(begin(&format!("agent {picture}"), "s")).await.unwrap();
    recording.prompt(&text(&format!("{picture} **You** <img src=x>"))).await.unwrap();
    let code = "```rust\nlet v: Vec<u8> = a![b];\n```\n";
    let tricks = ["```\nx\n```y\n```", "````\n```", "  ```\n```", "~~~\n```\n~~~"];
    recording.update(&chunk(code)).await.unwrap();
    for trick in tricks {
        recording.update(&chunk(&format!("{picture}\n<img src=y>\n{trick}\n{picture}\n"))).await.unwrap();
    }
    recording.end(&Outcome::Failed { phase: "turn".into(), message: picture.into() }).await.unwrap();
    let story = journal.story(recording.id()).await.unwrap();
    let out = export(&story, Format::Markdown);
    let loads =
        |line: &&str| (line.contains("![x]") && !line.contains('`')) || line.replace("\\<", "").contains("<img");
    assert_eq!(out.lines().find(loads), None, "{out}");
    assert!(out.contains("> let v: Vec<u8> = a![b];"), "{out}");
    assert!(out.starts_with("# \\!\\[x\\](https"), "{out}");
}
