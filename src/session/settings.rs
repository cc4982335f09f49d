//! Combines options, manifest and defaults into the input of a solve. Which environment a command is about is decided in
//! `inspect/environment.rs`, which machine in `cli/host.rs`.

use std::path::{Path, PathBuf};

use super::clock;
use super::data_folder;
use super::failure::{Failure, FailureKind};
use super::files;
use super::manifest::{self, BUILT_IN, Manifest, of_uv};
use super::only;
use crate::formats::pyproject::{self, About};
use crate::index::locate::{self, Located, Places};
use crate::lockfile::{self, Lockfile, Target};
use crate::model::conda::CONDA_CHANNELS;
use crate::model::cutoff::Cutoff;
use crate::model::index_owner::PYTORCH_INDEX;
use crate::model::owner::Owner;
use crate::model::project::specifiers_allow;
use crate::model::request::{
    Limit, Origin, PythonAllowed, PythonRequest, Request, StatedMetadata, UserRequirement,
};
use crate::model::secrets::shown_requirement;
use crate::model::text::{clean, plain_address, shell_word};
use crate::model::wheel::Python;
use crate::registry::{Registry, RegistryFile};
use crate::session::options::{Global, SolveOptions};
use crate::session::variables;

/// The project: its folder and its manifest, if it has one.
#[derive(Debug)]
pub(crate) struct Project {
    pub folder: PathBuf,
    pub manifest: Option<Manifest>,
    /// The requirements files that stand for a manifest (`resolve -r`).
    pub reads: Vec<PathBuf>,
    /// Whether these state the whole request.
    pub is_all_read: bool,
    /// Whether packages are asked about that have nothing to do with it: its manifest and its lock have no say.
    pub is_beside: bool,
}

/// Where a folder is: paths in a request may be relative to it or absolute.
fn absolute(folder: &Path) -> PathBuf {
    std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf())
}

impl Project {
    /// The registry that the project's questions are answered from.
    ///
    /// # Errors
    /// It cannot be used, or is older than the project takes.
    pub fn registry(&self, global: &Global) -> Result<Registry, Failure> {
        let registry = registry(global)?;
        let minimum = self.manifest.as_ref().and_then(|manifest| manifest.registry_minimum.as_deref());
        match minimum.filter(|minimum| registry.meta().date.as_str() < *minimum) {
            None => Ok(registry),
            Some(minimum) => Err(Failure::new(
                FailureKind::UnknownRow,
                format!(
                    "{} asks for compatibility data of {minimum} or newer; these are of {}",
                    self.manifest_name(),
                    registry.meta().date
                ),
            )
            .hint(data_folder::newer())),
        }
    }

    /// The variables that the project adds to those that reach an installer.
    pub fn passed_variables(&self) -> &[String] {
        self.manifest.as_ref().map(|manifest| &*manifest.pass_env).unwrap_or_default()
    }

    /// The packages that `sync` may build.
    pub fn allowed_builds(&self) -> &[String] {
        self.manifest.as_ref().map(|manifest| &*manifest.allow_build).unwrap_or_default()
    }

    /// What the manifest states about packages by hand.
    pub fn stated_metadata(&self) -> &[StatedMetadata] {
        self.manifest.as_ref().map(|manifest| &*manifest.request.metadata).unwrap_or_default()
    }

    /// Finds the project. With `by_lock`, a lock also marks a project folder. It does not if packages are named on
    /// the command line: their lock belongs to the current folder.
    pub fn find(global: &Global, by_lock: bool) -> Result<Project, Failure> {
        let folder = files::project_folder(global.project.as_deref(), by_lock)?;
        let Some(name) = files::manifest_in(&folder) else {
            return Ok(Project {
                folder,
                manifest: None,
                reads: Vec::new(),
                is_all_read: false,
                is_beside: false,
            });
        };
        let text = files::read(&folder.join(name))?.unwrap_or_default();
        Project::with_manifest(folder, name, &text)
    }

    /// A project with the text of a manifest, which need not be on disk yet.
    pub fn with_manifest(folder: PathBuf, name: &str, text: &str) -> Result<Project, Failure> {
        let mut manifest = manifest::parse(text, name)?;
        if name == files::PYPROJECT {
            of_uv::apply(&mut manifest, text, &folder);
            of_uv::add_members(&mut manifest, text, &folder)?;
        }
        manifest.request.folder = Some(absolute(&folder));
        Ok(Project {
            folder,
            manifest: Some(manifest),
            reads: Vec::new(),
            is_all_read: false,
            is_beside: false,
        })
    }

