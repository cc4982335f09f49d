//! Extras and dependency groups of a pyproject.toml: locked in one solution, installed on demand.

use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{Wheel, wheel};

/// `lib[fast]` brings `engine`, which brings `core` too; `tool` brings `core`.
fn packages() -> Vec<(&'static str, Wheel)> {
    vec![
        ("pypi", wheel("lib", "1.0").needs("core").needs("engine>=2; extra == 'fast'")),
        ("pypi", wheel("engine", "2.0").needs("core").needs("fuel")),
        ("pypi", wheel("fuel", "1.0")),
        ("pypi", wheel("core", "1.0")),
        ("pypi", wheel("tool", "3.0").needs("core").needs("helper")),
        ("pypi", wheel("helper", "1.0")),
        ("pypi", wheel("docs", "1.0")),
    ]
}

const PYPROJECT: &str = r#"
[project]
name = "Demo_App"
version = "1"
requires-python = ">=3.11,<3.14"
dependencies = ["lib"]
[project.optional-dependencies]
fast = ["lib[fast]"]
docs = ["docs"]
all = ["demo-app[fast,docs]"]
[dependency-groups]
docs = ["tool>=3"]
dev = [{ include-group = "docs" }, "demo.app[docs]"]
[tool.envlock]
"#;

fn locked(text: &str) -> (IndexServer, TestContext) {
    let server = IndexServer::start(packages(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.write("pyproject.toml", text);
    context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
    (server, context)
}

/// `core`, `docs [dev, extra:all]`: the packages of a lock with the parts that they are counted to.
fn labels(lock: &str) -> Vec<String> {
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(&format!("{key} = ")))?;
        Some(line.replace('"', ""))
    };
    lock.split("[[package]]")
        .skip(1)
        .map(|block| {
            let name = value(block, "name").unwrap();
            value(block, "groups").map_or(name.clone(), |groups| format!("{name} {groups}"))
        })
        .collect()
}

#[test]
fn packages_are_counted_to_the_parts_that_need_them() {
    let (_server, context) = locked(PYPROJECT);
    let header = context.read("envlock.lock");
    assert!(header.contains("Change pyproject.toml and run"), "{header}");
    let lock = context.read("envlock.lock");
    assert_eq!(
        labels(&lock),
        [
            "core",
            "docs [dev, extra:all, extra:docs]",
            // Although `lib` is always installed: not with its extra.
            "engine [extra:all, extra:fast]",
            "fuel [extra:all, extra:fast]",
            "helper [dev, docs]",
            "lib",
            "tool [dev, docs]",
        ]
    );
    assert!(lock.contains("\nformat = \"2.0.0\"\n"), "{lock}");
    let again = ["resolve", "--gpu", "none", "--only-index", "pypi"];
    let run = context.run(&again).expect(0);
    assert!(run.flat().contains("on demand group dev: 3 packages; group docs: 2;"), "{}", run.shown());
    assert_eq!(context.read("envlock.lock"), lock);
    context.run(&["resolve", "--only-index", "pypi", "--locked"]).expect(0);
    // The exports have what is installed always, and what is asked for.
    let names = |arguments: &[&str]| -> String {
        let run = context.run(&[&["export", "requirements.txt"], arguments].concat()).expect(0);
        let pins = run.stdout.lines().filter_map(|line| line.split_once("==")).map(|(name, _)| name);
        pins.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&[]), "core lib");
    assert_eq!(names(&["--extra", "fast"]), "core engine fuel lib");
    assert_eq!(names(&["--extra", "docs"]), "core docs lib");
    assert_eq!(names(&["--group", "docs"]), "core helper lib tool");
    assert_eq!(names(&["--all-extras", "--all-groups"]), "core docs engine fuel helper lib tool");
    assert!(!context.read("environment.yml").contains("engine"));
    let all = context.run(&["export", "pylock.toml", "--group", "dev"]).expect(2);
    assert!(all.flat().contains("pylock.toml has all extras and groups"), "{}", all.shown());
    context.write("uv.lock", "version = 1\n");
    let foreign = context.run(&["verify", "--lock", "uv.lock", "--extra", "fast"]).expect(2);
    assert!(foreign.flat().contains("select parts of an envlock.lock"), "{}", foreign.shown());
    let unknown = context.run(&["export", "requirements.txt", "--group", "fast"]).expect(2);
    assert!(unknown.flat().contains("the lock has no group fast"), "{}", unknown.shown());
    assert!(unknown.flat().contains("it has group dev, group docs, extra all"), "{}", unknown.shown());
    let pylock = context.run(&["export", "pylock.toml"]).expect(0).stdout;
    assert!(pylock.contains("extras = [\"all\", \"docs\", \"fast\"]"), "{pylock}");
    assert!(pylock.contains("dependency-groups = [\"dev\", \"docs\"]"), "{pylock}");
    assert!(pylock.contains("marker = \"'all' in extras or 'fast' in extras\""), "{pylock}");
}

