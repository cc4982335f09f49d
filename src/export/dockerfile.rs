//! A Dockerfile: the locked environment on a base without CUDA, for the wheels bring theirs.

use std::fmt::Write as _;

use super::{ExportError, installable};
use crate::lockfile::Target;
use crate::model::platform::Os;
use crate::model::version::cuda_short;

/// A Dockerfile of a target. `base` is an image, by digest where reproducible; without one it is Python's own.
///
/// # Errors
/// See [`ExportError`]; also where a framework takes CUDA from the image and no base is named.
pub fn dockerfile(target: &Target, base: Option<&str>) -> Result<String, ExportError> {
    installable(target)?;
    if let Some(base) = base
        && !is_image(base)
    {
        return Err(ExportError::NotABase(crate::model::text::clean(base, 120)));
    }
    if target.platform.os != Os::Linux {
        return Err(ExportError::NotLinux(target.platform.to_string()));
    }
    let uses_gpu = target.envelope.driver.is_some() && !target.host.has_no_gpu();
    let option = if target.name == "default" { String::new() } else { format!(" --target {}", target.name) };
    let from_system = target.frameworks.iter().find(|x| x.cuda_from_system);
    if let (Some(framework), None) = (from_system, base) {
        let cudnn = framework.cudnn.as_ref().map(|v| format!(" and cuDNN {v}")).unwrap_or_default();
        return Err(ExportError::NoBase {
            package: framework.package.clone(),
            needs: format!("CUDA {}{cudnn}", cuda_short(&framework.cuda)),
        });
    }
    let own_base = format!("python:{}-slim", target.python);
    let mut out = format!("{}; change envlock.toml and run `envlock resolve`.\n", super::DOCKERFILE_MARK);
    let _ = writeln!(
        out,
        "# Beside it: `envlock export requirements.txt{option} -o requirements.txt`, and envlock itself."
    );
    if from_system.is_none() && base.is_none() {
        out.push_str(
            "# The wheels bring CUDA and cuDNN: a base with its own would only stand in their way.\n",
        );
    }
    let _ = writeln!(out, "FROM {}", base.unwrap_or(&own_base));
    if let Some(driver) = target.envelope.driver.as_ref().filter(|_| uses_gpu) {
        // `cuda>=` would refuse nodes that run it in minor-version compatibility.
        out.push_str("\n# Checked by the NVIDIA container toolkit when the container starts.\n");
        let _ = writeln!(
            out,
            "ENV NVIDIA_VISIBLE_DEVICES=all \\\n    NVIDIA_DRIVER_CAPABILITIES=compute,utility \\\n    \
             NVIDIA_REQUIRE_CUDA=\"driver>={driver}\""
        );
    }
    out.push_str(
        "\nWORKDIR /app\nCOPY envlock /usr/local/bin/envlock\nCOPY requirements.txt envlock.lock ./\n",
    );
    if base.is_some() {
        let _ = writeln!(
            out,
            "# The hashes are of wheels for Python {0}: another would fail later, and less clearly.\n\
             RUN python3 -c 'import sys; assert sys.version_info[:2] == (3, {1}), sys.version'",
            target.python, target.python.minor
        );
    }
    out.push_str(
        "RUN python3 -m venv /opt/env \\\n    && /opt/env/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements.txt\n\
         ENV VIRTUAL_ENV=/opt/env \\\n    PATH=\"/opt/env/bin:$PATH\"\n",
    );
    let _ = write!(
        out,
        "\n# Files, libraries and what the loader would pick: no GPU is needed for that.\n\
         RUN envlock verify --smoke off{option}\n"
    );
    let gpu = if uses_gpu { ", \"--require-gpu\"" } else { "" };
    let named =
        if target.name == "default" { String::new() } else { format!(", \"--target\", \"{}\"", target.name) };
    let _ = write!(
        out,
        "\n# Driver and GPU are held against the lock before the command starts.\n\
         ENTRYPOINT [\"envlock\", \"run\"{gpu}{named}, \"--\"]\nCMD [\"python\"]\n"
    );
    Ok(out)
}

/// Whether a text can be an image's name: nothing else must get into the file. A digest is one of SHA-256.
fn is_image(text: &str) -> bool {
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
