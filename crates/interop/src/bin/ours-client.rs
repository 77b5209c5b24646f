//! An interop client on our own library: `interop-ours-client 1|2|2-seed|auto [--framing content-length] -- AGENT…`, or an address
//! instead of the command.
#![allow(clippy::print_stderr)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard};
use tieline::client::{AgentHandle, Client, Handler, Session};
use tieline::process::{ChildProcess, Spec};
use tieline::rpc::framing::Framing;
use tieline::rpc::sync::Lock;
use tieline::rpc::{Direction, Transport};
use tieline::schema::{
    CreateTerminalRequest, ExitStatus, Item, ListRequest, Plan, ReadTextFileRequest, State, TerminalOutputResponse,
    TerminalRequest, WriteTextFileRequest,
};
use tieline::{
    Dialect, Error, MessageKind, PermissionOptionKind, PermissionOutcome, PermissionRequest, Protocol, Result,
    StopReason, Transcript, Update,
};
use tieline_http::Remote;
use tieline_http::client::is_address;
use tieline_interop::scenario::{self, CANCEL_AFTER, Driver, Hello, How, STEP_DEADLINE, Seen};
use tieline_interop::terminals::{Exit, Terminals};
use tokio::time::timeout;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some((protocol, framing, command)) = read_args(&args) else {
        eprintln!("usage: interop-ours-client 1|2|2-seed|auto [--framing content-length] -- AGENT COMMAND...");
        return ExitCode::from(2);
    };
    let shared = Shared::default();
    match start(protocol, framing, command, &shared).await {
        Ok((agent, child)) => {
            let dialect = agent.dialect();
            let mut peer = Peer { agent, shared, session: None, id: String::new() };
            let ok = scenario::run(&mut peer, dialect, &mut std::io::stdout()).await;
            peer.session = None;
            peer.agent.close().await;
            if let Some(child) = child {
                child.shutdown().await;
            }
            if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(e) => {
            scenario::fail(&format!("initialize: {e}"), &mut std::io::stdout());
            ExitCode::FAILURE
        }
    }
}

fn read_args(args: &[String]) -> Option<(Protocol, Framing, &[String])> {
    let at = args.iter().position(|arg| arg == "--")?;
    let (protocol, rest) = args[..at].split_first()?;
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    let framing = match rest[..] {
        [] | ["--framing", "ndjson"] => Framing::Lines,
        ["--framing", "content-length"] => Framing::Headers,
        _ => return None,
    };
    Some((protocol.parse().ok()?, framing, &args[at + 1..]))
}

async fn start(
    protocol: Protocol,
    framing: Framing,
    command: &[String],
    shared: &Shared,
) -> Result<(AgentHandle, Option<ChildProcess>)> {
    let [program, args @ ..] = command else { return Err(Error::Start("no agent was named".into())) };
    let (transport, child) = if is_address(program) {
        let remote = Remote::new(program).map_err(|e| Error::Start(e.to_string()))?;
        (remote.connect().await.map_err(|e| Error::Start(e.to_string()))?, None)
    } else {
        let spec = Spec::new(program).args(args).on_stderr(|line| eprintln!("{line}"));
        let (pipes, child) = ChildProcess::spawn(&spec).await.map_err(|e| Error::Start(e.to_string()))?;
        (Transport::new(pipes.output, pipes.input), Some(child))
    };
    // The ids of accepted prompts are for the scenario only, so they are read off the wire.
    let wire = shared.clone();
    let transport = transport.tap(move |way, frame| {
        if way == Direction::In {
            wire.overhear(frame);
        }
    });
    let offered = Client::new("ours-client", env!("CARGO_PKG_VERSION")).offer(|can| {
        (can.fs_read, can.fs_write, can.terminal) = (true, true, true);
    });
    let client = offered.protocol(protocol).framing(framing).hello_deadline(STEP_DEADLINE);
    let host = Host { shared: shared.clone(), terminals: Terminals::default() };
    Ok((client.handler(host).connect(transport).await?, child))
}

/// What the handler and the tap share with the scenario.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Turning>>);

#[derive(Default)]
struct Turning {
    how: How,
    asked: Vec<String>,
    accepted: Option<String>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Turning> {
        self.0.locked()
    }

    /// Keeps the id of the message that a prompt became.
    fn overhear(&self, frame: &[u8]) {
        let message: serde_json::Value = serde_json::from_slice(frame).unwrap_or_default();
        if let Some(id) = message["result"]["messageId"].as_str() {
            self.lock().accepted = Some(id.to_owned());
        }
    }
}

