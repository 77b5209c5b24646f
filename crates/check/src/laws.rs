//! Laws: what is true of any recording. One judge looks at each message of both sides, as it comes, and says what is wrong.

use crate::shapes::told;
use crate::state::State;
use crate::table::{Level, find};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use tieline_json::{Error, Names, Reader};
use tieline_schema::{
    AgentCall, ClientCall, CreateTerminalResponse, Decode, Dialect, Done, ElicitResponse, InitializeResponse,
    ListResponse, MethodKind, OrNull, PermissionResponse, PromptResponse, Protocol, Raw, ReadTextFileResponse,
    SessionSetup, SetOptionResponse, Settled, TerminalOutputResponse, WaitForTerminalExitResponse,
    WriteTextFileResponse, data_field, find as find_method, from_json, from_json_strict, settle,
};
use tieline_trace::{Frame, Header, Kept, Side};

/// So many requests of a side are remembered until they are answered.
const MAX_ASKED: usize = 10_000;
/// So much is told of one thing that is wrong.
const MAX_SAID_CHARS: usize = 1000;

/// What is said of an agent that sends the number of version 2 back and speaks version 1.
const ECHO: &str = "this is version 2, and the rest is in the words of version 1 (`agentCapabilities`): answer with 1, \
    the version that is spoken, or speak version 2 (`capabilities`, `info`)";
/// What is said of a frame that is no UTF-8, and of one with a byte order mark.
const NOT_UTF8: &str = "a line that is not UTF-8: write text in UTF-8, and bytes in base64";
const BYTE_ORDER_MARK: &str =
    "a byte order mark (U+FEFF, the bytes EF BB BF) before the message: write UTF-8 without one";

/// What is yes or no in version 1, among what an agent offers.
const FLAGS: &str = "loadSession promptCapabilities/image promptCapabilities/audio promptCapabilities/embeddedContext \
    mcpCapabilities/http mcpCapabilities/sse";

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Breach {
    /// The law.
    pub law: &'static str,
    /// Who broke it.
    pub side: Side,
    /// How.
    pub said: String,
    /// With which frame: its number in the recording, or among all that were heard, from 1.
    pub frame: usize,
}

