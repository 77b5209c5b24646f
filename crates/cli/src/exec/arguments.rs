//! The command line of `tieline exec`.

use crate::setup::Wanted;
use crate::shared::{pair, session_name};
use clap::{ArgGroup, Args, ValueEnum, ValueHint};
use std::path::PathBuf;
use std::time::Duration;
use tieline::Protocol;
use tieline_client::live::{Budget, OnLost};
use tieline_client::permission::Preset;
use tieline_rpc::framing::Framing;

const EXAMPLES: &str = "Examples:
  tieline exec list the files                            the built-in agent, no key, no network
  tieline exec --agent codex \"why does the build fail?\"  an agent of your configuration
  tieline exec \"fix the typo\" --allow-edits -- my-agent --acp
  git diff | tieline exec -F json \"review this\" | jq -r .text
  tieline exec -c \"and now the tests\"                    goes on with the last session here

Exit codes:
  0 done   1 agent or protocol error   2 usage   3 time-out   4 no such session
  5 every permission refused   6 login needed   7 agent not started   8 context lost
  9 budget used up   10 the agent refused   11 token or turn limit   12 answer does not fit
  13 protocol violation   14 configuration   130 interrupted   141 output unread   143 terminated";

/// One turn with an agent, for scripts: ask, read the answer, exit
///
/// Without --agent or a command after `--`, the built-in agent answers. Reading files of the project is allowed; everything
/// else is asked on a terminal, and refused where nobody can answer.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES, group = ArgGroup::new("policy"))]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Arguments {
    /// What to say, quoted or not; what comes through a pipe is added
    ///
    /// Without words, or with `-`, it is read from standard input.
    #[arg(value_name = "PROMPT")]
    pub prompt: Vec<String>,

    /// A name (see `tieline agents list`) or one quoted command line
    #[arg(long, short, value_name = "NAME|COMMAND", value_hint = ValueHint::CommandString, help_heading = "Agent", conflicts_with = "command")]
    pub agent: Option<String>,

    /// The agent as a command with its arguments
    #[arg(last = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments, help_heading = "Agent")]
    pub command: Vec<String>,

    /// A variable for the agent; can be given again
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair, help_heading = "Agent")]
    pub env: Vec<(String, String)>,

    /// How to log in, if the agent wants that: the id of one of its methods
    #[arg(long, value_name = "METHOD", help_heading = "Agent")]
    pub login: Option<String>,

    /// auto, 1, 2 or 2-seed [default: 1; auto for the built-in agent]
    ///
    /// The version of the protocol.
    #[arg(long, value_name = "VERSION", help_heading = "Agent")]
    pub protocol: Option<Protocol>,

    /// How messages are framed: lines or content-length [default: lines]
    #[arg(long, value_name = "FRAMING", value_parser = framing, help_heading = "Agent")]
    pub framing: Option<Framing>,

    /// The folder to work in
    #[arg(long, short = 'C', value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Session")]
    pub cwd: Option<PathBuf>,

    /// Another folder that the agent may use; can be given again
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Session")]
    pub add_dir: Vec<PathBuf>,

    /// A session by a name of yours; begun if there is none
    #[arg(long, short, value_name = "NAME", value_parser = session_name, help_heading = "Session", conflicts_with_all = ["resume", "go_on"])]
    pub session: Option<String>,

    /// Goes on with the last session of this agent in this folder
    #[arg(long = "continue", short = 'c', help_heading = "Session", conflicts_with = "resume")]
    pub go_on: bool,

    /// Goes on with a session: its id, enough of it, its name, or `last`
    #[arg(long, short, value_name = "SESSION", help_heading = "Session")]
    pub resume: Option<String>,

    /// If the agent has lost the session: fail, new or handover
    ///
    /// End with exit code 8, go on in a new one, or go on in a new one that is given a record of what was said.
    #[arg(long, value_name = "WHAT", default_value = "fail", value_parser = ["fail", "new", "handover"], hide_possible_values = true, help_heading = "Session")]
    pub on_lost: String,

    /// Adds a file to the prompt; can be given again
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Prompt")]
    pub file: Vec<PathBuf>,

    /// Adds a picture (PNG, JPEG, GIF, WebP); can be given again
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Prompt")]
    pub image: Vec<PathBuf>,

    /// Switches to a mode first
    #[arg(long, value_name = "MODE", help_heading = "Prompt")]
    pub mode: Option<String>,

    /// Switches to a model first; the built-in agent takes any PROVIDER/MODEL, see `tieline models`
    #[arg(long, short, value_name = "MODEL", help_heading = "Prompt")]
    pub model: Option<String>,

    /// Reaches the provider of the built-in agent's model at this address instead
    #[arg(long, value_name = "URL", hide_short_help = true, help_heading = "Prompt")]
    pub base_url: Option<String>,

    /// Sets an option of the session first; can be given again
    #[arg(long, short, value_name = "ID=VALUE", value_parser = pair, help_heading = "Prompt")]
    pub option: Vec<(String, String)>,

    /// MCP servers for the agent, from a file like `.mcp.json`
    ///
    /// Can be given again.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Prompt")]
    pub mcp_config: Vec<PathBuf>,

    /// Asks about everything, reading too
    #[arg(long, group = "policy", help_heading = "Permission")]
    pub ask: bool,

    /// Allows reading in the project (the default)
    #[arg(long, group = "policy", help_heading = "Permission", alias = "approve-reads")]
    pub allow_reads: bool,

    /// Allows changing files in the project, too
    #[arg(long, group = "policy", help_heading = "Permission", alias = "approve-edits")]
    pub allow_edits: bool,

    /// Allows everything that no rule forbids
    #[arg(long, group = "policy", help_heading = "Permission", alias = "approve-all")]
    pub allow_all: bool,

    /// Refuses everything
    #[arg(long, group = "policy", help_heading = "Permission")]
    pub deny_all: bool,

    /// Allows what fits a rule, such as `run cargo test *`; can be given again
    #[arg(long, value_name = "RULE", help_heading = "Permission")]
    pub allow: Vec<String>,

    /// Forbids what fits a rule, such as `write **/.env`; can be given again
    #[arg(long, value_name = "RULE", help_heading = "Permission")]
    pub deny: Vec<String>,

    /// Where nobody can be asked: deny, or fail (end the turn)
    #[arg(long, value_name = "WHAT", default_value = "deny", value_parser = ["deny", "fail"], hide_possible_values = true, help_heading = "Permission")]
    pub on_ask: String,

    /// Does not offer to read and write files for the agent
    #[arg(long, help_heading = "Permission")]
    pub no_fs: bool,

    /// Does not offer to run commands for the agent
    #[arg(long, help_heading = "Permission")]
    pub no_terminal: bool,

    /// Ends the run after this long, such as 90, 90s, 5m or 1h
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    pub timeout: Option<Duration>,

    /// How long the agent may take until it has the prompt
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration, help_heading = "Limits")]
    pub start_timeout: Duration,

    /// How long the agent may send nothing while it works
    ///
    /// While it waits for an answer or a command of ours it is not silent.
    #[arg(long, value_name = "TIME", value_parser = duration, help_heading = "Limits")]
    pub idle_timeout: Option<Duration>,

    /// Stops the turn when it has cost more than this
    ///
    /// In the agent's currency, and by its own word.
    #[arg(long, value_name = "AMOUNT", value_parser = amount, help_heading = "Limits")]
    pub max_cost: Option<f64>,

    /// Stops the turn when there are more tokens in the context
    ///
    /// By the agent's own word.
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    pub max_tokens: Option<u64>,

    /// Stops the turn at the tool call after this many
    #[arg(long, value_name = "NUMBER", help_heading = "Limits")]
    pub max_tool_calls: Option<u64>,

    /// text, quiet, json, stream-json or acp [default: text]
    ///
    /// For people, only the last message, one object, one event per line, or the frames as on the wire.
    #[arg(
        long,
        short = 'F',
        value_name = "FORMAT",
        alias = "output-format",
        hide_possible_values = true,
        help_heading = "Output"
    )]
    pub format: Option<Format>,

    /// The same as --format stream-json
    #[arg(long, help_heading = "Output", conflicts_with_all = ["format", "quiet"])]
    pub json: bool,

    /// The same as --format quiet
    #[arg(long, short, help_heading = "Output", conflicts_with_all = ["format", "verbose"])]
    pub quiet: bool,

    /// Shows what the agent writes on its standard error
    #[arg(long, short, help_heading = "Output")]
    pub verbose: bool,

    /// Records every frame in a file; secrets are hidden
    ///
    /// `tieline show` reads it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub trace: Option<PathBuf>,

    /// The last message must be JSON that fits this JSON Schema (code 12)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub output_schema: Option<PathBuf>,

    /// Fails if the agent breaks the protocol anywhere (code 13)
    ///
    /// Also where that could be forgiven.
    #[arg(long, help_heading = "Output")]
    pub strict: bool,

    /// Writes the last message into a file
    ///
    /// As the agent said it; the file is empty if there is none.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Output")]
    pub save_last: Option<PathBuf>,

    /// Beside the answer: thoughts,tools,diffs,plan,usage or none
    ///
    /// What `text` shows. Without this: tools,diffs,plan.
    #[arg(long, value_name = "LIST", value_delimiter = ',', hide_possible_values = true, help_heading = "Output")]
    pub show: Vec<Show>,

    /// Keeps no record of the session
    #[arg(long, help_heading = "Output", conflicts_with_all = ["session", "go_on", "resume"])]
    pub no_record: bool,
}

