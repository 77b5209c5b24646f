//! Something between a client and an agent: it sees every message, may rewrite it, answer it itself or hold it back.
//!
//! What it does not touch goes on byte for byte: unknown methods, `_meta`, ids, batches, withdrawn requests. It works in every dialect, and
//! the two sides may have different framings.
//!
//! ```no_run
//! use tieline::proxy::{self, Pass};
//! use tieline::schema::AgentCall;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tieline::Result<()> {
//! proxy::serve_stdio(["my-agent", "--acp"], |message| {
//!     if let Some(AgentCall::Prompt(mut prompt)) = message.call_to_agent() {
//!         eprintln!("prompt: {:?}", prompt.prompt);
//!         prompt.prompt.push("Answer in one sentence.".into());
//!         message.rewrite(&prompt);
//!     }
//!     Pass::On
//! })
//! .await
//! # }
//! ```

mod chain;
mod parts;

pub use chain::chain;

use crate::{Raw, WireError};
use parts::Parts;
use std::collections::HashMap;
#[cfg(all(feature = "process", feature = "stdio"))]
use std::ffi::OsString;
#[cfg(all(feature = "process", feature = "stdio"))]
use tieline_process::ChildProcess;
use tieline_rpc::{Relay, Side, Transport, relay};
use tieline_schema::{
    AgentCall, ClientCall, Decode, Dialect, Encode, InitializeResponse, Protocol, Settled, Writer, settle,
};

/// So many requests that wait for their answer are known by their method. Of more, the answers have none.
const MAX_OPEN_REQUESTS: usize = 65_536;

/// Who sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The client: a call to the agent, or an answer to one of the agent's.
    Client,
    /// The agent.
    Agent,
}

impl Sender {
    fn other(self) -> Self {
        match self {
            Self::Client => Self::Agent,
            Self::Agent => Self::Client,
        }
    }

    fn side(self) -> Side {
        match self {
            Self::Client => Side::One,
            Self::Agent => Side::Other,
        }
    }
}

/// What becomes of a message.
#[derive(Debug, Clone)]
pub enum Pass {
    /// It goes on, as it was or as it was rewritten.
    On,
    /// It ends here. A request that is held back is never answered, unless you answer it later ([`Passing::relay`]).
    HoldBack,
    /// A request is answered here, and does not go on.
    Answer(Raw),
    /// A request is refused here, and does not go on.
    Refuse(WireError),
}

/// A message on its way.
pub struct Passing<'m> {
    from: Sender,
    parts: Parts<'m>,
    /// Of an answer: what it answers.
    answers: Option<String>,
    dialect: Option<Dialect>,
    relay: &'m Relay,
    rewritten: Option<Vec<u8>>,
}

impl std::fmt::Debug for Passing<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passing").field("from", &self.from).field("method", &self.method()).finish_non_exhaustive()
    }
}

impl Passing<'_> {
    /// Who sent it.
    pub fn from(&self) -> Sender {
        self.from
    }

    /// Its method; of an answer, the method that it answers.
    pub fn method(&self) -> Option<&str> {
        self.parts.method.as_deref().or(self.answers.as_deref())
    }

    /// True for an answer to a request.
    pub fn is_answer(&self) -> bool {
        self.parts.method.is_none()
    }

    /// True for a request, which somebody has to answer.
    pub fn is_request(&self) -> bool {
        self.parts.method.is_some() && self.parts.id.is_some()
    }

    /// The dialect that client and agent agreed on; none before they did.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// What a client asks or tells an agent. None for everything else, and if it can't be read.
    pub fn call_to_agent(&self) -> Option<AgentCall> {
        let method = self.parts.method.as_deref().filter(|_| self.from == Sender::Client)?;
        AgentCall::decode(method, &mut tieline_json::Reader::new(self.parts.params.unwrap_or("null"))).ok()?
    }

    /// What an agent asks or tells a client. None for everything else, and if it can't be read.
    pub fn call_to_client(&self) -> Option<ClientCall> {
        let method = self.parts.method.as_deref().filter(|_| self.from == Sender::Agent)?;
        ClientCall::decode(method, &mut tieline_json::Reader::new(self.parts.params.unwrap_or("null"))).ok()?
    }

    /// The result of an answer, as the type that the method has. None for everything else, and if it can't be read.
    pub fn result<T: Decode>(&self) -> Option<T> {
        T::decode(&mut tieline_json::Reader::new(self.parts.result?)).ok()
    }

    /// The params of a call or the result of an answer, as they came.
    pub fn json(&self) -> Option<&str> {
        self.parts.params.or(self.parts.result)
    }

    /// Puts something else in place of the params or the result, in the words of the dialect. Extension fields that the type does not
    /// know, other than `_meta`, are gone then; [`Self::rewrite_json`] can keep them.
    pub fn rewrite(&mut self, value: &impl Encode) {
        let mut out = Vec::new();
        value.encode(&mut Writer { out: &mut out, dialect: self.dialect.unwrap_or(Dialect::V1) });
        self.rewritten = Some(out);
    }

    /// Puts other JSON in place of the params or the result.
    pub fn rewrite_json(&mut self, json: &Raw) {
        self.rewritten = Some(json.get().as_bytes().to_vec());
    }

    /// The way to both sides, for messages of your own, now or later: [`Side::One`] is the client, [`Side::Other`] the agent.
    pub fn relay(&self) -> &Relay {
        self.relay
    }
}

