//! Reads what affects an environment's packages: conda's package list, folders that Python searches first, leftovers
//! of installations, the CUDA toolkit for building extensions.

use std::path::{Path, PathBuf};

use super::prefix::with_system_packages;
use super::record_check::Depth;
use super::record_file;
use super::tree::{FileTree, Kind};
use super::visible::added;
use crate::model::installed::{
    Distribution, ForcedLibrary, Installed, SearchedFirst, Shadowing, Toolkit, Traces,
};
use crate::model::native::InterpreterFault;
use crate::model::text::{PYTHON_LINE_ENDS, clean, normalized_name};

/// Maximum number of entries read from a folder.
const MAX_ENTRIES: usize = 20_000;
/// Maximum number of libraries that one list forces into every program.
const MAX_FORCED: usize = 32;
/// Maximum size of a configuration or version file, in bytes.
const MAX_FILE: u64 = 1 << 20;

/// Reads the traces of an environment: of a machine with this root, for a program that is started in this folder.
/// `variable` reads one environment variable.
pub fn traces(
    tree: &dyn FileTree,
    installed: &Installed,
    stdlib: &StdlibNames<'_>,
    (root, working_folder): (&Path, &Path),
    variable: &dyn Fn(&str) -> Option<String>,
    depth: Depth,
) -> Traces {
    let prefix = Path::new(&installed.prefix);
    let records = super::conda_meta::conda_records(tree, prefix, depth);
    let activation = super::conda_meta::activation(tree, prefix, &records);
    Traces {
        conda: records.packages,
        conda_unread: records.unread,
        conda_files: records.files,
        conda_change: super::conda_meta::last_change(tree, prefix),
        activation,
        shadowing: shadowing(tree, installed, stdlib, working_folder, variable),
        startup: startup(tree, installed),
        forced: forced(tree, root, variable),
        leftovers: leftovers(tree, &installed.site_packages),
        unrecorded: unrecorded(tree, installed),
        home: home(tree, installed, variable),
        toolkit: toolkit(tree, root, variable),
    }
}

