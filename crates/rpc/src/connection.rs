//! The driver: runs the machine over a transport, and reads in order.

use crate::dispatcher::Dispatcher;
use crate::machine::{Machine, Ticket};
use crate::outbox::Outbox;
use crate::parts::{MAX_WHOLE_BYTES, Parts};
use crate::peer::{Peer, Waiter};
use crate::responder::write_error;
use crate::service::Service;
use crate::sync::{Condition, Lock};
use crate::transport::{Event, FrameReader, FrameWriter, Transport};
use crate::{CallError, Cancel, Error, Id};
use std::sync::{Arc, Mutex, MutexGuard};

/// The method that withdraws a request, in both directions.
pub const CANCEL_METHOD: &str = "$/cancel_request";

/// Limits of a connection.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Arrays are refused as a whole, as today's official SDKs do.
    pub refuse_batches: bool,
    /// Longer arrays are refused as a whole.
    pub batch_entries: usize,
    /// The peer may have this many requests open at a time; more are answered with -32001.
    pub open_requests: usize,
    /// Notifications of the peer that handlers have not heard yet may take so many bytes; then reading waits.
    pub unheard_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { refuse_batches: false, batch_entries: 1000, open_requests: 4096, unheard_bytes: 1024 * 1024 }
    }
}

/// Why a connection ended.
#[derive(Debug)]
pub enum End {
    /// The peer closed its end.
    Eof,
    /// Reading failed.
    Failed(std::io::Error),
    /// The framing could not be followed any more.
    Broken(&'static str),
    /// We were told to stop.
    Stopped,
}

pub(crate) struct Shared {
    pub(crate) outbox: Arc<Outbox>,
    machine: Mutex<Machine<Waiter>>,
    pub(crate) limits: Limits,
    /// The reader has ended; no answer will come any more.
    pub(crate) gone: Cancel,
    pub(crate) idle: Condition,
    stop: Cancel,
}

impl Shared {
    pub(crate) fn machine(&self) -> MutexGuard<'_, Machine<Waiter>> {
        self.machine.locked()
    }

    /// Answers a request, or fills its slot in a batch.
    pub(crate) fn answer(&self, ticket: Ticket, body: impl FnOnce(&mut Vec<u8>)) {
        let mut machine = self.machine();
        let mut ticket = Some(ticket);
        let sent = self.outbox.push_if(|out| match ticket.take() {
            Some(ticket) => {
                let id = ticket.id.clone();
                machine.answer(ticket, out, |out| write_response(out, Some(&id), body))
            }
            None => false,
        });
        if let (Err(_), Some(ticket)) = (sent, &ticket) {
            machine.forget(ticket);
        }
        if machine.is_idle() {
            self.idle.notify_all();
        }
    }

    /// An error that answers nothing in particular.
    pub(crate) fn complain(&self, id: Option<&Id>, error: &Error) {
        let _ = self.outbox.push(|out| write_response(out, id, |out| write_error(out, error)));
    }

    pub(crate) async fn idle(&self) {
        self.idle.wait_for(|| self.machine().is_idle().then_some(())).await;
    }

    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Nobody can send any more: the writer writes what is queued and closes.
        self.outbox.close();
    }
}

fn write_response(out: &mut Vec<u8>, id: Option<&Id>, body: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    match id {
        Some(id) => id.write(out),
        None => out.extend_from_slice(b"null"),
    }
    body(out);
    out.push(b'}');
}

/// A connection whose reading has not started yet.
pub struct Connection {
    reader: FrameReader,
    shared: Arc<Shared>,
}

impl Connection {
    /// Opens a transport. Calls can be made at once; answers come when [`Self::run`] runs.
    pub fn open(transport: Transport, limits: Limits) -> (Peer, Self) {
        let (reader, FrameWriter { outbox }) = transport.open();
        let shared = Arc::new(Shared {
            outbox,
            machine: Mutex::new(Machine::new(limits.open_requests)),
            limits,
            gone: Cancel::default(),
            idle: Condition::default(),
            stop: Cancel::default(),
        });
        (Peer::new(Arc::clone(&shared)), Self { reader, shared })
    }

    /// Reads until the peer closes its end. Then every pending call of ours fails; requests of the peer that are still open
    /// can be answered on.
    pub async fn run<S: Service>(self, service: Arc<S>) -> End {
        let Self { mut reader, shared } = self;
        // However this ends (also when the future is dropped), nobody waits for ever.
        let mut gone = Gone { shared: Arc::clone(&shared), dropped: true };
        let end = Self::read(&mut reader, &shared, service).await;
        gone.dropped = false;
        end
    }

    async fn read<S: Service>(reader: &mut FrameReader, shared: &Arc<Shared>, service: Arc<S>) -> End {
        let dispatcher = Arc::new(Dispatcher { shared: Arc::clone(shared), service });
        let mut waited_for = None;
        // True when the next message can be taken, false if none is to be taken any more.
        let mut ready = async || {
            let ready = async {
                shared.outbox.hold_reader(&mut waited_for).await;
                if let Some(pause) = dispatcher.service.pause() {
                    pause.await;
                }
            };
            tokio::select! {
                biased;
                () = ready => true,
                () = shared.stop.cancelled() => false,
            }
        };
        loop {
            if !ready().await {
                return End::Stopped;
            }
            let event = tokio::select! {
                biased;
                event = reader.next() => event,
                () = shared.stop.cancelled() => return End::Stopped,
            };
            match event {
                Event::Frame(at) if at.len() > MAX_WHOLE_BYTES => {
                    let frame = reader.take(at);
                    let text = std::str::from_utf8(&frame).ok().and_then(|text| dispatcher.service.parted(text));
                    let Some(text) = text else {
                        dispatcher.frame(&frame);
                        continue;
                    };
                    for part in Parts::new(frame, text) {
                        dispatcher.frame(&part);
                        if !ready().await {
                            return End::Stopped;
                        }
                    }
                }
                Event::Frame(at) => dispatcher.frame(reader.bytes(at)),
                Event::Last(at) => dispatcher.last(reader.bytes(at)),
                Event::TooLong(at) => dispatcher.too_long(reader.bytes(at)),
                Event::Broken(why) => {
                    tracing::warn!(why, "the stream can't be followed any more");
                    shared.complain(None, &Error::parse().with("reason", why));
                    return End::Broken(why);
                }
                Event::End(None) => return End::Eof,
                Event::End(Some(error)) => return End::Failed(error),
            }
        }
    }
}

struct Gone {
    shared: Arc<Shared>,
    /// Reading did not end by itself: the owner has dropped the connection.
    dropped: bool,
}

impl Drop for Gone {
    fn drop(&mut self) {
        // The flag first: a call that comes in between sees it and withdraws itself.
        self.shared.gone.cancel();
        let waiters = self.shared.machine().abandon();
        for waiter in waiters {
            waiter(Err(CallError::Closed));
        }
        if self.dropped {
            self.shared.machine().withdraw_all();
            self.shared.outbox.close();
        }
    }
}
