//! Laws: what is true of any recording. One judge looks at each message of both sides, as it comes, and says what is wrong.

use crate::state::State;
use crate::table::{Check, Kind, Level};
use std::collections::{BTreeMap, HashMap};
use tieline_json::{Error, Names, Reader};
use tieline_schema::{
    AgentCall, ClientCall, CreateTerminalResponse, Decode, Dialect, Dialects, Done, ElicitResponse, InitializeResponse,
    ListResponse, MethodKind, OrNull, PermissionResponse, PromptResponse, Protocol, Raw, ReadTextFileResponse,
    SessionSetup, SetOptionResponse, Settled, TerminalOutputResponse, WaitForTerminalExitResponse,
    WriteTextFileResponse, find as find_method, from_json, from_json_strict, settle,
};
use tieline_trace::Side;

/// So many requests of a side are remembered until they are answered.
const MAX_ASKED: usize = 10_000;
/// So much is told of one thing that is wrong.
const MAX_SAID_CHARS: usize = 300;

const RPC: &str = "JSON-RPC 2.0";
const TRANSPORT: &str = "ACP: transports";
const SCHEMA: &str = "ACP: schema";
const INIT: &str = "ACP: initialization";
const SETUP: &str = "ACP: session setup";
const TURN: &str = "ACP: prompt turn";
const TOOLS: &str = "ACP: tool calls";
const CONTENT: &str = "ACP: content";

/// A law for one side, or for both.
#[allow(clippy::too_many_arguments, reason = "a row of a table")]
const fn law(
    id: &'static str,
    side: Option<Side>,
    level: Level,
    dialects: Dialects,
    rules: &'static str,
    says: &'static str,
    source: &'static str,
    fix: &'static str,
) -> Check {
    Check { id, side, kind: Kind::Law, level, dialects, rules, says, source, fix }
}

use Level::{Must, Should};
const AGENT: Option<Side> = Some(Side::Agent);
const CLIENT: Option<Side> = Some(Side::Client);
const ALL: Dialects = Dialects::ALL;

