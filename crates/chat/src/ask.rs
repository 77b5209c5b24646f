//! Questions for permission, docked above the composer: when they take keys, what can be answered, and that no yes is given by
//! accident.

use crate::compose::Pace;
use crate::form::Filling;
use crate::rows::look as theme;
use crate::text::{behind, fit, wrap};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline::schema::{PermissionOptionKind, ToolCallContent};
use tieline_client::elicit::{Consent, Form};
use tieline_client::live::{Asked, Reply, What};
use tieline_client::permission::{Answer, Keep, Kept, Question};
use tieline_client::sanitize;

/// A question takes no key before the composer was left alone for this long.
pub const IDLE: Duration = Duration::from_secs(1);
/// Keys that allow are dead for this long after the question got the keys.
pub const DEAD: Duration = Duration::from_millis(400);
/// So many rows of what would happen are docked; all of it is one key away.
const MAX_FACT_ROWS: usize = 6;
/// What is said of a yes that nobody can have meant.
const TOO_QUICK: &str = "that was too quick to be meant for this question";
/// So many bytes of what a tool is given are shown.
const MAX_INPUT_BYTES: usize = 64 << 10;

/// Something that can be answered.
#[derive(Debug)]
struct Choice {
    /// In our words, with the agent's behind them where it has its own.
    label: String,
    /// True if it allows something: such a key is dead for a moment.
    allows: bool,
    /// What comes of it.
    pressed: Pressed,
}

impl Choice {
    fn new(label: impl Into<String>, allows: bool, reply: Reply) -> Self {
        Self { label: label.into(), allows, pressed: Pressed::Answer(reply) }
    }
}

/// What can be answered, in its order: the number is what is pressed. The first that allows nothing is the no of Esc.
fn choices(what: &What) -> Vec<Choice> {
    match what {
        What::Permission(question) => answers(question),
        What::Login(methods) => {
            let methods = methods.iter().enumerate();
            let methods = methods.map(|(at, method)| Choice::new(method.to_string(), true, Reply::Login(Some(at))));
            methods.chain([Choice::new("Not now (Esc)", false, Reply::Login(None))]).collect()
        }
        What::Page(_) => vec![
            Choice::new("Yes, open it in my browser", true, Reply::Page(Consent::Accept)),
            Choice::new("No (Esc)", false, Reply::Page(Consent::Decline)),
        ],
        What::Form(_) | What::Terminal(_) => Vec::new(),
    }
}

/// What can be answered to a question for permission.
fn answers(question: &Question) -> Vec<Choice> {
    let yes = |label: String, answer: Answer| Choice::new(label, true, Reply::Permission(answer));
    let no = |label: String, answer: Answer| Choice::new(label, false, Reply::Permission(answer));
    let rules = question.lasting.iter().map(|rule| format!("`{}`", sanitize::exact_line(rule)));
    let rules = rules.collect::<Vec<_>>().join(", ");
    // An option of the agent that lasts is picked by our own answer for always: then it hears of it.
    let told = question.options.iter().any(|option| option.kind == PermissionOptionKind::AllowAlways)
        && !question.other_options().iter().any(|option| option.kind == PermissionOptionKind::AllowAlways);
    let told = if told { "; the agent is told, too" } else { "; the agent is not told" };
    let mut all = vec![yes("Yes, this once".into(), Answer::Allow)];
    if !question.lasting.is_empty() {
        all.push(yes(format!("Yes, until this chat ends: {rules}"), Answer::AllowFor(Keep::Run)));
    }
    let always = question.always.as_ref().filter(|_| !question.lasting.is_empty());
    if let Some(kept) = always {
        let place = match kept {
            Kept::TakenBack(file) => format!("in this folder: {rules} (kept in {file}{told})"),
            kept => format!("{rules} ({kept}{told})"),
        };
        all.push(yes(format!("Yes, always {place}"), Answer::AllowFor(Keep::Always)));
    }
    all.push(no("No (Esc)".into(), Answer::Refuse));
    all.push(Choice { label: "No, and say why".into(), allows: false, pressed: Pressed::Reason });
    if always.is_some() {
        all.push(no(format!("No, never: {rules}"), Answer::RefuseFor(Keep::Always)));
    }
    for option in question.other_options() {
        // What is no clear no may be a yes.
        let allows = !matches!(option.kind, PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways);
        let mut words = question.option_words(option, "until this chat ends");
        words[..1].make_ascii_uppercase();
        let label = format!("{words}; the agent calls it: {}", sanitize::exact_line(&option.name));
        all.push(Choice::new(label, allows, Reply::Permission(Answer::Option(option.option_id.clone()))));
    }
    all
}

