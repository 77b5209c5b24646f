//! The output for people: the answer on standard output, everything else on standard error, all of it made safe to show.

mod told;

use super::arguments::Show;
use super::ask::columns;
use super::lines::{Followed, Lines, Rows, rows};
use super::printer::{Printer, To};
use super::style::Style;
use crate::shared::cut;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use tieline_client::journal::HowAsked;
use tieline_client::live::{Ending, Event, Failure, Gone, News, Phase, SessionFacts, When};
use tieline_client::run::{Outcome, Progress, Watch};
use tieline_client::sanitize::{self, Sanitizer};
use tieline_client::services::Services;
use tieline_host::roots::shown;
use tieline_schema::{AuthMethod, MessageKind};
use told::Shown;

/// Fewer lines that an agent repeats of a terminal are not shown again.
const MAX_REPEATED_LINES: usize = 199;
/// Text is written in pieces of this size, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// So many changed files are listed, of each kind.
const MAX_LISTED_FILES: usize = 50;

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
    rows: RefCell<Rows>,
    /// The last age of a wait, in seconds, that was told of without a terminal.
    told_age: Cell<u64>,
    /// How much of each tool call was shown.
    tools: RefCell<HashMap<String, Shown>>,
    /// A tool call failed.
    failed: Cell<bool>,
    /// Terminals that the agent shows.
    terminals: RefCell<HashMap<String, Lines>>,
    /// The last lines of terminals that are on the same screen as the agent's words.
    on_screen: RefCell<VecDeque<String>>,
    /// Terminals that we run for the agent.
    ours: RefCell<Vec<Followed>>,
    services: RefCell<Option<Services>>,
    plan: RefCell<String>,
    /// What is shown beside the answer.
    shown: Vec<Show>,
    /// The thought that goes on.
    thought: RefCell<Lines>,
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
            rows: RefCell::new(Rows::new(if columns() < usize::MAX { "  " } else { "" }, usize::MAX)),
            told_age: Cell::new(0),
            tools: RefCell::default(),
            failed: Cell::default(),
            terminals: RefCell::default(),
            on_screen: RefCell::default(),
            ours: RefCell::default(),
            services: RefCell::default(),
            plan: RefCell::default(),
            shown,
            thought: RefCell::new(Lines::thought()),
        }
    }

    fn shows(&self, what: Show) -> bool {
        self.shown.contains(&what)
    }

    /// Shows a thought line by line.
    fn thinks(&self, news: &News) {
        let (text, fresh) = match news {
            News::More(text) => (text, false),
            News::Fresh(text) | News::Instead(text) => (text, true),
            News::Nothing => return,
        };
        if fresh {
            self.thought_ends();
        }
        let lines = self.thought.borrow_mut().push(text.as_bytes());
        self.indented("~ ", &lines);
    }

    /// Shows what is left of a thought.
    fn thought_ends(&self) {
        let lines = self.thought.replace(Lines::thought()).rest();
        self.indented("~ ", &lines);
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
        let mut rows = self.rows.borrow_mut();
        if self.fresh.get() {
            rows.fresh();
        }
        self.out(&rows.push(text, columns()));
        if !self.style.terminal {
            rows.settle();
        }
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
        self.err(&self.style.dim(&rows("· ", line, columns())));
    }

    /// Lines of somebody else, each row with this before it.
    fn indented(&self, begin: &'static str, lines: &[String]) {
        let columns = columns();
        for line in lines {
            let mut line = Rows::new(begin, columns).push(line, columns);
            line.push('\n');
            self.err(&self.style.dim(&line));
        }
    }

    async fn said(&self, news: News) -> Result<(), Gone> {
        let text = match news {
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
        let text = self.without_repeated(text);
        let mut rest = &*text;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            let safe = self.said.borrow_mut().push(piece);
            self.words(&safe);
            rest = after;
            self.printer.room().await?;
        }
        Ok(())
    }

    /// Shows lines of a terminal.
    fn terminal_lines(&self, lines: &[String]) {
        self.indented("  ", lines);
        if self.style.same_screen && !self.quiet {
            let mut last = self.on_screen.borrow_mut();
            last.extend(lines.iter().cloned());
            let surplus = last.len().saturating_sub(MAX_REPEATED_LINES);
            last.drain(..surplus);
        }
    }

    /// What the agent says, without a block that only repeats what a terminal has just shown on the same screen.
    fn without_repeated(&self, text: String) -> String {
        let shown = self.on_screen.take();
        let Some((before, rest)) = text.split_once("\n\n```\n").filter(|_| !shown.is_empty()) else { return text };
        let Some((block, after)) = rest.split_once("\n```") else { return text };
        let repeats = block.lines().count() <= shown.len()
            && after.trim().is_empty()
            && block.lines().rev().zip(shown.iter().rev()).all(|(said, shown)| said == shown);
        if repeats { format!("{before}\n") } else { text }
    }

    /// These run the terminals that are to be shown.
    pub fn serve(&self, services: &Services) {
        *self.services.borrow_mut() = Some(services.clone());
    }

    /// Shows what is new in our terminals.
    fn follow(&self) {
        let lines: Vec<String> = self.ours.borrow_mut().iter_mut().flat_map(Followed::news).collect();
        self.terminal_lines(&lines);
    }

    /// A line of ours.
    pub fn say(&self, line: &str) {
        self.look();
        self.dim(line);
    }

    /// Rings the bell.
    pub fn ring(&self) {
        self.printer.push(To::Err, "\u{7}");
    }

    /// A turn is over: what was held back is shown, and standard output ends its line.
    pub fn end_turn(&self) {
        self.look();
        self.gather();
        let (rest, removed) = self.said.take().finish();
        self.words(&rest);
        if !self.fresh.get() {
            self.out("\n");
        }
        if !removed.is_empty() {
            self.dim(&format!("made harmless: {removed}"));
        }
        self.any.set(false);
        self.late.set(false);
    }

    /// Shows what terminals and thoughts still have.
    fn gather(&self) {
        self.follow();
        self.thought_ends();
        let rest: Vec<String> = self.terminals.borrow_mut().values_mut().flat_map(Lines::rest).collect();
        self.terminal_lines(&rest);
    }

    /// What is said when all is over.
    pub fn end(&self, outcome: &Outcome) {
        self.look();
        self.gather();
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
        for (asked, words) in [
            (HowAsked::Command, "while a command that you allowed was running"),
            (HowAsked::Waiting, "while a question stood, by you or by the agent"),
            (HowAsked::Beside, "without asking, by the agent or by another run that was at work here"),
            (HowAsked::Never, "without asking"),
        ] {
            let mut files = outcome.changed.iter().filter(|file| file.asked == asked);
            // Somebody was asked, so that "without asking" has to say what is meant.
            let was_asked = asked == HowAsked::Never && outcome.permissions.allowed + outcome.permissions.denied > 0;
            let why = if was_asked { " (no question that was allowed names it)" } else { "" };
            for file in files.by_ref().take(MAX_LISTED_FILES) {
                self.dim(&format!("changed {words}: {}{why}", shown(file.path.as_ref())));
            }
            match files.count() {
                0 => {}
                more => self.dim(&format!("changed {words}: {more} more; `tieline diff` shows all")),
            }
        }
        self.printer.no_status();
        for remark in &outcome.remarks {
            let note = rows("· note: ", &sanitize::line(remark), columns());
            self.printer.push(To::Err, self.style.dim(&note));
        }
        let failed = |why: &str| {
            let line = rows("tieline exec: ", why, columns());
            line.replacen("tieline exec:", &self.style.red("tieline exec:"), 1)
        };
        let text = match (&outcome.failure, outcome.ending) {
            (_, Ending::OutputClosed) => String::new(),
            (Some(failure), _) => {
                // Where it happened helps with what nobody meant; behind a line to type it would only spoil that.
                let by_itself = matches!(failure.ending, Ending::Failed | Ending::NotStarted | Ending::Violation);
                let when = match failure.phase {
                    Phase::Find | Phase::Turn => String::new(),
                    _ if !by_itself || failure.message.contains("type: ") => String::new(),
                    phase => format!(", while {}", phase.waits_for()),
                };
                failed(&(sanitize::line(&failure.message) + &when)) + &Self::failure(failure)
            }
            (None, Ending::Refused) if self.failed.get() => failed("not all of it could be done"),
            (None, Ending::Refused) => failed("the agent refused"),
            (None, Ending::Limit) => {
                let why = outcome.stop.as_ref().map(ToString::to_string).unwrap_or_default();
                failed(&format!("stopped at a limit ({})", sanitize::line(&why)))
            }
            (None, _) => String::new(),
        };
        self.printer.push(To::Err, text);
    }

    /// What helps to understand a failure.
    fn failure(failure: &Failure) -> String {
        let columns = columns();
        let listed = |heading: &str, lines: Vec<String>| {
            let heading = if lines.is_empty() { String::new() } else { format!("  {heading}:\n") };
            lines.iter().fold(heading, |text, line| text + &rows("    ", line, columns))
        };
        let login = |method: &AuthMethod| format!("{}  {}", sanitize::line(method.id()), sanitize::line(method.name()));
        // Our own agent has said what to type.
        let ways = failure.logins.iter().filter(|_| !failure.message.contains("tieline agent login"));
        let logins = listed("ways to log in", ways.map(login).collect());
        let stderr = failure.stderr.iter().map(|line| sanitize::line(line)).collect();
        let stderr = listed("the agent's last words on stderr", stderr);
        let hint = failure.hint.iter().map(|hint| rows("  try: ", &sanitize::line(hint), columns));
        format!("{logins}{stderr}{}", hint.collect::<String>())
    }
}

