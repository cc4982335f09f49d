//! The exit codes of the contract. Each command decides which one it returns.

/// Success: solved, the environment matches the lock, no cause found.
pub const YES: u8 = 0;
/// A negative answer: conflict, the environment differs, a cause was found, no index has a requested name.
pub const NO: u8 = 1;
/// An error that a retry does not fix: usage, unreadable input, an impossible host.
pub const CANNOT_ANSWER: u8 = 2;
/// The answer is unknown: network error, missing data, no environment, no known cause in a log.
pub const NOT_KNOWN: u8 = 3;
/// `run` did not start the command; the same code as env and docker use.
pub const NOT_STARTED: u8 = 125;
/// Ended by an interrupt, as a shell reports it: 128 plus the signal number.
pub const INTERRUPTED: u8 = 130;

/// The number of the interrupt. Source: signal(7).
pub(crate) const SIGINT: i32 = 2;

/// The signal that ended a program, or that it says ended it: uv returns 130 after an interrupt.
#[cfg(unix)]
pub(crate) fn signal_of(status: std::process::ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt as _;
    let said = (status.code() == Some(i32::from(INTERRUPTED))).then_some(SIGINT);
    status.signal().or(said)
}

/// The signal that ended a program: not known here.
#[cfg(not(unix))]
pub(crate) fn signal_of(_status: std::process::ExitStatus) -> Option<i32> {
    None
}
