//! A Dockerfile: the locked environment on a base image without CUDA, because the packages contain CUDA.

use std::fmt::Write as _;

use crate::bundle::{BundledFile, LOCK, Role};
use crate::formats::write::{
    ExportError, beside_conda, build_constraints, in_two_steps, installable, pip_constrains_builds,
    without_hash,
};
use crate::lockfile::Target;
use crate::model::platform::Os;
use crate::model::version::cuda_short;

/// The image of a client of conda, whose tags are versions of it. Source: mamba-org/micromamba-docker, docs/tags.rst.
const MICROMAMBA: &str = "mambaorg/micromamba:2";

/// A bundle in the folder that an image is built from.
#[derive(Debug, Clone, Copy)]
pub struct BundleInContext<'b> {
    /// Its path there: letters, digits, `.`, `_`, `-` and `/`.
    pub path: &'b str,
    /// What it has for the target.
    pub files: &'b [&'b BundledFile],
}

/// Wheels that are this part of all and more get a layer before the others: frameworks and CUDA, which change seldom.
const LARGE_PART: u64 = 20;

/// A Dockerfile of a target. `base` is the base image; the default is the official image of the locked Python, and for a lock
/// with conda packages one that has a client. With a bundle, no step uses the network.
///
/// # Errors
/// See [`ExportError`]; also if a framework needs CUDA from the base image and `base` is `None`.
pub fn dockerfile(
    target: &Target,
    base: Option<&str>,
    bundle: Option<BundleInContext<'_>>,
) -> Result<String, ExportError> {
    let is_of_conda = !target.conda.is_empty();
    let (first, built) =
        in_two_steps(&if is_of_conda { beside_conda(target)? } else { installable(target)? });
    if let Some(package) = without_hash(&first).first() {
        return Err(ExportError::Unsupported { package: (*package).to_owned(), from: "git or a folder" });
    }
    if let Some(package) = built.first() {
        return Err(ExportError::Unsupported {
            package: package.name.clone(),
            from: "source that is built in the environment",
        });
    }
    if let Some(base) = base
        && !is_image(base)
    {
        return Err(ExportError::NotABase(crate::model::text::clean(base, 120)));
    }
    if target.platform.os != Os::Linux {
        return Err(ExportError::NotLinux(target.platform.to_string()));
    }
    let from_system = target.frameworks.iter().find(|x| x.cuda_from_system);
    if let (Some(framework), None) = (from_system, base) {
        let cudnn = framework.cudnn.as_ref().map(|v| format!(" and cuDNN {v}")).unwrap_or_default();
        return Err(ExportError::NoBase {
            package: framework.package.clone(),
            needs: format!("CUDA {}{cudnn}", cuda_short(&framework.cuda)),
        });
    }
    let mut out = format!("{}; change the manifest and run `envlock resolve`.\n", super::DOCKERFILE_MARK);
    match (bundle, is_of_conda) {
        (Some(bundle), _) => of_bundle(target, base, bundle, &mut out),
        (None, true) => of_conda(target, base, &mut out),
        (None, false) => of_wheels(target, base, from_system.is_some(), &mut out)?,
    }
    Ok(out)
}

