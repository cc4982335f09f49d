//! The environment that `sync` changes: where it is, what it is, and whether sync made it.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::types::{MadeWith, Plan, SyncOptions};
use crate::inspect::{self, Chosen, Environment, NoEnvironment};
use crate::lockfile::{PREINSTALLED_PACKAGES, Target};
use crate::model::installed::Installed;
use crate::model::patches::{Patches, WantedPython};
use crate::model::text::{clean, shell_word};
use crate::model::wheel::Python;
use crate::probe::conda_client;
use crate::probe::pythons::{self, FoundPython, Places};
use crate::session::failure::{Failure, FailureKind};
use crate::session::files;
use crate::session::owner::{self, with_places};
use crate::session::settings::Project;
use crate::session::write;
use crate::sync::{Changes, Interpreter, Place};

/// The folder in an environment that holds sync's mark and its lists of packages.
pub(super) const OWN_FOLDER: &str = ".envlock";
/// The file that marks an environment as made by sync.
pub(super) const MARK: &str = "made-by-sync";
/// The file that is there while packages are removed and replaced. An installer that is killed meanwhile leaves files that no
/// RECORD lists, and Python may import them.
const AT_WORK: &str = "replacing-packages";

/// The environment to change.
pub(super) struct ChosenEnvironment {
    pub place: Place,
    /// How it was chosen.
    pub chosen: Chosen,
    /// What is installed; `None` if there is nothing yet.
    pub installed: Option<Installed>,
    /// Whether sync made it, or will make it.
    pub is_ours: bool,
    /// The Python that it is made with.
    pub made_with: Option<FoundPython>,
}

/// The project itself, where it is a package.
pub(super) struct OwnProject {
    pub name: String,
    pub folder: PathBuf,
    pub is_installed: bool,
}

/// Finds the environment, and the Python to make it with if there is none.
pub(super) fn find(
    options: &SyncOptions,
    project: &Project,
    target: &Target,
    environment: Environment,
    others: Others<'_>,
) -> Result<ChosenEnvironment, Failure> {
    let Environment { prefix: named, chosen } = environment;
    let prefix = from_here(named.clone());
    own_folder(&prefix)?;
    // An earlier run was interrupted while it made the environment. What somebody put there since then is kept.
    if making(&prefix).is_file() && is_unfinished(&prefix) {
        refuse_to_replace(&named, project, "an earlier run was interrupted while it made it")?;
        return to_make(options, target, others, prefix, chosen, true);
    }
    let is_empty = std::fs::read_dir(&prefix).is_ok_and(|mut entries| entries.next().is_none());
    if is_empty || fs_err::symlink_metadata(&prefix).is_err() {
        return to_make(options, target, others, prefix, chosen, false);
    }
    refuse_other_places(&prefix, options)?;
    if prefix.join("condabin").is_dir() {
        return Err(of_base(&prefix));
    }
    let is_ours = is_ours(&prefix, project);
    let python = pythons::interpreter(&prefix);
    let wanted = target.wanted_python();
    let installed = inspect::read(&inspect::ThisMachine, &prefix, inspect::Depth::Sizes).ok();
    let own =
        installed.as_ref().and_then(|i| i.python.map(|own| Python { patch: own.patch.or(i.patch), ..own }));
    let fault = match own {
        _ if !python.exists() => Some("its Python does not exist any more".to_owned()),
        _ if is_ours && was_interrupted(&prefix) => Some(INTERRUPTED.to_owned()),
        Some(own) if !wanted.allows(own) => Some(format!("it has Python {own}, and {wanted} is locked")),
        _ => None,
    };
    match fault {
        // An environment of conda is conda's to make.
        Some(fault) if is_ours && !prefix.join("conda-meta").is_dir() => {
            refuse_to_replace(&named, project, &fault)?;
            to_make(options, target, others, prefix, chosen, true)
        }
        Some(fault) => Err(not_usable(&prefix, &fault)),
        None => Ok(ChosenEnvironment {
            place: Place { prefix, python, make: None },
            chosen,
            installed,
            is_ours,
            made_with: None,
        }),
    }
}

