//! Findings about GPU code: whether the environment's libraries have code for the machine's GPUs.

use super::finding;
use crate::model::capability::CodeTargets;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::library::CodeFault;
use crate::model::text::clean;

/// A library's GPU code could not be read completely.
pub fn unreadable_gpu_code(path: &str, fault: CodeFault, fix: Fix) -> Finding {
    let (severity, text) = match fault {
        CodeFault::Zeros => {
            (Severity::Error, format!("the GPU code of {path} is damaged: zeros stand where code must be"))
        }
        CodeFault::Layout(what) => {
            let text = format!(
                "the GPU code of {path} could not be read completely: {what}. The file is damaged or in a newer format"
            );
            (Severity::Warning, text)
        }
    };
    finding(Code::UnreadableGpuCode, severity, text).at(clean(path, 200)).fixed_by(fix)
}

/// Why a library has no kernel for a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoKernel {
    /// torch's own kernels were compiled for other GPUs: the targets.
    Torch(CodeTargets),
    /// A library has only PTX for the GPU, and the driver is too old to compile it.
    PtxTooNew(PtxTooNew),
    /// A library that every program uses has almost no code for the GPU.
    Hole(CodeHole),
}

/// PTX that the driver is too old to compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtxTooNew {
    /// The library, for messages.
    pub library: String,
    /// The CUDA version that the driver needs: `12.8 or newer`, `newer than 13.2`.
    pub needs: String,
    /// The CUDA version that the driver supports.
    pub has: String,
}

impl PtxTooNew {
    fn text(&self, gpu: &str) -> String {
        format!(
            "{} has only PTX for {gpu}; compiling it needs a driver with CUDA {}, this driver has CUDA {} (error 222)",
            self.library, self.needs, self.has
        )
    }
}

/// A library with almost no code for a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeHole {
    /// The library's path, relative to site-packages.
    pub path: String,
    /// Its package.
    pub package: String,
    /// Number of its fatbin containers with code for the GPU.
    pub covered: usize,
    /// Number of its fatbin containers.
    pub containers: usize,
    /// What fails because of it.
    pub effect: HoleEffect,
}

/// What fails when a library has no code for a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoleEffect {
    /// torch's linear algebra (MAGMA) fails.
    LinearAlgebra,
    /// Kernel launches of an extension fail.
    NoKernelImage,
    /// An NVIDIA library was not built for the GPU.
    NotBuiltForGpu,
}

impl CodeHole {
    fn text(&self, gpu: &str) -> String {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        let effect = match self.effect {
            HoleEffect::LinearAlgebra => "linear algebra that torch sends to MAGMA is expected to fail",
            HoleEffect::NoKernelImage => "its kernels fail with `no kernel image is available`",
            HoleEffect::NotBuiltForGpu => "it was not built for this GPU",
        };
        format!(
            "{name} of {} has code for {gpu} in {} of its {} fatbin containers; {effect}",
            self.package, self.covered, self.containers
        )
    }
}

/// A library that every program of the framework uses has no usable code for a GPU of the machine.
pub fn no_kernel_image(gpu: &str, why: &NoKernel) -> Finding {
    let new = |text: String| finding(Code::NoKernelImage, Severity::Error, text);
    match why {
        NoKernel::Torch(targets) => new(format!(
            "torch has no code for {gpu}: its kernels were compiled for {targets}; the first kernel launch fails with `no kernel image is available`"
        ))
        .at("torch")
        .fixed_by(Fix::command("envlock resolve --redetect")),
        NoKernel::PtxTooNew(ptx) => new(ptx.text(gpu))
            .at(&ptx.library)
            .fixed_by(Fix::advice("update the NVIDIA driver on the host")),
        NoKernel::Hole(hole) => new(hole.text(gpu)).at(clean(&hole.path, 200)),
    }
}

/// A library has only PTX for a GPU of the machine. `decides`: whether every program uses the library.
pub fn compiled_at_first_use(library: &str, gpu: &str, decides: bool) -> Finding {
    let severity = if decides { Severity::Warning } else { Severity::Info };
    let text =
        format!("{library} has only PTX for {gpu}: the driver compiles it at first use, which takes minutes");
    finding(Code::CompiledAtFirstUse, severity, text).at(library)
}

/// What a library other than torch's own lacks for a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hole {
    /// Its PTX is too new for the driver.
    PtxTooNew(PtxTooNew),
    /// It has almost no code.
    Code(CodeHole),
}

/// A library that only some programs use has no usable code for a GPU of the machine.
pub fn gpu_code_hole(gpu: &str, hole: &Hole) -> Finding {
    let new = |text: String| finding(Code::GpuCodeHole, Severity::Warning, text);
    match hole {
        Hole::PtxTooNew(ptx) => {
            new(ptx.text(gpu)).at(&ptx.library).fixed_by(Fix::advice("update the NVIDIA driver on the host"))
        }
        Hole::Code(hole) => new(hole.text(gpu)).at(clean(&hole.path, 200)),
    }
}