/// All packages out of a bundle. It is read where it lies and is in no layer; the large wheels come first, because they change
/// seldom.
fn of_bundle(target: &Target, base: Option<&str>, bundle: BundleInContext<'_>, out: &mut String) {
    let BundleInContext { path, files } = bundle;
    let program = files.iter().find(|file| file.role == Role::Program);
    let more = if program.is_some() { "" } else { ", and envlock" };
    let own_base = match target.conda.is_empty() {
        true => image_of_python(target),
        false => MICROMAMBA.to_owned(),
    };
    let _ = write!(
        out,
        "# Build context: `{path}`{more}. No step uses the network: the base image has to be here (`docker load`).\n\
         # BuildKit reads the bundle where it lies: it is in no layer.\nFROM {}\n",
        base.unwrap_or(&own_base)
    );
    if !target.conda.is_empty() && base.is_none() {
        out.push_str("USER root\n");
    }
    gpu_variables(target, out);
    out.push_str("\nWORKDIR /app\n");
    let is_wheel = |file: &&&BundledFile| {
        matches!(file.role, Role::Package | Role::Built) && file.name.ends_with(".whl")
    };
    let all: u64 = files.iter().filter(is_wheel).map(|file| file.size).sum();
    let large: Vec<&&BundledFile> =
        files.iter().filter(is_wheel).filter(|file| file.size >= all / LARGE_PART).collect();
    let name = |file: &BundledFile| {
        let own = target.packages.iter().find(|own| own.files.iter().any(|f| f.name == file.name))?;
        Some(format!("{}=={}", own.name, own.version))
    };
    let names: Vec<String> = large.iter().filter_map(|file| name(file)).collect();
    if !names.is_empty() && target.conda.is_empty() {
        out.push_str("# The large packages, which change seldom.\nRUN --network=none \\\n");
        for file in &large {
            let place = format!("{path}/{}", file.place());
            let _ = writeln!(out, "    --mount=type=bind,source={place},target=/wheels/{} \\", file.name);
        }
        out.push_str("    printf '%s *%s\\n' \\\n");
        for file in &large {
            let _ = writeln!(out, "        {} /wheels/{} \\", file.sha256, file.name);
        }
        let _ = writeln!(
            out,
            "    | sha256sum -c \\\n    && python3 -m venv /opt/env \\\n    && /opt/env/bin/pip install --no-cache-dir --no-index --no-deps --find-links /wheels \\\n    {}",
            names.join(" \\\n    ")
        );
    }
    let _ = match program {
        Some(file) => writeln!(out, "COPY --chmod=755 {path}/{} /usr/local/bin/envlock", file.place()),
        None => writeln!(out, "COPY envlock /usr/local/bin/envlock"),
    };
    let variable = if target.conda.is_empty() { "VIRTUAL_ENV" } else { "CONDA_PREFIX" };
    let _ = write!(
        out,
        "COPY {path}/{LOCK} ./\n\
         # All that is left. Files are hashed first, the environment is verified after; this needs no GPU.\n\
         RUN --network=none --mount=type=bind,source={path},target=/bundle \\\n    \
         envlock sync --bundle /bundle --prefix /opt/env --smoke off{}\n\
         ENV {variable}=/opt/env \\\n    PATH=\"/opt/env/bin:$PATH\"\n",
        option(target)
    );
    entry(target, out);
}

/// The packages of conda and of PyPI, by `sync`: it drives the image's client of conda and the environment's pip.
fn of_conda(target: &Target, base: Option<&str>, out: &mut String) {
    let option = option(target);
    let _ = writeln!(out, "# Build context: envlock and envlock.lock.");
    match base {
        Some(base) => {
            let _ = writeln!(out, "# The base image needs conda, mamba or micromamba.\nFROM {base}");
        }
        None => {
            let _ = writeln!(out, "FROM {MICROMAMBA}");
        }
    }
    // The image's own user may write neither to /usr/local nor to /opt.
    out.push_str("USER root\n");
    gpu_variables(target, out);
    let _ = write!(
        out,
        "\nWORKDIR /app\nCOPY envlock /usr/local/bin/envlock\nCOPY envlock.lock ./\n\
         # Installs by hash, and checks files and libraries; this needs no GPU.\n\
         RUN envlock sync --prefix /opt/env --smoke off{option}\n\
         ENV CONDA_PREFIX=/opt/env \\\n    PATH=\"/opt/env/bin:$PATH\"\n"
    );
    entry(target, out);
}

