//! Checks the libraries that importing the frameworks would load: whether they are found, come from the environment,
//! and match each other.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::path::Path;

use super::facts::{Contents, Facts};
use super::findings::{self, Missing, NotJudged, Shadow, ShadowEffect, SymbolVersion};
use super::paths::{file_name, folder, is_ours, shown};
use super::unloadable::{self, reinstall};
use super::{Area, AreaKind, driver_library, packages};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::installed::{FileFault, Installed};
use crate::model::library::{LibraryVersion, is_grafted};
use crate::model::native::{Native, OwnLibrary};
use crate::model::nvidia::is_of_nvidia;
use crate::model::process::{FindsBy, How, Object, Process};
use crate::model::text::clean;
use crate::model::version::DottedVersion;
use crate::registry::Registry;

/// Maximum number of copies named in the finding.
const MOST_COPIES: usize = 3;

/// Checks the libraries that importing the frameworks would load.
pub(super) fn check(facts: &Facts<'_>) -> Option<Area> {
    let contents = facts.contents?;
    let area = of_libraries(facts, contents);
    // Without a framework there may be nothing to say.
    let has_content = !area.findings.is_empty() || !area.summary.is_empty();
    (contents.native.process.is_some() || has_content).then_some(area)
}

fn of_libraries(facts: &Facts<'_>, contents: Contents<'_>) -> Area {
    let Contents { installed, native, .. } = contents;
    let registry = facts.registry;
    // A library that is not found may be that of a package which is not there.
    let incomplete = packages::first_missing(facts).and_then(|missing| missing.fix);
    let mut area = Area::of(AreaKind::Libraries);
    if let Some(why) = &native.not_done {
        area.findings.push(findings::not_judged(NotJudged::Libraries(why.clone()), false));
        area.summary = "not checked".to_owned();
    }
    if let Some(fault) = &native.interpreter {
        area.findings.push(findings::missing_interpreter(fault));
    }
    area.findings.extend(unloadable::files(native, installed, incomplete.as_ref()));
    let Some(process) = &native.process else {
        if area.summary.is_empty() && !native.own.is_empty() {
            area.summary = format!(
                "{} read; which would be loaded is judged for torch, TensorFlow and JAX's CUDA plugins",
                super::record_files::thousands(native.own.len())
            );
        }
        area.findings.extend(unloadable::symbols(native, installed, &[]));
        return area;
    };
    let judge = Judge { native, installed, process, registry, incomplete: incomplete.as_ref() };
    let mut of_cudnn = Vec::new();
    let mut shadows = Vec::new();
    for (at, object) in process.objects.iter().enumerate().skip(1) {
        let name = file_name(&object.path);
        if name.starts_with("libcudnn") {
            of_cudnn.push(at);
        }
        if name.starts_with("libcuda.so") {
            driver_library::loaded(object, facts.machine, registry, &mut area.findings);
        } else {
            shadows.extend(judge.shadowed(at, object, &name));
        }
    }
    // One cause, one finding: a library that lacks symbols may be reported as shadowing another, or for its versions.
    let mut explained: Vec<&Path> = shadows
        .iter()
        .filter(|(severity, _)| *severity == Severity::Error)
        .map(|(_, shadow)| shadow.file.as_path())
        .collect();
    let versions = native.missing_versions.iter().filter_map(|missing| process.objects.get(missing.of));
    explained.extend(versions.map(|object| object.file.as_path()));
    area.findings.extend(unloadable::symbols(native, installed, &explained));
    area.findings.extend(one_for_each_folder(shadows));
    area.findings.extend(judge.missing());
    area.findings.extend(driver_library::absent(process, facts));
    area.findings.extend(judge.missing_versions());
    // A shadowed library already explains mixed releases of cuDNN.
    let told = |f: &Finding| f.code == Code::ShadowedLibrary && f.severity == Severity::Error;
    if !area.findings.iter().any(told) {
        area.findings.extend(judge.mixed_cudnn(&of_cudnn));
    }
    area.findings.extend(judge.other_copies());
    area.summary = judge.summary(&of_cudnn);
    area
}

