//! The id of a session: shared, because every message of a session names it.

use crate::{Decode, Encode, Writer};
use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use tieline_json::{Error, Reader, write_str};

/// Names a session. Cloning it copies a pointer, not the text.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SessionId {
    fn default() -> Self {
        Self(Arc::from(""))
    }
}

impl Deref for SessionId {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

// Hash, Eq and Ord of an `Arc<str>` are those of the text, as `Borrow` demands.
impl Borrow<str> for SessionId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for SessionId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for SessionId {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for SessionId {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Decode for SessionId {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        json.string().map(|text| Self(text.into()))
    }
}

impl Encode for SessionId {
    fn encode(&self, out: &mut Writer<'_>) {
        write_str(out.out, &self.0);
    }
}
