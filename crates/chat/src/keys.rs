//! The keys: one table of key, deed, help and footer. Everything else in the chat asks it; so do help and palette.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key, or a line of the palette, does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// All deeds, to be searched.
    Palette,
    /// The keys, explained.
    Help,
    /// What was said before, to be said again.
    History,
    /// The sessions of the journal.
    Sessions,
    /// The agents, to begin a session in a new tab.
    Agents,
    /// Modes, models and options of the session.
    Options,
    /// The turns that changed files, to be taken back.
    Undo,
    /// What waits.
    Queue,
    /// The first of what waits, now.
    SendNow,
    /// The frames between us and the agent.
    Traffic,
    /// Stops the turn; asks before it kills.
    Cancel,
    /// Kills the agent.
    Kill,
    /// Starts an agent that is gone again, or goes on with the queue.
    Revive,
    /// More or less detail.
    Detail,
    /// Opens or closes one item where it stands.
    Open,
    /// The item above.
    ItemUp,
    /// The item below.
    ItemDown,
    /// Copies the item, or the last answer.
    Copy,
    /// A screen up.
    PageUp,
    /// A screen down.
    PageDown,
    /// To the beginning.
    Top,
    /// To the end, and along with it.
    End,
    /// Looks for text in the conversation.
    Search,
    /// A session with the same agent in a new tab.
    NewTab,
    /// The next tab.
    NextTab,
    /// The tab before.
    PreviousTab,
    /// Closes the tab.
    CloseTab,
    /// Captures the mouse, or gives it back.
    Mouse,
    /// Writes the conversation into the scrollback.
    Print,
    /// Draws anew.
    Redraw,
    /// Stops like any job.
    Suspend,
    /// Leaves.
    Quit,
}

/// One key.
#[derive(Debug)]
pub struct Binding {
    /// As it is written for people; empty if only the palette has it.
    pub name: &'static str,
    code: KeyCode,
    modifiers: KeyModifiers,
    /// What it does.
    pub deed: Deed,
    /// What that is, in a few words.
    pub help: &'static str,
}

const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;
const NONE: KeyModifiers = KeyModifiers::NONE;

const fn key(name: &'static str, code: KeyCode, modifiers: KeyModifiers, deed: Deed, help: &'static str) -> Binding {
    Binding { name, code, modifiers, deed, help }
}

/// All of them, in the order in which they are explained.
pub const KEYS: &[Binding] = &[
    key("Ctrl+P", KeyCode::Char('p'), CTRL, Deed::Palette, "everything that can be done, to be searched"),
    key("F1", KeyCode::F(1), NONE, Deed::Help, "the keys (also ? where nothing is typed)"),
    key("F2", KeyCode::F(2), NONE, Deed::Sessions, "sessions: go on, rename, export, delete"),
    key("F3", KeyCode::F(3), NONE, Deed::Options, "mode, model and options of this session"),
    key("F4", KeyCode::F(4), NONE, Deed::Agents, "another agent, in a new tab"),
    key("F5", KeyCode::F(5), NONE, Deed::Undo, "take changes back (undo): a turn, a file, a hunk"),
    key("F6", KeyCode::F(6), NONE, Deed::Mouse, "give the mouse to the terminal, or take it"),
    key("F7", KeyCode::F(7), NONE, Deed::Traffic, "the frames between us and the agent"),
    key("F8", KeyCode::F(8), NONE, Deed::Print, "write the conversation into the terminal's scrollback"),
    key("Esc", KeyCode::Esc, NONE, Deed::Cancel, "stop the turn (Ctrl+C, too)"),
    key("", KeyCode::Null, NONE, Deed::Kill, "kill the agent; the session can be taken up again"),
    key("", KeyCode::Null, NONE, Deed::Revive, "start a lost agent again, or go on with the queue"),
    key("Ctrl+Q", KeyCode::Char('q'), CTRL, Deed::Queue, "what waits: send now, edit, reorder, drop"),
    key("", KeyCode::Null, NONE, Deed::SendNow, "send the first of the queue now (Enter where nothing is typed)"),
    key("Ctrl+O", KeyCode::Char('o'), CTRL, Deed::Detail, "less or more detail"),
    key("Alt+Up", KeyCode::Up, ALT, Deed::ItemUp, "choose the item above"),
    key("Alt+Down", KeyCode::Down, ALT, Deed::ItemDown, "choose the item below"),
    key("Alt+O", KeyCode::Char('o'), ALT, Deed::Open, "open or close the chosen item where it stands"),
    key("Alt+C", KeyCode::Char('c'), ALT, Deed::Copy, "copy the chosen item, or the last answer"),
    key("PageUp", KeyCode::PageUp, NONE, Deed::PageUp, "back in the conversation"),
    key("PageDown", KeyCode::PageDown, NONE, Deed::PageDown, "on in the conversation"),
    key("Ctrl+Home", KeyCode::Home, CTRL, Deed::Top, "to its beginning"),
    key("Ctrl+End", KeyCode::End, CTRL, Deed::End, "to its end, and along with it"),
    key("Ctrl+F", KeyCode::Char('f'), CTRL, Deed::Search, "look for words in the conversation"),
    key("Ctrl+R", KeyCode::Char('r'), CTRL, Deed::History, "what was said before in this folder, to be searched"),
    key("Ctrl+T", KeyCode::Char('t'), CTRL, Deed::NewTab, "a new session in a new tab"),
    key("Ctrl+PageDown", KeyCode::PageDown, CTRL, Deed::NextTab, "the next tab (Alt+1 to Alt+9: by its number)"),
    key("Ctrl+PageUp", KeyCode::PageUp, CTRL, Deed::PreviousTab, "the tab before"),
    key("", KeyCode::Null, NONE, Deed::CloseTab, "close this tab"),
    key("Ctrl+L", KeyCode::Char('l'), CTRL, Deed::Redraw, "draw the screen anew"),
    key("Ctrl+Z", KeyCode::Char('z'), CTRL, Deed::Suspend, "back to the shell; `fg` comes back"),
    key("Ctrl+D", KeyCode::Char('d'), CTRL, Deed::Quit, "leave (quit), where nothing is typed"),
];

/// What a key does, if it is in the table.
pub fn find(key: KeyEvent) -> Option<Deed> {
    let fits = |binding: &&Binding| binding.code == key.code && binding.modifiers == key.modifiers;
    KEYS.iter().find(fits).map(|binding| binding.deed)
}

/// The key of a deed, for people.
pub fn name(deed: Deed) -> &'static str {
    KEYS.iter().find(|binding| binding.deed == deed).map_or("", |binding| binding.name)
}

/// What is typed in the composer, for the help.
pub const TYPED: &[(&str, &str)] = &[
    ("Enter", "sends; while a turn runs it goes into the queue"),
    ("Ctrl+J, Alt+Enter", "a new line (Shift+Enter, too, where the terminal tells it)"),
    ("@", "a file of the project"),
    ("/", "a command of the agent"),
    ("!", "a line for your own shell"),
    ("Up", "what you said before"),
    ("Tab", "answers a question that stands, or types on"),
];

/// What is pressed when a question has the keys, for the help.
pub const ANSWERS: &[(&str, &str)] = &[
    ("Tab", "takes the keys, or gives them back"),
    ("1 … 9, ↑ ↓", "choose; Enter answers, Esc refuses; Ctrl+O reads all of it"),
];
