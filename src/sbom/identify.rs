//! Whose library a file is, and which release: by its name and by its content.

use std::collections::BTreeSet;

use crate::model::library::is_grafted;
use crate::model::text::clean;
use crate::registry::{BundledLibrary, Registry};

/// A library inside a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identified {
    /// The project: `openssl`; of a library that no row knows, the stem of its name.
    pub name: String,
    /// Whether a row knows it.
    pub is_known: bool,
    /// The file in the package.
    pub file: String,
    /// Whether a module links it statically.
    pub is_static: bool,
    /// The releases that were found, and by what: `content`, `file name`.
    pub versions: Vec<(String, &'static str)>,
    /// What could be its release, and by what: each could confirm what somebody else says.
    pub possible: Vec<(&'static str, BTreeSet<String>)>,
    /// Vendor and product in the National Vulnerability Database.
    pub cpe: Option<String>,
    /// Other names of the project in bills of materials.
    pub aliases: Vec<String>,
}

/// Whether a file is a module that Python imports, or a library: `x.cpython-312-x86_64-linux-gnu.so`, `x.abi3.so`.
pub fn is_module(path: &str) -> bool {
    let name = file_name(path);
    [".cpython-", ".abi3.so", ".pypy"].iter().any(|mark| name.contains(mark))
        || (name.ends_with(".so") && !name.starts_with("lib"))
}

/// Whether a library is one of others that a tool put into the wheel: from a `NAME.libs` folder, or with a hash in its name.
pub fn is_of_others(path: &str) -> bool {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    folder.split('/').any(|part| part.ends_with(".libs") || part == ".dylibs") || is_grafted(file_name(path))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The package that a file is in.
#[derive(Debug, Clone, Copy)]
pub struct Of<'p> {
    /// Normalized name.
    pub name: &'p str,
    /// Its version.
    pub version: &'p str,
}

/// What a file is. Of a module, the libraries that it links statically; of a library, its project. A library of the package itself,
/// which no row knows, is nothing.
pub fn identify(registry: &Registry, of: Of<'_>, path: &str, content: &[u8]) -> Vec<Identified> {
    let rows = registry.bundled_libraries();
    if is_module(path) {
        let linked = rows.iter().filter(|row| row.modules).filter_map(|row| {
            let version = version_in(row, content)?;
            Some(found(row, path, true, vec![(version, "content")]))
        });
        return linked.collect();
    }
    let stem = stem(file_name(path));
    // `libcurl-fiona-1d984654.so.4`: some name the package too.
    let stem = stem.strip_suffix(&format!("-{}", of.name)).map(str::to_owned).unwrap_or(stem);
    let row =
        rows.iter().filter_map(|row| Some((row, fit(&row.sonames, &stem)?))).max_by_key(|(_, fit)| *fit);
    match row {
        Some((row, _)) => vec![library(row, of, path, &stem, content)],
        None if is_of_others(path) && !is_own(&stem, of.name) => vec![Identified {
            name: clean(&stem, 100),
            is_known: false,
            file: clean(path, 300),
            is_static: false,
            versions: Vec::new(),
            possible: vec![(CONTENT, numbers_in(content))],
            cpe: None,
            aliases: Vec::new(),
        }],
        None => Vec::new(),
    }
}

/// A library that a row knows.
fn library(row: &BundledLibrary, of: Of<'_>, path: &str, stem: &str, content: &[u8]) -> Identified {
    let bare = || {
        let texts = version_texts(content);
        let whole: Vec<&String> = texts.iter().filter(|text| text.split('.').count() >= 3).collect();
        if let ([one], true) = (whole.as_slice(), row.bare) { Some((*one).clone()) } else { None }
    };
    let of_content = version_in(row, content).or_else(bare);
    let rule = row.file.iter().find(|(stems, _)| fit(std::slice::from_ref(*stems), stem).is_some());
    let of_name = rule.and_then(|(_, rule)| version_of_name(rule, file_name(path)));
    let listed = releases_of_numbers(row, stem, file_name(path));
    let of_numbers = if let [one] = listed.as_slice() { Some(one.clone()) } else { None };
    let of_package = fit(&row.wheels, of.name).map(|_| of.version.to_owned());
    let mut versions: Vec<(String, &'static str)> = Vec::new();
    // A name that says the beginning of a release only confirms.
    let (begins, of_name) = match of_name {
        Some(name) if name.ends_with('*') => (Some(name), None),
        name => (None, name),
    };
    versions.extend(of_content.map(|version| (version, CONTENT)));
    versions.extend(version_in_folder(row, content).map(|version| (version, "build folder")));
    versions.extend(version_of_debug_link(content).map(|version| (version, "debug link")));
    versions.extend(of_name.or(of_numbers).map(|version| (version, FILE_NAME)));
    versions.extend(of_package.map(|version| (version, "package")));
    let possible = vec![(CONTENT, numbers_in(content)), (FILE_NAME, listed.into_iter().collect())];
    // What one says, the others may have too.
    if let Some((version, _)) = versions.first().cloned() {
        let begins = begins.is_some_and(|begins| version.starts_with(begins.trim_end_matches('*')));
        for (from, all) in &possible {
            let is_there = all.contains(&version) || (begins && *from == FILE_NAME);
            if is_there && !versions.iter().any(|(_, other)| other == from) {
                versions.push((version.clone(), from));
            }
        }
    }
    Identified { versions, possible, ..found(row, path, false, Vec::new()) }
}

/// The releases whose files have these numbers behind `.so.`.
fn releases_of_numbers(row: &BundledLibrary, stem: &str, name: &str) -> Vec<String> {
    let Some((_, numbers)) = name.split_once(".so.") else { return Vec::new() };
    let lists = row.numbers.iter().filter(|(stems, _)| fit(std::slice::from_ref(*stems), stem).is_some());
    let lines = lists.flat_map(|(_, lines)| lines).filter_map(|line| line.split_once(' '));
    let releases = lines.filter(|(own, _)| *own == numbers).flat_map(|(_, releases)| releases.split(' '));
    releases.map(str::to_owned).collect()
}

/// All numbers of three parts and more in a content that nothing continues: `1.15.12` of `cairo 1.15.12 (`, and not the `2.2.5` of
/// `GLIBC_2.2.5`. What follows a hyphen is of the name of a folder or a file with debug information, which is another source.
fn numbers_in(content: &[u8]) -> BTreeSet<String> {
    /// The longest number, and how many are kept.
    const LONGEST: usize = 24;
    const MOST: usize = 5_000;
    let is_part = |b: u8| b.is_ascii_digit() || b == b'.';
    let mut all = BTreeSet::new();
    let mut end = 0;
    for dot in memchr::memchr_iter(b'.', content) {
        if dot < end || all.len() >= MOST {
            continue;
        }
        let start = content[..dot].iter().rposition(|b| !is_part(*b)).map_or(0, |at| at + 1);
        end = content[dot..].iter().position(|b| !is_part(*b)).map_or(content.len(), |at| dot + at);
        let text = &content[start..end];
        let before = start.checked_sub(1).map(|at| content[at]);
        // `v1.2.3`
        let before = match before {
            Some(b'v') => start.checked_sub(2).map(|at| content[at]),
            other => other,
        };
        let is_word = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
        let is_number = (5..=LONGEST).contains(&text.len())
            && text.iter().filter(|b| **b == b'.').count() >= 2
            && text.split(|b| *b == b'.').all(|part| !part.is_empty());
        if is_number && !is_word(before) && !is_word(content.get(end).copied()) {
            all.insert(String::from_utf8_lossy(text).into_owned());
        }
    }
    all
}

/// Whether a library with a hash in its name is the package's own: `libRDKitAlignment` of rdkit.
fn is_own(stem: &str, package: &str) -> bool {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_', '.'], "");
    let stem = plain(stem.strip_prefix("lib").unwrap_or(stem));
    !package.is_empty() && stem.starts_with(&plain(package))
}

/// Texts of a content, from one zero byte to the next, that have the form of a version: `1.5.7`, `1.1.1k`.
fn version_texts(content: &[u8]) -> BTreeSet<String> {
    /// The longest text, and how many are kept.
    const LONGEST: usize = 24;
    const MOST: usize = 500;
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'-' | b'_');
    let texts = content.split(|b| *b == 0).filter(|text| {
        (3..=LONGEST).contains(&text.len())
            && text[0].is_ascii_digit()
            && text.contains(&b'.')
            && text.iter().all(is_part)
    });
    let is_version = |text: &String| {
        let mut parts = text.split('.');
        let has_zero = |part: &str| part.len() > 1 && part.starts_with('0');
        parts.all(|part| part.starts_with(|c: char| c.is_ascii_digit()) && !has_zero(part))
    };
    texts.filter_map(|text| String::from_utf8(text.to_vec()).ok()).filter(is_version).take(MOST).collect()
}

fn found(
    row: &BundledLibrary,
    path: &str,
    is_static: bool,
    versions: Vec<(String, &'static str)>,
) -> Identified {
    Identified {
        name: row.name.clone(),
        is_known: true,
        file: clean(path, 300),
        is_static,
        versions,
        possible: Vec::new(),
        cpe: row.cpe.clone(),
        aliases: row.packages.clone(),
    }
}

/// A library's name without the hash that auditwheel puts into it and without what follows `.so`: `libpng16` of
/// `libpng16-529cb57a.so.16.58.0`, `libopenblasp-r0` of `libopenblasp-r0-59ffcd50.3.15.so`.
fn stem(name: &str) -> String {
    let before = name.split(".so").next().unwrap_or(name);
    let before = match before.rsplit_once('.') {
        // torchvision's own tool: `libpng16.86585de4.so.16`.
        Some((stem, hash)) if hash.len() == 8 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => stem,
        _ => before,
    };
    let mut parts: Vec<&str> = before.split('-').collect();
    let is_hash = |part: &str| part.len() >= 8 && part.bytes().take(8).all(|b| b.is_ascii_hexdigit());
    // Grafted twice, it has two.
    while let [_, .., last] = parts.as_slice()
        && is_hash(last)
        && last.get(8..).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    {
        parts.pop();
    }
    parts.join("-")
}

/// How well patterns fit a name: by how many characters; the whole name before a beginning.
fn fit(patterns: &[String], name: &str) -> Option<usize> {
    let of = |pattern: &String| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start).then_some(start.len()),
        None => (pattern == name).then_some(usize::MAX),
    };
    patterns.iter().filter_map(of).max()
}

