//! A home that is missing, is a file, or can't be written: what can work works and says so, what can't says why.

use super::harness::{Done, Exec, Place, script};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Makes the first argument read-only and runs the rest.
const MOUNT: &str = "mount --bind \"$0\" \"$0\" && mount -o remount,bind,ro \"$0\" || exit 99; exec \"$@\"";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Home {
    None,
    File,
    ReadOnly,
    /// With sessions and a configuration from better days.
    Used,
}

/// What keeps things from being written there, in the words that the user reads.
fn reason(home: Home) -> &'static [&'static str] {
    match home {
        Home::None => &["neither XDG_STATE_HOME nor HOME is set"],
        Home::File => &["Not a directory"],
        Home::ReadOnly | Home::Used => &["Read-only file system", "Permission denied"],
    }
}

/// Runs `tieline` with such a home.
fn run(place: &Place, home: Home, arguments: &[&str]) -> Done {
    let path = match home {
        Home::None => None,
        Home::File => Some(place.path("flat")),
        Home::ReadOnly => Some(place.path("home")),
        Home::Used => Some(place.path("used")),
    };
    let mut exec = if matches!(home, Home::ReadOnly | Home::Used) {
        read_only(place, path.as_deref())
    } else {
        place.tieline(&[])
    };
    exec.command.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME").env_remove("HOME");
    exec.command.envs(path.map(|path| ("HOME", path)));
    exec.args(arguments).run()
}

/// A run for which a folder can't be written. Root needs a mount for that, in a namespace of its own.
fn read_only(place: &Place, folder: Option<&std::path::Path>) -> Exec {
    let folder = folder.unwrap();
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        for path in [folder.to_owned(), folder.join(".local/state/tieline"), folder.join(".config/tieline")] {
            if path.exists() {
                std::fs::set_permissions(path, PermissionsExt::from_mode(0o555)).unwrap();
            }
        }
        return place.tieline(&[]);
    }
    let mut exec = place.tieline(&[]);
    let mut command = std::process::Command::new("unshare");
    command.args(["--mount", "sh", "-c", MOUNT]).arg(folder).arg(env!("CARGO_BIN_EXE_tieline"));
    place.surround(&mut command);
    command.current_dir(place.project());
    exec.command = command;
    exec
}

/// It ended with this code, and the reason was told.
fn tells(done: &Done, home: Home, code: i32) {
    assert_eq!(done.code, Some(code), "{home:?}: {done:#?}");
    let told = format!("{}{}", done.out, done.err);
    assert!(reason(home).iter().any(|reason| told.contains(reason)), "{home:?}: {done:#?}");
}

#[test]
fn what_can_work_works_and_the_rest_says_why() {
    for home in [Home::None, Home::File, Home::ReadOnly, Home::Used] {
        let place = Place::new();
        std::fs::write(place.path("flat"), "").unwrap();
        let agent = ["--", "python3", &script("agent.py"), "hello", "1"];
        if home == Home::Used {
            std::fs::create_dir_all(place.path("used/.config/tieline")).unwrap();
            std::fs::write(place.path("used/.config/tieline/config.toml"), "[agents.mine]\ncommand = [\"true\"]\n")
                .unwrap();
            let mut exec = place.tieline(&["exec", "go"]).args(&agent).env("HOME", place.path("used"));
            exec.command.env_remove("XDG_STATE_HOME").env_remove("XDG_CONFIG_HOME");
            exec.run().ends(0);
        }
        let run = |arguments: &[&str]| run(&place, home, arguments);
        let with_agent = |arguments: &[&str]| run(&[arguments, &agent].concat());
        // A turn works, with any agent, and it is said that it is not recorded.
        let done = with_agent(&["exec", "go"]);
        tells(&done, home, 0);
        assert_eq!(done.out, "Hello, world.\n", "{home:?}: {done:#?}");
        done.err_has("the session is not recorded");
        let done = with_agent(&["exec", "go", "--format", "json"]);
        assert_eq!(done.object()["text"], "Hello, world.", "{home:?}");
        assert!(done.object()["warnings"].to_string().contains("not recorded") && done.err.is_empty(), "{done:#?}");
        let done = run(&["exec", "/help"]);
        tells(&done, home, 0);
        done.out_has("Offline");
        // Going on needs the journal.
        for flags in [&["exec", "go", "-c"][..], &["exec", "go", "-s", "x"], &["exec", "go", "--resume", "last"]] {
            let done = with_agent(flags);
            tells(&done, home, 1);
            done.err_has("try: set XDG_STATE_HOME");
        }
        for command in [&["sessions", "list"][..], &["sessions", "show", "last"], &["diff"]] {
            // What can't be written can be read.
            if home == Home::Used {
                run(command).ends(0);
            } else {
                tells(&run(command), home, 1);
            }
        }
        let done = run(&["undo"]);
        assert_eq!(done.code, Some(1), "{home:?}: {done:#?}");
        // The doctor gets as far as one can, and knows what is wrong; with an agent that needs no home all is well.
        let done = run(&["doctor", "--no-prompt"]);
        tells(&done, home, 1);
        done.out_has("ok    initialize").out_has("FAIL  session").out_has("→ set XDG_STATE_HOME");
        with_agent(&["doctor"]).ends(0);
        // Reading a configuration that is not there is no trouble; writing it is.
        let listed = run(&["agents", "list"]).ends(0);
        assert_eq!(listed.out.contains("\nmine"), home == Home::Used, "{listed:#?}");
        run(&["agents", "which", "tieline"]).ends(0);
        run(&["config", "show", "--origin"]).ends(0);
        let done = run(&["agents", "add", "other", "--", "true"]).ends(14);
        let reasons = [reason(home), &["neither XDG_CONFIG_HOME nor HOME"]].concat();
        assert!(reasons.iter().any(|reason| done.err.contains(reason)), "{home:?}: {done:#?}");
    }
}
