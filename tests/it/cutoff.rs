//! `exclude-newer`: files uploaded later are no candidates.

use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{Wheel, little_pypi, wheel};

const OLD: &str = "2024-05-01T10:00:00.123456Z";
const NEW: &str = "2025-05-01T10:00:00Z";

/// `demo` 1.0 is old, 2.0 new, 2.1 yanked and new; 1.5 got a wheel for one Python later.
fn wheels() -> Vec<Wheel> {
    let linux = |python: &str| format!("{python}-{python}-manylinux_2_17_x86_64");
    vec![
        wheel("demo", "1.0").uploaded(OLD),
        wheel("demo", "1.5").tags(&linux("cp312")).uploaded(OLD),
        wheel("demo", "1.5").tags(&linux("cp313")).uploaded(NEW),
        wheel("demo", "2.0").needs("helper").uploaded(NEW),
        wheel("demo", "2.1").uploaded(NEW).yanked(),
        wheel("helper", "1").uploaded(NEW),
        wheel("user", "1").needs("demo>=2").uploaded(OLD),
    ]
}

fn index(wheels: Vec<Wheel>, json: bool) -> (IndexServer, TestContext) {
    let mut all = little_pypi();
    all.extend(wheels.into_iter().map(|made| ("pypi", made)));
    let server = IndexServer::start(all, Shape { json, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    (server, context)
}

const CPU: [&str; 3] = ["--gpu", "none", "--platform=linux-x86_64"];

fn resolve<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["resolve"], more, &CPU[..]].concat()
}

#[test]
fn a_file_uploaded_later_is_no_candidate() {
    let (_server, context) = index(wheels(), true);
    for (cutoff, python, expected) in [
        ("2025-06-01", "3.12", "demo 2.0"),
        ("2025-05-01", "3.12", "demo 2.0"),
        ("2025-05-01T10:00:00Z", "3.12", "demo 1.5"),
        ("2025-05-01T10:00:01Z", "3.12", "demo 2.0"),
        ("2025-04-30", "3.12", "demo 1.5"),
        // The wheel for this Python came later.
        ("2025-04-30", "3.13", "demo 1.0"),
    ] {
        let run = context
            .run(&resolve(&["demo", "--exclude-newer", cutoff, "--python", python, "--upgrade"]))
            .expect(0);
        assert!(run.flat().contains(expected), "{cutoff} {python}: {}", run.shown());
        let lock = context.read("envlock.lock");
        assert!(lock.contains("\"option exclude-newer 2025-0"), "{lock}");
    }
    // A lock of one run's option is current without it, and a later run keeps it.
    context.run(&["resolve", "--locked"]).expect(0);
    context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = [\"demo\"]\n");
    let machine = ["resolve", "--force", "--gpu", "none", "--python", "3.12"];
    context.run(&[&machine[..], &["--exclude-newer", "2025-04-30"]].concat()).expect(0);
    let run = context.run(&["resolve", "--upgrade"]).expect(0);
    assert!(run.flat().contains("--exclude-newer 2025-04-30 kept from the lock"), "{}", run.shown());
    assert!(run.flat().contains("demo 1.5"), "{}", run.shown());
}

#[test]
fn a_refusal_says_what_came_later_and_what_helps() {
    let (_server, context) = index(wheels(), true);
    let run = context.run(&resolve(&["demo>=2", "--exclude-newer", "2025-01-01"])).expect(1);
    let flat = run.flat();
    for part in [
        "demo 2.0 and 2.1 were uploaded later (`exclude-newer` is 2025-01-01)",
        "demo <2 ",
        "without exclude-newer 2025-01-01",
    ] {
        assert!(flat.contains(part), "{part}: {}", run.shown());
    }
    assert!(!flat.contains("yanked"), "{}", run.shown());
    let run = context.run(&resolve(&["user", "--exclude-newer", "2025-01-01"])).expect(1);
    assert!(
        run.flat().contains("user 1 needs demo>=2 [its metadata] demo 2.0 and 2.1 were uploaded later (`exclude-newer` is 2025-01-01)"),
        "{}",
        run.shown()
    );
    let run = context.run(&resolve(&["helper", "--exclude-newer", "2025-01-01"])).expect(1);
    assert!(run.flat().contains("helper 1 was uploaded later"), "{}", run.shown());
    for text in ["soon", "2025-13-01", "7 months"] {
        let run = context.run(&resolve(&["demo", "--exclude-newer", text])).expect(2);
        assert!(
            run.stderr.contains(&format!("`--exclude-newer`: `{text}` is not a date")),
            "{}",
            run.shown()
        );
    }
}

#[test]
fn an_index_without_times_must_be_exempt() {
    for json in [true, false] {
        let undated: Vec<Wheel> =
            wheels().into_iter().map(|wheel| Wheel { uploaded: None, ..wheel }).collect();
        let (_server, context) = index(undated, json);
        let run = context.run(&resolve(&["demo", "--exclude-newer", "2025-01-01"])).expect(1);
        assert!(
            run.flat().contains("have no time of upload on the index pypi, which `exclude-newer` requires"),
            "{}",
            run.shown()
        );
        let manifest = "[project]\ndependencies = [\"demo\"]\n[resolve]\nexclude-newer = \"2025-01-01\"\n";
        context.write("envlock.toml", &format!("{manifest}exclude-newer-exempt = [\"pypi\"]\n"));
        let run = context.run(&resolve(&[])).expect(0);
        assert!(run.flat().contains("demo 2.0"), "{}", run.shown());
        context.run(&["resolve", "--locked"]).expect(0);
        context.write("envlock.toml", manifest);
        let run = context.run(&["resolve", "--locked"]).expect(1);
        assert!(run.flat().contains("exclude-newer-exempt pypi"), "{}", run.shown());
    }
}

