//! RECORD: the files of a distribution, with hash and size (PEP 376, 627).

use base64::Engine as _;

/// Maximum size of a RECORD that is read, in bytes.
pub(super) const MAX_RECORD: u64 = 64 << 20;

/// One line of a RECORD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry<'t> {
    /// Path relative to site-packages, with `/`.
    pub path: std::borrow::Cow<'t, str>,
    /// `sha256=...` in URL-safe base64 without padding; may be empty.
    pub hash: &'t str,
    /// Size in bytes, when stated.
    pub size: Option<u64>,
}

/// The entries of a RECORD; invalid lines are skipped.
pub(super) fn entries(text: &str) -> impl Iterator<Item = Entry<'_>> {
    text.lines().filter_map(|line| {
        let line = line.trim_end_matches('\r');
        let (path, rest) = if let Some(quoted) = line.strip_prefix('"') {
            // CSV: a path with a comma or quote is quoted, with doubled quotes.
            let end = quoted.find("\",")?;
            (std::borrow::Cow::Owned(quoted[..end].replace("\"\"", "\"")), &quoted[end + 2..])
        } else {
            let (path, rest) = line.split_once(',')?;
            (std::borrow::Cow::Borrowed(path), rest)
        };
        let (hash, size) = rest.split_once(',')?;
        Some(Entry { path, hash, size: size.parse().ok() })
    })
}

/// A SHA-256 in RECORD's format.
pub(super) fn encode(digest: &[u8]) -> String {
    format!("sha256={}", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let text = "a/b.py,sha256=xyz,12\r\n\"we,\"\"ird.py\",,\nx.dist-info/RECORD,,\nbroken\n";
        let all: Vec<Entry<'_>> = entries(text).collect();
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].path.as_ref(), all[0].size), ("a/b.py", Some(12)));
        assert_eq!(all[1].path, "we,\"ird.py");
        assert_eq!(all[2].size, None);
    }

    #[test]
    fn base64_as_wheels_write_it() {
        // SHA-256 of empty input.
        let digest = <sha2::Sha256 as sha2::Digest>::digest(b"");
        assert_eq!(encode(&digest), "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU");
    }
}
