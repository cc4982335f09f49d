//! `bundle.toml`: what is in a bundle.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::Deserialize;

use crate::model::text::clean;

/// The name of the manifest.
pub const MANIFEST: &str = "bundle.toml";
/// The name of its signature, in minisign's format.
pub const SIGNATURE: &str = "bundle.toml.minisig";

/// The format that this program writes and reads.
const FORMAT: u32 = 1;
/// Maximum size of a manifest, in bytes.
pub(super) const MAX_MANIFEST: usize = 64 << 20;
/// Maximum number of files.
const MAX_FILES: usize = 100_000;
/// Maximum length of a file's name, in bytes: that of file systems.
const MAX_NAME: usize = 255;

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A locked package: a wheel or a source distribution.
    Package,
    /// A wheel that builds require.
    Build,
    /// A wheel that was built from a locked source distribution, by `bundle --build`.
    Built,
    /// A commit of a git repository, as git's packfile.
    Git,
    /// A package of a conda channel.
    Conda,
    /// The program that installs: a wheel of uv.
    Installer,
    /// An archive with a Python.
    Python,
    /// envlock itself.
    Program,
}

impl Role {
    /// The word in the manifest.
    pub fn word(self) -> &'static str {
        match self {
            Role::Package => "package",
            Role::Build => "build",
            Role::Built => "built",
            Role::Git => "git",
            Role::Conda => "conda",
            Role::Installer => "installer",
            Role::Python => "python",
            Role::Program => "program",
        }
    }
}

/// A file of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledFile {
    /// The file's name.
    pub name: String,
    /// SHA-256, 64 lower-case hexadecimal digits.
    pub sha256: String,
    /// Size in bytes.
    pub size: u64,
    /// What it is for.
    pub role: Role,
    /// The targets that need it.
    pub targets: Vec<String>,
}

impl BundledFile {
    /// Where it lies in the bundle: `files/HASH/NAME`.
    pub fn place(&self) -> String {
        format!("{}/{}/{}", super::FILES, self.sha256, self.name)
    }
}

/// What is in a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// SHA-256 of the lock.
    pub lock: String,
    /// The targets, in the lock's order.
    pub targets: Vec<String>,
    /// The files, by name and hash.
    pub files: Vec<BundledFile>,
    /// Hashes of files that an older bundle had and this one does not: where this one was laid over it, they may be there.
    pub superseded: BTreeSet<String>,
}

/// Why a manifest cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is larger than a manifest may be.
    #[error("it is larger than {} MiB", MAX_MANIFEST >> 20)]
    TooLarge,
    /// Another version of envlock wrote it.
    #[error("it has format {0}, and this envlock reads format {FORMAT}")]
    Format(u32),
    /// It is no TOML, or has other keys.
    #[error("{0}")]
    Toml(String),
    /// A value that is not valid.
    #[error("`{0}` is not {1}")]
    Value(String, &'static str),
    /// It lists a file twice.
    #[error("it lists `{0}` twice")]
    Twice(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    format: u32,
    lock: String,
    targets: Vec<String>,
    #[serde(default)]
    superseded: BTreeSet<String>,
    #[serde(default)]
    file: Vec<BundledFile>,
}

impl Manifest {
    /// Reads a manifest, which comes from outside: names are those of files, and hashes are hashes.
    ///
    /// # Errors
    /// See [`ManifestError`].
    pub fn parse(text: &str) -> Result<Manifest, ManifestError> {
        #[derive(Deserialize)]
        struct Version {
            format: u32,
        }
        if text.len() > MAX_MANIFEST {
            return Err(ManifestError::TooLarge);
        }
        let invalid = |error: toml::de::Error| ManifestError::Toml(clean(error.message(), 200));
        let Version { format } = toml::from_str(text).map_err(invalid)?;
        if format != FORMAT {
            return Err(ManifestError::Format(format));
        }
        let raw: Raw = toml::from_str(text).map_err(invalid)?;
        debug_assert_eq!(raw.format, FORMAT);
        if raw.file.len() > MAX_FILES {
            return Err(ManifestError::TooLarge);
        }
        let wrong = |text: &str, kind| Err(ManifestError::Value(clean(text, 100), kind));
        let hashes = raw.file.iter().map(|file| &file.sha256).chain([&raw.lock]).chain(&raw.superseded);
        if let Some(hash) = hashes.into_iter().find(|hash| !is_hash(hash)) {
            return wrong(hash, "a SHA-256");
        }
        if let Some(file) = raw.file.iter().find(|file| !is_name(&file.name)) {
            return wrong(&file.name, "the name of a file");
        }
        let mut seen = BTreeSet::new();
        if let Some(file) = raw.file.iter().find(|file| !seen.insert((&file.name, &file.sha256, file.role))) {
            return Err(ManifestError::Twice(file.name.clone()));
        }
        Ok(Manifest { lock: raw.lock, targets: raw.targets, files: raw.file, superseded: raw.superseded })
    }

    /// The manifest as text; the same content has the same bytes.
    pub fn render(&self) -> String {
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let list = |all: &[String]| all.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", ");
        let mut out = format!(
            "# Written by envlock bundle. `envlock sync --bundle` installs from it, `envlock verify --bundle` checks it.\n\
             format = {FORMAT}\nlock = {}\ntargets = [{}]\n",
            quoted(&self.lock),
            list(&self.targets),
        );
        if !self.superseded.is_empty() {
            let all: Vec<String> = self.superseded.iter().cloned().collect();
            let _ = writeln!(out, "superseded = [{}]", list(&all));
        }
        let mut files: Vec<&BundledFile> = self.files.iter().collect();
        files.sort_by(|a, b| (a.role, &a.name, &a.sha256).cmp(&(b.role, &b.name, &b.sha256)));
        for file in files {
            let _ = write!(
                out,
                "\n[[file]]\nname = {}\nsha256 = {}\nsize = {}\nrole = {}\ntargets = [{}]\n",
                quoted(&file.name),
                quoted(&file.sha256),
                file.size,
                quoted(file.role.word()),
                list(&file.targets),
            );
        }
        out
    }

    /// The files that a target needs.
    pub fn of_target<'m>(&'m self, target: &'m str) -> impl Iterator<Item = &'m BundledFile> + use<'m> {
        self.files.iter().filter(move |file| file.targets.iter().any(|own| own == target))
    }

    /// The size of all files, in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).fold(0, u64::saturating_add)
    }
}

