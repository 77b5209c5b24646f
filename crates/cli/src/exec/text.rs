//! The output for people: the answer on standard output, everything else on standard error, all of it made safe to show.

use super::arguments::Show;
use super::ask::columns;
use super::lines::{Followed, Lines, Margin};
use super::printer::{Printer, To};
use super::style::Style;
use crate::shared::cut;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;
use tieline_client::agents::join_line;
use tieline_client::live::never_ran;
use tieline_client::permission::{By, NOBODY, Record, Ruling};
use tieline_client::run::{Ending, Event, Failure, Gone, News, Outcome, Progress, SessionFacts, Watch, When};
use tieline_client::sanitize::{self, Sanitizer};
use tieline_client::services::{self, Services};
use tieline_host::roots::shown;
use tieline_schema::{
    MessageKind, Plan, PlanStatus, ToolCallContent, ToolCallItem, ToolCallStatus, Update, from_base64,
};

/// Text is written in pieces of this size.
const PIECE: usize = 64 * 1024;
/// A diff is shown up to so many lines.
const LINES: usize = 200;

/// Prints for people.
pub struct Text {
    printer: Printer,
    style: Style,
    /// Only the last message, at the end.
    quiet: bool,
    /// Words of the agent.
    said: RefCell<Sanitizer>,
    /// Standard output is at the beginning of a line.
    fresh: Cell<bool>,
    /// Something was printed on standard output.
    any: Cell<bool>,
    /// It was said that text came late.
    late: Cell<bool>,
    /// Keeps the agent's words apart from ours where both are on one screen.
    margin: RefCell<Margin>,
    /// The last age of a wait, in seconds, that was told of without a terminal.
    told_age: Cell<u64>,
    /// How much of each tool call was shown.
    tools: RefCell<HashMap<String, Shown>>,
    /// Terminals that the agent shows.
    terminals: RefCell<HashMap<String, Lines>>,
    /// Terminals that we run for the agent.
    ours: RefCell<Vec<Followed>>,
    services: RefCell<Option<Services>>,
    plan: RefCell<String>,
    /// What is shown beside the answer.
    shown: Vec<Show>,
    /// A thought, and its line that is not whole yet.
    thought: RefCell<(Sanitizer, String)>,
}

#[derive(Default)]
struct Shown {
    title: bool,
    end: bool,
    /// It was refused here, so it did not run.
    refused: bool,
}

impl Text {
    /// Prints as it comes, or with `quiet` only the last message.
    pub fn new(printer: Printer, style: Style, quiet: bool, shown: Vec<Show>) -> Self {
        Self {
            printer,
            style,
            quiet,
            said: RefCell::default(),
            fresh: Cell::new(true),
            any: Cell::new(false),
            late: Cell::new(false),
            margin: RefCell::default(),
            told_age: Cell::new(0),
            tools: RefCell::default(),
            terminals: RefCell::default(),
            ours: RefCell::default(),
            services: RefCell::default(),
            plan: RefCell::default(),
            shown,
            thought: RefCell::default(),
        }
    }

    fn shows(&self, what: Show) -> bool {
        self.shown.contains(&what)
    }

    /// Shows a thought line by line.
    fn thinks(&self, news: &News<'_>) {
        let (text, fresh) = match news {
            News::More(text) => (text, false),
            News::Fresh(text) | News::Instead(text) => (text, true),
            News::Nothing => return,
        };
        if fresh {
            self.thought_ends();
        }
        let mut lines = Vec::new();
        {
            let mut thought = self.thought.borrow_mut();
            let safe = thought.0.push(text);
            thought.1.push_str(&safe);
            while let Some(end) = thought.1.find('\n').or((thought.1.len() > PIECE).then_some(PIECE)) {
                let end = thought.1.floor_char_boundary(end);
                let line: String = thought.1.drain(..end).collect();
                if thought.1.starts_with('\n') {
                    thought.1.remove(0);
                }
                lines.push(format!("~ {line}"));
            }
        }
        self.indented(&lines);
    }

    /// Shows what is left of a thought.
    fn thought_ends(&self) {
        let (sanitizer, mut line) = self.thought.take();
        line += &sanitizer.finish().0;
        let lines = line.lines().filter(|line| !line.is_empty()).map(|line| format!("~ {line}"));
        self.indented(&lines.collect::<Vec<_>>());
    }

