//! The screen as a function of the state.

use crate::ask;
use crate::keys::{self, Deed};
use crate::pick;
use crate::rows::Look;
use crate::rows::look as theme;
use crate::state::{For, Over, State};
use crate::tab::Tab;
use crate::text::fit;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Position, Rect};
use ratatui::text::{Line, Span};
use std::time::Instant;
use tieline::schema::{ConfigCategory, ConfigOption};
use tieline_client::live::State as Doing;
use tieline_client::sanitize;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// So many columns are left free at both edges.
const MARGIN: u16 = 1;
/// So many rows the composer has at most, and so many of the screen's.
const MAX_COMPOSER_ROWS: u16 = 10;
/// So many prompts that wait are shown.
const MAX_WAITING_ROWS: usize = 3;

/// So long is the name of a mode or a model at most.
const MAX_NAME: usize = 24;

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &mut State, now: Instant) {
    let area = frame.area();
    let caret = paint(state, area, frame.buffer_mut(), now);
    if let Some(caret) = caret {
        frame.set_cursor_position(caret);
    }
}

/// The same into a buffer. Gives the place of the caret.
pub fn paint(state: &mut State, area: Rect, buffer: &mut Buffer, now: Instant) -> Option<Position> {
    if area.width < 10 || area.height < 4 {
        buffer.set_string(area.x, area.y, fit("too small", area.width.into()), theme::PLAIN);
        return None;
    }
    let tab = state.tab();
    let width = area.width - 2 * MARGIN;
    let head_rows = u16::from(area.height >= 16 || state.tabs.len() > 1);
    let [head, mut rest] = Layout::vertical([Constraint::Length(head_rows), Constraint::Fill(1)]).areas(area);
    let foot = cut(&mut rest, 1);
    let most = (area.height / 3).clamp(1, MAX_COMPOSER_ROWS);
    let composer = cut(&mut rest, tab.composer.height(width - 2, most).into());
    let border = cut(&mut rest, 1);
    let hints = tab.composer.hints(width, usize::from((area.height / 4).max(1)));
    let hints_area = cut(&mut rest, hints.len());
    // What lies over the conversation has the room.
    let has_keys = tab.dock.since.is_some() && state.over.is_none();
    // On a small screen a question has it, too.
    let most = if has_keys && area.height < 20 { 0 } else { area.height / 4 };
    let queue = waiting_rows(tab, width);
    let queue_area = cut(&mut rest, queue.len().min(most.into()));
    // A question that has the keys takes as much as it needs; a few rows of the conversation stay in view, on a small screen one.
    let stays = if area.height < 20 { 1 } else { 3 };
    let room = if has_keys { rest.height.saturating_sub(stays).max(rest.height / 2) } else { 3 };
    let dock = ask::rows(&tab.dock, has_keys, &tab.questions, (width, room), now);
    let dock_area = cut(&mut rest, dock.len().min(room.into()));

    state.docked = dock_area;
    // Rules go from edge to edge, all else keeps its distance.
    if dock_area.height > 0 {
        let rule = "━".repeat(area.width.into());
        buffer.set_string(area.x, dock_area.y, rule, theme::ASKS);
    }
    buffer.set_line(area.x, border.y, &composer_border(state.tab(), area.width), area.width);
    lines(&[header(state, width)], inner(head), buffer);
    lines(&dock, inner(dock_area), buffer);
    lines(&queue, inner(queue_area), buffer);
    lines(&hints, inner(hints_area), buffer);
    lines(&[footer(state, width, now)], inner(foot), buffer);
    let composer = inner(composer);
    let typed = Rect { x: composer.x + 2, width: composer.width - 2, ..composer };
    buffer.set_string(composer.x, composer.y, "❯", theme::USER);
    state.tab_mut().composer.draw(typed, buffer);
    let mut caret = Some(state.tab().composer.cursor(typed)).filter(|_| state.tab().dock.since.is_none());

    let search = matches!(state.over, Some(Over::Line(For::Search, _)));
    if state.over.is_some() {
        caret = over(state, inner(rest), buffer);
    }
    // What is found is seen below what is looked for.
    let above = if search { rest.height.min(2) } else { 0 };
    let rest = Rect { y: rest.y + above, height: rest.height - above, ..rest };
    if search || state.over.is_none() {
        let look = Look { width: rest.width, detail: state.detail, open: false, side_by_side: rest.width >= 120, now };
        let tab = state.tab_mut();
        tab.list.draw(&tab.talk, &mut tab.cache, &look, rest, buffer);
    }
    agree(area, buffer);
    caret
}

