//! `run`, `output` and `stop`: commands, in the client's terminal or in our sandbox.

use super::guard::{Watch, keeps_versions};
use super::{Output, Prepared, Tool, ToolContext, ToolError, Type, arguments, ready};
use crate::busy;
use crate::history::cut;
use crate::jobs::Jobs;
use crate::permission::Permissions;
use crate::report::Call;
use crate::workspace::blocking;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tieline::schema::{CreateTerminalRequest, Terminal, TerminalOutputChunk, TerminalUpdate, to_base64};
use tieline::{Dialect, Patch, ToolCallContent, ToolKind, Update};
use tieline_host::roots;
use tieline_host::rules::{Action, CommandLine, Decision, Location};
use tieline_host::run::{Background, Outcome, Request, Status, Stopped, View, exit_status};
use tieline_host::sandbox::{Level, Policy};
use tieline_host::store::new_id;
use tieline_rpc::sync::Lock;
use tokio::sync::oneshot;

/// A command has this long unless the model says otherwise.
const TIME: Duration = Duration::from_mins(2);
/// And never longer than this.
const LONGEST: Duration = Duration::from_mins(30);
/// So many bytes of output the model is told: as much from the beginning as from the end.
const TOLD: usize = 32 * 1024;
/// So often the client is shown what is new.
const OFTEN: Duration = Duration::from_millis(100);
/// So much of a running command's output is shown to a client without terminals.
const TAIL: usize = 16 * 1024;
/// So many bytes of a command are in its title.
const LONGEST_TITLE: usize = 4 * 1024;

/// How the commands of a session run.
pub struct Commands {
    level: Level,
    roots: Vec<PathBuf>,
    hide: Vec<PathBuf>,
    policy: Mutex<Option<Policy>>,
    background: Background,
    /// What ran by itself later when a command of this id was started.
    before: Mutex<HashMap<u32, Watch>>,
    jobs: Arc<Jobs>,
}

impl Commands {
    /// Commands at this level of the sandbox, with these folders as the workspace, and these files out of sight.
    pub fn new(level: Level, roots: Vec<PathBuf>, hide: Vec<PathBuf>, jobs: Arc<Jobs>) -> Self {
        let (policy, before) = (Mutex::default(), Mutex::default());
        Self { level, roots, hide, policy, background: Background::new(), before, jobs }
    }

    /// What goes on beside the turns.
    pub fn jobs(&self) -> &Arc<Jobs> {
        &self.jobs
    }

    /// Stops those in the background. What does not obey is killed when this is dropped.
    pub async fn stop_all(&self) {
        for entry in self.background.list() {
            if let Some(command) = self.background.get(entry.id) {
                command.stop();
            }
        }
        self.jobs.finish().await;
    }

    /// The sandbox, made on first use, with or without a guard on what runs by itself later, and without what must not be read.
    /// Fails if it can't be had here.
    fn policy(&self, guard: bool, permissions: &Arc<Permissions>) -> Result<Policy, ToolError> {
        let mut policy = self.base()?;
        let unread = permissions.unread();
        if !unread.is_empty() {
            policy = unread.iter().filter_map(|rule| elsewhere(rule)).fold(policy, Policy::hide);
            let mut hasher = DefaultHasher::new();
            unread.hash(&mut hasher);
            let permissions = Arc::clone(permissions);
            let roots: Vec<PathBuf> = self.roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
            policy = policy.deny(hasher.finish(), move |path| {
                let inside = roots.iter().enumerate().find_map(|(at, root)| Some((at, path.strip_prefix(root).ok()?)));
                inside.is_some_and(|(at, below)| {
                    // The first root is the working directory.
                    let read = Action::Read(Location::inside(path.to_owned(), below.to_owned(), at == 0));
                    permissions.engine.decide(&read).decision == Decision::Deny
                })
            });
        }
        Ok(if guard { policy.guard() } else { policy })
    }

    fn base(&self) -> Result<Policy, ToolError> {
        let mut policy = self.policy.locked();
        if let Some(policy) = &*policy {
            return Ok(policy.clone());
        }
        let new = Policy::new(self.level, &self.roots).map_err(|error| format!("no sandbox: {error}"))?;
        let new = self.hide.iter().fold(new, Policy::hide);
        new.check()?;
        *policy = Some(new.clone());
        Ok(new)
    }

    /// What is new since a command in the background was started.
    async fn news(&self, id: u32) -> String {
        let watch = self.before.locked().get(&id).cloned();
        match watch {
            Some(watch) => watch.news().await,
            None => String::new(),
        }
    }
}

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

pub const OUTPUT: Tool = Tool::new(
    "output",
    ToolKind::Read,
    "What a command in the background has written, and whether it still runs.",
    &[("id", Type::Integer, "")],
    |input, ctx| ready(output(input, ctx)),
);

pub const STOP: Tool = Tool::new(
    "stop",
    ToolKind::Execute,
    "Stops a command in the background.",
    &[("id", Type::Integer, "")],
    |input, ctx| ready(stop(input, ctx)),
);