/// The packages of PyPI, by pip.
fn of_wheels(
    target: &Target,
    base: Option<&str>,
    has_system_cuda: bool,
    out: &mut String,
) -> Result<(), ExportError> {
    let option = option(target);
    let constrains = pip_constrains_builds(target) && build_constraints(target)?.is_some();
    let own_base = image_of_python(target);
    let more = if constrains { ", the same for build-constraints.txt" } else { "" };
    let _ = writeln!(
        out,
        "# Build context: envlock, and `envlock export requirements.txt{option} -o requirements.txt`{more}."
    );
    if !has_system_cuda && base.is_none() {
        out.push_str("# The wheels contain CUDA and cuDNN, so the base image needs none.\n");
    }
    let _ = writeln!(out, "FROM {}", base.unwrap_or(&own_base));
    gpu_variables(target, out);
    out.push_str(
        "\nWORKDIR /app\nCOPY envlock /usr/local/bin/envlock\nCOPY requirements.txt envlock.lock ./\n",
    );
    let constraint = if constrains { "--build-constraint build-constraints.txt " } else { "" };
    if constrains {
        out.push_str("COPY build-constraints.txt ./\n");
    }
    if base.is_some() {
        let _ = writeln!(
            out,
            "# The locked wheels are for Python {0}: fail early if the base image has another.\n\
             RUN python3 -c 'import sys; assert sys.version_info[:2] == (3, {1}), sys.version'",
            target.python, target.python.minor
        );
    }
    // The pip of the base image may be older than the option.
    let newer_pip =
        if constrains { " \\\n    && /opt/env/bin/pip install --no-cache-dir 'pip>=25.3'" } else { "" };
    let _ = write!(
        out,
        "RUN python3 -m venv /opt/env{newer_pip} \\\n    && /opt/env/bin/pip install --no-cache-dir --no-deps --require-hashes {constraint}-r requirements.txt\n\
         ENV VIRTUAL_ENV=/opt/env \\\n    PATH=\"/opt/env/bin:$PATH\"\n"
    );
    let _ = write!(
        out,
        "\n# Checks files and libraries; this needs no GPU.\n\
         RUN envlock verify --smoke off{option}\n"
    );
    entry(target, out);
    Ok(())
}

/// The official image of the locked Python. Those of a series are of its newest patch release.
fn image_of_python(target: &Target) -> String {
    let patch = target.patches.below.map(|below| format!(".{}", below.saturating_sub(1))).unwrap_or_default();
    format!("python:{}{patch}-slim", target.python)
}

/// ` --target NAME`, where the target has a name of its own.
fn option(target: &Target) -> String {
    if target.name == "default" { String::new() } else { format!(" --target {}", target.name) }
}

fn uses_gpu(target: &Target) -> bool {
    target.envelope.driver.is_some() && !target.host.has_no_gpu()
}

/// What the NVIDIA container toolkit reads.
fn gpu_variables(target: &Target, out: &mut String) {
    let Some(driver) = target.envelope.driver.as_ref().filter(|_| uses_gpu(target)) else { return };
    // `cuda>=` would reject nodes that run it by minor-version compatibility.
    out.push_str("\n# Checked by the NVIDIA container toolkit when the container starts.\n");
    let _ = writeln!(
        out,
        "ENV NVIDIA_VISIBLE_DEVICES=all \\\n    NVIDIA_DRIVER_CAPABILITIES=compute,utility \\\n    \
         NVIDIA_REQUIRE_CUDA=\"driver>={driver}\""
    );
}

/// The program that checks the machine before the command.
fn entry(target: &Target, out: &mut String) {
    let gpu = if uses_gpu(target) { ", \"--require-gpu\"" } else { "" };
    let named =
        if target.name == "default" { String::new() } else { format!(", \"--target\", \"{}\"", target.name) };
    let _ = write!(
        out,
        "\n# Checks driver and GPU against the lock before the command starts.\n\
         ENTRYPOINT [\"envlock\", \"run\"{gpu}{named}, \"--\"]\nCMD [\"python\"]\n"
    );
}

/// Whether a text is an image name, so that it cannot inject other lines into the file. A digest must be SHA-256.
pub(super) fn is_image(text: &str) -> bool {
    let (name, digest) = text.split_once('@').map_or((text, None), |(name, digest)| (name, Some(digest)));
    let is_digest = |digest: &str| {
        digest
            .strip_prefix("sha256:")
            .is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
    };
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"./:_-".contains(&b))
        && digest.is_none_or(is_digest)
}
