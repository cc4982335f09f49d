//! The packages installed in a Python environment, read from its files.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

use pep440_rs::Version;

use super::native::InterpreterFault;
use super::text::is_line;
use super::version::DottedVersion;
use super::wheel::Python;

/// A Python environment on disk.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Installed {
    /// The environment's directory.
    pub prefix: String,
    /// Its site-packages, or the first of them: where an installer puts packages.
    pub site_packages: std::path::PathBuf,
    /// Its Python series, if it can be determined without running it.
    pub python: Option<Python>,
    /// The patch release of its Python, if a file of the environment states it.
    pub patch: Option<u32>,
    /// The Python series of the interpreter that `bin/python` leads to, if its file name states it.
    pub interpreter: Option<Python>,
    /// The installed distributions, sorted by name.
    pub distributions: Vec<Distribution>,
    /// Packages outside it, or without RECORD, that its Python can import too.
    pub visible: Vec<Visible>,
    /// Packages in a venv's own site-packages that have an `.egg-info` in place of a `.dist-info`, which no RECORD lists, or an
    /// `.egg-link` to a folder: tools of old installed them, and which files are theirs is not known.
    pub eggs: Vec<Visible>,
    /// Whether it is a venv or a conda environment, and not a Python of the system.
    pub is_environment: bool,
    /// The normalized name of the project's own package, which no lock of the project contains.
    pub own_package: Option<String>,
    /// The packages whose requirements the project overrides, by normalized name.
    pub overridden: Vec<String>,
    /// The address of the pytorch index, for the commands that install its builds.
    pub pytorch_index: String,
    /// The command that installs the lock, where it is another tool's.
    pub lock_command: Option<String>,
    /// The options of `envlock sync` for the target, extras and groups that are asked about: ` --group dev`.
    pub sync_options: String,
    /// What conda installed of it, if it is an environment of conda.
    pub conda: CondaHere,
    /// Number of recorded files that were checked.
    pub files_seen: usize,
}

/// The installer of Debian's packages, which write no `INSTALLER`.
pub const DPKG: &str = "dpkg";

impl Distribution {
    /// Whether the system's package manager installed it, which strips and moves files after RECORD is written and keeps its own
    /// records.
    pub fn is_of_system(&self) -> bool {
        matches!(self.installer.as_deref(), Some(DPKG | "rpm"))
    }

    /// Whether another installer than conda put it there, as its `INSTALLER` says. Without that file it may be conda's.
    pub fn is_by_another_than_conda(&self) -> bool {
        self.installer.as_deref().is_some_and(|installer| installer != "conda")
    }
}

/// What conda installed in an environment, as the commands that repair it need it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CondaHere {
    /// The program of the client: `conda`, `mamba` or `micromamba`; empty counts as `conda`.
    pub client: String,
    /// The spec of the record that installed a distribution, by the distribution's normalized name: `numpy=2.4.6=py314_0`.
    pub specs: std::collections::BTreeMap<String, InstalledSpec>,
    /// The distributions that the lock takes from conda, by normalized name.
    pub locked: std::collections::BTreeSet<String>,
    /// The packages of conda that a lock has in another version or build, by conda's name.
    pub other: std::collections::BTreeSet<String>,
}

impl CondaHere {
    /// The name of the client's program.
    pub fn program(&self) -> &str {
        if self.client.is_empty() { "conda" } else { &self.client }
    }
}

/// A package that can be imported and is not one of [`Installed::distributions`].
#[derive(Debug, Clone, PartialEq)]
pub struct Visible {
    /// Normalized name.
    pub name: String,
    /// Its version.
    pub version: InstalledVersion,
    /// The folder on Python's path that it is in.
    pub folder: std::path::PathBuf,
    /// The name of its `.dist-info` directory, if it has one; of one of [`Installed::eggs`], of its `.egg-info` or `.egg-link`.
    pub dist_info: Option<String>,
}

impl Visible {
    /// The `.egg-link` that it is found by.
    pub fn egg_link(&self) -> Option<&str> {
        self.dist_info.as_deref().filter(|name| name.ends_with(".egg-link"))
    }
}

impl Installed {
    /// The folder on Python's path that a distribution lies in.
    pub fn site_of<'i>(&'i self, distribution: &'i Distribution) -> &'i std::path::Path {
        if distribution.site.as_os_str().is_empty() { &self.site_packages } else { &distribution.site }
    }

