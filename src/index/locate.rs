//! Finds the URL of the index `pypi` in the configuration. Which index a package is taken from is decided in
//! `model/index_owner.rs`.
//!
//! The order: `--index-url`, then `ENVLOCK_INDEX_URL`, then envlock.toml, then `UV_DEFAULT_INDEX`, `UV_INDEX_URL`,
//! `PIP_INDEX_URL`, then pip's and uv's configuration files, then the default set at build time by
//! `ENVLOCK_DEFAULT_INDEX`, then the default of the pip of the first system Python on PATH.
//! pip's source is read as text, never run, and never from the project's environment.

use crate::model::text::plain_address;
use std::path::{Path, PathBuf};

/// An index URL and where it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// The URL of the simple API.
    pub url: String,
    /// Where it was found: `--index-url`, `PIP_INDEX_URL`, `/etc/pip.conf`.
    pub found_by: String,
    /// Variables that name another URL, which is not used because the manifest names one.
    pub overruled: Vec<&'static str>,
}

/// The variable for envlock alone.
const OWN_VARIABLE: &str = "ENVLOCK_INDEX_URL";
/// The variables of uv and pip, in order of precedence.
const VARIABLES: [&str; 3] = ["UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL"];

/// The places that are searched.
#[derive(Debug, Clone, Default)]
pub struct Places<'a> {
    /// `--index-url`.
    pub flag: Option<&'a str>,
    /// The URL in envlock.toml for `pypi`, or for the index that replaces it.
    pub manifest: Option<&'a str>,
    /// The user's home folder.
    pub home: Option<PathBuf>,
    /// `XDG_CONFIG_HOME`.
    pub config_home: Option<PathBuf>,
    /// Folders of `PATH`.
    pub path: Vec<PathBuf>,
    /// Folders whose Python is ignored: active environments, the project.
    pub not_below: Vec<PathBuf>,
}

/// Finds the URL of `pypi`. `variable` reads one environment variable.
pub fn pypi(places: &Places<'_>, variable: &dyn Fn(&str) -> Option<String>) -> Option<Located> {
    let located = |url: &str, found_by: &str| Located {
        url: plain_address(url),
        found_by: found_by.to_owned(),
        overruled: Vec::new(),
    };
    let set = |name: &str| {
        let text = variable(name).filter(|text| !text.trim().is_empty())?;
        // uv accepts `name=URL` in UV_DEFAULT_INDEX.
        Some(text.split_once("=http").map_or(text.clone(), |(_, rest)| format!("http{rest}")))
    };
    if let Some(url) = places.flag {
        return Some(located(url, "--index-url"));
    }
    if let Some(url) = set(OWN_VARIABLE) {
        return Some(located(&url, OWN_VARIABLE));
    }
    if let Some(url) = places.manifest {
        let plain =
            |url: &str| url.trim().split('#').next().unwrap_or_default().trim_end_matches('/').to_owned();
        let differs = |name: &&str| set(name).is_some_and(|other| plain(&other) != plain(url));
        let overruled = VARIABLES.into_iter().filter(differs).collect();
        return Some(Located { overruled, ..located(url, "envlock.toml") });
    }
    if let Some((name, url)) = VARIABLES.iter().find_map(|name| Some((name, set(name)?))) {
        return Some(located(&url, name));
    }
    for file in configuration_files(places, variable) {
        if let Ok(text) = fs_err::read_to_string(&file) {
            let url = if file.extension().is_some_and(|e| e == "toml") {
                uv_toml_index(&text)
            } else {
                pip_conf_index(&text)
            };
            if let Some(url) = url {
                return Some(located(&url, &file.display().to_string()));
            }
        }
    }
    if let Some(url) = option_env!("ENVLOCK_DEFAULT_INDEX").filter(|u| !u.is_empty()) {
        return Some(located(url, "built in"));
    }
    system_pip(places)
}

