//! The process that importing the frameworks would make: does it consist of the environment's own libraries?

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use super::paths::{file_name, folder, shown};
use super::{Area, driver_library, finding};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::host::Host;
use crate::model::installed::{FileFault, Installed};
use crate::model::library::LibraryVersion;
use crate::model::native::{Native, OwnLibrary};
use crate::model::process::{FindsBy, How, Object, Process};
use crate::model::text::clean;
use crate::model::version::DottedVersion;
use crate::registry::Registry;

/// The libraries of torch and CUDA by the start of their names: of others a system's copy does as well.
const OURS: [&str; 7] = ["libcu", "libnv", "libnccl", "libtorch", "libc10", "libcaffe2", "libshm"];
/// No more copies are named.
const MOST_COPIES: usize = 3;

/// `driver_is_due` tells whether the driver's library has to be on this machine where a GPU is.
pub(super) fn check(
    native: &Native,
    installed: &Installed,
    host: &Host,
    driver_is_due: bool,
    registry: &Registry,
) -> Area {
    let mut area = Area { name: "libraries".into(), ..Area::default() };
    if let Some(why) = &native.not_done {
        area.findings.push(finding(Code::NotJudged, Severity::Info, why.clone()));
        area.summary = "not judged".to_owned();
    }
    if native.interpreter_gone {
        area.findings.push(Finding {
            fix: Some("make the environment anew: its interpreter was removed or moved".to_owned()),
            r#where: Some("bin/python".to_owned()),
            ..finding(
                Code::MissingInterpreter,
                Severity::Error,
                "bin/python is a link that leads nowhere".to_owned(),
            )
        });
    }
    unreadable(native, installed, &mut area.findings);
    extensions(native, &mut area.findings);
    let Some(process) = &native.process else { return area };
    let judge = Judge { native, installed, process };
    let mut of_cudnn = Vec::new();
    for (at, object) in process.objects.iter().enumerate().skip(1) {
        let name = file_name(&object.path);
        if name.starts_with("libcudnn") {
            of_cudnn.push(at);
        }
        if name.starts_with("libcuda.so") {
            driver_library::loaded(object, host, registry, &mut area.findings);
        } else {
            area.findings.extend(judge.shadowed(at, object, &name));
        }
    }
    area.findings.extend(judge.missing());
    area.findings.extend(driver_library::absent(process, host, driver_is_due));
    area.findings.extend(judge.missing_versions());
    // One cause is told once.
    let told = |f: &Finding| f.code == Code::ShadowedLibrary && f.severity == Severity::Error;
    if !area.findings.iter().any(told) {
        area.findings.extend(judge.mixed_cudnn(&of_cudnn));
    }
    area.findings.extend(judge.other_copies());
    area.summary = judge.summary(&of_cudnn);
    area
}

/// Libraries that cannot be read. One whose size or hash is wrong is told with the files.
fn unreadable(native: &Native, installed: &Installed, findings: &mut Vec<Finding>) {
    for (package, path, why) in &native.unreadable {
        let distribution = installed.distributions.iter().find(|d| d.name == *package);
        let told = distribution.is_some_and(|d| {
            d.faults.iter().any(|fault| match fault {
                FileFault::Missing(p)
                | FileFault::Size(p, ..)
                | FileFault::Hash(p)
                | FileFault::Unreadable(p, _) => p == path,
                FileFault::OwnedTwice(..) => false,
            })
        });
        // What is called a library may be a text for the linker.
        if told || why.contains("no 64-bit ELF") {
            continue;
        }
        findings.push(Finding {
            r#where: Some(clean(path, 200)),
            ..finding(
                Code::UnreadableLibrary,
                Severity::Error,
                format!("{} of {package} cannot be read: {why}", clean(path, 160)),
            )
        });
    }
}

fn extensions(native: &Native, findings: &mut Vec<Finding>) {
    for foreign in &native.foreign {
        let text = format!(
            "{} of {} was built for another torch: {} of its symbols are defined nowhere, `{}` for one",
            foreign.path,
            foreign.package,
            foreign.count,
            clean(&foreign.example, 70)
        );
        findings.push(Finding {
            fix: Some(format!("install the build of {} for this torch, or build it again", foreign.package)),
            r#where: Some(foreign.path.clone()),
            ..finding(Code::ExtensionAbi, Severity::Error, text)
        });
    }
}

