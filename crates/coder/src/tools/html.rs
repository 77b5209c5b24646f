//! Turns a web page into text that can be read: no tags, no scripts, links and headings kept simply.

use std::fmt::Write as _;

/// Elements whose content nobody reads.
const SILENT: &str = "script style head noscript template svg iframe select";
/// Elements that begin on a line of their own.
const BLOCKS: &str = "address article aside blockquote br dd div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 \
    header hr li main nav ol p pre section table tr ul";
/// What stands behind `&` and before `;`, each with its character.
const ENTITIES: &str = "amp & lt < gt > quot \" apos ' copy © mdash — ndash – hellip … laquo « raquo » ldquo “ rdquo ” lsquo ‘ \
    rsquo ’ bull • middot · times × rarr → larr ← euro €";

fn is_in(list: &str, name: &str) -> bool {
    list.split(' ').any(|known| known == name)
}

/// True if a text is a page, by its content type or by how it begins.
pub fn is_page(kind: &str, text: &str) -> bool {
    if !kind.is_empty() {
        return kind.contains("html");
    }
    let start = text.trim_start().get(..14).unwrap_or_default().to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html")
}

/// The page as text.
pub fn text_of(page: &str) -> String {
    let mut out = Text::default();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        out.words(&rest[..at]);
        rest = &rest[at..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let Some((tag, after)) = tag(rest) else {
            out.words("<");
            rest = &rest[1..];
            continue;
        };
        rest = after;
        if is_in(SILENT, &tag.name) && !tag.closing {
            rest = behind(rest, &tag.name);
            continue;
        }
        out.tag(&tag);
    }
    out.words(rest);
    out.finish()
}

struct Tag<'a> {
    name: String,
    closing: bool,
    inside: &'a str,
}

impl Tag<'_> {
    /// The value of an attribute, roughly.
    fn attribute(&self, name: &str) -> Option<String> {
        let lower = self.inside.to_ascii_lowercase();
        let at = lower.find(&format!("{name}="))? + name.len() + 1;
        let value = self.inside.get(at..)?;
        let value = match value.chars().next()? {
            quote @ ('"' | '\'') => value[1..].split(quote).next()?,
            _ => value.split(|c: char| c.is_whitespace() || c == '>').next()?,
        };
        Some(decode(value))
    }
}

/// A tag at the start of a text, and what follows it. A `>` in quotes does not end it.
fn tag(text: &str) -> Option<(Tag<'_>, &str)> {
    let inside = text.strip_prefix('<')?;
    let (closing, named) = inside.strip_prefix('/').map_or((false, inside), |rest| (true, rest));
    if !named.starts_with(|c: char| c.is_ascii_alphabetic() || c == '!' || c == '?') {
        return None;
    }
    let mut quote = None;
    let end = inside.find(|c: char| {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
        quote.is_none() && c == '>'
    });
    // A quote that never ends must not swallow the page.
    let end = end.or_else(|| inside.find('>'))?;
    let name = named.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default().to_ascii_lowercase();
    Some((Tag { name, closing, inside: &inside[..end] }, &inside[end + 1..]))
}

/// What follows the end of an element.
fn behind<'a>(text: &'a str, name: &str) -> &'a str {
    let mut rest = text;
    while let Some(at) = rest.find("</") {
        rest = &rest[at..];
        match tag(rest) {
            Some((end, after)) if end.name == name => return after,
            _ => rest = &rest[2..],
        }
    }
    ""
}

#[derive(Default)]
struct Text {
    out: String,
    link: Option<(usize, String)>,
    exact: bool,
}

impl Text {
    fn words(&mut self, raw: &str) {
        let text = decode(raw);
        if self.exact {
            self.out.push_str(&text);
            return;
        }
        for word in text.split_inclusive(char::is_whitespace) {
            self.out.push_str(word.trim_end());
            if word.ends_with(char::is_whitespace) && !self.out.is_empty() && !self.out.ends_with([' ', '\n']) {
                self.out.push(' ');
            }
        }
    }

    fn line(&mut self) {
        let end = self.out.trim_end_matches(' ').len();
        self.out.truncate(end);
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    fn tag(&mut self, tag: &Tag<'_>) {
        match (&*tag.name, tag.closing) {
            ("pre", closing) => {
                self.line();
                self.exact = !closing;
            }
            ("a", false) => self.link = tag.attribute("href").map(|target| (self.out.len(), target)),
            ("a", true) => {
                if let Some((start, target)) = self.link.take()
                    && target.starts_with("http")
                    && self.out.get(start..).is_some_and(|said| !said.trim().is_empty() && said.trim() != target)
                {
                    let _ = write!(self.out, " ({target})");
                }
            }
            ("img", false) => {
                if let Some(words) = tag.attribute("alt").filter(|words| !words.trim().is_empty()) {
                    let _ = write!(self.out, "[{}]", words.trim());
                }
            }
            ("td" | "th", true) => self.out.push_str(" | "),
            (name, closing) if is_in(BLOCKS, name) => {
                self.line();
                if !closing {
                    match name.as_bytes() {
                        b"li" => self.out.push_str("- "),
                        [b'h', level @ b'1'..=b'6'] => {
                            self.line();
                            self.out.push_str(&"#".repeat(usize::from(level - b'0')));
                            self.out.push(' ');
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn finish(self) -> String {
        let mut text = String::with_capacity(self.out.len());
        let mut empty = 0;
        for line in self.out.trim().lines().map(str::trim_end) {
            empty = if line.is_empty() { empty + 1 } else { 0 };
            if empty < 2 {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

/// Puts characters in place of `&amp;` and the like.
fn decode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = rest[1..].find(';').filter(|end| *end <= 10).and_then(|end| {
            let name = &rest[1..=end];
            let number = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => digits.parse().ok(),
            });
            let words: Vec<&str> = ENTITIES.split(' ').collect();
            let named = words.chunks(2).find(|pair| pair[0] == name).and_then(|pair| pair[1].chars().next());
            let named = if name == "nbsp" { Some(' ') } else { named };
            number.and_then(char::from_u32).or(named).map(|c| (c, end + 2))
        });
        let (c, end) = known.unwrap_or(('&', 1));
        out.push(c);
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_become_text() {
        let check = |page: &str, expect: &str| assert_eq!(text_of(page).trim_end(), expect, "{page}");
        check("<p>Hello,\n   <b>world</b> &amp; all &#x41;&#66;</p>", "Hello, world & all AB");
        check("<head><title>x</title></head><script>if (a<b) {}</script>seen<STYLE>p{}</style>", "seen");
        check("<h2>Title</h2><ul><li>one<li>two</ul>", "## Title\n\n- one\n- two");
        check(r#"See <a href="https://a.example/x">the page</a>."#, "See the page (https://a.example/x).");
        check("<a href='/local'>here</a>", "here");
        check("<pre>a\n  b</pre>after", "a\n  b\nafter");
        check("1 < 2 &unknown; <!-- no --> <img alt='a dog'>", "1 < 2 &unknown; [a dog]");
        check(r#"<p title="a > b">in"#, "in");
        check("<table><tr><td>a<td>b</td></tr></table>", "ab |");
        check("<script>never ended", "");
        assert!(
            is_page("text/html; charset=utf-8", "")
                && is_page("", " <!DOCTYPE html>")
                && !is_page("text/plain", "<html>")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "([<>/&;'\"=!a-zé -]|script|<a href=|</pre>|&#x|<!--){0,60}") {
            let _ = text_of(&text);
        }
    }
}
