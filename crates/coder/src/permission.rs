//! Who decides about a tool call: the one engine, and where it leaves something open, the user through the client.

use crate::report::{Call, one_line};
use crate::tools::ToolError;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tieline::agent::{Ask, Decision as Answer};
use tieline::schema::{CommandSubject, Items, Meta};
use tieline::{Dialect, Patch, PermissionOption, PermissionOptionKind, Raw, Result, ToolCallContent, ToolCallUpdate};
use tieline_host::config;
use tieline_host::roots::{Place, Roots};
use tieline_host::rules::{
    Action, Because, CommandLine, Confined, Decision, Engine, Keep, Limits, Preset, Rule, Settings, Subject, Topic,
};
use tieline_host::sandbox::Level;
use tieline_host::store::Event;

/// Reads what the configuration says about permission where a session works.
pub type Configure = Arc<dyn Fn(&Path) -> std::result::Result<Settings, config::Error> + Send + Sync>;

/// The engine of a session.
pub struct Permissions {
    /// Where commands run.
    cwd: PathBuf,
    /// No sandbox keeps commands from files that a rule denies.
    unmasked: bool,
    /// Who knows the rules and the mode that is on.
    pub engine: Engine,
    /// The modes that the session can be in.
    pub modes: Vec<Preset>,
}

/// What the model is told with a refusal. The user need not be told that.
pub const FINAL: &str = "Do not try it another way; tell the user if it is needed.";

/// What was decided about a call.
pub enum Verdict {
    /// It may run; and what decided that, if nobody was asked.
    Allowed(Option<String>),
    /// It may not, for this reason; and what decided that, for programs: a preset, or `rule`.
    Refused(String, Option<&'static str>),
    /// The question was not answered because the turn is over.
    Cancelled,
}

impl Permissions {
    /// What counts in a folder. Without a mode of its own the session begins as the configuration says.
    pub fn load(
        mode: Option<Preset>,
        settings: &Settings,
        limits: &Limits,
        cwd: &Path,
        sandbox: Level,
    ) -> std::result::Result<Self, ToolError> {
        let preset = mode.or(settings.default).unwrap_or_default();
        let engine = Engine::load(preset, settings, limits)?;
        let mut modes = Preset::MODES.to_vec();
        if !modes.contains(&preset) {
            modes.push(preset);
        }
        Ok(Self { cwd: cwd.to_owned(), unmasked: sandbox == Level::Off, engine, modes })
    }

    /// The mode of this id, if the session can be in it.
    pub fn mode_named(&self, id: &str) -> Option<Preset> {
        Preset::of_mode(id).filter(|mode| self.modes.contains(mode))
    }

    /// The rules that forbid something about files, for those who have to keep commands from it.
    pub fn kept(&self) -> Vec<String> {
        let deny = self.engine.denials().into_iter().filter(|rule| rule.topic() == Topic::Files);
        deny.map(|rule| rule.text().to_owned()).collect()
    }

    /// What is said of the files that a command names and does not see, because a rule forbids to read them.
    pub fn unseen(&self, line: &CommandLine, roots: &Roots) -> Option<String> {
        let one = |(name, rule): (String, Rule)| {
            let from = rule.origin().map(|origin| format!(", {origin}")).unwrap_or_default();
            format!("`{}` by the rule `deny {rule}`{from}", one_line(&name))
        };
        let all: Vec<String> = self.engine.unseen(line, roots).into_iter().map(one).collect();
        (!all.is_empty()).then(|| format!("hidden from commands: {}", all.join("; ")))
    }

    /// Whether a command may run unasked only in the sandbox.
    pub fn only_in_sandbox(&self, line: &CommandLine) -> bool {
        let is_free = |confined| {
            let action = Action::Execute { command: line.clone(), confined };
            self.engine.decide(&action).decision == Decision::Allow
        };
        is_free(Confined::ReadOnly) && !is_free(Confined::No)
    }

    /// Whether a rule holds back a file in a folder that may be searched.
    pub fn hides(&self, place: &Place) -> bool {
        let verdict = self.engine.decide(&Action::Read(place.location()));
        verdict.decision != Decision::Allow && !matches!(verdict.because, Because::Preset(_))
    }

