//! A person at the terminal: permission, forms, pages and logins are asked line by line, and nothing can pose as a question.
//!
//! Questions are read from the terminal itself, so that standard input is free for the prompt. What was typed before a
//! question stood there is thrown away, and a yes counts only a moment after it appeared. Ctrl-D is a no; Ctrl-C ends the run,
//! and with it the question (its future is dropped).

use super::lines::rows;
use super::printer::{Held, Printer};
use super::style::Style;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_client::elicit::{self, Asker, Consent, Field, Filled, Form, Page};
use tieline_client::login::{Chooser, Method};
use tieline_client::permission::{Answer, Decider, Question};
use tieline_client::{Future, sanitize};
use tieline_host::run::Size;
use tieline_schema::{ElicitValue, PermissionOptionKind, ToolCallContent};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};

/// A yes that comes sooner than this was not meant for the question.
const DEAD: Duration = Duration::from_millis(400);
/// Nobody types longer lines.
const LONGEST: usize = 64 * 1024;
/// So many lines of the agent's own words are shown with a question.
const WORDS: usize = 30;
/// So many bytes of what a tool is given are shown.
const INPUT: usize = 4096;
/// A diff is shown up to so many lines before the question.
const LINES: usize = 120;

/// How large the terminal is.
pub fn terminal_size() -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()))
        .ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some(Size { columns: size.ws_col, rows: size.ws_row })
}

/// So many columns it has.
pub fn columns() -> usize {
    terminal_size().map_or(80, |size| usize::from(size.columns))
}

/// Somebody at a terminal.
pub struct Person {
    printer: Printer,
    style: Style,
    /// Only read while a question stands: what is typed otherwise belongs to others.
    terminal: Receiver,
}

impl Person {
    /// The person who sees our standard error, if there is one.
    pub fn find(printer: Printer, style: Style) -> Option<Arc<Self>> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let terminal = std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty").ok()?;
        // Not checked to be a pipe, because a terminal is as good.
        Some(Arc::new(Self { printer, style, terminal: Receiver::from_file_unchecked(terminal).ok()? }))
    }

    /// The next line that is typed.
    async fn line(&self, held: &mut Held, short: &str) -> Typed {
        let mut typed = Vec::new();
        // Who comes back to a run that was stopped (Ctrl-Z) wants to know what it waits for.
        let mut back = signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw())).ok();
        loop {
            let readable = tokio::select! {
                readable = self.terminal.readable() => readable,
                Some(()) = async { back.as_mut()?.recv().await } => {
                    typed.clear();
                    held.say(short);
                    continue;
                }
            };
            if readable.is_err() {
                return Typed::Gone;
            }
            let mut chunk = [0; 1024];
            match self.terminal.try_read(&mut chunk) {
                Ok(0) => return Typed::End,
                Ok(size) => typed.extend_from_slice(&chunk[..size]),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(_) => return Typed::Gone,
            }
            if let Some(end) = typed.iter().position(|byte| *byte == b'\n') {
                return Typed::Line(Instant::now(), String::from_utf8_lossy(&typed[..end]).into_owned());
            }
            if typed.len() > LONGEST {
                return Typed::Gone;
            }
        }
    }

    /// What was typed before a question stands there belongs to something else.
    fn forget_typed(&self) {
        let _ = rustix::termios::tcflush(&self.terminal, rustix::termios::QueueSelector::IFlush);
    }

    /// Asks until an answer is understood: first with everything, then only with the last line, `short`. What is read says
    /// whether it agrees to something, or why it is no answer.
    async fn ask<T>(
        &self,
        held: &mut Held,
        text: &str,
        short: &str,
        read: impl Fn(&str) -> Result<(T, bool), String>,
    ) -> Result<T, NoAnswer> {
        self.forget_typed();
        held.say(&format!("{text}{short}"));
        let since = Instant::now();
        loop {
            let (at, line) = match self.line(held, short).await {
                Typed::Line(at, line) => (at, line),
                Typed::End => return Err(NoAnswer::End),
                Typed::Gone => return Err(NoAnswer::Gone),
            };
            let why = match read(line.trim()) {
                Ok((_, true)) if at.duration_since(since) < DEAD => {
                    "that was too quick to be meant for this question".into()
                }
                Ok((answer, _)) => {
                    held.answered();
                    return Ok(answer);
                }
                Err(why) => why,
            };
            // The rest of something that was pasted is no second try.
            self.forget_typed();
            held.say(&format!("({why})\n{short}"));
        }
    }

    fn question(&self, question: &Question) -> String {
        let style = self.style;
        let mut text = format!("\n{}\n", style.bold("── The agent asks for permission ──"));
        text += &quoted(&sanitize::exact(&question.title));
        if let Some(more) = &question.description {
            text += &quoted(&sanitize::exact(more));
        }
        for fact in &question.facts {
            text += &rows("would: ", fact, columns());
        }
        if question.facts.is_empty() {
            text += "The agent does not say what exactly it would do.\n";
        }
        if let Some(input) = input(question) {
            text += &rows("with: ", &input, columns());
        }
        text += &self.diffs(question, LINES);
        let _ = writeln!(text, "Asked because of {}.", sanitize::exact_line(&question.because.to_string()));
        if let Some(hint) = &question.hint {
            text += &rows("Mind: ", hint, columns());
        }
        for (at, option) in question.options.iter().enumerate() {
            let kind = option.kind.as_str().replace('_', " ");
            let option = format!("{} ({})", sanitize::exact_line(&option.name), sanitize::exact_line(&kind));
            text += &rows(&format!("  {} ", at + 1), &option, columns());
        }
        if !question.always.is_empty() {
            let rules: Vec<String> = question.always.iter().map(|rule| sanitize::exact_line(rule)).collect();
            text += &rows("always: ", &format!("{}; until this run ends", rules.join(", ")), columns());
        }
        if keeps(question) {
            text += "always: the agent is told so, too, and may keep to it for longer\n";
        }
        text
    }

    /// The diffs of a question, up to so many lines each.
    fn diffs(&self, question: &Question, lines: usize) -> String {
        let contents = question.call.iter().filter_map(|call| call.content.set()).flat_map(|items| items.iter());
        let diffs = contents.filter_map(|content| match content {
            ToolCallContent::Diff(diff) => {
                Some(self.style.diff(&diff.patch().map(|patch| patch.text).unwrap_or_default(), lines))
            }
            _ => None,
        });
        diffs.collect()
    }
}

