//! Findings of `verify`: a closed list of codes, each with a heading in docs/diagnostics.md.

use serde::Serialize;

use super::fix::Fix;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; leaves the verdict alone.
    Info,
    /// Suspicious; leaves the verdict alone.
    Warning,
    /// The environment or the machine is not what the lock needs.
    Error,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What was found, as a kebab-case word that other programs can rely on.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])* $variant,)* }

        impl Code {
            /// Every code, in the order of docs/diagnostics.md.
            pub const ALL: &'static [Code] = &[$(Code::$variant,)*];

            /// The code's word.
            pub fn as_str(self) -> &'static str {
                match self { $(Code::$variant => $text,)* }
            }
        }
    };
}

codes! {
    /// A locked package is not installed.
    MissingPackage = "missing-package",
    /// A package is installed in another version than locked.
    WrongVersion = "wrong-version",
    /// A build of another CUDA flavour than locked is installed.
    WrongVariant = "wrong-variant",
    /// A package is installed that the lock does not have.
    ExtraPackage = "extra-package",
    /// The installed METADATA is not the locked file's.
    WrongMetadata = "wrong-metadata",
    /// A package is installed twice.
    DuplicatePackage = "duplicate-package",
    /// A file that an installed package records is gone.
    MissingFile = "missing-file",
    /// A file's size or hash is not the recorded one.
    AlteredFile = "altered-file",
    /// Two packages own one file.
    FileOwnedTwice = "file-owned-twice",
    /// A package's RECORD is missing or cannot be read.
    UnreadableRecord = "unreadable-record",
    /// Python would import a package from elsewhere.
    ShadowedPackage = "shadowed-package",
    /// conda and pip installed the same package.
    MixedInstallers = "mixed-installers",
    /// An installer left a folder behind.
    LeftoverFolder = "leftover-folder",
    /// The CUDA toolkit is of another major than torch's CUDA.
    ToolkitMismatch = "toolkit-mismatch",
    /// A package needs another that is not installed, or in another version.
    BrokenRequirement = "broken-requirement",
    /// The Python series differs from the locked one.
    WrongPython = "wrong-python",
    /// The platform differs from the locked one.
    WrongPlatform = "wrong-platform",
    /// The C library is older than the lock needs.
    LibcTooOld = "libc-too-old",
    /// The driver is below the floor.
    DriverTooOld = "driver-too-old",
    /// The driver no longer knows the GPU.
    DriverTooNew = "driver-too-new",
    /// The driver runs this lock in compatibility mode.
    CompatibilityMode = "compatibility-mode",
    /// The lock has no code for a GPU.
    GpuNotCovered = "gpu-not-covered",
    /// The loader would take a library from outside the environment instead of the environment's own.
    ShadowedLibrary = "shadowed-library",
    /// A library that is needed is nowhere the loader looks.
    MissingLibrary = "missing-library",
    /// A library of a package cannot be read.
    UnreadableLibrary = "unreadable-library",
    /// The environment's interpreter is gone.
    MissingInterpreter = "missing-interpreter",
    /// Parts of two releases of cuDNN would meet in one process.
    MixedCudnn = "mixed-cudnn",
    /// The toolkit's stub would be taken for the driver's library.
    StubLibrary = "stub-library",
    /// The driver's library and its kernel module are of different releases.
    DriverMismatch = "driver-mismatch",
    /// The files through which a program reaches the driver are missing.
    NoDeviceFiles = "no-device-files",
    /// NVSwitches are there and their manager does not run.
    FabricManager = "fabric-manager",
    /// A card's compute mode keeps programs away.
    ComputeMode = "compute-mode",
    /// A card's memory has had errors that could not be corrected.
    MemoryErrors = "memory-errors",
    /// A card is split into MIG instances.
    MigEnabled = "mig-enabled",
    /// A card's memory is nearly full.
    LittleMemory = "little-memory",
    /// The driver is loaded anew for each program.
    PersistenceOff = "persistence-off",
    /// Docker cannot hand GPUs to containers.
    ContainersWithoutGpus = "containers-without-gpus",
    /// More copies of CUDA's libraries are on the machine.
    OtherCopies = "other-copies",
    /// A library asks for versions of symbols that the file taken for it does not define.
    MissingSymbolVersion = "missing-symbol-version",
    /// An extension was built for another torch.
    ExtensionAbi = "extension-abi",
    /// A library has no code for a GPU of the machine.
    NoKernelImage = "no-kernel-image",
    /// A library has only PTX for a GPU of the machine.
    CompiledAtFirstUse = "compiled-at-first-use",
    /// A library beside torch's own has no code for a GPU of the machine.
    GpuCodeHole = "gpu-code-hole",
    /// A library's GPU code could not be read whole.
    UnreadableGpuCode = "unreadable-gpu-code",
    /// A variable hides GPUs from programs.
    HiddenGpus = "hidden-gpus",
    /// Packages that are known not to work together.
    KnownIncompatible = "known-incompatible",
    /// The machine changed since the lock was made.
    Drift = "drift",
    /// The lock has no hashes: it was made from the registry alone.
    StackOnlyLock = "stack-only-lock",
    /// The smoke test failed.
    SmokeFailed = "smoke-failed",
    /// cuDNN is switched on and does nothing.
    CudnnNotUsed = "cudnn-not-used",
    /// The smoke test crashed.
    SmokeCrashed = "smoke-crashed",
    /// The smoke test did not end in time.
    SmokeTimeout = "smoke-timeout",
    /// Something could not be judged on this machine.
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
    /// What mends it.
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
