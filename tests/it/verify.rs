//! `verify` on environments made here.

use std::path::{Path, PathBuf};

pub use super::common::installed::{install, interpreter};
use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{Wheel, wheel};

fn wheels() -> Vec<Wheel> {
    let linux = "cp312-cp312-manylinux_2_28_x86_64";
    vec![
        wheel("torch", "2.9.1")
            .tags(linux)
            .needs("filelock")
            .file("torch/__init__.py", "x = 1\n")
            .file("torch/version.py", "__version__ = '2.9.1+cu128'\ncuda = '12.8'\n")
            .file("torch/lib/libtorch.so", "machine code\n"),
        wheel("filelock", "3.20.0")
            .file("filelock/__init__.py", "lock = 1\n")
            .file("filelock/parts/__init__.py", "")
            .file("filelock/parts/one.py", "x = 1\n")
            .file("locks.py", "other = 1\n"),
    ]
}

pub struct Laid {
    pub context: TestContext,
    pub site: PathBuf,
    pub prefix: String,
    _server: IndexServer,
}

/// A locked project and the environment that was installed from it.
pub fn laid() -> Laid {
    let server = IndexServer::start(
        wheels().into_iter().map(|w| ("pypi", w)).collect(),
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    let context = TestContext::with_index(&server);
    context
        .run(&["resolve", "torch==2.9.1", "--python", "3.12", "--gpu", "H200", "--driver", "580.159.04"])
        .expect(0);
    let prefix = context.dir.path().join("env");
    let site = prefix.join("lib/python3.12/site-packages");
    std::fs::create_dir_all(&site).unwrap();
    for wheel in wheels() {
        install(&site, &wheel);
    }
    Laid { context, site, prefix: prefix.display().to_string(), _server: server }
}

impl Laid {
    fn verify(&self, rest: &[&str]) -> super::context::Run {
        let mut arguments = vec!["verify", "--prefix", &self.prefix, "--smoke", "off"];
        arguments.extend(rest);
        self.context.run(&arguments)
    }

    fn codes(&self) -> Vec<String> {
        let json = self.verify(&["--json"]).json();
        json["findings"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap().to_owned()).collect()
    }
}

#[test]
fn a_clean_environment() {
    let laid = laid();
    let run = laid.verify(&[]).expect(0);
    assert!(run.stdout.contains("2 as locked") && run.stdout.contains("clean"), "{}", run.shown());
    assert_eq!(laid.codes(), ["not-judged"]);
    let strict = laid.verify(&["--require-gpu"]).expect(1);
    assert!(strict.stdout.contains("error[not-judged]"), "{}", strict.shown());
    let host = laid.context.write("host.toml", "schema = 1\n[driver]\nversion = \"470.57.02\"\n[[gpu]]\nname = \"NVIDIA A100\"\n[system]\nglibc = \"2.17\"\n");
    let json = laid.verify(&["--json", "--host", &host.display().to_string()]).expect(1).json();
    let codes: Vec<&str> =
        json["findings"].as_array().unwrap().iter().map(|f| f["code"].as_str().unwrap()).collect();
    assert_eq!(codes, ["libc-too-old", "driver-too-old"]);
}

#[test]
fn without_torch_there_is_no_smoke_test() {
    let server = IndexServer::start(
        vec![("pypi", wheel("filelock", "3.20.0").file("filelock/__init__.py", "lock = 1\n"))],
        Shape::default(),
    );
    let context = TestContext::with_index(&server);
    context.run(&["resolve", "filelock", "--python", "3.12", "--gpu", "none"]).expect(0);
    let site = context.dir.path().join("env/lib/python3.12/site-packages");
    std::fs::create_dir_all(&site).unwrap();
    install(&site, &wheel("filelock", "3.20.0").file("filelock/__init__.py", "lock = 1\n"));
    let run = context.run(&["verify", "--prefix", "../env"]).expect(0);
    assert!(run.stdout.contains("smoke test not run: no framework installed"), "{}", run.shown());
}

/// What a fix offers for pasting does what it says and no more, whatever files are called.
#[test]
fn names_from_outside_are_words_in_a_command() {
    let laid = laid();
    std::fs::create_dir_all(laid.site.join("~orch; touch pwned")).unwrap();
    let path = laid.site.join("filelock-3.20.0.dist-info/METADATA");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("Version: 3.20.0", "Version: 3.20.0; touch pwned")).unwrap();
    std::fs::remove_file(laid.site.join("filelock/__init__.py")).unwrap();
    let json = laid.verify(&["--json"]).json();
    let fixes: Vec<&str> =
        json["findings"].as_array().unwrap().iter().filter_map(|f| f["fix"].as_str()).collect();
    let hostile: Vec<_> = fixes.iter().filter(|fix| fix.contains("pwned")).collect();
    assert!(!hostile.is_empty(), "{fixes:?}");
    for fix in hostile {
        let words = shlex::split(fix).unwrap_or_else(|| panic!("{fix}"));
        let whole = words.iter().filter(|word| word.ends_with("; touch pwned")).count();
        assert_eq!(whole, fix.matches("touch pwned").count(), "{fix}: {words:?}");
    }
}

