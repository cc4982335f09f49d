//! Reads installed packages and libraries from files. Nothing is imported, run or loaded.

mod alternatives;
mod conda_meta;
mod copies;
mod dist_info;
mod elf;
mod environment;
mod fatbin;
mod fatbin_stream;
mod file_owner;
mod files_by_path;
mod fingerprint;
mod found;
mod guarded_map;
mod imports;
mod ld_cache;
mod library;
mod library_version;
pub mod loader;
mod modules;
mod native;
mod prefix;
mod process;
mod record_check;
mod record_file;
mod saved_state;
mod symbol_table;
mod symbol_versions;
mod symbols;
mod traces;
mod tree;
mod visible;
mod wheel_file;
mod wheel_links;

pub use conda_meta::{CondaRecords, conda_records};
pub use dist_info::{add_visible, read};
pub use elf::ElfError;
pub use environment::{Chosen, Environment, NoEnvironment};
pub use fatbin::read as device_code;
pub use fatbin_stream::{Part, WithoutPayloads};
pub use file_owner::Records;
pub use fingerprint::Fingerprint;
pub use found::{Environments, environments, interpreter_of, system_of};
pub use library::{Detail, library, library_of_bytes};
pub use native::native;
pub use prefix::{PrefixError, python_of, site_packages_of as site_packages};
pub use process::Loads;
pub use record_check::Depth;
pub use saved_state::{environment_facts, libraries_of_cuda};
pub use symbol_versions::of_bytes as symbol_versions_of_bytes;
pub use traces::traces;
pub use tree::{About, Entry, FileTree, Kind, Linked, Opened, Rooted, Store, ThisMachine, resolve};
pub use visible::visible;
pub use wheel_file::{
    WheelError, bytes_of_wheel, is_library, members_of_wheel, open_wheel, size_of_libraries, text_of_wheel,
    wheel,
};
pub use wheel_links::linked;
