//! Writes a lockfile. It is formatted by hand instead of with serde, to control every byte.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::{Lockfile, Target};
use crate::model::capability::CodeTarget;
use crate::model::choice::Choice;
use crate::model::image_digest::ImageDigest;
use crate::model::level::Level;
use crate::model::owner::Owner;
use crate::model::part::Part;
use crate::model::solution::ChosenPackage;
use crate::model::source::{CondaPackage, Source};
use crate::model::text::toml_string as quote;

/// The heading of a conda package.
const CONDA_PACKAGE: &str = "[[conda-package]]";

/// Whether a lock has conda packages, by its headings: a command that chooses an environment does not parse it twice.
pub fn has_conda_packages(text: &str) -> bool {
    text.lines().any(|line| line == CONDA_PACKAGE)
}

/// The key of the checksum line. The checksum covers everything after this line.
pub(super) const CHECKSUM_KEY: &str = "checksum = ";

/// The file's text: header, checksum, then everything the checksum covers. `stated_in`: what is changed to change the lock, for
/// the header: `envlock.toml`.
pub fn render(lock: &Lockfile, stated_in: &str) -> String {
    let mut body = String::new();
    let _ = writeln!(
        body,
        "registry = {{ date = {}, sha256 = {} }}",
        quote(&lock.registry_date),
        quote(&lock.registry_digest)
    );
    if let Some(held) = &lock.packages_in {
        let _ = writeln!(
            body,
            "packages-in = {{ file = {}, sha256 = {} }}",
            quote(held.owner.file()),
            quote(&held.sha256)
        );
    }
    body.push_str("\n[request]\n");
    let _ = writeln!(body, "sha256 = {}", quote(&request_digest(&lock.request)));
    list(&mut body, "lines", lock.request.iter().map(|l| quote(l)));
    if !lock.files.is_empty() {
        list(&mut body, "files", lock.files.iter().map(|file| quote(file)));
    }
    for target in &lock.targets {
        render_target(&mut body, target);
    }
    let names = |members: Vec<usize>| {
        let names = members.iter().map(|i| lock.targets[*i].name.as_str());
        (members.len() != lock.targets.len()).then(|| names.collect())
    };
    for (package, members) in shared(lock, |target| &target.packages, |p| &p.name, is_same) {
        render_package(&mut body, package, names(members));
    }
    for (package, members) in shared(lock, |target| &target.conda, |p| &p.name, |a, b| a == b) {
        render_conda_package(&mut body, package, names(members));
    }
    let mut out = format!(
        "{}. Change {} and run\n# `envlock resolve`; an edit by hand is noticed.\n",
        super::MARK,
        match lock.packages_in.as_ref().map(|held| held.owner) {
            None => stated_in,
            Some(Owner::Uv) => "pyproject.toml",
            Some(Owner::Pixi) => "pixi.toml",
        }
    );
    let _ = writeln!(out, "format = {}", quote(&lock.format.to_string()));
    let _ = writeln!(out, "{CHECKSUM_KEY}{}", quote(&checksum(&body)));
    out.push_str(&body);
    out
}

/// Whether two locks have the same content apart from the texts of reasons and sources: older versions of envlock
/// wrote sentences instead of codes.
pub fn same_answer(a: &Lockfile, b: &Lockfile) -> bool {
    let plain = |lock: &Lockfile| {
        let mut lock = lock.clone();
        for target in &mut lock.targets {
            for package in &mut target.packages {
                package.reason = Choice::Newest;
            }
            if let Some(driver) = &mut target.host.driver {
                driver.found_by = "".into();
            }
            target.host.system.found_by = "".into();
        }
        render(&lock, "envlock.toml")
    };
    plain(a) == plain(b)
}

/// Whether two targets have the same package. The reasons may differ; the lock has the reason of the first target.
fn is_same(a: &ChosenPackage, b: &ChosenPackage) -> bool {
    let plain = |p: &ChosenPackage| ChosenPackage { reason: Choice::Newest, ..p.clone() };
    plain(a) == plain(b)
}

