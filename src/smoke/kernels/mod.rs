//! Prebuilt kernels: one small function as machine code of many targets, by several CUDA releases, and as PTX of each
//! version. `build.py` makes them with the `ptxas` of the wheels on PyPI.
//!
//! They are in the program and in no registry that a folder or an update can replace, because a driver executes them.

use std::io::Read as _;

use base64::Engine as _;
use serde::Deserialize;

use crate::model::capability::{CodeTarget, Via};
use crate::model::kernel_outcome::Kernel;

/// The table, as build.py writes it.
const TABLE: &str = include_str!("kernels.toml");
/// The maximum size of one kernel, in bytes.
const MAX_CODE: u64 = 64 << 10;

/// The name of the function in every kernel. It takes the address of [`THREADS`] integers of 32 bits.
pub(super) const ENTRY: &[u8] = b"answer\0";
/// How many threads run it.
pub(super) const THREADS: u32 = 64;

/// What thread `i` writes.
pub(super) fn answer(i: u32) -> u32 {
    3 * i + 7
}

/// A row of the table.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    form: Via,
    target: CodeTarget,
    /// Of PTX: the first release that takes its version of PTX.
    cuda: String,
    /// Compressed with zlib, as Base64 in lines.
    code: String,
}

/// A kernel with its code.
#[derive(Debug, Clone)]
pub struct Prebuilt {
    /// What it is compiled for, and by what.
    pub kernel: Kernel,
    code: String,
}

impl Prebuilt {
    /// What the driver loads: a cubin, or PTX with a NUL at its end.
    pub(super) fn code(&self) -> Result<Vec<u8>, String> {
        let packed = self.code.split_whitespace().collect::<String>();
        let packed = base64::engine::general_purpose::STANDARD.decode(packed).map_err(|e| e.to_string())?;
        let mut code = Vec::new();
        let mut reader = flate2::read::ZlibDecoder::new(packed.as_slice()).take(MAX_CODE);
        reader.read_to_end(&mut code).map_err(|error| error.to_string())?;
        Ok(code)
    }
}

/// All of them, in the order of the table.
///
/// # Errors
/// If the table is not what build.py writes; the tests read it.
pub fn all() -> Result<Vec<Prebuilt>, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Table {
        kernel: Vec<Row>,
    }
    let table: Table = toml::from_str(TABLE).map_err(|error| error.to_string())?;
    let prebuilt = |Row { form, target, cuda, code }: Row| {
        let cuda = crate::model::version::cuda_version(&cuda).map_err(|error| error.to_string())?;
        Ok(Prebuilt { kernel: Kernel { form, target, cuda }, code })
    };
    table.kernel.into_iter().map(prebuilt).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_what_its_row_says() {
        for prebuilt in all().unwrap() {
            let (code, kernel) = (prebuilt.code().unwrap(), &prebuilt.kernel);
            match kernel.form {
                Via::Sass => {
                    assert_eq!(&code[..4], b"\x7fELF");
                    assert_eq!(u16::from_le_bytes([code[18], code[19]]), 190, "{kernel}: EM_CUDA");
                }
                Via::Ptx => {
                    let text = std::str::from_utf8(&code).unwrap();
                    assert!(text.ends_with('\0'), "{text}");
                    let target = kernel.target.to_string().replace('.', "");
                    assert!(text.contains(&format!(".target sm_{target}\n")), "{text}");
                }
            }
        }
    }
}
