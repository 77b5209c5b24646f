//! Plays one side of a recording against a live other side, and takes note of where that diverges.

use crate::likeness::{Likeness, told};
use crate::{Frame, Side};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tieline_rpc::{Event, Transport};

/// Updates that are still to come are waited for as long as something comes, and then this long.
const QUIET: Duration = Duration::from_secs(1);
/// So many divergences are kept; all are counted.
const MAX_DIVERGENCES: usize = 1000;
/// So far ahead of what is waited for a message is looked for.
const MAX_AHEAD: usize = 100;

/// What to do about a message of the live side that is not in the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extra {
    /// Answers a request with an error, and goes on.
    #[default]
    Refuse,
    /// Does not answer, and goes on.
    Ignore,
    /// Ends the replay.
    Stop,
}

/// How to play.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Which side is played.
    pub side: Side,
    /// What to do about the unexpected.
    pub extra: Extra,
    /// How long an answer, or a recorded request, may take.
    pub timeout: Duration,
    /// Where the recorded session worked, for the client's side: its first folder becomes this one.
    pub folder: Option<String>,
}

/// A message of the recording.
#[derive(Debug)]
struct Step {
    frame: Frame,
    /// It came before its turn; nobody waits for it again.
    done: bool,
}

/// Text of one kind, from the frame where it starts, and how much of it has come.
#[derive(Debug, Default)]
struct Text {
    frame: usize,
    recorded: String,
    heard: usize,
}

/// What to do now.
enum Next {
    Send(Vec<u8>),
    Wait(Duration),
    Close,
}

/// Plays a recording.
#[derive(Debug, Default)]
pub struct Player {
    options: Options,
    steps: Vec<Step>,
    /// The first step that is neither sent nor waited for.
    at: usize,
    /// Steps of the live side that are waited for.
    awaited: Vec<usize>,
    /// Text that is waited for, by its kind: it may come in other pieces.
    text: BTreeMap<String, Text>,
    likeness: Likeness,
    /// Ids of the live side's requests, by the recorded ones.
    ids: HashMap<String, Value>,
    /// The live side is further than what is waited for, which will hardly come then.
    ahead: bool,
    stopped: bool,
    /// What was sent, and what came as recorded.
    pub sent: usize,
    /// What came as recorded.
    pub matched: usize,
    /// Where the live side diverged; the first ones.
    pub divergences: Vec<String>,
    /// How often it did.
    pub count: usize,
}

impl Player {
    /// Plays these frames.
    pub fn new(frames: impl IntoIterator<Item = Frame>, options: Options) -> Self {
        let mut steps = Vec::new();
        for mut frame in frames.into_iter().filter(|frame| frame.from.talks()) {
            let messages = match frame.message.take() {
                // Each message of a batch is a step of its own.
                Some(Value::Array(batch)) if frame.from != options.side => batch.into_iter().map(Some).collect(),
                message => vec![message],
            };
            let step = |message| Step { frame: Frame { message, ..frame.clone() }, done: false };
            steps.extend(messages.into_iter().map(step));
        }
        Self { options, steps, ..Self::default() }
    }

    /// Plays to the end.
    pub async fn play(&mut self, transport: Transport) {
        let (mut reader, writer) = transport.open();
        while !self.stopped {
            match self.next() {
                Next::Close => break,
                Next::Send(bytes) => {
                    if writer.send(|out| out.extend_from_slice(&bytes)).await.is_err() {
                        self.gone();
                    }
                }
                Next::Wait(limit) => match tokio::time::timeout(limit, reader.next()).await {
                    Err(_) => self.silence(),
                    Ok(Event::Frame(at) | Event::Last(at)) => {
                        for answer in self.heard(reader.bytes(at)) {
                            let _ = writer.send(|out| out.extend_from_slice(answer.to_string().as_bytes())).await;
                        }
                    }
                    Ok(Event::TooLong(_)) => self.diverges(None, "a message that is too long"),
                    Ok(Event::Broken(why)) => {
                        self.diverges(None, why);
                        self.gone();
                    }
                    Ok(Event::End(_)) => self.gone(),
                },
            }
        }
        writer.close().await;
        // What an agent still says is in the recording, or it is not.
        let last = !self.stopped && self.options.side == Side::Client;
        while last && let Ok(Event::Frame(at) | Event::Last(at)) = tokio::time::timeout(QUIET, reader.next()).await {
            self.heard(reader.bytes(at));
        }
    }

    /// Takes note of a divergence.
    pub fn diverges(&mut self, frame: Option<usize>, what: &str) {
        self.count += 1;
        if self.divergences.len() < MAX_DIVERGENCES {
            let place = frame.map_or_else(|| "not in the recording".to_owned(), |frame| format!("frame {frame}"));
            self.divergences.push(format!("{place}: {what}"));
        }
    }

