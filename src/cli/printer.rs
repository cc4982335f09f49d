//! All output: results on stdout; notes, warnings and errors on stderr.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anstyle::{AnsiColor, Style};
use indicatif::ProgressBar;
use terminal_size::{Width, terminal_size_of};

use super::args::{ColorChoice, TalkArgs};
use super::progress::{self, Shown};
use crate::model::text::shell_word;
use crate::session::failure::Failure;
use crate::session::variables;
use crate::session::{Interface, exit};

/// Where and how to print.
#[derive(Debug, Clone)]
pub(super) struct Printer {
    pub json: bool,
    pub quiet: bool,
    pub verbose: bool,
    pub no_progress: bool,
    color_out: bool,
    color_err: bool,
    progress: Shown,
    /// `--project`, as a word of a shell: commands that are shown name it too.
    project: Option<String>,
    /// `--project`.
    folder: Option<PathBuf>,
    /// Whether the manifest of the project of `--project` is another tool's file, with envlock's tables below
    /// `[tool.envlock]`.
    has_shared_manifest: fn(Option<&Path>) -> bool,
}

/// How messages name envlock's tables.
const TABLES: [&str; 6] = ["`[stack]", "`[target]", "`[target.", "`[conda]", "`[export]", "`[sync]"];

/// A command of envlock or git for a project in another folder.
fn command_in(command: &str, project: &str) -> String {
    match command.split_once(' ') {
        Some(("envlock", rest)) if !rest.contains("--project") => {
            format!("envlock --project {project} {rest}")
        }
        Some(("git", rest)) => format!("git -C {project} {rest}"),
        _ => command.to_owned(),
    }
}

/// Red, for errors.
pub(super) const ERROR: Style = AnsiColor::Red.on_default().bold();
/// Green, for good results.
pub(super) const GOOD: Style = AnsiColor::Green.on_default();
/// Yellow, for warnings.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// For the answer among what explains it.
pub(super) const ANSWER: Style = Style::new().bold();
/// For names and labels.
pub(super) const DIM: Style = Style::new().dimmed();

