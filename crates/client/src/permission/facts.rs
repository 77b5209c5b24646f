//! What is about to happen, taken from what the agent says in its fields: kind, paths, diffs, command. Never from titles.

use crate::sanitize;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use tieline::schema::{
    Change, FileChange, Operation, PermissionRequest, PermissionSubject, ToolCallContent, ToolCallUpdate, ToolKind,
};
use tieline_host::roots::{Roots, shown};
use tieline_host::rules::{Action, CommandLine, Confined, Engine, Host, Location, Rule, Subject, Topic};

/// So many paths and changes of one call are looked at; a call with more is not understood.
pub(crate) const MAX_PATHS: usize = 1000;
/// So many ways are looked at to read the name of a tool.
const MAX_READINGS: usize = 100;
/// So many letters of a title are looked at for one.
const MAX_NAME_CHARS: usize = 1000;
/// So many lines are shown.
const MAX_LINES: usize = 100;
/// So many bytes of a command or an address are shown; a longer one is not understood.
const MAX_SHOWN_BYTES: usize = 64 << 10;

/// Keys under which tools are given a path.
const PATH_KEYS: [&str; 9] = [
    "file_path",
    "filePath",
    "filepath",
    "path",
    "abs_path",
    "absolute_path",
    "notebook_path",
    "target_file",
    "dir_path",
];

/// Keys under which tools are given a command.
const COMMAND_KEYS: [&str; 3] = ["command", "cmd", "script"];
/// Keys under which a command is given its folder.
const FOLDER_KEYS: [&str; 6] = ["cwd", "workdir", "working_dir", "working_directory", "workingDirectory", "directory"];
/// Keys of known agents whose text does nothing by itself, whatever it says.
const TEXT_KEYS: &str = "background call_id callId code_edit content contents description diff edits exclude explanation \
    file_text format glob include insert_text instruction instructions intent justification language mode new newString \
    newText new_str new_string new_text old oldString oldText old_str old_string old_text output_mode parsed_cmd patch pattern \
    process_id prompt proposed_execpolicy_amendment query reason regex replace risk search summary text title turn_id type";

/// Those of them that are written, or that are replaced by what is written.
const NEW_TEXT_KEYS: &str = "code_edit content contents diff edits file_text insert_text newString newText new_str new_string new_text \
    oldString oldText old_str old_string old_text patch replace";

/// Keys of text that may be what is written, if there is also a path.
const OTHER_TEXT_KEYS: &str = "body code data input message prompt replacement text value";

/// Keys under which known agents give a patch, which has names in it.
const PATCH_KEYS: [&str; 2] = ["diff", "patch"];
/// Words in the names of switches that take a guard away.
const SWITCH_WORDS: [&str; 9] =
    ["sandbox", "danger", "unsafe", "bypass", "escalat", "elevat", "permission", "privileg", "sudo"];

/// What is about to happen.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    actions: Vec<Action>,
    mentioned: Vec<Location>,
    /// What a tool of a server is given: a rule can hold it back, but it is neither needed nor kept for a yes to the tool.
    given: Vec<Action>,
    understood: bool,
    /// What it is about, as far as its kind says that.
    topic: Option<Topic>,
    /// There is more than was looked at.
    partial: bool,
    /// Files of which a diff leaves nothing.
    emptied: Vec<Location>,
    /// Nothing keeps its commands from files that a rule denies.
    unmasked: bool,
    /// What kind it says it is.
    kind: Option<ToolKind>,
    /// The whole address that is fetched.
    address: Option<String>,
    lines: Vec<String>,
    /// Its command without what may be a secret: who decides sees it, but it is not stored.
    stored_as: Option<String>,
}

impl Facts {
    /// One action that is fully known.
    pub fn one(action: Action) -> Self {
        Self { actions: vec![action], understood: true, ..Self::default() }.in_words()
    }

