//! The system's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::model::timestamp::Timestamp;
use crate::session::variables;

/// The time for what is said about the age of data: that of `SOURCE_DATE_EPOCH` where a build is to be repeatable.
pub(crate) fn today() -> Timestamp {
    let stated = variables::number("SOURCE_DATE_EPOCH");
    stated.map_or_else(now, Timestamp::from_seconds)
}

/// The time of the system's clock; 1970 if it is set to before.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_seconds(since.as_secs().try_into().unwrap_or(i64::MAX))
}
