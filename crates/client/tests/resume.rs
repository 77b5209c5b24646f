//! Sessions taken up again at real agents: resumed, loaded, or lost and said so.
#![allow(clippy::unwrap_used)]

use tieline::client::Client;
use tieline::{Dialect, Error, Protocol};
use tieline_client::journal::{Begin, Entry, Journal, Taken, Way, take_up};

/// `HOW` says what it offers and what it answers.
const AGENT: &str = r#"
import json, sys
words = "no such thing"
HOW
for line in sys.stdin:
    message = json.loads(line)
    def say(body): print(json.dumps({"jsonrpc": "2.0", **body}), flush=True)
    def answer(result): say({"id": message["id"], "result": result})
    def refuse(code): say({"id": message["id"], "error": {"code": code, "message": words}})
    method = message.get("method")
    if method == "initialize":
        can = {"loadSession": load is not None, "sessionCapabilities": {"resume": {}} if resume is not None else {}}
        answer({"protocolVersion": 1, "agentCapabilities": can})
    elif method in ("session/resume", "session/load"):
        code = resume if method == "session/resume" else load
        if code:
            refuse(code)
            continue
        if method == "session/load":
            say({"method": "session/update", "params": {"sessionId": message["params"]["sessionId"], "update": {
                "sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "said before"}}}})
        answer({})
"#;

async fn entry(agent_session: Option<&str>) -> Entry {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::open(folder.path().join("journal.db")).unwrap();
    let agent_session = agent_session.map(str::to_owned);
    let begin = Begin { agent: "a".into(), agent_session, cwd: "/".into(), ..Begin::default() };
    journal.begin(begin).await.unwrap().entry().clone()
}

async fn ask(how: &str, entry: &Entry) -> tieline::Result<Taken> {
    let script = AGENT.replace("HOW", how);
    let client = Client::default().protocol(Protocol::Only(Dialect::V1));
    let agent = client.spawn(["python3", "-c", &script]).await.unwrap();
    let taken =
        take_up(&agent, entry.agent_session.as_deref(), &entry.cwd, entry.directories.clone(), Vec::new()).await;
    agent.close().await;
    taken
}

#[tokio::test]
async fn the_best_way_that_works_is_taken() {
    let entry = entry(Some("s1")).await;
    for (how, want) in [
        ("resume, load = 0, 0", Way::Resume),
        ("resume, load = None, 0", Way::Load),
        // One that offers to resume but has forgotten may still load.
        ("resume, load = -32002, 0", Way::Load),
    ] {
        match ask(how, &entry).await.unwrap() {
            Taken::Up(session, way) => {
                assert_eq!((way, session.id().as_str()), (want, "s1"), "{how}");
                // What is told again is in the journal already.
                assert!(session.try_next().is_none(), "{how}");
            }
            other => panic!("{how}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_lost_context_is_said_and_nothing_else_is_begun() {
    let known = entry(Some("s1")).await;
    for (how, entry, want) in [
        ("resume, load = None, None", &known, "can neither resume nor load"),
        ("resume, load = -32002, -32603", &known, "no such thing"),
        ("resume, load = 0, 0", &entry(None).await, "never gave this session an id"),
    ] {
        match ask(how, entry).await.unwrap() {
            Taken::Lost(why) => assert!(why.contains(want), "{how}: {why}"),
            other => panic!("{how}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_session_that_another_process_has_is_not_lost() {
    let entry = entry(Some("s1")).await;
    for words in ["Session s1 is in use", "the rollout file is locked", "open in ANOTHER PROCESS"] {
        let how = format!("resume, load = -32003, -32002; words = {words:?}");
        match ask(&how, &entry).await.unwrap() {
            Taken::Held(why) => assert!(why.contains(words), "{why}"),
            other => panic!("{how}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_login_or_a_dead_agent_is_no_lost_context() {
    let entry = entry(Some("s1")).await;
    let error = ask("resume, load = -32000, 0", &entry).await.unwrap_err();
    assert_eq!(error.code(), Some(-32000));
    let dies = "resume, load = 0, 0\nimport threading, os\nold = json.loads\ndef once(line):\n    message = old(line)\n    if message.get('method') == 'session/resume': os._exit(3)\n    return message\njson.loads = once";
    let error = ask(dies, &entry).await.unwrap_err();
    assert!(matches!(error, Error::Closed(_)), "{error}");
}
