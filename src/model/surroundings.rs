//! Surroundings that a text gives away: the system, the installer, the container a program ran in.

use std::fmt;
use std::str::FromStr;

macro_rules! surroundings {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// What kind of surroundings words of a log speak of.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Surrounding { $($(#[$doc])* $variant,)* }

        impl Surrounding {
            /// All of them.
            pub const ALL: &'static [Surrounding] = &[$(Surrounding::$variant,)*];

            /// The word that registry/errors.toml uses.
            pub fn as_str(self) -> &'static str {
                match self { $(Surrounding::$variant => $text,)* }
            }
        }
    };
}

surroundings! {
    /// Linux under Windows.
    Wsl = "wsl",
    /// Windows itself.
    Windows = "windows",
    /// macOS.
    Macos = "macos",
    /// A Jetson board.
    Jetson = "jetson",
    /// A container.
    Container = "container",
    /// conda is at work.
    Conda = "conda",
    /// uv is at work.
    Uv = "uv",
    /// An AMD card or ROCm.
    Rocm = "rocm",
    /// MIG instances.
    Mig = "mig",
    /// `LD_LIBRARY_PATH` is spoken of.
    LibraryPath = "library-path",
    /// cuda-compat is spoken of.
    Compat = "compat",
    /// An installer exchanged one torch for another.
    TorchReplaced = "torch-replaced",
    /// An extension with GPU code of its own is at work: vLLM, detectron2, flash-attention.
    Extension = "extension",
    /// TensorFlow speaks.
    Tensorflow = "tensorflow",
    /// JAX speaks.
    Jax = "jax",
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
