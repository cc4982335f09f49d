//! Which environment the program of an image runs in, and what its programs see.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{ImageOptions, program};
use crate::image::{Format, Image};
use crate::inspect::{self, Environments, FileTree as _};
use crate::session::verify::Place;

/// Maximum number of environments that are judged.
const MAX_JUDGED: usize = 20;

/// The environment that the image's program runs in. Where it runs in none, the one with most packages.
pub(super) fn main_environment(
    place: &Place<'_>,
    command: &[String],
    found: &Environments,
) -> Option<PathBuf> {
    let python = program::python_of(place, command);
    // The search may have passed it over: it is below a folder that is not searched, or the search ended at its limit.
    let has_packages = |prefix: &PathBuf| {
        let read = || inspect::read(place.tree, prefix, inspect::Depth::Sizes);
        found.found.contains_key(prefix) || read().is_ok_and(|own| !own.distributions.is_empty())
    };
    let own = |python: &PathBuf| prefixes_of(place, python).into_iter().find(has_packages);
    if let Some(prefix) = python.as_ref().and_then(own) {
        return Some(prefix);
    }
    // A Python without packages of its own may have those of PYTHONPATH or of the user.
    let sees_others = |prefix: &PathBuf| {
        let installed = inspect::read(place.tree, prefix, inspect::Depth::Sizes).ok();
        let variable = |name: &str| place.variable(name);
        installed.is_some_and(|own| !inspect::visible(place.tree, &own, &place.root, &variable).is_empty())
    };
    if let Some(prefix) = python.and_then(|python| prefixes_of(place, &python).into_iter().find(sees_others))
    {
        return Some(prefix);
    }
    found
        .found
        .iter()
        .max_by_key(|(_, one)| (one.has_framework, one.packages))
        .map(|(prefix, _)| prefix.clone())
}

/// The folders whose packages an interpreter may have: of a venv its own, else those of the file that it leads to, and what
/// Debian's Python has in `/usr/local`.
fn prefixes_of(place: &Place<'_>, python: &Path) -> Vec<PathBuf> {
    let above = |file: &Path| file.parent().and_then(Path::parent).map(Path::to_path_buf);
    let mut out = Vec::new();
    let Some(own) = above(python) else { return out };
    let is_venv = place.tree.exists(&own.join("pyvenv.cfg"));
    let real_folder = python.parent().and_then(|folder| place.tree.real(folder).ok());
    out.extend(real_folder.and_then(|folder| folder.parent().map(Path::to_path_buf)));
    out.push(own);
    if !is_venv && let Some(real) = place.tree.real(python).ok().and_then(|file| above(&file)) {
        out.push(real.join("local"));
        out.push(real);
    }
    out
}

/// The variables of an image's programs, with those that a runtime sets where the image does not.
pub(super) fn with_defaults(image: &Image) -> BTreeMap<String, String> {
    let config = &image.config;
    let mut variables = config.variables.clone();
    let path = || "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    variables.entry("PATH".to_owned()).or_insert_with(path);
    let user = match config.user.split(':').next().unwrap_or_default() {
        "" => "0",
        user => user,
    };
    // `name:x:uid:gid:comment:home:shell`, passwd(5); runtimes take the home from it.
    let users = image.tree.text(Path::new("/etc/passwd"), 1 << 20).unwrap_or_default();
    let home = users.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        (fields.len() >= 6 && [fields[0], fields[2]].contains(&user)).then(|| fields[5].to_owned())
    });
    let home = home.or_else(|| ["root", "0"].contains(&user).then(|| "/root".to_owned()));
    if let Some(home) = home.filter(|_| image.format == Format::Layers) {
        variables.entry("HOME".to_owned()).or_insert(home);
    }
    variables
}

/// A folder on the way to an environment's interpreter that only its owner may enter, where programs run as a user whose
/// folders are not known: the owners of an image's files are not kept.
pub(super) fn closed_to_user(place: &Place<'_>, image: &Image, prefix: &Path) -> Option<PathBuf> {
    let user = image.config.user.split(':').next().unwrap_or_default();
    if image.format != Format::Layers || ["", "0", "root"].contains(&user) {
        return None;
    }
    let home = place.variable("HOME").filter(|home| home != "/").map(PathBuf::from);
    let python = ["bin/python", "bin/python3"].map(|name| prefix.join(name));
    let real = python.iter().find_map(|python| place.tree.real(python).ok())?;
    let mut folders: Vec<&Path> = python[0].ancestors().skip(1).chain(real.ancestors().skip(1)).collect();
    folders.sort();
    let is_closed = |folder: &&&Path| {
        let is_own = home.as_ref().is_some_and(|home| folder.starts_with(home));
        !is_own && place.tree.about(folder).is_ok_and(|about| about.mode & 0o001 == 0)
    };
    folders.iter().find(is_closed).map(|folder| folder.to_path_buf())
}

/// The environments of an image that are judged: the one that is named, else the one that its programs run in, and without a
/// lock others beside it.
pub(super) fn environments_to_judge(
    place: &Place<'_>,
    command: &[String],
    found: &Environments,
    options: &ImageOptions,
) -> Vec<PathBuf> {
    if let Some(prefix) = &options.prefix {
        return vec![Path::new("/").join(prefix)];
    }
    let main = main_environment(place, command, found);
    // A lock describes one environment.
    if options.lock.is_some() {
        return main.into_iter().collect();
    }
    // Those with a framework come before others.
    let mut all: Vec<&PathBuf> = found.found.keys().filter(|prefix| Some(*prefix) != main.as_ref()).collect();
    all.sort_by_key(|prefix| !found.found[*prefix].has_framework);
    main.iter().chain(all).take(MAX_JUDGED).cloned().collect()
}
