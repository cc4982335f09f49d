//! `pylock.toml` (PEP 751).

mod lock;
mod write;

pub(super) use lock::{Pylock, parse};
pub use write::pylock;