    /// Whether a file may be looked at before anybody is asked: reading it is free, and no rule forbids what is to be done.
    /// Otherwise even an error would tell something about it.
    pub fn lets_look(&self, place: &Place, deed: &Action) -> bool {
        let read = Action::Read(place.location());
        self.engine.decide(&read).decision == Decision::Allow && self.engine.decide(deed).decision != Decision::Deny
    }

    /// Decides about a call, with the user where need be. `note` is shown with the question.
    pub async fn check(&self, call: &Call, actions: &[Action], note: Option<&str>) -> Result<Verdict> {
        let subject = Subject { unmasked: self.unmasked, ..Subject::of(actions) };
        let verdict = self.engine.judge(subject);
        match verdict.decision {
            Decision::Allow => {
                // Reading is no news.
                let tells = actions.iter().any(|action| !matches!(action, Action::Read(_)));
                return Ok(Verdict::Allowed(tells.then(|| self.because(&verdict.because))));
            }
            Decision::Deny => {
                let why = format!("Not allowed ({}).", self.because(&verdict.because));
                decided(call, "deny", &why).await?;
                let by = if let Because::Preset(preset) = verdict.because { preset.name() } else { "rule" };
                return Ok(Verdict::Refused(why, Some(by)));
            }
            Decision::Ask => {}
        }
        let rules = Engine::narrowest(subject);
        let options = options(&rules);
        let ask = match actions {
            // Where there is a question about commands, that is the clearer one.
            [Action::Execute { command, .. }] if call.turn().dialect() == Dialect::V2 => Ask::command(CommandSubject {
                command: command.text().to_owned(),
                cwd: self.cwd.to_string_lossy().into_owned(),
                tool_call_id: Some(call.id().to_owned()),
                ..CommandSubject::default()
            }),
            // Whole, not only its id: some clients show and judge nothing but what the question itself says.
            _ => Ask::about(with_note(call, actions, note)),
        };
        let ask = ask.title(title(call, note)).options(options);
        let ask = match note {
            Some(note) => ask.description(note),
            None => ask,
        };
        call.was_asked();
        let answer = call.turn().ask(ask).await?;
        let Answer::Chosen(option) = &answer else {
            decided(call, "cancelled", "").await?;
            return Ok(Verdict::Cancelled);
        };
        if option.option_id.ends_with("_always") {
            let decision = if answer.is_allowed() { Decision::Allow } else { Decision::Deny };
            if let Err(error) = self.engine.learn(Keep::Always, decision, &rules) {
                tracing::warn!(%error, "a rule could not be stored; it holds for this session");
            }
        }
        let (by, reason) = said(option);
        decided(call, &option.option_id, reason.as_deref().unwrap_or_default()).await?;
        if answer.is_allowed() {
            return Ok(Verdict::Allowed(None));
        }
        Ok(Verdict::Refused(refusal(by.as_deref(), reason.as_deref()), None))
    }

    /// Why something is decided so. The mode is the session's own; other presets were handed over.
    fn because(&self, because: &Because) -> String {
        match because {
            Because::Preset(preset) if *preset == self.engine.preset() => {
                format!("the session is in the mode {}", preset.mode())
            }
            because => because.to_string(),
        }
    }

    /// The rules in words; those that were learned in this folder have numbers.
    pub fn describe(&self) -> String {
        let (stored, place) = self.engine.stored();
        let mut text = format!("Mode: {}\n\n", self.engine.preset().mode());
        let mut rows = stored.iter().enumerate().peekable();
        if rows.peek().is_none() {
            text.push_str("No rules are remembered for this folder.\n");
        } else {
            text.push_str("Remembered for this folder (`/rules remove N` removes one):\n\n");
            for (at, (decision, rule)) in rows {
                let _ = writeln!(text, "{}. {} `{rule}`", at + 1, decision.word());
            }
        }
        if let Some(place) = place {
            let _ = write!(text, "\nThey are kept in `{}`.\n", place.file().display());
        }
        let protected = |rule: &Rule| rule.origin().is_none();
        let own: Vec<String> = self
            .engine
            .rules()
            .config()
            .iter()
            .filter(|(_, rule)| !protected(rule))
            .map(|(decision, rule)| format!("- {} `{rule}` ({})", decision.word(), rule.origin().unwrap_or_default()))
            .collect();
        if !own.is_empty() {
            let _ = write!(text, "\nFrom configuration files:\n\n{}\n", own.join("\n"));
        }
        let count = self.engine.rules().config().ask.iter().filter(|rule| protected(rule)).count();
        let _ = write!(text, "\n{count} rules ask before protected files are changed.\n");
        text
    }

