//! The method table: one row per name on the wire, from which come dispatch, names and the support matrix.

use crate::{
    CancelToolCallRequest, CreateTerminalRequest, Decode, Dialect, Dialects, Done, ElicitRequest, ElicitationComplete,
    Encode, InitializeRequest, ListRequest, LoginRequest, Meta, NewSessionRequest, OrNull, PermissionRequest,
    PromptRequest, ReadTextFileRequest, Replay, ResumeRequest, SessionNotification, SessionRequest, SetModeRequest,
    SetOptionRequest, TerminalRequest, WriteTextFileRequest, Writer,
};
use tieline_json::{Error, Raw, Reader};

/// Who sends a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The client, to the agent.
    ToAgent,
    /// The agent, to the client.
    ToClient,
    /// Both.
    Both,
}

/// Whether a method is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MethodKind {
    /// It has an answer.
    Request,
    /// It has none.
    Notification,
}

/// A row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Method {
    /// The name on the wire.
    pub name: &'static str,
    /// Who sends it.
    pub direction: Direction,
    /// Whether it is answered.
    pub kind: MethodKind,
    /// Where it exists. All names are understood everywhere.
    pub dialects: Dialects,
    /// What must be offered before it may be sent.
    pub gate: &'static str,
    /// What it does.
    pub about: &'static str,
}

/// The row of a name. `None` for unknown names and extensions.
pub fn find(name: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.name == name)
}

/// True for the names that implementations may use.
pub fn is_extension(name: &str) -> bool {
    name.starts_with('_')
}

/// Reads params with a function instead of the type's own `Decode`.
macro_rules! read_params {
    ($json:ident) => {
        Decode::decode($json)?
    };
    ($json:ident $with:ident) => {
        $with($json)?
    };
}

