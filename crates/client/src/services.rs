//! Everything that an agent may ask of a client, answered on this machine: files, terminals, permission, forms.

mod builder;
mod decide;
mod event;
mod grants;
mod person;

pub use builder::Builder;
pub use event::{Event, Observer};
pub(crate) use person::Watching;

use crate::files::{self, Outside, Target, Unsaved};
use crate::permission::{By, Engine, Facts, Record, Ruling};
use crate::sanitize;
use crate::terminal::{self, Line, Terminals};
use decide::{Case, Decided};
use grants::{Grants, Seen, Shown};
use person::Person;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tieline::client::Handler;
use tieline::rpc::sync::Lock;
use tieline::schema::{
    CreateTerminalRequest, ElicitAction, ElicitRequest, ElicitResponse, Encode, ExitStatus, PermissionOutcome,
    PermissionRequest, PermissionSubject, ReadTextFileRequest, SessionId, TerminalOutputResponse, TerminalRequest,
    WriteTextFileRequest, to_json,
};
use tieline::{ClientCapabilities, Dialect, Error, Result};
use tieline_host::files::{Expect, Files, Hash};
use tieline_host::roots::{self, Place, Root, Roots};
use tieline_host::rules::{Action, Confined};
use tieline_host::sandbox::Level;
use tokio::sync::Semaphore;

/// Answers that the agent has not taken yet bring no more text than this, unless it is one alone, in KiB.
const MAX_UNREAD_KIB: u32 = 16 << 10;

const READ: &str = "fs/read_text_file";
const WRITE: &str = "fs/write_text_file";

/// Client services. Clones are the same services.
#[derive(Clone)]
pub struct Services {
    inner: Arc<Inner>,
    /// Who watches the files while a person is asked.
    watching: Option<Arc<dyn Watching>>,
}

struct Inner {
    /// The files of sessions that have no roots of their own.
    files: Files,
    sessions: Mutex<HashMap<SessionId, Files>>,
    /// What is on.
    offers: ClientCapabilities,
    engine: Engine,
    /// What was allowed with tool calls of the turns that run.
    grants: Grants,
    /// Room for the texts of answers, in KiB.
    room: Arc<Semaphore>,
    outside: Outside,
    /// The agent is our own.
    ours: bool,
    person: Person,
    observers: Vec<Arc<dyn Observer>>,
    unsaved: Option<Arc<dyn Unsaved>>,
    terminals: terminal::Shared,
    agent: Mutex<String>,
}

impl std::fmt::Debug for Services {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Services")
            .field("files", &self.inner.files)
            .field("engine", &self.inner.engine)
            .finish_non_exhaustive()
    }
}

impl Services {
    /// Services for sessions in a directory and its additional ones; all must be absolute. These are the roots of every
    /// session that [`Self::add_session`] does not give others.
    pub fn builder<P: AsRef<Path>>(
        cwd: impl AsRef<Path>,
        additional: impl IntoIterator<Item = P>,
    ) -> roots::Result<Builder> {
        Roots::new(cwd, additional).map(Builder::new)
    }

    /// Sets the capabilities that these services stand for.
    pub fn offer(&self, can: &mut ClientCapabilities) {
        let offers = &self.inner.offers;
        can.fs_read = offers.fs_read;
        can.fs_write = offers.fs_write;
        can.terminal = offers.terminal;
        can.terminal_auth = offers.terminal_auth;
        can.notices = offers.notices;
        can.elicit_form = offers.elicit_form;
        can.elicit_url = offers.elicit_url;
    }

    /// True while a person is asked something.
    pub fn is_asking(&self) -> bool {
        self.inner.person.is_asked()
    }

    /// The same services, whose questions are heard of by those who watch the files.
    pub(crate) fn watched_by(&self, watching: Arc<dyn Watching>) -> Self {
        Self { inner: Arc::clone(&self.inner), watching: Some(watching) }
    }

    /// Says who the agent is, for forms and pages.
    pub fn agent_is(&self, name: &str) {
        name.clone_into(&mut self.inner.agent.locked());
    }

    /// Gives a session roots of its own. Its files and terminals are confined to these from now on.
    pub fn add_session<P: AsRef<Path>>(
        &self,
        id: SessionId,
        cwd: impl AsRef<Path>,
        additional: impl IntoIterator<Item = P>,
    ) -> roots::Result<()> {
        let files = self.inner.files.in_roots(Roots::new(cwd, additional)?);
        self.inner.sessions.locked().insert(id, files);
        Ok(())
    }

    /// A turn is over: what was allowed with its tool calls is asked again.
    pub fn end_turn(&self, id: &SessionId) {
        self.inner.grants.end(id);
    }

