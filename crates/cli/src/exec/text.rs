//! The output for people: the answer on standard output, everything else on standard error, all of it made safe to show.

use super::outlet::{Outlet, To};
use super::style::Style;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;
use tieline_client::permission::Ruling;
use tieline_client::run::{Ending, Event, Failure, Gone, News, Outcome, Progress, Watch, When};
use tieline_client::sanitize::{self, Sanitizer};
use tieline_client::services::{self, Services};
use tieline_host::run::View;
use tieline_schema::{
    MessageKind, Plan, PlanStatus, ToolCallContent, ToolCallItem, ToolCallStatus, Update, from_base64,
};

/// Text is written in pieces of this size.
const PIECE: usize = 64 * 1024;
/// A diff is shown up to so many lines.
const LINES: usize = 200;

/// Prints for people.
pub struct Text {
    outlet: Outlet,
    style: Style,
    /// Only the last message, at the end.
    quiet: bool,
    /// Words of the agent.
    said: RefCell<Sanitizer>,
    /// Standard output is at the beginning of a line.
    fresh: Cell<bool>,
    /// Something was printed on standard output.
    any: Cell<bool>,
    /// A line that tells of a wait stands on the terminal.
    waiting: Cell<bool>,
    /// The last age of a wait, in seconds, that was told of without a terminal.
    told_age: Cell<u64>,
    /// How much of each tool call was shown.
    tools: RefCell<HashMap<String, Shown>>,
    /// Terminals that the agent shows.
    terminals: RefCell<HashMap<String, Sanitizer>>,
    /// Terminals that we run for the agent.
    ours: RefCell<Vec<Followed>>,
    services: RefCell<Option<Services>>,
    plan: RefCell<String>,
}

/// A terminal of ours that is shown while it runs.
struct Followed {
    id: String,
    view: View,
    from: u64,
    sanitizer: Sanitizer,
    line: String,
    shown: usize,
}

#[derive(Default)]
struct Shown {
    title: bool,
    end: bool,
}

impl Text {
    /// Prints as it comes, or with `quiet` only the last message.
    pub fn new(outlet: Outlet, style: Style, quiet: bool) -> Self {
        Self {
            outlet,
            style,
            quiet,
            said: RefCell::default(),
            fresh: Cell::new(true),
            any: Cell::new(false),
            waiting: Cell::new(false),
            told_age: Cell::new(0),
            tools: RefCell::default(),
            terminals: RefCell::default(),
            ours: RefCell::default(),
            services: RefCell::default(),
            plan: RefCell::default(),
        }
    }

    /// Takes the line away that tells of a wait.
    fn clear(&self) {
        if self.waiting.take() {
            self.outlet.push(To::Err, "\r\x1b[K");
        }
    }

    fn out(&self, text: &str) {
        if !text.is_empty() {
            self.clear();
            self.fresh.set(text.ends_with('\n'));
            self.any.set(true);
            self.outlet.push(To::Out, text);
        }
    }

    /// Prints lines on standard error. They are safe already.
    fn err(&self, lines: &str) {
        if self.quiet {
            return;
        }
        self.clear();
        if self.style.same_screen && !self.fresh.replace(true) {
            self.outlet.push(To::Out, "\n");
        }
        self.outlet.push(To::Err, lines);
    }

    fn dim(&self, line: &str) {
        self.err(&format!("{}\n", self.style.dim(line)));
    }