    /// What a line such as `run git push` or `read .env` says, as a person types it.
    pub fn of_line(line: &str, roots: &Roots) -> Result<Self, String> {
        let (verb, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
        let rest = rest.trim();
        let missing =
            || format!("say what to {verb}, such as: {verb} {}", if verb == "run" { "git push" } else { "src/x" });
        let place = |path: &str| if path.is_empty() { Err(missing()) } else { Ok(locate(path, roots)) };
        let mut facts = match verb {
            "read" => Self::one(Action::Read(place(rest)?)),
            "write" => Self::one(Action::Write(place(rest)?)),
            "delete" => Self::one(Action::Delete(place(rest)?)),
            "move" => {
                let (from, to) = rest.split_once(" => ").ok_or("say from where to where: move OLD => NEW")?;
                Self::one(Action::Move { from: place(from.trim())?, to: place(to.trim())? })
            }
            "run" if rest.is_empty() => return Err(missing()),
            "run" => Self::one(Action::Execute { command: shell_line(rest), confined: Confined::No }).unmasked(),
            "fetch" => {
                let host = Host::of_url(rest).ok_or("say a whole address, such as: fetch https://docs.rs/serde")?;
                Self::one(Action::Fetch(host))
            }
            "mcp" => {
                let (server, tool) = rest.split_once('/').ok_or("say a server and its tool: mcp SERVER/TOOL")?;
                Self::one(Action::Mcp { server: server.to_owned(), tool: tool.to_owned() })
            }
            _ => return Err(format!("`{verb}` is not known here: use read, write, delete, move, run, fetch or mcp")),
        };
        facts.address = (verb == "fetch").then(|| rest.to_owned());
        Ok(facts.in_words())
    }

    /// The same, if commands run in a sandbox that keeps them in the workspace.
    #[must_use]
    pub fn in_sandbox(self) -> Self {
        self.held_by(Confined::Guarded)
    }

    /// The same with this around its commands.
    #[must_use]
    pub(crate) fn held_by(mut self, by: Confined) -> Self {
        self.unmasked = false;
        for action in &mut self.actions {
            if let Action::Execute { confined, .. } = action {
                *confined = by;
            }
        }
        self
    }

    /// Says the same in words, and is not sure of what is too long to be said.
    fn in_words(mut self) -> Self {
        self.partial |= self.actions.iter().any(|action| match action {
            Action::Execute { command, .. } => command.text().len() > MAX_SHOWN_BYTES,
            _ => false,
        }) || self.address.as_ref().is_some_and(|address| address.len() > MAX_SHOWN_BYTES);
        self.lines = self.actions.iter().take(MAX_LINES).map(|action| self.line(action)).collect();
        if self.actions.len() > MAX_LINES {
            self.lines.push(format!("and {} more", self.actions.len() - MAX_LINES));
        }
        self
    }

    /// A command in a terminal of ours, in a folder of the workspace.
    pub(crate) fn command(command: CommandLine, folder: Location, confined: Confined) -> Self {
        let line = format!("in {}", shown(folder.absolute()));
        let mut facts = Self::one(Action::Execute { command: command.in_folder(folder), confined });
        facts.lines.push(line);
        facts
    }

    /// The same command, which is stored without what may be a secret.
    pub(crate) fn stored_as(self, line: String) -> Self {
        Self { stored_as: Some(line), ..self }
    }

    /// Its command without what may be a secret, if there is such a thing in it. No rule is made of it then.
    pub(crate) fn stored_line(&self) -> Option<String> {
        self.stored_as.as_ref().map(|line| format!("run {}", sanitize::clipped(line, MAX_SHOWN_BYTES)))
    }

    fn unmasked(self) -> Self {
        Self { unmasked: true, ..self }
    }

    /// The same where nothing keeps commands from files that a rule denies: the rules are asked about those that they name as well.
    pub(crate) fn without_masks(mut self, engine: &Engine, roots: &Roots) -> Self {
        for action in self.actions.iter().chain(&self.given) {
            if let Action::Execute { command, .. } = action {
                self.mentioned.extend(engine.untouchable(command, roots).into_iter().take(MAX_PATHS));
            }
        }
        self.unmasked()
    }

    /// What a question of the agent is about.
    pub fn of_request(request: &PermissionRequest, roots: &Roots) -> Self {
        match &request.subject {
            Some(PermissionSubject::Command(command)) => {
                let folder = locate(&command.cwd, roots);
                let is_inside = folder.is_inside();
                let mut facts = Self::command(shell_line(&command.command), folder, Confined::No);
                // A folder outside the workspace is not for a rule that was made with the workspace in mind.
                facts.understood = is_inside;
                if let Some(call) = &command.call {
                    facts.join(Self::of_call(call, roots));
                }
                facts.odd(command.others.iter().map(|name| &**name).collect());
                facts
            }
            Some(PermissionSubject::ToolCall(subject)) => Self::of_call(&subject.tool_call, roots),
            Some(PermissionSubject::Other(_)) | None => Self::default(),
        }
    }

    /// With what the call says that it belongs to. Whichever of them the agent means, all of it is judged and shown.
    fn join(&mut self, call: Self) {
        let Self { actions, mentioned, given, partial, emptied, kind, address, lines, .. } = call;
        let said = |known: &Action, action: &Action| match (known, action) {
            // Where the call does not say in which folder, the question does.
            (Action::Execute { command, .. }, Action::Execute { command: other, .. }) => {
                command.text() == other.text() && (other.folder().is_none() || command.folder() == other.folder())
            }
            _ => known == action,
        };
        for action in actions {
            if !self.actions.iter().any(|known| said(known, &action)) {
                self.actions.push(action);
            }
        }
        self.mentioned.extend(mentioned);
        self.given.extend(given);
        self.partial |= partial;
        self.emptied.extend(emptied);
        self.kind = self.kind.take().or(kind);
        self.address = self.address.take().or(address);
        self.lines.extend(lines.into_iter().filter(|line| !self.lines.contains(line)).collect::<Vec<_>>());
    }

    /// With fields that nobody here knows.
    fn odd(&mut self, mut names: Vec<&str>) {
        names.sort_unstable();
        names.dedup();
        if !names.is_empty() {
            self.partial = true;
            let names = sanitize::clipped(&names.join(", "), MAX_SHOWN_BYTES);
            self.lines.push(format!("more that no rule can judge: {names}"));
        }
    }

    /// What a tool call does.
    pub fn of_call(call: &ToolCallUpdate, roots: &Roots) -> Self {
        let input: Value = call.raw_input.set().and_then(|raw| raw.parse().ok()).unwrap_or_default();
        let tools = call.name.set().map(|name| mcp(name)).unwrap_or_default();
        // What a tool of a server is given belongs to the tool, by whatever names.
        let (input, given) = if tools.is_empty() { (input, Value::Null) } else { (Value::Null, input) };
        let mut facts = Self::default();
        let (mut paths, mut vague) = (Vec::new(), false);
        let mut add = |path: &str| {
            let path = path.strip_prefix("file://").unwrap_or(path);
            vague |= is_vague(path, roots);
            let location = locate(path, roots);
            if !paths.contains(&location) {
                paths.push(location);
            }
        };
        for place in call.locations.set().map(|places| &places.0[..]).unwrap_or_default().iter().take(MAX_PATHS) {
            add(&place.path);
        }
        PATH_KEYS.iter().filter_map(|key| input.get(key)?.as_str()).for_each(&mut add);
        let rest = rest(&input, roots);
        let files = match call.kind.set() {
            Some(ToolKind::Read | ToolKind::Search | ToolKind::Edit | ToolKind::Delete) => true,
            // From where to where is not known by names.
            Some(ToolKind::Move) => call.locations.set().is_some_and(|places| !places.0.is_empty()),
            _ => false,
        };
        let patches = PATCH_KEYS.iter().filter_map(|key| input.get(key)?.as_str());
        let sources = patches.clone().flat_map(taken_from).take(MAX_PATHS);
        let sources: Vec<Action> = sources.map(|name| Action::Read(locate(name, roots))).collect();
        let (mut named, mut in_patch) = (Vec::new(), patches.flat_map(patched).take(MAX_PATHS + 1).collect());
        for (_, value) in rest.iter().filter(|_| files) {
            names(value, &mut named, &mut in_patch);
        }
        let many = named.len() > MAX_PATHS || in_patch.len() > MAX_PATHS;
        in_patch.into_iter().take(MAX_PATHS).for_each(&mut add);
        let there =
            |name: &str| name.contains('/') || name.starts_with(['.', '~']) || locate(name, roots).absolute().exists();
        named.into_iter().take(MAX_PATHS).filter(|name| there(name)).for_each(&mut add);
        let is_place = |text: &str| {
            let places = call.locations.set().map(|places| &places.0[..]).unwrap_or_default();
            places.iter().take(MAX_PATHS).any(|place| place.path == text)
        };
        let is_odd = |(key, value): &(&str, &Value)| !files || is_switch(key, value) || has_command(value);
        let mut odd: Vec<&str> = rest.iter().filter(|one| is_odd(one)).map(|(key, _)| *key).collect();
        // Whoever reads is given no text to write.
        if matches!(call.kind.set(), Some(ToolKind::Read | ToolKind::Search)) {
            let given = |key: &&str| input.get(key).is_some_and(|value| !is_silent(value));
            odd.extend(NEW_TEXT_KEYS.split(' ').filter(given));
            let other = OTHER_TEXT_KEYS.split(' ').filter(|key| given(key) && !odd.contains(key));
            let other: Vec<&str> = other.filter(|_| PATH_KEYS.iter().any(given)).collect();
            odd.extend(other);
            // Nor a line that may be a command, and no terminal.
            odd.extend(input.as_str().filter(|text| !text.is_empty() && !is_place(text)).map(|_| "its input"));
            let contents = call.content.set().map(|items| &items.0[..]).unwrap_or_default();
            odd.extend(
                contents.iter().any(|one| matches!(one, ToolCallContent::Terminal(_))).then_some("its terminal"),
            );
        }
        facts.partial = many || vague;
        facts.partial |= call.locations.set().is_some_and(|places| places.0.len() > MAX_PATHS);
        facts.diffs(call, roots);
        facts.actions.extend(sources);
        let changed = facts.actions.len();
        let mut folders: Vec<Location> =
            FOLDER_KEYS.iter().filter_map(|key| Some(locate(input.get(key)?.as_str()?, roots))).collect();
        folders.dedup();
        facts.partial |= folders.len() > 1;
        for command in commands(&input) {
            let command = folders.iter().cloned().fold(command, CommandLine::in_folder);
            facts.actions.push(Action::Execute { command, confined: Confined::No });
        }
        if let Some(address) = input.get("url").and_then(Value::as_str) {
            facts.address = Some(address.to_owned());
            facts.actions.extend(Host::of_url(address).map(Action::Fetch));
        }
        facts.actions.extend(tools.into_iter().map(|(server, tool)| Action::Mcp { server, tool }));
        facts.by_kind(call.kind.set(), paths, changed);
        // A diff and the kind often say the same.
        let mut once: Vec<Action> = Vec::with_capacity(facts.actions.len());
        for action in std::mem::take(&mut facts.actions) {
            if !once.contains(&action) {
                once.push(action);
            }
        }
        facts.actions = once;
        let mut facts = facts.in_words();
        facts.take_given(&given, roots);
        facts.take_names(call);
        facts.lines.extend(
            folders
                .iter()
                .filter(|_| changed < facts.actions.len())
                .map(|folder| format!("in {}", shown(folder.absolute()))),
        );
        if call.content.set().is_some_and(|items| items.0.len() > MAX_PATHS) {
            facts.partial = true;
            facts.lines.push(format!("more than {MAX_PATHS} changes, of which no rule looks at all"));
        }
        facts.odd(odd);
        facts
    }

    /// What a tool of a server is given, as far as a rule can hold it back.
    fn take_given(&mut self, given: &Value, roots: &Roots) {
        let text = |key: &&str| given.get(key)?.as_str();
        let texts = PATCH_KEYS.iter().filter_map(text);
        let patched = texts.flat_map(|patch| taken_from(patch).chain(patched(patch))).take(MAX_PATHS);
        let paths = PATH_KEYS.iter().filter_map(text).chain(patched);
        self.mentioned.extend(paths.map(|path| locate(path.strip_prefix("file://").unwrap_or(path), roots)));
        for command in commands(given) {
            self.lines.push(format!("given a command: {}", sanitize::clipped(command.text(), MAX_SHOWN_BYTES)));
            self.given.push(Action::Execute { command, confined: Confined::No });
        }
        if let Some(address) = text(&"url") {
            self.lines.push(format!("given an address: {}", sanitize::clipped(address, MAX_SHOWN_BYTES)));
            self.given.extend(Host::of_url(address).map(Action::Fetch));
        }
    }

    /// Which tool of a server it may be by any of its names. What is only a title allows nothing, but a rule that holds back looks at it.
    fn take_names(&mut self, call: &ToolCallUpdate) {
        let meta: Value = call.meta.set().and_then(|meta| meta.0.parse().ok()).unwrap_or_default();
        let told = meta.pointer("/claudeCode/toolName").and_then(Value::as_str);
        let names = [call.name.set().map(String::as_str), call.title.set().map(String::as_str), told];
        for name in names.into_iter().flatten() {
            for (server, tool) in hidden_names(name).iter().flat_map(|name| mcp(name)) {
                let action = Action::Mcp { server, tool };
                if !self.actions.contains(&action) && !self.given.contains(&action) {
                    self.given.push(action);
                }
            }
        }
    }

    /// The changes that are shown with it happen, whatever kind it says it is.
    fn diffs(&mut self, call: &ToolCallUpdate, roots: &Roots) {
        let contents = call.content.set().map(|items| &items.0[..]).unwrap_or_default();
        // What it would do is not known.
        self.partial |= contents.iter().any(|content| matches!(content, ToolCallContent::Other(_)));
        for diff in contents.iter().take(MAX_PATHS).filter_map(|content| match content {
            ToolCallContent::Diff(diff) => Some(diff),
            _ => None,
        }) {
            self.partial |= diff.paths().take(MAX_PATHS).any(|path| is_vague(path, roots));
            // What a patch changes counts, also if it is not in the list of changes.
            let listed: Vec<Location> = diff.paths().take(MAX_PATHS).map(|path| locate(path, roots)).collect();
            let text = diff.patch.as_ref().map(|patch| &*patch.text).unwrap_or_default();
            self.actions.extend(taken_from(text).take(MAX_PATHS).map(|name| Action::Read(locate(name, roots))));
            let patched = patched(text).take(MAX_PATHS).map(|name| locate(name, roots));
            self.actions.extend(patched.filter(|at| !listed.contains(at)).map(Action::Write));
            // A text of a file that is not in the list of changes.
            self.partial |= diff.texts().is_some_and(|texts| diff.paths().all(|path| path != texts.path));
            for change in diff.changes() {
                let Change::File(FileChange { operation, old_path, path, .. }) = &change else {
                    self.partial = true;
                    continue;
                };
                if self.actions.len() >= MAX_PATHS {
                    self.partial = true;
                    return;
                }
                let to = locate(path, roots);
                if diff.texts().is_some_and(|texts| texts.path == *path && texts.new.is_empty()) {
                    self.emptied.push(to.clone());
                }
                let from = old_path.as_ref().map(|from| locate(from, roots));
                self.actions.extend(match (operation, from) {
                    (Operation::Delete, None) => vec![Action::Delete(to)],
                    (Operation::Move, Some(from)) => vec![Action::Move { from, to }],
                    // What it was before is in what it becomes.
                    (Operation::Delete, Some(from)) => vec![Action::Read(from), Action::Delete(to)],
                    (_, from) => from.map(Action::Read).into_iter().chain([Action::Write(to)]).collect(),
                });
            }
        }
    }

    /// `changed`: so many of the actions so far come from diffs.
    fn by_kind(&mut self, kind: Option<&ToolKind>, paths: Vec<Location>, changed: usize) {
        let known = |actions: &[Action], path: &Location| {
            actions[..changed].iter().any(|action| match action {
                Action::Write(other) | Action::Delete(other) => other == path,
                Action::Move { from, to } => from == path || to == path,
                _ => false,
            })
        };
        let has = |actions: &[Action], wanted: fn(&Action) -> bool| actions.iter().any(wanted);
        match kind {
            Some(ToolKind::Read | ToolKind::Search) => self.actions.extend(paths.into_iter().map(Action::Read)),
            Some(ToolKind::Edit) => {
                let rest: Vec<_> = paths.into_iter().filter(|path| !known(&self.actions, path)).collect();
                self.actions.extend(rest.into_iter().map(Action::Write));
            }
            Some(ToolKind::Delete) => {
                // In older dialects a diff can't say that a file goes, only that nothing is left in it.
                let goes = |at: &Location| paths.contains(at) && self.emptied.contains(at);
                self.actions.retain(|action| !matches!(action, Action::Write(at) if goes(at)));
                self.actions.extend(paths.into_iter().map(Action::Delete));
            }
            Some(ToolKind::Move) => match <[Location; 2]>::try_from(paths) {
                Ok([from, to]) => self.actions.push(Action::Move { from, to }),
                Err(paths) => {
                    // Which way it goes is not said, so all of them change.
                    self.actions.extend(paths.iter().cloned().map(Action::Delete));
                    self.actions.extend(paths.into_iter().map(Action::Write));
                }
            },
            _ => self.mentioned = paths,
        }
        self.kind = kind.cloned();
        self.topic = match kind {
            Some(ToolKind::Execute) => Some(Topic::Commands),
            Some(ToolKind::Fetch) => Some(Topic::Network),
            Some(ToolKind::Read | ToolKind::Search | ToolKind::Edit | ToolKind::Delete | ToolKind::Move) => {
                Some(Topic::Files)
            }
            _ => None,
        };
        self.understood = match kind {
            Some(ToolKind::SwitchMode) => false,
            // Which tool of a server it is says all, whatever kind that is.
            _ if has(&self.actions, |action| matches!(action, Action::Mcp { .. })) => true,
            Some(ToolKind::Execute) => has(&self.actions, |action| matches!(action, Action::Execute { .. })),
            Some(ToolKind::Fetch) => has(&self.actions, |action| matches!(action, Action::Fetch(_))),
            _ => !self.actions.is_empty(),
        };
    }

    /// What happens.
    pub fn actions(&self) -> &[Action] {
        &self.actions
    }

    /// All of it, for the engine.
    pub fn subject(&self) -> Subject<'_> {
        let unclear = (!self.is_understood()).then_some(self.topic);
        let (unmasked, switches_mode) = (self.unmasked, self.kind == Some(ToolKind::SwitchMode));
        let (actions, mentioned, given) = (&self.actions[..], &self.mentioned[..], &self.given[..]);
        Subject { actions, mentioned, given, unclear, unmasked, switches_mode }
    }

