//! The state of an environment that was verified without errors: sizes, times and inode numbers of its records,
//! folders and libraries, the folders that variables name, and the GPUs. While the state is unchanged, the next `run`
//! does not verify again. Other files, such as Python modules, are not part of it; `verify` checks them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::inspect::Fingerprint;
use crate::model::installed::Installed;
use crate::session::options::Global;
use crate::session::settings::{self, Project};
use crate::session::variables;
use crate::session::write;

/// Variables that change what is imported or loaded.
const VARIABLES: [&str; 11] = [
    "HOME",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "LD_PRELOAD",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONNOUSERSITE",
    "CUDA_VISIBLE_DEVICES",
    "CONDA_OVERRIDE_CUDA",
    "CUDA_HOME",
    "ENVLOCK_SYSROOT",
];
/// Files that describe the machine.
const MACHINE: [&str; 5] = [
    "/proc/sys/kernel/hostname",
    "/sys/module/nvidia/version",
    "/proc/driver/nvidia/version",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
];
/// How many entries of the current folder are looked at.
const MAX_HERE: usize = 20_000;
/// Size limit of a saved state, in bytes.
const MAX_STATE: u64 = 16 << 20;

/// The state of an environment that was verified without errors.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// Digest of what it depends on besides files: envlock itself, the registry, variables, the GPUs.
    around: String,
    /// The fingerprint of every file and folder that was checked.
    files: Fingerprint,
    /// The folders of the packages: one that was deleted is missed by the first program that imports it. Python writes its caches
    /// into them, so that their times say nothing.
    folders: BTreeSet<PathBuf>,
}

impl State {
    /// The current state. `asked`: what was asked of it, as text.
    pub fn of(
        global: &Global,
        project: &Project,
        prefix: &Path,
        asked: &str,
        installed: &Installed,
    ) -> State {
        let site = &installed.site_packages;
        let mut paths: Vec<PathBuf> = vec![
            prefix.join("pyvenv.cfg"),
            prefix.join("conda-meta"),
            prefix.join("bin/python"),
            project.lock_path(),
            site.clone(),
        ];
        paths.extend(MACHINE.iter().map(PathBuf::from));
        paths.extend(["envlock.toml", "pyproject.toml"].map(|name| project.folder.join(name)));
        for distribution in &installed.distributions {
            let info = site.join(&distribution.dist_info);
            paths.extend([info.join("RECORD"), info.join("METADATA")]);
            for library in &distribution.libraries {
                let file = site.join(library);
                paths.extend(file.parent().map(Path::to_path_buf));
                paths.push(file);
            }
        }
        paths.extend(folders_of_variables());
        if let (Some(python), Some(home)) = (installed.python, variables::raw("HOME")) {
            paths.push(PathBuf::from(home).join(format!(".local/lib/python{python}/site-packages")));
        }
        let folders = installed.distributions.iter().flat_map(|distribution| {
            let site = installed.site_of(distribution);
            distribution.folders.iter().map(move |folder| site.join(folder))
        });
        // A RECORD may name what never was there.
        let folders = folders.filter(|folder| folder.is_dir()).collect();
        State { around: around(global, asked), files: Fingerprint::of(paths), folders }
    }

    /// The saved state of an environment.
    pub fn kept(global: &Global, project: &Project, prefix: &Path) -> Option<State> {
        let path = path(global, prefix);
        let metadata = std::fs::metadata(&path).ok()?;
        if metadata.len() > MAX_STATE {
            return None;
        }
        let state: State = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        // The state may have been saved for another project's lock.
        state.files.includes(&project.lock_path()).then_some(state)
    }

    /// Whether nothing has changed.
    pub fn holds(&self, global: &Global, asked: &str) -> bool {
        // The content of a `--registry` folder may change between runs.
        global.registry.is_none()
            && self.around == around(global, asked)
            && self.files.holds()
            && self.folders.iter().all(|folder| folder.is_dir())
    }

    /// Whether a file or folder was changed at a moment or after it.
    pub fn changed_since(&self, moment: SystemTime) -> bool {
        self.files.changed_since(moment)
    }

    /// Saves the state. Errors are ignored: they only make the next start slower.
    pub fn keep(&self, global: &Global, prefix: &Path) {
        let path = path(global, prefix);
        if let (Some(folder), Ok(text)) = (path.parent(), serde_json::to_string(self))
            && std::fs::create_dir_all(folder).is_ok()
        {
            let _ = write::replace_private(&path, &text);
        }
    }
}

fn path(global: &Global, prefix: &Path) -> PathBuf {
    let absolute = std::path::absolute(prefix).unwrap_or_else(|_| prefix.to_path_buf());
    let name = hex::encode(Sha256::digest(absolute.as_os_str().as_encoded_bytes()));
    settings::cache_dir(global).join("run").join(format!("{}.json", &name[..32]))
}

/// The folders that variables name: a file added to one of them may be loaded.
fn folders_of_variables() -> Vec<PathBuf> {
    let named = ["LD_LIBRARY_PATH", "PYTHONPATH"].iter().filter_map(|name| variables::raw(name));
    named.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>()).collect()
}

fn around(global: &Global, asked: &str) -> String {
    let mut text =
        format!("envlock {} 6\nregistry {:?}\n{asked}\n", env!("CARGO_PKG_VERSION"), global.registry,);
    // A module beside the program may be imported instead of the environment's. What a program writes there is none.
    let here = std::fs::read_dir(".").into_iter().flatten().flatten().take(MAX_HERE);
    let is_module = |name: &str, is_folder: bool| match name.rsplit_once('.') {
        Some((_, end)) => ["py", "so", "pyc", "pyd"].contains(&end),
        None => is_folder,
    };
    let mut modules: Vec<String> = here
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            is_module(&name, entry.file_type().is_ok_and(|kind| !kind.is_file())).then_some(name)
        })
        .collect();
    modules.sort();
    text.push_str(&format!("here {modules:?}\n"));
    for name in VARIABLES {
        text.push_str(&format!("{name}={:?}\n", variables::raw(name)));
    }
    // The GPUs: the result for one node of a cluster is not valid for another node.
    for folder in ["/proc/driver/nvidia/gpus", "/dev"] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| folder != "/dev" || name.starts_with("nvidia"))
            .collect();
        names.sort();
        for name in names {
            let about = std::fs::read_to_string(Path::new(folder).join(&name).join("information"));
            text.push_str(&format!("{name} {}\n", about.unwrap_or_default()));
        }
    }
    hex::encode(Sha256::digest(text.as_bytes()))
}