macro_rules! methods {
    ($(
        $(#[$edoc:meta])*
        enum $call:ident, $direction:ident {
            $(
                #[doc = $about:literal]
                $variant:ident($params:ty) {
                    $( $name:literal $kind:ident in $dialects:expr, gate $gate:literal $(, read by $with:ident)?; )+
                }
            )*
        }
    )* others { $($other:expr),* $(,)? }) => {
        /// Every method of ACP.
        pub static METHODS: &[Method] = &[
            $($($( Method {
                name: $name,
                direction: Direction::$direction,
                kind: MethodKind::$kind,
                dialects: $dialects,
                gate: $gate,
                about: $about.trim_ascii_start(),
            }, )+)*)*
            $($other),*
        ];

        $(
            $(#[$edoc])*
            #[derive(Debug, Clone, PartialEq)]
            pub enum $call {
                $( #[doc = $about] $variant($params), )*
                /// A method of an implementation; its name starts with `_`.
                Extension {
                    /// The name.
                    method: Box<str>,
                    /// The params as they came.
                    params: Raw,
                },
            }

            impl $call {
                /// Reads the params of a method; `null` stands for none. `None` if the method is unknown here.
                pub fn decode(method: &str, params: &mut Reader<'_>) -> Result<Option<Self>, Error> {
                    Ok(Some(match method {
                        $($( $name => Self::$variant(read_params!(params $($with)?)), )+)*
                        other if is_extension(other) => {
                            Self::Extension { method: other.into(), params: params.keep()? }
                        }
                        _ => return Ok(None),
                    }))
                }

                /// Whether a method is answered. `None` for unknown names, and for extensions: those can be either.
                pub fn kind(method: &str) -> Option<MethodKind> {
                    match method {
                        $($( $name => Some(MethodKind::$kind), )+)*
                        _ => None,
                    }
                }

                /// Extensions (`_meta`). A method of an implementation has its own in its params.
                pub fn meta(&self) -> Option<&Meta> {
                    match self {
                        $( Self::$variant(params) => params.meta.as_ref(), )*
                        Self::Extension { .. } => None,
                    }
                }

                /// The same, to be changed.
                pub fn meta_mut(&mut self) -> Option<&mut Option<Meta>> {
                    match self {
                        $( Self::$variant(params) => Some(&mut params.meta), )*
                        Self::Extension { .. } => None,
                    }
                }

                /// The names of this call, newest first.
                fn names(&self) -> &'static [(&'static str, Dialects)] {
                    match self {
                        $( Self::$variant(_) => &[$(($name, $dialects)),+], )*
                        Self::Extension { .. } => &[],
                    }
                }
            }

            impl Encode for $call {
                /// Writes the params.
                fn encode(&self, out: &mut Writer<'_>) {
                    match self {
                        $( Self::$variant(params) => params.encode(out), )*
                        Self::Extension { params, .. } => params.encode(out),
                    }
                }
            }

        )*
    };
}

// What is large and not the most common is boxed: a call is moved often on its way to its handler. So is what comes in floods, and waits.
methods! {
    /// What a client asks of an agent.
    enum AgentCall, ToAgent {
        /// Starts the connection: versions, names, capabilities.
        Initialize(Box<InitializeRequest>) {
            "initialize" Request in Dialects::ALL, gate "none; comes first";
        }
        /// Logs in.
        Login(LoginRequest) {
            "auth/login" Request in Dialects::V2, gate "`authMethods` is not empty";
            "authenticate" Request in Dialects::OLD, gate "an entry of the agent kind in `authMethods`";
        }
        /// Logs out.
        Logout(Done) {
            "auth/logout" Request in Dialects::V2, gate "`authMethods` is not empty";
            "logout" Request in Dialects::OLD, gate "agent: `auth.logout`";
        }
        /// Opens a session.
        NewSession(NewSessionRequest) {
            "session/new" Request in Dialects::ALL, gate "v2: `session`";
        }
        /// Takes up a session, with or without a replay.
        Resume(Box<ResumeRequest>) {
            "session/resume" Request in Dialects::ALL, gate "older: `resume`";
            "session/load" Request in Dialects::OLD, gate "`loadSession`, seed-era v2: `session.load`", read by load;
        }
        /// Lists sessions.
        List(ListRequest) {
            "session/list" Request in Dialects::ALL, gate "older: `list`", read by or_null;
        }
        /// Closes a session.
        Close(SessionRequest) {
            "session/close" Request in Dialects::ALL, gate "older: `close`";
        }
        /// Deletes a session.
        Delete(SessionRequest) {
            "session/delete" Request in Dialects::ALL, gate "`delete`";
        }
        /// Changes the mode.
        SetMode(SetModeRequest) {
            "session/set_mode" Request in Dialects::V1, gate "the session has `modes`";
        }
        /// Changes an option.
        SetOption(SetOptionRequest) {
            "session/set_config_option" Request in Dialects::ALL, gate "the session has `configOptions`";
        }
        /// Says something to the agent.
        Prompt(PromptRequest) {
            "session/prompt" Request in Dialects::ALL, gate "v2: `session`";
        }
        /// Stops the foreground work of a session.
        Cancel(SessionRequest) {
            "session/cancel" Notification in Dialects::ALL, gate "v2: `session`";
        }
        /// Stops one tool call.
        CancelToolCall(CancelToolCallRequest) {
            "tool_call/cancel" Request in Dialects::V2, gate "`capabilities.cancel` of the tool call";
        }
        /// Stops one terminal of the agent.
        CancelTerminal(TerminalRequest) {
            "terminal/cancel" Request in Dialects::V2, gate "`capabilities.cancel` of the terminal";
        }
    }

    /// What an agent asks of a client or tells it.
    enum ClientCall, ToClient {
        /// Reports something in a session.
        Update(Box<SessionNotification>) {
            "session/update" Notification in Dialects::ALL, gate "none";
        }
        /// Asks the user to allow something.
        Permission(Box<PermissionRequest>) {
            "session/request_permission" Request in Dialects::ALL, gate "none";
        }
        /// Reads a text file on the client's side.
        ReadTextFile(ReadTextFileRequest) {
            "fs/read_text_file" Request in Dialects::OLD, gate "`clientCapabilities.fs.readTextFile`";
        }
        /// Writes a text file on the client's side.
        WriteTextFile(WriteTextFileRequest) {
            "fs/write_text_file" Request in Dialects::OLD, gate "`clientCapabilities.fs.writeTextFile`";
        }
        /// Starts a command on the client's side.
        CreateTerminal(Box<CreateTerminalRequest>) {
            "terminal/create" Request in Dialects::OLD, gate "`clientCapabilities.terminal`";
        }
        /// Asks what a command has shown so far.
        TerminalOutput(TerminalRequest) {
            "terminal/output" Request in Dialects::OLD, gate "`clientCapabilities.terminal`";
        }
        /// Waits until a command ends.
        WaitForTerminalExit(TerminalRequest) {
            "terminal/wait_for_exit" Request in Dialects::OLD, gate "`clientCapabilities.terminal`";
        }
        /// Stops a command and keeps its terminal.
        KillTerminal(TerminalRequest) {
            "terminal/kill" Request in Dialects::OLD, gate "`clientCapabilities.terminal`";
        }
        /// Stops a command and frees its terminal.
        ReleaseTerminal(TerminalRequest) {
            "terminal/release" Request in Dialects::OLD, gate "`clientCapabilities.terminal`";
        }
        /// Asks the user for something.
        Elicit(Box<ElicitRequest>) {
            "elicitation/create" Request in Dialects::NOT_SEED, gate "client: `elicitation.form` or `elicitation.url`";
        }
        /// Tells that a web page did its work.
        ElicitationComplete(ElicitationComplete) {
            "elicitation/complete" Notification in Dialects::NOT_SEED, gate "a url elicitation was accepted";
        }
    }

    others {
        Method {
            name: "$/cancel_request",
            direction: Direction::Both,
            kind: MethodKind::Notification,
            dialects: Dialects::NOT_SEED,
            gate: "none; may be ignored",
            about: "Withdraws a request.",
        },
    }
}

fn load(json: &mut Reader<'_>) -> Result<Box<ResumeRequest>, Error> {
    Ok(Box::new(ResumeRequest { replay: Replay::Start, ..ResumeRequest::decode(json)? }))
}

fn or_null<T: Decode + Default>(json: &mut Reader<'_>) -> Result<T, Error> {
    OrNull::decode(json).map(|params| params.0)
}

impl AgentCall {
    /// The name of this call in a dialect. `None` if it has no form there.
    pub fn wire_name(&self, dialect: Dialect) -> Option<&str> {
        match self {
            Self::Extension { method, .. } => Some(method),
            // Only current v2 says in the params what is replayed.
            Self::Resume(request) if dialect != Dialect::V2 => match request.replay {
                Replay::None => Some("session/resume"),
                Replay::Start => Some("session/load"),
                Replay::Unknown(_) => None,
            },
            call => name_in(call.names(), dialect),
        }
    }
}

impl ClientCall {
    /// The name of this call in a dialect. `None` if it has no form there.
    pub fn wire_name(&self, dialect: Dialect) -> Option<&str> {
        match self {
            Self::Extension { method, .. } => Some(method),
            Self::Update(notification) if !notification.update.speaks(dialect) => None,
            call => name_in(call.names(), dialect),
        }
    }
}

fn name_in(names: &[(&'static str, Dialects)], dialect: Dialect) -> Option<&'static str> {
    names.iter().find(|(_, dialects)| dialects.has(dialect)).map(|(name, _)| *name)
}
