//! `envlock init`: prints which manifest was written.

use crate::cli::args::InitArgs;
use crate::cli::printer::Printer;
use crate::formats::{CondaPart, Optional};
use crate::model::text::clean;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::files;
use crate::session::init::{self, InitOptions, Initialized, NewFile};
use crate::session::options::{Global, SolveOptions};
use crate::session::settings::Project;

pub(super) fn run(global: &Global, args: &InitArgs, printer: &Printer) -> Result<u8, Failure> {
    let conda = match (args.conda, args.pypi) {
        (true, _) => CondaPart::Conda,
        (_, true) => CondaPart::Pypi,
        _ => CondaPart::Auto,
    };
    let (extras, groups) = (args.extra.clone(), args.group.clone());
    let options = InitOptions {
        torch: args.torch.clone(),
        python: args.python.clone(),
        from: args.from.clone(),
        from_prefix: args.from_prefix.clone(),
        optional: Optional {
            extras,
            groups,
            environment: args.environment.clone(),
            all_extras: args.all_extras,
            conda,
        },
        force: args.force,
    };
    let new = match init::init(global, &options, printer)? {
        Initialized::Written(new) => new,
        Initialized::Added { path, name, owner } => {
            printer.out(&format!("added `[tool.envlock]` to {}", path.display()));
            match owner {
                Some(owner) => printer.note(&format!(
                    "{} holds the packages (`{}`), and envlock the stack",
                    owner.program(),
                    owner.file()
                )),
                None => printer.note(&format!("{name} has the packages, and envlock locks them")),
            }
            printer.hint("run `envlock resolve`");
            return Ok(exit::YES);
        }
    };
    if args.from_prefix.is_none() || args.no_lock {
        tell(&new, args, printer);
        return Ok(exit::YES);
    }
    // The manifest is kept even if it cannot be locked: it still lists what is installed.
    printer.note(&format!("wrote {}", new.path.display()));
    let project = Project::with_manifest(new.folder, files::MANIFEST, &new.text)?;
    let solve = SolveOptions {
        host: args.host.clone(),
        index_url: args.index_url.clone(),
        redetect: true,
        force: args.force,
        ..SolveOptions::default()
    };
    super::resolve::run_in(global, &project, &[], &solve, None, printer)
}

fn tell(new: &NewFile, args: &InitArgs, printer: &Printer) {
    printer.out(&format!("wrote {}", new.path.display()));
    if let Some(file) = &args.from {
        let file = clean(&file.display().to_string(), 100);
        printer.note(&format!("envlock.toml has the packages now: later changes of `{file}` are not seen"));
    }
    match &new.unread {
        Some(name) => {
            printer.note(&format!("`{name}` was not read"));
            printer.hint(&format!("`envlock init --from {name} --force` takes its packages"));
        }
        None if new.has_other_environment => printer.hint(&format!(
            "`envlock resolve` writes `{0}`: give the one that is here another name (`mv {0} environment.in.yml`), then run it",
            files::ENVIRONMENT
        )),
        None => printer.hint("run `envlock resolve`"),
    }
}
