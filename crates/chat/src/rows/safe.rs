//! Text of others made safe before it is laid out, and the way back to the bytes it came from.

use std::borrow::Cow;
use tieline_client::sanitize::{self, Sanitizer};

/// Stands where something was taken out that drives terminals.
const GONE: char = '␛';

/// True if a sequence begins here that does nothing but colour.
fn is_colour(text: &str) -> bool {
    let parameter = |c: char| c.is_ascii_digit() || matches!(c, ';' | ':');
    text.strip_prefix("\x1b[").is_some_and(|rest| rest.trim_start_matches(parameter).starts_with('m'))
}

/// Text that can be shown, and where its bytes came from.
#[derive(Debug)]
pub struct Safe<'a> {
    /// The text.
    pub text: Cow<'a, str>,
    /// Places in the text with their places in the source, and whether what follows is the same; empty for clean text.
    map: Vec<(usize, usize, bool)>,
}

impl<'a> Safe<'a> {
    /// Makes a text safe.
    pub fn new(source: &'a str) -> Self {
        let safe = sanitize::text(source);
        if safe == source {
            return Self { text: Cow::Borrowed(source), map: Vec::new() };
        }
        let (mut sanitizer, mut text, mut map) = (Sanitizer::new(), String::with_capacity(source.len()), Vec::new());
        let (mut buffer, mut gone) = ([0; 4], false);
        for (at, c) in source.char_indices() {
            let shown = sanitizer.push(c.encode_utf8(&mut buffer));
            // What goes is marked once; colours hide nothing, and a carriage return is held back.
            let goes = shown.is_empty() && c != '\r';
            if goes && !std::mem::replace(&mut gone, true) && !is_colour(&source[at..]) {
                map.push((text.len(), at, false));
                text.push(GONE);
            }
            gone &= goes;
            let exact = shown.chars().eq([c]);
            let goes_on =
                map.last().is_some_and(|&(place, from, same)| same && exact && at - from == text.len() - place);
            if !goes_on {
                map.push((text.len(), at, exact));
            }
            text.push_str(&shown);
        }
        text.push_str(&sanitizer.finish().0);
        map.push((text.len(), source.len(), false));
        Self { text: Cow::Owned(text), map }
    }

    /// Where a byte of the text came from.
    pub fn source(&self, at: usize) -> usize {
        match self.map.partition_point(|(place, ..)| *place <= at).checked_sub(1) {
            Some(i) => {
                let (place, source, exact) = self.map[i];
                if exact { source + at - place } else { source }
            }
            None => at,
        }
    }
}
