//! The error codes of ACP with their fixed messages, and the data objects that go with them.

use crate::{AuthMethod, Decode, Dialect, Encode, Writer, to_json};
use std::fmt;
use tieline_json::{Error, Raw, Reader};

/// The code of a JSON-RPC error. Any number may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ErrorCode(pub i64);

macro_rules! codes {
    ($( $(#[$doc:meta])* $name:ident = $code:literal, $message:literal; )*) => {
        impl ErrorCode {
            $( $(#[$doc])* pub const $name: ErrorCode = ErrorCode($code); )*

            /// The codes that ACP gives a meaning to.
            pub const KNOWN: &'static [ErrorCode] = &[$(Self::$name),*];

            /// The fixed message of a known code.
            pub const fn message(self) -> Option<&'static str> {
                match self.0 {
                    $( $code => Some($message), )*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    /// Not JSON, or not UTF-8.
    PARSE_ERROR = -32700, "Parse error";
    /// Not a request; or one that may not come now.
    INVALID_REQUEST = -32600, "Invalid Request";
    /// An unknown method, or one that was not offered.
    METHOD_NOT_FOUND = -32601, "Method not found";
    /// Params of another shape, a relative path, an unknown mode or option.
    INVALID_PARAMS = -32602, "Invalid params";
    /// Something broke.
    INTERNAL_ERROR = -32603, "Internal error";
    /// Log in first.
    AUTH_REQUIRED = -32000, "Authentication required";
    /// An unknown session, a missing file, a released terminal.
    RESOURCE_NOT_FOUND = -32002, "Resource not found";
    /// No common version (current v2).
    UNSUPPORTED_VERSION = -32022, "Unsupported protocol version";
    /// The request was withdrawn.
    REQUEST_CANCELLED = -32800, "Request cancelled";
}

impl ErrorCode {
    /// True for the range that implementations may use (rate limits, denied permissions).
    pub const fn is_custom(self) -> bool {
        matches!(self.0, -32099..=-32001) && self.message().is_none()
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The standard `data` objects of errors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ErrorData<'a> {
    /// Goes with [`ErrorCode::METHOD_NOT_FOUND`].
    Method(&'a str),
    /// Goes with [`ErrorCode::RESOURCE_NOT_FOUND`] for a session.
    Session(&'a str),
    /// Goes with [`ErrorCode::RESOURCE_NOT_FOUND`] for a file or another resource.
    Uri(&'a str),
    /// Goes with [`ErrorCode::AUTH_REQUIRED`].
    AuthRequired(&'a [AuthMethod]),
    /// Goes with [`ErrorCode::UNSUPPORTED_VERSION`].
    Versions {
        /// What was asked for.
        requested: u16,
        /// What we speak.
        supported: &'a [u16],
    },
    /// Goes with a code of the custom range: come back after so many seconds.
    RateLimited {
        /// Seconds to wait.
        retry_after: Option<u64>,
        /// What is limited.
        scope: Option<&'a str>,
    },
    /// Goes with a code of the custom range: the user's rules forbid it.
    PermissionDenied {
        /// What was forbidden.
        scope: Option<&'a str>,
    },
    /// Goes with [`ErrorCode::INTERNAL_ERROR`]: where to look in the log.
    Correlation(&'a str),
    /// Any other reason, such as `turn_in_progress`.
    Reason(&'a str),
    /// What is wrong and where; goes with [`ErrorCode::INVALID_PARAMS`].
    Detail(&'a Error),
}

impl ErrorData<'_> {
    /// The data as JSON, ready for an error object.
    pub fn to_raw(&self, dialect: Dialect) -> Option<Raw> {
        Raw::new(to_json(self, dialect)).ok()
    }
}

impl Encode for ErrorData<'_> {
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        match self {
            Self::Method(method) => out.field("\"method\":", method),
            Self::Session(session) => out.field("\"sessionId\":", session),
            Self::Uri(uri) => out.field("\"uri\":", uri),
            Self::AuthRequired(methods) => {
                out.field("\"reason\":", "auth_required");
                out.key("\"authMethods\":");
                out.array(*methods);
                out.key(",");
            }
            Self::Versions { requested, supported } => {
                out.field("\"requested\":", requested);
                out.key("\"supported\":");
                out.array(*supported);
            }
            Self::RateLimited { retry_after, scope } => {
                out.field("\"reason\":", "rate_limited");
                out.field("\"retryAfter\":", retry_after);
                out.field("\"scope\":", scope);
            }
            Self::PermissionDenied { scope } => {
                out.field("\"reason\":", "permission_denied");
                out.field("\"scope\":", scope);
            }
            Self::Correlation(id) => out.field("\"correlationId\":", id),
            Self::Reason(reason) => out.field("\"reason\":", reason),
            Self::Detail(error) => {
                out.field("\"path\":", &error.path());
                out.field("\"detail\":", error.what());
            }
        }
        out.close();
    }
}

/// One key of a data object, if the data is an object and the key holds a `T`.
pub fn data_field<T: Decode>(data: &Raw, name: &str) -> Option<T> {
    let mut json = Reader::new(data.get());
    let mut object = json.object().ok()?;
    while let Some(key) = object.key(&mut json).ok()? {
        if key == name {
            return T::decode(&mut json).ok();
        }
        json.skip().ok()?;
    }
    None
}
