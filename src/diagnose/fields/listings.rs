//! Packages in lists of pip and conda, and requirements in sentences.

use super::version_in;
use crate::diagnose::facts::Facts;
use crate::model::text::clean;

/// The maximum number of packages kept.
const MAX_PACKAGES: usize = 2_000;

/// `[pip3] torch==1.13.0+cu117`, `[conda] pytorch 1.0.0 py3.7_cuda90 pytorch`, `torch   2.4.0  pypi_0  pypi`.
pub(super) fn read(text: &str, facts: &mut Facts) {
    if facts.packages.len() >= MAX_PACKAGES {
        return;
    }
    shown(text, facts);
    let body =
        ["[pip]", "[pip3]", "[conda]"].iter().find_map(|tag| text.strip_prefix(tag)).unwrap_or(text).trim();
    let body = body.trim_start_matches(['-', '+', '~', '*', ' ']);
    // Most lines of a long log have no package.
    let words = body.contains("==").then(|| body.split([' ', ',', ';', '"', '\'', '`', '(', ')']));
    for word in words.into_iter().flatten() {
        if let Some((name, version)) = word.split_once("==")
            && is_name(name)
            && let Some(version) = version_in(version)
        {
            add_package(name, &version, "", facts);
        }
    }
    // `PyTorch 2.4.0+cu121 with CUDA 1201 (you have 2.3.1+cu121)`: xformers names the torch that it was built for first.
    if body.contains("(you have ") {
        return;
    }
    let mut words = body.split_whitespace();
    if let (Some(name), Some(version)) = (words.next(), words.next())
        && is_name(name)
        && is_watched(name)
        && version.starts_with(|c: char| c.is_ascii_digit())
        && version.contains('.')
        && let Some(version) = version_in(version)
    {
        add_package(name, &version, words.next().unwrap_or_default(), facts);
    }
}

/// Reads what `pip show torch` says: `Name: torch`, and `Version: 2.5.1` below it.
fn shown(text: &str, facts: &mut Facts) {
    let before = facts.shown_package.take();
    let asked = || text.split_once("pip show ").and_then(|(_, rest)| rest.split(' ').next());
    if let Some(name) = text.strip_prefix("Name: ").or_else(asked).filter(|name| is_name(name)) {
        facts.shown_package = Some(name.to_owned());
    } else if let Some(version) = text.strip_prefix("Version: ")
        && let Some(name) = before
        && let Some(version) = version_in(version)
    {
        add_package(&name, &version, "", facts);
    }
}

/// Packages that are read from tables. Other names are ignored, because a sentence can also start with a word and a
/// number.
const WATCHED: [&str; 12] = [
    "torch",
    "pytorch",
    "tensorflow",
    "jax",
    "nvidia-",
    "numpy",
    "cudatoolkit",
    "cudnn",
    "vllm",
    "xformers",
    "flash-attn",
    "triton",
];

/// Whether a package is one of those.
pub(super) fn is_watched(name: &str) -> bool {
    let name = crate::model::text::normalized_name(name);
    WATCHED.iter().any(|watched| name.starts_with(watched))
}

pub(super) fn add_package(name: &str, version: &str, build: &str, facts: &mut Facts) {
    let name = crate::model::text::normalized_name(name);
    if facts.torch.is_none() && (name == "torch" || name == "pytorch") && !facts.torch_not_importable {
        facts.torch = Some(version.to_owned());
    }
    if !facts.packages.contains_key(&name) && facts.packages.len() < MAX_PACKAGES {
        facts.new_packages.push(name.clone());
        facts.packages.insert(name, (version.to_owned(), clean(build, 60)));
    }
}

pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() < 60
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.[]".contains(&b))
}
