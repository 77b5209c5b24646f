//! Laws: what is true of any recording. One judge looks at each message of both sides, as it comes, and says what is wrong.

use crate::state::State;
use crate::table::{AGENT, CLIENT, Check, Kind, Level};
use std::collections::{BTreeMap, HashMap};
use tieline_json::{Error, Names, Reader};
use tieline_schema::{
    AgentCall, ClientCall, CreateTerminalResponse, Decode, Dialect, Dialects, Done, ElicitResponse, InitializeResponse,
    ListResponse, MethodKind, OrNull, PermissionResponse, PromptResponse, Protocol, Raw, ReadTextFileResponse,
    SessionSetup, SetOptionResponse, Settled, TerminalOutputResponse, WaitForTerminalExitResponse,
    WriteTextFileResponse, data_field, find as find_method, from_json, from_json_strict, settle,
};
use tieline_trace::Side;

/// So many requests of a side are remembered until they are answered.
const MAX_ASKED: usize = 10_000;
/// How it is told that an id came back as another one.
pub(crate) const OTHER_ID: &str = "an answer with the id";
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

use Level::{Must, Should};
const ALL: Dialects = Dialects::ALL;

/// Every law.
#[rustfmt::skip]
pub const LAWS: &[Check] = &[
    Check::row(Kind::Law, None, "wire-json", Must, ALL, "TR-STDIO-03 TR-STDIO-04 TR-STDIO-05", "Each frame is one JSON value in UTF-8, and nothing else is written.", TRANSPORT, "Write nothing but messages to the stream; logs belong to standard error. One message is one line."),
    Check::row(Kind::Law, None, "rpc-version", Must, ALL, "V1-RPC-01", "Every message says `\"jsonrpc\": \"2.0\"`.", RPC, "Add `\"jsonrpc\": \"2.0\"` to every message."),
    Check::row(Kind::Law, None, "rpc-message", Must, ALL, "TR-ENV-01 TR-BAT-10", "A message is a request, a notification or an answer; an array is not empty.", RPC, "Send an object with `method`, or with `id` and one of `result` and `error`."),
    Check::row(Kind::Law, None, "rpc-answer", Must, ALL, "V1-RPC-02 V1-RPC-04", "An answer has one of `result` and `error`; an error has a whole `code` and a `message`.", RPC, "Send exactly one of the two; make `code` an integer and `message` a text."),
    Check::row(Kind::Law, None, "rpc-once", Must, ALL, "V1-RPC-02 V1-RPC-03", "Each request is answered once, and nothing else is.", RPC, "Answer a request once, with its `id` as it came. Don't answer notifications."),
    Check::row(Kind::Law, None, "rpc-ids", Must, Dialects::V2, "V2-EXT-04", "Ids of requests are texts or whole numbers, and none is used again while it is open.", "ACP v2: transports, message ids", "Count up; never use `null` or a fraction."),
    Check::row(Kind::Law, None, "rpc-ids-v1", Should, Dialects::OLD, "V1-RPC-05", "No id is used again while it is open.", RPC, "Count up."),
    Check::row(Kind::Law, None, "method-known", Must, ALL, "V1-EXT-02 V2-EXT-01", "Methods exist for the receiver and in the dialect that was agreed; others start with `_`.", "ACP: extensibility", "Call it by the name of the agreed version, or start the name of your own method with `_`."),
    Check::row(Kind::Law, None, "method-kind", Must, ALL, "V1-RPC-02", "Requests have an `id`, notifications have none.", RPC, "Give a request an id, and a notification none."),
    Check::row(Kind::Law, None, "params-shape", Must, ALL, "V1-RPC-09 V2-TOOL-18", "Params have the shape of the schema.", SCHEMA, "Compare the named field with the schema."),
    Check::row(Kind::Law, None, "result-shape", Must, ALL, "V1-RPC-09", "Results have the shape of the schema.", SCHEMA, "Compare the named field with the schema."),
    Check::row(Kind::Law, AGENT, "update-known", Must, ALL, "V1-EXT-01 V2-EXT-01 V2-PLAN-04", "Kinds of updates exist in the dialect that was agreed; others start with `_`.", SCHEMA, "Send the update of the agreed version, or start your own kind with `_`."),
    Check::row(Kind::Law, CLIENT, "hello-first", Must, ALL, "V1-INIT-01 V2-INIT-01", "The first request is `initialize`.", INIT, "Initialize, wait for the answer, then go on."),
    Check::row(Kind::Law, None, "hello-info", Should, ALL, "V1-INIT-13 V1-INIT-14 V2-INIT-06", "Both sides say who they are.", INIT, "Send `clientInfo` or `agentInfo` (version 2: `info`) with a name and a version."),
    Check::row(Kind::Law, AGENT, "session-named", Should, ALL, "V1-SESS-08", "Updates and requests name a session that the client knows of.", SETUP, "Use the id from the answer to `session/new`, or the one that the client took up."),
    Check::row(Kind::Law, AGENT, "session-early", Should, ALL, "V1-CMD-04", "Nothing is said about a session before its `session/new` is answered.", SETUP, "Answer `session/new` first: clients can't place what they don't know yet."),
    Check::row(Kind::Law, CLIENT, "session-open", Must, ALL, "V1-PROMPT-01 V2-PROMPT-01", "Requests name a session that the agent has opened.", SETUP, "Wait for the answer to `session/new`, and use its id."),
    Check::row(Kind::Law, None, "path-absolute", Must, ALL, "V1-TOOL-08 V1-SESS-01 V1-TERM-12 V2-TOOL-12", "Paths are absolute.", "ACP: overview, argument requirements", "Make the path absolute before it is sent."),
    Check::row(Kind::Law, AGENT, "turn-last", Must, Dialects::OLD, "V1-PROMPT-06 V1-CANCEL-07 V1-SESS-07 V2-PROMPT-05", "Nothing of a turn comes after the answer to its prompt, nothing of a replay after the answer to its load.", TURN, "Flush all updates, then answer."),
    Check::row(Kind::Law, AGENT, "stop-reason", Must, Dialects::V1, "V1-PROMPT-08", "A turn ends for one of the five reasons, and `cancelled` is said only of one that was cancelled.", TURN, "Use end_turn, max_tokens, max_turn_requests, refusal or cancelled; forget a cancel when its turn is over."),
    Check::row(Kind::Law, AGENT, "stop-reason-v2", Must, Dialects::BOTH_V2, "V2-PROMPT-07", "Reasons to stop of one's own start with `_`, and `cancelled` is said only of work that was cancelled.", TURN, "Put `_` in front; forget a cancel when its turn is over."),
    Check::row(Kind::Law, AGENT, "prompt-message", Must, Dialects::V2, "V2-PROMPT-03", "The user's message is reported under the id that the prompt was answered with, before the work is idle again.", "ACP v2: prompt lifecycle", "Send `user_message` with the `messageId` of the answer."),
    Check::row(Kind::Law, AGENT, "state-told", Must, Dialects::V2, "V2-STATE-01 V2-STATE-02", "Work that a prompt starts is told as running (or waiting), before it is idle.", "ACP v2: prompt lifecycle", "Send `state_update` with `running` when work starts and `idle` when none is left."),
    Check::row(Kind::Law, AGENT, "message-id", Must, Dialects::BOTH_V2, "V2-MSG-01", "Every piece of a message has a `messageId`.", "ACP v2: prompt lifecycle, messages", "Give each message an id, and send it with every piece."),
    Check::row(Kind::Law, AGENT, "resume-state", Must, Dialects::V2, "V2-SESS-08", "A session that is taken up tells its state before the answer.", "ACP v2: session setup", "Send a `state_update` before the answer to `session/resume`."),
    Check::row(Kind::Law, AGENT, "resume-silent", Must, ALL, "V1-SESS-15 V2-SESS-06", "A session that is taken up without a replay replays nothing.", SETUP, "Restore the context without sending the history."),
    Check::row(Kind::Law, AGENT, "tool-unique", Must, Dialects::V1, "V1-TOOL-02", "A tool call has an id that no finished call of the session had.", TOOLS, "Make a new id for each call."),
    Check::row(Kind::Law, AGENT, "tool-announced", Should, Dialects::V1, "V1-TOOL-01", "A tool call is announced with `tool_call` before it is updated.", TOOLS, "Send `tool_call` first."),
    Check::row(Kind::Law, AGENT, "tool-finished", Should, Dialects::V1, "V1-TOOL-04", "Every tool call of a turn that ended by itself is completed or failed.", TOOLS, "Send a last `tool_call_update` with `completed` or `failed`."),
    Check::row(Kind::Law, AGENT, "tool-title", Should, Dialects::BOTH_V2, "V2-TOOL-02", "A tool call has a title from the start.", TOOLS, "Send `title` with the first `tool_call_update`."),
    Check::row(Kind::Law, AGENT, "can-files", Must, Dialects::OLD, "V1-FS-01", "Files are asked for only if the client serves them.", "ACP: file system", "Look at `clientCapabilities.fs` first."),
    Check::row(Kind::Law, AGENT, "can-terminal", Must, Dialects::OLD, "V1-TERM-01", "Terminals are asked for only if the client has them.", "ACP: terminals", "Look at `clientCapabilities.terminal` first."),
    Check::row(Kind::Law, AGENT, "can-elicit", Must, Dialects::NOT_SEED, "V1-ELIC-01", "The user is asked only in a way that the client offers.", "ACP: elicitation", "Look at `elicitation.form` and `elicitation.url` first."),
    Check::row(Kind::Law, AGENT, "can-update", Must, Dialects::V1, "V1-NOTICE-01 V1-COMPACT-01 V1-CONF-03", "Notices, compactions and boolean options go only to clients that offered to show them.", "ACP: schema, client capabilities", "Look at `clientCapabilities.session` first."),
    Check::row(Kind::Law, AGENT, "can-login", Must, Dialects::NOT_SEED, "V1-AUTH-10 V2-AUTH-06", "Logins in a terminal are offered only to clients that can run them.", "ACP: authentication", "Look at `auth.terminal` of the client first."),
    Check::row(Kind::Law, CLIENT, "can-sessions", Must, ALL, "V1-SESS-05 V1-SESS-14 V1-SESS-17 V1-LIST-01 V2-SESS-03 V1-AUTH-07", "Optional methods are called only if the agent offers them.", INIT, "Look at the agent's capabilities first."),
    Check::row(Kind::Law, CLIENT, "can-prompt", Must, ALL, "V1-PROMPT-02 V2-PROMPT-02", "Prompts hold only content that the agent takes.", CONTENT, "Look at `promptCapabilities` first; send a `resource_link` otherwise."),
    Check::row(Kind::Law, CLIENT, "can-mcp", Must, ALL, "V1-SESS-10 V1-SESS-20 V2-SESS-14", "MCP servers and further folders are named only as the agent takes them.", SETUP, "Look at `mcpCapabilities` and `additionalDirectories` first."),
    Check::row(Kind::Law, CLIENT, "prompt-empty", Must, Dialects::V2, "V2-PROMPT-13", "A prompt has at least one block.", TURN, "Don't send an empty prompt."),
    Check::row(Kind::Law, AGENT, "permission-options", Should, ALL, "V1-PERM-08", "A question has options, and each has its own id.", "ACP: requesting permission", "Offer at least one option; make the ids differ."),
    Check::row(Kind::Law, CLIENT, "permission-answer", Must, ALL, "V1-PERM-02", "A question is answered with one of its options, or `cancelled`.", "ACP: requesting permission", "Send back the `optionId` as it came."),
    Check::row(Kind::Law, CLIENT, "permission-cancel", Must, Dialects::OLD, "V1-CANCEL-03 V1-PERM-03", "After a cancel the open questions of that session are answered with `cancelled`.", "ACP: cancellation", "Answer every open question with `cancelled` when the user cancels."),
    Check::row(Kind::Law, AGENT, "option-value", Must, ALL, "V1-CONF-02 V2-CONF-01", "Each option has a present value, and it is one of its values.", "ACP: session config options", "Set `currentValue` to one of the values."),
    Check::row(Kind::Law, CLIENT, "option-choice", Must, ALL, "V1-MODE-02 V2-CONF-02", "Only modes, options and values that the agent named are chosen.", "ACP: session modes, config options", "Send ids as they came."),
    Check::row(Kind::Law, AGENT, "mode-known", Must, Dialects::V1, "V1-MODE-04", "The mode that is on is one of the modes.", "ACP: session modes", "Name the mode in `availableModes`."),
    Check::row(Kind::Law, AGENT, "command-name", Must, Dialects::V2, "V2-CMD-02", "Commands have names of their own, without `/` and blanks.", "ACP v2: slash commands", "Leave the `/` out; make the names differ."),
    Check::row(Kind::Law, None, "content-base64", Must, ALL, "V1-CONTENT-04", "Bytes are in base64.", CONTENT, "Encode `data` and `blob` in base64 with padding."),
    Check::row(Kind::Law, AGENT, "terminal-released", Must, Dialects::OLD, "V1-TERM-08", "A terminal that was released is not used again.", "ACP: terminals", "Release a terminal last."),
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
    /// The ids of the options of a question, and whether they allow it.
    pub options: HashMap<String, bool>,
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
    /// Nobody else talks to the agent, so that only this client can have cancelled a turn.
    pub(crate) alone: bool,
    pub(crate) state: State,
    /// By [`Side`].
    open: [HashMap<String, Asked>; 4],
    frames: usize,
    /// Whose frame is looked at.
    speaker: Side,
    tally: HashMap<(&'static str, Side), (u64, u64)>,
    found: Vec<Breach>,
}

fn is<T: Decode>(raw: Option<&Raw>) -> bool {
    raw.is_some_and(|raw| from_json::<T>(raw.get()).is_ok())
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

    /// Nobody else talks to the agent: a turn that is `cancelled` was cancelled here.
    pub fn alone(&mut self) {
        self.alone = true;
    }

    /// What is spoken, once it was agreed.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// How often a law was looked at for this side, and how often it was broken.
    pub fn tally(&self, law: &'static str, side: Side) -> (u64, u64) {
        self.tally.get(&(law, side)).copied().unwrap_or_default()
    }

    /// What is wrong with a frame; `None` is one that is no JSON.
    pub fn frame(&mut self, from: Side, json: Option<&str>) -> Vec<Breach> {
        self.heard(from, json, true)
    }

    /// The same; one that is no UTF-8 is judged by what it resembles, too.
    pub(crate) fn heard(&mut self, from: Side, json: Option<&str>, utf8: bool) -> Vec<Breach> {
        self.frames += 1;
        self.speaker = from;
        self.expect("wire-json", json.is_some() && utf8, || {
            if utf8 { "a line that is no message" } else { "a line that is not UTF-8" }.to_owned()
        });
        match json.map(|json| (json, json.trim_start().starts_with('['))) {
            None => {}
            Some((json, true)) => match from_json::<Vec<Raw>>(json) {
                Ok(batch) if batch.is_empty() => self.breach("rpc-message", "an empty batch"),
                Ok(batch) => batch.iter().for_each(|message| self.message(message.get())),
                Err(error) => self.breach("wire-json", &format!("a batch that can't be read: {error}")),
            },
            Some((json, false)) => self.message(json),
        }
        std::mem::take(&mut self.found)
    }

    /// One more look at a law. One for either side is kept or broken by who speaks.
    pub(crate) fn expect(&mut self, law: &'static str, holds: bool, said: impl FnOnce() -> String) {
        let Some(row) = LAWS.iter().find(|row| row.id == law) else { return };
        let side = row.side.unwrap_or(self.speaker);
        if self.dialect.is_some_and(|dialect| !row.applies(side, dialect)) {
            return;
        }
        let (seen, broken) = self.tally.entry((law, side)).or_default();
        *seen += 1;
        if !holds {
            *broken += 1;
            let said = said().chars().take(MAX_SAID_CHARS).collect();
            self.found.push(Breach { law, side, said, frame: self.frames });
        }
    }

    /// A law was looked at, and holds.
    pub(crate) fn holds(&mut self, law: &'static str) {
        self.expect(law, true, String::new);
    }

    pub(crate) fn breach(&mut self, law: &'static str, said: &str) {
        self.expect(law, false, || said.to_owned());
    }

    /// What a side has asked, and was not answered.
    pub(crate) fn open(&mut self, asker: Side) -> impl Iterator<Item = &mut Asked> {
        self.open[asker as usize].values_mut()
    }

    fn message(&mut self, json: &str) {
        let message = match from_json::<Fields>(json) {
            Ok(message) => message,
            Err(error) if error.is_syntax() => {
                return self.breach("wire-json", &format!("a message that can't be read: {error}"));
            }
            Err(_) => return self.breach("rpc-message", "a message that is no object"),
        };
        let version = message.get("jsonrpc").is_some_and(|version| version.get() == "\"2.0\"");
        self.expect("rpc-version", version, || "a message without `\"jsonrpc\": \"2.0\"`".into());
        match message.get("method").map(|method| from_json::<String>(method.get())) {
            Some(Ok(method)) => self.call(&method, &message),
            None => self.answer(&message),
            Some(Err(_)) => self.breach("rpc-message", "a message whose `method` is no text"),
        }
    }

    fn call(&mut self, method: &str, message: &Fields) {
        self.holds("rpc-message");
        if self.frames == 1 && method == "initialize" {
            self.whole = true;
        }
        let mut asked = Asked { method: method.to_owned(), ..Asked::default() };
        if method == "$/cancel_request" {
            self.state.cancelled(None);
        }
        // Names of the connection, and those of implementations, are not ours to judge.
        if !method.starts_with("$/") && !method.starts_with('_') {
            self.known_call(method, message, &mut asked);
        }
        if let Some(id) = message.get("id") {
            self.id(id);
            let open = &mut self.open[self.speaker as usize];
            if open.len() < MAX_ASKED {
                open.insert(id.get().to_owned(), asked);
            }
        }
    }

    fn id(&mut self, id: &Raw) {
        let used = self.open[self.speaker as usize].contains_key(id.get());
        let said = || format!("the id {} is in use", id.get());
        self.expect("rpc-ids-v1", !used, said);
        let fits = id.get().starts_with('"') || id.get().bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        self.expect("rpc-ids", !used && fits, || {
            if used { said() } else { format!("the id {} is neither a text nor a whole number", id.get()) }
        });
    }

    fn known_call(&mut self, method: &str, message: &Fields, asked: &mut Asked) {
        let mut reader = Reader::strict(message.get("params").map_or("null", Raw::get));
        if let Some(dialect) = self.dialect {
            reader = reader.minding(if dialect == Dialect::V2 { Names::New } else { Names::Old });
            // The lists of version 1 are closed; in version 2 a word of one's own starts with `_`, and others may be of a later version.
            reader = reader.closed(dialect == Dialect::V1 && !self.shape);
        }
        let (call, kind, peers) = if self.speaker == Side::Agent {
            let call = ClientCall::decode(method, &mut reader).map(|call| call.map(Call::ToClient));
            (call, ClientCall::kind(method), "clients")
        } else {
            let call = AgentCall::decode(method, &mut reader).map(|call| call.map(Call::ToAgent));
            (call, AgentCall::kind(method), "agents")
        };
        let id = message.contains_key("id");
        match kind {
            Some(MethodKind::Request) => {
                self.expect("method-kind", id, || format!("`{method}` is a request and has no `id`"));
            }
            Some(MethodKind::Notification) => {
                self.expect("method-kind", !id, || format!("`{method}` is a notification and has an `id`"));
            }
            None => {}
        }
        let unknown = || format!("the method `{method}` does not exist for {peers}");
        let call = match call {
            Ok(Some(call)) => call,
            Ok(None) => return self.expect("method-known", false, unknown),
            Err(error) => return self.breach("params-shape", &format!("`{method}`: {error}")),
        };
        let deviations: Vec<String> = reader.deviations().iter().map(|error| format!("`{method}`: {error}")).collect();
        self.expect("params-shape", deviations.is_empty(), || deviations.join("; "));
        // A hello may be tried in the words of any version.
        if let Some(dialect) = self.dialect.filter(|_| method != "initialize") {
            let known = find_method(method).is_none_or(|method| method.dialects.has(dialect));
            self.expect("method-known", known, || format!("`{method}` is not of version {dialect}"));
        }
        if message.contains_key("id") {
            asked.session = message.get("params").and_then(|params| data_field(params, "sessionId"));
        }
        match call {
            Call::ToAgent(call) => self.client_says(method, call, asked),
            Call::ToClient(call) => self.agent_says(method, call, message, asked),
        }
    }

    fn answer(&mut self, message: &Fields) {
        let Some(id) = message.get("id") else {
            return self.breach("rpc-message", "a message with neither `method` nor `id`");
        };
        self.holds("rpc-message");
        let (result, error) = (message.get("result"), message.get("error"));
        let one = result.is_some() != error.is_some();
        let fields = error.map(|error| from_json::<Fields>(error.get()).unwrap_or_default());
        let whole = fields.is_none_or(|fields| is::<i64>(fields.get("code")) && is::<String>(fields.get("message")));
        self.expect("rpc-answer", one && whole, || {
            let one = if one { "" } else { "an answer needs one of `result` and `error`" };
            let whole = if whole { "" } else { "an error needs `code`, a whole number, and `message`, a text" };
            format!("{one}{}{whole}", if one.is_empty() || whole.is_empty() { "" } else { "; " })
        });
        // What can't be read may be refused without an id.
        if id.is_null() && error.is_some() {
            return;
        }
        let asked = self.open[self.speaker.other() as usize].remove(id.get());
        // Of a recording that starts in the middle not every request is known.
        // A number beyond 2^53 may have lost its end on the way through a double; a probe tells.
        let lossy = id.get().len() >= 16 && id.get().bytes().all(|byte| byte.is_ascii_digit());
        if asked.is_some() || self.whole && !lossy {
            let bare = id.get().trim_matches('"');
            let other = if bare == id.get() { format!("\"{bare}\"") } else { bare.to_owned() };
            let is_other = self.open[self.speaker.other() as usize].contains_key(&other);
            let said = if is_other {
                format!("{OTHER_ID} {}: what was asked has the id {other}", id.get())
            } else {
                "an answer to nothing that was asked".to_owned()
            };
            self.expect("rpc-once", asked.is_some(), || said);
        }
        let Some(asked) = asked else { return };
        match result.filter(|_| error.is_none()) {
            Some(result) => self.result(&asked, result.get()),
            None => self.refused(&asked),
        }
    }

    fn result(&mut self, asked: &Asked, result: &str) {
        let dialect = self.dialect;
        let method = asked.method.as_str();
        let found = match method {
            "initialize" => {
                let answer = from_json::<InitializeResponse>(result);
                if let Ok(Settled::Dialect(dialect)) = answer.map(|answer| settle(&answer, Protocol::Auto)) {
                    self.dialect = Some(dialect);
                }
                let found = look(result, self.dialect, |answer: InitializeResponse| {
                    self.settled(answer);
                    None
                });
                found.map(|mut found| {
                    found.extend(bare_flags(result).filter(|_| self.dialect == Some(Dialect::V1)));
                    found
                })
            }
            "session/prompt" => look(result, dialect, |answer: PromptResponse| {
                self.prompted(asked, &answer);
                match dialect? {
                    Dialect::V2 => answer.message_id.is_none().then_some("messageId"),
                    _ => answer.stop_reason.is_none().then_some("stopReason"),
                }
            }),
            "session/new" | "session/load" | "session/resume" => look(result, dialect, |setup: SessionSetup| {
                let missing = method == "session/new" && setup.session_id.is_none();
                self.set_up(asked, setup);
                missing.then_some("sessionId")
            }),
            "session/set_config_option" => look(result, dialect, |answer: SetOptionResponse| {
                self.options(asked.session.as_deref(), &answer.config_options);
                None
            }),
            "session/request_permission" => look(result, dialect, |answer: PermissionResponse| {
                self.permitted(asked, &answer);
                None
            }),
            "terminal/create" => shape::<CreateTerminalResponse>(result, dialect),
            "session/list" => shape::<ListResponse>(result, dialect),
            "fs/read_text_file" => shape::<ReadTextFileResponse>(result, dialect),
            "fs/write_text_file" => shape::<WriteTextFileResponse>(result, dialect),
            "terminal/output" => shape::<TerminalOutputResponse>(result, dialect),
            "terminal/wait_for_exit" => shape::<WaitForTerminalExitResponse>(result, dialect),
            "elicitation/create" => {
                self.state.cancelled(asked.session.as_deref());
                shape::<ElicitResponse>(result, dialect)
            }
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
        self.expect("result-shape", wrong.is_empty(), || wrong.join("; "));
    }
}

/// A capability that is yes or no in version 1, and neither here.
fn bare_flags(result: &str) -> Option<Error> {
    let fields = |raw: Option<&Raw>| from_json::<Fields>(raw?.get()).ok();
    let all = fields(from_json::<Fields>(result).ok()?.get("agentCapabilities"))?;
    let (prompt, mcp) = (fields(all.get("promptCapabilities")), fields(all.get("mcpCapabilities")));
    let rows = [
        (Some(&all), "loadSession"),
        (prompt.as_ref(), "image"),
        (prompt.as_ref(), "audio"),
        (prompt.as_ref(), "embeddedContext"),
        (mcp.as_ref(), "http"),
        (mcp.as_ref(), "sse"),
    ];
    let is_other = |flag: &Raw| !["true", "false", "null"].contains(&flag.get().trim());
    let wrong = rows.into_iter().find(|(of, key)| of.and_then(|of| of.get(*key)).is_some_and(is_other))?;
    Some(Error::data("true or false was expected").inside(wrong.1))
}

/// How an answer differs from its shape.
fn shape<T: Decode>(result: &str, dialect: Option<Dialect>) -> Result<Vec<Error>, Error> {
    look(result, dialect, |_: T| None)
}

/// The same, with a look at the answer that may find that a key is missing.
fn look<T: Decode>(
    result: &str,
    dialect: Option<Dialect>,
    look: impl FnOnce(T) -> Option<&'static str>,
) -> Result<Vec<Error>, Error> {
    let (answer, mut found) = from_json_strict(result, dialect)?;
    found.extend(look(answer).map(Error::missing));
    Ok(found)
}

/// A call in either direction.
enum Call {
    ToAgent(AgentCall),
    ToClient(ClientCall),
}