/// Every law.
#[rustfmt::skip]
pub const LAWS: &[Check] = &[
    law("wire-json", None, Must, ALL, "TR-STDIO-03 TR-STDIO-04 TR-STDIO-05", "Each frame is one JSON value in UTF-8, and nothing else is written.", TRANSPORT, "Write nothing but messages to the stream; logs belong to standard error. One message is one line."),
    law("rpc-version", None, Must, ALL, "V1-RPC-01", "Every message says `\"jsonrpc\": \"2.0\"`.", RPC, "Add `\"jsonrpc\": \"2.0\"` to every message."),
    law("rpc-message", None, Must, ALL, "TR-ENV-01 TR-BAT-10", "A message is a request, a notification or an answer; an array is not empty.", RPC, "Send an object with `method`, or with `id` and one of `result` and `error`."),
    law("rpc-answer", None, Must, ALL, "V1-RPC-02 V1-RPC-04", "An answer has one of `result` and `error`; an error has a whole `code` and a `message`.", RPC, "Send exactly one of the two; make `code` an integer and `message` a text."),
    law("rpc-once", None, Must, ALL, "V1-RPC-02 V1-RPC-03", "Each request is answered once, and nothing else is.", RPC, "Answer a request once, with its `id` as it came. Don't answer notifications."),
    law("rpc-ids", None, Must, Dialects::V2, "V2-EXT-04", "Ids of requests are texts or whole numbers, and none is used again while it is open.", "ACP v2: transports, message ids", "Count up; never use `null` or a fraction."),
    law("rpc-ids-v1", None, Should, Dialects::OLD, "V1-RPC-05", "No id is used again while it is open.", RPC, "Count up."),
    law("method-known", None, Must, ALL, "V1-EXT-02 V2-EXT-01", "Methods exist for the receiver and in the dialect that was agreed; others start with `_`.", "ACP: extensibility", "Call it by the name of the agreed version, or start the name of your own method with `_`."),
    law("method-kind", None, Must, ALL, "V1-RPC-02", "Requests have an `id`, notifications have none.", RPC, "Give a request an id, and a notification none."),
    law("params-shape", None, Must, ALL, "V1-RPC-09 V2-TOOL-18", "Params have the shape of the schema.", SCHEMA, "Compare the named field with the schema."),
    law("result-shape", None, Must, ALL, "V1-RPC-09", "Results have the shape of the schema.", SCHEMA, "Compare the named field with the schema."),
    law("update-known", AGENT, Must, ALL, "V1-EXT-01 V2-EXT-01 V2-PLAN-04", "Kinds of updates exist in the dialect that was agreed; others start with `_`.", SCHEMA, "Send the update of the agreed version, or start your own kind with `_`."),
    law("hello-first", CLIENT, Must, ALL, "V1-INIT-01 V2-INIT-01", "The first request is `initialize`.", INIT, "Initialize, wait for the answer, then go on."),
    law("hello-info", None, Should, ALL, "V1-INIT-13 V1-INIT-14 V2-INIT-06", "Both sides say who they are.", INIT, "Send `clientInfo` or `agentInfo` (version 2: `info`) with a name and a version."),
    law("session-named", AGENT, Should, ALL, "V1-SESS-08", "Updates and requests name a session that the client knows of.", SETUP, "Use the id from the answer to `session/new`, or the one that the client took up."),
    law("session-early", AGENT, Should, ALL, "V1-CMD-04", "Nothing is said about a session before its `session/new` is answered.", SETUP, "Answer `session/new` first: clients can't place what they don't know yet."),
    law("session-open", CLIENT, Must, ALL, "V1-PROMPT-01 V2-PROMPT-01", "Requests name a session that the agent has opened.", SETUP, "Wait for the answer to `session/new`, and use its id."),
    law("path-absolute", None, Must, ALL, "V1-TOOL-08 V1-SESS-01 V1-TERM-12 V2-TOOL-12", "Paths are absolute.", "ACP: overview, argument requirements", "Make the path absolute before it is sent."),
    law("turn-last", AGENT, Must, Dialects::OLD, "V1-PROMPT-06 V1-CANCEL-07 V1-SESS-07 V2-PROMPT-05", "Nothing of a turn comes after the answer to its prompt, nothing of a replay after the answer to its load.", TURN, "Flush all updates, then answer."),
    law("stop-reason", AGENT, Must, Dialects::V1, "V1-PROMPT-08", "A turn ends for one of the five reasons.", TURN, "Use end_turn, max_tokens, max_turn_requests, refusal or cancelled."),
    law("stop-reason-v2", AGENT, Must, Dialects::BOTH_V2, "V2-PROMPT-07", "Reasons to stop of one's own start with `_`.", TURN, "Put `_` in front."),
    law("prompt-message", AGENT, Must, Dialects::V2, "V2-PROMPT-03", "The user's message is reported under the id that the prompt was answered with, before the work is idle again.", "ACP v2: prompt lifecycle", "Send `user_message` with the `messageId` of the answer."),
    law("state-told", AGENT, Must, Dialects::V2, "V2-STATE-01 V2-STATE-02", "Work that a prompt starts is told as running (or waiting), before it is idle.", "ACP v2: prompt lifecycle", "Send `state_update` with `running` when work starts and `idle` when none is left."),
    law("message-id", AGENT, Must, Dialects::BOTH_V2, "V2-MSG-01", "Every piece of a message has a `messageId`.", "ACP v2: prompt lifecycle, messages", "Give each message an id, and send it with every piece."),
    law("resume-state", AGENT, Must, Dialects::V2, "V2-SESS-08", "A session that is taken up tells its state before the answer.", "ACP v2: session setup", "Send a `state_update` before the answer to `session/resume`."),
    law("resume-silent", AGENT, Must, ALL, "V1-SESS-15 V2-SESS-06", "A session that is taken up without a replay replays nothing.", SETUP, "Restore the context without sending the history."),
    law("tool-unique", AGENT, Must, Dialects::V1, "V1-TOOL-02", "A tool call has an id that no finished call of the session had.", TOOLS, "Make a new id for each call."),
    law("tool-announced", AGENT, Should, Dialects::V1, "V1-TOOL-01", "A tool call is announced with `tool_call` before it is updated.", TOOLS, "Send `tool_call` first."),
    law("tool-finished", AGENT, Should, Dialects::V1, "V1-TOOL-04", "Every tool call of a turn that ended by itself is completed or failed.", TOOLS, "Send a last `tool_call_update` with `completed` or `failed`."),
    law("tool-title", AGENT, Should, Dialects::BOTH_V2, "V2-TOOL-02", "A tool call has a title from the start.", TOOLS, "Send `title` with the first `tool_call_update`."),
    law("can-files", AGENT, Must, Dialects::OLD, "V1-FS-01", "Files are asked for only if the client serves them.", "ACP: file system", "Look at `clientCapabilities.fs` first."),
    law("can-terminal", AGENT, Must, Dialects::OLD, "V1-TERM-01", "Terminals are asked for only if the client has them.", "ACP: terminals", "Look at `clientCapabilities.terminal` first."),
    law("can-elicit", AGENT, Must, Dialects::NOT_SEED, "V1-ELIC-01", "The user is asked only in a way that the client offers.", "ACP: elicitation", "Look at `elicitation.form` and `elicitation.url` first."),
    law("can-update", AGENT, Must, Dialects::V1, "V1-NOTICE-01 V1-COMPACT-01 V1-CONF-03", "Notices, compactions and boolean options go only to clients that offered to show them.", "ACP: schema, client capabilities", "Look at `clientCapabilities.session` first."),
    law("can-login", AGENT, Must, Dialects::NOT_SEED, "V1-AUTH-10 V2-AUTH-06", "Logins in a terminal are offered only to clients that can run them.", "ACP: authentication", "Look at `auth.terminal` of the client first."),
    law("can-sessions", CLIENT, Must, ALL, "V1-SESS-05 V1-SESS-14 V1-SESS-17 V1-LIST-01 V2-SESS-03 V1-AUTH-07", "Optional methods are called only if the agent offers them.", INIT, "Look at the agent's capabilities first."),
    law("can-prompt", CLIENT, Must, ALL, "V1-PROMPT-02 V2-PROMPT-02", "Prompts hold only content that the agent takes.", CONTENT, "Look at `promptCapabilities` first; send a `resource_link` otherwise."),
    law("can-mcp", CLIENT, Must, ALL, "V1-SESS-10 V1-SESS-20 V2-SESS-14", "MCP servers and further folders are named only as the agent takes them.", SETUP, "Look at `mcpCapabilities` and `additionalDirectories` first."),
    law("prompt-empty", CLIENT, Must, Dialects::V2, "V2-PROMPT-13", "A prompt has at least one block.", TURN, "Don't send an empty prompt."),
    law("permission-options", AGENT, Should, ALL, "V1-PERM-08", "A question has options, and each has its own id.", "ACP: requesting permission", "Offer at least one option; make the ids differ."),
    law("permission-answer", CLIENT, Must, ALL, "V1-PERM-02", "A question is answered with one of its options, or `cancelled`.", "ACP: requesting permission", "Send back the `optionId` as it came."),
    law("permission-cancel", CLIENT, Must, Dialects::OLD, "V1-CANCEL-03 V1-PERM-03", "After a cancel the open questions of that session are answered with `cancelled`.", "ACP: cancellation", "Answer every open question with `cancelled` when the user cancels."),
    law("option-value", AGENT, Must, ALL, "V1-CONF-02 V2-CONF-01", "Each option has a present value, and it is one of its values.", "ACP: session config options", "Set `currentValue` to one of the values."),
    law("option-choice", CLIENT, Must, ALL, "V1-MODE-02 V2-CONF-02", "Only modes, options and values that the agent named are chosen.", "ACP: session modes, config options", "Send ids as they came."),
    law("mode-known", AGENT, Must, Dialects::V1, "V1-MODE-04", "The mode that is on is one of the modes.", "ACP: session modes", "Name the mode in `availableModes`."),
    law("command-name", AGENT, Must, Dialects::V2, "V2-CMD-02", "Commands have names of their own, without `/` and blanks.", "ACP v2: slash commands", "Leave the `/` out; make the names differ."),
    law("content-base64", None, Must, ALL, "V1-CONTENT-04", "Bytes are in base64.", CONTENT, "Encode `data` and `blob` in base64 with padding."),
    law("terminal-released", AGENT, Must, Dialects::OLD, "V1-TERM-08", "A terminal that was released is not used again.", "ACP: terminals", "Release a terminal last."),
];

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// The law.
    pub law: &'static str,
    /// Who broke it.
    pub side: Side,
    /// How.
    pub said: String,
    /// With which frame, from 1.
    pub frame: usize,
}

