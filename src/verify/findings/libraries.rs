//! Findings about shared libraries: which file the dynamic loader takes, and which it does not find.

use std::path::PathBuf;

use super::finding;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::native::{
    BuiltForNumpy1, ForeignModules, InterpreterFault, UndefinedSymbols, Unimportable, UnusableProvider,
};
use crate::model::text::clean;

/// The driver's CUDA library, which no package has.
pub const DRIVER_LIBRARY: &str = "libcuda.so.1";

/// The environment's interpreter is missing.
pub fn missing_interpreter(fault: &InterpreterFault) -> Finding {
    let new = |text: &str, fix| finding(Code::MissingInterpreter, Severity::Error, text).fixed_by(fix);
    let (text, fix) = match fault {
        InterpreterFault::OtherHome(home, python) => {
            let text = format!(
                "PYTHONHOME is {home}, which does not have the standard library of Python {python}: no program starts"
            );
            return new(&text, Fix::advice("unset PYTHONHOME")).at("PYTHONHOME");
        }
        InterpreterFault::Missing => (
            "bin/python is a broken symlink",
            Fix::advice(
                "recreate the environment (`envlock sync` does so with one that it made): its interpreter was removed or moved",
            ),
        ),
        InterpreterFault::Absent => (
            "the environment has no interpreter in bin",
            Fix::advice(
                "recreate the environment (`envlock sync` does so with one that it made): nothing runs in it",
            ),
        ),
        InterpreterFault::NotExecutable => {
            ("bin/python may not be executed", Fix::advice("make it executable, or recreate the environment"))
        }
        InterpreterFault::Detached => (
            "pyvenv.cfg is missing: bin/python starts the Python that it leads to, which does not see these packages",
            Fix::advice("recreate the environment, or restore its pyvenv.cfg"),
        ),
    };
    new(text, fix).at("bin/python")
}