    /// Whether it says what it does. If not, only a person can tell.
    pub fn is_understood(&self) -> bool {
        self.understood && !self.partial
    }

    /// The same in words, every character visible and none that drives a terminal.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// One action in words, with every character visible.
    fn line(&self, action: &Action) -> String {
        let path = |location: &Location| match location.in_cwd() {
            Some(path) if !path.as_os_str().is_empty() => shown(path),
            _ => shown(location.absolute()),
        };
        match action {
            Action::Read(at) => format!("read {}", path(at)),
            Action::Write(at) => format!("write {}", path(at)),
            Action::Delete(at) => format!("delete {}", path(at)),
            Action::Move { from, to } => format!("move {} => {}", path(from), path(to)),
            Action::Execute { command, .. } => format!("run {}", sanitize::clipped(command.text(), MAX_SHOWN_BYTES)),
            Action::Fetch(_) => match &self.address {
                Some(address) => format!("fetch {}", sanitize::clipped(address, MAX_SHOWN_BYTES)),
                None => Rule::narrowest(action).map_or_else(|| "fetch".into(), |rule| rule.to_string()),
            },
            Action::Mcp { server, tool } => {
                format!("mcp {}/{}", sanitize::exact_line(server), sanitize::exact_line(tool))
            }
        }
    }
}

