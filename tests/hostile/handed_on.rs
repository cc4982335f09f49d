//! What is handed on: bundles that somebody changed, and names that other tools read as more than a name.

use std::path::Path;
use std::process::Command;

use super::context::{IndexServer, Shape, TestContext};
use super::files::try_file;
use super::wheels::wheel;

const DEAD: &str = "http://127.0.0.1:9";

/// A project with a bundle of its lock, and no network.
fn bundled() -> (IndexServer, TestContext) {
    let all = vec![
        ("pypi", wheel("pub", "4.0").needs("base>=1")),
        ("pypi", wheel("base", "1.5")),
        ("pypi", wheel("uv", "1.0")),
    ];
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&server);
    context
        .write("envlock.toml", "[project]\nname = \"demo\"\npython = \">=3.10\"\ndependencies = [\"pub\"]\n");
    context.run(&["resolve", "--gpu", "none", "--python", "3.12"]).expect(0);
    context.run(&["bundle", "--python", "none", "-o", "b"]).expect(0);
    context.run(&["verify", "--bundle", "b"]).expect(0);
    context.set("ENVLOCK_INDEX_URL", DEAD);
    (server, context)
}

#[test]
fn manifests_of_bundles_with_bytes_changed() {
    let (_server, context) = bundled();
    let file = context.project().join("b/bundle.toml");
    let text = context.read("b/bundle.toml");
    try_file(&context, &file, &text, &["verify", "--bundle", "b"]);
    // A manifest of gigabytes and a pipe are not read.
    let large = std::fs::File::create(&file).unwrap();
    large.set_len(4 << 30).unwrap();
    let run = context.run(&["verify", "--bundle", "b"]).expect(2);
    assert!(run.stderr.contains("bundle.toml"), "{}", run.shown());
    std::fs::remove_file(&file).unwrap();
    if Command::new("mkfifo").arg(&file).status().is_ok_and(|status| status.success()) {
        let run = context.run(&["verify", "--bundle", "b"]).expect(2);
        assert!(run.flat().contains("is not a regular file"), "{}", run.shown());
    }
}

/// Python writes what no tool of this project writes.
fn archive(context: &TestContext, script: &str) -> bool {
    let head = "import tarfile, io, os\nt = tarfile.open('evil.tar', 'w')\n\
                def add(name, data=b'x', **more):\n    i = tarfile.TarInfo(name)\n    i.size = len(data)\n\
                    \x20   [setattr(i, k, v) for k, v in more.items()]\n    t.addfile(i, io.BytesIO(data))\n\
                def whole():\n    [t.add(os.path.join(d, f), './' + os.path.relpath(os.path.join(d, f), 'b')) for d, _, fs in os.walk('b') for f in fs]\n";
    let run = Command::new("python3")
        .args(["-c", &format!("{head}{script}\nt.close()")])
        .current_dir(context.project())
        .status();
    run.is_ok_and(|status| status.success())
}

#[test]
fn archives_with_other_members_than_files() {
    let (_server, context) = bundled();
    if !archive(&context, "whole()") {
        return super::context::skipped("no Python is here");
    }
    context.run(&["verify", "--bundle", "evil.tar"]).expect(0);
    let outside = context.project().join("evil-file");
    for script in [
        "whole(); add('../evil-file')",
        "whole(); add(os.path.abspath('evil-file'))",
        "add('files', b'', type=tarfile.SYMTYPE, linkname=os.getcwd()); add('files/evil-file'); whole()",
        "whole(); add('x', b'', type=tarfile.LNKTYPE, linkname='/etc/passwd')",
        "whole(); add('x', b'', type=tarfile.FIFOTYPE)",
        "whole(); add('bundle.toml')",
        "whole(); add('x' * 5000)",
        "add('bundle.toml', b'\\xff')",
        "pass",
    ] {
        assert!(archive(&context, script), "{script}");
        for command in
            [&["verify", "--bundle", "evil.tar"][..], &["sync", "--bundle", "evil.tar", "--no-project"]]
        {
            let run = context.run(command);
            assert!(
                [1, 2].contains(&run.code) && !run.stderr.contains("panicked"),
                "{script}: {}",
                run.shown()
            );
        }
        assert!(!outside.exists() && !Path::new("evil-file").exists(), "{script}");
        assert!(!context.exists(".venv"), "{script}");
    }
}

/// What a project or a command line names reaches YAML, CEL, a shell or a submit file as a name, or not at all.
#[test]
fn names_are_nothing_else_for_schedulers() {
    let context = TestContext::new();
    let machine = ["--gpu", "A100", "--driver", "580.65.06", "--python", "3.12"];
    context
        .run(&[&["resolve", "torch==2.9.1", "--stack-only", "--only-index", "pypi"], &machine[..]].concat())
        .expect(0);
    for evil in [
        "x\"\nkind: Evil",
        "\"; rm -rf ~",
        "$(id)",
        "a b",
        "{{ .Values }}",
        "x\rexecutable = /bin/evil",
        "-x",
        "",
    ] {
        for format in ["kubernetes", "htcondor"] {
            let run = context.run(&["export", format, "--job-image", evil]).expect(2);
            assert!(run.stdout.is_empty(), "{evil:?} {format}: {}", run.shown());
        }
    }
    for mig in ["1g.10gb\"\nx: y", "1g.10gb' || true || '", "$(id)"] {
        let run = context.run(&["export", "kubernetes", "--mig", mig]).expect(2);
        assert!(run.stdout.is_empty(), "{mig:?}: {}", run.shown());
    }
    for (name, key) in [
        ("a100", "type = \"a100,x:8 --uid=0\""),
        ("a100", "feature = \"f\\n#SBATCH --uid=0\""),
        ("a100", "feature = \"a&b|c\""),
        ("a\\\"; rm -rf ~; \\\"", "gpus = [\"A100\"]"),
    ] {
        context.write(
            "envlock.toml",
            &format!(
                "[project]\nname = \"x\"\n[stack]\ntorch = \"==2.9.1\"\n[schedule.slurm.\"{name}\"]\n{key}\n"
            ),
        );
        let run = context.run(&["export", "slurm"]).expect(2);
        assert!(run.stdout.is_empty() && !run.stderr.contains("panicked"), "{key}: {}", run.shown());
    }
}

/// Names of nodes and of bills are text in a table and in JSON.
#[test]
fn names_are_text_in_reports() {
    let context = TestContext::new();
    let machine = ["--gpu", "A100", "--driver", "580.65.06", "--python", "3.12"];
    context
        .run(&[&["resolve", "torch==2.9.1", "--stack-only", "--only-index", "pypi"], &machine[..]].concat())
        .expect(0);
    let text = "schema = 1\n[driver]\nversion = \"535.54.03\"\n[[gpu]]\nname = \"NVIDIA A100-SXM4-80GB\"\n";
    let name = "x|`id`<img src=y>@all\u{1b}[31m\u{202e}";
    context.write(&format!("nodes/{name}.toml"), text);
    let args = ["fleet", "rehearse", "nodes", "--driver", "595.45.04", "--format", "markdown"];
    let run = context.run(&args).expect(0);
    assert!(run.stdout.contains("| x\\|\\`id\\`&lt;img src=y>&#64;all\\[31m |"), "{}", run.shown());
    assert!(!run.stdout.contains(['\u{1b}', '\u{202e}']), "{}", run.shown());
    let run = context.run(&["sbom", &format!("{name}-1.0-py3-none-any.whl")]).expect(2);
    assert!(!run.stderr.contains(['\u{1b}', '\u{202e}']), "{}", run.shown());
}