/// An environment that has nothing of the lock is told in a few lines, and named in full by `--json`.
#[test]
fn a_long_row_of_one_kind_is_one_paragraph() {
    let laid = laid();
    for i in 0..30 {
        install(&laid.site, &wheel(&format!("surprise-{i:02}"), "1.0"));
    }
    let run = laid.verify(&[]);
    let told = run.flat();
    assert!(told.contains("warning[extra-package]: surprise-00 is installed and not locked"), "{told}");
    assert!(told.contains("and 29 more: surprise-01, surprise-02"), "{told}");
    assert!(told.contains("surprise-20, ... (--json has each)"), "{told}");
    assert!(!told.contains("surprise-21"), "{told}");
    assert_eq!(laid.codes().iter().filter(|code| *code == "extra-package").count(), 30);
}

#[test]
fn what_changed_since_the_lock_was_made() {
    let laid = laid();
    // Locked for driver 580.159.04.
    let module = laid.context.dir.path().join("sysroot/sys/module/nvidia/version");
    std::fs::create_dir_all(module.parent().unwrap()).unwrap();
    std::fs::write(module, "570.26\n").unwrap();
    let told = laid.verify(&[]).flat();
    assert!(told.contains("info[drift]: driver 580.159.04 when locked, 570.26 now"), "{told}");
    // The module is loaded and there is nothing in /dev.
    assert!(told.contains("error[no-device-files]"), "{told}");
}

#[test]
fn what_comes_first_in_pythonpath() {
    let mut laid = laid();
    let folder = laid.context.dir.path().join("mine");
    std::fs::create_dir_all(folder.join("torch")).unwrap();
    laid.context.set("PYTHONPATH", &folder.display().to_string());
    // A folder that is no package loses to one that is; the environment's own folder hides nothing.
    laid.verify(&[]).expect(0);
    laid.context.set("PYTHONPATH", &laid.site.display().to_string());
    laid.verify(&[]).expect(0);
    // Metadata without a module shadows nothing.
    let metadata = laid.context.dir.path().join("metadata");
    std::fs::create_dir_all(metadata.join("torch-2.0.0.dist-info")).unwrap();
    laid.context.set("PYTHONPATH", &metadata.display().to_string());
    laid.verify(&[]).expect(0);
    laid.context.set("PYTHONPATH", &folder.display().to_string());
    std::fs::write(folder.join("torch/__init__.py"), "").unwrap();
    let run = laid.verify(&[]).expect(1);
    assert!(run.flat().contains("PYTHONPATH comes first"), "{}", run.shown());
    // A closed environment has no user's folder.
    // A module whose name is not its package's is known by the package's RECORD.
    let other = laid.context.dir.path().join("other");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("locks.py"), "").unwrap();
    laid.context.set("PYTHONPATH", &other.display().to_string());
    let run = laid.context.run(&["verify", "--prefix", &laid.prefix]).expect(1);
    assert!(run.stdout.contains("shadowed-package") && run.stdout.contains("filelock"), "{}", run.shown());
    laid.context.set("PYTHONPATH", "");
    std::fs::create_dir_all(
        laid.context.dir.path().join("home/.local/lib/python3.12/site-packages/torch-2.0.0.dist-info"),
    )
    .unwrap();
    std::fs::write(Path::new(&laid.prefix).join("pyvenv.cfg"), "include-system-site-packages = false\n")
        .unwrap();
    interpreter(Path::new(&laid.prefix));
    laid.verify(&[]).expect(0);
}