    /// The project for a question that writes nothing and is not about it.
    #[must_use]
    pub fn beside(self) -> Project {
        let is_beside = self.manifest.is_some();
        Project { manifest: None, is_beside, ..self }
    }

    pub fn lock_path(&self) -> PathBuf {
        self.folder.join(files::LOCK)
    }

    /// The name of its manifest; that of a new one if it has none.
    pub fn manifest_name(&self) -> &'static str {
        files::manifest_in(&self.folder).unwrap_or(files::MANIFEST)
    }

    /// The normalized name of the package that the project itself is, if its pyproject.toml describes one.
    pub fn package(&self) -> Option<String> {
        self.about().filter(|own| own.has_build_system)?.name
    }

    /// What its pyproject.toml says of the project itself.
    pub fn about(&self) -> Option<About> {
        pyproject::about(&files::read(&self.folder.join(files::PYPROJECT)).ok().flatten()?)
    }

    /// The project's name: the manifest's, else the folder's.
    pub fn name(&self) -> String {
        self.manifest
            .as_ref()
            .and_then(|m| m.name.clone())
            .or_else(|| {
                let folder = std::path::absolute(&self.folder).ok()?;
                folder.file_name().map(|n| n.to_string_lossy().into_owned())
            })
            .unwrap_or_else(|| "envlock".to_owned())
    }
}

/// The error of packages that are named beside a manifest, with the command that was meant.
fn packages_beside_manifest(project: &Project, packages: &[String], solve: &SolveOptions) -> Failure {
    let manifest = project.folder.join(project.manifest_name());
    let here = std::env::current_dir().unwrap_or_default();
    let shown = manifest.strip_prefix(&here).unwrap_or(&manifest).display().to_string();
    let text = format!("packages cannot be named on the command line beside {}", clean(&shown, 200));
    let named = packages.iter().map(|text| shell_word(&clean(&shown_requirement(text), 400)));
    // `--upgrade requests` is `--upgrade` and a package.
    if solve.upgrade.iter().any(String::is_empty) {
        let each: String = named.map(|name| format!(" --upgrade={name}")).collect();
        return Failure::usage(text).hint(format!("upgrade them alone with `envlock resolve{each}`"));
    }
    let names: String = named.map(|name| format!(" {name}")).collect();
    let options = format!("{}{}", solve.host.given(), solve.limits());
    Failure::usage(text).hint(format!(
        "add them with `envlock add{names}{options}`, or only ask with `envlock resolve{names}{options} --dry-run`"
    ))
}

/// The request of `resolve`: from packages, the manifest or the lock, overridden by the options.
pub(crate) fn request(
    project: &Project,
    packages: &[String],
    solve: &SolveOptions,
    lock_lines: Option<&[String]>,
    registry: &Registry,
) -> Result<Request, Failure> {
    let mut request = stated(project, packages, solve, lock_lines)?;
    add_options(&mut request, project, solve)?;
    check_python(request.python.as_ref(), registry)?;
    refuse_nothing(&request, project)?;
    let known = |name: &str| {
        manifest::BUILT_IN.contains(&name)
            || project.manifest.iter().flat_map(|m| &m.indexes).any(|(n, _)| n == name)
    };
    only::check(&request, known)?;
    Ok(request)
}

