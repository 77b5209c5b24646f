//! A person at the terminal: permission, forms, pages and logins are asked line by line, and nothing can pose as a question.
//!
//! Questions are read from the terminal itself, so that standard input is free for the prompt. What was typed before a
//! question stood there is thrown away, and a yes counts only a moment after it appeared. Ctrl-D is a no; Ctrl-C ends the run,
//! and with it the question (its future is dropped).

use super::lines::{BAR, Part, own_rows, rows};
use super::printer::{Held, Printer};
use super::style::Style;
use crate::shared::{counted, cut};
use std::fmt::Write as _;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_client::agents::join_line;
use tieline_client::elicit::{self, Asker, Consent, Field, Filled, Form, Page};
use tieline_client::login::{Chooser, Method};
use tieline_client::permission::{Answer, Decider, Keep, Kept, Question};
use tieline_client::{Future, sanitize};
use tieline_host::run::Size;
use tieline_schema::{Diff, ElicitValue, PermissionOption, ToolCallContent};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};

/// A yes that comes sooner than this was not meant for the question.
const MIN_READING_TIME: Duration = Duration::from_millis(400);
/// Nobody types longer lines; in bytes.
const MAX_TYPED_BYTES: usize = 64 * 1024;
/// So many lines of the agent's own words are shown with a question.
const MAX_QUOTED_LINES: usize = 30;
/// So many bytes of what a tool is given are shown.
const MAX_INPUT_BYTES: usize = 64 << 10;

/// How large the terminal is.
pub fn terminal_size() -> Option<Size> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr())
        .or_else(|_| rustix::termios::tcgetwinsize(std::io::stdout()))
        .ok()?;
    (size.ws_col > 0 && size.ws_row > 0).then_some(Size { columns: size.ws_col, rows: size.ws_row })
}