/// The release that the content states; `None` where it states none, or several.
fn version_in(row: &BundledLibrary, content: &[u8]) -> Option<String> {
    only(row.text.iter().cloned(), content)
}

/// The release in the name of the folder in which a project was built, which compilers leave behind: `/openjpeg-2.5.4/`.
fn version_in_folder(row: &BundledLibrary, content: &[u8]) -> Option<String> {
    let names = std::iter::once(&row.name).chain(&row.packages);
    only(names.map(|name| format!("/{name}-{{v}}/")), content)
}

/// The release in the name of the file with debug information that RPM's builds link to: `1.13.1` of
/// `libxcb.so.1.1.0-1.13.1-1.el8.x86_64.debug`.
fn version_of_debug_link(content: &[u8]) -> Option<String> {
    const END: &[u8] = b".debug\0";
    let of = |at: usize| {
        let start = content[..at].iter().rposition(|b| !b.is_ascii_graphic()).map_or(0, |at| at + 1);
        let name = std::str::from_utf8(&content[start..at]).ok()?;
        // Name, version, release with the architecture.
        let (rest, release) = name.rsplit_once('-')?;
        let (file, version) = rest.rsplit_once('-')?;
        let is_of_rpm = file.contains(".so")
            && release.rsplit_once('.').is_some_and(|(_, arch)| ARCHITECTURES.contains(&arch));
        (is_of_rpm && version.starts_with(|c: char| c.is_ascii_digit())).then(|| version.to_owned())
    };
    memchr::memmem::rfind_iter(content, END).take(8).find_map(of)
}

