//! All that happened in a session, put together from the journal: turns with what was said, done, decided and changed.

use super::{Changed, Decision, Entry, HowAsked, Kept, Outcome, Result, Said};
use std::collections::HashSet;
use std::ops::Range;
use tieline::schema::{ContentBlock, Dialect, Item, Raw, StopReason, Transcript};
use tieline_host::snapshot::Unkept;
use tieline_host::store::{Event, Home, State, Stored, Time};

/// Something beside the conversation.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// What was decided.
    Decision(Decision),
    /// What we told the user.
    Said(Said),
    /// A line of another kind: its name and what it holds.
    Other(String, Raw),
}

/// One turn.
#[derive(Debug, Clone)]
pub struct TurnStory {
    /// Its number, from 1; 0 for what came before the first.
    pub number: u64,
    /// When it began.
    pub began: Time,
    /// When it ended.
    pub ended: Option<Time>,
    /// What the user said.
    pub prompt: Vec<ContentBlock>,
    /// Its items in the transcript.
    pub items: Range<usize>,
    /// What else happened, each before the item of this place.
    pub notes: Vec<(usize, Note)>,
    /// The files it changed.
    pub changes: Vec<Changed>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// The reason for its end in the words of the protocol.
    pub stop: Option<StopReason>,
    /// True if its process died and it was closed later.
    pub interrupted: bool,
}

/// A whole session.
#[derive(Debug, Clone)]
pub struct Story {
    /// The session.
    pub entry: Entry,
    /// The conversation.
    pub transcript: Transcript,
    /// Its turns.
    pub turns: Vec<TurnStory>,
    /// The prompts that waited last.
    pub waiting: Vec<Vec<Kept>>,
    /// What can't be read any more, in words.
    pub damage: Option<String>,
}

impl Story {
    pub(super) async fn load(store: &dyn Home, entry: Entry) -> Result<Self> {
        let mut last = 0;
        let mut told = Self {
            entry,
            transcript: Transcript::new(Dialect::V2),
            turns: Vec::new(),
            waiting: Vec::new(),
            damage: None,
        };
        let damage = loop {
            let (page, damage) = store.page(&told.entry.id, last).await?;
            if page.is_empty() {
                break damage;
            }
            for stored in page {
                last = stored.seq;
                told.take(stored);
            }
        };
        // Who comes next writes it down; until then the state says it.
        if let Some(last) = told.turns.last_mut().filter(|last| last.outcome.is_none() && last.stop.is_none()) {
            last.interrupted |= told.entry.state == State::Interrupted;
        }
        told.damage = match damage {
            Some(damage) => Some(damage.to_string()),
            None => store.lost(&told.entry.id).await?,
        };
        Ok(told)
    }

    /// The items of a turn.
    pub fn items(&self, turn: &TurnStory) -> &[Item] {
        self.transcript.items().get(turn.items.clone()).unwrap_or_default()
    }

    fn take(&mut self, stored: Stored) {
        if matches!(stored.event, Event::TurnBegin) {
            // What an agent without ids for its messages says now is another message.
            self.transcript.end_run();
        }
        let place = self.transcript.items().len();
        if matches!(stored.event, Event::TurnBegin) || self.turns.is_empty() {
            self.turns.push(TurnStory {
                number: stored.turn,
                began: stored.time,
                ended: None,
                prompt: Vec::new(),
                items: place..place,
                notes: Vec::new(),
                changes: Vec::new(),
                outcome: None,
                stop: None,
                interrupted: false,
            });
        }
        let Some(turn) = self.turns.last_mut() else { return };
        match stored.event {
            Event::Prompt { content, .. } => turn.prompt = content,
            Event::Update(update) => {
                self.transcript.apply(&update);
                turn.items.end = self.transcript.items().len();
            }
            Event::Permission { tool_call_id, decision } => {
                let mut decision: Decision = decision.parse().unwrap_or_default();
                decision.tool_call_id = tool_call_id;
                turn.notes.push((place, Note::Decision(decision)));
            }
            Event::TurnEnd { stop, interrupted } => {
                turn.ended = Some(stored.time);
                turn.stop = Some(stop);
                turn.interrupted = interrupted;
            }
            Event::Other { kind, body } => match kind.as_str() {
                super::record::CHANGES => {
                    let mut changed = body.parse::<Vec<Changed>>().unwrap_or_default();
                    let paths: HashSet<&str> = changed.iter().map(|file| &*file.path).collect();
                    // What could not be stored at first was told again when it could.
                    let is_old = |file: &Changed| file.unkept == Some(Unkept::Nowhere) && paths.contains(&*file.path);
                    turn.changes.retain(|file| !is_old(file));
                    // Whoever settles a turn knows less than who told of it before being killed.
                    let known: HashSet<String> = turn.changes.iter().map(|file| file.path.clone()).collect();
                    changed.retain(|file| file.asked != HowAsked::Unknown || !known.contains(&file.path));
                    turn.changes.extend(changed);
                }
                super::record::QUEUE => self.waiting = body.parse().unwrap_or_default(),
                super::record::OUTCOME => turn.outcome = body.parse().ok(),
                super::record::NOTICE => turn.notes.push((place, Note::Said(body.parse().unwrap_or_default()))),
                _ => turn.notes.push((place, Note::Other(kind, body))),
            },
            _ => {}
        }
    }
}
