//! `tieline config`, completions, manual pages and help.
#![allow(clippy::unwrap_used)]

mod command;

use command::User;
use std::os::unix::fs::PermissionsExt as _;

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
fn the_file_that_tieline_config_names_counts_for_the_agent_too() {
    let user = User::new();
    user.write(
        "project/mine.toml",
        "[models]\ndefault = 'nobody/x'\n[providers.own]\nbase_url = 'http://127.0.0.1:1'\n",
    );
    user.write("home/empty", "");
    let run = |file: &str, arguments: &[&str]| {
        command::finish(user.command(arguments).env("TIELINE_CONFIG", file).spawn().unwrap())
    };
    assert!(run("mine.toml", &["models"]).good().out.contains("own/MODEL"));
    run("mine.toml", &["agent"]).bad(14, "There is no provider `nobody`");
    // Where the agent is started does not matter.
    let home = user.path("home");
    run("mine.toml", &["exec", "hello", "--cwd", home.to_str().unwrap()]).bad(14, "There is no provider `nobody`");
    let gone = user.path("project/gone.toml");
    for arguments in [
        &["agent"][..],
        &["agent", "login", "openai"],
        &["models"],
        &["exec", "hello"],
        &["config", "show"],
        &["agents", "list"],
        &["doctor"],
    ] {
        let done = run("gone.toml", arguments).bad(14, "TIELINE_CONFIG names");
        assert!(done.err.contains(gone.to_str().unwrap()), "{}", done.err);
    }
    run("gone.toml", &["agents", "add", "x", "--", "true"]).good();
    assert!(run("gone.toml", &["agents", "list"]).good().out.contains("true"), "it was made");
}

#[test]
fn a_mistake_repeats_no_secret() {
    let user = User::new();
    for text in [
        "[agents.a]\ncommand = ['x']\nenv = { K = hush }\n",
        "[agents.a]\ncommand = ['x']\nenv = { K = 'hush }\n",
        "[agents.a]\ncommand = ['x']\nenv = { 'K=hush' = '1' }\n",
        "[agents.a]\ncommand = ['x']\nenv = ['K=hush']\n",
        "[agents.a]\ncommand = ['x']\nenv = { K = ['hush'] }\n",
        "[agents.a]\ncommand = 'x --key hush'\n",
        "[mcp.a]\nurl = 'https://x'\nheaders = { Authorization = \"Bearer hush }\n",
        "[mcp.a]\nurl = 'https://x'\nheaders = 'Authorization: hush'\n",
        "[mcp.a]\nurl = 'https://x'\nheaders = { A = 'hush', A = 'hush' }\n",
        "[mcp.a]\nurl = 'https://hush@x'\ncommand = ['y']\n",
        "agent = 'x --key=hush'\n",
        "[providers.a]\nbase_url = 'http://x'\nheaders = { 'Bearer hush' = 'x' }\n",
        "[providers.a]\nbase_url = 'http://x'\nheaders = { a = \"hush\\n\" }\n",
        "[providers.a]\nbase_url = 'http://x'\nformat = 'hush'\n",
        "[providers.a]\nbase_url = 'http://x'\nkey_env = ['hush']\n",
        "[providers.a]\nbase_url = 'http://x'\nkey_file = { path = 'hush' }\n",
        "[providers]\na = 'hush'\n",
        "[providers.a]\nkey = hush\n",
    ] {
        user.write("home/.config/tieline/config.toml", text);
        let runs =
            [&["config", "show"][..], &["agents", "add", "b", "--", "true"], &["models"], &["agent", "--model", "a/x"]];
        let all: Vec<_> = runs.iter().map(|arguments| user.run(arguments)).collect();
        let said = all.iter().flat_map(|done| [done.err.as_str(), done.out.as_str()]).collect::<Vec<_>>().join("\n");
        assert!(all.iter().any(|done| done.code != 0), "{text}: {said}");
        assert!(!said.contains("hush"), "{text}: {said}");
    }
    user.write("home/.config/tieline/config.toml", "");
    user.write("home/.config/tieline/rules.toml", "allow = [\"run curl -H hush]\n");
    let done = user.run(&["exec", "list the files"]);
    assert!(!format!("{}{}", done.err, done.out).contains("hush"), "{}{}", done.err, done.out);
}

