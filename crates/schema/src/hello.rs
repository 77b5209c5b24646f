//! The first exchange of a connection: who is there, which version, and what each side can do.

use crate::codec::read;
use crate::macros::record;
use crate::{AgentCapabilities, AuthMethod, ClientCapabilities, Decode, Dialect, Encode, Meta, Writer};
use tieline_json::{Error, Kind, Reader};

record! {
    /// The name of a program that speaks ACP.
    Implementation {
        /// Its name, for machines.
        name: String => "name", required;
        /// Its version.
        version: String => "version", required;
        /// Its name, for people.
        title: Option<String> => "title", lenient;
    }
}

impl Implementation {
    /// A program with a name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }

    /// What to show: the title, else the name.
    pub fn display(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

/// Which keys a hello or its answer had. The dialect is told by these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(clippy::struct_excessive_bools, reason = "each key is there or not")]
pub struct HelloKeys {
    /// `info` with an object.
    pub info: bool,
    /// `clientInfo` or `agentInfo` with an object.
    pub old_info: bool,
    /// `capabilities`.
    pub capabilities: bool,
    /// `clientCapabilities` or `agentCapabilities`. An answer in seed-era v2 with this set is written with both kinds.
    pub old_capabilities: bool,
}

/// What a client says first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InitializeRequest {
    /// The newest version the client speaks.
    pub protocol_version: u16,
    /// Who the client is.
    pub info: Option<Implementation>,
    /// What the client can do.
    pub capabilities: ClientCapabilities,
    /// Which keys came; not used when writing.
    pub keys: HelloKeys,
    /// Why an `info` object could not be read. Current v2 refuses such a hello.
    pub bad_info: Option<Error>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

/// What the agent answers to the hello.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct InitializeResponse {
    /// The version that is spoken from now on.
    pub protocol_version: u16,
    /// Who the agent is.
    pub info: Option<Implementation>,
    /// What the agent can do, with what its dialect takes for granted filled in.
    pub capabilities: AgentCapabilities,
    /// The ways to log in.
    pub auth_methods: Vec<AuthMethod>,
    /// Which keys came. When writing, only `old_capabilities` counts.
    pub keys: HelloKeys,
    /// Why an `info` object could not be read.
    pub bad_info: Option<Error>,
    /// Extensions (`_meta`).
    pub meta: Option<Meta>,
}

/// The common part of both: the names of the keys differ, the rest does not.
#[derive(Default)]
struct Hello<C> {
    version: Option<u16>,
    info: Option<Implementation>,
    old_info: Option<Implementation>,
    capabilities: Option<C>,
    old_capabilities: Option<C>,
    auth_methods: Vec<AuthMethod>,
    keys: HelloKeys,
    bad_info: Option<Error>,
    meta: Option<Meta>,
}

impl<C: Decode + Default> Hello<C> {
    fn decode(json: &mut Reader<'_>, old_info: &str, old_capabilities: &str) -> Result<Self, Error> {
        let mut hello = Self::default();
        let mut object = json.object()?;
        while let Some(key) = object.key(json)? {
            match &*key {
                "protocolVersion" => hello.version = Some(read::strict(json, "protocolVersion")?),
                "info" => hello.read_info(json)?,
                "capabilities" => {
                    hello.keys.capabilities = json.peek()? != Kind::Null;
                    hello.capabilities = read::lenient(json, "capabilities")?;
                }
                "authMethods" => hello.auth_methods = read::list(json, "authMethods")?,
                "_meta" => hello.meta = read::lenient(json, "_meta")?,
                key if key == old_info => {
                    hello.old_info = read::lenient(json, old_info)?;
                    hello.keys.old_info = hello.old_info.is_some();
                }
                key if key == old_capabilities => {
                    hello.keys.old_capabilities = json.peek()? != Kind::Null;
                    hello.old_capabilities = read::lenient(json, old_capabilities)?;
                }
                _ => json.skip()?,
            }
        }
        Ok(hello)
    }

    /// An `info` object marks current v2 even if it is malformed; anything else does not.
    fn read_info(&mut self, json: &mut Reader<'_>) -> Result<(), Error> {
        self.keys.info = json.peek()? == Kind::Object;
        let mark = json.mark();
        match read::strict(json, "info") {
            Ok(info) => self.info = info,
            Err(error) if error.is_syntax() => return Err(error),
            Err(error) => {
                json.rewind(mark);
                json.skip()?;
                json.forgive(error.clone());
                self.bad_info = Some(error).filter(|_| self.keys.info);
            }
        }
        Ok(())
    }
}

impl Decode for InitializeRequest {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let hello = Hello::<ClientCapabilities>::decode(json, "clientInfo", "clientCapabilities")?;
        let mut capabilities = hello.capabilities.unwrap_or_default();
        capabilities.merge(hello.old_capabilities.unwrap_or_default());
        Ok(Self {
            protocol_version: hello.version.ok_or_else(|| Error::missing("protocolVersion"))?,
            info: hello.info.or(hello.old_info),
            capabilities,
            keys: hello.keys,
            bad_info: hello.bad_info,
            meta: hello.meta,
        })
    }
}

