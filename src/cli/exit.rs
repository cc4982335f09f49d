//! The exit codes of the contract.

/// Solved, as locked, no cause found.
pub const YES: u8 = 0;
/// Conflict, differs, a cause was found; a requested name that no index has.
pub const NO: u8 = 1;
/// Could not answer, and asking again will not help: usage, unreadable input, an impossible host.
pub const CANNOT_ANSWER: u8 = 2;
/// Not known now: network, a missing fact, no environment to look at, a log in which nothing was recognised.
pub const NOT_KNOWN: u8 = 3;
/// `run` did not start the command, as env and docker say it.
pub const NOT_STARTED: u8 = 125;
/// Ended by an interrupt, as a shell reports it: 128 and the signal's number.
pub const INTERRUPTED: u8 = 130;
