//! Renders compatibility data as a TOML block for a registry file.

use std::fmt::Write as _;

use super::Learned;
use crate::model::capability::{CodeTarget, CodeTargets};
use crate::model::text::{clean, toml_string as quote};
use crate::model::version::cuda_short;
use crate::registry::{COMPANIONS, Cited, CudaFrom, FrameworkBuild, LEARNED_SOURCE, Registry};

/// The TOML block. Comments above it name the wheel and the registry file.
pub fn render(learned: &Learned) -> String {
    let mut out = String::new();
    let hash = learned.sha256.as_ref().map(|sha256| format!(", sha256 {sha256}")).unwrap_or_default();
    let _ = writeln!(out, "# {}{hash}", clean(&learned.file, 200));
    match &learned.framework {
        // What has its code in a wheel that was not read is no row yet.
        Some(learned_framework) => learned
            .targets
            .iter()
            .for_each(|targets| framework(&mut out, &learned_framework.row(targets.clone()))),
        None if learned.project == "torch" => torch(&mut out, learned),
        None => companion(&mut out, learned),
    }
    out
}

/// The registry file of the row.
pub fn file_of(learned: &Learned) -> String {
    if let Some(framework) = &learned.framework {
        return format!("frameworks/{}.toml", framework.name());
    }
    if learned.project != "torch" {
        return "companions.toml".to_owned();
    }
    let series: Vec<String> = learned.version.release().iter().take(2).map(ToString::to_string).collect();
    format!("torch/{}.toml", series.join("."))
}

/// The keys in which the registry's row differs; `None` if the registry has no row.
pub fn differences(registry: &Registry, learned: &Learned) -> Option<Vec<&'static str>> {
    if let Some(framework) = &learned.framework {
        let row = registry.framework(&learned.project, &learned.version, learned.platform)?;
        let pairs = [
            ("cuda", row.cuda == *framework.cuda()),
            ("cudnn", row.cudnn.as_ref() == framework.cudnn()),
            ("targets", learned.targets.as_ref() == Some(&row.targets)),
        ];
        return Some(pairs.iter().filter(|(_, same)| !same).map(|(key, _)| *key).collect());
    }
    if learned.project != "torch" {
        let row = registry.companion(&learned.project, &learned.version)?;
        let pairs = [
            ("targets", row.targets == learned.targets),
            ("links_cuda", row.links_cuda == learned.links_cuda),
        ];
        // A row without targets states nothing of its libraries.
        let differs = |(_, same): &&(&str, bool)| row.targets.is_some() && !same;
        return Some(pairs.iter().filter(differs).map(|(key, _)| *key).collect());
    }
    let row = registry.build(&learned.version, learned.variant.as_deref()?, learned.platform)?;
    let text = |v: &Option<crate::model::version::DottedVersion>| v.as_ref().map(ToString::to_string);
    let cuda = row.cuda.as_ref().map(cuda_short);
    let pairs = [
        ("cuda", cuda == learned.cuda),
        ("cudnn", text(&row.cudnn) == learned.cudnn),
        ("nccl", text(&row.nccl) == learned.nccl),
        ("triton", row.triton == learned.triton),
        ("targets", row.targets == learned.targets),
        ("glibc", text(&row.glibc) == learned.files.glibc),
        ("python", learned.files.pythons.len() < 2 || row.pythons == Some(minors(&learned.files.pythons))),
        ("requires_python", row.requires_python.as_ref().map(ToString::to_string) == learned.requires_python),
    ];
    Some(pairs.iter().filter(|(_, same)| !same).map(|(key, _)| *key).collect())
}

/// The minor versions of ABI tags, without those of the free-threaded build: 12 of `cp312`.
fn minors(tags: &[String]) -> Vec<u32> {
    tags.iter().filter_map(|tag| tag.strip_prefix("cp3")?.parse().ok()).collect()
}