impl Breach {
    /// True if the protocol says MUST.
    pub fn is_must(&self) -> bool {
        LAWS.iter().any(|law| law.id == self.law && law.level == Must)
    }
}

/// A message, each value as it came: made a tree of, some would take twenty times as much.
pub(crate) type Fields = BTreeMap<String, Raw>;

/// What is known of a request until it is answered.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub method: String,
    pub session: Option<String>,
    /// The ids of the options of a question.
    pub options: Vec<String>,
    /// The session was cancelled while this was open.
    pub cancelled: bool,
    /// A session is taken up with a replay.
    pub replay: bool,
    /// It was never offered: what comes back has no shape to keep.
    pub unoffered: bool,
}

/// Judges what both sides say.
#[derive(Debug, Default)]
pub struct Judge {
    pub(crate) dialect: Option<Dialect>,
    /// The recording has no values, only their shape.
    pub(crate) shape: bool,
    /// Both sides were heard from the start.
    pub(crate) whole: bool,
    pub(crate) state: State,
    open: [HashMap<String, Asked>; 2],
    frames: usize,
    tally: BTreeMap<(&'static str, &'static str), [u64; 2]>,
    found: Vec<Breach>,
}

fn text(raw: &Raw) -> Result<String, Error> {
    from_json(raw.get())
}

