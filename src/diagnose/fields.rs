//! One line to facts: the keys of dumps, the tables of tools, the words of sentences.

use super::facts::{Facts, Hints};
use crate::model::text::clean;

/// No more packages and GPUs are kept.
const MAX_LIST: usize = 2_000;

/// What kind of surroundings a line gives away.
pub(super) fn hints(lower: &str, hints: &mut Hints) {
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    hints.wsl |= has(&["wsl", "microsoft-standard"]);
    hints.windows |= has(&["os: microsoft windows", "c:\\", ".dll", "win_amd64", "windows 10", "windows 11"]);
    hints.macos |=
        has(&["macos", "darwin", "os: mac", "/library/frameworks", "apple m1", "apple m2", "apple m3"]);
    hints.jetson |= has(&["jetson", "l4t", "tegra", "jetpack"]);
    hints.container |= has(&["docker", "container", "podman", "kubernetes", "dockerfile", "singularity"]);
    hints.conda |= has(&["conda"]);
    // Every collector has a line about ROCm; mostly it says that there is none.
    hints.rocm |= has(&["radeon", "amd gpu", " hip "]) || (has(&["rocm"]) && !has(&["n/a", "none"]));
    hints.mig |= has(&["mig-", "mig 1g", "mig device", "mig enabled"]);
    hints.library_path |= has(&["ld_library_path"]);
    hints.compat |= has(&["cuda-compat", "cuda/compat", "compat libraries", "compat directory"]);
    hints.extension |=
        has(&["vllm", "detectron2", "flash_attn", "flash-attn", "mmcv", "xformers", "torch-scatter"]);
    hints.torch_replaced |=
        has(&["uninstalling torch-", "found existing installation: torch ", "- torch==", "~ torch=="]);
}

/// Indexes that an installer was pointed to, and libraries that stand in a folder.
pub(super) fn named(text: &str, lower: &str, facts: &mut Facts) {
    if let Some(at) = lower.find("/whl/") {
        let tail = &lower[at + 5..];
        let end = tail.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tail.len());
        let variant = tail[..end].to_owned();
        if variant.starts_with("cu")
            && !facts.asked_variants.contains(&variant)
            && facts.asked_variants.len() < 16
        {
            facts.asked_variants.push(variant);
        }
    }
    if lower.contains("cannot open shared object") || lower.contains("could not load") {
        return;
    }
    for word in text.split([' ', ',', ';', '\'', '"', '(', ')']) {
        if word.starts_with('/')
            && let Some((_, name)) = word.rsplit_once('/')
            && name.starts_with("lib")
            && name.contains(".so")
            && facts.libraries.len() < 64
        {
            facts.libraries.push(clean(name, 80));
        }
    }
}

/// `Key: value` of the collectors and of vendor tables.
pub(super) fn field(text: &str, lower: &str, facts: &mut Facts) {
    let value = |keys: &[&str]| -> Option<String> {
        keys.iter().find_map(|key| {
            let at = lower.find(key)?;
            // A key stands at the start of a line, or behind a bracket of another layout.
            if lower[..at].chars().any(|c| c.is_alphanumeric()) {
                return None;
            }
            let rest = text.get(at + key.len()..)?.trim_start();
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
        } else if let Some(version) = version_in(&v) {
            facts.torch = Some(version);
        }
    }
    if let Some(v) =
        value(&["cuda used to build pytorch", "torch.version.cuda", "pytorch built - cuda", "cuda compiled"])
        && facts.torch_cuda.is_none()
        && !facts.torch_not_importable
    {
        facts.torch_cuda = Some(if unknown(&v) { String::new() } else { short(&v) });
    }
    if let Some(v) = value(&["is cuda available", "cuda available", "torch.cuda.is_available()"])
        && facts.available.is_none()
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
            Some(version) => driver(&version, facts),
            None => facts.no_driver_seen = true,
        }
    }
    if let Some(v) = value(&["python version", "python:"])
        && facts.python.is_none()
        && !unknown(&v)
    {
        facts.python = version_in(&v);
    }
    if let Some(v) = value(&["os:", "os  "])
        && facts.os.is_none()
    {
        facts.os = Some(v);
    }
    if let Some(v) = value(&["libc version", "glibc version"])
        && facts.glibc.is_none()
    {
        facts.glibc = version_in(&v);
    }
    gpu(text, lower, facts);
    smi(text, lower, facts);
    // `capability sm_120`, `of cuda capability 7.0`
    if let Some(at) = lower.find("capability") {
        let rest = &lower[at..];
        let named = rest.find("sm_").map(|at| format!("sm_{}", digits(&rest[at + 3..])));
        let plain = rest.split_whitespace().find(|w| {
            w.contains('.')
                && w.trim_end_matches('.')
                    .split('.')
                    .all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()))
        });
        let found = named.or_else(|| plain.map(|w| w.trim_end_matches('.').to_owned()));
        if facts.capability.is_none() {
            facts.capability =
                found.filter(|c| c.parse::<crate::model::capability::ComputeCapability>().is_ok());
        }
    }
}