#[test]
fn the_log_is_written_where_and_as_it_is_wanted() {
    let user = User::new();
    let run = |variables: &[(&str, &str)], arguments: &[&str]| {
        command::finish(user.command(arguments).envs(variables.iter().copied()).spawn().unwrap())
    };
    let quiet = run(&[], &["exec", "list the files"]).good();
    assert!(!quiet.err.contains("DEBUG") && !quiet.err.contains("TRACE"), "{}", quiet.err);
    for (filter, arguments) in
        [("debgu", &["agent"][..]), ("info,tieline_rpc=loud", &["exec", "hello"]), ("=", &["models"])]
    {
        let done = run(&[("TIELINE_LOG", filter)], arguments).bad(2, "TIELINE_LOG: `");
        assert!(done.err.contains("is no level") && done.err.contains("tieline_rpc=trace"), "{}", done.err);
    }
    run(&[("TIELINE_LOG_FILE", "/nonexistent/log")], &["agent"]).bad(2, "TIELINE_LOG_FILE: /nonexistent/log: ");
    // On standard error; that of the agent is shown with --verbose.
    let loud = run(&[("TIELINE_LOG", "debug")], &["exec", "--verbose", "list the files"]).good();
    let turn = |text: &str| text.contains("call{method=\"session/new\"}") || text.contains("turn{session=");
    assert!(loud.err.lines().any(|line| line.starts_with("· agent: ") && turn(line)), "{}", loud.err);
    assert!(!loud.err.contains('\u{1b}'), "{}", loud.err);
    assert_eq!(loud.out, quiet.out, "the answer is the same");
    // In a file, of both processes, for the user alone.
    let file = user.write("log", "before\n");
    let variables =
        [("TIELINE_LOG", "tieline=debug,tieline_coder=trace"), ("TIELINE_LOG_FILE", file.to_str().unwrap())];
    let done = run(&variables, &["exec", "list the files"]).good();
    assert!(!done.err.contains("DEBUG"), "{}", done.err);
    let log = std::fs::read_to_string(&file).unwrap();
    assert!(log.starts_with("before\n") && turn(&log), "{log}");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
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
    let zsh = user.run(&["completions", "zsh"]).good().out;
    assert!(zsh.contains("--cwd=[The folder to work in]:DIR:_files -/"), "{zsh}");
    // What bash makes of it: commands, agents (also yours), files.
    user.run(&["agents", "add", "climber", "--", "x"]).good();
    user.write("project/folder/file", "");
    let script = user.write("complete.bash", &user.run(&["completions", "bash"]).good().out);
    for (words, expect) in [
        ("ses", "sessions\n"),
        ("exec --agent cl", "claude climber\n"),
        ("agents which cli", "climber\n"),
        ("exec --file folder/f", "folder/file\n"),
    ] {
        let (count, last) = (words.split(' ').count(), words.rsplit(' ').next().unwrap());
        let before = words.split(' ').rev().nth(1).unwrap_or("tieline");
        let line = format!(
            ". {}; COMP_WORDS=(tieline {words}); COMP_CWORD={count}; _tieline tieline {last} {before} 2>/dev/null; echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let mut bash = std::process::Command::new("bash");
        let done = bash.args(["-c", &line]).current_dir(user.path("project")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&done.stdout), expect, "{words}");
    }
    user.run(&["completions", "tcl"]).bad(2, "possible values");
}

#[test]
fn manual_pages() {
    let user = User::new();
    let page = user.run(&["man"]).good().out;
    assert!(page.contains(".TH tieline 1") && page.contains(".SH SUBCOMMANDS"), "{page}");
    let page = user.run(&["man", "sessions", "export"]).good().out;
    assert!(page.contains(".TH tieline-sessions-export") && page.contains("output"), "{page}");
    let footer = concat!("\"tieline ", env!("CARGO_PKG_VERSION"), "\" \"Tieline manual\"");
    assert!(page.contains(footer), "{page}");
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