/// Why a library of a package cannot be loaded.
pub enum CannotLoad<'a> {
    /// It cannot be read, with the reason.
    Unreadable(&'a str),
    /// It is for another processor than the interpreter: its own, and the interpreter's.
    OtherMachine(&'a str, &'a str),
    /// No extension module of the package is for this Python.
    OtherPython(&'a ForeignModules),
}

/// A library of a package cannot be loaded.
pub fn unreadable_library(path: &str, package: &str, why: CannotLoad<'_>, fix: Fix) -> Finding {
    let library = format!("{} of {package}", clean(path, 160));
    let text = match why {
        CannotLoad::Unreadable(why) => format!("{library} cannot be read: {why}"),
        CannotLoad::OtherMachine(machine, interpreter) => {
            format!("{library} is for {machine}, but the interpreter is for {interpreter}")
        }
        CannotLoad::OtherPython(found) => {
            let effect = match found.imported {
                true => format!("importing {package} fails"),
                false => "neither is any other of its extension modules".to_owned(),
            };
            format!("{library} is not for this Python ({}): {effect}", clean(&found.tag, 60))
        }
    };
    let is_certain = !matches!(why, CannotLoad::OtherPython(found) if !found.imported);
    let severity = if is_certain { Severity::Error } else { Severity::Warning };
    finding(Code::UnreadableLibrary, severity, text).at(clean(path, 200)).fixed_by(fix)
}

/// What an extension was built for.
pub enum BuiltFor<'a> {
    /// Another torch version: symbols are undefined.
    Torch(&'a UndefinedSymbols),
    /// NumPy 1, and a later one is installed: the packages, and the first of them.
    Numpy1(&'a [BuiltForNumpy1], &'a BuiltForNumpy1),
}

/// An extension was built for another version of torch or NumPy.
pub fn extension_abi(built: BuiltFor<'_>) -> Finding {
    let found = match built {
        BuiltFor::Torch(found) => found,
        BuiltFor::Numpy1(found, first) => {
            let certain: Vec<&str> =
                found.iter().filter(|f| f.imported).map(|f| f.package.as_str()).collect();
            let all: Vec<&str> = found.iter().map(|f| f.package.as_str()).collect();
            let (severity, effect) = match certain.as_slice() {
                [] => (Severity::Warning, "modules of theirs cannot be imported".to_owned()),
                // Some import it first where they use it.
                certain => (Severity::Error, format!("importing or using {} fails", certain.join(", "))),
            };
            let text = format!(
                "NumPy {} is installed, and these packages were built for NumPy 1: {}; {effect}",
                first.numpy,
                all.join(", ")
            );
            let fix = "install `numpy<2`, or newer releases of these packages";
            return finding(Code::ExtensionAbi, severity, text).at(&first.path).fixed_by(Fix::advice(fix));
        }
    };
    let text = format!(
        "{} of {} was built for another torch version: {} of its symbols are undefined, such as `{}`",
        found.path,
        found.package,
        found.count,
        clean(&found.example, 70)
    );
    let fix = format!("install the build of {} for this torch version, or rebuild it", found.package);
    finding(Code::ExtensionAbi, Severity::Error, text).at(&found.path).fixed_by(Fix::advice(fix))
}

/// Why no library defines a symbol.
pub enum Undefined {
    /// No library has it. With the number of further libraries of the package that have the problem.
    Nowhere {
        /// The number.
        more: usize,
        /// The command that installs the package again.
        fix: Fix,
    },
    /// The loaded library that should have it lacks it.
    Stale {
        /// That library.
        loaded: String,
        /// The file of the environment with the same name that has the symbol.
        instead_of: Option<String>,
        /// How to get one that has it.
        fix: Fix,
    },
}

/// A library requires symbols that no library defines.
pub fn undefined_symbol(found: &UndefinedSymbols, cause: Undefined) -> Finding {
    let new = |severity, text| finding(Code::UndefinedSymbol, severity, text);
    let (symbol, UndefinedSymbols { path, package, .. }) = (clean(&found.example, 70), found);
    match cause {
        Undefined::Nowhere { more, fix } => {
            let (severity, effect) = match found.imported {
                true => (Severity::Error, format!("importing {package} fails")),
                false => (Severity::Warning, "a part of the package cannot be imported".to_owned()),
            };
            let so_do = match more {
                0 => String::new(),
                n => format!("; {n} more affected"),
            };
            // Parts that nothing imports are often published so; the same file again would not help.
            let why = match found.imported {
                true => "The file is of another release or damaged",
                false => "The file was altered, or published so: `envlock verify --deep` tells",
            };
            let text = format!(
                "{path} of {package} requires `{symbol}`, which no library defines: {effect}{so_do}. {why}"
            );
            let told = new(severity, text).at(path);
            if found.imported { told.fixed_by(fix) } else { told }
        }
        Undefined::Stale { loaded, instead_of, fix } => {
            let place =
                instead_of.map(|file| format!("is loaded instead of {file} and ")).unwrap_or_default();
            let text = format!("{loaded} {place}lacks `{symbol}`, which {path} of {package} requires");
            new(Severity::Error, text).at(loaded).fixed_by(fix)
        }
    }
}

/// A library outside the environment that the loader takes instead of the environment's copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadow {
    /// The requested name: `libcudnn.so.9`.
    pub name: String,
    /// The folder of the file that the loader takes.
    pub folder: String,
    /// The path of that file, for messages.
    pub path: String,
    /// That file, with symlinks resolved.
    pub file: PathBuf,
    /// The package with the environment's copy.
    pub package: String,
    /// Why the loader takes the outside file; one clause.
    pub why: String,
    /// The version of the outside file, if known.
    pub there: Option<String>,
    /// The version of the environment's copy, if known.
    pub here: Option<String>,
    /// What the version difference breaks.
    pub effect: Option<ShadowEffect>,
    /// Number of other libraries that the loader takes from the same folder for the same reason.
    pub others: usize,
    /// The fix, if there is one.
    pub fix: Option<Fix>,
}

/// What a library version other than the environment's breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShadowEffect {
    /// torch refuses an older cuDNN where it asks for its version.
    RefusedByTorch,
    /// One process loads parts of two cuDNN releases: what fails, where it is known.
    TwoReleases(Vec<String>),
    /// The older library lacks symbols of the newer release.
    SymbolsMissing,
}

