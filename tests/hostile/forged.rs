//! Forged locks: the checksum is right, because whoever forges a lock computes it too. What the lock says is held
//! against the manifest and the index.

use super::common::installed::with_checksum;
use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{Wheel, wheel};

const MANIFEST: &str = "[project]\nname = \"demo\"\npython = \">=3.10,<3.14\"\ndependencies = [\"pub<5\", \"corp-tool\"]\n\
                        [[index]]\nname = \"corp\"\nurl = \"CORP\"\npackages = [\"corp-*\"]\n";

fn releases() -> Vec<(&'static str, Wheel)> {
    vec![
        ("pypi", wheel("pub", "4.0").needs("base>=1")),
        ("pypi", wheel("base", "1.5")),
        ("pypi", wheel("cryptominer", "6.6")),
        ("corp", wheel("corp-tool", "1.0").needs("base")),
    ]
}

/// A locked project with a private package.
fn locked() -> (IndexServer, TestContext) {
    let server = IndexServer::start(releases(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", &MANIFEST.replace("CORP", &format!("{}/corp", server.address)));
    context.run(&["resolve", "--gpu", "none", "--python", "3.12"]).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    (server, context)
}

/// Writes the lock with changes, and with a checksum of them.
fn forge(context: &TestContext, changes: &[(&str, &str)]) {
    let text = context.read("envlock.lock");
    let mut changed = text.clone();
    for (from, to) in changes {
        assert!(changed.contains(from), "{from} is not in\n{text}");
        changed = changed.replacen(from, to, 1);
    }
    context.write("envlock.lock", &with_checksum(&changed));
}

const MINER: &str = "\n[[package]]\nname = \"cryptominer\"\nversion = \"6.6\"\nindex = \"pypi\"\nreason = \"asked\"\nfiles = [\n    \
     { name = \"cryptominer-6.6-py3-none-any.whl\", sha256 = \"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\", \
     hash-from = \"index\", size = 5 },\n]\n\n[[package]]\nname = \"pub\"";

#[test]
fn a_forged_answer_is_not_current_and_resolve_repairs_it() {
    let (_server, context) = locked();
    let honest = context.read("envlock.lock");
    let pub_version: [(&str, &str); 2] =
        [("version = \"4.0\"", "version = \"66.0\""), ("pub-4.0-py3", "pub-66.0-py3")];
    let private: [(&str, &str); 1] = [("index = \"corp\"", "index = \"pypi\"")];
    let cases: [(&[(&str, &str)], &str); 4] = [
        (&pub_version, "the request has `pub<5`, but the lock has pub 66.0"),
        (&[("\n[[package]]\nname = \"pub\"", MINER)], "the lock has cryptominer 6.6, which no request needs"),
        (&private, "corp-tool 1.0 is locked from `pypi`, but the request takes it from the index `corp`"),
        (&[("\"base>=1\"", "\"base>=2\"")], "pub 4.0 requires `base>=2`, but the lock has base 1.5"),
    ];
    for (changes, said) in cases {
        context.write("envlock.lock", &honest);
        forge(&context, changes);
        let stale = context.run(&["resolve", "--locked"]).expect(1);
        assert_eq!(stale.stdout.trim(), said, "{}", stale.shown());
        assert_eq!(context.run(&["--json", "resolve", "--locked"]).expect(1).json()["reasons"][0], said);
        context.run(&["resolve"]).expect(0);
        context.run(&["resolve", "--locked"]).expect(0);
    }
}

#[test]
fn tree_and_diff_show_what_no_request_needs() {
    let (_server, context) = locked();
    context.write("old.lock", &context.read("envlock.lock"));
    forge(&context, &[("\n[[package]]\nname = \"pub\"", MINER)]);
    let tree = context.run(&["tree"]).expect(0);
    assert!(tree.stdout.contains("needed by no request\n└── cryptominer 6.6"), "{}", tree.shown());
    assert_eq!(context.run(&["--json", "tree"]).expect(0).json()["unneeded"][0], "cryptominer");
    let diff = context.run(&["diff", "old.lock", "envlock.lock"]).expect(0);
    assert!(
        diff.stderr.contains("the new lock has cryptominer 6.6, which no request needs"),
        "{}",
        diff.shown()
    );
}

#[test]
fn hashes_are_compared_with_those_of_the_index() {
    let (_server, context) = locked();
    let same = context.run(&["resolve", "--check-hashes"]).expect(0);
    assert!(same.stdout.contains("no index states another hash"), "{}", same.shown());
    let text = context.read("envlock.lock");
    let at = text.find("pub-4.0-py3-none-any.whl\", sha256 = \"").unwrap()
        + "pub-4.0-py3-none-any.whl\", sha256 = \"".len();
    let hash = text[at..at + 64].to_owned();
    forge(&context, &[(hash.as_str(), &"0".repeat(64))]);
    let environment = context.read("environment.yml");
    let half = context.run(&["resolve", "--locked"]).expect(1);
    assert!(half.stdout.contains("`environment.yml` is not the environment"), "{}", half.shown());
    context.write("environment.yml", &environment.replace(hash.as_str(), &"0".repeat(64)));
    // Offline, nothing shows it: the lock is whole and answers the request.
    context.run(&["resolve", "--locked"]).expect(0);
    let other = context.run(&["resolve", "--check-hashes"]).expect(1);
    assert!(
        other.stdout.contains("the lock and the index `pypi` disagree on `pub-4.0-py3-none-any.whl`"),
        "{}",
        other.shown()
    );
    forge(&context, &[("pub-4.0-py3-none-any.whl", "pub-4.0-py2.py3-none-any.whl")]);
    let absent = context.run(&["resolve", "--check-hashes"]).expect(1);
    assert!(absent.stdout.contains("does not have `pub-4.0-py2.py3-none-any.whl`"), "{}", absent.shown());
    // The hint repairs it.
    context.run(&["resolve", "--upgrade"]).expect(0);
    context.run(&["resolve", "--check-hashes"]).expect(0);
}

#[test]
fn a_lock_that_injects_lines_is_refused_by_every_command() {
    let (_server, context) = locked();
    let honest = context.read("envlock.lock");
    for (from, to) in [
        ("name = \"pub\"", "name = \"good==1.0\\n--index-url http://evil.example/\\nx\""),
        ("index = \"corp\"", "index = \"corp\\n--trusted-host x\""),
        ("sha256 = \"", "sha256 = \"\\n--pre "),
    ] {
        context.write("envlock.lock", &honest);
        forge(&context, &[(from, to)]);
        for command in [
            &["export", "requirements.txt"][..],
            &["export", "pylock.toml"],
            &["export", "environment.yml"],
            &["export", "Dockerfile"],
            &["resolve", "--locked"],
            &["tree"],
        ] {
            let refused = context.run(command).expect(2);
            assert!(refused.stderr.contains("the lock cannot be read"), "{}", refused.shown());
            assert!(refused.stdout.is_empty(), "{}", refused.shown());
        }
    }
}

/// As in uv: an override whose marker is false takes the requirement away.
#[test]
fn an_override_for_another_platform_takes_the_requirement_away() {
    let server = IndexServer::start(releases(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let manifest = |over: &str| {
        format!(
            "[project]\nname = \"demo\"\npython = \"3.12\"\ndependencies = [\"pub\"]\n[resolve]\noverrides = [\"{over}\"]\n"
        )
    };
    context.write("envlock.toml", &manifest("base ; sys_platform == 'win32'"));
    context.run(&["resolve", "--gpu", "none"]).expect(0);
    assert!(!context.read("envlock.lock").contains("name = \"base\""), "{}", context.read("envlock.lock"));
    context.run(&["resolve", "--locked"]).expect(0);
    context.write("envlock.toml", &manifest("base ; sys_platform == 'linux'"));
    context.run(&["resolve", "--gpu", "none"]).expect(0);
    assert!(context.read("envlock.lock").contains("name = \"base\""));
    context.run(&["resolve", "--locked"]).expect(0);
}

/// A folder that the manifest names absolutely, however the project is named on the command line.
#[test]
fn another_folder_is_noticed_from_everywhere() {
    let server = IndexServer::start(Vec::new(), Shape { json: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    for name in ["mine", "evil"] {
        let text = "[project]\nname = \"mine\"\nversion = \"1.0\"\n[build-system]\nrequires = []\n";
        context.write(&format!("libs/{name}/pyproject.toml"), text);
    }
    let folder = context.project().join("libs/mine");
    let manifest = format!("[project]\ndependencies = [\"mine @ file://{}\"]\n", folder.display());
    context.write("envlock.toml", &manifest);
    context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
    std::fs::remove_file(context.project().join("environment.yml")).unwrap();
    let check = |code: i32| {
        let absolute = context.project().display().to_string();
        for named in [".", &absolute] {
            let locked = ["resolve", "--locked", "--only-index", "pypi", "--project", named];
            context.run(&locked).expect(code);
        }
    };
    check(0);
    forge(&context, &[("path = \"libs/mine\"", "path = \"libs/evil\"")]);
    check(1);
}

/// The machine that a lock claims is that of the manifest, and it claims none that its packages do not run on.
#[test]
fn a_forged_machine_is_not_current() {
    let mut all = super::wheels::little_pypi();
    all.extend(super::wheels::little_pytorch());
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.write(
        "envlock.toml",
        "[project]\nname = \"demo\"\npython = \"3.12\"\n[stack]\ntorch = \"==2.9.1\"\n\
         [target.old]\ngpus = [\"V100\"]\ndriver = \"535\"\nglibc = \"2.35\"\n",
    );
    context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    let honest = context.read("envlock.lock");
    let row =
        honest.lines().find(|line| line.contains("capability = \"7.0\", via")).expect("a row of coverage");
    let other_gpu = row.replace("\"7.0\"", "\"3.5\"");
    let older_driver = row.replace("525.60.13", "418.39");
    let cases = [
        (
            "NVIDIA V100\", capability = \"7.0\"",
            "NVIDIA V100\", capability = \"6.0\"",
            "the GPUs of target old are not those",
        ),
        ("driver = \"535.54.03\"", "driver = \"470.82.01\"", "the driver of target old is not the one"),
        ("glibc = \"2.35\"", "glibc = \"2.39\"", "the C library of target old is not the one"),
        ("glibc = \"2.28\"", "glibc = \"2.17\"", "but its packages need glibc >= 2.28"),
        (row, &other_gpu, "but its packages need another GPU"),
        (row, &older_driver, "but its packages need driver >= 525.60.13"),
    ];
    for (from, to, told) in cases {
        context.write("envlock.lock", &honest);
        forge(&context, &[(from, to)]);
        let run = context.run(&["resolve", "--locked"]).expect(1);
        assert!(run.flat().contains(told), "{from}: {}", run.shown());
    }
    // A GPU that these data do not know, and newer ones may.
    context.write("envlock.lock", &honest);
    forge(&context, &[(row, &row.replace("\"7.0\"", "\"9.9\""))]);
    context.run(&["resolve", "--locked"]).expect(0);
}