/// Terminals disagree about how wide flags, families and pictures made of several characters are, and whether letters that are written
/// as one are, and leave pieces of them behind. What all of them draw alike stands there instead: the letters of a flag, the first
/// picture of a sequence, each letter with its marks in a cell of its own.
fn agree(area: Rect, buffer: &mut Buffer) {
    let letter = |c: char| char::from_u32(u32::from(c).checked_sub(0x1f1e6)? + 0x41).filter(char::is_ascii_uppercase);
    let joined = |c: char| matches!(u32::from(c), 0x200d | 0xfe0e | 0xfe0f | 0x20e3 | 0x1f3fb..=0x1f3ff);
    for y in area.y..area.bottom() {
        for x in area.x..area.right() {
            let symbol = buffer[(x, y)].symbol();
            let Some(first) = symbol.chars().next().filter(|first| symbol.len() > first.len_utf8()) else { continue };
            let mut parts: Vec<String> = Vec::new();
            if symbol.chars().any(joined) && (first.is_ascii() || first >= '\u{200d}') {
                parts.push(first.into());
                parts.resize(1 + symbol.width().saturating_sub(parts[0].width()), " ".into());
            } else {
                for c in symbol.chars() {
                    match parts.last_mut().filter(|_| c.width() == Some(0)) {
                        Some(part) => part.push(c),
                        None => parts.push(letter(c).unwrap_or(c).into()),
                    }
                }
            }
            // Whoever counts these otherwise is not helped by parts that would stand on the next letter.
            if parts.iter().map(|part| part.width()).sum::<usize>() != symbol.width() {
                continue;
            }
            let (style, mut x) = (buffer[(x, y)].style(), x);
            for part in parts {
                if let Some(cell) = buffer.cell_mut((x, y)) {
                    cell.set_symbol(&part).set_style(style);
                }
                x += u16::try_from(part.width().max(1)).unwrap_or(1);
            }
        }
    }
}

/// Cuts rows off at the bottom of what is left.
fn cut(rest: &mut Rect, rows: usize) -> Rect {
    let height = u16::try_from(rows).unwrap_or(u16::MAX).min(rest.height);
    rest.height -= height;
    Rect { y: rest.bottom(), height, ..*rest }
}

/// Without the margins.
fn inner(area: Rect) -> Rect {
    Rect { x: area.x + MARGIN, width: area.width - 2 * MARGIN, ..area }
}

fn lines(rows: &[Line<'_>], area: Rect, buffer: &mut Buffer) {
    for (y, row) in (area.y..area.bottom()).zip(rows) {
        buffer.set_line(area.x, y, row, area.width);
    }
}

fn over(state: &mut State, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let width = usize::from(area.width);
    match state.over.as_mut()? {
        Over::Pick(picker) => lines(&picker.rows(area.width, area.height), area, buffer),
        Over::Read(reading) => {
            let room = usize::from(area.height).saturating_sub(2);
            let (text, line) = reading.page(width, room);
            let mut rows = vec![Line::styled(fit(&reading.title, width), theme::STRONG)];
            rows.extend(text.into_iter().map(|row| {
                let style = match row.trim_start().chars().next() {
                    Some('+') => theme::GOOD,
                    Some('-' | '✗') => theme::BAD,
                    _ => theme::PLAIN,
                };
                Line::styled(row, style)
            }));
            rows.resize(room + 1, Line::default());
            let count = reading.lines.len();
            let place = format!("{} of {count} · ↑↓ PageUp PageDown · Esc", line.min(count));
            rows.push(Line::styled(fit(&place, width), theme::QUIET));
            lines(&rows, area, buffer);
        }
        Over::Line(purpose, text) => {
            let title = match purpose {
                For::Search => "Look for · Enter ↑ before · ↓ next · Esc",
                For::Command => "The agent's command (Enter starts it in a new tab)",
                For::Name(_) => "A name for the session (Enter keeps it)",
            };
            let line = Line::from(vec![Span::styled("» ", theme::KEY), Span::raw(sanitize::line(text))]);
            lines(&[Line::styled(fit(title, width), theme::STRONG), line], area, buffer);
            let x = u16::try_from(sanitize::line(text).width() + 2).unwrap_or(u16::MAX);
            return Some(Position { x: area.x + x.min(area.width - 1), y: area.y + 1 });
        }
    }
    None
}

/// How it stands with a tab, in one character.
fn mark(tab: &Tab) -> &'static str {
    match tab.state {
        _ if !tab.questions.is_empty() => "?",
        Doing::Running | Doing::Cancelling | Doing::Asking | Doing::Opening => "…",
        Doing::Lost => "✗",
        Doing::Idle if tab.attention => "●",
        Doing::Idle => " ",
    }
}

/// The title of the window: how it stands with each tab, and what is shown.
pub fn title(state: &State) -> String {
    let marks: String = state.tabs.iter().map(mark).collect();
    let tab = state.tab();
    let folder = tab.cwd.file_name().unwrap_or_default().to_string_lossy();
    format!("{}{} · {}", marks.trim_start(), sanitize::line(&tab.agent), sanitize::line(&folder))
}

/// The tabs; or what the only one is.
fn header(state: &State, width: u16) -> Line<'static> {
    let mut spans = Vec::new();
    let single = state.tabs.len() == 1;
    for (at, tab) in state.tabs.iter().enumerate() {
        let mark = mark(tab);
        let name = sanitize::line(&tab.agent);
        let text = if single { format!("{name} ") } else { format!("{}{mark}{} ", at + 1, fit(&name, 16)) };
        spans.push(Span::styled(text, if at == state.at && !single { theme::CHOSEN } else { theme::STRONG }));
    }
    let used: usize = spans.iter().map(Span::width).sum();
    let folder = sanitize::line(&state.tab().cwd.to_string_lossy());
    spans.push(Span::styled(fit(&format!(" {folder}"), usize::from(width).saturating_sub(used)), theme::QUIET));
    Line::from(spans)
}

