//! What is heard beside the updates of an agent: what the services did, what is odd, questions that come; each for its session,
//! and never without bound.

use super::Permissions;
use crate::Future;
use crate::elicit::{Asker, Consent, Filled, Form, Page};
use crate::login::{Chooser, Lent, Method};
use crate::permission::{Answer, Decider, Question, Record, Ruling};
use crate::services::{Event, Observer};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tieline::rpc::sync::{Lock, when};
use tieline::schema::SessionId;
use tieline_host::text::cut;
use tokio::sync::{Notify, oneshot};

/// So many wait to be shown in a session; what comes on top is only counted.
const MAX_WAITING: usize = 1000;
/// So many warnings are told; the rest is counted.
const MAX_WARNINGS: usize = 50;
/// A warning is cut here.
const MAX_WARNING_CHARS: usize = 500;
/// So many questions stand at once on a desk.
const MAX_QUESTIONS: usize = 64;

/// One thing that was heard.
#[derive(Debug)]
pub(crate) enum Note {
    /// The services did something.
    Done(Event),
    /// Something is odd.
    Warning(String),
    /// A question comes; to be told when all is shown that came before it.
    Question(oneshot::Sender<()>),
    /// It stands on the desk.
    Asked(Arc<Asked>),
    /// It does not any more.
    Settled(u64),
}

/// Hears what is beside the updates. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// By session; `None` has what belongs to no session that is known.
    lanes: HashMap<Option<SessionId>, Lane>,
    /// How many notes and questions there were.
    count: u64,
    /// What was decided in all of them.
    permissions: Permissions,
    /// What would have allowed what was refused; the last things first, each once.
    ways: Vec<String>,
    warnings: Vec<String>,
    more_warnings: u64,
}

/// What one session hears.
#[derive(Debug, Default)]
struct Lane {
    /// With their numbers.
    waiting: VecDeque<(u64, Note)>,
    /// What is not written down yet.
    decisions: VecDeque<Record>,
    /// What nobody could be asked about, and should have been.
    nobody: Option<String>,
    /// Somebody reads the turn.
    in_turn: bool,
    questions: Vec<Arc<Asked>>,
}

impl State {
    fn lane(&mut self, session: Option<&SessionId>) -> &mut Lane {
        let known = session.filter(|id| self.lanes.contains_key(&Some((*id).clone()))).cloned();
        self.lanes.entry(known).or_default()
    }

    fn push(&mut self, session: Option<&SessionId>, note: Note) {
        self.count += 1;
        let (number, lane) = (self.count, self.lane(session));
        if lane.waiting.len() < MAX_WAITING {
            lane.waiting.push_back((number, note));
        }
    }

    /// The oldest of a session and of none, if it fits.
    fn take(&mut self, session: &SessionId, fits: impl Fn(&Note) -> bool) -> Option<Note> {
        let first = |lane: Option<&Lane>| lane.and_then(|lane| lane.waiting.front()).map(|(number, _)| *number);
        let (own, none) = (Some(session.clone()), first(self.lanes.get(&None)));
        let at = match (first(self.lanes.get(&own)), none) {
            (Some(own), Some(none)) if none < own => None,
            (None, Some(_)) => None,
            _ => own,
        };
        let taken = self.lanes.get_mut(&at)?.waiting.pop_front_if(|(_, note)| fits(note))?;
        Some(taken.1)
    }
}

