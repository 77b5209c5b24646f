//! How a command ended, in the words of the protocol.

use tieline::schema::ExitStatus;
use tieline_host::run::End;

/// The exit status for an end. After a signal there is no code; if nobody could tell, there is neither.
pub fn exit_status(end: End) -> ExitStatus {
    match end {
        End::Code(code) => ExitStatus { exit_code: Some(code.into()), ..ExitStatus::default() },
        End::Signal(number) => ExitStatus { signal: Some(signal_name(number)), ..ExitStatus::default() },
        _ => ExitStatus::default(),
    }
}

/// The name of a signal on Linux.
fn signal_name(number: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    let name = usize::try_from(number - 1).ok().and_then(|at| NAMES.get(at));
    name.map_or_else(|| number.to_string(), |name| format!("SIG{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v1_term_14_a_signal_leaves_no_code() {
        for (end, code, signal) in [
            (End::Code(0), Some(0), None),
            (End::Code(127), Some(127), None),
            (End::Signal(9), None, Some("SIGKILL")),
            (End::Signal(15), None, Some("SIGTERM")),
            (End::Signal(31), None, Some("SIGSYS")),
            (End::Signal(40), None, Some("40")),
            (End::Lost, None, None),
        ] {
            let status = exit_status(end);
            assert_eq!((status.exit_code, status.signal.as_deref()), (code, signal), "{end:?}");
        }
    }
}
