//! A whole conversation, with every frame shown: this program starts itself again as an agent and talks to it over pipes.
//!
//! `cargo run -q -p tieline --example conversation -- --protocol 1 --framing content-length`
//!
//! The agent plans, asks for permission, writes a file and reports it. Nothing leaves this machine, and the folder it works
//! in is removed at the end.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tieline::agent::{self, Ask, Turn};
use tieline::client::{Client, Handler};
use tieline::rpc::Direction;
use tieline::rpc::framing::Framing;
use tieline::{
    ContentBlock, Diff, Error, PermissionOutcome, PermissionRequest, PlanEntry, PlanStatus, Protocol, Result,
    StopReason, ToolCallContent, ToolCallUpdate, ToolKind, Transcript, schema,
};

/// Like `println!`, but a reader that went away (`| head`) is no reason to panic.
macro_rules! say {
    ($($what:tt)*) => {{
        let _ = writeln!(std::io::stdout(), $($what)*);
    }};
}

const USAGE: &str = "usage: conversation [--protocol auto|1|2|2-seed] [--framing lines|content-length]";
/// How this program is told to be the agent.
const AGENT: &str = "--be-the-agent";

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = if let [role, folder] = &arguments[..]
        && role == AGENT
    {
        be_the_agent(PathBuf::from(folder)).await
    } else {
        match Options::read(&arguments) {
            Ok(Some(options)) => talk(&options).await,
            Ok(None) => {
                say!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            Err(why) => {
                eprintln!("conversation: {why}\n{USAGE}");
                return ExitCode::from(2);
            }
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conversation: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    protocol: Protocol,
    framing: Framing,
}

impl Options {
    /// `None` if only help is wanted.
    fn read(arguments: &[String]) -> Result<Option<Self>, String> {
        let mut options = Self { protocol: Protocol::Auto, framing: Framing::Lines };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            // Both `--name value` and `--name=value`.
            let (name, value) = match argument.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (&**argument, None),
            };
            let mut value =
                || value.or_else(|| arguments.next().map(|next| &**next)).ok_or(format!("{name} needs a value"));
            match name {
                "--protocol" => options.protocol = value()?.parse()?,
                "--framing" => {
                    options.framing = match value()? {
                        "lines" => Framing::Lines,
                        "content-length" => Framing::Headers,
                        other => return Err(format!("unknown framing `{other}`: use lines or content-length")),
                    }
                }
                "-h" | "--help" => return Ok(None),
                other => return Err(format!("unknown argument `{other}`")),
            }
        }
        Ok(Some(options))
    }
}

// The agent ------------------------------------------------------------------------------------------------------------

async fn be_the_agent(folder: PathBuf) -> Result<()> {
    agent::serve_stdio(agent::from_fn("notes", move |turn, prompt| write_note(turn, prompt, folder.join("note.txt"))))
        .await
}

async fn write_note(turn: Turn, prompt: Vec<ContentBlock>, path: PathBuf) -> Result<StopReason> {
    let text: String = prompt.iter().filter_map(ContentBlock::as_text).collect();
    turn.think("I should ask before I touch a file.").await?;
    turn.plan(vec![PlanEntry::new("Write the note", PlanStatus::InProgress)]).await?;
    let shown = path.display().to_string();
    let diff = Diff::of(&*shown, None, text.clone());
    let tool = turn.tool("Write note.txt").kind(ToolKind::Edit).at(&*shown, None);
    let tool = tool.content(vec![ToolCallContent::Diff(diff)]).start().await?;
    let question = Ask::about(ToolCallUpdate::new(tool.id())).title("May I write note.txt?");
    if !turn.ask(question).await?.is_allowed() {
        tool.fail("The user said no.").await?;
        return Ok(StopReason::EndTurn);
    }
    tool.running().await?;
    std::fs::write(&path, text)?;
    tool.complete().await?;
    turn.plan(vec![PlanEntry::new("Write the note", PlanStatus::Completed)]).await?;
    for word in ["I wrote ", "it ", "down."] {
        turn.say(word).await?;
    }
    Ok(StopReason::EndTurn)
}

// The client -----------------------------------------------------------------------------------------------------------

/// Allows what it is asked, because nobody sits here to decide.
struct AllowOnce;

impl Handler for AllowOnce {
    async fn permission(&self, request: PermissionRequest) -> PermissionOutcome {
        say!("    The agent asks: {} This demonstration answers by itself: yes, once.", request.title);
        match request.options.iter().find(|option| option.kind.allows()) {
            Some(option) => PermissionOutcome::selected(&*option.option_id),
            None => PermissionOutcome::cancelled(),
        }
    }
}

async fn talk(options: &Options) -> Result<()> {
    let folder = Folder::new()?;
    let folder_name = folder.0.display().to_string();
    say!("Starting an agent, and talking to it over its standard input and output.");
    say!("    →  client to agent      ←  agent to client\n");
    let client = Client::new("conversation", env!("CARGO_PKG_VERSION")).handler(AllowOnce).tap(|direction, frame| {
        let arrow = if direction == Direction::Out { "→" } else { "←" };
        say!("{arrow}  {}", String::from_utf8_lossy(frame));
    });
    let this_program = std::env::current_exe()?.display().to_string();
    let command = [&this_program, AGENT, &folder_name];
    let agent = client.protocol(options.protocol).framing(options.framing).spawn(command).await?;
    let session = agent.open(&*folder_name).await?;
    let mut turn = session.prompt("A tie line joins two switchboards.").await?;
    let mut transcript = Transcript::new(agent.dialect());
    while let Some(update) = turn.next().await {
        transcript.apply(&update);
    }
    let stop = turn.stop()?;
    agent.close().await;

    say!("\nProtocol {}; the turn ended with `{stop}`.", agent.dialect());
    for item in transcript.items() {
        match item {
            schema::Item::Message(message) => say!("  {:?}: {}", message.kind, message.text()),
            schema::Item::ToolCall(call) => {
                say!("  Tool: {} ({})", call.title.as_deref().unwrap_or("?"), call.status);
            }
            _ => {}
        }
    }
    let note = std::fs::read_to_string(folder.0.join("note.txt"))?;
    say!("  note.txt: {note}");
    Ok(())
}

/// A folder of our own that is removed at the end, however that comes.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tieline-conversation-{}", std::process::id()));
        std::fs::create_dir(&path).map_err(|error| Error::Start(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.0));
    }
}
