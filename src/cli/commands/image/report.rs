//! The output of `image`: text and JSON.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::TOLD;
use crate::cli::commands::verify::{findings, verdict_word};
use crate::cli::printer::{ERROR, GOOD, Printer, WARN, wrap};
use crate::cli::report::runs_on;
use crate::image::Format;
use crate::model::bytes::Bytes;
use crate::model::count::Count;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::solution::Envelope;
use crate::model::text::clean;
use crate::model::variant::cuda_of_variant;
use crate::session::image::{ImageAnswer, InImage};
use crate::session::verify::Judged;
use crate::verify::{Area, loaded_versions};

/// Maximum number of environments that are named without being judged.
const NAMED: usize = 8;
/// Width of the words before the facts.
const COLUMN: usize = 15;

/// What was found in an image, for people and programs.
pub(super) struct Shown<'a>(pub &'a ImageAnswer);

impl Shown<'_> {
    pub fn json(&self) -> Value {
        let environments: Vec<Value> = self.0.judged.iter().map(environment).collect();
        let of_one = |one: &InImage| -> Vec<Value> {
            let findings = one.judged.areas.iter().flat_map(|area| &area.findings);
            let with_prefix = findings.map(|finding| {
                let mut value = json!(finding);
                value["environment"] = json!(one.prefix);
                value
            });
            with_prefix.collect()
        };
        let of_whole = self.0.whole.iter().flat_map(|area| &area.findings).map(|finding| {
            let mut value = json!(finding);
            value["environment"] = Value::Null;
            value
        });
        let findings: Vec<Value> = of_whole.chain(self.0.judged.iter().flat_map(of_one)).collect();
        json!({
            "manifest_digest": self.0.image.manifest_digest,
            "config_digest": self.0.image.config_digest,
            "architecture": self.0.image.config.architecture,
            "layers": self.0.image.layers,
            "unpacked_bytes": self.0.image.unpacked,
            "spooled_bytes": self.0.image.spooled,
            "variables": self.variables().collect::<BTreeMap<_, _>>(),
            "environments": environments,
            "verdict": self.0.verdict(),
            "findings": findings,
            "host_needs": self.host_needs(),
        })
    }

    /// What a machine needs for all environments that were judged.
    fn host_needs(&self) -> Value {
        let needs: Vec<_> = self.0.judged.iter().filter_map(|one| one.needs.as_ref()).collect();
        let driver = needs.iter().filter_map(|envelope| envelope.driver.as_ref()).max();
        let coverage: Vec<_> = needs.iter().flat_map(|envelope| &envelope.coverage).collect();
        json!({ "driver": driver.map(ToString::to_string), "coverage": coverage })
    }

    /// The variables that matter for GPUs and libraries.
    fn variables(&self) -> impl Iterator<Item = (&'static str, &String)> {
        TOLD.into_iter().filter_map(|name| Some((name, self.0.image.config.variables.get(name)?)))
    }

    pub fn text(&self, path: &Path, p: &Printer) {
        let image = &self.0.image;
        if !p.quiet {
            let kind = match (image.format, image.layers) {
                (Format::Layers, 1) => "1 layer".to_owned(),
                (Format::Layers, layers) => format!("{layers} layers"),
                (Format::Sif, _) => "SIF".to_owned(),
                (Format::SquashFs, _) => "SquashFS".to_owned(),
            };
            let platform = match clean(&image.config.architecture, 20) {
                // A file system alone does not say.
                arch if arch.is_empty() => String::new(),
                arch => format!("{}/{arch}, ", clean(&image.config.os, 20)),
            };
            p.out(&format!(
                "image {}: {platform}{kind}, {} unpacked",
                clean(&path.display().to_string(), 200),
                Bytes(image.unpacked)
            ));
            let fact = |word: &str, text: &str| p.out(&format!("  {word:<12} {}", wrap(text, COLUMN)));
            if let Some(digest) = &image.manifest_digest {
                fact("manifest", digest);
            }
            if let Some(digest) = &image.config_digest {
                fact("config", digest);
            }
            for (name, value) in self.variables() {
                fact("variable", &format!("{name}={}", clean(value, 300)));
            }
            fact("read", &format!("{} kept in a temporary file, which is removed", Bytes(image.spooled)));
            if let Some(area) = &self.0.whole {
                area_line(area, p);
                findings(p, area.findings.iter());
            }
            self.0.judged.iter().for_each(|one| environment_text(one, self.0.has_lock, p));
            self.others(p);
        }
        p.out("");
        p.out(&self.last_line(p));
    }

    /// The environments that were found and not judged.
    fn others(&self, p: &Printer) {
        let is_judged = |prefix: &Path| self.0.judged.iter().any(|one| one.prefix == *prefix);
        let mut others: Vec<_> = self.0.found.found.iter().filter(|(prefix, _)| !is_judged(prefix)).collect();
        others.sort_by_key(|(_, one)| !one.has_framework);
        let others: Vec<String> = others
            .into_iter()
            .map(|(prefix, one)| format!("{} ({})", clean(&prefix.display().to_string(), 200), one.packages))
            .collect();
        if !self.0.found.is_complete {
            p.out("");
            p.out(&wrap("the image has more folders than are searched: there may be other environments", 2));
        }
        if others.is_empty() {
            return;
        }
        p.out("");
        let more = if others.len() > NAMED { ", ..." } else { "" };
        let named = others[..others.len().min(NAMED)].join(", ");
        let text = format!(
            "other environments, with their numbers of packages: {named}{more} (`--prefix` judges one)"
        );
        p.out(&wrap(&text, 2));
    }

    fn last_line(&self, p: &Printer) -> String {
        let all = || self.0.areas().flat_map(|area| &area.findings);
        let count = |severity: Severity| all().filter(|finding| finding.severity == severity).count();
        let plural = |count: usize, word: &str| Count(count).of(word);
        if self.0.judged.is_empty() {
            return p.paint(WARN, "no Python environment with packages was found");
        }
        match (count(Severity::Error), count(Severity::Warning)) {
            (0, 0) if all().any(|finding| finding.code == Code::NotJudged) => {
                p.paint(GOOD, "clean, as far as it was checked")
            }
            (0, 0) => p.paint(GOOD, "clean"),
            (0, warnings) => p.paint(WARN, &format!("passed with {}", plural(warnings, "warning"))),
            (errors, _) => p.paint(ERROR, &plural(errors, "error")),
        }
    }
}