    /// A question leaves the cursor at the beginning of a line.
    fn look(&self) {
        if self.printer.was_moved() && self.style.same_screen {
            self.fresh.set(true);
        }
    }

    fn out(&self, text: &str) {
        if !text.is_empty() {
            self.fresh.set(text.ends_with('\n'));
            self.any.set(true);
            self.printer.push(To::Out, text);
        }
    }

    /// Prints words of the agent, which are safe already. Nothing is added to them where they are not on our screen.
    fn words(&self, text: &str) {
        if !self.style.same_screen {
            return self.out(text);
        }
        let mut margin = self.margin.borrow_mut();
        if self.fresh.get() {
            margin.fresh();
        }
        self.out(&margin.push(text));
    }

    /// Prints lines on standard error. They are safe already.
    fn err(&self, lines: &str) {
        if self.quiet || lines.is_empty() {
            return;
        }
        if self.style.same_screen && !self.fresh.replace(true) {
            self.printer.push(To::Out, "\n");
        }
        self.printer.push(To::Err, lines);
    }

    /// A line of ours; nobody else's line begins like this.
    fn dim(&self, line: &str) {
        self.err(&format!("{}\n", self.style.dim(&format!("· {line}"))));
    }

    /// Lines of somebody else, indented.
    fn indented(&self, lines: &[String]) {
        for line in lines {
            self.err(&format!("{}\n", self.style.dim(line)));
        }
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
            self.words(&safe);
            rest = after;
            self.printer.room().await?;
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
            (Update::Usage(usage), _) if self.shows(Show::Usage) => {
                let cost = usage.cost.set().map(|cost| format!(", {} {}", cost.amount, sanitize::line(&cost.currency)));
                let cost = cost.unwrap_or_default();
                // An agent that does not know the size says 0.
                let size = if usage.size > 0 { format!(" of {}", usage.size) } else { String::new() };
                self.dim(&format!("used: {}{size} tokens{cost}{late}", usage.used));
            }
            (Update::Chunk(chunk), _) if chunk.kind == MessageKind::Agent => {
                self.dim(&format!("[{} content is not shown]{late}", sanitize::line(chunk.content.tag())));
            }
            (Update::Message(message), _) if message.kind == MessageKind::Agent => {
                let blocks = message.content.set().map(|blocks| &blocks[..]).unwrap_or_default();
                for block in blocks.iter().filter(|block| block.as_text().is_none()) {
                    self.dim(&format!("[{} content is not shown]{late}", sanitize::line(block.tag())));
                }
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
            (Update::Terminal(_) | Update::TerminalOutput(_), _) if !self.shows(Show::Tools) => {}
            (Update::Terminal(terminal), _) => {
                if let Some(command) = terminal.command.set() {
                    self.dim(&format!("$ {}", sanitize::exact_line(command)));
                }
                // Those who tell all of it again have told it in pieces before.
                let told = self.terminals.borrow().contains_key(&terminal.terminal_id);
                if let Some(output) = terminal.output.set().filter(|_| !told) {
                    self.output(&terminal.terminal_id, &output.data);
                }
            }
            (Update::TerminalOutput(chunk), _) => self.output(&chunk.terminal_id, &chunk.data),
            (Update::Other(unknown), _) => {
                self.dim(&format!("[an update of the unknown kind `{}`]{late}", sanitize::line(&unknown.tag)));
            }
            _ => {}
        }
    }

    /// Output of one of the agent's own terminals.
    fn output(&self, terminal: &str, data: &str) {
        let bytes = from_base64(data).unwrap_or_default();
        let lines = self.terminals.borrow_mut().entry(terminal.to_owned()).or_default().push(&bytes);
        self.indented(&lines);
    }