impl Printer {
    pub fn new(
        args: &TalkArgs,
        project: Option<&Path>,
        has_shared_manifest: fn(Option<&Path>) -> bool,
    ) -> Printer {
        let wanted = |terminal: bool| match args.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                terminal
                    && variables::raw("NO_COLOR").is_none_or(|v| v.is_empty())
                    && variables::raw("TERM").is_none_or(|t| t != "dumb")
            }
        };
        Printer {
            json: args.json,
            quiet: args.quiet,
            verbose: args.verbose,
            no_progress: args.no_progress,
            color_out: wanted(std::io::stdout().is_terminal()),
            color_err: wanted(std::io::stderr().is_terminal()),
            progress: match args.no_progress || args.quiet || args.json {
                true => Shown::Nowhere,
                false if std::io::stderr().is_terminal() => Shown::Bar,
                false => Shown::Lines,
            },
            project: project.map(|folder| shell_word(&folder.display().to_string())),
            folder: project.map(Path::to_path_buf),
            has_shared_manifest,
        }
    }

    /// For a failure before the arguments are parsed.
    pub fn for_json() -> Printer {
        Printer {
            json: true,
            quiet: false,
            verbose: false,
            no_progress: true,
            color_out: false,
            color_err: false,
            progress: Shown::Nowhere,
            project: None,
            folder: None,
            has_shared_manifest: |_| false,
        }
    }

    /// Prints a line of the result.
    pub fn out(&self, text: &str) {
        self.raw(&format!("{text}\n"));
    }

    /// Prints text of the result and adds no line break.
    pub fn raw(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        let written = out.write_all(visible(text, self.color_out).as_bytes()).and_then(|()| out.flush());
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

    /// Prints an error: with `--json` as JSON on stdout, else as text on stderr.
    pub fn failure(&self, error: &Failure) {
        match self.json {
            true => self.json(&error.document()),
            false => self.error(&error.full(), error.hint.as_deref()),
        }
    }

    pub fn error(&self, text: &str, hint: Option<&str>) {
        // Only the first line is wrapped; the lines of a file that follow stay as they are.
        let (sentence, shown) = text.split_once('\n').map_or((text, ""), |(s, rest)| (s, rest));
        self.talk(ERROR, "error", sentence);
        if !shown.is_empty() {
            let _ = writeln!(std::io::stderr().lock(), "{}", visible(shown, self.color_err));
        }
        if let Some(hint) = hint {
            let _ = writeln!(std::io::stderr().lock());
            self.talk(GOOD, "hint", hint);
        }
    }

    /// Prints the headline of a refusal, which is the answer: on stdout, as its reasons are.
    pub fn refusal(&self, headline: &str) {
        let text = wrap(&visible(&self.in_project(headline), self.color_out), "error: ".len());
        self.out(&format!("{}: {text}", self.paint(ERROR, "error")));
    }

    /// A text as it is for this project: its commands, in backticks, name the one of `--project`, and its tables are named
    /// as the manifest has them.
    pub fn in_project(&self, text: &str) -> String {
        let text = &match text.contains("`[") && (self.has_shared_manifest)(self.folder.as_deref()) {
            false => text.to_owned(),
            true => {
                let own = |table: &str| format!("`[tool.envlock.{}", &table[2..]);
                TABLES.iter().fold(text.to_owned(), |text, table| text.replace(table, &own(table)))
            }
        };
        let Some(project) = &self.project else { return text.to_owned() };
        let mut out = String::with_capacity(text.len());
        for (i, part) in text.split('`').enumerate() {
            if i > 0 {
                out.push('`');
            }
            // Every second part is between backticks.
            match i % 2 {
                0 => out.push_str(part),
                _ => out.push_str(&command_in(part, project)),
            }
        }
        out
    }

    /// A command line for the project that `--project` names.
    pub fn command(&self, command: &str) -> String {
        self.project.as_ref().map_or_else(|| command.to_owned(), |project| command_in(command, project))
    }

    /// Prints a labelled text on stderr, wrapped.
    fn talk(&self, style: Style, label: &str, text: &str) {
        let text = wrap(&visible(&self.in_project(text), self.color_err), label.len() + 2);
        let _ = writeln!(std::io::stderr().lock(), "{}: {text}", self.paint_err(style, label));
    }

    /// `text` in a style for stdout, plain if colour is off.
    pub fn paint(&self, style: Style, text: &str) -> String {
        paint(self.color_out, style, text)
    }

    fn paint_err(&self, style: Style, text: &str) -> String {
        paint(self.color_err, style, text)
    }
}

impl Interface for Printer {
    fn note(&self, text: &str) {
        if !self.quiet {
            self.talk(DIM, "note", text);
        }
    }

    fn warning(&self, text: &str) {
        if !self.quiet {
            self.talk(WARN, "warning", text);
        }
    }

    fn hint(&self, text: &str) {
        if !self.quiet {
            self.talk(GOOD, "hint", text);
        }
    }

    fn done(&self, text: &str) {
        if !self.json {
            self.out(text);
        }
    }

    fn is_quiet(&self) -> bool {
        self.quiet || self.json
    }

    fn shows_progress(&self) -> bool {
        !self.no_progress
    }

    fn is_verbose(&self) -> bool {
        self.verbose
    }

    fn progress(&self, what: &str) -> ProgressBar {
        progress::bar(self.progress, what)
    }

    fn secret(&self, prompt: &str) -> Option<String> {
        // On the terminal itself: stdout may be a file.
        rpassword::prompt_password(visible(prompt, false)).ok()
    }
}

