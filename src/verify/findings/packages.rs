//! Findings about installed packages: differences from the lock, conflicts, and how they were installed.

use std::fmt::Display;
use std::path::Path;

use pep440_rs::Version;

use super::finding;
use super::installer::{install_lock, reinstall, reinstall_conda, uninstall};
use crate::formats::OtherBuild;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::installed::{
    Activation, CondaPackage, Distribution, ForcedLibrary, Installed, InstalledVersion, SearchedFirst,
    Shadowing, Toolkit, Visible,
};
use crate::model::owner::Owner;
use crate::model::secrets::shown_requirement;
use crate::model::text::{clean, shell_word};
use crate::model::version::cuda_short;
use crate::model::wheel::Python;

/// The lock was made with `--stack-only`, from the registry alone: it has no hashes.
pub fn stack_only_lock() -> Finding {
    let text = "the lock was made with `--stack-only`: only the stack is compared";
    finding(Code::StackOnlyLock, Severity::Warning, text)
}

/// The manifest no longer matches the lock, for this reason. An error where that was the question.
pub fn stale_lock(reason: &str, file: Option<&str>, is_asked: bool) -> Finding {
    let severity = if is_asked { Severity::Error } else { Severity::Warning };
    let text = match file {
        None => format!("the lock is stale: {reason}"),
        Some(_) => reason.to_owned(),
    };
    let found = finding(Code::StaleLock, severity, text).fixed_by(Fix::command("envlock resolve"));
    Finding { r#where: file.map(str::to_owned), ..found }
}

/// The lock of the tool that holds the packages is another one than the stack was chosen for: with the build that it has
/// in place of the chosen one, or with the stack as it was.
pub fn package_lock_changed(owner: Owner, other: Option<&OtherBuild>) -> Finding {
    let file = owner.file();
    let found = match other {
        None => {
            let text = format!("`{file}` changed since `envlock resolve`; the stack in it is the same");
            finding(Code::PackageLockChanged, Severity::Warning, text)
        }
        Some(OtherBuild { package, theirs: Some(theirs), ours }) => {
            let text = format!("`{file}` has {package} {theirs}, and envlock.lock has {ours}");
            finding(Code::PackageLockChanged, Severity::Error, text).at(package)
        }
        Some(OtherBuild { package, theirs: None, ours }) => {
            let text = format!("`{file}` has no {package}, and envlock.lock has {ours}");
            finding(Code::PackageLockChanged, Severity::Error, text).at(package)
        }
    };
    found.fixed_by(Fix::command("envlock resolve"))
}

/// A package is installed more than once.
pub fn duplicate_package(name: &str, versions: &[String]) -> Finding {
    let text = format!("{name} is installed {} times: {}", versions.len(), versions.join(", "));
    finding(Code::DuplicatePackage, Severity::Error, text).at(name)
}

/// A locked package is not installed.
pub fn missing_package(name: &str, locked: impl Display, environment: &Installed) -> Finding {
    let package = format!("{name} {locked}");
    finding(Code::MissingPackage, Severity::Error, format!("{} is not installed", package.trim_end()))
        .at(name)
        .fixed_by(Fix::command(install_lock(environment)))
}

/// A package is installed in another version than locked, or from another commit.
pub fn wrong_version(
    name: &str,
    installed: impl Display,
    locked: impl Display,
    environment: &Installed,
) -> Finding {
    let text = format!("{name} {installed} is installed, {locked} is locked");
    finding(Code::WrongVersion, Severity::Error, text)
        .at(name)
        .fixed_by(Fix::command(install_lock(environment)))
}

/// The installed build has another CUDA variant than the locked one.
pub fn wrong_variant(name: &str, installed: &str, locked: &str, environment: &Installed) -> Finding {
    let text = format!("{name} is built for {installed} (from its version.py), {locked} is locked");
    finding(Code::WrongVariant, Severity::Error, text)
        .at(name)
        .fixed_by(Fix::command(install_lock(environment)))
}

/// By what an installed package is seen not to be the locked file.
pub enum OtherFile<'o> {
    /// A difference of its METADATA or of its hash, as a sentence.
    Differs(&'o str),
    /// It is taken from a folder, by this `.egg-link`.
    Linked(&'o Visible, &'o str, &'o Installed),
}

/// The installed METADATA differs from that of the locked file, or the file that was installed is another one.
pub fn wrong_metadata(name: &str, installed: &InstalledVersion, by: &OtherFile<'_>) -> Finding {
    let found = |how: &str| {
        let text = format!("{name} {installed} was not installed from the locked file: {how}");
        finding(Code::WrongMetadata, Severity::Error, text).at(name)
    };
    match by {
        OtherFile::Differs(how) => found(how),
        OtherFile::Linked(egg, link, environment) => {
            found(&taken_from(egg, link)).fixed_by(Fix::command(install_lock(environment)))
        }
    }
}

fn taken_from(egg: &Visible, link: &str) -> String {
    format!("`{}` takes it from `{}`", clean(link, 80), clean(&egg.folder.to_string_lossy(), 200))
}

/// An installed package is not in the lock. `egg`: it has no RECORD by which an installer could remove it. `exact`: that is an
/// error, with the command that removes it, where one is known.
pub fn extra_package(
    name: &str,
    egg: Option<(&Visible, &Installed)>,
    exact: Option<Option<&str>>,
) -> Finding {
    let severity = if exact.is_some() { Severity::Error } else { Severity::Warning };
    let (text, anew) = match egg {
        None => (format!("{name} is installed and not locked"), None),
        Some((egg, environment)) => {
            let how = match egg.egg_link() {
                Some(link) => taken_from(egg, link),
                None => "it has an `.egg-info`, and no RECORD of its files".to_owned(),
            };
            let folder = clean(&environment.prefix, 200);
            let anew = format!("remove `{folder}`, and make it again with `envlock sync`");
            (format!("{name} {} is installed and not locked: {how}", egg.version), Some(Fix::advice(anew)))
        }
    };
    let fix = anew.or_else(|| exact.flatten().map(Fix::command));
    Finding { fix, ..finding(Code::ExtraPackage, severity, text).at(name) }
}

/// Maximum number of requirements on one package that are named.
const MAX_REQUIREMENTS: usize = 3;

/// Where packages are that are held against each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Have {
    /// In an environment.
    Installed,
    /// In an environment, beside what is locked.
    Beside,
    /// In an environment, as another tool locked it, which may have been told to replace requirements.
    InstalledByTool,
    /// In a lock of envlock.
    Locked,
    /// In another tool's lock.
    LockedElsewhere,
}

impl Have {
    /// What is said of a package there: `installed`, `locked`.
    pub fn word(self) -> &'static str {
        match self {
            Have::Installed | Have::Beside | Have::InstalledByTool => "installed",
            Have::Locked | Have::LockedElsewhere => "locked",
        }
    }
}

