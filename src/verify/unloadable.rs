//! Libraries that cannot be loaded: damaged files, files for another processor, and missing libraries and symbols that make
//! an import fail.

use std::path::Path;

use super::findings::{self, AlteredFiles, BuiltFor, CannotLoad, Missing, MissingFiles, Undefined};
use super::paths::{is_ours, shown};
use crate::model::finding::{Finding, Severity};
use crate::model::fix::Fix;
use crate::model::installed::{FileFault, Installed};
use crate::model::native::{Native, Stale, UndefinedSymbols, Unreadable, UnreadableLibrary, WhyUnusable};
use crate::model::process::How;
use crate::model::text::clean;

/// Files that cannot be loaded, and modules whose import fails for want of a library. `incomplete`: how a locked package that is
/// missing is installed.
pub(super) fn files(native: &Native, installed: &Installed, incomplete: Option<&Fix>) -> Vec<Finding> {
    let mut out = unreadable(native, installed);
    out.extend(native.unimportable.iter().map(|module| {
        let name = clean(&module.missing, 100);
        let fix = match module.is_own {
            true => reinstall(installed, &module.package),
            // A system package is no help: the environment has CUDA's libraries from wheels.
            false if is_ours(&name) => Fix::advice(format!(
                "install a build of {} for the CUDA version of this environment, or the CUDA toolkit with {name}",
                module.package
            )),
            false => findings::system_package(&name),
        };
        let incomplete = incomplete.filter(|_| !module.is_own);
        findings::missing_library(Severity::Error, Missing::Import(module, fix), incomplete)
    }));
    out.extend(native.unusable.iter().map(|file| match file.why {
        WhyUnusable::NotExecutable => findings::altered_file(AlteredFiles::NotExecutable(file)),
        WhyUnusable::Gone | WhyUnusable::NotForCuda => {
            findings::missing_file(MissingFiles::ByPath(file, installed))
        }
    }));
    let providers = native.providers.iter().map(Missing::Provider);
    out.extend(providers.map(|missing| findings::missing_library(Severity::Warning, missing, incomplete)));
    out.extend(native.other_machine.iter().map(|library| {
        let why = CannotLoad::OtherMachine(&library.machine, &library.interpreter);
        let fix = reinstall(installed, &library.package);
        findings::unreadable_library(&library.path, &library.package, why, fix)
    }));
    out.extend(native.foreign_modules.iter().map(|found| {
        let why = CannotLoad::OtherPython(found);
        findings::unreadable_library(&found.path, &found.package, why, reinstall(installed, &found.package))
    }));
    let built = native.built_for_numpy1.as_slice();
    out.extend(built.first().map(|first| findings::extension_abi(BuiltFor::Numpy1(built, first))));
    out
}

/// Reports libraries that cannot be read, except those that the file check reports.
fn unreadable(native: &Native, installed: &Installed) -> Vec<Finding> {
    let mut found = Vec::new();
    for UnreadableLibrary { package, path, why } in &native.unreadable {
        let distribution = installed.distributions.iter().find(|d| d.name == *package);
        let told = distribution.is_some_and(|d| {
            d.faults.iter().any(|fault| match fault {
                FileFault::Missing(p)
                | FileFault::Size(p, ..)
                | FileFault::AsPublished(p, ..)
                | FileFault::Extended(p, ..)
                | FileFault::Hash(p)
                | FileFault::Unreadable(p, _) => p == path,
                FileFault::NoHash(_) | FileFault::OwnedTwice(..) => false,
            })
        });
        match why {
            // A `.so` file may be a linker script.
            Unreadable::NotElf => {}
            Unreadable::Damaged(_) if told => {}
            Unreadable::Damaged(why) => {
                let why = CannotLoad::Unreadable(why);
                found.push(findings::unreadable_library(path, package, why, reinstall(installed, package)));
            }
        }
    }
    found
}

