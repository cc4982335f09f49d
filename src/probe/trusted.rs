//! Which programs and libraries of the machine may be run or loaded: those that only the administrator can have put
//! there. An environment, a project or another user could plant a `nvidia-smi` on PATH or a library in
//! `LD_LIBRARY_PATH`, and the commands that only look must not run it.

use std::path::{Path, PathBuf};

use super::Surroundings;

/// The user that stands for root in a container with a user namespace.
const OVERFLOW_UID: u32 = 65534;

/// Folders of programs that are searched after `PATH`.
const PROGRAMS: [&str; 6] = [
    "/usr/bin",
    "/usr/local/bin",
    "/bin",
    "/usr/sbin",
    "/run/current-system/sw/bin",
    "/usr/local/nvidia/bin",
];

/// The libraries that NVML loads. One of these in a folder of `LD_LIBRARY_PATH` would be loaded with it.
const LOADED_WITH_NVML: [&str; 6] =
    ["libnvidia-ml.so.1", "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"];

/// Whether a file and every folder above it belong to root and cannot be changed by others, along the path as written
/// and where its links lead. A folder in which everybody may create files (`/tmp`) passes if it has the sticky bit:
/// what stands in it still belongs to root.
#[cfg(unix)]
pub(super) fn is_trusted(around: &Surroundings<'_>, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    // A made-up root belongs to whoever made it up.
    let own = (around.root != Path::new("/")).then(|| rustix::process::geteuid().as_raw());
    let is_safe = |place: &Path| {
        let Ok(metadata) = fs_err::symlink_metadata(place) else { return false };
        let (uid, mode) = (metadata.uid(), metadata.mode());
        let is_sticky_folder = metadata.is_dir() && mode & 0o1000 != 0;
        let belongs = uid == 0 || uid == OVERFLOW_UID || Some(uid) == own;
        // A link has no mode of its own.
        belongs && (metadata.is_symlink() || mode & 0o022 == 0 || is_sticky_folder)
    };
    let Ok(written) = std::path::absolute(path) else { return false };
    let Ok(real) = fs_err::canonicalize(path) else { return false };
    written.ancestors().all(is_safe) && real.ancestors().all(is_safe)
}

#[cfg(not(unix))]
pub(super) fn is_trusted(_around: &Surroundings<'_>, path: &Path) -> bool {
    path.exists()
}

/// A program by its name, from `PATH` and the system's folders: the first that is trusted.
pub(super) fn program(around: &Surroundings<'_>, name: &str) -> Option<PathBuf> {
    let path = (around.variable)("PATH").unwrap_or_default();
    let system = PROGRAMS.iter().filter(|_| around.root == Path::new("/")).map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(system).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|file| file.is_file() && is_trusted(around, file))
}

/// Whether loading NVML by its name loads only trusted libraries.
pub(super) fn nvml_is_trusted(around: &Surroundings<'_>) -> bool {
    let path = (around.variable)("LD_LIBRARY_PATH").unwrap_or_default();
    // The loader also splits at `;`, and an empty entry is the current folder.
    path.split([':', ';']).filter(|_| !path.is_empty()).all(|folder| {
        let folder = Path::new(if folder.is_empty() { "." } else { folder });
        LOADED_WITH_NVML
            .iter()
            .map(|name| folder.join(name))
            .all(|file| fs_err::symlink_metadata(&file).is_err() || is_trusted(around, &file))
    })
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn mode(path: &Path, mode: u32) {
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn only_what_the_administrator_alone_can_change() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        fs_err::create_dir(&bin).unwrap();
        let program = bin.join("nvidia-smi");
        fs_err::write(&program, "#!/bin/sh\n").unwrap();
        mode(&program, 0o755);
        let path = bin.display().to_string();
        let variable = |name: &str| ["PATH", "LD_LIBRARY_PATH"].contains(&name).then(|| path.clone());
        let here = Surroundings { root: dir.path().to_owned(), variable: &variable };
        assert!(is_trusted(&here, &program), "{}", program.display());
        assert_eq!(super::program(&here, "nvidia-smi").as_deref(), Some(program.as_path()));
        assert!(nvml_is_trusted(&here), "no library of NVML's is here");
        // A link to a trusted file, in a folder that others may write to.
        let open = dir.path().join("open");
        fs_err::create_dir(&open).unwrap();
        fs_err::os::unix::fs::symlink(&program, open.join("nvidia-smi")).unwrap();
        mode(&open, 0o777);
        assert!(!is_trusted(&here, &open.join("nvidia-smi")));
        mode(&open, 0o755);
        assert!(is_trusted(&here, &open.join("nvidia-smi")));
        mode(&bin, 0o775);
        assert!(!is_trusted(&here, &program), "others may replace it");
        assert!(super::program(&here, "nvidia-smi").is_none());
        fs_err::write(bin.join("libdl.so.2"), "").unwrap();
        assert!(!nvml_is_trusted(&here), "a planted libdl would be loaded with it");
        mode(&bin, 0o755);
        mode(&program, 0o775);
        assert!(!is_trusted(&here, &program), "others may change it");
        assert!(!is_trusted(&here, &dir.path().join("absent")));
    }
}