/// What a key does to the docked question.
#[derive(Debug)]
pub enum Pressed {
    /// Nothing more.
    Taken,
    /// Something to say about it.
    Said(&'static str),
    /// It is answered.
    Answer(Reply),
    /// It is refused, and the reason is the next thing that is typed.
    Reason,
    /// The keys go to the composer again, this one too, behind what was taken for a number.
    Back(String),
    /// All of it is to be read.
    Whole,
    /// It is not ours.
    NotOurs,
}

/// The dock: the first of the questions that stand, and whether it has the keys.
#[derive(Debug, Default)]
pub struct Dock {
    /// Since when it has the keys.
    pub since: Option<Instant>,
    /// The choice that Enter would answer with; none by itself.
    pub chosen: Option<usize>,
    /// The numbers that were pressed: they may have been meant for the composer.
    numbers: String,
    /// How fast keys come: those of a paste that the terminal does not call one answer nothing.
    pace: Pace,
    /// What was typed into the form, if it is one.
    form: Option<Filling>,
    /// What is decided on, as it was laid out last: for which question, at which width.
    matter: RefCell<Option<(u64, usize, Vec<Part>)>>,
}

/// Some of what is decided on, in rows: what is judged keeps its share where there are few.
#[derive(Debug)]
struct Part {
    kind: Kind,
    rows: Vec<Line<'static>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// What would happen, and what to mind.
    Judged,
    /// The changes as they are: judged, too, by what goes and what comes.
    Changes,
    /// Everything else.
    More,
}

impl Dock {
    /// Takes the keys.
    pub fn focus(&mut self, now: Instant) {
        *self = Self { since: Some(now), form: self.form.take(), ..Self::default() };
    }

    /// Another question is the first one now: a choice for the one before is none for it, and it has to be read.
    pub fn next(&mut self, now: Instant) {
        self.form = None;
        if self.since.is_some() {
            self.focus(now);
        }
    }

    /// Nobody took keys for this long.
    pub fn was_busy(&mut self, time: Duration, now: Instant) {
        self.pace.was_busy(time, now);
    }

    /// Gives the keys back.
    pub fn blur(&mut self) {
        *self = Self { form: self.form.take(), ..Self::default() };
    }

    fn filling(&mut self, number: u64, form: &Form) -> &mut Filling {
        self.form.take_if(|form| form.number != number);
        self.form.get_or_insert_with(|| Filling::of(number, form))
    }

    /// A paste while it has the keys. True if it was taken: only a form takes one, and sends nothing for it.
    pub fn paste(&mut self, asked: &Asked, text: &str) -> bool {
        match &asked.what {
            What::Form(form) if self.since.is_some() => self.filling(asked.number, form).paste(text),
            _ => return false,
        }
        true
    }

