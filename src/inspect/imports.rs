//! Which files importing a package certainly loads, read from its source as text: statements at the start of a line, not
//! those in a function, a condition or a `try` block. Nothing is run.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::elf::{Elf, Mapped};
use super::tree::FileTree;
use crate::model::wheel::{Python, is_for_python};

/// Maximum size of a source file that is read, in bytes.
const MAX_SOURCE: u64 = 4 << 20;
/// Maximum number of entries of a folder.
const MAX_ENTRIES: usize = 100_000;
/// Maximum number of imported names that are followed for one package.
const MAX_NAMES: usize = 50_000;
/// Maximum number of modules that are followed for one package.
const MAX_MODULES: usize = 5_000;

/// What importing packages loads; each package is followed once, and each file is read once.
pub(super) struct Imports<'s> {
    tree: &'s dyn FileTree,
    /// The folders on Python's path.
    sites: Vec<&'s Path>,
    python: Option<Python>,
    reached: BTreeMap<String, Reached>,
    read: FilesRead,
}

/// What was read of files and folders: packages import each other, and each walk meets NumPy's.
#[derive(Default)]
struct FilesRead {
    /// Source files, relative to site-packages; `None` for those that cannot be read.
    sources: BTreeMap<PathBuf, Option<Rc<SourceFile>>>,
    /// The extension modules in the folders that were listed: file names by module name.
    folders: BTreeMap<PathBuf, BTreeMap<String, String>>,
    /// The words in the `__init__.py` of packages.
    words: BTreeMap<String, HashSet<String>>,
}

/// A source file, as far as imports go.
struct SourceFile {
    /// Whether it has one of [`LOADS_ITSELF`].
    loads_itself: bool,
    /// Its import statements.
    statements: Vec<String>,
}

/// What importing a package certainly loads.
#[derive(Default)]
struct Reached {
    /// Files, relative to site-packages.
    files: BTreeSet<PathBuf>,
    /// Names that are imported and that no file has.
    absent: BTreeSet<String>,
    /// Whether one of the source files loads libraries itself, so that they need not be where the loader looks.
    loads_itself: bool,
}

impl<'s> Imports<'s> {
    /// The imports of packages in the folders on Python's path.
    pub fn new(tree: &'s dyn FileTree, sites: &[&'s Path], python: Option<Python>) -> Imports<'s> {
        Imports { tree, sites: sites.to_vec(), python, reached: BTreeMap::new(), read: FilesRead::default() }
    }

    /// Whether importing the package that a module is in loads the module, with libraries that the loader finds. `module` is
    /// relative to site-packages.
    pub fn load(&mut self, module: &str) -> bool {
        self.reaches(module, |reached| !reached.loads_itself)
    }

    /// Whether importing the package that a module is in loads the module, whatever the package loads before it.
    pub fn load_somehow(&mut self, module: &str) -> bool {
        self.reaches(module, |_| true)
    }

    fn reaches(&mut self, module: &str, and: fn(&Reached) -> bool) -> bool {
        let (tree, sites) = (self.tree, &self.sites);
        // A public module beside the packages is imported by its name.
        let Some((root, _)) = module.split_once('/') else {
            return !module.starts_with('_') && is_module(tree, &place(tree, sites, Path::new(module)));
        };
        let reached = self.reached_from(root);
        reached.files.contains(Path::new(module)) && and(reached)
    }

    /// Whether importing the package imports the module that a file would be if it were for this Python.
    pub fn want(&mut self, module: &str) -> bool {
        let Some((root, _)) = module.split_once('/') else { return !module.starts_with('_') };
        let (folder, file) = module.rsplit_once('/').unwrap_or_default();
        let name = format!("{}.{}", folder.replace('/', "."), file.split('.').next().unwrap_or_default());
        self.reached_from(root).absent.contains(&name)
    }

    fn reached_from(&mut self, root: &str) -> &Reached {
        let (tree, sites, python, read) = (self.tree, &self.sites, self.python, &mut self.read);
        self.reached.entry(root.to_owned()).or_insert_with(|| {
            let (reached, queue) = (Reached::default(), Vec::new());
            Walk { tree, sites, python, reached, queue, read }.from(root)
        })
    }
}

