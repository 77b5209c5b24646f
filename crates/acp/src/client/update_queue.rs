//! What came for one session and is not read yet: updates and ends of turns in their order, within one byte budget.

use super::budget::Budget;
use super::open_calls::OpenCalls;
use super::turn_state::{Abandoned, TurnState};
use crate::error::{Error, Result};
use crate::options::set_value;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tieline_rpc::Cancel;
use tieline_rpc::sync::{Condition, Lock};
use tieline_schema::{
    Chunk, Command, ConfigOption, ConfigValue, ContentBlock, Message, MessageKind, Meta, PromptResponse,
    SessionNotification, State, StateUpdate, StopReason, ToolCallUpdate, Update, mode_option,
};
use tokio::sync::oneshot;

/// Nothing is added to a longer text that is not read yet, in bytes: whoever reads it has it once more.
const MAX_MERGED_BYTES: usize = 64 << 10;

enum Item {
    /// As it came, and how many bytes it takes.
    Update(Box<SessionNotification>, usize),
    End(Arc<TurnState>, Result<StopReason>),
    /// Whoever waits here learns that everything before it was taken.
    Mark(oneshot::Sender<()>),
}

pub(crate) struct UpdateQueue {
    inner: Mutex<Inner>,
    wake: Condition,
    budget: Arc<Budget>,
    /// How many session objects read it.
    owners: AtomicUsize,
}

#[derive(Default)]
struct Inner {
    items: VecDeque<Item>,
    turns: VecDeque<OpenTurn>,
    state: State,
    asks: Vec<Cancel>,
    options: Vec<ConfigOption>,
    commands: Vec<Command>,
    closed: Option<Error>,
    /// The `_meta` beside the update that was read last.
    update_meta: Option<Meta>,
    calls: OpenCalls,
}

#[allow(clippy::struct_excessive_bools, reason = "each is an independent fact about the turn")]
struct OpenTurn {
    state: Arc<TurnState>,
    /// The agent has taken the prompt (current v2); its next idle state ends the turn.
    accepted: bool,
    /// The session was idle when the prompt was sent.
    from_idle: bool,
    /// Work was seen since the prompt was sent.
    worked: bool,
    /// The idle state came before the answer that accepts the prompt.
    early_end: Option<Result<StopReason>>,
    /// Nobody reads this turn any more.
    abandoned: bool,
    /// The user does not want it any more.
    cancelled: bool,
    /// The words of the prompt, where the agent need not say them back (version 1).
    words: String,
}

