//! What a tree without PKG-INFO declares, where its build would read it: `[project]`, the tables of its build backend,
//! `setup.py`, `setup.cfg`. Only what is the same on every machine.

use std::cell::RefCell;
use std::collections::BTreeSet;

use configparser::ini::{Ini, IniDefault};

use super::archive::Contents;
use super::evaluate::{Argument, attribute, inside, lines_of_requirements};
use super::pyproject::Pyproject;
use super::setup_py::SetupPy;
use crate::formats::requirements_of_poetry;
use crate::model::metadata::SourceRequirements;
use crate::model::text::requirement_name;

/// Names of a version in a module that hatch, pdm and flit look for.
const VERSION_NAMES: [&str; 2] = ["__version__", "VERSION"];

/// What a tree declares.
pub(super) struct Declared {
    pub name: Option<String>,
    /// `None` if it is computed: from git's tags, by a function.
    pub version: Option<String>,
    /// The requirements, or why they are not known.
    pub requirements: Result<SourceRequirements, String>,
    /// The files of the tree that would have to be read, and were not.
    pub wanted: BTreeSet<String>,
}

/// Reads what a tree declares.
pub(super) fn of(contents: &Contents, pyproject: &Pyproject, setup_py: Option<&SetupPy>) -> Declared {
    let reader = Reader {
        contents,
        pyproject,
        setup_py: setup_py.filter(|_| pyproject.is_of_setuptools()),
        cfg: contents.text("setup.cfg").map(sections),
        wanted: RefCell::default(),
    };
    let (name, version, requirements) = (reader.name(), reader.version(), reader.requirements());
    let mut wanted = reader.wanted.into_inner();
    wanted.extend(reader.setup_py.iter().flat_map(|setup| setup.wanted.iter().cloned()));
    Declared { name, version, requirements, wanted }
}

struct Reader<'c> {
    contents: &'c Contents,
    pyproject: &'c Pyproject,
    setup_py: Option<&'c SetupPy>,
    /// setup.cfg; the inner is `None` if it cannot be read.
    cfg: Option<Option<Ini>>,
    wanted: RefCell<BTreeSet<String>>,
}