fn is<T: Decode>(raw: Option<&Raw>) -> bool {
    raw.is_some_and(|raw| from_json::<T>(raw.get()).is_ok())
}

fn lane(side: Side) -> usize {
    usize::from(side == Side::Agent)
}

impl Judge {
    /// The recording has no values, only their shape.
    pub fn shape_only(&mut self) {
        self.shape = true;
    }

    /// This is spoken, whatever the answer to the hello looks like.
    pub fn speaks(&mut self, dialect: Dialect) {
        self.dialect = Some(dialect);
    }

    /// What is spoken, once it was agreed.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// How often a law was looked at for this side, and how often it was broken.
    pub fn tally(&self, law: &str, side: Side) -> (u64, u64) {
        let found = self.tally.iter().find(|((id, from), _)| *id == law && *from == side.name());
        found.map_or((0, 0), |(_, [seen, broken])| (*seen, *broken))
    }

    /// What is wrong with a frame; `None` is one that is no JSON.
    pub fn frame(&mut self, from: Side, json: Option<&str>) -> Vec<Breach> {
        self.frames += 1;
        self.expect("wire-json", from, json.is_some(), || "a line that is no message".into());
        match json.map(|json| (json, json.trim_start().starts_with('['))) {
            None => {}
            Some((json, true)) => match from_json::<Vec<Raw>>(json) {
                Ok(batch) if batch.is_empty() => self.breach("rpc-message", from, "an empty batch"),
                Ok(batch) => batch.iter().for_each(|message| self.message(from, message.get())),
                Err(error) => self.breach("wire-json", from, &format!("a batch that can't be read: {error}")),
            },
            Some((json, false)) => self.message(from, json),
        }
        std::mem::take(&mut self.found)
    }

    /// One more look at a law.
    pub(crate) fn expect(&mut self, law: &'static str, side: Side, holds: bool, said: impl FnOnce() -> String) {
        let level = LAWS.iter().find(|row| row.id == law);
        let applies = |dialect| level.is_some_and(|row| row.applies(side, dialect));
        if !self.dialect.map_or_else(|| level.is_some(), applies) {
            return;
        }
        let count = self.tally.entry((law, side.name())).or_default();
        count[0] += 1;
        if !holds {
            count[1] += 1;
            let said = said();
            let end = said.char_indices().nth(MAX_SAID_CHARS).map_or(said.len(), |(at, _)| at);
            self.found.push(Breach { law, side, said: said[..end].to_owned(), frame: self.frames });
        }
    }

    pub(crate) fn breach(&mut self, law: &'static str, side: Side, said: &str) {
        self.expect(law, side, false, || said.to_owned());
    }

    /// The request of the other side that an id names.
    pub(crate) fn open(&mut self, asker: Side) -> impl Iterator<Item = &mut Asked> {
        self.open[lane(asker)].values_mut()
    }

