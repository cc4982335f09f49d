//! The request as canonical lines of the lock: writing and reading.
//!
//! A line is a key and its value: `package torch>=2.8`, `cuda >=12.6`. A limit from an option of one run is
//! prefixed by `option`: such a lock is current for a manifest without that limit.

use super::error::LockError;
use crate::model::conda::{CONDA_FORGE, CondaSpec};
use crate::model::cutoff::Cutoff;
use crate::model::index_owner::IndexOwner;
use crate::model::part::Part;
use crate::model::request::{Limit, Origin, PythonRequest, Request, StatedMetadata, UserRequirement};
use crate::model::run_options::RUN_OPTIONS;
use crate::model::text::clean;
use crate::model::timestamp::Timestamp;

const PACKAGE: &str = "package";
const EXTRA: &str = "extra";
const GROUP: &str = "group";
const CONSTRAINT: &str = "constraint";
const PYTHON: &str = "python";
const CUDA: &str = "cuda";
const CUDNN: &str = "cudnn";
const NCCL: &str = "nccl";
const VARIANT: &str = "variant";
const DRIVER_POLICY: &str = "driver-policy";
const ONLY_INDEX: &str = "only-index";
const SAME: &str = "same";
const TARGET: &str = "target";
const IGNORE_GPU: &str = "ignore-gpu";
const INDEX: &str = "index";
const OVERRIDE: &str = "override";
const SOURCES: &str = "sources";
const METADATA: &str = "metadata";
const EXCLUDE_NEWER: &str = "exclude-newer";
const EXCLUDE_NEWER_PACKAGE: &str = "exclude-newer-package";
const EXCLUDE_NEWER_EXEMPT: &str = "exclude-newer-exempt";
const CONDA: &str = "conda";
const CONDA_CHANNELS: &str = "conda-channels";
const CONDA_STACK: &str = "conda-stack";
const CHANNELS: &str = "channels";
const OPTION: &str = "option";

/// The values of `sources` and `metadata` that are written; the others are the default.
const NO_SOURCES: &str = "false";
const STRICT: &str = "strict";

/// Instead of a cutoff: none.
const NEVER: &str = "false";

/// The one policy that is written; the other is the default.
const NATIVE: &str = "native";

/// Whether a line holds an option of one run, which a later run need not repeat.
pub(super) fn is_option(line: &str) -> bool {
    line.split_once(' ').is_some_and(|(key, _)| key == OPTION)
}

/// Whether the manifest of a request described its targets.
pub fn names_targets(lines: &[String]) -> bool {
    lines.iter().any(|line| line.split_once(' ').is_some_and(|(key, _)| key == TARGET))
}

