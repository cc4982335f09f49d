//! `envlock export`

use std::collections::HashMap;
use std::sync::Arc;

use crate::cli::args::{ExportArgs, ExportFormat, GlobalArgs};
use crate::cli::error::{CliError, exit};
use crate::cli::printer::Printer;
use crate::cli::settings::{self, Project};
use crate::cli::{fetch, files};
use crate::export;
use crate::lockfile::{self, Lockfile, Target};
use crate::model::project::ProjectPage;
use crate::model::request::Request;
use crate::model::solution::Need;

pub(super) fn run(global: &GlobalArgs, args: &ExportArgs, printer: &Printer) -> Result<u8, CliError> {
    let project = Project::find(global, true)?;
    let text = files::read(&project.lock_path())?.ok_or_else(|| {
        CliError::new("lock", "there is no envlock.lock").hint("make it with `envlock resolve`")
    })?;
    let lock = lockfile::parse(&text)?;
    let target = lock.target(args.target.as_deref()).ok_or_else(|| {
        let names: Vec<&str> = lock.targets.iter().map(|t| t.name.as_str()).collect();
        CliError::new(
            "usage",
            format!(
                "the lock has no target `{}`",
                crate::model::text::clean(args.target.as_deref().unwrap_or(""), 40)
            ),
        )
        .hint(format!("it has {}", names.join(", ")))
    })?;
    let out = match args.format {
        ExportFormat::Environment => {
            let (addresses, _) = settings::indexes(&project, args.index_url.as_deref());
            export::conda_environment(&lock, target, &project.name(), &addresses)?
        }
        ExportFormat::Requirements => {
            let (addresses, _) = settings::indexes(&project, args.index_url.as_deref());
            export::requirements(&lock, target, &addresses)?
        }
        ExportFormat::Pylock => pylock(global, args, &project, &lock, target, printer)?,
    };
    match &args.output {
        None => printer.raw(&out),
        Some(path) => {
            let mark = match args.format {
                ExportFormat::Environment => export::ENVIRONMENT_MARK,
                ExportFormat::Requirements => export::REQUIREMENTS_MARK,
                ExportFormat::Pylock => export::PYLOCK_MARK,
            };
            files::guard(path, mark, args.force)?;
            files::write(path, &out)?;
            printer.note(&format!("wrote {}", path.display()));
        }
    }
    Ok(exit::YES)
}

/// pylock.toml states addresses: they are asked from the index, or its cache.
fn pylock(
    global: &GlobalArgs,
    args: &ExportArgs,
    project: &Project,
    lock: &Lockfile,
    target: &Target,
    printer: &Printer,
) -> Result<String, CliError> {
    let client = fetch::client(global, project, args.index_url.as_deref())?;
    let needs: Vec<Need> = lock
        .packages
        .iter()
        .map(|p| Need::Page { index: p.index.clone(), project: p.name.clone() })
        .collect();
    let bar = printer.progress("asking the index for addresses");
    let fetched = client
        .fetch(&needs, None, &mut |done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        })
        .map_err(|e| fetch::index_error(&e, &Request::default()))?;
    bar.finish_and_clear();
    let mut pages: HashMap<(String, String), Arc<ProjectPage>> = HashMap::new();
    for answer in fetched {
        if let crate::index::Fetched::Page { index, project, page: Some(page) } = answer {
            pages.insert((index, project), page);
        }
    }
    let url = |index: &str, project: &str, file: &str| {
        let page = pages.get(&(index.to_owned(), project.to_owned()))?;
        page.releases().iter().flat_map(|r| page.files(r)).find(|f| f.filename == file).map(|f| f.url.clone())
    };
    Ok(export::pylock(lock, target, &url)?)
}
