//! Markdown becomes rows: headings, lists, quotes, tables that fit, code, addresses that can be seen.

use super::blocks::{Names, OPTIONS, key};
use super::look::{CODE, LINK, PLAIN, QUIET, STRONG};
use super::wrap::{Break, Piece, indent, width, wrap};
use super::{Row, code, table};
use pulldown_cmark::{BrokenLink, CodeBlockKind, CowStr, Event, HeadingLevel, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::Span;
use std::ops::Range;
use tieline_client::sanitize;

/// A list or quote deeper than this is not moved in any further.
const MAX_DEPTH: usize = 8;

/// Lays out Markdown that is safe already. The sources of the rows are where they begin in `text`; see [`super::wrap::seal`].
/// Says, too, if there is code in it that could be shown in colours.
pub fn markdown(text: &str, columns: usize, names: &Names, base: Style, coloured: bool) -> (Vec<Row>, bool) {
    let find = |link: BrokenLink<'_>| Some((CowStr::from(names.get(&key(&link.reference))?.clone()), CowStr::from("")));
    let parser = Parser::new_with_broken_link_callback(text, OPTIONS, Some(find));
    let mut page = Page { text, columns, base, coloured, ..Page::default() };
    for (event, range) in parser.into_offset_iter() {
        page.event(event, range);
    }
    page.flush(text.len());
    (page.rows, page.has_code)
}

/// The rows of lines, as they are.
pub fn lines(text: &str, columns: usize, style: Style, how: Break) -> Vec<Row> {
    let (mut rows, mut at) = (Vec::new(), 0);
    for line in text.split_inclusive('\n') {
        let words = line.strip_suffix('\n').unwrap_or(line);
        wrap(&[Piece::new(words, style, at)], columns, how, at, &mut rows);
        at += line.len();
    }
    rows
}

#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent of each other")]
struct Page<'a> {
    text: &'a str,
    columns: usize,
    base: Style,
    rows: Vec<Row>,
    /// The line that grows.
    line: Vec<Piece>,
    styles: Vec<Style>,
    /// Quotes and items, from the outermost.
    frames: Vec<Frame>,
    lists: Vec<Option<u64>>,
    links: Vec<(String, usize)>,
    code: Option<(String, Vec<(String, usize)>)>,
    table: Option<table::Table>,
    html: bool,
    coloured: bool,
    has_code: bool,
    /// A block ended here, so that the next one keeps its distance.
    gap: bool,
}

struct Frame {
    first: Span<'static>,
    rest: Span<'static>,
    /// Nothing stands in it yet.
    fresh: bool,
}

