//! conda's files: `environment.yml`, whose packages become PyPI's or stay conda's, and `conda-lock.yml`.

mod channel;
mod conda_section;
mod environment_yml;
mod explicit;
mod lock;
mod match_spec;
mod record;
mod translated;
mod write;

pub(super) use environment_yml::{conda_part, environment};
pub use explicit::{EXPLICIT_MARK, conda_explicit};
pub(super) use lock::parse;
pub use record::CondaRecord;
pub(super) use record::{PLATFORM, other_platforms, platform, python};
pub use write::{conda_environment, environment_name, same_environment};
