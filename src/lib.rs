//! envlock
pub mod export;
pub mod index;
pub mod lockfile;
pub mod model;
pub mod registry;
pub mod solver;
