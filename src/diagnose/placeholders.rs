//! Texts of rows with values of the facts in them.

use std::collections::BTreeSet;

use pep440_rs::{Version, VersionSpecifiers};

use super::facts::Event;
use super::fields::visible_releases;
use super::situation::{Situation, is_cuda_major, series};
use super::{file_owner, memory, who};
use crate::model::capability::ComputeCapability;
use crate::model::version::{DottedVersion, cuda_short};
use crate::registry::{Build, Cited, ToolkitTargets};

/// A text with its placeholders filled in; `None` if one is unknown. Values are parsed versions and known names, never
/// text from the input.
pub(super) fn filled(situation: &Situation<'_>, template: &str, events: &[&Event]) -> Option<String> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once('{') {
        let (name, tail) = tail.split_once('}')?;
        out.push_str(before);
        out.push_str(&value(situation, name, events)?);
        rest = tail;
    }
    out.push_str(rest);
    Some(out)
}

fn value(situation: &Situation<'_>, name: &str, events: &[&Event]) -> Option<String> {
    let facts = situation.facts;
    // Only values that are also in the registry are used in commands.
    let known = |major: u32| is_cuda_major(situation.registry, major).then_some(major);
    let named = || events.iter().find_map(|event| cuda_major_in(&event.text)).and_then(known);
    let major = || {
        let by_build = facts.build_cuda().and_then(|cuda| cuda.split('.').next()?.parse::<u32>().ok());
        by_build.map_or_else(named, known)
    };
    let version = |text: &String| text.parse::<crate::model::version::DottedVersion>().ok();
    match name {
        "pytorch-index" => Some(situation.pytorch_index.to_owned()),
        "cuda" => facts.build_cuda().as_ref().and_then(version).map(|v| v.to_string()),
        // In the names of Debian's packages: `12-8`.
        "cuda-dashed" => {
            facts.build_cuda().as_ref().and_then(version).map(|v| v.to_string().replace('.', "-"))
        }
        "cuda-major" => major().map(|major| major.to_string()),
        // Where nothing names one, that of most installations: the text says what another takes.
        "likely-cuda-major" => {
            let of_driver = || known(situation.driver_cuda()?.split('.').next()?.parse().ok()?);
            Some(major().or_else(of_driver).unwrap_or(file_owner::USUAL).to_string())
        }
        "cuda-suffix" => major().map(suffix),
        // From the missing library's name, independent of torch's CUDA.
        "named-suffix" => named().map(suffix),
        "driver" => facts.driver.as_ref().and_then(version).map(|v| v.to_string()),
        "driver-cuda" => situation.driver_cuda().as_ref().and_then(version).map(|v| v.to_string()),
        "cudnn" => facts.cudnn.as_ref().and_then(version).map(|v| v.to_string()),
        "extension" => who::failed(situation, events).map(|row| row.package.clone()),
        // The newest release that the data pair with the installed torch, else the series that they do.
        "extension-pin" => situation.pin_for_torch(&who::failed(situation, events)?.package),
        // The one that is installed.
        "extension-version" => {
            let package = &who::failed(situation, events)?.package;
            let (stated, _) = facts.packages.get(package)?;
            stated.parse::<Version>().ok().map(|stated| stated.without_local().to_string())
        }
        "toolkit-major" => {
            let majors: BTreeSet<&str> =
                facts.toolkits.iter().filter_map(|cuda| cuda.split('.').next()).collect();
            let major = majors.first()?.parse().ok().filter(|_| majors.len() == 1).and_then(known)?;
            Some(major.to_string())
        }
        "driver-branch" => facts.driver.as_ref().and_then(version).map(|v| v.major().to_string()),
        "python" => facts.python.as_deref().and_then(series).map(|python| format!("3.{}", python.minor)),
        "capability" => situation.gpus().first().map(|(_, capability)| capability.to_string()),
        // Those of all GPUs, as TORCH_CUDA_ARCH_LIST takes them.
        "capabilities" => {
            let all: BTreeSet<_> = situation.gpus().iter().map(|(_, capability)| *capability).collect();
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            (!all.is_empty()).then(|| all.join(";"))
        }
        "variant" => facts.variant().filter(|variant| crate::model::variant::is_cuda(variant)),
        "gpu" => situation.gpus().iter().find_map(|(name, _)| name.clone()),
        _ => of_torch(situation, name)
            .or_else(|| of_build(situation, name, events))
            .or_else(|| of_message(situation, name, events)),
    }
}

