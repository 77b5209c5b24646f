//! What can go wrong, told for people; and how it is told to the peer.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tieline_rpc::{CallError, Closed};
use tieline_schema::{AuthMethod, Dialect, ErrorCode, Raw, data_field};

/// The error object of JSON-RPC, as the peer sees it.
pub use tieline_rpc::Error as WireError;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something did not work.
///
/// What an implementation meets itself (`io::Error`, `serde_json::Error`, any boxed error, with the feature `anyhow` also those) becomes one
/// with `?`: [`Error::Internal`], which keeps its cause as [`source`](std::error::Error::source).
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// An error answer: what the peer said, or what a handler wants the peer to be told.
    Wire(WireError),
    /// The user has to log in first: an answer of -32000, in every dialect. A handler says it with [`Error::auth_required`] or
    /// [`Error::login_needed`]. A client gets it from whatever it asked, also as the end of a turn.
    AuthRequired {
        /// What was said, in the agent's words.
        error: WireError,
        /// The ways to log in: those that the answer names, or else those of the hello. A handler leaves them to the engine.
        methods: Vec<AuthMethod>,
    },
    /// The other side does not offer this, so it was not asked.
    Unsupported(String),
    /// The version of the protocol that was agreed on has no words for this, so it was not asked.
    NotInDialect {
        /// What was wanted.
        what: &'static str,
        /// What is spoken.
        dialect: Dialect,
        /// What to do about it: in words for whoever writes the program.
        way_out: &'static str,
    },
    /// What was asked for makes no sense, so it was not sent.
    Invalid(String),
    /// The connection ended.
    Closed(String),
    /// No answer came in time; the request was withdrawn.
    TimedOut {
        /// What was waited for.
        what: String,
        /// How long.
        after: Duration,
    },
    /// The work is no longer wanted.
    Cancelled,
    /// The turn has ended; nothing can be added to it.
    TurnOver,
    /// The answer can't be read.
    Unreadable(String),
    /// The other side speaks only versions that we don't.
    Version(String),
    /// A program could not be started.
    Start(String),
    /// Something failed inside an implementation. The peer is told no more than that; the cause is logged and kept.
    Internal(Cause),
}

/// What lies behind an [`Error::Internal`]. Two are equal if their words are.
#[derive(Clone)]
pub struct Cause(Arc<Boxed>);

type Boxed = Box<dyn std::error::Error + Send + Sync>;

impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error {
    /// Any error answer.
    pub fn wire(code: i64, message: impl Into<String>) -> Self {
        Self::Wire(WireError::new(code, message))
    }

    /// -32602 with a reason.
    pub fn invalid_params(why: impl fmt::Display) -> Self {
        Self::Wire(WireError::invalid_params(why))
    }

    /// -32600 with a reason for programs.
    pub fn invalid_request(reason: &str) -> Self {
        Self::Wire(WireError::invalid_request().with("reason", reason))
    }

    /// -32601.
    pub fn method_not_found(method: &str) -> Self {
        Self::Wire(WireError::method_not_found(method))
    }

    /// -32002 for a session.
    pub fn unknown_session(id: &str) -> Self {
        Self::Wire(WireError::new(-32002, "Resource not found").with("sessionId", id))
    }

    /// -32002 for a file or another thing with an address.
    pub fn not_found(uri: &str) -> Self {
        Self::Wire(WireError::new(-32002, "Resource not found").with("uri", uri))
    }

    /// -32000: log in first. The engine tells the client all the ways of
    /// [`About::auth_methods`](crate::agent::About::auth_methods).
    pub fn auth_required() -> Self {
        let error =
            WireError::new(ErrorCode::AUTH_REQUIRED.0, "Authentication required").with("reason", "auth_required");
        Self::AuthRequired { error, methods: Vec::new() }
    }

    /// -32000 in these words, with some of the ways to log in that [`About::auth_methods`](crate::agent::About::auth_methods)
    /// lists: those with these ids. The engine tells the client what they are.
    pub fn login_needed(words: impl Into<String>, method_ids: &[String]) -> Self {
        let data = Raw::of(method_ids).ok();
        let error = WireError { data, ..WireError::new(ErrorCode::AUTH_REQUIRED.0, words) };
        Self::AuthRequired { error, methods: Vec::new() }
    }

    /// The same as a client sees it: an agent's -32000 with the ways to log in, if need be those of its `hello`.
    pub(crate) fn of_agent(self, hello: &[AuthMethod]) -> Self {
        match self {
            Self::Wire(error) if error.code == ErrorCode::AUTH_REQUIRED.0 => {
                let named = error.data.as_ref().and_then(|data| data_field(data, "authMethods"));
                Self::AuthRequired { methods: named.unwrap_or_else(|| hello.to_vec()), error }
            }
            other => other,
        }
    }

    /// An error from inside an implementation, or a few words about one. The cause goes to the log, not to the peer.
    pub fn internal(cause: impl Into<Boxed>) -> Self {
        let cause = cause.into();
        tracing::error!(%cause, "internal error");
        Self::Internal(Cause(Arc::new(cause)))
    }

    /// What the peer is told.
    pub fn to_wire(&self) -> WireError {
        match self {
            Self::Wire(error) | Self::AuthRequired { error, .. } => error.clone(),
            Self::Cancelled => WireError::cancelled(),
            Self::Invalid(why) => WireError::invalid_params(why),
            Self::Internal(_) => WireError::internal(),
            other => WireError::internal().with("reason", &other.to_string()),
        }
    }

    /// Names what was being done when a call failed.
    pub(crate) fn of_call(error: CallError, what: &str, after: Duration) -> Self {
        match error {
            CallError::Answered(error) => Self::Wire(error),
            CallError::Closed => Self::Closed(format!("{what}: the connection ended before the answer came")),
            CallError::Unreadable(error) => Self::Unreadable(format!("{what}: the answer is not readable: {error}")),
            CallError::TimedOut => Self::TimedOut { what: what.to_owned(), after },
        }
    }

    /// The answer to a prompt that ends nothing.
    pub(crate) fn without_stop_reason() -> Self {
        let error = tieline_json::Error::missing("stopReason");
        Self::of_call(CallError::Unreadable(error), "session/prompt", Duration::ZERO)
    }

    /// The code of an error answer.
    pub fn code(&self) -> Option<i64> {
        match self {
            Self::Wire(error) | Self::AuthRequired { error, .. } => Some(error.code),
            Self::Internal(_) => Some(-32603),
            _ => None,
        }
    }

    /// The details of an error answer.
    pub fn data(&self) -> Option<&Raw> {
        match self {
            Self::Wire(error) | Self::AuthRequired { error, .. } => error.data.as_ref(),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wire(error) | Self::AuthRequired { error, .. } => error.fmt(f),
            Self::Unsupported(what) => write!(f, "the other side does not offer {what}"),
            Self::NotInDialect { what, dialect, way_out } => {
                write!(f, "version {dialect} of the protocol has no words for {what}: {way_out}")
            }
            Self::Invalid(why) | Self::Closed(why) | Self::Unreadable(why) | Self::Version(why) | Self::Start(why) => {
                f.write_str(why)
            }
            Self::TimedOut { what, after } => write!(f, "{what}: no answer after {} s", after.as_secs_f32()),
            Self::Cancelled => f.write_str("cancelled"),
            Self::TurnOver => f.write_str("the turn is over"),
            Self::Internal(Cause(cause)) => cause.fmt(f),
        }
    }
}

/// For people, too: it is what a `main` that returns an error prints. The words, then the causes behind them.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        // The first cause of an internal error is the words already.
        let mut cause = match self {
            Self::Internal(Cause(cause)) => cause.source(),
            _ => None,
        };
        while let Some(error) = cause {
            write!(f, "\ncaused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Internal(Cause(cause)) => Some(&***cause),
            _ => None,
        }
    }
}

impl From<WireError> for Error {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<Closed> for Error {
    fn from(closed: Closed) -> Self {
        Self::Closed(closed.to_string())
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::internal(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::internal(error)
    }
}

impl From<Boxed> for Error {
    fn from(error: Boxed) -> Self {
        Self::internal(error)
    }
}

#[cfg(feature = "anyhow")]
impl From<anyhow::Error> for Error {
    fn from(error: anyhow::Error) -> Self {
        Self::internal(error)
    }
}
