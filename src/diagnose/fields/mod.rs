//! Reads facts from one line: keys of dumps, tables of tools, sentences.

mod built_for;
mod cudnn;
mod driver;
pub(super) mod gpus;
pub(super) mod listed;
mod listings;
pub(super) mod visible_releases;

use std::collections::BTreeSet;

use super::facts::Facts;
use crate::model::text::clean;
use crate::model::variant::{Variant, cuda_of_variant};
use crate::model::version::DottedVersion;

/// Reads the facts in one line.
pub(super) fn read(text: &str, lower: &str, facts: &mut Facts) {
    named(text, lower, facts);
    asked(lower, facts);
    keyed(text, lower, facts);
    // Several on one line: `torch 2.7.0+cpu, torch.version.cuda None, torch.cuda.is_available False`.
    for (at, _) in lower.match_indices(", torch.") {
        if let (Some(text), Some(lower)) = (text.get(at + 2..), lower.get(at + 2..)) {
            let end = lower.find(", ").unwrap_or(lower.len());
            keyed(text.get(..end).unwrap_or(text), &lower[..end], facts);
        }
    }
    gpus::read(text, lower, facts);
    driver::read(text, lower, facts);
    cudnn::read(lower, facts);
    built_for::read(lower, facts);
    listings::read(text, facts);
    listed::read(text, facts);
    visible_releases::read(text, facts);
}

/// Reads variants in index URLs, and libraries with an absolute path.
fn named(text: &str, lower: &str, facts: &mut Facts) {
    if let Some(at) = lower.find("/whl/") {
        let tail = &lower[at + 5..];
        let end = tail.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tail.len());
        let variant = tail[..end].to_owned();
        if variant.starts_with("cu")
            && !facts.index_variants.contains(&variant)
            && facts.index_variants.len() < 16
        {
            facts.index_variants.push(variant);
        }
    }
    releases_behind(&BEFORE_TOOLKIT, lower, &mut facts.toolkits);
    releases_behind(&[BEFORE_COMPILER], lower, &mut facts.compilers);
    if !lower.contains(".so")
        || lower.contains("cannot open shared object")
        || lower.contains("could not load")
    {
        return;
    }
    for word in text.split([' ', ',', ';', '\'', '"', '(', ')']) {
        if (word.starts_with('/') || word.starts_with("./"))
            && let Some((_, name)) = word.rsplit_once('/')
            && name.starts_with("lib")
            && name.contains(".so")
            && facts.libraries.len() < 64
        {
            facts.libraries.push(clean(name, 80));
        }
    }
}

/// The maximum number of toolkits kept.
const MAX_TOOLKITS: usize = 16;

/// What stands before the release in the folder of a toolkit.
const BEFORE_TOOLKIT: [&str; 2] = ["/cuda-", "\\cuda\\v"];

/// What stands before the release in what nvcc says of itself.
const BEFORE_COMPILER: &str = "cuda compilation tools, release ";

/// Reads the releases of toolkits: `/usr/local/cuda-12.5`, `CUDA\v11.8`, `Cuda compilation tools, release 12.1`.
fn releases_behind(words: &[&str], lower: &str, found: &mut BTreeSet<String>) {
    for before in words {
        for (at, _) in lower.match_indices(before) {
            let rest = &lower[at + before.len()..];
            let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
            let release = rest[..end].trim_end_matches('.');
            let is_release = release.split('.').count() == 2 && release.parse::<DottedVersion>().is_ok();
            if is_release && found.len() < MAX_TOOLKITS {
                found.insert(release.to_owned());
            }
        }
    }
}

/// Reads the CUDA release that an installer's command asks for.
fn asked(lower: &str, facts: &mut Facts) {
    if !lower.contains("install ") {
        return;
    }
    for word in lower.split([' ', '\'', '"', ',', '\t']) {
        let release = match word.split_once("/whl/") {
            Some((_, tail)) => {
                let end = tail.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tail.len());
                cuda_of_variant(&tail[..end])
            }
            None => {
                let conda = ["cudatoolkit=", "pytorch-cuda=", "cuda-version="];
                let version = conda.iter().find_map(|name| word.strip_prefix(name));
                let parts = version.and_then(|version| version.trim_start_matches('=').split_once('.'));
                parts.and_then(|(major, minor)| {
                    let end = minor.find(|c: char| !c.is_ascii_digit()).unwrap_or(minor.len());
                    Some((major.parse().ok()?, minor[..end].parse().ok()?))
                })
            }
        };
        if let Some(release) = release
            && !facts.asked_cuda.contains(&release)
            && facts.asked_cuda.len() < 16
        {
            facts.asked_cuda.push(release);
        }
    }
}

