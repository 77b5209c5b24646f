//! Words and quotes in what the user wrote, and safe quoting of it.

/// One word, or one quoted argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Without quotes and without punctuation behind it.
    pub text: String,
    /// It stood in quotes or backticks.
    pub quoted: bool,
    /// Where it starts, with its quote.
    pub start: usize,
    /// Where it ends, with its quote, without punctuation.
    pub end: usize,
    /// The first punctuation mark right behind it.
    pub mark: Option<char>,
}

impl Word {
    /// Whether it is this word, unquoted, in any case.
    pub fn is(&self, word: &str) -> bool {
        !self.quoted && self.text.eq_ignore_ascii_case(word)
    }

    /// Whether it is one of these.
    pub fn any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    /// Whether it stands for a file or directory: quoted, or it looks like one.
    pub fn is_path(&self) -> bool {
        !self.text.trim().is_empty() && (self.quoted || looks_like_path(&self.text))
    }
}

/// Files that have no dot in their names.
const NAMES: &[&str] = &[
    "authors",
    "brewfile",
    "changelog",
    "codeowners",
    "containerfile",
    "contributing",
    "copying",
    "dockerfile",
    "gemfile",
    "gnumakefile",
    "jenkinsfile",
    "justfile",
    "license",
    "makefile",
    "procfile",
    "rakefile",
    "readme",
    "vagrantfile",
];

/// Whether an unquoted word is likely a path.
pub fn looks_like_path(text: &str) -> bool {
    if text.is_empty() || text.chars().any(|c| c.is_whitespace() || matches!(c, '`' | '"' | '<' | '>' | '|' | '(')) {
        return false;
    }
    let inner_dot = text.rfind('.').is_some_and(|dot| text.len() > dot + 1);
    text.contains('/') || text == "." || text == ".." || inner_dot || NAMES.iter().any(|n| text.eq_ignore_ascii_case(n))
}

/// Whether a word is a web address.
pub fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

/// Splits text into words. Quotes and backticks keep words together.
pub fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut at = 0;
    // Quotes that are never closed from here on, so that they are not looked for again and again.
    let mut open: Vec<char> = Vec::new();
    while let Some(rest) = text.get(at..) {
        let Some(skip) = rest.find(|c: char| !c.is_whitespace()) else { break };
        at += skip;
        let word = quoted(text, at, &mut open).unwrap_or_else(|| plain(text, at));
        let behind = text.get(word.end..).unwrap_or_default();
        at = word.end + behind.find(char::is_whitespace).unwrap_or(behind.len());
        found.push(word);
    }
    found
}

fn quoted(text: &str, start: usize, unclosed: &mut Vec<char>) -> Option<Word> {
    let rest = text.get(start..)?;
    let open = rest.chars().next()?;
    let close = match open {
        '"' | '\'' | '`' => open,
        '“' => '”',
        '‘' => '’',
        '«' => '»',
        _ => return None,
    };
    if unclosed.contains(&open) {
        return None;
    }
    let inner = start + open.len_utf8();
    let mut escaped = false;
    for (offset, c) in text.get(inner..)?.char_indices() {
        if escaped {
            escaped = false;
        } else if c == '\\' && open == '"' {
            escaped = true;
        } else if c == close {
            let end = inner + offset + c.len_utf8();
            let behind = text.get(end..)?;
            if behind.chars().next().is_none_or(|c| c.is_whitespace() || ".,;:!?)".contains(c)) {
                let raw = text.get(inner..inner + offset)?;
                let text = if open == '"' { unescape(raw) } else { raw.to_owned() };
                return Some(Word { text, quoted: true, start, end, mark: mark(behind) });
            }
        }
    }
    unclosed.push(open);
    None
}

fn plain(text: &str, start: usize) -> Word {
    let rest = text.get(start..).unwrap_or_default();
    let whole = rest.find(char::is_whitespace).map_or(rest, |end| rest.get(..end).unwrap_or(rest));
    let mut kept = whole.trim_end_matches([',', ';', ':', '!', '?']);
    if kept.ends_with('.') && !kept.ends_with("..") && kept.len() > 1 && !kept.ends_with("/.") {
        kept = kept.get(..kept.len() - 1).unwrap_or(kept);
    }
    if kept.is_empty() {
        kept = whole;
    }
    let end = start + kept.len();
    let mark = whole.get(kept.len()..).and_then(mark);
    Word { text: kept.to_owned(), quoted: false, start, end, mark }
}

fn mark(behind: &str) -> Option<char> {
    behind.chars().next().filter(|c| ".,;:!?".contains(*c))
}

fn unescape(raw: &str) -> String {
    let mut out = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        let meant = match chars.peek().filter(|_| c == '\\') {
            Some('n') => Some('\n'),
            Some('t') => Some('\t'),
            Some(same @ ('"' | '\\')) => Some(*same),
            _ => None,
        };
        out.push(meant.unwrap_or(c));
        meant.and_then(|_| chars.next());
    }
    out
}

/// A regular expression that finds exactly this text.
pub fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
