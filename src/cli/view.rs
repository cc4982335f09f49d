//! The answers of `resolve` as values that `--json` writes.

use std::collections::BTreeMap;

use pep440_rs::Version;
use serde::Serialize;

use crate::compatibility::both;

use crate::model::conflict::Conflict;
use crate::model::evidence::Evidence;
use crate::model::solution::{
    ChosenFile, ChosenPackage, DriverMode, Envelope, Framework, Note, Series, Solution, Stack,
};
use crate::model::source::CondaPackage;
use crate::model::source::{BuildKind, MetadataFrom};
use crate::model::version::{DottedVersion, cuda_short};
use crate::registry::COMPANIONS;

/// The document of `resolve`: the solved targets, or a conflict.
#[derive(Serialize)]
pub(super) struct Resolution<'s> {
    status: Status,
    targets: Vec<SolvedTarget<'s>>,
    conflict: Option<&'s Conflict>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Solved,
    Conflict,
}

impl<'s> Resolution<'s> {
    /// The solutions, each with the name of its target.
    pub fn solved(targets: impl Iterator<Item = (&'s str, &'s Solution)>) -> Resolution<'s> {
        let targets = targets.map(|(name, solution)| SolvedTarget::of_solution(name, solution)).collect();
        Resolution { status: Status::Solved, targets, conflict: None }
    }

    /// Series of frameworks, which the registry alone knows, each with the name of its target.
    pub fn series(targets: impl Iterator<Item = (&'s str, &'s [Series])>) -> Resolution<'s> {
        let targets = targets.map(|(name, series)| SolvedTarget::of_series(name, series)).collect();
        Resolution { status: Status::Solved, targets, conflict: None }
    }

    /// The reason why there is no solution.
    pub fn conflict(conflict: &'s Conflict) -> Resolution<'s> {
        Resolution { status: Status::Conflict, targets: Vec::new(), conflict: Some(conflict) }
    }
}

#[derive(Serialize)]
struct SolvedTarget<'s> {
    name: &'s str,
    /// Unknown for a series: the registry does not know which Pythons it has wheels for.
    python: Option<String>,
    stack: StackView<'s>,
    frameworks: Frameworks<'s>,
    /// The driver mode of the stack and the frameworks together.
    driver_mode: Option<DriverMode>,
    /// What any machine must have.
    envelope: Option<Envelope>,
    packages: Vec<PackageView<'s>>,
    /// Of conda channels.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    conda: Vec<CondaView<'s>>,
    notes: Vec<&'s Note>,
}

/// A package of a conda channel.
#[derive(Serialize)]
struct CondaView<'s> {
    name: &'s str,
    version: &'s str,
    build: &'s str,
    channel: &'s str,
    subdir: &'s str,
    file: &'s str,
    sha256: &'s str,
    size: u64,
}