/// Reads `Key: value` lines of collectors and vendor tables.
fn keyed(text: &str, lower: &str, facts: &mut Facts) {
    let head = lower.trim_start_matches(|c: char| !c.is_alphanumeric());
    let value = |keys: &[&str]| -> Option<String> {
        keys.iter().find_map(|key| {
            // A key is at the start of a line, after leading punctuation.
            let tail = head.strip_prefix(key)?;
            let rest = text.get(text.len().checked_sub(tail.len())?..)?.trim_start();
            let rest = rest.strip_prefix([':', '=']).unwrap_or(rest).trim();
            (!rest.is_empty()).then(|| clean(rest, 200))
        })
    };
    let unknown = |text: &str| {
        let lower = text.to_lowercase();
        ["n/a", "none", "could not collect", "not available", "no cuda"].iter().any(|w| lower.starts_with(w))
    };
    if let Some(v) = value(&["pytorch version", "torch.__version__", "torch version", "pytorch:", "pytorch "])
        && facts.torch.is_none()
    {
        if unknown(&v) {
            facts.torch_not_importable = true;
        } else if let Some(version) =
            version_in(v.split_once("(you have ").map_or(v.as_str(), |(_, own)| own))
        {
            facts.torch = Some(version);
        }
    }
    if facts.torch.is_none() {
        facts.torch = printed_torch(text).map(|version| clean(version, 60));
    }
    if let Some(v) =
        value(&["cuda used to build pytorch", "torch.version.cuda", "pytorch built - cuda", "cuda compiled"])
        && facts.torch_cuda.is_none()
        && !facts.torch_not_importable
    {
        facts.torch_cuda = Some(if unknown(&v) { String::new() } else { short(&v) });
    }
    if let Some(v) = value(&[
        "is cuda available",
        "cuda available",
        "torch.cuda.is_available()",
        "torch.cuda.is_available",
    ]) && facts.available.is_none()
    {
        let v = v.to_lowercase();
        let v = v.trim_start_matches(['-', '>', ' ', '=']);
        facts.available = match v {
            v if v.starts_with("true") || v.starts_with("yes") => Some(true),
            v if v.starts_with("false") || v.starts_with("no") || v.starts_with("returns false") => {
                Some(false)
            }
            _ => None,
        };
    }
    if let Some(v) = value(&["nvidia driver version", "driver version"]) {
        match version_in(&v).filter(|_| !unknown(&v)) {
            Some(version) => driver::set(&version, facts),
            None => facts.no_driver_seen = true,
        }
    }
    // `Python 3.12.1 (main, ...)` of a session, or a line of a description.
    let banner =
        || head.strip_prefix("python ").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if let Some(v) = value(&["python version", "python:"]).or_else(|| banner().map(str::to_owned))
        && facts.python.is_none()
        && !unknown(&v)
    {
        facts.python = version_in(&v);
    }
    // `tf.version`, and the output of `jax.print_environment_info()`.
    for (keys, package) in [
        (&["tensorflow version", "tf version", "tf.__version__", "tensorflow:"][..], "tensorflow"),
        (&["jaxlib:"], "jaxlib"),
        (&["jax:"], "jax"),
    ] {
        if let Some(version) = value(keys).filter(|v| !unknown(v)).and_then(|v| version_in(&v)) {
            facts.packages.entry(package.to_owned()).or_insert((version, String::new()));
        }
    }
    if let Some(v) = value(&["os:", "os  "])
        && facts.os.is_none()
    {
        facts.os = Some(v);
    }
}

/// The version with a variant that a line begins with, as `print(torch.__version__, ...)` says it: `2.9.1+cu128`.
fn printed_torch(text: &str) -> Option<&str> {
    let first = text.trim_start_matches(['(', '\'', '"']).split([' ', '\'', '"', ',']).next()?;
    let (plain, local) = first.split_once('+')?;
    let is_version = plain.split('.').count() == 3 && plain.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    (is_version && !matches!(Variant::of(local), Variant::Other(_))).then_some(first)
}

/// The first version in a text, with its local part: `2.9.1+cu128`.
fn version_in(text: &str) -> Option<String> {
    let start = text.find(|c: char| c.is_ascii_digit())?;
    let tail = &text[start..];
    let end = tail.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '+')).unwrap_or(tail.len());
    let version = tail[..end].trim_end_matches('.');
    (version.len() < 60).then(|| version.to_owned())
}

/// `12.8` of `12.8.61`.
fn short(version: &str) -> String {
    let version = version_in(version).unwrap_or_default();
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn digits(text: &str) -> String {
    text.chars().take_while(char::is_ascii_digit).collect()
}