impl Decode for InitializeResponse {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        let hello = Hello::<AgentCapabilities>::decode(json, "agentInfo", "agentCapabilities")?;
        let version = hello.version.ok_or_else(|| Error::missing("protocolVersion"))?;
        let keys = hello.keys;
        let mut capabilities = hello.capabilities.unwrap_or_default();
        capabilities.merge(hello.old_capabilities.unwrap_or_default());
        if version < 2 || (keys.old_capabilities && !keys.capabilities && !keys.info) {
            capabilities.merge(AgentCapabilities::v1_baseline());
        } else if keys.info {
            capabilities.promise_current(!hello.auth_methods.is_empty());
        }
        Ok(Self {
            protocol_version: version,
            info: hello.info.or(hello.old_info),
            capabilities,
            auth_methods: hello.auth_methods,
            keys,
            bad_info: hello.bad_info,
            meta: hello.meta,
        })
    }
}

/// Which hello a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelloForm {
    /// Asks for version 2 with the keys of all dialects.
    Superset,
    /// The hello of one dialect.
    Only(Dialect),
}

impl HelloForm {
    /// The version this hello asks for.
    pub const fn version(self) -> u16 {
        match self {
            HelloForm::Superset => 2,
            HelloForm::Only(dialect) => dialect.version(),
        }
    }
}

/// A hello in the form it is sent.
#[derive(Debug, Clone, Copy)]
pub struct HelloAs<'r>(pub &'r InitializeRequest, pub HelloForm);

impl Encode for HelloAs<'_> {
    fn encode(&self, out: &mut Writer<'_>) {
        let Self(request, form) = *self;
        out.open();
        out.field("\"protocolVersion\":", &form.version());
        match form {
            HelloForm::Only(dialect) => request.encode_keys(out, dialect),
            HelloForm::Superset => {
                request.encode_keys(out, Dialect::V2);
                request.encode_keys(out, Dialect::V1);
            }
        }
        out.field("\"_meta\":", &request.meta);
        out.close();
    }
}

impl InitializeRequest {
    /// Writes name and capabilities as `dialect` has them.
    fn encode_keys(&self, out: &mut Writer<'_>, dialect: Dialect) {
        let mut out = Writer { out: &mut *out.out, dialect };
        match dialect {
            Dialect::V1 => {
                out.field("\"clientInfo\":", &self.info);
                out.field("\"clientCapabilities\":", &self.capabilities);
            }
            Dialect::V2Seed => {
                out.field("\"clientInfo\":", &self.info);
                out.field("\"capabilities\":", &self.capabilities);
            }
            Dialect::V2 => {
                encode_required_info(&mut out, self.info.as_ref());
                out.field("\"capabilities\":", &self.capabilities);
            }
        }
    }
}

impl Encode for InitializeRequest {
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        out.field("\"protocolVersion\":", &self.protocol_version);
        self.encode_keys(out, out.dialect);
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

impl Encode for InitializeResponse {
    fn encode(&self, out: &mut Writer<'_>) {
        out.open();
        out.field("\"protocolVersion\":", &self.protocol_version);
        match out.dialect {
            Dialect::V1 => {
                out.field("\"agentInfo\":", &self.info);
                out.field("\"agentCapabilities\":", &self.capabilities);
            }
            Dialect::V2Seed => {
                out.field("\"agentInfo\":", &self.info);
                out.field("\"capabilities\":", &self.capabilities);
                if self.keys.old_capabilities {
                    let mut v1 = Writer { out: &mut *out.out, dialect: Dialect::V1 };
                    v1.field("\"agentCapabilities\":", &self.capabilities);
                }
            }
            Dialect::V2 => {
                encode_required_info(out, self.info.as_ref());
                out.field("\"capabilities\":", &self.capabilities);
            }
        }
        out.field("\"authMethods\":", &self.auth_methods);
        out.field("\"_meta\":", &self.meta);
        out.close();
    }
}

fn encode_required_info(out: &mut Writer<'_>, info: Option<&Implementation>) {
    // The dialect wants a name.
    out.field("\"info\":", info.unwrap_or(&Implementation::new("unknown", "unknown")));
}
