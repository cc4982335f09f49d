//! Text to facts: what a log, a dump or a table says of a machine and its software, line by line.

use std::collections::BTreeMap;

use super::fields;
use crate::model::text::clean;

/// No line is looked at further than this, in bytes: the rest of it is somebody's data.
pub const MAX_LINE: usize = 4_096;
/// No more lines are kept as evidence.
const MAX_EVENTS: usize = 1_000;

/// What the text says. A fact that it does not state is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// torch's version as written, `2.9.1+cu128`; `N/A` of a collector that could not import it is
    /// [`Facts::torch_not_importable`].
    pub torch: Option<String>,
    /// The CUDA it was built with, `12.8`; empty where the collector says that there is none.
    pub torch_cuda: Option<String>,
    /// The collector ran and could not import torch.
    pub torch_not_importable: bool,
    /// cuDNN at run time, where a program says it.
    pub cudnn: Option<String>,
    /// GPU product names.
    pub gpus: Vec<String>,
    /// A compute capability that a message names.
    pub capability: Option<String>,
    /// The driver's version.
    pub driver: Option<String>,
    /// The newest CUDA that the driver runs, `12.2`.
    pub driver_cuda: Option<String>,
    /// The collector looked for a driver or a GPU and found none.
    pub no_driver_seen: bool,
    /// `torch.cuda.is_available()`.
    pub available: Option<bool>,
    /// Python's series or version.
    pub python: Option<String>,
    /// The operating system as written.
    pub os: Option<String>,
    /// glibc.
    pub glibc: Option<String>,
    /// Packages by normalized name: version, and conda's build string.
    pub packages: BTreeMap<String, (String, String)>,
    /// What kind of surroundings the words name.
    pub hints: Hints,
    /// Flavours that an installer was pointed to: `cu114` of an index's address.
    pub asked_variants: Vec<String>,
    /// Shared libraries that are named with a folder: they exist.
    pub libraries: Vec<String>,
    /// Lines that a rule knows.
    pub events: Vec<Event>,
}

/// Surroundings that a text gives away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hints {
    /// Windows' Linux.
    pub wsl: bool,
    /// Windows itself.
    pub windows: bool,
    /// macOS.
    pub macos: bool,
    /// A Jetson board.
    pub jetson: bool,
    /// A container.
    pub container: bool,
    /// conda is at work.
    pub conda: bool,
    /// An AMD card or ROCm.
    pub rocm: bool,
    /// MIG instances.
    pub mig: bool,
    /// `LD_LIBRARY_PATH` is spoken of.
    pub library_path: bool,
    /// cuda-compat is spoken of.
    pub compat: bool,
    /// A tool exchanged one torch for another.
    pub torch_replaced: bool,
    /// An extension with GPU code of its own is at work: vLLM, detectron2, flash-attention.
    pub extension: bool,
}

/// A line that a rule knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The rule's place in the registry.
    pub rule: usize,
    /// The line's number, from 1.
    pub line: usize,
    /// The line, cleaned.
    pub text: String,
}

/// Reads lines one after another.
pub struct Reader<'r> {
    rules: &'r super::Matcher,
    facts: Facts,
    line: usize,
    /// The line before asked `torch.cuda.is_available()`.
    asked: bool,
}