impl Watch for Text {
    async fn see(&self, event: Event) -> Result<(), Gone> {
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
            Event::Said { kind: MessageKind::Agent, news, when, .. } if !self.quiet => {
                if when == When::Late && news != News::Nothing && !self.late.replace(true) {
                    self.dim("the agent goes on after the end of its turn (late):");
                }
                self.said(news).await?;
            }
            Event::Said { kind: MessageKind::Thought, news, .. } if self.shows(Show::Thoughts) => self.thinks(&news),
            // The others hear of it as a warning.
            Event::Session(SessionFacts { anew: Some(anew), .. }) if self.quiet => {
                self.printer.push(To::Err, format!("· note: {}\n", sanitize::line(&anew)));
            }
            // Whoever goes on by a name may be anywhere.
            Event::Session(SessionFacts { resumed: true, cwd, .. })
                if !self.quiet && std::env::current_dir().is_ok_and(|here| here != cwd) =>
            {
                self.dim(&format!("works in {}", sanitize::line(&cwd.to_string_lossy())));
            }
            Event::GoesOn(chosen) if !self.quiet => self.dim(&format!("goes on: {}", sanitize::line(&chosen))),
            Event::Update { update, tool, when } => self.update(&update, tool.as_deref(), when),
            Event::Note(note) => self.note(&note),
            Event::Warning(warning) => self.dim(&format!("note: {}", sanitize::line(&warning))),
            _ => {}
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
                let key = if ending == Ending::Interrupted { "Ctrl-C again" } else { "Ctrl-C" };
                self.dim(&format!("{why}: the agent was asked to stop ({key} to end it)"));
            }
            Progress::Ending => self.dim("ending the agent's process"),
            Progress::Killing => self.dim("killing the agent"),
        }
    }
}
