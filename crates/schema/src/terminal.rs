//! Terminals that the agent owns and the client only shows (current v2).

use crate::macros::record;
use crate::{Marker, Patch};

record! {
    /// Creates or changes what is known of a terminal.
    upsert TerminalUpdate {
        /// Which terminal.
        terminal_id: String => "terminalId", required;
        /// The command line.
        command: Patch<String> => "command", lenient;
        /// The absolute directory it runs in.
        cwd: Patch<String> => "cwd", lenient;
        /// All of its output; replaces what came before.
        output: Patch<TerminalOutput> => "output", lenient;
        /// How it ended. The object alone says that it ended, even when it is empty.
        exit_status: Patch<ExitStatus> => "exitStatus", lenient;
        /// The size of the screen it writes to.
        size: Patch<TerminalSize> => "size", lenient;
        /// What the client may do with it now.
        capabilities: Patch<TerminalCapabilities> => "capabilities", lenient;
    }
}

record! {
    /// All output of a terminal.
    TerminalOutput {
        /// The bytes in base64.
        data: String => "data", required;
    }
}

record! {
    /// How a command ended.
    ExitStatus {
        /// The exit code, unless a signal ended it.
        exit_code: Option<i64> => "exitCode", lenient;
        /// The signal that ended it.
        signal: Option<String> => "signal", lenient;
    }
}

record! {
    /// The size of a screen in characters.
    TerminalSize {
        /// Columns.
        cols: u16 => "cols", positive;
        /// Rows.
        rows: u16 => "rows", positive;
    }
}

record! {
    /// What a client may do with a terminal.
    TerminalCapabilities {
        /// `terminal/cancel` is possible.
        cancel: Marker => "cancel", lenient;
    }
}

record! {
    /// Appends output to a terminal.
    TerminalOutputChunk {
        /// Which terminal.
        terminal_id: String => "terminalId", required;
        /// The bytes in base64, a text of its own.
        data: String => "data", required;
    }
}
