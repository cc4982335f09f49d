//! Diagnose: from what a person pastes to the cause and the command that fixes it. Text becomes facts, facts become
//! causes by rules and mechanics, the causes are ranked. Nothing is run, asked or sent; what is offered as a command
//! is built from the registry, never from the text's words.

mod causes;
mod facts;
mod fields;
mod fix;

use aho_corasick::AhoCorasick;

use crate::model::host::Host;
use crate::registry::{ErrorRule, Registry};

pub use causes::{Cause, Evidence};
pub use facts::{Event, Facts, Reader};

/// Words that make a line worth reading, beside those of the rules: keys of dumps and tables, surroundings, packages.
const WORDS: [&str; 62] = [
    "version",
    "cuda",
    "gpu",
    "driver",
    "nvidia",
    "python",
    "os:",
    "os  ",
    "libc",
    "torch",
    "tensorflow",
    "jax",
    "numpy",
    "cudnn",
    "wsl",
    "microsoft",
    "windows",
    "c:\\",
    ".dll",
    "macos",
    "darwin",
    "/library/frameworks",
    "apple m",
    "jetson",
    "l4t",
    "tegra",
    "jetpack",
    "docker",
    "container",
    "podman",
    "kubernetes",
    "singularity",
    "conda",
    "rocm",
    " hip ",
    "radeon",
    "amd gpu",
    "mig-",
    "mig ",
    "ld_library_path",
    "compat",
    "vllm",
    "detectron2",
    "flash_attn",
    "flash-attn",
    "mmcv",
    "xformers",
    "==",
    "uninstalling",
    "geforce",
    "tesla",
    "quadro",
    "titan",
    "rtx",
    "gtx",
    "device",
    "triton",
    "nccl",
    "arch=",
    "nvrm",
    "available",
    "：",
];

/// Finds the lines that rules know, and those that may hold a fact.
#[derive(Debug)]
pub struct Matcher {
    interest: AhoCorasick,
    starts: AhoCorasick,
    /// For each pattern of `starts`: the rule, and the pieces that have to follow.
    rules: Vec<(usize, Vec<String>)>,
}

impl Matcher {
    /// A matcher of rules.
    pub fn new(rules: &[ErrorRule]) -> Matcher {
        let mut patterns: Vec<String> = Vec::new();
        let mut kept = Vec::new();
        for (i, rule) in rules.iter().enumerate() {
            for alternative in &rule.alternatives {
                let Some((first, rest)) = alternative.split_first() else { continue };
                patterns.push(first.clone());
                kept.push((i, rest.to_vec()));
            }
        }
        let build = |patterns: &[String]| {
            AhoCorasick::builder()
                .ascii_case_insensitive(true)
                .build(patterns)
                .expect("some hundred short words")
        };
        let words: Vec<String> =
            WORDS.iter().map(|w| (*w).to_owned()).chain(patterns.iter().cloned()).collect();
        Matcher { interest: build(&words), starts: build(&patterns), rules: kept }
    }

    fn is_of_interest(&self, line: &[u8]) -> bool {
        self.interest.is_match(line)
    }

    /// The rules that know a line, in lower case; each once.
    fn find(&self, lower: &str) -> Vec<usize> {
        let mut out = Vec::new();
        for found in self.starts.find_overlapping_iter(lower) {
            let (rule, rest) = &self.rules[found.pattern().as_usize()];
            let mut tail = &lower[found.end()..];
            let follows = rest.iter().all(|piece| match tail.find(piece.as_str()) {
                Some(at) => {
                    tail = &tail[at + piece.len()..];
                    true
                }
                None => false,
            });
            if follows && !out.contains(rule) {
                out.push(*rule);
            }
        }
        out
    }
}

/// What is to be said of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    /// What the text states.
    pub facts: Facts,
    /// The causes, the one to mend first in front.
    pub causes: Vec<Cause>,
    /// Nothing was found and there is enough to say that nothing is wrong.
    pub healthy: bool,
}

/// Judges facts. `here` is this machine, where it is to be looked at too.
pub fn judge(mut facts: Facts, here: Option<&Host>, registry: &Registry) -> Diagnosis {
    if let Some(host) = here {
        facts.take_from(host);
    }
    let causes = causes::causes(&facts, registry);
    let healthy = causes.is_empty() && facts.torch.is_some();
    Diagnosis { facts, causes, healthy }
}
