//! A session as it is written into the journal, and what its turns did to files. A journal that fails is told of once and does
//! not stop the session.

use super::{Changed, Conversation, Ending, Failure, Notes, Part};
use crate::journal::{self, Begin, Decision, HowAsked, Journal, Kept, Recording};
use crate::permission::{By, NOBODY, Record};
use crate::undo::{self, Aftermath, Report, Scanning, Undo, Watch};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tieline::schema::{
    Chunk, ContentBlock, Message, MessageKind, Patch, SessionId, StopReason, ToolCallStatus, Update,
};

/// A longer piece of text is written in parts, so that it is not held several times.
const MAX_PIECE_BYTES: usize = 64 * 1024;

/// Writes a long text down in pieces.
async fn pieces(recording: &Recording, kind: MessageKind, id: Option<&str>, text: &str) -> journal::Result<()> {
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rest.floor_char_boundary(MAX_PIECE_BYTES));
        recording.update(&Update::text(kind, id.map(str::to_owned), piece)).await?;
        rest = after;
    }
    Ok(())
}

/// What is looked at before and after each turn.
pub(super) struct Looked {
    pub(super) journal: Option<Journal>,
    /// The working directory of the session first.
    pub(super) folders: Vec<PathBuf>,
    /// What is written there for the user: not the agent's doing.
    pub(super) ours: Vec<PathBuf>,
}

impl Looked {
    fn scan(&self) -> Scanning {
        undo::scan(self.journal.as_ref(), self.folders.iter().cloned(), &self.ours, undo::Limits::default())
    }
}

/// Writes a session down, or does not.
pub(super) struct JournalWriter {
    recording: Option<Recording>,
    notes: Notes,
    /// A turn is open.
    turn: bool,
    looked: Looked,
    /// A look at the files that is under way.
    scanning: Option<Scanning>,
    /// The watch over the files of the turn that runs.
    pub(super) watch: Option<Arc<Watch>>,
    conversation: Conversation,
    cwd: PathBuf,
    /// How the last turn left the files, if the agent stays.
    aftermath: Option<Aftermath>,
    /// What waits, as it was written last.
    waiting: Vec<Vec<Kept>>,
    /// The agent is our own.
    built_in: bool,
}

impl JournalWriter {
    /// `at_once`: a prompt follows, so the files are looked at beside the start of the agent.
    pub(super) fn new(
        recording: Option<Recording>,
        notes: Notes,
        looked: Looked,
        at_once: bool,
        conversation: Conversation,
        built_in: bool,
    ) -> Self {
        let scanning = at_once.then(|| looked.scan());
        let cwd = looked.folders.first().cloned().unwrap_or_default();
        Self {
            recording,
            notes,
            turn: false,
            looked,
            scanning,
            watch: None,
            conversation,
            cwd,
            aftermath: None,
            waiting: Vec::new(),
            built_in,
        }
    }

    /// Begins a session of ours, or goes on with the one we have.
    pub(super) async fn begin(&mut self, begin: Begin, handed_over: bool) {
        if let Some(recording) = &mut self.recording {
            recording.lost().into_iter().for_each(|told| self.notes.warn(told));
            if recording.entry().agent_session != begin.agent_session
                && let Some(id) = begin.agent_session
            {
                let moved = recording.moved(id, handed_over).await;
                self.check(moved);
            }
            return;
        }
        let Some(journal) = &self.looked.journal else { return };
        let opened = journal.begin(begin).await;
        self.recording = self.check(opened);
    }

    /// Writes down what waits, unless it stands there. Prompts of other clients wait with these, not here.
    pub(super) async fn queue(&mut self, queue: impl Iterator<Item = &[Part]>) {
        let Some(recording) = &self.recording else { return };
        let waiting: Vec<Vec<Kept>> = queue.filter_map(|parts| parts.iter().map(Kept::of).collect()).collect();
        if waiting != self.waiting {
            let done = recording.queue(&waiting).await;
            self.waiting = waiting;
            self.check(done);
        }
    }

    /// Our id of the session.
    pub(super) fn id(&self) -> Option<String> {
        self.recording.as_ref().map(|recording| recording.id().to_string())
    }

    pub(super) fn recording(&self) -> Option<&Recording> {
        self.recording.as_ref()
    }

    /// Who answers, and where: before anything is sent there.
    pub(super) async fn answers(&mut self, model: Option<String>, addresses: &BTreeMap<String, String>) {
        if let Some(recording) = &mut self.recording {
            let done = recording.answers(model, addresses).await;
            self.check(done);
        }
    }

