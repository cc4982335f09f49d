//! The files of services that check or open a project: a GitHub Actions workflow, a pre-commit configuration, a devcontainer.

use serde_json::json;
use sha2::{Digest, Sha256};

use crate::formats::write::ExportError;
use crate::formats::yaml;
use crate::lockfile::{Lockfile, Target};
use crate::model::owner::Owner;
use crate::model::platform::{Arch, Os};
use crate::model::text::{clean, shell_word};

/// The start of every workflow that envlock writes.
pub const GITHUB_MARK: &str = "# Written by envlock as a GitHub Actions workflow";
/// The start of every pre-commit configuration that envlock writes.
pub const PRE_COMMIT_MARK: &str = "# Written by envlock as a pre-commit configuration";
/// The start of every devcontainer.json that envlock writes.
pub const DEVCONTAINER_MARK: &str = "// Written by envlock as devcontainer.json";

/// A file that people edit, with a digest of what is below its first line at the end of that line.
fn sealed(text: &str) -> String {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    format!("{first} ({SEAL}{})\n{rest}", seal(rest))
}

/// Whether a file that envlock wrote was edited since. One without a digest is taken as it is.
pub fn is_edited(text: &str) -> bool {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let digest = first.trim_end().strip_suffix(')').and_then(|first| first.rsplit_once(SEAL));
    // A checkout may have made the lines end otherwise.
    digest.is_some_and(|(_, digest)| digest != seal(&rest.replace("\r\n", "\n")))
}

/// What stands before the digest.
const SEAL: &str = "sha256 of the rest ";

fn seal(rest: &str) -> String {
    hex::encode(&Sha256::digest(rest.as_bytes())[..6])
}

/// The command that installs envlock. PyPI's `envlock` is another program, so that the wheel is named by who runs the
/// service: a URL or a path.
const INSTALL: &str = "pipx install --force \"${ENVLOCK_WHEEL:?set this variable of the repository to the address of a wheel of envlock}\"";

/// Where `sync` puts an environment with conda packages.
const CONDA_PREFIX: &str = ".envlock/env";

/// The actions of a workflow, each by the commit of a release: a tag can be moved. All run on Node 24. Source: the tags and the
/// `action.yml` of their repositories, read 2026-11-30.
const CHECKOUT: &str = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1";
const SETUP_PYTHON: &str = "actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0";
const CACHE: &str = "actions/cache@27d5ce7f107fe9357f9df03efb73ab90386fccae # v5.0.5";
const UPLOAD_ARTIFACT: &str = "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f # v7.0.0";
const SETUP_PIXI: &str = "prefix-dev/setup-pixi@5185adfbffb4bd703da3010310260805d89ebb11 # v0.9.6";
const SETUP_MICROMAMBA: &str = "mamba-org/setup-micromamba@d7c9bd84e824b79d2af72a2d4196c7f4300d3476 # v3.0.0";

/// A target that a runner without a GPU can install: the named one, else one for a machine without a GPU, else the first.
pub fn for_a_runner<'l>(lock: &'l Lockfile, named: Option<&'l Target>) -> Option<&'l Target> {
    named.or_else(|| lock.targets.iter().find(|target| target.host.has_no_gpu())).or(lock.targets.first())
}

/// ` --target NAME`, where the lock has several.
fn option(lock: &Lockfile, target: &Target) -> String {
    match lock.targets.len() {
        0 | 1 => String::new(),
        _ => format!(" --target {}", shell_word(&target.name)),
    }
}

/// The program's name, with the folder of the project.
fn program(project: Option<&str>) -> String {
    project.map_or("envlock".to_owned(), |folder| format!("envlock --project {}", shell_word(folder)))
}

/// `-r` with each file that a lock answers.
fn read_options(reads: &[String]) -> String {
    reads.iter().map(|file| format!(" -r {}", shell_word(file))).collect()
}

/// A folder as a part of a name: `services-api`.
fn words_of(folder: &str) -> String {
    let words: String = folder.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    words.trim_matches('-').to_owned()
}

/// The runner for a target's platform.
fn runner(target: &Target) -> &'static str {
    match (target.platform.os, target.platform.arch) {
        (Os::Linux, Arch::Aarch64) => "ubuntu-24.04-arm",
        (Os::Linux, _) => "ubuntu-24.04",
        (Os::Macos, _) => "macos-15",
        (Os::Windows, _) => "windows-2025",
    }
}

/// The folder of the environment, from the root of the repository.
fn environment(owner: Option<Owner>, target: &Target, project: Option<&str>) -> String {
    let prefix = match owner {
        Some(Owner::Pixi) => ".pixi/envs/default",
        _ if !target.conda.is_empty() => CONDA_PREFIX,
        _ => ".venv",
    };
    project.map_or(prefix.to_owned(), |folder| format!("{}/{prefix}", folder.trim_end_matches('/')))
}