impl<'s> CondaView<'s> {
    fn of(package: &'s CondaPackage) -> CondaView<'s> {
        let CondaPackage { name, version, build, channel, subdir, file, sha256, size, .. } = package;
        CondaView { name, version, build, channel, subdir, file, sha256, size: *size }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Frameworks<'s> {
    Releases(&'s [Framework]),
    Series(&'s [Series]),
}

impl<'s> SolvedTarget<'s> {
    fn of_solution(name: &'s str, s: &'s Solution) -> SolvedTarget<'s> {
        let mode = s.stack.as_ref().and_then(|stack| stack.driver_mode);
        SolvedTarget {
            name,
            python: Some(s.python.to_string()),
            stack: StackView::of_solution(s),
            frameworks: Frameworks::Releases(&s.frameworks),
            driver_mode: s.frameworks.iter().filter_map(|x| x.driver_mode).chain(mode).max(),
            envelope: Some(s.envelope.clone()),
            packages: s.packages.iter().map(PackageView::of).collect(),
            conda: s.conda.iter().map(CondaView::of).collect(),
            notes: s.notes.iter().chain(&s.behind).collect(),
        }
    }

    fn of_series(name: &'s str, series: &'s [Series]) -> SolvedTarget<'s> {
        SolvedTarget {
            name,
            python: None,
            stack: StackView {
                versions: series.iter().map(|one| (one.package.as_str(), one.releases.clone())).collect(),
                built_with: series.last().map(|one| BuiltWith {
                    cuda: Some(cuda_short(&one.cuda)),
                    cudnn: one.cudnn.as_ref(),
                    native_driver: one.native_driver.as_ref(),
                }),
                torch: None,
            },
            frameworks: Frameworks::Series(series),
            driver_mode: series.iter().filter_map(|one| one.driver_mode).max(),
            envelope: series.iter().map(|one| one.envelope.clone()).reduce(both),
            packages: Vec::new(),
            conda: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// The frameworks by name, and what they are built with. With torch in the stack, CUDA and cuDNN are torch's.
#[derive(Serialize)]
struct StackView<'s> {
    #[serde(flatten)]
    versions: BTreeMap<&'s str, String>,
    #[serde(flatten)]
    built_with: Option<BuiltWith<'s>>,
    #[serde(flatten)]
    torch: Option<TorchParts<'s>>,
}

#[derive(Serialize)]
struct BuiltWith<'s> {
    cuda: Option<String>,
    cudnn: Option<&'s DottedVersion>,
    native_driver: Option<&'s DottedVersion>,
}

#[derive(Serialize)]
struct TorchParts<'s> {
    variant: &'s str,
    nccl: Option<&'s DottedVersion>,
    triton: Option<String>,
    #[serde(flatten)]
    companions: BTreeMap<&'s str, Option<String>>,
    index: &'s str,
    evidence: Evidence,
}

impl<'s> StackView<'s> {
    fn of_solution(s: &'s Solution) -> StackView<'s> {
        let torch = s.stack.iter().map(|stack| (stack.framework.as_str(), stack.version.to_string()));
        let others = s.frameworks.iter().map(|x| (x.package.as_str(), x.version.to_string()));
        let built_with = match &s.stack {
            Some(stack) => Some(BuiltWith {
                cuda: stack.cuda.as_ref().map(cuda_short),
                cudnn: stack.cudnn.as_ref(),
                native_driver: stack.native_driver.as_ref(),
            }),
            None => s.frameworks.last().map(|x| BuiltWith {
                cuda: Some(cuda_short(&x.cuda)),
                cudnn: x.cudnn.as_ref(),
                native_driver: x.native_driver.as_ref(),
            }),
        };
        let triton = s.packages.iter().find(|package| package.name == "triton");
        let triton = triton.map(|package| package.version.to_string());
        StackView {
            versions: torch.chain(others).collect(),
            built_with,
            torch: s.stack.as_ref().map(|stack| TorchParts::of(stack, triton)),
        }
    }
}

impl<'s> TorchParts<'s> {
    fn of(stack: &'s Stack, triton: Option<String>) -> TorchParts<'s> {
        let version = |name| stack.companions.get(name).map(ToString::to_string);
        TorchParts {
            variant: &stack.variant,
            nccl: stack.nccl.as_ref(),
            triton,
            companions: COMPANIONS.into_iter().map(|name| (name, version(name))).collect(),
            index: &stack.index,
            evidence: stack.evidence,
        }
    }
}

/// A locked package.
#[derive(Serialize)]
struct PackageView<'s> {
    name: &'s str,
    version: &'s Version,
    index: Option<&'s str>,
    /// `null` for wheels.
    build: Option<BuildView<'s>>,
    reason: String,
    files: &'s [ChosenFile],
}

/// How a package is built from source.
#[derive(Serialize)]
struct BuildView<'s> {
    kind: BuildKind,
    metadata_from: MetadataFrom,
    needs: &'s [String],
    requires: Vec<String>,
}

impl<'s> PackageView<'s> {
    fn of(package: &'s ChosenPackage) -> PackageView<'s> {
        PackageView {
            name: &package.name,
            version: &package.version,
            index: package.source.index(),
            build: package.build.as_ref().map(|build| BuildView {
                kind: build.kind,
                metadata_from: build.metadata_from,
                needs: &build.needs,
                requires: build.requires.iter().map(|r| format!("{}=={}", r.name, r.version)).collect(),
            }),
            reason: package.reason.to_string(),
            files: &package.files,
        }
    }
}

/// The answer of `resolve --locked`.
#[derive(Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
pub(super) enum LockState {
    Current { reasons: [String; 0] },
    Stale { reasons: Vec<String> },
}

impl LockState {
    pub fn of(reasons: Vec<String>) -> LockState {
        match reasons.is_empty() {
            true => LockState::Current { reasons: [] },
            false => LockState::Stale { reasons },
        }
    }
}