    fn message(&mut self, from: Side, json: &str) {
        let message = match from_json::<Fields>(json) {
            Ok(message) => message,
            Err(error) if error.is_syntax() => {
                return self.breach("wire-json", from, &format!("a message that can't be read: {error}"));
            }
            Err(_) => return self.breach("rpc-message", from, "a message that is no object"),
        };
        let version = message.get("jsonrpc").is_some_and(|version| version.get() == "\"2.0\"");
        self.expect("rpc-version", from, version, || "a message without `\"jsonrpc\": \"2.0\"`".into());
        match message.get("method").map(text) {
            Some(Ok(method)) => self.call(from, &method, &message),
            None => self.answer(from, &message),
            Some(Err(_)) => self.breach("rpc-message", from, "a message whose `method` is no text"),
        }
    }

    fn call(&mut self, from: Side, method: &str, message: &Fields) {
        self.expect("rpc-message", from, true, String::new);
        if self.frames == 1 && method == "initialize" {
            self.whole = true;
        }
        let mut asked = Asked { method: method.to_owned(), ..Asked::default() };
        // Names of the connection, and those of implementations, are not ours to judge.
        if !method.starts_with("$/") && !method.starts_with('_') {
            self.known_call(from, method, message, &mut asked);
        }
        if let Some(id) = message.get("id") {
            self.id(from, id);
            if self.open[lane(from)].len() < MAX_ASKED {
                self.open[lane(from)].insert(id.get().to_owned(), asked);
            }
        }
    }

    fn id(&mut self, from: Side, id: &Raw) {
        let used = self.open[lane(from)].contains_key(id.get());
        let said = || format!("the id {} is in use", id.get());
        self.expect("rpc-ids-v1", from, !used, said);
        let fits = id.get().starts_with('"') || id.get().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        self.expect("rpc-ids", from, !used && fits, || {
            if used { said() } else { format!("the id {} is neither a text nor a whole number", id.get()) }
        });
    }

    fn known_call(&mut self, from: Side, method: &str, message: &Fields, asked: &mut Asked) {
        let mut reader = Reader::strict(message.get("params").map_or("null", Raw::get));
        if let Some(dialect) = self.dialect {
            reader = reader.minding(if dialect == Dialect::V2 { Names::New } else { Names::Old });
        }
        let (call, kind) = if from == Side::Agent {
            let call =
                ClientCall::decode(method, &mut reader).map(|call| call.map(|call| Call::ToClient(Box::new(call))));
            (call, ClientCall::kind(method))
        } else {
            let call =
                AgentCall::decode(method, &mut reader).map(|call| call.map(|call| Call::ToAgent(Box::new(call))));
            (call, AgentCall::kind(method))
        };
        let peers = if from == Side::Agent { "clients" } else { "agents" };
        let id = message.contains_key("id");
        match kind {
            Some(MethodKind::Request) => {
                self.expect("method-kind", from, id, || format!("`{method}` is a request and has no `id`"));
            }
            Some(MethodKind::Notification) => {
                self.expect("method-kind", from, !id, || format!("`{method}` is a notification and has an `id`"));
            }
            None => {}
        }
        let call = match call {
            Ok(Some(call)) => call,
            Ok(None) => {
                return self.breach("method-known", from, &format!("the method `{method}` does not exist for {peers}"));
            }
            Err(error) => return self.breach("params-shape", from, &format!("`{method}`: {error}")),
        };
        let deviations: Vec<String> = reader.deviations().iter().map(|error| format!("`{method}`: {error}")).collect();
        self.expect("params-shape", from, deviations.is_empty(), || deviations.join("; "));
        let of_dialect = |dialect| find_method(method).is_none_or(|method| method.dialects.has(dialect));
        match self.dialect {
            // A hello may be tried in the words of any version.
            Some(dialect) if method != "initialize" => {
                self.expect("method-known", from, of_dialect(dialect), || {
                    format!("`{method}` is not of version {dialect}")
                });
            }
            _ => {}
        }
        match call {
            Call::ToAgent(call) => self.client_says(method, *call, asked),
            Call::ToClient(call) => self.agent_says(method, *call, message, asked),
        }
    }

