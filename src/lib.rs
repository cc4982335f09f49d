//! envlock: a lockfile manager for PyTorch environments that solves hardware and packages together.
//!
//! The core is pure: [`solver::solve`] solves a request for a host with a [`registry::Registry`],
//! [`lockfile`] stores the solution, [`export`] writes it in the formats of installers. Other modules
//! do I/O: [`probe`] detects the machine, [`index`] reads package indexes. Only `session` uses both; [`cli`] parses arguments and prints.
//! `docs/architecture.md` describes the modules and the rules, which a test checks.
//!
//! Example: a recent torch does not run on an old driver.
//!
//! ```
//! use envlock::model::host::{Driver, Host};
//! use envlock::model::platform::Platform;
//! use envlock::model::request::{Preferences, Request, UserRequirement};
//! use envlock::model::solution::Answer;
//! use envlock::registry::Registry;
//! use envlock::solver::{Budget, Catalogue, Depth, Inputs, Memory, Question, Universe, solve};
//!
//! let registry = Registry::embedded();
//! let mut host = Host::open(Platform::LINUX_X86_64, "example");
//! host.driver = Some(Driver {
//!     version: "470.129.06".parse().unwrap(),
//!     cuda: None,
//!     compat: None,
//!     found_by: "example".into(),
//! });
//! let request = Request {
//!     requirements: vec![UserRequirement::parse("torch>=2.8", "example".into()).unwrap()],
//!     ..Request::default()
//! };
//! let catalogue = Catalogue::new(&registry, host.system.platform);
//! let nothing_kept = Preferences::default();
//! let inputs = Inputs {
//!     catalogue: &catalogue,
//!     universe: &Universe::default(),
//!     memory: &Memory::default(),
//!     budget: &Budget::default(),
//!     question: &Question::new(&host, &request, &nothing_kept),
//! };
//! let Answer::Conflict(conflict) = solve(&inputs, Depth::Stack) else { panic!() };
//! assert_eq!(conflict.headline, "no torch>=2.8 runs on driver 470.129.06");
//! assert_eq!(conflict.would_work_if[0].change.to_string(), "driver >= 525.60.13");
//! ```

#![warn(missing_docs)]

pub mod bundle;
pub mod child;
pub mod cli;
pub mod compatibility;
#[cfg(feature = "conda")]
pub mod conda;
pub mod containers;
pub mod diagnose;
pub mod drift;
pub mod explorer;
pub mod export;
pub mod fleet;
pub mod formats;
pub mod git;
pub mod image;
pub mod index;
pub mod inspect;
pub mod learn;
pub mod lockfile;
pub mod model;
pub mod probe;
pub mod registry;
pub mod sbom;
pub mod sdist;
pub mod session;
pub mod slurm;
pub mod smoke;
pub mod solver;
pub mod sync;
pub mod tarball;
pub mod verify;
