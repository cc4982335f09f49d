//! All output: results on stdout; notes, warnings and errors on stderr.

use std::io::{IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::args::{ColorChoice, GlobalArgs};
use super::exit;

/// Where and how to print.
#[derive(Debug, Clone)]
pub(super) struct Printer {
    pub json: bool,
    pub quiet: bool,
    pub verbose: bool,
    color_out: bool,
    color_err: bool,
    progress: bool,
}

/// Red, for errors.
pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Green, for good results.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Yellow, for warnings.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// For names and labels.
pub(super) const DIM: Style = Style::new().dimmed();

impl Printer {
    pub fn new(args: &GlobalArgs) -> Printer {
        let wanted = |terminal: bool| match args.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                terminal
                    && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                    && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
            }
        };
        Printer {
            json: args.json,
            quiet: args.quiet,
            verbose: args.verbose,
            color_out: wanted(std::io::stdout().is_terminal()),
            color_err: wanted(std::io::stderr().is_terminal()),
            progress: !args.no_progress && !args.quiet && !args.json && std::io::stderr().is_terminal(),
        }
    }

    /// For a failure before the arguments are parsed.
    pub fn for_json() -> Printer {
        Printer {
            json: true,
            quiet: false,
            verbose: false,
            color_out: false,
            color_err: false,
            progress: false,
        }
    }

    /// Prints a line of the result.
    pub fn out(&self, text: &str) {
        self.raw(&format!("{text}\n"));
    }

    /// Prints text of the result without changes.
    pub fn raw(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        // A closed pipe is not an error. A full disk is one, because the result is lost.
        if let Err(error) = written
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            self.error(&format!("cannot write to stdout: {error}"), None);
            std::process::exit(exit::CANNOT_ANSWER.into());
        }
    }

    pub fn json(&self, value: &impl serde::Serialize) {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        self.out(&text);
    }

    /// Prints a note on stderr.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr().lock(), "{}: {}", self.paint_err(DIM, "note"), wrap(text, 6));
        }
    }

    pub fn warning(&self, text: &str) {
        if !self.quiet {
            let _ =
                writeln!(std::io::stderr().lock(), "{}: {}", self.paint_err(WARN, "warning"), wrap(text, 9));
        }
    }

    pub fn error(&self, text: &str, hint: Option<&str>) {
        let mut err = std::io::stderr().lock();
        // Only the first line is wrapped; the lines of a file that follow stay as they are.
        let (sentence, shown) = text.split_once('\n').map_or((text, ""), |(s, rest)| (s, rest));
        let _ = writeln!(err, "{}: {}", self.paint_err(ERROR, "error"), wrap(sentence, 7));
        if !shown.is_empty() {
            let _ = writeln!(err, "{shown}");
        }
        if let Some(hint) = hint {
            let _ = writeln!(err, "\n{}: {}", self.paint_err(GOOD, "hint"), wrap(hint, 6));
        }
    }

    pub fn hint(&self, text: &str) {
        if !self.quiet {
            let _ = writeln!(std::io::stderr().lock(), "{}: {}", self.paint_err(GOOD, "hint"), wrap(text, 6));
        }
    }

    /// `text` in a style for stdout, plain if colour is off.
    pub fn paint(&self, style: Style, text: &str) -> String {
        paint(self.color_out, style, text)
    }

    fn paint_err(&self, style: Style, text: &str) -> String {
        paint(self.color_err, style, text)
    }

    /// A progress bar on stderr; hidden if stderr is not a terminal.
    pub fn progress(&self, what: &str) -> ProgressBar {
        let bar = ProgressBar::new(0);
        if self.progress {
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(12));
            if let Ok(style) = ProgressStyle::with_template("{msg} {bar:24} {pos}/{len}") {
                bar.set_style(style);
            }
        } else {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        bar.set_message(what.to_owned());
        bar
    }
}

fn paint(color: bool, style: Style, text: &str) -> String {
    if color { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// `text` wrapped at 80 columns; all lines but the first are indented by `indent`.
pub(super) fn wrap(text: &str, indent: usize) -> String {
    wrap_at(text, indent, 80)
}

pub(super) fn wrap_at(text: &str, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    for word in text.split(' ') {
        let length = word.chars().count();
        if column > indent && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > indent {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::wrap_at;

    #[test]
    fn wrapping() {
        assert_eq!(wrap_at("aa bb cc", 2, 7), "aa bb\n  cc");
        assert_eq!(wrap_at("averyveryverylongword x", 2, 7), "averyveryverylongword\n  x");
    }
}
