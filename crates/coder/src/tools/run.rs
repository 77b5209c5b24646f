//! `run`: a shell command, in the client's terminal or in our sandbox.

mod background;
mod sandbox;
mod screen;

pub use background::{OUTPUT, STOP};
pub use sandbox::Commands;
pub use screen::lines;

use super::guard::Watch;
use super::{Output, Prepared, Tool, ToolContext, ToolError, Type, argument};
use crate::busy;
use crate::report::Call;
use crate::workspace::blocking;
use screen::{Screen, middle_out, stopped, visible};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tieline::schema::CreateTerminalRequest;
use tieline::{Severity, ToolKind};
use tieline_host::roots;
use tieline_host::rules::{Action, CommandLine, Confined, keeps_versions};
use tieline_host::run::{Request, Status, Stopped};
use tieline_host::sandbox::Level;
use tokio::sync::oneshot;

/// A command has this long unless the model says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(2);
/// And never longer than this.
const MAX_TIMEOUT: Duration = Duration::from_mins(30);
/// So often the client is shown what is new.
const SHOW_INTERVAL: Duration = Duration::from_millis(100);
/// As much output as a terminal of the client keeps, in bytes.
const TERMINAL_BYTES: u64 = 1 << 20;

pub const RUN: Tool = Tool::new(
    "run",
    ToolKind::Execute,
    "Runs a shell command in the working directory and waits for it (120 s unless `timeout` in seconds says otherwise). \
     With `background`, gives an id at once; see `output` and `stop`. What runs by itself later (`.git`, `.envrc`, settings \
     of editors and the like) is read-only for it; set `unprotected` if the command has to change that: the user is asked.",
    &[
        ("command", Type::Text, ""),
        ("timeout?", Type::Number, ""),
        ("background?", Type::Boolean, ""),
        ("unprotected?", Type::Boolean, ""),
    ],
    |input, ctx| Box::pin(prepare(input, ctx)),
)
.stoppable();

async fn prepare(input: Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let command: String = argument(&input, "command")?;
    let [background, unprotected] = ["background", "unprotected"].map(|name| argument::<Option<bool>>(&input, name));
    let (background, unprotected) = (background?.unwrap_or_default(), unprotected?.unwrap_or_default());
    if command.trim().is_empty() {
        return Err("The command is empty.".into());
    }
    let time = match argument(&input, "timeout")? {
        Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| format!("timeout: {error}"))?,
        None => DEFAULT_TIMEOUT,
    };
    let time = time.min(MAX_TIMEOUT);
    let line = CommandLine::parse(&command);
    let guard = !unprotected && !keeps_versions(&line);
    // What must not be read or changed is kept by our sandbox only; a terminal of the client has none.
    let hides = !ctx.permissions.kept().is_empty();
    let theirs =
        ctx.turn.client().capabilities().terminal && !background && !hides && !ctx.permissions.only_in_sandbox(&line);
    let unseen = if hides { ctx.permissions.unseen(&line, ctx.workspace.roots()) } else { None };
    let mut confined = Confined::No;
    let (note, policy) = if theirs {
        ("no sandbox: it runs in the client's terminal".to_owned(), None)
    } else {
        let (commands, permissions) = (Arc::clone(&ctx.commands), Arc::clone(&ctx.permissions));
        let all = blocking(move || sandbox::guarded(commands.policy(guard, &permissions)?, guard));
        let (note, policy, held) = all.await?;
        confined = held;
        (note, Some(policy))
    };
    let action = Action::Execute { command: line, confined };
    let title = format!("Run `{}`", visible(&command));
    let mut prepared = Prepared::new(title, move |call| async move {
        if let Some(unseen) = &unseen {
            // Otherwise the file looks empty to who looks on.
            ctx.tell(Severity::Warning, unseen).await;
        }
        let before = ctx.workspace.before_command().await;
        let done = match policy {
            None => in_their_terminal(&ctx, &call, command, time).await,
            Some(policy) => {
                // A command works by names, so a name that means another folder by now is refused.
                if let Some(root) =
                    ctx.workspace.roots().list().find(|root| root.real_path().is_some() && !root.still_there())
                {
                    let path = roots::shown(root.given_path());
                    return Err(format!("{path} is gone or was replaced; nothing was run").into());
                }
                let request = Request::shell(command, ctx.workspace.cwd(), &policy);
                let look = policy.clone();
                let watch = Watch::begin(policy, ctx.workspace.cwd()).await;
                if background {
                    let held = blocking(move || Ok((look.level() == Level::Workspace).then(|| look.guarded()))).await?;
                    background::start(&ctx, &call, request, watch, held).await
                } else {
                    here(&ctx, &call, request.timeout(time), watch).await
                }
            }
        };
        // What one in the background changes is noted at the end of the turn.
        if !background {
            ctx.workspace.after_command(before).await?;
        }
        let mut output = done?;
        if let Some(unseen) = unseen {
            output.shown.iter_mut().for_each(|shown| shown.push(unseen.as_str().into()));
            let more = "They can't read it, and what they write to it is not kept.";
            output.content.push(format!("({unseen}. {more})").into());
        }
        Ok(output)
    });
    prepared.actions.push(action);
    prepared.note = Some(note);
    Ok(prepared)
}