/// Where a path leads, with all links followed.
fn locate(path: &str, roots: &Roots) -> Location {
    if let Ok(place) = roots.resolve(path) {
        return place.location();
    }
    let mut full = PathBuf::from(path);
    if full.is_relative()
        && let Some(cwd) = roots.list().next()
    {
        full = cwd.given_path().join(full);
    }
    Location::outside(real(&full)).called([full])
}

/// Whether a name may mean another file to the agent than to us: a home, a variable, an address, a pattern. What is there by just
/// this name is meant.
fn is_vague(path: &str, roots: &Roots) -> bool {
    let variable =
        path.split('$').skip(1).any(|rest| rest.starts_with(|c: char| "({".contains(c) || c.is_ascii_uppercase()));
    let choice = path.split('{').skip(1).any(|rest| rest.contains(','));
    let odd = variable || choice || path.starts_with(['~', '@', '\'', '"', '`']) || path.starts_with("file:");
    (odd || path.contains(['*', '?']) || path.contains("://")) && !locate(path, roots).absolute().exists()
}

/// Whether a command is somewhere in it.
fn has_command(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(key, value)| COMMAND_KEYS.contains(&&**key) || has_command(value)),
        Value::Array(items) => items.iter().any(has_command),
        _ => false,
    }
}

/// The path with the links followed of what is there of it.
pub(crate) fn real(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|part| Some((part, fs::canonicalize(part).ok()?)));
    let joined = there.and_then(|(part, real)| {
        let rest = path.strip_prefix(part).ok()?;
        Some(if rest.as_os_str().is_empty() { real } else { real.join(rest) })
    });
    joined.unwrap_or_else(|| path.to_path_buf())
}

