//! Commands that repair an environment, by the installer that it has: an environment of uv has no pip, and the pip on
//! PATH belongs to another environment.

use crate::model::conda::CONDA_FORGE;
use crate::model::fix::Fix;
use crate::model::installed::{Distribution, Installed, InstalledSpec};
use crate::model::text::shell_word;
use crate::registry::STACK_PACKAGES;

/// The advice for a library of the system: no wheel provides it.
pub fn system_package(name: &str) -> Fix {
    let (file, path) = (shell_word(name), shell_word(&format!("*/{name}")));
    Fix::advice(format!(
        "install the system package that provides {name} (`apt-file search {file}`, `dnf provides {path}`)"
    ))
}

/// The command that installs into the environment, without its arguments: `.venv/bin/python -m pip install`.
fn install_into(installed: &Installed) -> (String, bool) {
    let by =
        |name: &str| installed.distributions.iter().filter(|d| d.installer.as_deref() == Some(name)).count();
    let has_pip = installed.distributions.iter().any(|d| d.name == "pip");
    let is_uv = by("uv") > by("pip") || (!has_pip && by("uv") > 0);
    let prefix = installed.prefix.trim_end_matches('/');
    match is_uv {
        true => (format!("uv pip install --python {}", shell_word(prefix)), true),
        false => (format!("{} -m pip install", shell_word(&format!("{prefix}/bin/python"))), false),
    }
}

/// The spec of the conda package that installed a distribution: pip would put another build over it.
fn of_conda<'i>(installed: &'i Installed, name: &str) -> Option<&'i InstalledSpec> {
    let own = installed.distributions.iter().find(|own| own.name == name)?;
    let by_conda = own.installer.as_deref() == Some("conda");
    installed.conda.specs.get(name).filter(|_| by_conda)
}

/// The command that installs a package of conda again, by its spec; mamba and micromamba take the same options.
pub(in crate::verify) fn reinstall_conda(installed: &Installed, spec: &InstalledSpec) -> String {
    install_by_conda(installed, &["--force-reinstall", "--no-deps"], spec)
}

/// The command that installs the newest release of a package of conda-forge.
pub(in crate::verify) fn install_of_conda_forge(installed: &Installed, name: &str) -> String {
    let spec = InstalledSpec { channel: Some(CONDA_FORGE.to_owned()), text: name.to_owned() };
    install_by_conda(installed, &[], &spec)
}

/// No channel is asked that the package does not come from: conda adds `defaults`, which is free for some users only.
fn install_by_conda(installed: &Installed, options: &[&str], spec: &InstalledSpec) -> String {
    let (program, prefix) = (installed.conda.program(), installed.prefix.trim_end_matches('/'));
    let channel = spec.channel.as_ref().map(|name| format!(" --override-channels -c {}", shell_word(name)));
    let options: String = options.iter().map(|option| format!(" {option}")).collect();
    let channel = channel.unwrap_or_default();
    format!("{program} install -p {}{channel}{options} {}", shell_word(prefix), shell_word(&spec.text))
}

/// The command that removes what pip or uv put into the environment.
pub(in crate::verify) fn uninstall(installed: &Installed, name: &str) -> String {
    let prefix = installed.prefix.trim_end_matches('/');
    match install_into(installed) {
        (_, true) => format!("uv pip uninstall --python {} {}", shell_word(prefix), shell_word(name)),
        (_, false) => {
            let python = shell_word(&format!("{prefix}/bin/python"));
            format!("{python} -m pip uninstall --yes {}", shell_word(name))
        }
    }
}

/// The command that installs what fulfils all of these requirements.
pub(in crate::verify) fn install<'r>(
    installed: &Installed,
    requirements: impl IntoIterator<Item = &'r str>,
) -> String {
    let words: Vec<String> = requirements.into_iter().map(shell_word).collect();
    format!("{} {}", install_into(installed).0, words.join(" "))
}

/// The command that reinstalls a package at its installed version; its dependencies too, where one of them may be missing.
pub(in crate::verify) fn reinstall(installed: &Installed, name: &str, with_dependencies: bool) -> String {
    if let Some(spec) = of_conda(installed, name) {
        return reinstall_conda(installed, spec);
    }
    let found = installed.distributions.iter().find(|d| d.name == name);
    let version = found.map(|d| format!("=={}", d.version)).unwrap_or_default();
    let (command, is_uv) = install_into(installed);
    let again = if is_uv { "--reinstall" } else { "--force-reinstall" };
    let alone = if with_dependencies { "" } else { " --no-deps" };
    let index = found.and_then(|d| index_option(installed, d)).unwrap_or_default();
    format!("{command} {again}{alone} {}{index}", shell_word(&format!("{name}{version}")))
}