    /// Something of the live side is waited for.
    fn waits(&self) -> bool {
        !self.awaited.is_empty() || !self.text.is_empty()
    }

    fn next(&mut self) -> Next {
        while let Some(Step { frame, done }) = self.steps.get(self.at) {
            let at = self.at;
            if frame.from == self.options.side {
                if self.waits() {
                    break;
                }
                self.at += 1;
                if frame.end {
                    return Next::Close;
                }
                if let Some(bytes) = self.say(at) {
                    self.sent += 1;
                    return Next::Send(bytes);
                }
                continue;
            }
            match frame.message.as_ref().and_then(chunk) {
                _ if *done => {}
                Some((kind, text)) => {
                    let new = || Text { frame: frame.number, ..Text::default() };
                    self.text.entry(kind).or_insert_with(new).recorded += text;
                }
                None => self.awaited.push(at),
            }
            self.at += 1;
        }
        let over = self.at == self.steps.len() && !self.waits();
        if over && self.options.side == Side::Client {
            return Next::Close;
        }
        // An agent stays until its client goes.
        let needed = over || (!self.ahead && self.awaited.iter().any(|at| self.steps[*at].is_needed()));
        Next::Wait(if needed { self.options.timeout } else { QUIET })
    }

    /// What is sent for a step, as it was recorded if nothing in it has another name now; `None` for an answer that nobody asked for.
    fn say(&mut self, at: usize) -> Option<Vec<u8>> {
        let frame = &self.steps[at].frame;
        let mut bytes = frame.body.clone();
        if let Some(message) = &frame.message {
            if let (Some(folder), Some(cwd)) = (&self.options.folder, message["params"]["cwd"].as_str()) {
                self.likeness.learn_path(cwd, folder);
                self.options.folder = None;
            }
            for part in ["params", "result"] {
                self.likeness.says(part, &message[part]);
            }
            let mut said = self.likeness.translate(message);
            if said.get("method").is_none() && said.get("id").is_some() {
                let recorded = said["id"].to_string();
                said["id"] = self.ids.remove(&recorded)?;
            }
            if said != *message {
                bytes = said.to_string().into_bytes();
            }
        }
        // A body over several lines has to become one.
        bytes.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        Some(bytes)
    }

    /// Takes what the live side said; gives what to answer to it at once.
    fn heard(&mut self, body: &[u8]) -> Vec<Value> {
        let text = String::from_utf8_lossy(body);
        match serde_json::from_str(&text) {
            Ok(Value::Array(batch)) => batch.iter().filter_map(|message| self.message(message)).collect(),
            Ok(message) => self.message(&message).into_iter().collect(),
            Err(_) => {
                let same = |at: &usize| self.steps[*at].frame.message.is_none() && self.steps[*at].frame.body == body;
                if let Some(at) = self.awaited.iter().position(same) {
                    self.awaited.remove(at);
                    self.matched += 1;
                } else {
                    self.diverges(None, &format!("a line that is no message: {}", told(&text.into())));
                }
                Vec::new()
            }
        }
    }

    fn message(&mut self, live: &Value) -> Option<Value> {
        if let Some((kind, text)) = chunk(live)
            && let Some(expected) = self.text.get_mut(&kind)
        {
            let (frame, rest) = (expected.frame, expected.rest(&self.likeness));
            match rest.strip_prefix(text) {
                Some("") => drop(self.text.remove(&kind)),
                Some(_) => expected.heard += text.len(),
                // The rest of what differs would only say the same again.
                None if expected.recorded.is_empty() => {}
                None => {
                    let what = format!("{kind}: recorded {}, live {}", told(&rest.into()), told(&text.into()));
                    expected.recorded.clear();
                    self.diverges(Some(frame), &what);
                }
            }
            self.matched += 1;
            return None;
        }
        let key = key(live);
        let alike = |at: &usize| self.steps[*at].frame.message.as_ref().map(self::key).as_ref() == Some(&key);
        let mut candidates: Vec<usize> = self.awaited.iter().copied().filter(alike).collect();
        if candidates.is_empty() {
            let later = |at: &usize| self.steps[*at].frame.from != self.options.side && !self.steps[*at].done;
            let mut later = (self.at..self.steps.len()).filter(later).take(MAX_AHEAD);
            candidates.extend(later.find(alike));
        }
        let compared = candidates.into_iter().map(|at| {
            let mut recorded = self.steps[at].frame.message.clone().unwrap_or_default();
            if let Some(id) = live.get("id") {
                recorded["id"] = id.clone();
            }
            let (mut likeness, mut found) = (self.likeness.clone(), Vec::new());
            likeness.compare(&recorded, live, "", &mut found);
            (at, likeness, found)
        });
        // Of several the one that is the same, or the first.
        let best = compared.min_by_key(|(_, _, found)| found.len());
        let Some((at, likeness, found)) = best else { return self.extra(live) };
        self.likeness = likeness;
        self.ahead |= !self.awaited.contains(&at);
        self.awaited.retain(|awaited| *awaited != at);
        let Step { frame, done } = &mut self.steps[at];
        let number = frame.number;
        *done = true;
        if let (Some(id), Some(_), Some(recorded)) = (live.get("id"), live.get("method"), &frame.message) {
            self.ids.insert(recorded["id"].to_string(), id.clone());
        }
        self.matched += usize::from(found.is_empty());
        for what in found {
            self.diverges(Some(number), &format!("{key}: {what}"));
        }
        None
    }

