//! The bookkeeping of a connection: our pending calls, the peer's open requests, batches, cancellation. No I/O.

use crate::{Cancel, Id};
use std::collections::{BTreeMap, VecDeque};

/// Where the answer to a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Out as a message of its own.
    Alone,
    /// Into a slot of a batch.
    Slot {
        /// Which batch.
        batch: u64,
        /// Which slot, in the order of the requests.
        slot: usize,
    },
}

/// The right to answer one request, once.
#[derive(Debug)]
pub struct Ticket {
    serial: u64,
    /// The id to answer with.
    pub id: Id,
    place: Place,
}

/// A request of the peer that has no answer yet.
#[derive(Debug)]
struct Open {
    serial: u64,
    id: Id,
    cancel: Option<Cancel>,
}

impl Open {
    fn withdraw(&mut self) {
        self.cancel.get_or_insert_default().cancel();
    }
}

#[derive(Debug, Default)]
struct Batch {
    slots: Vec<Option<Vec<u8>>>,
    unanswered: usize,
    /// All entries have been looked at.
    sealed: bool,
}

/// The bookkeeping; `W` is whoever waits for an answer.
#[derive(Debug)]
pub struct Machine<W> {
    last_call: u64,
    pending: BTreeMap<u64, W>,
    last_serial: u64,
    /// The peer's requests in the order they came, so by serial. Mostly it is the first or the last that is answered.
    open: VecDeque<Open>,
    max_open: usize,
    batches: BTreeMap<u64, Batch>,
}

impl<W> Machine<W> {
    /// Nothing pending; the peer may have `max_open` requests open at a time.
    pub fn new(max_open: usize) -> Self {
        Self {
            last_call: 0,
            pending: BTreeMap::new(),
            last_serial: 0,
            open: VecDeque::new(),
            max_open,
            batches: BTreeMap::new(),
        }
    }

    /// Registers a call of ours. Ids count up from 1 and are never used again.
    pub fn call(&mut self, waiter: W) -> u64 {
        self.last_call += 1;
        self.pending.insert(self.last_call, waiter);
        self.last_call
    }

    /// Takes the waiter of a call, because its answer came or nobody waits any more.
    pub fn settle(&mut self, call: u64) -> Option<W> {
        self.pending.remove(&call)
    }

    /// Takes the waiter that an answer's id names.
    pub fn answered(&mut self, id: &Id) -> Option<W> {
        match id {
            Id::Int(number) => self.settle(u64::try_from(*number).ok()?),
            Id::Text(_) => None,
        }
    }

    /// Takes all waiters, because no answer will come any more.
    pub fn abandon(&mut self) -> Vec<W> {
        std::mem::take(&mut self.pending).into_values().collect()
    }

    /// Registers a request of the peer. Its ticket is an error if too many are open: then answer at once and forget.
    pub fn admit(&mut self, id: Id, place: Place) -> Result<Ticket, Ticket> {
        self.last_serial += 1;
        let ticket = Ticket { serial: self.last_serial, id, place };
        if self.open.len() >= self.max_open {
            return Err(ticket);
        }
        self.open.push_back(Open { serial: ticket.serial, id: ticket.id.clone(), cancel: None });
        Ok(ticket)
    }

    /// Raised when the peer withdraws this request. Made when it is asked for: most requests are answered before anybody does.
    pub fn cancel(&mut self, ticket: &Ticket) -> Cancel {
        let open = self.find(ticket).and_then(|at| self.open.get_mut(at));
        open.map(|open| open.cancel.get_or_insert_default().clone()).unwrap_or_default()
    }

    fn find(&self, ticket: &Ticket) -> Option<usize> {
        self.open.binary_search_by_key(&ticket.serial, |open| open.serial).ok()
    }

    fn close(&mut self, ticket: &Ticket) {
        if let Some(at) = self.find(ticket) {
            self.open.remove(at);
        }
    }

    /// The peer withdraws its request `id`. It still gets its one answer. Unknown and finished ids are ignored.
    pub fn withdraw(&mut self, id: &Id) {
        self.open.iter_mut().filter(|open| open.id == *id).for_each(Open::withdraw);
    }

    /// Withdraws everything the peer has open, because it is gone.
    pub fn withdraw_all(&mut self) {
        self.open.iter_mut().for_each(Open::withdraw);
    }

    /// How many requests of the peer are open.
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// True if no answer is due: no request is open and no batch is unfinished.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.batches.is_empty()
    }

    /// Ends a request. `write` makes the response object, given the buffer it belongs into: `out` for a single request;
    /// for one in a batch, its slot, and `out` gets the whole array once the last slot is filled. True if `out` was used.
    pub fn answer(&mut self, ticket: Ticket, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.close(&ticket);
        match ticket.place {
            Place::Alone => {
                write(out);
                true
            }
            Place::Slot { batch: number, slot } => {
                let Some(batch) = self.batches.get_mut(&number) else { return false };
                let mut object = Vec::new();
                write(&mut object);
                batch.slots[slot] = Some(object);
                batch.unanswered -= 1;
                self.emit(number, out)
            }
        }
    }

    /// Ends a request that can't be answered any more.
    pub fn forget(&mut self, ticket: &Ticket) {
        self.close(ticket);
        if let Place::Slot { batch, .. } = ticket.place {
            self.drop_batch(batch);
        }
    }

    /// Drops a batch whose array can't be sent any more.
    pub fn drop_batch(&mut self, batch: u64) {
        self.batches.remove(&batch);
    }

    /// Starts a batch.
    pub fn open_batch(&mut self) -> u64 {
        self.last_serial += 1;
        self.batches.insert(self.last_serial, Batch::default());
        self.last_serial
    }

    /// A place for the answer to the next entry of a batch.
    pub fn slot(&mut self, batch: u64) -> Place {
        let number = batch;
        let batch = self.batches.entry(batch).or_default();
        batch.slots.push(None);
        batch.unanswered += 1;
        Place::Slot { batch: number, slot: batch.slots.len() - 1 }
    }

    /// All entries have been looked at: once every slot is filled, the array goes out. True if `out` was used.
    pub fn seal(&mut self, batch: u64, out: &mut Vec<u8>) -> bool {
        if let Some(open) = self.batches.get_mut(&batch) {
            open.sealed = true;
        }
        self.emit(batch, out)
    }

    fn emit(&mut self, number: u64, out: &mut Vec<u8>) -> bool {
        if !self.batches.get(&number).is_some_and(|batch| batch.sealed && batch.unanswered == 0) {
            return false;
        }
        let Some(batch) = self.batches.remove(&number) else { return false };
        if batch.slots.is_empty() {
            // Only notifications and responses: nothing is due, not even an empty array.
            return false;
        }
        out.push(b'[');
        for (index, object) in batch.slots.into_iter().flatten().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(&object);
        }
        out.push(b']');
        true
    }
}
