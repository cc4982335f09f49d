//! Properties of a shared library: names, search paths, device code.

use super::capability::{CodeTarget, CodeTargets, ComputeCapability, Via};

/// A shared library or executable, read from its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Library {
    /// The path of the file, or its name inside a wheel.
    pub path: String,
    /// `DT_SONAME`: the name by which other libraries load it.
    pub soname: Option<String>,
    /// `DT_NEEDED`: the libraries that it requires, in order.
    pub needed: Vec<String>,
    /// The entries of `DT_RPATH`, `$ORIGIN` unexpanded; empty if there is also a `DT_RUNPATH`, because the loader
    /// then ignores `DT_RPATH`.
    pub rpath: Vec<String>,
    /// The entries of `DT_RUNPATH`, `$ORIGIN` unexpanded.
    pub runpath: Vec<String>,
    /// The architecture: `x86_64`, `aarch64`, or its ELF machine number.
    pub machine: String,
    /// Its version, if found in the file: `9.10.2.36061468`.
    pub version: Option<LibraryVersion>,
    /// GPU code; `None` if it has none.
    pub device: Option<DeviceCode>,
    /// The result of `torch.cuda.get_arch_list()`, if it is in the file (`libtorch_python.so`).
    pub arch_list: Option<CodeTargets>,
}

/// A version that was read from a library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryVersion {
    /// `9.10.2`, or only `12.9` if the file does not contain the patch level.
    pub text: String,
    /// Where it was found: `cudnn_graph_version`, `file name`, `code`.
    pub from: &'static str,
}

/// The GPU code of a library: one container for each compilation unit, with the same kernels for each target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceCode {
    /// Number of containers.
    pub containers: usize,
    /// Number of entries in them.
    pub entries: usize,
    /// The distinct sets of targets with the number of containers that have them, the most common first.
    pub shapes: Vec<(Shape, usize)>,
    /// The newest PTX ISA version, `8.7`, for each PTX target. It determines the required driver.
    pub ptx_isa: Vec<(CodeTarget, (u16, u16))>,
    /// What could not be read. The other fields are still valid.
    pub fault: Option<CodeFault>,
}

/// Why GPU code cannot be read completely.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeFault {
    /// A block of zeros stands where a header must be: the file is damaged.
    Zeros,
    /// A header is not as expected: the file is damaged, or its format is newer.
    Layout(&'static str),
}

impl std::fmt::Display for CodeFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CodeFault::Zeros => "zeros stand where code must be",
            CodeFault::Layout(what) => what,
        })
    }
}

/// The targets of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// Machine code.
    pub sass: Vec<CodeTarget>,
    /// PTX.
    pub ptx: Vec<CodeTarget>,
}

/// How the containers of a library support a GPU.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// Containers with machine code for it.
    pub sass: usize,
    /// Containers with PTX for it but no machine code.
    pub ptx: usize,
    /// Containers with neither: calling their kernels fails with `no kernel image`.
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

    /// Counts the containers that support a GPU. `is_tegra` as in [`CodeTargets::covers`].
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

/// Whether `auditwheel` copied a library into a wheel: it adds a hash to the name, so the wheel itself contains the library. `libopenblas-56d6093b.so`, `libtiff-20b7e810.so.6.3.0`, `libgomp-a34b3233.so.1`.
pub fn is_grafted(name: &str) -> bool {
    let stem = name.split(".so").next().unwrap_or(name);
    // `libgfortran-040039e1-0352e75f.so.5.0.0`: grafted twice.
    let hash = stem.rsplit('-').next().unwrap_or_default();
    let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    stem.contains('-') && hash.len() == 8 && hash.bytes().all(is_hex) && name.contains(".so")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_of_grafted_libraries() {
        for name in ["libopenblas-56d6093b.so", "libtiff-20b7e810.so.6.3.0", "libx-040039e1-0352e75f.so.5"] {
            assert!(is_grafted(name), "{name}");
        }
        for name in
            ["libcudart.so.12", "libscipy-openblas.so", "lib-deadbee.so", "libx-deadbeef.a", "deadbeef.so"]
        {
            assert!(!is_grafted(name), "{name}");
        }
    }

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
