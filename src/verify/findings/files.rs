//! Findings about the files that RECORD lists.

use super::finding;
use super::installer::{install_lock, install_over, reinstall, reinstall_conda};
use crate::model::finding::{Code, Finding, Severity};
use crate::model::fix::Fix;
use crate::model::installed::{CondaPackage, Installed, Visible};
use crate::model::native::{UnusableFile, WhyUnusable};
use crate::model::text::shell_word;

/// A message about all files of a package that have the same fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileGroup {
    /// The message.
    pub text: String,
    /// The first file, relative to site-packages.
    pub first: String,
}

/// Which record cannot be read.
pub enum Unreadable<'u> {
    /// RECORD of a package.
    Record {
        /// The package.
        name: &'u str,
        /// Its metadata folder.
        dist_info: &'u str,
        /// The environment.
        installed: &'u Installed,
    },
    /// Files whose hashes RECORD does not have, where they were to be compared.
    Hashes {
        /// The files.
        group: &'u FileGroup,
        /// The package.
        name: &'u str,
        /// The environment.
        installed: &'u Installed,
    },
    /// A locked package of [`Installed::eggs`].
    Egg(&'u Visible, &'u Installed),
    /// A file of `conda-meta`.
    Conda(&'u str),
}

/// A record is missing or cannot be read: the files of the package were not checked.
pub fn unreadable_record(of: &Unreadable<'_>) -> Finding {
    let (name, dist_info, installed) = match of {
        Unreadable::Record { name, dist_info, installed } => (*name, *dist_info, *installed),
        Unreadable::Hashes { group, name, installed } => {
            return finding(Code::UnreadableRecord, Severity::Warning, group.text.clone())
                .at(&group.first)
                .fixed_by(Fix::command(reinstall(installed, name, false)));
        }
        Unreadable::Egg(egg, installed) => {
            let text =
                format!("{} has an `.egg-info` and no RECORD: its files could not be checked", egg.name);
            return finding(Code::UnreadableRecord, Severity::Warning, text)
                .at(egg.dist_info.as_deref().unwrap_or(&egg.name))
                .fixed_by(Fix::command(install_lock(installed)));
        }
        Unreadable::Conda(name) => {
            let text = format!(
                "conda-meta/{name} cannot be read as a record: the files of its package could not be checked"
            );
            let fix = "delete it, and install its package again with conda if it is needed";
            return finding(Code::UnreadableRecord, Severity::Warning, text)
                .at(format!("conda-meta/{name}"))
                .fixed_by(Fix::advice(fix.to_owned()));
        }
    };
    let text = format!("{name} has no readable RECORD: its files could not be checked");
    let is_second = installed
        .distributions
        .iter()
        .any(|other| other.name == name && other.dist_info != dist_info && other.record_readable);
    // A leftover of a release that another one has replaced.
    if is_second {
        let own = installed.distributions.iter().find(|own| own.name == name && own.dist_info == dist_info);
        let site = own.map_or(installed.site_packages.as_path(), |own| installed.site_of(own));
        let path = site.join(dist_info);
        return finding(Code::UnreadableRecord, Severity::Warning, text)
            .at(dist_info)
            .fixed_by(Fix::command(format!("rm -r {}", shell_word(&path.to_string_lossy()))));
    }
    finding(Code::UnreadableRecord, Severity::Warning, text)
        .at(dist_info)
        .fixed_by(Fix::command(install_over(installed, name)))
}

/// What is missing of a package.
pub enum MissingFiles<'m> {
    /// Files that its RECORD lists.
    Recorded {
        /// The files.
        group: FileGroup,
        /// The package.
        name: &'m str,
        /// The environment.
        installed: &'m Installed,
    },
    /// Files that conda's record lists.
    Conda {
        /// The files.
        group: FileGroup,
        /// The package.
        package: &'m CondaPackage,
        /// The environment.
        installed: &'m Installed,
    },
    /// conda's records name them, and they are no code: people delete what they do not need.
    CondaData {
        /// The files.
        group: FileGroup,
    },
    /// A file that its package opens by its path and that RECORD does not list.
    ByPath(&'m UnusableFile, &'m Installed),
    /// The folder that an editable install leads to.
    Editable {
        /// The package.
        name: &'m str,
        /// The folder.
        folder: &'m str,
    },
}

