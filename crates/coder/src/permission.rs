//! Who decides about a tool call: the rules, the mode, and where neither does, the user.

use crate::report::{Call, one_line};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::agent::{Ask, Decision as Answer};
use tieline::schema::{CommandSubject, Items};
use tieline::{Dialect, Patch, PermissionOption, PermissionOptionKind, Raw, Result, ToolCallContent, ToolCallUpdate};
use tieline_host::files::{Files, Hash, Window};
use tieline_host::roots::Place;
use tieline_host::rules::{Action, Config, Decision, Mode, Rule, Rules};
use tieline_host::store::Event;
use tieline_rpc::sync::Lock;

/// The modes: id, name, what they mean.
pub const MODES: [(&str, &str, &str); 4] = [
    ("ask", "Ask", "Reads freely; asks before every change and command."),
    ("plan", "Plan", "Changes nothing; asks before every command; no MCP tools without a rule."),
    ("edit", "Edit", "Changes files in the workspace freely; asks before commands."),
    ("auto", "Auto", "Also runs commands that the sandbox holds in the workspace."),
];

/// The mode of this id.
pub fn mode_named(id: &str) -> Option<Mode> {
    Some(match id {
        "ask" => Mode::Ask,
        "plan" => Mode::Plan,
        "edit" => Mode::Edit,
        "auto" => Mode::Auto,
        _ => return None,
    })
}

/// The id of a mode.
pub fn mode_id(mode: Mode) -> &'static str {
    match mode {
        Mode::Ask => "ask",
        Mode::Plan => "plan",
        Mode::Edit => "edit",
        Mode::Auto => "auto",
    }
}

/// The lock on a file of rules is waited for no longer.
const LOCK_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(500);

/// The rules of a session and its mode.
pub struct Permissions {
    /// Where commands run.
    cwd: PathBuf,
    mode: Mutex<Mode>,
    /// Built in, the user's own for every folder, and the project's as far as it holds back.
    fixed: Config,
    /// What the user decided for this folder.
    learned: Mutex<Config>,
    /// Both together, ready to decide.
    rules: Mutex<Arc<Rules>>,
    /// Where that is kept.
    file: Option<PathBuf>,
}

/// What was decided about a call.
pub enum Verdict {
    /// It may run.
    Allowed,
    /// It may not, and this is what the model is told.
    Refused(String),
    /// The question was not answered because the turn is over.
    Cancelled,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.locked()
}

/// Reads rules from a file; a file that is not there has none.
fn load(path: &Path) -> std::result::Result<Config, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Config::parse(&text).map_err(|error| format!("{}: {error}", path.display())),
        Err(error) if tieline_host::config::is_absent(&error) => Ok(Config::default()),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Changes rules in a file as they are there now: other sessions add theirs.
fn rewrite(path: &Path, change: impl Fn(&mut Config)) -> std::result::Result<Config, String> {
    let text = |error: std::io::Error| error.to_string();
    let _lock = tieline_host::whole::lock(&path.with_extension("lock"), LOCK_TIMEOUT).map_err(text)?;
    let mut config = load(path)?;
    change(&mut config);
    let new = config.to_toml().map_err(|error| error.to_string())?;
    tieline_host::whole::write_whole(path, new.as_bytes()).map_err(text)?;
    Ok(config)
}

/// The rules of a project. Its file is opened like any other of the project: a link leads nowhere else, nothing waits.
fn of_project(files: &Files) -> std::result::Result<Config, String> {
    use tieline_host::roots::Error;
    let name = ".tieline/rules.toml";
    let text = files.roots().resolve(name).and_then(|place| files.read_text(&place, &Window::ALL));
    match text {
        Ok(text) => Config::parse(&text.text).map_err(|error| format!("{name}: {error}")),
        // A folder that is not there yet has no rules.
        Err(Error::NotFound(_) | Error::NotDirectory(_)) => Ok(Config::default()),
        Err(error) => Err(error.to_string()),
    }
}

impl Permissions {
    /// The rules for a folder. `home` is the user's configuration folder, if there is one.
    pub fn load(mode: Mode, files: &Files, cwd: &Path, home: Option<&Path>) -> std::result::Result<Self, String> {
        let mut fixed = Config::protected().and(of_project(files)?.without_allow());
        let mut learned = Config::default();
        let mut file = None;
        if let Some(home) = home {
            fixed = fixed.and(load(&home.join("rules.toml"))?);
            let name: String = cwd.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let hash = Hash::of(cwd.as_os_str().as_encoded_bytes()).to_string();
            let path = home.join("rules").join(format!("{name}-{}.toml", &hash[..12]));
            learned = load(&path)?;
            file = Some(path);
        }
        let rules = Mutex::new(Arc::new(Rules::new(fixed.clone().and(learned.clone()))));
        Ok(Self { cwd: cwd.to_owned(), mode: Mutex::new(mode), fixed, learned: Mutex::new(learned), rules, file })
    }