/// What a tool is given beside what is read of it by name: it may change what the rest means.
fn rest<'v>(input: &'v Value, roots: &Roots) -> Vec<(&'v str, &'v Value)> {
    let Value::Object(given) = input else {
        return if is_silent(input) { Vec::new() } else { vec![("its input", input)] };
    };
    let is_known = |key: &str, value: &Value| {
        let text = value.as_str();
        match key {
            _ if is_switch(key, value) => false,
            _ if is_silent(value) || is_plain(key, value) => true,
            "url" => text.is_some(),
            "args" => texts(value).is_some() && COMMAND_KEYS.iter().any(|key| input.get(key).is_some()),
            _ if COMMAND_KEYS.contains(&key) => text.is_some() || texts(value).is_some(),
            _ if FOLDER_KEYS.contains(&key) => text.is_some_and(|folder| locate(folder, roots).is_inside()),
            _ => PATH_KEYS.contains(&key) && text.is_some(),
        }
    };
    given.iter().filter(|(key, value)| !is_known(key, value)).map(|(key, value)| (&**key, value)).collect()
}

/// Text that does nothing by itself, or a list of such.
fn is_plain(key: &str, value: &Value) -> bool {
    match value {
        _ if is_silent(value) => true,
        Value::Array(items) => items.iter().all(|item| is_plain(key, item)),
        Value::Object(fields) => is_text(key) && fields.iter().all(|(key, value)| is_plain(key, value)),
        _ => is_text(key),
    }
}