/// What the data say of the installed torch.
fn of_torch(situation: &Situation<'_>, name: &str) -> Option<String> {
    let facts = situation.facts;
    let torch: Version = facts.plain_torch()?.parse().ok()?;
    match name {
        "torch" => {
            let is_known = situation.registry.builds().iter().any(|build| build.version == torch);
            is_known.then(|| torch.to_string())
        }
        // The companions that were built for the installed torch.
        "torchvision" | "torchaudio" => {
            let mut builds = situation.registry.builds().iter().filter(|build| build.version == torch);
            builds.find_map(|build| build.companion(name)).map(ToString::to_string)
        }
        // The package of NCCL that torch requires, where another release of it is installed.
        "torch-nccl" => {
            let (package, (stated, _)) =
                facts.packages.iter().find(|(name, _)| name.starts_with("nvidia-nccl-cu"))?;
            let platform = situation.platform();
            let of_pypi = |build: &&Cited<Build>| {
                build.version == torch && build.platform == platform && build.on_pypi && build.nccl.is_some()
            };
            let build = situation.build().or_else(|| situation.registry.builds().iter().find(of_pypi))?;
            let wanted = build.nccl.as_ref()?.to_string();
            let major = package.rsplit_once("-cu")?.1.parse().ok()?;
            (is_cuda_major(situation.registry, major) && *stated != wanted)
                .then(|| format!("{package}=={wanted}"))
        }
        // Below the minor release after the one that torch goes with: `3.4` for triton 3.3.1.
        "triton-below" => {
            let mut builds = situation.registry.builds().iter().filter(|build| build.version == torch);
            let bounds: VersionSpecifiers = builds.find_map(|build| build.triton.as_ref())?.parse().ok()?;
            let [major, minor] = *bounds.first()?.version().release().get(..2)? else { return None };
            Some(format!("{major}.{}", minor + 1))
        }
        _ => None,
    }
}

/// The value of a placeholder about a build of torch that an installer was asked for, or an extension was made for.
fn of_build(situation: &Situation<'_>, name: &str, events: &[&Event]) -> Option<String> {
    let facts = situation.facts;
    match name {
        // What an installer did not find, if such a build exists.
        "asked-torch" | "asked-variant" => {
            let (version, variant) =
                events.iter().find_map(|event| visible_releases::asked_build(&event.text))?;
            let is_it = |build: &&Cited<Build>| build.version == version && build.variant == variant;
            situation.registry.builds().iter().find(is_it)?;
            Some(if name == "asked-torch" { version.to_string() } else { variant })
        }
        "asked-pythons" => {
            let (version, minors) = asked_pythons(situation, events)?;
            let (first, last) = (minors.first()?, minors.last()?);
            Some(format!("torch {version} has wheels for Python 3.{first} to 3.{last}"))
        }
        "asked-python" => Some(format!("3.{}", asked_pythons(situation, events)?.1.last()?)),
        // A release that has no build for the platform, and the last one that has.
        "asked-platform" | "asked-last" => {
            let version = events.iter().find_map(|event| visible_releases::asked_release(&event.text))?;
            let builds = || situation.registry.builds().iter();
            let platform = situation.platform();
            let is_here = builds().any(|build| build.version == version && build.platform == platform);
            let is_known = builds().any(|build| build.version == version);
            let of_platform = builds().filter(|build| build.platform == platform);
            let build = of_platform.max_by_key(|build| &build.version).filter(|_| is_known && !is_here)?;
            let last = &build.version;
            if name == "asked-last" {
                let own = facts.python.as_deref().and_then(series);
                let has = |minor| build.pythons.as_ref().is_none_or(|all| all.contains(&minor));
                return own.is_none_or(|own| has(own.minor)).then(|| last.to_string());
            }
            Some(format!(
                "torch {version} has no wheel for {platform}, for which torch {last} is the last one"
            ))
        }
        "built-for-torch" | "built-for-variant" => {
            let (version, variant) = facts.built_for.as_ref()?;
            let is_it = |build: &&Cited<Build>| build.version == *version && build.variant == *variant;
            situation.registry.builds().iter().find(is_it)?;
            Some(if name == "built-for-torch" { version.to_string() } else { variant.clone() })
        }
        _ => None,
    }
}

/// The release that an installer was asked for and its Pythons, where that of the text is none of them.
fn asked_pythons(situation: &Situation<'_>, events: &[&Event]) -> Option<(Version, BTreeSet<u32>)> {
    let version = events.iter().find_map(|event| visible_releases::asked_release(&event.text))?;
    let is_it = |build: &&Cited<Build>| build.version == version && build.platform == situation.platform();
    let of = situation.registry.builds().iter().filter(is_it);
    let minors: BTreeSet<u32> = of.filter_map(|build| build.pythons.as_ref()).flatten().copied().collect();
    let own = situation.facts.python.as_deref().and_then(series);
    let is_why = own.is_none_or(|own| !minors.contains(&own.minor));
    is_why.then_some((version, minors))
}

