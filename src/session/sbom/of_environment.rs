//! What is in the packages of an environment.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Contents, MAX_TEXT, is_read, tell, with_version_in_code};
use crate::inspect::{self, Depth, Detail, FileTree as _, ThisMachine};
use crate::model::installed::{Distribution, Installed};
use crate::model::licence::Licence;
use crate::model::text::clean;
use crate::registry::Registry;
use crate::sbom::{Of, Package, identify, parts, stated};
use crate::session::Interface;
use crate::session::failure::Failure;

/// Maximum number of bills of a package.
const MAX_BILLS: usize = 100;

/// Adds to each package what is in its files. What is not installed as it is locked stays without.
///
/// # Errors
/// When the environment cannot be read.
pub(super) fn fill(
    registry: &Registry,
    prefix: &Path,
    packages: &mut [Package],
    interface: &dyn Interface,
) -> Result<(), Failure> {
    let installed = inspect::read(&ThisMachine, prefix, Depth::Sizes)
        .map_err(|error| Failure::input(error.to_string()).hint("name the folder of a venv"))?;
    let own: BTreeMap<&str, &Distribution> =
        installed.distributions.iter().map(|own| (own.name.as_str(), own)).collect();
    let mut absent: Vec<&str> = Vec::new();
    for package in packages.iter_mut().filter(|package| package.kind == "pypi") {
        let version = |own: &Distribution| own.version.valid().map(|version| version.clone().without_local());
        let locked =
            package.version.parse::<pep440_rs::Version>().ok().map(pep440_rs::Version::without_local);
        match own.get(package.name.as_str()).filter(|own| version(own) == locked) {
            Some(own) => {
                let contents = contents(registry, &installed, own);
                package.parts = parts(contents.files, &contents.bills);
                package.licence = contents.licence;
            }
            None => absent.push(&package.name),
        }
    }
    if !absent.is_empty() {
        let shown: Vec<String> = absent.iter().take(5).map(|name| clean(name, 60)).collect();
        let more = if absent.len() > shown.len() {
            format!(" and {} more", absent.len() - shown.len())
        } else {
            String::new()
        };
        interface.warning(&format!(
            "not installed as locked, so what is inside is not listed: {}{more}",
            shown.join(", ")
        ));
    }
    tell(packages, interface);
    Ok(())
}

fn contents(registry: &Registry, installed: &Installed, own: &Distribution) -> Contents {
    let site = installed.site_of(own);
    let info = site.join(&own.dist_info);
    let text = |path: &Path| ThisMachine.text(path, MAX_TEXT);
    let mut out = Contents::default();
    if let Some(metadata) = text(&info.join("METADATA")) {
        out.licence = Licence::of_metadata(&metadata);
    }
    let mut bills = ThisMachine.names(&info.join("sboms"), MAX_BILLS);
    bills.sort_unstable();
    for name in bills {
        let shown = format!("sboms/{name}");
        let found = text(&info.join("sboms").join(&name));
        out.bills.extend(found.and_then(|text| stated(&text, &shown, &own.name)).into_iter().flatten());
    }
    let version = own.version.to_string();
    for path in &own.libraries {
        let file = site.join(path);
        let size = ThisMachine.size(&file).unwrap_or(0);
        let content = match is_read(registry, path, size) {
            true => ThisMachine.start(&file, size).unwrap_or_default(),
            false => Vec::new(),
        };
        let found = identify(registry, Of { name: &own.name, version: &version }, path, &content);
        let read = || inspect::library(&ThisMachine, &file, Detail::All).ok();
        out.files.extend(with_version_in_code(found, read));
    }
    out
}
