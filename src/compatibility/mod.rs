//! Whether a machine can run a build. All compatibility rules are in this module.
//!
//! [`Needs`] is what a build requires of a machine, for any kind of build: torch, a companion, TensorFlow, JAX, the
//! contents of an image. Checked against a [`Host`](crate::model::host::Host) it gives [`Violation`]s, each with its
//! source; checked against every compute capability it gives the envelope. The solver, `plan`, `verify`, containers,
//! `diagnose` and `why` use only this module for these rules; a test checks that.
//!
//! The rules come from NVIDIA's documentation, through the rows of the registry:
//! * machine code (SASS) of a CUDA major version needs the driver floor of minor-version compatibility or newer;
//!   PTX of a toolkit needs the toolkit's own driver or newer ([`required_driver`]);
//! * SASS covers its own major capability at its minor and above, PTX covers every newer capability; code for
//!   discrete GPUs does not cover Tegra, and vice versa ([`served`]);
//! * a driver supports a GPU from the first branch of its architecture to the last ([`DriverSpan`]);
//! * machine code fits a torch of its own CUDA major and C++ ABI ([`misfit`]);
//! * cuDNN supports GPUs at or above a compute capability ([`cudnn_drops`]).

mod assumed;
mod code;
mod complete;
mod conda_specs;
mod driver;
mod envelope;
mod linked;
mod needs;
mod possible_host;
mod published_cuda;
mod runtime;
mod supposed;
mod unread;
mod unread_companion;
mod variant;

pub use assumed::{Assumed, assumed_in, with_assumed_code, without_unknown_gpus};
pub use code::{UnknownGpu, compiles_for, containers_serving, cudnn_drops, knows_capability, served};
pub use complete::{UnknownCuda, completed, without_ignored};
pub use conda_specs::{AskedDriver, Asks, UnreadSpec, asked_driver, with_machine_specs};
pub use driver::{DriverFit, DriverSpan, Policy, Sourced, UnknownFloor, driver_of_cuda, required_driver};
pub use envelope::{both, envelope_of, envelope_of_framework, with_code_of};
pub use linked::{LinkTarget, Misfit, MisfitKind, misfit};
pub use needs::{Needs, Violation, glibc_suffices};
pub use possible_host::{ImpossibleHost, check_host};
pub use published_cuda::{CudaRun, Drivers};
pub use runtime::{
    cuda_of_package, cuda_runtime, is_built_for_cuda, stated_cuda, unknown_cuda_user, with_runtime_of,
};
pub use supposed::{Beyond, Open, Supposed};
pub use unread::{Unread, UnreadBuild, command_to_learn};
pub use unread_companion::{LackingRow, UnreadCompanion};
pub use variant::ImpossibleVariant;