    /// A key, while it has them. Numbers and arrows choose, Enter answers, Esc refuses; no letter does anything.
    pub fn key(&mut self, asked: &Asked, key: KeyEvent, now: Instant) -> Pressed {
        self.pace.key(now);
        let dead = self.pace.is_burst() || self.since.is_none_or(|since| now.saturating_duration_since(since) < DEAD);
        if let What::Form(form) = &asked.what {
            return self.filling(asked.number, form).key(form, key, dead);
        }
        let mut choices = choices(&asked.what).into_iter();
        let Some(last) = choices.len().checked_sub(1) else { return Pressed::NotOurs };
        match (key.code, key.modifiers) {
            (KeyCode::Up, KeyModifiers::NONE) => {
                self.chosen = Some(self.chosen.map_or(last, |at| at.saturating_sub(1)));
            }
            (KeyCode::Down, KeyModifiers::NONE) => {
                self.chosen = Some(self.chosen.map_or(0, |at| (at + 1).min(last)));
            }
            (KeyCode::Char(c @ '1'..='9'), KeyModifiers::NONE) => {
                let at = c as usize - '1' as usize;
                self.numbers.push(c);
                match choices.nth(at) {
                    None => return Pressed::Said("there is no such number"),
                    Some(choice) if dead && choice.allows => return Pressed::Said(TOO_QUICK),
                    Some(_) => self.chosen = Some(at),
                }
            }
            (KeyCode::Enter, KeyModifiers::NONE) => {
                return match self.chosen.and_then(|at| choices.nth(at)) {
                    None => Pressed::Said("choose with a number or an arrow first"),
                    Some(choice) if dead && choice.allows => Pressed::Said(TOO_QUICK),
                    Some(choice) => choice.pressed,
                };
            }
            (KeyCode::Esc, _) => {
                return choices.find(|choice| !choice.allows).map_or(Pressed::Taken, |choice| choice.pressed);
            }
            (KeyCode::Char('o'), KeyModifiers::CONTROL) => return Pressed::Whole,
            (KeyCode::Tab | KeyCode::BackTab, _) => return Pressed::Back(String::new()),
            (KeyCode::Char(_) | KeyCode::Backspace, KeyModifiers::NONE | KeyModifiers::SHIFT) => {
                return Pressed::Back(std::mem::take(&mut self.numbers));
            }
            _ => return Pressed::NotOurs,
        }
        Pressed::Taken
    }
}

/// What is asked, in one line.
pub fn title(what: &What) -> String {
    match what {
        What::Permission(question) => sanitize::exact_line(&question.title),
        What::Form(form) => form.message.replace('\n', " "),
        What::Page(page) => format!("open {}", page.url),
        What::Login(_) | What::Terminal(_) => "log in".into(),
    }
}

/// The docked rows: a strip, or the whole question with its choices if it has the keys.
pub fn rows(
    dock: &Dock,
    has_keys: bool,
    questions: &[Arc<Asked>],
    (width, height): (u16, u16),
    now: Instant,
) -> Vec<Line<'static>> {
    let Some(asked) = questions.first() else { return Vec::new() };
    let (width, room) = (usize::from(width), usize::from(height));
    let age = now.saturating_duration_since(asked.since).as_secs();
    let count = if questions.len() > 1 { format!(" 1 of {}", questions.len()) } else { String::new() };
    let kind = match &asked.what {
        What::Permission(_) => "The agent asks for permission",
        What::Form(_) => "The agent asks for something",
        What::Page(_) => "The agent wants you to open a page",
        What::Login(_) | What::Terminal(_) => "The agent wants you to log in",
    };
    let keys = if has_keys { "Tab types on" } else { "Tab answers" };
    // It stands in a rule.
    let mut rows = vec![Line::styled(fit(&format!("━ {kind}{count} · {age} s · {keys} "), width), theme::ASKS)];
    let mut kept = dock.matter.borrow_mut();
    kept.take_if(|kept| (kept.0, kept.1) != (asked.number, width));
    let (.., matter) = kept.get_or_insert_with(|| (asked.number, width, matter(&asked.what, width)));
    if !has_keys {
        // What would happen tells more than what the agent calls it.
        rows.extend(shown(matter, 2.min(room.saturating_sub(1))));
        return rows;
    }
    // Between the head and the foot. What is judged has its share of it, however many choices there are.
    let middle = room.saturating_sub(2);
    let judged: usize = matter.iter().filter(|part| part.kind != Kind::More).map(|part| part.rows.len()).sum();
    let judged = judged.clamp(1, (middle * 2 / 5).max(3.min(middle / 2)).max(1));
    let labels: Vec<String> = choices(&asked.what).into_iter().map(|choice| choice.label).collect();
    // If they don't all fit, only the chosen one is shown whole: a no must never be out of sight.
    let broken: Vec<Vec<String>> = labels.iter().map(|label| wrap(label, width.saturating_sub(5))).collect();
    let cut = broken.iter().map(Vec::len).sum::<usize>() > middle.saturating_sub(judged);
    let mut options: Vec<Line<'static>> = Vec::new();
    for (at, (label, broken)) in labels.iter().zip(broken).enumerate() {
        let style = if dock.chosen == Some(at) { theme::CHOSEN } else { theme::PLAIN };
        let mark = if dock.chosen == Some(at) { "❯" } else { " " };
        let parts = if cut && dock.chosen != Some(at) { vec![fit(label, width.saturating_sub(5))] } else { broken };
        for (row, part) in parts.into_iter().enumerate() {
            let head = if row == 0 { format!("{mark}{:>2} ", at + 1) } else { "    ".into() };
            options.push(Line::from(vec![Span::styled(head, theme::STRONG), Span::styled(part, style)]));
        }
    }
    if let What::Form(form) = &asked.what {
        match dock.form.as_ref().filter(|filling| filling.number == asked.number) {
            Some(filling) => options = filling.rows(form, width),
            None => options = Filling::of(asked.number, form).rows(form, width),
        }
    }
    // What does not fit is a key away. Where there is no row to say so, the foot does.
    let space = middle.saturating_sub(options.len()).clamp(judged, MAX_FACT_ROWS.max(room / 3).max(judged));
    let more = matter.iter().map(|part| part.rows.len()).sum::<usize>().saturating_sub(space);
    let says = more > 0 && space > judged.min(3);
    rows.extend(shown(matter, space - usize::from(says)));
    if says {
        rows.push(Line::styled(fit(&format!("… {} more rows: Ctrl+O", more + 1), width), theme::ASKS));
    }
    let left = room.saturating_sub(rows.len() + 1);
    let hidden = options.len().saturating_sub(left);
    if hidden > 0 {
        // The chosen one stays in view, to its last row if that can be.
        let is_head = |line: &Line<'_>| !line.to_string().starts_with("    ");
        let at = options.iter().position(|line| line.to_string().starts_with('❯')).unwrap_or(0);
        let end = options.iter().skip(at + 1).position(is_head).map_or(options.len(), |rows| at + 1 + rows);
        options.drain(..end.saturating_sub(left).min(at));
        options.truncate(left);
    }
    rows.extend(options);
    let (no, rest) = match &asked.what {
        What::Form(_) => ("Esc declines", "↑↓ Enter next field · ←→ choices · Tab types on"),
        _ => ("Esc refuses", "numbers or ↑↓ choose · Enter answers · Ctrl+O reads all of it"),
    };
    let mut foot = vec![no.to_owned()];
    foot.extend((hidden > 0).then(|| match dock.chosen {
        Some(at) => format!("{} of {}: ↑↓", at + 1, labels.len()),
        None => format!("{hidden} more: ↑↓"),
    }));
    foot.extend((more > 0 && !says).then(|| format!("Ctrl+O +{more} rows")));
    foot.push(rest.to_owned());
    let foot = foot.join(" · ");
    rows.push(Line::styled(fit(&foot, width), theme::QUIET));
    rows
}