/// What came from the terminal.
enum Typed {
    /// A line, and when.
    Line(Instant, String),
    /// Ctrl-D.
    End,
    /// The terminal is gone.
    Gone,
}

/// Why there is no answer.
enum NoAnswer {
    /// The person pressed Ctrl-D.
    End,
    /// The terminal is gone.
    Gone,
}

/// What a person wants of a question.
#[derive(Clone)]
enum Wish {
    Answer(Answer),
    /// To see all of the diff.
    More,
}

/// Whether the agent offers to remember a yes.
fn keeps(question: &Question) -> bool {
    question.options.iter().any(|option| option.kind == PermissionOptionKind::AllowAlways)
}

/// How a question can be answered, in the line that is typed in.
fn keys(question: &Question, more: bool) -> String {
    let always = if question.always.is_empty() && !keeps(question) { "" } else { ", a always" };
    let numbers = if question.options.is_empty() { "" } else { ", or a number" };
    let more = if more { ", d the whole diff" } else { "" };
    format!("» y once{always}, n no{more}{numbers}: ")
}

fn wish(question: &Question, more: bool, line: &str) -> Result<(Wish, bool), String> {
    let lasting = !question.always.is_empty() || keeps(question);
    let answer = match line.to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Allow,
        "a" | "always" if lasting => Answer::AllowAlways,
        "n" | "no" => Answer::Refuse,
        "never" if lasting => Answer::RefuseAlways,
        "d" if more => return Ok((Wish::More, false)),
        number => {
            let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
            match at.and_then(|at| question.options.get(at)) {
                Some(option) => {
                    return Ok((Wish::Answer(Answer::Option(option.option_id.clone())), option.kind.allows()));
                }
                None => return Err("that is none of the answers".to_owned()),
            }
        }
    };
    let yes = matches!(answer, Answer::Allow | Answer::AllowAlways);
    Ok((Wish::Answer(answer), yes))
}