impl Reader<'_> {
    fn name(&self) -> Option<String> {
        let project = self.pyproject.project.as_ref();
        let stated = project.and_then(|project| project.name.clone());
        stated
            .or_else(|| self.pyproject.text_of_poetry("name"))
            .or_else(|| self.setup_py.and_then(|setup| setup.name.clone()))
            .or_else(|| self.cfg("metadata", "name"))
    }

    fn version(&self) -> Option<String> {
        let project = self.pyproject.project.as_ref();
        if self.pyproject.is_of_setuptools() && self.may_have_tag() {
            return None;
        }
        if let Some(project) = project {
            if project.version.is_some() || !project.is_dynamic("version") {
                return project.version.clone();
            }
            if let Some(found) = self.version_of_backend() {
                return found;
            }
        }
        if !self.pyproject.is_of_setuptools() {
            return self.pyproject.text_of_poetry("version");
        }
        match self.setup_py.map(|setup| &setup.version) {
            Some(Argument::Known(version)) => return Some(version.clone()),
            Some(Argument::Unknown) => return None,
            _ => {}
        }
        match self.cfg("metadata", "version") {
            Some(text) => match (text.strip_prefix("attr:"), text.strip_prefix("file:")) {
                (Some(attribute), _) => self.attribute(attribute.trim()),
                (_, Some(file)) => self.text(file.trim()).map(|text| text.trim().to_owned()),
                _ => Some(text),
            },
            // What setuptools writes where nothing states a version, and no plugin computes one.
            None => {
                let is_plain = self
                    .pyproject
                    .build_requires()
                    .iter()
                    .all(|line| ["setuptools", "wheel"].contains(&requirement_name(line).as_str()));
                let has_plugin = self.setup_py.is_some_and(|setup| setup.may_have_plugins);
                let has_tables = self.pyproject.tool("setuptools_scm").is_some();
                (is_plain && !has_plugin && !has_tables).then(|| "0.0.0".to_owned())
            }
        }
    }

    /// Whether setuptools may add `tag_build` or a date to any version.
    fn may_have_tag(&self) -> bool {
        let is_tag = |key: &&str| {
            let value = self.cfg("egg_info", key);
            value.is_some_and(|value| !["0", "false", "no"].contains(&value.to_lowercase().as_str()))
        };
        self.is_cfg_unreadable()
            || ["tag_build", "tag_date"].iter().any(is_tag)
            || self.pyproject.tool("distutils").is_some()
    }

    /// The version from the table of a build backend; the inner is `None` if it is computed, the outer if there is no
    /// table.
    fn version_of_backend(&self) -> Option<Option<String>> {
        let tool = |path: &[&str]| self.pyproject.tool_at(path);
        if let Some(value) = tool(&["setuptools", "dynamic", "version"]) {
            if let Some(attribute) = value.get("attr").and_then(toml::Value::as_str) {
                return Some(self.attribute(attribute));
            }
            let text = value.get("file").and_then(|files| self.files(files));
            return Some(text.map(|text| text.trim().to_owned()));
        }
        let backend = self.pyproject.backend.as_deref().unwrap_or_default();
        let path = |table: Option<&toml::Value>| Some(table?.get("path")?.as_str()?.to_owned());
        let is_default = |table: Option<&toml::Value>| {
            let source = table.and_then(|table| table.get("source")).and_then(toml::Value::as_str);
            source.is_none_or(|source| ["regex", "file"].contains(&source))
                && table.is_none_or(|table| table.get("pattern").is_none())
        };
        let table = match backend.split(['.', '_']).next() {
            Some("hatchling") => tool(&["hatch", "version"]),
            Some("pdm") => tool(&["pdm", "version"]),
            Some("flit") => {
                let module = tool(&["flit", "module", "name"]).and_then(toml::Value::as_str);
                let name = self.name()?.replace('-', "_");
                return Some(self.module(module.unwrap_or(&name)).and_then(|text| version_in(&text)));
            }
            _ => return None,
        };
        let text = path(table).filter(|_| is_default(table)).and_then(|path| self.text(&path));
        Some(text.and_then(|text| version_in(&text)))
    }

    fn requirements(&self) -> Result<SourceRequirements, String> {
        if self.pyproject.has_backend_path {
            return Err("its build backend is a module of its own".to_owned());
        }
        let project = self.pyproject.project.as_ref();
        if project.is_none() && self.pyproject.is_of_poetry() {
            let poetry = self.pyproject.tool("poetry").and_then(toml::Value::as_table);
            return poetry.map_or_else(|| Ok(SourceRequirements::default()), requirements_of_poetry);
        }
        if project.is_none() && self.setup_py.is_none() && self.cfg("metadata", "name").is_none() {
            return Err("it publishes no list of its requirements".to_owned());
        }
        let mut out = SourceRequirements::default();
        let is_dynamic = |key: &str| project.is_none_or(|project| project.is_dynamic(key));
        if let Some(project) = project {
            // Its lines have those of the extras.
            let is_of_extra = |line: &&String| line.contains("extra == '");
            let kept = project.requires.iter().filter(|line| match is_of_extra(line) {
                true => !is_dynamic("optional-dependencies"),
                false => !is_dynamic("dependencies"),
            });
            out.lines.extend(kept.cloned());
            out.extras.clone_from(&project.extras);
            out.requires_python.clone_from(&project.requires_python);
        }
        if is_dynamic("dependencies") {
            out.lines.extend(self.dependencies()?);
        }
        if is_dynamic("optional-dependencies") {
            let extras = self.extras()?;
            out.lines.extend(extras.lines);
            out.extras.extend(extras.extras);
        }
        if is_dynamic("requires-python") {
            let passed = self.setup_py.map_or(&Argument::Absent, |setup| &setup.requires_python);
            out.requires_python = match passed {
                Argument::Known(python) => Some(python.clone()),
                Argument::Absent => self.cfg("options", "python_requires"),
                Argument::Unknown => return Err("`python_requires` is computed by its setup.py".to_owned()),
            };
        }
        Ok(out)
    }

    fn dependencies(&self) -> Result<Vec<String>, String> {
        if let Some(value) = self.pyproject.tool_at(&["setuptools", "dynamic", "dependencies"]) {
            let text = value.get("file").and_then(|files| self.files(files));
            return text
                .and_then(|text| lines_of_requirements(&text))
                .ok_or_else(|| self.unread("dependencies"));
        }
        self.of_setuptools()?;
        match self.setup_py.map_or(&Argument::Absent, |setup| &setup.requires) {
            Argument::Known(lines) => Ok(lines.clone()),
            Argument::Unknown => Err(self.computed()),
            _ => match self.cfg("options", "install_requires") {
                Some(text) => self.cfg_list(&text).ok_or_else(|| self.unread("install_requires")),
                None => Ok(Vec::new()),
            },
        }
    }

    fn extras(&self) -> Result<SourceRequirements, String> {
        let mut out = SourceRequirements::default();
        let key = "optional-dependencies";
        if let Some(table) = self.pyproject.tool_at(&["setuptools", "dynamic", key]) {
            for (extra, value) in table.as_table().into_iter().flatten() {
                let text = value.get("file").and_then(|files| self.files(files));
                let lines =
                    text.and_then(|text| lines_of_requirements(&text)).ok_or_else(|| self.unread(key))?;
                out.add_extra(extra, &lines);
            }
            return Ok(out);
        }
        self.of_setuptools()?;
        match self.setup_py.map_or(&Argument::Absent, |setup| &setup.extras) {
            Argument::Known(extras) => Ok(extras.clone()),
            Argument::Unknown => Err(self.computed()),
            _ => {
                let section =
                    self.cfg.iter().flatten().find_map(|cfg| cfg.get_map_ref().get("options.extras_require"));
                for (extra, text) in section.into_iter().flatten() {
                    let lines = self.cfg_list(text.as_deref().unwrap_or_default());
                    out.add_extra(extra, &lines.ok_or_else(|| self.unread("extras_require"))?);
                }
                Ok(out)
            }
        }
    }

    fn of_setuptools(&self) -> Result<(), String> {
        match self.pyproject.is_of_setuptools() {
            true if self.is_cfg_unreadable() => Err("its setup.cfg cannot be read as it stands".to_owned()),
            true => Ok(()),
            false => Err("its build backend computes them".to_owned()),
        }
    }

    fn is_cfg_unreadable(&self) -> bool {
        matches!(self.cfg, Some(None))
    }

    fn unread(&self, key: &str) -> String {
        format!("`{key}` names a file that cannot be read, or has options of pip")
    }

    fn computed(&self) -> String {
        let doubt = self.setup_py.and_then(|setup| setup.doubt(&[]));
        doubt.unwrap_or_else(|| "its setup.py computes them".to_owned())
    }

    /// The value of a key of setup.cfg.
    fn cfg(&self, section: &str, key: &str) -> Option<String> {
        let value = self.cfg.as_ref()?.as_ref()?.get_map_ref().get(section)?.get(key)?;
        Some(value.as_deref()?.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// A list of setup.cfg: lines, or separated by `;` on one line, or files.
    fn cfg_list(&self, text: &str) -> Option<Vec<String>> {
        match text.trim().strip_prefix("file:") {
            Some(files) => {
                let texts: Option<Vec<String>> =
                    files.split(',').map(|file| self.text(file.trim())).collect();
                lines_of_requirements(&texts?.join("\n"))
            }
            // A marker on one line would be cut in two, as setuptools does; that is not read.
            None if !text.trim().contains('\n') && text.contains(';') => None,
            None => lines_of_requirements(text),
        }
    }

    /// The text of a file, or of several files, that a table names.
    fn files(&self, names: &toml::Value) -> Option<String> {
        match names {
            toml::Value::String(name) => self.text(name),
            toml::Value::Array(names) => {
                let texts: Option<Vec<String>> = names.iter().map(|name| self.text(name.as_str()?)).collect();
                Some(texts?.join("\n"))
            }
            _ => None,
        }
    }

    /// `package.module.NAME`, as setuptools reads it where it is a literal.
    fn attribute(&self, path: &str) -> Option<String> {
        let (module, name) = path.rsplit_once('.')?;
        attribute(&self.module(&module.replace(':', ""))?, name)
    }

    /// The text of a module by its dotted name.
    fn module(&self, name: &str) -> Option<String> {
        let path = name.replace('.', "/");
        let places =
            ["", "src/"].map(|folder| [format!("{folder}{path}.py"), format!("{folder}{path}/__init__.py")]);
        let found: Vec<&str> =
            places.iter().flatten().filter_map(|place| self.contents.text(place)).collect();
        if found.is_empty() {
            self.wanted.borrow_mut().extend(places.iter().flatten().cloned());
        }
        // Which of two is meant, and another folder for packages, is for the backend to know.
        let has_folder = ["package_dir", "package-dir", "where"].iter().any(|key| {
            ["setup.cfg", "pyproject.toml"]
                .iter()
                .any(|file| self.contents.text(file).is_some_and(|t| t.contains(key)))
        });
        match found.as_slice() {
            [only]
                if !has_folder
                    || self.contents.text(&places[1][0]).is_some()
                    || self.contents.text(&places[1][1]).is_some() =>
            {
                Some((*only).to_owned())
            }
            _ => None,
        }
    }

    fn text(&self, path: &str) -> Option<String> {
        let path = inside(path)?;
        let found = self.contents.text(&path).map(str::to_owned);
        if found.is_none() {
            self.wanted.borrow_mut().insert(path);
        }
        found
    }
}

/// The version that a module states.
fn version_in(text: &str) -> Option<String> {
    VERSION_NAMES.into_iter().find_map(|name| attribute(text, name))
}

/// The sections of setup.cfg, as Python's configparser reads it; `None` if it is malformed or has references to other
/// values (`%(name)s`), which are not followed.
fn sections(text: &str) -> Option<Ini> {
    if text.contains('%') || text.contains('\r') || !is_plain(text) {
        return None;
    }
    let mut defaults = IniDefault::default();
    defaults.multiline = true;
    // `;` separates a requirement from its marker.
    defaults.inline_comment_symbols = Some(Vec::new());
    defaults.comment_symbols = vec!['#', ';'];
    defaults.delimiters = vec!['=', ':'];
    let mut out = Ini::new_from_defaults(defaults);
    out.read(text.to_owned()).ok().map(|_| out)
}

/// Whether a file has nothing that Python's configparser and setuptools read in their own way: sections and keys in other
/// letters, with `-`, or twice, and defaults.
fn is_plain(text: &str) -> bool {
    let known = ["metadata", "options", "options.extras_require", "egg_info", "default"];
    let mut seen = BTreeSet::new();
    let mut section = String::new();
    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(['#', ';'])).all(|line| {
        if line.starts_with('[') {
            section = line.trim().trim_matches(['[', ']']).to_owned();
            let lower = section.to_lowercase();
            let is_usual = !known.contains(&lower.as_str()) || section == lower && lower != "default";
            return is_usual && seen.insert(section.clone());
        }
        if line.starts_with([' ', '\t']) || !known.contains(&section.as_str()) {
            return true;
        }
        let key = line.split(['=', ':']).next().unwrap_or_default().trim();
        let is_extra = section == "options.extras_require";
        (is_extra || key == key.to_lowercase() && !key.contains('-'))
            && seen.insert(format!("{section}\0{key}"))
    })
}