    /// The turn begins. When this comes back, the prompt and the state of the files are on the disk.
    pub(super) async fn prompt(&mut self, name: Option<String>, prompt: &[ContentBlock]) {
        self.since_last_turn().await;
        let mut turn = None;
        if let Some(recording) = &self.recording {
            let begun = recording.prompt_named(name, prompt).await;
            turn = self.check(begun);
        }
        self.turn = turn.is_some();
        let scanning = self.scanning.take().unwrap_or_else(|| self.looked.scan());
        let watched = async {
            let kept = self
                .recording
                .as_ref()
                .map(|recording| (recording, Undo::open(recording.journal(), recording.entry())));
            let undo = match kept {
                Some((recording, Ok(undo))) => {
                    undo.damage().into_iter().for_each(|told| self.notes.warn(told));
                    // A turn that a crash left open is over now.
                    if let Some(told) = undo::settle_turn(recording).await? {
                        self.notes.warn(told);
                    }
                    undo
                }
                Some((_, Err(error))) => {
                    self.notes.warn(format!("nothing can be undone afterwards: {error}"));
                    Undo::in_memory(&scanning)?
                }
                None => Undo::in_memory(&scanning)?,
            };
            undo.watch(turn.unwrap_or(1), scanning, &self.conversation).await
        };
        match watched.await {
            Ok(watch) => {
                // Before anything is done: what is not kept can't be had again.
                if let Some(told) = uncovered_text("not watched for changes", watch.uncovered()) {
                    self.notes.warn(told);
                }
                watch.settled().iter().for_each(|told| self.notes.warn(told.clone()));
                self.watch = Some(Arc::new(watch));
            }
            Err(error) => self.notes.warn(format!("changes of files are not watched: {error}")),
        }
    }

    pub(super) async fn update(&mut self, update: &Update) {
        if let (Update::ToolCall(call), Some(watch)) = (update, &self.watch)
            && call.status.set().is_some_and(ToolCallStatus::is_final)
        {
            watch.ended(&call.tool_call_id).await;
        }
        let Some(recording) = &self.recording else { return };
        let done = match update {
            Update::Chunk(Chunk { kind, message_id, content: ContentBlock::Text(text), .. })
                if text.text.len() > MAX_PIECE_BYTES =>
            {
                pieces(recording, *kind, message_id.as_deref(), &text.text).await
            }
            Update::Message(Message { kind, message_id, content: Patch::Set(blocks), .. }) if matches!(&blocks[..], [ContentBlock::Text(text)] if text.text.len() > MAX_PIECE_BYTES) =>
            {
                let empty = Message { kind: *kind, message_id: message_id.clone(), ..Message::default() };
                let empty = Message { content: Patch::Set(Vec::new().into()), ..empty };
                let mut done = recording.update(&Update::Message(empty)).await;
                for text in blocks.iter().filter_map(ContentBlock::as_text) {
                    if done.is_ok() {
                        done = pieces(recording, *kind, Some(message_id), text).await;
                    }
                }
                done
            }
            update => recording.update(update).await,
        };
        self.check(done);
    }

    /// Writes down what was decided meanwhile in the session.
    pub(super) async fn decisions(&mut self, session: &SessionId) {
        while let Some(record) = self.notes.decision(session) {
            self.decision(&record).await;
        }
    }

    async fn decision(&mut self, record: &Record) {
        let Some(recording) = &self.recording else { return };
        let by = match &record.by {
            By::Rule(_) | By::Unclear(_) => "rule",
            By::Decider(name) if name == NOBODY => "nobody",
            By::Decider(_) => "user",
            _ => "default",
        };
        let decision = Decision {
            tool_call_id: record.call.clone().unwrap_or_default(),
            title: record.title.clone(),
            about: record.facts.clone(),
            decision: record.ruling.word().to_owned(),
            option: record.option.clone(),
            by: by.to_owned(),
            because: record.by.to_string(),
        };
        let done = recording.decision(&decision).await;
        self.check(done);
    }