async fn in_their_terminal(
    ctx: &ToolContext,
    call: &Call,
    command: String,
    time: Duration,
) -> Result<Output, ToolError> {
    let request = CreateTerminalRequest {
        command: "/bin/sh".into(),
        args: vec!["-c".into(), command],
        cwd: Some(ctx.workspace.cwd().to_string_lossy().into_owned()),
        output_byte_limit: Some(TERMINAL_BYTES),
        ..CreateTerminalRequest::default()
    };
    let terminal = match ctx.turn.client().terminal(request).await {
        Ok(terminal) => terminal,
        // It was refused or could not be started, so nothing ran; and nothing is tried elsewhere.
        Err(error) => return Ok(Output::not_done(error)),
    };
    let content = vec![terminal.as_content()];
    call.show(content.clone()).await?;
    let done = tokio::select! {
        done = terminal.finish(time) => done?,
        () = call.stopped() => return Ok(stopped("", Some(content))),
    };
    let code = done.exit.as_ref().and_then(|exit| exit.exit_code);
    let signal = done.exit.as_ref().and_then(|exit| exit.signal.clone());
    let how = match (done.timed_out, code, &signal) {
        (true, ..) => "was stopped: its time was over".to_owned(),
        (_, Some(code), _) => format!("exited with status {code}"),
        (_, _, Some(signal)) => format!("was killed by {signal}"),
        _ => "ended".to_owned(),
    };
    let told =
        if done.truncated { format!("[… the beginning is left out …]\n{}", done.output) } else { done.output };
    let mut output = Output::quiet(format!("{}\n(the command {how})", middle_out(&told)));
    output.failed = done.timed_out || code.is_some_and(|code| code != 0) || signal.is_some();
    output.shown = Some(content);
    Ok(output.raw(json!({ "exitCode": code, "signal": signal, "timedOut": done.timed_out })))
}

/// Does work that goes on in a task of its own. The turn is not at rest before its end, also if nobody waits for it any more.
async fn apart<T: Send + 'static, F: Future<Output = ()> + Send + 'static>(
    work: impl FnOnce(oneshot::Sender<io::Result<T>>) -> F,
) -> io::Result<T> {
    let (give, take) = oneshot::channel();
    let (hold, work) = (busy::hold(), work(give));
    tokio::spawn(async move {
        work.await;
        drop(hold);
    });
    take.await.unwrap_or_else(|_| Err(io::Error::other("the work was cut off")))
}

/// New output of which the beginning is missing, with a word about that.
fn after_a_gap(news: &tieline_host::run::Output) -> String {
    let whole = news.text.split_once('\n').map_or(news.text.as_str(), |(_, whole)| whole);
    format!("\n[… {} bytes left out …]\n{whole}", news.dropped + (news.text.len() - whole.len()) as u64)
}

/// Runs a command here and shows its output as it comes.
async fn here(ctx: &ToolContext, call: &Call, request: Request, watch: Option<Watch>) -> Result<Output, ToolError> {
    let line = request.line();
    let running = apart(|give| async move {
        match request.start().await {
            Ok(running) => {
                let view = running.view();
                // If it is not taken, it ends here.
                drop(give.send(Ok(running)));
                view.outcome().await;
            }
            Err(error) => drop(give.send(Err(error))),
        }
    })
    .await?;
    let screen = Screen::open(call, &line, ctx.workspace.cwd()).await?;
    let (mut seen, mut stop) = (0, false);
    loop {
        tokio::select! {
            news = running.more(seen) => {
                let Some(news) = news else { break };
                seen = news.next;
                // Where something is missing, a line that was cut would look like one.
                screen.show(call, &if news.dropped > 0 { after_a_gap(&news) } else { news.text }, &running).await?;
                tokio::time::sleep(SHOW_INTERVAL).await;
            }
            () = call.stopped(), if !stop => {
                stop = true;
                running.stop();
            }
        }
    }
    let outcome = running.outcome().await;
    let output = running.output(0).to_string();
    let mut shown = screen.close(call, &output, &outcome).await?;
    let news = match watch {
        Some(watch) => watch.news().await,
        None => String::new(),
    };
    if !news.is_empty() {
        ctx.tell(Severity::Warning, news.trim_start()).await;
        shown.push(news.trim_start().into());
    }
    if outcome.stopped == Some(Stopped::Cancelled) {
        return Ok(stopped(&format!("{output}{news}"), Some(shown)));
    }
    let mut result = Output::quiet(format!("{}\n(the command {outcome}){news}", middle_out(&output)));
    result.failed = !outcome.is_success();
    result.shown = Some(shown);
    let code = if let Status::Code(code) = outcome.end { Some(code) } else { None };
    let timed_out = outcome.stopped == Some(Stopped::TimedOut);
    Ok(result.raw(json!({ "exitCode": code, "timedOut": timed_out, "seconds": outcome.took.as_secs_f64() })))
}
