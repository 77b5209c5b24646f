//! What stands above a connection: whoever takes the peer's calls, and hears what was passed over.

use crate::responder::Responder;
use crate::{Error, IdRule};
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use tieline_json::Reader;

/// What stands above the connection and takes the peer's calls.
///
/// Both `request` and `notification` run on the reader, in the order of arrival, and must not block: they do the
/// bookkeeping that depends on order and spawn the rest.
pub trait Service: Send + Sync + 'static {
    /// A decoded call.
    type Call: Send + 'static;

    /// Reads the parameters of `method`; `Ok(None)` if there is no such method.
    fn decode(&self, method: &str, params: &mut Reader<'_>) -> Result<Option<Self::Call>, tieline_json::Error>;

    /// Takes a request. Dropping the responder answers it with an internal error.
    fn request(&self, call: Self::Call, responder: Responder);

    /// Takes a notification that came as so many bytes.
    fn notification(&self, call: Self::Call, bytes: usize);

    /// Where a long text stands in a message, without its quotes, if several messages with a part of it each say the same as this one:
    /// then it is taken like that, and [`Self::pause`] is asked between two of them. Asked for messages of more than 1 MiB; `None` takes it
    /// as it is.
    fn parted(&self, _message: &str) -> Option<Range<usize>> {
        None
    }

    /// Which request ids are allowed at this moment.
    fn id_rule(&self) -> IdRule {
        IdRule::Liberal
    }

    /// Why a request can't be taken now, whatever it is; asked for requests that are unknown or can't be read.
    fn refusal(&self, _method: &str) -> Option<Error> {
        None
    }

    /// Something of the peer's was passed over; whoever is in charge should hear of it. May come in floods.
    fn dropped(&self, what: Dropped<'_>) {
        what.log();
    }

    /// True if later entries of a batch must wait for the answer to this method.
    fn is_lifecycle(&self, _method: &str) -> bool {
        false
    }

    /// Something to wait for before the next message is read, because what was read already is too much.
    fn pause(&self) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        None
    }
}

/// What was passed over. Words about it may have a name in them that the peer made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped<'a> {
    /// A line that is no message at all.
    Line(&'a [u8]),
    /// It was over a limit of ours, so that nobody has read it.
    Over(&'a str),
    /// It is not what it should be.
    Bad(&'a str),
}

impl Dropped<'_> {
    /// Writes it into the log; for those who have nobody else to tell.
    pub fn log(self) {
        match self {
            Self::Line(line) => tracing::warn!(bytes = line.len(), "a line that is no message was passed over"),
            Self::Over(what) | Self::Bad(what) => tracing::warn!(what, "passed over"),
        }
    }
}