/// The request as canonical, sorted lines. Equal requests give equal lines, independent of order and origin.
pub fn request_lines(request: &Request) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    lines.extend(request.requirements.iter().map(|r| match &r.part {
        None => format!("{PACKAGE} {}", r.line()),
        Some(Part::Extra(name)) => format!("{EXTRA} {name} {}", r.line()),
        Some(Part::Group(name)) => format!("{GROUP} {name} {}", r.line()),
    }));
    lines.extend(request.constraints.iter().map(|r| format!("{CONSTRAINT} {}", r.line())));
    let mut add = |key: &str, origin: &Origin, value: &dyn std::fmt::Display| {
        let kind = if origin.is_option() { "option " } else { "" };
        lines.push(format!("{kind}{key} {value}"));
    };
    if let Some(python) = &request.python {
        add(PYTHON, &python.origin, &python.text);
    }
    if let Some(limit) = &request.cuda {
        add(CUDA, &limit.origin, &limit.value);
    }
    if let Some(limit) = &request.cudnn {
        add(CUDNN, &limit.origin, &limit.value);
    }
    if let Some(limit) = &request.nccl {
        add(NCCL, &limit.origin, &limit.value);
    }
    if let Some(limit) = &request.variant {
        add(VARIANT, &limit.origin, &limit.value);
    }
    if let Some(limit) = &request.native_driver_only {
        add(DRIVER_POLICY, &limit.origin, &NATIVE);
    }
    if let Some(limit) = &request.only_index {
        add(ONLY_INDEX, &limit.origin, &limit.value);
    }
    if let Some(limit) = &request.no_sources {
        add(SOURCES, &limit.origin, &NO_SOURCES);
    }
    if let Some(limit) = &request.strict_metadata {
        add(METADATA, &limit.origin, &STRICT);
    }
    if let Some(limit) = &request.exclude_newer.general {
        add(EXCLUDE_NEWER, &limit.origin, &cutoff_line(&limit.value));
    }
    lines.extend(request.exclude_newer.packages.iter().map(|(package, cutoff)| {
        let cutoff = cutoff.as_ref().map_or(NEVER.to_owned(), cutoff_line);
        format!("{EXCLUDE_NEWER_PACKAGE} {package} {cutoff}")
    }));
    lines.extend(request.exclude_newer.exempt.iter().map(|index| format!("{EXCLUDE_NEWER_EXEMPT} {index}")));
    lines.extend(request.overrides.iter().map(|r| format!("{OVERRIDE} {}", r.line())));
    for row in &request.metadata {
        let version = row.version.as_ref().map_or("*".to_owned(), ToString::to_string);
        let requires = serde_json::to_string(&row.requires).unwrap_or_default();
        lines.push(format!("{METADATA} {} {version} {requires}", row.name));
    }
    lines.extend(request.same_torch.map(|same| format!("{SAME} {}", if same { "torch" } else { "none" })));
    lines.extend(request.targets.iter().map(|t| format!("{TARGET} {t}")));
    lines.extend(request.ignored_gpus.iter().map(|name| format!("{IGNORE_GPU} {name}")));
    for owner in &request.owners {
        let mut patterns = owner.patterns.clone();
        patterns.sort();
        lines.push(format!("{INDEX} {} {}", owner.index, patterns.join(" ")));
    }
    if !request.conda.is_empty() || request.has_stack_of_conda() {
        lines.push(format!("{CONDA_CHANNELS} {}", request.conda.channels.join(" ")));
        lines.extend(request.conda.specs.iter().map(|spec| format!("{CONDA} {}", spec.text)));
        lines.extend(request.conda.stack.as_ref().map(|_| format!("{CONDA_STACK} {CHANNELS}")));
    }
    lines.sort();
    lines.dedup();
    lines
}

/// Parses canonical lines: the inverse of [`request_lines`]. Limits from options of the run that wrote the lines keep
/// that origin.
///
/// # Errors
/// The first unknown line.
pub fn read_request(lines: &[String]) -> Result<Request, LockError> {
    let mut request = Request::default();
    for line in lines {
        read_line(&mut request, line).ok_or_else(|| LockError::RequestLine(clean(line, 80)))?;
    }
    Ok(request)
}

