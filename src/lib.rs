//! envlock
pub mod model;
pub mod registry;