/// What parts of two cuDNN releases in one process do. `fails`: what is known to fail.
fn two_releases(fails: &[String]) -> String {
    match fails {
        [] => "cuDNN refuses parts of two releases".to_owned(),
        [one] => format!("{one} would fail"),
        [first @ .., last] => format!("{} and {last} would fail", first.join(", ")),
    }
}

/// The loader takes a library from outside the environment instead of the environment's copy.
pub fn shadowed_library(severity: Severity, shadow: Shadow) -> Finding {
    let effect = match &shadow.effect {
        Some(ShadowEffect::RefusedByTorch) => {
            "; recurrent layers would fail: torch refuses a cuDNN older than the one it was built with"
                .to_owned()
        }
        Some(ShadowEffect::TwoReleases(fails)) => format!("; {}", two_releases(fails)),
        Some(ShadowEffect::SymbolsMissing) => {
            "; libraries built for the newer release miss symbols".to_owned()
        }
        None => String::new(),
    };
    let package = &shadow.package;
    let versions = match (&shadow.there, &shadow.here) {
        (Some(there), Some(here)) => format!(". {there} there, {here} in {package}{effect}"),
        (Some(there), None) => format!(". {there} there{effect}"),
        (None, _) => effect,
    };
    let more = match shadow.others {
        0 => String::new(),
        1 => " and 1 more library".to_owned(),
        n => format!(" and {n} more libraries"),
    };
    let text = format!(
        "{}{more} would come from {}, not from {package}: {}{versions}",
        shadow.name, shadow.folder, shadow.why
    );
    Finding { fix: shadow.fix, ..finding(Code::ShadowedLibrary, severity, text).at(shadow.path) }
}

/// A symbol version that a library requires and that the file taken by the loader does not define.
pub struct SymbolVersion {
    /// The library that requires it.
    pub asks: String,
    /// The symbol version, `GLIBCXX_3.4.30`.
    pub version: String,
    /// The SONAME that has to define it.
    pub soname: String,
    /// The file that the loader takes for the SONAME, with symlinks resolved.
    pub file: String,
    /// The path by which the loader found the file.
    pub path: String,
    /// Why the loader takes this file; one clause.
    pub why: String,
    /// Number of other libraries with the same problem.
    pub others: usize,
    /// The fix, if there is one.
    pub fix: Option<Fix>,
}

/// A library requires symbol versions that the file taken by the loader does not define. `of_framework`: whether the
/// library belongs to the framework itself.
pub fn missing_symbol_version(missing: SymbolVersion, of_framework: bool) -> Finding {
    let so_do = match missing.others {
        0 => String::new(),
        n => format!("; {n} more affected"),
    };
    let text = format!(
        "{} requires {} of {}, which {} does not define: {}{so_do}",
        missing.asks, missing.version, missing.soname, missing.file, missing.why
    );
    let severity = if of_framework { Severity::Error } else { Severity::Warning };
    Finding { fix: missing.fix, ..finding(Code::MissingSymbolVersion, severity, text).at(missing.path) }
}