    /// The mode that is on.
    pub fn mode(&self) -> Mode {
        *lock(&self.mode)
    }

    /// Switches the mode.
    pub fn set_mode(&self, mode: Mode) {
        *lock(&self.mode) = mode;
    }

    /// What the rules and the mode say about an action.
    pub fn decide(&self, action: &Action) -> tieline_host::rules::Verdict {
        let rules = Arc::clone(&lock(&self.rules));
        rules.decide(action, self.mode())
    }

    /// The rules that forbid reading, for those who have to keep commands from it.
    pub fn unread(&self) -> Vec<String> {
        let rules = Arc::clone(&lock(&self.rules));
        let deny = rules.config().deny.iter().map(|rule| rule.text().to_owned());
        deny.filter(|text| text.starts_with("read ")).collect()
    }

    /// Whether a file may be looked at before anybody is asked: reading it is free, and no rule forbids what is to be done.
    /// Otherwise even an error would tell something about it.
    pub fn lets_look(&self, place: &Place, deed: &Action) -> bool {
        let read = Action::Read(place.location());
        self.decide(&read).decision == Decision::Allow && self.decide(deed).decision != Decision::Deny
    }

    /// Decides about a call, with the user where need be. `note` is shown with the question.
    pub async fn check(&self, call: &Call, actions: &[Action], note: Option<&str>) -> Result<Verdict> {
        let mut verdict = Decision::Allow;
        for action in actions {
            let one = self.decide(action);
            if one.decision == Decision::Deny {
                let why =
                    format!("Not allowed ({}). Do not try it another way; tell the user if it is needed.", one.because);
                decided(call, "deny", &why).await?;
                return Ok(Verdict::Refused(why));
            }
            verdict = verdict.max(one.decision);
        }
        if verdict == Decision::Allow {
            return Ok(Verdict::Allowed);
        }
        let rules: Option<Vec<Rule>> = actions.iter().map(Rule::narrowest).collect();
        let rules = rules.filter(|rules| !rules.is_empty());
        let options = options(rules.as_deref());
        let ask = match actions {
            // Where there is a question about commands, that is the clearer one.
            [Action::Execute { command, .. }] if call.teller().turn.dialect() == Dialect::V2 => {
                Ask::command(CommandSubject {
                    command: command.text().to_owned(),
                    cwd: self.cwd.to_string_lossy().into_owned(),
                    tool_call_id: Some(call.id().to_owned()),
                    ..CommandSubject::default()
                })
            }
            // Whole, not only its id: some clients show and judge nothing but what the question itself says.
            _ => Ask::about(with_note(call, note)),
        };
        let ask = ask.title(title(call, note)).options(options);
        let ask = match note {
            Some(note) => ask.description(note),
            None => ask,
        };
        call.was_asked();
        let answer = call.teller().turn.ask(ask).await?;
        let Answer::Chosen(option) = &answer else {
            decided(call, "cancelled", "").await?;
            return Ok(Verdict::Cancelled);
        };
        if option.option_id.ends_with("_always")
            && let Some(rules) = rules
        {
            let decision = if answer.is_allowed() { Decision::Allow } else { Decision::Deny };
            self.change(|learned| {
                for rule in &rules {
                    learned.add(decision, rule.clone());
                }
            });
        }
        let reason = option.meta.as_ref().and_then(|meta| meta.0.parse::<serde_json::Value>().ok());
        let reason = reason.and_then(|meta| meta.get("reason")?.as_str().map(str::to_owned));
        decided(call, &option.option_id, reason.as_deref().unwrap_or_default()).await?;
        if answer.is_allowed() {
            return Ok(Verdict::Allowed);
        }
        let why = reason.map_or_else(String::new, |reason| format!(" The user's reason: {reason}"));
        Ok(Verdict::Refused(format!("The user rejected this call.{why}")))
    }

    /// Changes the rules of this folder, in the file and in the session; if the file can't be, then only in the session.
    fn change(&self, change: impl Fn(&mut Config)) {
        let mut learned = lock(&self.learned);
        match self.file.as_deref().map(|path| rewrite(path, &change)) {
            Some(Ok(config)) => *learned = config,
            failed => {
                if let Some(Err(error)) = failed {
                    tracing::warn!(%error, "rules could not be saved");
                }
                change(&mut learned);
            }
        }
        *lock(&self.rules) = Arc::new(Rules::new(self.fixed.clone().and(learned.clone())));
    }

