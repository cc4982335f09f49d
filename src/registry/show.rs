//! `registry show`: the rows about one thing, as text.

use std::fmt::Write as _;

use super::rows::Build;
use super::Registry;

/// The rows of a torch version (all of a series when only `2.9` is given), one paragraph a row.
/// Empty when there is none.
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

fn describe(registry: &Registry, b: &Build, out: &mut String) {
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
    let pythons = b.pythons.as_ref().map(|p| {
        p.iter().map(|m| format!("3.{m}")).collect::<Vec<_>>().join(" ")
    });
    line("python", pythons.or_else(|| b.requires_python.as_ref().map(|r| format!("{r} (by requires-python)"))));
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
