//! `export` and what other programs make of it.

use super::context::{IndexServer, Shape, TestContext, skipped};
use super::wheels::little_pypi;

fn locked() -> (IndexServer, TestContext) {
    let server = IndexServer::start(little_pypi(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context
        .run(&["resolve", "torch==2.9.1", "requests", "--gpu", "H200", "--driver", "580.159.04"])
        .expect(0);
    (server, context)
}

#[test]
fn formats() {
    let (server, context) = locked();
    let stable = |text: String| text.replace(&server.address, "[INDEX]");
    insta::assert_snapshot!(
        "export_requirements",
        stable(context.run(&["export", "requirements.txt"]).expect(0).stdout)
    );
    insta::assert_snapshot!(
        "export_environment",
        stable(context.run(&["export", "environment.yml"]).expect(0).stdout)
    );
    let pylock = context.run(&["export", "pylock.toml"]).expect(0).stdout;
    insta::assert_snapshot!("export_pylock", stable(pylock.clone()));
    let parsed: toml::Table = pylock.parse().unwrap();
    let allowed = ["lock-version", "environments", "requires-python", "created-by", "packages", "tool"];
    assert!(parsed.keys().all(|k| allowed.contains(&k.as_str())), "PEP 751 allows no other keys at the top");
}

#[test]
fn output_files() {
    let (_server, context) = locked();
    context.run(&["export", "requirements.txt", "-o", "r.txt"]).expect(0);
    context.run(&["export", "requirements.txt", "-o", "r.txt"]).expect(0);
    context.write("mine.txt", "precious");
    let run = context.run(&["export", "requirements.txt", "-o", "mine.txt"]).expect(2);
    assert!(run.stderr.contains("was not written by envlock"), "{}", run.shown());
    assert_eq!(context.read("mine.txt"), "precious");
    let run = context.run(&["export", "requirements.txt", "--target", "moon"]).expect(2);
    assert!(run.stderr.contains("no target `moon`"), "{}", run.shown());
}

/// A real conda parser reads the file: py-rattler, where it can be had.
#[test]
fn a_conda_parser_reads_the_environment() {
    let (_server, context) = locked();
    let path = context.project().join("environment.yml");
    let Some(python) = std::env::var_os("ENVLOCK_TEST_RATTLER_PYTHON") else {
        skipped("ENVLOCK_TEST_RATTLER_PYTHON names no Python with py-rattler");
        return;
    };
    let program = "import sys, rattler\n\
        env = rattler.EnvironmentYaml.from_path(sys.argv[1]) if hasattr(rattler, 'EnvironmentYaml') else None\n\
        if env is None:\n\
        \x20   lines = [l.strip()[2:] for l in open(sys.argv[1]) if l.startswith('  - ') and not l.rstrip().endswith(':')]\n\
        \x20   specs = [rattler.MatchSpec(l) for l in lines if l != 'conda-forge']\n\
        \x20   assert [str(s.name.normalized if hasattr(s.name, 'normalized') else s.name) for s in specs] == ['python', 'pip'], specs\n\
        print('ok')\n";
    let output = std::process::Command::new(python).args(["-c", program]).arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let (_server, context) = locked();
    let mut child = context
        .command()
        .args(["export", "pylock.toml"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !error.contains("panicked"), "{error}");
}

#[test]
fn output_to_a_device_is_written_there() {
    let (_server, context) = locked();
    if std::path::Path::new("/dev/stdout").exists() {
        let run = context.run(&["export", "requirements.txt", "-o", "/dev/stdout"]).expect(0);
        assert!(run.stdout.contains("--hash=sha256:"), "{}", run.shown());
    } else {
        skipped("no /dev/stdout here");
    }
}
