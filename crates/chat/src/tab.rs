//! One tab: a session as the screen knows it, and what its events do to it.

use crate::AgentChoice;
use crate::ask::{self, Dock};
use crate::compose::Composer;
use crate::effect::Effect;
use crate::event::{About, OpenedFacts, TabId};
use crate::list::{List, Mark};
use crate::rows::Cache;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline::schema::{MessageKind, Severity, StopReason, Update};
use tieline_client::live::{Asked, Conversation, Ending, Event, Failure, Part, Phase, Queued, State, What, When};
use tieline_client::permission::{By, Record, Ruling};
use tieline_client::{sanitize, services};
use tieline_host::roots::shown;
use tieline_host::text::counted;

/// An agent that ended by itself is started again, but not more often than this.
const RESTART_EVERY: Duration = Duration::from_mins(1);
/// So many of its last lines are shown.
const MAX_LAST_WORDS: usize = 5;
/// What a refusal is, and what to do.
const REFUSED: &str =
    "the agent turned this prompt down (refusal); say it in other words, or switch the model or the agent";

/// The tab that the chat begins with.
pub const FIRST: TabId = 1;

/// One tab.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each is an independent fact")]
pub struct Tab {
    /// Its number.
    pub id: TabId,
    /// What the agent is called.
    pub agent: String,
    /// Where it works.
    pub cwd: PathBuf,
    /// Our own id of the session, once it is there.
    pub session: Option<String>,
    /// The transcript.
    pub talk: Conversation,
    /// What is shown of it.
    pub list: List,
    /// The rows of that.
    pub cache: Cache,
    /// What is typed.
    pub composer: Composer,
    /// What the session is doing.
    pub state: State,
    since: Option<Instant>,
    /// The step before that.
    pub phase: Phase,
    /// The questions that stand, the oldest first.
    pub questions: Vec<Arc<Asked>>,
    /// The keys of the first of them.
    pub dock: Dock,
    /// The question that the keys were taken from: it does not take them again by itself.
    pub left: Option<u64>,
    /// So many lines of the user's own run in the shell.
    pub shells: usize,
    /// The user refused something in the turn that runs.
    refused: bool,
    /// The reason that the next prompt gives for a refusal.
    pub reason: bool,
    /// What waits.
    pub queue: Vec<Queued>,
    /// The turn is stopped for one of them, which goes next.
    pub sends: bool,
    /// What is typed was waiting before these, and goes back to its place.
    pub edits: Vec<u64>,
    /// What can be chosen.
    pub about: About,
    /// Something happened that was not seen.
    pub attention: bool,
    /// The prompt of the turn that runs, until the agent said something: it comes back if it is cancelled.
    sent: Option<Vec<Part>>,
    restarted: Option<Instant>,
    /// The user killed the agent: it stays dead until it is wanted.
    pub killed: bool,
    /// What is typed is sent to an open session only.
    pub is_open: bool,
    /// Nothing comes any more.
    pub closed: bool,
}

impl Tab {
    /// A tab whose session is being opened.
    pub fn new(id: TabId, now: Instant) -> Self {
        Self { id, since: Some(now), ..Self::default() }
    }

    fn does(&mut self, state: State, now: Instant) {
        (self.state, self.since) = (state, Some(now));
    }

