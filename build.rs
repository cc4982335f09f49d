//! Puts the registry into the program: its texts, and each table as JSON, which is read ten times faster than TOML.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

use sha2::{Digest as _, Sha256};

#[path = "src/registry/document.rs"]
mod document;

fn main() {
    println!("cargo:rerun-if-changed=registry");
    println!("cargo:rerun-if-changed=src/registry/document.rs");
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("registry");
    let mut paths = Vec::new();
    toml_files(&root, "", &mut paths);
    paths.sort();
    let (mut files, mut tables, mut hasher) = (String::new(), String::new(), Sha256::new());
    for path in &paths {
        let file = root.join(path);
        let text = fs::read_to_string(&file).unwrap_or_else(|e| fail(&format!("{path}: {e}")));
        // As in `Registry::digest`.
        for part in [path, "\0", text.as_str(), "\0"] {
            hasher.update(part.as_bytes());
        }
        let _ = writeln!(files, "({path:?}, include_str!({:?})),", file.display().to_string());
        let of_file = document::tables(&text).unwrap_or_else(|e| {
            let line = document::line_of(&text, e.span().map_or(0, |span| span.start));
            fail(&format!("registry/{path}:{line}: {}", e.message()))
        });
        for document::Table { name, rows, json } in of_file {
            let _ = writeln!(tables, "({path:?}, {name:?}, {rows}, {json:?}),");
        }
    }
    let digest = hex::encode(hasher.finalize());
    let generated = format!(
        "const DIGEST: &str = {digest:?};\n\
         const FILES: &[(&str, &str)] = &[\n{files}];\n\
         const TABLES: &[(&str, &str, usize, &str)] = &[\n{tables}];\n"
    );
    let out = PathBuf::from(env::var("OUT_DIR").expect("cargo sets it")).join("registry.rs");
    fs::write(out, generated).expect("OUT_DIR is writable");
}

/// The TOML files below a folder, relative to it, with `/`.
fn toml_files(folder: &Path, prefix: &str, out: &mut Vec<String>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| fail(&format!("{}: {e}", folder.display())));
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if path.is_dir() {
            toml_files(&path, &format!("{prefix}{name}/"), out);
        } else if name.ends_with(".toml") {
            out.push(format!("{prefix}{name}"));
        }
    }
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    std::process::exit(1)
}