/// The action that brings the Python, with what it is asked for. Of conda packages one is the Python: their client is put on PATH.
fn setup_of_python(target: &Target) -> String {
    if !target.conda.is_empty() {
        return format!("{SETUP_MICROMAMBA}\n        with:\n          init-shell: none");
    }
    let python = match target.patches.specifiers(target.python.minor) {
        // As setup-python reads ranges.
        Some(_) => target.patches.of_series(target.python.minor).replace(',', " "),
        None => format!("3.{}", target.python.minor),
    };
    format!("{SETUP_PYTHON}\n        with:\n          python-version: \"{python}\"")
}

/// The step that keeps the installer's downloads, by the lock. pixi's action and conda have caches of their own.
fn step_of_cache(owner: Option<Owner>, target: &Target, project: Option<&str>) -> String {
    if owner == Some(Owner::Pixi) || !target.conda.is_empty() {
        return String::new();
    }
    // A runner has pip, and uv where the packages are uv's.
    let path = match (owner, target.platform.os) {
        (Some(_), Os::Windows) => "~\\AppData\\Local\\uv\\cache",
        (Some(_), _) => "~/.cache/uv",
        (None, Os::Linux) => "~/.cache/pip",
        (None, Os::Macos) => "~/Library/Caches/pip",
        (None, Os::Windows) => "~\\AppData\\Local\\pip\\Cache",
    };
    let lock = project
        .map_or("envlock.lock".to_owned(), |folder| format!("{}/envlock.lock", folder.trim_end_matches('/')));
    let key = yaml::value(&format!(
        "envlock-${{{{ runner.os }}}}-${{{{ hashFiles('{}') }}}}",
        yaml::pattern(&lock)
    ));
    format!(
        "      - uses: {CACHE}\n        with:\n          path: {path}\n          key: {key}\n          restore-keys: envlock-${{{{ runner.os }}}}-\n"
    )
}

/// The step with the project's tests, as a comment.
fn step_of_tests(
    lock: &Lockfile,
    envlock: &str,
    project: Option<&str>,
    (option, parts): (&str, &str),
) -> String {
    let with = match parts {
        "" if !lock.parts().is_empty() => format!(
            ", with the group that has their packages (`{} export github --group NAME`)",
            clean(envlock, 200)
        ),
        "" => ", where the lock has what they need".to_owned(),
        _ => String::new(),
    };
    // `run` starts the program where it is started itself.
    let folder = project.map(|folder| {
        format!("      #   working-directory: {}\n", yaml::quoted(folder.trim_end_matches('/')))
    });
    let folder = folder.unwrap_or_default();
    format!(
        "      # The project's tests{with}:\n      # - run: envlock run{option} -- python -m pytest\n{folder}"
    )
}

/// A workflow for `.github/workflows`: the lock is current, and what it says installs and computes on a CPU.
///
/// `project` is the project's folder in the repository, if that is not the root. `reads`: the requirements files that the
/// lock answers, where no manifest does. `parts`: the options of the extras and groups that are installed, ` --group dev`.
pub fn github(
    lock: &Lockfile,
    target: &Target,
    project: Option<&str>,
    (reads, parts): (&[String], &str),
) -> String {
    let runner = runner(target);
    let of_target = option(lock, target);
    let option = format!("{of_target}{parts}");
    let envlock = program(project);
    let reads = read_options(reads);
    let version = env!("CARGO_PKG_VERSION");
    let owner = lock.packages_in.as_ref().map(|held| held.owner);
    let tool = step_of_tool(owner);
    let cache = step_of_cache(owner, target, project);
    let folder = environment(owner, target, project);
    let prefix = shell_word(&folder);
    let folder = yaml::pattern(&folder);
    let python = setup_of_python(target);
    let words = words_of(project.unwrap_or_default());
    // Of several projects in a repository each has a file and checks of its own.
    let (file, of_project) = match words.as_str() {
        "" => (String::new(), String::new()),
        words => (format!("-{words}"), format!(" of {words}")),
    };
    let (smoke, computes, and_computes) = match target.has_framework() {
        true => ("cpu", ", and a convolution runs on the CPU", " and computes"),
        false => ("off", "", ""),
    };
    let is_made = yaml::value(&format!(
        "${{{{ always() && hashFiles('{folder}/pyvenv.cfg', '{folder}/conda-meta/history') != '' }}}}"
    ));
    let verify = format!("{envlock} verify{option} --prefix {prefix} --smoke off");
    let is_current = yaml::command(&format!("{envlock} resolve --locked{reads} --format github"));
    let sync = yaml::command(&format!("{envlock} sync{option} --smoke {smoke} --format github"));
    let (annotate, report) = (
        yaml::command(&format!("{verify} --format github")),
        yaml::command(&format!("{verify} --format junit -o envlock.xml")),
    );
    let summary = yaml::block(
        &format!("{{ echo '```'; {verify} 2>&1 || true; echo '```'; }} >> \"$GITHUB_STEP_SUMMARY\""),
        "          ",
    );
    let tests = step_of_tests(lock, &envlock, project, (&option, parts));
    sealed(&format!(
        r#"{GITHUB_MARK}, for .github/workflows
# Another export does not replace edits. Export again when the lock's Python changes.
name: envlock{of_project}
on:
  push:
    branches: [main, master]
  pull_request:
permissions:
  contents: read
env:
  # A wheel of envlock {version}, as a variable of the repository: a URL, with `#sha256=HASH` after it. PyPI's `envlock` is
  # another program.
  ENVLOCK_WHEEL: ${{{{ vars.ENVLOCK_WHEEL }}}}
jobs:
  lock:
    name: the lock{of_project} is current
    runs-on: ubuntu-24.04
    timeout-minutes: 5
    steps:
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
      - run: {INSTALL}
      - run: {is_current}
  environment:
    name: the lock{of_project} installs{and_computes}
    runs-on: {runner}
    timeout-minutes: 60
    steps:
      - uses: {CHECKOUT}
        with:
          persist-credentials: false
      - uses: {python}
{cache}{tool}      - run: {INSTALL}
      # Runners have no GPU: driver and GPU code are not checked{computes}.
      - run: {sync}
{tests}      # What stopped `sync` is annotated by itself.
      - run: {annotate}
        if: {is_made}
      - run: {report}
        if: {is_made}
      - run: {summary}
        if: {is_made}
      - uses: {UPLOAD_ARTIFACT}
        if: {is_made}
        with:
          name: envlock{file}
          path: envlock.xml
"#
    ))
}

