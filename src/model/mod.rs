//! The domain types: versions, compute capabilities, hosts, wheels, requests, solutions.
//!
//! This module does not depend on other modules of the crate and does no I/O. All other modules use these types, so
//! that the core and the I/O layers are independent of each other.

pub mod built_for;
pub mod bytes;
pub mod capability;
pub mod choice;
pub mod cited;
pub mod component;
pub mod conda;
pub mod conflict;
pub mod count;
pub mod cutoff;
pub mod direct;
pub mod evidence;
pub mod finding;
mod fitting;
pub mod fix;
pub mod host;
pub mod host_note;
pub mod image_digest;
pub mod index_owner;
pub mod installed;
pub mod kernel_outcome;
pub mod level;
pub mod library;
pub mod licence;
pub mod limit;
pub mod linked;
pub mod listing;
pub mod machine_state;
pub mod marker;
pub mod metadata;
pub mod native;
pub mod nvidia;
pub mod only;
pub mod owner;
pub mod part;
pub mod patches;
pub mod platform;
pub mod process;
pub mod project;
pub mod request;
pub mod requirement;
pub mod run_options;
pub mod saved_host;
pub mod secrets;
pub mod smoke_test;
pub mod solution;
pub mod source;
pub mod surroundings;
pub mod text;
pub mod timestamp;
pub mod variant;
pub mod version;
pub mod wheel;