/// Prints an environment. `has_lock`: whether it was compared with a lock.
fn environment_text(one: &InImage, has_lock: bool, p: &Printer) {
    let judged = &one.judged;
    let python = judged.installed.python.map(|v| format!(" (Python {v})")).unwrap_or_default();
    p.out("");
    let against = if has_lock { format!(", {}", judged.against) } else { String::new() };
    p.out(&format!("environment {}{python}{against}", clean(&one.prefix.display().to_string(), 200)));
    let fact = |word: &str, text: &str| p.out(&format!("  {word:<12} {}", wrap(text, COLUMN)));
    let (cudnn, cuda) = versions(judged);
    let named = ["torch", "tensorflow", "jax", "vllm"];
    let packages = judged.installed.distributions.iter().filter(|d| named.contains(&d.name.as_str()));
    let versions = packages.map(|d| match &d.variant {
        Some(variant) if !d.version.to_string().contains('+') => {
            format!("{} {}+{variant}", d.name, d.version)
        }
        _ => format!("{} {}", d.name, d.version),
    });
    let runtime = cuda.map(|version| format!("CUDA {version}"));
    let cudnn = cudnn.map(|version| format!("cuDNN {version}"));
    let contains: Vec<String> = versions.chain(runtime).chain(cudnn).collect();
    if !contains.is_empty() {
        fact("contains", &contains.join(", "));
    }
    if let Some(needs) = one.needs.as_ref().filter(|needs| !needs.coverage.is_empty()) {
        // The image brings its own C library.
        fact("host needs", &runs_on(&Envelope { glibc: None, ..needs.clone() }));
    }
    judged.areas.iter().for_each(|area| area_line(area, p));
    let all: Vec<&Finding> = judged.areas.iter().flat_map(|area| &area.findings).collect();
    findings(p, all.into_iter());
}

/// The line of an area: its subject, the verdict, what was found.
fn area_line(area: &Area, p: &Printer) {
    let word = verdict_word(area, p);
    p.out(format!("  {:<12} {word}  {}", area.kind, wrap(&area.summary, COLUMN + 9)).trim_end());
}

/// The versions of cuDNN and of CUDA that the frameworks load. Most runtimes do not say theirs: then the one that torch was
/// built with.
fn versions(judged: &Judged) -> (Option<String>, Option<String>) {
    let (cudnn, cuda) = loaded_versions(&judged.native);
    let of_torch = || {
        let torch = judged.installed.distributions.iter().find(|d| d.name == "torch")?;
        let (major, minor) = cuda_of_variant(torch.variant.as_deref()?)?;
        Some(format!("{major}.{minor}"))
    };
    (cudnn, cuda.or_else(of_torch))
}

/// An environment, with what it contains.
fn environment(one: &InImage) -> Value {
    let judged = &one.judged;
    let (cudnn, cuda) = versions(judged);
    let packages: BTreeMap<&str, String> =
        judged.installed.distributions.iter().map(|d| (d.name.as_str(), d.version.to_string())).collect();
    json!({
        "prefix": one.prefix,
        "python": judged.installed.python.map(|python| python.to_string()),
        "packages": packages,
        "cudnn": cudnn,
        "cuda": cuda,
    })
}