/// The option for the index of a build with a CUDA variant in its version, `2.9.1+cu128`: PyPI does not have it.
fn index_option(installed: &Installed, of: &Distribution) -> Option<String> {
    let version = of.version.valid().filter(|version| version.is_local() && of.direct.is_none())?;
    let local: Vec<String> = version.local().iter().map(ToString::to_string).collect();
    let is_stack = STACK_PACKAGES.contains(&of.name.as_str()) && !installed.pytorch_index.is_empty();
    let address = format!("{}/{}", installed.pytorch_index.trim_end_matches('/'), local.join("."));
    is_stack.then(|| format!(" --index-url {}", shell_word(&address)))
}

/// The command that installs a package at its installed version without removing the present one, which needs RECORD.
pub(in crate::verify) fn install_over(installed: &Installed, name: &str) -> String {
    if let Some(spec) = of_conda(installed, name) {
        return reinstall_conda(installed, spec);
    }
    let found = installed.distributions.iter().find(|d| d.name == name);
    let version = found.map(|d| format!("=={}", d.version)).unwrap_or_default();
    let dist_info = found.map(|d| installed.site_of(d).join(&d.dist_info)).unwrap_or_default();
    let (command, is_uv) = install_into(installed);
    let package = shell_word(&format!("{name}{version}"));
    match is_uv {
        // uv does not install over a package that it cannot remove.
        true => {
            format!("rm -r {} && {command} --no-deps {package}", shell_word(&dist_info.to_string_lossy()))
        }
        false => format!("{command} --ignore-installed --no-deps {package}"),
    }
}

/// The command that installs the locked packages. `sync` changes no Python of the system.
pub(in crate::verify) fn install_lock(installed: &Installed) -> String {
    if let Some(command) = &installed.lock_command {
        return command.clone();
    }
    if installed.is_environment {
        let prefix = shell_word(installed.prefix.trim_end_matches('/'));
        return format!("envlock sync --prefix {prefix}{}", installed.sync_options);
    }
    let (command, _) = install_into(installed);
    format!("envlock export requirements.txt -o r.txt && {command} --require-hashes -r r.txt")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environments_own_installer_is_used() {
        let of = |installers: &[(&str, &str)]| Installed {
            prefix: "/opt/my env".to_owned(),
            distributions: installers
                .iter()
                .map(|(name, installer)| Distribution {
                    name: (*name).to_owned(),
                    version: "1.0".into(),
                    installer: Some((*installer).to_owned()),
                    ..Distribution::default()
                })
                .collect(),
            ..Installed::default()
        };
        let pip = of(&[("a", "pip"), ("pip", "pip")]);
        assert_eq!(
            reinstall(&pip, "a", false),
            "'/opt/my env/bin/python' -m pip install --force-reinstall --no-deps a==1.0"
        );
        let uv = of(&[("a", "uv"), ("b", "uv"), ("pip", "pip")]);
        assert_eq!(reinstall(&uv, "a", true), "uv pip install --python '/opt/my env' --reinstall a==1.0");
        assert_eq!(install(&uv, ["a<2"]), "uv pip install --python '/opt/my env' 'a<2'");
        // A build of the pytorch index is not on PyPI.
        let mut torch = of(&[("torch", "uv")]);
        torch.distributions[0].version = "2.9.1+cu128".into();
        torch.pytorch_index = "https://download.pytorch.org/whl".to_owned();
        assert_eq!(
            reinstall(&torch, "torch", false),
            "uv pip install --python '/opt/my env' --reinstall --no-deps torch==2.9.1+cu128 --index-url https://download.pytorch.org/whl/cu128"
        );
        // pip would put PyPI's build over conda's.
        let mut conda = of(&[("torch", "conda"), ("a", "pip"), ("pip", "conda")]);
        let spec = InstalledSpec {
            channel: Some("conda-forge".to_owned()),
            text: "pytorch=2.9.1=cuda129_1".to_owned(),
        };
        conda.conda.specs = [("torch".to_owned(), spec)].into();
        conda.conda.client = "micromamba".to_owned();
        let again = "micromamba install -p '/opt/my env' --override-channels -c conda-forge --force-reinstall --no-deps pytorch=2.9.1=cuda129_1";
        assert_eq!(
            (reinstall(&conda, "torch", true).as_str(), install_over(&conda, "torch").as_str()),
            (again, again)
        );
        assert!(reinstall(&conda, "a", false).contains("-m pip install"));
        let system = system_package("libx.so;touch x").to_string();
        assert!(system.contains("`apt-file search 'libx.so;touch x'`"), "{system}");
        assert!(install_lock(&of(&[])).ends_with("-m pip install --require-hashes -r r.txt"));
    }
}
