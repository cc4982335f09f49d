//! What an environment looked like when it was found clean: sizes and times of its records, folders and
//! libraries. While all are the same, the next start need not verify again. Edits elsewhere, to a module of
//! Python, are `verify`'s to find.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cli::args::GlobalArgs;
use crate::cli::files;
use crate::cli::settings::{self, Project};
use crate::model::installed::Installed;
use crate::model::text::hex;

/// Variables that change what is imported or loaded.
const VARIABLES: [&str; 8] = [
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
const MACHINE: [&str; 4] =
    ["/sys/module/nvidia/version", "/proc/driver/nvidia/version", "/etc/ld.so.cache", "/etc/ld.so.preload"];
/// A state that was kept is no larger, in bytes.
const MAX_STATE: u64 = 16 << 20;

/// A state that was found clean.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    /// What it depends on beside files: envlock itself, the registry, variables.
    around: String,
    /// Size and time of change (in ns since 1970) of each file and folder; nothing where it is absent.
    files: BTreeMap<PathBuf, Option<(u64, u128)>>,
}

impl State {
    /// The state as it is now.
    pub fn of(global: &GlobalArgs, project: &Project, prefix: &Path, installed: &Installed) -> State {
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
            paths.push(site.join(&distribution.dist_info).join("RECORD"));
            for library in &distribution.libraries {
                let file = site.join(library);
                paths.extend(file.parent().map(Path::to_path_buf));
                paths.push(file);
            }
        }
        let files = paths.into_iter().map(|path| (path.clone(), look(&path))).collect();
        State { around: around(global), files }
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
        state.files.contains_key(&project.lock_path()).then_some(state)
    }

    /// Whether everything is as it was.
    pub fn holds(&self, global: &GlobalArgs) -> bool {
        self.around == around(global) && self.files.iter().all(|(path, then)| look(path) == *then)
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

fn around(global: &GlobalArgs) -> String {
    let mut text = format!("envlock {} 1\nregistry {:?}\n", env!("CARGO_PKG_VERSION"), global.registry);
    for name in VARIABLES {
        text.push_str(&format!("{name}={:?}\n", std::env::var_os(name)));
    }
    text
}

fn look(path: &Path) -> Option<(u64, u128)> {
    let metadata = std::fs::metadata(path).ok()?;
    // What the kernel makes up has no time of its own: what it says is taken instead.
    if path.starts_with("/sys") || path.starts_with("/proc") {
        let text = std::fs::read(path).unwrap_or_default();
        let digest = Sha256::digest(&text);
        return Some((text.len() as u64, u128::from_be_bytes(*digest.first_chunk()?)));
    }
    let time = metadata.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some((metadata.len(), time.as_nanos()))
}