    fn answer(&mut self, from: Side, message: &Fields) {
        let Some(id) = message.get("id") else {
            return self.breach("rpc-message", from, "a message with neither `method` nor `id`");
        };
        self.expect("rpc-message", from, true, String::new);
        let (result, error) = (message.get("result"), message.get("error"));
        let one = result.is_some() != error.is_some();
        let fields = error.map(|error| from_json::<Fields>(error.get()).unwrap_or_default());
        let whole = fields.is_none_or(|fields| is::<i64>(fields.get("code")) && is::<String>(fields.get("message")));
        self.expect("rpc-answer", from, one && whole, || {
            let one = if one { "" } else { "an answer needs one of `result` and `error`" };
            let whole = if whole { "" } else { "an error needs `code`, a whole number, and `message`, a text" };
            format!("{one}{}{whole}", if one.is_empty() || whole.is_empty() { "" } else { "; " })
        });
        // What can't be read may be refused without an id.
        if id.is_null() && error.is_some() {
            return;
        }
        let asked = self.open[lane(from.other())].remove(id.get());
        // Of a recording that starts in the middle not every request is known.
        // A number beyond 2^53 may have lost its end on the way through a double; a probe tells.
        let lossy = id.get().len() >= 16 && id.get().bytes().all(|byte| byte.is_ascii_digit());
        if asked.is_some() || self.whole && !lossy {
            self.expect("rpc-once", from, asked.is_some(), || "an answer to nothing that was asked".into());
        }
        let Some(asked) = asked else { return };
        let Some(result) = result.filter(|_| error.is_none()).map(Raw::get) else {
            self.refused(from, &asked);
            return;
        };
        self.result(from, &asked, result);
    }

    fn result(&mut self, from: Side, asked: &Asked, result: &str) {
        let dialect = self.dialect;
        let method = asked.method.as_str();
        let found = match method {
            "initialize" => {
                let read = from_json_strict::<InitializeResponse>(result, None);
                read.map(|(answer, found)| {
                    if let Settled::Dialect(dialect) = settle(&answer, Protocol::Auto) {
                        self.dialect = Some(dialect);
                    }
                    self.settled(answer);
                    found
                })
            }
            "session/prompt" => from_json_strict::<PromptResponse>(result, dialect).map(|(answer, mut found)| {
                let missing = match dialect {
                    Some(Dialect::V2) => answer.message_id.is_none().then_some("messageId"),
                    Some(_) => answer.stop_reason.is_none().then_some("stopReason"),
                    None => None,
                };
                found.extend(missing.map(Error::missing));
                self.prompted(asked, &answer);
                found
            }),
            "session/new" | "session/load" | "session/resume" => {
                from_json_strict::<SessionSetup>(result, dialect).map(|(setup, mut found)| {
                    let missing = method == "session/new" && setup.session_id.is_none();
                    found.extend(missing.then(|| Error::missing("sessionId")));
                    self.set_up(asked, setup);
                    found
                })
            }
            "session/set_config_option" => {
                from_json_strict::<SetOptionResponse>(result, dialect).map(|(answer, found)| {
                    self.options(asked.session.as_deref(), &answer.config_options);
                    found
                })
            }
            "session/request_permission" => {
                from_json_strict::<PermissionResponse>(result, dialect).map(|(answer, found)| {
                    self.permitted(asked, &answer);
                    found
                })
            }
            "terminal/create" => from_json_strict::<CreateTerminalResponse>(result, dialect).map(|(_, found)| found),
            "session/list" => shape::<ListResponse>(result, dialect),
            "fs/read_text_file" => shape::<ReadTextFileResponse>(result, dialect),
            "fs/write_text_file" => shape::<WriteTextFileResponse>(result, dialect),
            "terminal/output" => shape::<TerminalOutputResponse>(result, dialect),
            "terminal/wait_for_exit" => shape::<WaitForTerminalExitResponse>(result, dialect),
            "elicitation/create" => shape::<ElicitResponse>(result, dialect),
            "authenticate" | "auth/login" | "logout" | "auth/logout" | "session/close" | "session/delete"
            | "session/set_mode" | "terminal/kill" | "terminal/release" => shape::<OrNull<Done>>(result, dialect),
            _ => return,
        };
        if asked.unoffered {
            return;
        }
        let wrong = match found {
            Ok(found) => found.iter().map(|found| format!("the answer to `{method}`: {found}")).collect(),
            Err(error) => vec![format!("the answer to `{method}`: {error}")],
        };
        self.expect("result-shape", from, wrong.is_empty(), || wrong.join("; "));
    }
}

fn shape<T: Decode>(result: &str, dialect: Option<Dialect>) -> Result<Vec<Error>, Error> {
    from_json_strict::<T>(result, dialect).map(|(_, found)| found)
}

/// A call in either direction.
enum Call {
    ToAgent(Box<AgentCall>),
    ToClient(Box<ClientCall>),
}
