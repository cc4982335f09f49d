//! Which programs and libraries of the machine may be run or loaded: those that only the administrator can have put
//! there. An environment, a project or another user could plant a `nvidia-smi` on PATH or a library in
//! `LD_LIBRARY_PATH`, and the commands that only look must not run it.

use std::path::{Path, PathBuf};

use super::Surroundings;

/// The user that stands for root in a container with a user namespace.
const OVERFLOW_UID: u32 = 65534;

/// Folders of the system's programs.
const PROGRAMS: [&str; 6] = [
    "/usr/bin",
    "/usr/local/bin",
    "/bin",
    "/usr/sbin",
    "/run/current-system/sw/bin",
    "/usr/local/nvidia/bin",
];

/// Whether a file and every folder above it belong to root and cannot be changed by others, along the path as written
/// and where its links lead. A folder in which everybody may create files (`/tmp`) passes if it has the sticky bit:
/// what stands in it still belongs to root.
#[cfg(unix)]
pub(super) fn is_trusted(around: &Surroundings<'_>, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let overflow = is_overflow_root().then_some(OVERFLOW_UID);
    // A made-up root belongs to whoever made it up.
    let own = (around.root != Path::new("/")).then(|| rustix::process::geteuid().as_raw());
    let is_safe = |place: &Path| {
        let Ok(metadata) = fs_err::symlink_metadata(place) else { return false };
        let (uid, mode) = (metadata.uid(), metadata.mode());
        let is_sticky_folder = metadata.is_dir() && mode & 0o1000 != 0;
        let belongs = uid == 0 || Some(uid) == overflow || Some(uid) == own;
        // A link has no mode of its own.
        belongs && (metadata.is_symlink() || mode & 0o022 == 0 || is_sticky_folder)
    };
    let Ok(written) = std::path::absolute(path) else { return false };
    let Ok(real) = fs_err::canonicalize(path) else { return false };
    written.ancestors().all(is_safe) && real.ancestors().all(is_safe)
}

/// Whether files of the host's root appear as the overflow user's: in a user namespace that does not map all users.
/// Elsewhere that user is `nobody`.
#[cfg(unix)]
fn is_overflow_root() -> bool {
    let Ok(map) = fs_err::read_to_string("/proc/self/uid_map") else { return false };
    let all = u32::MAX.to_string();
    !map.lines().any(|line| line.split_whitespace().eq(["0", "0", all.as_str()]))
}

#[cfg(not(unix))]
pub(super) fn is_trusted(_around: &Surroundings<'_>, path: &Path) -> bool {
    path.exists()
}

/// A program by its name, from the system's folders: the first that is trusted. `PATH` has the folders of environments too,
/// and in a container these belong to root. It is what a made-up root has.
pub(super) fn program(around: &Surroundings<'_>, name: &str) -> Option<PathBuf> {
    let is_made_up = around.root != Path::new("/");
    let path = (around.variable)("PATH").filter(|_| is_made_up).unwrap_or_default();
    let system = PROGRAMS.iter().filter(|_| !is_made_up).map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(system).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|file| file.is_file() && is_trusted(around, file))
}

/// Whether loading NVML by its name loads only trusted libraries: every folder of `LD_LIBRARY_PATH` is trusted or absent.
/// The loader also looks in subfolders and expands `$LIB`, and NVML has dependencies, so that the files in a folder do
/// not tell.
pub(super) fn nvml_is_trusted(around: &Surroundings<'_>) -> bool {
    let path = match (around.variable)("LD_LIBRARY_PATH") {
        Some(path) => path,
        // Set, but not UTF-8.
        None if std::env::var_os("LD_LIBRARY_PATH").is_some_and(|raw| raw.to_str().is_none()) => {
            return false;
        }
        None => return true,
    };
    // The loader also splits at `;`, and an empty entry is the current folder.
    path.split([':', ';']).filter(|_| !path.is_empty()).all(|folder| {
        let is_plain = folder.starts_with('/') && !folder.contains('$');
        let folder = Path::new(folder);
        is_plain && (fs_err::symlink_metadata(folder).is_err() || is_trusted(around, folder))
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
        assert!(nvml_is_trusted(&here), "the folder belongs to who made up the root");
        let whole = Surroundings { root: "/".into(), variable: &variable };
        assert_ne!(super::program(&whole, "nvidia-smi"), Some(program.clone()), "PATH is not the system");
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
        assert!(!nvml_is_trusted(&here), "a planted library would be loaded with it");
        for odd in ["relative", "/usr/$LIB", "/usr/lib:"] {
            let variable = |name: &str| (name == "LD_LIBRARY_PATH").then(|| odd.to_owned());
            assert!(
                !nvml_is_trusted(&Surroundings { root: dir.path().to_owned(), variable: &variable }),
                "{odd}"
            );
        }
        mode(&bin, 0o755);
        mode(&program, 0o775);
        assert!(!is_trusted(&here, &program), "others may change it");
        assert!(!is_trusted(&here, &dir.path().join("absent")));
    }
}
