//! Runs the binary in a place of its own and gathers everything that can be seen of it.

use serde_json::Value;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a test waits for something that must come.
pub const SOON: Duration = Duration::from_mins(1);
pub const DIALECTS: [&str; 3] = ["1", "2-seed", "2"];

/// A project, a home and a log, all in one folder that goes away.
pub struct Place {
    pub folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["project", "home", "state", "config"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub fn project(&self) -> PathBuf {
        self.path("project")
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.project().join(name)).ok()
    }

    /// A run of `tieline exec` with these arguments.
    pub fn exec(&self, arguments: &[&str]) -> Exec {
        self.tieline(&["exec"]).args(arguments)
    }

    /// A run of any command of `tieline`.
    pub fn tieline(&self, arguments: &[&str]) -> Exec {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tieline"));
        command.args(arguments).current_dir(self.project());
        self.surround(&mut command);
        Exec { command, input: None, log: self.path("log"), words: Vec::new(), scripted: None }
    }

    /// A run with a scripted agent in a dialect. What it does is in its environment: by its command line it is the same
    /// agent, whose sessions go on.
    pub fn agent(&self, behaviour: &str, dialect: &str, arguments: &[&str]) -> Exec {
        self.scripted("agent.py", behaviour, dialect, arguments)
    }

    /// The same with another script.
    pub fn scripted(&self, name: &'static str, behaviour: &str, dialect: &str, arguments: &[&str]) -> Exec {
        let mut exec = self.exec(&["go"]).args(&["--protocol", dialect]).args(arguments);
        exec = exec.env("AGENT_BEHAVIOUR", behaviour).env("AGENT_DIALECT", dialect);
        exec.scripted = Some(name);
        exec
    }

    /// The surroundings of every run: nothing of the user's own.
    pub fn surround(&self, command: &mut Command) {
        command.env("HOME", self.path("home")).env("XDG_STATE_HOME", self.path("state"));
        command.env("XDG_CONFIG_HOME", self.path("config")).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("AGENT_LOG", self.path("log")).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent");
        for name in ["TIELINE_AGENT", "TIELINE_FORMAT", "TIELINE_CONFIG", "TIELINE_PERMISSIONS"] {
            command.env_remove(name);
        }
    }
}

