//! Which dialect a connection speaks: the agent's choice, the client's reading of it, and what to try next.

use crate::{Dialect, ErrorCode, HelloForm, InitializeRequest, InitializeResponse, data_field};
use std::fmt;
use std::str::FromStr;
use tieline_json::{Error, Raw};

/// Which dialects a program wants to speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// Whatever the other side speaks.
    #[default]
    Auto,
    /// One dialect. With [`Dialect::V1`], version 2 is switched off.
    Only(Dialect),
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" => Ok(Self::Auto),
            text => {
                text.parse().map(Self::Only).map_err(|_| format!("unknown protocol `{text}`: use auto, 1, 2 or 2-seed"))
            }
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Only(dialect) => dialect.fmt(f),
        }
    }
}

/// What an agent chose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chosen {
    /// What is spoken from now on.
    pub dialect: Dialect,
    /// The version in the answer.
    pub version: u16,
    /// The answer also has the keys of version 1 (see [`crate::HelloKeys::old_capabilities`]), and the client may have
    /// offered files and terminals.
    pub legacy_keys: bool,
}

/// Why an agent cannot go on from a hello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The `info` that current v2 requires is malformed: invalid params.
    BadInfo(Error),
    /// The client speaks nothing that we do.
    Unsupported {
        /// What it asked for.
        requested: u16,
        /// What we speak.
        supported: Vec<u16>,
    },
}

impl Refusal {
    /// The error to answer with.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::BadInfo(_) => ErrorCode::INVALID_PARAMS,
            Self::Unsupported { .. } => ErrorCode::UNSUPPORTED_VERSION,
        }
    }
}

/// The agent's choice. `protocol` is what the agent wants: an override decides even against the keys that came.
pub fn choose(hello: &InitializeRequest, protocol: Protocol) -> Result<Chosen, Refusal> {
    let requested = hello.protocol_version;
    let dialect = match protocol {
        Protocol::Only(Dialect::V2) if requested < 2 => {
            return Err(Refusal::Unsupported { requested, supported: vec![2] });
        }
        Protocol::Only(dialect) => dialect,
        Protocol::Auto if requested < 2 => Dialect::V1,
        Protocol::Auto if hello.keys.info => Dialect::V2,
        Protocol::Auto => Dialect::V2Seed,
    };
    if let (Dialect::V2, Some(error)) = (dialect, &hello.bad_info) {
        return Err(Refusal::BadInfo(error.clone()));
    }
    let legacy_keys = dialect == Dialect::V2Seed && hello.keys.old_capabilities;
    Ok(Chosen { dialect, version: dialect.version(), legacy_keys })
}

/// What a client makes of the answer to its hello.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// This is spoken from now on.
    Dialect(Dialect),
    /// We do not speak this version: close, and tell the user.
    Unsupported(u16),
}

/// The client's reading of the answer. `protocol` is what the client wants.
pub fn settle(answer: &InitializeResponse, protocol: Protocol) -> Settled {
    let version = answer.protocol_version;
    let keys = answer.keys;
    Settled::Dialect(match (protocol, version) {
        (Protocol::Only(dialect), version) if dialect.version() == version => dialect,
        (Protocol::Auto, 1) => Dialect::V1,
        (Protocol::Auto, 2) if keys.info => Dialect::V2,
        // An agent of version 1 that only sends our number back.
        (Protocol::Auto, 2) if keys.old_capabilities && !keys.capabilities => Dialect::V1,
        (Protocol::Auto, 2) => Dialect::V2Seed,
        _ => return Settled::Unsupported(version),
    })
}

/// The hello to start with.
pub fn first_hello(protocol: Protocol) -> HelloForm {
    match protocol {
        Protocol::Auto => HelloForm::Superset,
        Protocol::Only(dialect) => HelloForm::Only(dialect),
    }
}

/// The hello to try after `last` was answered with an error; `None` if there is nothing left to try.
pub fn next_hello(protocol: Protocol, last: HelloForm, code: ErrorCode, data: Option<&Raw>) -> Option<HelloForm> {
    if protocol != Protocol::Auto {
        return None;
    }
    let left = match last {
        HelloForm::Superset => &[HelloForm::Only(Dialect::V2), HelloForm::Only(Dialect::V1)][..],
        HelloForm::Only(Dialect::V2 | Dialect::V2Seed) => &[HelloForm::Only(Dialect::V1)],
        HelloForm::Only(Dialect::V1) => &[],
    };
    match code {
        ErrorCode::UNSUPPORTED_VERSION => {
            let supported: Vec<u16> = data_field(data?, "supported")?;
            left.iter().copied().find(|form| supported.contains(&form.version()))
        }
        ErrorCode::INVALID_PARAMS | ErrorCode::INVALID_REQUEST => left.first().copied(),
        _ => None,
    }
}