/// So many columns the rows on standard error have; without end where it is no terminal.
pub fn columns() -> usize {
    if !std::io::stderr().is_terminal() {
        return usize::MAX;
    }
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

    /// The next line that is typed, and when.
    async fn line(&self, held: &mut Held, short: &str) -> Result<(Instant, String), NoAnswer> {
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
                return Err(NoAnswer::Gone);
            }
            let mut chunk = [0; 1024];
            match self.terminal.try_read(&mut chunk) {
                Ok(0) => return Err(NoAnswer::End),
                Ok(size) => typed.extend_from_slice(&chunk[..size]),
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
                Err(_) => return Err(NoAnswer::Gone),
            }
            if let Some(end) = typed.iter().position(|byte| *byte == b'\n') {
                return Ok((Instant::now(), String::from_utf8_lossy(&typed[..end]).into_owned()));
            }
            if typed.len() > MAX_TYPED_BYTES {
                return Err(NoAnswer::Gone);
            }
        }
    }

    /// What is typed behind a sign of ours, in lines; one that ends with a backslash goes on. `None` at the end (Ctrl-D).
    pub async fn prompt(&self, sign: &str) -> Option<String> {
        let mut held = self.printer.hold();
        let mut words = String::new();
        loop {
            held.say(sign);
            let (_, line) = self.line(&mut held, sign).await.ok()?;
            held.answered();
            match line.strip_suffix('\\') {
                Some(line) if words.len() < MAX_TYPED_BYTES => words = words + line + "\n",
                _ => return Some(words + &line),
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
            let (at, line) = self.line(held, short).await?;
            let why = match read(line.trim()) {
                Ok((_, true)) if at.duration_since(since) < MIN_READING_TIME => {
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
            held.say(&format!("{}{short}", own_rows("", &[Part::Ours(&format!("({why})"))], columns())));
        }
    }

    /// What is decided on, whole: what would happen comes first, the agent's own words and the diff behind it.
    fn matter(&self, question: &Question) -> String {
        let width = columns();
        let mut text: String = question.facts.iter().map(|fact| rows("would: ", fact, width)).collect();
        if question.facts.is_empty() {
            text += &own_rows("", &[Part::Ours("The agent does not say what exactly it would do.")], width);
        }
        text += &question.hints.iter().map(|hint| mind(hint, width)).collect::<String>();
        text += &question.description.iter().map(|more| quoted(&sanitize::exact(more))).collect::<String>();
        text += &input(question).map(|input| given(input, width)).unwrap_or_default();
        let patch = |diff: &Diff| diff.patch().map(|patch| patch.text).unwrap_or_default();
        for patch in question.changes.iter().map(patch) {
            text += &self.style.diff(&patch, usize::MAX);
        }
        // Whoever saw it here need not see it again when it is done, in the agent's words.
        let told = question.call.iter().filter_map(|call| call.content.set()).flat_map(|items| items.iter());
        for content in told {
            if let ToolCallContent::Diff(diff) = content {
                self.printer.diff_shown(&patch(diff));
            }
        }
        text
    }

    /// The question as it fits the screen: its title, what would happen and the choices stay in view. What is cut is said,
    /// and `d` shows it. With `whole` nothing is cut.
    fn question(&self, question: &Question, whole: bool) -> (String, bool) {
        let heading = format!("\n{}\n", self.style.bold("── The agent asks for permission ──"));
        let (matter, options) = (self.matter(question), options(question));
        let all = options.concat();
        let height = terminal_size().map_or(24, |size| usize::from(size.rows));
        let count = |text: &str| text.lines().count();
        let title = quoted(&sanitize::exact(&question.title));
        // Nor may a title push out anything else.
        let title_rows = if whole { usize::MAX } else { (height / 6).max(2) };
        let long = count(&title) > title_rows;
        let title = if long { self.beginning(&title, title_rows) } else { title };
        let keys = keys(question, true).lines().count();
        // The empty line above the heading may scroll away.
        let room = |tail: &str| height.saturating_sub(1 + count(&title) + count(tail) + keys);
        let short = lasting_in_a_row(question);
        // The options of the agent may not push out what would happen: a third of the screen is kept for that.
        let left = room(&short).saturating_sub(count(&matter).min(height / 3));
        let tails = [format!("{}{all}", lasting(question)), format!("{short}{all}"), short + &fewer(&options, left)];
        let fits = |tail: &&String| whole || count(&matter) <= room(tail);
        let tail = tails.iter().find(fits).unwrap_or(&tails[2]);
        let room = room(tail).max(2);
        if whole || count(&matter) <= room {
            return (format!("{heading}{title}{matter}{tail}"), long);
        }
        (format!("{heading}{title}{}{tail}", self.beginning(&matter, room)), true)
    }

    /// The first of these rows, and how many more there are.
    fn beginning(&self, text: &str, rows: usize) -> String {
        let shown: String = text.lines().take(rows - 1).flat_map(|line| [line, "\n"]).collect();
        let more = counted(text.lines().count() - (rows - 1), "more line");
        format!("{shown}{}\n", self.style.bold(&format!("… {more}; d shows all")))
    }
}

/// What to mind: our words, but for a command in it.
fn mind(hint: &str, width: usize) -> String {
    const COMMAND: &str = "its part `";
    let (ours, theirs) = hint.split_at(hint.find(COMMAND).map_or(hint.len(), |at| at + COMMAND.len()));
    own_rows("Mind: ", &[Part::Ours(ours), Part::Theirs(theirs)], width)
}

/// The rules that an answer that lasts would add, in one line, each in quotes: it may have any words in it.
fn rules(question: &Question) -> String {
    question.lasting.iter().map(|rule| join_line(&[&sanitize::exact_line(rule)])).collect::<Vec<_>>().join(", ")
}

/// Why it is asked, and what an answer that lasts would keep, and where.
fn lasting(question: &Question) -> String {
    let because = format!("Asked because of {}.", sanitize::exact_line(&question.because.to_string()));
    let mut text = own_rows("", &[Part::Ours(&because)], columns());
    if !question.lasting.is_empty() {
        let kept = [("a: ", Some(&Kept::RunEnds)), ("always: ", question.always.as_ref())];
        for (key, kept) in kept.into_iter().filter_map(|(key, kept)| Some((key, kept?))) {
            text += &own_rows(key, &[Part::Theirs(&rules(question)), Part::Ours(&format!("; {kept}"))], columns());
        }
    }
    text
}

/// What an answer that lasts would keep, shortened to one row: all that a small screen has room for.
fn lasting_in_a_row(question: &Question) -> String {
    let keys = if question.always.is_some() { "a, always: " } else { "a: " };
    let room = columns().saturating_sub(keys.len() + 1);
    if question.lasting.is_empty() { String::new() } else { rows(keys, &cut(&rules(question), room), columns()) }
}

/// The agent's own options that none of our answers stands for, by number.
fn options(question: &Question) -> Vec<String> {
    let one = |(at, option): (usize, &&PermissionOption)| {
        // What it does is ours to say; what it is called is the agent's.
        let kind = question.option_words(option, "for this run");
        let (kind, name) = (format!("{kind}; the agent calls it: "), sanitize::exact_line(&option.name));
        own_rows(
            &format!("  {} ", question.answers().len() + at + 1),
            &[Part::Ours(&kind), Part::Theirs(&name)],
            columns(),
        )
    };
    question.other_options().iter().enumerate().map(one).collect()
}

/// As many options as fit into so many rows, and how many more there are.
fn fewer(options: &[String], room: usize) -> String {
    let rows = |option: &String| option.lines().count();
    if options.iter().map(rows).sum::<usize>() <= room {
        return options.concat();
    }
    let mut used = 0;
    let fits = |option: &&String| {
        used += rows(option);
        used < room
    };
    let shown = options.iter().take_while(fits).count();
    let more = format!("… and {}: ? lists them", counted(options.len() - shown, "more option"));
    options[..shown].concat() + &own_rows("", &[Part::Ours(&more)], columns())
}

/// What can be answered, explained.
fn help(question: &Question) -> String {
    let mut lines = vec!["y or 1  yes, this once".to_owned()];
    if !question.lasting.is_empty() {
        lines.push("a or 2  yes, and the same until this run ends".to_owned());
    }
    if !question.lasting.is_empty() && question.always.is_some() {
        lines.push("always or 3  yes, and the same in this folder from now on".to_owned());
        lines.push("never  no, and the same in this folder from now on".to_owned());
    }
    lines.extend(
        ["n  no (Ctrl-D too)", "d  all of what is decided on", "Ctrl-C  cancels the question and the turn"]
            .map(str::to_owned),
    );
    let keys: String = lines.iter().map(|line| own_rows("  ", &[Part::Ours(line)], columns())).collect();
    // The keys last, so that they stay in view.
    format!("{}{}{keys}", lasting(question), options(question).concat())
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
    /// To see all that is decided on.
    More,
    /// To know what can be answered.
    Help,
}

/// How a question can be answered, in the line that is typed in.
fn keys(question: &Question, more: bool) -> String {
    let (lasting, never) = match (&question.lasting[..], &question.always) {
        ([], _) => ("", ""),
        (_, None) => (", a this run", ""),
        (_, Some(_)) => (", a this run, always", ", never"),
    };
    let more = if more { ", d all of it" } else { "" };
    let numbers = if question.other_options().is_empty() { "" } else { ", a number" };
    let keys = format!("y once{lasting}, n no{never}{numbers}{more}, ? help:");
    // A key and its meaning stay together.
    let keys = keys.replace(' ', "~").replace(",~", ", ");
    let rows = own_rows("» ", &[Part::Ours(&keys)], columns()).replace('~', " ");
    // It is typed behind them.
    format!("{} ", rows.trim_end())
}

fn wish(question: &Question, line: &str) -> Result<(Wish, bool), String> {
    let lasting = !question.lasting.is_empty();
    let stored = lasting && question.always.is_some();
    let answer = match line.to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Allow,
        "a" if lasting => Answer::AllowFor(Keep::Run),
        "always" if stored => Answer::AllowFor(Keep::Always),
        "n" | "no" => Answer::Refuse,
        "never" if stored => Answer::RefuseFor(Keep::Always),
        "d" => return Ok((Wish::More, false)),
        "?" | "h" | "help" => return Ok((Wish::Help, false)),
        number => {
            // They mean the same as on the screen of the chat.
            let (ours, others) = (question.answers(), question.other_options());
            let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1)).unwrap_or(usize::MAX);
            match (ours.get(at), at.checked_sub(ours.len()).and_then(|at| others.get(at))) {
                (Some(answer), _) => answer.clone(),
                (None, Some(option)) => {
                    return Ok((Wish::Answer(Answer::Option(option.option_id.clone())), option.kind.allows()));
                }
                (None, None) => return Err("that is none of the answers; ? lists them".to_owned()),
            }
        }
    };
    let yes = matches!(answer, Answer::Allow | Answer::AllowFor(_));
    Ok((Wish::Answer(answer), yes))
}

