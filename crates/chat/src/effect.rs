//! What the state wants done: it does nothing itself.

use crate::event::TabId;
use crate::{Which, pick};
use std::sync::Arc;
use tieline::schema::ConfigValue;
use tieline_client::live::{Asked, Part, Queued, Reply};

/// One thing to do.
#[derive(Debug)]
pub enum Effect {
    /// Open a session in a tab, and say something at once if that is not empty.
    Open(TabId, Which, Vec<Part>),
    /// Say something; it is queued while a turn runs.
    Prompt(TabId, Vec<Part>),
    /// Say something before all that waits.
    First(TabId, Vec<Part>),
    /// Say something before the first of these that still waits.
    Before(TabId, Vec<Part>, Vec<u64>),
    /// Send nothing of what waits by itself.
    Hold(TabId),
    /// Put the queue into this order, with what is left of it.
    SetQueue(TabId, Vec<Queued>),
    /// Send this one of what waits now, by the way that the agent has.
    SendNow(TabId, u64),
    /// Ask the agent to stop.
    Cancel(TabId),
    /// Kill the agent's process.
    Kill(TabId),
    /// Start an agent that is gone again; what waits in the queue waits on.
    Restart(TabId),
    /// Go on: with the queue, or with an agent that is gone.
    Revive(TabId),
    /// Close the session.
    Close(TabId),
    /// Answer a question.
    Reply(Arc<Asked>, Reply),
    /// Set an option of a session.
    SetOption(TabId, String, ConfigValue),
    /// Look for what a picker shows.
    Look(TabId, pick::Source),
    /// Do what was picked with a stored session or a turn.
    Do(TabId, pick::Errand),
    /// Put text on the clipboard.
    Copy(String),
    /// Give the terminal to a program that somebody logs in with, until that ends.
    Lend(Arc<Asked>),
    /// Edit text in the user's editor.
    Editor(String),
    /// Get a picture from the clipboard.
    Clipboard(TabId),
    /// Run a line in the user's shell, and show what it prints in the remark at this place.
    Shell(TabId, usize, String),
    /// End the lines of a tab that run in the user's shell.
    StopShell(TabId),
    /// Open an address in the browser.
    Browse(String),
    /// Capture the mouse, or give it back.
    Mouse(bool),
    /// Ring.
    Bell,
    /// Give the terminals of agents the size that the screen has now.
    Resize,
    /// Draw everything anew.
    Redraw,
    /// Stop like any job (Ctrl-Z).
    Suspend,
    /// Write the conversation of the tab into the terminal's own scrollback, and come back.
    Print(TabId),
    /// Leave.
    Quit,
}
