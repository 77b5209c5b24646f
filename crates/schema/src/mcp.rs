//! MCP servers that a client asks an agent to connect to.

use crate::macros::record;
use crate::{Decode, Dialect, Encode, Unknown, Writer, union};
use tieline_json::{Error, Reader};

record! {
    /// One environment variable.
    EnvVariable {
        /// Its name.
        name: String => "name", required;
        /// Its value.
        value: String => "value", required;
    }
}

record! {
    /// One HTTP header.
    HttpHeader {
        /// Its name.
        name: String => "name", required;
        /// Its value.
        value: String => "value", required;
    }
}

record! {
    /// A server that the agent starts and talks to over its standard streams.
    McpStdio {
        /// What people call it.
        name: String => "name", required;
        /// The program (an absolute path).
        command: String => "command", required;
        /// Its arguments.
        args: Vec<String> => "args", whole;
        /// Its environment, on top of the agent's.
        env: Vec<EnvVariable> => "env", whole;
    }
}

record! {
    /// A server that is reached over HTTP or server-sent events.
    McpHttp {
        /// What people call it.
        name: String => "name", required;
        /// Its address.
        url: String => "url", required;
        /// Headers for every request.
        headers: Vec<HttpHeader> => "headers", whole;
    }
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq)]
pub enum McpServer {
    /// A child process. In version 1 an entry without `type` (other types are kept as unknown).
    Stdio(McpStdio),
    /// Over HTTP.
    Http(McpHttp),
    /// Over server-sent events. Only version 1 knows these; version 2 reads them as unknown.
    Sse(McpHttp),
    /// A kind we don't know, kept as it came.
    Other(Unknown),
}

impl McpServer {
    /// The kind: `stdio`, `http`, `sse` or another.
    pub fn kind(&self) -> &str {
        match self {
            Self::Stdio(_) => "stdio",
            Self::Http(_) => "http",
            Self::Sse(_) => "sse",
            Self::Other(unknown) => &unknown.tag,
        }
    }

    /// What people call it, if we know the kind.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Stdio(server) => Some(&server.name),
            Self::Http(server) | Self::Sse(server) => Some(&server.name),
            Self::Other(_) => None,
        }
    }
}

impl Decode for McpServer {
    fn decode(json: &mut Reader<'_>) -> Result<Self, Error> {
        match union::tag(json, "type")?.as_deref() {
            None | Some("stdio") => McpStdio::decode(json).map(Self::Stdio),
            Some("http") => McpHttp::decode(json).map(Self::Http),
            Some("sse") => McpHttp::decode(json).map(Self::Sse),
            Some(other) => Unknown::keep(other, json).map(Self::Other),
        }
    }
}

impl Encode for McpServer {
    fn encode(&self, out: &mut Writer<'_>) {
        match self {
            Self::Stdio(server) if out.dialect == Dialect::V1 => out.object(server),
            Self::Stdio(server) => out.tagged("{\"type\":\"stdio\",", server),
            Self::Http(server) => out.tagged("{\"type\":\"http\",", server),
            Self::Sse(server) => out.tagged("{\"type\":\"sse\",", server),
            Self::Other(unknown) => unknown.encode(out),
        }
    }

    fn encode_item(&self, out: &mut Writer<'_>) {
        // Version 1 has no form for it: it would read an incomplete child process and refuse the whole list.
        if !(out.dialect == Dialect::V1 && matches!(self, Self::Other(_))) {
            self.encode(out);
            out.key(",");
        }
    }
}
