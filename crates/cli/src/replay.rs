//! `tieline replay`: one side of a recording against a live other side.

use crate::shared::{Failed, USAGE, block_on, counted, failed, here, note, print, told_to_end};
use clap::{Args, ValueHint};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tieline_client::sanitize;
use tieline_process::{ChildProcess, Guard, Spec};
use tieline_rpc::Transport;
use tieline_rpc::framing::Framing;
use tieline_trace::{Extra, Frame, Frames, Kept, Options, Player, Side};

/// Play one side of a recording against the other, live, and say where it diverges
///
/// `--as client -- my-agent --acp` says to the agent what the recorded client said. `--as agent` is an agent for a client that is started
/// with it: `tieline exec "…" -- tieline replay t.jsonl --as agent`. Ids, session ids and paths may differ; they are mapped when they are first
/// seen. The exit code is 0 if the live side did as recorded, 1 if it diverged, 2 if nothing could be played, 130 after Ctrl-C.
#[derive(Args)]
pub struct Arguments {
    /// The recording
    #[arg(value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Which side is played
    #[arg(long = "as", value_name = "SIDE", value_parser = ["agent", "client"])]
    side: String,

    /// What to do about a message that is not in the recording: answer a request with an error, let it pass, or stop
    #[arg(long, value_name = "WHAT", default_value = "refuse", value_parser = ["refuse", "ignore", "stop"])]
    extra: String,

    /// How long an answer may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,

    /// The live side: a program and its arguments, after `--`; an agent that is played can do without, and talks over its own standard streams
    #[arg(last = true, value_name = "COMMAND", required_if_eq("side", "client"))]
    command: Vec<OsString>,
}

/// Plays.
pub fn run(arguments: Arguments) -> ExitCode {
    let ours = arguments.command.is_empty();
    match block_on(work(arguments)) {
        Ok((player, told)) => {
            let mut report: String = player.divergences.iter().map(|what| sanitize::exact_line(what) + "\n").collect();
            let (sent, differ) = (counted(player.sent, "message"), counted(player.count, "divergence"));
            let _ = writeln!(report, "{sent} sent, {} came as recorded, {differ}", player.matched);
            // Standard output may be the protocol.
            if ours {
                note(report.trim_end());
            } else if print(&report) != ExitCode::SUCCESS {
                return ExitCode::from(USAGE);
            }
            ExitCode::from(told.unwrap_or(u8::from(player.count > 0)))
        }
        Err((code, why)) => failed("replay", &(code, sanitize::line(&why))),
    }
}

/// What was played so far, and the exit code if we were told to end before the end.
async fn work(arguments: Arguments) -> Result<(Player, Option<u8>), Failed> {
    let frames = read(&arguments.file)?;
    let side = if arguments.side == "client" { Side::Client } else { Side::Agent };
    let headers = frames.iter().any(|frame| frame.from == side && frame.headers);
    let exit = frames.iter().find(|frame| frame.from == Side::Exit).map(|frame| frame.body.clone());
    let options = Options {
        side,
        extra: match &*arguments.extra {
            "ignore" => Extra::Ignore,
            "stop" => Extra::Stop,
            _ => Extra::Refuse,
        },
        timeout: Duration::from_secs(arguments.timeout),
        folder: if side == Side::Client { Some(here()?.to_string_lossy().into_owned()) } else { None },
    };
    let mut player = Player::new(frames, options);
    let mut words = arguments.command.into_iter();
    let Some(program) = words.next() else {
        let told = play(&mut player, Transport::stdio().detect_framing()).await?;
        return Ok((player, told));
    };
    let spec = Spec::new(program).args(words).guard(Guard::IfPossible).on_stderr(|line| note(sanitize::line(line)));
    let (pipes, child) = ChildProcess::spawn(&spec).await.map_err(|error| (USAGE, error.to_string()))?;
    let transport = Transport::new(pipes.output, pipes.input);
    let transport = match side {
        Side::Client => transport.framing(if headers { Framing::Headers } else { Framing::Lines }),
        _ => transport.detect_framing(),
    };
    let told = play(&mut player, transport).await?;
    let reason = child.shutdown().await;
    let judged = side == Side::Client && told.is_none();
    if let Some(exit) = exit.filter(|exit| judged && *exit != reason.status.to_string().as_bytes()) {
        player.diverges(
            None,
            &format!("recorded: the agent {}; live: it {}", String::from_utf8_lossy(&exit), reason.status),
        );
    }
    Ok((player, told))
}

async fn play(player: &mut Player, transport: Transport) -> Result<Option<u8>, Failed> {
    tokio::select! {
        () = player.play(transport) => Ok(None),
        code = told_to_end() => code.map(Some),
    }
}

fn read(file: &PathBuf) -> Result<Vec<Frame>, Failed> {
    let named = |error: &dyn std::fmt::Display| (USAGE, format!("{}: {error}", file.display()));
    let input = File::open(file).map_err(|error| named(&error))?;
    let mut frames = Frames::new(BufReader::new(input), Kept::Exact);
    let mut all = Vec::new();
    while let Some(frame) = frames.next_frame().map_err(|error| named(&error))? {
        all.push(frame);
    }
    match frames.header.kept {
        Kept::Shape => Err(named(&"it is only the shape of a recording, which says too little to be played")),
        _ if all.is_empty() => Err(named(&"there is nothing in it")),
        _ => Ok(all),
    }
}
