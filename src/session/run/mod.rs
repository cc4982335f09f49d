//! What `run` remembers of an environment that it verified.

mod state;

pub(crate) use state::State;