/// The value of a placeholder about what the driver, a compiler or a program says.
fn of_message(situation: &Situation<'_>, name: &str, events: &[&Event]) -> Option<String> {
    match name {
        // The architecture that a compiler does not know, and the first CUDA that knows it.
        "arch" | "arch-cuda" => {
            let capability = events.iter().find_map(|event| architecture_in(&event.text))?;
            let knows = |row: &&Cited<ToolkitTargets>| row.min <= capability && capability <= row.max;
            let first =
                situation.registry.toolkit_targets().iter().filter(knows).map(|row| &row.cuda).min()?;
            Some(if name == "arch" { capability.to_string() } else { cuda_short(first) })
        }
        // The last driver branch for a GPU: `supported through the NVIDIA 580.xx Legacy drivers`.
        "legacy-branch" => events.iter().find_map(|event| {
            let text = event.text.to_lowercase();
            let (_, rest) = text.split_once("supported through the nvidia ")?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            (digits.len() == 3 && rest[3..].starts_with('.')).then_some(digits)
        }),
        // The release of nvJitLink that a symbol is of: `__nvJitLinkCreate_12_9`.
        "symbol-cuda" | "symbol-suffix" => {
            let (major, minor) = events.iter().find_map(|event| nvjitlink_in(&event.text))?;
            is_cuda_major(situation.registry, major).then(|| match name {
                "symbol-cuda" => format!("{major}.{minor}"),
                _ => suffix(major),
            })
        }
        // The cuDNN that a program was compiled with, to the end of its major version: `9.8.0,<10` of `source was compiled with: 9.8.0.`
        "needed-cudnn" => events.iter().find_map(|event| {
            let text = event.text.to_lowercase();
            let (_, rest) = text.split_once("source was compiled with:")?;
            let version: DottedVersion = number_at(rest)?.parse().ok()?;
            Some(format!("{version},<{}", version.major() + 1))
        }),
        // The jaxlib that a plugin is not compatible with.
        "jaxlib" => events.iter().find_map(|event| {
            let text = event.text.to_lowercase();
            let (_, rest) = text.split_once("installed jaxlib version")?;
            let version: Version = number_at(rest)?.parse().ok()?;
            Some(version.to_string())
        }),
        "free-share" => events.iter().find_map(|event| memory::free_share(&event.text)),
        // The newest compiler that a toolkit takes: `gcc versions later than 13 are not supported`.
        "newest-gcc" => events.iter().find_map(|event| {
            let text = event.text.to_lowercase();
            let (_, rest) = text.split_once("gcc versions later than ")?;
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            (1..=2).contains(&digits.len()).then_some(digits)
        }),
        _ => None,
    }
}

/// The digits and dots at the start of a text, past its spaces.
fn number_at(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    Some(text[..end].trim_end_matches('.')).filter(|number| !number.is_empty())
}

/// The CUDA at the end of a symbol of nvJitLink: `(12, 9)` of `__nvJitLinkCreate_12_9`.
fn nvjitlink_in(line: &str) -> Option<(u32, u32)> {
    let lower = line.to_lowercase();
    let (_, rest) = lower.split_once("nvjitlink")?;
    let symbol = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    let mut parts = symbol.rsplit('_');
    let minor = parts.next()?.parse().ok()?;
    Some((parts.next()?.parse().ok()?, minor))
}

/// The compute capability of `compute_86`, `sm_120` or `sm_90a` in a line.
fn architecture_in(line: &str) -> Option<ComputeCapability> {
    let lower = line.to_lowercase();
    let named = ["compute_", "sm_"].iter().filter_map(|word| lower.split_once(word));
    named
        .filter_map(|(_, rest)| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
            format!("{major}.{minor}").parse().ok()
        })
        .next()
}

/// The suffix of NVIDIA's package names: empty from CUDA 13 on.
fn suffix(major: u32) -> String {
    if major < 13 { format!("-cu{major}") } else { String::new() }
}

/// The CUDA major in the name of a CUDA library: `libnvJitLink.so.12`, `cublas64_12.dll`, `cudart64_110.dll`, or of a plugin: `jax_cuda12_plugin`.
fn cuda_major_in(line: &str) -> Option<u32> {
    let lower = line.to_lowercase();
    let number = |name: &str| -> Option<u32> {
        let tail = &lower[lower.find(name)? + name.len()..];
        tail.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()
    };
    let names = [
        "libnvjitlink.so.",
        "libcudart.so.",
        "libcublas.so.",
        "libcublaslt.so.",
        "cublas64_",
        "cublaslt64_",
        "jax_cuda",
    ];
    let major = names.iter().find_map(|name| number(name));
    // Up to CUDA 11, cudart's name on Windows includes the minor: `110`.
    let major = major.or_else(|| number("cudart64_").map(|n| if n >= 100 { n / 10 } else { n }));
    major.filter(|major| (11..=30).contains(major))
}
