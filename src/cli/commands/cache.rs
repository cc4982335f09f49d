//! `envlock cache dir|clean`

use crate::cli::args::CacheCommand;
use crate::cli::printer::Printer;
use crate::session::Interface as _;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::options::Global;
use crate::session::settings;

pub(super) fn run(global: &Global, command: &CacheCommand, printer: &Printer) -> Result<u8, Failure> {
    let folder = settings::cache_dir(global);
    match command {
        CacheCommand::Dir if printer.json => printer.json(&serde_json::json!({ "dir": folder })),
        CacheCommand::Dir => printer.out(&folder.display().to_string()),
        CacheCommand::Clean => {
            // Only envlock's own subfolder, in case the cache folder is a home folder by mistake.
            let ours = folder.join("index");
            match fs_err::remove_dir_all(&ours) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => printer.note(&format!("removed {}", ours.display())),
            }
        }
    }
    Ok(exit::YES)
}