#[test]
fn an_age_keeps_its_time_until_an_upgrade() {
    let (_server, context) = index(wheels(), true);
    let manifest =
        |age: &str| format!("[project]\ndependencies = [\"demo\"]\n[resolve]\nexclude-newer = \"{age}\"\n");
    context.write("envlock.toml", &manifest("7 days"));
    context.run(&resolve(&[])).expect(0);
    let lock = context.read("envlock.lock");
    let line = |lock: &str| {
        lock.lines().find(|line| line.contains("exclude-newer")).unwrap_or_default().trim().to_owned()
    };
    let first = line(&lock);
    assert!(first.starts_with("\"exclude-newer 2") && first.ends_with("Z 7 days\","), "{first}");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    context.run(&["resolve", "--locked"]).expect(0);
    context.run(&resolve(&[])).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    context.run(&resolve(&["--upgrade"])).expect(0);
    assert_ne!(line(&context.read("envlock.lock")), first);
    context.write("envlock.toml", &manifest("8 days"));
    context.run(&["resolve", "--locked"]).expect(1);
}

#[test]
fn a_package_has_its_own() {
    let (_server, context) = index(wheels(), true);
    let manifest = "[project]\ndependencies = [\"demo\"]\n[resolve]\nexclude-newer = \"2025-01-01\"\n";
    for (table, expected) in [
        ("{ Demo = \"2026-01-01\", helper = false }", Some("demo 2.0")),
        // `helper`, which 2.0 needs, is too new.
        ("{ demo = false }", Some("demo 1.5")),
        ("{ demo = \"2024-01-01\" }", None),
    ] {
        context.write("envlock.toml", &format!("{manifest}exclude-newer-package = {table}\n"));
        let run = context.run(&resolve(&["--python", "3.12", "--force"]));
        let run = run.expect(i32::from(expected.is_none()));
        if let Some(expected) = expected {
            assert!(run.flat().contains(expected), "{table}: {}", run.shown());
            context.run(&["resolve", "--locked"]).expect(0);
        }
    }
    for (line, message) in [
        ("exclude-newer-package = { demo = 3 }", "envlock.toml:5: `demo` must be a date"),
        ("exclude-newer-package = { demo = \"x\" }", "envlock.toml:5: `x` is not a date"),
        ("exclude-newer-package = { \"a b\" = false }", "envlock.toml:5: `a b` is not a package name"),
        ("exclude-newer-exempt = [\"corp\"]", "envlock.toml:5: no index is called `corp`"),
    ] {
        context.write("envlock.toml", &format!("{manifest}{line}\n"));
        let run = context.run(&resolve(&[])).expect(2);
        assert!(run.stderr.contains(message), "{line}: {}", run.shown());
    }
}

#[test]
fn what_a_build_requires_is_not_newer_either() {
    let source = wheel("built", "1").source("from setuptools import setup\nsetup()\n").uploaded(OLD);
    let more = vec![
        source,
        wheel("setuptools", "80.0").uploaded(OLD),
        wheel("setuptools", "84.0").uploaded(NEW),
        wheel("wheel", "0.45").uploaded(OLD),
    ];
    let (_server, context) = index(more, true);
    context.run(&resolve(&["built", "--exclude-newer", "2025-01-01"])).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("name = \"setuptools\", version = \"80.0\""), "{lock}");
}

#[test]
fn far_behind_is_told_with_its_days() {
    let (_server, context) = index(
        vec![
            wheel("demo", "1.0").uploaded(OLD),
            wheel("demo", "2.0").uploaded(NEW),
            wheel("user", "1").needs("demo<2").uploaded(OLD),
        ],
        true,
    );
    let run = context.run(&resolve(&["demo", "user"])).expect(0);
    assert!(
        run.flat().contains("demo 1.0 (2024-05-01) is a major version behind 2.0 (2025-05-01)"),
        "{}",
        run.shown()
    );
}

#[test]
fn uvs_setting_is_imported() {
    let context = TestContext::new();
    let pyproject = |value: &str| {
        format!(
            "[project]\nname = \"x\"\ndependencies = [\"torch\"]\n[tool.uv]\nexclude-newer = \"{value}\"\n"
        )
    };
    context.write("pyproject.toml", &pyproject("1 week"));
    context.run(&["init", "--from", "pyproject.toml"]).expect(0);
    assert!(context.read("envlock.toml").contains("[resolve]\nexclude-newer = \"1 week\"\n"));
    std::fs::remove_file(context.project().join("envlock.toml")).unwrap();
    context.write("pyproject.toml", &pyproject("2 fortnights"));
    let run = context.run(&["init", "--from", "pyproject.toml"]).expect(0);
    assert!(run.stderr.contains("exclude-newer"), "{}", run.shown());
}