/// Where a file is: in the first folder on Python's path that has it.
fn place(tree: &dyn FileTree, sites: &[&Path], file: &Path) -> PathBuf {
    let site = sites.iter().find(|site| tree.exists(&site.join(file))).or(sites.first());
    site.map_or_else(|| file.to_path_buf(), |site| site.join(file))
}

/// Whether a library is a Python module: it has the function that initializes the module of its name.
fn is_module(tree: &dyn FileTree, file: &Path) -> bool {
    let Some(stem) = file.file_name().and_then(|name| name.to_str()?.split('.').next()) else { return false };
    let Ok(mapped) = Mapped::open(tree, file) else { return false };
    let Ok(elf) = Elf::parse(mapped.bytes()) else { return false };
    elf.symbols().is_some_and(|table| table.defined(format!("PyInit_{stem}").as_bytes()).is_some())
}

/// Words of packages that load libraries themselves, or change how the loader resolves symbols: nothing is certain then.
const LOADS_ITSELF: [&str; 6] =
    ["CDLL", "dlopen", "setdlopenflags", "LoadLibrary", "load_library", "add_dll_directory"];

/// A walk along the imports of one package.
struct Walk<'s> {
    tree: &'s dyn FileTree,
    sites: &'s [&'s Path],
    python: Option<Python>,
    reached: Reached,
    /// Modules to read, with their files.
    queue: Vec<(String, PathBuf)>,
    /// What this walk and those before it have read.
    read: &'s mut FilesRead,
}

impl Walk<'_> {
    /// What importing `root` certainly loads: source files and extension modules, relative to site-packages.
    fn from(mut self, root: &str) -> Reached {
        let mut names_left = MAX_NAMES;
        self.import(root);
        while let Some((module, file)) = self.queue.pop() {
            if self.reached.files.len() > MAX_MODULES {
                break;
            }
            let Some(source) = self.source(&file) else { continue };
            self.reached.loads_itself |= source.loads_itself;
            let is_package = file.ends_with("__init__.py");
            for statement in &source.statements {
                let names = imported(statement, &module, is_package);
                names_left = names_left.saturating_sub(names.len());
                if names_left == 0 {
                    return self.reached;
                }
                let Some((base, members)) = names.split_first() else { continue };
                self.import(base);
                for member in members {
                    // A package's own attribute of that name comes before the submodule.
                    if *base == module || !statement.starts_with("from ") || !self.mentions(base, member) {
                        self.import(member);
                    }
                }
            }
        }
        self.reached
    }

    /// A source file, relative to site-packages; read once for all walks.
    fn source(&mut self, file: &Path) -> Option<Rc<SourceFile>> {
        if let Some(known) = self.read.sources.get(file) {
            return known.clone();
        }
        let text = source(self.tree, &place(self.tree, self.sites, file));
        let found = text.map(|text| {
            let loads_itself = LOADS_ITSELF.iter().any(|word| text.contains(word));
            Rc::new(SourceFile { loads_itself, statements: statements(&text) })
        });
        self.read.sources.insert(file.to_path_buf(), found.clone());
        found
    }

    /// Imports a module: its parents first, as Python does. A name that is no module is an attribute.
    fn import(&mut self, dotted: &str) {
        let mut name = String::new();
        for part in dotted.split('.') {
            if part.is_empty() || !part.chars().all(|c| c.is_alphanumeric() || c == '_') {
                return;
            }
            if !name.is_empty() {
                name.push('.');
            }
            name.push_str(part);
            let Some(file) = self.find(&name) else {
                self.reached.absent.insert(name);
                return;
            };
            if self.reached.files.insert(file.clone()) && file.extension().is_some_and(|e| e == "py") {
                self.queue.push((name.clone(), file));
            }
        }
    }

    /// Whether a package's `__init__.py` has the last part of a member's name as a word.
    fn mentions(&mut self, package: &str, member: &str) -> bool {
        let (tree, sites) = (self.tree, self.sites);
        let words = self.read.words.entry(package.to_owned()).or_insert_with(|| {
            let file = package.split('.').collect::<PathBuf>().join("__init__.py");
            let text = source(tree, &place(tree, sites, &file)).unwrap_or_default();
            text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
        });
        words.contains(member.rsplit('.').next().unwrap_or(member))
    }

    /// The file of a module, in Python's order: a package, an extension module, a source file.
    fn find(&mut self, dotted: &str) -> Option<PathBuf> {
        let path: PathBuf = dotted.split('.').collect();
        let package = path.join("__init__.py");
        if self.has(&package) {
            return Some(package);
        }
        let stem = path.file_name()?.to_str()?.to_owned();
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let (tree, sites, python) = (self.tree, self.sites, self.python);
        let modules = self.read.folders.entry(folder.clone()).or_insert_with(|| {
            let mut out = BTreeMap::new();
            // The first folder of the path wins.
            for site in sites.iter().rev() {
                out.extend(extension_modules(tree, &site.join(&folder), python));
            }
            out
        });
        if let Some(name) = modules.get(&stem) {
            return Some(folder.join(name));
        }
        let source = path.with_extension("py");
        self.has(&source).then_some(source)
    }

    /// Whether a file is in one of the folders on Python's path.
    fn has(&self, file: &Path) -> bool {
        self.sites.iter().any(|site| self.tree.is_file(&site.join(file)))
    }
}

