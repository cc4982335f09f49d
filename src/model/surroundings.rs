//! Surroundings that a log indicates: the operating system, the installer, the container.

use std::fmt;
use std::str::FromStr;

macro_rules! surroundings {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The surroundings that words in a log indicate.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Surrounding { $($(#[$doc])* $variant,)* }

        impl Surrounding {
            /// All of them.
            pub const ALL: &'static [Surrounding] = &[$(Surrounding::$variant,)*];

            /// The name in registry/errors.toml.
            pub fn as_str(self) -> &'static str {
                match self { $(Surrounding::$variant => $text,)* }
            }
        }
    };
}

surroundings! {
    /// Windows Subsystem for Linux.
    Wsl = "wsl",
    /// Windows itself.
    Windows = "windows",
    /// macOS.
    Macos = "macos",
    /// A Jetson board.
    Jetson = "jetson",
    /// A container.
    Container = "container",
    /// conda is used.
    Conda = "conda",
    /// uv is used.
    Uv = "uv",
    /// A project of uv: what `uv pip` changes, its next `uv run` or `uv sync` undoes.
    UvProject = "uv-project",
    /// An AMD GPU or ROCm.
    Rocm = "rocm",
    /// An Intel GPU is named.
    IntelGpu = "intel-gpu",
    /// A distribution with a C library before 2.28, which most wheels of today require (`manylinux_2_28`).
    OldGlibc = "old-glibc",
    /// MIG instances.
    Mig = "mig",
    /// `LD_LIBRARY_PATH` is mentioned.
    LibraryPath = "library-path",
    /// cuda-compat is mentioned.
    Compat = "compat",
    /// An installer replaced the installed torch.
    TorchReplaced = "torch-replaced",
    /// An extension with its own GPU code is used: vLLM, detectron2, flash-attention.
    Extension = "extension",
    /// TensorFlow is used.
    Tensorflow = "tensorflow",
    /// JAX is used.
    Jax = "jax",
    /// A program with its own CUDA code that is neither torch nor an extension of it: llama.cpp, TensorRT.
    OtherProgram = "other-program",
    /// Podman runs the containers.
    Podman = "podman",
    /// Kubernetes runs them.
    Kubernetes = "kubernetes",
    /// A node of Google's Kubernetes engine.
    Gke = "gke",
    /// Apptainer or Singularity runs them.
    Apptainer = "apptainer",
    /// A notebook of Google Colab.
    Colab = "colab",
    /// Slurm runs the job.
    Slurm = "slurm",
    /// A container of LXC: Proxmox, Incus.
    Lxc = "lxc",
    /// A distribution with musl in place of glibc: Alpine.
    Musl = "musl",
    /// NixOS.
    Nixos = "nixos",
    /// The driver was installed by NVIDIA's own installer.
    Runfile = "runfile",
    /// A notebook.
    Notebook = "notebook",
    /// A package of the user site (`~/.local`) is used.
    UserSite = "user-site",
    /// A file of torchvision or torchaudio is in a traceback.
    Companion = "companion",
    /// A distribution with RPM packages: Fedora, RHEL, Amazon Linux, openSUSE.
    Rpm = "rpm",
    /// The driver's kernel module is named.
    KernelModule = "kernel-module",
    /// Packages of a Linux driver are named: `nvidia-driver-550`.
    DriverPackages = "driver-packages",
    /// `CUDA_VISIBLE_DEVICES` is set.
    VisibleDevices = "visible-devices",
}

impl fmt::Display for Surrounding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Surrounding {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Surrounding::ALL.iter().copied().find(|s| s.as_str() == text).ok_or(())
    }
}
