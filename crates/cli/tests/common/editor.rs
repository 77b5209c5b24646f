//! What an editor offers an agent: its files with what is not saved yet, and terminals with real processes.

use super::Reply;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// An editor.
#[derive(Default)]
pub struct Editor {
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
            "fs/read_text_file" => {
                let text = self.unsaved.get(&path).cloned().or_else(|| std::fs::read_to_string(&path).ok());
                text.map_or(Reply::Error(-32002, "no such file"), |text| Reply::Result(json!({"content": text})))
            }
            "fs/write_text_file" => {
                std::fs::write(&path, params["content"].as_str().unwrap()).unwrap();
                self.unsaved.remove(&path);
                Reply::Result(Value::Null)
            }
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