impl UpdateQueue {
    pub(crate) fn new(budget: Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { inner: Mutex::default(), wake: Condition::default(), budget, owners: AtomicUsize::new(0) })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.locked()
    }

    /// A session object reads it from now on.
    pub(crate) fn claim(&self) {
        self.owners.fetch_add(1, Ordering::SeqCst);
    }

    /// A session object is gone; true if it was the last.
    pub(crate) fn disclaim(&self) -> bool {
        self.owners.fetch_sub(1, Ordering::SeqCst) == 1
    }

    /// True if a session object reads it.
    pub(crate) fn is_claimed(&self) -> bool {
        self.owners.load(Ordering::SeqCst) > 0
    }

    /// Takes an update, on the reader.
    pub(crate) fn push(&self, told: Box<SessionNotification>, bytes: usize) {
        let mut inner = self.lock();
        let update = &told.update;
        if inner.is_echo(update) {
            return;
        }
        inner.watch(update, bytes);
        let ends = match update {
            Update::State(state) => inner.state_changed(state),
            _ => Vec::new(),
        };
        let unread = inner.turns.front().is_some_and(|turn| turn.abandoned) && is_of_turn(update);
        let merged = !unread && told.meta.is_none() && self.budget.is_tight() && inner.merge(update, &self.budget);
        if !unread && !merged {
            self.budget.take(bytes);
            inner.items.push_back(Item::Update(told, bytes));
        }
        inner.items.extend(ends);
        drop(inner);
        self.wake.notify_all();
    }

    /// Registers a turn before its prompt is sent. Where prompts can't be queued, only one may be open. `said` is the user's
    /// message where the agent won't tell it.
    pub(crate) fn begin(&self, may_queue: bool, said: Option<Message>) -> Result<Arc<TurnState>> {
        let mut inner = self.lock();
        if let Some(error) = &inner.closed {
            return Err(error.clone());
        }
        if !may_queue && !inner.turns.is_empty() {
            return Err(Error::Invalid("a turn is running in this session".into()));
        }
        let state = Arc::new(TurnState::default());
        let blocks = said.iter().filter_map(|said| said.content.set()).flat_map(|blocks| blocks.iter());
        let words = blocks.filter_map(ContentBlock::as_text).collect();
        let from_idle = inner.state.is_idle() && inner.turns.is_empty();
        inner.turns.push_back(OpenTurn {
            state: Arc::clone(&state),
            accepted: false,
            from_idle,
            worked: false,
            early_end: None,
            abandoned: false,
            cancelled: false,
            words,
        });
        if let Some(said) = said {
            let _ = state.message_id.set(said.message_id.clone());
            // It came from here, so it takes nothing of the agent's budget.
            let told = SessionNotification { update: said.into(), ..SessionNotification::default() };
            inner.items.push_back(Item::Update(Box::new(told), 0));
            drop(inner);
            self.wake.notify_all();
        }
        Ok(state)
    }

    /// Takes the answer to a prompt, on the reader: behind the updates that came before it. `ends`: in this dialect it is the end of the
    /// turn.
    pub(crate) fn answered(&self, turn: &Arc<TurnState>, answer: Result<PromptResponse>, ends: bool) {
        let mut inner = self.lock();
        if let Ok(PromptResponse { meta: Some(meta), .. }) = &answer {
            // The end of the turn may have come first.
            turn.meta.locked().get_or_insert_with(|| meta.clone());
        }
        let end = match answer {
            Ok(PromptResponse { stop_reason: Some(reason), .. }) => Some(Ok(reason)),
            Ok(PromptResponse { message_id, .. }) => {
                if let Some(id) = message_id {
                    let _ = turn.message_id.set(id);
                }
                let works = !inner.state.is_idle();
                // Only who told that it works will tell its end: for others nobody waits for ever.
                inner.accept(turn).or_else(|| (ends && !works).then(|| Err(Error::without_stop_reason())))
            }
            Err(error) => Some(Err(error)),
        };
        if let Some(end) = end {
            inner.turns.retain(|open| !Arc::ptr_eq(&open.state, turn));
            inner.items.push_back(Item::End(Arc::clone(turn), end));
        }
        drop(inner);
        self.wake.notify_all();
    }

    /// The next update of a turn; `None` once it has ended.
    pub(crate) async fn next_of(&self, turn: &TurnState) -> Option<Update> {
        let next = self.wake.wait_for(|| if turn.has_ended() { Some(None) } else { self.pop(Some(turn)) });
        next.await.map(|told| told.update)
    }

    /// The next update, in or outside a turn; `None` once the session is closed and everything is read.
    pub(crate) async fn next(&self) -> Option<Update> {
        let next = self.wake.wait_for(|| self.pop(None).or_else(|| self.lock().closed.is_some().then_some(None)));
        next.await.map(|told| told.update)
    }

    /// The next update if it is there already.
    pub(crate) fn try_next(&self) -> Option<Update> {
        self.pop(None).flatten().map(|told| told.update)
    }

    /// All updates that are there, at once: a reader beside this one gets those before them, or those behind.
    pub(crate) fn take_all(&self) -> Vec<Update> {
        let mut inner = self.lock();
        let items = std::mem::take(&mut inner.items);
        items.into_iter().filter_map(|item| self.taken(&mut inner, item)).map(|told| told.update).collect()
    }

    /// Takes the next update, and notes the ends of turns that come before it. `None` if there is none; `Some(None)` if `until` has
    /// ended.
    #[allow(clippy::option_option, reason = "three answers: nothing yet, the end, an update")]
    fn pop(&self, until: Option<&TurnState>) -> Option<Option<Box<SessionNotification>>> {
        loop {
            let mut inner = self.lock();
            let item = inner.items.pop_front()?;
            if let Some(told) = self.taken(&mut inner, item) {
                return Some(Some(told));
            }
            if until.is_some_and(TurnState::has_ended) {
                return Some(None);
            }
        }
    }

    /// The update of an item; of another one what it stands for is done.
    fn taken(&self, inner: &mut Inner, item: Item) -> Option<Box<SessionNotification>> {
        match item {
            Item::Update(mut told, bytes) => {
                inner.update_meta = told.meta.take();
                self.budget.give(bytes);
                return Some(told);
            }
            Item::Mark(waits) => drop(waits.send(())),
            Item::End(turn, result) => {
                turn.finish(result);
                // Others may wait for this end.
                self.wake.notify_all();
            }
        }
        None
    }

    /// Waits until all that is here now was taken, and the reader has come back for more.
    pub(crate) async fn reached(&self) {
        let (waits, reached) = oneshot::channel();
        self.lock().items.push_back(Item::Mark(waits));
        self.wake.notify_all();
        let _ = reached.await;
    }

    /// Waits until the end of a turn was taken by whoever reads.
    pub(crate) async fn ended(&self, turn: &TurnState) {
        self.wake.wait_for(|| turn.has_ended().then_some(())).await;
    }

    /// Waits until the agent has accepted a prompt, or the end of its turn is here, read or not.
    pub(crate) async fn accepted(&self, turn: &Arc<TurnState>) -> Result<()> {
        let ended = |item: &Item| match item {
            Item::End(ended, result) if Arc::ptr_eq(ended, turn) => Some(result.clone()),
            _ => None,
        };
        let answer = || {
            let inner = self.lock();
            match inner.turns.iter().find(|open| Arc::ptr_eq(&open.state, turn)) {
                Some(open) => open.accepted.then_some(Ok(())),
                None => turn.result().or_else(|| inner.items.iter().find_map(ended)).map(|end| end.map(drop)),
            }
        };
        self.wake.wait_for(answer).await
    }

    /// Nobody reads this turn any more: what it says is thrown away, everything else is kept.
    pub(crate) fn abandon(&self, turn: &Arc<TurnState>) -> Abandoned {
        let mut inner = self.lock();
        let Some(at) = inner.turns.iter().position(|open| Arc::ptr_eq(&open.state, turn)) else {
            return Abandoned::Over;
        };
        let open = &mut inner.turns[at];
        open.abandoned = true;
        if at > 0 && !open.accepted {
            return Abandoned::Waiting;
        }
        let budget = &self.budget;
        inner.items.retain(|item| match item {
            Item::Update(told, bytes) if is_of_turn(&told.update) => {
                budget.give(*bytes);
                false
            }
            _ => true,
        });
        Abandoned::Running
    }

    /// Waits until no turn is open.
    pub(crate) async fn idle(&self) {
        self.wake.wait_for(|| self.lock().turns.is_empty().then_some(())).await;
    }

    /// True if a turn is open that nobody reads.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.lock().turns.iter().any(|turn| turn.abandoned)
    }

    /// The session is over: open turns end with `error`.
    pub(crate) fn close(&self, error: &Error) {
        let mut inner = self.lock();
        inner.closed.get_or_insert_with(|| error.clone());
        for turn in std::mem::take(&mut inner.turns) {
            inner.items.push_back(Item::End(turn.state, Err(error.clone())));
        }
        drop(inner);
        self.wake.notify_all();
    }

    /// A question to the user is open; the flag is raised when the turn is cancelled.
    pub(crate) fn ask(&self) -> Cancel {
        let cancel = Cancel::default();
        let mut inner = self.lock();
        // A question that crossed the cancel is answered like those before it.
        if inner.turns.front().is_some_and(|turn| turn.cancelled) {
            cancel.cancel();
        } else {
            inner.asks.push(cancel.clone());
        }
        cancel
    }

    /// Fills in what a question leaves out about a call.
    pub(crate) fn fill_in(&self, call: &mut ToolCallUpdate) {
        self.lock().calls.fill(call);
    }

    /// What is known of a call is not all of it: no question may be judged by that.
    pub(crate) fn forget_call(&self, id: &str) {
        self.lock().calls.forget(id);
    }

    pub(crate) fn asked(&self) {
        // Flags that only we hold are done with; those that were raised too.
        self.lock().asks.retain(|ask| !ask.is_cancelled());
    }

    /// Answers every open question with `cancelled`.
    pub(crate) fn cancel_asks(&self) {
        let mut inner = self.lock();
        for turn in &mut inner.turns {
            turn.cancelled = true;
        }
        for ask in std::mem::take(&mut inner.asks) {
            ask.cancel();
        }
    }

    pub(crate) fn set_up(&self, options: Vec<ConfigOption>, commands: Vec<Command>) {
        let mut inner = self.lock();
        // What an update said already is newer than the answer.
        if inner.options.is_empty() {
            inner.options = options;
        }
        if inner.commands.is_empty() {
            inner.commands = commands;
        }
    }

    pub(crate) fn update_meta(&self) -> Option<Meta> {
        self.lock().update_meta.clone()
    }

    pub(crate) fn options(&self) -> Vec<ConfigOption> {
        self.lock().options.clone()
    }

    pub(crate) fn set_options(&self, options: Vec<ConfigOption>) {
        self.lock().options = options;
    }

    pub(crate) fn commands(&self) -> Vec<Command> {
        self.lock().commands.clone()
    }

    /// What the session is doing: as told, or as the open turns and questions show.
    pub(crate) fn state(&self) -> State {
        let inner = self.lock();
        if !inner.asks.is_empty() {
            State::RequiresAction
        } else if inner.state.is_idle() && !inner.turns.is_empty() {
            State::Running
        } else {
            inner.state.clone()
        }
    }
}