#[test]
fn a_lock_that_counts_a_package_to_the_wrong_part_is_noticed() {
    let (_server, context) = locked(PYPROJECT);
    let lock = context.read("envlock.lock");
    let check = ["resolve", "--only-index", "pypi", "--locked"];
    for (from, to, told) in [
        ("groups = [\"dev\", \"docs\"]\n", "", "tool 3.0 for every installation"),
        ("[\"dev\", \"docs\"]", "[\"extra:docs\"]", "for extra docs, which does not need it"),
        ("[\"dev\", \"docs\"]", "[\"none\"]", "for group none"),
    ] {
        let (head, tail) = lock.split_at(lock.rfind("name = \"tool\"").unwrap());
        let changed = format!("{head}{}", tail.replacen(from, to, 1));
        assert_ne!(changed, lock);
        context.write("envlock.lock", &super::common::installed::with_checksum(&changed));
        let run = context.run(&check).expect(1);
        assert!(run.flat().contains(told), "{}", run.shown());
    }
}

#[test]
fn parts_that_cannot_be_installed_together_are_left_out_and_said() {
    let text = PYPROJECT.replace("all = [", "slow = [\"engine<2\"]\nall = [");
    let text = text.replace(
        "[tool.envlock]",
        "[tool.uv]\nconflicts = [[{ extra = \"fast\" }, { extra = \"slow\" }]]\n[tool.envlock]",
    );
    let (_server, context) = locked(&text);
    assert_eq!(
        labels(&context.read("envlock.lock"))[1..],
        ["docs [dev, extra:docs]", "helper [dev, docs]", "lib", "tool [dev, docs]"]
    );
    let run = context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
    for part in ["all", "fast", "slow"] {
        let told = format!("the extra {part} is not locked: `[tool.uv] conflicts` excludes it");
        assert!(run.flat().contains(&told), "{}", run.shown());
    }
    // Without that table it is a conflict that names both.
    let plain = text.replace("conflicts = ", "other = ");
    context.write("pyproject.toml", &plain);
    let run = context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(1);
    assert!(run.flat().contains("engine<2") && run.flat().contains("extra slow"), "{}", run.shown());
}

#[test]
fn mistakes_in_extras_and_groups_name_their_line() {
    let context = TestContext::new();
    let cases = [
        ("\"docs\"]\nall", "\"docs>>1\"]\nall", 2, "pyproject.toml:9: "),
        ("\"tool>=3\"", "3", 0, "is not a requirement"),
        ("include-group = \"docs\"", "include-group = \"nope\"", 0, "pyproject.toml has no group nope"),
        ("demo-app[fast,docs]", "demo-app[fast,nope]", 0, "pyproject.toml has no extra nope"),
    ];
    let server = IndexServer::start(packages(), Shape { json: true, metadata: true, ..Shape::default() });
    let with_index = TestContext::with_index(&server);
    for (from, to, code, told) in cases {
        let text = PYPROJECT.replace(from, to);
        assert_ne!(text, PYPROJECT, "{from}");
        let context = if code == 0 { &with_index } else { &context };
        context.write("pyproject.toml", &text);
        let run = context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(code);
        assert!(run.flat().contains(told), "{}", run.shown());
    }
}
