//! The looks: default colours and the 16 of the palette only, so that every terminal is readable, light or dark.

use ratatui::style::{Color, Modifier, Style};

/// Plain text.
pub const PLAIN: Style = Style::new();
/// What is less important.
pub const DIM: Style = Style::new().add_modifier(Modifier::DIM);
/// What is more important.
pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
/// What is chosen.
pub const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
/// The user's own words.
pub const USER: Style = Style::new().fg(Color::Cyan);
/// What waits for a person.
pub const ASKS: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);
/// What went well.
pub const GOOD: Style = Style::new().fg(Color::Green);
/// What went wrong, and what is dangerous.
pub const BAD: Style = Style::new().fg(Color::Red);
/// Keys in the footer.
pub const KEY: Style = Style::new().fg(Color::Cyan);

/// The same without a colour, for `NO_COLOR`.
#[must_use]
pub fn bare(style: Style) -> Style {
    Style { fg: None, bg: None, underline_color: None, ..style }
}
