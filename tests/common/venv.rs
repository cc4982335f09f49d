//! Virtual environments with pip. Making one takes seconds, nearly all of them for pip's own files: it is made once, and copied.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Makes an environment of `python3` in a folder; false where `python3` has no venv or no pip.
pub fn make(folder: &Path) -> bool {
    let Some(first) = first() else { return false };
    let copied = Command::new("sh").args(["-c", COPY, "sh"]).arg(first).arg(folder).status();
    copied.is_ok_and(|status| status.success())
}

/// Puts an interpreter into a folder of the PATH, which copies the environment that it is asked to make. All else is the real one.
pub fn interpreter(python: &str, link: &Path) {
    let Some(first) = first() else {
        std::os::unix::fs::symlink(python, link).unwrap();
        return;
    };
    let script = format!(
        "#!/bin/sh\nif [ \"$1 $2 $3\" != \"-I -m venv\" ]; then exec '{python}' \"$@\"; fi\nPATH=/usr/bin:/bin\nshift 3\n\
         if [ \"$1\" = --clear ]; then shift; rm -rf \"$1\"; fi\nset -- '{}' \"$1\"\n{COPY}",
        first.display()
    );
    std::fs::write(link, script).unwrap();
    std::fs::set_permissions(link, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Copies an environment `$1` to `$2`. The scripts of pip are still those of the first, whose hashes are in its RECORD: tests start
/// `python -m pip`. Links in the place of copies, where the file system has them: pip has nearly a thousand files, and nothing
/// writes into them.
const COPY: &str = r#"set -e
PATH=/usr/bin:/bin
mkdir -p "$2"
cp -al "$1/." "$2" 2>/dev/null || cp -a "$1/." "$2"
sed -i "s|$1|$2|g" "$2"/bin/[aA]ctivate* "$2/pyvenv.cfg"
"#;

/// The environment that is copied.
fn first() -> Option<&'static Path> {
    static FIRST: OnceLock<Option<PathBuf>> = OnceLock::new();
    let make = || {
        let all = Path::new(env!("CARGO_TARGET_TMPDIR"));
        remove_those_of_ended_programs(all);
        let folder = all.join(format!("venv-{}", std::process::id()));
        let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).output().ok()?;
        made.status.success().then_some(folder)
    };
    FIRST.get_or_init(make).as_deref()
}

fn remove_those_of_ended_programs(all: &Path) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let program = name.to_str().and_then(|name| name.strip_prefix("venv-"));
        if program.is_some_and(|program| !Path::new("/proc").join(program).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
