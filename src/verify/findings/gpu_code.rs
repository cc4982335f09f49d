//! The machine code in the environment's libraries against the GPUs of the machine.

use super::finding;
use crate::model::capability::CodeTargets;
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::text::clean;

/// A library's GPU code could not be read whole.
pub fn unreadable_gpu_code(path: &str, fault: &str) -> Finding {
    let text = format!("the GPU code of {path} could not be read whole: {fault}");
    finding(Code::UnreadableGpuCode, Severity::Warning, text).at(clean(path, 200))
}

/// Why a kernel of a library will not be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoKernel {
    /// torch's own kernels were compiled for other GPUs.
    Torch(CodeTargets),
    /// A library has PTX alone, and the driver is older than its compiler: the CUDA that it takes, and the driver's.
    PtxTooNew(PtxTooNew),
    /// A library that decides has next to no code for the GPU.
    Hole(CodeHole),
}

/// PTX that a driver cannot compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtxTooNew {
    /// The library, as a person names it.
    pub library: String,
    /// The CUDA from which on drivers compile it: `12.8`, `after 13.2`.
    pub needs: String,
    /// The driver's CUDA.
    pub has: String,
}

impl PtxTooNew {
    fn text(&self, gpu: &str) -> String {
        format!(
            "{} has only PTX for {gpu}, which a driver compiles from CUDA {} on; this one is of CUDA {} (error 222)",
            self.library, self.needs, self.has
        )
    }
}

/// A library with next to no code for a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeHole {
    /// The library's path below site-packages.
    pub path: String,
    /// Its package.
    pub package: String,
    /// How many of its containers have code for the GPU.
    pub covered: usize,
    /// Of how many.
    pub containers: usize,
    /// What that means.
    pub effect: HoleEffect,
}

/// What a hole in a library's GPU code means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoleEffect {
    /// torch's linear algebra (MAGMA) fails.
    LinearAlgebra,
    /// The kernels of an extension are not found.
    NoKernelImage,
    /// A library of NVIDIA's was not made for the GPU.
    NotMadeForIt,
}

impl CodeHole {
    fn text(&self, gpu: &str) -> String {
        let name = self.path.rsplit('/').next().unwrap_or(&self.path);
        let effect = match self.effect {
            HoleEffect::LinearAlgebra => "linear algebra that torch sends to MAGMA is expected to fail",
            HoleEffect::NoKernelImage => "its kernels end with `no kernel image is available`",
            HoleEffect::NotMadeForIt => "it was not made for this GPU",
        };
        format!(
            "{name} of {} has code for {gpu} in {} of its {} containers; {effect}",
            self.package, self.covered, self.containers
        )
    }
}

/// A library that every program of the framework uses has no code for a GPU of the machine.
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

/// A library has only PTX for a GPU of the machine. `decides` tells whether every program uses it.
pub fn compiled_at_first_use(library: &str, gpu: &str, decides: bool) -> Finding {
    let severity = if decides { Severity::Warning } else { Severity::Info };
    let text = format!(
        "{library} has only PTX for {gpu}: the driver compiles it at the first use, which takes minutes once"
    );
    finding(Code::CompiledAtFirstUse, severity, text).at(library)
}

/// What a library beside torch's own lacks for a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hole {
    /// Its PTX is too new for the driver.
    PtxTooNew(PtxTooNew),
    /// It has next to no code.
    Code(CodeHole),
}

/// A library that not every program uses has no code for a GPU of the machine.
pub fn gpu_code_hole(gpu: &str, hole: &Hole) -> Finding {
    let new = |text: String| finding(Code::GpuCodeHole, Severity::Warning, text);
    match hole {
        Hole::PtxTooNew(ptx) => {
            new(ptx.text(gpu)).at(&ptx.library).fixed_by(Fix::advice("update the NVIDIA driver on the host"))
        }
        Hole::Code(hole) => new(hole.text(gpu)).at(clean(&hole.path, 200)),
    }
}
