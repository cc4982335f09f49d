//! Tests of the program as a person runs it, one module per command.

mod aged;
mod architecture;
#[cfg(feature = "conda")]
mod channels;
mod circles;
mod cluster;
mod conda;
#[cfg(feature = "conda")]
mod conda_requests;
#[cfg(feature = "conda")]
mod conda_stack;
mod containers;
mod context;
mod cutoff;
mod diagnose;
mod direct;
mod drift;
mod explorer;
mod export;
mod file_systems;
#[path = "../hostile/files.rs"]
mod files;
mod first_hour;
mod fixes;
mod fleet;
mod foreign;
#[path = "../hostile/forged.rs"]
mod forged;
mod frameworks;
#[path = "../hostile/full_disk.rs"]
mod full_disk;
mod images;
mod index;
#[cfg(unix)]
#[path = "../hostile/killed.rs"]
mod killed;
mod learn;
mod linked;
mod loader;
mod native;
mod nodes;
#[cfg(unix)]
mod options;
#[path = "../hostile/outside.rs"]
mod outside;
mod owned;
mod parts;
#[cfg(unix)]
mod paths;
mod probe;
mod questions;
mod resolve;
mod roots;
mod run;
mod schema;
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
mod wheels;