/// Whether it takes a guard away.
fn is_switch(key: &str, value: &Value) -> bool {
    let key = key.to_ascii_lowercase();
    *value == Value::Bool(true) && SWITCH_WORDS.iter().any(|word| key.contains(word))
}

/// The files that a patch names.
fn patched(text: &str) -> impl Iterator<Item = &str> {
    const HEADS: [&str; 10] = [
        "--- ",
        "+++ ",
        "rename from ",
        "rename to ",
        "copy to ",
        "*** Update File: ",
        "*** Add File: ",
        "*** Delete File: ",
        "*** Move to: ",
        "*** Move File: ",
    ];
    text.lines().filter_map(move |line| {
        let named = HEADS.iter().find_map(|head| line.strip_prefix(head));
        // A file that only changes its mode, or is no text, has no other line.
        let named = named.or_else(|| Some(line.strip_prefix("diff --git ")?.split_once(" b/")?.1));
        named_in(named?)
    })
}

/// The files that a patch takes another one from.
fn taken_from(text: &str) -> impl Iterator<Item = &str> {
    const HEADS: [&str; 2] = ["copy from ", "rename from "];
    text.lines().filter_map(|line| named_in(HEADS.iter().find_map(|head| line.strip_prefix(head))?))
}

/// The name of a file in a line of a patch.
fn named_in(rest: &str) -> Option<&str> {
    let named = rest.split('\t').next()?.trim().trim_matches('"');
    let named = named.strip_prefix("a/").or_else(|| named.strip_prefix("b/")).unwrap_or(named);
    (!named.is_empty() && named != "/dev/null").then_some(named)
}