    /// The rules in words; those of this folder have numbers.
    pub fn describe(&self) -> String {
        let learned = lock(&self.learned);
        let mut text = format!("Mode: {}\n\n", mode_id(self.mode()));
        let rows = numbered(&learned);
        if rows.is_empty() {
            text.push_str("No rules are remembered for this folder.\n");
        } else {
            text.push_str("Remembered for this folder (`/rules remove N` removes one):\n\n");
            for (at, (decision, rule)) in rows.iter().enumerate() {
                let _ = writeln!(text, "{}. {} `{rule}`", at + 1, word(*decision));
            }
        }
        if let Some(file) = &self.file {
            let _ = write!(text, "\nThey are kept in `{}`.\n", file.display());
        }
        let own: Vec<String> = [(Decision::Deny, &self.fixed.deny), (Decision::Allow, &self.fixed.allow)]
            .into_iter()
            .flat_map(|(decision, rules)| rules.iter().map(move |rule| format!("- {} `{rule}`", word(decision))))
            .collect();
        if !own.is_empty() {
            let _ = write!(text, "\nFrom configuration files:\n\n{}\n", own.join("\n"));
        }
        let _ = write!(text, "\n{} rules ask before protected files are changed.\n", self.fixed.ask.len());
        text
    }

    /// Removes a remembered rule by its number.
    pub fn forget(&self, number: usize) -> std::result::Result<String, String> {
        let rows = numbered(&lock(&self.learned));
        let row = number.checked_sub(1).and_then(|at| rows.get(at)).cloned();
        let (decision, rule) = row.ok_or_else(|| format!("There is no rule {number}."))?;
        self.change(|learned| {
            learned.remove(decision, &rule);
        });
        Ok(format!("Removed: {} `{rule}`.", word(decision)))
    }
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask => "ask",
        Decision::Deny => "deny",
    }
}

fn numbered(config: &Config) -> Vec<(Decision, Rule)> {
    let lists = [(Decision::Deny, &config.deny), (Decision::Ask, &config.ask), (Decision::Allow, &config.allow)];
    lists.into_iter().flat_map(|(decision, rules)| rules.iter().map(move |rule| (decision, rule.clone()))).collect()
}

/// The answers to a question; those for always say which rule they make.
fn options(rules: Option<&[Rule]>) -> Vec<PermissionOption> {
    let option = |id: &str, name: String, kind| PermissionOption { option_id: id.into(), name, kind, meta: None };
    let mut options = vec![option("allow", "Allow once".into(), PermissionOptionKind::AllowOnce)];
    let text = rules.map(|rules| one_line(&rules.iter().map(Rule::text).collect::<Vec<_>>().join("; ")));
    if let Some(text) = &text {
        options.push(option("allow_always", format!("Always allow: {text}"), PermissionOptionKind::AllowAlways));
    }
    options.push(option("reject", "Reject".into(), PermissionOptionKind::RejectOnce));
    if let Some(text) = &text {
        options.push(option("reject_always", format!("Never allow: {text}"), PermissionOptionKind::RejectAlways));
    }
    options
}

/// The question itself: what the call does, and in short how it is held. Many editors show nothing else.
fn title(call: &Call, note: Option<&str>) -> String {
    let title = call.announced().title.set().cloned().unwrap_or_default();
    match note.and_then(|note| note.split_once(':')) {
        Some((brief, _)) => format!("{title} ({brief})"),
        None => title,
    }
}

/// The call as the question shows it, with the note among what it shows: older dialects have no other place for it.
fn with_note(call: &Call, note: Option<&str>) -> ToolCallUpdate {
    let mut shown = call.announced().clone();
    if let Some(note) = note {
        shown.title = Patch::Set(title(call, Some(note)));
        let mut content = shown.content.set().map(|content| content.0.clone()).unwrap_or_default();
        content.push(ToolCallContent::from(note));
        shown.content = Patch::Set(Items(content));
    }
    shown
}

/// Writes a decision down before anything follows from it.
async fn decided(call: &Call, decision: &str, reason: &str) -> Result<()> {
    let decision: Raw = serde_json::json!({ "decision": decision, "reason": reason }).into();
    call.teller().note(vec![Event::Permission { tool_call_id: call.id().to_owned(), decision }]).await
}
