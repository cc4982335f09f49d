//! `registry show`: formats rows as text.

use std::fmt::Write as _;

use super::rows::Build;
use super::{Cited, Registry};

/// The rows of a torch version, or of all versions of a series such as `2.9`; one paragraph for each row.
/// Empty if there are none.
pub fn torch(registry: &Registry, version: Option<&str>) -> String {
    let mut out = String::new();
    for build in registry.builds() {
        let own = build.version.to_string();
        let wanted = version.is_none_or(|v| own == v || own.starts_with(&format!("{v}.")));
        if wanted {
            describe(registry, build, &mut out);
        }
    }
    out
}

fn describe(registry: &Registry, b: &Cited<Build>, out: &mut String) {
    let _ = writeln!(out, "torch {} {} {}  [{}]", b.version, b.variant, b.platform, b.evidence);
    let mut line = |key: &str, value: Option<String>| {
        let _ = writeln!(out, "  {key:<12} {}", value.unwrap_or_else(|| "unknown".to_owned()));
    };
    line("index", Some(b.index()));
    if let Some(cuda) = &b.cuda {
        line("cuda", Some(crate::model::version::cuda_short(cuda)));
        line("cudnn", b.cudnn.as_ref().map(ToString::to_string));
        line("nccl", b.nccl.as_ref().map(ToString::to_string));
        line("triton", b.triton.clone());
        let list = |l: &[crate::model::capability::CodeTarget]| {
            l.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        };
        let targets = b.targets.as_ref().map(|t| {
            let ptx = if t.ptx.is_empty() { String::new() } else { format!("; PTX {}", list(&t.ptx)) };
            let evidence = b.targets_evidence.map(|e| format!("  [{e}]")).unwrap_or_default();
            format!("{}{ptx}{evidence}", list(&t.sass))
        });
        line("targets", targets);
    }
    let by = if b.wheels_inferred { "  (by the release's wheels on PyPI)" } else { "" };
    let series = |p: &Vec<u32>| p.iter().map(|m| format!("3.{m}")).collect::<Vec<_>>().join(" ");
    let pythons = b.pythons.as_ref().map(|p| series(p) + by);
    line(
        "python",
        pythons.or_else(|| b.requires_python.as_ref().map(|r| format!("{r} (by requires-python)"))),
    );
    if let Some(glibc) = &b.glibc {
        line("glibc", Some(format!(">= {glibc}")));
    }
    if let Some(bytes) = b.wheel_bytes {
        line("wheel", Some(format!("{} MB", bytes / 1_000_000)));
    }
    if let Some(v) = &b.torchvision {
        line("torchvision", Some(v.to_string()));
    }
    if let Some(v) = &b.torchaudio {
        line("torchaudio", Some(v.to_string()));
    }
    for id in &b.source {
        let text = registry.sources().get(id).map_or(id.as_str(), String::as_str);
        line("source", Some(text.to_owned()));
    }
    out.push('\n');
}

/// The registry's data on a GPU: compute capability, class, driver branches, and the torch builds that have code for it.
pub fn gpu(registry: &Registry, found: &super::GpuMatch) -> String {
    let mut out = format!("{}  compute capability {}\n", found.name, found.capability);
    if let Some(class) = &found.class {
        let _ = writeln!(out, "  class        {class}");
    }
    if let Some(architecture) = registry.architecture(found.capability) {
        let bound = |b: Option<u32>| b.map_or("unknown".to_owned(), |b| b.to_string());
        let _ = writeln!(
            out,
            "  architecture {}, driver branches {} (inferred) to {}",
            architecture.name,
            bound(architecture.first_branch),
            architecture.last_branch.map_or("today".to_owned(), |b| b.to_string()),
        );
    }
    let runs: Vec<&Cited<Build>> = registry
        .builds()
        .iter()
        .filter(|b| b.platform == crate::model::platform::Platform::LINUX_X86_64)
        .filter(|b| {
            b.targets.as_ref().is_some_and(|t| t.covers(found.capability, |c| registry.is_tegra(c)).is_some())
        })
        .collect();
    if let (Some(first), Some(last)) = (runs.first(), runs.last()) {
        let _ = writeln!(
            out,
            "  torch        {} {} to {} {} have code for it (linux-x86_64)",
            first.version, first.variant, last.version, last.variant
        );
    }
    out
}

/// The driver branches with their CUDA and end of life.
pub fn drivers(registry: &Registry, branch: Option<&str>) -> String {
    let mut out = String::new();
    for b in registry.branches() {
        let number = b.branch.to_string();
        if branch.is_none_or(|w| w == number || w.starts_with(&format!("{number}."))) {
            let kind = b.kind.as_deref().map(|k| format!(", {k}")).unwrap_or_default();
            let end = b.end_of_life.as_deref().map(|e| format!(", end of life {e}")).unwrap_or_default();
            let _ = writeln!(
                out,
                "driver {number}  CUDA {}{kind}{end}  [{}]",
                crate::model::version::cuda_short(&b.cuda),
                registry.source_text(&b.source)
            );
        }
    }
    out
}