impl Drop for UpdateQueue {
    fn drop(&mut self) {
        for item in &self.lock().items {
            if let Item::Update(_, bytes) = item {
                self.budget.give(*bytes);
            }
        }
    }
}

impl Inner {
    /// True if an agent of version 1 says back what the user said: that was told already.
    fn is_echo(&self, update: &Update) -> bool {
        let Update::Chunk(Chunk { kind: MessageKind::User, content: ContentBlock::Text(text), .. }) = update else {
            return false;
        };
        let text = text.text.trim();
        self.turns.front().is_some_and(|turn| !turn.words.is_empty() && turn.words.contains(text))
    }

    /// Keeps what the session object can be asked for.
    fn watch(&mut self, update: &Update, bytes: usize) {
        match update {
            Update::ConfigOptions(list) => self.options.clone_from(&list.options),
            Update::Commands(list) => self.commands.clone_from(&list.commands),
            Update::Mode(mode) => {
                if let Some(id) = mode_option(&self.options).map(|option| option.config_id.clone()) {
                    set_value(&mut self.options, &id, &ConfigValue::Id(mode.mode_id.clone()));
                }
            }
            Update::State(_) => {}
            _ => {
                self.calls.note(update, bytes);
                if let Some(turn) = self.turns.front_mut() {
                    turn.worked = true;
                }
            }
        }
    }