/// The extension modules in a folder that a Python can import: file names by module name, of several the first.
fn extension_modules(tree: &dyn FileTree, folder: &Path, python: Option<Python>) -> BTreeMap<String, String> {
    let mut out: BTreeMap<String, String> = BTreeMap::new();
    let entries = tree.list(folder, MAX_ENTRIES).unwrap_or_default();
    for file in entries.into_iter().filter_map(|entry| entry.name.into_string().ok()) {
        if file.ends_with(".so") && is_for_python(&file, python) {
            let module = file.split('.').next().unwrap_or_default().to_owned();
            let known = out.entry(module).or_insert_with(|| file.clone());
            if file < *known {
                *known = file;
            }
        }
    }
    out
}

fn source(tree: &dyn FileTree, file: &Path) -> Option<String> {
    file.extension().is_some_and(|e| e == "py").then(|| tree.text(file, MAX_SOURCE)).flatten()
}

/// A module's text with the bodies of those `try` blocks moved to the first column whose failure is raised again: every
/// handler of such a block has a `raise` that always runs, so that its imports are as certain as others.
fn without_reraising_tries(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let body = (line.trim_end() == "try:").then(|| reraising_body(&lines[at + 1..])).flatten();
        for line in body.iter().flatten() {
            out.push_str(line);
            out.push('\n');
        }
        if body.is_none() {
            out.push_str(line);
            out.push('\n');
        }
        at += 1 + body.map_or(0, |body| body.len());
    }
    out
}