/// Without an empty `__init__.py`, a folder is a namespace package. One with text is code that is missing.
#[test]
fn an_empty_init_is_not_missed() {
    let laid = laid();
    std::fs::remove_file(laid.site.join("filelock/parts/__init__.py")).unwrap();
    laid.verify(&[]).expect(0);
    std::fs::remove_file(laid.site.join("filelock/__init__.py")).unwrap();
    laid.verify(&[]).expect(1);
}

/// The metadata of a release that another one replaced is removed; installing the old release would break the new one.
#[test]
fn metadata_that_was_left_behind_is_removed() {
    let laid = laid();
    let old = laid.site.join("filelock-3.0.0.dist-info");
    std::fs::create_dir_all(&old).unwrap();
    std::fs::write(old.join("METADATA"), "Metadata-Version: 2.1\nName: filelock\nVersion: 3.0.0\n").unwrap();
    let json = laid.verify(&["--json"]).expect(1).json();
    let of_files = json["findings"].as_array().unwrap().iter().find(|f| f["code"] == "unreadable-record");
    let fix = of_files.unwrap()["fix"].to_string();
    assert!(fix.contains("filelock-3.0.0.dist-info") && !fix.contains("install "), "{fix}");
}

/// Requirements that the parser of another crate would not survive.
#[test]
fn requirements_of_packages_are_from_outside() {
    let laid = laid();
    let metadata = laid.site.join("filelock-3.20.0.dist-info/METADATA");
    let lines = [
        "x ; os_name == 'a' \u{20ac}".to_owned(),
        format!("numpy ; {}os_name", "(".repeat(9000)),
        "x- >=1".to_owned(),
    ];
    for line in lines {
        std::fs::write(
            &metadata,
            format!("Metadata-Version: 2.1\nName: filelock\nVersion: 3.20.0\nRequires-Dist: {line}\n"),
        )
        .unwrap();
        std::fs::remove_file(laid.context.dir.path().join("envlock.lock")).ok();
        laid.verify(&[]).expect(1);
    }
}

#[test]
fn deep_finds_what_sizes_do_not() {
    let laid = laid();
    std::fs::write(laid.site.join("torch/lib/libtorch.so"), "MACHINE CODE\n").unwrap();
    assert!(!laid.codes().contains(&"altered-file".to_owned()));
    let run = laid.verify(&["--deep"]).expect(1);
    assert!(run.stdout.contains("different SHA-256"), "{}", run.shown());
}

#[test]
fn without_a_lock() {
    let laid = laid();
    std::fs::remove_file(laid.context.project().join("envlock.lock")).unwrap();
    let run = laid.verify(&[]).expect(0);
    assert!(run.stdout.contains("no lock"), "{}", run.shown());
    install(&laid.site, &wheel("needy", "1.0").needs("filelock>=99"));
    install(&laid.site, &wheel("numpy", "2.3.5"));
    install(&laid.site, &wheel("tensorflow", "2.9.0"));
    let codes = laid.codes();
    assert!(
        codes.contains(&"broken-requirement".to_owned()) && codes.contains(&"known-incompatible".to_owned()),
        "{codes:?}"
    );
}

/// What is locked and missing is installed again, whoever else requires it: no fix adds it to the manifest.
#[test]
fn what_is_locked_and_gone_is_not_to_be_added() {
    let laid = laid();
    install(&laid.site, &wheel("needy", "1.0").needs("filelock>=3").needs("gone>=1"));
    std::fs::remove_dir_all(laid.site.join("filelock-3.20.0.dist-info")).unwrap();
    let run = laid.verify(&[]).expect(1);
    assert!(!run.flat().contains("envlock add 'filelock>=3'"), "{}", run.shown());
    assert!(run.flat().contains("envlock add 'gone>=1'"), "{}", run.shown());
}

