//! What an environment looked like when it was found clean: sizes, times and numbers of its records, folders and
//! libraries, the folders that variables name, the cards. While all are the same, the next start need not verify
//! again. Edits elsewhere, to a module of Python, are `verify`'s to find.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cli::args::{GlobalArgs, RunArgs};
use crate::cli::files;
use crate::cli::settings::{self, Project};
use crate::inspect::Fingerprint;
use crate::model::installed::Installed;
use crate::model::text::hex;

/// Variables that change what is imported or loaded.
const VARIABLES: [&str; 9] = [
    "HOME",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONPATH",
    "PYTHONNOUSERSITE",
    "CUDA_VISIBLE_DEVICES",
    "CONDA_OVERRIDE_CUDA",
    "CUDA_HOME",
    "ENVLOCK_SYSROOT",
];
/// Files that tell of the machine.
const MACHINE: [&str; 5] = [
    "/proc/sys/kernel/hostname",
    "/sys/module/nvidia/version",
    "/proc/driver/nvidia/version",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
];
/// A state that was kept is no larger, in bytes.
const MAX_STATE: u64 = 16 << 20;

/// A state that was found clean.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// What it depends on beside files: envlock itself, the registry, variables.
    around: String,
    /// Of every file and folder that was judged.
    files: Fingerprint,
}

impl State {
    /// The state as it is now.
    pub fn of(
        global: &GlobalArgs,
        project: &Project,
        prefix: &Path,
        args: &RunArgs,
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
        if let (Some(python), Some(home)) = (installed.python, std::env::var_os("HOME")) {
            paths.push(PathBuf::from(home).join(format!(".local/lib/python{python}/site-packages")));
        }
        State { around: around(global, args), files: Fingerprint::of(paths) }
    }

    /// The state that was kept of an environment.
    pub fn kept(global: &GlobalArgs, project: &Project, prefix: &Path) -> Option<State> {
        let path = path(global, prefix);
        let metadata = std::fs::metadata(&path).ok()?;
        if metadata.len() > MAX_STATE {
            return None;
        }
        let state: State = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        // Another project's lock may have been held against the same environment.
        state.files.includes(&project.lock_path()).then_some(state)
    }

    /// Whether everything is as it was.
    pub fn holds(&self, global: &GlobalArgs, args: &RunArgs) -> bool {
        // Another registry may say anything the next time.
        global.registry.is_none() && self.around == around(global, args) && self.files.holds()
    }

    /// Whether a file or folder was changed at a moment or after it.
    pub fn changed_since(&self, moment: SystemTime) -> bool {
        self.files.changed_since(moment)
    }

    /// Keeps it; that it cannot be kept only makes the next start slower.
    pub fn keep(&self, global: &GlobalArgs, prefix: &Path) {
        let path = path(global, prefix);
        if let (Some(folder), Ok(text)) = (path.parent(), serde_json::to_string(self))
            && std::fs::create_dir_all(folder).is_ok()
        {
            let _ = files::write(&path, &text);
        }
    }
}

fn path(global: &GlobalArgs, prefix: &Path) -> PathBuf {
    let absolute = std::path::absolute(prefix).unwrap_or_else(|_| prefix.to_path_buf());
    let name = hex(&Sha256::digest(absolute.as_os_str().as_encoded_bytes()));
    settings::cache_dir(global).join("run").join(format!("{}.json", &name[..32]))
}

/// The folders that variables name: what is put into one of them may be loaded.
fn folders_of_variables() -> Vec<PathBuf> {
    let named = ["LD_LIBRARY_PATH", "PYTHONPATH"].iter().filter_map(std::env::var_os);
    named.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>()).collect()
}

fn around(global: &GlobalArgs, args: &RunArgs) -> String {
    let mut text = format!(
        "envlock {} 4\nregistry {:?}\ntarget {:?}\ngpu {}\n",
        env!("CARGO_PKG_VERSION"),
        global.registry,
        args.target,
        args.require_gpu
    );
    for name in VARIABLES {
        text.push_str(&format!("{name}={:?}\n", std::env::var_os(name)));
    }
    // The cards: a clean answer of one node of a cluster is none for its neighbour.
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
    hex(&Sha256::digest(text.as_bytes()))
}
