//! The echo example answers clients of all three dialects, in both framings, from one handler: proved byte by byte.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use tieline_interop::{Framing, bin};

const PATIENCE: Duration = Duration::from_secs(10);

/// What a client of one dialect says and hears. Ids that the agent makes up are called `$session`, `$user` and `$agent`.
struct Transcript {
    name: &'static str,
    lines: &'static [(Way, &'static str)],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Say,
    Hear,
}

use Way::{Hear, Say};

const V1: Transcript = Transcript {
    name: "1",
    lines: &[
        (
            Say,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
        ),
        (
            Hear,
            r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentInfo":{"name":"echo","version":"0.0.0"},"agentCapabilities":{"loadSession":false,"mcpCapabilities":{"http":false,"sse":false},"promptCapabilities":{"audio":false,"embeddedContext":false,"image":false}},"authMethods":[]}}"#,
        ),
        (Say, r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#),
        (Hear, r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"$session"}}"#),
        (
            Say,
            r#"{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"$session","prompt":[{"type":"text","text":"grüß\ndich 🦀"}]}}"#,
        ),
        (
            Hear,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$session","update":{"sessionUpdate":"agent_message_chunk","messageId":"$agent","content":{"type":"text","text":"grüß\ndich 🦀"}}}}"#,
        ),
        (Hear, r#"{"jsonrpc":"2.0","id":"p","result":{"stopReason":"end_turn"}}"#),
    ],
};

const V2_SEED: Transcript = Transcript {
    name: "2-seed",
    lines: &[
        (
            Say,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#,
        ),
        (
            Hear,
            r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2,"agentInfo":{"name":"echo","version":"0.0.0"},"capabilities":{"session":{}},"authMethods":[]}}"#,
        ),
        (Say, r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w","mcpServers":[]}}"#),
        (Hear, r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"$session"}}"#),
        (
            Say,
            r#"{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"$session","prompt":[{"type":"text","text":"grüß\ndich 🦀"}]}}"#,
        ),
        (
            Hear,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$session","update":{"sessionUpdate":"user_message","messageId":"$user","content":[{"type":"text","text":"grüß\ndich 🦀"}]}}}"#,
        ),
        (
            Hear,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$session","update":{"sessionUpdate":"agent_message_chunk","messageId":"$agent","content":{"type":"text","text":"grüß\ndich 🦀"}}}}"#,
        ),
        (Hear, r#"{"jsonrpc":"2.0","id":"p","result":{"stopReason":"end_turn"}}"#),
    ],
};