/// What the manifest, the command line or else the lock asks for.
fn stated(
    project: &Project,
    packages: &[String],
    solve: &SolveOptions,
    lock_lines: Option<&[String]>,
) -> Result<Request, Failure> {
    Ok(match (&project.manifest, packages.is_empty()) {
        (Some(_), false) => return Err(packages_beside_manifest(project, packages, solve)),
        (Some(manifest), true) => {
            let mut request = manifest.request.clone();
            // An age stands for the time of the lock until the lock is upgraded.
            if let Some(lines) = lock_lines.filter(|_| !solve.upgrade.iter().any(String::is_empty)) {
                request.exclude_newer.keep_times_of(&lockfile::read_request(lines)?.exclude_newer);
            }
            request
        }
        (None, false) => {
            let mut request = Request::default();
            for text in packages {
                request.requirements.push(self::requirement(text)?);
            }
            request
        }
        (None, true) => match lock_lines {
            // Options of an earlier run and targets of a manifest are not part of the request.
            Some(lines) => {
                Request { targets: Vec::new(), ..lockfile::read_request(lines)?.without_options() }
            }
            None => {
                let hint = match files::requirements_in(&project.folder) {
                    _ if files::owned_manifest(&project.folder).is_some()
                        || files::states_packages(&project.folder) =>
                    {
                        "`envlock init` adds envlock's tables to the manifest that is here".to_owned()
                    }
                    Some(name) => format!("`envlock init --from {name}` takes the packages of {name}"),
                    None => {
                        "start with `envlock init --torch \">=2.8\"`, or `envlock resolve torch`".to_owned()
                    }
                };
                return Err(
                    Failure::usage("there is no envlock.toml here, and no package was named").hint(hint)
                );
            }
        },
    })
}

/// Adds the options of this run.
fn add_options(request: &mut Request, project: &Project, solve: &SolveOptions) -> Result<(), Failure> {
    if let Some(text) = &solve.python {
        let asked = self::python(text)?;
        let own = request.python.as_ref().filter(|_| project.manifest.is_some());
        if let Some(own) = own
            && manifest::narrowed(Some(own), Some(asked.clone())).is_err()
        {
            let name = project.manifest_name();
            let text = format!("{name} does not allow Python {}: `{}`", asked.text, own.text);
            return Err(Failure::usage(text)
                .hint(format!("state the Python in {name}, which says what the lock is for")));
        }
        request.python = Some(asked);
    }
    if let Some(value) = &solve.variant {
        request.variant = Some(Limit { value: value.clone(), origin: Origin::Option("--variant") });
    }
    if let Some(text) = &solve.cuda {
        manifest::stack_limit(request, &format!("cuda {}", text.trim()), &Origin::Option("--cuda"))
            .unwrap_or_else(|| Err(String::new()))
            .map_err(|why| Failure::usage(format!("`--cuda`: {why}")))?;
    }
    if let Some(text) = &solve.only_index {
        request.only_index = Some(only::parse(text)?);
    }
    request.folder = Some(absolute(&project.folder));
    if solve.no_sources {
        request.no_sources = Some(Limit { value: (), origin: Origin::Option("--no-sources") });
    }
    if solve.strict_metadata {
        request.strict_metadata = Some(Limit { value: (), origin: Origin::Option("--strict-metadata") });
    }
    if let Some(text) = &solve.exclude_newer {
        let value = Cutoff::parse(text, clock::now())
            .map_err(|error| Failure::usage(format!("`--exclude-newer`: {error}")))?;
        request.exclude_newer.general = Some(Limit { value, origin: Origin::Option("--exclude-newer") });
    }
    Ok(())
}

/// Refuses a request for no package, where none has been locked: the last one may be removed.
fn refuse_nothing(request: &Request, project: &Project) -> Result<(), Failure> {
    // pixi's tables name them.
    if request.requirements.is_empty()
        && request.conda.is_empty()
        && files::owner_in(&project.folder) != Some(Owner::Pixi)
        && !project.folder.join(files::LOCK).exists()
    {
        let name = files::manifest_in(&project.folder).unwrap_or(files::MANIFEST);
        let hint = match name {
            files::PYPROJECT => {
                "envlock reads `dependencies`, extras and groups of its `[project]`; of a workspace whose root has no `[project]`, those of every member"
            }
            _ => "add one with `envlock add torch`",
        };
        return Err(Failure::usage(format!("{name} names no package")).hint(hint));
    }
    Ok(())
}

/// A requirement of the command line.
pub(crate) fn requirement(text: &str) -> Result<UserRequirement, Failure> {
    UserRequirement::parse(text, Origin::CommandLine).map_err(|e| Failure::usage(e.to_string()))
}

/// The value of `--python`.
pub(crate) fn python(text: &str) -> Result<PythonRequest, Failure> {
    PythonRequest::parse(text, Origin::Option("--python")).map_err(|e| Failure::usage(e.to_string()))
}

