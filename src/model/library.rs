//! What a shared library says of itself: its names, where it looks for others, its device code.

use super::capability::{CodeTarget, CodeTargets, ComputeCapability, Via};

/// A shared library or executable, as its file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Library {
    /// Where the file is, or its name inside a wheel.
    pub path: String,
    /// `DT_SONAME`: the name under which others ask for it.
    pub soname: Option<String>,
    /// `DT_NEEDED`: what it cannot be loaded without, in order.
    pub needed: Vec<String>,
    /// `DT_RPATH`, entry by entry, `$ORIGIN` unexpanded; empty where there is a `DT_RUNPATH` too, because
    /// the loader then ignores it.
    pub rpath: Vec<String>,
    /// `DT_RUNPATH`, likewise.
    pub runpath: Vec<String>,
    /// The processor, `x86_64`, `aarch64`, or its ELF number.
    pub machine: String,
    /// Its own version as far as its content tells, `9.10.2.36061468`, and how.
    pub version: Option<LibraryVersion>,
    /// GPU code; nothing where it has none.
    pub device: Option<DeviceCode>,
    /// The list that `torch.cuda.get_arch_list()` returns, where the file carries it (`libtorch_python.so`).
    pub arch_list: Option<CodeTargets>,
}

/// A version that was read out of a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryVersion {
    /// `9.10.2`, or only `12.9` where the patch level is nowhere in the file.
    pub text: String,
    /// What said it: `cudnn_graph_version`, `file name`, `code`.
    pub from: &'static str,
}

/// The GPU code of a library: containers, one for each compiled unit, with the same kernels once for each
/// target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceCode {
    /// Number of containers.
    pub containers: usize,
    /// Number of entries in them.
    pub entries: usize,
    /// The distinct sets of targets, the most common first, each with how many containers have it.
    pub shapes: Vec<(Shape, usize)>,
    /// The newest PTX ISA version, `8.7`, for each PTX target: it says how new the driver has to be.
    pub ptx_isa: Vec<(CodeTarget, (u16, u16))>,
    /// What could not be read, in one phrase: the rest is true all the same.
    pub fault: Option<String>,
}

/// The targets of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Machine code.
    pub sass: Vec<CodeTarget>,
    /// PTX.
    pub ptx: Vec<CodeTarget>,
}

/// How the containers of a library serve a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// Containers with machine code for it.
    pub sass: usize,
    /// Containers with PTX for it and no machine code.
    pub ptx: usize,
    /// Containers with neither: what they hold fails with `no kernel image` where it is called.
    pub none: usize,
}

impl DeviceCode {
    /// Every target of any container, with the number of containers that have it.
    pub fn counts(&self, targets: impl Fn(&Shape) -> &[CodeTarget]) -> Vec<(CodeTarget, usize)> {
        let mut counts: std::collections::BTreeMap<CodeTarget, usize> = std::collections::BTreeMap::new();
        for (shape, count) in &self.shapes {
            for target in targets(shape) {
                *counts.entry(*target).or_default() += count;
            }
        }
        counts.into_iter().collect()
    }

    /// How many of the containers serve a GPU, and how. `is_tegra` as in [`CodeTargets::covers`].
    pub fn serves(&self, gpu: ComputeCapability, is_tegra: &dyn Fn(ComputeCapability) -> bool) -> Served {
        let mut served = Served::default();
        for (shape, count) in &self.shapes {
            let targets = CodeTargets { sass: shape.sass.clone(), ptx: shape.ptx.clone() };
            match targets.covers(gpu, is_tegra) {
                Some(Via::Sass) => served.sass += count,
                Some(Via::Ptx) => served.ptx += count,
                None => served.none += count,
            }
        }
        served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_in_some_containers_is_seen() {
        let shape = |sass: &[&str], ptx: &[&str]| Shape {
            sass: sass.iter().map(|t| t.parse().unwrap()).collect(),
            ptx: ptx.iter().map(|t| t.parse().unwrap()).collect(),
        };
        let code = DeviceCode {
            containers: 6,
            shapes: vec![
                (shape(&["8.0", "9.0"], &[]), 3),
                (shape(&["9.0a"], &[]), 2),
                (shape(&[], &["8.0"]), 1),
            ],
            ..DeviceCode::default()
        };
        let on = |gpu: &str| code.serves(gpu.parse().unwrap(), &|_| false);
        assert_eq!(on("8.6"), Served { sass: 3, ptx: 1, none: 2 });
        assert_eq!(on("9.0"), Served { sass: 5, ptx: 1, none: 0 });
        assert_eq!(on("7.5"), Served { sass: 0, ptx: 0, none: 6 });
        let sass = code.counts(|s| &s.sass);
        assert_eq!(
            sass.iter().map(|(t, n)| format!("{t}:{n}")).collect::<Vec<_>>(),
            ["8.0:3", "9.0:3", "9.0a:2"]
        );
    }
}
