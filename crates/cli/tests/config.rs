//! `tieline config`, completions, manual pages and help.
#![allow(clippy::unwrap_used)]

mod command;

use command::User;

#[test]
fn what_counts_is_shown_with_its_origin() {
    let user = User::new();
    let empty = user.run(&["config", "show"]).good();
    assert!(
        empty.out.contains("sessions.keep_days = 365\n") && empty.err.contains("nothing is configured"),
        "{empty:?}"
    );
    user.write(
        "home/.config/tieline/config.toml",
        "format = \"json\"\n[agents.a]\ncommand = [\"x\"]\nenv = { KEY = \"s3cret\" }\n",
    );
    user.write(
        "project/.tieline/config.toml",
        "[agents.b]\ncommand = [\"evil\"]\n[permissions]\ndeny = [\"run rm *\"]\n",
    );
    let shown = user.run(&["config", "show", "--origin"]).good();
    assert!(shown.out.contains("format = \"json\"  # ") && shown.out.contains("config.toml:1"), "{}", shown.out);
    assert!(shown.out.contains("agents.a.env = { KEY = \"…\" }") && !shown.out.contains("s3cret"), "{}", shown.out);
    assert!(!shown.out.contains("evil") && shown.out.contains("permissions.deny"), "{}", shown.out);
    assert!(shown.err.contains("`agents.b.command` does not count, because the file is not trusted"), "{}", shown.err);
    let held = user.run(&["agents", "which", "b"]).bad(1, "the agent \"b\" can't be used yet: ");
    assert!(held.err.contains("config.toml:") && held.err.contains("tieline config trust"), "{}", held.err);
    user.run(&["config", "trust"]).good();
    assert!(user.run(&["config", "show"]).good().out.contains("evil"));
    user.write("project/.tieline/config.toml", "[agents.b]\ncommand = [\"worse\"]\n");
    let changed = user.run(&["config", "show"]).good();
    assert!(changed.err.contains("changed since it was trusted") && !changed.out.contains("worse"), "{}", changed.err);
    user.run(&["config", "trust"]).good();
    user.run(&["config", "trust", "--remove"]).good();
    assert!(!user.run(&["config", "show"]).good().out.contains("worse"));
    let paths = user.run(&["config", "path"]).good().out;
    assert_eq!(paths.lines().count(), 3);
    assert!(paths.lines().last().unwrap().ends_with("config.local.toml  (not there)"), "{paths}");
    assert_eq!(user.run(&["config", "schema"]).good().json()["properties"]["agent"]["type"], "string");
    user.write("home/.config/tieline/config.toml", "\nfromat = \"json\"\n");
    user.run(&["config", "show"]).bad(14, "config.toml:2: unknown key `fromat`; did you mean `format`?");
    user.run(&["doctor"]).bad(14, "did you mean `format`?");
}

#[test]
fn completions_for_three_shells() {
    let user = User::new();
    for (shell, part) in
        [("bash", "complete -F _tieline"), ("zsh", "#compdef tieline"), ("fish", "complete -c tieline")]
    {
        let text = user.run(&["completions", shell]).good().out;
        assert!(text.contains(part) && text.contains("sessions") && text.contains("doctor"), "{shell}");
    }
    // What bash makes of it.
    let script = user.write("complete.bash", &user.run(&["completions", "bash"]).good().out);
    let line = format!(
        ". {}; COMP_WORDS=(tieline se); COMP_CWORD=1; _tieline tieline se tieline; echo \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let done = std::process::Command::new("bash").args(["-c", &line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&done.stdout), "sessions\n");
    user.run(&["completions", "tcl"]).bad(2, "possible values");
}

#[test]
fn manual_pages() {
    let user = User::new();
    let page = user.run(&["man"]).good().out;
    assert!(page.contains(".TH tieline 1") && page.contains(".SH SUBCOMMANDS"), "{page}");
    let page = user.run(&["man", "sessions", "export"]).good().out;
    assert!(page.contains(".TH tieline-sessions-export") && page.contains("output"), "{page}");
    user.run(&["man", "sessions", "expord"]).bad(2, "there is no command");
}

#[test]
fn help_fits_a_screen_and_names_every_command() {
    let user = User::new();
    let help = user.run(&["--help"]).good().out;
    for name in ["agent", "sessions", "diff", "undo", "agents", "doctor", "config", "completions", "man", "Examples:"] {
        assert!(help.contains(&format!("  {name} ")) || help.contains(name), "{name}: {help}");
    }
    assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
    user.run(&["sesions"]).bad(2, "'sessions'");
}