/// The body of a `try` block without its indentation, if every handler of the block raises. `lines` begin after `try:`.
fn reraising_body<'t>(lines: &[&'t str]) -> Option<Vec<&'t str>> {
    let indentation = |line: &str| line.len() - line.trim_start_matches([' ', '\t']).len();
    let is_inside = |line: &&&str| line.trim().is_empty() || indentation(line) > 0;
    let first = lines.first()?;
    let width = indentation(first);
    let body: Vec<&str> = lines.iter().take_while(is_inside).copied().collect();
    // Quotes may hide where the block ends.
    if width == 0 || body.iter().any(|line| line.contains("\"\"\"") || line.contains("'''")) {
        return None;
    }
    let mut rest = &lines[body.len()..];
    let mut handlers = 0;
    while let Some(head) = rest.first().filter(|line| line.starts_with("except")) {
        if !head.split('#').next().unwrap_or_default().trim_end().ends_with(':') {
            return None;
        }
        handlers += 1;
        let mut quote: Option<&str> = None;
        let mut raises = false;
        let mut own: Option<usize> = None;
        let mut seen = 1;
        for line in &rest[1..] {
            let in_quote = quote.is_some();
            match quote {
                Some(end) if line.matches(end).count() % 2 == 1 => quote = None,
                Some(_) => {}
                None => quote = ["\"\"\"", "'''"].into_iter().find(|q| line.matches(*q).count() % 2 == 1),
            }
            if !in_quote && !line.trim().is_empty() {
                if indentation(line) == 0 {
                    break;
                }
                let own = *own.get_or_insert(indentation(line));
                raises |= indentation(line) == own
                    && line.trim_start().split([' ', '(', '#']).next().is_some_and(|word| word == "raise");
            }
            seen += 1;
        }
        if !raises {
            return None;
        }
        rest = &rest[seen..];
    }
    // `else` and `finally` change nothing; a block without handlers fails as its body does.
    let is_block = handlers > 0 || rest.first().is_some_and(|line| line.starts_with("finally"));
    is_block.then(|| {
        body.into_iter().map(|line| line.get(width.min(indentation(line))..).unwrap_or(line)).collect()
    })
}

/// The import statements that start in the first column, each on one line. Text in triple quotes is skipped.
fn statements(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut quote: Option<&str> = None;
    let mut open: Option<String> = None;
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n").replace('\r', "\n");
    let text = without_reraising_tries(&text);
    for line in text.lines() {
        if let Some(end) = quote {
            if line.matches(end).count() % 2 == 1 {
                quote = None;
            }
            continue;
        }
        let code = line.split('#').next().unwrap_or_default().trim_end();
        let quotes = |text: &str| text.matches("\"\"\"").count() + text.matches("'''").count();
        if quotes(code) != quotes(line) {
            // A quote behind `#` is in a comment or in a string: what follows cannot be read.
            return out;
        }
        let words = code.split_whitespace().collect::<Vec<_>>().join(" ").replacen("from.", "from .", 1);
        let code = if code.starts_with(char::is_whitespace) { code } else { words.as_str() };
        if let Some(mut statement) = open.take() {
            statement.push(' ');
            statement.push_str(code.trim_end_matches('\\').trim());
            match code.contains(')') || (!statement.contains('(') && !code.ends_with('\\')) {
                true => out.push(statement),
                false => open = Some(statement),
            }
            continue;
        }
        quote = ["\"\"\"", "'''"].into_iter().find(|quote| line.matches(quote).count() % 2 == 1);
        if quote.is_some() || !(code.starts_with("import ") || code.starts_with("from ")) {
            continue;
        }
        let continues = (code.contains('(') && !code.contains(')')) || code.ends_with('\\');
        let statement = code.trim_end_matches('\\').to_owned();
        match continues {
            true => open = Some(statement),
            false => {
                let parts = statement.split(';').map(str::trim);
                out.extend(
                    parts
                        .filter(|part| part.starts_with("import ") || part.starts_with("from "))
                        .map(str::to_owned),
                );
            }
        }
    }
    out
}

