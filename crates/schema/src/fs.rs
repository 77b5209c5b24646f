//! Files that the client reads and writes for the agent (version 1).

use crate::macros::record;
use crate::{Decode, Done, Encode, Meta, SessionId, Writer};
use tieline_json::{Error, Reader};

record! {
    /// Reads a text file (`fs/read_text_file`).
    ReadTextFileRequest {
        /// Which session.
        session_id: SessionId => "sessionId", required;
        /// The file (an absolute path).
        path: String => "path", required;
        /// The first line to read, counted from 1.
        line: Option<u32> => "line", strict;
        /// How many lines to read at most.
        limit: Option<u32> => "limit", strict;
    }
}

record! {
    /// What the file holds.
    ReadTextFileResponse {
        /// The text.
        content: String => "content", required;
    }
}

record! {
    /// Writes a text file (`fs/write_text_file`).
    WriteTextFileRequest {
        /// Which session.
        session_id: SessionId => "sessionId", required;
        /// The file (an absolute path); created if it is missing.
        path: String => "path", required;
        /// The new text.
        content: String => "content", required;
    }
}

/// The file is written: `null` on the wire, and an object is taken as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WriteTextFileResponse {
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

impl Decode for WriteTextFileResponse {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        Done::decode(json).map(|done| Self { meta: done.meta })
    }
}

impl Encode for WriteTextFileResponse {
    fn encode(&self, out: &mut Writer<'_>) {
        match &self.meta {
            None => out.key("null"),
            meta => Done { meta: meta.clone() }.encode(out),
        }
    }
}
