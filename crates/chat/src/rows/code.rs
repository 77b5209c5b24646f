//! Code in colours: those of the user's palette. What is needed for it is loaded when code is first seen, in a thread; until then,
//! for languages that are not known and for long code it is plain.

use ratatui::style::Style;

/// For each line where a colour ends, and which.
pub type Colours = Vec<Vec<(usize, Style)>>;

#[cfg(feature = "highlight")]
pub use known::{colours, is_ready};

/// True if there can be colours now.
#[cfg(not(feature = "highlight"))]
pub fn is_ready() -> bool {
    false
}

/// The colours of lines of code, if the language is known.
#[cfg(not(feature = "highlight"))]
pub fn colours(_language: &str, _lines: &[(String, usize)]) -> Option<Colours> {
    None
}

#[cfg(feature = "highlight")]
mod known {
    use super::Colours;
    use crate::rows::look::palette;
    use ratatui::style::{Modifier, Style};
    use std::cell::RefCell;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use syntect::highlighting::{FontStyle, HighlightIterator, HighlightState, Highlighter, Style as Shade, Theme};
    use syntect::parsing::{ParseState, ScopeStack, SyntaxSet};
    use two_face::theme::EmbeddedThemeName;

    /// Longer code is plain, in bytes.
    const MAX_CODE_BYTES: usize = 32 << 10;
    /// Longer lines are plain, in bytes.
    const MAX_LINE_BYTES: usize = 500;

    static LOADED: OnceLock<(SyntaxSet, Theme)> = OnceLock::new();
    static BEGUN: AtomicBool = AtomicBool::new(false);

    thread_local! {
        /// Code that grows is the same as before up to its last line.
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }

    struct Last {
        language: String,
        /// The lines that are complete, with their colours, and how it goes on behind them.
        text: String,
        colours: Colours,
        parse: ParseState,
        highlight: HighlightState,
    }

    /// True if there can be colours now. Who asks first starts the loading.
    pub fn is_ready() -> bool {
        if !BEGUN.swap(true, Ordering::Relaxed) {
            let load = || {
                let theme = two_face::theme::extra().get(EmbeddedThemeName::Ansi).clone();
                let _ = LOADED.set((two_face::syntax::extra_newlines(), theme));
            };
            let _ = std::thread::Builder::new().name("tieline-colours".into()).spawn(load);
        }
        LOADED.get().is_some()
    }

    /// The colours of lines of code, if the language is known.
    pub fn colours(language: &str, lines: &[(String, usize)]) -> Option<Colours> {
        let (syntaxes, theme) = LOADED.get().filter(|_| !language.is_empty())?;
        let bytes: usize = lines.iter().map(|(line, _)| line.len()).sum();
        if bytes > MAX_CODE_BYTES {
            return None;
        }
        let syntax = syntaxes.find_syntax_by_token(language)?;
        let highlighter = Highlighter::new(theme);
        LAST.with_borrow_mut(|last| {
            let goes_on = last.take().filter(|last| last.language == language && begins(lines, &last.text));
            let mut state = goes_on.unwrap_or_else(|| Last {
                language: language.to_owned(),
                text: String::new(),
                colours: Vec::new(),
                parse: ParseState::new(syntax),
                highlight: HighlightState::new(&highlighter, ScopeStack::new()),
            });
            let mut open = None;
            for (line, _) in &lines[state.colours.len()..] {
                if line.ends_with('\n') {
                    let colours = shade(line, &mut state.parse, &mut state.highlight, syntaxes, &highlighter)?;
                    state.colours.push(colours);
                    state.text.push_str(line);
                } else {
                    let (mut parse, mut highlight) = (state.parse.clone(), state.highlight.clone());
                    open = Some(shade(line, &mut parse, &mut highlight, syntaxes, &highlighter)?);
                }
            }
            let colours = state.colours.iter().cloned().chain(open).collect();
            *last = Some(state);
            Some(colours)
        })
    }

    fn begins(lines: &[(String, usize)], text: &str) -> bool {
        let mut rest = text;
        for (line, _) in lines {
            match rest.strip_prefix(line.as_str()) {
                Some(after) => rest = after,
                None => break,
            }
        }
        rest.is_empty()
    }

    fn shade(
        line: &str,
        parse: &mut ParseState,
        highlight: &mut HighlightState,
        syntaxes: &SyntaxSet,
        highlighter: &Highlighter<'_>,
    ) -> Option<Vec<(usize, Style)>> {
        if line.len() > MAX_LINE_BYTES {
            return Some(Vec::new());
        }
        let ops = parse.parse_line(line, syntaxes).ok()?;
        let mut end = 0;
        let parts = HighlightIterator::new(highlight, &ops, line, highlighter);
        Some(
            parts
                .map(|(shade, part)| {
                    end += part.len();
                    (end, style(shade))
                })
                .collect(),
        )
    }

    /// The theme names colours of the palette by their numbers: `a` is 0 then, and 1 for the colour that text has.
    fn style(shade: Shade) -> Style {
        let mut style = Style::new();
        if shade.foreground.a == 0 {
            style.fg = palette(shade.foreground.r);
        }
        if shade.font_style.contains(FontStyle::BOLD) {
            style = style.add_modifier(Modifier::BOLD);
        }
        if shade.font_style.contains(FontStyle::ITALIC) {
            style = style.add_modifier(Modifier::ITALIC);
        }
        style
    }
}