impl Notes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.locked()
    }

    fn push(&self, session: Option<&SessionId>, note: Note) {
        self.state().push(session, note);
        self.0.wake.notify_waiters();
    }

    /// Warns. The same words are told once.
    pub fn warn(&self, warning: impl Into<String>) {
        let warning = cut(&warning.into(), MAX_WARNING_CHARS);
        let mut state = self.state();
        if state.warnings.contains(&warning) {
            return;
        }
        if state.warnings.len() >= MAX_WARNINGS {
            state.more_warnings += 1;
            return;
        }
        state.warnings.push(warning.clone());
        drop(state);
        self.push(None, Note::Warning(warning));
    }

    /// All warnings, and how many were not told.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let state = self.state();
        let more = (state.more_warnings > 0).then(|| format!("{} more warnings", state.more_warnings));
        state.warnings.iter().cloned().chain(more).collect()
    }

    /// The session is known from now on: what is about it waits for it.
    pub(super) fn add_session(&self, id: &SessionId) {
        self.state().lanes.entry(Some(id.clone())).or_default();
    }

    /// The session is over.
    pub(super) fn remove_session(&self, id: &SessionId) {
        self.state().lanes.remove(&Some(id.clone()));
    }

    /// Waits for the next question that belongs to no session which is known.
    pub(super) async fn next_asked(&self) -> Note {
        let asked = |(_, note): &(u64, Note)| matches!(note, Note::Asked(_) | Note::Settled(_));
        let look = || {
            let mut state = self.state();
            let waiting = &mut state.lane(None).waiting;
            waiting.remove(waiting.iter().position(asked)?)
        };
        when(&self.0.wake, look).await.1
    }

    /// The next one for a session if it is there already.
    pub(crate) fn take(&self, session: &SessionId) -> Option<Note> {
        self.state().take(session, |_| true)
    }

    /// The next one if it is there already and no question.
    pub(super) fn take_told(&self, session: &SessionId) -> Option<Note> {
        self.state().take(session, |note| !matches!(note, Note::Question(_)))
    }

    /// Waits for the next one.
    pub(super) async fn next(&self, session: &SessionId) -> Note {
        when(&self.0.wake, || self.take(session)).await
    }

    /// A turn is read from now on, or not any more.
    pub(super) fn turn(&self, session: &SessionId, is_read: bool) {
        self.state().lane(Some(session)).in_turn = is_read;
    }

    /// The next decision that is not written down yet.
    pub(super) fn decision(&self, session: &SessionId) -> Option<Record> {
        let mut state = self.state();
        let own = state.lane(Some(session)).decisions.pop_front();
        own.or_else(|| state.lane(None).decisions.pop_front())
    }

    /// What was decided in all sessions.
    pub(crate) fn permissions(&self) -> Permissions {
        self.state().permissions
    }

    /// What to type to have what was refused.
    pub(crate) fn way(&self) -> Option<String> {
        match &self.state().ways[..] {
            [] => None,
            [way] => Some(way.clone()),
            _ => Some("--allow RULE for each, or --allow-all".to_owned()),
        }
    }

    pub(super) fn nobody(&self, session: &SessionId) -> Option<String> {
        self.state().lane(Some(session)).nobody.take()
    }

    /// The questions of a session that stand, and those of none; the oldest first.
    pub(super) fn questions(&self, session: &SessionId) -> Vec<Arc<Asked>> {
        let state = self.state();
        let lanes = [Some(session.clone()), None].map(|at| state.lanes.get(&at));
        let mut found: Vec<_> = lanes.into_iter().flatten().flat_map(|lane| lane.questions.iter().cloned()).collect();
        found.sort_by_key(|asked| asked.number);
        found
    }

    /// Asks a person and waits. `None` if no answer comes.
    async fn ask(&self, session: Option<&SessionId>, what: What) -> Option<Reply> {
        let (asked, answer) = {
            let mut state = self.state();
            state.count += 1;
            let (asked, answer) = Asked::new(state.count, session.cloned(), Instant::now(), what);
            state.lane(asked.session.as_ref()).questions.push(Arc::clone(&asked));
            (asked, answer)
        };
        self.push(session, Note::Asked(Arc::clone(&asked)));
        // Also if nobody wants to know any more and this is dropped.
        let _stands = Stands(self, asked);
        answer.await.ok()
    }
}

struct Stands<'n>(&'n Notes, Arc<Asked>);

impl Drop for Stands<'_> {
    fn drop(&mut self) {
        let session = self.1.session.as_ref();
        self.0.state().lane(session).questions.retain(|asked| !Arc::ptr_eq(asked, &self.1));
        self.0.push(session, Note::Settled(self.1.number));
    }
}

impl Observer for Notes {
    fn event(&self, event: &Event) {
        let session = event.session();
        let mut state = self.state();
        if let Event::Decided(record) = event {
            let permissions = &mut state.permissions;
            let reads = !record.facts.is_empty() && record.facts.iter().all(|fact| fact.starts_with("read "));
            match record.ruling {
                // Reading is allowed as a matter of course and makes nothing good.
                Ruling::Allowed if record.method == "fs/read_text_file" => {}
                Ruling::Allowed => {
                    permissions.allowed += 1;
                    permissions.allowed_deeds += u64::from(!reads);
                }
                Ruling::Refused => {
                    permissions.denied += 1;
                    permissions.denied_deeds += u64::from(!reads);
                }
                Ruling::Cancelled => permissions.cancelled += 1,
            }
            if let Some(way) = record.way().filter(|way| record.ruling == Ruling::Refused && !state.ways.contains(way))
            {
                state.ways.truncate(1);
                state.ways.insert(0, way);
            }
            let lane = state.lane(session.as_ref());
            // They are written down as they are made; only those that were dropped wait for the next one.
            if lane.decisions.len() < MAX_WAITING {
                lane.decisions.push_back((**record).clone());
            }
            if record.nobody {
                let what = if record.facts.is_empty() { record.title.clone() } else { record.facts.join(", ") };
                lane.nobody = Some(what);
            }
        }
        drop(state);
        self.push(session.as_ref(), Note::Done(event.clone()));
    }

