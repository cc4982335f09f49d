//! What is installed, read from files: nothing is imported, run or loaded.

mod dist_info;
mod prefix;
mod record;

pub use dist_info::{Depth, read};
pub use prefix::{PrefixError, find as find_prefix};
