//! `envlock cache dir|size|prune|clean`

use serde_json::json;

use crate::cli::args::CacheCommand;
use crate::cli::printer::Printer;
use crate::index::Cache;
use crate::model::bytes::Bytes;
use crate::model::count::Count;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::settings;

pub(super) fn run(global: &Global, command: &CacheCommand, printer: &Printer) -> Result<u8, Failure> {
    let folder = settings::cache_dir(global);
    let cache = Cache::new(&folder);
    match command {
        CacheCommand::Dir if printer.json => printer.json(&json!({ "dir": folder })),
        CacheCommand::Dir => printer.out(&folder.display().to_string()),
        CacheCommand::Size => {
            let amount = cache.amount()?;
            match printer.json {
                true => printer.json(&json!({ "bytes": amount.bytes, "files": amount.files })),
                false => {
                    printer.out(&format!("{} in {}", Bytes(amount.bytes), Count(amount.files).of("file")))
                }
            }
        }
        CacheCommand::Prune => {
            let removed = cache.prune()?;
            match printer.json {
                true => printer.json(&json!({ "bytes": removed.bytes, "files": removed.files })),
                false => {
                    printer.note(&format!(
                        "removed {}, {}",
                        Count(removed.files).of("file"),
                        Bytes(removed.bytes)
                    ));
                }
            }
        }
        CacheCommand::Clean => {
            let ours = cache.folder();
            match fs_err::remove_dir_all(ours) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => printer.note(&format!("removed {}", ours.display())),
            }
        }
    }
    Ok(exit::YES)
}
