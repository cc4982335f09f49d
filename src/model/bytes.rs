//! Sizes for people.

use std::fmt;

/// A size in bytes, shown as `3.4 GB`, `12 MB`, `1.9 MB`, `340 kB`: in powers of a thousand, with one decimal below ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            1_000_000_000.. => (1_000_000_000, "GB"),
            1_000_000.. => (1_000_000, "MB"),
            _ => return write!(f, "{} kB", self.0.div_ceil(1000)),
        };
        match self.0 / unit {
            whole @ 0..10 => write!(f, "{whole}.{} {name}", self.0 % unit * 10 / unit),
            whole => write!(f, "{whole} {name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bytes;

    #[test]
    fn sizes_as_people_read_them() {
        for (bytes, shown) in [
            (0, "0 kB"),
            (1, "1 kB"),
            (340_000, "340 kB"),
            (999_999, "1000 kB"),
            (1_950_000, "1.9 MB"),
            (12_345_678, "12 MB"),
            (795_000_000, "795 MB"),
            (3_450_000_000, "3.4 GB"),
            (43_000_000_000, "43 GB"),
            (u64::MAX, "18446744073 GB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
    }
}