/// A required library that the loader does not find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing<'a> {
    /// The driver's library, `libcuda.so.1`.
    Driver,
    /// Libraries of the system that parts of a package need; the package works without these parts.
    Optional {
        /// The package.
        package: String,
        /// The missing libraries.
        names: Vec<String>,
    },
    /// A module that importing its package loads needs it.
    Import(&'a Unimportable, Fix),
    /// A library that a package opens to use the GPU needs it, and the environment has one of another number.
    Provider(&'a UnusableProvider),
    /// Any other library.
    Library {
        /// The requested name.
        name: String,
        /// The library that requires it.
        asks: String,
        /// The path of that library, for messages.
        path: Option<String>,
        /// Whether it is opened at run time, with `dlopen`.
        later: bool,
        /// The package that has the library in a folder that the loader does not search.
        package: Option<String>,
        /// Number of other libraries that require it.
        others: usize,
        /// The fix, if there is one.
        fix: Option<Fix>,
    },
}

/// Maximum number of optional libraries named in one finding.
const MAX_OPTIONAL: usize = 4;

/// The loader does not find a required library.
pub fn missing_library(severity: Severity, missing: Missing<'_>, incomplete: Option<&Fix>) -> Finding {
    let incomplete =
        incomplete.filter(|_| severity == Severity::Error && !matches!(missing, Missing::Driver));
    let found = missing_in(severity, missing);
    match incomplete {
        Some(fix) => Finding {
            message: format!("{}; a locked package that is not installed may have it", found.message),
            fix: Some(fix.clone()),
            ..found
        },
        None => found,
    }
}

fn missing_in(severity: Severity, missing: Missing<'_>) -> Finding {
    let new = |text: String| finding(Code::MissingLibrary, severity, text);
    match missing {
        Missing::Driver => new(
            "the driver's kernel module is loaded, but the loader does not find libcuda.so.1: CUDA sees no GPU"
                .to_owned(),
        )
        .at(DRIVER_LIBRARY)
        .fixed_by(Fix::advice(
            "install the driver's CUDA library (libcuda1 or nvidia-driver-cuda-libs); in a container, set NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )),
        Missing::Optional { package, names } => {
            let listed: Vec<String> = names.iter().take(MAX_OPTIONAL).map(|name| clean(name, 60)).collect();
            let more = match names.len().saturating_sub(MAX_OPTIONAL) {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            new(format!(
                "optional parts of {package} need libraries that are not installed: {}{more}",
                listed.join(", ")
            ))
            .at(package)
        }
        Missing::Import(Unimportable { package, path, missing, is_own }, fix) => {
            let name = clean(missing, 100);
            let text = match is_own {
                true => format!("loading {path} of {package} fails: it needs {name}, a missing part of {package}"),
                false => format!(
                    "importing {package} fails: {path} needs {name}, which the loader does not find"
                ),
            };
            new(text).at(path).fixed_by(fix)
        }
        Missing::Provider(UnusableProvider { package, path, missing, found, effect }) => {
            let (missing, found) = (clean(missing, 100), clean(found, 100));
            let text = format!(
                "{package} cannot use the GPU: {path} needs {missing}, the environment has {found}; {effect}"
            );
            let fix = format!(
                "install a build of {package} for the CUDA version of this environment, or the libraries of the one it is built for"
            );
            new(text).at(path).fixed_by(Fix::advice(fix))
        }
        Missing::Library { name, asks, path, later, package, others, fix } => {
            let when = if later { "opens" } else { "needs" };
            let elsewhere = match package {
                Some(package) => format!("; {package} has it in a folder that {asks} does not search"),
                None => String::new(),
            };
            let so_do = match others {
                0 => String::new(),
                n => format!("; {n} more affected"),
            };
            let name = clean(&name, 100);
            let text = format!("{asks} {when} {name}, which the loader does not find{elsewhere}{so_do}");
            Finding { fix, r#where: path, ..new(text) }
        }
    }
}

/// One process would load parts of two cuDNN releases. Each argument is a release and its folder.
pub fn mixed_cudnn(one: (&str, &str), other: (&str, &str), fails: &[String]) -> Finding {
    let text = format!(
        "the process would load parts of two cuDNN releases: {} from {} and {} from {}; {}",
        one.0,
        one.1,
        other.0,
        other.1,
        two_releases(fails)
    );
    finding(Code::MixedCudnn, Severity::Error, text)
}

/// The loader takes the toolkit's stub instead of the driver's library.
pub fn stub_library(path: &str, folder: &str) -> Finding {
    let text = format!(
        "libcuda.so.1 would come from {folder}: that is the toolkit's stub, not the driver (error 34)"
    );
    finding(Code::StubLibrary, Severity::Error, text).at(path).fixed_by(Fix::advice(
        "remove the toolkit's `stubs` folder from LD_LIBRARY_PATH: it is only for linking",
    ))
}

/// The machine has other copies of CUDA libraries: the first ones in `named`, and the number of the rest.
pub fn other_copies(named: &[String], more: usize) -> Finding {
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let text = format!("copies outside the environment, not used by the loader: {}{more}", named.join(", "));
    finding(Code::OtherCopies, Severity::Info, text)
}
