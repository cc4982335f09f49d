//! Runs the prebuilt kernels on every GPU, in a child process.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{child, native};
use crate::model::kernel_outcome::DriverDevice;
use crate::model::smoke_test::End;

/// What the driver keeps of compiled PTX would hide that it cannot compile it any more, and this forces what is tested.
const UNSET: [&str; 4] = ["CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT", "CUDA_FORCE_JIT", "CUDA_DISABLE_JIT"];

/// Loads and runs every kernel of [`super::kernels::all`] on every GPU that CUDA shows. The devices have as many
/// outcomes as were reached; how the child ended says why there are no more.
pub fn selftest(program: &Path, limit: Duration) -> (Vec<DriverDevice>, End) {
    let folder = match tempfile::Builder::new().prefix("envlock-selftest-").tempdir() {
        Ok(folder) => folder,
        Err(error) => return (Vec::new(), End::NotStarted(error.to_string())),
    };
    let out = folder.path().join("out.json");
    let mut command = Command::new(program);
    command.arg(native::COMMAND).arg("kernels").arg(&out).env("CUDA_CACHE_DISABLE", "1");
    for variable in UNSET {
        command.env_remove(variable);
    }
    let left = child::run(command, folder.path(), &out, limit, &child::Interrupts::watch());
    (left.devices, left.end)
}