/// The agent's words, made safe before, each line marked as such, so that they can't be taken for ours.
fn quoted(safe: &str) -> String {
    let mut all =
        safe.lines().take(MAX_QUOTED_LINES).fold(String::new(), |all, line| all + &rows("│ ", line, columns()));
    let more = safe.lines().count().saturating_sub(MAX_QUOTED_LINES);
    if more > 0 {
        let _ = writeln!(all, "… {} of the agent's words", counted(more, "more line"));
    }
    all
}

/// What the tool is given, where the facts and the changes that are shown don't tell all of it.
fn input(question: &Question) -> Option<&str> {
    let told =
        |fact: &String| ["run ", "read ", "write ", "delete ", "move "].iter().any(|verb| fact.starts_with(verb));
    let input = question.call.as_ref()?.raw_input.set()?.get();
    let written = question.facts.iter().filter(|fact| fact.starts_with("write ")).count();
    let shown: usize = question.changes.iter().map(|diff| diff.paths().count()).sum();
    let whole = !question.facts.is_empty() && question.facts.iter().all(told) && written <= shown;
    (!whole && !matches!(input, "null" | "{}")).then_some(input)
}

/// The same, every byte of it, but with the lines of a text below each other.
fn given(input: &str, width: usize) -> String {
    let mut text = String::new();
    let mut chars = input[..input.floor_char_boundary(MAX_INPUT_BYTES)].chars();
    while let Some(c) = chars.next() {
        match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('n')) => text.push('\n'),
            (c, escaped) => text.extend(std::iter::once(c).chain(escaped)),
        }
    }
    if input.len() > MAX_INPUT_BYTES {
        let _ = write!(text, "… [{} more bytes]", input.len() - MAX_INPUT_BYTES);
    }
    let text = sanitize::exact(&text);
    let marked = |(at, line)| rows(if at == 0 { "with: " } else { "│ " }, line, width);
    text.lines().enumerate().map(marked).collect()
}

