//! `sbom`: what is in wheels and in an environment, as CycloneDX.

use std::process::Command;

use super::common::synced::Synced;
use super::context::{Shape, skipped};
use super::wheels::wheel;

/// A library whose content has these texts, compiled by gcc.
fn library(folder: &std::path::Path, name: &str, texts: &[&str]) -> Option<Vec<u8>> {
    let source = folder.join("x.c");
    let lines = texts.iter().enumerate();
    let code: String = lines.map(|(n, text)| format!("const char text{n}[] = \"{text}\";\n")).collect();
    std::fs::write(&source, code).unwrap();
    let out = folder.join(name);
    let soname = format!("-Wl,-soname,{name}");
    let gcc = Command::new("gcc").args(["-shared", "-o"]).arg(&out).arg(&source).arg(soname).output().ok()?;
    gcc.status.success().then(|| std::fs::read(&out).unwrap())
}

const BILL: &str = r#"{"bomFormat": "CycloneDX", "specVersion": "1.4", "components": [
    {"name": "holder", "version": "2.0", "purl": "pkg:pypi/holder@2.0?file_name=x"},
    {"name": "openssl-libs", "version": "1:1.1.1k-15.el8", "purl": "pkg:rpm/almalinux/openssl-libs@1.1.1k-15.el8"},
    {"name": "serde", "version": "1.0.2", "purl": "pkg:cargo/serde@1.0.2",
     "licenses": [{"expression": "MIT OR Apache-2.0"}]}]}"#;

/// The components of a document that are inside a package: name, version, sources.
fn inside(document: &serde_json::Value, package: &str) -> Vec<(String, String, String)> {
    let all = document["components"].as_array().unwrap();
    let package = all.iter().find(|one| one["name"] == package).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap_or("-").to_owned();
    let sources = |part: &serde_json::Value| {
        let methods = part["evidence"]["identity"][0]["methods"].as_array().cloned().unwrap_or_default();
        methods.iter().map(|method| text(&method["value"])).collect::<Vec<_>>().join(", ")
    };
    let parts = package["components"].as_array().cloned().unwrap_or_default();
    parts.iter().map(|part| (text(&part["name"]), text(&part["version"]), sources(part))).collect()
}

#[test]
fn libraries_inside_packages_are_named() {
    let build = tempfile::tempdir().unwrap();
    let Some(crypto) =
        library(build.path(), "libcrypto-5409cd36.so.1.1.1k", &["OpenSSL 1.1.1k  FIPS 25 Mar 2021"])
    else {
        return skipped("no gcc is here");
    };
    let png = library(build.path(), "libpng16-529cb57a.so.16.58.0", &["libpng version 1.6.58"]).unwrap();
    let own = library(build.path(), "libown.so", &[]).unwrap();
    let module = library(build.path(), "_m.abi3.so", &["OpenSSL 3.4.1 11 Feb 2025"]).unwrap();
    let holder = wheel("holder", "2.0")
        .bytes("holder.libs/libcrypto-5409cd36.so.1.1.1k", &crypto)
        .bytes("holder.libs/libpng16-529cb57a.so.16.58.0", &png)
        .bytes("holder/libown.so", &own)
        .bytes("holder/_m.abi3.so", &module)
        .file("holder-2.0.dist-info/sboms/auditwheel.cdx.json", BILL)
        .file("holder-2.0.dist-info/sboms/broken.cdx.json", "{\"bomFormat\": 3");
    let shape = Shape { json: true, metadata: true, ..Shape::default() };
    let Some(mut env) = Synced::of_shape(true, vec![("pypi", holder)], shape) else { return };
    env.context.shipped_registry = true;
    let context = &env.context;
    env.lock("\"holder\"", "");
    // Without an environment, what is locked.
    let run = context.run(&["sbom"]).expect(0);
    assert!(run.stderr.contains("the libraries inside the packages"), "{}", run.shown());
    let document: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(inside(&document, "holder"), []);
    assert_eq!(document["components"][0]["hashes"][0]["alg"], "SHA-256");
    env.sync(&[]).expect(0);
    let run = context.run(&["sbom", "-o", "bom.json"]).expect(0);
    assert!(run.stderr.contains("4 components inside 1 package"), "{}", run.shown());
    let text = context.read("bom.json");
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    let found = inside(&document, "holder");
    let shown: Vec<String> =
        found.iter().map(|(name, version, sources)| format!("{name} {version} [{sources}]")).collect();
    assert_eq!(
        shown,
        [
            "libpng 1.6.58 [content, file name]",
            "openssl 1.1.1k [content, sboms/auditwheel.cdx.json]",
            "openssl 3.4.1 [content]",
            "serde 1.0.2 []",
        ]
    );
    let openssl = &document["components"][0]["components"][1];
    assert_eq!(openssl["cpe"], "cpe:2.3:a:openssl:openssl:1.1.1k:*:*:*:*:*:*:*");
    assert_eq!(openssl["purl"], "pkg:rpm/almalinux/openssl-libs@1.1.1k-15.el8");
    assert_eq!(openssl["evidence"]["occurrences"][0]["location"], "holder.libs/libcrypto-5409cd36.so.1.1.1k");
    // Equal input has an equal bill, which is not replaced unasked.
    context.run(&["sbom", "-o", "bom.json"]).expect(2);
    context.run(&["sbom", "-o", "bom.json", "--force"]).expect(0);
    assert_eq!(context.read("bom.json"), text);
    validated(&text);
}

#[test]
fn a_wheel_has_a_bill_of_its_own() {
    let Some(env) = Synced::new(true) else { return };
    env.context.write("a.whl", "x");
    let run = env.context.run(&["sbom", "a.whl"]).expect(2);
    assert!(run.flat().contains("cannot read `a.whl`"), "{}", run.shown());
    env.context.write("a-1.0-py3-none-any.whl", "x");
    env.context.run(&["sbom", "a-1.0-py3-none-any.whl"]).expect(2);
    env.context.run(&["sbom", "nosuch-1.0-py3-none-any.whl"]).expect(2);
    env.context.run(&["sbom", "--prefix", "nosuch"]).expect(2);
}

/// Holds a document against CycloneDX's own schema, where its library is installed.
fn validated(text: &str) {
    const SCRIPT: &str = "import sys\n\
        from cyclonedx.validation.json import JsonStrictValidator\n\
        from cyclonedx.schema import SchemaVersion\n\
        error = JsonStrictValidator(SchemaVersion.V1_7).validate_str(sys.stdin.read())\n\
        sys.exit(str(error) if error else 0)\n";
    use std::io::Write as _;
    let python = std::env::var("ENVLOCK_TEST_CYCLONEDX").unwrap_or_else(|_| "python3".to_owned());
    let has_library = Command::new(&python).args(["-c", "import cyclonedx.validation.json"]).output();
    if !has_library.is_ok_and(|run| run.status.success()) {
        return skipped("no cyclonedx-python-lib is here");
    }
    let mut child = Command::new(&python)
        .args(["-c", SCRIPT])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let run = child.wait_with_output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
