//! What the test programs share. Each uses a part of it.

#![allow(dead_code, reason = "each test program uses another part")]

pub mod context;
pub mod installed;
#[cfg(unix)]
pub mod synced;
pub mod tools;
pub mod torch;
#[cfg(unix)]
pub mod venv;
pub mod wheels;