/// Refuses to make an environment anew, which empties its folder, where the folder has more in it than an environment: whoever
/// writes sync's mark into a folder of a repository could have any other emptied.
fn refuse_to_replace(named: &Path, project: &Project, fault: &str) -> Result<(), Failure> {
    let prefix = &from_here(named.to_path_buf());
    let refused = |why: String, hint: &str| {
        let text = format!("`{}` cannot be used: {fault}", prefix.display());
        Err(Failure::new(FailureKind::Installer, format!("{text}; it is not made anew: {why}"))
            .hint(format!("{hint}, or {}", another(prefix))))
    };
    let real = |path: &Path| fs_err::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let (folder, own) = (real(&project.folder), real(prefix));
    if folder.starts_with(&own) {
        return refused("the project is in it".to_owned(), "keep environments below the project");
    }
    // A folder of the project may look like an environment.
    if named.is_symlink() && own.starts_with(&folder) {
        return refused("it is a link to a folder of the project".to_owned(), "remove the link");
    }
    let entries = std::fs::read_dir(prefix).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    match names.find(|name| !OF_NEW_VENV.iter().chain(&OF_USED_VENV).any(|own| own == name)) {
        Some(name) => refused(
            format!("sync did not put `{}` there", clean(&name, 100)),
            "move it away, or remove the folder",
        ),
        None => Ok(()),
    }
}

/// Refuses a folder with something in it that is no environment, or whose Python is that of another place: an installer would
/// change that one.
pub(super) fn refuse_other_places(prefix: &Path, options: &SyncOptions) -> Result<(), Failure> {
    if !prefix.join("pyvenv.cfg").is_file() && !prefix.join("conda-meta").is_dir() {
        return Err(Failure::new(
            FailureKind::Installer,
            format!("`{}` is neither a venv nor a conda environment", prefix.display()),
        )
        .hint(format!("sync changes no other Python; {}", another(prefix))));
    }
    // A binary, or a link to one, takes the environment that it lies in. A script may start any other.
    let python = pythons::interpreter(prefix);
    let real = |path: &Path| fs_err::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let mut start = [0; 2];
    // A dry run does not run it.
    let is_script = !options.dry_run
        && fs_err::File::open(&python)
            .and_then(|mut file| file.read_exact(&mut start))
            .is_ok_and(|()| start == *b"#!");
    match is_script.then(|| pythons::prefix_of(&python)).flatten() {
        Some(other) if real(&other) != real(prefix) => Err(Failure::new(
            FailureKind::Installer,
            format!("`{}` starts the Python of `{}`", python.display(), clean(&other.to_string_lossy(), 200)),
        )
        .hint(format!("sync changes no other Python; {}", another(prefix)))),
        _ => Ok(()),
    }
}

/// Why an environment is made anew that is otherwise as it should be.
const INTERRUPTED: &str = "an earlier `envlock sync` was interrupted while it replaced packages";

/// Whether a run ended while it removed or replaced packages of an environment.
pub(super) fn was_interrupted(prefix: &Path) -> bool {
    prefix.join(OWN_FOLDER).join(AT_WORK).is_file()
}

/// Removes an environment of sync's in which a run was interrupted, so that its tool makes it anew.
///
/// # Errors
/// When there is more in its folder than an environment, or it cannot be removed.
pub(super) fn remove_interrupted(named: &Path, project: &Project) -> Result<(), Failure> {
    let prefix = from_here(named.to_path_buf());
    if was_interrupted(&prefix) && is_ours(&prefix, project) {
        refuse_to_replace(named, project, INTERRUPTED)?;
        fs_err::remove_dir_all(prefix)?;
    }
    Ok(())
}

/// Marks an environment while packages of it are removed and replaced.
pub(super) struct AtWork(Option<PathBuf>);

impl AtWork {
    /// Sets the mark, where something is to be removed or replaced in an environment that sync has been in.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(prefix: &Path, changes: &Changes) -> Result<AtWork, Failure> {
        let folder = own_folder(prefix)?;
        if changes.remove.is_empty() && changes.replace.is_empty() || !folder.is_dir() {
            return Ok(AtWork(None));
        }
        let mark = folder.join(AT_WORK);
        write::replace(&mark, "")?;
        Ok(AtWork(Some(mark)))
    }

    /// Takes the mark away. An installer that ended by itself puts back what it moved; one that a signal ended does not.
    pub fn end(self, done: &Result<(), Failure>) {
        let is_half_done = done.as_ref().is_err_and(Failure::is_killed);
        if let Some(mark) = self.0.filter(|_| !is_half_done) {
            let _ = fs_err::remove_file(mark);
        }
    }
}