/// The agent's words, made safe before, each line marked as such, so that they can't be taken for ours.
fn quoted(safe: &str) -> String {
    let mut all = safe.lines().take(WORDS).fold(String::new(), |all, line| all + &rows("│ ", line, columns()));
    let more = safe.lines().count().saturating_sub(WORDS);
    if more > 0 {
        let _ = writeln!(all, "… {more} more lines of the agent's words");
    }
    all
}

/// What the tool is given, where the facts don't tell all of it.
fn input(question: &Question) -> Option<String> {
    let told =
        |fact: &String| ["run ", "read ", "write ", "delete ", "move "].iter().any(|verb| fact.starts_with(verb));
    let input = question.call.as_ref()?.raw_input.set()?.get();
    if matches!(input, "null" | "{}") || (!question.facts.is_empty() && question.facts.iter().all(told)) {
        return None;
    }
    let shown = &input[..input.floor_char_boundary(INPUT)];
    let more = input.len() - shown.len();
    let more = if more > 0 { format!("… [{more} more bytes]") } else { String::new() };
    Some(sanitize::exact_line(shown) + &more)
}

impl Decider for Person {
    fn decide<'a>(&'a self, question: &'a Question) -> Future<'a, Answer> {
        Box::pin(async move {
            let mut held = self.printer.hold();
            let mut text = self.question(question);
            // Whoever decides on a change can see all of it.
            let more = self.diffs(question, usize::MAX).len() > self.diffs(question, LINES).len();
            let keys = keys(question, more);
            loop {
                match self.ask(&mut held, &text, &keys, |line| wish(question, more, line)).await {
                    Ok(Wish::Answer(answer)) => return answer,
                    Ok(Wish::More) => text = self.diffs(question, usize::MAX),
                    Err(NoAnswer::End) => {
                        held.say("\n· no answer (Ctrl-D): refused\n");
                        return Answer::Refuse;
                    }
                    Err(NoAnswer::Gone) => return Answer::Nobody,
                }
            }
        })
    }

    fn name(&self) -> &'static str {
        "terminal"
    }
}

impl Chooser for Person {
    fn choose<'a>(&'a self, agent: &'a str, methods: &'a [Method]) -> Future<'a, Option<usize>> {
        Box::pin(async move {
            let mut text = format!("\n{}\n", self.style.bold(&format!("── {agent} wants you to log in ──")));
            for (at, method) in methods.iter().enumerate() {
                let _ = writeln!(text, "  {} {method}", at + 1);
            }
            let mut held = self.printer.hold();
            let answer = self.ask(&mut held, &text, "» a number, or n for not now: ", |line| {
                if is_no(line) {
                    return Ok((None, false));
                }
                let at = line.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
                let at = at.filter(|at| *at < methods.len());
                at.map(|at| (Some(at), true)).ok_or_else(|| "that is none of the numbers".to_owned())
            });
            match answer.await {
                Ok(chosen) => chosen,
                Err(_) => {
                    held.say("\n· no login was chosen\n");
                    None
                }
            }
        })
    }
}

/// What a person did with a field.
enum Entered {
    Value(Option<ElicitValue>),
    Left(Filled),
}

impl Person {
    /// One field of a form.
    async fn field(
        &self,
        held: &mut Held,
        intro: &str,
        field: &Field,
        now: Option<&ElicitValue>,
    ) -> Result<Entered, NoAnswer> {
        let mut text = intro.to_owned();
        for (at, (_, label)) in field.choices.iter().enumerate() {
            let _ = writeln!(text, "  {} {label}", at + 1);
        }
        if let Some(help) = &field.help {
            let _ = writeln!(text, "│ {help}");
        }
        let must = if field.required { "" } else { " (may stay empty)" };
        let usual = now.map(|value| format!(" [{}]", shown(value))).unwrap_or_default();
        let short = format!("» {}{must}{usual} (/decline, /cancel): ", field.label);
        let read = |line: &str| match line {
            "/decline" => Ok((Entered::Left(Filled::Decline), false)),
            "/cancel" => Ok((Entered::Left(Filled::Cancel), false)),
            "" if now.is_none() && field.required => Err("it must be filled in".to_owned()),
            "" => Ok((Entered::Value(now.cloned()), false)),
            typed => {
                let chosen = typed.parse::<usize>().ok().and_then(|at| field.choices.get(at.checked_sub(1)?));
                let typed = chosen.map_or(typed, |(value, _)| value.as_str());
                elicit::parse(&field.schema, typed).map(|value| (Entered::Value(Some(value)), false))
            }
        };
        self.ask(held, &text, &short, read).await
    }
}