    /// The folders on Python's path that its distributions lie in: [`Installed::site_packages`] first.
    pub fn sites(&self) -> Vec<&std::path::Path> {
        let mut out = vec![self.site_packages.as_path()];
        for distribution in &self.distributions {
            let site = self.site_of(distribution);
            if !out.contains(&site) {
                out.push(site);
            }
        }
        out
    }

    /// The Python for markers: the patch release included where it is known, 3.12 where nothing is.
    pub fn marker_python(&self) -> Python {
        let python = self.python.unwrap_or(Python::new(12));
        Python { patch: python.patch.or(self.patch), ..python }
    }
}

/// One installed distribution (a `.dist-info` directory).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    /// Normalized name.
    pub name: String,
    /// Version in METADATA, otherwise in the directory name.
    pub version: InstalledVersion,
    /// The name of the `.dist-info` directory.
    pub dist_info: String,
    /// SHA-256 of the METADATA file.
    pub metadata_sha256: Option<String>,
    /// The requirements that apply without extras: `Requires-Dist` lines as written.
    pub requires: Vec<String>,
    /// The variant in the package's `version.py` (`cu128`, `cpu`), for torch and its companions.
    pub variant: Option<String>,
    /// The installer (`pip`, `uv`, `conda`).
    pub installer: Option<String>,
    /// Where it was installed from, if not from an index (PEP 610).
    pub direct: Option<DirectOrigin>,
    /// The tags of the installed wheel, from WHEEL: `py3-none-manylinux2014_x86_64`.
    pub tags: Vec<String>,
    /// The shared libraries in its RECORD, relative to site-packages.
    pub libraries: Vec<String>,
    /// The folders of its files, relative to site-packages, up to the second: `torch/lib`, `google/protobuf`.
    pub folders: Vec<String>,
    /// Faults of its recorded files.
    pub faults: Vec<FileFault>,
    /// Whether RECORD exists and is readable.
    pub record_readable: bool,
    /// The folder on Python's path that it lies in; empty means [`Installed::site_packages`].
    pub site: std::path::PathBuf,
}

/// A URL, a repository or a folder that a package was installed from: its `direct_url.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DirectOrigin {
    /// The URL as recorded; a folder is a `file:` URL.
    pub url: String,
    /// The commit of a repository.
    pub commit: Option<String>,
    /// The SHA-256 of a file, if it is recorded.
    pub sha256: Option<String>,
    /// Whether it is an editable install.
    pub is_editable: bool,
    /// The folder of an editable install, if it does not exist.
    pub gone: Option<String>,
}

impl Installed {
    /// Whether a package is there in a version that cannot be compared: anything fulfils a requirement on it.
    pub fn has_unclear_version(&self, name: &str) -> bool {
        let own = self.distributions.iter().map(|own| (&own.name, &own.version));
        let mut all = own.chain(self.visible.iter().map(|seen| (&seen.name, &seen.version)));
        all.any(|(own, version)| own == name && version.valid().is_none())
    }

    /// The package that is installed from a folder as editable: the project's own, whatever it is built by.
    pub fn editable_of(&self, folder: &std::path::Path) -> Option<&str> {
        let folder = std::path::absolute(folder).ok()?;
        let is_it = |own: &&Distribution| {
            let direct = own.direct.as_ref().filter(|direct| direct.is_editable);
            let url = direct.and_then(|direct| url::Url::parse(&direct.url).ok());
            url.is_some_and(|url| url.to_file_path().is_ok_and(|path| path == folder))
        };
        self.distributions.iter().find(is_it).map(|own| own.name.as_str())
    }
}

/// The version of an installed package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstalledVersion {
    /// A valid PEP 440 version.
    Valid(Version),
    /// Any other text, used only for display.
    Invalid(String),
}

impl InstalledVersion {
    /// The version, if it is valid.
    pub fn valid(&self) -> Option<&Version> {
        match self {
            InstalledVersion::Valid(version) => Some(version),
            InstalledVersion::Invalid(_) => None,
        }
    }
}

impl Default for InstalledVersion {
    fn default() -> Self {
        InstalledVersion::Invalid(String::new())
    }
}

impl FromStr for InstalledVersion {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.parse() {
            Ok(version) => InstalledVersion::Valid(version),
            Err(_) => InstalledVersion::Invalid(super::text::clean(text, 60)),
        })
    }
}

impl From<&str> for InstalledVersion {
    fn from(text: &str) -> Self {
        let Ok(version) = text.parse();
        version
    }
}

impl fmt::Display for InstalledVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstalledVersion::Valid(version) => version.fmt(f),
            InstalledVersion::Invalid(text) => f.write_str(text),
        }
    }
}

