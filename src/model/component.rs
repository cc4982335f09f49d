//! The component at fault of a failure: a closed list with stable names.

use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

macro_rules! components {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The component at fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Component { $($(#[$doc])* $variant,)* }

        impl Component {
            /// All of them.
            pub const ALL: &'static [Component] = &[$(Component::$variant,)*];

            /// The stable name, for other programs.
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
    /// The framework's build: its CUDA variant, or a CPU build.
    TorchBuild = "torch-build",
    /// CUDA's run-time libraries.
    CudaRuntime = "cuda-runtime",
    /// cuDNN.
    Cudnn = "cudnn",
    /// NCCL.
    Nccl = "nccl",
    /// A torchvision that was built for another torch.
    TorchvisionPairing = "torchvision-pairing",
    /// The Python interpreter or its series.
    Python = "python",
    /// The C library.
    Glibc = "glibc",
    /// The container or its configuration.
    Container = "container",
    /// A library or package that is found before the correct one.
    PathShadowing = "path-shadowing",
    /// A mix of packages from different releases or installers.
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