/// A script beside the tests.
pub fn script(name: &str) -> String {
    format!("{}/tests/agents/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A run to be.
pub struct Exec {
    pub command: Command,
    input: Option<Vec<u8>>,
    log: PathBuf,
    words: Vec<String>,
    /// The words are for the scripted agent.
    scripted: Option<&'static str>,
}

impl Exec {
    pub fn args(mut self, arguments: &[&str]) -> Self {
        self.command.args(arguments);
        self
    }

    pub fn format(self, format: &str) -> Self {
        self.args(&["--format", format])
    }

    /// The agent's command, behind `--`; words for the scripted agent if it is that.
    pub fn words(mut self, words: &[&str]) -> Self {
        self.words.extend(words.iter().map(|&word| word.to_owned()));
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = Some(bytes.into());
        self
    }

    fn prepare(&mut self) {
        if let Some(name) = self.scripted {
            self.command.env("AGENT_WORDS", serde_json::json!(self.words).to_string());
            self.command.args(["--", "python3", &script(name)]);
        } else if !self.words.is_empty() {
            self.command.arg("--").args(&self.words);
        }
        let input = if self.input.is_some() { Stdio::piped() } else { Stdio::null() };
        self.command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        self.prepare();
        let mut child = self.command.spawn().unwrap();
        if let Some(input) = self.input.take() {
            let mut stdin = child.stdin.take().unwrap();
            std::thread::spawn(move || drop(stdin.write_all(&input)));
        }
        let out = gather(child.stdout.take().unwrap());
        let err = gather(child.stderr.take().unwrap());
        Running { child, out, err, log: self.log }
    }

    /// Runs it to its end.
    pub fn run(self) -> Done {
        self.start().done()
    }
}

type Gathered = std::sync::Arc<std::sync::Mutex<(Vec<u8>, bool)>>;

/// Reads a stream in a thread.
fn gather(mut stream: impl Read + Send + 'static) -> Gathered {
    let all = Gathered::default();
    let sink = all.clone();
    std::thread::spawn(move || {
        let mut chunk = vec![0; 65536];
        while let Ok(size @ 1..) = stream.read(&mut chunk) {
            sink.lock().unwrap().0.extend_from_slice(&chunk[..size]);
        }
        sink.lock().unwrap().1 = true;
    });
    all
}

/// A run under way.
pub struct Running {
    pub child: Child,
    out: Gathered,
    err: Gathered,
    log: PathBuf,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for something that must come.
pub fn wait(what: &str, mut there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !there() {
        assert!(start.elapsed() < SOON, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Running {
    pub fn out(&self) -> String {
        String::from_utf8_lossy(&self.out.lock().unwrap().0).into_owned()
    }

    pub fn err(&self) -> String {
        String::from_utf8_lossy(&self.err.lock().unwrap().0).into_owned()
    }

    pub fn until_out(&self, text: &str) {
        wait(text, || self.out().contains(text));
    }

    pub fn until_logged(&self, text: &str) {
        wait(text, || std::fs::read_to_string(&self.log).is_ok_and(|log| log.contains(text)));
    }

    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }

    pub fn done(mut self) -> Done {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < SOON, "the run does not end; it said {:?} {:?}", self.out(), self.err());
            std::thread::sleep(Duration::from_millis(5));
        };
        wait("the end of the streams", || self.out.lock().unwrap().1 && self.err.lock().unwrap().1);
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        Done {
            code: status.code(),
            out: self.out(),
            err: self.err(),
            log: log.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
        }
    }
}

/// A run that is over.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
    /// What the agent was sent.
    pub log: Vec<Value>,
}

impl Done {
    /// Checks the exit code; tells everything if it is another.
    pub fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// The one object of `json`.
    pub fn object(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self:#?}");
        serde_json::from_str(&self.out).unwrap()
    }

    /// The events of `stream-json`.
    pub fn events(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// What the agent was sent with this method.
    pub fn sent(&self, method: &str) -> Vec<&Value> {
        self.log.iter().filter(|message| message["method"] == method).collect()
    }

    /// The JSON that the scripted agent said, in `text`.
    pub fn told(&self) -> Value {
        serde_json::from_str(self.out.trim()).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    pub fn out_has(&self, text: &str) -> &Self {
        assert!(self.out.contains(text), "no {text:?} in {self:#?}");
        self
    }

    pub fn err_has(&self, text: &str) -> &Self {
        assert!(self.err.contains(text), "no {text:?} in {self:#?}");
        self
    }
}

/// True if a process runs with this text in its command line or environment.
pub fn alive(mark: &str) -> bool {
    let has = |path: PathBuf| std::fs::read(path).is_ok_and(|text| String::from_utf8_lossy(&text).contains(mark));
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let own = std::process::id().to_string();
    processes
        .filter(|entry| entry.file_name().to_string_lossy().chars().all(|c| c.is_ascii_digit()))
        .filter(|entry| entry.file_name().to_string_lossy() != own)
        .any(|entry| has(entry.path().join("cmdline")) || has(entry.path().join("environ")))
}

/// What a row is about, the dialects it holds in, and the check.
pub type Row = (&'static str, &'static [&'static str], fn(&str));

/// Runs every row in each of its dialects, a few at a time: each is a handful of processes that mostly wait.
pub fn rows(rows: &[Row]) {
    let all: Vec<_> = rows
        .iter()
        .flat_map(|(about, dialects, check)| dialects.iter().map(|dialect| (*about, *dialect, *check)))
        .collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let broken = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((about, dialect, check)) =
                    all.get(next.fetch_add(1, std::sync::atomic::Ordering::SeqCst))
                {
                    if std::panic::catch_unwind(|| check(dialect)).is_err() {
                        broken.lock().unwrap().push(format!("{about} in dialect {dialect}"));
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap();
    assert!(broken.is_empty(), "broken: {broken:#?}");
}

/// A mark that nobody else uses.
pub fn mark(what: &str) -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("exec-test-{what}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// True if nothing in the bytes would be obeyed by a terminal.
pub fn harmless(text: &str) -> bool {
    let bad = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    !text.contains(bad)
}

pub fn journal(place: &Place) -> PathBuf {
    place.path("state").join("tieline/journal.db")
}

/// Numbered lines.
pub fn lines(numbers: std::ops::Range<u32>) -> String {
    numbers.fold(String::new(), |text, number| text + "line " + &number.to_string() + "\n")
}
