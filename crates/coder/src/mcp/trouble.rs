//! Why a server can't be used, in words that are safe to show.

use crate::http::innermost;
use crate::text::clean;
use rmcp::ServiceError;
use tieline_process::ChildProcess;

/// As much of a process's last words as is shown, in characters.
const MAX_LAST_CHARACTERS: usize = 1000;

/// Why a server can't be used: one line, and what its process said last.
#[derive(Debug, thiserror::Error)]
#[error("{why}")]
pub struct Trouble {
    /// One line.
    pub why: String,
    /// What its process said last.
    pub said: Option<String>,
}

impl<T: Into<String>> From<T> for Trouble {
    fn from(why: T) -> Self {
        Self { why: why.into(), said: None }
    }
}

/// The last lines of a process's standard error, safe to show.
pub fn last_words(child: &ChildProcess) -> String {
    clean(&child.last_lines().join("\n"), MAX_LAST_CHARACTERS)
}

/// Why a connection did not come about, without the messages that were exchanged.
pub fn in_words(error: &rmcp::service::ClientInitializeError) -> String {
    use rmcp::service::ClientInitializeError as Error;
    match error {
        Error::JsonRpcError(error) => format!("it refused the connection: {}", error.message),
        Error::ConnectionClosed(_) => "it closed the connection".to_owned(),
        Error::TransportError { error, .. } => deepest(error.error.as_ref()),
        Error::ExpectedInitResponse(_)
        | Error::ExpectedInitResult(_)
        | Error::ConflictInitResponseId(..)
        | Error::UncorrelatedErrorResponse { .. } => "its first answer is not that of an MCP server".to_owned(),
        _ => "it speaks no version of MCP that is known here".to_owned(),
    }
}

/// Why a request was not answered.
pub fn refused(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => error.message.to_string(),
        ServiceError::TransportSend(error) => deepest(error.error.as_ref()),
        ServiceError::TransportClosed => "the connection was closed".to_owned(),
        ServiceError::UnexpectedResponse => "the answer does not fit the request".to_owned(),
        error => error.to_string(),
    }
}

/// The innermost cause: the outer ones repeat it, or name parts of ours.
fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let text = innermost(error);
    text.strip_prefix("Client error: ").map(str::to_owned).unwrap_or(text)
}
