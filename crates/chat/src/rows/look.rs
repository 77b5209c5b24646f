//! How things look: the sixteen colours of the user's palette and nothing else, so that it can be read on light and dark.

use ratatui::style::{Color, Modifier, Style};

/// What stands before each row of somebody, so that nobody's text can pass for a line of ours.
pub mod mark {
    /// Of the user.
    pub const USER: &str = "› ";
    /// Of the agent.
    pub const AGENT: &str = "│ ";
    /// Of its thoughts.
    pub const THOUGHT: &str = "┊ ";
    /// Of what a tool brought.
    pub const TOOL: &str = "  │ ";
}

/// Text.
pub const PLAIN: Style = Style::new();
/// What matters less.
pub const QUIET: Style = Style::new().add_modifier(Modifier::DIM);
/// Headings and names.
pub const STRONG: Style = Style::new().add_modifier(Modifier::BOLD);
/// Code within text.
pub const CODE: Style = Style::new().fg(Color::Cyan);
/// Addresses.
pub const LINK: Style = Style::new().fg(Color::Blue).add_modifier(Modifier::UNDERLINED);
/// What is done or new.
pub const GOOD: Style = Style::new().fg(Color::Green);
/// What failed or is gone.
pub const BAD: Style = Style::new().fg(Color::Red);
/// What is at work or odd.
pub const BUSY: Style = Style::new().fg(Color::Yellow);
/// Of the user.
pub const USER: Style = Style::new().fg(Color::Magenta);
/// What is chosen.
pub const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
/// What waits for a person.
pub const ASKS: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);
/// Keys in the footer.
pub const KEY: Style = Style::new().fg(Color::Cyan);

/// One of the sixteen colours that the user has chosen, by its number; others are not shown.
pub fn palette(number: u8) -> Option<Color> {
    (number < 16).then_some(Color::Indexed(number))
}
