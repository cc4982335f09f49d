//! Facts to causes: what lines say by the registry's rules, and what versions, capabilities and drivers say by the
//! compatibility data, whatever the lines are.

use serde::Serialize;

use super::facts::{Event, Facts};
use super::fix;
use crate::model::version::{DottedVersion, cuda_version};
use crate::registry::{ErrorRule, Registry};

/// No more lines are quoted for one cause.
const MOST_EVIDENCE: usize = 3;

/// One cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cause {
    /// A word for programs.
    pub code: String,
    /// The component at fault.
    pub component: String,
    /// How sure, between 0 and 1.
    pub confidence: f64,
    /// One sentence.
    pub message: String,
    /// Commands that help, the best first.
    pub fix: Vec<String>,
    /// The lines that say so.
    pub evidence: Vec<Evidence>,
    /// Which mechanics gave the message, where some did.
    #[serde(skip)]
    numbers: Option<&'static str>,
}

/// A line of the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Evidence {
    /// Its number, from 1.
    pub line: usize,
    /// Its words.
    pub text: String,
}

/// The causes, the most probable first.
pub(super) fn causes(facts: &Facts, registry: &Registry) -> Vec<Cause> {
    let judge = Judge { facts, registry };
    let mut out: Vec<Cause> = Vec::new();
    for (i, rule) in registry.errors().iter().enumerate() {
        let events: Vec<&Event> = facts.events.iter().filter(|event| event.rule == i).collect();
        if !events.is_empty() {
            out.push(judge.by_rule(rule, &events));
        }
    }
    out.extend(judge.driver_below_floor());
    out.extend(judge.gpu_not_covered());
    out.extend(judge.cpu_build());
    out.extend(judge.nothing_there());
    out.extend(judge.not_importable());
    out.extend(judge.wrong_pair());
    out.extend(judge.no_such_flavour());
    let line = |cause: &Cause| cause.evidence.first().map_or(usize::MAX, |evidence| evidence.line);
    out.sort_by(|a, b| b.confidence.total_cmp(&a.confidence).then_with(|| line(a).cmp(&line(b))));
    // Told by a line and by mechanics it is one cause: the line is its evidence, the mechanics know the numbers.
    let mut kept: Vec<Cause> = Vec::new();
    for cause in out {
        match kept.iter_mut().find(|known| known.component == cause.component) {
            None => kept.push(cause),
            Some(known) if known.numbers.is_none() && cause.numbers.is_some() => {
                known.numbers.clone_from(&cause.numbers);
                known.message = cause.message;
                let new = cause.fix.into_iter().filter(|fix| !known.fix.contains(fix)).collect::<Vec<_>>();
                known.fix.extend(new);
            }
            Some(known) if known.evidence.is_empty() => known.evidence = cause.evidence,
            Some(_) => {}
        }
    }
    kept
}

struct Judge<'a> {
    facts: &'a Facts,
    registry: &'a Registry,
}