    /// A session is over: its terminals are ended and its roots forgotten.
    pub fn end_session(&self, id: &SessionId) {
        self.end_turn(id);
        self.inner.terminals.end_session(id);
        self.inner.sessions.locked().remove(id);
    }

    /// The connection is over: all terminals are ended.
    pub fn end(&self) {
        self.inner.terminals.end();
    }

    /// The terminals, to be shown.
    pub fn terminals(&self) -> &Terminals {
        &self.inner.terminals
    }

    fn tell(&self, event: &Event) {
        for observer in &self.inner.observers {
            observer.event(event);
        }
    }

    fn files_of(&self, session: &SessionId) -> Files {
        let sessions = self.inner.sessions.locked();
        sessions.get(session).unwrap_or(&self.inner.files).clone()
    }

    /// A path that no rule is asked about: it is outside, or nothing that can be used.
    fn out_of_reach(
        &self,
        session: &SessionId,
        method: &'static str,
        digest: Hash,
        error: &roots::Error,
        path: &str,
    ) -> Error {
        if matches!(error, roots::Error::Outside { .. }) {
            let verb = match method {
                WRITE => "Write",
                READ => "Read",
                _ => "Run in",
            };
            let record = Record::new(
                session,
                method,
                &format!("{verb} {path}"),
                vec![sanitize::line(&error.to_string())],
                digest,
            );
            let record = Record { ruling: Ruling::Refused, by: By::Roots, ..record };
            self.tell(&Event::Decided(Box::new(record)));
        }
        files::told(error, path)
    }

    async fn target(&self, session: &SessionId, method: &'static str, digest: Hash, path: &str) -> Result<Target> {
        let (files, outside, owned) = (self.files_of(session), self.inner.outside, path.to_owned());
        let found = blocking(move || Target::find(&files, &owned, outside)).await?;
        found.map_err(|error| self.out_of_reach(session, method, digest, &error, path))
    }

    /// The first half of a terminal: may it be? Nothing is started.
    pub(crate) async fn allow_terminal(&self, request: &CreateTerminalRequest) -> Result<AllowedTerminal> {
        const METHOD: &str = "terminal/create";
        if !self.inner.offers.terminal {
            return Err(Error::method_not_found(METHOD));
        }
        terminal::check(&request.env)?;
        let (session, digest) = (&request.session_id, digest(request));
        let files = self.files_of(session);
        let (cwd, there) = (request.cwd.clone(), files.clone());
        let found = blocking(move || folder(there.roots(), cwd.as_deref())).await?;
        let (place, roots) = found.map_err(|error| {
            self.out_of_reach(session, METHOD, digest, &error, request.cwd.as_deref().unwrap_or("its folder"))
        })?;
        let line = Line::of(request);
        let command = line.parsed(&request.env, false);
        let (shown, text) = (command.text().to_owned(), line.parsed(&request.env, true).text().to_owned());
        // Nothing in it is guarded.
        let confined = match self.inner.terminals.settings().sandbox {
            Level::Off => Confined::No,
            Level::Workspace => Confined::Unguarded,
            Level::ReadOnly => Confined::ReadOnly,
        };
        let facts = Facts::command(command, place.location(), confined);
        let facts = facts.without_masks(&self.inner.engine, files.roots());
        let facts = if shown == text { facts } else { facts.stored_as(text.clone()) };
        let mut case = Self::case(session, METHOD, format!("Run {shown}"), digest);
        // What somebody has just said yes to is not asked again, once. Variables change what a command does.
        if request.env.is_empty() && facts.subject().unclear.is_none() {
            // Who is asked about a command without a folder is asked about the folder of the session.
            let at_home = place.location().in_cwd().is_some_and(|path| path.as_os_str().is_empty());
            let told = facts.lines().iter().filter(|line| !at_home || !line.starts_with("in ")).cloned();
            let told: Vec<String> = told.collect();
            let take = |lines: &[String]| self.inner.grants.take_command(session, lines);
            case.before = take(facts.lines()).or_else(|| take(&told));
        }
        let decided = self.decide(case, &facts, async || Shown::default()).await;
        let allowed = AllowedTerminal { line, text, folder: place.real_path(), roots };
        if decided.chosen.allows { Ok(allowed) } else { Err(refused(&decided)) }
    }

