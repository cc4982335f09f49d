//! Text to facts: what a log, a dump or a table says of a machine and its software, line by line.

use std::collections::{BTreeMap, BTreeSet};

use super::fields;
use crate::model::surroundings::Surrounding;
use crate::model::text::clean;

/// No line is looked at further than this, in bytes: the rest of it is somebody's data.
pub const MAX_LINE: usize = 4_096;
/// No more lines of one rule are kept as evidence.
const MAX_EVENTS_OF_RULE: u32 = 20;

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
    /// Packages by normalized name: version, and conda's build string.
    pub packages: BTreeMap<String, (String, String)>,
    /// What kind of surroundings the words name.
    pub surroundings: BTreeSet<Surrounding>,
    /// Flavours that an installer was pointed to: `cu114` of an index's address.
    pub asked_variants: Vec<String>,
    /// Shared libraries that are named with a folder: they exist.
    pub libraries: Vec<String>,
    /// Lines that a rule knows.
    pub events: Vec<Event>,
    /// The lines that stated facts, by the fact.
    pub said: BTreeMap<Fact, Said>,
}

/// A fact whose line is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// torch's version.
    Torch,
    /// The CUDA it was built with.
    TorchCuda,
    /// The collector could not import it.
    NotImportable,
    /// cuDNN at run time.
    Cudnn,
    /// The first GPU.
    Gpu,
    /// A compute capability.
    Capability,
    /// The driver.
    Driver,
    /// The newest CUDA of the driver.
    DriverCuda,
    /// A driver was looked for and not found.
    NoDriver,
    /// Whether CUDA is available.
    Available,
    /// torchvision's version.
    Torchvision,
    /// TensorFlow's version.
    Tensorflow,
    /// jaxlib's version.
    Jaxlib,
    /// The version of JAX's CUDA plugin.
    JaxPlugin,
    /// A package of NVIDIA's with cuDNN or NCCL.
    NvidiaPackage,
    /// A flavour that an installer was pointed to.
    AskedVariant,
}

impl Fact {
    /// All of them.
    const ALL: [Fact; 16] = [
        Fact::Torch,
        Fact::TorchCuda,
        Fact::NotImportable,
        Fact::Cudnn,
        Fact::Gpu,
        Fact::Capability,
        Fact::Driver,
        Fact::DriverCuda,
        Fact::NoDriver,
        Fact::Available,
        Fact::Torchvision,
        Fact::Tensorflow,
        Fact::Jaxlib,
        Fact::JaxPlugin,
        Fact::NvidiaPackage,
        Fact::AskedVariant,
    ];
}

/// A line that stated a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// Its number, from 1.
    pub line: usize,
    /// Its words, cleaned and masked.
    pub text: String,
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

/// What an interactive Python was asked.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// `torch.cuda.is_available()`
    Available,
    /// `torch.__version__`
    Torch,
}

impl Question {
    fn of(lower: &str) -> Option<Question> {
        let asked = lower.trim_end().trim_end_matches(')');
        if asked.ends_with("is_available(") {
            Some(Question::Available)
        } else if asked.ends_with("torch.__version__") {
            Some(Question::Torch)
        } else {
            None
        }
    }
}

/// Reads lines one after another.
pub struct Reader<'r> {
    rules: &'r super::Matcher,
    facts: Facts,
    line: usize,
    /// What the line before asked an interactive Python.
    asked: Option<Question>,
    /// How many lines each rule knew.
    seen: BTreeMap<usize, u32>,
}