/// All of it, to be read: what is decided on, and what can be answered, in full.
pub fn whole(what: &What) -> Vec<String> {
    // Broken where it is shown.
    let rows = matter(what, usize::from(u16::MAX)).into_iter().flat_map(|part| part.rows);
    let choices = choices(what).into_iter().enumerate().map(|(at, choice)| format!("{:>2} {}", at + 1, choice.label));
    rows.map(|row| row.to_string()).chain([String::new()]).chain(choices).collect()
}

/// So many rows of it, in its order. What is judged is given rows in turn, so that nothing of it is pushed out of view; the rest
/// has what is left.
fn shown(parts: &[Part], space: usize) -> Vec<Line<'static>> {
    let (mut given, mut left) = (vec![0; parts.len()], space);
    for judged in [true, false] {
        let mut before = usize::MAX;
        while before != left {
            before = left;
            for (part, given) in parts.iter().zip(&mut given).filter(|(part, _)| (part.kind != Kind::More) == judged) {
                let more = (part.rows.len() - *given).min(left).min(if judged { 1 } else { usize::MAX });
                *given += more;
                left -= more;
            }
        }
    }
    let rows = parts.iter().zip(given).flat_map(|(part, given)| match part.kind {
        Kind::Changes => both_sides(&part.rows, given),
        _ => part.rows.iter().take(given).collect(),
    });
    rows.cloned().collect()
}

/// So many rows of changes: if the first ones show only what goes, or nothing of it, then some of both sides.
fn both_sides<'a>(rows: &'a [Line<'static>], most: usize) -> Vec<&'a Line<'static>> {
    let is = |sign: &str, row: &&Line<'_>| row.spans.first().is_some_and(|span| span.content == sign);
    let count = |sign: &str, most: usize| rows.iter().take(most).filter(|row| is(sign, row)).count();
    let (gone, come) = (count("-", rows.len()), count("+", rows.len()));
    if count("-", most) > 0 && count("+", most) > 0
        || (gone == 0 || come == 0) && count("-", most) + count("+", most) > 0
    {
        return rows.iter().take(most).collect();
    }
    let old = gone.min(most - come.min(most / 2));
    let side = |sign: &'static str, most: usize| rows.iter().filter(move |row| is(sign, row)).take(most);
    side("-", old).chain(side("+", most - old)).collect()
}