fn torch(out: &mut String, learned: &Learned) {
    let _ = writeln!(out, "# belongs to registry/{}", file_of(learned));
    out.push_str("[[build]]\n");
    field(out, "version", Some(&learned.version.to_string()));
    field(out, "variant", learned.variant.as_deref());
    field(out, "platform", Some(&learned.platform.to_string()));
    field(out, "index", Some(if learned.is_of_pytorch { "pytorch" } else { "pypi" }));
    field(out, "cuda", learned.cuda.as_deref());
    field(out, "cudnn", learned.cudnn.as_deref());
    field(out, "nccl", learned.nccl.as_deref());
    field(out, "triton", learned.triton.as_deref());
    codes(out, learned.targets.as_ref());
    if learned.targets.is_some() {
        field(out, "targets_evidence", Some("measured"));
    }
    list(out, "python", &learned.files.pythons);
    field(out, "requires_python", learned.requires_python.as_deref());
    field(out, "glibc", learned.files.glibc.as_deref());
    if let Some(bytes) = learned.files.bytes {
        let _ = writeln!(out, "wheel_bytes = {bytes}");
    }
    field(out, "evidence", Some("measured"));
    list(out, "source", &[LEARNED_SOURCE.to_owned()]);
}

fn framework(out: &mut String, build: &Cited<FrameworkBuild>) {
    let _ = writeln!(out, "# belongs to registry/frameworks/{}.toml\n[[build]]", clean(&build.framework, 40));
    field(out, "framework", Some(&build.framework));
    field(out, "package", Some(&build.package));
    field(out, "versions", Some(&build.versions.to_string()));
    field(out, "platform", Some(&build.platform.to_string()));
    field(out, "cuda", Some(&cuda_short(&build.cuda)));
    field(out, "cudnn", build.cudnn.as_ref().map(ToString::to_string).as_deref());
    let (cuda_from, extra) = match &build.cuda_from {
        CudaFrom::System => ("system", None),
        CudaFrom::Packages => ("packages", None),
        CudaFrom::Extra(extra) => ("extra", Some(extra.as_str())),
    };
    field(out, "cuda_from", Some(cuda_from));
    field(out, "extra", extra);
    list(out, "conda", &build.conda);
    field(out, "ask", build.ask.as_deref());
    field(out, "code_in", build.code_in.as_deref());
    codes(out, Some(&build.targets));
    field(out, "targets_evidence", Some(&build.targets_evidence.to_string()));
    field(out, "evidence", Some(&build.evidence.to_string()));
    list(out, "source", &build.source);
}

fn companion(out: &mut String, learned: &Learned) {
    out.push_str("# belongs to registry/companions.toml\n[[companion]]\n");
    field(out, "package", Some(&learned.project));
    field(out, "version", Some(&learned.version.to_string()));
    field(out, "torch", learned.torch.as_deref());
    // In a lock, only torch's companions have a variant.
    field(
        out,
        "variant",
        learned.variant.as_deref().filter(|_| COMPANIONS.contains(&learned.project.as_str())),
    );
    codes(out, learned.targets.as_ref());
    if !learned.links_cuda.is_empty() {
        let _ = writeln!(out, "links_cuda = {:?}", learned.links_cuda);
    }
    field(out, "platform", Some(&learned.platform.to_string()));
    field(out, "evidence", Some("measured"));
    list(out, "source", &[LEARNED_SOURCE.to_owned()]);
}

fn codes(out: &mut String, targets: Option<&CodeTargets>) {
    let Some(targets) = targets else { return };
    let texts = |list: &[CodeTarget]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    list(out, "targets", &texts(&targets.sass));
    list(out, "ptx", &texts(&targets.ptx));
}

fn field(out: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        let _ = writeln!(out, "{key} = {}", quote(value));
    }
}

fn list(out: &mut String, key: &str, items: &[String]) {
    if !items.is_empty() {
        let items: Vec<String> = items.iter().map(|item| quote(item)).collect();
        let _ = writeln!(out, "{key} = [{}]", items.join(", "));
    }
}