    /// The second half: starts its command.
    pub(crate) async fn start_terminal(
        &self,
        request: &CreateTerminalRequest,
        allowed: AllowedTerminal,
    ) -> Result<String> {
        let AllowedTerminal { line, text, folder, roots } = allowed;
        let (terminal, view) = self.inner.terminals.start(request, &line, folder.clone(), &roots).await?;
        let (session, id) = (request.session_id.clone(), terminal.clone());
        self.tell(&Event::TerminalStarted { session: session.clone(), terminal: id.clone(), line: text, folder });
        let observers = self.inner.observers.clone();
        tokio::spawn(async move {
            let outcome = view.outcome().await;
            let (exit, leftovers) = (tieline_host::run::exit_status(outcome.end), outcome.leftovers);
            let event = Event::TerminalEnded { session, terminal: id, exit, leftovers };
            for observer in &observers {
                observer.event(&event);
            }
        });
        Ok(terminal)
    }

    /// The first half of a write: may it be? Nothing is written.
    pub(crate) async fn allow_write(&self, request: WriteTextFileRequest) -> Result<AllowedWrite> {
        const METHOD: &str = WRITE;
        if !self.inner.offers.fs_write {
            return Err(Error::method_not_found(METHOD));
        }
        let digest = digest(&request);
        let WriteTextFileRequest { session_id: session, path, content, .. } = request;
        let target = self.target(&session, METHOD, digest, &path).await?;
        let facts = Facts::one(Action::Write(target.location()));
        let mut case = Self::case(&session, METHOD, format!("Write {path}"), digest);
        let show = async || {
            let (target, content) = (target.clone(), content.clone());
            blocking(move || Shown::of_write(&target, &content)).await.unwrap_or_default()
        };
        let mut seen = Vec::new();
        if self.inner.grants.has(&session, &target.place.real_path()) {
            seen = show().await.seen;
            case.before = seen.first().and_then(|now| self.inner.grants.take(&session, now));
        }
        let granted = case.before.is_some();
        let decided = self.decide(case, &facts, show).await;
        if !decided.chosen.allows {
            return Err(refused(&decided));
        }
        // Who was shown a change agreed to just that one.
        let seen = if granted { &seen } else { &decided.seen };
        let expect = seen.first().map_or(Expect::Any, Seen::expect);
        Ok(AllowedWrite { session, path, content, target, expect })
    }

    /// The second half: writes it.
    pub(crate) async fn write_allowed(&self, allowed: AllowedWrite) -> Result<()> {
        let AllowedWrite { session, path, content, target, expect } = allowed;
        let (real, bytes) = (target.place.real_path(), content.len());
        let written = blocking(move || target.write(&content, expect)).await?;
        let written = written.map_err(|error| files::told(&error, &path))?;
        let (created, hash) = (written.created, written.version.hash);
        self.tell(&Event::Wrote { session, path: real, bytes, created, hash });
        Ok(())
    }

    /// Waits until a text of so many bytes can be held until it is sent: an agent may ask for much and read nothing.
    async fn make_room(&self, bytes: u64) {
        let kib = u32::try_from(bytes >> 10).unwrap_or(u32::MAX).clamp(1, MAX_UNREAD_KIB);
        if let Ok(permit) = Arc::clone(&self.inner.room).acquire_many_owned(kib).await {
            tieline::meta::keep_until_answered(permit);
        }
    }

    fn case(session: &SessionId, method: &'static str, title: String, digest: Hash) -> Case {
        let (description, subject, options, before) = (None, None, Vec::new(), None);
        Case { session: session.clone(), method, title, description, subject, options, digest, before }
    }
}

/// A terminal that may be, and is not started yet.
pub(crate) struct AllowedTerminal {
    line: Line,
    text: String,
    folder: PathBuf,
    roots: Vec<PathBuf>,
}

/// A write that may be, and is not done yet.
pub(crate) struct AllowedWrite {
    session: SessionId,
    path: String,
    content: String,
    target: Target,
    expect: Expect,
}

/// Runs what may wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(Error::internal)
}

fn digest(request: &impl Encode) -> Hash {
    Hash::of(to_json(request, Dialect::V1).as_bytes())
}

fn refused(decided: &Decided) -> Error {
    files::denied("refused", &decided.why)
}