/// One finding for the libraries of a package that a folder shadows: the most severe stands for all.
fn one_for_each_folder(shadows: Vec<(Severity, Shadow)>) -> Vec<Finding> {
    let mut groups: Vec<(Severity, Shadow)> = Vec::new();
    for (severity, shadow) in shadows {
        let is_same = |(_, known): &&mut (Severity, Shadow)| {
            (&known.folder, &known.package, &known.fix) == (&shadow.folder, &shadow.package, &shadow.fix)
        };
        match groups.iter_mut().find(is_same) {
            Some((worst, known)) if severity > *worst => {
                *known = Shadow { others: known.others + 1, ..shadow };
                *worst = severity;
            }
            Some((_, known)) => {
                known.others += 1;
                if let (Some(ShadowEffect::TwoReleases(all)), Some(ShadowEffect::TwoReleases(more))) =
                    (&mut known.effect, shadow.effect)
                {
                    all.extend(more.into_iter().filter(|what| !all.contains(what)).collect::<Vec<_>>());
                }
            }
            None => groups.push((severity, shadow)),
        }
    }
    groups.into_iter().map(|(severity, shadow)| findings::shadowed_library(severity, shadow)).collect()
}

struct Judge<'a> {
    native: &'a Native,
    installed: &'a Installed,
    process: &'a Process,
    registry: &'a Registry,
    /// How a locked package that is missing is installed.
    incomplete: Option<&'a Fix>,
}