/// Requirements on a package are not met: it is missing, or has the wrong version. `broken`: the requiring packages and
/// their requirements, at least one.
pub fn broken_requirement(
    broken: &[(&str, String)],
    (name, version): (&str, Option<&Version>),
    have: Have,
    fix: Fix,
) -> Finding {
    let named = broken
        .iter()
        .take(MAX_REQUIREMENTS)
        .map(|(by, line)| format!("{by} needs {}", shown_requirement(line)));
    let mut named = named.collect::<Vec<_>>().join(", ");
    if let Some(more @ 1..) = broken.len().checked_sub(MAX_REQUIREMENTS) {
        named.push_str(&format!(" (and {more} more)"));
    }
    let word = have.word();
    let text = match version {
        None if broken.len() == 1 => format!("{named}, which is not {word}"),
        None => format!("{named}: {name} is not {word}"),
        Some(version) => format!("{named}, {name} {version} is {word}"),
    };
    let first = broken.first().map_or(name, |(by, _)| by);
    // The lock decides what is installed: what is beside it was built for something else.
    let severity = match have {
        Have::Beside | Have::InstalledByTool => Severity::Warning,
        _ => Severity::Error,
    };
    finding(Code::BrokenRequirement, severity, text).at(first).fixed_by(fix)
}

/// Why packages are known not to work together.
pub enum Incompatible<'i> {
    /// A row of the registry says it: the sentence.
    Known(String),
    /// A row says it, and only a part of what uses the package fails: the sentence.
    InPart(String),
    /// A package is built for another CUDA major than torch, by its version.
    OtherCuda {
        /// The package's version.
        version: &'i Version,
        /// The CUDA major that it is built for.
        cuda: u64,
        /// torch's version.
        torch: &'i Version,
        /// torch's CUDA major.
        own: u64,
        /// Whether it was compiled against torch, so that it does not load.
        uses_torch: bool,
    },
}