impl Judge<'_> {
    fn has(&self, id: &str) -> bool {
        self.facts.events.iter().any(|event| self.registry.errors()[event.rule].id == id)
    }

    fn cause(&self, code: &str, component: &str, confidence: f64, message: String) -> Cause {
        Cause {
            code: code.to_owned(),
            component: component.to_owned(),
            confidence,
            message,
            fix: Vec::new(),
            evidence: Vec::new(),
            numbers: None,
        }
    }

    /// What a rule's line means, with what the facts around it change.
    fn by_rule(&self, rule: &ErrorRule, events: &[&Event]) -> Cause {
        let hints = self.facts.hints;
        let mut cause = Cause {
            code: rule.id.clone(),
            component: rule.component.clone(),
            confidence: rule.weight,
            message: rule.cause.clone(),
            fix: rule.fix.clone(),
            evidence: events
                .iter()
                .take(MOST_EVIDENCE)
                .map(|event| Evidence { line: event.line, text: event.text.clone() })
                .collect(),
            numbers: None,
        };
        let change = |cause: &mut Cause, component: &str, message: &str| {
            component.clone_into(&mut cause.component);
            message.clone_into(&mut cause.message);
        };
        match rule.id.as_str() {
            "driver-too-old" if hints.jetson => {
                change(
                    &mut cause,
                    "torch-build",
                    "this torch is made for servers; a Jetson's CUDA belongs to its JetPack, and so does its torch",
                );
            }
            "driver-too-old" if hints.torch_replaced => {
                change(
                    &mut cause,
                    "install-mix",
                    "an installation replaced torch by a build for a newer CUDA than the driver's",
                );
            }
            "driver-too-old" => {
                if let (Some(cuda), Some(has)) = (self.facts.build_cuda(), &self.facts.driver_cuda) {
                    cause.message =
                        format!("torch was built with CUDA {cuda}, and the driver runs CUDA {has} at most");
                }
            }
            "no-driver" if hints.container && !hints.wsl => {
                change(&mut cause, "container", "the container was started without GPUs");
                cause.fix = vec!["docker run --gpus all ...".to_owned()];
            }
            "driver-mismatch" if hints.container => {
                change(
                    &mut cause,
                    "container",
                    "the driver's libraries in the container are not those of the host's kernel module",
                );
                cause.fix = vec!["remove the NVIDIA driver packages from the image: the container toolkit brings the host's".to_owned()];
            }
            "wsl-memory" if !hints.wsl && !self.text_has("cudagetdevicecount") => cause.confidence = 0.35,
            "driver-combination" if hints.conda && !hints.compat && !hints.library_path => {
                change(
                    &mut cause,
                    "install-mix",
                    "CUDA libraries that an environment brought clash with the driver's own",
                );
            }
            "not-covered" if self.another_flavour_covers() => {
                change(
                    &mut cause,
                    "torch-build",
                    "this flavour of torch has no code for this GPU; another flavour of the same version has",
                );
            }
            "no-kernel-image" => self.whose_kernel(&mut cause),
            "cudnn-status" => self.whose_cudnn(&mut cause),
            "nccl-symbol" if self.has_two_cuda_majors() => {
                change(
                    &mut cause,
                    "install-mix",
                    "packages for two CUDA majors are installed, and one's NCCL overwrote the other's",
                );
                cause.confidence = 0.9;
            }
            "glibc" => cause.confidence = if self.has("libstdcxx") { 0.92 } else { rule.weight },
            "libcuda-missing"
                if hints.wsl || self.text_has("/usr/lib/wsl") || self.text_has("libcuda.so: cannot") =>
            {
                change(
                    &mut cause,
                    "path-shadowing",
                    "the driver's library is there and its folder is not on the loader's path",
                );
                cause.fix = vec!["export LD_LIBRARY_PATH=/usr/lib/wsl/lib:$LD_LIBRARY_PATH   # under WSL; else sudo ldconfig".to_owned()];
                cause.confidence = 0.88;
            }
            "cuda-library-missing" | "cudnn-missing" if self.library_is_there() => {
                change(
                    &mut cause,
                    "path-shadowing",
                    "the library is there, and its folder is not on the loader's path",
                );
                cause.fix = vec![
                    "export LD_LIBRARY_PATH=THE/FOLDER:$LD_LIBRARY_PATH   # or sudo ldconfig THE/FOLDER"
                        .to_owned(),
                ];
                cause.confidence = 0.88;
            }
            "cuda-library-missing" if hints.container && !hints.conda => {
                change(
                    &mut cause,
                    "container",
                    "the image lacks the CUDA libraries that the program was built for",
                );
            }
            "cpu-build" if hints.macos => {
                change(
                    &mut cause,
                    "other",
                    "macOS has no CUDA: the program asks for a device that a Mac does not have",
                );
                cause.fix = vec!["use the device `mps` or `cpu`".to_owned()];
            }
            "no-wheel" if self.has("no-such-index") => cause.confidence = 0.5,
            "no-such-index" if !self.text_has("/whl/") => cause.confidence = 0.4,
            _ => {}
        }
        let wants_torch = ["gpu-arch", "torch-build"].contains(&cause.component.as_str())
            || ["driver-too-old", "forward-compatibility", "ptx-toolchain"].contains(&rule.id.as_str());
        if wants_torch && !hints.jetson && !hints.macos {
            cause.fix.extend(fix::install(self.facts, self.registry));
        }
        if cause.fix.is_empty() && cause.component == "driver" {
            cause.fix.push("update the NVIDIA driver on the host; containers share it".to_owned());
        }
        cause
    }

    fn text_has(&self, piece: &str) -> bool {
        self.facts.events.iter().any(|event| event.text.to_lowercase().contains(piece))
    }

    /// torch's build for the registry, with the platform of the facts.
    fn build(&self) -> Option<&crate::registry::Build> {
        let version = self.facts.plain_torch()?.parse().ok()?;
        let platform = fix::host(self.facts, self.registry).system.platform;
        self.registry.build(&version, &self.facts.variant()?, platform)
    }

    /// Whether torch's own kernels have code for every GPU; nothing where that is not known.
    fn covers(&self) -> Option<bool> {
        let targets = self.build()?.targets.as_ref()?;
        let gpus = fix::capabilities(self.facts, self.registry);
        let covered = |c| targets.covers(c, |c| self.registry.is_tegra(c)).is_some();
        (!gpus.is_empty()).then(|| gpus.iter().all(|(_, c)| covered(*c)))
    }

    /// Whether torch's build ends below a GPU, and another flavour of the same version has code for all of them.
    fn another_flavour_covers(&self) -> bool {
        let Some(build) = self.build() else { return false };
        let gpus = fix::capabilities(self.facts, self.registry);
        let newest = build.targets.iter().flat_map(|t| &t.sass).map(|t| t.capability).max();
        self.covers() == Some(false)
            && gpus.iter().any(|(_, capability)| Some(*capability) > newest)
            && self.registry.builds().iter().any(|other| {
                let targets = other.targets.as_ref();
                other.version == build.version
                    && other.platform == build.platform
                    && targets.is_some_and(|t| {
                        gpus.iter().all(|(_, c)| t.covers(*c, |c| self.registry.is_tegra(c)).is_some())
                    })
            })
    }

    /// Whether another flavour of torch's version has code for newer GPUs than the one that is installed.
    fn another_flavour_is_for_newer_gpus(&self) -> bool {
        let newest = |build: &crate::registry::Build| {
            build.targets.iter().flat_map(|t| &t.sass).map(|t| t.capability).max()
        };
        let Some(build) = self.build() else { return false };
        let is_newer = |other: &&crate::registry::Build| {
            other.version == build.version
                && other.platform == build.platform
                && newest(other) > newest(build)
        };
        build.cuda.is_some()
            && newest(build).is_some()
            && self.registry.builds().iter().any(|other| is_newer(&other))
    }

    /// Whether a library that a message misses is named elsewhere with its folder.
    fn library_is_there(&self) -> bool {
        let says =
            |text: &str| ["cannot open", "not found", "ould not load"].iter().any(|word| text.contains(word));
        let missing = self.facts.events.iter().map(|event| &event.text).filter(|text| says(text));
        missing.into_iter().any(|text| self.facts.libraries.iter().any(|name| text.contains(name.as_str())))
    }

    /// An index was asked that no torch was ever built for.
    fn no_such_flavour(&self) -> Option<Cause> {
        let known = |variant: &String| self.registry.builds().iter().any(|build| build.variant == *variant);
        let variant = self.facts.asked_variants.iter().find(|variant| !known(variant))?;
        let text =
            format!("there is no build of torch for `{variant}`: the installer took another one, or none");
        let mut cause = self.cause("no-such-flavour", "torch-build", 0.86, text);
        cause.fix = fix::install(self.facts, self.registry).into_iter().collect();
        Some(cause)
    }

    /// "no kernel image": torch's own kernels, or an extension's.
    fn whose_kernel(&self, cause: &mut Cause) {
        if self.another_flavour_covers() {
            "torch-build".clone_into(&mut cause.component);
            cause.message =
                "this flavour of torch has no code for this GPU; another flavour of the same version has"
                    .to_owned();
            cause.confidence = 0.9;
        } else if self.covers().is_none() && self.another_flavour_is_for_newer_gpus() {
            "torch-build".clone_into(&mut cause.component);
            cause.message =
                "this flavour of torch ends at older GPUs than another flavour of the same version does"
                    .to_owned();
            cause.confidence = 0.82;
        } else if self.covers() == Some(true) {
            "extension-abi".clone_into(&mut cause.component);
            cause.message =
                "torch has code for this GPU: it is an extension with kernels of its own that has none"
                    .to_owned();
            cause.confidence = 0.85;
            cause.fix = vec![
                "build the extension again with TORCH_CUDA_ARCH_LIST set to this GPU's capability".to_owned(),
            ];
        } else if self.facts.hints.extension && self.covers().is_none() {
            "extension-abi".clone_into(&mut cause.component);
            cause.message = "an extension with kernels of its own has no code for this GPU".to_owned();
            cause.confidence = 0.6;
        }
    }

    /// A status of cuDNN says little by itself: a build without code for the GPU says more.
    fn whose_cudnn(&self, cause: &mut Cause) {
        let gpus = fix::capabilities(self.facts, self.registry);
        if self.covers() == Some(false) || !gpus.is_empty() {
            "gpu-arch".clone_into(&mut cause.component);
            cause.message = "cuDNN fails because the build has no code for this GPU".to_owned();
            cause.confidence = if self.covers() == Some(false) { 0.85 } else { 0.55 };
        } else {
            "torch-build".clone_into(&mut cause.component);
            cause.message = "cuDNN cannot start: torch's build does not fit this GPU and driver".to_owned();
        }
    }

    fn has_two_cuda_majors(&self) -> bool {
        let has = |end: &str| {
            self.facts.packages.keys().any(|name| name.starts_with("nvidia-") && name.ends_with(end))
        };
        has("-cu11") && has("-cu12") || has("-cu12") && has("-cu13")
    }

    /// The driver is below the floor of the CUDA that torch was built with.
    fn driver_below_floor(&self) -> Option<Cause> {
        if self.facts.available == Some(true) {
            return None;
        }
        let cuda = cuda_version(&self.facts.build_cuda()?).ok()?;
        let host = fix::host(self.facts, self.registry);
        let os = host.system.platform.os;
        let (floor, _) = self.registry.driver_floor(&cuda, os)?;
        let driver: DottedVersion = host.driver?.version;
        if driver >= floor {
            return None;
        }
        let text = format!(
            "torch was built with CUDA {}.{}, which needs driver >= {floor}; this one is {driver}",
            cuda.major, cuda.minor
        );
        let component = if self.facts.hints.torch_replaced { "install-mix" } else { "driver" };
        let mut cause = self.cause("driver-below-floor", component, 0.88, text);
        cause.numbers = Some("driver-below-floor");
        cause.fix = fix::install(self.facts, self.registry).into_iter().collect();
        cause.fix.push(format!("update the NVIDIA driver on the host to {floor} or newer"));
        Some(cause)
    }

    /// torch's own kernels have no code for a GPU.
    fn gpu_not_covered(&self) -> Option<Cause> {
        if self.covers() != Some(false) {
            return None;
        }
        let build = self.build()?;
        let gpus: Vec<String> = fix::capabilities(self.facts, self.registry)
            .into_iter()
            .map(|(name, capability)| {
                format!("{} ({capability})", name.unwrap_or_else(|| "the GPU".to_owned()))
            })
            .collect();
        let codes: Vec<String> =
            build.targets.iter().flat_map(|t| &t.sass).map(ToString::to_string).collect();
        let text = format!(
            "torch {} {} has code for {}; here is {}",
            build.version,
            build.variant,
            codes.join(" "),
            gpus.join(", ")
        );
        let component = if self.another_flavour_covers() { "torch-build" } else { "gpu-arch" };
        // Without any complaint it may be a machine where nobody uses that card.
        let confidence = if self.facts.events.is_empty() { 0.55 } else { 0.87 };
        let mut cause = self.cause("gpu-not-covered", component, confidence, text);
        cause.numbers = Some("gpu-not-covered");
        cause.fix = fix::install(self.facts, self.registry).into_iter().collect();
        Some(cause)
    }

    /// A build for the CPU on a machine with a GPU.
    fn cpu_build(&self) -> Option<Cause> {
        let hints = self.facts.hints;
        if self.facts.variant().as_deref() != Some("cpu") || hints.macos {
            return None;
        }
        let has_gpu = !self.facts.gpus.is_empty() || self.facts.driver.is_some();
        if !has_gpu && !hints.jetson {
            return None;
        }
        let text = format!(
            "torch {} is a build for the CPU, on a machine with a GPU",
            self.facts.torch.as_deref().unwrap_or_default()
        );
        let mut cause = self.cause("cpu-build", "torch-build", 0.86, text);
        if !hints.jetson {
            cause.fix = fix::install(self.facts, self.registry).into_iter().collect();
        }
        Some(cause)
    }

    /// A build for CUDA on a machine where nothing of NVIDIA's is to be seen.
    fn nothing_there(&self) -> Option<Cause> {
        let wants = self.facts.build_cuda().is_some() && self.facts.available == Some(false);
        if self.facts.hints.jetson && self.facts.available == Some(false) {
            let text = "this torch is no build for Jetson: NVIDIA's, for the board's JetPack, is".to_owned();
            return Some(self.cause("jetson-build", "torch-build", 0.8, text));
        }
        if self.facts.available == Some(false) && self.facts.hints.rocm {
            let text = "this torch is no ROCm build".to_owned();
            return Some(self.cause("rocm-build", "torch-build", 0.7, text));
        }
        if !wants || self.facts.hints.macos {
            return None;
        }
        let (text, confidence) = match (self.facts.no_driver_seen, self.facts.driver.is_some()) {
            (true, false) => ("no driver and no GPU are to be seen on this machine".to_owned(), 0.7),
            (_, true) => ("the versions fit on paper and CUDA does not start: the driver is in a bad state, or the GPUs are hidden".to_owned(), 0.45),
            _ => return None,
        };
        let mut cause = self.cause("driver-not-working", "driver", confidence, text);
        cause.fix.push("nvidia-smi   # then look at dmesg, CUDA_VISIBLE_DEVICES, and reboot".to_owned());
        Some(cause)
    }

    fn not_importable(&self) -> Option<Cause> {
        if !self.facts.torch_not_importable {
            return None;
        }
        let text = "torch cannot be imported in this environment, or is not installed there".to_owned();
        let mut cause = self.cause("torch-not-importable", "other", 0.5, text);
        cause.fix.push("python -c 'import torch'   # says why".to_owned());
        Some(cause)
    }

    /// torchvision beside a torch that it was not built for, where the registry knows the pair.
    fn wrong_pair(&self) -> Option<Cause> {
        let torch: pep440_rs::Version = self.facts.plain_torch()?.parse().ok()?;
        let (found, _) = self.facts.packages.get("torchvision")?;
        let vision: pep440_rs::Version = found.split('+').next()?.parse().ok()?;
        let row = self.registry.companion("torchvision", &vision)?;
        let wants = row.torch.as_ref()?;
        if wants.contains(&torch) || self.facts.events.is_empty() {
            return None;
        }
        let text = format!("torchvision {vision} asks for torch{wants}, and torch {torch} is installed");
        let mut cause = self.cause("torchvision-pair", "torchvision-pairing", 0.7, text);
        cause.fix.push(format!("pip install torchvision --upgrade torch=={torch}"));
        Some(cause)
    }
}