impl Handler for Services {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        let files = self.files_of(&request.session_id);
        let (asked, there, this) = (request.clone(), files.clone(), self.clone());
        let facts = blocking(move || {
            let facts = Facts::of_request(&asked, there.roots());
            if this.inner.ours { facts } else { facts.without_masks(&this.inner.engine, there.roots()) }
        });
        let facts = facts.await.unwrap_or_default();
        let case = Case {
            digest: digest(&request),
            session: request.session_id,
            method: "session/request_permission",
            title: request.title,
            description: request.description,
            options: request.options,
            subject: request.subject.clone(),
            before: None,
        };
        let show = async || {
            let Some(PermissionSubject::ToolCall(subject)) = request.subject else { return Shown::default() };
            blocking(move || Shown::of_call(&files, &subject.tool_call)).await.unwrap_or_default()
        };
        self.decide(case, &facts, show).await.chosen.outcome
    }

    async fn read_text_file(&self, request: ReadTextFileRequest) -> Result<String> {
        const METHOD: &str = READ;
        if !self.inner.offers.fs_read {
            return Err(Error::method_not_found(METHOD));
        }
        let (session, path, digest) = (&request.session_id, &request.path, digest(&request));
        let target = self.target(session, METHOD, digest, path).await?;
        let facts = Facts::one(Action::Read(target.location()));
        let case = Self::case(session, METHOD, format!("Read {path}"), digest);
        let decided = self.decide(case, &facts, async || Shown::default()).await;
        if !decided.chosen.allows {
            return Err(refused(&decided));
        }
        let real = target.place.real_path();
        self.make_room(real.metadata().map_or(0, |file| file.len())).await;
        let unsaved = self.inner.unsaved.as_ref().and_then(|unsaved| unsaved.text(&real));
        let was_unsaved = unsaved.is_some();
        let text = match unsaved {
            Some(text) => files::lines_of(text, request.line, request.limit),
            None => {
                let on_disk = blocking(move || target.read(request.line, request.limit)).await?;
                on_disk.map_err(|error| files::told(&error, path))?
            }
        };
        self.tell(&Event::Read { session: session.clone(), path: real, bytes: text.len(), unsaved: was_unsaved });
        Ok(text)
    }

    async fn write_text_file(&self, request: WriteTextFileRequest) -> Result<()> {
        let allowed = self.allow_write(request).await?;
        self.write_allowed(allowed).await
    }

    async fn create_terminal(&self, request: CreateTerminalRequest) -> Result<String> {
        let allowed = self.allow_terminal(&request).await?;
        self.start_terminal(&request, allowed).await
    }

    async fn terminal_output(&self, request: TerminalRequest) -> Result<TerminalOutputResponse> {
        let (session, id) = (&request.session_id, &request.terminal_id);
        self.make_room(self.inner.terminals.output_bytes(session, id)?).await;
        self.inner.terminals.output(session, id)
    }

    async fn wait_for_terminal_exit(&self, request: TerminalRequest) -> Result<ExitStatus> {
        self.inner.terminals.wait(&request.session_id, &request.terminal_id).await
    }

    async fn kill_terminal(&self, request: TerminalRequest) -> Result<()> {
        self.inner.terminals.kill(&request.session_id, &request.terminal_id).await
    }

    async fn release_terminal(&self, request: TerminalRequest) -> Result<()> {
        self.inner.terminals.release(&request.session_id, &request.terminal_id)
    }

    async fn elicit(&self, request: ElicitRequest) -> Result<ElicitResponse> {
        let agent = self.inner.agent.locked().clone();
        let session = request.scope.session().cloned();
        let answer = if let Some(text) = self.inner.person.refusal(&request, &agent, self.inner.ours) {
            self.tell(&Event::Notice { session: session.clone(), text });
            ElicitResponse { action: ElicitAction::Decline, meta: None }
        } else {
            // A person at a terminal sees one question at a time, of whatever kind.
            let turn = self.inner.person.turn(self.watching.as_deref()).await;
            if let Some(session) = &session {
                self.told_before_asking(session).await;
            }
            turn.elicit(&request, &agent).await
        };
        let action = match answer.action {
            ElicitAction::Accept(_) => "accept",
            ElicitAction::Decline => "decline",
            ElicitAction::Cancel | ElicitAction::Other(_) => "cancel",
        };
        self.tell(&Event::Elicited { session, mode: request.mode.name().to_owned(), action });
        Ok(answer)
    }

    async fn elicitation_complete(&self, elicitation_id: String) {
        self.inner.person.complete(&elicitation_id);
    }
}

/// Where a command runs, and the roots that are there.
fn folder(roots: &Roots, cwd: Option<&str>) -> roots::Result<(Place, Vec<PathBuf>)> {
    let first = roots.list().next().map_or(Path::new("/"), Root::given_path);
    let place = roots.resolve(cwd.map_or(first, Path::new))?;
    place.open_dir()?;
    // A command works by names, so a name that means another folder by now is refused.
    if let Some(root) = roots.list().find(|root| root.real_path().is_some() && !root.still_there()) {
        return Err(roots::Error::Changed(root.given_path().to_path_buf()));
    }
    Ok((place, roots.list().filter_map(|root| root.real_path().map(Path::to_path_buf)).collect()))
}