/// RPM's names of processors.
const ARCHITECTURES: [&str; 5] = ["x86_64", "aarch64", "i686", "ppc64le", "s390x"];

/// The version that texts with a place for it have in a content; `None` where there are several.
fn only(texts: impl Iterator<Item = String>, content: &[u8]) -> Option<String> {
    let mut one: Option<String> = None;
    for text in texts {
        let ((before, after), is_day) = match text.split_once("{day}") {
            Some(parts) => (parts, true),
            None => (text.split_once("{v}")?, false),
        };
        for at in memchr::memmem::find_iter(content, before.as_bytes()) {
            let text = &content[at + before.len()..];
            let version = if is_day { day_at(text) } else { version_at(text, after) };
            let Some(version) = version else { continue };
            match &one {
                Some(other) if *other != version => return None,
                _ => one = Some(version),
            }
        }
    }
    one
}

/// The version that a text begins with, up to what follows it: digits first, then digits, letters, dots, pluses and hyphens.
fn version_at(text: &[u8], after: &str) -> Option<String> {
    /// Maximum length of a version.
    const LONGEST: usize = 40;
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'+' | b'-' | b'_');
    let text = &text[..text.len().min(LONGEST)];
    let end = match after.is_empty() {
        true => text.iter().position(|b| !is_part(b)).unwrap_or(text.len()),
        false => memchr::memmem::find(text, after.as_bytes())?,
    };
    let version = text.get(..end).filter(|version| version.iter().all(is_part))?;
    let version = std::str::from_utf8(version).ok()?.trim_end_matches(['.', '-', '+', '_']);
    (version.starts_with(|c: char| c.is_ascii_digit()) && version.contains('.')).then(|| version.to_owned())
}

