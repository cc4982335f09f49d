//! What the address of an index names: a package index with a page for each project, or one list of files.

use std::path::PathBuf;

use url::Url;

/// What an address names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listing {
    /// A package index: a page for each project (PEP 503, PEP 691).
    Index,
    /// A page of links to files, or a folder of them: pip's `--find-links`, uv's `format = "flat"`.
    Links,
}

impl Listing {
    /// What the address of an index names: a folder, or a page by the end of its path (`.html`), is a list of files.
    pub fn of_address(address: &str) -> Listing {
        if is_local(address) || is_page(address) { Listing::Links } else { Listing::Index }
    }

    /// What an option or a key names: `--find-links`, `index-url`.
    pub fn of_option(name: &str) -> Listing {
        match name {
            "-f" | "--find-links" | "find-links" => Listing::Links,
            _ => Listing::Index,
        }
    }
}

/// A file in the folder that an address names, as the address is written: `./wheels/demo-1.0-py3-none-any.whl`. `None` for what
/// is no folder on this machine.
pub fn in_folder(address: &str, file: &str) -> Option<String> {
    (is_local(address) && !is_page(address)).then(|| {
        let folder = address.strip_prefix("./").unwrap_or(address).trim_end_matches('/');
        match (address.contains("://"), folder) {
            (true, folder) => format!("{folder}/{file}"),
            (false, "" | ".") => format!("./{file}"),
            (false, folder) => format!("./{folder}/{file}"),
        }
    })
}

fn is_page(address: &str) -> bool {
    let path = address.split(['?', '#']).next().unwrap_or(address).to_ascii_lowercase();
    path.ends_with(".html") || path.ends_with(".htm")
}

/// Whether an address is on this machine: `file:///srv/wheels`, `./wheels`.
pub fn is_local(address: &str) -> bool {
    !address.contains("://") || address.to_ascii_lowercase().starts_with("file://")
}

/// The path that a URL names on this machine; `None` for a URL of a server.
pub fn local_path(url: &str) -> Option<PathBuf> {
    Url::parse(url).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_folders() {
        for (address, expected) in [
            ("./wheels", Some("./wheels/a.whl")),
            ("wheels/", Some("./wheels/a.whl")),
            ("../wheels", Some("./../wheels/a.whl")),
            (".", Some("./a.whl")),
            ("file:///srv/my%20wheels/", Some("file:///srv/my%20wheels/a.whl")),
            ("./links.html", None),
            ("https://h.example/simple", None),
        ] {
            assert_eq!(in_folder(address, "a.whl").as_deref(), expected, "{address}");
        }
    }

    #[test]
    fn what_an_address_names() {
        for (address, expected, local) in [
            ("https://h.example/simple", Listing::Index, false),
            ("https://h.example/whl/cu121", Listing::Index, false),
            ("https://h.example/whl/torch-2.4.0+cu121.html", Listing::Links, false),
            ("https://h.example/dist/index.HTML?x=1", Listing::Links, false),
            ("https://h.example/simple?page=a.html", Listing::Index, false),
            ("file:///srv/wheels", Listing::Links, true),
            ("./wheels", Listing::Links, true),
            ("/srv/wheels", Listing::Links, true),
        ] {
            assert_eq!((Listing::of_address(address), is_local(address)), (expected, local), "{address}");
        }
    }
}