/// Whether sync made an environment for this project.
pub(super) fn is_ours(prefix: &Path, project: &Project) -> bool {
    let mark = files::read(&prefix.join(OWN_FOLDER).join(MARK)).ok().flatten();
    mark.is_some_and(|text| text == mark_of(&project.folder))
}

/// The folder of sync's own files in an environment or a project.
///
/// # Errors
/// When something else is there, such as a link to another folder.
pub(super) fn own_folder(place: &Path) -> Result<PathBuf, Failure> {
    let folder = place.join(OWN_FOLDER);
    match fs_err::symlink_metadata(&folder) {
        Ok(metadata) if !metadata.is_dir() => {
            Err(Failure::new(FailureKind::Installer, format!("`{}` is not a folder", folder.display()))
                .hint("remove it: sync keeps its lists of packages there"))
        }
        _ => Ok(folder),
    }
}

/// The error of conda's base environment.
pub(super) fn of_base(prefix: &Path) -> Failure {
    Failure::new(
        FailureKind::Installer,
        format!("`{}` is conda's base environment, which contains conda itself", prefix.display()),
    )
    .hint(another(prefix))
}

/// The error of an environment of somebody else that cannot be used.
fn not_usable(prefix: &Path, fault: &str) -> Failure {
    Failure::new(FailureKind::Installer, format!("`{}` cannot be used: {fault}", prefix.display())).hint(
        format!("sync did not make it for this project, so it does not replace it; {}", another(prefix)),
    )
}

/// The error of an environment of somebody else with another Python.
pub(super) fn of_another_python(prefix: &Path, own: Python, wanted: WantedPython) -> Failure {
    not_usable(prefix, &format!("it has Python {own}, and {wanted} is locked"))
}

/// The content of the mark: the project that the environment was made for. Another project's is not changed beyond what
/// its packages need.
pub(super) fn mark_of(project: &Path) -> String {
    let folder = fs_err::canonicalize(project).unwrap_or_else(|_| project.to_path_buf());
    format!(
        "envlock sync made this environment and may remove packages, for the project\n{}\n",
        folder.display()
    )
}

/// The advice to use a folder that does not exist.
fn another(prefix: &Path) -> String {
    let mut name = prefix.as_os_str().to_owned();
    while Path::new(&name).exists() {
        name.push("-new");
    }
    format!("make another one: `envlock sync --prefix {}`", shell_word(&name.to_string_lossy()))
}

/// What venv and uv put into a new environment.
const OF_NEW_VENV: [&str; 11] = [
    "bin",
    "include",
    "lib",
    "lib64",
    "share",
    "Scripts",
    "Lib",
    "pyvenv.cfg",
    ".gitignore",
    "CACHEDIR.TAG",
    ".lock",
];

/// What sync, packages and their tools put beside that. Source: the `data` of wheels that are installed there, such as
/// jupyter's `etc`; `src` of `pip install -e git+`.
const OF_USED_VENV: [&str; 6] = [OWN_FOLDER, "etc", "man", "var", "src", "doc"];

/// Whether a folder holds nothing but an environment that is being made: no other file, and no package but the installer.
pub(super) fn is_unfinished(prefix: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(prefix) else { return true };
    let is_own = entries.flatten().all(|entry| {
        let name = entry.file_name();
        OF_NEW_VENV.iter().any(|own| name.to_str() == Some(own))
    });
    let installed = inspect::read(&inspect::ThisMachine, prefix, inspect::Depth::Sizes);
    let packages = installed.iter().flat_map(|installed| &installed.distributions);
    is_own && packages.into_iter().all(|own| PREINSTALLED_PACKAGES.contains(&own.name.as_str()))
}

/// The file beside an environment that exists while it is made.
pub(super) fn making(prefix: &Path) -> PathBuf {
    let name = prefix.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    prefix.with_file_name(format!(".{}.envlock-making", name.trim_start_matches('.')))
}