    async fn said(&self, news: News<'_>) -> Result<(), Gone> {
        let mut rest = match news {
            News::More(text) => text,
            News::Fresh(text) => {
                if self.any.get() {
                    self.out(if self.fresh.get() { "\n" } else { "\n\n" });
                }
                text
            }
            News::Instead(text) => {
                self.out(if self.fresh.get() { "\n" } else { "\n\n" });
                self.dim("the agent replaced its last message:");
                text
            }
            News::Nothing => return Ok(()),
        };
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE));
            let safe = self.said.borrow_mut().push(piece);
            self.out(&safe);
            rest = after;
            self.outlet.room().await?;
        }
        Ok(())
    }

    fn update(&self, update: &Update, tool: Option<&ToolCallItem>, when: When) {
        if when == When::Before {
            return;
        }
        let late = if when == When::Late { " (late)" } else { "" };
        match (update, tool) {
            (_, Some(tool)) => self.tool(tool, late),
            (Update::Chunk(chunk), _) if chunk.kind == MessageKind::Agent => {
                self.dim(&format!("[{} content is not shown]{late}", sanitize::line(chunk.content.tag())));
            }
            (Update::Message(message), _) if message.kind == MessageKind::Agent => {
                self.dim(&format!("[a message of several parts is not shown]{late}"));
            }
            (Update::Plan(update), _) => match &update.plan {
                Plan::Items(plan) => self.plan(&plan.entries),
                Plan::Other { .. } => self.dim("[a plan of an unknown kind]"),
            },
            (Update::Notice(notice), _) => {
                let more = notice.description.as_deref().map(|more| format!(": {more}")).unwrap_or_default();
                let text = format!("{} {}{more}", notice.severity, notice.title);
                self.dim(&sanitize::line(&text));
            }
            (Update::Terminal(terminal), _) => {
                if let Some(command) = terminal.command.set() {
                    self.dim(&format!("  $ {}", sanitize::line(command)));
                }
            }
            (Update::TerminalOutput(chunk), _) => {
                let bytes = from_base64(&chunk.data).unwrap_or_default();
                let mut terminals = self.terminals.borrow_mut();
                let safe = terminals.entry(chunk.terminal_id.clone()).or_default().push_bytes(&bytes);
                if !safe.is_empty() {
                    self.err(&self.style.dim(&safe));
                }
            }
            (Update::Other(unknown), _) => {
                self.dim(&format!("[an update of the unknown kind `{}`]{late}", sanitize::line(&unknown.tag)));
            }
            _ => {}
        }
    }

    fn plan(&self, entries: &[tieline_schema::PlanEntry]) {
        let mut text = String::new();
        for entry in entries {
            let mark = match entry.status {
                PlanStatus::Completed => "x",
                PlanStatus::InProgress => ">",
                _ => " ",
            };
            let _ = writeln!(text, "  [{mark}] {}", sanitize::line(&entry.content));
        }
        if *self.plan.borrow() != text {
            self.err(&self.style.dim(&format!("plan\n{text}")));
            *self.plan.borrow_mut() = text;
        }
    }

    fn tool(&self, tool: &ToolCallItem, late: &str) {
        let mut tools = self.tools.borrow_mut();
        if tools.len() > 10_000 {
            tools.clear();
        }
        let shown = tools.entry(tool.id.clone()).or_default();
        let title = sanitize::line(tool.title.as_deref().unwrap_or(&tool.id));
        if !shown.title && (tool.title.is_some() || tool.status.is_final()) {
            shown.title = true;
            self.dim(&format!("· {} {title}{late}", sanitize::line(tool.kind.as_str())));
        }
        if !tool.status.is_final() || std::mem::replace(&mut shown.end, true) {
            return;
        }
        match tool.status {
            ToolCallStatus::Failed => self.err(&format!("{}\n", self.style.red(&format!("✗ {title}: failed")))),
            ToolCallStatus::Cancelled => self.dim(&format!("✗ {title}: cancelled")),
            _ => {}
        }
        for content in &tool.content {
            match content {
                ToolCallContent::Diff(diff) => {
                    let patch = diff.patch().map(|patch| patch.text).unwrap_or_default();
                    self.err(&self.style.diff(&patch, LINES));
                }
                ToolCallContent::Other(unknown) => {
                    self.dim(&format!("[{} content is not shown]", sanitize::line(&unknown.tag)));
                }
                ToolCallContent::Content(_) | ToolCallContent::Terminal(_) if tool.status != ToolCallStatus::Failed => {
                }
                content => {
                    let text = sanitize::text(content.as_text().unwrap_or_default());
                    text.lines().take(20).for_each(|line| self.dim(&format!("  {line}")));
                }
            }
        }
    }

    fn note(&self, note: &services::Event) {
        match note {
            services::Event::Decided(record) => {
                let answer = match record.ruling {
                    Ruling::Allowed if record.method == "fs/read_text_file" => return,
                    Ruling::Allowed => "allowed",
                    Ruling::Refused => "refused",
                    Ruling::Cancelled => "cancelled",
                };
                let what = if record.facts.is_empty() { record.method.to_owned() } else { record.facts.join("; ") };
                self.dim(&format!(
                    "  {answer}: {} ({})",
                    sanitize::line(&what),
                    sanitize::line(&record.by.to_string())
                ));
            }
            services::Event::Wrote { path, .. } => {
                self.dim(&format!("  wrote {}", sanitize::line(&path.to_string_lossy())));
            }
            services::Event::TerminalStarted { line, terminal, .. } => {
                self.dim(&format!("  $ {}", sanitize::line(line)));
                let view = self.services.borrow().as_ref().and_then(|services| services.terminals().watch(terminal));
                self.ours.borrow_mut().extend(view.map(|view| Followed::new(terminal.clone(), view)));
            }
            services::Event::TerminalEnded { terminal, .. } => {
                self.follow();
                self.ours.borrow_mut().retain(|followed| followed.id != *terminal);
            }
            services::Event::Notice { text, .. } => self.dim(&format!("  note: {text}")),
            _ => {}
        }
    }

    /// These run the terminals that are to be shown.
    pub fn serve(&self, services: &Services) {
        *self.services.borrow_mut() = Some(services.clone());
    }

    /// Shows what is new in our terminals.
    fn follow(&self) {
        let lines: Vec<String> = self.ours.borrow_mut().iter_mut().flat_map(Followed::news).collect();
        for line in &lines {
            self.dim(line);
        }
    }

    /// What is said when all is over.
    pub fn end(&self, outcome: &Outcome) {
        self.follow();
        let (rest, removed) = self.said.take().finish();
        self.out(&rest);
        if self.quiet {
            let mut sanitizer = Sanitizer::new();
            let _ = outcome.said.last(|piece| {
                self.out(&sanitizer.push(piece));
                Ok(())
            });
            self.out(&sanitizer.finish().0);
        }
        if !self.fresh.get() {
            self.out("\n");
        }
        if !removed.is_empty() {
            self.dim(&format!("[made harmless: {removed}]"));
        }
        for file in outcome.changed.iter().filter(|file| !file.told) {
            self.dim(&format!("changed without asking: {}", sanitize::line(&file.path)));
        }
        self.clear();
        let name = self.style.red("tieline exec:");
        let mut text = String::new();
        match (&outcome.failure, outcome.ending) {
            (_, Ending::OutputClosed) => {}
            (Some(failure), _) => text = Self::failure(&name, failure),
            (None, Ending::Denied) => {
                let _ = writeln!(text, "{name} every permission that was asked for was refused");
                let _ = writeln!(text, "  try: --allow-edits, --allow-all, or one --allow RULE per thing");
            }
            (None, Ending::Refused) => {
                let _ = writeln!(text, "{name} the model refused");
            }
            (None, Ending::Limit) => {
                let why = outcome.stop.as_ref().map(ToString::to_string).unwrap_or_default();
                let _ = writeln!(text, "{name} stopped at a limit ({})", sanitize::line(&why));
            }
            (None, _) => {}
        }
        self.outlet.push(To::Err, text);
    }

    fn failure(name: &str, failure: &Failure) -> String {
        let mut text = format!("{name} {} (phase: {})\n", sanitize::line(&failure.message), failure.phase);
        if !failure.logins.is_empty() {
            let _ = writeln!(text, "  ways to log in:");
            for method in &failure.logins {
                let (id, name) = (sanitize::line(method.id()), sanitize::line(method.name()));
                let _ = writeln!(text, "    {id}  {name}");
            }
        }
        if !failure.stderr.is_empty() {
            let _ = writeln!(text, "  the agent's last words on stderr:");
            for line in &failure.stderr {
                let _ = writeln!(text, "    {}", sanitize::line(line));
            }
        }
        if let Some(hint) = &failure.hint {
            let _ = writeln!(text, "  try: {}", sanitize::line(hint));
        }
        text
    }
}

