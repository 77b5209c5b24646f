//! What a run hears beside the updates of the agent: what the services did, what is odd, questions that come. Never without bound.

use super::Permissions;
use crate::permission::{Record, Ruling};
use crate::services::{Event, Observer};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::rpc::sync::{Lock, when};
use tieline_host::text::cut;
use tokio::sync::{Notify, oneshot};

/// So many wait to be shown; what comes on top is only counted.
const MAX_WAITING: usize = 1000;
/// So many warnings are told; the rest is counted.
const MAX_WARNINGS: usize = 50;
/// A warning is cut here.
const MAX_WARNING_CHARS: usize = 500;

/// One thing that was heard.
#[derive(Debug)]
pub(super) enum Note {
    /// The services did something.
    Done(Event),
    /// Something is odd.
    Warning(String),
    /// A question comes; to be told when all is shown that came before it.
    Question(oneshot::Sender<()>),
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
    waiting: VecDeque<Note>,
    /// What is not written down yet.
    decisions: VecDeque<Record>,
    permissions: Permissions,
    /// What would have allowed what was refused; the last things first, each once.
    ways: Vec<String>,
    /// What nobody could be asked about, and should have been.
    nobody: Option<String>,
    warnings: Vec<String>,
    more_warnings: u64,
    /// Somebody reads the turn.
    in_turn: bool,
}

impl State {
    fn push(&mut self, note: Note) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(note);
        }
    }
}

impl Notes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.locked()
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
        state.push(Note::Warning(warning));
        drop(state);
        self.0.wake.notify_waiters();
    }

    /// All warnings, and how many were not told.
    pub(super) fn warnings(&self) -> Vec<String> {
        let state = self.state();
        let more = (state.more_warnings > 0).then(|| format!("{} more warnings", state.more_warnings));
        state.warnings.iter().cloned().chain(more).collect()
    }

    /// The next one if it is there already.
    pub(super) fn take(&self) -> Option<Note> {
        self.state().waiting.pop_front()
    }

    /// The next one if it is there already and no question.
    pub(super) fn take_told(&self) -> Option<Note> {
        self.state().waiting.pop_front_if(|note| !matches!(note, Note::Question(_)))
    }

    /// Waits for the next one.
    pub(super) async fn next(&self) -> Note {
        when(&self.0.wake, || self.take()).await
    }

    /// A turn is read from now on, or not any more.
    pub(super) fn turn(&self, is_read: bool) {
        self.state().in_turn = is_read;
    }

    /// The next decision that is not written down yet.
    pub(super) fn decision(&self) -> Option<Record> {
        self.state().decisions.pop_front()
    }

    pub(super) fn permissions(&self) -> Permissions {
        self.state().permissions
    }

    /// What to type to have what was refused.
    pub(super) fn way(&self) -> Option<String> {
        match &self.state().ways[..] {
            [] => None,
            [way] => Some(way.clone()),
            _ => Some("--allow RULE for each, or --allow-all".to_owned()),
        }
    }

    pub(super) fn nobody(&self) -> Option<String> {
        self.state().nobody.clone()
    }
}

impl Observer for Notes {
    fn event(&self, event: &Event) {
        let mut state = self.state();
        if let Event::Decided(record) = event {
            let permissions = &mut state.permissions;
            match record.ruling {
                // Reading is allowed as a matter of course and makes nothing good.
                Ruling::Allowed if record.method == "fs/read_text_file" => {}
                Ruling::Allowed => permissions.allowed += 1,
                Ruling::Refused => permissions.denied += 1,
                Ruling::Cancelled => permissions.cancelled += 1,
            }
            if let Some(way) = record.way().filter(|way| record.ruling == Ruling::Refused && !state.ways.contains(way))
            {
                state.ways.truncate(1);
                state.ways.insert(0, way);
            }
            // They are written down as they are made; only those that were dropped wait for the next one.
            if state.decisions.len() < MAX_WAITING {
                state.decisions.push_back((**record).clone());
            }
            if record.nobody {
                let what = if record.facts.is_empty() { record.title.clone() } else { record.facts.join(", ") };
                state.nobody = Some(what);
            }
        }
        state.push(Note::Done(event.clone()));
        drop(state);
        self.0.wake.notify_waiters();
    }

    fn asking(&self) -> crate::Future<'_, ()> {
        Box::pin(async {
            let (told, shown) = oneshot::channel();
            {
                let mut state = self.state();
                // Where nobody reads there is nothing to wait for.
                if !state.in_turn {
                    return;
                }
                state.push(Note::Question(told));
            }
            self.0.wake.notify_waiters();
            let _ = shown.await;
        })
    }
}
