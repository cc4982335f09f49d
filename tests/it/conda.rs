//! conda environments: `environment.yml`, installed by a real conda client, and verified.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::context::{IndexServer, Shape, TestContext, skipped};
use super::tools;
use super::wheels::{Wheel, wheel};

/// A Python with py-rattler, and its series.
fn rattler() -> Option<(PathBuf, String)> {
    let python = tools::python_with("rattler")?;
    let script = "import sys; print('%d.%d' % sys.version_info[:2])";
    let output = Command::new(&python).args(["-c", script]).output().unwrap();
    Some((python, String::from_utf8_lossy(&output.stdout).trim().to_owned()))
}

/// Installs the project's `environment.yml` by py-rattler and pip. `None`: this Python cannot be packed.
fn installed(context: &TestContext, server: &IndexServer, python: &std::ffi::OsStr) -> Option<PathBuf> {
    let prefix = context.dir.path().join("conda-env");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conda/install.py");
    let mut command = Command::new(python);
    command.arg(program).arg(context.project().join("environment.yml")).arg(&prefix);
    let output = command.arg(format!("{}/pypi", server.address)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.code() == Some(3) {
        skipped(&said);
        return None;
    }
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("conda half: pip ") && said.contains(", python "), "{said}");
    Some(prefix)
}

/// rattler-build reads the recipe of envlock's own package, whose version is the program's.
#[test]
fn the_recipe_is_read_by_rattler_build() {
    let Some((python, _)) = rattler() else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(&python);
    command.arg(root.join("tests/fixtures/conda/recipe.py")).arg(root.join("recipe"));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.code() == Some(3) {
        return skipped(&said);
    }
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    let version = env!("CARGO_PKG_VERSION");
    let expected = ["linux-64", "linux-aarch64", "osx-arm64"].map(|of| format!("{of} envlock {version}"));
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

/// The conda half from a channel, the pip half by hash, then `verify`: clean, until something is changed.
#[test]
#[cfg(target_os = "linux")]
fn an_environment_yml_is_installed_and_verified() {
    let Some((python, series)) = rattler() else { return };
    let own = |name: &str, version: &str| -> Wheel {
        wheel(name, version).file(&format!("{name}.py"), &format!("# {version}\n"))
    };
    let wheels = vec![
        ("pypi", own("alpha", "1.0").needs("beta>=2")),
        ("pypi", own("beta", "2.1")),
        ("pypi", own("beta", "2.0")),
    ];
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.run(&["resolve", "alpha", "--gpu", "none", "--python", &series]).expect(0);
    let Some(prefix) = installed(&context, &server, python.as_os_str()) else { return };
    let prefix = prefix.to_str().unwrap();
    let run = context.run(&["verify", "--prefix", prefix, "--smoke", "off"]).expect(0);
    assert!(run.stdout.contains("2 as locked"), "{}", run.shown());

    let verify = ["verify", "--prefix", prefix, "--smoke", "off"];
    let deep = [&verify[..], &["--deep"]].concat();
    context.run(&deep).expect(0);

    // Each fault alone, and undone.
    let lib = format!("{prefix}/lib/python{series}");
    let found = |path: &str, text: Option<&str>, arguments: &[&str], code: i32, expected: &str| {
        let kept = fs_err::read(path).unwrap();
        match text {
            Some(text) => fs_err::write(path, text).unwrap(),
            None => fs_err::remove_file(path).unwrap(),
        }
        let run = context.run(arguments).expect(code);
        assert!(run.stdout.replace("\n  ", " ").contains(expected), "{expected}: {}", run.shown());
        fs_err::write(path, kept).unwrap();
    };
    found(&format!("{lib}/site-packages/beta.py"), Some("# another\n"), &verify, 1, "altered-file");
    found(&format!("{lib}/json/decoder.py"), None, &verify, 1, "json/decoder.py of python is missing");
    found(&format!("{lib}/json/scanner.py"), Some("x"), &verify, 1, "has 1 bytes, conda's record says");
    let scanner = format!("{lib}/json/scanner.py");
    let same_size = fs_err::read_to_string(&scanner).unwrap().replace("import", "IMPORT");
    found(&scanner, Some(&same_size), &verify, 0, "clean");
    found(&scanner, Some(&same_size), &deep, 1, "different SHA-256 than conda's record");
    let record = fs_err::read_dir(format!("{prefix}/conda-meta")).unwrap().map(|e| e.unwrap().path());
    let record = record.into_iter().find(|path| path.to_string_lossy().contains("/python-3")).unwrap();
    let second = record.to_string_lossy().replace("/python-3", "/python-2");
    fs_err::write(&second, fs_err::read_to_string(&record).unwrap().replacen("\"3.", "\"2.", 1)).unwrap();
    let run = context.run(&verify).expect(1);
    assert!(run.stdout.contains("conda's python is installed 2 times"), "{}", run.shown());
    fs_err::remove_file(second).unwrap();
    context.run(&verify).expect(0);
}