impl Page<'_> {
    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or(self.base)
    }

    fn push_style(&mut self, style: Style) {
        self.styles.push(self.style().patch(style));
    }

    fn event(&mut self, event: Event<'_>, range: Range<usize>) {
        match event {
            Event::Start(tag) => self.start(tag, &range),
            Event::End(tag) => self.end(tag, &range),
            Event::Text(text)
            | Event::Html(text)
            | Event::InlineHtml(text)
            | Event::FootnoteReference(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text) => self.words(&text, &range),
            Event::Code(text) => {
                let at = range.start + (range.len().saturating_sub(text.len())) / 2;
                self.push(&text, self.style().patch(CODE), at);
            }
            Event::SoftBreak | Event::HardBreak => match &mut self.table {
                Some(_) => self.push(" ", self.style(), range.start),
                None => self.flush(range.start),
            },
            Event::Rule => {
                self.space(range.start);
                let rule = "─".repeat(self.room().min(40));
                self.line.push(Piece::ours(rule, QUIET, range.start));
                self.flush(range.start);
                self.gap = true;
            }
            Event::TaskListMarker(done) => {
                self.line.push(Piece::ours(if done { "[x] " } else { "[ ] " }, self.style(), range.start));
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, range: &Range<usize>) {
        match tag {
            Tag::Paragraph => self.space(range.start),
            Tag::Heading { level, .. } => {
                self.space(range.start);
                let top = if level <= HeadingLevel::H2 { Modifier::UNDERLINED } else { Modifier::empty() };
                self.push_style(STRONG.add_modifier(top));
            }
            Tag::BlockQuote(_) => {
                self.flush(range.start);
                self.space(range.start);
                let bar = Span::styled("▎ ", QUIET);
                self.frames.push(Frame { first: bar.clone(), rest: bar, fresh: true });
            }
            Tag::CodeBlock(kind) => {
                self.flush(range.start);
                // A fence without a name is an empty row itself.
                self.gap &= !matches!(&kind, CodeBlockKind::Fenced(info) if info.is_empty());
                self.space(range.start);
                let name = match &kind {
                    CodeBlockKind::Fenced(info) => info.split([' ', ',', '{']).next().unwrap_or_default().to_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                if let CodeBlockKind::Fenced(info) = kind {
                    self.line.push(Piece::ours(sanitize::line(&info), QUIET, range.start));
                    self.emit(range.start, Break::Words);
                }
                self.code = Some((name, Vec::new()));
            }
            Tag::List(start) => {
                self.flush(range.start);
                if self.lists.is_empty() {
                    self.space(range.start);
                }
                self.gap = false;
                self.lists.push(start);
            }
            Tag::Item => {
                self.flush(range.start);
                self.space(range.start);
                let mark = match self.lists.last_mut() {
                    Some(Some(number)) => {
                        *number = number.saturating_add(1);
                        format!("{}. ", *number - 1)
                    }
                    _ => if self.lists.len() % 2 == 1 { "• " } else { "◦ " }.to_owned(),
                };
                let rest = Span::raw(" ".repeat(width(&mark)));
                self.frames.push(Frame { first: Span::styled(mark, self.base), rest, fresh: true });
            }
            Tag::HtmlBlock => {
                self.space(range.start);
                self.html = true;
                self.push_style(QUIET);
            }
            Tag::Table(_) => {
                self.flush(range.start);
                self.space(range.start);
                self.table = Some(table::Table::default());
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row(range.start);
                }
            }
            Tag::Emphasis => self.push_style(Style::new().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.push_style(STRONG),
            Tag::Strikethrough => self.push_style(Style::new().add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.line.len()));
                self.push_style(LINK);
            }
            Tag::Image { dest_url, .. } => {
                self.links.push((dest_url.to_string(), self.line.len()));
                self.line.push(Piece::ours("[image: ", self.style(), range.start));
                self.push_style(Style::new());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd, range: &Range<usize>) {
        match tag {
            TagEnd::Paragraph => {
                self.flush(range.start);
                self.gap = true;
            }
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.flush(range.start);
                self.gap = true;
            }
            TagEnd::BlockQuote(_) => {
                self.flush(range.start);
                self.close(range.start);
                self.gap = true;
            }
            TagEnd::CodeBlock => {
                if let Some((name, lines)) = self.code.take() {
                    self.gap = self.code_rows(&name, lines, range);
                }
            }
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap = self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush(range.start);
                self.close(range.start);
            }
            TagEnd::HtmlBlock => {
                self.flush(range.start);
                self.styles.pop();
                (self.html, self.gap) = (false, true);
            }
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let rows = table.rows(self.room(), range.end);
                    self.framed(rows);
                }
                self.gap = true;
            }
            TagEnd::TableCell => {
                let pieces = std::mem::take(&mut self.line);
                if let Some(table) = &mut self.table {
                    table.cell(pieces);
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => _ = self.styles.pop(),
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                let Some((to, from)) = self.links.pop() else { return };
                let words: String = self.line.iter().skip(from).map(|piece| &*piece.text).collect();
                let image = if tag == TagEnd::Image { "]" } else { "" };
                let to = sanitize::exact_line(&to);
                let shown = to.is_empty() || words == to || format!("mailto:{words}") == to;
                let address = if shown { image.to_owned() } else { format!("{image} ({to})") };
                self.line.push(Piece::ours(address, self.style().patch(QUIET), range.end.saturating_sub(1)));
            }
            _ => {}
        }
    }

    fn words(&mut self, text: &str, range: &Range<usize>) {
        if let Some((_, lines)) = &mut self.code {
            let mut at = range.start;
            for line in text.split_inclusive('\n') {
                match lines.last_mut().filter(|(last, _)| !last.ends_with('\n')) {
                    Some((last, _)) => last.push_str(line),
                    None => lines.push((line.to_owned(), at)),
                }
                at += line.len();
            }
        } else if self.html {
            let mut at = range.start;
            for line in text.split_inclusive('\n') {
                self.push(line.trim_end_matches('\n'), self.style(), at);
                if line.ends_with('\n') {
                    self.emit(at, Break::Words);
                }
                at += line.len();
            }
        } else {
            self.push(text, self.style(), range.start);
        }
    }

    /// Adds words to the line. What is not in the source as it is was made of `&#…;` and the like: anything can come out of that.
    fn push(&mut self, text: &str, style: Style, at: usize) {
        let exact = self.text.get(at..).is_some_and(|source| source.starts_with(text)) && !text.contains('\n');
        self.line.push(if exact { Piece::new(text, style, at) } else { Piece::ours(sanitize::line(text), style, at) });
    }

    /// An empty row if a block ended before.
    fn space(&mut self, at: usize) {
        if std::mem::take(&mut self.gap) {
            self.framed(vec![Row { source: at..at, ..Row::default() }]);
        }
    }

    /// The columns that quotes and items take.
    fn taken(&self) -> usize {
        self.frames.iter().take(MAX_DEPTH).map(|frame| width(&frame.rest.content)).sum()
    }

    fn room(&self) -> usize {
        self.columns.saturating_sub(self.taken()).max(self.columns.min(8)).max(1)
    }

    fn flush(&mut self, at: usize) {
        if !self.line.is_empty() {
            self.emit(at, Break::Words);
        }
    }

    /// An item or quote ends; one in which nothing stands has a row all the same.
    fn close(&mut self, at: usize) {
        if self.frames.last().is_some_and(|frame| frame.fresh) {
            self.emit(at, Break::Words);
        }
        self.frames.pop();
    }

    fn emit(&mut self, at: usize, how: Break) {
        let mut rows = Vec::new();
        let at = self.line.first().map_or(at, |piece| piece.at);
        wrap(&std::mem::take(&mut self.line), self.room(), how, at, &mut rows);
        self.framed(rows);
    }

    /// The rows of code. True if what follows has to keep its distance.
    fn code_rows(&mut self, name: &str, lines: Vec<(String, usize)>, range: &Range<usize>) -> bool {
        self.has_code |= !name.is_empty() && !lines.is_empty();
        let colours = if self.coloured { code::colours(name, &lines) } else { None };
        for (number, (line, at)) in lines.iter().enumerate() {
            let words = line.trim_end_matches('\n');
            match colours.as_ref().and_then(|colours| colours.get(number)) {
                Some(parts) => {
                    let mut from = 0;
                    for (end, style) in parts {
                        let end = (*end).min(words.len());
                        if let Some(part) = words.get(from..end).filter(|part| !part.is_empty()) {
                            self.line.push(Piece::new(part, *style, at + from));
                            from = end;
                        }
                    }
                    if from < words.len() {
                        self.line.push(Piece::new(&words[from..], PLAIN, at + from));
                    }
                }
                None => self.line.push(Piece::new(words, CODE, *at)),
            }
            self.emit(*at, Break::Anywhere);
        }
        // The closing fence has a row of its own, so that copying the code is copying code.
        let code_end = lines.last().map_or(range.start, |(line, at)| at + line.len());
        let fence = self.text.get(code_end..range.end).is_some_and(|rest| !rest.trim().is_empty()) && !lines.is_empty();
        if fence {
            self.framed(vec![Row { source: code_end..code_end, ..Row::default() }]);
        }
        !fence
    }

    /// Puts what stands around the rows before them.
    fn framed(&mut self, mut rows: Vec<Row>) {
        // Rows that go on in the room that is left: the narrowest frames are left out where there is none.
        let fits = self.room() + self.taken() <= self.columns;
        for frame in self.frames.iter_mut().take(MAX_DEPTH).rev() {
            let first = if std::mem::take(&mut frame.fresh) { &frame.first } else { &frame.rest };
            if fits {
                indent(&mut rows, first, &frame.rest);
            }
        }
        self.rows.append(&mut rows);
    }
}