#[test]
fn hosts_are_judged_from_the_lock_alone() {
    let laid = laid();
    laid.context.write("nodes/a.toml", "schema = 1\n[driver]\nversion = \"535.54.03\"\n[[gpu]]\nname = \"NVIDIA A100\"\n[system]\nglibc = \"2.35\"\n");
    laid.context.write(
        "nodes/b.toml",
        "schema = 1\n[driver]\nversion = \"470.57.02\"\n[[gpu]]\nname = \"NVIDIA A100\"\n",
    );
    laid.context.write(
        "nodes/c.toml",
        "schema = 1\n[driver]\nversion = \"570.26\"\n[[gpu]]\nname = \"NVIDIA GeForce GTX 1080 Ti\"\n",
    );
    let run = laid.context.run(&["verify", "--host", "nodes"]).expect(1);
    insta::assert_snapshot!("verify_hosts", run.shown());
    laid.context.run(&["verify", "--host", "nodes/a.toml"]).expect(0);
    let annotated = laid.context.run(&["verify", "--host", "nodes", "--format", "github"]).expect(1);
    assert!(
        annotated.stdout.contains("::error title=envlock driver-too-old::nodes/b.toml: driver 470.57.02")
    );
    let report = laid.context.run(&["verify", "--host", "nodes", "--format", "junit"]).expect(1).stdout;
    let suite = report.lines().find(|line| line.contains("<testsuite name=\"nodes/a.toml\"")).unwrap();
    assert!(suite.contains("tests=\"1\"") && suite.contains("failures=\"0\""), "{report}");
    let json = laid.context.run(&["verify", "--host", "nodes", "--format", "sarif"]).expect(1).json();
    let results = json["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.iter().filter(|result| result["level"] == "error").count(), 2, "{json:#}");
    // A GPU without code is named before a driver that is too old: a newer driver does not help it.
    let old =
        "schema = 1\n[driver]\nversion = \"470.57.02\"\n[[gpu]]\nname = \"NVIDIA GeForce GTX 1080 Ti\"\n";
    laid.context.write("old/e.toml", old);
    let run = laid.context.run(&["verify", "--host", "old/e.toml"]).expect(1);
    assert!(run.flat().contains("is not covered") && !run.flat().contains("is below"), "{}", run.shown());
    // One file that cannot be read hides no verdict.
    laid.context.write("nodes/d.toml", "not toml");
    let json = laid.context.run(&["verify", "--host", "nodes", "--json"]).expect(2).json();
    assert_eq!(json["hosts"].as_array().unwrap().len(), 4, "{json:#}");
    assert_eq!(json["hosts"][3]["findings"][0]["code"], "not-judged");
}

#[test]
fn annotations_for_ci() {
    let laid = laid();
    std::fs::remove_file(laid.site.join("torch/lib/libtorch.so")).unwrap();
    let run = laid.verify(&["--format", "github"]).expect(1);
    assert!(run.stdout.starts_with("::"), "{}", run.shown());
    assert!(
        run.stdout.contains("::error title=envlock missing-file::torch/lib/libtorch.so of torch is missing"),
        "{}",
        run.shown()
    );
}

/// A Python that plays an environment's: a script in place of bin/python.
#[cfg(unix)]
fn fake_python(laid: &Laid, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let bin = Path::new(&laid.prefix).join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(bin.join("python"), format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(bin.join("python"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
#[cfg(unix)]
fn crashes_and_hangs_of_the_smoke_test_are_findings() {
    let smoke = |laid: &Laid| {
        let arguments = ["verify", "--prefix", &laid.prefix, "--smoke", "cpu", "--json"];
        laid.context.run(&arguments)
    };
    let mut laid = laid();
    let done = r#"printf '{"checks":[{"name":"conv-fp32","layer":"conv-fp32","device":"cpu","passed":%s,"detail":"d"}],"reached":{"layer":"done","device":null}}' "$W" > "$3""#;
    fake_python(&laid, &format!("W=true; {done}"));
    let json = smoke(&laid).expect(0).json();
    assert_eq!(json["smoke"]["passed"], true);
    // A relative prefix leads to the same Python.
    let json =
        laid.context.run(&["verify", "--prefix", "../env", "--smoke", "cpu", "--json"]).expect(0).json();
    assert_eq!(json["smoke"]["passed"], true);
    fake_python(&laid, &format!("W=false; {done}"));
    assert_eq!(smoke(&laid).expect(1).json()["findings"][1]["code"], "smoke-failed");
    fake_python(
        &laid,
        r#"printf '{"checks":[],"reached":{"layer":"import","device":"cpu"}}' > "$3"; echo "ModuleNotFoundError: No module named 'torch'" >&2; exit 1"#,
    );
    let json = smoke(&laid).expect(1).json();
    assert_eq!(json["findings"][1]["code"], "smoke-crashed");
    assert!(json["findings"][1]["message"].as_str().unwrap().contains("No module named 'torch'"));
    fake_python(&laid, "kill -ABRT $$");
    assert_eq!(smoke(&laid).expect(1).json()["findings"][1]["code"], "smoke-crashed");
    laid.context.set("ENVLOCK_SMOKE_TIMEOUT", "1");
    fake_python(&laid, "exec /bin/sleep 30");
    assert_eq!(smoke(&laid).expect(1).json()["findings"][1]["code"], "smoke-timeout");
    // Files that are wrong: nothing is started.
    fake_python(&laid, "touch \"$0.ran\"");
    std::fs::remove_file(laid.site.join("torch/lib/libtorch.so")).unwrap();
    let json = smoke(&laid).expect(1).json();
    assert_eq!(json["smoke"], serde_json::Value::Null);
    assert!(!Path::new(&laid.prefix).join("bin/python.ran").exists());
}

/// What ends envlock ends the smoke test with it, and leaves nothing behind.
#[test]
#[cfg(unix)]
fn an_interrupt_ends_the_child_too() {
    use std::os::unix::process::ExitStatusExt as _;
    let mut laid = laid();
    let temporary = laid.context.dir.path().join("tmp");
    std::fs::create_dir_all(&temporary).unwrap();
    laid.context.set("TMPDIR", &temporary.display().to_string());
    let pid = laid.context.dir.path().join("pid");
    fake_python(
        &laid,
        &format!("echo $$ > {0}.new; /bin/mv {0}.new {0}; exec /bin/sleep 3600", pid.display()),
    );
    let arguments = ["verify", "--prefix", &laid.prefix, "--smoke", "cpu"];
    let mut running = laid.context.command().args(arguments).spawn().unwrap();
    while !pid.exists() {
        assert!(running.try_wait().unwrap().is_none(), "the smoke test did not start");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let child = std::fs::read_to_string(&pid).unwrap();
    let kill = |arguments: &[&str]| std::process::Command::new("kill").args(arguments).output().unwrap();
    assert!(kill(&["-INT", &running.id().to_string()]).status.success());
    assert_eq!(running.wait().unwrap().signal(), Some(2));
    assert!(!kill(&["-0", child.trim()]).status.success(), "the child runs on");
    assert_eq!(std::fs::read_dir(temporary).unwrap().count(), 0, "its folder is left");
}

/// GPUs that the manifest ignores are hidden from what is run.
#[test]
#[cfg(unix)]
fn ignored_gpus_are_not_run_on() {
    let mut laid = laid();
    let Some(stub) = super::probe::with_stub(&[]) else { return };
    for (name, value) in [("STUB_DRIVER", "580.159.04"), ("STUB_CUDA", "13000"), ("STUB_COUNT", "2")] {
        laid.context.set(name, value);
    }
    laid.context.set("LD_LIBRARY_PATH", &stub.dir.path().display().to_string());
    laid.context.write(
        "envlock.toml",
        "[project]\nname = \"x\"\n[stack]\ntorch = \"2.9.1\"\nignore-gpus = [\"GeForce RTX 3090\"]\n",
    );
    let seen = laid.context.dir.path().join("seen");
    fake_python(&laid, &format!("echo \"$CUDA_VISIBLE_DEVICES\" > {}", seen.display()));
    let run = laid.context.run(&["verify", "--prefix", &laid.prefix, "--smoke", "cpu"]);
    let told = std::fs::read_to_string(&seen).unwrap_or_else(|_| panic!("{}", run.shown()));
    assert_eq!(told.trim(), "GPU-000", "{}", run.shown());
}

#[test]
fn a_manifest_out_of_an_environment_locks_what_is_installed() {
    let laid = laid();
    let before = laid.context.read("envlock.lock");
    std::fs::remove_file(laid.context.project().join("envlock.lock")).unwrap();
    let machine = ["--gpu", "H200", "--driver", "580.159.04"];
    laid.context.run(&[&["init", "--from-prefix", &laid.prefix][..], &machine].concat()).expect(0);
    insta::assert_snapshot!("init_from_prefix", laid.context.read("envlock.toml"));
    let packages = |lock: &str| lock.split_once("[[package]]").unwrap().1.matches("version = ").count();
    assert_eq!(packages(&laid.context.read("envlock.lock")), packages(&before));
    laid.verify(&[]).expect(0);
    laid.context.run(&["init", "--from-prefix", "nowhere", "--force"]).expect(2);
    // The lock is left alone where the manifest alone is asked for.
    let lock = laid.context.read("envlock.lock");
    laid.context.run(&["init", "--from-prefix", &laid.prefix, "--force", "--no-lock"]).expect(0);
    assert_eq!(laid.context.read("envlock.lock"), lock);
}

/// A release can have two wheels with different METADATA, and the lock holds the digest of one.
#[test]
fn another_locked_wheel_of_the_release_is_as_locked() {
    let laid = laid();
    let lock = laid.context.read("envlock.lock");
    let info = laid.site.join("filelock-3.20.0.dist-info");
    // The installed METADATA is of another file.
    let metadata = std::fs::read_to_string(info.join("METADATA")).unwrap();
    std::fs::write(info.join("METADATA"), metadata + "Summary: of the other wheel\n").unwrap();
    let codes = |context: &TestContext| {
        context.run(&["verify", "--prefix", "../env", "--smoke", "off", "--json"]).json()
    };
    let json = codes(&laid.context);
    assert!(json.to_string().contains("wrong-metadata"), "{json:#}");
    // The lock has both files, and WHEEL says that it is the other one.
    std::fs::write(info.join("WHEEL"), "Wheel-Version: 1.0\nTag: py3-none-manylinux2014_x86_64\n").unwrap();
    let file = lock.lines().find(|line| line.contains("name = \"filelock-3.20.0-")).unwrap();
    let other = file.replace("py3-none-any", "py3-none-manylinux2014_x86_64");
    let forged = lock.replace(file, &format!("{file}\n{other}"));
    let body = forged.split_once("checksum = ").and_then(|(_, rest)| rest.split_once('\n')).unwrap().1;
    let stated = lock.lines().find(|line| line.starts_with("checksum")).unwrap();
    let sum = super::wheels::hex(body.as_bytes());
    laid.context.write("envlock.lock", &forged.replace(stated, &format!("checksum = \"{sum}\"")));
    let json = codes(&laid.context);
    assert!(!json.to_string().contains("wrong-metadata"), "{json:#}");
}

/// The lock of another project is one sentence, not one for each package.
#[test]
fn the_lock_of_another_project_is_one_sentence() {
    let names: Vec<String> = (0..12).map(|i| format!("package-{i}")).collect();
    let wheels = names.iter().map(|name| ("pypi", wheel(name, "1.0").file(&format!("{name}.py"), "x = 1\n")));
    let server = IndexServer::start(wheels.collect(), Shape::default());
    let context = TestContext::with_index(&server);
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    context.run(&[&["resolve", "--python", "3.12", "--gpu", "none"], &all[..]].concat()).expect(0);
    let site = context.dir.path().join("env/lib/python3.12/site-packages");
    std::fs::create_dir_all(&site).unwrap();
    install(&site, &wheel("package-1", "1.0").file("package_1.py", "x = 1\n"));
    install(&site, &wheel("somebody-else", "1.0").file("somebody_else.py", "x = 1\n"));
    let run = context.run(&["verify", "--prefix", "../env"]).expect(1);
    assert!(run.flat().contains("error: 1 of 12 locked packages are installed as locked"), "{}", run.shown());
    assert!(!run.stdout.contains("package-7"), "{}", run.shown());
    let all = context.run(&["verify", "--prefix", "../env", "-v"]).expect(1);
    assert!(all.stdout.contains("package-0 1.0 is not installed"), "{}", all.shown());
    let json = context.run(&["verify", "--prefix", "../env", "--json"]).expect(1).json();
    assert_eq!(json["findings"].as_array().unwrap().len(), 12, "{json:#}");
}

/// A package of that name on an index would be another one.
#[test]
fn packages_installed_from_a_folder_are_not_taken_from_the_index() {
    let laid = laid();
    std::fs::write(laid.site.join("filelock-3.20.0.dist-info/direct_url.json"), "{}").unwrap();
    let run = laid.context.run(&["init", "--from-prefix", "../env", "--no-lock", "--force"]).expect(0);
    assert!(
        run.flat().contains("filelock (installed from a URL, a repository or a folder)"),
        "{}",
        run.shown()
    );
    assert!(!laid.context.read("envlock.toml").contains("filelock"), "{}", laid.context.read("envlock.toml"));
}
