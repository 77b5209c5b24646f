//! acpx, a client of version 1, with a real agent of version 2 behind a bridge: permission given and refused, and a cancel.

use super::drive::Turn;
use crate::acpx;
use std::fs;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

/// Real agents are slow to start.
const PATIENCE: Duration = Duration::from_mins(4);

/// Does all of it in the folder of the turn; the line tells what was seen.
pub async fn all(turn: &Turn<'_>) -> Result<String, String> {
    let allowed =
        output(call(turn, &["--approve-all", "exec"], "model: write DIR/acpx.txt by acpx\nmodel: say Finished.")?)
            .await?;
    let made = fs::read_to_string(turn.folder.join("acpx.txt")).unwrap_or_default();
    expect("a file is made with permission", allowed.status.success() && made.trim_end() == "by acpx", &allowed)?;
    let refused =
        output(call(turn, &["--deny-all", "exec"], "model: run touch DIR/refused.txt\nmodel: say That was refused.")?)
            .await?;
    expect("a refused command does not run", !turn.folder.join("refused.txt").exists(), &refused)?;
    let new = output(call(turn, &["sessions", "new", "--name", "work"], "")?).await?;
    expect("a session is opened", new.status.success(), &new)?;
    let wait = "model: say I begin, and then there is a long silence.\nmodel: stall 2";
    let mut running =
        call(turn, &["--approve-all", "prompt", "-s", "work"], wait)?.spawn().map_err(|e| e.to_string())?;
    hears(&mut running, "begin").await?;
    let cancel = output(call(turn, &["cancel", "-s", "work"], "")?).await?;
    expect("a cancel is sent", cancel.status.success(), &cancel)?;
    let ended = tokio::time::timeout(PATIENCE, running.wait_with_output()).await;
    let ended = ended.map_err(|_| "the cancelled turn did not end")?.map_err(|e| e.to_string())?;
    expect("the turn ends with cancelled", String::from_utf8_lossy(&ended.stdout).contains("cancelled"), &ended)?;
    let closed = output(call(turn, &["sessions", "close", "work"], "")?).await?;
    expect("the session is closed", closed.status.success(), &closed)?;
    Ok("acpx before 2: file made with permission, refused command did not run, cancelled in the middle of a stream"
        .into())
}

/// A call of acpx; a prompt stands behind its words.
fn call(turn: &Turn<'_>, words: &[&str], prompt: &str) -> Result<Command, String> {
    let agent = turn.home.join("agent-behind-a-bridge");
    let quoted = |word: &std::ffi::OsString| format!("'{}'", word.to_string_lossy().replace('\'', "'\\''"));
    let line: Vec<String> = turn.words()?.iter().map(quoted).collect();
    fs::write(&agent, format!("#!/bin/sh\nexec {}\n", line.join(" "))).map_err(|e| e.to_string())?;
    let line = acpx();
    let mut command = Command::new(&line[0]);
    turn.at_home(&mut command)?;
    command
        .args(&line[1..])
        .arg("--agent")
        .arg(format!("sh {}", agent.display()))
        .args(["--timeout", "200"])
        .args(words);
    if !prompt.is_empty() {
        command
            .arg(format!("Please do what the model says.\n{}", prompt.replace("DIR", &turn.folder.to_string_lossy())));
    }
    command
        .current_dir(turn.folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    Ok(command)
}

async fn output(mut command: Command) -> Result<Output, String> {
    let done = tokio::time::timeout(PATIENCE, command.output()).await;
    done.map_err(|_| "acpx did not end".to_owned())?.map_err(|e| format!("acpx: {e}"))
}

async fn hears(child: &mut Child, words: &str) -> Result<(), String> {
    let out = child.stdout.as_mut().ok_or("no pipe")?;
    let (mut heard, mut piece) = (Vec::new(), [0; 1024]);
    let read = async {
        while !String::from_utf8_lossy(&heard).contains(words) {
            match out.read(&mut piece).await {
                Ok(size @ 1..) => heard.extend_from_slice(&piece[..size]),
                _ => return Err(format!("{words:?} was not said")),
            }
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, read).await.map_err(|_| format!("{words:?} was not said in time"))?
}

fn expect(what: &str, good: bool, seen: &Output) -> Result<(), String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if good { Ok(()) } else { Err(format!("{what}: {}\n{}\n{}", seen.status, text(&seen.stdout), text(&seen.stderr))) }
}
