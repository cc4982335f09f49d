//! Converts findings of `verify` on this machine to causes.

use super::cause::Cause;
use crate::model::component::Component;
use crate::model::finding::{Code, Finding, Severity};

/// The causes of findings. Findings with severity info are not causes.
pub(super) fn causes(findings: &[&Finding]) -> Vec<Cause> {
    findings.iter().filter_map(|finding| cause(finding)).collect()
}

fn cause(finding: &Finding) -> Option<Cause> {
    let confidence = match finding.severity {
        // Ranked first: with another Python, findings about its packages mean nothing.
        Severity::Error if finding.code == Code::WrongPython => 0.97,
        Severity::Error => 0.9,
        Severity::Warning => 0.45,
        Severity::Info => return None,
    };
    let mut cause = Cause::new(finding.code.as_str(), component(finding.code)?, confidence);
    cause.message.clone_from(&finding.message);
    cause.fix.extend(finding.fix.clone());
    cause.has_numbers = true;
    cause.about = finding.r#where.as_deref().map(names).unwrap_or_default();
    Some(cause)
}

/// What a log would name of a place: the package, or the folder in site-packages, and the file.
fn names(place: &str) -> Vec<String> {
    let mut parts = place.split('/').filter(|part| !part.is_empty() && *part != "nvidia");
    let ends = [parts.next(), parts.next_back()].into_iter().flatten();
    // `numpy-2.1.0.dist-info` is numpy's.
    ends.map(|part| {
        part.strip_suffix(".dist-info").and_then(|own| own.split('-').next()).unwrap_or(part).to_owned()
    })
    .collect()
}

/// The component at fault of a finding; `None` for findings that cannot cause a failure.
fn component(code: Code) -> Option<Component> {
    Some(match code {
        Code::DriverTooOld
        | Code::DriverTooNew
        | Code::DriverMismatch
        | Code::DriverNotLoaded
        | Code::FabricManager => Component::Driver,
        Code::GpuNotCovered | Code::NoKernelImage | Code::GpuCodeHole | Code::CompiledAtFirstUse => {
            Component::GpuArch
        }
        Code::WrongVariant | Code::CudnnNotUsed => Component::TorchBuild,
        Code::ToolkitMismatch => Component::CudaRuntime,
        Code::MissingLibrary | Code::UnreadableLibrary => Component::CudaRuntime,
        Code::MixedCudnn | Code::ShadowedLibrary | Code::StubLibrary | Code::MissingSymbolVersion => {
            Component::PathShadowing
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
        | Code::UndefinedSymbol
        | Code::KnownIncompatible => Component::InstallMix,
        Code::WrongPython | Code::MissingInterpreter => Component::Python,
        Code::LibcTooOld => Component::Glibc,
        Code::ContainersWithoutGpus | Code::NoDeviceFiles => Component::Container,
        Code::ExtensionAbi => Component::ExtensionAbi,
        Code::WrongPlatform
        | Code::GpuNotAnswering
        | Code::ComputeMode
        | Code::MemoryErrors
        | Code::MigEnabled
        | Code::LittleMemory
        | Code::HiddenGpus
        | Code::SmokeFailed
        | Code::SmokeCrashed
        | Code::SmokeTimeout => Component::Other,
        Code::WrongImage
        | Code::BundleDiffers
        | Code::ImageRequirement
        | Code::ExtraPackage
        | Code::StartupCode
        | Code::CompatibilityMode
        | Code::PersistenceOff
        | Code::OtherCopies
        | Code::UnreadableGpuCode
        | Code::Drift
        | Code::StackOnlyLock
        | Code::StaleLock
        | Code::PackageLockChanged
        | Code::NotJudged => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_log_would_name() {
        for (place, expected) in [
            ("numpy", vec!["numpy"]),
            ("numpy-2.1.0.dist-info", vec!["numpy"]),
            ("torch/lib/libtorch.so", vec!["torch", "libtorch.so"]),
            ("nvidia/cudnn/lib/libcudnn.so.9", vec!["cudnn", "libcudnn.so.9"]),
            ("", vec![]),
        ] {
            assert_eq!(names(place), expected, "{place}");
        }
    }
}
