//! Tests of the program as a person runs it, one module per command.

mod aged;
mod architecture;
mod browser;
mod bundle;
mod bundle_contents;
#[cfg(feature = "conda")]
mod channels;
mod circles;
mod cluster;
#[path = "../common/mod.rs"]
mod common;
mod conda;
#[cfg(feature = "conda")]
mod conda_requests;
#[cfg(feature = "conda")]
mod conda_stack;
mod containers;
mod cutoff;
mod diagnose;
mod direct;
mod drift;
mod explorer;
mod export;
mod file_systems;
mod first_hour;
mod fixes;
mod fleet;
mod foreign;
mod formats;
mod frameworks;
mod images;
mod index;
mod learn;
mod linked;
mod lists;
mod loader;
mod native;
mod nodes;
mod not_known;
#[cfg(unix)]
mod one_verdict;
mod options;
mod owned;
mod pages;
mod parts;
#[cfg(unix)]
mod paths;
mod probe;
mod questions;
mod refusals;
mod resolve;
mod roots;
mod run;
mod sbom;
mod schedule;
mod schema;
mod screens;
mod sentences;
mod smoke;
mod sources;
#[cfg(unix)]
mod sync;
mod targets;
mod update;
mod verify;
#[cfg(unix)]
mod violated;
mod workflows;

use common::{context, tools, wheels};
