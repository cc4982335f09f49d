//! What one run may read: an index that answers every request with more dependencies must not occupy the machine.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Maximum number of project pages in a run. The largest environments have some hundred packages.
const MAX_PAGES: usize = 5_000;
/// Maximum size of the pages read from the network in a run, in bytes of their compact form.
const MAX_PAGE_BYTES: u64 = 512 << 20;
/// Maximum number of METADATA files in a run.
const MAX_METADATA_FILES: usize = 100_000;

/// Maximum size of the wheels that are downloaded to be read in a run, in bytes.
const MAX_WHEEL_BYTES: u64 = 8 << 30;

/// What a run has read so far.
#[derive(Debug, Default)]
pub(super) struct Reads {
    pages: AtomicUsize,
    page_bytes: AtomicU64,
    metadata: AtomicUsize,
    wheel_bytes: AtomicU64,
}

impl Reads {
    /// Counts a page that is about to be requested.
    ///
    /// # Errors
    /// The limit that is reached, one phrase.
    pub fn page(&self) -> Result<(), String> {
        match self.pages.fetch_add(1, Ordering::Relaxed) < MAX_PAGES {
            true => Ok(()),
            false => Err(format!("this run has read {MAX_PAGES} project pages, which is the limit")),
        }
    }

    /// Counts the size of a page that was read, in bytes.
    ///
    /// # Errors
    /// The limit that is exceeded, one phrase.
    pub fn page_bytes(&self, size: u64) -> Result<(), String> {
        match self.page_bytes.fetch_add(size, Ordering::Relaxed) + size <= MAX_PAGE_BYTES {
            true => Ok(()),
            false => {
                Err(format!("the pages of this run are larger than {} MiB together", MAX_PAGE_BYTES >> 20))
            }
        }
    }

    /// Counts a wheel that was downloaded, by its size in bytes.
    ///
    /// # Errors
    /// The limit that is exceeded, one phrase.
    pub fn wheel_bytes(&self, size: u64) -> Result<(), String> {
        match self.wheel_bytes.fetch_add(size, Ordering::Relaxed) + size <= MAX_WHEEL_BYTES {
            true => Ok(()),
            false => {
                Err(format!("the wheels of this run are larger than {} MiB together", MAX_WHEEL_BYTES >> 20))
            }
        }
    }

    /// Counts a METADATA file that is about to be requested.
    ///
    /// # Errors
    /// The limit that is reached, one phrase.
    pub fn metadata(&self) -> Result<(), String> {
        match self.metadata.fetch_add(1, Ordering::Relaxed) < MAX_METADATA_FILES {
            true => Ok(()),
            false => {
                Err(format!("this run has read {MAX_METADATA_FILES} METADATA files, which is the limit"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_named() {
        let budget = Reads::default();
        assert!((0..MAX_PAGES).all(|_| budget.page().is_ok()));
        assert!(budget.page().unwrap_err().contains("5000 project pages"));
        assert!(budget.page_bytes(MAX_PAGE_BYTES).is_ok());
        assert!(budget.page_bytes(1).unwrap_err().contains("512 MiB"));
        assert!(budget.metadata().is_ok());
        assert!(budget.wheel_bytes(MAX_WHEEL_BYTES).is_ok());
        assert!(budget.wheel_bytes(1).unwrap_err().contains("8192 MiB"));
    }
}