/// The step that installs the tool that holds the packages.
fn step_of_tool(owner: Option<Owner>) -> String {
    match owner {
        None => String::new(),
        Some(Owner::Uv) => "      - run: pipx install uv\n".to_owned(),
        Some(Owner::Pixi) => {
            format!("      - uses: {SETUP_PIXI}\n        with:\n          run-install: false\n")
        }
    }
}

/// A configuration for `.pre-commit-config.yaml`: no commit leaves the lock behind the manifest.
///
/// `project` is the project's folder in the repository, if that is not the root. `reads`: the requirements files that the
/// lock answers, where no manifest does.
pub fn pre_commit(project: Option<&str>, reads: &[String]) -> String {
    let envlock = program(project);
    let reads = read_options(reads);
    // Of several projects in a repository each has a hook of its own.
    let (id, lock) = match project.map(|folder| folder.trim_end_matches('/')) {
        Some(folder) => (format!("envlock-{}", words_of(folder)), format!("{folder}/envlock.lock")),
        None => ("envlock".to_owned(), "envlock.lock".to_owned()),
    };
    let name = yaml::quoted(&format!("{lock} is current"));
    let entry = yaml::value(&format!("{envlock} resolve --locked{reads}"));
    sealed(&format!(
        r#"{PRE_COMMIT_MARK}: .pre-commit-config.yaml
repos:
  - repo: local
    hooks:
      - id: {id}
        name: {name}
        entry: {entry}
        # The program on PATH: PyPI's `envlock` is another one.
        language: system
        # Also where a commit deletes a file, which no pattern of files sees. It takes milliseconds.
        always_run: true
        pass_filenames: false
"#
    ))
}

/// The image with conda, for x86-64. Source: devcontainers/images, src/miniconda/README.md.
const MINICONDA: &str = "mcr.microsoft.com/devcontainers/miniconda:3";

/// A `.devcontainer/devcontainer.json`: the locked environment on Python's own image or one with conda, with the GPU where there is one.
/// `name` is the project's. `parts`: the options of the extras and groups that are installed, ` --group dev`.
///
/// # Errors
/// When the target is not for Linux, or has conda packages for a processor that the image with conda is not made for.
pub fn devcontainer(
    lock: &Lockfile,
    target: &Target,
    name: &str,
    parts: &str,
) -> Result<String, ExportError> {
    if target.platform.os != Os::Linux {
        return Err(ExportError::NotLinux(target.platform.to_string()));
    }
    let python = format!("mcr.microsoft.com/devcontainers/python:3.{}", target.python.minor);
    let (image, prefix) = match target.conda.first() {
        None => (python.as_str(), ".venv"),
        Some(_) if target.platform.arch == Arch::X86_64 => (MINICONDA, CONDA_PREFIX),
        Some(package) => return Err(ExportError::Conda(package.name.clone())),
    };
    let option = option(lock, target);
    let uses_gpu = target.envelope.driver.is_some() && !target.host.has_no_gpu();
    let mut document = json!({
        // A name that would be a variable there is text.
        "name": name.replace("${", "$ {"),
        // The packages contain CUDA and cuDNN, so the image needs none.
        "image": image,
        // From the machine that opens the container.
        "containerEnv": { "ENVLOCK_WHEEL": "${localEnv:ENVLOCK_WHEEL}" },
        "postCreateCommand": format!("{INSTALL} && envlock sync{option}{parts}"),
        "customizations": {
            "vscode": {
                "settings": { "python.defaultInterpreterPath": format!("${{containerWorkspaceFolder}}/{prefix}/bin/python") },
            },
        },
    });
    if uses_gpu {
        document["hostRequirements"] = json!({ "gpu": "optional" });
    }
    Ok(sealed(&format!("{DEVCONTAINER_MARK}: .devcontainer/devcontainer.json\n{document:#}\n")))
}
