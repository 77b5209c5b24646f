//! `tieline doctor`: agents that work, and agents that fail in every way there is, each with the line to type.
#![allow(clippy::unwrap_used)]

mod command;

use command::{Done, User};

/// What a well-behaved agent in Python does; `PLAY` is replaced by what it does otherwise.
const AGENT: &str = r#"#!/usr/bin/env python3
import json, sys, time
PLAY
for line in sys.stdin:
    message = json.loads(line)
    def answer(result): print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    def refuse(code, text): print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}), flush=True)
    method = message.get("method")
    if method in odd: odd[method]()
    elif method == "initialize": answer({"protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "py", "version": "1"}, "authMethods": auth})
    elif method == "session/new": answer({"sessionId": "s"})
    elif method == "session/prompt":
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "OK"}}}}), flush=True)
        answer({"stopReason": "end_turn"})
"#;

fn check(play: &str, more: &[&str]) -> (User, Done) {
    let user = User::new();
    let agent = user.program("agent", &AGENT.replace("PLAY", &format!("odd = {{}}; auth = []\n{play}")));
    let mut arguments = vec!["doctor", "--json"];
    arguments.extend(more);
    arguments.extend(["--", &agent]);
    let done = user.run(&arguments);
    (user, done)
}

/// The status of each step, and the finding of the one that matters.
#[track_caller]
fn expect(done: &Done, code: i32, step: &str, status: &str, says: &str, fix: &str) {
    let json = done.json();
    assert_eq!(done.code, code, "{json:#}");
    let steps = json["steps"].as_array().unwrap();
    assert_eq!(steps.len(), 8);
    let finding = steps.iter().find(|finding| finding["step"] == step).unwrap();
    assert_eq!(finding["status"], status, "{json:#}");
    assert!(finding["detail"].as_str().unwrap().contains(says), "{json:#}");
    assert!(finding["fix"].as_str().unwrap_or_default().contains(fix), "{json:#}");
}

#[test]
fn agents_that_work() {
    let user = User::new();
    let done = user.run(&["doctor"]).good();
    for part in ["  ok    find", "  ok    initialize", "protocol 2", "  ok    exit", "tieline works."] {
        assert!(done.out.contains(part), "{}", done.out);
    }
    let (_, done) = check("", &[]);
    expect(&done, 0, "prompt", "good", "\"OK\" came", "");
    expect(&done, 0, "end", "good", "stop reason end_turn", "");
    let (_, done) = check("", &["--no-prompt"]);
    expect(&done, 0, "prompt", "skipped", "", "");
}

#[test]
fn commands_that_are_not_there() {
    let user = User::new();
    let done = user.run(&["doctor", "--json", "--", "no-such-agent"]);
    expect(&done, 7, "find", "bad", "`no-such-agent` is not on PATH", "/path/to/no-such-agent");
    let done = user.run(&["doctor", "--json", "vibe"]);
    expect(&done, 7, "find", "bad", "`vibe-acp` is not on PATH", "uv tool install mistral-vibe");
    user.run(&["doctor", "nobody"]).bad(7, "there is no agent \"nobody\"");
    let file = user.write("file", "");
    let done = user.run(&["doctor", "--json", "--", file.to_str().unwrap()]);
    expect(&done, 7, "find", "bad", "can't be run", "chmod +x");
    let script = user.program("lost", "#!/no/such/interpreter\n");
    let done = user.run(&["doctor", "--json", "--", &script]);
    expect(&done, 7, "start", "bad", "interpreter", "start it by hand");
}

#[test]
fn node_that_is_too_old() {
    let user = User::new();
    // The package says so before it is started …
    let agent = user.program(
        "package/agent.js",
        "#!/usr/bin/env node\nconsole.error('Error: this needs a newer Node.js version'); process.exit(1)\n",
    );
    user.write("package/package.json", r#"{"engines": {"node": ">=900"}}"#);
    let done = user.run(&["doctor", "--json", "--", &agent]);
    expect(&done, 7, "find", "odd", "wants Node.js >=900", "install Node.js >=900");
    // … or its last words do.
    expect(&done, 7, "initialize", "bad", "exited with status 1", "install Node.js 22 or newer");
}

#[test]
fn agents_that_print_rubbish_hang_or_die() {
    let (_, done) = check("print('Welcome to my agent!'); print('Type something.')\nsys.exit(3)", &[]);
    expect(&done, 7, "initialize", "bad", "such as \"Welcome to my agent!\"", "--acp");
    let (_, done) = check("print('loading', flush=True)", &[]);
    expect(&done, 0, "exit", "odd", "printed a line that is no message, such as \"loading\"", "");
    let (_, done) = check("odd['initialize'] = lambda: time.sleep(600)", &["--timeout", "1"]);
    expect(&done, 3, "initialize", "bad", "no answer after 1 s", "--timeout 120");
    let text = "odd['initialize'] = lambda: (message.update(id=str(message['id'])), answer({'protocolVersion': 1}))";
    let (_, done) = check(text, &["--timeout", "1"]);
    expect(&done, 3, "initialize", "bad", "an answer with the id \"1\": what was asked has a number", "--timeout 120");
    let (_, done) = check("odd['session/prompt'] = lambda: time.sleep(600)", &["--turn-timeout", "1"]);
    expect(&done, 3, "end", "bad", "session/prompt: no answer after 1 s", "start it by hand");
    let (_, done) = check("sys.stderr.write('Error: ANTHROPIC_API_KEY is not set\\n'); sys.exit(2)", &[]);
    expect(&done, 7, "initialize", "bad", "ANTHROPIC_API_KEY is not set", "set its key");
    let (_, done) = check("odd['session/prompt'] = lambda: (sys.stderr.write('boom\\n'), sys.exit(9))", &[]);
    expect(&done, 1, "prompt", "bad", "exited with status 9", "start it by hand");
    let (_, done) = check("odd['session/new'] = lambda: refuse(-32603, 'no \\x1b[31mdisk')", &[]);
    expect(&done, 1, "session", "bad", "no disk", "start it by hand");
}

#[test]
fn agents_that_want_a_login() {
    let login = "odd['session/new'] = lambda: refuse(-32000, 'Authentication required')\n";
    let (_, done) = check(&format!("{login}auth = [{{'id': 'web', 'name': 'Web page'}}]"), &[]);
    expect(&done, 6, "login", "bad", "web (Web page)", "--login web");
    let terminal =
        "auth = [{'id': 'tty', 'name': 'Terminal', 'type': 'terminal', 'args': ['login'], 'env': {'A': 'b'}}]";
    let (user, done) = check(&format!("{login}{terminal}"), &[]);
    expect(&done, 6, "login", "bad", "tty (Terminal)", &format!("A=b {} login", user.path("agent").display()));
    let (_, done) = check(login, &[]);
    expect(&done, 6, "login", "bad", "it offers no way", "start it by hand");
}

#[test]
fn nothing_is_left_behind() {
    let user = User::new();
    let folder = user.path("tmp");
    std::fs::create_dir(&folder).unwrap();
    let done = command::finish(user.command(&["doctor"]).env("TMPDIR", &folder).spawn().unwrap());
    done.good();
    let left: Vec<String> = std::fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert!(left.iter().all(|name| !name.starts_with("tieline-doctor")), "{left:?}");
    // Nor at the agent, which can delete sessions.
    let store = tieline_host::store::Store::open(user.path("home/.local/state/tieline/store.db")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert!(runtime.block_on(store.list(tieline_host::store::ListQuery::default())).unwrap().sessions.is_empty());
}
