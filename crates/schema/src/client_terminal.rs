//! Terminals that the client runs for the agent (version 1).

use crate::macros::record;
use crate::{EnvVariable, ExitStatus, OrNull, SessionId};

record! {
    /// Starts a command (`terminal/create`).
    CreateTerminalRequest {
        /// Which session.
        session_id: SessionId => "sessionId", required;
        /// The program.
        command: String => "command", required;
        /// Its arguments.
        args: Vec<String> => "args", rare_whole;
        /// Its environment, on top of the client's.
        env: Vec<EnvVariable> => "env", rare_whole;
        /// Where it runs (an absolute path); the session's directory if absent.
        cwd: Option<String> => "cwd", strict;
        /// How many bytes of output to keep; older ones are dropped.
        output_byte_limit: Option<u64> => "outputByteLimit", strict;
    }
}

record! {
    /// The command was started.
    CreateTerminalResponse {
        /// Names the terminal until it is released.
        terminal_id: String => "terminalId", required;
    }
}

record! {
    /// Names a terminal: the other `terminal/…` requests of version 1, and `terminal/cancel` of current v2.
    TerminalRequest {
        /// Which session.
        session_id: SessionId => "sessionId", required;
        /// Which terminal.
        terminal_id: String => "terminalId", required;
    }
}

record! {
    /// What a terminal has shown so far.
    TerminalOutputResponse {
        /// The text.
        output: String => "output", required;
        /// True if older text was dropped.
        truncated: bool => "truncated", required;
        /// How the command ended, if it did.
        exit_status: Option<ExitStatus> => "exitStatus", lenient;
    }
}

/// How the command ended; `null` says that it did.
pub type WaitForTerminalExitResponse = OrNull<ExitStatus>;
