//! Probes: one thing is sent to an agent, and what comes back is compared with a row.

use crate::agent::Stage;
use crate::peer::{MUTE, Reply, Stop, is_answer, late};
use crate::sheet::Verdict;
use crate::table::{AGENT, Check, Kind, Level};
use serde_json::Value;
use std::time::Duration;
use tieline_schema::Dialects;
use tieline_trace::Side;

/// A line that can't be used is refused within this time after the next one was answered.
const REFUSAL: Duration = Duration::from_secs(5);

/// What has to come back.
#[derive(Debug, Clone, Copy)]
pub enum Expect {
    /// An error with one of these codes; none: with any.
    Error(&'static [i64]),
    /// An error without an id, with one of these codes.
    Unnamed(&'static [i64]),
    /// A result.
    Result,
    /// Nothing at all.
    Silence,
    /// Whatever comes, something does.
    Anything,
    /// An array of so many answers, or one error without an id.
    Batch(usize),
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct Probe {
    /// The check.
    pub check: Check,
    /// What is sent: `$ID` is our id, `$SESSION` and `$CWD` are those of the session.
    pub send: &'static str,
    /// What has to come back.
    pub expect: Expect,
}

use Expect::{Anything, Batch, Error, Result as Answer, Silence, Unnamed};
use Level::{Must, Note, Should};
const ALL: Dialects = Dialects::ALL;
const RPC: &str = "JSON-RPC 2.0";
const EXT: &str = "ACP: extensibility";
const SCHEMA: &str = "ACP: schema";

/// Every probe. They are sent to one process, one after the other; each is followed by a question that tells when it was read.
#[rustfmt::skip]
pub const PROBES: &[Probe] = &[
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-method-unknown", Must, ALL, "V1-ERR-02 V2-EXT-04", "An unknown request is refused with -32601.", RPC, "Answer -32601 for methods that you don't have."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/tieline_check_nothing","params":{}}"#, expect: Error(&[-32601]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-extension-unknown", Must, ALL, "V1-EXT-03 V2-EXT-04", "An unknown request of an implementation is refused with -32601.", EXT, "Answer -32601 for methods with `_` that you don't have."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"_tieline.check/nothing","params":{"a":[1,null,{"b":"c"}]}}"#, expect: Error(&[-32601]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-notification-extension", Must, ALL, "V1-EXT-04 V1-RPC-03", "An unknown notification of an implementation is passed over in silence.", EXT, "Don't answer what has no `id`."), send: r#"{"jsonrpc":"2.0","method":"_tieline.check/told","params":{}}"#, expect: Silence },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-notification-unknown", Must, ALL, "V1-RPC-03 TR-ENV-02", "An unknown notification is passed over in silence.", RPC, "Don't answer what has no `id`."), send: r#"{"jsonrpc":"2.0","method":"session/tieline_check_told","params":{}}"#, expect: Silence },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-notification-broken", Must, ALL, "V1-RPC-03 TR-ENV-02", "A broken notification is passed over in silence.", RPC, "Don't answer what has no `id`, also if it is wrong."), send: r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":5}}"#, expect: Silence },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-notification-bare", Must, ALL, "V1-RPC-03 TR-ENV-02", "A notification without its params is passed over in silence.", RPC, "Don't answer what has no `id`, and don't take params for granted."), send: r#"{"jsonrpc":"2.0","method":"session/cancel"}"#, expect: Silence },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-notification-dollar", Must, ALL, "V1-RPC-03 V1-CANCEL-13", "A `$/…` notification that is not known is passed over in silence.", RPC, "Ignore names with `$/` that you don't have."), send: r#"{"jsonrpc":"2.0","method":"$/tieline_check","params":{}}"#, expect: Silence },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-cancel-nothing", Must, Dialects::NOT_SEED, "V1-CANCEL-13 V2-CANCEL-10", "`$/cancel_request` of an id that nobody knows is passed over in silence.", "ACP: cancellation", "Ignore ids that you don't know."), send: r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":987654}}"#, expect: Silence },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-cancel-unknown", Must, ALL, "V1-RPC-03 V1-CANCEL-09", "A cancel for a session that nobody knows is passed over in silence.", "ACP: cancellation", "Ignore sessions that you don't know; a notification has no answer."), send: r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"tieline-check-no-such-session"}}"#, expect: Silence },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-answer-unasked", Should, ALL, "V1-RPC-12 TR-ENV-03", "An answer to nothing is passed over in silence.", RPC, "Never answer what looks like an answer: two peers could go on for ever."), send: r#"{"jsonrpc":"2.0","id":987654,"result":{}}"#, expect: Silence },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-id-text", Must, ALL, "V1-RPC-05", "An id that is a text comes back as it was.", RPC, "Keep ids as they are."), send: r#"{"jsonrpc":"2.0","id":"a text $ID","method":"_tieline.check/nothing"}"#, expect: Anything },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-id-number", Should, ALL, "V1-RPC-05 TR-ENV-05", "An id beyond 2^53 comes back as it was.", RPC, "Keep ids as they are; read as a double, they change."), send: r#"{"jsonrpc":"2.0","id":9007199254740993,"method":"_tieline.check/nothing"}"#, expect: Anything },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-json-broken", Should, ALL, "TR-STDIO-11", "A line that is no JSON is refused with -32700 and no id, and the connection goes on.", RPC, "Answer `{\"id\":null,\"error\":{\"code\":-32700,…}}`, and read the next line."), send: r#"{"jsonrpc":"2.0","method":"#, expect: Unnamed(&[-32700]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-no-object", Note, ALL, "TR-ENV-01", "A value that is no object is refused with -32600 and no id.", RPC, "Answer `{\"id\":null,\"error\":{\"code\":-32600,…}}`."), send: "5", expect: Unnamed(&[-32600]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-line-blank", Note, ALL, "TR-STDIO-10", "A blank line is passed over.", "ACP: transports", "Skip lines that hold nothing."), send: " ", expect: Silence },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-batch", Note, ALL, "TR-BAT-06 V2-BATCH-01", "A batch is answered with an array, or refused as a whole.", RPC, "Answer each request of it in one array; or answer -32600 with a null id."), send: r#"[{"jsonrpc":"2.0","id":"b1 $ID","method":"_tieline.check/nothing"},{"jsonrpc":"2.0","method":"_tieline.check/told"},{"jsonrpc":"2.0","id":"b2 $ID","method":"_tieline.check/nothing"}]"#, expect: Batch(2) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-batch-empty", Note, ALL, "TR-BAT-04", "An empty array is refused with -32600 and no id.", RPC, "Answer one object with -32600."), send: "[]", expect: Unnamed(&[-32600]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-params-missing", Must, ALL, "V1-ERR-03", "Params that lack something required are refused with -32602.", SCHEMA, "Read params by the schema, and answer -32602 if that fails."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/new","params":{}}"#, expect: Error(&[-32602]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-params-type", Must, ALL, "V1-ERR-03 V1-RPC-09", "Params of the wrong type are refused with -32602.", SCHEMA, "Read params by the schema, and answer -32602 if that fails."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/new","params":{"cwd":5,"mcpServers":[]}}"#, expect: Error(&[-32602]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-cwd-relative", Note, ALL, "V1-SESS-01 V2-SESS-01", "A session in a folder that is not absolute is refused with -32602.", "ACP: session setup", "Refuse a `cwd` that is not absolute."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/new","params":{"cwd":"not/absolute","mcpServers":[]}}"#, expect: Error(&[-32602]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-meta", Must, ALL, "V1-EXT-06", "`_meta` is taken everywhere, whatever is in it.", EXT, "Ignore keys of `_meta` that you don't know."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/new","params":{"cwd":"$CWD","mcpServers":[],"_meta":{"tieline.check":{"deep":[1,2]}}}}"#, expect: Answer },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-key-unknown", Should, ALL, "V1-RPC-10", "Keys that are not known are passed over.", EXT, "Ignore keys that you don't know: a later version may have them."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/new","params":{"cwd":"$CWD","mcpServers":[],"tielineCheckFuture":true}}"#, expect: Answer },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-prompt-missing", Must, ALL, "V1-RPC-09", "A prompt without its content is refused with -32602.", SCHEMA, "Read params by the schema, and answer -32602 if that fails."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/prompt","params":{"sessionId":"$SESSION"}}"#, expect: Error(&[-32602]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-prompt-broken", Must, ALL, "V1-RPC-09", "A prompt with a broken block is refused with -32602.", SCHEMA, "A text block without `text` is wrong as a whole."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/prompt","params":{"sessionId":"$SESSION","prompt":[{"type":"text"}]}}"#, expect: Error(&[-32602]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-session-unknown", Should, ALL, "V1-SESS-24 V2-SESS-17", "A prompt for a session that nobody knows is refused.", "ACP: session setup", "Answer an error; -32002 says what is missing."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/prompt","params":{"sessionId":"tieline-check-no-such-session","prompt":[{"type":"text","text":"hello"}]}}"#, expect: Error(&[]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-session-code", Should, Dialects::V2, "V2-SESS-17", "A session that nobody knows is refused with -32002.", "ACP v2: session setup", "Answer -32002 with `data.sessionId`."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/prompt","params":{"sessionId":"tieline-check-no-such-session","prompt":[{"type":"text","text":"hello"}]}}"#, expect: Error(&[-32002]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-session-code-v1", Note, Dialects::OLD, "V1-SESS-24", "A session that nobody knows is refused with -32002.", "ACP: schema, error codes", "Answer -32002, so that clients can tell it from other errors."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"session/prompt","params":{"sessionId":"tieline-check-no-such-session","prompt":[{"type":"text","text":"hello"}]}}"#, expect: Error(&[-32002]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-id-null", Note, Dialects::V2, "V1-RPC-05", "A request with the id null is refused with -32600.", "ACP v2: transports, message ids", "Answer -32600 with a null id."), send: r#"{"jsonrpc":"2.0","id":null,"method":"_tieline.check/nothing"}"#, expect: Unnamed(&[-32600]) },
    Probe { check: Check::row(Kind::Probe, AGENT, "probe-hello-again", Note, Dialects::V1, "V1-INIT-16", "A second hello is answered, one way or the other.", "ACP: initialization", "Answer -32600, or the same as before."), send: r#"{"jsonrpc":"2.0","id":$ID,"method":"initialize","params":{"protocolVersion":1}}"#, expect: Anything },
];

/// Sends all of them that apply to one agent.
pub(crate) async fn play(stage: &mut Stage) -> Result<(), Stop> {
    for probe in PROBES {
        if !stage.wants(&probe.check) {
            continue;
        }
        if stage.peer.is_none() {
            stage.ready().await?;
        }
        if let Err(stop) = one(stage, probe).await {
            // The next one gets another process.
            stage.add(probe.check.id, Verdict::Broken, &stop.said());
            // Where nobody agrees, it is a note that the agent ended, too.
            if probe.check.level != Level::Note {
                stage.blame(&stop);
            }
            stage.done().await;
        }
    }
    Ok(())
}

async fn one(stage: &mut Stage, probe: &Probe) -> Result<(), Stop> {
    let peer = stage.peer()?;
    let sent = peer.witness.log.len();
    let number = 1000 + sent;
    let folder = serde_json::Value::from(peer.folder.to_string_lossy()).to_string();
    let text = probe.send.replace("$ID", &number.to_string()).replace("$SESSION", &peer.session);
    let text = text.replace("$CWD", folder.trim_matches('"'));
    let id = serde_json::from_str::<Value>(&text).ok().and_then(|message| message.get("id").cloned());
    if peer.mute {
        return alone(stage, probe, &text, number).await;
    }
    peer.send(&text).await?;
    // What answers the probe; the canary's own answer tells that nothing more is to come.
    let canary = peer.ask("_tieline.check/canary", Value::Null).await?;
    let is_it = |message: &Value| is_answer(message) || message.is_array();
    let (mut heard, mut extra) = (None, None);
    loop {
        let message = peer.until("no answer", is_it).await?;
        if is_answer(&message) && message["id"] == canary {
            if heard.is_none() && !matches!(probe.expect, Silence) {
                // Answers may overtake each other; what needs no work to be refused does not take long.
                let quick = matches!(probe.expect, Unnamed(_) | Batch(_));
                let time = if quick { REFUSAL } else { Duration::MAX };
                let came = peer.within(time, "it is not answered", is_it).await;
                heard = Some(if quick { came.map_err(late)? } else { came? });
            }
            break;
        }
        *if heard.is_none() { &mut heard } else { &mut extra } = Some(message);
    }
    // What it is about is what came back, or what was sent; the canary is nobody's business.
    let others = peer.witness.log.iter().enumerate().skip(sent + 2);
    let about = others.rev().find(|(_, line)| line.from == Side::Agent && line.value()["id"] != canary);
    let about = about.map_or(sent, |(at, _)| at);
    let (fine, said) = match extra {
        Some(extra) => (false, format!("it is answered twice: {extra}")),
        None => fits(probe.expect, id.as_ref(), heard.as_ref()),
    };
    stage.expect(probe.check.id, fine, || said);
    stage.point(probe.check.id, about);
    Ok(())
}

/// The same where nothing tells that it was read: only what is answered by itself can be looked at.
async fn alone(stage: &mut Stage, probe: &Probe, text: &str, number: usize) -> Result<(), Stop> {
    if text.contains("_tieline.check") || !matches!(probe.expect, Error(_) | Answer) {
        stage.add(probe.check.id, Verdict::NotExercised, MUTE);
        return Ok(());
    }
    let peer = stage.peer()?;
    peer.send(text).await?;
    let heard = peer.until("no answer", |message| is_answer(message) && message["id"] == number).await?;
    let (fine, said) = fits(probe.expect, Some(&number.into()), Some(&heard));
    stage.expect(probe.check.id, fine, || said);
    Ok(())
}

fn fits(expect: Expect, id: Option<&Value>, heard: Option<&Value>) -> (bool, String) {
    let Some(heard) = heard else {
        return (matches!(expect, Silence), "nothing came back".into());
    };
    let said = format!("this came back: {heard}");
    let reply = Reply { message: heard.clone() };
    let named = id.is_some_and(|id| heard["id"] == *id);
    let has = |codes: &[i64]| reply.code().is_some_and(|code| codes.is_empty() || codes.contains(&code));
    let fine = match expect {
        Error(codes) => named && has(codes),
        Unnamed(codes) => heard["id"].is_null() && has(codes),
        Answer => named && reply.is_ok(),
        Anything => named,
        Batch(count) => heard.as_array().map_or_else(|| has(&[-32600]), |all| all.len() == count),
        Silence => false,
    };
    (fine, said)
}