impl Breach {
    /// True if the protocol says MUST.
    pub fn is_must(&self) -> bool {
        find(self.law).is_some_and(|law| law.level == Level::Must)
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
    /// What is spoken, once it was agreed; may be set where that is known otherwise.
    pub dialect: Option<Dialect>,
    /// The recording has no values, only their shape.
    pub shape: bool,
    /// Both sides were heard from the start.
    pub(crate) whole: bool,
    /// Nobody else talks to the agent, so that only this client can have cancelled a turn.
    pub alone: bool,
    pub(crate) state: State,
    /// By [`Side`].
    open: [HashMap<String, Asked>; 4],
    frames: usize,
    /// Whose frame is looked at.
    speaker: Side,
    /// Whether a law could be looked at for a side: not where the values that it needs were left out.
    pub(crate) seen: HashMap<(&'static str, Side), bool>,
    found: Vec<Breach>,
}

fn is<T: Decode>(raw: Option<&Raw>) -> bool {
    raw.is_some_and(|raw| from_json::<T>(raw.get()).is_ok())
}

impl Judge {
    /// What is wrong with a frame of a recording that says this of itself; `None` for what is not judged.
    pub fn recorded(&mut self, frame: &Frame, header: &Header) -> Option<Vec<Breach>> {
        self.shape |= header.kept == Kept::Shape;
        // Who has started the agent is alone with it, until the end of its input, which may cancel what it is at.
        self.alone = (self.alone || self.frames == 0 && !header.command.is_empty()) && !frame.end;
        if frame.end || frame.dropped || !frame.from.talks() {
            return None;
        }
        let found = self.frame(frame.from, &frame.body);
        Some(found.into_iter().map(|breach| Breach { frame: frame.number, ..breach }).collect())
    }

    /// What is wrong with a frame. One that is no UTF-8, or has a byte order mark, is judged by what it resembles, too.
    pub fn frame(&mut self, from: Side, frame: &[u8]) -> Vec<Breach> {
        self.frames += 1;
        self.speaker = from;
        let text = String::from_utf8_lossy(frame);
        let bare = text.strip_prefix('\u{feff}');
        self.expect("wire-json", bare.is_none(), || BYTE_ORDER_MARK.into());
        self.expect("wire-json", matches!(text, Cow::Borrowed(_)), || NOT_UTF8.into());
        let json = bare.unwrap_or(&text);
        match from_json::<Vec<Raw>>(json) {
            _ if !json.trim_start().starts_with('[') => self.message(json),
            Ok(batch) if batch.is_empty() => self.breach("rpc-message", "an empty batch"),
            Ok(batch) => batch.iter().for_each(|message| self.message(message.get())),
            Err(error) => self.unreadable(&error),
        }
        std::mem::take(&mut self.found)
    }

    fn unreadable(&mut self, error: &Error) {
        self.state.hurried |= self.speaker == Side::Agent;
        self.breach("wire-json", &format!("a line that is no message: {error}"));
    }

    /// One more look at a law. One for either side is kept or broken by who speaks.
    pub(crate) fn expect(&mut self, law: &'static str, holds: bool, said: impl FnOnce() -> String) {
        let Some(row) = find(law) else { return };
        let side = row.side.unwrap_or(self.speaker);
        if self.dialect.is_some_and(|dialect| !row.applies(side, dialect)) {
            return;
        }
        let looked = !(self.shape && row.needs_values);
        self.seen.insert((law, side), looked);
        if looked && !holds {
            // One fault is one line.
            let said = said().chars().take(MAX_SAID_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
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
        let Ok((message, again)) = fields(json) else {
            return match Raw::new(json) {
                Ok(_) => self.breach("rpc-message", "a message that is no object"),
                Err(error) => self.unreadable(&error),
            };
        };
        let said = || format!("the key `{}` comes twice: nobody can tell which one counts", again.join("`, `"));
        self.expect("rpc-message", again.is_empty(), said);
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
        let other = || format!("the id {} is neither a text nor a whole number", id.get());
        self.expect("rpc-ids", !used && fits, || if used { said() } else { other() });
    }

    /// A call, if its params can be read, and how they differ from their shape.
    fn read_call(&self, method: &str, params: &str) -> (Option<Call>, Vec<String>) {
        let mut reader = Reader::strict(params);
        if let Some(dialect) = self.dialect {
            reader = reader.minding(if dialect == Dialect::V2 { Names::New } else { Names::Old });
            // The lists of version 1 are closed; in version 2 a word of one's own starts with `_`, and others may be of a later version.
            reader = reader.closed(dialect == Dialect::V1 && !self.shape);
        }
        let call = match self.speaker {
            Side::Agent => ClientCall::decode(method, &mut reader).map(|call| call.map(Call::ToClient)),
            _ => AgentCall::decode(method, &mut reader).map(|call| call.map(Call::ToAgent)),
        };
        let mut wrong: Vec<String> =
            reader.deviations().iter().chain(call.as_ref().err()).map(ToString::to_string).collect();
        // Version 2 has a title instead, which is no question of the older ones.
        let old = self.dialect.is_some_and(|dialect| dialect != Dialect::V2) && method == "session/request_permission";
        if old && from_json::<Fields>(params).is_ok_and(|fields| !fields.contains_key("toolCall")) {
            wrong.retain(|found| *found != Error::missing("title").to_string());
            wrong.push(Error::missing("toolCall").to_string());
        }
        (call.ok().flatten(), wrong)
    }

    fn known_call(&mut self, method: &str, message: &Fields, asked: &mut Asked) {
        let (kind, peers) = match self.speaker {
            Side::Agent => (ClientCall::kind(method), "clients"),
            _ => (AgentCall::kind(method), "agents"),
        };
        let Some(kind) = kind else {
            let said = || format!("the method `{method}` does not exist for {peers}");
            return self.expect("method-known", false, said);
        };
        let id = message.contains_key("id");
        self.expect("method-kind", id == (kind == MethodKind::Request), || match kind {
            MethodKind::Request => format!("`{method}` is a request and has no `id`"),
            MethodKind::Notification => format!("`{method}` is a notification and has an `id`"),
        });
        let params = message.get("params").map_or("null", Raw::get);
        let (call, wrong) = self.read_call(method, params);
        if wrong.is_empty() {
            self.holds("params-shape");
        } else {
            let said = told(method, self.dialect, params, |params| self.read_call(method, params).1);
            self.breach("params-shape", &said);
        }
        let Some(call) = call else { return };
        // A hello may be tried in the words of any version.
        if let Some(dialect) = self.dialect.filter(|_| method != "initialize") {
            let known = find_method(method).is_none_or(|method| method.dialects.has(dialect));
            self.expect("method-known", known, || format!("`{method}` is not of version {dialect}"));
        }
        if id {
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
        self.expect("rpc-answer", one, || "an answer needs one of `result` and `error`".into());
        self.expect("rpc-answer", whole, || "an error needs `code`, a whole number, and `message`, a text".into());
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
                format!("an answer with the id {}: what was asked has the id {other}", id.get())
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
                if self.dialect == Some(Dialect::V1) { found.map(|found| old_hello(result, found)) } else { found }
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
        let wrong: Vec<String> = found.unwrap_or_else(|error| vec![error]).iter().map(ToString::to_string).collect();
        self.expect("result-shape", wrong.is_empty(), || format!("the answer to `{method}`: {}", wrong.join("; ")));
    }
}

/// What is wrong with a hello in the words of version 1: a capability that is neither yes nor no, the number of version 2.
fn old_hello(result: &str, mut found: Vec<Error>) -> Vec<Error> {
    let result: serde_json::Value = serde_json::from_str(result).unwrap_or_default();
    for flag in FLAGS.split(' ') {
        let value = result.pointer(&format!("/agentCapabilities/{flag}"));
        if value.is_some_and(|value| !value.is_boolean() && !value.is_null()) {
            let path = format!("agentCapabilities.{}", flag.replace('/', "."));
            found.retain(|known| known.path() != path);
            found.push(Error::data("expected true or false").inside(path));
        }
    }
    found.extend((result["protocolVersion"] == 2).then(|| Error::data(ECHO).inside("protocolVersion")));
    found
}

/// The fields of a message, and the keys that come twice.
fn fields(json: &str) -> Result<(Fields, Vec<String>), Error> {
    let (mut reader, mut fields, mut again) = (Reader::new(json), Fields::new(), Vec::new());
    let mut object = reader.object()?;
    while let Some(key) = object.key(&mut reader)? {
        let value = Raw::decode(&mut reader)?;
        if fields.insert(key.to_string(), value).is_some() {
            again.push(key.into_owned());
        }
    }
    reader.end()?;
    Ok((fields, again))
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