/// Serves the agent.
struct Host {
    shared: Shared,
    terminals: Terminals,
}

fn exit_status(exit: Exit) -> ExitStatus {
    ExitStatus { exit_code: exit.map(i64::from), ..ExitStatus::default() }
}

impl Handler for Host {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        let mut turning = self.shared.lock();
        let wanted = match turning.how {
            How::Allow => PermissionOptionKind::AllowOnce,
            How::Reject => PermissionOptionKind::RejectOnce,
            How::Cancel => return PermissionOutcome::cancelled(),
        };
        turning.asked.extend(request.options.iter().map(|option| format!("{}:{}", option.option_id, option.kind)));
        let chosen = request.options.iter().find(|option| option.kind == wanted);
        chosen.map_or_else(PermissionOutcome::cancelled, |option| PermissionOutcome::selected(&*option.option_id))
    }

    async fn read_text_file(&self, request: ReadTextFileRequest) -> Result<String> {
        Ok(std::fs::read_to_string(&request.path)?)
    }

    async fn write_text_file(&self, request: WriteTextFileRequest) -> Result<()> {
        Ok(std::fs::write(&request.path, request.content)?)
    }

    async fn create_terminal(&self, request: CreateTerminalRequest) -> Result<String> {
        let cwd = request.cwd.as_deref().map(Path::new);
        self.terminals.create(&request.command, &request.args, cwd).map_err(Error::internal)
    }

    async fn terminal_output(&self, request: TerminalRequest) -> Result<TerminalOutputResponse> {
        let id = &request.terminal_id;
        let (output, exit) = self.terminals.output(id).ok_or_else(|| Error::not_found(id))?;
        Ok(TerminalOutputResponse {
            output,
            truncated: false,
            exit_status: exit.map(exit_status),
            ..Default::default()
        })
    }

    async fn wait_for_terminal_exit(&self, request: TerminalRequest) -> Result<ExitStatus> {
        let id = &request.terminal_id;
        self.terminals.wait(id).await.map(exit_status).ok_or_else(|| Error::not_found(id))
    }

    async fn kill_terminal(&self, request: TerminalRequest) -> Result<()> {
        self.terminals.kill(&request.terminal_id).ok_or_else(|| Error::not_found(&request.terminal_id))
    }

    async fn release_terminal(&self, request: TerminalRequest) -> Result<()> {
        self.terminals.release(&request.terminal_id).ok_or_else(|| Error::not_found(&request.terminal_id))
    }
}

/// Turns updates into what the scenario wants to know.
struct Watch {
    transcript: Transcript,
    seen: Seen,
    running: bool,
    user_id: Option<String>,
}

impl Watch {
    fn new(dialect: Dialect) -> Self {
        Self { transcript: Transcript::new(dialect), seen: Seen::default(), running: false, user_id: None }
    }

    fn apply(&mut self, update: &Update) {
        self.transcript.apply(update);
        match update {
            Update::Chunk(chunk) => match chunk.kind {
                MessageKind::Agent => self.seen.chunks += 1,
                MessageKind::Thought => self.seen.thought_chunks += 1,
                MessageKind::User => self.user_id.clone_from(&chunk.message_id),
            },
            Update::Message(message) if message.kind == MessageKind::User => {
                self.user_id = Some(message.message_id.clone());
            }
            Update::ToolCall(call) => self.seen.statuses.extend(call.status.set().map(ToString::to_string)),
            Update::State(now) => {
                let name = match &now.state {
                    State::Running => "running",
                    State::Idle { .. } => "idle",
                    State::RequiresAction => "requires_action",
                    State::Other(_) => "unknown",
                };
                self.running |= name != "idle";
                self.seen.states.push(name.into());
            }
            _ => {}
        }
    }

    fn finish(self) -> (Seen, Option<String>) {
        let Self { transcript, mut seen, user_id, .. } = self;
        for item in transcript.items() {
            match item {
                Item::Message(message) => match message.kind {
                    MessageKind::User => seen.user.push_str(&message.text()),
                    MessageKind::Agent => seen.text.push_str(&message.text()),
                    MessageKind::Thought => seen.thoughts.push_str(&message.text()),
                },
                Item::ToolCall(call) => {
                    seen.title = call.title.clone().unwrap_or_default();
                    seen.kind = call.kind.to_string();
                    seen.content = call.content.iter().filter_map(|item| item.as_text()).collect();
                }
                Item::Compaction(_) | Item::Other(_) => {}
            }
        }
        let entries = transcript.plans().iter().flat_map(Plan::entries);
        seen.plan = entries.map(|e| format!("{}:{}:{}", e.content, e.priority, e.status)).collect();
        (seen, user_id)
    }
}