impl Decider for Person {
    fn decide<'a>(&'a self, question: &'a Question) -> Future<'a, Answer> {
        Box::pin(async move {
            let mut held = self.printer.hold();
            let (mut text, more) = self.question(question, false);
            let keys = keys(question, more);
            loop {
                match self.ask(&mut held, &text, &keys, |line| wish(question, line)).await {
                    Ok(Wish::Answer(answer)) => return answer,
                    Ok(Wish::More) => text = self.question(question, true).0,
                    Ok(Wish::Help) => text = help(question),
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
            let mut text = format!("\n{}\n", self.style.bold(&format!("── the agent {agent} wants you to log in ──")));
            for (at, method) in methods.iter().enumerate() {
                text += &rows(&format!("  {} ", at + 1), &method.to_string(), columns());
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
    /// One field of a form; `sends` if the answer is all of it.
    async fn field(
        &self,
        held: &mut Held,
        intro: &str,
        field: &Field,
        now: Option<&ElicitValue>,
        sends: bool,
    ) -> Result<Entered, NoAnswer> {
        let mut text = intro.to_owned();
        for (at, (_, label)) in field.choices.iter().enumerate() {
            text += &rows(&format!("  {} ", at + 1), label, columns());
        }
        text += &field.help.iter().map(|help| quoted(help)).collect::<String>();
        let must = if field.required { "" } else { " (may stay empty)" };
        // Where there is one choice, it is the usual one.
        let single = match &field.choices[..] {
            [(value, _)] if now.is_none() => elicit::parse(&field.schema, value).ok(),
            _ => None,
        };
        let now = now.or(single.as_ref());
        let usual = now.map(|value| format!(" [{}]", shown(value))).unwrap_or_default();
        let label = format!("{}{must}{usual} (/decline, /cancel):", field.label);
        let short = format!("{} ", rows("» ", &label, columns()).trim_end());
        let read = |line: &str| match line {
            "/decline" => Ok((Entered::Left(Filled::Decline), false)),
            "/cancel" => Ok((Entered::Left(Filled::Cancel), false)),
            "" if now.is_none() && field.required => Err("it must be filled in".to_owned()),
            "" => Ok((Entered::Value(now.cloned()), sends)),
            typed => {
                let chosen = typed.parse::<usize>().ok().and_then(|at| field.choices.get(at.checked_sub(1)?));
                let typed = chosen.map_or(typed, |(value, _)| value.as_str());
                elicit::parse(&field.schema, typed).map(|value| (Entered::Value(Some(value)), sends))
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
            // Who picks one of the choices has decided.
            let only = matches!(&form.fields[..], [field] if !field.choices.is_empty());
            for field in &form.fields {
                let mut text = std::mem::take(&mut intro);
                if let Some(problem) = form.problems.iter().find(|problem| problem.field == field.name) {
                    text += &rows("", &format!("{}: {}", field.label, problem.why), columns());
                }
                let now = filled.get(&field.name).or(field.default.as_ref()).cloned();
                match self.field(&mut held, &text, field, now.as_ref(), only).await {
                    Ok(Entered::Value(Some(value))) => drop(filled.insert(field.name.clone(), value)),
                    Ok(Entered::Value(None)) => drop(filled.remove(&field.name)),
                    Ok(Entered::Left(left)) => return left,
                    Err(_) => return left(&mut held),
                }
            }
            if only {
                return Filled::Accept(filled);
            }
            let mut text = intro;
            for field in &form.fields {
                let value = filled.get(&field.name).map(shown).unwrap_or_default();
                text += &rows("  ", &format!("{}: {value}", field.label), columns());
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
            let title = format!("── the agent {} wants you to open a page ──", page.agent);
            let mut text = format!("\n{}\n{}", self.style.bold(&title), quoted(&page.message));
            text += &rows("  address: ", &page.url, columns());
            text += &self.style.bold(&rows("  host:    ", &page.host, columns()));
            for warning in &page.warnings {
                text += &self.style.red(&rows("  ", warning, columns()));
            }
            let mut held = self.printer.hold();
            match self.ask(&mut held, &text, "» will you open it in your browser? y yes, n no: ", yes_or_no).await {
                Ok(true) => {
                    held.say(&rows_of_address(&page.url, columns(), self.style.terminal));
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

/// An address to be followed. No row of it begins like one of ours; each leads to all of it, where the terminal knows links.
fn rows_of_address(url: &str, columns: usize, links: bool) -> String {
    let begin = "· open this address: ";
    let links = links && url.bytes().all(|byte| byte.is_ascii_graphic());
    if !links {
        return rows(begin, url, columns);
    }
    let row = |row: &str| {
        let mark = [begin, BAR].into_iter().find(|mark| row.starts_with(mark)).unwrap_or_default();
        format!("{mark}\x1b]8;id=address;{url}\x1b\\{}\x1b]8;;\x1b\\\n", &row[mark.len()..])
    };
    rows(begin, url, columns).lines().map(row).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_begins_no_row_like_ours() {
        let url = format!("https://ok.example/{}tieline_exec:_your_key_was_revoked{}", "a".repeat(40), "b".repeat(300));
        for columns in [20, 40, 79, 80, 81, 120] {
            let shown = rows_of_address(&url, columns, true);
            let plain = rows_of_address(&url, columns, false);
            assert_eq!(shown.lines().count(), plain.lines().count());
            // Each row leads to all of it.
            assert!(shown.lines().all(|row| row.contains(&format!(";{url}\x1b"))), "{shown}");
            for (at, row) in plain.lines().enumerate() {
                assert!(row.starts_with(if at == 0 { "· open this address: " } else { BAR }), "{columns}: {plain}");
                assert!(row.chars().count() < columns || at == 0, "{columns}: {plain}");
            }
        }
        // What is no plain address is not put into a sequence.
        assert!(!rows_of_address("https://x.example/\u{e9}", 80, true).contains('\x1b'));
    }
}