    /// The files that the turn changed, if that was watched. What changed beside it is a remark.
    /// `stays`: the agent is there for another turn, and what changes until then may be its doing.
    pub(super) async fn changes(&mut self, remarks: &mut Vec<String>, stays: bool) -> Option<Vec<Changed>> {
        let watch = self.watch.take()?;
        // Before the turn is judged: what changes meanwhile is told twice rather than never.
        if stays {
            self.aftermath = Aftermath::of(&watch).await;
        }
        let by_rule = watch.has_commands_by_rule();
        let mut report = match watch.judge().await {
            Ok(report) => report,
            Err(error) => {
                remarks.push(format!("it can't be told which files changed: {error}"));
                return None;
            }
        };
        // Remarks, not warnings: the turn is over, and who prints as it goes hears no more warnings.
        let unseen = [
            uncovered_text("can't be undone", std::mem::take(&mut report.uncovered)),
            uncovered_text("not looked at after the turn", std::mem::take(&mut report.unseen)),
        ];
        for told in unseen.into_iter().flatten().chain(report.meanwhile_text(&self.cwd)) {
            remarks.push(told.clone());
            if let Some(recording) = &self.recording {
                let done = recording.notice("info", told).await;
                self.check(done);
            }
        }
        // What our own agent's tools do, its rules have decided, and they are ours; a command that a rule allows it does not ask about.
        let unasked = report.changed.iter_mut().filter(|file| file.asked == HowAsked::Never);
        for file in unasked.filter(|_| self.built_in) {
            match file.tool {
                Some(_) => file.asked = HowAsked::Asked,
                None if by_rule => file.asked = HowAsked::Command,
                None => {}
            }
        }
        remarks.extend(report.unkept_text(&self.cwd));
        let mut is_told = true;
        if let Some(recording) = self.recording.as_ref().filter(|_| !report.changed.is_empty()) {
            let done = recording.changes(&report.changed).await;
            is_told = self.check(done).is_some();
        }
        // Not sooner: what the journal was not told, whoever comes next tells it.
        if is_told {
            watch.close();
        }
        let changed = report.changed.into_iter();
        Some(changed.map(|file| Changed { path: file.path, asked: file.asked }).collect())
    }

    /// What changed since the last turn has ended. The person works here, too, so it is said of both.
    async fn since_last_turn(&mut self) {
        let Some(aftermath) = self.aftermath.take() else { return };
        let report = Report { changed: aftermath.changed().await, ..Report::default() };
        if report.changed.is_empty() {
            return;
        }
        if let Some(recording) = &self.recording {
            let done = recording.changes(&report.changed).await;
            self.check(done);
        }
        self.notes
            .warn(format!("changed since the last turn, by you or by the agent: {}", report.changed_text(&self.cwd)));
    }

    /// Ends the turn.
    pub(super) async fn end(&mut self, ending: Ending, stop: Option<&StopReason>, failure: Option<&Failure>) {
        let Some(recording) = self.recording.as_ref().filter(|_| std::mem::take(&mut self.turn)) else { return };
        let stopped = matches!(ending, Ending::Interrupted | Ending::Terminated | Ending::OutputClosed);
        let told = match (stop, failure) {
            (Some(stop), None) => stop.into(),
            (_, Some(Failure { phase, message, .. })) if !stopped => {
                journal::Outcome::Failed { phase: phase.to_string(), message: message.clone() }
            }
            _ => journal::Outcome::Interrupted { by: ending.name().to_owned() },
        };
        let hint = failure.and_then(|failure| failure.hint.as_deref());
        let ended = recording.end_with(&told, hint).await;
        self.check(ended);
    }

    /// Writes down something of whoever has the session. False if nothing is written down any more.
    pub(super) async fn note(&mut self, kind: &str, body: &impl Serialize) -> bool {
        let Some(recording) = &self.recording else { return false };
        let done = recording.note(kind, body).await;
        self.check(done).is_some()
    }

    /// Lets the session go.
    pub(super) async fn close(&mut self) {
        self.since_last_turn().await;
        if let Some(recording) = self.recording.take() {
            let closed = recording.close().await;
            self.check(closed);
        }
    }

    /// The session is written down no further if that failed.
    fn check<T>(&mut self, done: journal::Result<T>) -> Option<T> {
        done.inspect_err(|error| {
            self.recording = None;
            self.notes.warn(format!("the session is not recorded any further: {error}"));
        })
        .ok()
    }
}

fn uncovered_text(what: &str, uncovered: impl IntoIterator<Item = String>) -> Option<String> {
    let uncovered: Vec<String> = uncovered.into_iter().collect();
    (!uncovered.is_empty()).then(|| format!("{what}: {}", uncovered.join("; ")))
}
