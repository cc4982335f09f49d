//! No file of `src` uses, through others, one that uses it: what is understood first stands alone.

use std::collections::BTreeMap;
use std::path::Path;

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::architecture::{code, root, rust_files};

/// A path of modules from the crate's root, without `crate`.
type Module = Vec<String>;

/// One source file as a module.
struct File {
    name: String,
    /// The paths it uses, from the crate's root.
    uses: Vec<Module>,
    /// What it passes on under a name of its own: `pub use`, and private `use` that its children see.
    names: BTreeMap<String, Module>,
}

/// `a::{b, c::{d, e as f}}` as its paths, `as` dropped.
fn paths_of(tree: &str) -> Vec<Vec<String>> {
    let Some((head, rest)) = tree.split_once('{') else {
        let plain = tree.split(" as ").next().unwrap();
        return vec![plain.split("::").map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect()];
    };
    let head: Vec<String> = head.split("::").map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect();
    let inner = rest.rsplit_once('}').unwrap().0;
    let mut items = vec![String::new()];
    let mut depth = 0;
    for c in inner.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            items.push(String::new());
        } else {
            items.last_mut().unwrap().push(c);
        }
    }
    items
        .iter()
        .filter(|item| !item.trim().is_empty())
        .flat_map(|item| paths_of(item))
        .map(|path| head.iter().cloned().chain(path).filter(|s| s != "self").collect())
        .collect()
}

/// A path as written in `module`, from the crate's root; `None` for other crates.
fn absolute(path: &[String], module: &Module, files: &BTreeMap<Module, String>) -> Option<Module> {
    let mut at = module.clone();
    match path[0].as_str() {
        "crate" => at.clear(),
        "super" => drop(at.pop()),
        "self" => {}
        child => {
            at.push(child.to_owned());
            return files.contains_key(&at).then(|| [at, path[1..].to_vec()].concat());
        }
    }
    let mut rest = &path[1..];
    while rest.first().is_some_and(|s| s == "super") {
        at.pop();
        rest = &rest[1..];
    }
    Some([at, rest.to_vec()].concat())
}

fn read(path: &Path, module: &Module, known: &BTreeMap<Module, String>) -> File {
    let text = code(path).replace("pub(super) use ", "pub use ").replace("pub(crate) use ", "pub use ");
    let mut file = File { name: known[module].clone(), uses: Vec::new(), names: BTreeMap::new() };
    let mut body = String::new();
    for (i, part) in text.split("\nuse ").enumerate() {
        let mut rest = part;
        if i > 0 {
            let (tree, after) = part.split_once(';').unwrap();
            for path in paths_of(tree) {
                let Some(path) = absolute(&path, module, known) else { continue };
                file.names.insert(path.last().cloned().unwrap_or_default(), path.clone());
                file.uses.push(path);
            }
            rest = after;
        }
        // A name that is only passed on is no use of it.
        for (i, part) in rest.split("\npub use ").enumerate() {
            let mut rest = part;
            if i > 0 {
                let (tree, after) = part.split_once(';').unwrap();
                for path in paths_of(tree) {
                    let Some(path) = absolute(&path, module, known) else { continue };
                    file.names.insert(path.last().cloned().unwrap_or_default(), path);
                }
                rest = after;
            }
            body.push_str(rest);
        }
    }
    for start in ["crate::", "super::"] {
        for (at, _) in body.match_indices(start) {
            let word = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            let written: String = body[at..].chars().take_while(|c| word(*c)).collect();
            let path: Vec<String> =
                written.split("::").filter(|s| !s.is_empty()).map(str::to_owned).collect();
            file.uses.extend(absolute(&path, module, known));
        }
    }
    file
}

/// The file that defines what a path ends in: the deepest module, past the names that modules pass on.
fn home(path: &Module, files: &BTreeMap<Module, File>, hops: usize) -> Module {
    let mut module = Module::new();
    for (i, segment) in path.iter().enumerate() {
        let deeper = [module.clone(), vec![segment.clone()]].concat();
        if files.contains_key(&deeper) {
            module = deeper;
            continue;
        }
        match files.get(&module).and_then(|f| f.names.get(segment)) {
            Some(passed) if hops > 0 && passed != path => {
                return home(&[passed.clone(), path[i + 1..].to_vec()].concat(), files, hops - 1);
            }
            _ => break,
        }
    }
    module
}

#[test]
fn no_circles_of_files() {
    let src = root().join("src");
    let mut known: BTreeMap<Module, String> = BTreeMap::new();
    let mut paths = Vec::new();
    for path in rust_files(&src) {
        let relative = path.strip_prefix(&src).unwrap();
        if relative.ends_with("tests.rs") || relative.ends_with("main.rs") {
            continue;
        }
        let mut module: Module = relative
            .with_extension("")
            .components()
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .collect();
        if module.last().is_some_and(|last| last == "mod" || last == "lib") {
            module.pop();
        }
        known.insert(module.clone(), relative.display().to_string());
        paths.push((path, module));
    }
    let files: BTreeMap<Module, File> =
        paths.iter().map(|(path, module)| (module.clone(), read(path, module, &known))).collect();
    let mut graph: DiGraphMap<&str, ()> = DiGraphMap::new();
    for (module, file) in &files {
        for path in &file.uses {
            let target = home(path, &files, 8);
            // A module and its parts are one: what the parts share stands in the module's own file.
            if !target.starts_with(module) {
                graph.add_edge(&file.name, &files[&target].name, ());
            }
        }
    }
    assert!(graph.edge_count() > files.len(), "the paths were not read");
    let circles: Vec<String> = tarjan_scc(&graph)
        .into_iter()
        .filter(|circle| circle.len() > 1)
        .map(|mut circle| {
            circle.sort_unstable();
            circle.join(", ")
        })
        .collect();
    assert!(circles.is_empty(), "these files use each other in circles:\n{}", circles.join("\n"));
}