/// A file that differs from RECORD.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileFault {
    /// The file is missing.
    Missing(String),
    /// The size differs: path, recorded, found.
    Size(String, u64, u64),
    /// The size differs, and the file was not changed since RECORD was written, which installers do last: the wheel's own
    /// RECORD is wrong. Path, recorded, found.
    AsPublished(String, u64, u64),
    /// A list of certificates that has more than was recorded, after what was: path, recorded, found.
    Extended(String, u64, u64),
    /// The hash differs.
    Hash(String),
    /// The hashes were to be compared, and RECORD has no SHA-256 of it.
    NoHash(String),
    /// It exists but cannot be read: path, reason.
    Unreadable(String, String),
    /// Another distribution also records the file: path, its name.
    OwnedTwice(String, String),
}

/// Whether programs import a recorded file: not what packages put at the top of site-packages for their own tests and builds.
pub fn is_imported(path: &str) -> bool {
    !NOT_IMPORTED.contains(&path) && !NOT_IMPORTED_FOLDERS.iter().any(|folder| path.starts_with(folder))
}

/// Modules at the top of site-packages that nothing imports.
const NOT_IMPORTED: [&str; 4] = ["build_backend.py", "setup.py", "conftest.py", "noxfile.py"];
/// Folders of the same kind, and texts that packages put at the top.
const NOT_IMPORTED_FOLDERS: [&str; 6] = ["tests/", "test/", "docs/", "examples/", "benchmarks/", "scripts/"];

/// Whether a recorded file is a library or a module that a program loads. The `__init__.py` of a folder that packages share is
/// nobody's alone, whatever it says, and tests are run by who has them.
pub fn is_loaded(path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or(path);
    let is_library = [".so", ".pyd", ".dll"].iter().any(|end| name.ends_with(end)) || name.contains(".so.");
    let is_module = name.ends_with(".py") && name != "__init__.py";
    is_imported(path) && (is_library || is_module) && !parts.any(|folder| matches!(folder, "tests" | "test"))
}

impl FileFault {
    /// The path that is recorded.
    pub fn path(&self) -> &str {
        match self {
            FileFault::Missing(path)
            | FileFault::Size(path, ..)
            | FileFault::AsPublished(path, ..)
            | FileFault::Extended(path, ..)
            | FileFault::Hash(path)
            | FileFault::NoHash(path)
            | FileFault::Unreadable(path, _)
            | FileFault::OwnedTwice(path, _) => path,
        }
    }
}

/// Other contents of an environment that affect its packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traces {
    /// Packages that conda installed, sorted by name.
    pub conda: Vec<CondaPackage>,
    /// Files of `conda-meta` that cannot be read as records.
    pub conda_unread: Vec<String>,
    /// How many files conda's records name.
    pub conda_files: usize,
    /// The last command of a client of conda that changed the environment after it was made: `conda install scipy`.
    pub conda_change: Option<String>,
    /// What the activation of the conda environment sets for the loader or for Python's search.
    pub activation: Vec<Activation>,
    /// Packages that Python would find before the environment's own.
    pub shadowing: Vec<Shadowing>,
    /// Temporary directories that an installer left behind, `~orch`.
    pub leftovers: Vec<String>,
    /// Files in site-packages that Python executes at each start and that no package records: `.pth` files with an
    /// `import` line, `sitecustomize.py`, `usercustomize.py`. Path and the line that is executed.
    pub startup: Vec<(String, String)>,
    /// Libraries that the loader takes into every program: by `LD_PRELOAD`, `LD_AUDIT` or `/etc/ld.so.preload`.
    pub forced: Vec<ForcedLibrary>,
    /// Libraries in the directories of CUDA and torch libraries that no package records.
    pub unrecorded: Vec<String>,
    /// What `PYTHONHOME` breaks.
    pub home: Option<InterpreterFault>,
    /// The CUDA toolkit that would be used to build extensions.
    pub toolkit: Option<Toolkit>,
}

/// A library that the loader takes into every program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForcedLibrary {
    /// What names it: `LD_PRELOAD`.
    pub by: &'static str,
    /// As it is named.
    pub path: String,
    /// Whether it is in the system's folders of libraries, where packages of the system install.
    pub is_system: bool,
}

/// A package in a directory that Python searches before site-packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shadowing {
    /// The package.
    pub name: String,
    /// Its version there; `None` if it has no metadata.
    pub version: Option<InstalledVersion>,
    /// The directory.
    pub folder: String,
    /// Why Python searches it.
    pub by: SearchedFirst,
    /// Whether it takes the place of a module of Python itself, which this package imports.
    pub of_stdlib: Option<String>,
}

