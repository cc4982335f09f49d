//! Wheels of torch with a library built by gcc.

use std::process::Command;

use super::context::{TestContext, skipped};
use super::wheels::{Wheel, wheel};

/// Of the two wheels of a release.
pub const TAGS: [&str; 2] = ["cp312-cp312-manylinux_2_28_x86_64", "cp313-cp313t-manylinux_2_28_x86_64"];

/// A library with torch's list of architectures; nothing where there is no gcc.
pub fn libtorch_python(context: &TestContext, list: &str) -> Option<Vec<u8>> {
    library_with(context, list, "")
}

/// The same with more code.
pub fn library_with(context: &TestContext, list: &str, more: &str) -> Option<Vec<u8>> {
    let out = context.dir.path().join("libtorch_python.so");
    let source = context.dir.path().join("list.c");
    std::fs::write(
        &source,
        format!("const char flags[] = \"{list}\";\nconst char *get(void) {{ return flags; }}\n{more}\n"),
    )
    .unwrap();
    let done = Command::new("gcc")
        .args(["-shared", "-fPIC", "-nostdlib", "-o"])
        .args([&out, &source])
        .status()
        .is_ok_and(|status| status.success());
    if !done {
        skipped("no gcc here");
        return None;
    }
    Some(std::fs::read(out).unwrap())
}

/// The release that no registry has.
pub fn torch(library: &[u8], tags: &str) -> Wheel {
    torch_release("2.99.0", library, tags)
}

/// A wheel of torch with a CUDA that no registry has.
pub fn torch_release(version: &str, library: &[u8], tags: &str) -> Wheel {
    wheel("torch", version)
        .tags(tags)
        .python(">=3.10")
        .needs("nvidia-cudnn-cu13==9.30.0.1; platform_system == \"Linux\"")
        .needs("nvidia-nccl-cu13==2.31.1; platform_system == \"Linux\"")
        .needs("triton~=4.0.0; platform_system == \"Linux\"")
        .file("torch/version.py", &format!("__version__ = '{version}+cu134'\ncuda: Optional[str] = '13.4'\n"))
        .bytes("torch/lib/libtorch_python.so", library)
        .filler(400_000)
}
