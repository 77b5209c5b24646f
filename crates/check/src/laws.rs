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
/// How it is told that an id came back as another one.
pub(crate) const OTHER_ID: &str = "an answer with the id";
/// So much is told of one thing that is wrong.
const MAX_SAID_CHARS: usize = 1000;

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
    /// How often a law was looked at for a side, and how often it was broken.
    pub(crate) tally: HashMap<(&'static str, Side), (u64, u64)>,
    found: Vec<Breach>,
}

fn is<T: Decode>(raw: Option<&Raw>) -> bool {
    raw.is_some_and(|raw| from_json::<T>(raw.get()).is_ok())
}

impl Judge {
    /// What is wrong with a frame; `None` is one that is no JSON.
    pub fn frame(&mut self, from: Side, json: Option<&str>) -> Vec<Breach> {
        self.heard(from, json, true)
    }

    /// What is wrong with a frame of a recording that says this of itself; `None` for what is not judged.
    pub fn recorded(&mut self, frame: &Frame, header: &Header) -> Option<Vec<Breach>> {
        self.shape |= header.kept == Kept::Shape;
        // Who has started the agent is alone with it, until the end of its input, which may cancel what it is at.
        self.alone = (self.alone || self.frames == 0 && !header.command.is_empty()) && !frame.end;
        if frame.end || frame.dropped || !frame.from.talks() {
            return None;
        }
        let text = String::from_utf8_lossy(&frame.body);
        let found = self.heard(frame.from, frame.message.is_some().then_some(&*text), matches!(text, Cow::Borrowed(_)));
        Some(found.into_iter().map(|breach| Breach { frame: frame.number, ..breach }).collect())
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
        let Some(row) = find(law) else { return };
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
        for (fine, said) in [
            (one, "an answer needs one of `result` and `error`"),
            (whole, "an error needs `code`, a whole number, and `message`, a text"),
        ] {
            self.expect("rpc-answer", fine, || said.to_owned());
        }
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
                    found.extend(bare_flag(result).filter(|_| self.dialect == Some(Dialect::V1)));
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
fn bare_flag(result: &str) -> Option<Error> {
    let result: serde_json::Value = serde_json::from_str(result).ok()?;
    let is_other = |flag: &serde_json::Value| !flag.is_boolean() && !flag.is_null();
    let value = |flag: &&str| result.pointer(&format!("/agentCapabilities/{flag}")).is_some_and(is_other);
    let wrong = FLAGS.split(' ').find(value)?;
    Some(Error::data("true or false was expected").inside(wrong.replace('/', ".")).inside("agentCapabilities"))
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