const V2: Transcript = Transcript {
    name: "2",
    lines: &[
        (
            Say,
            r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2,"info":{"name":"c","version":"1"}}}"#,
        ),
        (
            Hear,
            r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":2,"info":{"name":"echo","version":"0.0.0"},"capabilities":{"session":{}},"authMethods":[]}}"#,
        ),
        (Say, r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/w"}}"#),
        (Hear, r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId":"$session"}}"#),
        (
            Say,
            r#"{"jsonrpc":"2.0","id":"p","method":"session/prompt","params":{"sessionId":"$session","prompt":[{"type":"text","text":"grüß\ndich 🦀"}]}}"#,
        ),
        (Hear, r#"{"jsonrpc":"2.0","id":"p","result":{"messageId":"$user"}}"#),
        (
            Hear,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$session","update":{"sessionUpdate":"user_message","messageId":"$user","content":[{"type":"text","text":"grüß\ndich 🦀"}]}}}"#,
        ),
        (
            Hear,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$session","update":{"sessionUpdate":"state_update","state":"running"}}}"#,
        ),
        (
            Hear,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$session","update":{"sessionUpdate":"agent_message_chunk","messageId":"$agent","content":{"type":"text","text":"grüß\ndich 🦀"}}}}"#,
        ),
        (
            Hear,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"$session","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}}}"#,
        ),
    ],
};

/// A running echo agent, and the raw bytes to and from it.
struct Echo {
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<Vec<u8>>,
    framing: Framing,
    ids: Vec<(&'static str, String)>,
}

impl Echo {
    fn start(framing: Framing) -> Self {
        let mut command = Command::new(bin("interop-echo"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the agent starts");
        let (to, out) = (child.stdin.take(), child.stdout.take().expect("it has an output"));
        let (sender, from) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            while let Some(frame) = frame(&mut out, framing) {
                if sender.send(frame).is_err() {
                    break;
                }
            }
        });
        Self { child, to, from, framing, ids: Vec::new() }
    }

    fn say(&mut self, body: &str) {
        let body = self.ids.iter().fold(body.to_owned(), |text, (name, id)| text.replace(name, id));
        let bytes = match self.framing {
            Framing::Lines => format!("{body}\n"),
            Framing::Headers => format!("Content-Length: {}\r\n\r\n{body}", body.len()),
        };
        self.to.as_mut().expect("not closed yet").write_all(bytes.as_bytes()).expect("the agent reads");
    }

    /// The next frame must be these bytes. An id that was not seen before is learned, and must be a new one.
    fn hear(&mut self, expected: &str) {
        let frame = self.from.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("nothing came instead of {expected}"));
        let frame = String::from_utf8(frame).expect("UTF-8");
        let body = match self.framing {
            Framing::Lines => frame.strip_suffix('\n').expect("one line").to_owned(),
            Framing::Headers => {
                let (head, body) = frame.split_once("\r\n\r\n").expect("a header");
                assert_eq!(head, format!("Content-Length: {}", body.len()));
                body.to_owned()
            }
        };
        let mut expected = expected.to_owned();
        for name in ["$session", "$user", "$agent"] {
            if let Some(at) = expected.find(name) {
                let known = self.ids.iter().find(|(known, _)| *known == name).map(|(_, id)| id.clone());
                let id = known.unwrap_or_else(|| {
                    // Replacements left of it have their full length by now, so the place is right.
                    let rest = body.get(at..).unwrap_or_default();
                    let id = rest.split('"').next().unwrap_or_default().to_owned();
                    assert!(!id.is_empty() && self.ids.iter().all(|(_, other)| *other != id), "{name} in {body}");
                    self.ids.push((name, id.clone()));
                    id
                });
                expected = expected.replace(name, &id);
            }
        }
        assert_eq!(body, expected);
    }

    /// After the end of its input the agent says nothing more and ends well.
    fn finish(mut self) {
        drop(self.to.take());
        let more = self.from.recv_timeout(PATIENCE).ok().map(|frame| String::from_utf8_lossy(&frame).into_owned());
        assert_eq!(more, None);
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

/// Reads one frame with everything that belongs to it.
fn frame(out: &mut BufReader<ChildStdout>, framing: Framing) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    out.read_until(b'\n', &mut bytes).ok().filter(|n| *n > 0)?;
    if framing == Framing::Headers {
        let length: usize = String::from_utf8_lossy(&bytes).trim().strip_prefix("Content-Length: ")?.parse().ok()?;
        out.read_until(b'\n', &mut bytes).ok()?;
        let start = bytes.len();
        bytes.resize(start + length, 0);
        out.read_exact(&mut bytes[start..]).ok()?;
    }
    Some(bytes)
}

#[test]
fn one_handler_answers_three_dialects_in_two_framings() {
    for Transcript { name, lines } in [V1, V2_SEED, V2] {
        for framing in [Framing::Lines, Framing::Headers] {
            let mut echo = Echo::start(framing);
            for (way, body) in lines {
                match way {
                    Say => echo.say(body),
                    Hear => echo.hear(body),
                }
            }
            let ids = echo.ids.len();
            echo.finish();
            assert_eq!(ids, if name == "1" { 2 } else { 3 }, "{name} {framing:?}");
        }
    }
}

/// The same bytes at once, as a script would pipe them, need no reader that answers in between.
#[test]
fn a_piped_hello_is_answered_before_the_end() {
    for Transcript { lines, .. } in [V1, V2_SEED, V2] {
        for framing in [Framing::Lines, Framing::Headers] {
            let mut echo = Echo::start(framing);
            let (said, heard): (Vec<_>, Vec<_>) = lines[..4].iter().partition(|(way, _)| *way == Say);
            for (_, body) in said {
                echo.say(body);
            }
            drop(echo.to.take());
            for (_, body) in heard {
                echo.hear(body);
            }
            echo.finish();
        }
    }
}
