//! `bundle --build`: wheels in the place of source distributions, so that nothing is built on the other side.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::BundleOptions;
use super::builder::Builder;
use super::collect::{Extra, Place};
use super::open::OpenBundle;
use super::wheelhouse::{link, unpacked};
use crate::bundle::{self, BundledFile, Needs, Role, Wanted, is_source, is_wheel_of};
use crate::index::sha256_of;
use crate::lockfile::Target;
use crate::model::solution::ChosenPackage;
use crate::model::source::{BuildKind, Source};
use crate::session::Interface;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::scratch::Scratch;
use crate::session::settings::Project;

/// Where the source distributions lie.
pub(super) struct OfBundle<'b> {
    pub folder: &'b Path,
    /// An older bundle, which may have them.
    pub before: Option<&'b OpenBundle>,
    /// What the bundle has besides the lock's files: the installer, which builds as it will install.
    pub extras: &'b [Extra],
}

/// Wheels in a folder that is removed with the value.
#[derive(Default)]
pub(super) struct Wheels {
    pub extras: Vec<Extra>,
    _folder: Option<Scratch>,
}

/// Builds a wheel of each source distribution of the targets; one that an earlier run built is kept, unless this one signs.
///
/// # Errors
/// When a target is not for this machine, or a package cannot be built.
pub(super) fn wheels(
    of: &OfBundle<'_>,
    (project, targets, needs): (&Project, &[&Target], &Needs),
    (global, options): (&Global, &BundleOptions),
    interface: &dyn Interface,
) -> Result<Wheels, Failure> {
    // Who signs answers for what is built: an earlier bundle may have been changed, and no lock has the hash of such a wheel.
    let earlier = match options.sign {
        Some(_) => None,
        None => OpenBundle::open(of.folder, None).ok(),
    };
    let folder = Scratch::new("built")?;
    let mut extras: Vec<Extra> = Vec::new();
    for target in targets {
        let mut left = Vec::new();
        for package in target.packages.iter().filter(|package| is_source(package)) {
            let kept = earlier.as_ref().and_then(|earlier| kept(earlier, package, target));
            match kept.or_else(|| of_another_target(&extras, package)) {
                Some(wheel) => add(&mut extras, &wheel, target)?,
                None => left.push(package),
            }
        }
        if left.is_empty() {
            continue;
        }
        let links = folder.path().join(format!("{}-links", extras.len()));
        of.link(needs, target, &links)?;
        let builder = Builder {
            project,
            target,
            links: &links,
            uv: of.installer(target, folder.path())?,
            index_url: options.index_url.as_deref(),
            offline: global.offline,
            interface,
        };
        let out = folder.path().join(extras.len().to_string());
        fs_err::create_dir_all(&out)?;
        for wheel in builder.wheels(&left, &|package| of.sdist(package), &out)? {
            add(&mut extras, &wheel, target)?;
        }
    }
    Ok(Wheels { extras, _folder: Some(folder) })
}

impl OfBundle<'_> {
    fn sdist(&self, package: &ChosenPackage) -> Option<PathBuf> {
        let file = package.files.first()?;
        self.file(file.sha256.as_deref()?, &file.name)
    }

    /// Lays out the wheels of a target in one folder.
    fn link(&self, needs: &Needs, target: &Target, folder: &Path) -> Result<(), Failure> {
        fs_err::create_dir_all(folder)?;
        let is_own = |own: &&Wanted| own.targets.contains(&target.name) && own.name.ends_with(".whl");
        for own in needs.files.iter().filter(is_own) {
            if let Some(path) = self.file(&own.sha256, &own.name) {
                link(&std::path::absolute(path)?, &folder.join(&own.name))?;
            }
        }
        Ok(())
    }

    /// The bundle's installer, unpacked.
    fn installer(&self, target: &Target, folder: &Path) -> Result<Option<PathBuf>, Failure> {
        let is_own = |extra: &&Extra| extra.role == Role::Installer && extra.targets.contains(&target.name);
        let own = self.extras.iter().find(is_own);
        let wheel = own.and_then(|extra| Some((extra, self.file(&extra.sha256, &extra.name)?)));
        wheel.map(|(extra, path)| unpacked(&path, &extra.name, folder)).transpose()
    }

    fn file(&self, hash: &str, name: &str) -> Option<PathBuf> {
        let place = Path::new(bundle::FILES).join(hash).join(name);
        let folders = std::iter::once(self.folder).chain(self.before.map(|before| before.folder.as_path()));
        folders.map(|folder| folder.join(&place)).find(|path| path.is_file())
    }
}

