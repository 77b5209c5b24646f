//! Plays one side of a recording against a live other side, and takes note of where that diverges.

use crate::filter::parse;
use crate::likeness::{Likeness, differs, told};
use crate::{Frame, Side};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;
use tieline_rpc::{Event, Transport};

/// Updates that are still to come are waited for as long as something comes, and then this long.
const QUIET: Duration = Duration::from_secs(1);
/// So many divergences are kept; all are counted.
const MAX_DIVERGENCES: usize = 1000;
/// Among so many of its kind, and so far ahead of what is waited for, a message is looked for.
const MAX_AHEAD: usize = 100;

/// How the key of an answer begins; its id follows.
const ANSWER: &str = "the answer to #";

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

/// A message of the recording, a line that is none, or an end.
#[derive(Debug, Default)]
struct Step {
    frame: Frame,
    message: Value,
    /// What it is, for people and to find it again.
    key: String,
    /// Text may come in other pieces: all of this kind until the played side speaks, and how much of it has come.
    text: Option<String>,
    heard: usize,
    /// It has come, or nobody waits for it any more.
    done: bool,
}

impl Step {
    /// The text that has not come yet, as it is said now. A name may begin in what has come, so the whole is translated.
    fn rest(&self, likeness: &Likeness) -> String {
        let text = self.text.as_ref().map(|text| likeness.text(text)).unwrap_or_default();
        text.get(self.heard..).unwrap_or_default().to_owned()
    }
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
    /// What the live side says from here on is waited for,
    start: usize,
    /// until here, which is where it is played on.
    at: usize,
    likeness: Likeness,
    /// Ids of the live side's requests, by the recorded ones.
    ids: HashMap<String, Value>,
    stopped: bool,
    /// What was sent.
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
        let mut steps: Vec<Step> = Vec::new();
        for mut frame in frames.into_iter().filter(|frame| frame.from.talks()) {
            if frame.from == options.side || frame.end {
                let message = frame.message.take().unwrap_or_default();
                steps.push(Step { frame, message, key: "its end".to_owned(), ..Step::default() });
                continue;
            }
            for message in messages(&frame.body) {
                let (key, text) = (key(&message), text(&message).map(str::to_owned));
                let mut before = steps.iter_mut().rev().take_while(|step| step.frame.from != options.side);
                let same = before.find(|step| step.key == key && step.text.is_some());
                match (same.and_then(|step| step.text.as_mut()), text) {
                    (Some(whole), Some(text)) => *whole += &text,
                    (_, text) => {
                        let frame = Frame { number: frame.number, from: frame.from, ..Frame::default() };
                        steps.push(Step { frame, message, key, text, ..Step::default() });
                    }
                }
            }
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

    /// Steps of the live side that have not come.
    fn open(&self, steps: Range<usize>) -> impl DoubleEndedIterator<Item = usize> {
        steps.filter(|at| self.steps[*at].frame.from != self.options.side && !self.steps[*at].done)
    }

    /// Something of the live side is waited for.
    fn waits(&self) -> bool {
        self.open(self.start..self.at).next().is_some()
    }

    fn next(&mut self) -> Next {
        while let Some(Step { frame, .. }) = self.steps.get(self.at) {
            let played = frame.from == self.options.side;
            if played && self.waits() {
                break;
            }
            self.at += 1;
            if played {
                self.start = self.at;
                if let Some(next) = self.say(self.at - 1) {
                    return next;
                }
            }
        }
        let over = self.at == self.steps.len() && !self.waits();
        if over && self.options.side == Side::Client {
            return Next::Close;
        }
        // If the live side is further than what is waited for, that will hardly come.
        let ahead = self.steps[self.at..].iter().take(MAX_AHEAD).any(|step| step.done || step.heard > 0);
        let needed = |at: usize| self.steps[at].frame.end || self.steps[at].message.get("id").is_some();
        // An agent stays until its client goes.
        let long = over || !ahead && self.open(self.start..self.at).rev().any(needed);
        Next::Wait(if long { self.options.timeout } else { QUIET })
    }

    /// What is sent for a step, as it was recorded if nothing in it has another name now; `None` for an answer that nobody asked for.
    fn say(&mut self, at: usize) -> Option<Next> {
        let Step { frame, message, .. } = &self.steps[at];
        if frame.end {
            return Some(Next::Close);
        }
        if let (Some(folder), Some(cwd)) = (&self.options.folder, message["params"]["cwd"].as_str()) {
            self.likeness.learn_path(cwd, folder);
            self.options.folder = None;
        }
        let mut said = message.clone();
        self.likeness.say("", &mut said);
        if said.get("method").is_none()
            && let Some(id) = said.get_mut("id")
        {
            *id = self.ids.remove(&id.to_string())?;
        }
        let mut bytes = if said == *message { frame.body.clone() } else { said.to_string().into_bytes() };
        // A body over several lines has to become one.
        bytes.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        self.sent += 1;
        Some(Next::Send(bytes))
    }

    /// Takes what the live side said; gives what to answer to it at once.
    fn heard(&mut self, body: &[u8]) -> Vec<Value> {
        messages(body).iter().filter_map(|message| self.message(message)).collect()
    }

    fn message(&mut self, live: &Value) -> Option<Value> {
        let (key, text) = (key(live), text(live));
        let alike = |at: &usize| self.steps[*at].key == key && self.steps[*at].text.is_some() == text.is_some();
        let mut candidates: Vec<usize> = self.open(self.start..self.at).filter(alike).take(MAX_AHEAD).collect();
        if candidates.is_empty() {
            candidates.extend(self.open(self.at..self.steps.len()).take(MAX_AHEAD).find(alike));
        }
        if let (Some(text), [at, ..]) = (text, &*candidates) {
            self.piece(*at, text);
            return None;
        }
        // The first that is the same, or the one that differs least.
        let mut best: Option<(usize, Likeness, Vec<String>)> = None;
        for at in candidates {
            let mut recorded = self.steps[at].message.clone();
            if let Some(id) = live.get("id") {
                recorded["id"] = id.clone();
            }
            let (mut likeness, mut found) = (self.likeness.clone(), Vec::new());
            likeness.compare(&recorded, live, "", &mut found);
            let same = found.is_empty();
            if best.as_ref().is_none_or(|(_, _, least)| found.len() < least.len()) {
                best = Some((at, likeness, found));
            }
            if same {
                break;
            }
        }
        let Some((at, likeness, found)) = best else { return self.extra(live) };
        self.likeness = likeness;
        let Step { frame, message, done, .. } = &mut self.steps[at];
        let number = frame.number;
        *done = true;
        if let (Some(id), Some(_)) = (live.get("id"), live.get("method")) {
            self.ids.insert(message["id"].to_string(), id.clone());
        }
        self.matched += usize::from(found.is_empty());
        for what in found {
            self.diverges(Some(number), &format!("{key}: {what}"));
        }
        None
    }

    /// The next piece of a text has come.
    fn piece(&mut self, at: usize, piece: &str) {
        let step = &mut self.steps[at];
        let rest = step.rest(&self.likeness);
        if let Some(rest) = rest.strip_prefix(piece) {
            step.heard += piece.len();
            step.done = rest.is_empty();
            self.matched += 1;
        } else if !rest.is_empty() {
            let what = differs(&step.key, &rest.into(), &piece.into());
            // The rest of what differs would only say the same again.
            step.text = Some(String::new());
            let number = step.frame.number;
            self.diverges(Some(number), &what);
        }
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
        let missing: Vec<usize> = self.open(self.start..self.at).collect();
        if missing.is_empty() {
            self.diverges(None, "the live side neither says anything nor ends");
            self.stopped = true;
        }
        for at in missing {
            let step = &mut self.steps[at];
            step.done = true;
            self.stopped |= step.key.starts_with(ANSWER);
            let (number, rest) = (step.frame.number, step.rest(&self.likeness));
            let what = match &step.text {
                // What has come of it was something else, and that was told.
                Some(_) if rest.is_empty() => continue,
                Some(_) => format!("{}: {} did not come", step.key, told(&rest.into())),
                None => format!("{} did not come", step.key),
            };
            self.diverges(Some(number), &what);
        }
    }

    /// The live side has ended.
    fn gone(&mut self) {
        self.stopped = true;
        self.at = self.steps.len();
        self.steps.iter_mut().for_each(|step| step.done |= step.frame.end);
        if self.waits() {
            self.silence();
        }
    }
}

/// The messages in a frame. A line that is none is a text.
fn messages(body: &[u8]) -> Vec<Value> {
    let text = String::from_utf8_lossy(body);
    match parse(&text).unwrap_or_else(|| text.into()) {
        Value::Array(batch) => batch,
        message => vec![message],
    }
}

/// What a message is, for people and to find it again.
fn key(message: &Value) -> String {
    let update = message.pointer("/params/update/sessionUpdate").and_then(Value::as_str);
    match (message["method"].as_str(), update, message.get("id")) {
        (Some(method), Some(kind), _) => format!("{method} {kind}"),
        (Some(method), None, _) => method.to_owned(),
        (None, _, Some(id)) => format!("{ANSWER}{id}"),
        (None, _, None) => "a line that is no message".to_owned(),
    }
}

/// Text that may come in other pieces.
fn text(message: &Value) -> Option<&str> {
    let update = message.pointer("/params/update")?;
    let chunk = update["sessionUpdate"].as_str()?.ends_with("_chunk");
    update["content"]["text"].as_str().filter(|_| chunk)
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
            let body = |text: &str| said(text).to_string().into_bytes();
            let frame = |text: &str| Frame { from: Side::Agent, body: body(text), ..Frame::default() };
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

    #[test]
    fn a_line_that_is_no_message_is_compared_with_the_recorded_one() {
        let frame = |number, body: &str| Frame { number, from: Side::Agent, body: body.into(), ..Frame::default() };
        let options = Options { side: Side::Client, extra: Extra::Stop, ..Options::default() };
        let mut player = Player::new([frame(1, "npm WARN"), frame(2, "ready")], options);
        assert!(matches!(player.next(), Next::Wait(_)));
        player.heard(b"ready");
        player.heard(b"npm ERR");
        assert_eq!(player.divergences, ["frame 1: a line that is no message: recorded \"npm WARN\", live \"npm ERR\""]);
        assert!((player.matched, player.stopped) == (1, false) && matches!(player.next(), Next::Close));
        player.heard(b"more");
        assert_eq!(player.divergences[1], "not in the recording: a line that is no message \"more\"");
        assert!(player.stopped);
    }
}