/// How the output looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// Only the last message.
    Quiet,
    /// One object.
    Json,
    /// One event per line.
    StreamJson,
    /// Frames as on the wire.
    Acp,
}

impl Format {
    /// True if a person reads it, who can be asked.
    pub fn is_for_people(self) -> bool {
        matches!(self, Self::Text | Self::Quiet)
    }
}

/// What is shown beside the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Show {
    /// What the agent thinks.
    Thoughts,
    /// What it does.
    Tools,
    /// What it changes.
    Diffs,
    /// What it plans.
    Plan,
    /// What it uses.
    Usage,
    /// Nothing.
    None,
}

impl Show {
    /// What is shown if nobody says otherwise.
    pub const USUAL: [Self; 3] = [Self::Tools, Self::Diffs, Self::Plan];
}

impl Arguments {
    /// The format: the flag, or what the configuration says.
    pub fn format(&self, configured: Option<&str>) -> Format {
        let usual = configured.and_then(|name| Format::from_str(name, false).ok()).unwrap_or(Format::Text);
        match (self.quiet, self.json) {
            (true, _) => Format::Quiet,
            (_, true) => Format::StreamJson,
            _ => self.format.unwrap_or(usual),
        }
    }

    /// What a session needs of it.
    pub fn wanted(&self) -> Wanted {
        let flags = [
            (self.ask, Preset::Ask),
            (self.allow_reads, Preset::AllowReads),
            (self.allow_edits, Preset::AllowEdits),
            (self.allow_all, Preset::AllowAll),
            (self.deny_all, Preset::DenyAll),
        ];
        Wanted {
            agent: self.agent.clone(),
            command: self.command.clone(),
            env: self.env.clone(),
            login: self.login.clone(),
            protocol: self.protocol,
            framing: self.framing,
            cwd: self.cwd.clone(),
            add_dir: self.add_dir.clone(),
            session: self.session.clone(),
            go_on: self.go_on,
            resume: self.resume.clone(),
            on_lost: match &*self.on_lost {
                "new" => OnLost::New,
                "handover" => OnLost::HandOver,
                _ => OnLost::Fail,
            },
            mode: self.mode.clone(),
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            options: self.option.clone(),
            preset: flags.into_iter().find(|(on, _)| *on).map(|(_, preset)| preset),
            allow: self.allow.clone(),
            deny: self.deny.clone(),
            no_fs: self.no_fs,
            no_terminal: self.no_terminal,
            start_timeout: self.start_timeout,
            budget: Budget { cost: self.max_cost, tokens: self.max_tokens, tool_calls: self.max_tool_calls },
            no_record: self.no_record,
            journal: None,
        }
    }

