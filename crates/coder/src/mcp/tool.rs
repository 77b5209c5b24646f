//! A tool of a server: what the model is told about it, and one call of it from the question to the result.

use super::entry::Entry;
use super::link::{Link, Progress};
use super::server::Server;
use super::tool_name;
use super::trouble::refused;
use super::{elicit, own, result};
use crate::report::Call;
use crate::text::{clean, code, line};
use crate::tools::{Output, Prepared, ToolError};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, PingRequest, ProgressNotificationParam, ServerResult, Tool,
};
use rmcp::service::{PeerRequestOptions, RequestHandle};
use rmcp::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tieline::Raw;
use tieline_host::rules::Action;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

/// As many tools of one server as are used.
pub const MAX_TOOLS: usize = 100;
/// As many pages of its list as are read.
pub const MAX_PAGES: usize = 20;
/// As many tools that the configuration does not want as are remembered.
const MAX_UNWANTED: usize = 1000;
/// As much of a description as the model is told, in characters.
const MAX_DESCRIPTION_CHARACTERS: usize = 1024;
/// The largest schema of arguments, in bytes.
const MAX_SCHEMA_BYTES: usize = 32 << 10;
/// How long a server may take to take a request or a cancellation.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a server that did not answer a call may take to say that it is there.
const PING_TIMEOUT: Duration = Duration::from_secs(10);
/// So long is waited between two reports of progress.
const REPORT_PAUSE: Duration = Duration::from_millis(100);

/// A tool of a server.
#[derive(Debug)]
pub struct Remote {
    /// What the model calls it.
    pub name: String,
    /// What the server calls it.
    pub tool: String,
    /// What it does, as the server says.
    pub description: String,
    /// The schema of its arguments.
    pub schema: Raw,
}

/// A list of tools that is being read.
#[derive(Default)]
pub struct Listing {
    /// The tools so far.
    pub tools: Vec<Arc<Remote>>,
    /// So many are not used.
    pub left_out: usize,
    /// The names of those that the configuration does not want.
    pub unwanted: Vec<String>,
}

impl Listing {
    /// Takes a tool.
    pub fn take(&mut self, entry: &Entry, tool: Tool) {
        if !own::wants(&entry.own, &tool.name) {
            if self.unwanted.len() < MAX_UNWANTED {
                self.unwanted.push(tool.name.into_owned());
            }
            return;
        }
        let schema = Value::Object((*tool.input_schema).clone());
        let name = tool_name(&entry.name, &tool.name);
        let known = self.tools.iter().any(|other| other.name == name);
        if known || self.tools.len() == MAX_TOOLS || schema.to_string().len() > MAX_SCHEMA_BYTES {
            self.left_out += 1;
            return;
        }
        let about = tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default();
        self.tools.push(Arc::new(Remote {
            name,
            description: clean(about, MAX_DESCRIPTION_CHARACTERS),
            tool: tool.name.into_owned(),
            schema: schema.into(),
        }));
    }
}

/// A call that is ready to run.
pub fn prepare(server: &Arc<Server>, tool: &Arc<Remote>, input: Value) -> Result<Prepared, ToolError> {
    let Value::Object(input) = input else { return Err("The arguments are not right: an object is needed.".into()) };
    // A server that can't be used is no reason to ask the user.
    server.connection()?;
    let title = format!("{}: {}", line(&server.entry.name, 60), line(&tool.tool, 60));
    let (server, tool) = (Arc::clone(server), Arc::clone(tool));
    let action = Action::Mcp { server: server.entry.name.clone(), tool: tool.tool.clone() };
    let mut prepared =
        Prepared::new(title, move |report| async move { Ok(call(&server, &tool, input, &report).await) });
    prepared.actions.push(action);
    Ok(prepared)
}

async fn call(server: &Server, tool: &Remote, input: Map<String, Value>, report: &Call) -> Output {
    let failed = |what: &str, why: &str, most: usize| {
        let why = clean(&server.entry.without_secrets(why), most);
        Output::error(format!("The MCP server {} {what}: {why}", code(&server.entry.name)))
    };
    match exchange(server, tool, input, report).await {
        Ok(answer) => result::output(&server.entry.name, answer),
        Err(Failure::Stopped) => Output {
            content: vec!["(the user stopped the call)".into()],
            failed: true,
            stopped: true,
            ..Output::default()
        },
        Err(Failure::NeedsPages(data, link)) => {
            let client = report.turn().client();
            Output::error(elicit::visit(&client, &server.entry.name, &link.pages, data).await)
        }
        Err(Failure::Said(why)) => failed("refused", &why, 2000),
        Err(Failure::Broken(why)) => failed("did not answer", &why, 500),
    }
}

/// Why there is no result.
enum Failure {
    /// The user stopped it.
    Stopped,
    /// The user has to visit pages first, which are named in this; and the connection that knows of them.
    NeedsPages(Option<Value>, Arc<Link>),
    /// The server said why.
    Said(String),
    /// Something between us and the server.
    Broken(String),
}

fn broken(why: &str) -> Failure {
    Failure::Broken(why.to_owned())
}