    /// Removes a remembered rule by its number.
    pub fn forget(&self, number: usize) -> std::result::Result<String, ToolError> {
        let (stored, _) = self.engine.stored();
        let row = number.checked_sub(1).and_then(|at| stored.iter().nth(at));
        let (decision, rule) = row.ok_or_else(|| format!("There is no rule {number}."))?;
        self.engine.forget(decision, rule)?;
        Ok(format!("Removed: {} `{rule}`.", decision.word()))
    }
}

/// Who decided, if a client says so, and a person's reason.
fn said(option: &PermissionOption) -> (Option<String>, Option<String>) {
    let meta = option.meta.as_ref().and_then(|meta| meta.0.parse::<serde_json::Value>().ok()).unwrap_or_default();
    let text = |name: &str| meta[name].as_str().map(one_line);
    (text("decidedBy"), text("reason"))
}

/// What the model is told of a no: whose it was, as far as that is known.
fn refusal(by: Option<&str>, reason: Option<&str>) -> String {
    match (by, reason) {
        (Some("person"), None) => "The user rejected this call.".to_owned(),
        (Some("person") | None, Some(reason)) => format!("The user rejected this call. The user's reason: {reason}"),
        (Some(by), _) => format!("Not allowed ({by})."),
        (None, None) => "Not allowed (the client said no, for the user or by its settings).".to_owned(),
    }
}

/// The answers to a question; those for always say which rule they make.
fn options(rules: &[Rule]) -> Vec<PermissionOption> {
    let option =
        |id: &str, name: String, kind| PermissionOption { option_id: id.into(), name, kind, ..Default::default() };
    let mut options = vec![option("allow", "Allow once".into(), PermissionOptionKind::AllowOnce)];
    // As in the question: the end of a line is no blank.
    let text = one_line(&rules.iter().map(Rule::text).collect::<Vec<_>>().join("; ").replace('\n', "⏎"));
    // A client that keeps such answers itself can keep the same.
    let meta: Raw = serde_json::json!({ "rules": rules }).into();
    let lasting = |id, word, kind| PermissionOption {
        meta: Some(Meta(meta.clone())),
        ..option(id, format!("{word} in this folder (`/rules` takes it back): {text}"), kind)
    };
    if !rules.is_empty() {
        options.push(lasting("allow_always", "Always allow", PermissionOptionKind::AllowAlways));
    }
    options.push(option("reject", "Reject".into(), PermissionOptionKind::RejectOnce));
    if !rules.is_empty() {
        options.push(lasting("reject_always", "Never allow", PermissionOptionKind::RejectAlways));
    }
    options
}

/// The question itself: what the call does, and in short how it is held. Many editors show nothing else.
fn title(call: &Call, note: Option<&str>) -> String {
    let title = call.announced.title.set().cloned().unwrap_or_default();
    match note.and_then(|note| note.split_once(':')) {
        Some((brief, _)) => format!("{title} ({brief})"),
        None => title,
    }
}

/// The call as the question shows it, with the note among what it shows: older dialects have no other place for it.
fn with_note(call: &Call, actions: &[Action], note: Option<&str>) -> ToolCallUpdate {
    let mut shown = call.announced.clone();
    if let Some(note) = note {
        // The call went to another server than it began with: whoever judges the question must see this one.
        if let [Action::Fetch(host)] = actions {
            shown.raw_input = Patch::Set(serde_json::json!({ "url": host.url() }).into());
        }
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
    call.note(Event::Permission { tool_call_id: call.id().to_owned(), decision }).await
}