impl Judge<'_> {
    /// Reports an object that the loader takes although the environment has a library of that name.
    fn shadowed(&self, at: usize, object: &Object, name: &str) -> Option<(Severity, Shadow)> {
        // Also compares SONAMEs: a file name may have the full version.
        let serves = |own: &&OwnLibrary| {
            file_name(&own.file) == name || (object.soname.is_some() && own.library.soname == object.soname)
        };
        let mut own: Vec<_> = self.native.own.iter().filter(serves).collect();
        // A library loaded by path is intended.
        if own.is_empty() || object.how == How::Path || !is_ours(name) {
            return None;
        }
        if own.iter().any(|own| own.file == object.file) {
            return None;
        }
        own.sort_by_key(|own| own.library.path.clone());
        let own = own[0];
        let stated = self.native.versions.get(at).and_then(Option::as_ref).map(short);
        let there = stated.or_else(|| name.starts_with("libcudnn").then(|| self.cudnn_release(at)).flatten());
        // NVIDIA's wheels have the version of their library.
        let here = own.library.version.as_ref().map(short).or_else(|| {
            let package = self.installed.distributions.iter().find(|d| d.name == own.package)?;
            is_of_nvidia(&package.name).then(|| first_three(&package.version.to_string()))
        });
        let numbers = |text: &String| text.parse::<DottedVersion>().ok();
        let order =
            there.as_ref().and_then(numbers).zip(here.as_ref().and_then(numbers)).map(|(a, b)| a.cmp(&b));
        // Parts of one cuDNN of another release work, unless torch was built with a newer one.
        let is_cudnn = name.starts_with("libcudnn");
        let fails = is_cudnn.then(|| self.fails_of_cudnn(at)).flatten();
        let whole = is_cudnn && fails.is_none();
        let of_torch = self.installed.distributions.iter().any(|d| d.name == "torch");
        let lacks_symbols = self
            .native
            .undefined
            .iter()
            .any(|found| found.stale.as_ref().is_some_and(|stale| stale.loaded == object.file));
        let severity = match order {
            _ if lacks_symbols || fails.is_some() => Severity::Error,
            Some(Ordering::Equal) => Severity::Info,
            Some(Ordering::Less) if whole && !(of_torch && self.states_cudnn(name)) => Severity::Warning,
            Some(Ordering::Less) => Severity::Error,
            // A newer library of the same major version is compatible.
            Some(Ordering::Greater) | None => Severity::Warning,
        };
        let (root, asked) = self.first_outside(at);
        let own_name = file_name(&own.file);
        let (why, fix) = self.cause(root, asked.unwrap_or(name), Some(asked.unwrap_or(&own_name)));
        let effect = match fails {
            _ if severity != Severity::Error => None,
            Some(fails) => Some(ShadowEffect::TwoReleases(fails)),
            _ if lacks_symbols => Some(ShadowEffect::SymbolsMissing),
            None if whole => Some(ShadowEffect::RefusedByTorch),
            None => Some(ShadowEffect::SymbolsMissing),
        };
        let shadow = Shadow {
            name: name.to_owned(),
            folder: folder(&object.file),
            path: shown(&object.path),
            file: object.file.clone(),
            package: own.package.clone(),
            why,
            there,
            here,
            effect,
            others: 0,
            fix,
        };
        Some((severity, shadow))
    }

    /// Why the loader takes a file, and the fix.
    fn cause(&self, object: &Object, name: &str, own: Option<&str>) -> (String, Option<Fix>) {
        let by = object.by.and_then(|by| self.process.objects.get(by));
        let by_name = by.map_or_else(|| "the program".to_owned(), |by| file_name(&by.path));
        match &object.how {
            How::LibraryPath(folder) => {
                let folder = shown(folder);
                let whole = own.map(|own| format!("tries {name} before {own}")).unwrap_or_default();
                let way = match by.map(|by| by.finds_by) {
                    _ if own.is_some_and(|own| own != name) && object.name == name => whole.as_str(),
                    _ if own.is_none() => "searches it before the system folders",
                    Some(FindsBy::Runpath) => "has a RUNPATH, which LD_LIBRARY_PATH overrides",
                    Some(FindsBy::Rpath) => "has an RPATH without the environment's folder",
                    _ => "has neither RPATH nor RUNPATH",
                };
                (
                    format!("LD_LIBRARY_PATH has {folder}, and {by_name} {way}"),
                    Some(Fix::advice(format!("unset LD_LIBRARY_PATH, or remove {folder} from it"))),
                )
            }
            How::Preload => (
                format!("LD_PRELOAD or /etc/ld.so.preload names {}", shown(&object.path)),
                Some(Fix::advice(format!("unset LD_PRELOAD, or remove {} from it", file_name(&object.path)))),
            ),
            How::Rpath(of) | How::Runpath(of) => {
                let kind = if matches!(object.how, How::Rpath(_)) { "RPATH" } else { "RUNPATH" };
                let of = self.process.objects.get(*of).map(|o| shown(&o.path)).unwrap_or_default();
                (format!("the {kind} of {of} points there"), None)
            }
            How::Cache | How::Default(_) => (
                match own {
                    Some(_) => format!(
                        "{by_name} has no search path to the environment's copy, and the system has {name}"
                    ),
                    None => format!("{by_name} finds no copy in the environment, and the system has {name}"),
                },
                None,
            ),
            How::Path | How::Program => ("it is loaded by its path".to_owned(), None),
        }
    }

    /// Files that lack symbol versions which others require; one finding for each file.
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
            let (why, fix) = self.cause(of, &file_name(&of.path), None);
            let fix = fix.or_else(|| unloadable::newer_of_conda(&of.file, self.installed));
            let asked = SymbolVersion {
                asks: file_name(&by.path),
                version: missing.version.clone(),
                soname: of.soname.as_deref().unwrap_or(&of.name).to_owned(),
                file: shown(&of.file),
                path: shown(&of.path),
                why,
                others,
                fix,
            };
            let of_framework = missing.by < self.native.of_framework.0;
            out.push((missing.of, findings::missing_symbol_version(asked, of_framework)));
        }
        out.into_iter().map(|(_, finding)| finding).collect()
    }

    fn missing(&self) -> Vec<Finding> {
        let mut out: Vec<Finding> = Vec::new();
        let mut told: Vec<&str> = Vec::new();
        let mut optional: BTreeMap<&String, Vec<String>> = BTreeMap::new();
        for (place, missing) in self.process.missing.iter().enumerate() {
            // One finding for each missing library, for the first that requires it: the framework's come first.
            if told.contains(&missing.name.as_str()) {
                continue;
            }
            told.push(&missing.name);
            if self.native.unimportable.iter().any(|module| module.missing == missing.name) {
                continue;
            }
            let others =
                self.process.missing.iter().skip(place + 1).filter(|m| m.name == missing.name).count();
            // libcuda.so.1 is provided by the driver, not by a wheel: `driver_library::absent` reports it.
            if missing.name.starts_with("libcuda.so") {
                continue;
            }
            // A damaged library, or one for another processor, is reported as such.
            let broken = self.native.unreadable.iter().map(|library| &library.path);
            let mut broken = broken.chain(self.native.other_machine.iter().map(|library| &library.path));
            if broken.any(|path| path.rsplit('/').next() == Some(&missing.name)) {
                continue;
            }
            // A missing library matters only if the extension is imported. Builds for another FFmpeg never are.
            let of_framework = place < self.native.of_framework.1;
            let severity = match (of_framework, is_ours(&missing.name)) {
                (true, _) => Severity::Error,
                (false, true) => Severity::Warning,
                (false, false) => Severity::Info,
            };
            let by = missing.by.and_then(|by| self.process.objects.get(by));
            let by_name = by.map_or_else(|| "the program".to_owned(), |by| file_name(&by.path));
            let own = self.native.own.iter().find(|own| file_name(&own.file) == missing.name);
            // Reinstall the package whose RECORD lists the library, else the package that requires it.
            let records = |d: &&crate::model::installed::Distribution| {
                d.faults.iter().any(|fault| matches!(fault, FileFault::Missing(path) if path.rsplit('/').next() == Some(&missing.name)))
            };
            let lost = self.installed.distributions.iter().find(records);
            let owner = by.and_then(|by| self.native.own.iter().find(|own| own.file == by.file));
            let is_lost = is_grafted(&missing.name);
            let is_told = |owner: &OwnLibrary| {
                self.native.unimportable.iter().any(|module| module.is_own && module.package == owner.package)
            };
            if is_lost && owner.is_some_and(is_told) {
                continue;
            }
            if let (false, Some(owner)) = (of_framework, owner) {
                // The package loads its own libraries itself, when it needs them.
                if own.is_some_and(|own| own.package == owner.package) {
                    continue;
                }
                if severity == Severity::Info {
                    optional.entry(&owner.package).or_default().push(missing.name.clone());
                    continue;
                }
            }
            let is_ours = is_ours(&missing.name);
            let fix = match (is_ours, owner) {
                (true, _) if lost.is_some() => lost.map(|lost| reinstall(self.installed, &lost.name)),
                // The environment has the library of another major version: reinstalling the same build changes nothing.
                (true, Some(owner)) if self.has_other_major(&missing.name) => Some(Fix::advice(format!(
                    "install a build of {} for the CUDA version of this environment, or uninstall it",
                    owner.package
                ))),
                (true, Some(owner)) => {
                    // With dependencies: the package that provides the library may be missing.
                    Some(Fix::command(findings::reinstall(self.installed, &owner.package, true)))
                }
                (true, None) => None,
                (false, Some(owner)) if is_lost => Some(reinstall(self.installed, &owner.package)),
                (false, _) => Some(findings::system_package(&clean(&missing.name, 100))),
            };
            out.push(findings::missing_library(
                severity,
                Missing::Library {
                    name: missing.name.clone(),
                    asks: by_name,
                    path: by.map(|by| shown(&by.path)),
                    later: missing.later,
                    package: own.map(|own| own.package.clone()),
                    others,
                    fix,
                },
                self.incomplete,
            ));
        }
        out.extend(optional.into_iter().map(|(package, names)| {
            let missing = Missing::Optional { package: package.clone(), names };
            findings::missing_library(Severity::Info, missing, None)
        }));
        out
    }

    /// Whether the environment has a library under another number: `libcudart.so.13` for `libcudart.so.12`.
    fn has_other_major(&self, name: &str) -> bool {
        let Some((stem, _)) = name.split_once(".so.") else { return false };
        let stem = format!("{stem}.so.");
        self.native.own.iter().any(|own| {
            let other = own.library.soname.clone().unwrap_or_else(|| file_name(&own.file));
            other != name && other.starts_with(&stem)
        })
    }

    /// What fails because a loaded part of cuDNN is of another release than the parts it works with; `None` if none is, as
    /// far as the releases are known. Of cuDNN 9 the registry has the pairs, of others all parts have to be of one release.
    fn fails_of_cudnn(&self, at: usize) -> Option<Vec<String>> {
        let release = self.cudnn_release(at)?;
        let soname = |object: &Object| object.soname.clone().unwrap_or_else(|| file_name(&object.path));
        let name = soname(self.process.objects.get(at)?);
        let differs = |other: &str| {
            let all = self.process.objects.iter().enumerate();
            let mut others = all.filter(|(_, object)| soname(object) == other);
            others.any(|(other, _)| self.cudnn_release(other).is_some_and(|other| other != release))
        };
        let major = name.rsplit('.').next();
        let rows = self.registry.cudnn_parts();
        if !rows.iter().any(|row| row.name.rsplit('.').next() == major) {
            let all = self.process.objects.iter().map(soname);
            let mut parts =
                all.filter(|part| part.starts_with("libcudnn") && part.rsplit('.').next() == major);
            return parts.any(|part| differs(&part)).then(Vec::new);
        }
        let mut fails: Vec<String> = Vec::new();
        let mut is_broken = false;
        for row in rows {
            let other = match &name {
                name if *name == row.name => &row.with,
                name if *name == row.with => &row.name,
                _ => continue,
            };
            if differs(other) {
                is_broken = true;
                fails.extend(
                    row.fails.iter().filter(|what| !fails.contains(what)).cloned().collect::<Vec<_>>(),
                );
            }
        }
        is_broken.then_some(fails)
    }

    /// Whether this library has the function that states cuDNN's version: since cuDNN 9 that of graphs.
    fn states_cudnn(&self, name: &str) -> bool {
        let is_graph = |name: &str| name.starts_with("libcudnn_graph.so");
        let mut loaded = self.process.objects.iter().map(|object| file_name(&object.path));
        is_graph(name) || (name.starts_with("libcudnn.so") && !loaded.any(|name| is_graph(&name)))
    }

    /// The release of a loaded part of cuDNN, `9.10.2`: by itself, by NVIDIA's package that it belongs to, or by another part
    /// in its folder, as engines and heuristics do not state theirs.
    fn cudnn_release(&self, at: usize) -> Option<String> {
        let own = |object: &Object| self.native.own.iter().find(|own| own.file == object.file);
        let of_package = || {
            let package = &own(self.process.objects.get(at)?)?.package;
            let package = self.installed.distributions.iter().find(|d| d.name == *package)?;
            is_of_nvidia(&package.name).then(|| first_three(&package.version.to_string()))
        };
        let of_neighbour = || {
            let folder = self.process.objects.get(at)?.file.parent()?;
            let is_near =
                |path: &Path| path.parent() == Some(folder) && file_name(path).starts_with("libcudnn");
            let loaded = self.process.objects.iter().zip(&self.native.versions);
            let loaded = loaded.map(|(object, version)| (&object.file, version));
            let copies = self.native.copies.iter().map(|copy| (&copy.path, &copy.version));
            let mut near = loaded.chain(copies).filter(|(path, _)| is_near(path));
            near.find_map(|(_, version)| version.as_ref().map(short))
        };
        let stated = self.native.versions.get(at).and_then(Option::as_ref).map(short);
        stated.or_else(of_package).or_else(of_neighbour)
    }

    /// The first library from outside the environment in the chain that loaded one, and the name it was asked for by if it is
    /// not that library itself: the cause of all that it loads.
    fn first_outside(&self, at: usize) -> (&Object, Option<&str>) {
        let objects = &self.process.objects;
        let is_outside = |object: &Object| {
            let name = file_name(&object.path);
            let serves =
                |own: &OwnLibrary| file_name(&own.file) == name || own.library.soname == object.soname;
            let mut own = self.native.own.iter().filter(|own| serves(own)).peekable();
            own.peek().is_some() && object.soname.is_some() && !own.any(|own| own.file == object.file)
        };
        let mut root = at;
        while let Some(by) = objects[root].by.filter(|by| *by < objects.len() && is_outside(&objects[*by])) {
            if by == root || by == at {
                break;
            }
            root = by;
        }
        (&objects[root], (root != at).then(|| objects[root].name.as_str()))
    }

    /// Reports parts of cuDNN from different releases of one major version.
    fn mixed_cudnn(&self, of_cudnn: &[usize]) -> Option<Finding> {
        let (at, fails) = of_cudnn.iter().find_map(|at| Some((*at, self.fails_of_cudnn(*at)?)))?;
        let release = self.cudnn_release(at)?;
        let others = of_cudnn.iter().filter_map(|other| Some((*other, self.cudnn_release(*other)?)));
        let (other, its) = others.into_iter().find(|(_, other)| *other != release)?;
        let place = |at: usize| folder(&self.process.objects[at].file);
        Some(findings::mixed_cudnn((&release, &place(at)), (&its, &place(other)), &fails))
    }

    /// Reports copies of CUDA libraries outside the environment that the process does not use.
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
        let named = &idle[..idle.len().min(MOST_COPIES)];
        Some(findings::other_copies(named, idle.len() - named.len()))
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
        format!("{cudnn}{} libraries would be loaded", self.native.of_framework.0.saturating_sub(1))
    }
}

/// The first three parts of a version, `9.10.2` of `9.10.2.21`: not every file has a build number.
fn short(version: &LibraryVersion) -> String {
    first_three(&version.text)
}

fn first_three(version: &str) -> String {
    version.split('.').take(3).collect::<Vec<_>>().join(".")
}
