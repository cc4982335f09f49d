//! The rules of docs/architecture.md, held against the source.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            out.extend(rust_files(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
    out.sort();
    out
}

/// Module -> (what it may import, whether it is core).
fn table() -> BTreeMap<String, (Vec<String>, bool)> {
    let text = std::fs::read_to_string(root().join("docs/architecture.md")).unwrap();
    let rows: BTreeMap<String, (Vec<String>, bool)> = text
        .lines()
        .skip_while(|l| !l.starts_with("| module | may import"))
        .skip(2)
        .take_while(|l| l.starts_with('|'))
        .map(|l| {
            let cells: Vec<&str> = l.trim_matches('|').split('|').map(str::trim).collect();
            let imports = cells[1].split(',').map(|s| s.trim().to_owned()).filter(|s| s != "-").collect();
            (cells[0].to_owned(), (imports, cells[2] == "core"))
        })
        .collect();
    assert!(rows.len() > 8, "the table was not found");
    rows
}

/// The code of a file without comments and without its test module.
pub fn code(path: &Path) -> String {
    let text = std::fs::read_to_string(path).unwrap();
    let body = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    body.lines().map(|l| l.split("//").next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

#[test]
fn modules_import_only_what_the_table_allows() {
    let table = table();
    let mut wrong = Vec::new();
    for path in rust_files(&root().join("src")) {
        let relative = path.strip_prefix(root().join("src")).unwrap();
        let module = relative.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        if module == "lib.rs" || module == "main.rs" || path.ends_with("tests.rs") {
            continue;
        }
        let (allowed, _) =
            table.get(&module).unwrap_or_else(|| panic!("docs/architecture.md has no row for `{module}`"));
        for used in code(&path).split("crate::").skip(1) {
            let name: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if name != module && !allowed.contains(&name) && table.contains_key(&name) {
                wrong.push(format!("{} imports {name}", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_core_touches_nothing() {
    let table = table();
    let forbidden = [
        "std::fs",
        "fs_err",
        "std::env",
        "std::process",
        "std::net",
        "println!",
        "print!(",
        "SystemTime",
        "Instant",
        "reqwest",
        "tokio",
    ];
    let mut wrong = Vec::new();
    for (module, (_, core)) in &table {
        if !core {
            continue;
        }
        let files = rust_files(&root().join("src").join(module)).into_iter();
        for path in files.filter(|path| !path.ends_with("tests.rs")) {
            let code = code(&path);
            for word in forbidden {
                if code.contains(word) {
                    wrong.push(format!("{} uses {word}", path.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn only_the_cli_prints() {
    for path in rust_files(&root().join("src")) {
        let in_cli = path.components().any(|c| c.as_os_str() == "cli");
        let text = code(&path);
        assert!(in_cli || !text.contains("println!"), "{} prints", path.display());
    }
}

/// Settings come from one place: in `session` and `cli` one file reads variables.
#[test]
fn variables_are_read_in_one_place() {
    for module in ["session", "cli"] {
        for path in rust_files(&root().join("src").join(module)) {
            let reads = code(&path).contains("env::var");
            assert!(!reads || path.ends_with("session/variables.rs"), "{} reads a variable", path.display());
        }
    }
}

#[test]
fn no_registry_host_and_no_machine_path_in_the_repository() {
    // Spelled in parts, so that this file does not contain them either.
    let hosts = [
        ["py", "pi.org"],
        ["python", "hosted.org"],
        ["crates", ".io"],
        ["npm", "js.org"],
        ["deb.deb", "ian.org"],
    ];
    let mut wrong = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !name.starts_with('.') && name != "target" {
                    folders.push(path);
                }
                continue;
            }
            // Cargo.lock names cargo's registry by cargo's own scheme; cargo writes it. A log of the CI run is not committed.
            if name == "Cargo.lock" || name.starts_with(".ci-") {
                continue;
            }
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            for parts in hosts {
                if text.contains(&parts.concat()) {
                    wrong.push(format!("{} names {}", path.display(), parts.concat()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_source_file_opens_with_its_purpose() {
    for path in rust_files(&root().join("src")) {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} has no module documentation", path.display());
    }
}

/// "Does this run here?" has one home: who else looks up a driver's floor, what code covers or what cuDNN drops,
/// answers the question a second time.
#[test]
fn compatibility_is_asked_in_one_place() {
    let lookups = [".driver_below(", ".is_tegra(", ".covers("];
    let homes = ["compatibility", "registry", "model"];
    let mut wrong = Vec::new();
    for path in rust_files(&root().join("src")) {
        let relative = path.strip_prefix(root().join("src")).unwrap();
        let module = relative.components().next().unwrap().as_os_str().to_string_lossy().into_owned();
        if homes.contains(&module.as_str()) || path.ends_with("tests.rs") {
            continue;
        }
        let code = code(&path);
        wrong.extend(
            lookups.iter().filter(|l| code.contains(**l)).map(|l| format!("{}: {l}", relative.display())),
        );
    }
    // `Situation::covers` is a question of its own, which asks compatibility/.
    wrong.retain(|place| !place.starts_with("diagnose/"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The parser of requirements is recursive: only the function that limits the text calls it.
#[test]
fn requirements_are_parsed_in_one_place() {
    let calls = ["parse::<Requirement<VerbatimUrl>>", "Requirement::from_str", "parse::<MarkerTree>"];
    for path in rust_files(&root().join("src")) {
        let text = code(&path);
        let found = calls.iter().find(|call| text.contains(**call));
        assert!(found.is_none(), "{} calls {}", path.display(), found.unwrap());
    }
}

/// Files that the documents for contributors name are there.
/// Parallel folders of one kind have files of one name: each format is read, each command has a report.
#[test]
fn at_most_two_files_of_one_name() {
    let src = root().join("src");
    let mut places: BTreeMap<String, std::collections::BTreeSet<PathBuf>> = BTreeMap::new();
    for path in rust_files(&src) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let folder = path.strip_prefix(&src).unwrap().parent().unwrap();
        if !matches!(name.as_str(), "mod" | "types" | "tests") {
            let kind = ["formats", "cli/commands"].iter().find(|kind| folder.starts_with(kind));
            places.entry(name).or_default().insert(kind.map_or(folder.to_owned(), PathBuf::from));
        }
    }
    let many: Vec<_> = places.iter().filter(|(_, folders)| folders.len() > 2).collect();
    assert!(many.is_empty(), "{many:#?}");
}

#[test]
fn named_files_exist() {
    let mut missing = Vec::new();
    for document in
        ["CONTRIBUTING.md", "docs/architecture.md", "tests/hostile/README.md", "registry/README.md"]
    {
        let text = std::fs::read_to_string(document).unwrap();
        for path in text.split('`').skip(1).step_by(2).filter(|word| {
            word.contains('/')
                && word.ends_with(".rs")
                && !word.contains([' ', '*', '$'])
                && !word.contains(char::is_uppercase)
        }) {
            let beside = std::path::Path::new(document).parent().unwrap();
            if ![std::path::Path::new(""), std::path::Path::new("src"), beside]
                .iter()
                .any(|start| start.join(path).is_file())
            {
                missing.push(format!("{document}: {path}"));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