/// Stands between a client and an agent until either ends. `each` sees every message that can be read, in its order.
pub async fn run<F>(client: Transport, agent: Transport, each: F)
where
    F: FnMut(&mut Passing<'_>) -> Pass + Send,
{
    let mut middle = Middle { each, dialect: None, open: HashMap::new() };
    relay(client, agent, move |side, frame, relay| {
        let from = if side == Side::One { Sender::Client } else { Sender::Agent };
        middle.frame(from, frame, relay)
    })
    .await;
}

/// Starts an agent and stands between it and the client that started us: over our standard input and output.
#[cfg(all(feature = "process", feature = "stdio"))]
pub async fn serve_stdio<F>(agent: impl IntoIterator<Item = impl Into<OsString>>, each: F) -> crate::Result<()>
where
    F: FnMut(&mut Passing<'_>) -> Pass + Send,
{
    let spec = crate::client::spec(agent)?;
    let (pipes, child) = ChildProcess::spawn(&spec).await.map_err(|error| crate::Error::Start(error.to_string()))?;
    run(Transport::stdio().detect_framing(), Transport::new(pipes.output, pipes.input), each).await;
    child.shutdown().await;
    Ok(())
}

struct Middle<F> {
    each: F,
    dialect: Option<Dialect>,
    /// What was asked, by whom and with which id, and not answered yet.
    open: HashMap<(Sender, String), String>,
}

/// What becomes of one message of a frame.
enum Done {
    Same,
    Other(Vec<u8>),
    Gone,
}

impl<F: FnMut(&mut Passing<'_>) -> Pass> Middle<F> {
    /// Looks at a frame; false if nothing of it goes on.
    fn frame(&mut self, from: Sender, frame: &mut Vec<u8>, relay: &Relay) -> bool {
        // What can't be read is for the other side to complain about.
        let Ok(text) = std::str::from_utf8(frame) else { return true };
        let done = match parts::entries(text) {
            Some(entries) => self.batch(from, &entries, relay),
            None => self.message(from, text, relay),
        };
        match done {
            Done::Same => true,
            Done::Other(bytes) => {
                *frame = bytes;
                true
            }
            Done::Gone => false,
        }
    }

    fn batch(&mut self, from: Sender, entries: &[&str], relay: &Relay) -> Done {
        let done: Vec<Done> = entries.iter().map(|entry| self.message(from, entry, relay)).collect();
        if done.iter().all(|done| matches!(done, Done::Same)) {
            return Done::Same;
        }
        let left = entries.iter().zip(&done).filter_map(|(entry, done)| match done {
            Done::Same => Some(entry.as_bytes()),
            Done::Other(bytes) => Some(&bytes[..]),
            Done::Gone => None,
        });
        let left = left.collect::<Vec<_>>().join(&b","[..]);
        if left.is_empty() { Done::Gone } else { Done::Other([b"[", &left[..], b"]"].concat()) }
    }

    fn message(&mut self, from: Sender, text: &str, relay: &Relay) -> Done {
        let Some(parts) = Parts::of(text) else { return Done::Same };
        let key = |sender: Sender| parts.id.map(|id| (sender, id.to_owned()));
        let answers = match (&parts.method, key(from.other())) {
            (None, Some(key)) => self.open.remove(&key),
            _ => None,
        };
        self.learn(answers.as_deref(), parts.result);
        let mut passing = Passing { from, parts, answers, dialect: self.dialect, relay, rewritten: None };
        let verdict = (self.each)(&mut passing);
        let Passing { parts, rewritten, .. } = passing;
        let reply = match (verdict, parts.method.as_ref().and(parts.id)) {
            (Pass::On, asked) => {
                if let (Some(id), Some(method), true) = (asked, &parts.method, self.open.len() < MAX_OPEN_REQUESTS) {
                    self.open.insert((from, id.to_owned()), method.clone().into_owned());
                }
                return rewritten.map_or(Done::Same, |value| Done::Other(parts.with(text, &value)));
            }
            (Pass::Answer(result), Some(id)) => Some(parts::answer(id, "result", result.get().as_bytes())),
            (Pass::Refuse(error), Some(id)) => {
                let mut object = Vec::new();
                error.write(&mut object);
                Some(parts::answer(id, "error", &object))
            }
            _ => None,
        };
        if let Some(reply) = reply {
            // If the asker is gone, nobody waits for it.
            let _ = relay.send(from.side(), &reply);
        }
        Done::Gone
    }

    /// What the agent says about itself settles the dialect.
    fn learn(&mut self, answers: Option<&str>, result: Option<&str>) {
        if let (Some("initialize"), Some(result)) = (answers, result)
            && let Ok(answer) = InitializeResponse::decode(&mut tieline_json::Reader::new(result))
            && let Settled::Dialect(dialect) = settle(&answer, Protocol::Auto)
        {
            self.dialect = Some(dialect);
        }
    }
}
