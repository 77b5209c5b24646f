//! Logging in and out.

use crate::macros::record;
use crate::{Decode, Dialect, Encode, EnvVariable, Writer, data_field, union};
use std::collections::BTreeMap;
use tieline_json::{Error, Kind, Raw, Reader, write_raw};

record! {
    /// A login that the agent does itself.
    AgentAuth {
        /// Names the method in [`LoginRequest`].
        method_id: String => "methodId" / "id", required;
        /// What people call it.
        name: String => "name", required;
        /// What it does.
        description: Option<String> => "description", lenient;
    }
}

record! {
    /// A login that a person does in a terminal: the client runs the agent's program once more with these additions.
    TerminalAuth {
        /// Names the method.
        method_id: String => "methodId" / "id", required;
        /// What people call it.
        name: String => "name", required;
        /// What it does.
        description: Option<String> => "description", lenient;
        /// Arguments to add.
        args: Vec<String> => "args", rare_whole;
        /// Environment variables to set.
        env: LoginEnv => "env", strict;
    }
}

/// The environment of a terminal login: an object in version 1, a list in version 2.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoginEnv(pub Vec<EnvVariable>);

impl Decode for LoginEnv {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        match json.peek()? {
            Kind::Null => json.null().map(|()| Self::default()),
            Kind::Object => {
                let map = BTreeMap::<String, String>::decode(json)?;
                Ok(Self(
                    map.into_iter().map(|(name, value)| EnvVariable { name, value, ..Default::default() }).collect(),
                ))
            }
            _ => Vec::decode(json).map(Self),
        }
    }
}

impl Encode for LoginEnv {
    fn encode(&self, out: &mut Writer<'_>) {
        if out.dialect == Dialect::V1 {
            let map: BTreeMap<String, &str> = self.0.iter().map(|var| (var.name.clone(), &*var.value)).collect();
            map.encode(out);
        } else {
            self.0.encode(out);
        }
    }

    fn is_absent(&self) -> bool {
        self.0.is_empty()
    }
}

/// A method of another kind. Skip it or show it, but don't log in with it.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherAuth {
    /// The kind.
    pub kind: Box<str>,
    /// Names the method.
    pub method_id: String,
    /// What people call it.
    pub name: String,
    /// The whole object as it came.
    pub raw: Raw,
}

impl Encode for OtherAuth {
    /// Writes it as it came. If it came with the id of another dialect, the id that this one looks for goes in front.
    fn encode(&self, out: &mut Writer<'_>) {
        let (name, key) = if out.dialect == Dialect::V2 { ("methodId", "{\"methodId\":") } else { ("id", "{\"id\":") };
        match self.raw.get().strip_prefix('{') {
            Some(rest) if data_field::<String>(&self.raw, name).is_none() => {
                out.key(key);
                self.method_id.encode(out);
                out.key(",");
                write_raw(out.out, rest);
            }
            _ => self.raw.encode(out),
        }
    }
}

/// A way to log in.
#[derive(Debug, Clone, PartialEq)]
pub enum AuthMethod {
    /// The agent does it when asked with [`LoginRequest`].
    Agent(AgentAuth),
    /// A person does it in a terminal. Never sent with [`LoginRequest`].
    Terminal(TerminalAuth),
    /// Another kind, kept.
    Other(OtherAuth),
}

impl AuthMethod {
    /// The kind: `agent`, `terminal` or another.
    pub fn kind(&self) -> &str {
        match self {
            Self::Agent(_) => "agent",
            Self::Terminal(_) => "terminal",
            Self::Other(other) => &other.kind,
        }
    }

    /// Names the method.
    pub fn id(&self) -> &str {
        match self {
            Self::Agent(method) => &method.method_id,
            Self::Terminal(method) => &method.method_id,
            Self::Other(method) => &method.method_id,
        }
    }

    /// What people call it.
    pub fn name(&self) -> &str {
        match self {
            Self::Agent(method) => &method.name,
            Self::Terminal(method) => &method.name,
            Self::Other(method) => &method.name,
        }
    }
}

impl Decode for AuthMethod {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        match union::tag(json, "type")?.as_deref() {
            None | Some("agent") => AgentAuth::decode(json).map(Self::Agent),
            Some("terminal") => TerminalAuth::decode(json).map(Self::Terminal),
            Some(kind) => {
                let mark = json.mark();
                let AgentAuth { method_id, name, .. } = AgentAuth::decode(json)?;
                json.rewind(mark);
                Ok(Self::Other(OtherAuth { kind: kind.into(), method_id, name, raw: json.keep()? }))
            }
        }
    }
}

impl Encode for AuthMethod {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Agent(method) if out.dialect == Dialect::V1 => out.object(method),
            Self::Agent(method) => out.tagged("{\"type\":\"agent\",", method),
            Self::Terminal(method) => out.tagged("{\"type\":\"terminal\",", method),
            Self::Other(method) => method.encode(out),
        }
    }

    fn encode_item(&self, out: &mut Writer<'_>) {
        // Version 1 reads every kind it does not know as a login by the agent, so it is not told.
        if !(out.dialect == Dialect::V1 && matches!(self, Self::Other(_))) {
            self.encode(out);
            out.key(",");
        }
    }
}

record! {
    /// Asks the agent to log in (`auth/login`, before `authenticate`).
    LoginRequest {
        /// One of the advertised methods of the agent kind.
        method_id: String => "methodId", required;
    }
}
