//! Findings of `verify`: a closed list of codes, each with a heading in docs/diagnostics.md.

use serde::Serialize;

use super::fix::Fix;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Information; does not affect the verdict.
    Info,
    /// A possible problem; does not affect the verdict.
    Warning,
    /// The environment or the machine does not meet the lock's requirements.
    Error,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $text:literal,)*) => {
        /// The kind of finding, with a stable kebab-case name for other programs.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[doc = $doc])+ $variant,)* }

        impl Code {
            /// Every code, in the order of docs/diagnostics.md.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The stable name.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }

            /// What it says, in one sentence: the documentation of the variant, which SARIF shows to users.
            pub fn description(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc),+).trim_start(),)* }
            }
        }
    };
}

codes! {
    /// A locked package is not installed.
    MissingPackage = "missing-package",
    /// The installed version of a package differs from the locked one.
    WrongVersion = "wrong-version",
    /// The installed build has another CUDA variant than the locked one.
    WrongVariant = "wrong-variant",
    /// An installed package is not in the lock.
    ExtraPackage = "extra-package",
    /// The installed METADATA differs from that of the locked file.
    WrongMetadata = "wrong-metadata",
    /// A package is installed twice.
    DuplicatePackage = "duplicate-package",
    /// A file of a package is missing.
    MissingFile = "missing-file",
    /// A file's size or hash differs from RECORD, or a program is not executable.
    AlteredFile = "altered-file",
    /// Two packages own one file.
    FileOwnedTwice = "file-owned-twice",
    /// A package's RECORD is missing or cannot be read.
    UnreadableRecord = "unreadable-record",
    /// Python would import a package from another directory.
    ShadowedPackage = "shadowed-package",
    /// conda and pip installed the same package.
    MixedInstallers = "mixed-installers",
    /// An installer left a temporary directory behind.
    LeftoverFolder = "leftover-folder",
    /// The CUDA toolkit has another major version than torch's CUDA.
    ToolkitMismatch = "toolkit-mismatch",
    /// A requirement of a package is not installed, or has another version.
    BrokenRequirement = "broken-requirement",
    /// The Python series differs from the locked one.
    WrongPython = "wrong-python",
    /// The platform differs from the locked one.
    WrongPlatform = "wrong-platform",
    /// The C library is older than the lock requires.
    LibcTooOld = "libc-too-old",
    /// The driver is older than the lock requires.
    DriverTooOld = "driver-too-old",
    /// The driver no longer supports the GPU.
    DriverTooNew = "driver-too-new",
    /// The driver runs this lock in compatibility mode.
    CompatibilityMode = "compatibility-mode",
    /// The lock has no code for a GPU.
    GpuNotCovered = "gpu-not-covered",
    /// The loader would load a library from outside the environment instead of the environment's own.
    ShadowedLibrary = "shadowed-library",
    /// The loader does not find a required library.
    MissingLibrary = "missing-library",
    /// A library of a package cannot be read.
    UnreadableLibrary = "unreadable-library",
    /// The environment's interpreter is missing.
    MissingInterpreter = "missing-interpreter",
    /// A process would load libraries of two cuDNN releases.
    MixedCudnn = "mixed-cudnn",
    /// The loader would load the toolkit's stub instead of the driver's library.
    StubLibrary = "stub-library",
    /// The driver's library and its kernel module have different versions.
    DriverMismatch = "driver-mismatch",
    /// An NVIDIA GPU is on the PCI bus, and NVIDIA's kernel module is not loaded.
    DriverNotLoaded = "driver-not-loaded",
    /// A GPU that the driver lists does not answer.
    GpuNotAnswering = "gpu-not-answering",
    /// A bundle is not whole, or not the lock's.
    BundleDiffers = "bundle-differs",
    /// A container image is another one than the target of the lock names.
    WrongImage = "wrong-image",
    /// A container image demands what the machine does not have (`NVIDIA_REQUIRE_CUDA`).
    ImageRequirement = "image-requirement",
    /// The driver's device files are missing.
    NoDeviceFiles = "no-device-files",
    /// The machine has NVSwitches, but the fabric manager is not running.
    FabricManager = "fabric-manager",
    /// A GPU's compute mode prohibits programs.
    ComputeMode = "compute-mode",
    /// A GPU's memory had uncorrectable errors.
    MemoryErrors = "memory-errors",
    /// A GPU is split into MIG instances.
    MigEnabled = "mig-enabled",
    /// A GPU's memory is nearly full.
    LittleMemory = "little-memory",
    /// The driver is reloaded for each program, because persistence mode is off.
    PersistenceOff = "persistence-off",
    /// Docker cannot pass GPUs to containers.
    ContainersWithoutGpus = "containers-without-gpus",
    /// There are other copies of CUDA libraries on the machine.
    OtherCopies = "other-copies",
    /// A library requires symbol versions that the loaded file does not define.
    MissingSymbolVersion = "missing-symbol-version",
    /// A library requires symbols that no library defines.
    UndefinedSymbol = "undefined-symbol",
    /// An extension was built for another torch.
    ExtensionAbi = "extension-abi",
    /// A library has no code for a GPU of the machine.
    NoKernelImage = "no-kernel-image",
    /// A library has only PTX for a GPU of the machine.
    CompiledAtFirstUse = "compiled-at-first-use",
    /// A library other than torch's own has no code for a GPU of the machine.
    GpuCodeHole = "gpu-code-hole",
    /// A library's GPU code could not be read completely.
    UnreadableGpuCode = "unreadable-gpu-code",
    /// An environment variable hides GPUs from programs.
    HiddenGpus = "hidden-gpus",
    /// Python executes a file at each start that no package installed.
    StartupCode = "startup-code",
    /// Installed packages are known to be incompatible.
    KnownIncompatible = "known-incompatible",
    /// The machine changed since the lock was written.
    Drift = "drift",
    /// The lock has no hashes, because it was solved from the registry alone.
    StackOnlyLock = "stack-only-lock",
    /// The manifest no longer matches the lock.
    StaleLock = "stale-lock",
    /// The lock of the tool that holds the packages changed since the stack was chosen for it.
    PackageLockChanged = "package-lock-changed",
    /// The smoke test failed.
    SmokeFailed = "smoke-failed",
    /// cuDNN is enabled, but not used.
    CudnnNotUsed = "cudnn-not-used",
    /// The smoke test crashed.
    SmokeCrashed = "smoke-crashed",
    /// The smoke test timed out.
    SmokeTimeout = "smoke-timeout",
    /// A check could not be run on this machine.
    NotJudged = "not-judged",
}

impl Serialize for Code {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// One thing that `verify` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind of finding.
    pub code: Code,
    /// How much it matters.
    pub severity: Severity,
    /// One or two sentences.
    pub message: String,
    /// The fix.
    pub fix: Option<Fix>,
    /// The file, package or device it is about.
    pub r#where: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_documented() {
        let mut words: Vec<&str> = Code::ALL.iter().map(|c| c.as_str()).collect();
        let page = include_str!("../../docs/diagnostics.md");
        for word in &words {
            assert!(
                page.contains(&format!("\n## {word}\n")),
                "docs/diagnostics.md has no heading `## {word}`"
            );
        }
        for word in &words {
            let section = page.split(&format!("\n## {word}\n")).nth(1).unwrap_or_default();
            let section = section.split("\n## ").next().unwrap_or_default();
            for part in ["\n- cause: ", "\n- fix: "] {
                assert!(
                    section.contains(part),
                    "`{word}` in docs/diagnostics.md has no line `{}`",
                    part.trim()
                );
            }
        }
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Code::ALL.len());
    }
}