/// Packages are known to be incompatible.
pub fn known_incompatible(why: Incompatible<'_>, name: &str, fix: Fix) -> Finding {
    let (severity, text) = match why {
        Incompatible::Known(text) => (Severity::Error, text),
        Incompatible::InPart(text) => (Severity::Warning, text),
        Incompatible::OtherCuda { version, cuda, torch, own, uses_torch } => {
            let built = format!("{name} {version} is built for CUDA {cuda}, torch {torch} for CUDA {own}");
            match uses_torch {
                true => (
                    Severity::Error,
                    format!("{built}: it needs the libraries of a CUDA that torch does not load"),
                ),
                false => (
                    Severity::Warning,
                    format!(
                        "{built}: a program that uses both loads two CUDA runtimes, and needs a driver for the newer one"
                    ),
                ),
            }
        }
    };
    finding(Code::KnownIncompatible, severity, text).at(name).fixed_by(fix)
}

/// Python would import a package from outside the environment. `is_framework`: whether it is torch, TensorFlow or JAX;
/// `python` knows the option `-P` from 3.11 on.
pub fn shadowed_package(
    found: &Shadowing,
    own: &InstalledVersion,
    is_framework: bool,
    python: Option<Python>,
) -> Finding {
    let (name, folder) = (&found.name, &found.folder);
    let is_same = found.version.as_ref() == Some(own);
    let other = match &found.version {
        Some(version) => format!("{name} {version}"),
        None => format!("a module `{}`", name.replace('-', "_")),
    };
    let fix = match found.by {
        SearchedFirst::PythonPath => format!("unset PYTHONPATH, or remove {folder} from it"),
        SearchedFirst::UserSite => format!("export PYTHONNOUSERSITE=1, or remove {name} from {folder}"),
        SearchedFirst::WorkingFolder => {
            let option = match python {
                Some(python) if python.minor < 11 => "",
                _ => " with `python -P`",
            };
            format!("rename it in {folder}, or start programs from another folder{option}")
        }
    };
    if let Some(package) = &found.of_stdlib {
        let text = format!(
            "a module `{name}` in {folder} is imported instead of Python's own, which {package} imports: {} comes first",
            found.by
        );
        return finding(Code::ShadowedPackage, Severity::Warning, text).at(name).fixed_by(Fix::advice(fix));
    }
    // A program that is started elsewhere does not see the current folder.
    let is_certain = found.by != SearchedFirst::WorkingFolder || is_framework;
    let severity = if is_same || !is_certain { Severity::Warning } else { Severity::Error };
    let text = format!(
        "{other} in {folder} is imported instead of {name} {own} in the environment: {} comes first",
        found.by
    );
    finding(Code::ShadowedPackage, severity, text).at(name).fixed_by(Fix::advice(fix))
}

/// Both conda and pip installed the package: one overwrote files of the other.
pub fn mixed_installers(conda: &CondaPackage, own: &Distribution, environment: &Installed) -> Finding {
    let build = if conda.build.is_empty() { String::new() } else { format!(" ({})", conda.build) };
    let text = format!(
        "conda installed {} {}{build}, {} installed {} {} over it",
        conda.name,
        conda.version,
        own.installer.as_deref().unwrap_or("pip"),
        own.name,
        own.version
    );
    let fix = match conda.spec().filter(|_| environment.conda.locked.contains(&own.name)) {
        Some(spec) => {
            format!("{} && {}", uninstall(environment, &own.name), reinstall_conda(environment, &spec))
        }
        None => format!(
            "{} remove -p {} --force {} && {}",
            environment.conda.program(),
            shell_word(&environment.prefix),
            shell_word(&conda.name),
            reinstall(environment, &own.name, true)
        ),
    };
    finding(Code::MixedInstallers, Severity::Error, text).at(&own.name).fixed_by(Fix::command(fix))
}