/// The command that installs a package again, as it is.
pub(super) fn reinstall(installed: &Installed, package: &str) -> Fix {
    Fix::command(findings::reinstall(installed, package, false))
}

/// Whether a module is for a torch that is not installed, and nothing imports it: a package can have such a part without
/// requiring torch.
fn is_optional(found: &UndefinedSymbols, installed: &Installed) -> bool {
    let of_torch = found.of_torch || found.example.starts_with("aoti_torch_");
    of_torch && !found.imported && !installed.distributions.iter().any(|d| d.name == "torch")
}

/// Reports libraries with undefined symbols: one finding for each package, for the first of its libraries.
pub(super) fn symbols(native: &Native, installed: &Installed, explained: &[&Path]) -> Vec<Finding> {
    let mut out = Vec::new();
    let mut told: Vec<&str> = Vec::new();
    let is_explained = |stale: &Stale| explained.contains(&stale.loaded.as_path());
    for found in native.undefined.iter().filter(|found| !found.stale.as_ref().is_some_and(is_explained)) {
        if told.contains(&found.package.as_str()) || is_optional(found, installed) {
            continue;
        }
        told.push(&found.package);
        let more = native.undefined.iter().filter(|other| other.package == found.package).count() - 1;
        if found.of_torch && found.stale.is_none() && found.package != "torch" {
            out.push(findings::extension_abi(BuiltFor::Torch(found)));
            continue;
        }
        let cause = match &found.stale {
            Some(stale) => Undefined::Stale {
                loaded: shown(&stale.loaded),
                instead_of: stale.instead_of.as_deref().map(shown),
                fix: newer(&stale.loaded, native, installed),
            },
            None => Undefined::Nowhere { more, fix: reinstall(installed, &found.package) },
        };
        out.push(findings::undefined_symbol(found, cause));
    }
    out
}
/// How to get a newer copy of a loaded library than the one that a variable makes the loader take, or that is there.
fn newer(loaded: &Path, native: &Native, installed: &Installed) -> Fix {
    let object =
        native.process.iter().flat_map(|process| &process.objects).find(|object| object.file == loaded);
    let update = || newer_of_conda(loaded, installed).unwrap_or_else(|| Fix::advice("update the library"));
    match object.map(|object| &object.how) {
        // Another copy in the environment would not be found before it.
        Some(How::LibraryPath(_)) => {
            Fix::advice("remove its folder from LD_LIBRARY_PATH, or update the library")
        }
        Some(How::Preload) => Fix::advice("remove the file from LD_PRELOAD, or update the library"),
        _ => update(),
    }
}

/// The command that brings a newer libstdc++ into an environment of conda. Source: conda-forge's `libstdcxx` has the library.
pub(super) fn newer_of_conda(loaded: &Path, installed: &Installed) -> Option<Fix> {
    let name = loaded.file_name()?.to_string_lossy();
    let is_of_conda = !installed.conda.specs.is_empty();
    (is_of_conda && name.starts_with("libstdc++.so.6"))
        .then(|| Fix::command(findings::install_of_conda_forge(installed, "libstdcxx")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::installed::InstalledSpec;

    #[test]
    fn libstdcxx_of_conda() {
        let mut installed = Installed { prefix: "/opt/e".into(), ..Installed::default() };
        let of = |file: &str, installed: &Installed| {
            newer(Path::new(file), &Native::default(), installed).to_string()
        };
        assert_eq!(of("/opt/e/lib/libstdc++.so.6", &installed), "update the library");
        let spec = InstalledSpec { channel: None, text: "numpy=2.0".into() };
        installed.conda.specs = [("numpy".to_owned(), spec)].into();
        assert_eq!(
            of("/opt/e/lib/libstdc++.so.6", &installed),
            "conda install -p /opt/e --override-channels -c conda-forge libstdcxx"
        );
        assert_eq!(of("/opt/e/lib/libssl.so.3", &installed), "update the library");
    }
}
