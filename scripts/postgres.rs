//! A `PostgreSQL` for tests: a cluster of its own in a temporary folder, at a port of its own, started and stopped with them.

#![allow(clippy::unwrap_used, dead_code, reason = "shared by tests that use parts of it")]

use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// However busy the machine is.
const LONG: Duration = Duration::from_mins(1);
/// It ends by itself after this time, in seconds, if a test was killed.
const LIFE: &str = "3600";

/// A server with its data.
pub struct Cluster {
    bin: PathBuf,
    folder: TempDir,
    port: u16,
    child: Mutex<Child>,
    /// Whom it runs as where we are root, which it refuses.
    user: Option<(u32, u32)>,
    /// Where it listens besides this machine's own address, with a comma before each.
    also: String,
}

/// Where the programs are: on the path, or where Debian puts them, the newest first.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("bin"))
        .collect();
    versions.sort();
    // Links to some of them may stand elsewhere.
    let whole = |bin: &PathBuf| {
        ["initdb", "postgres", "psql", "createdb", "pg_isready"].iter().all(|name| bin.join(name).is_file())
    };
    std::env::split_paths(&path).chain(versions.into_iter().rev()).find(whole)
}

fn number(command: &mut Command) -> u32 {
    String::from_utf8(command.output().unwrap().stdout).unwrap().trim().parse().unwrap()
}

impl Cluster {
    /// The cluster of all tests of this process that run now. `None`, and said so, if there is no `PostgreSQL`.
    pub fn get() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(cluster) = shared.upgrade() {
            return Some(cluster);
        }
        let cluster = Arc::new(Self::start()?);
        *shared = Arc::downgrade(&cluster);
        Some(cluster)
    }

    /// One for a test that stops it.
    pub fn start() -> Option<Self> {
        Self::start_at(&[])
    }

    /// One that can be reached at these addresses, too, by everybody there.
    pub fn start_at(addresses: &[&str]) -> Option<Self> {
        let Some(bin) = programs() else {
            super::skipped::skipped(
                "POSTGRES",
                "several machines on one database: there is no PostgreSQL here (apt-get install postgresql)",
            );
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let root = number(Command::new("id").arg("-u")) == 0;
        let user = root.then(|| {
            (number(Command::new("id").args(["-u", "nobody"])), number(Command::new("id").args(["-g", "nobody"])))
        });
        if let Some((uid, gid)) = user {
            chown(folder.path(), Some(uid), Some(gid)).unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut made = as_user(Command::new(bin.join("initdb")), user, folder.path());
        made.args(["--no-sync", "--auth=trust", "--username=tieline", "--encoding=UTF8", "--locale=C", "-D"]);
        let made = made.arg(folder.path().join("data")).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let also = addresses.iter().fold(String::new(), |all, address| all + "," + address);
        if !also.is_empty() {
            let mut who =
                std::fs::OpenOptions::new().append(true).open(folder.path().join("data/pg_hba.conf")).unwrap();
            std::io::Write::write_all(&mut who, b"host all all 10.0.0.0/8 trust\n").unwrap();
        }
        let child = Mutex::new(run(&bin, folder.path(), port, user, &also));
        let cluster = Self { bin, folder, port, child, user, also };
        cluster.wait();
        Some(cluster)
    }

    /// Waits until it answers.
    fn wait(&self) {
        let deadline = Instant::now() + LONG;
        let ready = || {
            let mut asked = self.program("pg_isready");
            asked.stdout(Stdio::null()).status().unwrap().success()
        };
        while !ready() {
            assert!(Instant::now() < deadline, "PostgreSQL does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A database of its own; gives its address.
    pub fn database(&self) -> String {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("test{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let made = self.program("createdb").arg(&name).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        format!("postgres://tieline@127.0.0.1:{}/{name}?sslmode=disable", self.port)
    }

    /// Runs a statement and gives what it prints.
    pub fn sql(&self, address: &str, sql: &str) -> String {
        let done = self
            .program("psql")
            .args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-c", sql, address])
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap().trim().to_owned()
    }

    /// Ends it as a power cut would.
    pub fn stop(&self) {
        let mut child = self.child.lock().unwrap();
        let pid = child.id();
        // QUIT: at once, without writing anything more; what comes next recovers.
        let _ = Command::new("kill").args(["-QUIT", &pid.to_string()]).status();
        child.wait().unwrap();
    }

    /// Starts it again.
    pub fn start_again(&self) {
        *self.child.lock().unwrap() = run(&self.bin, self.folder.path(), self.port, self.user, &self.also);
        self.wait();
    }

    fn program(&self, name: &str) -> Command {
        let mut command = as_user(Command::new(self.bin.join(name)), self.user, self.folder.path());
        command.env("PGHOST", "127.0.0.1").env("PGPORT", self.port.to_string()).env("PGUSER", "tieline");
        command
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

fn as_user(mut command: Command, user: Option<(u32, u32)>, folder: &Path) -> Command {
    if let Some((uid, gid)) = user {
        command.uid(uid).gid(gid);
    }
    command
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", folder)
        .current_dir(folder);
    command
}

fn run(bin: &Path, folder: &Path, port: u16, user: Option<(u32, u32)>, also: &str) -> Child {
    let mut command = as_user(Command::new("timeout"), user, folder);
    command.args(["--signal=QUIT", LIFE]).arg(bin.join("postgres")).arg("-D").arg(folder.join("data"));
    command.args(["-p", &port.to_string(), "-h", &format!("127.0.0.1{also}"), "-k"]).arg(folder);
    command.args(["-c", "fsync=off", "-c", "max_connections=200", "-c", "log_min_messages=warning"]);
    let log = std::fs::OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
}