struct Judge<'a> {
    native: &'a Native,
    installed: &'a Installed,
    process: &'a Process,
}

impl Judge<'_> {
    /// Whether the environment has a library of that name, and the loader takes another.
    fn shadowed(&self, at: usize, object: &Object, name: &str) -> Option<Finding> {
        // By the name that others ask for it: a file may carry its whole version.
        let serves = |own: &&OwnLibrary| {
            file_name(&own.file) == name || (object.soname.is_some() && own.library.soname == object.soname)
        };
        let mut own: Vec<_> = self.native.own.iter().filter(serves).collect();
        // What is asked for by its path is what is meant.
        if own.is_empty() || object.how == How::Path || !OURS.iter().any(|kind| name.starts_with(kind)) {
            return None;
        }
        if own.iter().any(|own| own.file == object.file) {
            return None;
        }
        own.sort_by_key(|own| own.library.path.clone());
        let own = own[0];
        let there = self.native.versions.get(at).and_then(Option::as_ref).map(short);
        // NVIDIA's wheels are versioned as their libraries are.
        let here = own.library.version.as_ref().map(short).or_else(|| {
            let package = self.installed.distributions.iter().find(|d| d.name == own.package)?;
            package.name.starts_with("nvidia-").then(|| first_three(&package.version.to_string()))
        });
        let numbers = |text: &String| text.parse::<DottedVersion>().ok();
        let order =
            there.as_ref().and_then(numbers).zip(here.as_ref().and_then(numbers)).map(|(a, b)| a.cmp(&b));
        // A whole cuDNN of another release is no mixture: it runs, but under a torch that was built with a newer one.
        let is_cudnn = name.starts_with("libcudnn");
        let whole = is_cudnn && self.cudnn_is_elsewhere();
        let of_torch = self.installed.distributions.iter().any(|d| d.name == "torch");
        let severity = match order {
            Some(Ordering::Equal) => Severity::Info,
            Some(Ordering::Less) if whole && !of_torch => Severity::Warning,
            Some(Ordering::Greater) if whole => Severity::Warning,
            Some(Ordering::Less) => Severity::Error,
            // A newer library of the same major serves what was built for an older one; parts of cuDNN do not.
            Some(Ordering::Greater) if is_cudnn => Severity::Error,
            Some(Ordering::Greater) | None => Severity::Warning,
        };
        let (why, fix) = self.cause(object, name, Some(&file_name(&own.file)));
        let versions = match (&there, &here) {
            (Some(there), Some(here)) if severity == Severity::Error => {
                let what = match name {
                    _ if whole => "; torch refuses a cuDNN older than the one that it was built with",
                    _ if is_cudnn => "; the first convolution would abort",
                    _ => "; what was built for the newer one finds symbols missing",
                };
                format!(". {there} there, {here} in {}{what}", own.package)
            }
            (Some(there), Some(here)) => format!(". {there} there, {here} in {}", own.package),
            (Some(there), None) => format!(". {there} there"),
            (None, _) => String::new(),
        };
        Some(Finding {
            fix,
            r#where: Some(shown(&object.path)),
            ..finding(
                Code::ShadowedLibrary,
                severity,
                format!(
                    "{name} would come from {}, not from {}: {why}{versions}",
                    folder(&object.file),
                    own.package
                ),
            )
        })
    }

    /// Why the loader takes a file, and what mends it.
    fn cause(&self, object: &Object, name: &str, own: Option<&str>) -> (String, Option<String>) {
        let by = object.by.and_then(|by| self.process.objects.get(by));
        let by_name = by.map_or_else(|| "the program".to_owned(), |by| file_name(&by.path));
        match &object.how {
            How::LibraryPath(folder) => {
                let folder = shown(folder);
                let whole = own.map(|own| format!("asks for {name} before {own}")).unwrap_or_default();
                let way = match by.map(|by| by.finds_by) {
                    _ if own.is_some_and(|own| own != name) && object.name == name => whole.as_str(),
                    _ if own.is_none() => "looks there before the system's folders",
                    Some(FindsBy::Runpath) => "finds others by RUNPATH, which loses to LD_LIBRARY_PATH",
                    Some(FindsBy::Rpath) => "has an RPATH that does not lead to it",
                    _ => "has no path of its own to it",
                };
                (
                    format!("LD_LIBRARY_PATH has {folder}, and {by_name} {way}"),
                    Some(format!("unset LD_LIBRARY_PATH, or remove {folder} from it")),
                )
            }
            How::Preload => (
                format!("LD_PRELOAD or /etc/ld.so.preload names {}", shown(&object.path)),
                Some(format!("unset LD_PRELOAD, or remove {} from it", file_name(&object.path))),
            ),
            How::Rpath(of) | How::Runpath(of) => {
                let kind = if matches!(object.how, How::Rpath(_)) { "RPATH" } else { "RUNPATH" };
                let of = self.process.objects.get(*of).map(|o| shown(&o.path)).unwrap_or_default();
                (format!("the {kind} of {of} leads there"), None)
            }
            How::Cache | How::Default(_) => {
                (format!("{by_name} has no path to the environment's own, and the system has {name}"), None)
            }
            How::Path | How::Program => ("it was asked for by its path".to_owned(), None),
        }
    }

    /// A file that serves a name and is too old for who asks: told once for each such file.
    fn missing_versions(&self) -> Vec<Finding> {
        let mut out: Vec<(usize, Finding)> = Vec::new();
        for missing in &self.native.missing_versions {
            if out.iter().any(|(of, _)| *of == missing.of) {
                continue;
            }
            let (Some(by), Some(of)) =
                (self.process.objects.get(missing.by), self.process.objects.get(missing.of))
            else {
                continue;
            };
            let others = self.native.missing_versions.iter().filter(|m| m.of == missing.of).count() - 1;
            let so_do = if others > 0 { format!("; so do {others} more libraries") } else { String::new() };
            let (why, fix) = self.cause(of, &file_name(&of.path), None);
            let severity =
                if missing.by < self.native.of_framework.0 { Severity::Error } else { Severity::Warning };
            let text = format!(
                "{} asks for {} of {}, which {} does not have: {why}{so_do}",
                file_name(&by.path),
                missing.version,
                of.soname.as_deref().unwrap_or(&of.name),
                shown(&of.file),
            );
            let r#where = Some(shown(&of.path));
            let found = Finding { fix, r#where, ..finding(Code::MissingSymbolVersion, severity, text) };
            out.push((missing.of, found));
        }
        out.into_iter().map(|(_, finding)| finding).collect()
    }

    fn missing(&self) -> Vec<Finding> {
        let mut out: Vec<Finding> = Vec::new();
        let mut told: Vec<&str> = Vec::new();
        for (place, missing) in self.process.missing.iter().enumerate() {
            // One library that is gone is one fault, however many ask for it: the first, of the framework, speaks.
            if told.contains(&missing.name.as_str()) {
                continue;
            }
            told.push(&missing.name);
            let others =
                self.process.missing.iter().skip(place + 1).filter(|m| m.name == missing.name).count();
            // The driver's library is no package's, and without a driver it is missing by right.
            if missing.name.starts_with("libcuda.so") {
                continue;
            }
            // One that is there and broken is told as such.
            let broken =
                |(_, path, _): &(String, String, String)| path.rsplit('/').next() == Some(&missing.name);
            if self.native.unreadable.iter().any(broken) {
                continue;
            }
            // What an extension misses matters when it is imported, which one for another FFmpeg never is.
            let of_framework = place < self.native.of_framework.1;
            let severity = match (of_framework, OURS.iter().any(|kind| missing.name.starts_with(kind))) {
                (true, _) => Severity::Error,
                (false, true) => Severity::Warning,
                (false, false) => Severity::Info,
            };
            let by = missing.by.and_then(|by| self.process.objects.get(by));
            let by_name = by.map_or_else(|| "the program".to_owned(), |by| file_name(&by.path));
            let own = self.native.own.iter().find(|own| file_name(&own.file) == missing.name);
            let when = if missing.later { "opens" } else { "needs" };
            let elsewhere = match own {
                Some(own) => format!("; {} has it, where {by_name} does not look", own.package),
                None => String::new(),
            };
            let so_do = match others {
                0 => String::new(),
                1 => "; so does one more".to_owned(),
                n => format!("; so do {n} more"),
            };
            // Whose RECORD has it brings it back; the one that asks for it only with what it needs.
            let records = |d: &&crate::model::installed::Distribution| {
                d.faults.iter().any(|fault| matches!(fault, FileFault::Missing(path) if path.rsplit('/').next() == Some(&missing.name)))
            };
            let lost = self.installed.distributions.iter().find(records);
            let owner = by.and_then(|by| self.native.own.iter().find(|own| own.file == by.file));
            let is_ours = OURS.iter().any(|kind| missing.name.starts_with(kind));
            let fix = match (is_ours, owner) {
                (true, _) if lost.is_some() => {
                    lost.map(|lost| super::packages::reinstall(self.installed, &lost.name))
                }
                (true, Some(owner)) => {
                    Some(super::packages::reinstall(self.installed, &owner.package).replace(" --no-deps", ""))
                }
                (true, None) => None,
                // No wheel brings the system's libraries.
                (false, _) => Some(format!(
                    "install the system package that has {} (`apt-file search {0}`, `dnf provides '*/{0}'`)",
                    clean(&missing.name, 100)
                )),
            };
            out.push(Finding {
                fix,
                r#where: by.map(|by| shown(&by.path)),
                ..finding(
                    Code::MissingLibrary,
                    severity,
                    format!(
                        "{by_name} {when} {}, and the loader finds it nowhere{elsewhere}{so_do}",
                        clean(&missing.name, 100)
                    ),
                )
            });
        }
        out
    }

    /// Whether no part of cuDNN would come from the environment: then it is another's, and whole.
    fn cudnn_is_elsewhere(&self) -> bool {
        let of_cudnn = self.process.objects.iter().filter(|o| file_name(&o.path).starts_with("libcudnn"));
        of_cudnn.into_iter().all(|object| self.native.own.iter().all(|own| own.file != object.file))
    }

    /// cuDNN is one release, whatever the number of its files.
    fn mixed_cudnn(&self, of_cudnn: &[usize]) -> Option<Finding> {
        let mut seen: Vec<(String, PathBuf)> = Vec::new();
        for at in of_cudnn {
            let object = &self.process.objects[*at];
            // Two majors have different names and live side by side.
            let Some(version) = self.native.versions.get(*at).and_then(Option::as_ref) else { continue };
            let major = |text: &str| text.split('.').next().map(str::to_owned);
            let version = short(version);
            if let Some((other, path)) =
                seen.iter().find(|(other, _)| *other != version && major(other) == major(&version))
            {
                return Some(finding(
                    Code::MixedCudnn,
                    Severity::Error,
                    format!(
                        "parts of two releases of cuDNN would meet: {other} in {} and {version} in {}",
                        folder(path),
                        folder(&object.file)
                    ),
                ));
            }
            seen.push((version, object.file.clone()));
        }
        None
    }

    /// Copies that lie about and which of them matter: mostly none.
    fn other_copies(&self) -> Option<Finding> {
        let is_used = |path: &Path| self.process.objects.iter().any(|o| o.file == path);
        let idle: Vec<String> = self
            .native
            .copies
            .iter()
            .filter(|copy| !is_used(&copy.path))
            .map(|copy| match &copy.version {
                Some(version) => format!("{} ({})", shown(&copy.path), version.text),
                None => shown(&copy.path),
            })
            .collect();
        if idle.is_empty() {
            return None;
        }
        let more = idle.len().saturating_sub(MOST_COPIES);
        let named = idle[..idle.len() - more].join(", ");
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let text = format!("outside the environment, and not taken by the loader here: {named}{more}");
        Some(finding(Code::OtherCopies, Severity::Info, text))
    }

    fn summary(&self, of_cudnn: &[usize]) -> String {
        let cudnn = of_cudnn.iter().find_map(|at| self.native.versions.get(*at)?.as_ref());
        let mut folders: Vec<String> =
            of_cudnn.iter().map(|at| folder(&self.process.objects[*at].file)).collect();
        folders.sort();
        folders.dedup();
        let cudnn = match (cudnn, folders.len()) {
            (Some(version), 1) => format!("cuDNN {}, one copy; ", version.text),
            (Some(version), n) if n > 1 => format!("cuDNN {}, from {n} folders; ", version.text),
            _ => String::new(),
        };
        format!("{cudnn}{} would be loaded", self.native.of_framework.0.saturating_sub(1))
    }
}

/// `9.10.2` of `9.10.2.21`: build numbers are not in every file.
fn short(version: &LibraryVersion) -> String {
    first_three(&version.text)
}

fn first_three(version: &str) -> String {
    version.split('.').take(3).collect::<Vec<_>>().join(".")
}