struct Peer {
    agent: AgentHandle,
    shared: Shared,
    session: Option<Session>,
    id: String,
}

impl Peer {
    fn session(&self) -> Result<&Session, String> {
        self.session.as_ref().ok_or_else(|| "no session is open".to_owned())
    }
}

fn utf8(path: &Path) -> Result<&str, String> {
    path.to_str().ok_or_else(|| "a path that is not UTF-8".to_owned())
}

fn tell(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Driver for Peer {
    async fn initialize(&mut self) -> Result<Hello, String> {
        let can = self.agent.capabilities();
        Ok(Hello {
            protocol: self.agent.about().protocol_version,
            agent: self.agent.info().map(|info| info.name.clone()).unwrap_or_default(),
            list: can.list,
            replay: can.load,
            close: can.close,
        })
    }

    async fn open(&mut self, cwd: &Path) -> Result<String, String> {
        let session = self.agent.open(utf8(cwd)?).await.map_err(tell)?;
        self.id = session.id().to_string();
        self.session = Some(session);
        Ok(self.id.clone())
    }

    fn adopt(&mut self, session: &str) {
        session.clone_into(&mut self.id);
    }

    async fn prompt(&mut self, text: &str, how: How) -> Result<Seen, String> {
        *self.shared.lock() = Turning { how, ..Turning::default() };
        let dialect = self.agent.dialect();
        let mut watch = Watch::new(dialect);
        let mut turn = self.session()?.prompt(text).await.map_err(tell)?;
        let mut waiting = how == How::Cancel;
        loop {
            let limit = if waiting { CANCEL_AFTER } else { STEP_DEADLINE };
            match timeout(limit, turn.next()).await {
                // In version 1 our client tells this itself, and not the agent.
                Ok(Some(Update::Message(own))) if dialect == Dialect::V1 && own.kind == MessageKind::User => continue,
                Ok(Some(update)) => watch.apply(&update),
                Ok(None) => break,
                Err(_) if waiting => {}
                Err(_) => return Err("the turn does not end".into()),
            }
            // In current v2 a cancel before the work has begun would withdraw the prompt itself.
            if waiting && (dialect != Dialect::V2 || watch.running) {
                waiting = false;
                turn.cancel().await.map_err(tell)?;
            }
        }
        let (mut seen, user_id) = watch.finish();
        let Turning { asked, accepted, .. } = std::mem::take(&mut *self.shared.lock());
        seen.asked = asked;
        match turn.stop() {
            Ok(reason) => seen.stop = Some(reason.to_string()),
            Err(error) => {
                seen.error = Some(error.code().ok_or_else(|| tell(&error))?);
                seen.stop = (dialect == Dialect::V2).then(|| StopReason::Error.to_string());
            }
        }
        if dialect == Dialect::V2 {
            seen.same_id = Some(accepted.is_some() && accepted == user_id);
        }
        Ok(seen)
    }

    async fn list(&mut self, cwd: &Path) -> Result<Vec<String>, String> {
        let request = ListRequest { cwd: Some(utf8(cwd)?.to_owned()), ..ListRequest::default() };
        let page = self.agent.list(request).await.map_err(tell)?;
        Ok(page.sessions.into_iter().map(|info| info.session_id.to_string()).collect())
    }

    async fn close(&mut self) -> Result<(), String> {
        let session = self.session.take().ok_or_else(|| "no session is open".to_owned())?;
        session.close().await.map_err(tell)
    }

    async fn replay(&mut self, cwd: &Path) -> Result<Seen, String> {
        let session = self.agent.load(&*self.id, utf8(cwd)?).await.map_err(tell)?;
        let mut watch = Watch::new(self.agent.dialect());
        // The whole replay comes before the answer, so nothing has to be waited for.
        loop {
            tokio::select! {
                biased;
                Some(update) = session.next() => watch.apply(&update),
                () = std::future::ready(()) => break,
            }
        }
        self.session = Some(session);
        Ok(watch.finish().0)
    }
}
