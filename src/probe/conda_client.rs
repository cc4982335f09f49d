//! The conda client that a person uses, by the variables that its shell hook sets. Nothing is executed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::pythons::Places;
use crate::model::text::shell_word;

/// A client that creates an environment from `environment.yml`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CondaClient {
    /// `conda`, with its major and minor version where its own records state it.
    Conda(Option<(u32, u32)>),
    /// `mamba`
    Mamba,
    /// `micromamba`
    Micromamba,
}

/// The first conda whose `conda create --file` reads an `environment.yml`. Source: conda's CHANGELOG, 26.3.0.
const READS_YML: (u32, u32) = (26, 3);

impl CondaClient {
    /// The client whose hook ran in this shell: `CONDA_EXE` or `MAMBA_EXE`.
    pub fn in_use(variable: &dyn Fn(&str) -> Option<OsString>) -> Option<CondaClient> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(conda) = set("CONDA_EXE") {
            let root = conda.parent().and_then(Path::parent);
            return Some(CondaClient::Conda(root.and_then(version_in)));
        }
        let name = set("MAMBA_EXE")?;
        match name.file_stem()?.to_string_lossy().as_ref() {
            "micromamba" => Some(CondaClient::Micromamba),
            _ => Some(CondaClient::Mamba),
        }
    }

    /// The name of its program.
    pub fn name(self) -> &'static str {
        match self {
            CondaClient::Conda(_) => "conda",
            CondaClient::Mamba => "mamba",
            CondaClient::Micromamba => "micromamba",
        }
    }

    /// The command that creates an environment of a name from a file. Where the client can, it keeps channels out that the
    /// file does not name: conda adds `defaults`, which is free for some users only.
    pub fn create(self, name: &str, file: &str) -> String {
        let (name, file) = (shell_word(name), shell_word(file));
        match self {
            CondaClient::Conda(version) if version.is_some_and(|version| version >= READS_YML) => {
                format!("conda create -n {name} --override-channels -c conda-forge --file {file}")
            }
            CondaClient::Conda(_) => format!("conda env create -f {file}"),
            CondaClient::Mamba => format!("mamba env create -f {file}"),
            CondaClient::Micromamba => format!("micromamba create -f {file}"),
        }
    }
}

/// A client that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CondaProgram {
    /// `conda`, `mamba` or `micromamba`.
    pub name: &'static str,
    /// Its path.
    pub path: PathBuf,
}

/// The client that a person uses, else the first on `PATH`.
pub fn program(places: &Places<'_>) -> Option<CondaProgram> {
    let set = |name: &str| (places.variable)(name).map(OsString::from);
    let file = |variable: &str| set(variable).map(PathBuf::from).filter(|path| path.is_file());
    if let (Some(client), Some(path)) =
        (CondaClient::in_use(&set), file("CONDA_EXE").or_else(|| file("MAMBA_EXE")))
    {
        return Some(CondaProgram { name: client.name(), path });
    }
    ["conda", "mamba", "micromamba"].into_iter().find_map(|name| {
        let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
        let absolute = places.path.iter().filter(|folder| folder.is_absolute());
        let path = absolute.map(|folder| folder.join(&file)).find(|path| path.is_file())?;
        Some(CondaProgram { name, path })
    })
}

/// conda's version by its record in its base environment: `conda-26.7.1-py312h7900ff3_0.json`.
fn version_in(root: &Path) -> Option<(u32, u32)> {
    let entries = std::fs::read_dir(root.join("conda-meta")).ok()?.flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let versions = names.filter_map(|name| {
        let mut numbers = name.strip_prefix("conda-")?.split('-').next()?.split('.');
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_their_commands() {
        let dir = tempfile::tempdir().unwrap();
        let meta = dir.path().join("conda-meta");
        fs_err::create_dir_all(&meta).unwrap();
        fs_err::write(meta.join("conda-libmamba-solver-25.1.0-pyhd8ed1ab_0.json"), "").unwrap();
        let exe = dir.path().join("bin/conda").into_os_string();
        let command = |variables: &[(&str, OsString)]| {
            let variable =
                |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone());
            CondaClient::in_use(&variable).map(|client| client.create("demo", "environment.yml"))
        };
        assert_eq!(command(&[]), None);
        assert_eq!(command(&[("CONDA_EXE", "".into())]), None);
        let old = "conda env create -f environment.yml";
        let new = "conda create -n demo --override-channels -c conda-forge --file environment.yml";
        let conda = [("CONDA_EXE", exe), ("MAMBA_EXE", "/x/bin/mamba".into())];
        assert_eq!(command(&conda).as_deref(), Some(old));
        for (release, expected) in [("25.11.0", old), ("26.3.0", new), ("26.7.1", new)] {
            let record = meta.join(format!("conda-{release}-py312h7900ff3_0.json"));
            fs_err::write(&record, "").unwrap();
            assert_eq!(command(&conda).as_deref(), Some(expected), "{release}");
            fs_err::remove_file(record).unwrap();
        }
        for (exe, expected) in [
            ("/x/bin/mamba", "mamba env create -f environment.yml"),
            ("/x/micromamba", "micromamba create -f environment.yml"),
        ] {
            assert_eq!(command(&[("MAMBA_EXE", exe.into())]).as_deref(), Some(expected));
        }
    }
}
