//! Does this run here? The one home of the question.
//!
//! [`Needs`] is what a build asks of a machine, whatever it is a build of: torch, a companion, TensorFlow, JAX, what an
//! image has inside. Held against a [`Host`](crate::model::host::Host) it gives [`Violation`]s, each with its source;
//! held against every compute capability it gives the envelope. The solver, `plan`, `verify`, containers, `diagnose`
//! and `why` ask here and nowhere else: a test holds that.
//!
//! The rules, each from NVIDIA's documentation by way of the registry's rows:
//! * machine code (SASS) of a CUDA major runs from the floor of minor-version compatibility on, PTX of a toolkit from
//!   that toolkit's own driver on ([`required_driver`]);
//! * SASS covers its own major from its minor on, PTX every newer capability; code for discrete GPUs does not cover
//!   Tegra parts, nor the other way round ([`served`]);
//! * a driver knows a GPU from its architecture's first branch to its last ([`DriverSpan`]);
//! * cuDNN serves GPUs from a capability on ([`cudnn_drops`]).

mod code;
mod complete;
mod driver;
mod envelope;
mod host;
mod needs;
mod variant;

pub use code::{containers_serving, cudnn_drops, served};
pub use complete::{UnknownCuda, completed, without_ignored};
pub use driver::{DriverFit, DriverSpan, Policy, Sourced, required_driver};
pub use envelope::{both, envelope_of, envelope_of_framework, with_code_of};
pub use host::{ImpossibleHost, check_host};
pub use needs::{Needs, Violation, glibc_suffices};
pub use variant::{CPU, is_cuda};