/// Reads one line into a request; `None` if the line is unknown.
fn read_line(request: &mut Request, line: &str) -> Option<()> {
    let (key, value) = line.split_once(' ')?;
    let (key, value, origin) = match key {
        OPTION => {
            let (key, value) = value.split_once(' ')?;
            let option = RUN_OPTIONS.iter().find(|option| option.key == key)?;
            (key, value, Origin::Option(option.flag))
        }
        _ => (key, value, Origin::Lock),
    };
    fn limit<T: std::str::FromStr>(value: &str, origin: Origin) -> Option<Option<Limit<T>>> {
        Some(Some(Limit { value: value.parse().ok()?, origin }))
    }
    match key {
        PACKAGE => request.requirements.push(UserRequirement::parse(value, origin).ok()?),
        EXTRA | GROUP => {
            let (name, line) = value.split_once(' ')?;
            let part = if key == EXTRA { Part::extra(name) } else { Part::group(name) };
            request.requirements.push(UserRequirement::parse(line, origin).ok()?.of_part(Some(part)));
        }
        CONSTRAINT => request.constraints.push(UserRequirement::parse(value, origin).ok()?),
        PYTHON => request.python = Some(PythonRequest::parse(value, origin).ok()?),
        CUDA => request.cuda = limit(value, origin)?,
        CUDNN => request.cudnn = limit(value, origin)?,
        NCCL => request.nccl = limit(value, origin)?,
        VARIANT => request.variant = limit(value, origin)?,
        ONLY_INDEX => request.only_index = limit(value, origin)?,
        DRIVER_POLICY if value == NATIVE => {
            request.native_driver_only = Some(Limit { value: (), origin });
        }
        OVERRIDE => request.overrides.push(UserRequirement::parse(value, origin).ok()?),
        SOURCES if value == NO_SOURCES => request.no_sources = Some(Limit { value: (), origin }),
        EXCLUDE_NEWER => {
            request.exclude_newer.general = Some(Limit { value: read_cutoff(value)?, origin });
        }
        EXCLUDE_NEWER_PACKAGE => {
            let (package, cutoff) = value.split_once(' ')?;
            let cutoff = if cutoff == NEVER { None } else { Some(read_cutoff(cutoff)?) };
            request.exclude_newer.set(package, cutoff);
        }
        EXCLUDE_NEWER_EXEMPT => {
            request.exclude_newer.exempt.insert(value.to_owned());
        }
        METADATA if value == STRICT => request.strict_metadata = Some(Limit { value: (), origin }),
        METADATA => {
            let (name, rest) = value.split_once(' ')?;
            let (version, requires) = rest.split_once(' ')?;
            request.metadata.push(StatedMetadata {
                name: name.to_owned(),
                version: if version == "*" { None } else { Some(version.parse().ok()?) },
                requires: serde_json::from_str(requires).ok()?,
            });
        }
        SAME if value == "torch" => request.same_torch = Some(true),
        SAME if value == "none" => request.same_torch = Some(false),
        TARGET => {
            // `old driver=535.129.03 source=conda-forge gpus=NVIDIA V100`
            let name = value.split(' ').next()?;
            let head = value.split(" gpus=").next()?;
            if let Some(source) = head.split(' ').find_map(|word| word.strip_prefix("source=")) {
                let stack = (source == CONDA_FORGE).then(|| Origin::from(format!("target.{name}").as_str()));
                request.conda.stack_of_targets.insert(name.to_owned(), stack);
            }
            request.targets.push(value.to_owned());
        }
        IGNORE_GPU => request.ignored_gpus.push(value.to_owned()),
        CONDA_CHANNELS => request.conda.channels = value.split(' ').map(str::to_owned).collect(),
        CONDA => request.conda.specs.push(CondaSpec::new(value, origin)),
        CONDA_STACK if value == CHANNELS => request.conda.stack = Some(origin),
        INDEX => {
            let mut words = value.split(' ').map(str::to_owned);
            let (index, patterns) = (words.next()?, words.collect::<Vec<String>>());
            request.owners.push(IndexOwner::new(&index, &patterns).ok()?);
        }
        _ => return None,
    }
    Some(())
}

/// A cutoff as the time that it stands for and as it was written: `2026-11-16T12:00:00Z 7 days`.
fn cutoff_line(cutoff: &Cutoff) -> String {
    format!("{} {}", cutoff.at, cutoff.text)
}