/// The day that a text begins with, which is the release of some projects: `20250814`.
fn day_at(text: &[u8]) -> Option<String> {
    let day = text.get(..8).filter(|day| day.starts_with(b"20") && day.iter().all(u8::is_ascii_digit))?;
    String::from_utf8(day.to_vec()).ok()
}

/// The release by the numbers behind `.so.`, as a rule says it ([`BundledLibrary::file`]).
fn version_of_name(rule: &str, name: &str) -> Option<String> {
    let numbers: Vec<&str> = name.split_once(".so.")?.1.split('.').collect();
    if !numbers.iter().all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())) {
        return None;
    }
    let (first, mut rest) = rule.split_once(':').map_or((None, rule), |(first, rest)| (Some(first), rest));
    if first.is_some() && first != numbers.first().copied() {
        return None;
    }
    let mut out = String::new();
    while let Some((before, tail)) = rest.split_once('{') {
        let (place, after) = tail.split_once('}')?;
        out.push_str(before);
        out.push_str(&number_at(place, &numbers)?);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

/// A part of a release: a number by its place as it is written, `1`, or what a project made of it: `1/100%100`, the sum `1+2/100`.
fn number_at(place: &str, numbers: &[&str]) -> Option<String> {
    if let Ok(at) = place.parse::<usize>() {
        return numbers.get(at).map(|number| (*number).to_owned());
    }
    let end = place.find(['/', '%']).unwrap_or(place.len());
    let mut value: u64 = 0;
    for at in place[..end].split('+') {
        let number: u64 = numbers.get(at.parse::<usize>().ok()?)?.parse().ok()?;
        value = value.checked_add(number)?;
    }
    let mut rest = &place[end..];
    while let Some(operator) = rest.chars().next() {
        let tail = &rest[1..];
        let end = tail.find(['/', '%']).unwrap_or(tail.len());
        let by: u64 = tail[..end].parse().ok()?;
        value = if operator == '/' { value.checked_div(by)? } else { value.checked_rem(by)? };
        rest = &tail[end..];
    }
    Some(value.to_string())
}

/// What the bytes of a file say.
const CONTENT: &str = "content";
/// What its name says.
const FILE_NAME: &str = "file name";

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> BundledLibrary {
        BundledLibrary {
            name: "openssl".into(),
            sonames: vec!["libcrypto".into(), "libssl*".into()],
            packages: Vec::new(),
            cpe: None,
            file: std::collections::BTreeMap::new(),
            text: vec!["OpenSSL {v} ".into()],
            bare: false,
            wheels: Vec::new(),
            modules: true,
            numbers: std::collections::BTreeMap::new(),
        }
    }

    #[test]
    fn numbers_of_files_and_their_releases() {
        for (rule, name, expected) in [
            ("2:{1/10000}.{1/100%100}.{1%100}", "libcairo-dfbea965.so.2.11512.0", Some("1.15.12")),
            ("0:2.{1+2/100}.{1+2%100}", "libSDL2-2-1667c208.0.so.0.2800.4", Some("2.28.4")),
            ("0:2.{1+2/100}.{1+2%100}", "libSDL2_mixer.so.0.600.3", Some("2.6.3")),
            ("20{0}*", "libabsl_base.so.2508.0.0", Some("202508*")),
            ("{0/0}", "libx.so.1.1", None),
            ("{7}", "libx.so.1.1", None),
            ("{1^2}", "libx.so.1.1", None),
        ] {
            assert_eq!(version_of_name(rule, name).as_deref(), expected, "{rule} {name}");
        }
        let listed = BundledLibrary {
            numbers: [("libwebp*".to_owned(), vec!["7.2.0 1.6.0".to_owned(), "3.0.5 1.3 1.4".to_owned()])]
                .into(),
            ..row()
        };
        assert_eq!(releases_of_numbers(&listed, "libwebp", "libwebp-1.so.7.2.0"), ["1.6.0"]);
        assert_eq!(releases_of_numbers(&listed, "libwebpmux", "libwebpmux.so.3.0.5"), ["1.3", "1.4"]);
        assert!(releases_of_numbers(&listed, "libz", "libz.so.7.2.0").is_empty());
        let content = b"GLIBC_2.2.5\0cairo 1.15.12 (x)\0v3.8.0\0a-2.5.4/\x001.2\x001.2.3x\0x9.9.9\x001.1.1.1";
        let numbers: Vec<String> = numbers_in(content).into_iter().collect();
        assert_eq!(numbers, ["1.1.1.1", "1.15.12", "3.8.0"]);
        for (content, expected) in [
            (&b"\0\0libxcb.so.1.1.0-1.13.1-1.el8.x86_64.debug\0\0\xab"[..], Some("1.13.1")),
            (b"\0libgomp.so.1.0.0-8.5.0-28.el8_10.alma.1.x86_64.debug\0", Some("8.5.0")),
            (b"\0d7a3c4.debug\0", None),
            (b"\0x-y-z.debug\0", None),
            (b".debug\0", None),
        ] {
            assert_eq!(version_of_debug_link(content).as_deref(), expected);
        }
        let absl = BundledLibrary { text: vec!["lts_{day}".into()], ..row() };
        assert_eq!(version_in(&absl, b"absl12lts_2025081413Address").as_deref(), Some("20250814"));
        assert_eq!(version_in(&absl, b"absl12lts_2025").as_deref(), None);
    }

    #[test]
    fn a_name_without_what_tools_add() {
        for (name, expected) in [
            ("libpng16-529cb57a.so.16.58.0", "libpng16"),
            ("libopenblasp-r0-59ffcd50.3.15.so", "libopenblasp-r0"),
            ("libxcb-shape-7716c890.so.0.0.0", "libxcb-shape"),
            ("libgfortran-040039e1-0352e75f.so.5.0.0", "libgfortran"),
            ("libpng16.86585de4.so.16", "libpng16"),
            ("libcrypto.so.3", "libcrypto"),
            ("libc++abi.so", "libc++abi"),
            ("libabcdef12.so", "libabcdef12"),
        ] {
            assert_eq!(stem(name), expected);
        }
    }

    #[test]
    fn modules_are_not_libraries() {
        for (path, module, others) in [
            ("PIL/_imaging.cpython-312-x86_64-linux-gnu.so", true, false),
            ("pillow.libs/libjpeg-6dc8d115.so.62.4.0", false, true),
            ("cryptography/hazmat/bindings/_rust.abi3.so", true, false),
            ("torch/lib/libtorch_cpu.so", false, false),
            ("a/_x.so", true, false),
        ] {
            assert_eq!((is_module(path), is_of_others(path)), (module, others), "{path}");
        }
    }

    #[test]
    fn a_release_is_stated_once() {
        for (content, expected) in [
            (&b"\0OpenSSL 3.0.13 30 Jan 2024\0"[..], Some("3.0.13")),
            (b"OpenSSL 1.1.1k  FIPS 25 Mar 2021", Some("1.1.1k")),
            (b"OpenSSL 1.1.1 a OpenSSL 1.1.1 b", Some("1.1.1")),
            (b"OpenSSL 1.1.1 a OpenSSL 3.0.0 b", None),
            (b"OpenSSL 1.1.1", None),
            (b"OpenSSL 1.1.1-x is", Some("1.1.1-x")),
            (b"OpenSSL 3 x", None),
            (b"", None),
        ] {
            assert_eq!(version_in(&row(), content).as_deref(), expected);
        }
        for (rule, name, expected) in [
            ("1.6.{1}", "libpng16-529cb57a.so.16.58.0", Some("1.6.58")),
            ("1.6.{1}", "libpng16.so.16", None),
            ("3:{0}.{1}.{2}", "libsqlite3.so.3.53.4", Some("3.53.4")),
            ("3:{0}.{1}.{2}", "libsqlite3.so.0.8.6", None),
            ("{0}.{1}", "libx.so.1.x", None),
        ] {
            assert_eq!(version_of_name(rule, name).as_deref(), expected, "{rule} {name}");
        }
        let texts: Vec<String> =
            version_texts(b"\x001.5.7\x00001.001\x001.2k\x003\x00a1.2\x00").into_iter().collect();
        assert_eq!(texts, ["1.2k", "1.5.7"]);
        assert!(is_own("libRDKitAlignment", "rdkit") && !is_own("libpng16", "pillow"));
        let patterns = &row().sonames;
        assert_eq!((fit(patterns, "libcrypto"), fit(patterns, "libssl3")), (Some(usize::MAX), Some(6)));
        assert_eq!(fit(patterns, "libcryptopp"), None);
    }
}
