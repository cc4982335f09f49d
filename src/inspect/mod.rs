//! Reads installed packages and libraries from files. Nothing is imported, run or loaded.

mod alternatives;
mod dist_info;
mod elf;
mod environment;
mod fatbin;
mod fingerprint;
mod imports;
mod ld_cache;
mod library;
mod library_version;
pub mod loader;
mod native;
mod owner;
mod prefix;
mod record;
mod symbol_table;
mod symbol_versions;
mod symbols;
mod traces;
mod visible;
mod wheel;

pub use dist_info::{Depth, read};
pub use elf::ElfError;
pub use environment::{Chosen, Environment, NoEnvironment};
pub use fatbin::read as device_code;
pub use fingerprint::Fingerprint;
pub use library::{Detail, library, library_of_bytes};
pub use native::{Loads, native};
pub use owner::Records;
pub use prefix::PrefixError;
pub use symbol_versions::of_bytes as symbol_versions_of_bytes;
pub use traces::traces;
pub use visible::visible;
pub use wheel::{WheelError, is_library, open_wheel, size_of_libraries, text_of_wheel, wheel};
