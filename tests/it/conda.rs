//! conda environments: `environment.yml`, installed by a real conda client, and verified.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::context::{IndexServer, Shape, TestContext, skipped};
use super::wheels::{Wheel, wheel};

/// A Python with py-rattler, and its series.
fn rattler() -> Option<(std::ffi::OsString, String)> {
    let Some(python) = std::env::var_os("ENVLOCK_TEST_RATTLER_PYTHON") else {
        skipped("ENVLOCK_TEST_RATTLER_PYTHON names no Python with py-rattler");
        return None;
    };
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
    let Some(prefix) = installed(&context, &server, &python) else { return };
    let prefix = prefix.to_str().unwrap();
    let run = context.run(&["verify", "--prefix", prefix, "--smoke", "off"]).expect(0);
    assert!(run.stdout.contains("2 of 2 as locked"), "{}", run.shown());

    let site = format!("{prefix}/lib/python{series}/site-packages");
    fs_err::write(format!("{site}/beta.py"), "# another\n").unwrap();
    let run = context.run(&["verify", "--prefix", prefix, "--smoke", "off"]).expect(1);
    assert!(run.stdout.contains("altered-file"), "{}", run.shown());
}
