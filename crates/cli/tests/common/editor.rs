//! What an editor offers an agent: its files with what is not saved yet, and terminals with real processes. It has the
//! habits of real editors, as they were recorded.

use super::Reply;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// How an editor treats files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Habit {
    /// As the documents say: text as it is, a missing file is an error.
    #[default]
    Exact,
    /// A file that the agent works on is opened; what is open is lines, without the last newline, and empty for a file that
    /// is not there. A write that fails is answered like one that worked, and folders are not made.
    Avante,
    /// A missing file is empty. Text that is written to an open file becomes lines, and the newline at its end one more.
    CodeCompanion,
    /// What is written is formatted: white space at the ends of lines is taken off, tabs become spaces.
    Formats,
}

/// An editor.
#[derive(Default)]
pub struct Editor {
    pub habit: Habit,
    /// The files that are open.
    pub open: HashMap<PathBuf, Vec<String>>,
    /// Text that is on the screen but not on the disk.
    pub unsaved: HashMap<PathBuf, String>,
    /// Every method that it was asked, with the parameters.
    pub asked: Vec<(String, Value)>,
    terminals: HashMap<String, Terminal>,
    waiting: Vec<(Value, String)>,
    count: u32,
}

struct Terminal {
    child: Child,
    output: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    fn exit(&mut self) -> Option<Value> {
        let status = self.child.try_wait().unwrap()?;
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        Some(json!({"exitCode": status.code(), "signal": status.signal().map(|number| number.to_string())}))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Editor {
    /// One with a habit.
    pub fn with(habit: Habit) -> Self {
        Self { habit, ..Self::default() }
    }

    /// The capabilities of such a client in version 1.
    pub fn offers() -> Value {
        json!({"fs": {"readTextFile": true, "writeTextFile": true}, "terminal": true})
    }

    /// How often it was asked this.
    pub fn count(&self, method: &str) -> usize {
        self.asked.iter().filter(|(asked, _)| asked == method).count()
    }

    /// True if a terminal was not released.
    pub fn has_terminals(&self) -> bool {
        !self.terminals.is_empty()
    }

    /// Answers a request, if it is one for an editor.
    pub fn take(&mut self, message: &Value) -> Option<Reply> {
        let (method, params) = (message["method"].as_str()?, &message["params"]);
        if !method.starts_with("fs/") && !method.starts_with("terminal/") {
            return None;
        }
        self.asked.push((method.to_owned(), params.clone()));
        let path = PathBuf::from(params["path"].as_str().unwrap_or_default());
        let id = params["terminalId"].as_str().unwrap_or_default().to_owned();
        Some(match method {
            "fs/read_text_file" => self.read(&path),
            "fs/write_text_file" => self.write(path, params["content"].as_str().unwrap()),
            "terminal/create" => Reply::Result(json!({"terminalId": self.create(params)})),
            "terminal/wait_for_exit" => {
                self.waiting.push((message["id"].clone(), id));
                Reply::Silence
            }
            _ => match (self.terminals.get_mut(&id), method) {
                (None, _) => Reply::Error(-32002, "no such terminal"),
                (Some(terminal), "terminal/output") => {
                    let exit = terminal.exit();
                    let output = terminal.output.lock().unwrap().clone();
                    Reply::Result(json!({"output": output, "truncated": false, "exitStatus": exit}))
                }
                (Some(terminal), "terminal/kill") => {
                    terminal.child.kill().unwrap();
                    Reply::Result(json!({}))
                }
                (Some(_), _) => {
                    self.terminals.remove(&id);
                    Reply::Result(json!({}))
                }
            },
        })
    }

    /// Sees an update of the agent: some editors open the files that it is about.
    pub fn see(&mut self, update: &Value) {
        if self.habit == Habit::Avante {
            for place in update["locations"].as_array().into_iter().flatten() {
                self.open_file(Path::new(place["path"].as_str().unwrap()));
            }
        }
    }

    /// Opens a file; one that is not there is one empty line.
    pub fn open_file(&mut self, path: &Path) {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.strip_suffix('\n').unwrap_or(&text).split('\n');
        self.open.insert(path.to_owned(), lines.map(str::to_owned).collect());
    }

    fn read(&self, path: &Path) -> Reply {
        let content = |text: String| Reply::Result(json!({"content": text}));
        let disk = std::fs::read_to_string(path).ok();
        match self.habit {
            Habit::Avante if self.open.contains_key(path) => content(self.open[path].join("\n")),
            Habit::CodeCompanion => content(disk.unwrap_or_default().replace("\r\n", "\n")),
            _ => match self.unsaved.get(path).cloned().or(disk) {
                Some(text) if self.habit == Habit::Avante => content(text.replace("\r\n", "\n")),
                Some(text) => content(text),
                None => Reply::Error(-32002, "ENOENT: no such file or directory"),
            },
        }
    }

    fn write(&mut self, path: PathBuf, text: &str) -> Reply {
        match self.habit {
            Habit::Avante => {
                if std::fs::write(&path, text).is_err() {
                    return Reply::Result(json!("Failed to write file"));
                }
                if self.open.contains_key(&path) {
                    self.open_file(&path);
                }
            }
            Habit::CodeCompanion if self.open.contains_key(&path) => {
                std::fs::write(&path, format!("{text}\n")).unwrap();
            }
            Habit::CodeCompanion => {
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(&path, text).unwrap();
            }
            Habit::Formats => {
                let lines = text.lines().map(|line| line.trim_end().replace('\t', "    ") + "\n");
                std::fs::write(&path, lines.collect::<String>()).unwrap();
            }
            Habit::Exact => std::fs::write(&path, text).unwrap(),
        }
        self.unsaved.remove(&path);
        Reply::Result(Value::Null)
    }

    fn create(&mut self, params: &Value) -> String {
        let args = params["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut child = Command::new(params["command"].as_str().unwrap())
            .args(args)
            .current_dir(params["cwd"].as_str().unwrap())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let (mut stdout, shared) = (child.stdout.take().unwrap(), Arc::clone(&output));
        let reader = std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = stdout.read(&mut piece) {
                shared.lock().unwrap().push_str(&String::from_utf8_lossy(&piece[..count]));
            }
        });
        self.count += 1;
        let id = format!("terminal-{}", self.count);
        self.terminals.insert(id.clone(), Terminal { child, output, reader: Some(reader) });
        id
    }

    /// The answers to those who wait for an exit that has come.
    pub fn due(&mut self) -> Vec<(Value, Value)> {
        let mut due = Vec::new();
        let terminals = &mut self.terminals;
        self.waiting.retain(|(request, id)| {
            let exit = terminals.get_mut(id).map_or(Some(json!({})), Terminal::exit);
            due.extend(exit.clone().map(|exit| (request.clone(), exit)));
            exit.is_none()
        });
        due
    }
}