impl<'r> Reader<'r> {
    /// A reader that looks for the lines that rules know.
    pub fn new(rules: &'r super::Matcher) -> Reader<'r> {
        Reader { rules, facts: Facts::default(), line: 0, asked: false }
    }

    /// Takes a line without its end.
    pub fn line(&mut self, raw: &[u8]) {
        self.line += 1;
        let raw = &raw[..raw.len().min(MAX_LINE)];
        // The answer of an interactive session stands on the line below the question.
        if std::mem::take(&mut self.asked) && self.facts.available.is_none() {
            self.facts.available = match raw.trim_ascii() {
                b"True" => Some(true),
                b"False" => Some(false),
                _ => None,
            };
        }
        // Most lines of a long log say nothing that anybody looks for.
        if !self.rules.is_of_interest(raw) {
            return;
        }
        let text = plain(&String::from_utf8_lossy(raw));
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let lower = text.to_lowercase();
        self.asked =
            lower.trim_end().ends_with("is_available()") || lower.trim_end().ends_with("is_available())");
        fields::named(text, &lower, &mut self.facts);
        for rule in self.rules.find(&lower) {
            if self.facts.events.len() < MAX_EVENTS {
                self.facts.events.push(Event { rule, line: self.line, text: masked(&clean(text, 300)) });
            }
        }
        fields::hints(&lower, &mut self.facts.hints);
        fields::field(text, &lower, &mut self.facts);
        fields::package(text, &mut self.facts);
    }

    /// The facts of all lines.
    pub fn finish(self) -> Facts {
        self.facts
    }
}

/// A line without colours, full-width punctuation and the prefixes of log collectors.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            // CSI sequences: ESC [ ... letter.
            '\u{1b}' => {
                if chars.next_if_eq(&'[').is_some() {
                    while chars.next().is_some_and(|c| !c.is_ascii_alphabetic()) {}
                }
            }
            '：' => out.push(':'),
            '，' => out.push(','),
            '（' => out.push('('),
            '）' => out.push(')'),
            '\u{3000}' | '\u{a0}' | '\t' => out.push(' '),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    // `web-1  | Traceback ...` of docker compose.
    match out.split_once(" | ") {
        Some((name, rest)) if name.len() < 40 && !name.starts_with('|') && !name.trim().contains(' ') => {
            rest.to_owned()
        }
        _ => out,
    }
}

/// Evidence without secrets: logins in addresses, and words that follow `token`, `password`, `key`.
fn masked(text: &str) -> String {
    let mut out = crate::model::text::without_logins(text);
    for name in ["token", "password", "passwd", "secret", "api_key", "apikey", "authorization"] {
        let lower = out.to_lowercase();
        let Some(at) = lower.find(name) else { continue };
        // Lowering can change lengths outside ASCII: then nothing is cut out by guess, but all after it.
        let after = at + name.len();
        if lower.len() != out.len() || !out.is_char_boundary(after) {
            return format!("{name} ...");
        }
        let tail = &out[after..];
        if tail.starts_with(['=', ':', ' ', '"', '\'']) {
            out = format!("{}=***", &out[..after]);
        }
    }
    out
}

impl Facts {
    /// The flavour of torch's build, `cu128` or `cpu`: by its version, by the CUDA it names, by conda's build string.
    pub fn variant(&self) -> Option<String> {
        let by_version = self
            .torch
            .as_ref()
            .and_then(|v| v.split_once('+'))
            .map(|(_, local)| local.split(['.', '_']).next().unwrap_or(local).to_owned());
        let known = |v: &String| v == "cpu" || (v.starts_with("cu") && v.len() > 3);
        by_version.filter(known).or_else(|| match self.torch_cuda.as_deref() {
            Some("") => Some("cpu".to_owned()),
            Some(cuda) => Some(format!("cu{}", cuda.replace('.', ""))),
            None => {
                let build = self.packages.get("pytorch").map(|(_, build)| build.as_str())?;
                if build.contains("cpu") {
                    return Some("cpu".to_owned());
                }
                let at = build.find("cuda")? + 4;
                let digits = build[at..]
                    .chars()
                    .take_while(|c| c.is_ascii_digit() || *c == '.')
                    .filter(char::is_ascii_digit);
                Some(format!("cu{}", digits.collect::<String>()))
            }
        })
    }

    /// The CUDA of torch's build, `12.8`.
    pub fn build_cuda(&self) -> Option<String> {
        let by_variant = self.variant().and_then(|v| {
            let digits = v.strip_prefix("cu")?.to_owned();
            let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
            (!major.is_empty()).then(|| format!("{major}.{minor}"))
        });
        by_variant.or_else(|| self.torch_cuda.clone().filter(|c| !c.is_empty()))
    }

    /// torch's version without its flavour.
    pub fn plain_torch(&self) -> Option<&str> {
        self.torch.as_deref().map(|v| v.split('+').next().unwrap_or(v))
    }
}

impl Facts {
    /// Takes what a machine says where the text does not.
    pub(super) fn take_from(&mut self, host: &crate::model::host::Host) {
        if self.driver.is_none() {
            self.driver = host.driver.as_ref().map(|d| d.version.to_string());
        }
        if self.gpus.is_empty() {
            self.gpus = host.gpus.iter().flatten().filter_map(|gpu| gpu.name.clone()).collect();
        }
        if self.capability.is_none() {
            self.capability =
                host.gpus.iter().flatten().find_map(|gpu| gpu.capability).map(|c| c.to_string());
        }
    }
}
