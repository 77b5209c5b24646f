//! Runs a client for one scenario, with pipes or in a terminal, and does what a user would: types, and interrupts.

use super::{Keys, Plan, scenes::HOSTILE};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;
use tieline_process::{ChildProcess, Guard, Job, Running, Setup, Size, Spec};
use tieline_schema::Dialect;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Instant, sleep, timeout};

/// How often it is looked at what the agent tells, and the time between two keys: a client may take what comes faster for something pasted.
const PACE: Duration = Duration::from_millis(80);
/// A screen gets this long to show what is new before something is typed.
const SETTLE: Duration = Duration::from_millis(500);
/// How long a person reads a question before it is answered. Screens that keep keys away from a question that has just come up are right to.
const READ: Duration = Duration::from_secs(2);
/// So much of what a client prints is looked at.
const MAX_OUTPUT_BYTES: usize = 4 << 20;
/// How long a client has between being asked to end and being killed.
const GRACE: Duration = Duration::from_secs(2);

/// What came of it.
#[derive(Default)]
pub(super) struct Ran {
    /// What the agent found out; empty if it was killed.
    pub found: String,
    /// What it told.
    pub told: String,
    /// The client ended by itself; otherwise we have ended it.
    pub ended: bool,
    /// What must not be printed was.
    pub hostile: bool,
}

/// Starts the client, which starts the agent; all of it in this folder.
pub(super) async fn run(plan: &Plan, part: &str, dialect: Dialect, folder: &Path) -> io::Result<Ran> {
    let [agent, found, told, work] = ["agent", "found", "found.told", "work"].map(|name| folder.join(name));
    std::fs::create_dir(&work)?;
    let words: Vec<String> = plan.player.iter().map(|word| quoted(&word.to_string_lossy())).collect();
    let script = format!("#!/bin/sh\nexec {} {part} {dialect} {}\n", words.join(" "), quoted(&found.to_string_lossy()));
    std::fs::write(&agent, script)?;
    #[cfg(unix)]
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    let named = |word: &OsString| OsString::from(word.to_string_lossy().replace("{agent}", &agent.to_string_lossy()));
    let user = (&*told, plan.patience);
    let mut ran = match &plan.keys {
        None => with_pipes(plan.command.iter().map(named).collect(), &work, user).await?,
        Some(keys) => in_terminal(plan.command.iter().map(named).collect(), &work, user, keys).await?,
    };
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    (ran.found, ran.told) = (read(&found), read(&told));
    Ok(ran)
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Where it stands what the agent tells, and how long that is of interest.
type User<'a> = (&'a Path, Duration);

/// Does something about each thing that is told, until the time is over. Where that was to leave, not much is left of it.
async fn attend((told, patience): User<'_>, act: impl AsyncFn(&str) -> bool) {
    let (mut end, mut seen) = (Instant::now() + patience, 0);
    while Instant::now() < end {
        let told = std::fs::read_to_string(told).unwrap_or_default();
        for what in told.lines().skip(seen) {
            sleep(if what == "asked" { READ } else { SETTLE }).await;
            if act(what).await {
                end = end.min(Instant::now() + GRACE);
            }
            seen += 1;
        }
        sleep(PACE).await;
    }
}

async fn with_pipes(words: Vec<OsString>, folder: &Path, user: User<'_>) -> io::Result<Ran> {
    let mut words = words.into_iter();
    let spec = Spec::new(words.next().unwrap_or_default()).args(words).current_dir(folder).guard(Guard::IfPossible);
    let (pipes, child) = ChildProcess::spawn(&spec).await?;
    drop(pipes.input);
    let mut output = pipes.output;
    let printed = tokio::spawn(async move {
        let mut kept = Vec::new();
        let _ = (&mut output).take(MAX_OUTPUT_BYTES as u64).read_to_end(&mut kept).await;
        // Everything is read, so that the client is not held up.
        let _ = tokio::io::copy(&mut output, &mut tokio::io::sink()).await;
        kept
    });
    let interrupt = async |what: &str| {
        #[cfg(unix)]
        if let Some(client) = rustix::process::Pid::from_raw(child.id().cast_signed()).filter(|_| what == "interrupt") {
            let _ = rustix::process::kill_process(client, rustix::process::Signal::INT);
        }
        false
    };
    let ended = tokio::select! {
        _ = child.exit() => true,
        () = attend(user, interrupt) => false,
    };
    if !ended {
        child.kill();
    }
    child.shutdown().await;
    let printed = timeout(GRACE, printed).await.ok().and_then(Result::ok).unwrap_or_default();
    let hostile = String::from_utf8_lossy(&printed).contains(HOSTILE) || child.stderr_tail().contains(HOSTILE);
    Ok(Ran { ended, hostile, ..Ran::default() })
}

/// Words and keys apart: Enter behind a word is pressed for itself. What begins with Escape is one key.
fn pressed(keys: &[u8]) -> impl Iterator<Item = &[u8]> {
    keys.chunk_by(|before, next| !next.is_ascii_control() && (*before == b'\x1b' || !before.is_ascii_control()))
}

async fn in_terminal(words: Vec<OsString>, folder: &Path, user: User<'_>, keys: &Keys) -> io::Result<Ran> {
    let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let job = Job { line, keep: MAX_OUTPUT_BYTES, time: None, grace: GRACE, tty: Some(Size::default()), temp: None };
    let mut env: Vec<_> = std::env::vars_os().filter(|(name, _)| name != "TERM").collect();
    env.push(("TERM".into(), "xterm-256color".into()));
    let setup = Setup { words, env, folder: folder.to_owned(), session: true, tty: true, ..Setup::default() };
    let client = Running::start(job, move || Ok(setup.clone())).await?;
    // After the end of the turn nothing more is waited for than that it leaves.
    let act = async |what: &str| {
        let (keys, quits) = match what {
            "open" => (&keys.prompt[..], false),
            "asked" => (&keys.answer[..], false),
            "interrupt" => (&b"\x03"[..], false),
            _ => (&keys.quit[..], true),
        };
        for key in pressed(keys) {
            let _ = client.type_in(key);
            sleep(PACE).await;
        }
        quits
    };
    let ended = tokio::select! {
        _ = client.outcome() => true,
        () = attend(user, act) => false,
    };
    client.stop();
    client.outcome().await;
    let hostile = client.output(0).text.contains(HOSTILE);
    Ok(Ran { ended, hostile, ..Ran::default() })
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_and_keys_are_pressed_one_by_one() {
        for (keys, expect) in [
            ("hello\r", &["hello", "\r"][..]),
            ("\x1b[B\x1b[6~1\r2", &["\x1b[B", "\x1b[6~1", "\r", "2"]),
            ("\x03\x03", &["\x03", "\x03"]),
            ("", &[]),
        ] {
            let expect: Vec<&[u8]> = expect.iter().map(|key| key.as_bytes()).collect();
            assert_eq!(super::pressed(keys.as_bytes()).collect::<Vec<_>>(), expect, "{keys:?}");
        }
    }
}