/// What happens before the program of the user starts.
pub enum Startup<'s> {
    /// Python executes a file of site-packages at each start, which no package installed.
    Python {
        /// The file.
        path: &'s str,
        /// The first line that is executed.
        line: &'s str,
        /// The folder.
        site_packages: &'s Path,
    },
    /// The loader takes a library into every program.
    Forced(&'s ForcedLibrary),
    /// The activation of a conda environment sets a variable that decides which libraries or modules are found first.
    Activation {
        /// What sets it.
        sets: &'s Activation,
        /// The environment.
        prefix: &'s str,
    },
}

/// Something is executed or set at each start, and no package says so.
pub fn startup_code(of: &Startup<'_>) -> Finding {
    let found = |text, path: &str, fix| {
        finding(Code::StartupCode, Severity::Warning, text).at(path.to_owned()).fixed_by(fix)
    };
    let first = "libraries or modules of other folders may be found first";
    match of {
        Startup::Python { path, line, site_packages } => {
            let on_disk = shell_word(&site_packages.join(path).to_string_lossy());
            let text =
                format!("{path} is executed at each start of Python and belongs to no package: `{line}`");
            found(
                text,
                path,
                Fix::advice(format!("read {on_disk}, and delete it if you did not put it there")),
            )
        }
        Startup::Forced(ForcedLibrary { by, path, is_system }) => {
            let text = format!("{by} loads {path} into every program");
            // Allocators and profilers of the system's packages are loaded so.
            let severity = if *is_system && *by != "LD_AUDIT" { Severity::Info } else { Severity::Warning };
            let fix = match by.starts_with('/') {
                true => format!("remove the line from {by} if you did not put it there"),
                false => format!("unset {by} if you did not set it"),
            };
            finding(Code::StartupCode, severity, text).at(path.clone()).fixed_by(Fix::advice(fix))
        }
        Startup::Activation {
            sets: Activation::Script { path, line, name, package: Some(package) }, ..
        } => {
            let text = format!(
                "activating the environment runs `{line}` of {path}, which conda's {package} has: {first}"
            );
            let fix = format!("unset {name} after activation, or remove {package} from the environment");
            found(text, path, Fix::advice(fix))
        }
        Startup::Activation { sets: Activation::Script { path, line, package: None, .. }, prefix } => {
            let text = format!("activating the environment runs `{line}` of {path}: {first}");
            let on_disk = shell_word(&format!("{prefix}/{path}"));
            found(text, path, Fix::advice(format!("remove the line from {on_disk}")))
        }
        Startup::Activation { sets: Activation::Variable { name, value }, prefix } => {
            let text = format!("activating the environment sets {name} to `{value}`: {first}");
            let command = format!("conda env config vars unset -p {} {name}", shell_word(prefix));
            found(text, "conda-meta/state", Fix::command(command))
        }
    }
}

/// What an installer left in site-packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leftover {
    /// A folder that pip renamed but failed to remove: `~orch`.
    Renamed,
    /// A library that no RECORD lists.
    Unrecorded,
}

/// An installer left a folder or a file behind. `path` is relative to site-packages.
pub fn leftover_folder(kind: Leftover, path: &str, site_packages: &Path) -> Finding {
    let on_disk = shell_word(&site_packages.join(path).to_string_lossy());
    let (text, command) = match kind {
        Leftover::Renamed => (
            format!("`{path}` is a leftover of a package that pip failed to remove"),
            format!("rm -r {on_disk}"),
        ),
        Leftover::Unrecorded => (
            format!(
                "{path} is not recorded by any package: a leftover file from another release, which the loader may find"
            ),
            format!("rm {on_disk}"),
        ),
    };
    finding(Code::LeftoverFolder, Severity::Warning, text).at(path).fixed_by(Fix::command(command))
}

/// The CUDA toolkit for building extensions has another major version than torch's CUDA.
pub fn toolkit_mismatch(toolkit: &Toolkit, torch: &semver::Version) -> Finding {
    let text = format!(
        "the toolkit in {} is CUDA {}, torch was built with {}: this matters only for building extensions",
        toolkit.home,
        toolkit.version,
        cuda_short(torch)
    );
    let fix = format!("set CUDA_HOME to a CUDA {} toolkit", torch.major);
    finding(Code::ToolkitMismatch, Severity::Info, text).at(&toolkit.home).fixed_by(Fix::advice(fix))
}
