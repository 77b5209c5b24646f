//! A real keyring on a session bus of its own, for one test.

#![allow(clippy::print_stderr)]

#[path = "../../../../scripts/skipped.rs"]
mod skipped;

use skipped::skipped;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The programs, and the Debian packages that they are in.
const PROGRAMS: [(&str, &str); 4] = [
    ("dbus-run-session", "dbus-daemon"),
    ("dbus-send", "dbus-bin"),
    ("gnome-keyring-daemon", "gnome-keyring"),
    ("secret-tool", "libsecret-tools"),
];

/// Starts the keyring, says where the bus is once it is there, and stays until its input ends.
const SCRIPT: &str = "
    printf pass | gnome-keyring-daemon --foreground --unlock --components=secrets >/dev/null 2>&1 &
    tries=0
    until dbus-send --session --print-reply --dest=org.freedesktop.DBus / org.freedesktop.DBus.NameHasOwner \\
        string:org.freedesktop.secrets 2>/dev/null | grep -q 'boolean true'; do
        tries=$((tries + 1)); [ $tries -lt 300 ] || exit 1; sleep 0.1
    done
    echo \"$DBUS_SESSION_BUS_ADDRESS\"
    cat >/dev/null
    kill $!";

/// The keyring. It ends with this value.
pub struct Keyring {
    session: Child,
    home: PathBuf,
    /// The address of its bus.
    pub bus: String,
}

impl Keyring {
    /// An unlocked keyring with nothing in it. `None`, said loudly, if the programs are missing and need not be there.
    pub fn start(home: &Path) -> Option<Self> {
        let there = |name: &str| {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
        };
        let missing: Vec<&str> =
            PROGRAMS.iter().filter(|(name, _)| !there(name)).map(|(_, package)| *package).collect();
        if !missing.is_empty() {
            let why = format!("there is no keyring to test with: apt-get install {}", missing.join(" "));
            skipped("KEYRING", &why);
            return None;
        }
        let run = home.join("run");
        std::fs::DirBuilder::new().mode(0o700).create(&run).unwrap();
        let mut session = Command::new("dbus-run-session")
            .args(["--", "sh", "-c", SCRIPT])
            .env("HOME", home)
            .env("XDG_RUNTIME_DIR", run)
            .env_remove("XDG_DATA_HOME")
            .env_remove("DISPLAY")
            .env_remove("WAYLAND_DISPLAY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut bus = String::new();
        BufReader::new(session.stdout.take().unwrap()).read_line(&mut bus).unwrap();
        let bus = bus.trim().to_owned();
        assert!(!bus.is_empty(), "the keyring started");
        Some(Self { session, home: home.to_owned(), bus })
    }

    fn tool(&self, arguments: &[&str]) -> String {
        let mut tool = Command::new("secret-tool");
        tool.args(arguments).env("HOME", &self.home).env("DBUS_SESSION_BUS_ADDRESS", &self.bus);
        String::from_utf8(tool.output().unwrap().stdout).unwrap()
    }

    /// The key of a provider; nothing if there is none.
    pub fn look_up(&self, provider: &str) -> String {
        self.tool(&["lookup", "service", "tieline", "provider", provider])
    }

    /// Locks it. Nobody here can unlock it again.
    pub fn lock(&self) {
        self.tool(&["lock"]);
    }
}

impl Drop for Keyring {
    fn drop(&mut self) {
        drop(self.session.stdin.take());
        let _ = self.session.wait();
    }
}