/// Sends a call and waits for its answer; reports how far it is.
async fn exchange(
    server: &Server,
    tool: &Remote,
    input: Map<String, Value>,
    report: &Call,
) -> Result<ServerResult, Failure> {
    let (peer, link) = server.connection().map_err(|trouble| Failure::Broken(trouble.why))?;
    let mut losses = link.losses();
    let mut params = CallToolRequestParams::new(tool.tool.clone());
    params.arguments = Some(input);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let sent = timeout(SEND_TIMEOUT, peer.send_cancellable_request(request, PeerRequestOptions::no_options())).await;
    let handle = sent.map_err(|_| broken("it takes no requests"))?.map_err(|error| Failure::Broken(refused(&error)))?;
    let (mut flight, mut progress) = Flight::begin(handle, &link);
    let mut deadline = Instant::now() + server.around.limits.call;
    let mut next_report = Instant::now();
    let mut news = false;
    loop {
        let Some(handle) = &mut flight.handle else { return Err(broken("the call was withdrawn")) };
        tokio::select! {
            biased;
            answer = &mut handle.rx => {
                flight.handle = None;
                return match answer {
                    Ok(Ok(answer)) => Ok(answer),
                    Ok(Err(ServiceError::McpError(error))) if error.code.0 == elicit::PAGE_NEEDED => {
                        Err(Failure::NeedsPages(error.data, link))
                    }
                    Ok(Err(ServiceError::McpError(error))) => Err(Failure::Said(error.message.into_owned())),
                    Ok(Err(error)) => Err(Failure::Broken(refused(&error))),
                    Err(_) => Err(broken("the connection was closed")),
                };
            }
            () = report.stopped() => return Err(Failure::Stopped),
            why = link.ended() => return Err(Failure::Broken(why)),
            _ = losses.changed() => return Err(broken("an answer of it could not be read, or was too long")),
            changed = progress.changed() => {
                // Whoever reports how far it is still works.
                deadline = Instant::now() + server.around.limits.call;
                news = changed.is_ok();
            }
            () = sleep_until(next_report), if news => {
                news = false;
                next_report = Instant::now() + REPORT_PAUSE;
                let text = progress.borrow().as_ref().map(in_words).unwrap_or_default();
                if let Err(error) = report.show(vec![text.into()]).await {
                    return Err(Failure::Broken(error.to_string()));
                }
            }
            () = sleep_until(deadline) => {
                // Dropped first, so that the server hears that nobody waits before it is asked whether it is there.
                drop(flight);
                check(peer, link);
                return Err(Failure::Broken(format!("nothing came for {} s", server.around.limits.call.as_secs())));
            }
        }
    }
}

/// Asks a server that did not answer a call whether it is there at all. If it is not, the connection is over: the user is
/// told, and it is started or reached again.
fn check(peer: Peer<RoleClient>, link: Arc<Link>) {
    tokio::spawn(async move {
        let ping = peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
        tokio::select! {
            answer = timeout(PING_TIMEOUT, ping) => {
                if answer.is_err() {
                    link.end("it does not answer any more");
                }
            }
            _ = link.ended() => {}
        }
    });
}

/// How far a call is, for people.
fn in_words(told: &ProgressNotificationParam) -> String {
    let done = told.progress;
    let part = match told.total {
        Some(total) if total > 0.0 => format!("{:.0} %", (done / total * 100.0).clamp(0.0, 100.0)),
        _ => format!("{done}"),
    };
    match &told.message {
        Some(message) => format!("{part}: {}", line(message, 300)),
        None => part,
    }
}

/// A call under way. If it is dropped before the answer came, the server is told that nobody wants it any more.
struct Flight {
    handle: Option<RequestHandle<RoleClient>>,
    token: rmcp::model::ProgressToken,
    link: Arc<Link>,
}

impl Flight {
    fn begin(handle: RequestHandle<RoleClient>, link: &Arc<Link>) -> (Self, watch::Receiver<Progress>) {
        let token = handle.progress_token.clone();
        let progress = link.begin(token.clone());
        (Self { handle: Some(handle), token, link: Arc::clone(link) }, progress)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.link.finish(&self.token);
        if let (Some(handle), Ok(runtime)) = (self.handle.take(), tokio::runtime::Handle::try_current()) {
            // Nobody waits for it.
            runtime.spawn(timeout(SEND_TIMEOUT, handle.cancel(Some("cancelled by the user".into()))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{NumberOrString, ProgressToken};
    use tieline::McpServer;
    use tieline::schema::McpStdio;

    #[test]
    fn progress_in_words() {
        let progress = |done, total, message: Option<&str>| {
            let mut told = ProgressNotificationParam::new(ProgressToken(NumberOrString::Number(1)), done);
            (told.total, told.message) = (total, message.map(str::to_owned));
            told
        };
        for (progress, expect) in [
            (progress(1.0, Some(4.0), None), "25 %"),
            (progress(9.0, Some(4.0), Some("a\nb")), "100 %: a b"),
            (progress(3.0, None, None), "3"),
            (progress(3.0, Some(0.0), None), "3"),
            (progress(f64::NAN, Some(1.0), None), "NaN %"),
        ] {
            assert_eq!(in_words(&progress), expect);
        }
    }

    #[test]
    fn lists_are_bounded() {
        let tool = |name: &str, size: usize| -> Tool {
            let schema = serde_json::json!({"type": "object", "description": "x".repeat(size)});
            serde_json::from_value(serde_json::json!({"name": name, "inputSchema": schema})).unwrap()
        };
        let server = McpStdio { name: "s".into(), ..McpStdio::default() };
        let entry = Entry::of(McpServer::Stdio(server)).unwrap();
        let mut listing = Listing::default();
        for (name, size) in [("a", 0), ("a", 0), ("b", MAX_SCHEMA_BYTES)] {
            listing.take(&entry, tool(name, size));
        }
        assert_eq!((listing.tools.len(), listing.left_out), (1, 2));
        (0..MAX_TOOLS).for_each(|at| listing.take(&entry, tool(&at.to_string(), 0)));
        assert_eq!((listing.tools.len(), listing.left_out), (MAX_TOOLS, 3));
    }
}