/// A text without what a terminal obeys, other than line breaks and, with `color`, the styles that envlock writes. Texts from
/// outside are cleaned where they are read; this is the last gate, for what was forgotten.
pub(super) fn visible(text: &str, color: bool) -> std::borrow::Cow<'_, str> {
    let is_harmless =
        |c: char| (!c.is_control() && !crate::model::text::is_format_control(c)) || matches!(c, '\n' | '\t');
    if text.chars().all(is_harmless) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if c == '\u{1b}' && color { color_length(rest) } else { 0 };
        let taken = length.max(c.len_utf8());
        if length > 0 || is_harmless(c) {
            out.push_str(&rest[..taken]);
        }
        rest = &rest[taken..];
    }
    out.into()
}

/// The length in bytes of a colour or style (`ESC [ 1 ; 31 m`) at the start of a text; 0 if there is none.
fn color_length(text: &str) -> usize {
    let Some(tail) = text.strip_prefix("\u{1b}[") else { return 0 };
    let digits = tail.bytes().take_while(|b| b.is_ascii_digit() || *b == b';').count();
    // Bold, dimmed and colours of the text; not concealed, not the colour of the background.
    let is_own = |code: &str| {
        matches!(code, "" | "0" | "1" | "2" | "4") || code.parse().is_ok_and(|n| (30..38).contains(&n))
    };
    let is_style = tail.as_bytes().get(digits) == Some(&b'm') && tail[..digits].split(';').all(is_own);
    if is_style { digits + 3 } else { 0 }
}

fn paint(color: bool, style: Style, text: &str) -> String {
    if color { format!("{style}{text}{style:#}") } else { text.to_owned() }
}

/// `text` wrapped at the width of the terminal; all lines but the first are indented by `indent`.
pub(super) fn wrap(text: &str, indent: usize) -> String {
    wrap_at(text, indent, width())
}

/// The columns that text fills: those of the terminal, between 60 and 160; 80 where there is none.
fn width() -> usize {
    static WIDTH: OnceLock<usize> = OnceLock::new();
    *WIDTH.get_or_init(|| {
        let size = terminal_size_of(std::io::stdout()).or_else(|| terminal_size_of(std::io::stderr()));
        size.map_or(80, |(Width(columns), _)| usize::from(columns).clamp(60, 160))
    })
}

/// The words of a text. What stands in backticks is one: a command that is copied is on one line.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let (all, mut seen) = (text.matches('`').count(), 0);
    text.split(move |c| {
        seen += usize::from(c == '`');
        // The last of an odd number opens nothing.
        c == ' ' && (seen % 2 == 0 || seen == all)
    })
}

pub(super) fn wrap_at(text: &str, indent: usize, width: usize) -> String {
    let mut out = String::new();
    let mut column = indent;
    for word in words(text) {
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
    use super::{visible, wrap_at};

    #[test]
    fn only_colours_and_line_breaks_reach_the_terminal() {
        for (text, shown) in [
            ("plain\n", "plain\n"),
            ("\u{1b}[1;31mred\u{1b}[0m", "\u{1b}[1;31mred\u{1b}[0m"),
            ("\u{1b}[8mhidden \u{1b}[1;40mblack", "[8mhidden [1;40mblack"),
            ("a\u{1b}]0;title\u{7}b", "a]0;titleb"),
            ("a\u{1b}[2Jb\u{1b}[", "a[2Jb["),
            ("a\rb\u{8}c\u{9b}31m\u{85}", "abc31m"),
            ("\u{1b}", ""),
            ("a\u{202e}b\u{200b}", "ab"),
        ] {
            assert_eq!(visible(text, true), shown, "{text:?}");
        }
        assert_eq!(visible("\u{1b}[1mbold\u{1b}[0m", false), "[1mbold[0m");
    }

    #[test]
    fn wrapping() {
        assert_eq!(wrap_at("aa bb cc", 2, 7), "aa bb\n  cc");
        assert_eq!(wrap_at("averyveryverylongword x", 2, 7), "averyveryverylongword\n  x");
        assert_eq!(wrap_at("a `b c d` `e` f", 2, 7), "a\n  `b c d`\n  `e` f");
        // A backtick without its other half is no reason to break nothing.
        assert_eq!(wrap_at("a `b c d e", 2, 7), "a `b\n  c d e");
    }
}
