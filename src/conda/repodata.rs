//! A channel's records: `repodata.json` of one platform folder, of which only what is asked for is read.
//!
//! That of a large channel has more than 100,000 records. The text is indexed by name without reading the records, and
//! a solve reads those of the names that it can reach.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use bytes::Bytes;
use rattler_conda_types::package::DistArchiveIdentifier;
use rattler_conda_types::{Matches, PackageRecord, RepoDataRecord};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use url::Url;

use super::channel::canonical;
use super::spec::parse;
use crate::model::conda::{name_of_file, name_of_spec, with_lower_name};
use crate::model::text::clean;

/// Maximum number of records of a platform folder: with its two hashes, one takes more than 256 of the at most 2^30 bytes.
const MAX_RECORDS: usize = 4_000_000;
/// Maximum number of records of one name.
const MAX_OF_NAME: usize = 50_000;
/// Maximum number of records that a solve reads.
const MAX_READ: usize = 400_000;
/// Maximum size of a package in bytes, above that of any.
const MAX_PACKAGE: u64 = 1 << 40;

/// The records of one platform folder of a channel.
pub struct Repodata {
    /// The channel by name: `conda-forge`.
    pub channel: String,
    /// The folder: `linux-64`, `noarch`.
    pub subdir: String,
    text: Bytes,
    /// The places in the text of each name's records: of the file's name, and of the record.
    by_name: HashMap<Box<str>, Vec<(Span, Span)>>,
    count: usize,
}

type Span = std::ops::Range<usize>;

/// Why a text is no repodata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidRepodata(pub String);

/// The records of a channel's platform, unread.
#[derive(Deserialize)]
struct Document<'t> {
    #[serde(borrow, default)]
    packages: Unread<'t>,
    #[serde(borrow, default, rename = "packages.conda")]
    conda: Unread<'t>,
}

/// Records by file name, as they stand in the text.
#[derive(Default)]
struct Unread<'t>(Vec<(&'t str, &'t RawValue)>);

impl<'de: 't, 't> Deserialize<'de> for Unread<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Unread<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("records by file name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut out = Vec::new();
                while let Some(Key(file)) = map.next_key()? {
                    if out.len() == MAX_RECORDS {
                        return Err(serde::de::Error::custom(format_args!(
                            "it has more than {MAX_RECORDS} records"
                        )));
                    }
                    let record: &RawValue = map.next_value()?;
                    out.extend(file.map(|file| (file, record)));
                }
                Ok(Unread(out))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// A file name in the text; `None` if it has an escape, as no package's has.
struct Key<'t>(Option<&'t str>);

impl<'de: 't, 't> Deserialize<'de> for Key<'t> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a file name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Some(text)))
            }

            fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
                Ok(Key(None))
            }
        }
        deserializer.deserialize_str(Text)
    }
}

impl Repodata {
    /// Indexes the text of a `repodata.json`.
    ///
    /// # Errors
    /// When it is not JSON, or has no records.
    pub fn parse(channel: &str, subdir: &str, text: Bytes) -> Result<Repodata, InvalidRepodata> {
        let invalid = |why: String| InvalidRepodata(clean(&why, 200));
        let (mut by_name, mut count) = (HashMap::<Box<str>, Vec<(Span, Span)>>::new(), 0);
        {
            let whole = std::str::from_utf8(&text).map_err(|e| invalid(format!("it is not UTF-8: {e}")))?;
            if !whole.trim_start().starts_with('{') {
                return Err(invalid("it is not a JSON object".to_owned()));
            }
            let document: Document<'_> =
                serde_json::from_str(whole).map_err(|error| invalid(error.to_string()))?;
            let start = whole.as_ptr() as usize;
            let span = |part: &str| {
                let from = part.as_ptr() as usize - start;
                from..from + part.len()
            };
            for (file, record) in document.packages.0.into_iter().chain(document.conda.0) {
                let Some(name) = name_of_file(file) else { continue };
                let records = by_name.entry(name.into()).or_default();
                if records.len() < MAX_OF_NAME {
                    records.push((span(file), span(record.get())));
                    count += 1;
                }
            }
        }
        Ok(Repodata { channel: channel.to_owned(), subdir: subdir.to_owned(), text, by_name, count })
    }

