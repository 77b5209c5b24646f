//! Text of others made safe before it is laid out, and the way back to the bytes it came from.

use std::borrow::Cow;
use tieline_client::sanitize::{self, Sanitizer};

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
        let mut buffer = [0; 4];
        for (at, c) in source.char_indices() {
            let shown = sanitizer.push(c.encode_utf8(&mut buffer));
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