/// Refuses an environment whose `bin/python` is the Python of another place: packages would land there.
pub(super) fn check_python(place: &Place) -> Result<(), Failure> {
    let real = |path: &Path| fs_err::canonicalize(path).ok();
    let said = pythons::prefix_of(&place.python);
    if said.as_deref().and_then(real).is_some_and(|said| Some(said) == real(&place.prefix)) {
        return Ok(());
    }
    let prefix = place.prefix.display();
    let why = match said {
        Some(said) => format!("its Python installs into `{}`", said.display()),
        None => "its Python does not run".to_owned(),
    };
    Err(Failure::new(FailureKind::Installer, format!("`{prefix}` cannot be used: {why}"))
        .hint(another(&place.prefix)))
}

/// A path below the current folder without the current folder, as one would type it. One that looks like an option is
/// absolute.
pub(super) fn from_here(path: PathBuf) -> PathBuf {
    // An environment may be a link to a folder elsewhere.
    let path = match path.is_symlink() {
        true => fs_err::canonicalize(&path).unwrap_or(path),
        false => path,
    };
    if path.to_string_lossy().starts_with('-') {
        return std::path::absolute(&path).unwrap_or(path);
    }
    let here = std::env::current_dir().ok();
    let below = here.and_then(|here| path.strip_prefix(here).map(Path::to_path_buf).ok());
    below.filter(|below| below.components().next().is_some()).unwrap_or(path)
}

/// The environment: the named one, the active one, or `.venv` beside the lock; for conda packages an environment of conda,
/// which is `.envlock/env` there.
pub(super) fn chosen(
    options: &SyncOptions,
    project: &Project,
    of_conda: bool,
) -> Result<Environment, Failure> {
    let variable = owner::variable_of(of_conda);
    let own = if of_conda { owner::CONDA_ENVIRONMENT } else { ".venv" };
    match Environment::choose(options.prefix.as_deref(), (&project.folder, Path::new(own)), &variable) {
        Ok(found) => {
            if !found.is_explicit() {
                files::check_owner(&found.prefix)?;
            }
            Ok(found)
        }
        Err(NoEnvironment::None(_) | NoEnvironment::CondaBase(_)) => {
            Ok(Environment { prefix: project.folder.join(own), chosen: Chosen::Found })
        }
    }
}

/// An environment that is made first.
fn to_make(
    options: &SyncOptions,
    target: &Target,
    others: Others<'_>,
    prefix: PathBuf,
    chosen: Chosen,
    replaces: bool,
) -> Result<ChosenEnvironment, Failure> {
    let made_with = match &options.python {
        Some(named) => named_python(named, target.wanted_python(), others)?,
        None => any_python(target.wanted_python(), others)?,
    };
    let make = Some(Interpreter { python: made_with.path.clone(), replaces });
    let python = pythons::interpreter(&prefix);
    Ok(ChosenEnvironment {
        place: Place { prefix, python, make },
        chosen,
        installed: None,
        is_ours: true,
        made_with: Some(made_with),
    })
}

/// A Python of this series that is here.
///
/// # Errors
/// When there is none, with the command that installs it and a lock that needs none.
pub(super) fn any_python(wanted: WantedPython, others: Others<'_>) -> Result<FoundPython, Failure> {
    with_places(|places| pythons::python(places, wanted)).ok_or_else(|| no_python(wanted, others))
}

/// The Python that `--python` names.
///
/// # Errors
/// When it is none, or not the wanted one.
pub(super) fn named_python(
    named: &Path,
    wanted: WantedPython,
    others: Others<'_>,
) -> Result<FoundPython, Failure> {
    let shown = named.display();
    let found = pythons::who(named).ok_or_else(|| {
        Failure::new(FailureKind::Installer, format!("`{shown}` is not a Python that runs here"))
    })?;
    match wanted.allows(found.version) {
        true => Ok(found),
        false => Err(Failure::new(
            FailureKind::Installer,
            format!("`{shown}` is Python {}, and {wanted} is locked", found.version),
        )
        .hint(format!("name a Python {wanted}{}", {
            let others = others();
            match others.pythons.iter().any(|python| python.minor == found.version.minor) {
                true => format!(
                    ", or lock for this one: `envlock resolve --python 3.{}{}`",
                    found.version.minor, others.options
                ),
                // The project allows no other.
                false => String::new(),
            }
        }))),
    }
}