/// A value that says nothing, or only how much and whether.
fn is_silent(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// What may be the name of a file in a value; what surely is one, because a patch names it, on its own.
fn names<'v>(value: &'v Value, found: &mut Vec<&'v str>, in_patch: &mut Vec<&'v str>) {
    match value {
        _ if found.len() > MAX_PATHS => {}
        Value::String(text) if text.len() < 4096 && !text.contains('\n') => {
            found.push(text.strip_prefix("file://").unwrap_or(text));
        }
        Value::String(text) => in_patch.extend(patched(text).take(MAX_PATHS + 1)),
        Value::Array(items) => items.iter().for_each(|item| names(item, found, in_patch)),
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, value)| !is_plain(key, value)) {
                found.push(key);
                names(value, found, in_patch);
            }
        }
        _ => {}
    }
}

fn is_text(key: &str) -> bool {
    TEXT_KEYS.split(' ').any(|known| known == key)
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
}

/// The command that a tool was given under a key: a line for a shell, or words.
fn command(input: &Value, key: &str) -> Option<CommandLine> {
    let given = input.get(key)?;
    match (given, input.get("args").and_then(texts).filter(|args| !args.is_empty())) {
        (Value::String(program), Some(args)) => Some(of_words(std::iter::once(program.clone()).chain(args).collect())),
        (Value::String(line), None) => Some(shell_line(line)),
        (words, _) => texts(words).map(of_words),
    }
}