    /// How many records it has.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether it has a package of this name.
    pub fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// The names of its packages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }

    /// The records of a name that can be read. One that cannot is as if it were not there: a channel may have records of a
    /// newer form.
    fn records(&self, name: &str) -> Vec<RepoDataRecord> {
        let places = self.by_name.get(name).map(Vec::as_slice).unwrap_or_default();
        let text = |span: &Span| std::str::from_utf8(self.text.get(span.clone())?).ok();
        let read = |(file, record): &(Span, Span)| {
            let (file, record) = (text(file)?, text(record)?);
            let mut record: PackageRecord = serde_json::from_str(record).ok()?;
            let identifier = DistArchiveIdentifier::try_from_filename(file)?;
            // The name in the index is the file's.
            let own = format!("{name}-{}-{}.", record.version.as_str(), record.build);
            let is_same = record.name.as_normalized() == name && file.starts_with(&own);
            let specs = record.depends.iter().chain(&record.constrains);
            let is_word = |text: &str| {
                let is_plain = |b: u8| b.is_ascii_alphanumeric() || b"._-+!".contains(&b);
                !text.is_empty() && text.len() <= 128 && text.bytes().all(is_plain)
            };
            let is_installable = record.sha256.is_some()
                && record.size.is_some_and(|size| size <= MAX_PACKAGE)
                && is_word(record.build.as_ref())
                && is_word(&record.version.as_str())
                && is_plain(file)
                && specs.into_iter().all(|spec| is_spec(spec));
            let base = canonical(&self.channel);
            let url = Url::parse(&format!("{base}{}/{file}", self.subdir)).ok()?;
            if !is_same || !is_installable {
                return None;
            }
            record.subdir.clone_from(&self.subdir);
            for spec in record.depends.iter_mut().chain(&mut record.constrains) {
                if name_of_spec(spec).bytes().any(|b| b.is_ascii_uppercase()) {
                    *spec = with_lower_name(spec);
                }
            }
            let record = RepoDataRecord { package_record: record, identifier, url, channel: Some(base) };
            admits_itself(&record).then_some(record)
        };
        // The order of a hash map is not that of the file.
        let mut records: Vec<RepoDataRecord> = places.iter().filter_map(read).collect();
        records.sort_by(|a, b| a.url.cmp(&b.url));
        records
    }
}

impl std::fmt::Debug for Repodata {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Repodata({}/{}, {} records)", self.channel, self.subdir, self.count)
    }
}

/// Whether what a package constrains leaves itself: the solver does not accept one that excludes itself.
fn admits_itself(record: &RepoDataRecord) -> bool {
    let name = record.package_record.name.as_normalized();
    let of_name = record.package_record.constrains.iter();
    let mut own = of_name.filter(|spec| name_of_spec(spec).eq_ignore_ascii_case(name));
    own.all(|spec| parse(spec).is_ok_and(|spec| spec.matches(record)))
}

/// Whether a file name can stand in a URL and a lock as it is.
fn is_plain(file: &str) -> bool {
    file.len() <= 250 && file.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-+!".contains(&b))
}

/// Whether a requirement can stand in a lock.
fn is_spec(spec: &str) -> bool {
    !spec.trim().is_empty() && spec.len() <= 500 && spec.bytes().all(|b| b.is_ascii_graphic() || b == b' ')
}