/// pip's and uv's configuration files, most specific first.
fn configuration_files(places: &Places<'_>, variable: &dyn Fn(&str) -> Option<String>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    if let Some(file) = variable("PIP_CONFIG_FILE") {
        files.push(PathBuf::from(file));
    }
    let config = places.config_home.clone().or_else(|| places.home.as_ref().map(|h| h.join(".config")));
    if let Some(config) = &config {
        files.push(config.join("pip/pip.conf"));
    }
    if let Some(home) = &places.home {
        files.push(home.join(".pip/pip.conf"));
    }
    if let Some(config) = &config {
        files.push(config.join("uv/uv.toml"));
    }
    files.push(PathBuf::from("/etc/xdg/pip/pip.conf"));
    files.push(PathBuf::from("/etc/pip.conf"));
    files.push(PathBuf::from("/etc/uv/uv.toml"));
    files
}

/// The file with certificates that pip's configuration names (`cert`).
pub fn pip_certificates(
    home: Option<PathBuf>,
    config_home: Option<PathBuf>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    let places = Places { home, config_home, ..Places::default() };
    let files = configuration_files(&places, variable);
    let files = files.into_iter().filter(|file| file.extension().is_none_or(|own| own != "toml"));
    let named = |file: PathBuf| pip_conf(&fs_err::read_to_string(file).ok()?, "cert");
    files.into_iter().find_map(named).map(PathBuf::from).filter(|path| path.is_file())
}

/// `index-url` in section `[global]` or `[install]` of a pip.conf.
fn pip_conf_index(text: &str) -> Option<String> {
    pip_conf(text, "index-url")
}

/// A value in section `[global]` or `[install]` of a pip.conf.
fn pip_conf(text: &str, wanted: &str) -> Option<String> {
    let mut section = String::new();
    let mut found = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some((key, value)) = line.split_once(['=', ':'])
            && matches!(section.as_str(), "global" | "install")
            && key.trim().replace('_', "-") == wanted
        {
            found = Some(value.trim().to_owned());
        }
    }
    found
}

/// The default index of a uv.toml.
fn uv_toml_index(text: &str) -> Option<String> {
    let table: toml::Table = text.parse().ok()?;
    let listed = table.get("index").and_then(toml::Value::as_array).and_then(|list| {
        list.iter()
            .find(|i| i.get("default").and_then(toml::Value::as_bool) == Some(true))
            .and_then(|i| i.get("url"))
    });
    listed
        .or_else(|| table.get("index-url"))
        .or_else(|| table.get("pip").and_then(|p| p.get("index-url")))
        .and_then(toml::Value::as_str)
        .map(str::to_owned)
}

/// The default index in the source of a system pip.
fn system_pip(places: &Places<'_>) -> Option<Located> {
    let mut seen = Vec::new();
    for folder in &places.path {
        let Some(root) = folder.parent() else { continue };
        let root = fs_err::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
        if seen.contains(&root) || places.not_below.iter().any(|p| root.starts_with(p)) {
            continue;
        }
        for site in site_packages(&root) {
            let source = site.join("pip/_internal/models/index.py");
            if let Ok(text) = fs_err::read_to_string(&source)
                && let Some(url) = pip_default(&text)
            {
                let found_by = format!("pip's default ({})", source.display());
                return Some(Located { url: plain_address(&url), found_by, overruled: Vec::new() });
            }
        }
        seen.push(root);
    }
    None
}

fn site_packages(root: &Path) -> Vec<PathBuf> {
    let mut sites = Vec::new();
    let mut below = |lib: PathBuf| {
        let Ok(entries) = fs_err::read_dir(&lib) else { return };
        let mut names: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        names.sort();
        for entry in names {
            let name = entry.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            if name.starts_with("python3") {
                sites.push(entry.join("site-packages"));
                sites.push(entry.join("dist-packages"));
            }
        }
    };
    below(root.join("lib"));
    below(root.join("local/lib"));
    // Version managers install Pythons in `versions/NAME`.
    if let Ok(entries) = fs_err::read_dir(root.join("versions")) {
        let mut versions: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        versions.sort();
        for version in versions {
            below(version.join("lib"));
        }
    }
    sites
}

