//! `tieline agents`: names come, go, and are found.
#![allow(clippy::unwrap_used)]

mod command;

use command::User;

#[test]
fn an_agent_is_added_found_and_removed() {
    let user = User::new();
    let agent = user.program("my-agent", "#!/bin/sh\nexit 0\n");
    let listed = user.run(&["agents", "list"]).good().out;
    for part in ["tieline", "claude", "npm install -g @agentclientprotocol/claude-agent-acp"] {
        assert!(listed.contains(part), "{listed}");
    }
    let added =
        user.run(&["agents", "add", "mine", "--env", "A=b", "--env-from", "KEY=TOKEN", "--", &agent, "--acp"]).good();
    assert!(added.err.contains("check it with: tieline doctor mine"), "{}", added.err);
    let config = user.read("home/.config/tieline/config.toml").unwrap();
    assert!(config.contains("[agents.mine]\ncommand = [") && config.contains("KEY = { env = \"TOKEN\" }"), "{config}");
    let which = user.run(&["agents", "which", "mine"]).good().out;
    assert!(which.contains(&agent) && which.contains("config.toml:2") && which.contains("A = \"…\""), "{which}");
    assert!(user.run(&["agents", "list"]).good().out.contains("mine"));
    user.run(&["agents", "add", "mine", "--", "x"]).bad(2, "there is an agent `mine` already; add --replace");
    user.run(&["agents", "add", "mine"]).bad(2, "<COMMAND>");
    user.run(&["agents", "which", "mien"]).bad(1, "did you mean `mine`?");
    user.run(&["agents", "remove", "mine"]).good();
    user.run(&["agents", "remove", "mine"]).bad(1, "there is no agent \"mine\" of yours");
    user.run(&["agents", "add", "ghost", "--", "no-such-program"]).good();
    user.run(&["agents", "which", "ghost"]).bad(7, "tieline doctor ghost");
}

#[test]
fn nothing_hides_in_a_command() {
    let user = User::new();
    let agent = user.program("my-agent", "#!/bin/sh\nexit 0\n");
    user.run(&["agents", "add", "mine", "--", &agent, "a\u{1b}]0;b\u{7}", "two words"]).good();
    for command in [&["agents", "list"][..], &["agents", "which", "mine"]] {
        let shown = user.run(command).good().out;
        assert!(shown.contains("'a\\u{1b}]0;b\\u{7}' 'two words'") && !shown.contains('\u{1b}'), "{shown:?}");
    }
}

#[test]
fn agents_are_imported() {
    let user = User::new();
    let zed = user.write(
        "settings.json",
        "// Zed\n{ \"agent_servers\": { \"One\": { \"command\": \"one\", \"args\": [\"--acp\"] }, \"gemini\": {} } }",
    );
    let zed = zed.to_str().unwrap();
    let tried = user.run(&["agents", "import", zed, "--dry-run"]).good();
    assert_eq!(tried.out, "would add one: one --acp\n");
    assert!(tried.err.contains("left out gemini: it has no command: Zed installs it itself"), "{}", tried.err);
    assert_eq!(user.read("home/.config/tieline/config.toml"), None);
    assert_eq!(user.run(&["agents", "import", zed]).good().out, "added one: one --acp\n");
    let again = user.run(&["agents", "import", zed]).good();
    assert!(again.out.is_empty() && again.err.contains("--replace replaces it"), "{}", again.err);
    let registry = user.write("registry.json", r#"{"agents": [{"id": "x", "distribution": {"npx": {"package": "x@1"}}}, {"id": "y", "distribution": {"npx": {"package": "y@1"}}}]}"#);
    let registry = registry.to_str().unwrap();
    let done = user.run(&["agents", "import", registry, "--only", "y"]).good();
    assert_eq!(done.out, "added y: npx --yes y@1\n");
    assert!(done.err.contains("download"), "{}", done.err);
    user.run(&["agents", "import", registry, "--only", "z"]).bad(2, "has no agent `z`");
    user.run(&["agents", "import", "/dev/null"]).bad(14, "this is not JSON");
    user.run(&["agents", "import", "nothing.json"]).bad(2, "nothing.json");
}
