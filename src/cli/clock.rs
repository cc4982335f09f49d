//! The system's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::timestamp::Timestamp;

/// The time of the system's clock; 1970 if it is set to before.
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_seconds(since.as_secs().try_into().unwrap_or(i64::MAX))
}