/// What is decided on: what would happen, what to mind, the agent's own words marked as such, the changes.
fn matter(what: &What, width: usize) -> Vec<Part> {
    let (mut judged, mut rows) = (Vec::new(), Vec::new());
    match what {
        What::Permission(question) => return permission(question, width),
        What::Form(form) => {
            for words in [Some(&form.message), form.title.as_ref(), form.description.as_ref()].into_iter().flatten() {
                quote(words, width, &mut rows);
            }
        }
        What::Page(page) => {
            // Who it is comes first: an address may be long.
            ours("host: ", &page.host, theme::STRONG, width, &mut judged);
            for warning in &page.warnings {
                ours("Mind: ", warning, theme::BAD, width, &mut judged);
            }
            ours("address: ", &page.url, theme::PLAIN, width, &mut rows);
            quote(&page.message, width, &mut rows);
        }
        What::Login(methods) => {
            for description in methods.iter().filter_map(|method| method.description.as_ref()) {
                quote(description, width, &mut rows);
            }
        }
        What::Terminal(_) => {}
    }
    vec![Part { kind: Kind::Judged, rows: judged }, Part { kind: Kind::More, rows }]
}

fn permission(question: &Question, width: usize) -> Vec<Part> {
    let [mut facts, mut hints, mut words, mut changes, mut rows] = [const { Vec::new() }; 5];
    for fact in &question.facts {
        ours("would: ", fact, theme::STRONG, width, &mut facts);
    }
    if question.facts.is_empty() {
        ours("", "The agent does not say what exactly it would do.", theme::BAD, width, &mut facts);
    }
    for hint in &question.hints {
        ours("Mind: ", hint, theme::BAD, width, &mut hints);
    }
    quote(&sanitize::exact(&question.title), width, &mut words);
    if let Some(more) = &question.description {
        quote(&sanitize::exact(more), width, &mut words);
    }
    for diff in &question.changes {
        let names: Vec<_> = diff.paths().map(sanitize::exact_line).collect();
        ours("changes: ", &names.join(", "), theme::PLAIN, width, &mut changes);
        let patch = diff.patch().map(|patch| patch.text).unwrap_or_default();
        patch_rows(&patch, width, &mut changes);
    }
    if question.changes.is_empty() {
        for content in question.call.iter().filter_map(|call| call.content.set()).flat_map(|items| items.iter()) {
            if let ToolCallContent::Diff(diff) = content {
                ours("", "The agent's own diff:", theme::QUIET, width, &mut rows);
                patch_rows(&diff.patch().map(|patch| patch.text).unwrap_or_default(), width, &mut rows);
            }
        }
    }
    if let Some(input) = question.call.as_ref().and_then(|call| call.raw_input.set()).map(tieline::schema::Raw::get)
        && !matches!(input, "null" | "{}")
    {
        ours("with: ", &sanitize::clipped(input, MAX_INPUT_BYTES), theme::QUIET, width, &mut rows);
    }
    let because = format!("Asked because of {}.", sanitize::exact_line(&question.because.to_string()));
    ours("", &because, theme::QUIET, width, &mut rows);
    let kinds = [Kind::Judged, Kind::Judged, Kind::More, Kind::Changes, Kind::More];
    kinds.into_iter().zip([facts, hints, words, changes, rows]).map(|(kind, rows)| Part { kind, rows }).collect()
}

fn patch_rows(patch: &str, width: usize, rows: &mut Vec<Line<'static>>) {
    // The names of files stand above it, in our words.
    let heads = ["diff --git ", "index ", "--- ", "+++ ", "new file mode 100644"];
    let is_head = |line: &&str| !heads.iter().any(|head| line.starts_with(head));
    for line in sanitize::exact(patch).lines().filter(is_head) {
        let style = match line.as_bytes().first() {
            Some(b'+') => theme::GOOD,
            Some(b'-') => theme::BAD,
            _ => theme::QUIET,
        };
        // Every row has the sign of its line, so that none begins as our own do.
        let (sign, text) = match line.split_at_checked(1) {
            Some((sign @ ("+" | "-" | " "), text)) => (sign, text),
            _ => ("│", line),
        };
        rows.extend(behind([sign, sign], style, &text.replace('\t', "    "), style, width));
    }
}

fn ours(head: &str, text: &str, style: Style, width: usize, rows: &mut Vec<Line<'static>>) {
    rows.extend(behind([head, &" ".repeat(head.len())], theme::QUIET, text, style, width));
}

/// The agent's words, each row marked, so that they can't be taken for ours.
fn quote(safe: &str, width: usize, rows: &mut Vec<Line<'static>>) {
    for line in safe.lines() {
        rows.extend(behind(["│ ", "│ "], theme::QUIET, &line.replace('\t', "    "), theme::PLAIN, width));
    }
}
