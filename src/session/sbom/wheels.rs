//! What is in wheels.

use std::path::{Path, PathBuf};

use super::{Contents, MAX_TEXT, is_read, tell, with_version_in_code};
use crate::index;
use crate::inspect::{self, Detail};
use crate::model::licence::Licence;
use crate::model::text::{clean, normalized_name};
use crate::model::wheel::{InvalidWheelName, WheelName};
use crate::registry::Registry;
use crate::sbom::{Bill, File, Of, Package, identify, parts, stated};
use crate::session::Interface;
use crate::session::failure::Failure;

/// The bill of wheels.
///
/// # Errors
/// When a file is no wheel, or cannot be read.
pub(super) fn bill(
    registry: &Registry,
    wheels: &[PathBuf],
    interface: &dyn Interface,
) -> Result<Bill, Failure> {
    let mut packages = Vec::new();
    for wheel in wheels {
        packages.push(of_wheel(registry, wheel)?);
    }
    packages.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    packages.dedup_by(|a, b| (&a.name, &a.version) == (&b.name, &b.version));
    tell(&packages, interface);
    let roots = packages.iter().map(|package| package.name.clone()).collect();
    Ok(Bill { name: "wheels".to_owned(), packages, envelope: None, roots })
}

fn of_wheel(registry: &Registry, path: &Path) -> Result<Package, Failure> {
    let shown = clean(&path.display().to_string(), 300);
    let unreadable = |why: String| Failure::input(format!("cannot read `{shown}`: {why}"));
    let file_name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let name: WheelName = file_name.parse().map_err(|error: InvalidWheelName| {
        unreadable(error.to_string()).hint("name wheels; a project's lock is read without a file")
    })?;
    let file = fs_err::File::open(path)?;
    let sha256 = index::sha256_of(path).map_err(|error| unreadable(error.to_string()))?;
    let mut archive =
        inspect::open_wheel(std::io::BufReader::new(file)).map_err(|error| unreadable(error.to_string()))?;
    let mut contents = Contents::default();
    let (package, version) = (normalized_name(&name.project), name.version.to_string());
    for (place, member, size) in inspect::members_of_wheel(&mut archive) {
        let info = member
            .split_once(".dist-info/")
            .filter(|(folder, _)| !folder.contains('/'))
            .map(|(_, rest)| rest);
        let mut bytes = |limit: u64| {
            inspect::bytes_of_wheel(&mut archive, place, limit)
                .map_err(|error| unreadable(format!("`{}`: {error}", clean(&member, 200))))
        };
        match info {
            Some("METADATA") => {
                contents.licence = Licence::of_metadata(&String::from_utf8_lossy(&bytes(MAX_TEXT)?));
            }
            Some(bill) if bill.starts_with("sboms/") && !bill.ends_with('/') => {
                let text = String::from_utf8_lossy(&bytes(MAX_TEXT)?).into_owned();
                contents.bills.extend(stated(&text, bill, &package).into_iter().flatten());
            }
            _ if inspect::is_library(&member) => {
                let content = if is_read(registry, &member, size) { bytes(size)? } else { Vec::new() };
                let found = identify(registry, Of { name: &package, version: &version }, &member, &content);
                let read = || inspect::library_of_bytes(&content, &member, Detail::All).ok();
                contents.files.extend(with_version_in_code(found, read));
            }
            _ => {}
        }
    }
    Ok(Package {
        name: package,
        version,
        kind: "pypi",
        files: vec![File { name: file_name, url: None, sha256: Some(sha256) }],
        licence: contents.licence,
        parts: parts(contents.files, &contents.bills),
        ..Package::default()
    })
}