impl Followed {
    fn new(id: String, view: View) -> Self {
        Self { id, view, from: 0, sanitizer: Sanitizer::new(), line: String::new(), shown: 0 }
    }

    /// The lines that are new, safe to show; the last one also without its end once the command is over.
    fn news(&mut self) -> Vec<String> {
        let over = self.view.ended().is_some();
        let output = self.view.output(self.from);
        self.from = output.next;
        self.line += &self.sanitizer.push(&output.text);
        let end = if over || self.line.len() > PIECE {
            self.line.len()
        } else {
            self.line.rfind('\n').map_or(0, |at| at + 1)
        };
        let whole: String = self.line.drain(..end).collect();
        let mut lines = Vec::new();
        for line in whole.lines() {
            self.shown += 1;
            match self.shown.cmp(&LINES) {
                std::cmp::Ordering::Less => lines.push(format!("  {line}")),
                std::cmp::Ordering::Equal => lines.push("  … more output is not shown".to_owned()),
                std::cmp::Ordering::Greater => {}
            }
        }
        lines
    }
}

impl Watch for Text {
    async fn see(&self, event: Event<'_>) -> Result<(), Gone> {
        self.follow();
        match event {
            Event::Agent(agent) => {
                if let (Some(services), Some(name)) = (&*self.services.borrow(), &agent.name) {
                    services.agent_is(&sanitize::line(name));
                }
            }
            Event::Said { kind: MessageKind::Agent, news } if !self.quiet => self.said(news).await?,
            Event::Session(_) | Event::Said { .. } => {}
            Event::Update { update, tool, when } => self.update(update, tool, when),
            Event::Note(note) => self.note(note),
            Event::Warning(warning) => self.dim(&format!("note: {}", sanitize::line(warning))),
        }
        self.outlet.room().await
    }