/// Why Python searches a directory before the environment's site-packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchedFirst {
    /// It is in `PYTHONPATH`.
    PythonPath,
    /// It is the user site-packages (PEP 370), which the environment does not disable.
    UserSite,
    /// It is the current folder, which Python searches first for a script in it and with `-m` and `-c`.
    WorkingFolder,
}

impl fmt::Display for SearchedFirst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SearchedFirst::PythonPath => "PYTHONPATH",
            SearchedFirst::UserSite => "the user site-packages",
            SearchedFirst::WorkingFolder => "the current folder",
        })
    }
}

/// What sets a variable when a conda environment is activated.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activation {
    /// A script below the environment, `etc/conda/activate.d/cuda.sh`, and its line.
    Script {
        /// The script.
        path: String,
        /// The line, `export LD_LIBRARY_PATH=/opt/lib`.
        line: String,
        /// The variable, `LD_LIBRARY_PATH`.
        name: String,
        /// The conda package that has the script.
        package: Option<String>,
    },
    /// A variable of `conda env config vars`.
    Variable {
        /// Its name, `LD_LIBRARY_PATH`.
        name: String,
        /// Its value.
        value: String,
    },
}

/// A package in conda's records (`conda-meta/*.json`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CondaPackage {
    /// The conda package name: `pytorch`.
    pub name: String,
    /// Its version, in conda's syntax.
    pub version: String,
    /// The build string, `py3.12_cuda12.4_cudnn9.1.0_0`; empty if the record has none.
    pub build: String,
    /// The channel that it came from, by name: `conda-forge`.
    pub channel: Option<String>,
    /// Faults of its files, by their paths below the environment.
    pub faults: Vec<FileFault>,
}

impl CondaPackage {
    /// The faults that make programs fail, or that tell a broken installation. People edit settings, add certificates, and delete
    /// what they do not need: a fault of what is executed is one, and a file that was emptied, which nobody does to edit it.
    pub fn damage(&self) -> impl Iterator<Item = &FileFault> {
        self.faults.iter().filter(|fault| match fault {
            FileFault::Missing(path) | FileFault::Hash(path) | FileFault::Unreadable(path, _) => {
                is_executed(path)
            }
            FileFault::Size(path, _, size) | FileFault::AsPublished(path, _, size) => {
                is_executed(path) || *size == 0
            }
            FileFault::Extended(..) | FileFault::OwnedTwice(..) | FileFault::NoHash(_) => false,
        })
    }

    /// The spec of exactly this package; `None` if its record holds something else than names and numbers: it is not trusted, and
    /// a name could be an option.
    pub fn spec(&self) -> Option<InstalledSpec> {
        let is_plain = |text: &str| {
            let allowed = |c: char| c.is_ascii_alphanumeric() || "._-+!".contains(c);
            text.chars().all(allowed) && !text.starts_with('-')
        };
        let parts = [&self.name, &self.version, &self.build];
        if self.name.is_empty() || !parts.into_iter().all(|text| is_plain(text)) {
            return None;
        }
        let build = if self.build.is_empty() { String::new() } else { format!("={}", self.build) };
        let channel = self.channel.clone().filter(|channel| is_line(channel) && channel.len() <= 300);
        Some(InstalledSpec { channel, text: format!("{}={}{build}", self.name, self.version) })
    }
}

/// Whether a file of a conda package is a library, a module or a program that others use, or what installers know a package by.
pub fn is_executed(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_of_tests =
        ["/test/", "/tests/", "/idlelib/", "/__pycache__/"].iter().any(|part| path.contains(part));
    let is_code = name.ends_with(".py") || name.ends_with(".so") || name.contains(".so.");
    let is_metadata = path.ends_with(".dist-info/METADATA") || path.contains(".egg-info");
    !is_of_tests && (is_code || is_metadata || path.starts_with("bin/"))
}

/// A package as conda has it in an environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledSpec {
    /// Its channel by name, if its record says it.
    pub channel: Option<String>,
    /// The match spec: `numpy=2.4.6=py314_0`.
    pub text: String,
}

/// A CUDA toolkit with its compiler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolkit {
    /// How it was found: an environment variable, or the default directory.
    pub by: String,
    /// Its directory.
    pub home: String,
    /// Its CUDA version, `12.8.1`.
    pub version: DottedVersion,
}
