//! The component that a failure is blamed on: a closed list, fixed by the contract.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

macro_rules! components {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The component at fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Component { $($(#[$doc])* $variant,)* }

        impl Component {
            /// The word that other programs rely on.
            pub fn as_str(self) -> &'static str {
                match self { $(Component::$variant => $text,)* }
            }
        }

        impl FromStr for Component {
            type Err = ();

            fn from_str(text: &str) -> Result<Self, ()> {
                match text {
                    $($text => Ok(Component::$variant),)*
                    _ => Err(()),
                }
            }
        }
    };
}

components! {
    /// The NVIDIA driver.
    Driver = "driver",
    /// The GPU's compute capability, for which there is no code.
    GpuArch = "gpu-arch",
    /// The framework's build: its CUDA variant, or a build for the CPU.
    TorchBuild = "torch-build",
    /// CUDA's run-time libraries.
    CudaRuntime = "cuda-runtime",
    /// cuDNN.
    Cudnn = "cudnn",
    /// NCCL.
    Nccl = "nccl",
    /// torch and a torchvision that was built for another.
    TorchvisionPairing = "torchvision-pairing",
    /// The Python interpreter or its series.
    Python = "python",
    /// The C library.
    Glibc = "glibc",
    /// The container and what it was given.
    Container = "container",
    /// A library or package found in front of the right one.
    PathShadowing = "path-shadowing",
    /// Packages of several releases or installers.
    InstallMix = "install-mix",
    /// An extension built for another torch.
    ExtensionAbi = "extension-abi",
    /// None of these.
    Other = "other",
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Component {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
