//! The digest that names a container image.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;

use super::text::clean;

/// The digest of an image's manifest or configuration, `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct ImageDigest(String);

/// A text is not the digest of an image.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the digest of an image: `sha256:` and 64 lower-case hexadecimal digits")]
pub struct InvalidDigest(String);

impl FromStr for ImageDigest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.strip_prefix("sha256:") {
            Some(hex) if hex.len() == 64 && hex.bytes().all(is_hex) => Ok(ImageDigest(text.to_owned())),
            _ => Err(InvalidDigest(clean(text, 100))),
        }
    }
}

impl TryFrom<String> for ImageDigest {
    type Error = InvalidDigest;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl ImageDigest {
    /// The text, `sha256:...`.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ImageDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests() {
        let hex = "0123456789abcdef".repeat(4);
        assert!(format!("sha256:{hex}").parse::<ImageDigest>().is_ok());
        for bad in [
            hex.clone(),
            format!("sha512:{hex}"),
            format!("sha256:{}", hex.to_uppercase()),
            "sha256:00".into(),
        ] {
            assert!(bad.parse::<ImageDigest>().is_err(), "{bad}");
        }
    }
}
