//! The terminals that an interop client runs for its agent.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tieline::rpc::sync::Lock;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::watch;

/// How a command ended: exit code, or nothing when a signal ended it.
pub type Exit = Option<u32>;

#[derive(Clone)]
struct Terminal {
    output: Arc<Mutex<Vec<u8>>>,
    exit: watch::Receiver<Option<Exit>>,
    kill: Arc<tokio::sync::Notify>,
}

/// The open terminals by id.
#[derive(Clone, Default)]
pub struct Terminals {
    open: Arc<Mutex<HashMap<String, Terminal>>>,
    last: Arc<std::sync::atomic::AtomicU64>,
}

impl Terminals {
    /// Starts a command and gives the terminal's id at once. Needs a tokio runtime.
    pub fn create(&self, program: &str, args: &[String], cwd: Option<&Path>) -> Result<String, String> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        if let Some(cwd) = cwd {
            command.current_dir(cwd);
        }
        let mut child = command.spawn().map_err(|e| format!("{program}: {e}"))?;
        let output = Arc::new(Mutex::new(Vec::new()));
        let (told, exit) = watch::channel(None);
        let kill = Arc::new(tokio::sync::Notify::new());
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (into, stop) = (output.clone(), kill.clone());
        tokio::spawn(async move {
            let read = async { tokio::join!(copy(stdout, &into), copy(stderr, &into)) };
            tokio::select! {
                _ = read => {}
                () = stop.notified() => drop(child.start_kill()),
            }
            let status = child.wait().await.ok().and_then(|s| s.code()).and_then(|code| u32::try_from(code).ok());
            let _ = told.send(Some(status));
        });
        let id = format!("term-{}", self.last.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1);
        self.lock().insert(id.clone(), Terminal { output, exit, kill });
        Ok(id)
    }

    /// What the command has written so far, and how it ended if it has.
    pub fn output(&self, id: &str) -> Option<(String, Option<Exit>)> {
        let terminal = self.lock().get(id).cloned()?;
        let output = terminal.output.locked();
        let exit = *terminal.exit.borrow();
        Some((String::from_utf8_lossy(&output).into_owned(), exit))
    }

    /// Waits for the end of the command.
    pub async fn wait(&self, id: &str) -> Option<Exit> {
        let mut exit = self.lock().get(id)?.exit.clone();
        exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit)
    }

    /// Stops the command and keeps the terminal.
    pub fn kill(&self, id: &str) -> Option<()> {
        self.lock().get(id)?.kill.notify_one();
        Some(())
    }

    /// Stops the command and forgets the terminal.
    pub fn release(&self, id: &str) -> Option<()> {
        self.lock().remove(id)?.kill.notify_one();
        Some(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Terminal>> {
        self.open.locked()
    }
}

async fn copy(from: Option<impl AsyncRead + Unpin>, into: &Mutex<Vec<u8>>) {
    let Some(mut from) = from else { return };
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        into.locked().extend_from_slice(&buffer[..n]);
    }
}