/// Every package once, by name, with the targets that have it.
fn shared<'l, T>(
    lock: &'l Lockfile,
    of: impl Fn(&'l Target) -> &'l [T],
    name: impl Fn(&'l T) -> &'l str,
    is_same: impl Fn(&T, &T) -> bool,
) -> Vec<(&'l T, Vec<usize>)> {
    let mut by_name: BTreeMap<&str, Vec<(&T, Vec<usize>)>> = BTreeMap::new();
    for (i, target) in lock.targets.iter().enumerate() {
        for package in of(target) {
            let blocks = by_name.entry(name(package)).or_default();
            match blocks.iter_mut().find(|(first, _)| is_same(first, package)) {
                Some((_, members)) => members.push(i),
                None => blocks.push((package, vec![i])),
            }
        }
    }
    by_name.into_values().flatten().collect()
}

pub(super) fn checksum(body: &str) -> String {
    hex::encode(Sha256::digest(body.as_bytes()))
}

/// SHA-256 over the request's canonical lines.
pub(super) fn request_digest(lines: &[String]) -> String {
    hex::encode(Sha256::digest(lines.join("\n").as_bytes()))
}

fn render_target(out: &mut String, t: &Target) {
    out.push_str("\n[[target]]\n");
    field(out, "name", Some(&t.name));
    field(out, "python", Some(&t.python.to_string()));
    field(out, "python-patches", t.patches.specifiers(t.python.minor).as_deref());
    field(out, "platform", Some(&t.platform.to_string()));
    field(out, "level", Some(if t.level == Level::Full { "full" } else { "stack" }));
    field(out, "image", t.image.as_ref().map(ImageDigest::as_str));
    if let Some(s) = &t.stack {
        out.push_str("\n[target.stack]\n");
        field(out, "torch", Some(&s.version.to_string()));
        field(out, "variant", Some(&s.variant));
        field(out, "index", Some(&s.index));
        field(out, "evidence", Some(&s.evidence.to_string()));
        field(out, "cuda", s.cuda.as_ref().map(ToString::to_string).as_deref());
        field(out, "cudnn", s.cudnn.as_ref().map(|v| v.as_str()));
        field(out, "nccl", s.nccl.as_ref().map(|v| v.as_str()));
        field(out, "triton", s.triton.as_deref());
        field(out, "native-driver", s.native_driver.as_ref().map(|v| v.as_str()));
        if !s.companions.is_empty() {
            let items: Vec<String> =
                s.companions.iter().map(|(k, v)| format!("{k} = {}", quote(&v.to_string()))).collect();
            let _ = writeln!(out, "companions = {{ {} }}", items.join(", "));
        }
    }
    for x in &t.frameworks {
        out.push_str("\n[[target.framework]]\n");
        field(out, "name", Some(&x.name));
        field(out, "package", Some(&x.package));
        field(out, "version", Some(&x.version.to_string()));
        field(out, "cuda", Some(&x.cuda.to_string()));
        field(out, "cudnn", x.cudnn.as_ref().map(|v| v.as_str()));
        let _ = writeln!(out, "cuda-from-system = {}", x.cuda_from_system);
        if !x.conda.is_empty() {
            let items: Vec<String> = x.conda.iter().map(|c| quote(c)).collect();
            let _ = writeln!(out, "conda = [{}]", items.join(", "));
        }
        field(out, "evidence", Some(&x.evidence.to_string()));
        field(out, "native-driver", x.native_driver.as_ref().map(|v| v.as_str()));
    }
    out.push_str("\n[target.envelope]\n");
    field(out, "driver", t.envelope.driver.as_ref().map(|v| v.as_str()));
    field(out, "glibc", t.envelope.glibc.as_ref().map(|v| v.as_str()));
    list(
        out,
        "coverage",
        t.envelope.coverage.iter().map(|c| {
            let via = if c.via == crate::model::capability::Via::Sass { "sass" } else { "ptx" };
            let mut row = format!("{{ capability = \"{}\", via = \"{via}\"", c.compute_capability);
            for (key, value) in [("driver-min", &c.driver_min), ("driver-below", &c.driver_below)] {
                if let Some(value) = value {
                    let _ = write!(row, ", {key} = {}", quote(value.as_str()));
                }
            }
            row.push_str(" }");
            row
        }),
    );
    out.push_str(
        "\n# The machine that was looked at or described; later runs keep solving for it.\n[target.host]\n",
    );
    field(out, "driver", t.host.driver.as_ref().map(|d| d.version.as_str()));
    let compat = t.host.driver.as_ref().and_then(|d| d.compat.as_ref());
    field(out, "driver-compat", compat.map(|v| v.as_str()));
    field(out, "driver-found-by", t.host.driver.as_ref().map(|d| d.found_by.code()).as_deref());
    if let Some(gpus) = &t.host.gpus {
        list(
            out,
            "gpus",
            gpus.iter().map(|g| {
                let mut parts = Vec::new();
                if let Some(name) = &g.name {
                    parts.push(format!("name = {}", quote(name)));
                }
                if let Some(capability) = g.capability {
                    parts.push(format!("capability = \"{capability}\""));
                }
                format!("{{ {} }}", parts.join(", "))
            }),
        );
    }
    if let Some(libc) = &t.host.system.libc {
        field(out, libc.key(), Some(libc.version().as_str()));
    }
    field(out, "found-by", Some(&t.host.system.found_by.code()));
}

fn render_package(out: &mut String, p: &ChosenPackage, targets: Option<Vec<&str>>) {
    out.push_str("\n[[package]]\n");
    field(out, "name", Some(&p.name));
    field(out, "version", Some(&p.version.to_string()));
    match &p.source {
        Source::Index(index) => field(out, "index", Some(index)),
        Source::Url(url) => field(out, "url", Some(url)),
        Source::Git { repository, commit, subdirectory } => {
            let folder = subdirectory.iter().map(|folder| format!(", subdirectory = {}", quote(folder)));
            let folder: String = folder.collect();
            let _ = writeln!(
                out,
                "git = {{ repository = {}, commit = {}{folder} }}",
                quote(repository),
                quote(commit)
            );
        }
        Source::Path(path) => field(out, "path", Some(path)),
    }
    field(out, "variant", p.variant.as_deref());
    field(out, "reason", Some(&p.reason.code()));
    words(out, "targets", targets);
    let groups: Vec<String> = p.groups.iter().map(Part::code).collect();
    words(out, "groups", (!groups.is_empty()).then(|| groups.iter().map(String::as_str).collect()));
    if let Some(build) = &p.build {
        field(out, "build", Some(build.kind.code()));
        field(out, "metadata-from", Some(build.metadata_from.code()));
        let needs = (!build.needs.is_empty()).then(|| build.needs.iter().map(String::as_str).collect());
        words(out, "build-needs", needs);
        if !build.requires.is_empty() {
            let rows = build.requires.iter().map(|r| {
                format!(
                    "{{ name = {}, version = {}, file = {}, sha256 = {} }}",
                    quote(&r.name),
                    quote(&r.version.to_string()),
                    quote(&r.file),
                    quote(&r.sha256)
                )
            });
            list(out, "build-requires", rows);
        }
    }
    field(out, "metadata", p.metadata_sha256.as_deref());
    if let Some((targets, evidence)) = &p.targets {
        let codes = |l: &[CodeTarget]| l.iter().map(|t| format!("\"{t}\"")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "code = [{}]", codes(&targets.sass));
        if !targets.ptx.is_empty() {
            let _ = writeln!(out, "code-ptx = [{}]", codes(&targets.ptx));
        }
        field(out, "code-evidence", Some(&evidence.to_string()));
    }
    if !p.requires.is_empty() {
        list(out, "requires", p.requires.iter().map(|e| quote(&e.requirement)));
    }
    if !p.files.is_empty() {
        list(
            out,
            "files",
            p.files.iter().map(|f| {
                let mut row = format!("{{ name = {}", quote(&f.name));
                if let Some(sha256) = &f.sha256 {
                    let from = if f.hash_computed { "computed" } else { "index" };
                    let _ = write!(row, ", sha256 = {}, hash-from = \"{from}\"", quote(sha256));
                }
                if let Some(size) = f.size {
                    let _ = write!(row, ", size = {size}");
                }
                row.push_str(" }");
                row
            }),
        );
    }
}

fn render_conda_package(out: &mut String, p: &CondaPackage, targets: Option<Vec<&str>>) {
    let _ = writeln!(out, "\n{CONDA_PACKAGE}");
    for (key, value) in [
        ("name", &p.name),
        ("version", &p.version),
        ("build", &p.build),
        ("channel", &p.channel),
        ("subdir", &p.subdir),
        ("file", &p.file),
        ("sha256", &p.sha256),
        ("md5", &p.md5),
    ] {
        field(out, key, Some(value.as_str()).filter(|value| !value.is_empty()));
    }
    let _ = writeln!(out, "size = {}", p.size);
    words(out, "targets", targets);
    if !p.depends.is_empty() {
        list(out, "depends", p.depends.iter().map(|spec| quote(spec)));
    }
    if !p.constrains.is_empty() {
        list(out, "constrains", p.constrains.iter().map(|spec| quote(spec)));
    }
}

/// A short array on one line.
fn words(out: &mut String, key: &str, words: Option<Vec<&str>>) {
    if let Some(words) = words {
        let words: Vec<String> = words.into_iter().map(quote).collect();
        let _ = writeln!(out, "{key} = [{}]", words.join(", "));
    }
}

fn field(out: &mut String, key: &str, value: Option<&str>) {
    if let Some(value) = value {
        let _ = writeln!(out, "{key} = {}", quote(value));
    }
}

/// An array with one item per line, or `[]`.
fn list(out: &mut String, key: &str, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.collect();
    if items.is_empty() {
        let _ = writeln!(out, "{key} = []");
        return;
    }
    let _ = writeln!(out, "{key} = [");
    for item in items {
        let _ = writeln!(out, "    {item},");
    }
    out.push_str("]\n");
}