/// The libraries that variables and `/etc/ld.so.preload` force into every program.
fn forced(tree: &dyn FileTree, root: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Vec<ForcedLibrary> {
    let of_variable = |name| {
        let list = variable(name).unwrap_or_default();
        list.split([':', ' ']).filter(|path| !path.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    };
    let lists = [
        ("LD_PRELOAD", of_variable("LD_PRELOAD")),
        ("LD_AUDIT", of_variable("LD_AUDIT")),
        ("/etc/ld.so.preload", super::loader::preloaded(tree, root)),
    ];
    let library = |(by, path): (&'static str, String)| {
        // A bare name is looked for as any library is.
        let is_system = !path.contains('/')
            || ["/usr/", "/lib/", "/lib64/"].iter().any(|folder| path.starts_with(folder));
        ForcedLibrary { by, path: clean(&path, 300), is_system }
    };
    let all =
        lists.into_iter().flat_map(|(by, list)| list.into_iter().take(MAX_FORCED).map(move |p| (by, p)));
    all.map(library).collect()
}

/// The folder in `PYTHONHOME`, if it does not have the standard library of the environment's Python: no program starts then.
fn home(
    tree: &dyn FileTree,
    installed: &Installed,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<InterpreterFault> {
    let value = variable("PYTHONHOME").filter(|value| !value.is_empty())?;
    let python = installed.python?;
    // `PREFIX` or `PREFIX:EXEC_PREFIX`.
    let home = value.split(':').next().unwrap_or_default();
    let has_library = ["lib", "lib64"].iter().any(|lib| {
        let folder = Path::new(home).join(lib);
        tree.is_file(&folder.join(format!("python{python}/os.py")))
            || tree.is_file(&folder.join(format!("python3{}.zip", python.minor)))
    });
    (!has_library).then(|| InterpreterFault::OtherHome(clean(home, 200), python))
}

/// Packages in folders that Python searches before site-packages: `PYTHONPATH`, and the user's site-packages
/// unless a venv excludes it.
fn shadowing(
    tree: &dyn FileTree,
    installed: &Installed,
    stdlib: &StdlibNames<'_>,
    working_folder: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<Shadowing> {
    let mut out = Vec::new();
    let named = variable("PYTHONPATH").unwrap_or_default();
    let site = tree.real(&installed.site_packages).ok();
    for folder in named.split(':').filter(|folder| !folder.is_empty()) {
        // The environment's own site-packages shadows nothing.
        if tree.real(Path::new(folder)).ok() != site {
            out.extend(in_folder(tree, Path::new(folder), SearchedFirst::PythonPath, installed));
            out.extend(of_stdlib(tree, Path::new(folder), SearchedFirst::PythonPath, stdlib));
        }
    }
    if tree.real(working_folder).ok() != site {
        out.extend(in_folder(tree, working_folder, SearchedFirst::WorkingFolder, installed));
        out.extend(of_stdlib(tree, working_folder, SearchedFirst::WorkingFolder, stdlib));
    }
    let prefix = Path::new(&installed.prefix);
    let is_venv = tree.is_file(&prefix.join("pyvenv.cfg"));
    let closed = is_venv && !with_system_packages(tree, prefix);
    if !closed
        && variable("PYTHONNOUSERSITE").is_none_or(|v| v.is_empty())
        && let (Some(python), Some(home)) = (installed.python, variable("HOME"))
    {
        let folder = PathBuf::from(home).join(format!(".local/lib/python{python}/site-packages"));
        if folder != installed.site_packages {
            out.extend(in_folder(tree, &folder, SearchedFirst::UserSite, installed));
        }
    }
    out
}

/// Modules of Python itself by the installed package that imports them.
pub type StdlibNames<'s> = [(&'s str, &'s [String])];

/// The modules in a folder that have the name of a module of Python itself.
fn of_stdlib(
    tree: &dyn FileTree,
    folder: &Path,
    by: SearchedFirst,
    stdlib: &StdlibNames<'_>,
) -> Vec<Shadowing> {
    let is_there = |module: &str| {
        tree.is_file(&folder.join(format!("{module}.py")))
            || tree.is_file(&folder.join(module).join("__init__.py"))
    };
    let mut out: Vec<Shadowing> = Vec::new();
    for (package, modules) in stdlib {
        for module in modules.iter().filter(|module| is_there(module)) {
            if out.iter().all(|known| known.name != *module) {
                out.push(Shadowing {
                    name: module.clone(),
                    version: None,
                    folder: clean(&folder.display().to_string(), 200),
                    by,
                    of_stdlib: Some((*package).to_owned()),
                });
            }
        }
    }
    out
}

/// The packages in a folder that the environment also has.
fn in_folder(tree: &dyn FileTree, folder: &Path, by: SearchedFirst, installed: &Installed) -> Vec<Shadowing> {
    let names = tree.names(folder, MAX_ENTRIES);
    let site = &installed.site_packages;
    // Modules that the environment also has: few, so that looking up their packages is cheap. A folder without
    // `__init__.py` does not shadow the environment's package.
    let modules: Vec<String> = names
        .iter()
        .filter_map(|name| match name.strip_suffix(".py") {
            Some(module) => Some(module),
            None => tree.is_file(&folder.join(name).join("__init__.py")).then_some(name.as_str()),
        })
        // The environment has it as a package or as a module.
        .flat_map(|module| [format!("{module}/__init__.py"), format!("{module}.py")])
        .filter(|module| tree.is_file(&site.join(module)))
        .collect();
    let owns = |distribution: &Distribution, module: &String| {
        record_file::entries(&record_of(tree, distribution, site)).any(|entry| entry.path == module.as_str())
    };
    let mut out = Vec::new();
    for distribution in &installed.distributions {
        // The folder has the package's dist-info, or one of its modules.
        let with_metadata = names.iter().find_map(|name| {
            let (found, version) = name.strip_suffix(".dist-info")?.split_once('-')?;
            (normalized_name(found) == distribution.name).then(|| Some(version.into()))
        });
        let is_module = || modules.iter().any(|module| owns(distribution, module));
        let bare = || is_module().then_some(None);
        // Metadata alone shadows nothing: of two folders of a name, the one with `__init__.py` is imported.
        let with_metadata =
            with_metadata.filter(|_| is_module() || is_namespace_first(tree, distribution, folder, site));
        if let Some(version) = with_metadata.or_else(bare) {
            out.push(Shadowing {
                name: distribution.name.clone(),
                version,
                folder: clean(&folder.display().to_string(), 200),
                by,
                of_stdlib: None,
            });
        }
    }
    out
}

/// Whether a folder has a top-level folder of a distribution that is a namespace package in the environment too: its
/// portion is then searched first.
fn is_namespace_first(tree: &dyn FileTree, distribution: &Distribution, folder: &Path, site: &Path) -> bool {
    let text = record_of(tree, distribution, site);
    let mut tops = record_file::entries(&text)
        .filter_map(|entry| entry.path.split_once('/').map(|(top, _)| top.to_owned()))
        .filter(|top| !top.ends_with(".dist-info") && !top.starts_with('.'))
        .collect::<Vec<String>>();
    tops.dedup();
    tops.iter()
        .any(|top| tree.is_folder(&folder.join(top)) && !tree.is_file(&site.join(top).join("__init__.py")))
}

/// Files that virtualenv and uv put into each environment themselves.
const OF_VENV: [&str; 2] = ["_virtualenv.pth", "distutils-precedence.pth"];

/// The modules that Python imports at each start, where it finds them.
const AT_START: [&str; 2] = ["sitecustomize", "usercustomize"];

/// Files that Python executes at each start and that no package records; they are read, never run.
fn startup(tree: &dyn FileTree, installed: &Installed) -> Vec<(String, String)> {
    let site = &installed.site_packages;
    let mut found: Vec<(String, String)> = Vec::new();
    for name in tree.names(site, MAX_ENTRIES) {
        match name.ends_with(".pth") && !OF_VENV.contains(&name.as_str()) {
            // site.py executes the lines that begin with `import`; the others are folders.
            true => {
                let is_run = |line: &&str| line.starts_with("import ") || line.starts_with("import\t");
                let line = executed(tree, &site.join(&name), is_run);
                found.extend(line.map(|line| (name, line)));
            }
            false => found.extend(at_start(tree, site, &name)),
        }
    }
    // They are imported from any folder of Python's path.
    for folder in added(tree, site) {
        let own = tree.names(&folder, MAX_ENTRIES).into_iter();
        let own = own.filter_map(|name| at_start(tree, &folder, &name));
        found.extend(own.map(|(name, line)| (folder.join(name).to_string_lossy().into_owned(), line)));
    }
    if found.is_empty() {
        return found;
    }
    // Only now are the RECORDs worth reading once more.
    for distribution in &installed.distributions {
        let text = record_of(tree, distribution, site);
        found.retain(|(name, _)| !record_file::entries(&text).any(|entry| entry.path == name.as_str()));
    }
    found.sort();
    found
}

/// A module that is imported at each start, and its first line that does something.
fn at_start(tree: &dyn FileTree, folder: &Path, name: &str) -> Option<(String, String)> {
    let stem = name.split('.').next().unwrap_or_default();
    if !AT_START.contains(&stem) {
        return None;
    }
    if [".so", ".pyc", ".pyd"].iter().any(|end| name.ends_with(end)) {
        return Some((name.to_owned(), "compiled code".to_owned()));
    }
    let file = if name == stem { format!("{name}/__init__.py") } else { name.to_owned() };
    if !file.ends_with(".py") {
        return None;
    }
    let is_code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    executed(tree, &folder.join(&file), is_code).map(|line| (file, line))
}

/// The first line of a file that Python executes; for one that is too large to be read, that it is.
fn executed(tree: &dyn FileTree, file: &Path, is_run: impl Fn(&&str) -> bool) -> Option<String> {
    let Some(text) = tree.text(file, MAX_FILE) else {
        return tree.is_file(file).then(|| "it cannot be read as text".to_owned());
    };
    // As Python reads text: a byte order mark is not part of it.
    let line = text.trim_start_matches('\u{feff}').split(PYTHON_LINE_ENDS).find(is_run)?;
    Some(clean(line.trim(), 80))
}

/// The text of a distribution's RECORD; empty if it cannot be read.
fn record_of(tree: &dyn FileTree, distribution: &Distribution, site: &Path) -> String {
    tree.text(&site.join(&distribution.dist_info).join("RECORD"), record_file::MAX_RECORD).unwrap_or_default()
}

/// Libraries in the folders of NVIDIA's wheels and torch that no RECORD lists: leftovers of another release, which
/// the loader may take.
fn unrecorded(tree: &dyn FileTree, installed: &Installed) -> Vec<String> {
    let site = &installed.site_packages;
    // With an unreadable RECORD, its libraries would look unrecorded.
    if installed.distributions.iter().any(|d| !d.record_readable) {
        return Vec::new();
    }
    let recorded: std::collections::HashSet<&str> =
        installed.distributions.iter().flat_map(|d| &d.libraries).map(String::as_str).collect();
    // Only folders with recorded libraries: no RPATH points to others.
    let folders: std::collections::BTreeSet<&str> = recorded
        .iter()
        .filter(|path| path.starts_with("nvidia/") || path.starts_with("torch/lib/"))
        .filter_map(|path| path.rsplit_once('/').map(|(folder, _)| folder))
        .collect();
    let mut out = Vec::new();
    for folder in folders {
        for entry in tree.list(&site.join(folder), MAX_ENTRIES).unwrap_or_default() {
            let path = format!("{folder}/{}", entry.name.to_string_lossy());
            // Symlinks are made by users for the linker; they point to recorded libraries.
            if entry.kind == Kind::File && super::is_library(&path) && !recorded.contains(path.as_str()) {
                out.push(clean(&path, 200));
            }
        }
    }
    out.truncate(100);
    out
}

/// Folders that pip renamed while removing a package and did not delete: `~orch`.
fn leftovers(tree: &dyn FileTree, site: &Path) -> Vec<String> {
    let mut out: Vec<String> = tree
        .names(site, MAX_ENTRIES)
        .into_iter()
        .filter(|name| name.starts_with('~'))
        .map(|name| clean(&name, 100))
        .collect();
    out.sort();
    out.truncate(100);
    out
}

/// The CUDA toolkit that builds of extensions would use.
fn toolkit(tree: &dyn FileTree, root: &Path, variable: &dyn Fn(&str) -> Option<String>) -> Option<Toolkit> {
    let named = ["CUDA_HOME", "CUDA_PATH"].iter().find_map(|name| {
        variable(name).filter(|v| !v.is_empty()).map(|v| ((*name).to_owned(), PathBuf::from(v)))
    });
    // torch's own order (torch.utils.cpp_extension): the variables, the compiler on PATH, the usual place.
    let by_compiler = || {
        let path = variable("PATH")?;
        let mut folders = path.split(':').filter(|folder| folder.starts_with('/')).map(|folder| {
            // A test has another root.
            root.join(folder.trim_start_matches('/'))
        });
        let bin = folders.find(|folder| tree.is_file(&folder.join("nvcc")))?;
        Some(("nvcc".to_owned(), bin.parent()?.to_path_buf()))
    };
    let usual = || ("/usr/local/cuda".to_owned(), root.join("usr/local/cuda"));
    let (by, home) = named.or_else(by_compiler).unwrap_or_else(usual);
    let version = tree
        .text(&home.join("version.json"), MAX_FILE)
        .and_then(|text| {
            let json: serde_json::Value = serde_json::from_str(&text).ok()?;
            json["cuda"]["version"].as_str().map(str::to_owned)
        })
        .or_else(|| {
            // #define CUDA_VERSION 12080
            let header = tree.text(&home.join("include/cuda.h"), 8 << 20)?;
            let line = header.lines().find_map(|l| l.strip_prefix("#define CUDA_VERSION "))?;
            let number: u32 = line.trim().parse().ok()?;
            Some(format!("{}.{}", number / 1000, number % 1000 / 10))
        })?;
    Some(Toolkit { by, home: clean(&home.display().to_string(), 200), version: version.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::super::tree::ThisMachine;
    use super::*;

    #[test]
    fn startup_code_is_what_python_executes_and_no_package_installed() {
        let dir = tempfile::tempdir().unwrap();
        let site = dir.path().join("site");
        let write = |name: &str, text: &str| {
            let path = site.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        std::fs::create_dir(&site).unwrap();
        write("plain.pth", "../folder\n");
        write("marked.pth", "\u{feff}import evil\n");
        write("returns.pth", "../folder\rimport evil\r");
        write("feeds.pth", "../folder\u{c}import evil\u{85}");
        write("large.pth", &format!("import evil\n{}", "#".repeat(2 << 20)));
        write("added.pth", "../added\n");
        write("../added/sitecustomize.py", "import evil\n");
        write("a,b.pth", "import recorded\n");
        write("sitecustomize/__init__.py", "# hidden\nimport evil\n");
        write("usercustomize/__init__.py", "import recorded\n");
        write("usercustomize.cpython-311-x86_64-linux-gnu.so", "");
        write("sitecustomize.txt", "import nothing\n");
        write("x-1.dist-info/RECORD", "\"a,b.pth\",,\nusercustomize/__init__.py,,\n");
        let distribution = Distribution { dist_info: "x-1.dist-info".into(), ..Distribution::default() };
        let installed = Installed {
            site_packages: site.clone(),
            distributions: vec![distribution],
            ..Installed::default()
        };
        let names: Vec<String> =
            startup(&ThisMachine, &installed).into_iter().map(|(name, _)| name).collect();
        let compiled = "usercustomize.cpython-311-x86_64-linux-gnu.so";
        let expected =
            ["feeds.pth", "large.pth", "marked.pth", "returns.pth", "sitecustomize/__init__.py", compiled];
        assert!(names[0].ends_with("site/../added/sitecustomize.py"), "{names:?}");
        assert_eq!(names[1..], expected);
    }

    #[test]
    fn forced_libraries_are_those_that_are_named() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("etc")).unwrap();
        std::fs::write(
            root.path().join("etc/ld.so.preload"),
            "# /old/x.so\n/usr/lib/a.so # why\n/opt/b.so\n",
        )
        .unwrap();
        let variable = |name: &str| (name == "LD_PRELOAD").then(|| "libjemalloc.so.2:/tmp/spy.so".to_owned());
        let found = forced(&ThisMachine, root.path(), &variable);
        let found: Vec<_> = found.iter().map(|f| (f.by, f.path.as_str(), f.is_system)).collect();
        let file = "/etc/ld.so.preload";
        let expected = [
            ("LD_PRELOAD", "libjemalloc.so.2", true),
            ("LD_PRELOAD", "/tmp/spy.so", false),
            (file, "/usr/lib/a.so", true),
            (file, "/opt/b.so", false),
        ];
        assert_eq!(found, expected);
    }
}