    fn extra(&mut self, live: &Value) -> Option<Value> {
        self.diverges(None, &format!("{} {}", key(live), told(live)));
        self.stopped |= self.options.extra == Extra::Stop;
        let refuses = live.get("method").is_some() && self.options.extra == Extra::Refuse;
        let id = live.get("id").filter(|_| refuses)?;
        let error = json!({"code": -32601, "message": "this is not in the recording that is replayed"});
        Some(json!({"jsonrpc": "2.0", "id": id, "error": error}))
    }

    /// Nothing came for too long.
    fn silence(&mut self) {
        if !self.waits() {
            self.diverges(None, "the live side neither says anything nor ends");
            self.stopped = true;
        }
        self.ahead = false;
        for at in std::mem::take(&mut self.awaited) {
            let frame = &self.steps[at].frame;
            let number = frame.number;
            let what = match &frame.message {
                _ if frame.end => "it was recorded that this side ends".to_owned(),
                Some(message) => {
                    self.stopped |= message.get("method").is_none();
                    format!("{} did not come", key(message))
                }
                None => "a line did not come".to_owned(),
            };
            self.diverges(Some(number), &what);
        }
        for (kind, text) in std::mem::take(&mut self.text) {
            let rest = text.rest(&self.likeness);
            if !rest.is_empty() {
                self.diverges(Some(text.frame), &format!("{kind}: {} did not come", told(&rest.into())));
            }
        }
    }

    /// The live side has ended.
    fn gone(&mut self) {
        self.stopped = true;
        self.awaited.extend(self.at..self.steps.len());
        self.at = self.steps.len();
        let comes = |step: &Step| step.frame.from != self.options.side && !step.done && !step.frame.end;
        self.awaited.retain(|at| comes(&self.steps[*at]));
        if self.waits() {
            self.silence();
        }
    }
}

impl Text {
    /// What has not come yet, as it is said now. A name may begin in what has come, so the whole text is translated.
    fn rest(&self, likeness: &Likeness) -> String {
        likeness.text(&self.recorded).get(self.heard..).unwrap_or_default().to_owned()
    }
}

impl Step {
    /// Whether the recording can't go on without it.
    fn is_needed(&self) -> bool {
        self.frame.end || self.frame.message.as_ref().is_some_and(|message| message.get("id").is_some())
    }
}

/// What a message is, for people and to find it again.
fn key(message: &Value) -> String {
    let update = message.pointer("/params/update/sessionUpdate").and_then(Value::as_str);
    match (message["method"].as_str(), update, message.get("id")) {
        (Some(method), Some(kind), _) => format!("{method} {kind}"),
        (Some(method), None, _) => method.to_owned(),
        (None, _, Some(id)) => format!("the answer to #{id}"),
        (None, _, None) => "a message of no kind".to_owned(),
    }
}

/// Text that may come in other pieces: its kind, and the text.
fn chunk(message: &Value) -> Option<(String, &str)> {
    let update = message.pointer("/params/update")?;
    let kind = update["sessionUpdate"].as_str().filter(|kind| kind.ends_with("_chunk"))?;
    Some((kind.to_owned(), update["content"]["text"].as_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> Value {
        let update = json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}});
        json!({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s", "update": update}})
    }

    #[test]
    fn text_in_other_pieces_is_translated_once() {
        // The live folder is below the recorded one; a path may be cut anywhere.
        for (recorded, live, divergences) in [
            (["see /w/a ", "and /w/b"], ["see /w/sub/a and ", "/w/sub/b"], 0),
            (["see /w/a ", "and /w/b"], ["see /w/s", "ub/a and /w/sub/b"], 0),
            (["see /w/a ", "and /w/b"], ["see /w/sub/a and ", "/w/sub/sub/b"], 1),
        ] {
            let frame = |text: &str| Frame { from: Side::Agent, message: Some(said(text)), ..Frame::default() };
            let options = Options { side: Side::Client, ..Options::default() };
            let mut player = Player::new(recorded.map(frame), options);
            player.likeness.learn_path("/w", "/w/sub");
            assert!(matches!(player.next(), Next::Wait(_)));
            for piece in live {
                player.message(&said(piece));
            }
            assert_eq!(player.count, divergences, "{live:?}: {:?}", player.divergences);
        }
    }
}
