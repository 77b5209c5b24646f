//! Opening a session: a new one, or one that is taken up again, and what the agent answers.

use crate::macros::{fields, record};
use crate::modes::{self, SessionModes};
use crate::{
    Command, ConfigKind, ConfigOption, Decode, Dialect, Dialects, Encode, McpServer, Meta, SessionId, Unknown, Writer,
    union,
};
use tieline_json::{Error, Reader};

record! {
    /// Opens a new session (`session/new`).
    NewSessionRequest {
        /// The directory the session works in (an absolute path).
        cwd: String => "cwd", required;
        /// More root directories (absolute paths).
        additional_directories: Vec<String> => "additionalDirectories", rare_whole;
        /// MCP servers to connect to. `None` if the key is missing: version 1 and seed-era v2 require it, null is empty.
        mcp_servers: Option<Vec<McpServer>> => "mcpServers", given;
    }
}

record! {
    /// Takes up a session (`session/resume`), with or without a replay (`session/load` in the older dialects).
    ResumeRequest {
        /// Which session.
        session_id: SessionId => "sessionId", required;
        /// The directory the session works in (an absolute path).
        cwd: String => "cwd", required;
        /// All other root directories (absolute paths).
        additional_directories: Vec<String> => "additionalDirectories", rare_whole;
        /// All MCP servers to connect to. `None` if the key is missing, which is an error only in `session/load`.
        mcp_servers: Option<Vec<McpServer>> => "mcpServers", given;
        /// What to replay. The older dialects say this with the name of the method.
        replay: Replay => "replayFrom", strict, Dialects::V2;
    }
}

/// What the agent sends again when a session is taken up.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Replay {
    /// Nothing.
    #[default]
    None,
    /// Everything.
    Start,
    /// From a place we don't know: invalid params, never a substitute.
    Unknown(Unknown),
}

impl Decode for Replay {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        if json.take_null()? {
            return Ok(Self::None);
        }
        let tag = union::tag(json, "type")?.ok_or_else(|| Error::missing("type"))?;
        if tag == "start" { json.skip().map(|()| Self::Start) } else { Unknown::keep(&tag, json).map(Self::Unknown) }
    }
}

impl Encode for Replay {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::None => out.key("null"),
            Self::Start => out.key("{\"type\":\"start\"}"),
            Self::Unknown(unknown) => unknown.encode(out),
        }
    }

    fn is_absent(&self) -> bool {
        *self == Self::None
    }
}

/// What an agent answers when a session is opened or taken up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SessionSetup {
    /// The new session. Only `session/new` answers with one, and must.
    pub session_id: Option<SessionId>,
    /// The options of the session. An agent that only has modes (version 1) has one here that stands for them.
    pub config_options: Vec<ConfigOption>,
    /// The modes of version 1 as they came. When writing, `None` means: make them of the first mode option.
    pub modes: Option<SessionModes>,
    /// True if the mode option was made of `modes`: the agent has no such option and wants `session/set_mode`.
    pub mode_from_modes: bool,
    /// The commands of the session. The older dialects send them as an update instead.
    pub commands: Vec<Command>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

impl Decode for SessionSetup {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        if json.take_null()? {
            return Ok(Self::default());
        }
        fields!(json {
            "sessionId" => session_id, strict;
            "configOptions" => config_options, list;
            "modes" => modes, lenient;
            "availableCommands" => commands, list;
            "_meta" => meta, lenient;
        });
        let mut setup = Self { session_id, config_options, modes, mode_from_modes: false, commands, meta };
        if let (Some(modes), None) = (&setup.modes, modes::mode_option(&setup.config_options)) {
            setup.config_options.insert(0, modes.to_option());
            setup.mode_from_modes = true;
        }
        Ok(setup)
    }
}

impl SessionSetup {
    /// True if there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn encode_options(&self, out: &mut Writer<'_>) {
        let v1 = out.dialect == Dialect::V1;
        let made = if v1 && self.mode_from_modes { modes::mode_option(&self.config_options) } else { None };
        let mut options = self.config_options.iter().filter(|option| made != Some(*option)).peekable();
        if options.peek().is_some() {
            out.key("\"configOptions\":");
            out.array(options);
            out.key(",");
        }
    }
}

impl Encode for SessionSetup {
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        out.field("\"sessionId\":", &self.session_id);
        if out.dialect == Dialect::V1 {
            match (&self.modes, modes::mode_option(&self.config_options).map(|option| &option.kind)) {
                (None, Some(ConfigKind::Select(select))) => out.field("\"modes\":", &modes::AsModes(select)),
                (modes, _) => out.field("\"modes\":", modes),
            }
        }
        self.encode_options(out);
        if out.dialect == Dialect::V2 && !self.commands.is_empty() {
            out.field("\"availableCommands\":", &self.commands);
        }
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

/// The answer to `session/load`: `null` when there is nothing to tell.
#[derive(Debug, Clone, Copy)]
pub struct LoadAnswer<'s>(pub &'s SessionSetup);

impl Encode for LoadAnswer<'_> {
    fn encode(&self, out: &mut Writer<'_>) {
        if self.0.is_empty() { out.key("null") } else { self.0.encode(out) }
    }
}

/// True for an absolute path of Unix (`/x`) or Windows (`C:\x`, `C:/x`, `\\server\share`). URIs are not paths.
pub fn is_absolute(path: &str) -> bool {
    if path.contains('\0') {
        return false;
    }
    match path.as_bytes() {
        [b'/', ..] => true,
        [b'\\', b'\\', next, ..] => !matches!(next, b'\\' | b'/'),
        [drive, b':', b'\\', ..] => drive.is_ascii_alphabetic(),
        // `c://x` is a URI.
        [drive, b':', b'/', rest @ ..] => drive.is_ascii_alphabetic() && rest.first() != Some(&b'/'),
        _ => false,
    }
}