    fn hear(&self, progress: Progress) {
        self.follow();
        match progress {
            Progress::Phase(_) => {}
            Progress::Waiting(phase, age) if self.style.terminal => {
                if !self.quiet && age >= Duration::from_secs(3) && (self.fresh.get() || !self.style.same_screen) {
                    let line = format!("{} … {} s", phase.waits_for(), age.as_secs());
                    self.outlet.push(To::Err, format!("\r\x1b[K{}", self.style.dim(&line)));
                    self.waiting.set(true);
                }
            }
            Progress::Waiting(phase, age) => {
                let seconds = age.as_secs();
                let due = match seconds {
                    0..10 => 0,
                    10..30 => 10,
                    30..60 => 30,
                    _ => seconds / 60 * 60,
                };
                // A tick may come late, but none of these goes by in silence.
                if due > self.told_age.replace(due) {
                    self.dim(&format!("{} … {seconds} s", phase.waits_for()));
                }
            }
            Progress::Cancelling(ending) => {
                let why = match ending {
                    Ending::TimedOut => "time is up",
                    Ending::Interrupted => "interrupted",
                    _ => "told to end",
                };
                self.dim(&format!("{why}: the agent was asked to stop (Ctrl-C again to end it)"));
            }
            Progress::Ending => self.dim("the agent did not stop: ending its process"),
            Progress::Killing => self.dim("killing the agent"),
        }
    }
}
