//! `envlock plan`: every torch build that a machine can run, from the registry only; with `--lock`, whether a lock runs.

mod container;
mod lock;
mod torch_builds;

use serde_json::json;

use crate::cli::printer::Printer;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::plan::{Answer, PlanOptions, plan};

pub(super) fn run(global: &Global, options: &PlanOptions, printer: &Printer) -> Result<u8, Failure> {
    let planned = plan(global, options)?;
    Ok(match &planned.answer {
        Answer::Builds { plan, unread, is_of_channels } => {
            torch_builds::tell(&planned, (plan, unread.as_ref(), *is_of_channels), options, printer)
        }
        Answer::Lock(path, locks) => lock::tell(&planned, (path, locks), printer),
        Answer::Image(image, judged) => container::tell(&planned, image, judged, printer),
        Answer::NoImage { message, near, never_existed } => {
            container::absent(message, near, *never_existed, printer)
        }
        Answer::Page(path) => {
            match printer.json {
                true => printer.json(&json!({ "written": path, "platform": planned.host.system.platform })),
                false => printer.note(&format!("wrote {}", path.display())),
            }
            exit::YES
        }
    })
}
