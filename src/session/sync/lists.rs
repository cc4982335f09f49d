//! The commands, and the files that they read.

use std::path::{Path, PathBuf};

use super::target_environment::OWN_FOLDER;
use super::work::Work;
use crate::bundle::from_one_folder;
use crate::formats;
use crate::lockfile::Target;
use crate::model::direct::is_plain_path;
use crate::model::solution::ChosenPackage;
use crate::session::bundle::Wheelhouse;
use crate::session::failure::Failure;
use crate::sync::{Lists, Step, steps};

/// A list and its text.
type Texts = Vec<(PathBuf, String)>;

impl Work<'_> {
    /// The lists with their texts, and the commands.
    pub fn prepared(&self) -> Result<(Texts, Vec<Step>), Failure> {
        let folder = self.found.place.prefix.join(OWN_FOLDER);
        let packages = self.target.packages.iter().filter(|package| self.changes.puts(&package.name));
        let part = Target { packages: packages.cloned().collect(), ..self.target.clone() };
        let part = match self.wheelhouse {
            Some(own) => from_one_folder(part, &own.built.iter().collect::<Vec<_>>()),
            None => part,
        };
        let (addresses, _) = &self.addresses;
        let mut texts: Texts = Vec::new();
        let mut list = |name: &str, text: Option<String>| {
            let text = text
                .filter(|text| text.lines().any(|line| !line.starts_with(['#', '-']) && !line.is_empty()))?;
            let path = folder.join(name);
            texts.push((path.clone(), text));
            Some(path)
        };
        // What a repository or a folder holds is built, whatever the lock says of it.
        let is_built = |package: &&ChosenPackage| package.build.is_some() || package.files.is_empty();
        let built = part.packages.iter().filter(is_built).map(|package| package.name.clone()).collect();
        let (direct, hashed) = part.packages.iter().cloned().partition(|package| package.files.is_empty());
        let of = |packages: Vec<ChosenPackage>| {
            let part = Target { packages, ..part.clone() };
            formats::write::packages(&part, addresses, crate::session::files::REQUIREMENTS)
                .map(|text| Some(absolute(&text, self.folder)))
        };
        let lists = Lists {
            requirements: list("requirements.txt", of(hashed)?),
            direct: list("direct.txt", of(direct)?),
            builds: built,
            build_constraints: list("build-constraints.txt", formats::write::build_constraints(&part)?),
            build_requirements: list(
                "build-requirements.txt",
                formats::write::build_requirements(&part, self.target),
            ),
            requirements_build: list(
                "requirements-build.txt",
                formats::write::requirements_to_build(&part, addresses)?
                    .map(|text| absolute(&text, self.folder)),
            ),
            project: self.project.clone(),
            links: self.wheelhouse.map(Wheelhouse::links),
        };
        let steps = steps(&self.installer, &self.found.place, self.changes, &lists, self.talk);
        Ok((texts, steps))
    }
}

/// Folders are locked relative to the lock, and the lists lie elsewhere. A project's folder may have characters that a
/// requirements file reads in another way (`a #b`): then it is a URL.
fn absolute(requirements: &str, folder: &Path) -> String {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    let line = |line: &str| {
        // The hashes of a file follow on the next lines.
        let (line, end) = line.strip_suffix(" \\").map_or((line, "\n"), |line| (line, " \\\n"));
        match line.strip_prefix("./").map(|rest| folder.join(rest)) {
            Some(path) => match (is_plain_path(&path.to_string_lossy()), url::Url::from_file_path(&path)) {
                (false, Ok(url)) => {
                    format!("{}{end}", url.as_str().replace('$', "%24").replace(';', "%3B"))
                }
                _ => format!("{}{end}", path.display()),
            },
            None => format!("{line}{end}"),
        }
    };
    requirements.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_absolute_and_nothing_else_than_they_are() {
        let text = "# a list\n./libs/mine\nnumpy==1.0\n";
        for (folder, line) in [
            ("/srv/app", "/srv/app/libs/mine"),
            ("/srv/a #b", "file:///srv/a%20%23b/libs/mine"),
            ("/srv/c;d ${HOME}", "file:///srv/c%3Bd%20%24%7BHOME%7D/libs/mine"),
            ("/srv/-r x", "file:///srv/-r%20x/libs/mine"),
        ] {
            assert_eq!(absolute(text, Path::new(folder)), format!("# a list\n{line}\nnumpy==1.0\n"));
        }
    }
}
