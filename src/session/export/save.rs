//! Where an exported text is written: over a file of envlock's own, unless it was edited or belongs to another project.

use std::path::Path;

use super::{ExportOptions, Format};
use crate::export;
use crate::model::text::clean;
use crate::session::failure::Failure;
use crate::session::{self, Interface, files};

/// Refuses to replace a file that envlock did not write, or wrote in another format.
fn refuse_another(path: &Path, options: &ExportOptions) -> Result<(), Failure> {
    let own = options.format.about();
    if files::is_own(path, own.mark, options.force)? {
        return Ok(());
    }
    // What cannot be read is not envlock's.
    let text = files::read(path).ok().flatten().unwrap_or_default();
    let text = text.trim_start_matches('\u{feff}');
    let Some(other) = Format::ALL.into_iter().map(Format::about).find(|other| text.starts_with(other.mark))
    else {
        return Err(files::foreign(path));
    };
    let shown = clean(&path.display().to_string(), 200);
    Err(Failure::files(format!("`{shown}` is what `envlock export {}` wrote", other.name))
        .hint("name another file with `-o`, or pass `--force` to replace it"))
}

/// Writes a text.
///
/// # Errors
/// When another file is there that is not to be replaced.
pub(super) fn save(
    path: &Path,
    text: &str,
    options: &ExportOptions,
    interface: &dyn Interface,
) -> Result<(), Failure> {
    let about = options.format.about();
    refuse_another(path, options)?;
    // A link stays one. A pipe or a device has nothing to keep, and reading one may wait for ever.
    let is_link = fs_err::symlink_metadata(path).is_ok_and(|there| there.is_symlink());
    let real = fs_err::canonicalize(path).ok().filter(|_| is_link && path.is_file());
    let path = real.as_deref().unwrap_or(path);
    if !options.force
        && about.is_edited
        && path.is_file()
        && let Some(there) = files::read(path)?.filter(|there| there != text)
    {
        let shown = clean(&path.display().to_string(), 200);
        if export::is_edited(&there) {
            return Err(Failure::files(format!("`{shown}` was edited since envlock wrote it")).hint(
                "leave out `-o` to see what would be written, and take over what you want; `--force` replaces the file",
            ));
        }
        // What is not edited may be that of another project.
        if let (Some(own), Some(other)) = (command_of(text), command_of(&there))
            && own != other
        {
            let hint = match options.format {
                Format::PreCommit => {
                    "add this hook below it: without `-o` it is printed; `--force` replaces the file"
                }
                _ => "give this one a file of its own; `--force` replaces the file",
            };
            return Err(
                Failure::files(format!("`{shown}` belongs to another project of this repository")).hint(hint)
            );
        }
    }
    // `.github/workflows`, `.devcontainer`: a project without one gets it.
    session::write::folder_for(path)?;
    session::write::write(path, text)?;
    interface.note(&format!("wrote {}", path.display()));
    if let Some(reader) = reader_of(path).filter(|_| options.format == Format::Requirements) {
        interface.warning(&format!(
            "`{reader}` names this file: a build backend that reads its requirements there cannot read hashes"
        ));
        interface.hint("export it under another name (`-o requirements.lock.txt`), and keep the file that the build reads");
    }
    Ok(())
}

/// The command of an exported file that checks the lock, without its options: it names the project.
fn command_of(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.contains(" resolve --locked"))?;
    let command = line.trim_start().split_once(": ")?.1;
    command.split(" resolve --locked").next()
}

/// The file beside an exported one that names it, and from which a build backend may read requirements.
fn reader_of(path: &Path) -> Option<&'static str> {
    let folder = path.parent()?;
    let name = path.file_name()?.to_str()?;
    ["setup.py", "setup.cfg", "pyproject.toml"].into_iter().find(|reader| {
        let text = files::read(&folder.join(reader)).ok().flatten().unwrap_or_default();
        // The name alone, not as the end of another one.
        text.match_indices(name).any(|(at, _)| text[..at].ends_with(['"', '\'', '/', ' ', '[', '=', ':']))
    })
}