impl Asker for Person {
    fn fill<'a>(&'a self, form: &'a Form) -> Future<'a, Filled> {
        Box::pin(async move {
            // Nothing else is printed until the whole form is done with.
            let mut held = self.printer.hold();
            let mut intro = format!("\n{}\n", self.style.bold(&format!("── {} asks for something ──", form.agent)));
            for words in [Some(&form.message), form.title.as_ref(), form.description.as_ref()].into_iter().flatten() {
                intro += &quoted(words);
            }
            let mut filled = form.filled.clone();
            let left = |held: &mut Held| {
                held.say("\n· no answer (Ctrl-D): the form is cancelled\n");
                Filled::Cancel
            };
            for field in &form.fields {
                let mut text = std::mem::take(&mut intro);
                if let Some(problem) = form.problems.iter().find(|problem| problem.field == field.name) {
                    let _ = writeln!(text, "{}: {}", field.label, problem.why);
                }
                let now = filled.get(&field.name).or(field.default.as_ref()).cloned();
                match self.field(&mut held, &text, field, now.as_ref()).await {
                    Ok(Entered::Value(Some(value))) => drop(filled.insert(field.name.clone(), value)),
                    Ok(Entered::Value(None)) => drop(filled.remove(&field.name)),
                    Ok(Entered::Left(left)) => return left,
                    Err(_) => return left(&mut held),
                }
            }
            let mut text = intro;
            for field in &form.fields {
                let value = filled.get(&field.name).map(shown).unwrap_or_default();
                let _ = writeln!(text, "  {}: {value}", field.label);
            }
            match self.ask(&mut held, &text, "» send this? y yes, n no: ", yes_or_no).await {
                Ok(true) => Filled::Accept(filled),
                Ok(false) => Filled::Decline,
                Err(_) => left(&mut held),
            }
        })
    }

    fn visit<'a>(&'a self, page: &'a Page) -> Future<'a, Consent> {
        Box::pin(async move {
            let title = format!("── {} wants you to open a page ──", page.agent);
            let mut text = format!("\n{}\n{}", self.style.bold(&title), quoted(&page.message));
            let _ = writeln!(text, "  address: {}\n  host:    {}", page.url, self.style.bold(&page.host));
            for warning in &page.warnings {
                let _ = writeln!(text, "  {}", self.style.red(warning));
            }
            let mut held = self.printer.hold();
            match self.ask(&mut held, &text, "» will you open it in your browser? y yes, n no: ", yes_or_no).await {
                Ok(true) => {
                    held.say(&format!("· open this address: {}\n", page.url));
                    Consent::Accept
                }
                Ok(false) => Consent::Decline,
                Err(_) => {
                    held.say("\n· no answer (Ctrl-D): the page is not opened\n");
                    Consent::Cancel
                }
            }
        })
    }
}

fn is_no(line: &str) -> bool {
    ["n", "no"].iter().any(|no| line.eq_ignore_ascii_case(no))
}

fn yes_or_no(line: &str) -> Result<(bool, bool), String> {
    match line {
        _ if is_no(line) => Ok((false, false)),
        _ if ["y", "yes"].iter().any(|yes| line.eq_ignore_ascii_case(yes)) => Ok((true, true)),
        _ => Err("yes or no, please".to_owned()),
    }
}

fn shown(value: &ElicitValue) -> String {
    sanitize::exact_line(&tieline_schema::to_json(value, tieline_schema::Dialect::V2))
}
