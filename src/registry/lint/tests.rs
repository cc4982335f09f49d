//! The shipped data is sound, and each check of the lint finds its fault.

use super::*;
use crate::registry::Registry;

#[test]
fn shipped_data_is_sound() {
    let problems = Registry::linted(Registry::embedded().files().to_vec()).err().unwrap_or_default();
    let text: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(text.is_empty(), "{}", text.join("\n"));
}

/// The shipped registry with one file changed.
fn with_change(path: &str, from: &str, to: &str) -> Vec<String> {
    let files: Vec<RegistryFile> = Registry::embedded()
        .files()
        .iter()
        .map(|f| {
            let text = if f.path == path {
                assert!(f.text.contains(from), "{path} has no `{from}`");
                f.text.replacen(from, to, 1)
            } else {
                f.text.to_string()
            };
            RegistryFile { path: f.path.clone(), text: text.into() }
        })
        .collect();
    Registry::from_files(files).err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn a_mistake_in_one_row_is_reported_once() {
    let slip = with_change("sources.toml", "[sources]", "[source");
    assert!(slip.len() <= 2, "{} problems: {:#?}", slip.len(), &slip[..3]);
    let missing = with_change("sources.toml", "\"pypi-files\" = ", "\"pypi-file\" = ");
    let about: Vec<&String> = missing.iter().filter(|p| p.contains("`pypi-files`")).collect();
    assert_eq!(about.len(), 1, "{about:#?}");
    assert!(about[0].contains("more rows cite it"), "{}", about[0]);
}

/// What follows from a mistake alone is not told with it.
#[test]
fn a_mistake_brings_no_others() {
    for (path, from, to) in [
        ("drivers.toml", "[default]", "[defaults]"),
        ("drivers.toml", "[default]\n", "[default\n"),
        ("cudnn.toml", "[default]", "[defaults]"),
        ("gpus.toml", "gpu = [", "gpu = "),
        ("gpus.toml", "default = {", "defualt = {"),
        ("sources.toml", "[sources]", "[source]"),
        ("drivers.toml", "branch = 580\n", "branch = \"580\"\n"),
        ("torch/2.15.toml", "version = \"2.15.0\"", "version = 2"),
    ] {
        let told = with_change(path, from, to);
        assert!(
            (1..=3).contains(&told.len()),
            "{path} {to}: {} problems: {:#?}",
            told.len(),
            &told[..told.len().min(6)]
        );
        assert!(told.iter().all(|one| one.starts_with(path)), "{path} {to}: {told:#?}");
    }
}

#[test]
fn mistakes_are_found_with_file_and_line() {
    let table = [
        (
            "torch/2.9.toml",
            "version = \"2.9.0\"",
            "version = \"2.9.x\"",
            "torch/2.9.toml:8: `version = \"2.9.x\"`: ",
        ),
        (
            "torch/2.9.toml",
            "version = \"2.9.0\"",
            "versio = \"2.9.0\"",
            "torch/2.9.toml:8: `versio = \"2.9.0\"`: unknown field",
        ),
        (
            "torch/2.9.toml",
            "cudnn = \"9.10.2.21\"",
            "cudnn = \"9.10.2.99\"",
            "torch/2.9.toml:26: cuDNN 9.10.2.99 has no row",
        ),
        (
            "torch/2.9.toml",
            "variant = \"cu126\"",
            "variant = \"cu127\"",
            "torch/2.9.toml:22: `variant`: `cu127` is not of CUDA 12.6",
        ),
        (
            "frameworks/tensorflow.toml",
            "targets_evidence = \"measured\"\n",
            "",
            "missing field `targets_evidence`",
        ),
        ("torch/2.9.toml", "\"cp310\"", "\"3.10\"", "torch/2.9.toml:12: `python`: `3.10` is not an ABI tag"),
        ("gpus.toml", "class = \"geforce\"", "class = \"server\"", "`class`: `server` is none of"),
        ("sources.toml", "read 2026-11-22", "read 2026-13-22", "`2026-13-22` is not a day"),
        ("drivers.toml", "branch = 346\n", "branch = 4294967295\n", "4294967295 is no driver branch"),
        ("gpus.toml", "D14P1-15", "D14\\u001b[31m", "has control characters"),
        ("gpus.toml", "D14P1-15", "D14\\nP1", "has control characters"),
        ("errors/xid.toml", "[[error]]", "[[eror]]", "errors/xid.toml:7: unknown table `eror`"),
        ("cuda.toml", "[[toolkit]]", "[[toolkits]]", "unknown table `toolkits`"),
        ("torch/2.15.toml", "\"7.5\", ", "\"7.0\", ", "CUDA 13.2 cannot compile for 7.0"),
        ("torch/2.9.toml", "\"pypi-files\"", "\"hearsay\"", "the source `hearsay` is not in sources.toml"),
        ("registry.toml", "2.0.0", "3.0.0", "the registry has format 3.0.0"),
        ("drivers.toml", "last_branch = 580", "last_branch = 581", "driver branch 581 has no row"),
        ("gpus.toml", "capability = \"3.0\"", "capability = \"three\"", "gpus.toml:8: `\"three\"`: "),
        ("gpus.toml", "{ name", "{ nam", "gpus.toml:8: `nam`: unknown field"),
        ("torch/2.9.toml", "[default]", "[defaults]", "missing field `source`"),
        (
            "torch/2.9.toml",
            "[default]",
            "[default]\nplatform = \"linux-x86_64\"",
            "`default` can have `evidence`",
        ),
        (
            "cudnn.toml",
            "[[release]]",
            "[[release]]\nversion = \"9.28.1.4\"\n[[release]]",
            "duplicate row: another is at cudnn.toml:",
        ),
        (
            "errors/xid.toml",
            "component = \"other\"",
            "component = \"cpu\"",
            "`component`: `cpu` is none of driver, ",
        ),
        (
            "errors/xid.toml",
            "cause = \"the GPU, ",
            "cause = \"{gpu}, ",
            "a rule's own `cause` has no placeholder",
        ),
        ("gpus.toml", "capability = \"12.1\"", "capability = \"12.9\"", "has the capability 12.9"),
    ];
    for (path, from, to, expected) in table {
        let problems = with_change(path, from, to);
        assert!(problems.iter().any(|p| p.contains(expected)), "{path} {to}: {problems:#?}");
    }
}