    /// For how long it has been doing what it does.
    pub fn age(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Adds a remark.
    pub fn notice(&mut self, mark: Mark, text: impl Into<String>) {
        self.list.notice(&self.talk, mark, text);
    }

    /// Says what can be done, once.
    pub fn welcome(&mut self, agent: String, agents: &[AgentChoice]) {
        if !self.list.is_welcome() {
            for line in crate::welcome(&agent, agents) {
                self.notice(Mark::Welcome, line);
            }
        }
        self.agent = agent;
    }

    /// The session is found, and its agent is about to be started.
    pub fn opened(&mut self, facts: OpenedFacts) {
        (self.agent, self.cwd, self.talk) = (facts.agent, facts.cwd, facts.conversation);
        self.is_open = true;
        self.composer.wake_with(facts.wake);
        self.composer.open(&self.cwd, facts.state.as_deref(), &facts.draft);
        if !facts.resumed {
            let agent = std::mem::take(&mut self.agent);
            self.welcome(agent, &facts.agents);
            // Another tab may have one that is still being written.
            if self.id == FIRST && self.composer.adopt_drafts() {
                self.notice(Mark::Info, "a draft was left here by another session: Up brings it back");
            }
        }
        self.list.sync(&self.talk);
    }

    /// It can't be opened.
    pub fn not_opened(&mut self, failure: &Failure, now: Instant) {
        self.does(State::Lost, now);
        self.failure(failure);
    }

    /// True if a turn runs.
    pub fn runs(&self) -> bool {
        matches!(self.state, State::Running | State::Asking | State::Cancelling)
    }

    fn failure(&mut self, failure: &Failure) {
        let mut text = sanitize::text(&failure.message);
        if let Some(hint) = failure.hint.as_ref().filter(|_| failure.exit.is_none()) {
            text = format!("{text}\n{}", sanitize::line(hint));
        }
        self.notice(Mark::Bad, text);
        for line in failure.stderr.iter().rev().take(MAX_LAST_WORDS).rev() {
            self.notice(Mark::Info, format!("agent: {}", sanitize::line(line)));
        }
    }

    /// The session tells something. `seen` if the tab is on the screen.
    pub fn live(&mut self, event: Event, seen: bool, now: Instant) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Phase(phase) => self.phase = phase,
            Event::Started(_) | Event::Agent(_) => {}
            Event::Session(facts) => {
                if let Some(id) = &facts.id {
                    self.composer.name_draft(id);
                }
                self.session = facts.id;
                self.list.sync(&self.talk);
                // That the agent has lost it is a warning that comes on its own.
                if facts.resumed {
                    self.notice(Mark::Info, "the session goes on");
                }
            }
            Event::GoesOn(chosen) => self.notice(Mark::Info, format!("goes on with {}", sanitize::line(&chosen))),
            Event::Said { kind, .. } => {
                if kind != MessageKind::User {
                    self.sent = None;
                }
                self.list.sync(&self.talk);
            }
            Event::Update { update, tool, when } => {
                if let Some(call) = tool {
                    self.cache.heard(&call, now);
                }
                self.cache.screens.update(&update);
                self.update(&update, when);
            }
            Event::Note(note) => self.note(&note),
            Event::Warning(warning) => self.notice(Mark::Warn, sanitize::text(&warning)),
            Event::Asking(told) => drop(told),
            Event::Asked(asked) if matches!(asked.what, What::Terminal(_)) => effects.push(Effect::Lend(asked)),
            Event::Asked(asked) => {
                self.list.sync(&self.talk);
                self.questions.push(asked);
                self.attention |= !seen;
                effects.push(Effect::Bell);
            }
            Event::Settled(number) => self.settled(number, now),
            Event::State(state) => {
                self.does(state, now);
                if state == State::Opening {
                    self.killed = false;
                }
            }
            Event::Begun(number) => {
                let begun = self.queue.iter().position(|queued| queued.number == number);
                self.sent = begun.map(|at| self.queue.remove(at).parts);
                self.refused = false;
                // One that comes right behind another is not told as a change of what the session does.
                self.does(State::Running, now);
            }
            Event::Given(given) => {
                self.sends = false;
                match given {
                    Ok(()) => self.notice(Mark::Info, "given to the agent: it is shown when it is taken in"),
                    Err(why) => {
                        let why = sanitize::line(&why);
                        self.notice(
                            Mark::Warn,
                            format!("the agent does not take it into the turn: {why}; it waits on"),
                        );
                    }
                }
            }
            Event::Ended { stop, changed, remarks } => {
                self.ended(stop, now);
                if !changed.is_empty() {
                    let below = |path: &str| Path::new(path).strip_prefix(&self.cwd).map(shown).ok();
                    let name = |path: &str| below(path).unwrap_or_else(|| sanitize::exact_line(path));
                    let names: Vec<_> = changed.iter().map(|file| name(&file.path)).collect();
                    let text =
                        format!("changed {}: {} · F5 takes it back", counted(names.len(), "file"), names.join(", "));
                    self.notice(Mark::Info, text);
                }
                for remark in remarks {
                    self.notice(Mark::Info, sanitize::text(&remark));
                }
                self.attention |= !seen;
                effects.push(Effect::Bell);
            }
            Event::Lost(failure) => effects.extend(self.lost(&failure, now)),
            Event::Closed => self.closed = true,
        }
        effects
    }

    fn ended(&mut self, stop: Result<StopReason, Box<Failure>>, now: Instant) {
        let (cancelled, failed) = (matches!(stop, Ok(StopReason::Cancelled)), stop.is_err());
        match stop {
            Ok(StopReason::EndTurn) => {}
            // Whose no it was stands there already.
            Ok(StopReason::Refusal) if self.refused => {}
            Ok(StopReason::Cancelled) if self.refused && self.state != State::Cancelling => {
                self.notice(Mark::Info, "the agent stopped at your no");
            }
            Ok(StopReason::Cancelled) => self.notice(Mark::Info, "stopped by you"),
            Ok(StopReason::Refusal) => self.notice(Mark::Warn, REFUSED),
            Ok(reason) => self.notice(Mark::Warn, format!("the turn ended: {}", sanitize::line(reason.as_str()))),
            // That the agent is gone is told next, with what is done about it.
            Err(failure) if failure.exit.is_some() => {}
            Err(failure) => self.failure(&failure),
        }
        // A prompt that was taken back before anything came of it is not lost.
        if let Some(parts) = self.sent.take().filter(|_| cancelled && self.composer.is_empty()) {
            self.composer.take_back(&parts);
        }
        self.does(State::Idle, now);
        self.questions.clear();
        self.dock.blur();
        let sends = std::mem::take(&mut self.sends);
        if !self.queue.is_empty() && (cancelled || failed) && !sends {
            self.notice(Mark::Info, "the queue waits: Enter sends its first, Ctrl+Q shows it");
        }
    }

    fn lost(&mut self, failure: &Failure, now: Instant) -> Option<Effect> {
        self.does(State::Lost, now);
        (self.questions, self.sent) = (Vec::new(), None);
        self.dock.blur();
        self.failure(failure);
        self.attention = true;
        let recent = self.restarted.is_some_and(|at| now.saturating_duration_since(at) < RESTART_EVERY);
        let died = failure.ending == Ending::Failed && failure.phase >= Phase::Prompt;
        if self.killed || recent || !died {
            self.notice(Mark::Info, "the next prompt starts the agent again and takes the session up");
            return None;
        }
        self.restarted = Some(now);
        self.notice(Mark::Info, "the agent is started again, with this session");
        Some(Effect::Restart(self.id))
    }

    fn settled(&mut self, number: u64, now: Instant) {
        let Some(at) = self.questions.iter().position(|asked| asked.number == number) else { return };
        let asked = self.questions.remove(at);
        let text = format!("the question is not asked any more: {}", ask::title(&asked.what));
        self.notice(Mark::Info, text);
        if at == 0 {
            self.next_question(now);
        }
    }

    /// The calls that questions are about wait for them.
    pub fn count_waits(&mut self, now: Instant) {
        let calls = self.questions.iter().filter_map(|asked| match &asked.what {
            What::Permission(question) => question.call.as_ref().map(|call| call.tool_call_id.clone()),
            _ => None,
        });
        self.cache.wait(calls, now);
    }

    /// The first question is answered or gone: the next one has the keys, if there is one, and is read anew.
    pub fn next_question(&mut self, now: Instant) {
        if self.questions.is_empty() { self.dock.blur() } else { self.dock.next(now) }
    }

    fn update(&mut self, update: &Update, when: When) {
        self.list.sync(&self.talk);
        match update {
            Update::Plan(_) => self.list.plan(&self.talk),
            Update::ToolCall(_) | Update::ToolCallContent(_) => self.sent = None,
            Update::Notice(notice) if when != When::Before => {
                let more = notice.description.as_deref().map(|more| format!(": {more}")).unwrap_or_default();
                let mark = if matches!(notice.severity, Severity::Other(_) | Severity::Info) {
                    Mark::Info
                } else {
                    Mark::Warn
                };
                self.notice(mark, sanitize::line(&format!("the agent notes: {}{more}", notice.title)));
            }
            Update::Chunk(chunk) if chunk.kind == MessageKind::Agent && when != When::Before => {
                self.notice(Mark::Info, format!("[{} content is not shown]", sanitize::line(chunk.content.tag())));
            }
            Update::Other(unknown) => {
                self.notice(Mark::Info, format!("[an update of the unknown kind `{}`]", sanitize::line(&unknown.tag)));
            }
            _ => {}
        }
    }

    fn note(&mut self, note: &services::Event) {
        match note {
            services::Event::Decided(record) => self.decided(record),
            services::Event::Notice { text, .. } => self.notice(Mark::Info, sanitize::text(text)),
            _ => {}
        }
    }

    fn decided(&mut self, record: &Record) {
        // Reading is a matter of course.
        if record.ruling == Ruling::Allowed && record.method == "fs/read_text_file" {
            return;
        }
        let what = if record.facts.is_empty() { sanitize::exact_line(&record.title) } else { record.facts.join(", ") };
        let by = match &record.by {
            By::Decider(_) => {
                self.refused |= record.ruling == Ruling::Refused;
                "you".to_owned()
            }
            By::Before(_) => {
                return self.notice(Mark::Info, format!("{}: {what}", sanitize::exact_line(&record.by.to_string())));
            }
            By::Cancel => return self.notice(Mark::Info, format!("not answered, {}: {what}", record.by)),
            by => sanitize::exact_line(&by.to_string()),
        };
        let mark = if record.ruling == Ruling::Refused { Mark::Warn } else { Mark::Info };
        self.notice(mark, format!("{} by {by}: {what}", record.ruling.word()));
    }
}
