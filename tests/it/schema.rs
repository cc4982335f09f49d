//! `schema`: what envlock writes and what its documentation shows is valid by the schemas; where check-jsonschema is on
//! `PATH`, by a real validator too.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::context::{IndexServer, Shape, TestContext, skipped};
use super::tools;
use super::wheels::{little_pypi, little_pytorch};

/// The keys of a document that a schema does not have, as paths.
fn strangers(value: &Value, schema: &Value, path: &str, out: &mut Vec<String>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                let at = format!("{path}.{key}");
                let of_name = schema["properties"].get(key);
                match of_name.or_else(|| schema.get("additionalProperties").filter(|other| other.is_object()))
                {
                    Some(schema) => strangers(value, schema, &at, out),
                    None => out.push(at),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| strangers(value, &schema["items"], path, out)),
        _ => {}
    }
}

fn toml(text: &str) -> Value {
    toml::from_str(text).unwrap()
}

fn schema(context: &TestContext, name: &str) -> Value {
    let text = context.run(&["schema", name]).expect(0).stdout;
    context.write(&format!("{name}.schema.json"), &text);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn what_is_written_has_the_keys_of_its_schema() {
    let mut all = little_pypi();
    all.extend(little_pytorch());
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let (lock, host, manifest) =
        (schema(&context, "lock"), schema(&context, "host"), schema(&context, "manifest"));
    // The manifest of the documentation, with what is commented out there.
    let page = include_str!("../../docs/projects.md");
    let shown = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let uncommented: String =
        shown.lines().map(|line| format!("{}\n", line.trim_start_matches("# "))).collect();
    for (name, text) in [("shown", shown), ("uncommented", &uncommented)] {
        let mut found = Vec::new();
        strangers(&toml(text), &manifest, "", &mut found);
        assert_eq!(found, Vec::<String>::new(), "{name}");
        context.write(&format!("{name}.manifest.toml"), text);
    }
    let machine = ["--gpu", "A100", "--driver", "580.65.06", "--only-index", "pypi", "--python", "3.12"];
    context.run(&[&["resolve", "torch==2.9.1"], &machine[..]].concat()).expect(0);
    context.write("one.lock.toml", &context.read("envlock.lock"));
    let sources =
        include_str!("../../src/lockfile/snapshots/envlock__lockfile__tests__lock_with_sources.snap");
    let one = context.read("envlock.lock");
    let head = &one[..one.find("[[package]]").unwrap()];
    context.write("sources.lock.toml", &format!("{head}{}", sources.splitn(3, "---\n").nth(2).unwrap()));
    for name in ["one", "sources"] {
        assert!(context.read(&format!("{name}.lock.toml")).contains("[[package]]"));
        let mut found = Vec::new();
        strangers(&toml(&context.read(&format!("{name}.lock.toml"))), &lock, "", &mut found);
        assert_eq!(found, Vec::<String>::new(), "{name}");
    }
    context.run(&["probe", "--save", "here.host.toml"]).expect(0);
    let described = ["probe", "--gpu", "A100", "--driver", "580.65.06", "--save", "described.host.toml"];
    context.run(&described).expect(0);
    for name in ["here", "described"] {
        let mut found = Vec::new();
        strangers(&toml(&context.read(&format!("{name}.host.toml"))), &host, "", &mut found);
        assert_eq!(found, Vec::<String>::new(), "{name}");
    }
    context.run(&["schema", "wheel"]).expect(2);

    let Some(program) = tools::check_jsonschema() else { return };
    let check = |schema: &str, files: &[&str]| {
        let mut command = Command::new(&program);
        command.current_dir(context.project()).arg("--schemafile").arg(format!("{schema}.schema.json"));
        command.args(files).output().unwrap()
    };
    for (schema, files) in [
        ("manifest", ["shown.manifest.toml", "uncommented.manifest.toml"]),
        ("lock", ["one.lock.toml", "sources.lock.toml"]),
        ("host", ["here.host.toml", "described.host.toml"]),
    ] {
        let done = check(schema, &files);
        assert!(done.status.success(), "{schema}: {}", String::from_utf8_lossy(&done.stdout));
    }
    for (schema, text) in [
        ("manifest", "[stack]\ntorch = 2\n"),
        ("manifest", "[stack]\ndriver-policy = \"any\"\n"),
        ("manifest", "[proect]\n"),
        ("host", "gpu = []\n"),
        ("host", "schema = 1\n[[gpu]]\ncompute_capability = \"sm_90\"\n"),
    ] {
        context.write("bad.toml", text);
        assert!(!check(schema, &["bad.toml"]).status.success(), "{text}");
    }
    // The editor's checker of TOML files, beside it.
    let taplo = Path::new(&program).with_file_name("taplo");
    if !taplo.is_file() {
        return skipped("no taplo beside check-jsonschema");
    }
    let check = |file: &str| {
        let schema = format!("file://{}", context.project().join("manifest.schema.json").display());
        let mut command = Command::new(&taplo);
        command.current_dir(context.project()).args(["check", "--schema", &schema, file]);
        command.output().unwrap()
    };
    for file in ["shown.manifest.toml", "uncommented.manifest.toml"] {
        let done = check(file);
        assert!(done.status.success(), "{file}: {}", String::from_utf8_lossy(&done.stderr));
    }
    context.write("bad.toml", "[stack]\ntorch = 2\n");
    assert!(!check("bad.toml").status.success());
}
