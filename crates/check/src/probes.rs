//! Probes: one thing is sent to an agent, and what comes back is compared with its row of the table.

use crate::agent::Stage;
use crate::peer::{MUTE, Stop, is_answer, is_ok, late};
use crate::sheet::Verdict;
use crate::table::{Check, Expect, Kind, Level, Probe, all};
use serde_json::Value;
use std::time::Duration;
use tieline_trace::Side;

/// A line that can't be used is refused within this time after the next one was answered.
const REFUSAL: Duration = Duration::from_secs(5);

/// Sends all of them that apply to one agent.
pub(crate) async fn play(stage: &mut Stage) -> Result<(), Stop> {
    for check in all() {
        let Kind::Probe(probe) = check.kind else { continue };
        if !stage.wants(check) {
            continue;
        }
        if stage.peer.is_none() {
            stage.ready().await?;
        }
        if let Err(stop) = one(stage, check, probe).await {
            // The next one gets another process.
            stage.add(check.id, Verdict::Broken, &stop.1);
            // Where nobody agrees, it is a note that the agent ended, too.
            if check.level != Level::Note {
                stage.blame(&stop);
            }
            stage.done().await;
        }
    }
    Ok(())
}

async fn one(stage: &mut Stage, check: &Check, probe: Probe) -> Result<(), Stop> {
    let peer = stage.peer()?;
    let sent = peer.witness.log.len();
    let number = 1000 + sent;
    let folder = serde_json::Value::from(peer.folder.to_string_lossy()).to_string();
    let text = probe.send.replace("$ID", &number.to_string()).replace("$SESSION", &peer.session);
    let text = text.replace("$CWD", folder.trim_matches('"')).replace("$BLANK", " ");
    let id = serde_json::from_str::<Value>(&text).ok().and_then(|message| message.get("id").cloned());
    // Where nothing tells that it was read, only what is answered by itself can be looked at.
    let plain = !text.contains("_tieline.check") && matches!(probe.expect, Expect::Error(_) | Expect::Result);
    if peer.mute && !plain {
        stage.add(check.id, Verdict::NotExercised, MUTE);
        return Ok(());
    }
    peer.send(&text).await?;
    // What answers the probe; the canary's own answer tells that nothing more is to come.
    let mute = peer.mute;
    let canary = if mute { 0 } else { peer.ask("_tieline.check/canary", Value::Null).await? };
    let is_it = |message: &Value| is_answer(message) && (!mute || message["id"] == number) || message.is_array();
    let (mut heard, mut extra) = (None, None);
    while !mute || heard.is_none() {
        let message = peer.until("no answer", is_it).await?;
        if is_answer(&message) && message["id"] == canary {
            if heard.is_none() && probe.expect != Expect::Silence {
                // Answers may overtake each other; what needs no work to be refused does not take long.
                let quick = matches!(probe.expect, Expect::Unnamed(_) | Expect::Batch(_));
                let time = if quick { REFUSAL } else { Duration::MAX };
                let came = peer.within(time, "it is not answered", is_it).await;
                heard = Some(if quick { came.map_err(late)? } else { came? });
            }
            break;
        }
        *if heard.is_none() { &mut heard } else { &mut extra } = Some(message);
    }
    // What it is about is what came back, or what was sent; the canary is nobody's business.
    let others = peer.witness.log.iter().enumerate().skip(sent + 1);
    let about = others.rev().find(|(_, line)| line.from == Side::Agent && line.value()["id"] != canary);
    let about = about.map_or(sent, |(at, _)| at);
    let named = |heard: &Value| id.as_ref().is_some_and(|id| heard["id"] == *id);
    match (extra, heard, probe.expect) {
        (Some(extra), ..) => stage.add(check.id, Verdict::Broken, &format!("it is answered twice: {extra}")),
        (_, Some(heard), Expect::Error(code)) if named(&heard) => stage.expect_refusal(check.id, &heard, code),
        (_, Some(heard), Expect::Unnamed(code)) if heard["id"].is_null() => {
            stage.expect_refusal(check.id, &heard, code);
        }
        (_, Some(heard), expect) => {
            let fine = match expect {
                Expect::Result => named(&heard) && is_ok(&heard),
                Expect::Anything => named(&heard),
                Expect::Batch(count) => {
                    heard.as_array().map_or_else(|| heard["error"]["code"] == -32600, |all| all.len() == count)
                }
                _ => false,
            };
            stage.expect(check.id, fine, || format!("this came back: {heard}"));
        }
        (_, None, expect) => stage.expect(check.id, expect == Expect::Silence, || "nothing came back".into()),
    }
    stage.point(check.id, about);
    Ok(())
}
