//! What `verify` found on this machine, as causes.

use super::cause::Cause;
use crate::model::finding::{Code, Finding, Severity};

/// The causes that findings amount to; what is only worth knowing is none.
pub(super) fn causes(findings: &[&Finding]) -> Vec<Cause> {
    findings.iter().filter_map(|finding| cause(finding)).collect()
}

fn cause(finding: &Finding) -> Option<Cause> {
    let confidence = match finding.severity {
        // The packages of another Python are of no use to look at.
        Severity::Error if finding.code == Code::WrongPython => 0.97,
        Severity::Error => 0.9,
        Severity::Warning => 0.45,
        Severity::Info => return None,
    };
    let mut cause = Cause::new(finding.code.as_str(), component(finding.code)?, confidence);
    cause.message.clone_from(&finding.message);
    cause.fix.extend(finding.fix.clone());
    cause.has_numbers = true;
    Some(cause)
}

/// The component that a finding puts at fault; nothing for what is no cause of a failure.
fn component(code: Code) -> Option<&'static str> {
    Some(match code {
        Code::DriverTooOld | Code::DriverTooNew | Code::DriverMismatch | Code::FabricManager => "driver",
        Code::GpuNotCovered | Code::NoKernelImage | Code::GpuCodeHole | Code::CompiledAtFirstUse => {
            "gpu-arch"
        }
        Code::WrongVariant | Code::CudnnNotUsed => "torch-build",
        Code::ToolkitMismatch => "cuda-runtime",
        Code::MissingLibrary | Code::UnreadableLibrary => "cuda-runtime",
        Code::MixedCudnn | Code::ShadowedLibrary | Code::StubLibrary | Code::MissingSymbolVersion => {
            "path-shadowing"
        }
        Code::MissingPackage
        | Code::WrongVersion
        | Code::WrongMetadata
        | Code::DuplicatePackage
        | Code::MissingFile
        | Code::AlteredFile
        | Code::FileOwnedTwice
        | Code::UnreadableRecord
        | Code::ShadowedPackage
        | Code::MixedInstallers
        | Code::LeftoverFolder
        | Code::BrokenRequirement
        | Code::KnownIncompatible => "install-mix",
        Code::WrongPython | Code::MissingInterpreter => "python",
        Code::LibcTooOld => "glibc",
        Code::ContainersWithoutGpus | Code::NoDeviceFiles => "container",
        Code::ExtensionAbi => "extension-abi",
        Code::WrongPlatform
        | Code::ComputeMode
        | Code::MemoryErrors
        | Code::MigEnabled
        | Code::LittleMemory
        | Code::HiddenGpus
        | Code::SmokeFailed
        | Code::SmokeCrashed
        | Code::SmokeTimeout => "other",
        Code::ExtraPackage
        | Code::CompatibilityMode
        | Code::PersistenceOff
        | Code::OtherCopies
        | Code::UnreadableGpuCode
        | Code::Drift
        | Code::StackOnlyLock
        | Code::NotJudged => return None,
    })
}