/// All commands that a tool was given. A line with arguments beside it may be meant as a line all the same.
fn commands(input: &Value) -> impl Iterator<Item = CommandLine> {
    let line = |key: &&str| input.get(key)?.as_str().filter(|text| text.contains(char::is_whitespace)).map(shell_line);
    let keys = || COMMAND_KEYS.iter();
    let words = keys().filter_map(|key| command(input, key));
    words.chain(
        keys().filter_map(line).filter(|_| input.get("args").and_then(texts).is_some_and(|args| !args.is_empty())),
    )
}

fn shell_line(line: &str) -> CommandLine {
    CommandLine::parse(line)
}

/// Words for the system. `bash -lc LINE` is that line, if it is the system's shell: one of that name may lie anywhere.
pub(crate) fn of_words(words: Vec<String>) -> CommandLine {
    match &words[..] {
        [shell, option, line]
            if matches!(shell.rsplit_once('/'), None | Some(("/bin" | "/usr/bin", _)))
                && matches!(shell.rsplit('/').next(), Some("sh" | "bash" | "zsh" | "dash"))
                && matches!(&**option, "-c" | "-lc" | "-ec" | "-cl") =>
        {
            shell_line(line)
        }
        words => CommandLine::from_words(words),
    }
}

/// The names of tools of servers in a text, without letters that nobody sees.
fn hidden_names(text: &str) -> Vec<String> {
    let seen = |c: &char| c.is_alphanumeric() || c.is_ascii_graphic() || c.is_whitespace();
    let text: String = text.chars().take(MAX_NAME_CHARS).filter(seen).collect();
    let words = text.split(|c: char| !c.is_alphanumeric() && !"_-.:/@".contains(c));
    words.filter_map(|word| Some(word[word.find("mcp__")?..].to_owned())).take(MAX_READINGS).collect()
}

/// `mcp__SERVER__TOOL`, as several agents name their tools, in all ways to read it: each has to be allowed, and any can be denied.
fn mcp(name: &str) -> Vec<(String, String)> {
    let Some(name) = name.strip_prefix("mcp__") else { return Vec::new() };
    let parts = name.char_indices().filter_map(|(at, _)| Some((&name[..at], name[at..].strip_prefix("__")?)));
    let whole = parts.filter(|(server, tool)| !server.is_empty() && !tool.is_empty());
    whole.take(MAX_READINGS).map(|(server, tool)| (server.to_owned(), tool.to_owned())).collect()
}
