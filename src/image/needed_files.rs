//! Which contents of an image are kept: what `inspect` reads. Of the other files only name, size and kind are known.

use crate::inspect;

/// Maximum size of a text that is kept, in bytes; the largest are conda's records.
const MAX_TEXT: u64 = 64 << 20;
/// Maximum size of a source file that is kept, in bytes.
const MAX_SOURCE: u64 = 4 << 20;

/// Maximum size of a program that may be a script and is kept, in bytes: what an image starts is followed through them.
const MAX_SCRIPT: u64 = 64 << 10;

/// How much of a file is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kept {
    /// Nothing.
    No,
    /// Everything.
    Whole,
    /// Everything but the payloads of GPU code.
    WithoutPayloads,
}

/// How much of a file is kept, by its path.
pub(super) fn of(path: &str, size: u64) -> Kept {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    if inspect::is_library(name) {
        return Kept::WithoutPayloads;
    }
    if folder.ends_with("/bin") && name.starts_with("python") {
        return Kept::Whole;
    }
    let is_text = match name.rsplit('.').next().unwrap_or_default() {
        "py" => size <= MAX_SOURCE,
        "pth" | "egg-link" => true,
        "json" => folder.ends_with("/conda-meta") || name == "version.json" || folder.ends_with(".dist-info"),
        _ => {
            folder.ends_with(".dist-info")
                || folder.ends_with(".egg-info")
                || folder.ends_with("/EGG-INFO")
                || name.ends_with(".egg-info")
                || name == "pyvenv.cfg"
                || (folder == "/etc"
                    && (name.starts_with("ld.so.") || ["environment", "passwd", "rc"].contains(&name)))
                || folder == "/.singularity.d/env"
                || (name == "cuda.h" && folder.ends_with("/include"))
        }
    };
    if is_text && size <= MAX_TEXT { Kept::Whole } else { Kept::No }
}

/// How much of a file is kept, by its path and mode.
pub(super) fn of_file(path: &str, size: u64, mode: u32) -> Kept {
    match of(path, size) {
        Kept::No if mode & 0o111 != 0 && size <= MAX_SCRIPT => Kept::Whole,
        kept => kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_inspect_reads_is_kept() {
        for (path, expected) in [
            ("/opt/v/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so", Kept::WithoutPayloads),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", Kept::WithoutPayloads),
            ("/usr/bin/python3.12", Kept::Whole),
            ("/usr/bin/gcc", Kept::No),
            ("/opt/v/pyvenv.cfg", Kept::Whole),
            ("/opt/v/lib/python3.12/site-packages/torch-2.9.1.dist-info/RECORD", Kept::Whole),
            ("/opt/v/lib/python3.12/site-packages/six.py", Kept::Whole),
            ("/root/.cache/uv/archive-v0/x/six.py", Kept::Whole),
            ("/opt/conda/conda-meta/pytorch-2.5.json", Kept::Whole),
            ("/etc/ld.so.cache", Kept::Whole),
            ("/.singularity.d/env/90-environment.sh", Kept::Whole),
            ("/etc/environment", Kept::Whole),
            ("/data/weights.safetensors", Kept::No),
        ] {
            assert_eq!(of(path, 100), expected, "{path}");
        }
        assert_eq!(of("/opt/v/pyvenv.cfg", 1 << 40), Kept::No);
        let program = |size, mode| of_file("/opt/v/bin/torchrun", size, mode);
        assert_eq!(
            [program(100, 0o755), program(100, 0o644), program(1 << 20, 0o755)],
            [Kept::Whole, Kept::No, Kept::No]
        );
    }
}