/// The inverse of [`cutoff_line`]. A date that stands for another time than the lock says is no cutoff.
fn read_cutoff(line: &str) -> Option<Cutoff> {
    let (at, text) = line.split_once(' ')?;
    let at: Timestamp = at.parse().ok()?;
    let cutoff = Cutoff::parse(text, at).ok()?;
    (cutoff.is_age || cutoff.at == at).then_some(Cutoff { at, ..cutoff })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn origins() -> impl Strategy<Value = Origin> {
        prop_oneof![Just(Origin::from("envlock.toml")), Just(Origin::CommandLine), Just(Origin::Lock)]
    }

    fn limits<T: std::str::FromStr + std::fmt::Debug + Clone + 'static>(
        values: &'static [&'static str],
        option: Option<&'static str>,
    ) -> impl Strategy<Value = Option<Limit<T>>>
    where
        T::Err: std::fmt::Debug,
    {
        let by_option = prop::bool::ANY;
        prop::option::of((prop::sample::select(values), origins(), by_option)).prop_map(move |drawn| {
            drawn.map(|(text, origin, by_option)| Limit {
                value: text.parse().unwrap(),
                origin: option.filter(|_| by_option).map_or(origin, Origin::Option),
            })
        })
    }

    fn requirements() -> impl Strategy<Value = Vec<UserRequirement>> {
        let texts = prop::sample::select(vec![
            "torch>=2.8",
            "torch[opt-einsum]==2.9.1+cu128",
            "numpy<3,!=2.1.*",
            "datasets[audio]; sys_platform == 'linux'",
            "requests~=2.31; python_version < '3.13' and extra == 'x'",
        ]);
        let parts = prop::sample::select(vec![None, Some(Part::extra("gpu")), Some(Part::group("dev"))]);
        prop::collection::vec((texts, origins(), parts), 0..4).prop_map(|list| {
            list.into_iter()
                .map(|(text, origin, part)| UserRequirement::parse(text, origin).unwrap().of_part(part))
                .collect()
        })
    }

    fn requests() -> impl Strategy<Value = Request> {
        let pythons: &'static [&'static str] = &["3.12", "3.12.4", ">=3.11,<3.14", "==3.12.*"];
        let python = prop::option::of((prop::sample::select(pythons), origins(), prop::bool::ANY));
        let stack = (
            limits(&[">=12.6", "12.6", "13", ">=12.6,<13"], None),
            limits(&["9", ">=9.1,<9.11", "!=9.10.2"], None),
            limits(&[">=2.27"], None),
            limits(&["cu126", "cpu"], Some("--variant")),
            limits(&["pypi", "pytorch/cu126", "pypi,conda-forge"], Some("--only-index")),
            prop::option::of(origins()),
        );
        let lists = (
            prop::collection::vec(prop::sample::select(vec!["GT 1030", "6.1", "NVIDIA T400 4GB"]), 0..3),
            prop::collection::vec(
                prop::sample::select(vec!["a driver=535.129.03 gpus=A100;sm_90", "b source=pypi"]),
                0..2,
            ),
            prop::collection::vec(prop::sample::select(vec!["corp-*", "alpha", "z-tools"]), 1..3),
            prop::bool::ANY,
        );
        (requirements(), requirements(), python, stack, lists).prop_map(
            |(requirements, constraints, python, stack, (ignored, targets, patterns, owned))| {
                let (cuda, cudnn, nccl, variant, only_index, native) = stack;
                let owner = IndexOwner {
                    index: "corp".into(),
                    patterns: patterns.iter().map(|p| (*p).into()).collect(),
                };
                Request {
                    requirements,
                    constraints,
                    python: python.map(|(text, origin, by_option)| {
                        let origin = if by_option { Origin::Option("--python") } else { origin };
                        PythonRequest::parse(text, origin).unwrap()
                    }),
                    cuda,
                    cudnn,
                    nccl,
                    variant,
                    native_driver_only: native.map(|origin| Limit { value: (), origin }),
                    only_index,
                    same_torch: owned.then_some(owned),
                    targets: targets.into_iter().map(str::to_owned).collect(),
                    ignored_gpus: ignored.into_iter().map(str::to_owned).collect(),
                    owners: owned.then_some(owner).into_iter().collect(),
                    ..Request::default()
                }
            },
        )
    }

    proptest! {
        #[test]
        fn lines_that_were_written_are_read_back(request in requests()) {
            let lines = request_lines(&request);
            let read = read_request(&lines).unwrap();
            prop_assert_eq!(request_lines(&read), lines);
            fn value<T: Clone>(limit: &Option<Limit<T>>) -> Option<(T, bool)> {
                limit.as_ref().map(|l| (l.value.clone(), l.origin.is_option()))
            }
            prop_assert_eq!(value(&read.variant), value(&request.variant));
            prop_assert_eq!(value(&read.only_index), value(&request.only_index));
            prop_assert_eq!(read.cuda.map(|l| l.value), request.cuda.map(|l| l.value));
            prop_assert_eq!(read.cudnn.map(|l| l.value), request.cudnn.map(|l| l.value));
            prop_assert_eq!(read.nccl.map(|l| l.value), request.nccl.map(|l| l.value));
            prop_assert_eq!(read.python.map(|p| p.allowed), request.python.map(|p| p.allowed));
            prop_assert_eq!(read.native_driver_only.is_some(), request.native_driver_only.is_some());
            prop_assert_eq!(read.owners.len(), request.owners.len());
            prop_assert_eq!(read.same_torch, request.same_torch);
        }
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for line in ["", "cuda", "cuda twelve", "option --python 3.12", "driver-policy none", "novel thing"] {
            let error = read_request(&[line.to_owned()]).unwrap_err();
            assert!(error.to_string().contains(&format!("`{line}`")), "{error}");
        }
    }
}
