//! A person at the terminal: permission, forms, pages and logins are asked line by line, and nothing can pose as a question.
//!
//! Questions are read from the terminal itself, so that standard input is free for the prompt. What was typed before a
//! question stood there is thrown away, and a yes counts only a moment after it appeared.

use super::outlet::{Held, Outlet};
use super::style::Style;
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_client::elicit::{Asker, Consent, Filled, Form, Page};
use tieline_client::login::{Chooser, Method};
use tieline_client::permission::{Answer, Decider, Question};
use tieline_client::{Future, sanitize};
use tieline_host::run::Size;
use tieline_schema::ToolCallContent;
use tokio::net::unix::pipe::Receiver;

/// A yes that comes sooner than this was not meant for the question.
const DEAD: Duration = Duration::from_millis(400);
/// Nobody types longer lines.
const LONGEST: usize = 64 * 1024;
/// A diff is shown up to so many lines before the question.
const LINES: usize = 120;

/// How large the terminal is.
pub fn terminal_size() -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()))
        .ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some(Size { columns: size.ws_col, rows: size.ws_row })
}

/// Somebody at a terminal.
pub struct Person {
    outlet: Outlet,
    style: Style,
    /// Only read while a question stands: what is typed otherwise belongs to others.
    terminal: Receiver,
}

impl Person {
    /// The person who sees our standard error, if there is one.
    pub fn find(outlet: Outlet, style: Style) -> Option<Arc<Self>> {
        if !std::io::stderr().is_terminal() {
            return None;
        }
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let terminal = std::fs::OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty").ok()?;
        // Not checked to be a pipe, because a terminal is as good.
        Some(Arc::new(Self { outlet, style, terminal: Receiver::from_file_unchecked(terminal).ok()? }))
    }

    /// Shows a question. Nothing else is printed until the guard is dropped.
    fn show(&self, text: &str) -> Held {
        let held = self.outlet.hold();
        // What was typed before belongs to something else.
        let _ = rustix::termios::tcflush(&self.terminal, rustix::termios::QueueSelector::IFlush);
        held.say(text);
        held
    }

    /// The next line that is typed; `None` if the terminal is gone.
    async fn line(&self) -> Option<(Instant, String)> {
        let mut typed = Vec::new();
        loop {
            self.terminal.readable().await.ok()?;
            let mut chunk = [0; 1024];
            match self.terminal.try_read(&mut chunk) {
                Ok(size @ 1..) => typed.extend_from_slice(&chunk[..size]),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                _ => return None,
            }
            if let Some(end) = typed.iter().position(|byte| *byte == b'\n') {
                return Some((Instant::now(), String::from_utf8_lossy(&typed[..end]).into_owned()));
            }
            if typed.len() > LONGEST {
                return None;
            }
        }
    }

    /// Asks until an answer is understood. `yes` says whether an answer agrees to something.
    async fn ask<T>(&self, text: &str, mut read: impl FnMut(&str) -> Option<(T, bool)>) -> Option<T> {
        let held = self.show(text);
        let since = Instant::now();
        loop {
            let (at, line) = self.line().await?;
            match read(line.trim()) {
                Some((_, true)) if at.duration_since(since) < DEAD => {
                    held.say("That was too quick to be meant for this question; once more, please: ");
                }
                Some((answer, _)) => return Some(answer),
                None => held.say("That is none of the answers; once more, please: "),
            }
        }
    }

    fn question(&self, question: &Question) -> String {
        let style = self.style;
        let mut text = format!("\n{}\n", style.bold("── The agent asks for permission ──"));
        text += &quoted(&question.title);
        if let Some(more) = &question.description {
            text += &quoted(more);
        }
        for fact in &question.facts {
            let _ = writeln!(text, "{} {}", style.bold("would:"), sanitize::line(fact));
        }
        if question.facts.is_empty() {
            text += "The agent does not say what exactly it would do.\n";
        }
        let contents = question.call.iter().filter_map(|call| call.content.set()).flat_map(|items| items.iter());
        for content in contents {
            if let ToolCallContent::Diff(diff) = content {
                text += &style.diff(&diff.patch().map(|patch| patch.text).unwrap_or_default(), LINES);
            }
        }
        let _ = writeln!(text, "Asked because of {}.", sanitize::line(&question.because.to_string()));
        for (at, option) in question.options.iter().enumerate() {
            let kind = option.kind.as_str().replace('_', " ");
            let _ = writeln!(text, "  {} {} ({})", at + 1, sanitize::line(&option.name), sanitize::line(&kind));
        }
        let always = question.always.join(", ");
        let always = if always.is_empty() { String::new() } else { format!(" = allow {}", sanitize::line(&always)) };
        let numbers = if question.options.is_empty() { "" } else { ", or a number" };
        let _ = write!(text, "y once, a always{always}, n no{numbers}: ");
        text
    }
}