/// The URL in `PyPI = PackageIndex("https://...", ...)`, with `/simple` appended.
fn pip_default(source: &str) -> Option<String> {
    let line = source.lines().find(|l| l.starts_with("PyPI = PackageIndex("))?;
    let start = line.find(['"', '\''])? + 1;
    let rest = &line[start..];
    let url = &rest[..rest.find(['"', '\''])?];
    url.starts_with("https://").then(|| format!("{}/simple", url.trim_end_matches('/')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_places() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().join("home");
        let none = |_: &str| None;
        let mut places =
            Places { home: Some(home.clone()), path: vec![dir.path().join("sys/bin")], ..Places::default() };
        let site = dir.path().join("sys/lib/python3.11/site-packages/pip/_internal/models");
        fs_err::create_dir_all(&site).unwrap();
        fs_err::write(
            site.join("index.py"),
            "class X: pass\nPyPI = PackageIndex(\"https://default.example/\", \"f\")\n",
        )
        .unwrap();
        let from_files = |places: &Places<'_>| pypi(places, &none).map(|l| l.url);
        // A pip.conf on this machine may set another index and hide the last step.
        if !Path::new("/etc/pip.conf").exists()
            || from_files(&places).is_some_and(|u| u.contains("default.example"))
        {
            assert_eq!(from_files(&places).as_deref(), Some("https://default.example/simple"));
        }
        fs_err::create_dir_all(home.join(".config/pip")).unwrap();
        fs_err::write(
            home.join(".config/pip/pip.conf"),
            "[global]\nindex-url = https://conf.example/simple\n",
        )
        .unwrap();
        assert_eq!(from_files(&places).as_deref(), Some("https://conf.example/simple"));
        let variable =
            |name: &str| (name == "UV_DEFAULT_INDEX").then(|| "corp=https://uv.example/simple".to_owned());
        assert_eq!(pypi(&places, &variable).unwrap().url, "https://uv.example/simple");
        places.manifest = Some("https://manifest.example/simple");
        let located = pypi(&places, &variable).unwrap();
        assert_eq!(located.url, "https://manifest.example/simple");
        assert_eq!(located.overruled, ["UV_DEFAULT_INDEX"]);
        let own = |name: &str| (name == "ENVLOCK_INDEX_URL").then(|| "https://own.example/simple".to_owned());
        assert_eq!(pypi(&places, &own).unwrap().url, "https://own.example/simple");
        places.flag = Some("https://flag.example/simple");
        assert_eq!(pypi(&places, &variable).unwrap().found_by, "--index-url");
    }

    #[test]
    fn certificates_that_pip_is_configured_with() {
        let folder = tempfile::tempdir().unwrap();
        let (home, own) = (folder.path().to_path_buf(), folder.path().join("ca.pem"));
        let file = home.join("own.conf");
        let variable = |name: &str| (name == "PIP_CONFIG_FILE").then(|| file.display().to_string());
        let found = || pip_certificates(Some(home.clone()), None, &variable);
        fs_err::write(&file, format!("[global]\ncert = {}\n", own.display())).unwrap();
        assert_eq!(found(), None, "a file that is not there");
        fs_err::write(&own, "").unwrap();
        assert_eq!(found(), Some(own.clone()));
        fs_err::write(&file, format!("[list]\ncert = {}\n", own.display())).unwrap();
        assert_eq!(found().filter(|path| *path == own), None);
    }

    #[test]
    fn configuration_formats() {
        assert_eq!(pip_conf_index("[list]\nindex-url=x\n[global]\nindex_url = y\n").as_deref(), Some("y"));
        assert_eq!(
            uv_toml_index("[[index]]\nurl = \"a\"\n[[index]]\nurl = \"b\"\ndefault = true\n").as_deref(),
            Some("b")
        );
        assert_eq!(uv_toml_index("index-url = \"c\"").as_deref(), Some("c"));
        assert!(uv_toml_index("not toml [").is_none());
    }
}
