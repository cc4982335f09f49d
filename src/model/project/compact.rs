//! The compact text form of a page: how a release and a file stand in it.

use std::fmt::Write as _;

use pep440_rs::{Version, VersionSpecifiers};

use super::{FileName, RawFile, ReleaseFile};
use crate::model::requirement::parse_published_specifiers;
use crate::model::timestamp::Timestamp;

/// Writes one release as a line of the compact form: whether it has a source distribution, has wheels, is yanked, and
/// the length of the lines of its files.
pub(super) fn write_release(out: &mut String, version: &Version, flags: [bool; 3], length: usize) {
    let letters = flags.into_iter().zip(['s', 'w', 'y']);
    let flags: String = letters.filter_map(|(on, letter)| on.then_some(letter)).collect();
    let _ = writeln!(out, "{version}\t{flags}\t{length}");
}

/// Writes one file as a line of the compact form.
pub(super) fn write_line(out: &mut String, f: &RawFile) {
    let requires: String =
        f.requires_python.iter().flat_map(|r| r.chars()).filter(|c| !c.is_control()).collect();
    let _ = writeln!(
        out,
        "{}\t{}\t{}\t{}{}\t{}\t{}\t{}\t{}",
        f.filename,
        f.sha256.as_deref().unwrap_or(""),
        f.size.map(|s| s.to_string()).unwrap_or_default(),
        if f.yanked { "y" } else { "" },
        if f.has_metadata { "m" } else { "" },
        requires,
        f.metadata_sha256.as_deref().unwrap_or(""),
        f.uploaded.map(|time| time.seconds().to_string()).unwrap_or_default(),
        f.url,
    );
}

/// The name of a file in its line.
pub(super) fn file_name(line: &str) -> &str {
    &line[..memchr::memchr(b'\t', line.as_bytes()).unwrap_or(line.len())]
}

/// The places of fields in a line.
pub(super) const FLAGS: usize = 3;
pub(super) const REQUIRES_PYTHON: usize = 4;
const UPLOADED: usize = 6;

/// The time of upload in a line.
pub(super) fn uploaded(line: &str) -> Option<Timestamp> {
    line.split('\t').nth(UPLOADED)?.parse().ok().map(Timestamp::from_seconds)
}

/// A `Requires-Python` that cannot be repaired is ignored, as in pip.
pub(super) fn requires_python(text: &str) -> Option<VersionSpecifiers> {
    if text.is_empty() { None } else { parse_published_specifiers(text) }
}

pub(super) fn parse_line(number: usize, line: &str, version: &Version) -> Option<ReleaseFile> {
    let mut fields = line.split('\t');
    let filename = fields.next()?;
    let sha256 = fields.next()?;
    let size = fields.next()?;
    let flags = fields.next()?;
    let python = fields.next()?;
    let metadata_sha256 = fields.next()?;
    let (_uploaded, url) = (fields.next()?, fields.next()?);
    let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
    Some(ReleaseFile {
        parsed: match filename.ends_with(".whl") {
            true => FileName::Wheel(filename.parse().ok()?),
            false => FileName::Source(version.clone()),
        },
        filename: filename.to_owned(),
        sha256: text(sha256),
        size: size.parse().ok(),
        yanked: flags.contains('y'),
        requires_python: requires_python(python),
        has_metadata: flags.contains('m'),
        metadata_sha256: text(metadata_sha256),
        url: url.to_owned(),
        number,
    })
}