impl<'r> Reader<'r> {
    /// A reader that looks for the lines that rules know.
    pub fn new(rules: &'r super::Matcher) -> Reader<'r> {
        Reader { rules, facts: Facts::default(), line: 0, asked: None, seen: BTreeMap::new() }
    }

    /// Takes a line without its end.
    pub fn line(&mut self, raw: &[u8]) {
        self.line += 1;
        let raw = &raw[..raw.len().min(MAX_LINE)];
        if let Some(question) = self.asked.take() {
            self.answer(question, raw);
        }
        // Most lines of a long log say nothing that anybody looks for.
        if !self.rules.is_of_interest(raw) {
            return;
        }
        let decoded = String::from_utf8_lossy(raw);
        let text = if is_plain(&decoded) { decoded } else { plain(&decoded).into() };
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let lower = text.to_lowercase();
        self.asked = Question::of(&lower);
        let before = self.facts.known();
        let found = self.rules.find(&lower);
        for rule in found.rules {
            let seen = self.seen.entry(rule).or_default();
            *seen += 1;
            if *seen <= MAX_EVENTS_OF_RULE {
                self.facts.events.push(Event { rule, line: self.line, text: masked(&clean(text, 300)) });
            }
        }
        self.facts.surroundings.extend(found.surroundings);
        fields::read(text, &lower, &mut self.facts);
        let new = self.facts.known() & !before;
        for fact in Fact::ALL.iter().filter(|fact| new >> **fact as u32 & 1 == 1) {
            let said = Said { line: self.line, text: masked(&clean(text, 300)) };
            self.facts.said.entry(*fact).or_insert(said);
        }
    }

    /// The answer of an interactive session stands on the line below the question.
    fn answer(&mut self, question: Question, raw: &[u8]) {
        let text = String::from_utf8_lossy(raw.trim_ascii()).trim_matches(['\'', '"']).to_owned();
        let (fact, is_new) = match question {
            Question::Available if self.facts.available.is_none() => {
                self.facts.available = match text.as_str() {
                    "True" => Some(true),
                    "False" => Some(false),
                    _ => None,
                };
                (Fact::Available, self.facts.available.is_some())
            }
            Question::Torch if self.facts.torch.is_none() => {
                self.facts.torch = text.parse::<pep440_rs::Version>().is_ok().then(|| clean(&text, 60));
                (Fact::Torch, self.facts.torch.is_some())
            }
            Question::Available | Question::Torch => return,
        };
        if is_new {
            self.facts.said.insert(fact, Said { line: self.line, text: clean(&text, 60) });
        }
    }

    /// The facts of all lines.
    pub fn finish(self) -> Facts {
        self.facts
    }
}

/// Whether a line has nothing that [`plain`] would change.
fn is_plain(line: &str) -> bool {
    line.bytes().all(|b| (0x20..0x7f).contains(&b)) && !line.contains(" | ")
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

/// Evidence without secrets: logins in addresses, what follows `..._token=`, `PASSWORD:` and the like, and the rest of a
/// line from `Authorization` on.
fn masked(text: &str) -> String {
    let out = crate::model::text::without_logins(text);
    let lower = out.to_ascii_lowercase();
    let out = match lower.find("authorization") {
        Some(at) => format!("{}***", &out[..at + "authorization".len()]),
        None => out,
    };
    let mut hide_next = false;
    let words = out.split(' ').map(|word| {
        if std::mem::take(&mut hide_next) && !word.is_empty() {
            return "***".to_owned();
        }
        let Some(at) = word.find(['=', ':']) else {
            // `--token abc`
            hide_next = word.starts_with('-') && names_secret(word);
            return word.to_owned();
        };
        let (name, value) = word.split_at(at);
        if !names_secret(name) {
            return word.to_owned();
        }
        // `"api_key": "abc"` has its value in the next word.
        hide_next = value[1..].trim_matches(['"', '\'']).is_empty();
        format!("{name}{}***", &value[..1])
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Whether a name is one of a secret.
fn names_secret(name: &str) -> bool {
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric()).to_ascii_lowercase().replace('-', "_");
    let ends = ["token", "password", "passwd", "secret", "apikey", "_key", "credential", "credentials"];
    ends.iter().any(|end| name.ends_with(end))
}

impl Facts {
    /// Whether the text speaks of surroundings.
    pub fn is_in(&self, surrounding: Surrounding) -> bool {
        self.surroundings.contains(&surrounding)
    }

    /// The facts that are known so far, one bit each.
    fn known(&self) -> u32 {
        let has = |name: &str| self.packages.contains_key(name);
        let starts = |prefix: &str| {
            let mut from = self.packages.range(prefix.to_owned()..);
            from.next().is_some_and(|(name, _)| name.starts_with(prefix))
        };
        let all = [
            (Fact::Torch, self.torch.is_some()),
            (Fact::TorchCuda, self.torch_cuda.is_some()),
            (Fact::NotImportable, self.torch_not_importable),
            (Fact::Cudnn, self.cudnn.is_some()),
            (Fact::Gpu, !self.gpus.is_empty()),
            (Fact::Capability, self.capability.is_some()),
            (Fact::Driver, self.driver.is_some()),
            (Fact::DriverCuda, self.driver_cuda.is_some()),
            (Fact::NoDriver, self.no_driver_seen),
            (Fact::Available, self.available.is_some()),
            (Fact::Torchvision, has("torchvision")),
            (Fact::Tensorflow, has("tensorflow")),
            (Fact::Jaxlib, has("jaxlib")),
            (Fact::JaxPlugin, has("jax-cuda12-plugin") || has("jax-cuda13-plugin")),
            (Fact::NvidiaPackage, starts("nvidia-cudnn-") || starts("nvidia-nccl-")),
            (Fact::AskedVariant, !self.asked_variants.is_empty()),
        ];
        all.into_iter().filter(|(_, known)| *known).fold(0, |bits, (fact, _)| bits | 1 << fact as u32)
    }

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