/// `GPU 0: NVIDIA A100`, `GPU models and configuration: GPU 0: TITAN Xp`, `GPU 0,1   GeForce GTX TITAN X (arch=5.2)`.
fn gpu(text: &str, lower: &str, facts: &mut Facts) {
    if lower.contains("gpu models and configuration")
        && (lower.contains("could not collect") || lower.contains("no cuda"))
    {
        facts.no_driver_seen |= lower.contains("could not collect");
        return;
    }
    if facts.gpus.len() >= 64 {
        return;
    }
    let names = ["geforce", "tesla", "quadro", "titan", "nvidia ", "rtx ", "rtx a", "gtx "];
    let starts =
        ["gpu 0", "gpu0", "gpu:", "gpu ", "gpu models", "device name", "device=", "gpus:", "found gpu"];
    let head = lower.trim_start_matches(['-', '*', '|', ' ']);
    let product = ["geforce ", "tesla ", "quadro ", "rtx ", "gtx ", "titan "];
    let names_product = |head: &str| {
        product.iter().any(|p| head.starts_with(p)) && head.contains(|c: char| c.is_ascii_digit())
    };
    let at_start = names_product(head.strip_prefix("nvidia ").unwrap_or(head))
        || starts.iter().any(|s| lower.trim_start_matches(['-', '*', '|', ' ']).starts_with(s));
    if !at_start && !lower.contains("with cuda capability") && !lower.contains("| nvidia ") {
        return;
    }
    let Some(at) = names.iter().filter_map(|n| lower.find(n)).min() else {
        // `GPU 0: A100-SXM4-40GB`
        if let Some((head, rest)) = text.split_once(':')
            && head.trim().to_lowercase().starts_with("gpu ")
            && head.len() < 12
        {
            push_gpu(rest, facts);
        }
        return;
    };
    if let Some(rest) = text.get(at..) {
        push_gpu(rest, facts);
    }
}

fn push_gpu(text: &str, facts: &mut Facts) {
    let ends = [" (", " with cuda", " which", "  ", " |", ",", " x", ";"];
    let lower = text.to_lowercase();
    let end = ends.iter().filter_map(|e| lower.find(e)).filter(|at| *at > 3).min().unwrap_or(text.len());
    let name = text.get(..end).unwrap_or(text).trim().trim_end_matches(['.', ':']);
    if name.len() > 2 && !facts.gpus.iter().any(|known| known == name) {
        facts.gpus.push(clean(name, 80));
    }
}

/// nvidia-smi's banner, the kernel's line about its module, and sentences such as `driver 470.57.02`.
fn smi(text: &str, lower: &str, facts: &mut Facts) {
    for key in [
        "driver version:",
        "nvidia-smi ",
        "kernel module ",
        "kernel module for x86_64 ",
        "driver ",
        "nvidia-utils: ",
    ] {
        let Some(at) = lower.find(key) else { continue };
        let Some(rest) = text.get(at + key.len()..) else { continue };
        if let Some(version) = version_in(rest).filter(|v| is_driver(v))
            && rest.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '=' || c == ':')
        {
            driver(&version, facts);
        }
    }
    if lower.contains("cuda version:") || lower.contains("cuda umd version") {
        let at = lower.find("cuda version:").or_else(|| lower.find("cuda umd version")).unwrap_or(0);
        if let Some(version) = text.get(at..).and_then(version_in)
            && lower.contains("driver")
            && facts.driver_cuda.is_none()
        {
            facts.driver_cuda = Some(short(&version));
        }
    }
    // The driver's CUDA as an integer: 11040 is 11.4.
    if let Some(at) = lower.find("found version ") {
        let number: u32 = digits(&lower[at + 14..]).parse().unwrap_or(0);
        if (5_000..100_000).contains(&number) {
            facts.driver_cuda = Some(format!("{}.{}", number / 1000, number % 1000 / 10));
        }
    }
}

fn driver(version: &str, facts: &mut Facts) {
    if facts.driver.is_none() && is_driver(version) {
        facts.driver = Some(version.to_owned());
        facts.no_driver_seen = false;
    }
}

fn is_driver(version: &str) -> bool {
    let mut parts = version.split('.');
    let branch = parts.next().and_then(|p| p.parse::<u32>().ok());
    branch.is_some_and(|branch| (300..1_000).contains(&branch)) && parts.next().is_some()
}

/// `[pip3] torch==1.13.0+cu117`, `[conda] pytorch 1.0.0 py3.7_cuda90 pytorch`, `torch   2.4.0  pypi_0  pypi`.
pub(super) fn package(text: &str, facts: &mut Facts) {
    if facts.packages.len() >= MAX_LIST {
        return;
    }
    let body =
        ["[pip]", "[pip3]", "[conda]"].iter().find_map(|tag| text.strip_prefix(tag)).unwrap_or(text).trim();
    let body = body.trim_start_matches(['-', '+', '~', '*', ' ']);
    for word in body.split([' ', ',', ';', '"', '\'', '`', '(', ')']) {
        if let Some((name, version)) = word.split_once("==")
            && is_name(name)
            && let Some(version) = version_in(version)
        {
            add_package(name, &version, "", facts);
        }
    }
    let mut words = body.split_whitespace();
    if let (Some(name), Some(version)) = (words.next(), words.next())
        && is_name(name)
        && WATCHED.iter().any(|w| crate::model::text::normalized_name(name).starts_with(w))
        && version.starts_with(|c: char| c.is_ascii_digit())
        && version.contains('.')
        && let Some(version) = version_in(version)
    {
        add_package(name, &version, words.next().unwrap_or_default(), facts);
    }
}

/// Names that are taken out of tables; any sentence might start with another word and a number.
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

fn add_package(name: &str, version: &str, build: &str, facts: &mut Facts) {
    let name = crate::model::text::normalized_name(name);
    if facts.torch.is_none() && (name == "torch" || name == "pytorch") && !facts.torch_not_importable {
        facts.torch = Some(version.to_owned());
    }
    facts.packages.entry(name).or_insert_with(|| (version.to_owned(), clean(build, 60)));
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() < 60
        && text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.[]".contains(&b))
}

/// The first version in a text, with a local part: `2.9.1+cu128`.
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