/// Rejects a Python that is older than those of the registry, or a range without one: this is a usage error, not a conflict. A
/// newer series that is named is taken as it is: what has wheels for it is what its index says.
pub(crate) fn check_python(python: Option<&PythonRequest>, registry: &Registry) -> Result<(), Failure> {
    let Some(python) = python else { return Ok(()) };
    let Some((oldest, newest)) = registry.pythons().first().zip(registry.pythons().last()) else {
        return Ok(());
    };
    let is_possible = match &python.allowed {
        PythonAllowed::Exact(exact) => exact.minor >= *oldest,
        PythonAllowed::Range(range) => {
            registry.pythons().iter().any(|minor| specifiers_allow(range, Python::new(*minor)))
        }
    };
    if is_possible {
        return Ok(());
    }
    let text = crate::model::text::clean(&python.text, 40);
    let failure =
        Failure::usage(format!("unsupported Python `{text}` (supported: 3.{oldest} to 3.{newest})"));
    let next = Python::new(newest + 1);
    let is_newer = matches!(&python.allowed, PythonAllowed::Range(range) if specifiers_allow(range, next));
    Err(match is_newer {
        true => failure.hint(format!("name a series that is newer than the registry, as in `{next}`")),
        false => failure,
    })
}

/// The request of a lock: the manifest's, or the lock's own if there is no manifest, overridden by the options of
/// the run that wrote the lock.
pub(crate) fn request_of_lock(
    project: &Project,
    lock: &Lockfile,
    registry: &Registry,
) -> Result<Request, Failure> {
    let request = request(project, &[], &SolveOptions::default(), Some(&lock.request), registry)?;
    Ok(request.with_options_of(&lockfile::read_request(&lock.request)?))
}

/// The request of a target: as [`request_of_lock`], with the target's own limit on Python.
pub(crate) fn request_of_target(
    project: &Project,
    lock: &Lockfile,
    target: &Target,
    registry: &Registry,
) -> Result<Request, Failure> {
    let mut request = request_of_lock(project, lock, registry)?.of_target(&target.name);
    let row = project.manifest.iter().flat_map(|m| &m.targets).find(|row| row.name == target.name);
    if let Some(python) = row.and_then(|row| row.python.clone()) {
        request.python = Some(python);
    }
    Ok(request)
}

/// The registry for a question that is not about the project: that of the project here, if there is one and it can be read.
///
/// # Errors
/// As [`Project::registry`].
pub(crate) fn registry_here(global: &Global) -> Result<Registry, Failure> {
    match Project::find(global, false) {
        Ok(project) => project.registry(global),
        // A log is read, and a machine is looked at, beside a manifest that has a mistake too.
        Err(_) => registry(global),
    }
}

/// The registry: the one that is in the program or a newer one that `registry update` stored; with `--registry embedded`
/// the first, else the one in the `--registry` folder.
pub(crate) fn registry(global: &Global) -> Result<Registry, Failure> {
    let Some(folder) = &global.registry else {
        return data_folder::registry();
    };
    if folder.as_os_str() == EMBEDDED {
        return Ok(Registry::embedded());
    }
    let files = registry_files(folder)?;
    Registry::from_files(files).map_err(|problems| {
        let shown: Vec<String> = problems.iter().take(5).map(ToString::to_string).collect();
        let more = problems.len().saturating_sub(5);
        let tail = if more > 0 { format!("\n  and {more} more") } else { String::new() };
        Failure::registry(format!(
            "the registry in `{}` has problems:\n  {}{tail}",
            folder.display(),
            shown.join("\n  ")
        ))
        .hint("`envlock registry lint --registry DIR` lists them all")
    })
}

/// What `--registry` says for the registry in the program. A folder of this name is `./embedded`.
pub(crate) const EMBEDDED: &str = "embedded";

/// The TOML files below a registry folder.
pub(crate) fn registry_files(folder: &Path) -> Result<Vec<RegistryFile>, Failure> {
    let mut out = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        for entry in fs_err::read_dir(&current)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "toml") {
                let relative = path.strip_prefix(folder).unwrap_or(&path);
                let text =
                    String::from_utf8(files::read_bytes(&path)?.unwrap_or_default()).map_err(|error| {
                        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
                        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
                        Failure::registry(format!("{}:{line}: {}", path.display(), error.utf8_error()))
                    })?;
                out.push(RegistryFile {
                    path: relative.to_string_lossy().replace('\\', "/").into(),
                    text: text.into(),
                });
            }
        }
    }
    Ok(out)
}

