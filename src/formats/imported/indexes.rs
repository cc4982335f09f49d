//! The indexes that a file names. The pytorch index needs no entry in envlock.toml; another one is left out, by name.

use super::Imported;
use crate::model::index_owner::PYTORCH_INDEX;
use crate::model::listing::Listing;
use crate::model::text::without_logins;
use crate::model::variant::{CPU, is_cuda};

impl Imported {
    /// Takes note of an index. `what` names the setting: `--extra-index-url`, `[tool.uv] index-url`.
    pub(in crate::formats) fn index(&mut self, what: &str, url: &str, listing: Listing) {
        match pytorch_index(url) {
            Some(variant) => self.pytorch_index.get_or_insert_default().extend(variant),
            None => self.leave_out_index(format!("{what} {url}").trim(), listing),
        }
    }

    /// Takes note of the indexes in a value of a TOML file: a URL, a list of them, or tables that have one.
    pub(in crate::formats) fn indexes(&mut self, what: &str, value: &toml::Value, listing: Listing) {
        match value {
            toml::Value::String(url) => self.index(what, url, listing),
            toml::Value::Array(list) => list.iter().for_each(|one| self.indexes(what, one, listing)),
            toml::Value::Table(table) => match table.get("url").and_then(toml::Value::as_str) {
                Some(url) => self.index(what, url, listing),
                None => self.leave_out_index(what, listing),
            },
            _ => self.leave_out_index(what, listing),
        }
    }

    /// Takes note of an option of pip, with its value: `-i URL`, `--index-url=URL`, `-iURL`.
    pub(in crate::formats) fn option(&mut self, option: &str) {
        let (name, value) = match option.split_at_checked(2) {
            Some(short @ ("-i" | "-f", _)) => short,
            _ => option.split_once(['=', ' ', '\t']).unwrap_or((option, "")),
        };
        let value = value.trim_start_matches('=').trim().trim_matches(['"', '\'']);
        match name {
            "-i" | "--index-url" | "--extra-index-url" | "-f" | "--find-links" => {
                self.index(name, value, Listing::of_option(name));
            }
            "--no-index" => {
                self.left_out_index = true;
                self.leave_out(name);
            }
            _ => self.leave_out(name),
        }
    }

    /// Leaves out a setting of an index.
    pub(in crate::formats) fn leave_out_index(&mut self, what: &str, listing: Listing) {
        if listing == Listing::Links {
            return self.leave_out_because(
                what,
                "an `[[index]]` table with this URL and the packages that come from it takes its place",
            );
        }
        self.left_out_index = true;
        self.leave_out_because(what, "an index has a table of its own in envlock.toml");
    }
}

/// The CUDA variant whose builds a URL of the pytorch index lists: `cu128` of `https://download.pytorch.org/whl/cu128`. The
/// inner `None`: of all. The outer one: it is another index.
pub(in crate::formats) fn pytorch_index(url: &str) -> Option<Option<String>> {
    let place = |url: &str| Some(url.split_once("://")?.1.trim_end_matches('/').to_owned());
    let path = place(&without_logins(url))?.strip_prefix(&place(PYTORCH_INDEX)?)?.to_owned();
    let mut parts = path.split('/').skip(1);
    match (path.as_str(), parts.next()) {
        ("" | "/torch_stable.html", _) => Some(None),
        // Nightly and test builds, and those for other hardware, are not among the rest.
        (path, Some(variant)) if path.starts_with('/') && (variant == CPU || is_cuda(variant)) => {
            Some(Some(variant.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_the_pytorch_index() {
        for (path, expected) in [
            ("", Some(None)),
            ("/", Some(None)),
            ("/torch_stable.html", Some(None)),
            ("/cu128", Some(Some("cu128"))),
            ("/cu113/torch_stable.html", Some(Some("cu113"))),
            ("/cpu/", Some(Some("cpu"))),
            ("/nightly/cu128", None),
            ("/rocm6.4", None),
            ("/cu", None),
            ("cu128", None),
        ] {
            let expected = expected.map(|variant: Option<&str>| variant.map(str::to_owned));
            for root in [PYTORCH_INDEX.to_owned(), PYTORCH_INDEX.replace("https://", "http://me:secret@")] {
                assert_eq!(pytorch_index(&format!("{root}{path}")), expected, "{root}{path}");
            }
        }
        for other in ["https://h.example/whl/cu128", "download.pytorch.org/whl/cu128", ""] {
            assert_eq!(pytorch_index(other), None, "{other}");
        }
    }

    #[test]
    fn options_of_pip_in_each_form() {
        let url = format!("{PYTORCH_INDEX}/cu126");
        for option in ["--extra-index-url ", "--extra-index-url=", "-i ", "-i", "-f\t", "--find-links = "] {
            for quote in ["", "'", "\""] {
                let mut out = Imported::default();
                out.option(&format!("{option}{quote}{url}{quote}"));
                assert!(out.left_out.is_empty(), "{option}: {:?}", out.left_out);
                assert!(out.pytorch_index.is_some_and(|found| found.contains("cu126")), "{option}");
            }
        }
        let mut out = Imported::default();
        for option in ["--index-url https://me:secret@h.example/simple", "--no-index", "--pre"] {
            out.option(option);
        }
        assert!(out.left_out_index && out.pytorch_index.is_none());
        assert_eq!(
            out.left_out,
            [
                "`--index-url https://h.example/simple`: an index has a table of its own in envlock.toml",
                "`--no-index` is not supported in envlock.toml",
                "`--pre` is not supported in envlock.toml"
            ]
        );
    }
}
