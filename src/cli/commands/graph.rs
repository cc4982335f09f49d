//! `envlock graph`: the locked graph for Graphviz, Mermaid, a browser or a terminal.

use std::collections::BTreeSet;

use crate::cli::args::{GraphArgs, GraphFormat, TreeArgs};
use crate::cli::printer::Printer;
use crate::export::graph::{Drawing, dot, folded, html, mermaid, svg};
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::settings::{self};
use crate::session::{project_lock, write};

pub(super) fn run(global: &Global, args: &GraphArgs, printer: &Printer) -> Result<u8, Failure> {
    if (args.format == GraphFormat::Text || printer.json) && args.output.is_none() {
        return super::tree::run(
            global,
            &TreeArgs { target: args.target.clone(), ..TreeArgs::default() },
            printer,
        );
    }
    let (project, registry, lock) = project_lock::of_project(global)?;
    let target = project_lock::target(&lock, args.target.as_deref())?;
    let request = settings::request_of_lock(&project, &lock, &registry)?;
    let asked: BTreeSet<String> = request.requirements.iter().map(|r| r.name().to_owned()).collect();
    let whole = Drawing::new(target, &asked);
    // The page has both.
    let is_whole = args.all || args.format == GraphFormat::Html;
    let drawing = if is_whole { None } else { folded(&whole) }.unwrap_or(whole);
    let text = match args.format {
        GraphFormat::Dot => dot(&drawing),
        GraphFormat::Mermaid => mermaid(&drawing),
        GraphFormat::Svg => svg(&drawing),
        GraphFormat::Html => html(&drawing),
        GraphFormat::Text => {
            return Err(Failure::usage("`--format text` does not support `--output`")
                .hint("use `envlock tree > FILE`"));
        }
    };
    match &args.output {
        None => printer.raw(&text),
        Some(path) => {
            // A drawing has no mark of envlock, so an existing file is replaced only with `--force`.
            if path.exists() && !args.force {
                return Err(Failure::files(format!("`{}` already exists", path.display()))
                    .hint("pass `--force` to replace it"));
            }
            write::write(path, &text)?;
            printer.note(&format!("wrote {}", path.display()));
        }
    }
    Ok(exit::YES)
}
