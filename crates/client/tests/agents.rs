//! Agents: found by name, added and removed without hurting the file, imported from the files of others.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use tieline::{Dialect, Protocol};
use tieline_client::agents::{NewAgent, Source, add, import, remove, resolve};
use tieline_client::config::{Config, Flags, Origin, Sources, Value};

fn sources(folder: &tempfile::TempDir, text: &str) -> Sources {
    let user = folder.path().join("config.toml");
    std::fs::write(&user, text).unwrap();
    Sources { user: Some(user), ..Sources::default() }
}

fn load(sources: &Sources) -> Config {
    Config::load(sources, &Flags::default()).unwrap()
}

fn new(name: &str, command: &[&str]) -> NewAgent {
    let command = command.iter().map(|&word| word.to_owned()).collect();
    NewAgent { name: name.to_owned(), command, ..NewAgent::default() }
}

#[test]
fn names_are_found_and_near_misses_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = load(&sources(
        &folder,
        "[agents.mine]\ncommand = [\"prog\", \"--acp\"]\nprotocol = \"2\"\nframing = \"content-length\"",
    ));
    let mine = resolve(&config, "@mine").unwrap();
    assert_eq!((mine.command.len(), mine.protocol_or_default()), (2, Protocol::Only(Dialect::V2)));
    assert!(matches!(mine.origin, Origin::File(_, 2)));
    let built_in = resolve(&config, "tieline").unwrap();
    assert!(built_in.is_built_in());
    assert_eq!((built_in.command[1].as_str(), built_in.protocol_or_default()), ("agent", Protocol::Auto));
    for (name, want) in [
        ("mina", "there is no agent \"mina\"; did you mean `mine`?"),
        ("tielnie", "did you mean `tieline`?"),
        ("cladue", "did you mean `claude`?"),
        ("zzzzzz", "`tieline agents list` shows those there are"),
    ] {
        let error = resolve(&config, name).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
    let error = resolve(&config, "vibe").unwrap_err().to_string();
    assert!(error.contains("no `vibe-acp` on PATH; type: uv tool install mistral-vibe"), "{error}");
}

#[test]
fn comments_and_order_stay_when_agents_come_and_go() {
    let folder = tempfile::tempdir().unwrap();
    let before = "# my settings\nagent = \"old\" # the usual one\n\n# an old friend\n[agents.old]\ncommand = [\"old\"]   # as ever\n\n[permissions]\ndeny = [] # nothing yet\n";
    let sources = sources(&folder, before);
    let read = || std::fs::read_to_string(sources.user.as_ref().unwrap()).unwrap();
    let env = BTreeMap::from([("K".to_owned(), Value::Env("TOKEN".to_owned()))]);
    let agent = NewAgent { env, protocol: Some(Protocol::Auto), ..new("new", &["prog", "a b"]) };
    add(&sources, std::slice::from_ref(&agent)).unwrap();
    for part in ["# my settings\n", "# the usual one", "# an old friend\n", "# as ever", "# nothing yet"] {
        assert!(read().contains(part), "{}", read());
    }
    let config = load(&sources);
    assert_eq!(config.agents["new"].command, ["prog", "a b"]);
    assert_eq!(config.agents["new"].env["K"], Value::Env("TOKEN".into()));
    let error = add(&sources, std::slice::from_ref(&agent)).unwrap_err().to_string();
    assert!(error.contains("add --replace"), "{error}");
    add(&sources, &[NewAgent { replace: true, command: vec!["other".into()], ..agent }]).unwrap();
    assert_eq!(load(&sources).agents["new"].command, ["other"]);
    let error = remove(&sources, "nwe").unwrap_err().to_string();
    assert!(error.contains("did you mean `new`?"), "{error}");
    remove(&sources, "new").unwrap();
    assert_eq!(read(), before);
    // The default goes with its agent.
    remove(&sources, "old").unwrap();
    assert_eq!(load(&sources).agent, None);
    for (agent, want) in
        [(new("tieline", &["x"]), "built-in"), (new("a b", &["x"]), "can't be called"), (new("x", &[]), "no command")]
    {
        let error = add(&sources, &[agent]).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn a_broken_file_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let sources = sources(&folder, "agnet = \"x\"\n");
    let error = add(&sources, &[new("x", &["y"])]).unwrap_err().to_string();
    assert!(error.contains("did you mean `agent`"), "{error}");
}

#[test]
fn files_of_others_are_read() {
    let check = |text: &str, source: Source, agents: &[(&str, &str)], skipped: &[&str]| {
        let found = import(text).unwrap();
        assert_eq!(found.source, source);
        let known: Vec<(String, String)> =
            found.agents.iter().map(|agent| (agent.name.clone(), agent.command.join(" "))).collect();
        let known: Vec<(&str, &str)> = known.iter().map(|(name, line)| (name.as_str(), line.as_str())).collect();
        assert_eq!(known, agents);
        let names: Vec<&str> = found.skipped.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, skipped);
        found
    };
    let found = check(
        r#"{"version": "1.0.0", "agents": [
            {"id": "one", "name": "One", "version": "1", "distribution": {"npx": {"package": "@x/one@1.2.3", "args": ["--acp"], "env": {"A": "b"}}}},
            {"id": "two", "distribution": {"uvx": {"package": "two==2"}}},
            {"id": "three", "distribution": {"binary": {"linux-x86_64": {"archive": "https://x/y.tar.gz", "cmd": "./three"}}}},
            {"id": "four", "distribution": {}}, {"id": "../etc", "distribution": {"uvx": {"package": "p"}}}, 7
        ], "extensions": []}"#,
        Source::Registry,
        &[("one", "npx --yes @x/one@1.2.3 --acp"), ("two", "uvx two==2")],
        &["three", "four", "../etc", ""],
    );
    assert_eq!(found.agents[0].env["A"], Value::Plain("b".into()));
    check(
        "// settings\n{ \"theme\": \"x\", /* a \" quote */ \"agent_servers\": {\n\"My Agent\": { \"type\": \"custom\", \"command\": \"/bin/a\", \"args\": [\"--x\", \"// no comment\",], },\n\"claude\": { \"type\": \"registry\", },\n\"old\": {\"command\": {\"path\": \"/bin/o\", \"args\": []}}\n}, }",
        Source::Zed,
        &[("my-agent", "/bin/a --x // no comment"), ("old", "/bin/o")],
        &["claude"],
    );
    check(
        r#"{"defaultAgent": "a", "agents": {"a": {"command": "./bin/a --acp 'x y'"}, "b": {"command": "b", "args": ["c d"]}, "c": {"argv": ["c", "d"]}, "e": {"command": "x | y"}}}"#,
        Source::Acpx,
        &[("a", "./bin/a --acp x y"), ("b", "b c d"), ("c", "c d")],
        &["e"],
    );
    for text in ["", "{}", "[]", "{\"agents\": 3}", "{\"agents\": [", "/* open", "\"\\"] {
        import(text).unwrap_err();
    }
}
