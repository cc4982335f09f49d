//! What functions of modules do to files.

/// Whether a function of a module is known not to change files.
pub(super) fn leaves_files_alone(full: &str) -> bool {
    let harmless =
        ["os.path.", "os.environ", "os.getenv", "os.listdir", "os.walk", "os.cpu_count", "os.getcwd"];
    let modules = [
        "setuptools",
        "distutils",
        "torch",
        "sys",
        "platform",
        "warnings",
        "re",
        "ast",
        "json",
        "glob",
        "time",
        "datetime",
        "packaging",
        "numpy",
        "Cython",
        "pybind11",
        "pkg_resources",
        "pathlib",
        "logging",
        "sysconfig",
    ];
    harmless.iter().any(|start| full.starts_with(start))
        || modules.contains(&full.split('.').next().unwrap_or(full))
            && !["copy", "file_util", "dir_util", "spawn", "write", "basicConfig", "Handler"]
                .iter()
                .any(|word| full.contains(word))
}
