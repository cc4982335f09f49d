//! envlock
pub mod model;
pub mod registry;
pub mod solver;