    fn plan(&self, entries: &[tieline_schema::PlanEntry]) {
        if !self.shows(Show::Plan) {
            return;
        }
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
            self.err(&self.style.dim(&format!("· plan\n{text}")));
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
            self.tell_tool(&format!("{} {title}{late}", sanitize::line(tool.kind.as_str())));
        }
        if !tool.status.is_final() || std::mem::replace(&mut shown.end, true) {
            return;
        }
        match tool.status {
            ToolCallStatus::Failed if self.shows(Show::Tools) => {
                let how = if shown.refused || never_ran(tool) { "not done" } else { "failed" };
                self.err(&format!("{}\n", self.style.red(&format!("✗ {title}: {how}"))));
            }
            ToolCallStatus::Cancelled if self.shows(Show::Tools) => {
                self.err(&format!("{}\n", self.style.dim(&format!("✗ {title}: cancelled"))));
            }
            _ => {}
        }
        for content in &tool.content {
            match content {
                ToolCallContent::Diff(_) if !self.shows(Show::Diffs) => {}
                ToolCallContent::Diff(diff) => {
                    let patch = diff.patch().map(|patch| patch.text).unwrap_or_default();
                    if !self.printer.was_shown(&patch) {
                        self.err(&self.style.diff(&patch, LINES));
                    }
                }
                ToolCallContent::Other(unknown) => {
                    self.tell_tool(&format!("[{} content is not shown]", sanitize::line(&unknown.tag)));
                }
                ToolCallContent::Content(_) | ToolCallContent::Terminal(_) if tool.status != ToolCallStatus::Failed => {
                }
                content => {
                    let text = sanitize::text(content.as_text().unwrap_or_default());
                    if self.shows(Show::Tools) {
                        self.indented(&text.lines().take(20).map(|line| format!("  {line}")).collect::<Vec<_>>());
                    }
                }
            }
        }
    }

    /// A line about a tool call.
    fn tell_tool(&self, line: &str) {
        if self.shows(Show::Tools) {
            self.dim(line);
        }
    }

    fn decided(&self, record: &Record) {
        if let (Ruling::Refused | Ruling::Cancelled, Some(call)) = (record.ruling, &record.call) {
            self.tools.borrow_mut().entry(call.clone()).or_default().refused = true;
        }
        let quiet = record.method == "fs/read_text_file" || matches!(record.by, By::Before(_));
        if record.ruling == Ruling::Allowed && quiet {
            return;
        }
        let what = match (&record.facts[..], &*record.title) {
            ([], "") => record.method.to_owned(),
            ([], title) => title.to_owned(),
            (facts, _) => facts.join("; "),
        };
        self.dim(&format!("{}: {what} ({})", record.ruling.word(), why(record)));
    }

    fn note(&self, note: &services::Event) {
        match note {
            services::Event::Decided(record) => self.decided(record),
            services::Event::Wrote { path, .. } => {
                self.dim(&format!("wrote {}", shown(path)));
            }
            services::Event::TerminalStarted { line, terminal, .. } => {
                self.dim(&format!("$ {}", sanitize::exact_line(line)));
                let view = self.services.borrow().as_ref().and_then(|services| services.terminals().watch(terminal));
                self.ours.borrow_mut().extend(view.map(|view| Followed::new(terminal.clone(), view)));
            }
            services::Event::TerminalEnded { terminal, .. } => {
                self.follow();
                self.ours.borrow_mut().retain(|followed| followed.id != *terminal);
            }
            services::Event::Notice { text, .. } => self.dim(&format!("note: {text}")),
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
        self.indented(&lines);
    }

    /// What is said when all is over.
    pub fn end(&self, outcome: &Outcome) {
        self.look();
        self.follow();
        self.thought_ends();
        let rest: Vec<String> = self.terminals.borrow_mut().values_mut().flat_map(Lines::rest).collect();
        self.indented(&rest);
        let (rest, removed) = self.said.take().finish();
        self.words(&rest);
        if let Some(answer) = outcome.answer.as_ref().filter(|_| self.quiet) {
            // For programs: without a fence around it.
            self.out(&sanitize::json(&answer.to_string()));
        } else if self.quiet {
            let mut sanitizer = Sanitizer::new();
            let _ = outcome.said.last(|piece| {
                self.words(&sanitizer.push(piece));
                Ok(())
            });
            self.words(&sanitizer.finish().0);
        }
        if !self.fresh.get() {
            self.out("\n");
        }
        if !removed.is_empty() {
            self.dim(&format!("made harmless: {removed}"));
        }
        for file in outcome.changed.iter().filter(|file| !file.told) {
            self.dim(&format!("changed without asking: {}", shown(file.path.as_ref())));
        }
        self.printer.no_status();
        for remark in &outcome.remarks {
            self.printer.push(To::Err, format!("{}\n", self.style.dim(&format!("· note: {}", sanitize::line(remark)))));
        }
        let name = self.style.red("tieline exec:");
        let mut text = String::new();
        match (&outcome.failure, outcome.ending) {
            (_, Ending::OutputClosed) => {}
            (Some(failure), _) => text = Self::failure(&name, failure),
            (None, Ending::Refused) => {
                let _ = writeln!(text, "{name} the agent refused");
            }
            (None, Ending::Limit) => {
                let why = outcome.stop.as_ref().map(ToString::to_string).unwrap_or_default();
                let _ = writeln!(text, "{name} stopped at a limit ({})", sanitize::line(&why));
            }
            (None, _) => {}
        }
        self.printer.push(To::Err, text);
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

/// Why something was decided so, and what to type to have it otherwise.
fn why(record: &Record) -> String {
    let mut why = match &record.by {
        By::Decider(name) if name == NOBODY => {
            let edits = |rule: &String| {
                let path = ["write ", "delete "].iter().find_map(|verb| rule.strip_prefix(verb));
                path.is_some_and(|path| !path.starts_with('/'))
            };
            let flags: Vec<String> =
                record.wanted.iter().map(|rule| format!("--allow {}", join_line(&[rule]))).collect();
            let way = match &flags[..] {
                [] => "--allow-all".to_owned(),
                flags if record.wanted.iter().all(edits) => format!("--allow-edits or {}", flags.join(" ")),
                flags => flags.join(" "),
            };
            format!("nobody could be asked; to allow it: {way}")
        }
        By::Decider(_) if record.kept.is_some() => {
            let kept = record.kept.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("your answer: {}; {kept}", sanitize::exact_line(&record.learned.join(", ")))
        }
        By::Decider(_) => "your answer".to_owned(),
        by => sanitize::exact_line(&by.to_string()),
    };
    if let Some(hint) = &record.hint {
        let _ = write!(why, "; {hint}");
    }
    why
}

impl Watch for Text {
    async fn see(&self, event: Event<'_>) -> Result<(), Gone> {
        self.look();
        self.follow();
        if !matches!(event, Event::Said { kind: MessageKind::Thought, .. }) {
            self.thought_ends();
        }
        match event {
            Event::Agent(agent) => {
                if let (Some(services), Some(name)) = (&*self.services.borrow(), &agent.name) {
                    // Its name stands in headings, which are one line.
                    services.agent_is(&cut(&sanitize::line(name), 30));
                }
            }
            Event::Said { kind: MessageKind::Agent, news, when } if !self.quiet => {
                if when == When::Late && news != News::Nothing && !self.late.replace(true) {
                    self.dim("the agent goes on after the end of its turn (late):");
                }
                self.said(news).await?;
            }
            Event::Said { kind: MessageKind::Thought, news, .. } if self.shows(Show::Thoughts) => self.thinks(&news),
            // The others hear of it as a warning.
            Event::Session(SessionFacts { anew: Some(anew), .. }) if self.quiet => {
                self.printer.push(To::Err, format!("· note: {}\n", sanitize::line(anew)));
            }
            Event::Started(_) | Event::Session(_) | Event::Said { .. } => {}
            Event::Update { update, tool, when } => self.update(update, tool, when),
            Event::Note(note) => self.note(note),
            Event::Warning(warning) => self.dim(&format!("note: {}", sanitize::line(warning))),
        }
        self.printer.room().await
    }

    fn hear(&self, progress: Progress) {
        self.look();
        self.follow();
        match progress {
            Progress::Phase(_) => {}
            Progress::Waiting(phase, age) if self.style.terminal => {
                if !self.quiet && age >= Duration::from_secs(3) {
                    let line = format!("· {} … {} s", phase.waits_for(), age.as_secs());
                    // A line that wraps could not be taken away again.
                    let width = columns().saturating_sub(1);
                    let line: String = line.chars().take(width).collect();
                    self.printer.status(&self.style.dim(&line), self.style.same_screen && !self.fresh.get());
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
                    Ending::Budget => "the budget is used up",
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