    /// An idle state ends every turn that was accepted: no work is left, also none of a prompt that the agent took into
    /// running work. One without a turn ends nothing.
    fn state_changed(&mut self, update: &StateUpdate) -> Vec<Item> {
        let was_idle = std::mem::replace(&mut self.state, update.state.clone()).is_idle();
        let Some(turn) = self.turns.front_mut() else { return Vec::new() };
        let State::Idle { stop_reason, error } = &update.state else {
            turn.worked = true;
            return Vec::new();
        };
        let result = match (stop_reason, error) {
            (Some(StopReason::Error), Some(error)) => {
                let wire =
                    crate::WireError { code: error.code, message: error.message.clone(), data: error.data.clone() };
                Err(Error::Wire(wire))
            }
            (Some(StopReason::Error), None) => Err(Error::Wire(crate::WireError::internal())),
            (reason, _) => Ok(reason.clone().unwrap_or_default()),
        };
        if was_idle && stop_reason.is_none() {
            // Said again, not a new end.
            return Vec::new();
        }
        if turn.from_idle && !turn.accepted && (turn.worked || !was_idle) && stop_reason.is_some() {
            turn.early_end = Some(result.clone());
        }
        let (over, open): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.turns).into_iter().partition(|turn| turn.accepted);
        for turn in over.iter().filter(|_| update.meta.is_some()) {
            turn.state.meta.locked().clone_from(&update.meta);
        }
        self.turns = open;
        if let (false, Some(next)) = (over.is_empty(), self.turns.front_mut()) {
            // A prompt behind them now starts from idle.
            (next.from_idle, next.worked) = (true, false);
        }
        over.into_iter().map(|turn| Item::End(turn.state, result.clone())).collect()
    }

    /// The agent has taken a prompt. Gives its end if that came first.
    fn accept(&mut self, turn: &Arc<TurnState>) -> Option<Result<StopReason>> {
        let open = self.turns.iter_mut().find(|open| Arc::ptr_eq(&open.state, turn))?;
        open.accepted = true;
        open.early_end.take()
    }

    /// Adds a chunk of text to the unread one before it. Keeps a slow reader's backlog small.
    fn merge(&mut self, update: &Update, budget: &Budget) -> bool {
        let Some(Item::Update(last, weight)) = self.items.back_mut() else { return false };
        let SessionNotification { update: Update::Chunk(last), meta: None, .. } = &mut **last else { return false };
        let Update::Chunk(Chunk { kind, message_id, content: ContentBlock::Text(text), meta: None, .. }) = update
        else {
            return false;
        };
        let (Chunk { kind: of, message_id: id, content: ContentBlock::Text(last), meta: None, .. }, None) =
            (last, &text.annotations)
        else {
            return false;
        };
        if of != kind || id != message_id || last.text.len() > MAX_MERGED_BYTES {
            return false;
        }
        last.text.push_str(&text.text);
        *weight += text.text.len();
        budget.take(text.text.len());
        true
    }
}

/// True for what a turn says, in contrast to what holds for the session.
fn is_of_turn(update: &Update) -> bool {
    !matches!(
        update,
        Update::Commands(_)
            | Update::ConfigOptions(_)
            | Update::Mode(_)
            | Update::SessionInfo(_)
            | Update::Usage(_)
            | Update::State(_)
            | Update::Notice(_)
            | Update::Other(_)
    )
}
