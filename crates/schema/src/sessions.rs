//! What is done with sessions as a whole: list, close, delete, set an option; and the answer that only says "done".

use crate::macros::{fields, record};
use crate::{ConfigOption, ConfigValue, Decode, Encode, Meta, Record, SessionId, Writer};
use tieline_json::{Error, Reader};

record! {
    /// Asks for a page of sessions (`session/list`).
    ListRequest {
        /// Only sessions of this directory (an absolute path, compared exactly).
        cwd: Option<String> => "cwd", strict;
        /// Where the last page ended. Opaque; also the empty string is one.
        cursor: Option<String> => "cursor", strict;
    }
}

record! {
    /// A page of sessions.
    ListResponse {
        /// The sessions.
        sessions: Vec<SessionInfo> => "sessions", required_list;
        /// Where the next page begins; absent on the last one.
        next_cursor: Option<String> => "nextCursor", lenient;
    }
}

record! {
    /// What a list tells about a session.
    SessionInfo {
        /// Which session.
        session_id: SessionId => "sessionId", required;
        /// The directory it works in.
        cwd: String => "cwd", required;
        /// Its other root directories.
        additional_directories: Vec<String> => "additionalDirectories", rare_list;
        /// What it is about.
        title: Option<String> => "title", lenient;
        /// When something last happened in it (RFC 3339).
        updated_at: Option<String> => "updatedAt", lenient;
    }
}

record! {
    /// Names a session: `session/close`, `session/delete`, `session/cancel`.
    SessionRequest {
        /// Which session.
        session_id: SessionId => "sessionId", required;
    }
}

impl From<SessionId> for SessionRequest {
    fn from(session_id: SessionId) -> Self {
        Self { session_id, ..Default::default() }
    }
}

/// Changes an option (`session/set_config_option`).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SetOptionRequest {
    /// Which session.
    pub session_id: SessionId,
    /// Which option.
    pub config_id: String,
    /// The new value.
    pub value: ConfigValue,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

impl Decode for SetOptionRequest {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        fields!(json {
            "sessionId" => session_id, strict;
            "configId" => config_id, strict;
            "type" => tag, strict;
            "value" => value, keep;
            "_meta" => meta, lenient;
        });
        let tag: Option<String> = tag.flatten();
        Ok(Self {
            session_id: session_id.ok_or_else(|| Error::missing("sessionId"))?,
            config_id: config_id.ok_or_else(|| Error::missing("configId"))?,
            value: ConfigValue::from_parts(tag.as_deref(), value.ok_or_else(|| Error::missing("value"))?)?,
            meta,
        })
    }
}

impl Encode for SetOptionRequest {
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        out.field("\"sessionId\":", &self.session_id);
        out.field("\"configId\":", &self.config_id);
        self.value.encode_fields(out);
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

record! {
    /// All options after one was changed.
    SetOptionResponse {
        /// The complete list.
        config_options: Vec<ConfigOption> => "configOptions", required_list;
    }
}

/// An answer or params that say nothing: `{}`, and `null` is taken as well.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Done {
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

impl Decode for Done {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        if json.take_null()? {
            return Ok(Self::default());
        }
        fields!(json { "_meta" => meta, lenient; });
        Ok(Self { meta })
    }
}

impl Encode for Done {
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

/// A value that may also come as `null`, which stands for the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OrNull<T>(pub T);

impl<T: Decode + Default> Decode for OrNull<T> {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        if json.take_null()? { Ok(Self::default()) } else { T::decode(json).map(Self) }
    }
}

impl<T: Encode> Encode for OrNull<T> {
    fn encode(&self, out: &mut Writer<'_>) {
        self.0.encode(out);
    }
}