/// The cache folder, which [`super::cache_folder::choose`] put into the arguments.
pub(crate) fn cache_dir(global: &Global) -> PathBuf {
    global.cache_dir.clone().unwrap_or_default()
}

/// The URLs of all indexes, and where the URL of `pypi` was found.
pub(crate) fn indexes(project: &Project, flag: Option<&str>) -> (Vec<(String, String)>, Option<Located>) {
    let manifest = project.manifest.as_ref();
    let mut not_below = vec![std::path::absolute(&project.folder).unwrap_or_else(|_| project.folder.clone())];
    for variable in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        not_below.extend(variables::raw(variable).map(PathBuf::from));
    }
    let places = Places {
        flag,
        manifest: manifest.and_then(|m| m.pypi.as_deref()),
        home: files::home(),
        config_home: variables::raw("XDG_CONFIG_HOME").map(PathBuf::from),
        path: variables::paths("PATH"),
        not_below,
    };
    let pypi = locate::pypi(&places, &|name| variables::text(name));
    let mut addresses: Vec<(String, String)> = manifest.map(|m| m.indexes.clone()).unwrap_or_default();
    if let Some(located) = &pypi {
        addresses.push(("pypi".to_owned(), located.url.clone()));
    }
    if !addresses.iter().any(|(name, _)| name == "pytorch") {
        addresses.push(("pytorch".to_owned(), pytorch_index()));
    }
    (addresses, pypi)
}

/// The same addresses as URLs: a manifest names a folder of wheels relative to itself, as an index of its own.
pub(crate) fn as_urls(project: &Project, addresses: Vec<(String, String)>) -> Vec<(String, String)> {
    let folder = std::path::absolute(&project.folder).unwrap_or_else(|_| project.folder.clone());
    let url = |(name, address): (String, String)| {
        let is_path = !BUILT_IN.contains(&name.as_str()) && !address.contains("://");
        let url = is_path.then(|| url::Url::from_file_path(folder.join(&address)).ok()).flatten();
        (name, url.map_or(address, String::from))
    };
    addresses.into_iter().map(url).collect()
}

/// Where conda channels are: what their names are appended to.
pub(crate) fn conda_channel_alias() -> String {
    let variable = variables::text("ENVLOCK_CONDA_CHANNEL_ALIAS").filter(|alias| !alias.trim().is_empty());
    variable.unwrap_or_else(|| CONDA_CHANNELS.to_owned())
}

/// The URLs of the manifest's indexes and the usual one of the pytorch index, whatever variables this machine sets.
pub(crate) fn usual_indexes(project: &Project) -> Vec<(String, String)> {
    let mut addresses: Vec<(String, String)> =
        project.manifest.as_ref().map(|manifest| manifest.indexes.clone()).unwrap_or_default();
    if !addresses.iter().any(|(name, _)| name == "pytorch") {
        addresses.push(("pytorch".to_owned(), PYTORCH_INDEX.to_owned()));
    }
    addresses
}

/// URL of the pytorch index if the manifest names none.
pub(crate) fn pytorch_index() -> String {
    variables::text("ENVLOCK_PYTORCH_INDEX_URL")
        .map_or_else(|| PYTORCH_INDEX.to_owned(), |url| plain_address(&url))
}

/// Certificate authorities from the variables that pip, requests and curl use.
pub(crate) fn certificates() -> Vec<PathBuf> {
    ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE"]
        .iter()
        .find_map(|name| variables::raw(name).filter(|v| !v.is_empty()))
        .map(PathBuf::from)
        .or_else(|| {
            let config = variables::raw("XDG_CONFIG_HOME").map(PathBuf::from);
            locate::pip_certificates(files::home(), config, &|name| variables::text(name))
        })
        .into_iter()
        .collect()
}

/// The netrc file: `NETRC`, else the user's.
pub(crate) fn netrc() -> Option<PathBuf> {
    variables::raw("NETRC")
        .map(PathBuf::from)
        .or_else(|| files::home().map(|h| h.join(".netrc")))
        .filter(|p| p.is_file())
}