    /// What is shown beside the answer.
    pub fn shown(&self) -> Vec<Show> {
        if self.show.is_empty() { Show::USUAL.to_vec() } else { self.show.clone() }
    }

    /// What the user calls the agent.
    pub fn label(&self) -> String {
        let named = self.agent.clone().or_else(|| self.command.first().cloned());
        named.unwrap_or_else(|| tieline_client::agents::BUILT_IN.to_owned())
    }

    /// The folder to work in, as far as it can be told.
    pub fn folder(&self) -> PathBuf {
        let here = std::env::current_dir().unwrap_or_default();
        self.cwd.as_ref().map_or_else(|| here.clone(), |cwd| here.join(cwd))
    }
}

fn framing(text: &str) -> Result<Framing, String> {
    match text {
        "lines" => Ok(Framing::Lines),
        "content-length" => Ok(Framing::Headers),
        _ => Err("use lines or content-length".into()),
    }
}

/// An amount of money.
fn amount(text: &str) -> Result<f64, String> {
    let amount = text.parse::<f64>().ok().filter(|amount| amount.is_finite() && *amount >= 0.0);
    amount.ok_or_else(|| "use a number such as 0.50".into())
}

/// `90`, `90s`, `1.5m`, `2h`, `500ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("use a number with ms, s, m or h behind it, such as 90s".into()),
    };
    match number.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number * seconds <= 31_536_000.0 => Ok(Duration::from_secs_f64(number * seconds)),
        _ => Err("use a number with ms, s, m or h behind it, such as 90s".into()),
    }
}