/// The absolute names of the modules that a statement may import. `module` is the importing module.
fn imported(statement: &str, module: &str, is_package: bool) -> Vec<String> {
    let first = statement.split(';').next().unwrap_or_default().trim();
    let name_of = |item: &str| item.split(" as ").next().unwrap_or_default().trim().to_owned();
    if let Some(list) = first.strip_prefix("import ") {
        return list.split(',').map(name_of).filter(|name| !name.is_empty()).collect();
    }
    let Some((from, list)) = first.strip_prefix("from ").and_then(|rest| rest.split_once(" import ")) else {
        return Vec::new();
    };
    let from = from.trim();
    let dots = from.len() - from.trim_start_matches('.').len();
    let base = match dots {
        0 => from.to_owned(),
        _ => {
            // One dot is the package of the module.
            let up = if is_package { dots - 1 } else { dots };
            let mut parts: Vec<&str> = module.split('.').collect();
            if up >= parts.len() {
                return Vec::new();
            }
            parts.truncate(parts.len() - up);
            let rest = from.trim_start_matches('.');
            parts.extend((!rest.is_empty()).then_some(rest));
            parts.join(".")
        }
    };
    let items =
        list.trim_matches(['(', ')', ' ']).split(',').map(|item| name_of(item.trim_matches(['(', ')', ' '])));
    let members = items.filter(|name| !name.is_empty() && name != "*").map(|name| format!("{base}.{name}"));
    std::iter::once(base.clone()).chain(members).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tree::ThisMachine;
    use super::*;

    #[test]
    fn statements_of_the_first_column() {
        let text = "\"\"\"Doc\nimport no\n\"\"\"\nimport os, numpy as np\nfrom . import (\n    _C,  # code\n    other,\n)\ntry:\n    import optional\nexcept ImportError:\n    pass\nfrom a.b \\\n    import c\nx = 'import'\n";
        assert_eq!(
            statements(text),
            ["import os, numpy as np", "from . import ( _C, other, )", "from a.b  import c"]
        );
    }

    #[test]
    fn a_failure_that_is_raised_again_is_certain() {
        let with = |handler: &str| {
            let text =
                format!("import a\ntry:\n    import b\n    if x:\n        import c\n{handler}import d\n");
            statements(&text).join(",")
        };
        for handler in [
            "except ImportError as e:\n    raise ImportError('x') from e\n",
            "except ImportError as e:\n    import sys\n    msg = \"\"\"\nline\n    text\n\"\"\"\n    raise\nfinally:\n    pass\n",
            "except A:  # why\n\traise B\nexcept C:\n\traise D\n",
            "finally:\n    pass\n",
        ] {
            assert_eq!(with(handler), "import a,import b,import d", "{handler}");
        }
        for handler in [
            "except ImportError:\n    pass\n",
            "except A:\n    raise\nexcept ImportError:\n    b = None\n",
            "except ImportError:\n    if strict:\n        raise\n",
            "except ImportError:\n    x = \"\"\"\n    raise\n\"\"\"\n",
            "except (\n    A, B\n):\n    raise\n",
        ] {
            assert_eq!(with(handler), "import a,import d", "{handler}");
        }
        assert_eq!(statements("try:\n").len() + statements("try:\nexcept:\n  raise\n").len(), 0);
        assert_eq!(
            statements("try:\n    \"\"\"\nexcept: \"\"\"\n    import a\nexcept X:\n    raise\n").len(),
            0
        );
    }

    #[test]
    fn names_are_absolute() {
        let of =
            |statement: &str, module: &str, package: bool| imported(statement, module, package).join(" ");
        assert_eq!(of("import os, numpy as np", "a", true), "os numpy");
        assert_eq!(of("from . import ( _C, other, )", "a", true), "a a._C a.other");
        assert_eq!(of("from .b import c as d", "a", true), "a.b a.b.c");
        assert_eq!(of("from .b import *", "a.x", false), "a.b");
        assert_eq!(of("from ..b import c", "a.x.y", false), "a.b a.b.c");
        assert_eq!(of("from ....b import c", "a.x", false), "");
        assert_eq!(of("from importlib", "a", false), "");
    }

    #[test]
    fn only_what_is_certain_is_reached() {
        let site = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = site.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "p/__init__.py",
            "from .core import x\ntry:\n    from . import _optional\nexcept ImportError:\n    pass\n",
        );
        write("p/core.py", "from p import _C\nimport q.deep\n\ndef f():\n    from . import _late\n");
        write("p/_C.cpython-312-x86_64-linux-gnu.so", "");
        write("p/_optional.abi3.so", "");
        write("p/_late.so", "");
        write("q/__init__.py", "");
        write("q/deep.so", "");
        let files: Vec<String> = Imports::new(&ThisMachine, &[site.path()], Some(Python::new(12)))
            .reached_from("p")
            .files
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        assert_eq!(
            files,
            [
                "p/_C.cpython-312-x86_64-linux-gnu.so",
                "p/__init__.py",
                "p/core.py",
                "q/__init__.py",
                "q/deep.so"
            ]
        );
    }

    /// Where the text leaves a doubt, nothing is certain.
    #[test]
    fn doubts_are_not_certain() {
        let core = "from . import _C\n";
        for (about, init, core, is_reached) in [
            ("plain", "from .core import x\n", core, true),
            ("after a mark of the byte order", "\u{feff}from .core import x\n", core, true),
            ("after another statement", "import os; from .core import x\n", core, true),
            ("without a space", "from.core import x\n", core, true),
            ("with tabs", "from\t.core\timport\tx\n", core, true),
            ("with carriage returns", "import os\rfrom .core import x\r", core, true),
            (
                "an attribute of that name",
                "try:\n    from . import _C\nexcept ImportError:\n    _C = None\nfrom .core import x\n",
                core,
                false,
            ),
            ("loads libraries itself", "import ctypes\nctypes.CDLL('x')\nfrom .core import x\n", core, false),
            ("other symbol rules", "import sys\nsys.setdlopenflags(1)\nfrom .core import x\n", core, false),
            ("quotes in a comment", "x = 1  # \"\"\"\n\"\"\"Doc\nfrom .core import x\n\"\"\"\n", core, false),
            ("in a docstring", "\"\"\"\nfrom .core import x\n\"\"\"\n", core, false),
            ("in a function", "def f():\n    from .core import x\n", core, false),
        ] {
            let site = tempfile::tempdir().unwrap();
            std::fs::create_dir(site.path().join("p")).unwrap();
            for (name, text) in [("__init__.py", init), ("core.py", core)] {
                std::fs::write(site.path().join("p").join(name), text).unwrap();
            }
            // Another series' module comes first by name.
            for tag in ["310", "312"] {
                std::fs::write(site.path().join(format!("p/_C.cpython-{tag}-x86_64-linux-gnu.so")), "")
                    .unwrap();
            }
            let mut imports = Imports::new(&ThisMachine, &[site.path()], Some(Python::new(12)));
            assert_eq!(imports.load("p/_C.cpython-312-x86_64-linux-gnu.so"), is_reached, "{about}");
            assert!(!imports.load("p/_C.cpython-310-x86_64-linux-gnu.so"), "{about}");
        }
    }

    #[test]
    fn a_library_beside_the_packages_is_no_module() {
        let site = tempfile::tempdir().unwrap();
        std::fs::write(site.path().join("plugin.so"), "text").unwrap();
        assert!(!Imports::new(&ThisMachine, &[site.path()], None).load("plugin.so"));
        assert!(!Imports::new(&ThisMachine, &[site.path()], None).load("_module.abi3.so"));
    }

    /// Many names in one statement are not as many look-ups.
    #[test]
    fn many_names_end() {
        let site = tempfile::tempdir().unwrap();
        std::fs::create_dir(site.path().join("p")).unwrap();
        let names: String = (0..300_000).map(|i| format!("n{i},")).collect();
        let text = format!("from .core import x\nfrom . import ({names})\nfrom . import _late\n");
        std::fs::write(site.path().join("p/__init__.py"), text).unwrap();
        for file in ["core.py", "_late.so"] {
            std::fs::write(site.path().join("p").join(file), "").unwrap();
        }
        let mut imports = Imports::new(&ThisMachine, &[site.path()], None);
        let files = &imports.reached_from("p").files;
        assert!(files.contains(Path::new("p/__init__.py")) && !files.contains(Path::new("p/_late.so")));
    }
}
