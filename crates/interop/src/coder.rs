//! The coding agent, `tieline agent`, for clients from outside: where it is, and the turns that they play with it.

use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The program, which cargo has built next to the running test.
pub fn tieline() -> PathBuf {
    super::built("tieline", "tieline-cli")
}

/// A folder with a project in it, beside it a home for everything that programs keep.
#[derive(Debug)]
pub struct Place {
    folder: tempfile::TempDir,
    mark: String,
}

impl Default for Place {
    fn default() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // A number of seconds that nobody else sleeps.
        let mark = format!("600.{}{:03}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let place = Self { folder: tempfile::tempdir().expect("a temporary folder"), mark };
        for folder in [place.project(), place.home()] {
            fs::create_dir(folder).expect("a folder");
        }
        place.write("a.txt", "old text\n");
        place.write("open.txt", "saved text\n");
        place
    }
}

impl Place {
    /// The project's folder.
    pub fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// What marks a process that a turn left running.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The user's home.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// A file of the project, if it is there.
    pub fn read(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.project().join(name)).ok()
    }

    /// Writes a file of the project.
    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.project().join(name), text).expect("the project can be written");
    }

    /// The command line of the agent with the puppet, at home here.
    pub fn puppet(&self) -> Vec<String> {
        let mut line = vec!["env".to_owned()];
        line.extend(self.environment().map(|(name, value)| format!("{name}={value}")));
        line.push(tieline().to_str().expect("a path in UTF-8").to_owned());
        line.extend(["agent", "--script", "puppet"].map(String::from));
        line
    }

    /// Where programs find their home and keep their files.
    pub fn environment(&self) -> [(&'static str, String); 4] {
        let home = self.home();
        let below = |name: &str| home.join(name).to_str().expect("a path in UTF-8").to_owned();
        [
            ("HOME", below("")),
            ("XDG_CONFIG_HOME", below(".config")),
            ("XDG_STATE_HOME", below(".local/state")),
            ("XDG_RUNTIME_DIR", below(".runtime")),
        ]
    }

    /// A command at home here.
    pub fn at_home(&self, mut command: Command) -> Command {
        command.envs(self.environment()).current_dir(self.project());
        command
    }

    /// The turns that a client plays, as JSON for the drivers in `ts` and `py`: `step` is the turn's name in the report,
    /// `prompt` what the user says, `answer` the kind of the option that is chosen when permission is asked (`allow_once`
    /// without it), and `cancel` when the turn is cancelled: as soon as something was `said`, a tool `runs`, or permission is
    /// `asked`.
    pub fn turns(&self) -> Value {
        let edit = |old: &str, new: &str| {
            format!("call edit {}", json!({"path": "a.txt", "edits": [{"old": old, "new": new}]}))
        };
        json!([
            {"step": "say", "prompt": "think about it\nsay Hello, \npause 100\nsay größer.\nplan A; B"},
            {"step": "edit", "prompt": edit("old", "new")},
            {"step": "edit_rejected", "prompt": format!("{}\nresult", edit("new", "bad")), "answer": "reject_once"},
            {"step": "create", "prompt": "write made.txt made\\n"},
            {"step": "open", "prompt": "read open.txt\nresult"},
            {"step": "run", "prompt": "run echo out; echo err >&2; exit 3\nresult"},
            {"step": "run_rejected", "prompt": "run touch never.txt", "answer": "reject_once"},
            {"step": "cancel", "prompt": "say begun\nwait", "cancel": "said"},
            {"step": "cancel_run", "prompt": format!("run sleep {}", self.mark), "cancel": "runs"},
            {"step": "cancel_ask", "prompt": "write never.txt x", "cancel": "asked"},
            {"step": "fails", "prompt": "error -32099 broken"},
        ])
    }
}

/// A process has this in its command line or in its environment.
pub fn is_running(mark: &str) -> bool {
    let has = |bytes: Vec<u8>| bytes.windows(mark.len()).any(|window| window == mark.as_bytes());
    let processes = fs::read_dir("/proc").expect("Linux").flatten();
    let mine = std::process::id().to_string();
    processes
        .filter(|entry| entry.file_name().to_str().is_some_and(|name| name != mine && name.parse::<u32>().is_ok()))
        .flat_map(|entry| ["cmdline", "environ"].map(|name| fs::read(entry.path().join(name))))
        .any(|bytes| bytes.is_ok_and(has))
}
