//! What a command does, without the terminal: settled options in, values out. It uses the pure core and the modules with
//! I/O, reads and writes the project's files, and says what is worth knowing through an [`Interface`].
//!
//! ```
//! use envlock::session::Silent;
//! use envlock::session::options::{Global, MachineOptions, SolveOptions};
//! use envlock::session::resolve::{Resolution, resolve};
//!
//! let folder = tempfile::tempdir()?;
//! let global = Global { project: Some(folder.path().to_owned()), ..Global::default() };
//! let a100 = MachineOptions {
//!     gpu: vec!["NVIDIA A100".to_owned()],
//!     driver: Some("535.129.03".to_owned()),
//!     ..MachineOptions::default()
//! };
//! // The stack alone, from the registry: no index is asked.
//! let options = SolveOptions { host: a100, stack_only: true, ..SolveOptions::default() };
//! let torch = ["torch>=2.8".to_owned()];
//! let Resolution::Solved { lock, written } = resolve(&global, &torch, &options, &Silent)? else { panic!() };
//! assert_eq!(written, ["envlock.lock"]);
//! assert_eq!(lock.targets[0].stack.as_ref().unwrap().variant, "cu126");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub(crate) mod alone;
pub(crate) mod builds;
pub mod bundle;
pub(crate) mod cache_folder;
pub(crate) mod chosen_host;
pub(crate) mod clock;
pub(crate) mod compared;
pub(crate) mod data_folder;
pub(crate) mod diagnose;
pub(crate) mod direct;
pub(crate) mod disk;
pub(crate) mod drift;
pub(crate) mod editing;
pub mod exit;
pub mod export;
pub mod failure;
pub(crate) mod fetch;
pub(crate) mod files;
pub(crate) mod fleet;
pub(crate) mod from_prefix;
pub(crate) mod image;
pub(crate) mod importing;
pub(crate) mod init;
pub(crate) mod installers;
pub(crate) mod interface;
pub(crate) mod learn_row;
pub(crate) mod learned_rows;
pub(crate) mod learning;
pub(crate) mod manifest;
pub(crate) mod manifest_text;
pub(crate) mod metadata_overrides;
pub(crate) mod only;
pub mod options;
pub(crate) mod outdated;
pub(crate) mod owner;
pub(crate) mod plan;
pub(crate) mod prebuilt;
pub(crate) mod project_lock;
pub(crate) mod registry_update;
pub(crate) mod requirements;
pub mod resolve;
pub(crate) mod retry;
pub(crate) mod run;
pub mod sbom;
pub(crate) mod scratch;
pub(crate) mod settings;
pub(crate) mod signals;
pub mod sync;
pub(crate) mod threads;
pub(crate) mod variables;
pub mod verify;
pub(crate) mod why;
pub(crate) mod write;

pub use interface::{Interface, Silent};