/// Files of a package are missing.
pub fn missing_file(missing: MissingFiles<'_>) -> Finding {
    match missing {
        MissingFiles::Recorded { group, name, installed } => {
            finding(Code::MissingFile, Severity::Error, group.text)
                .at(group.first)
                .fixed_by(Fix::command(reinstall(installed, name, false)))
        }
        MissingFiles::ByPath(UnusableFile { package, path, why: WhyUnusable::NotForCuda, effect, .. }, _) => {
            let text = format!("{package} has no {path}: {effect}");
            let fix = format!(
                "reinstall {package}; if its release has no such file, install another release of {package} or of torch"
            );
            finding(Code::MissingFile, Severity::Warning, text).at(path).fixed_by(Fix::advice(fix))
        }
        MissingFiles::ByPath(UnusableFile { package, path, effect, .. }, installed) => {
            let text = format!("{path} of {package} is missing: {effect}");
            finding(Code::MissingFile, Severity::Error, text)
                .at(path)
                .fixed_by(Fix::command(reinstall(installed, package, false)))
        }
        MissingFiles::CondaData { group } => {
            finding(Code::MissingFile, Severity::Info, group.text).at(group.first)
        }
        MissingFiles::Conda { group, package, installed } => {
            finding(Code::MissingFile, Severity::Error, group.text)
                .at(group.first)
                .fixed_by(conda_reinstall(package, installed))
        }
        MissingFiles::Editable { name, folder } => {
            let text = format!("{name} is an editable install of {folder}, which does not exist");
            let fix = format!("restore the folder, or install {name} again");
            finding(Code::MissingFile, Severity::Error, text).at(folder).fixed_by(Fix::advice(fix))
        }
    }
}

/// Files that are not as they were recorded.
pub enum AlteredFiles<'a> {
    /// They differ from RECORD.
    Recorded {
        /// The files.
        group: FileGroup,
        /// The package.
        name: &'a str,
        /// They have not changed since RECORD was written, so the wheel was published like this, or the installer's cache was
        /// changed before.
        as_published: bool,
        /// The environment.
        installed: &'a Installed,
    },
    /// Lists of certificates to which more were appended.
    Extended {
        /// The files.
        group: FileGroup,
    },
    /// A program that is not executable.
    NotExecutable(&'a UnusableFile),
    /// They differ from conda's record.
    Conda {
        /// The files.
        group: FileGroup,
        /// The package.
        package: &'a CondaPackage,
        /// Whether they are libraries, modules or programs; others are edited.
        are_executed: bool,
        /// The environment.
        installed: &'a Installed,
    },
}

/// The size or hash of files differs from what is recorded.
pub fn altered_file(altered: AlteredFiles<'_>) -> Finding {
    let new = |severity, text: String, first| finding(Code::AlteredFile, severity, text).at(first);
    match altered {
        AlteredFiles::Recorded { group: FileGroup { text, first }, name, as_published, installed } => {
            if as_published {
                let text = format!("{text}; unchanged since the installation: it was installed so");
                return new(Severity::Info, text, first);
            }
            new(Severity::Error, text, first).fixed_by(Fix::command(reinstall(installed, name, false)))
        }
        AlteredFiles::NotExecutable(UnusableFile { package, path, file, effect, .. }) => {
            let text = format!("{path} of {package} is not executable: {effect}");
            let fix = format!("chmod +x {}", shell_word(&file.to_string_lossy()));
            new(Severity::Error, text, path.clone()).fixed_by(Fix::command(fix))
        }
        AlteredFiles::Extended { group: FileGroup { text, first } } => {
            let text = format!("{text}: programs trust the certificates that were added, as a company's are");
            new(Severity::Info, text, first)
        }
        AlteredFiles::Conda { group: FileGroup { text, first }, package, are_executed, installed } => {
            if !are_executed {
                return new(Severity::Info, text, first);
            }
            new(Severity::Error, text, first).fixed_by(conda_reinstall(package, installed))
        }
    }
}

/// The command that installs a package of conda again as it is recorded.
fn conda_reinstall(package: &CondaPackage, installed: &Installed) -> Fix {
    match package.spec() {
        Some(spec) => Fix::command(reinstall_conda(installed, &spec)),
        None => Fix::advice("install the package again with conda"),
    }
}

/// Two packages install the same files. `is_whole`: whether those on disk are of `keep`; otherwise the fix reinstalls it.
pub fn file_owned_twice(
    group: FileGroup,
    keep: &str,
    other: &str,
    is_whole: bool,
    installed: &Installed,
) -> Finding {
    let FileGroup { text, first } = group;
    match is_whole {
        true => {
            let text =
                format!("{text}; those of {keep} are in place, and installing {other} again overwrites them");
            finding(Code::FileOwnedTwice, Severity::Info, text).at(first)
        }
        false => {
            let text = format!("{text}, which has overwritten them");
            finding(Code::FileOwnedTwice, Severity::Error, text)
                .at(first)
                .fixed_by(Fix::command(reinstall(installed, keep, false)))
        }
    }
}
