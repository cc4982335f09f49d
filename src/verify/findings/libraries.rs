//! What the loader would pick, and what it would not find.

use super::finding;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::native::ForeignSymbols;
use crate::model::text::clean;

/// The environment's interpreter is gone.
pub fn missing_interpreter() -> Finding {
    finding(Code::MissingInterpreter, Severity::Error, "bin/python is a link that leads nowhere")
        .at("bin/python")
        .fixed_by(Fix::advice("make the environment anew: its interpreter was removed or moved"))
}

/// A library of a package cannot be read.
pub fn unreadable_library(path: &str, package: &str, why: &str) -> Finding {
    let text = format!("{} of {package} cannot be read: {why}", clean(path, 160));
    finding(Code::UnreadableLibrary, Severity::Error, text).at(clean(path, 200))
}

/// An extension was built for another torch.
pub fn extension_abi(foreign: &ForeignSymbols) -> Finding {
    let text = format!(
        "{} of {} was built for another torch: {} of its symbols are defined nowhere, `{}` for one",
        foreign.path,
        foreign.package,
        foreign.count,
        clean(&foreign.example, 70)
    );
    let fix = format!("install the build of {} for this torch, or build it again", foreign.package);
    finding(Code::ExtensionAbi, Severity::Error, text).at(&foreign.path).fixed_by(Fix::advice(fix))
}

/// The loader would take a library from outside the environment instead of the environment's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadow {
    /// The name that is asked for: `libcudnn.so.9`.
    pub name: String,
    /// The folder of the file that would be taken.
    pub folder: String,
    /// That file, for people.
    pub path: String,
    /// The package that has the environment's own.
    pub package: String,
    /// Why the loader takes the other, one clause.
    pub why: String,
    /// The release there, where it is known.
    pub there: Option<String>,
    /// The environment's own, where it is known.
    pub here: Option<String>,
    /// What the difference breaks.
    pub effect: Option<ShadowEffect>,
    /// What mends it, where something does.
    pub fix: Option<Fix>,
}

/// What a library of another release breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShadowEffect {
    /// torch refuses an older cuDNN.
    RefusedByTorch,
    /// Parts of two releases of cuDNN meet.
    ConvolutionAborts,
    /// Symbols of the newer release are missing.
    SymbolsMissing,
}

/// The loader would take a library from outside the environment instead of the environment's own.
pub fn shadowed_library(severity: Severity, shadow: Shadow) -> Finding {
    let effect = match shadow.effect {
        Some(ShadowEffect::RefusedByTorch) => {
            "; torch refuses a cuDNN older than the one that it was built with"
        }
        Some(ShadowEffect::ConvolutionAborts) => "; the first convolution would abort",
        Some(ShadowEffect::SymbolsMissing) => "; what was built for the newer one finds symbols missing",
        None => "",
    };
    let package = &shadow.package;
    let versions = match (&shadow.there, &shadow.here) {
        (Some(there), Some(here)) => format!(". {there} there, {here} in {package}{effect}"),
        (Some(there), None) => format!(". {there} there"),
        (None, _) => String::new(),
    };
    let text = format!(
        "{} would come from {}, not from {package}: {}{versions}",
        shadow.name, shadow.folder, shadow.why
    );
    Finding { fix: shadow.fix, ..finding(Code::ShadowedLibrary, severity, text).at(shadow.path) }
}

/// A file that serves a name is too old for who asks: `asks` wants `version` of `soname`.
pub struct SymbolVersion {
    /// Who asks.
    pub asks: String,
    /// The version of symbols, `GLIBCXX_3.4.30`.
    pub version: String,
    /// The SONAME that it is asked of.
    pub soname: String,
    /// The file that was taken for it.
    pub file: String,
    /// How the file was reached.
    pub path: String,
    /// Why the loader takes it, one clause.
    pub why: String,
    /// How many other libraries ask in vain too.
    pub others: usize,
    /// What mends it, where something does.
    pub fix: Option<Fix>,
}

/// A library asks for versions of symbols that the file taken for it does not define. `of_framework` tells whether the
/// framework itself asks.
pub fn missing_symbol_version(missing: SymbolVersion, of_framework: bool) -> Finding {
    let so_do = match missing.others {
        0 => String::new(),
        n => format!("; so do {n} more libraries"),
    };
    let text = format!(
        "{} asks for {} of {}, which {} does not have: {}{so_do}",
        missing.asks, missing.version, missing.soname, missing.file, missing.why
    );
    let severity = if of_framework { Severity::Error } else { Severity::Warning };
    Finding { fix: missing.fix, ..finding(Code::MissingSymbolVersion, severity, text).at(missing.path) }
}

/// A library that is needed is nowhere the loader looks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    /// The driver's own.
    Driver,
    /// A library that another asks for.
    Library {
        /// The name that is asked for.
        name: String,
        /// Who asks.
        asks: String,
        /// The file that asks, for people.
        path: Option<String>,
        /// Whether it is opened while the program runs.
        later: bool,
        /// The package that has it, where the loader does not look.
        package: Option<String>,
        /// How many others ask in vain too.
        others: usize,
        /// What mends it, where something does.
        fix: Option<Fix>,
    },
}

/// A library that is needed is nowhere the loader looks.
pub fn missing_library(severity: Severity, missing: Missing) -> Finding {
    let new = |text: String| finding(Code::MissingLibrary, severity, text);
    match missing {
        Missing::Driver => new(
            "the kernel module of the driver is loaded, and its library libcuda.so.1 is nowhere on the loader's paths: CUDA sees no GPU"
                .to_owned(),
        )
        .at("libcuda.so.1")
        .fixed_by(Fix::advice(
            "install the driver's CUDA library (libcuda1 or nvidia-driver-cuda-libs); in a container set NVIDIA_DRIVER_CAPABILITIES=compute,utility",
        )),
        Missing::Library { name, asks, path, later, package, others, fix } => {
            let when = if later { "opens" } else { "needs" };
            let elsewhere = match package {
                Some(package) => format!("; {package} has it, where {asks} does not look"),
                None => String::new(),
            };
            let so_do = match others {
                0 => String::new(),
                1 => "; so does one more".to_owned(),
                n => format!("; so do {n} more"),
            };
            let name = clean(&name, 100);
            let text = format!("{asks} {when} {name}, and the loader finds it nowhere{elsewhere}{so_do}");
            Finding { fix, r#where: path, ..new(text) }
        }
    }
}

/// Parts of two releases of cuDNN would meet in one process: each release, and its folder.
pub fn mixed_cudnn(one: (&str, &str), other: (&str, &str)) -> Finding {
    let text = format!(
        "parts of two releases of cuDNN would meet: {} in {} and {} in {}",
        one.0, one.1, other.0, other.1
    );
    finding(Code::MixedCudnn, Severity::Error, text)
}

/// The toolkit's stub would be taken for the driver's library.
pub fn stub_library(path: &str, folder: &str) -> Finding {
    let text = format!(
        "libcuda.so.1 would come from {folder}: that is the toolkit's stub, not the driver (error 34)"
    );
    finding(Code::StubLibrary, Severity::Error, text)
        .at(path)
        .fixed_by(Fix::advice("take the toolkit's `stubs` folder out of LD_LIBRARY_PATH: it is for linking"))
}

/// More copies of CUDA's libraries are on the machine: a few of them by name, and how many more.
pub fn other_copies(named: &[String], more: usize) -> Finding {
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    let text =
        format!("outside the environment, and not taken by the loader here: {}{more}", named.join(", "));
    finding(Code::OtherCopies, Severity::Info, text)
}