/// What could be locked instead.
pub(super) struct OtherLocks {
    /// The Python series, newest first.
    pub pythons: Vec<Python>,
    /// The options of the lock that another run would drop: ` --only-index pypi`.
    pub options: String,
}

/// Finds out what could be locked instead.
pub(super) type Others<'o> = &'o dyn Fn() -> OtherLocks;

fn no_python(wanted: WantedPython, others: Others<'_>) -> Failure {
    let series = wanted.python;
    let how = match (with_places(pythons::uv), with_places(conda_client::program)) {
        (None, Some(client)) => format!(
            "install it with `{} create -p .python --override-channels -c conda-forge python={series}`, then `envlock sync --python .python/bin/python`",
            client.name
        ),
        (Some(_), _) => {
            format!(
                "install it with `uv python install {series}`, which `envlock sync --install-python` runs"
            )
        }
        (None, None) => {
            format!("install it, for example with `pip install uv` and `uv python install {series}`")
        }
    };
    Failure::new(FailureKind::Installer, format!("the lock is for Python {wanted}, which was not found here"))
        .hint(format!("{how}, or lock for {}", another_python(&others())))
}

/// The command that locks for the first of these that is here.
fn another_python(others: &OtherLocks) -> String {
    let here = |places: &Places<'_>| {
        let mut wanted =
            others.pythons.iter().map(|python| WantedPython { python: *python, patches: Patches::default() });
        wanted.find_map(|wanted| pythons::python(places, wanted))
    };
    match with_places(here) {
        Some(found) => format!(
            "the one that is here: `envlock resolve --python 3.{}{}`",
            found.version.minor, others.options
        ),
        None if others.pythons.is_empty() => "another one, which the project has to allow first".to_owned(),
        None => format!("another one: `envlock resolve --python VERSION{}`", others.options),
    }
}

impl ChosenEnvironment {
    /// Whether its code may be run without being asked: it was named, is active, or is made by this run.
    pub fn runs_its_code(&self) -> bool {
        self.chosen != Chosen::Found || self.place.make.is_some()
    }

    /// The plan of a run that has nothing to do.
    pub fn plan(&self) -> Plan {
        Plan {
            prefix: self.place.prefix.clone(),
            made_with: self.made_with.as_ref().map(|python| {
                let again = self.place.make.as_ref().is_some_and(|make| make.replaces);
                MadeWith { version: python.version, path: python.path.clone(), again }
            }),
            ..Plan::default()
        }
    }

    /// The project in the lock's folder, if its pyproject.toml describes a package.
    pub fn own_project(&self, project: &Project, options: &SyncOptions) -> Option<OwnProject> {
        // Its build asks an index.
        if options.no_project || options.bundle.is_some() {
            return None;
        }
        let name = project.package()?;
        let is_installed = self
            .installed
            .iter()
            .flat_map(|i| &i.distributions)
            .any(|own| own.name == name && own.direct.is_some());
        Some(OwnProject { name, folder: project.folder.clone(), is_installed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::exit;

    /// What an installer did not end itself is half done.
    #[test]
    fn the_mark_stays_where_a_signal_ended_the_installer() {
        let prefix = tempfile::tempdir().unwrap();
        std::fs::create_dir(prefix.path().join(OWN_FOLDER)).unwrap();
        let changes = Changes { replace: vec!["six".to_owned()], ..Changes::default() };
        for (done, stays) in [
            (Ok(()), false),
            (Err(Failure::new(FailureKind::Installer, "no network")), false),
            (Err(Failure::killed("uv", 9)), true),
            (Err(Failure::killed("uv", exit::SIGINT)), true),
        ] {
            let at_work = AtWork::begin(prefix.path(), &changes).unwrap();
            assert!(was_interrupted(prefix.path()));
            at_work.end(&done);
            assert_eq!(was_interrupted(prefix.path()), stays, "{done:?}");
        }
        assert_eq!(Failure::killed("uv", exit::SIGINT).exit, exit::INTERRUPTED);
        assert_eq!(Failure::killed("uv", 9).exit, exit::CANNOT_ANSWER);
    }
}