/// Whether a text is a SHA-256: 64 lower-case hexadecimal digits.
pub fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// Whether a text is the name of a file and nothing else: no path, no name of Windows' devices, no hidden file.
fn is_name(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._+-!~=@".contains(&byte);
    !text.is_empty() && text.len() <= MAX_NAME && !text.starts_with(['.', '-']) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let file = |name: &str, digit: char, role| BundledFile {
            name: name.to_owned(),
            sha256: digit.to_string().repeat(64),
            size: 12,
            role,
            targets: vec!["default".to_owned()],
        };
        Manifest {
            lock: "a".repeat(64),
            targets: vec!["default".to_owned()],
            files: vec![
                file("numpy-2.3.0-cp313-cp313-manylinux_2_28_x86_64.whl", '1', Role::Package),
                file("torch-2.9.1+cu128-cp313-cp313-manylinux_2_28_x86_64.whl", '2', Role::Package),
                file("uv-0.9.0-py3-none-manylinux_2_17_x86_64.whl", '3', Role::Installer),
            ],
            superseded: BTreeSet::from(["b".repeat(64)]),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let manifest = manifest();
        let text = manifest.render();
        assert_eq!(Manifest::parse(&text), Ok(manifest.clone()));
        assert_eq!(Manifest::parse(&text).unwrap().render(), text);
        assert_eq!((manifest.size(), manifest.of_target("default").count()), (36, 3));
        assert_eq!(manifest.of_target("other").count(), 0);
    }

    #[test]
    fn hostile_manifests_are_refused() {
        let text = manifest().render();
        for (from, to, expected) in [
            ("format = 1", "format = 2", "it has format 2, and this envlock reads format 1"),
            ("numpy-2.3.0", "../numpy-2.3.0", "is not the name of a file"),
            ("numpy-2.3.0", "/etc/numpy", "is not the name of a file"),
            ("numpy-2.3.0", ".numpy", "is not the name of a file"),
            ("numpy-2.3.0", "-r", "is not the name of a file"),
            ("numpy-2.3.0", "a b", "is not the name of a file"),
            ("\"1111", "\"../1", "is not a SHA-256"),
            ("\"1111", "\"AAAA", "is not a SHA-256"),
            ("size = 12", "size = -1", "invalid value"),
            ("role = \"package\"", "role = \"virus\"", "unknown variant"),
            ("size = 12", "size = 12\nmode = \"755\"", "unknown field"),
        ] {
            let told = Manifest::parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(told.contains(expected), "{to}: {told}");
        }
    }
}
