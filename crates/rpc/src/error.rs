//! The error object of JSON-RPC, and why a call can fail without one.

use std::fmt;
use tieline_json::{Raw, Reader, write_i64, write_raw, write_str};

/// So much of a text goes into the details of an error.
const MAX_TOLD_CHARACTERS: usize = 2000;

/// An error as it goes over the wire, and what handlers return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The kind of error.
    pub code: i64,
    /// One short sentence.
    pub message: String,
    /// Details for programs.
    pub data: Option<Raw>,
}

impl Error {
    /// Any error.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// -32700: the bytes are not JSON.
    pub fn parse() -> Self {
        Self::new(-32700, "Parse error")
    }

    /// -32600: JSON, but no request, or one that is not allowed now.
    pub fn invalid_request() -> Self {
        Self::new(-32600, "Invalid Request")
    }

    /// -32601: no such method here.
    pub fn method_not_found(method: &str) -> Self {
        Self::new(-32601, "Method not found").with("method", method)
    }

    /// -32602: the method is known, its parameters are not right.
    pub fn invalid_params(why: impl fmt::Display) -> Self {
        Self::new(-32602, "Invalid params").with("reason", &why.to_string())
    }

    /// -32603: something went wrong inside.
    pub fn internal() -> Self {
        Self::new(-32603, "Internal error")
    }

    /// -32800: the caller withdrew the request.
    pub fn cancelled() -> Self {
        Self::new(-32800, "Request cancelled")
    }

    /// Puts details in.
    #[must_use]
    pub fn data(mut self, data: Raw) -> Self {
        self.data = Some(data);
        self
    }

    /// Puts one text detail in, as an object with one key. Of a long one only the beginning: it may be what the peer made up.
    #[must_use]
    pub fn with(self, key: &str, text: &str) -> Self {
        let mut out = vec![b'{'];
        write_str(&mut out, key);
        out.push(b':');
        match text.char_indices().nth(MAX_TOLD_CHARACTERS) {
            Some((at, _)) => write_str(&mut out, &format!("{}…", &text[..at])),
            None => write_str(&mut out, text),
        }
        out.push(b'}');
        let data = String::from_utf8(out).ok().and_then(|text| Raw::new(text).ok());
        Self { data, ..self }
    }

    /// Appends the error as JSON.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"code\":");
        write_i64(out, self.code);
        out.extend_from_slice(b",\"message\":");
        write_str(out, &self.message);
        if let Some(data) = &self.data {
            out.extend_from_slice(b",\"data\":");
            write_raw(out, data.get());
        }
        out.push(b'}');
    }

    /// Reads an error object. Peers get this wrong in many ways, and an error must not get lost for it: what is missing is
    /// filled in.
    pub fn read(text: &str) -> Self {
        let mut error = Self::new(-32603, "");
        if read_object(text, &mut error).is_err() && error.message.is_empty() {
            "The peer sent an error that is not readable".clone_into(&mut error.message);
        }
        error
    }
}

fn read_object(text: &str, error: &mut Error) -> Result<(), tieline_json::Error> {
    let mut json = Reader::new(text);
    let mut object = json.object()?;
    while let Some(key) = object.key(&mut json)? {
        let mark = json.mark();
        let read = match &*key {
            "code" => json.integer().map(|code| error.code = code),
            "message" => json.string().map(|message| error.message = message.into_owned()),
            "data" => json.keep().map(|data| error.data = (!data.is_null()).then_some(data)),
            _ => json.skip(),
        };
        if read.is_err() {
            json.rewind(mark);
            json.skip()?;
        }
    }
    Ok(())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)?;
        match &self.data {
            Some(data) => write!(f, ": {data}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Why a call got no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The peer answered with an error.
    Answered(Error),
    /// The connection ended first.
    Closed,
    /// The answer is not what the method promises.
    Unreadable(tieline_json::Error),
    /// The deadline passed; the request was withdrawn.
    TimedOut,
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered(error) => error.fmt(f),
            Self::Closed => f.write_str("the connection ended before the answer came"),
            Self::Unreadable(error) => write!(f, "the answer is not readable: {error}"),
            Self::TimedOut => f.write_str("no answer in time"),
        }
    }
}

impl std::error::Error for CallError {}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Answered(error) => error,
            other => Self::internal().with("reason", &other.to_string()),
        }
    }
}
