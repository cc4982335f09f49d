//! The field's words as types: versions, capabilities, hosts, wheels, requests, solutions.
//!
//! This module imports nothing of ours and touches nothing outside the process. Every other
//! module speaks in these types, so the core and the edges can meet without knowing each other.

pub mod capability;
pub mod choice;
pub mod component;
pub mod conflict;
pub mod evidence;
pub mod finding;
pub mod fix;
pub mod host;
pub mod host_note;
pub mod installed;
pub mod level;
pub mod library;
pub mod machine_state;
pub mod metadata;
pub mod native;
pub mod platform;
pub mod process;
pub mod project;
pub mod request;
pub mod smoke;
pub mod solution;
pub mod source;
pub mod surroundings;
pub mod text;
pub mod version;
pub mod wheel;