#[derive(Deserialize)]
struct Input {
    command: String,
    /// Seconds.
    timeout: Option<f64>,
    #[serde(default)]
    background: bool,
    #[serde(default)]
    unprotected: bool,
}

#[derive(Deserialize)]
struct Id {
    #[serde(deserialize_with = "number")]
    id: u32,
}

/// A number; models also write it in quotes.
fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let value = Value::deserialize(from)?;
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok());
    let number = number.and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| serde::de::Error::custom("`id` is the number that `run` gave"))
}

async fn prepare(input: Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let input: Input = arguments(input)?;
    if input.command.trim().is_empty() {
        return Err("The command is empty.".into());
    }
    let time = match input.timeout {
        Some(seconds) => Duration::try_from_secs_f64(seconds).map_err(|error| format!("timeout: {error}"))?,
        None => TIME,
    };
    let time = time.min(LONGEST);
    let line = CommandLine::parse(&input.command);
    let guard = !input.unprotected && !keeps_versions(&line);
    // What must not be read is hidden by our sandbox only; a terminal of the client has none.
    let hides = !ctx.permissions.unread().is_empty();
    let theirs = ctx.turn.client().capabilities().terminal
        && !input.background
        && !hides
        && !ctx.permissions.only_in_sandbox(&line);
    let unseen = if hides { ctx.permissions.unseen(&line, ctx.workspace.roots()) } else { None };
    let mut sandboxed = false;
    let (note, policy) = if theirs {
        ("no sandbox: it runs in the client's terminal".to_owned(), None)
    } else {
        let (commands, permissions) = (Arc::clone(&ctx.commands), Arc::clone(&ctx.permissions));
        let all = blocking(move || guarded(commands.policy(guard, &permissions)?, guard));
        let (note, policy, whole) = all.await?;
        sandboxed = whole;
        (note, Some(policy))
    };
    let action = Action::Execute { command: line, sandboxed };
    let title = format!("Run `{}`", visible(&input.command));
    let command = input.command;
    let mut prepared = Prepared::new(title, move |call| async move {
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
                let watch = Watch::begin(policy, ctx.workspace.cwd()).await;
                if input.background {
                    in_background(&ctx, &call, request, watch).await
                } else {
                    here(&ctx, &call, request.timeout(time), watch).await
                }
            }
        };
        let mut output = done?;
        if let Some(unseen) = unseen {
            output.shown.iter_mut().for_each(|shown| shown.push(unseen.as_str().into()));
            output.content.push(unseen.into());
        }
        Ok(output)
    });
    prepared.actions.push(action);
    prepared.note = Some(note);
    Ok(prepared)
}

/// What the user is told of a sandbox, and whether it keeps a command from all that runs by itself later. If so, it is not started
/// should that have changed by then.
fn guarded(policy: Policy, guard: bool) -> Result<(String, Policy, bool), ToolError> {
    let mut note = policy.describe()?;
    let keeps = policy.guards();
    if policy.level() != Level::Workspace {
        return Ok((note, policy, keeps));
    }
    if !guard {
        note.push_str("; it may change .git, .envrc and the like, which run by themselves later");
    } else if keeps {
        match policy.guarded().gap() {
            None => return Ok((note, policy.guard_whole(), true)),
            Some(why) => {
                let _ = write!(note, "; but not all of them, for it could change what runs by itself later: {why}");
            }
        }
    }
    Ok((note, policy, false))
}

/// What a rule like `read ~/keys/**` is about, if that has a plain name.
fn elsewhere(rule: &str) -> Option<PathBuf> {
    let path = rule.strip_prefix("read ")?.trim();
    let path = path.strip_suffix("/**").unwrap_or(path);
    if path.contains(['*', '?', '[', '{']) {
        return None;
    }
    match path.strip_prefix("~/") {
        Some(path) => Some(std::env::home_dir()?.join(path)),
        None => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
    }
}

/// The command as the user is asked about it: each character can be seen, and if it is cut, it says so.
fn visible(command: &str) -> String {
    let (start, rest) = command.split_at(command.floor_char_boundary(LONGEST_TITLE));
    let line = start.replace('\n', "⏎").replace('\t', " ");
    // It is no path, so a backslash is one.
    let line = roots::shown(Path::new(&line)).replace("\\\\", "\\");
    if rest.is_empty() { line } else { format!("{line}… [{} more bytes]", rest.len()) }
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
        output_byte_limit: Some(1 << 20),
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
    let mut output = Output::quiet(format!("{}\n(the command {how})", middle_out(&done.output)));
    output.failed = done.timed_out || code.is_some_and(|code| code != 0) || signal.is_some();
    output.shown = Some(content);
    Ok(output.raw(json!({ "exitCode": code, "signal": signal, "timedOut": done.timed_out })))
}