/// The agent's words, each line marked as such, so that they can't be taken for ours.
fn quoted(text: &str) -> String {
    let safe = sanitize::text(text);
    safe.lines().take(30).fold(String::new(), |all, line| all + "│ " + line + "\n")
}

impl Decider for Person {
    fn decide<'a>(&'a self, question: &'a Question) -> Future<'a, Answer> {
        Box::pin(async move {
            let text = self.question(question);
            let answer = self.ask(&text, |line| match line {
                "y" | "yes" => Some((Answer::Allow, true)),
                "a" | "always" => Some((Answer::AllowAlways, true)),
                "n" | "no" => Some((Answer::Refuse, false)),
                "never" => Some((Answer::RefuseAlways, false)),
                number => {
                    let at = number.parse::<usize>().ok()?.checked_sub(1)?;
                    let option = question.options.get(at)?;
                    Some((Answer::Option(option.option_id.clone()), option.kind.allows()))
                }
            });
            answer.await.unwrap_or(Answer::Nobody)
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
            text += "a number, or n for not now: ";
            let answer = self.ask(&text, |line| match line {
                "n" | "no" => Some((None, false)),
                number => {
                    let at = number.parse::<usize>().ok()?.checked_sub(1)?;
                    (at < methods.len()).then_some((Some(at), true))
                }
            });
            answer.await.flatten()
        })
    }
}

impl Asker for Person {
    fn fill<'a>(&'a self, form: &'a Form) -> Future<'a, Filled> {
        Box::pin(async move {
            let mut head = format!("\n{}\n", self.style.bold(&format!("── {} asks for something ──", form.agent)));
            head += &quoted(&form.message);
            let mut filled = form.filled.clone();
            for field in &form.fields {
                let problem = form.problems.iter().find(|problem| problem.field == field.name);
                let mut text = std::mem::take(&mut head);
                if let Some(problem) = problem {
                    let _ = writeln!(text, "{}: {}", field.label, sanitize::line(&problem.why));
                }
                for (at, (_, label)) in field.choices.iter().enumerate() {
                    let _ = writeln!(text, "  {} {label}", at + 1);
                }
                let must = if field.required { "" } else { " (may stay empty)" };
                let now = filled.get(&field.name).or(field.default.as_ref()).cloned();
                let usual = now.as_ref().map(|value| format!(" [{}]", shown(value))).unwrap_or_default();
                let help = field.help.as_deref().map(|help| format!(" – {help}")).unwrap_or_default();
                let _ = write!(text, "{}{help}{must}{usual} (/decline, /cancel): ", field.label);
                let typed = self.ask(&text, |line| match line {
                    "/decline" => Some((Err(Filled::Decline), false)),
                    "/cancel" => Some((Err(Filled::Cancel), false)),
                    "" => match (&now, field.required) {
                        (Some(value), _) => Some((Ok(Some(value.clone())), false)),
                        (None, false) => Some((Ok(None), false)),
                        (None, true) => None,
                    },
                    typed => {
                        let chosen = typed.parse::<usize>().ok().and_then(|at| field.choices.get(at.checked_sub(1)?));
                        let typed = chosen.map_or(typed, |(value, _)| value.as_str());
                        let value = tieline_client::elicit::parse(&field.schema, typed).ok()?;
                        Some((Ok(Some(value)), false))
                    }
                });
                match typed.await {
                    Some(Ok(Some(value))) => drop(filled.insert(field.name.clone(), value)),
                    Some(Ok(None)) => drop(filled.remove(&field.name)),
                    Some(Err(left)) => return left,
                    None => return Filled::Cancel,
                }
            }
            let mut text = head;
            for field in &form.fields {
                let value = filled.get(&field.name).map(shown).unwrap_or_default();
                let _ = writeln!(text, "  {}: {value}", field.label);
            }
            text += "Send this? y yes, n no: ";
            match self.ask(&text, yes_or_no).await {
                Some(true) => Filled::Accept(filled),
                Some(false) => Filled::Decline,
                None => Filled::Cancel,
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
            text += "Will you open it in your browser? y yes, n no: ";
            match self.ask(&text, yes_or_no).await {
                Some(true) => {
                    self.outlet.hold().say(&format!("Open this address: {}\n", page.url));
                    Consent::Accept
                }
                Some(false) => Consent::Decline,
                None => Consent::Cancel,
            }
        })
    }
}

fn yes_or_no(line: &str) -> Option<(bool, bool)> {
    match line {
        "y" | "yes" => Some((true, true)),
        "n" | "no" => Some((false, false)),
        _ => None,
    }
}

fn shown(value: &tieline_schema::ElicitValue) -> String {
    sanitize::line(&tieline_schema::to_json(value, tieline_schema::Dialect::V2))
}
