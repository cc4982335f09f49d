//! Signals that `run` receives while its command runs.

use std::process::Child;

/// Forwards signals to the command. An interrupt from the terminal is not forwarded: the command is in the same
/// process group and has received it already.
#[cfg(unix)]
pub(super) struct Signals(Option<signal_hook::iterator::Signals>);

#[cfg(unix)]
impl Signals {
    pub fn new() -> Signals {
        use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
        // If no handler can be installed, signals keep their default action.
        Signals(
            signal_hook::iterator::Signals::new([
                SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT,
            ])
            .ok(),
        )
    }

    /// Forwards the signals that have arrived since the last call.
    pub fn pass_on(&mut self, child: &Child) {
        use signal_hook::consts::{SIGINT, SIGQUIT};
        let Ok(id) = i32::try_from(child.id()) else { return };
        for signal in self.0.iter_mut().flat_map(signal_hook::iterator::Signals::pending) {
            if !([SIGINT, SIGQUIT].contains(&signal) && from_terminal()) {
                // SAFETY: the child has not been waited for yet, so its process id is not reused.
                unsafe { libc::kill(id, signal) };
            }
        }
    }
}

/// Whether this process is in the foreground of a terminal. Then Ctrl-C reaches the whole process group.
#[cfg(unix)]
fn from_terminal() -> bool {
    // SAFETY: both functions take and return integers.
    unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) == libc::getpgrp() }
}

#[cfg(not(unix))]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub fn new() -> Signals {
        Signals
    }

    pub fn pass_on(&mut self, _child: &Child) {}
}
