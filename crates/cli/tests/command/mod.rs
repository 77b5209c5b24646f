//! The real binary as a user starts it: a home, a project, and what comes out.

#![allow(dead_code, clippy::unwrap_used)]

use serde_json::Value;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A user with a home and a project.
pub struct User {
    pub folder: tempfile::TempDir,
}

/// What a command did.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Done {
    /// It must have gone well.
    #[track_caller]
    pub fn good(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self
    }

    /// It must have ended with this code and said this.
    #[track_caller]
    pub fn bad(self, code: i32, says: &str) -> Self {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(self.err.contains(says), "{}", self.err);
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

impl User {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["home", "project/.git"] {
            std::fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    /// A program of the user's.
    pub fn program(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.write(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_string_lossy().into_owned()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
        command.args(arguments).current_dir(self.path("project")).env("HOME", self.path("home"));
        for name in ["XDG_CONFIG_HOME", "XDG_STATE_HOME", "TIELINE_CONFIG", "TIELINE_AGENT", "TIELINE_FORMAT"] {
            command.env_remove(name);
        }
        command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Done {
        finish(self.command(arguments).spawn().unwrap())
    }

    /// One turn with the built-in agent, which does what the prompt says.
    pub fn puppet(&self, prompt: &str) -> Done {
        let mut command = self.command(&["exec", "--allow-all", "-", "--", env!("CARGO_BIN_EXE_tieline"), "agent"]);
        command.args(["--script", "puppet", "--sandbox", "off"]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
        finish(child)
    }

    /// The sessions there are, newest first.
    pub fn sessions(&self) -> Vec<Value> {
        let listed = self.run(&["sessions", "list", "--format", "json"]).good().json();
        listed.as_array().unwrap().clone()
    }
}

pub fn finish(child: Child) -> Done {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Done { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}