    fn asking<'a>(&'a self, session: &'a SessionId) -> Future<'a, ()> {
        Box::pin(async {
            // Where nobody reads there is nothing to wait for.
            if !self.state().lane(Some(session)).in_turn {
                return;
            }
            let (told, shown) = oneshot::channel();
            self.push(Some(session), Note::Question(told));
            let _ = shown.await;
        })
    }
}

/// A question that stands until it is answered, or not wanted any more.
#[derive(Debug)]
pub struct Asked {
    /// Its number.
    pub number: u64,
    /// Which session, if it belongs to one.
    pub session: Option<SessionId>,
    /// Since when it stands.
    pub since: Instant,
    /// What is asked.
    pub what: What,
    reply: Mutex<Option<oneshot::Sender<Reply>>>,
}

/// What a person is asked.
#[derive(Debug)]
pub enum What {
    /// For permission.
    Permission(Box<Question>),
    /// To fill in a form.
    Form(Form),
    /// To visit a page.
    Page(Page),
    /// How to log in.
    Login(Vec<Method>),
    /// No person but the screen: the terminal, for a login that was chosen. It is given back when this is told.
    Terminal(Arc<Notify>),
}

/// What a person answers; one of another kind than the question is none.
#[derive(Debug)]
pub enum Reply {
    /// To a question for permission.
    Permission(Answer),
    /// To a form.
    Form(Filled),
    /// To a page. Opening it is the work of whoever says yes.
    Page(Consent),
    /// The place of the chosen login; `None` if none is wanted.
    Login(Option<usize>),
    /// The terminal is free.
    Terminal,
}

impl Asked {
    /// A question, and where its answer comes out.
    pub fn new(
        number: u64,
        session: Option<SessionId>,
        since: Instant,
        what: What,
    ) -> (Arc<Self>, oneshot::Receiver<Reply>) {
        let (reply, answer) = oneshot::channel();
        (Arc::new(Self { number, session, since, what, reply: Mutex::new(Some(reply)) }), answer)
    }

    /// Answers it. False if it was answered before.
    pub fn reply(&self, reply: Reply) -> bool {
        self.reply.locked().take().is_some_and(|to| to.send(reply).is_ok())
    }
}

/// Puts every question to a person into the events of its session: the decider, asker and chooser of a screen or a server.
#[derive(Debug, Clone)]
pub struct Desk(pub Notes);

impl Decider for Desk {
    fn decide<'a>(&'a self, question: &'a Question) -> Future<'a, Answer> {
        Box::pin(async {
            match self.0.ask(Some(&question.session), What::Permission(Box::new(question.clone()))).await {
                Some(Reply::Permission(answer)) => answer,
                _ => Answer::Refuse,
            }
        })
    }

    fn at_once(&self) -> usize {
        MAX_QUESTIONS
    }
}

impl Asker for Desk {
    fn fill<'a>(&'a self, form: &'a Form) -> Future<'a, Filled> {
        Box::pin(async {
            match self.0.ask(form.session.as_ref(), What::Form(form.clone())).await {
                Some(Reply::Form(filled)) => filled,
                _ => Filled::Cancel,
            }
        })
    }

    fn visit<'a>(&'a self, page: &'a Page) -> Future<'a, Consent> {
        Box::pin(async {
            match self.0.ask(page.session.as_ref(), What::Page(page.clone())).await {
                Some(Reply::Page(consent)) => consent,
                _ => Consent::Cancel,
            }
        })
    }
}

impl Chooser for Desk {
    fn choose<'a>(&'a self, _: &'a str, methods: &'a [Method]) -> Future<'a, Option<usize>> {
        Box::pin(async {
            match self.0.ask(None, What::Login(methods.to_vec())).await {
                Some(Reply::Login(chosen)) => chosen,
                _ => None,
            }
        })
    }

    fn lend(&self) -> Future<'_, Option<Lent>> {
        Box::pin(async {
            let over = Arc::new(Notify::new());
            // Before it is asked for: whoever stops waiting gives it back, too.
            let lent = Lent::until(Arc::clone(&over));
            let reply = self.0.ask(None, What::Terminal(over)).await;
            matches!(reply, Some(Reply::Terminal)).then_some(lent)
        })
    }
}