/// What waits, and what "now" would do.
fn waiting_rows(tab: &Tab, width: u16) -> Vec<Line<'static>> {
    let row = |text: String| Line::styled(fit(&text, width.into()), theme::QUIET);
    let waits = tab.queue.iter().take(MAX_WAITING_ROWS).enumerate();
    let waits = waits.map(|(at, queued)| row(format!("{} waits: {}", at + 1, pick::words(&queued.parts))));
    let mut rows: Vec<_> = waits.collect();
    if let Some(first) = tab.queue.first() {
        let more = tab.queue.len().saturating_sub(MAX_WAITING_ROWS);
        let more = if more > 0 { format!("… and {more} more · ") } else { String::new() };
        let now = match tab.runs() {
            _ if tab.reason => "sends it without your reason",
            true => tab.about.now.of(&first.parts).words(),
            false => "sends it",
        };
        let enter = if tab.questions.is_empty() { format!("Empty Enter {now} · ") } else { String::new() };
        rows.push(row(format!("{more}{enter}Ctrl+Q edits")));
    }
    rows
}

fn composer_border(tab: &Tab, width: u16) -> Line<'static> {
    let mut about: Vec<String> = Vec::new();
    let matters =
        |option: &&ConfigOption| matches!(option.category, None | Some(ConfigCategory::Mode | ConfigCategory::Model));
    let names: Vec<String> = tab.about.options.iter().filter(matters).filter_map(pick::chosen).collect();
    // Where there is room names are whole.
    let whole = names.iter().map(|name| name.width() + 3).sum::<usize>() <= usize::from(width) / 2;
    about.extend(names.iter().map(|name| fit(name, if whole { usize::MAX } else { MAX_NAME })));
    if let Some(usage) = tab.talk.usage() {
        let size = if usage.size > 0 { format!("/{}k", usage.size / 1000) } else { String::new() };
        about.push(format!("{}k{size} tokens", usage.used / 1000));
        about.extend(usage.cost.map(|cost| format!("{:.2} {}", cost.amount, sanitize::line(&cost.currency))));
    }
    let about = fit(&about.join(" · "), usize::from(width).saturating_sub(6));
    let tail = if about.is_empty() { String::new() } else { format!(" {about} ──") };
    let line = "─".repeat(usize::from(width).saturating_sub(tail.width()));
    Line::styled(line + &tail, theme::QUIET)
}

/// What goes on, and the keys that matter now.
fn footer(state: &State, width: u16, now: Instant) -> Line<'static> {
    let (width, tab) = (usize::from(width), state.tab());
    if let Some((text, _)) = &state.said {
        return Line::styled(fit(&sanitize::line(text), width), theme::ASKS);
    }
    let age = tab.age(now).as_secs();
    // One glyph a second: it moves with the clock that is shown anyway.
    let glyph = ["◐", "◓", "◑", "◒"][usize::try_from(age % 4).unwrap_or(0)];
    let (doing, style) = match tab.state {
        _ if tab.closed => ("closed".to_owned(), theme::BAD),
        Doing::Opening => (format!("{glyph} {} · {age} s", tab.phase.waits_for()), theme::QUIET),
        Doing::Idle if tab.shells > 0 => ("your own line runs · Esc stops it".to_owned(), theme::USER),
        Doing::Idle => ("ready".to_owned(), theme::GOOD),
        Doing::Running => (format!("{glyph} works · {age} s · Esc stops"), theme::USER),
        Doing::Asking if tab.dock.since.is_some() => (format!("{glyph} waits for you"), theme::ASKS),
        Doing::Asking => (format!("{glyph} waits for you · Tab answers"), theme::ASKS),
        Doing::Cancelling => (format!("{glyph} asked to stop {age} s ago · Esc again: wait or kill"), theme::ASKS),
        Doing::Lost => ("the agent is gone · Enter starts it again".to_owned(), theme::BAD),
    };
    let doing = fit(&doing, width);
    let mut spans = vec![Span::styled(doing.clone(), style)];
    let mut used = doing.width();
    let end = (!tab.list.follows()).then_some((Deed::End, "end"));
    let mouse = if state.mouse { "mouse off" } else { "mouse on" };
    let keys = [
        (Deed::Palette, "all"),
        (Deed::Help, "keys"),
        (Deed::Detail, "detail"),
        (Deed::Mouse, mouse),
        (Deed::Quit, "leave"),
    ];
    for (deed, what) in end.into_iter().chain(keys) {
        let (key, what) = (format!("  {}", keys::name(deed)), format!(" {what}"));
        used += key.width() + what.width();
        if used > width {
            break;
        }
        spans.extend([Span::styled(key, theme::KEY), Span::styled(what, theme::QUIET)]);
    }
    Line::from(spans)
}