async fn in_background(
    ctx: &ToolContext,
    call: &Call,
    request: Request,
    watch: Option<Watch>,
) -> Result<Output, ToolError> {
    let line = request.line();
    let commands = &ctx.commands;
    let owner = Arc::clone(commands);
    let id = apart(|give| async move {
        // If nobody wants it any more, it is ended again.
        if let Err(Ok(id)) = give.send(owner.background.start(request).await) {
            owner.background.stop(id).await;
        }
    })
    .await?;
    if let Some(watch) = watch {
        let mut before = commands.before.locked();
        before.insert(id, watch);
        before.retain(|id, _| commands.background.get(*id).is_some());
    }
    let text = format!("Started in the background with id {id}: `{}`.", cut(&line, 120));
    let mut output = Output::text(text.clone()).raw(json!({ "id": id }));
    let screen = Screen::open(call, &line, ctx.workspace.cwd()).await?;
    if let (Screen(Some(terminal)), Some(command)) = (&screen, commands.background.get(id)) {
        commands.jobs.add(terminal.clone(), command).await;
        output.shown = Some([screen.content("", ""), vec![text.into()]].concat());
    }
    Ok(output)
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
                screen.show(call, &news.text, &running).await?;
                tokio::time::sleep(OFTEN).await;
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

fn stopped(output: &str, shown: Option<Vec<ToolCallContent>>) -> Output {
    let text = format!("{}\n(the user stopped the command)", middle_out(output));
    Output { content: vec![text.into()], shown, failed: true, stopped: true, ..Output::default() }
}

/// Where the output of a command is shown: a display terminal where the client knows such, text elsewhere.
struct Screen(Option<String>);

impl Screen {
    async fn open(call: &Call, line: &str, cwd: PathBuf) -> tieline::Result<Self> {
        if call.turn().dialect() != Dialect::V2 {
            return Ok(Self(None));
        }
        let terminal_id = new_id();
        let update = TerminalUpdate {
            terminal_id: terminal_id.clone(),
            command: Patch::Set(line.to_owned()),
            cwd: Patch::Set(cwd.to_string_lossy().into_owned()),
            ..TerminalUpdate::default()
        };
        call.turn().update(Update::Terminal(Box::new(update))).await?;
        let screen = Self(Some(terminal_id));
        call.update(tieline::ToolCallUpdate::default().content(screen.content("", ""))).await?;
        Ok(screen)
    }

    fn content(&self, output: &str, end: &str) -> Vec<ToolCallContent> {
        match &self.0 {
            Some(id) => vec![ToolCallContent::Terminal(Terminal { terminal_id: id.clone(), meta: None })],
            None => vec![format!("```\n{}\n```{end}", output.trim_end().replace("```", "` ` `")).into()],
        }
    }

    async fn show(&self, call: &Call, news: &str, running: &View) -> tieline::Result<()> {
        match &self.0 {
            Some(id) => {
                let data = to_base64(news.as_bytes());
                let chunk = TerminalOutputChunk { terminal_id: id.clone(), data, meta: None };
                call.turn().update(Update::TerminalOutput(chunk)).await
            }
            None => {
                let output = running.output(0).text;
                let start = output.ceil_char_boundary(output.len().saturating_sub(TAIL));
                call.show(self.content(&output[start..], "")).await
            }
        }
    }

    async fn close(&self, call: &Call, output: &str, outcome: &Outcome) -> tieline::Result<Vec<ToolCallContent>> {
        if let Some(id) = &self.0 {
            let exit_status = Patch::Set(exit_status(outcome.end));
            let update = TerminalUpdate { terminal_id: id.clone(), exit_status, ..TerminalUpdate::default() };
            call.turn().update(Update::Terminal(Box::new(update))).await?;
        }
        Ok(self.content(&middle_out(output), &format!("\nThe command {outcome}.")))
    }
}

/// A long text without its middle.
fn middle_out(text: &str) -> String {
    if text.len() <= TOLD {
        return text.trim_end().to_owned();
    }
    let (first, last) = (text.ceil_char_boundary(TOLD / 2), text.ceil_char_boundary(text.len() - TOLD / 2));
    format!("{}\n[… {} bytes left out …]\n{}", &text[..first], last - first, text[last..].trim_end())
}

fn output(input: Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let Id { id } = arguments(input)?;
    Ok(Prepared::new(format!("Output of command {id}"), move |_| async move {
        let found = ctx.commands.background.poll(id, 0);
        let (output, outcome) = found.ok_or_else(|| format!("There is no command {id}."))?;
        let how = outcome.map_or("still runs".to_owned(), |outcome| outcome.to_string());
        let news = ctx.commands.news(id).await;
        let text = format!("{}\n(the command {how}){news}", middle_out(&output.to_string()));
        Ok(Output::text(text).raw(json!({ "id": id, "running": outcome.is_none() })))
    }))
}

fn stop(input: Value, ctx: Arc<ToolContext>) -> Result<Prepared, ToolError> {
    let Id { id } = arguments(input)?;
    Ok(Prepared::new(format!("Stop command {id}"), move |_| async move {
        let stopped = ctx.commands.background.stop(id).await;
        let outcome = stopped.ok_or_else(|| format!("There is no command {id}."))?;
        let news = ctx.commands.news(id).await;
        Ok(Output::text(format!("Command {id} {outcome}.{news}")).raw(json!({ "id": id })))
    }))
}