/// The wheel of a package that an earlier run built for a target.
fn kept(earlier: &OpenBundle, package: &ChosenPackage, target: &Target) -> Option<PathBuf> {
    let is_for =
        |file: &&BundledFile| file.targets.contains(&target.name) || is_for_every_machine(&file.name);
    let mut own = earlier.manifest.files.iter().filter(|file| file.role == Role::Built).filter(is_for);
    let file = own.find(|file| is_wheel_of(&file.name, (&package.name, &package.version)))?;
    let place = earlier.place(file);
    sha256_of(&place).is_ok_and(|hash| hash == file.sha256).then_some(place)
}

/// The wheel of a package that was built for another target and is for every machine.
fn of_another_target(extras: &[Extra], package: &ChosenPackage) -> Option<PathBuf> {
    let is_of = |own: &&Extra| {
        is_for_every_machine(&own.name) && is_wheel_of(&own.name, (&package.name, &package.version))
    };
    match &extras.iter().find(is_of)?.from {
        Place::Here(path) => Some(path.clone()),
        Place::At(_) => None,
    }
}

/// Whether a wheel has neither code for a machine nor for a Python: `six-1.17.0-py3-none-any.whl`.
fn is_for_every_machine(name: &str) -> bool {
    name.ends_with("-none-any.whl")
}

/// Adds a wheel, or a target to one that is there.
fn add(extras: &mut Vec<Extra>, wheel: &Path, target: &Target) -> Result<(), Failure> {
    let name = wheel.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let sha256 = sha256_of(wheel)?;
    if let Some(own) = extras.iter_mut().find(|own| own.name == name && own.sha256 == sha256) {
        own.targets.push(target.name.clone());
        return Ok(());
    }
    extras.push(Extra {
        name,
        role: Role::Built,
        sha256,
        size: Some(fs_err::metadata(wheel)?.len()),
        targets: vec![target.name.clone()],
        from: Place::Here(wheel.to_owned()),
    });
    Ok(())
}

/// Names what is built on the other side, and what it needs there: commits always, for their address is part of what is installed, and
/// source distributions unless wheels of them are built here. Returns whether there are any.
pub(super) fn tell(targets: &[&Target], builds: bool, interface: &dyn Interface) -> bool {
    let is_commit = |package: &ChosenPackage| matches!(package.source, Source::Git { .. });
    let is_left = |package: &ChosenPackage| is_source(package) && !builds;
    let packages = || targets.iter().flat_map(|target| &target.packages);
    let named: BTreeSet<String> = packages().filter(|own| is_commit(own) || is_left(own)).map(said).collect();
    if named.is_empty() {
        return false;
    }
    let list = named.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    interface.note(&format!("built from source on the other side: {list}"));
    let here = match packages().any(is_left) {
        true => "; `envlock bundle --build` builds wheels of source distributions here",
        false => "",
    };
    interface.hint(&format!("`envlock sync --build` allows it there{here}"));
    true
}

/// A package, and what its build needs.
fn said(package: &ChosenPackage) -> String {
    let needs = package.build.as_ref().map(|build| {
        let compiler = match build.kind {
            BuildKind::Pure => None,
            BuildKind::Native => Some("a compiler".to_owned()),
            BuildKind::Cuda => Some("the CUDA toolkit".to_owned()),
        };
        build.needs.iter().cloned().chain(compiler).collect::<Vec<_>>()
    });
    match needs.filter(|needs| !needs.is_empty()) {
        Some(needs) => format!("`{}` (needs {})", package.name, needs.join(" and ")),
        None => format!("`{}`", package.name),
    }
}
