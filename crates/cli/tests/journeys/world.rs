//! The surroundings of one journey: a fresh home, a project, variables, a strict model server.

use crate::language::Case;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use tieline_model_server::{ModelServer, builtin};

/// The model server with a runtime of its own.
struct Models {
    server: ModelServer,
    _runtime: tokio::runtime::Runtime,
}

impl Models {
    fn start(script: tieline_model_server::Script) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let server = runtime.block_on(ModelServer::start(script)).map_err(|error| error.to_string())?;
        Ok(Self { server, _runtime: runtime })
    }
}

pub struct World {
    _folder: tempfile::TempDir,
    top: PathBuf,
    /// What stands for `{name}` in every text.
    pub values: BTreeMap<String, String>,
    env: BTreeMap<String, String>,
    models: Option<Models>,
    /// A server that nothing may reach.
    trap: Option<Models>,
    /// How many requests there were before the last command.
    seen: usize,
}

impl World {
    pub fn new(case: &Case) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        for name in ["project", "home", "config", "state", "cache", "tmp"] {
            std::fs::create_dir(top.join(name)).unwrap();
        }
        let mut values = case.values.clone();
        for name in ["project", "home", "config", "state"] {
            values.insert(name.into(), top.join(name).to_string_lossy().into_owned());
        }
        values.insert("top".into(), top.to_string_lossy().into_owned());
        values.insert("agents".into(), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents").into());
        values.insert("tests".into(), concat!(env!("CARGO_MANIFEST_DIR"), "/tests").into());
        Self { _folder: folder, top, values, env: BTreeMap::new(), models: None, trap: None, seen: 0 }
    }

    /// A text with its variables filled in. What is no variable stays as it is: JSON and shells have braces, too.
    pub fn fill(&self, text: &str) -> String {
        self.values.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// A path in the project, or one of another root by `{home}` and the like.
    pub fn path(&self, path: &str) -> PathBuf {
        self.top.join("project").join(self.fill(path))
    }

    pub fn write(&self, root: &str, path: &str, text: &str) {
        let base = self.top.join(root);
        // The configuration of `tieline` itself, as a person would say it.
        let base = if matches!(root, "config" | "state") { base.join("tieline") } else { base };
        let path = base.join(self.fill(path));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, self.fill(text)).unwrap();
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.env.insert(name.into(), self.fill(value));
    }

    /// Starts the model server, or another one in its place.
    pub fn models(&mut self, name: &str, script: &str) -> Result<(), String> {
        let name = if name.is_empty() { "directives" } else { name };
        let script = if script.trim().is_empty() {
            builtin(name).ok_or_else(|| format!("no script `{name}` ships with the model server"))?
        } else {
            tieline_model_server::script(name, &self.fill(script)).map_err(|error| error.to_string())?
        };
        let models = Models::start(script)?;
        self.values.insert("url".into(), models.server.url());
        self.models = Some(models);
        self.seen = 0;
        Ok(())
    }

    /// Starts a second model server, which would answer.
    pub fn trap(&mut self) -> Result<(), String> {
        let trap = Models::start(builtin("directives").ok_or("no script for it")?)?;
        self.values.insert("trap".into(), trap.server.url());
        self.trap = Some(trap);
        Ok(())
    }

    /// Whether something reached it.
    pub fn trapped(&self) -> Result<(), String> {
        match self.trap.iter().flat_map(|trap| trap.server.requests()).next() {
            Some(request) => Err(format!("the other server was asked: {} {}", request.path, request.body)),
            None => Ok(()),
        }
    }

    /// What the model server was sent since the last command.
    pub fn requests(&self) -> Vec<String> {
        let all = self.models.iter().flat_map(|models| models.server.requests());
        all.skip(self.seen).map(|request| format!("{} {}", request.path, request.body)).collect()
    }

    /// A command line as a person types it, in the project.
    pub fn command(&mut self, line: &str) -> Command {
        self.seen = self.models.as_ref().map_or(0, |models| models.server.requests().len());
        let mut command = Command::new("bash");
        command.args(["-c", &self.fill(line)]).current_dir(self.top.join("project"));
        self.surround(&mut command);
        command
    }

    /// Nothing of the user who runs the tests is seen.
    fn surround(&self, command: &mut Command) {
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("TIELINE") || text.ends_with("_KEY") || text.ends_with("_BASE_URL") {
                command.env_remove(&name);
            }
        }
        for name in ["NO_COLOR", "CLICOLOR_FORCE", "PAGER", "LESS", "EDITOR", "VISUAL", "COLUMNS", "LINES", "CI"] {
            command.env_remove(name);
        }
        let binary = Path::new(env!("CARGO_BIN_EXE_tieline")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", binary.display()));
        command.env("HOME", self.top.join("home")).env("TMPDIR", self.top.join("tmp"));
        for (name, folder) in [("CONFIG", "config"), ("STATE", "state"), ("CACHE", "cache")] {
            command.env(format!("XDG_{name}_HOME"), self.top.join(folder));
        }
        command.env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent").env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").envs(&self.env);
    }
}