/// The records that can be reached from some names, by channel in order of preference.
///
/// # Errors
/// When they are more than a solve reads.
///
/// The second value has the names of which not every record can be read.
pub(super) fn reachable(
    channels: &[Repodata],
    names: impl IntoIterator<Item = String>,
) -> Result<(Vec<Vec<RepoDataRecord>>, BTreeSet<String>), InvalidRepodata> {
    let mut order: Vec<&str> = Vec::new();
    for repodata in channels {
        if !order.contains(&repodata.channel.as_str()) {
            order.push(&repodata.channel);
        }
    }
    let mut out: BTreeMap<usize, Vec<RepoDataRecord>> = BTreeMap::new();
    let mut seen: HashSet<String> = HashSet::new();
    let mut open: Vec<String> = names.into_iter().collect();
    let mut count = 0;
    let mut unread: BTreeSet<String> = BTreeSet::new();
    while let Some(name) = open.pop() {
        if name.starts_with("__") || !seen.insert(name.clone()) {
            continue;
        }
        let mut is_unread = false;
        for repodata in channels {
            let records = repodata.records(&name);
            is_unread |= records.len() < repodata.by_name.get(name.as_str()).map_or(0, Vec::len);
            count += records.len();
            if count > MAX_READ {
                return Err(InvalidRepodata(format!(
                    "more than {MAX_READ} records can be reached from what is asked for"
                )));
            }
            let needed: BTreeSet<&str> = records
                .iter()
                .flat_map(|record| &record.package_record.depends)
                .map(|spec| name_of_spec(spec))
                .collect();
            open.extend(needed.into_iter().filter(|name| !seen.contains(*name)).map(str::to_owned));
            let at = order.iter().position(|channel| *channel == repodata.channel).unwrap_or(0);
            out.entry(at).or_default().extend(records);
        }
        if is_unread {
            unread.insert(name);
        }
    }
    Ok((out.into_values().collect(), unread))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(name: &str, version: &str, more: &str) -> String {
        let sha = "a".repeat(64);
        format!(
            "\"{name}-{version}-0.conda\": {{\"name\": \"{name}\", \"version\": \"{version}\", \"build\": \"0\", \"build_number\": 0, \"subdir\": \"linux-64\", \"sha256\": \"{sha}\", \"md5\": \"{}\", \"size\": 1{more}}}",
            "b".repeat(32)
        )
    }

    fn parse(records: &[String]) -> Result<Repodata, InvalidRepodata> {
        let text =
            format!("{{\"info\": {{}}, \"packages\": {{}}, \"packages.conda\": {{{}}}}}", records.join(","));
        Repodata::parse("conda-forge", "linux-64", text.into())
    }

    #[test]
    fn only_what_can_be_reached_is_read() {
        let records = [
            record("a", "1", ", \"depends\": [\"b >=2\", \"__cuda\"]"),
            record("b", "2", ""),
            record("b-c", "3", ""),
            record("broken", "1", ", \"depends\": 7"),
            // It excludes itself.
            record("a", "3", ", \"constrains\": [\"a <3\"]"),
            // The record says another name than its file.
            record("liar", "1", "").replace("\"name\": \"liar\"", "\"name\": \"a\""),
        ];
        let repodata = parse(&records).unwrap();
        assert_eq!(repodata.len(), 6);
        assert!(repodata.has("b-c") && !repodata.has("c"));
        let names = ["a".to_owned(), "broken".to_owned(), "liar".to_owned()];
        let (all, unread) = reachable(&[repodata], names).unwrap();
        assert_eq!(unread.into_iter().collect::<Vec<_>>(), ["a", "broken", "liar"]);
        let mut files: Vec<String> = all[0].iter().map(|record| record.identifier.to_string()).collect();
        files.sort();
        assert_eq!(files, ["a-1-0.conda", "b-2-0.conda"]);
    }

    #[test]
    fn what_is_no_repodata() {
        let parse = |text: &'static str| Repodata::parse("x", "noarch", text.as_bytes().into());
        for text in ["", "[]", "<html>", "{\"packages\": []}", "\u{0}"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("{}").unwrap().is_empty());
        assert!(Repodata::parse("x", "noarch", Bytes::from_static(&[0xff])).is_err());
    }
}
