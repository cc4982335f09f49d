//! `envlock bundle`

use serde_json::json;

use crate::cli::printer::{Printer, wrap};
use crate::cli::report::label;
use crate::model::bytes::Bytes;
use crate::model::count::Count;
use crate::model::text::shell_word;
use crate::session::Interface as _;
use crate::session::bundle::{BundleOptions, Bundled, OfTarget, bundle};
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;

pub(super) fn run(global: &Global, options: &BundleOptions, printer: &Printer) -> Result<u8, Failure> {
    let bundled = bundle(global, options, printer)?;
    if printer.json {
        printer.json(&document(&bundled));
        return Ok(exit::YES);
    }
    for target in &bundled.targets {
        let size = size((target.files, target.bytes, target.unmeasured));
        printer.out(&format!("{}{size}", label(printer, &target.name)));
    }
    let kept = match bundled.kept {
        0 => String::new(),
        count => format!(", {count} there before"),
    };
    let all = size((bundled.files, bundled.bytes, bundled.unmeasured));
    printer.out(&format!("{}{all}{kept}", label(printer, "all")));
    if !bundled.proprietary.is_empty() {
        printer.note(&format!(
            "the licence of {} may forbid to pass them on: {}",
            Count(bundled.proprietary.len()).of("file"),
            bundled.proprietary.join(", ")
        ));
    }
    let place = bundled.place.display().to_string();
    if bundled.is_planned {
        printer.out(&wrap(&format!("nothing was downloaded; `{place}` would have them"), 0));
    } else if !options.wheelhouse {
        printer.done(&format!("wrote {place}"));
        let place = shell_word(&place);
        let (copied, place) = match &options.since {
            // It has only what the older one lacks.
            Some(_) => {
                let copy = match bundled.place.is_dir() {
                    true => format!("cp -r {place}/. OLD"),
                    false => format!("tar -xf {place} -C OLD"),
                };
                (format!("`{copy}`, where `OLD` is the folder of the older bundle, then "), "OLD".to_owned())
            }
            None => (String::new(), place),
        };
        let build = if bundled.builds_there { " --build" } else { "" };
        printer.hint(&match options.sign {
            Some(_) => {
                format!(
                    "on the other side: {copied}`envlock sync --bundle {place}{build} --pubkey PUBLIC_KEY`"
                )
            }
            None => format!(
                "on the other side: {copied}`envlock sync --bundle {place}{build}`. Whoever can change the bundle can change the installer in it: \
                 `envlock bundle --sign KEY` signs it, and `--pubkey` demands the signature"
            ),
        });
    } else {
        printer.done(&format!("wrote {place}"));
        let place = shell_word(&place);
        printer.hint(&format!(
            "on the other side: `pip install --no-index --find-links {place} --require-hashes -r {place}/requirements.txt`"
        ));
    }
    Ok(exit::YES)
}

/// `29 files, 3.1 GB, and 1 file of unknown size`
fn size((files, bytes, unmeasured): (usize, u64, usize)) -> String {
    let unknown = match unmeasured {
        0 => String::new(),
        count => format!(", and {} of unknown size", Count(count).of("file")),
    };
    format!("{}, {}{unknown}", Count(files).of("file"), Bytes(bytes))
}

fn document(bundled: &Bundled) -> serde_json::Value {
    let target = |own: &OfTarget| json!({ "name": own.name, "files": own.files, "bytes": own.bytes, "unmeasured": own.unmeasured });
    json!({
        "place": bundled.place.display().to_string(),
        "written": !bundled.is_planned,
        "targets": bundled.targets.iter().map(target).collect::<Vec<_>>(),
        "files": bundled.files,
        "bytes": bundled.bytes,
        "unmeasured": bundled.unmeasured,
        "kept": bundled.kept,
        "proprietary": bundled.proprietary,
    })
}
