//! Progress of long work: a bar in a terminal, a line now and then in a log.

use std::io::{self, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};

use crate::model::text::clean;

/// How often a log gets a line. A build without optimization is slower by an order of magnitude.
const LINE_EVERY: Duration = Duration::from_secs(if cfg!(debug_assertions) { 100 } else { 10 });

/// Where progress is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// As a bar on stderr.
    Bar,
    /// As lines on stderr, which is a file or a pipe.
    Lines,
    Nowhere,
}

/// A bar for work that takes long.
pub(super) fn bar(shown: Shown, what: &str) -> ProgressBar {
    let (target, template) = match shown {
        Shown::Bar => (ProgressDrawTarget::stderr_with_hz(12), "{msg} {bar:24} {pos}/{len}"),
        Shown::Lines => {
            let lines = Lines::new(LINE_EVERY, Box::new(io::stderr()));
            (ProgressDrawTarget::term_like_with_hz(Box::new(lines), 1), "{msg}, {pos} of {len}, {elapsed}")
        }
        Shown::Nowhere => (ProgressDrawTarget::hidden(), "{msg}"),
    };
    let bar = ProgressBar::with_draw_target(Some(0), target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    if shown == Shown::Lines {
        // Also where nothing is counted for a while.
        bar.enable_steady_tick(LINE_EVERY);
    }
    bar
}

/// A terminal that is none: of what is drawn, a line is written now and then.
struct Lines {
    every: Duration,
    state: Mutex<Written>,
}

struct Written {
    /// When the last line was written, or the work began.
    last: Instant,
    out: Box<dyn Write + Send>,
}

impl std::fmt::Debug for Lines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lines").field("every", &self.every).finish_non_exhaustive()
    }
}

impl Lines {
    fn new(every: Duration, out: Box<dyn Write + Send>) -> Lines {
        Lines { every, state: Mutex::new(Written { last: Instant::now(), out }) }
    }
}

impl TermLike for Lines {
    fn width(&self) -> u16 {
        80
    }

    fn move_cursor_up(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _n: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        let text = text.trim();
        let Ok(mut state) = self.state.lock() else { return Ok(()) };
        if text.is_empty() || state.last.elapsed() < self.every {
            return Ok(());
        }
        state.last = Instant::now();
        writeln!(state.out, "{}", clean(text, 160))
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        self.state.lock().map_or(Ok(()), |mut state| state.out.flush())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Bytes that two sides share.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_log_gets_one_line_in_a_while() {
        let written = |every: Duration| {
            let out = Shared::default();
            let lines = Lines::new(every, Box::new(out.clone()));
            for text in ["reading the index, 1 of 9, 11s", "", "   ", "reading the index, 2 of 9, 11s"] {
                lines.write_str(text).unwrap();
            }
            String::from_utf8(out.0.lock().unwrap().clone()).unwrap()
        };
        assert_eq!(written(Duration::from_secs(3600)), "");
        assert_eq!(written(Duration::ZERO).lines().count(), 2);
        assert!(written(Duration::ZERO).starts_with("reading the index, 1 of 9, 11s\n"));
    }
}
