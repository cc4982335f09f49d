//! `resolve` against a loopback index.

use super::context::{IndexServer, Shape, TestContext, leftovers, skipped};
use super::wheels::{Wheel, little_pypi, little_pytorch, wheel};

fn server() -> IndexServer {
    let mut all = little_pypi();
    all.extend(little_pytorch());
    IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() })
}

const H200: [&str; 4] = ["--gpu", "NVIDIA H200", "--driver", "580.159.04"];

fn resolve<'a>(packages: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    [&["resolve"], packages, rest].concat()
}

#[test]
fn a_project_from_manifest_to_lock() {
    let server = server();
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", "[project]\nname = \"demo\"\npython = \">=3.11,<3.14\"\ndependencies = [\"requests[socks]\"]\n\n[stack]\ntorch = \">=2.8\"\n");
    let run = context.run(&resolve(&[], &H200)).expect(0);
    insta::assert_snapshot!("resolve_project", run.shown());
    insta::assert_snapshot!("resolve_project_environment", context.read("environment.yml"));
    let lock = context.read("envlock.lock");
    assert!(lock.contains("name = \"pysocks\""), "the extra is followed");
    assert!(!lock.contains("3.12\""), "a yanked release is not taken: {lock}");
    assert!(!lock.contains(&server.address), "the lock names no address");
    // Solved again it is the same bytes, and it is current.
    let again = context.run(&resolve(&[], &[])).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    let python = again.stdout.lines().find(|line| line.starts_with("  python")).unwrap();
    assert!(python.ends_with("kept from the lock"), "{python}");
    context.run(&["resolve", "--locked"]).expect(0);
    context.write("envlock.toml", "[stack]\ntorch = \">=2.9\"\n");
    let exported = context.run(&["export", "requirements.txt"]).expect(0);
    assert!(exported.flat().contains("the lock is stale: the request has"), "{}", exported.shown());
    let stale = context.run(&["resolve", "--locked"]).expect(1);
    assert!(
        stale.stdout.contains("the request has `package torch>=2.9`, which is not in the lock"),
        "{}",
        stale.shown()
    );
    assert_eq!(leftovers(&context.project()), Vec::<String>::new());
}

#[test]
fn a_lock_of_sentences_that_still_answers_keeps_its_bytes() {
    let server = server();
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", "[project]\ndependencies = [\"requests\"]\n\n[stack]\ntorch = \">=2.8\"\n");
    context.run(&resolve(&[], &H200)).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("reason = \"newest-allowed:>=2.8\""), "{lock}");
    assert!(lock.contains("reason = \"newest-for:requests\""), "{lock}");
    let (head, rest) = lock.split_once("checksum = ").unwrap();
    let (_, body) = rest.split_once('\n').unwrap();
    let body = body
        .replace("newest-allowed:>=2.8", "newest that `>=2.8` allows")
        .replace("newest-for:", "newest for ");
    let sum = super::wheels::hex(body.as_bytes());
    let old = format!("{head}checksum = \"{sum}\"\n{body}");
    context.write("envlock.lock", &old);
    context.run(&resolve(&[], &[])).expect(0);
    assert_eq!(context.read("envlock.lock"), old);
    let why = context.run(&["why", "torch", "--offline"]);
    assert!(why.flat().contains("newest that `>=2.8` allows"), "{}", why.shown());
    // Where the lock changes anyway, codes take the sentences' place.
    context.write(
        "envlock.toml",
        "[project]\ndependencies = [\"requests[socks]\"]\n\n[stack]\ntorch = \">=2.8\"\n",
    );
    context.run(&resolve(&[], &[])).expect(0);
    assert!(!context.read("envlock.lock").contains("newest that"), "{}", context.read("envlock.lock"));
}

#[test]
fn the_h200_needs_pypi_alone() {
    let server = server();
    let context = TestContext::with_index(&server);
    let run = context.run(&resolve(&["torch"], &[&H200[..], &["--json"]].concat())).expect(0);
    let json = run.json();
    let target = &json["targets"][0];
    assert_eq!(target["stack"]["torch"], "2.15.0");
    assert_eq!(target["stack"]["variant"], "cu132");
    assert_eq!(target["python"], "3.15");
    assert_eq!(target["driver_mode"], "compatibility");
    assert_eq!(target["envelope"]["driver"], "580.65.06");
    assert_eq!(json["conflict"], serde_json::Value::Null);
    let asked = server.paths();
    assert!(asked.iter().all(|p| !p.contains("/whl/")), "{asked:?}");
}

#[test]
fn the_pytorch_index_where_pypi_has_no_build() {
    let server = server();
    let context = TestContext::with_index(&server);
    let v100 = context.run(&resolve(&["torch"], &["--gpu", "V100", "--driver", "580.65.06"])).expect(0);
    assert!(v100.stdout.contains("2.14.1+cu126"), "{}", v100.shown());
    let lock = context.read("envlock.lock");
    assert!(lock.contains("index = \"pytorch/cu126\""));
    assert!(lock.contains("version = \"3.8.1\""), "triton follows the build");
    let environment = context.read("environment.yml");
    assert!(
        environment.contains(&format!("- torch @ {}/whl/cu126/torch-2.14.1%2Bcu126-", server.address)),
        "{environment}"
    );

    let context = TestContext::with_index(&server);
    let a100 = context.run(&resolve(&["torch"], &["--gpu", "A100", "--driver", "470.129.06"])).expect(0);
    assert!(a100.stdout.contains("2.7.1+cu118"), "{}", a100.shown());
    assert!(a100.stderr.contains("inferred"), "{}", a100.shown());

    let context = TestContext::with_index(&server);
    let cpu = context.run(&resolve(&["torch"], &[])).expect(0);
    assert!(cpu.stderr.contains("no NVIDIA GPU was found"), "{}", cpu.shown());
    assert!(cpu.stdout.contains("2.15.0+cpu"), "{}", cpu.shown());
    let context = TestContext::with_index(&server);
    let cpu = context.run(&resolve(&["torch"], &["--only-index", "pypi"])).expect(0);
    assert!(cpu.stderr.contains("a CUDA build, a download of"), "{}", cpu.shown());
}

#[test]
fn a_conflict_names_the_driver() {
    let server = server();
    let context = TestContext::with_index(&server);
    let arguments =
        resolve(&["torch>=2.6"], &["--gpu", "NVIDIA A100", "--driver", "470.129.06", "--only-index", "pypi"]);
    let json = context.run(&[&arguments[..], &["--json"]].concat()).expect(1).json();
    assert_eq!(json["status"], "conflict");
    assert_eq!(json["conflict"]["would_work_if"][0]["party"], "driver");
    assert_eq!(json["conflict"]["would_work_if"][0]["level"], "stack");
    assert!(server.paths().is_empty(), "the registry alone proves it");
    let run = context.run(&arguments).expect(1);
    insta::assert_snapshot!("conflict_driver", run.shown());
    assert!(!context.exists("envlock.lock"));
}

/// No Python has the newest of both packages, because of a third one. An older Python wins only where fewer
/// releases are given up on it.
#[test]
fn an_older_python_wins_only_with_fewer_steps_back() {
    const OLD: &str = ">=3.8,<3.13";
    let solve = |releases: Vec<(&'static str, Wheel)>| {
        let server = IndexServer::start(releases, Shape { json: true, metadata: true, ..Shape::default() });
        let context = TestContext::with_index(&server);
        context.write(
            "envlock.toml",
            "[project]\nname = \"demo\"\npython = \">=3.12,<3.14\"\ndependencies = [\"alpha\", \"beta\"]\n",
        );
        let json = context.run(&["--json", "resolve", "--gpu", "none"]).expect(0).json();
        let told = "requested packages are older with Python 3.13";
        let text = context.run(&["resolve", "--gpu", "none", "--force", "--upgrade"]).expect(0);
        assert_eq!(text.flat().contains(told), json["targets"][0]["python"] == "3.12", "{}", text.shown());
        let version = |name: &str| {
            let packages = json["targets"][0]["packages"].as_array().unwrap().clone();
            packages.iter().find(|p| p["name"] == name).unwrap()["version"].as_str().unwrap().to_owned()
        };
        (json["targets"][0]["python"].as_str().unwrap().to_owned(), version("alpha"), version("beta"))
    };
    let beta = || {
        let gamma = ["1.0", "2.0"].map(|version| ("pypi", wheel("gamma", version)));
        let beta = [("pypi", wheel("beta", "1.0")), ("pypi", wheel("beta", "2.0").needs("gamma>=2"))];
        beta.into_iter().chain(gamma)
    };
    // On 3.13 alpha is two releases behind; on 3.12 one of the two packages is one behind.
    let mut wheels_for_old = vec![
        ("pypi", wheel("alpha", "1.0")),
        ("pypi", wheel("alpha", "2.0").python(OLD).needs("gamma<2")),
        ("pypi", wheel("alpha", "3.0").python(OLD).needs("gamma<2")),
    ];
    wheels_for_old.extend(beta());
    let (python, alpha, beta_) = solve(wheels_for_old);
    assert_eq!((python.as_str(), alpha.as_str(), beta_.as_str()), ("3.12", "3.0", "1.0"));
    // The same number of steps on both: the newer Python.
    let mut equal = vec![
        ("pypi", wheel("alpha", "1.0").needs("gamma<2")),
        ("pypi", wheel("alpha", "2.0").needs("gamma<2")),
        ("pypi", wheel("alpha", "3.0").needs("gamma<2")),
    ];
    equal.extend(beta());
    assert_eq!(solve(equal).0, "3.13");
}

/// Where markers hide the conflict from the graph of all Pythons, it is told for one that the requested packages have
/// files for, and not for the newest.
#[test]
fn a_conflict_is_told_for_a_python_that_has_files() {
    let linux = "cp312-cp312-manylinux_2_28_x86_64";
    let flow = wheel("flow", "2.17")
        .tags(linux)
        .needs("gamma<2; python_version < '3.12'")
        .needs("gamma<2,>=1; python_version >= '3.12'");
    let gamma = ["1.0", "2.0"].map(|version| ("pypi", wheel("gamma", version).tags(linux)));
    let all = [("pypi", flow)].into_iter().chain(gamma).collect();
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let run = context.run(&["resolve", "gamma==2.0", "flow", "--gpu", "none"]).expect(1);
    assert!(run.flat().contains("flow 2.17 needs gamma<2,>=1"), "{}", run.shown());
}

/// A release that only an older Python has as a wheel is built where a requested package excludes that Python.
#[test]
fn a_wheel_for_another_python_does_not_refuse_a_request() {
    let setup = "from setuptools import setup\nsetup()\n";
    let fair = wheel("fair", "0.12").tags("cp311-cp311-manylinux_2_28_x86_64");
    let source = wheel("fair", "0.12").source(setup);
    let alone = wheel("newer", "1.0").python(">=3.12");
    let server = IndexServer::start(
        vec![
            ("pypi", fair),
            ("pypi", source),
            ("pypi", alone),
            ("pypi", wheel("setuptools", "80.0")),
            ("pypi", wheel("wheel", "0.45")),
        ],
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    let context = TestContext::with_index(&server);
    let run = context.run(&["resolve", "fair", "--gpu", "none"]).expect(0);
    assert!(context.read("envlock.lock").contains("cp311-cp311"), "{}", run.shown());
    let run = context.run(&["resolve", "fair", "newer", "--gpu", "none", "--force"]).expect(0);
    assert!(context.read("envlock.lock").contains("fair-0.12.tar.gz"), "{}", run.shown());
}

/// A version of the stack that the registry does not have: it is older, newer, or was never released.
#[test]
fn a_version_outside_the_registry_is_told_by_its_neighbours() {
    let context = TestContext::new();
    let ask = |asked: &str| {
        context.run(&["resolve", asked, "--stack-only", "--gpu", "A100", "--driver", "580.65.06"])
    };
    let run = ask("torchvision==0.15.0.*").expect(1);
    let said = "no torchvision 0.15.0; next to it are 0.14.1 (for torch 1.13.1) and 0.15.1 (for torch 2.0.0)";
    assert!(run.flat().contains(said), "{}", run.shown());
    // Older and newer ones may be what is asked for.
    for asked in ["torchvision==0.7.0", "torchvision~=0.7.1"] {
        let run = ask(asked).expect(3);
        let said = "the registry begins with torchvision 0.14.0, and an older one may run";
        assert!(run.flat().contains(said), "{asked}: {}", run.shown());
    }
    let run = ask("torchvision==9.9").expect(3);
    assert!(run.flat().contains("no row of torchvision"), "{}", run.shown());
}

#[test]
fn conflicts_in_the_closure() {
    let mut all = little_pypi();
    all.push(("pypi", wheel("old-tool", "1.0").needs("torch<2.9")));
    all.push(("pypi", wheel("needs-new-numpy", "1.0").needs("numpy>=2")));
    all.push(("pypi", wheel("deep", "1.0").needs("middle")));
    all.push(("pypi", wheel("middle", "1.0").needs("idna>=99")));
    all.push(("pypi", wheel("only-old", "1.0").tags("cp39-cp39-manylinux_2_17_x86_64")));
    all.push(("pypi", wheel("only-new", "1.0").tags("cp312-cp312-manylinux_2_17_x86_64")));
    all.push(("pypi", wheel("refuses-new", "1.0").python("<=3.9")));
    all.push(("pypi", wheel("url-user", "1.0").needs("thing @ https://example.com/thing.whl")));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let table: &[(&[&str], &[&str])] = &[
        (&["torch>=2.9", "old-tool"], &["old-tool 1.0 needs torch<2.9", "you require torch>=2.9"]),
        (&["numpy<2", "needs-new-numpy"], &["needs-new-numpy 1.0 needs numpy>=2", "you require numpy<2"]),
        (&["idna>=99"], &["available versions of idna: 3.11 to 3.12", "you require idna>=99"]),
        (
            &["deep"],
            &[
                "deep 1.0 needs middle",
                "middle 1.0 needs idna>=99",
                "available versions of idna: 3.11 to 3.12",
            ],
        ),
        (
            &["only-old", "only-new"],
            &["only-old 1.0 has wheels for Python 3.9", "only-new 1.0 has wheels for Python 3.12"],
        ),
        (&["only-old", "--python", "3.12"], &["only-old 1.0 has no wheel for Python 3.12 on linux-x86_64"]),
        (&["refuses-new", "--python", "3.12"], &["refuses-new 1.0 requires Python <=3.9"]),
        (&["pytorch"], &["hint: `pytorch`: on PyPI it is called `torch`"]),
        (&["nosuchpackage"], &["the index pypi has no `nosuchpackage`"]),
        (&["url-user"], &["which the request does not name: name it too"]),
    ];
    for (packages, expected) in table {
        let context = TestContext::with_index(&server);
        let run = context.run(&resolve(packages, &H200)).expect(1);
        for text in *expected {
            assert!(run.flat().contains(text), "{packages:?} lacks {text:?}: {}", run.shown());
        }
    }
}

#[test]
fn numpy_2_is_kept_from_old_torch() {
    let server = server();
    let context = TestContext::with_index(&server);
    let run = context
        .run(&resolve(
            &["torch", "numpy"],
            &["--gpu", "A100", "--driver", "470.129.06", "--only-index", "pypi"],
        ))
        .expect(0);
    assert!(run.stdout.contains("2.0.1+cu117"), "{}", run.shown());
    let lock = context.read("envlock.lock");
    assert!(lock.contains("version = \"1.26.4\""), "{lock}");
    assert!(
        lock.contains("name = \"triton\"\nversion = \"2.0.0\""),
        "a cycle between packages is legal: {lock}"
    );
}

#[test]
fn a_yanked_release_can_be_pinned() {
    let server = server();
    let context = TestContext::with_index(&server);
    let run = context.run(&resolve(&["idna==3.12"], &H200)).expect(0);
    assert!(run.flat().contains("idna 3.12 is yanked: its project withdrew it"), "{}", run.shown());
    assert!(context.read("envlock.lock").contains("version = \"3.12\""));
    // Whoever else asks for it without pinning takes it too.
    let context = TestContext::with_index(&server);
    context.run(&resolve(&["idna==3.12", "requests"], &H200)).expect(0);
}

/// What a project yanks after it was locked stays locked until it is upgraded, whatever else is added.
#[test]
fn a_locked_release_that_is_yanked_is_kept() {
    let before =
        vec![("pypi", wheel("demo", "1.0")), ("pypi", wheel("demo", "1.1")), ("pypi", wheel("other", "1.0"))];
    let before = IndexServer::start(before, Shape::default());
    let after = vec![
        ("pypi", wheel("demo", "1.0")),
        ("pypi", wheel("demo", "1.1").yanked()),
        ("pypi", wheel("other", "1.0").needs("demo>=1.0")),
    ];
    let after = IndexServer::start(after, Shape::default());
    let mut context = TestContext::with_index(&before);
    context.run(&resolve(&["demo"], &H200)).expect(0);
    assert!(context.read("envlock.lock").contains("version = \"1.1\""));
    context.set("ENVLOCK_INDEX_URL", &format!("{}/pypi", after.address));
    for request in [&["demo"][..], &["demo", "other"]] {
        let run = context.run(&resolve(request, &H200)).expect(0);
        assert!(context.read("envlock.lock").contains("version = \"1.1\""), "{}", run.shown());
        let told = "demo 1.1 is yanked: its project withdrew it, and it is kept from the lock; `envlock resolve \
                    --upgrade=demo` takes another release";
        assert!(run.flat().contains(told), "{}", run.shown());
    }
    context.run(&resolve(&["demo", "other"], &["--upgrade=demo"])).expect(0);
    assert!(!context.read("envlock.lock").contains("version = \"1.1\""));
}

#[test]
fn limits_hold_where_torch_comes_along() {
    let mut all = little_pypi();
    all.extend(little_pytorch());
    all.push(("pypi", wheel("trainer", "1.0").needs("torch")));
    all.push(("pypi", wheel("speech", "1.0").needs("torch").needs("triton")));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let solved = |arguments: &[&str]| {
        let context = TestContext::with_index(&server);
        let run = context.run(&[&["resolve", "--json"], arguments].concat()).expect(0);
        run.json()["targets"][0]["stack"].clone()
    };
    let machine = ["--gpu", "H200", "--driver", "580.159.04"];
    let stack = solved(&[&["trainer", "--variant", "cu126"], &machine[..]].concat());
    assert_eq!(stack["variant"], "cu126");
    let stack = solved(&["trainer", "--gpu", "none", "--only-index", "pypi"]);
    assert_eq!(stack["index"], "pypi");
    // A CPU build from the pytorch index beside a package that wants triton.
    let stack = solved(&["torch", "speech", "--gpu", "none"]);
    assert_eq!(stack["variant"], "cpu");
}

#[test]
fn a_named_prerelease_is_admitted_for_all() {
    let server = IndexServer::start(
        vec![
            ("pypi", wheel("base", "1.0")),
            ("pypi", wheel("base", "2.0rc1")),
            ("pypi", wheel("user", "1.0").needs("base>=1")),
        ],
        Shape::default(),
    );
    let context = TestContext::with_index(&server);
    context.run(&resolve(&["base==2.0rc1", "user"], &H200)).expect(0);
    let context = TestContext::with_index(&server);
    context.run(&resolve(&["user"], &H200)).expect(0);
    assert!(context.read("envlock.lock").contains("name = \"base\"\nversion = \"1.0\""));
}

#[test]
fn prereleases_and_local_versions() {
    let release = |version: &str| ("pypi", wheel("base", version));
    let server = IndexServer::start(
        vec![
            release("0.1"),
            release("0.2a1"),
            release("0.3"),
            release("1.0a1"),
            ("pypi", wheel("pins", "1.0").needs("base==1.0a1")),
            ("pypi", wheel("bounds", "1.0").needs("base>=0.1,<=3")),
            ("pypi", wheel("asks", "1.0").needs("base>=0.2a1")),
            ("pypi", wheel("local", "2.0.0+bar")),
            ("pypi", wheel("local", "2.0.0+foo")),
            ("pypi", wheel("app", "1.0")),
            ("pypi", wheel("app", "2.0").needs("local==2.0.0+bar")),
        ],
        Shape::default(),
    );
    let table: &[(&[&str], &str, &str)] = &[
        // A bound that names a pre-release does not ask for those of later versions.
        (&["base>=0.1a1"], "base", "0.3"),
        (&["asks"], "base", "0.3"),
        (&["base>=0.4a1"], "base", "1.0a1"),
        // One requirement admits nothing else: then the others admit it too.
        (&["pins", "bounds"], "base", "1.0a1"),
        (&["bounds", "pins"], "base", "1.0a1"),
        (&["bounds"], "base", "0.3"),
        // Another build of the same version is no newer one.
        (&["app", "local==2.0.0+foo"], "app", "1.0"),
    ];
    for (packages, name, version) in table {
        let context = TestContext::with_index(&server);
        context.run(&resolve(packages, &H200)).expect(0);
        let lock = context.read("envlock.lock");
        assert!(
            lock.contains(&format!("name = \"{name}\"\nversion = \"{version}\"")),
            "{packages:?}: {lock}"
        );
    }
}

#[test]
fn python_steps_back_before_requested_packages_do() {
    // The newest release has wheels up to 3.12 only; a hundred old pure ones install anywhere.
    let mut all = vec![("pypi", wheel("app", "100.0").needs("native"))];
    all.extend((0..100).map(|i| ("pypi", wheel("app", &format!("{i}.0")))));
    all.push(("pypi", wheel("native", "1.0").tags("cp312-cp312-manylinux_2_28_x86_64")));
    let server = IndexServer::start(all, Shape::default());
    let context = TestContext::with_index(&server);
    let run = context.run(&resolve(&["app"], &H200)).expect(0);
    let lock = context.read("envlock.lock");
    assert!(
        lock.contains("name = \"app\"\nversion = \"100.0\"") && lock.contains("python = \"3.12\""),
        "{}",
        run.shown()
    );
    let asked = server.paths().len();
    assert!(asked < 15, "{asked} requests for two packages");
    // With the series fixed, the package steps back instead.
    let context = TestContext::with_index(&server);
    context.run(&resolve(&["app", "--python", "3.13"], &H200)).expect(0);
    assert!(context.read("envlock.lock").contains("name = \"app\"\nversion = \"99.0\""));
}

#[test]
fn projects_are_found_and_kept_apart() {
    let server = server();
    let context = TestContext::with_index(&server);
    context.run(&resolve(&["filelock"], &H200)).expect(0);
    let lock = context.read("envlock.lock");
    // Packages named in a folder below: its own lock.
    std::fs::create_dir_all(context.project().join("below")).unwrap();
    let mut command = context.command();
    command.current_dir(context.project().join("below")).args(resolve(&["idna"], &H200));
    context.finish(command.output().unwrap()).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    assert!(context.exists("below/envlock.lock"));
}

#[test]
fn described_targets_are_part_of_what_is_locked() {
    let server = server();
    let context = TestContext::with_index(&server);
    let manifest = |driver: &str| {
        format!(
            "[project]\ndependencies = [\"filelock\"]\n[target.cluster]\ngpus = [\"H200\"]\ndriver = \"{driver}\"\n"
        )
    };
    context.write("envlock.toml", &manifest("580.159.04"));
    context.run(&["resolve", "--python", "3.12"]).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    context.run(&["export", "requirements.txt", "--target", "cluster"]).expect(0);
    context.write("envlock.toml", &manifest("595.45.04"));
    context.run(&["resolve", "--locked"]).expect(1);
}

#[test]
fn old_locks_are_kept_and_upgraded() {
    let older = IndexServer::start(vec![("pypi", wheel("filelock", "3.19.0"))], Shape::default());
    let mut context = TestContext::with_index(&older);
    context.run(&resolve(&["filelock"], &H200)).expect(0);
    let newer = server();
    context.set("ENVLOCK_INDEX_URL", &format!("{}/pypi", newer.address));
    context.run(&resolve(&["filelock"], &H200)).expect(0);
    assert!(context.read("envlock.lock").contains("3.19.0"), "what the lock holds is kept");
    let again = context.run(&resolve(&["filelock"], &H200)).expect(0);
    assert!(again.stdout.contains("3.19.0       kept from the lock"), "{}", again.shown());
    context.run(&resolve(&["filelock"], &["--upgrade=filelock"])).expect(0);
    assert!(context.read("envlock.lock").contains("3.20.0"));
}

#[test]
fn an_old_lock_does_not_change_what_is_a_way_out() {
    let server = server();
    let old = ["--gpu", "A100", "--driver", "550.54.14", "--only-index", "pypi"];
    let new = [&H200[..], &["--only-index", "pypi"]].concat();
    for request in [&["torch==2.99"][..], &["torch>=2.8", "numpy<2", "transformers>=99"]] {
        let fresh = TestContext::with_index(&server);
        let expected = fresh.run(&resolve(request, &new)).expect(1);
        let context = TestContext::with_index(&server);
        context.run(&resolve(&["torch", "numpy", "--python", "3.12"], &old)).expect(0);
        let run = context.run(&resolve(request, &new)).expect(1);
        assert_eq!((run.stdout, run.stderr), (expected.stdout, expected.stderr));
    }
}

#[test]
fn files_of_others_are_not_overwritten() {
    let server = server();
    let context = TestContext::with_index(&server);
    context.write("environment.yml", "name: precious\n");
    let run = context.run(&resolve(&["filelock"], &H200)).expect(0);
    insta::assert_snapshot!(run.shown(), @r#"
        exit 0
        --- stdout
        host   NVIDIA H200 (9.0), driver 580.159.04 (CUDA 13.0), linux-x86_64 [--driver]
        solved 1 package, 2 kB to download in [TIME]

          python        3.15         newest with wheels for all packages
          filelock      3.20.0       newest compatible version

        runs on        linux-x86_64
        wrote          envlock.lock
        next           envlock sync
        --- stderr
        note: `environment.yml` was not written by envlock and stays as it is; `--force`
              replaces it, and `[export] environment-yml = false` drops this note
        "#);
    assert_eq!(context.read("environment.yml"), "name: precious\n");
    context.run(&resolve(&["filelock"], &[&H200[..], &["--force"]].concat())).expect(0);
    assert!(context.read("environment.yml").contains("filelock"));
}

/// Who has no use for conda's file says so once.
#[test]
fn a_project_may_do_without_environment_files() {
    let server = server();
    let context = TestContext::with_index(&server);
    let manifest = "[project]\nname = \"p\"\npython = \"==3.12.*\"\ndependencies = [\"filelock\"]\n\n[export]\nenvironment-yml = false\n";
    context.write("envlock.toml", manifest);
    let machine = [&["resolve"], &H200[..], &["--only-index", "pypi"]].concat();
    let run = context.run(&machine).expect(0);
    assert!(!context.exists("environment.yml") && run.stdout.contains("envlock sync"), "{}", run.shown());
    let checked = context.run(&["resolve", "--locked"]).expect(0);
    assert!(!checked.flat().contains("environment.yml"), "{}", checked.shown());
    // One of before is no longer what is locked.
    context.write("environment.yml", "# Written by envlock as environment.yml; change the manifest.\n");
    let run = context.run(&machine).expect(0);
    assert!(run.flat().contains("`environment.yml` is of an earlier lock"), "{}", run.shown());
    // The last package is removed as any other; what is locked is a Python.
    context.run(&["remove", "filelock"]).expect(0);
    assert!(!context.read("envlock.lock").contains("filelock"));
    context.run(&["resolve", "--locked"]).expect(0);
    context.write("envlock.toml", &manifest.replace("environment-yml = false", "environment-yaml = false"));
    context.run(&machine).expect(2);
}

/// Names that are slips of the fingers are locked with a warning, where the index has them.
#[test]
fn a_name_one_letter_from_a_popular_one() {
    let wheels = [
        wheel("reqests", "1.0").uploaded("2026-01-01T00:00:00Z"),
        wheel("fresh-name", "1.0"),
        wheel("other-project", "1.0").uploaded("2026-10-01T00:00:00Z"),
        wheel("requests", "2.32.0"),
    ];
    let server = IndexServer::start(
        wheels.map(|one| ("pypi", one)).into(),
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    let mut context = TestContext::with_index(&server);
    // 2026-11-30
    context.set("SOURCE_DATE_EPOCH", "1796000000");
    context.write(
        "envlock.toml",
        "[project]\nname = \"p\"\npython = \"==3.12.*\"\ndependencies = [\"requests\"]\n",
    );
    let add = |name: &str| context.run(&["add", name, "--gpu", "none", "--only-index", "pypi"]).expect(0);
    assert!(add("reqests").flat().contains("`reqests` is one letter from `requests`"));
    for known in ["reqests", "requests", "fresh-name"] {
        let run = add(known);
        assert!(!run.stderr.contains("is it the one you mean"), "{known}: {}", run.shown());
    }
    let young = add("other-project");
    assert!(
        young.flat().contains("`other-project` has been on the index since 2026-10-01, with 1 file"),
        "{}",
        young.shown()
    );
}

#[test]
fn a_python_newer_than_the_registry_has_the_wheels_that_its_index_lists() {
    let server = server();
    let context = TestContext::with_index(&server);
    let newer = ["--gpu", "none", "--python", "3.16", "--dry-run"];
    let run = context.run(&resolve(&["requests"], &newer)).expect(0);
    assert!(run.flat().contains("asked for; newer than the registry"), "{}", run.shown());
    let run = context.run(&resolve(&["torch"], &newer)).expect(1);
    assert!(run.flat().contains("Python 3.16"), "{}", run.shown());
}

#[test]
fn bad_input_is_said_in_one_sentence() {
    let server = server();
    let table: &[(&[&str], &str, i32)] = &[
        (&["resolve", "torch", "--gpu", "GTX 9999"], "unknown GPU `GTX 9999`", 2),
        (&["resolve", "torch", "--gpu", "GTX 860M"], "matches GPUs with different compute capabilities", 2),
        (&["resolve", "torch", "--driver", "12.2"], "`12.2` is not a driver version", 2),
        (&["resolve", "torch", "--driver", "five"], "`five` is not a version", 2),
        (
            &["resolve", "torch", "--gpu", "V100", "--driver", "595.45.04"],
            "driver 595.45.04 does not support",
            2,
        ),
        (&["resolve", "torch>=two"], "`torch>=two` is not a valid requirement", 2),
        (&["resolve", "torch=2.8"], "(did you mean `torch==2.8`?)", 2),
        (&["resolve", "torch 2.8"], "(did you mean `torch==2.8`?)", 2),
        (&["resolve", "torch", "--python", "python3.11"], "is not a valid Python series such as `3.11`", 2),
        (&["resolve", "a @ https://x/y.whl"], "it is not a wheel of `a`", 2),
        (&["resolve", "torch", "--gpu", "99.9"], "no GPU of compute capability `99.9` is known", 2),
        (&["resolve", "torch", "--python", ">=3.99"], "unsupported Python `>=3.99` (supported: 3.", 2),
        (&["resolve", "torch", "--platform", "amiga-68000"], "`amiga-68000` is not a platform", 2),
        (&["resolve", "torch", "--only-index", "nowhere"], "no index is called `nowhere`", 2),
        (&["resolve"], "there is no envlock.toml here", 2),
        (&["resolve", "--locked"], "there is no envlock.toml here", 2),
        (&["export", "requirements.txt"], "there is no envlock.lock", 2),
        (&["verify"], "no environment is active", 3),
        (&["resolve", "torch", "--host", "nowhere.toml"], "does not exist", 2),
        (&["frobnicate"], "unrecognized subcommand", 2),
    ];
    for (arguments, expected, code) in table {
        let context = TestContext::with_index(&server);
        let run = context.run(arguments).expect(*code);
        assert!(run.stderr.contains(expected), "{arguments:?}: {}", run.shown());
        assert!(!run.stderr.contains("panicked"), "{}", run.shown());
        {
            let json = context.run(&[arguments, &["--json"][..]].concat()).expect(*code).json();
            assert!(json["error"]["message"].as_str().unwrap().contains(expected), "{json}");
            assert!(json["error"]["code"].is_string(), "{json}");
        }
    }
}

/// A lock that was changed by hand is made again for the machine that it names, not for the one at hand.
#[test]
fn a_lock_edited_by_hand_keeps_its_machine() {
    let server = server();
    let context = TestContext::with_index(&server);
    let options = [&H200[..], &["--only-index", "pypi"]].concat();
    context.run(&resolve(&["torch"], &options)).expect(0);
    let lock = context.read("envlock.lock");
    context.write("envlock.lock", &lock.replace("torch = \"2.", "torch = \"1."));
    let run = context.run(&["resolve"]).expect(2);
    assert!(run.flat().contains("`envlock resolve --force`"), "{}", run.shown());
    let run = context.run(&["resolve", "--force"]).expect(0);
    assert!(run.flat().contains("for the machine and with the options that it names"), "{}", run.shown());
    assert_eq!(context.read("envlock.lock"), lock);
    // An option that was edited is the one that is lost.
    context.write("envlock.lock", &lock.replace("option only-index", "option only-indexes"));
    let run = context.run(&["resolve", "--force", "--only-index", "pypi"]).expect(0);
    assert!(
        run.flat().contains("`option only-indexes pypi` of its request cannot be read, and is not kept"),
        "{}",
        run.shown()
    );
    assert_eq!(context.read("envlock.lock"), lock);
    std::fs::write(context.project().join("envlock.lock"), [0xff, 0xfe, 0]).unwrap();
    let run = context.run(&resolve(&["torch"], &options)).expect(2);
    assert!(run.flat().contains("`envlock resolve --force` replaces it"), "{}", run.shown());
    context.run(&[&resolve(&["torch"], &options)[..], &["--force"]].concat()).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    // A format that is not known is not read.
    context.write("envlock.lock", &lock.replace("format = \"1.0.0\"", "format = \"9.0.0\""));
    let run = context.run(&["resolve"]).expect(2);
    assert!(run.flat().contains("recreate the lock with `envlock resolve --force`"), "{}", run.shown());
}

#[test]
fn manifests_and_locks_that_are_broken() {
    let server = server();
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", "[project]\nname = \"x\"\n[stack]\ntorch = 3\n");
    let run = context.run(&["resolve"]).expect(2);
    insta::assert_snapshot!("malformed_manifest", run.shown());

    let context = TestContext::with_index(&server);
    context.run(&resolve(&["filelock"], &H200)).expect(0);
    let lock = context.read("envlock.lock");
    let table: &[(String, &str)] = &[
        (lock.replace("3.20.0", "3.20.1"), "was changed by hand or by a merge"),
        (
            lock.replace("format = \"1.0.0\"", "format = \"7.0.0\""),
            "the lock has format 7.0.0, but this version of envlock reads 1.x",
        ),
        (lock[..lock.len() / 2].to_owned(), "the lock"),
        (format!("<<<<<<< ours\n{lock}"), "merge conflict"),
        (String::new(), "cannot be read"),
    ];
    for (text, expected) in table {
        context.write("envlock.lock", text);
        let run = context.run(&["export", "requirements.txt"]).expect(2);
        assert!(run.flat().contains(expected), "{}", run.shown());
    }
    // What is no lock of ours is not replaced, and a broken lock's machine is not forgotten.
    context.write("envlock.lock", "my notes");
    context.run(&resolve(&["filelock"], &H200)).expect(2);
    assert_eq!(context.read("envlock.lock"), "my notes");
    context.write("envlock.lock", &lock[..lock.len() / 2]);
    context.run(&resolve(&["filelock"], &[])).expect(2);
    context.write("envlock.lock", &lock.replace('\n', "\r\n"));
    context.run(&["export", "requirements.txt"]).expect(0);
    context.write("envlock.lock", &lock[..lock.len() / 2]);
    let run = context.run(&resolve(&["filelock"], &H200)).expect(0);
    assert!(run.flat().replace("       ", " ").contains("it will be replaced"), "{}", run.shown());
    assert_eq!(context.read("envlock.lock"), lock);
}

#[test]
#[cfg(unix)]
fn a_folder_that_cannot_be_written() {
    use std::os::unix::fs::PermissionsExt;
    let server = server();
    let context = TestContext::with_index(&server);
    std::fs::set_permissions(context.project(), std::fs::Permissions::from_mode(0o555)).unwrap();
    let run = context.run(&resolve(&["filelock"], &H200));
    std::fs::set_permissions(context.project(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // Root may write anywhere; then there is nothing to see.
    if run.code != 0 {
        assert_eq!(run.code, 2, "{}", run.shown());
        assert!(run.stderr.contains("cannot write"), "{}", run.shown());
    } else {
        skipped("running as root");
    }
}

#[test]
fn a_full_disk_leaves_the_old_lock() {
    let full = std::path::Path::new("/dev/full");
    if !full.exists() {
        skipped("no /dev/full here");
        return;
    }
    // What cannot be answered is not done half: the answer comes before the files.
    let server = server();
    let context = TestContext::with_index(&server);
    let mut command = context.command();
    command
        .args(resolve(&["filelock"], &H200))
        .stdout(std::fs::OpenOptions::new().write(true).open(full).unwrap());
    let run = context.finish(command.output().unwrap()).expect(2);
    assert!(run.stderr.contains("cannot write to stdout"), "{}", run.shown());
    assert!(!context.exists("envlock.lock"));
}

#[test]
#[cfg(unix)]
fn a_disk_that_takes_no_more_bytes() {
    let server = server();
    let context = TestContext::with_index(&server);
    context.run(&resolve(&["filelock"], &H200)).expect(0);
    let before = context.read("envlock.lock");
    // A file size limit of nothing: every write fails, as on a full disk.
    let mut command = context.command();
    let program = command.get_program().to_owned();
    let mut limited = std::process::Command::new("/bin/sh");
    limited
        .args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""])
        .arg(program)
        .args(resolve(&["filelock", "idna"], &H200))
        .current_dir(context.project())
        .env_clear()
        .envs(command.get_envs().filter_map(|(k, v)| Some((k, v?))));
    command.arg("unused");
    let run = context.finish(limited.output().unwrap()).expect(2);
    assert!(run.stderr.contains("cannot write"), "{}", run.shown());
    assert_eq!(context.read("envlock.lock"), before);
    assert_eq!(leftovers(&context.project()), Vec::<String>::new());
}

#[test]
fn escapes_of_others_do_not_reach_the_terminal() {
    let evil = "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\nRequires-Dist: \u{1b}[31mred>=1\n\n";
    let mut w = wheel("evil", "1.0");
    w.requires.push("\u{1b}[31mred>=1".to_owned());
    assert!(w.metadata().contains(evil.lines().nth(3).unwrap()));
    let server =
        IndexServer::start(vec![("pypi", w)], Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let run = context.run(&resolve(&["evil"], &H200)).expect(1);
    assert!(!run.stdout.contains('\u{1b}') && !run.stderr.contains('\u{1b}'), "{}", run.shown());
    assert!(run.flat().contains("is not a valid requirement"), "{}", run.shown());
}

/// Constraints are edited where each form of manifest has them, and a way out of one is the command that removes it.
#[test]
fn constraints_are_edited() {
    let server = server();
    let context = TestContext::with_index(&server);
    let box_ = "[target.box]\ngpus = [\"none\"]\n";
    let manifest =
        |list: &str| format!("[project]\nname = \"demo\"\ndependencies = [\"requests\"]\n{list}\n{box_}");
    context.write("envlock.toml", &manifest(""));
    context.run(&["add", "--constraint", "idna<99", "filelock<99"]).expect(0);
    assert_eq!(context.read("envlock.toml"), manifest("constraints = [\"idna<99\", \"filelock<99\"]\n"));
    assert!(!context.read("envlock.lock").contains("name = \"filelock\""));
    context.run(&["remove", "--constraint", "filelock"]).expect(0);
    context.run(&["add", "--constraint", "idna<98"]).expect(0);
    assert_eq!(context.read("envlock.toml"), manifest("constraints = [\"idna<98\"]\n"));
    let run = context.run(&["remove", "--constraint", "requests"]).expect(2);
    assert!(run.flat().contains("`requests` is not in the constraints of envlock.toml"), "{}", run.shown());
    let run = context.run(&["add", "--constraint", "idna"]).expect(2);
    assert!(run.flat().contains("a constraint is a name with a bound, as `idna<2`"), "{}", run.shown());
    // Two bounds that are typed at once are both meant.
    context.run(&["add", "--constraint", "idna<97", "idna>=2"]).expect(0);
    assert_eq!(context.read("envlock.toml"), manifest("constraints = [\"idna>=2,<97\"]\n"));
    context.run(&["add", "requests>=2", "requests!=2.1"]).expect(0);
    assert!(context.read("envlock.toml").contains("[\"requests>=2,!=2.1\"]"));
    context.write("envlock.toml", &manifest("constraints = [\"idna<98\"]\n"));
    // What was typed is a constraint, and no package to add.
    let run = context.run(&["add", "--constraint", "idna<1"]).expect(1);
    assert!(run.flat().contains("you constrain idna to <1 [command line]"), "{}", run.shown());
    assert!(!run.stdout.contains("      envlock add"), "{}", run.shown());
    let run = context.run(&["why", "idna==3.11"]).expect(2);
    assert!(run.flat().contains("hint: `envlock why --not idna==3.11`"), "{}", run.shown());
    // The command of the way out is run by the context.
    context.write("envlock.toml", &manifest("constraints = [\"idna<1\"]\n"));
    let run = context.run(&["resolve"]).expect(1);
    assert!(run.stdout.contains("\n      envlock remove --constraint idna\n"), "{}", run.shown());
    // A pyproject.toml has them in envlock's table, and where uv holds the packages in uv's.
    std::fs::remove_file(context.project().join("envlock.toml")).unwrap();
    let pyproject = |tables: &str| {
        format!(
            "[project]\nname = \"demo\"\nversion = \"1\"\ndependencies = [\"requests\"]\n[tool.envlock]\n{tables}"
        )
    };
    context.write("pyproject.toml", &pyproject("[tool.envlock.target.box]\ngpus = [\"none\"]\n"));
    context.run(&["add", "--constraint", "idna<99"]).expect(0);
    let text = context.read("pyproject.toml");
    assert!(text.contains("[tool.envlock]\nconstraints = [\"idna<99\"]\n"), "{text}");
    context.run(&["remove", "--constraint", "idna"]).expect(0);
}

#[test]
fn add_and_remove_edit_and_resolve() {
    let server = server();
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", "# mine\n[project]\nname = \"demo\"\ndependencies = [\"filelock\"]  # kept\n\n[target.box]\ngpus = [\"H200\"]\ndriver = \"580.159.04\"\n");
    context.run(&["add", "requests>=2", "torch>=2.9"]).expect(0);
    let manifest = context.read("envlock.toml");
    assert!(manifest.contains("# mine") && manifest.contains("# kept"), "{manifest}");
    assert!(manifest.contains("\"requests>=2\"") && manifest.contains("torch = \">=2.9\""), "{manifest}");
    assert!(context.read("envlock.lock").contains("name = \"torch\""));
    context.run(&["remove", "torch"]).expect(0);
    assert!(!context.read("envlock.lock").contains("name = \"torch\""));
    // A list keeps its form: a line of its own for each entry, and the comments of those that stay.
    let list = |text: &str| {
        let head = "[project]\nname = \"demo\"\ndependencies = ";
        let tail = "  # of the project\n\n[target.box]\ngpus = [\"H200\"]\ndriver = \"580.159.04\"\n";
        format!("{head}{text}{tail}")
    };
    for (before, command, after) in [
        (
            "[\n  \"filelock\",  # locks\n  \"idna\"\n]",
            "add requests>=2",
            "[\n  \"filelock\",  # locks\n  \"idna\",\n  \"requests>=2\",\n]",
        ),
        (
            "[\n  \"filelock\",  # locks\n  \"idna\",\n]",
            "add filelock>=3",
            "[\n  \"filelock>=3\",  # locks\n  \"idna\",\n]",
        ),
        (
            "[\n  # first\n  \"filelock\",  # locks\n  # second\n  \"idna\",  # names\n  # end\n]",
            "remove filelock",
            "[\n  # second\n  \"idna\",  # names\n  # end\n]",
        ),
        ("[\"idna\", \"filelock\"]", "add idna>=3", "[\"idna>=3\", \"filelock\"]"),
        ("[\"idna\", \"filelock\"]", "remove idna", "[\"filelock\"]"),
        ("[ \"idna\", \"filelock\" ]", "add requests", "[ \"idna\", \"filelock\", \"requests\" ]"),
        ("[ # heading\n    \"filelock\",\n]", "add idna", "[ # heading\n    \"filelock\",\n    \"idna\",\n]"),
        (
            "[\"idna<3; python_version < '3.5'\", \"idna>=3; python_version >= '3.5'\"]",
            "add idna>=3.1;python_version>='3.5'",
            "[\"idna<3; python_version < '3.5'\", \"idna>=3.1;python_version>='3.5'\"]",
        ),
        ("[]", "add idna", "[\"idna\"]"),
    ] {
        context.write("envlock.toml", &list(before));
        context.run(&command.split(' ').collect::<Vec<_>>()).expect(0);
        assert_eq!(context.read("envlock.toml"), list(after), "{before}");
    }
    // Which of several is meant is not guessed.
    context.write(
        "envlock.toml",
        &list("[\"idna<3; python_version < '3.5'\", \"idna>=3; python_version >= '3.5'\"]"),
    );
    let run = context.run(&["add", "idna>=3.2"]).expect(2);
    assert!(run.flat().contains("is required for several environments"), "{}", run.shown());
    // Lines end as they did, and what is said of a package of the stack beside its bound stays.
    let windows = "\u{feff}[project]\r\nname = \"demo\"\r\ndependencies = [\r\n  \"idna\",\r\n]\r\n[stack]\r\ntorch = \">=2.8\" # why\r\n";
    context.write("envlock.toml", windows);
    context.run(&[&["add", "torch>=2.9", "requests"], &H200[..]].concat()).expect(0);
    let written = context.read("envlock.toml");
    let expected = windows.replace("\"idna\",", "\"idna\",\r\n  \"requests\",").replace(">=2.8", ">=2.9");
    assert_eq!(written, expected);
    // A list that another file states is not begun here.
    for text in [
        "[project]\nname = \"x\"\nversion = \"1\"\ndynamic = [\"dependencies\"]\n[tool.envlock]\n",
        "[tool.envlock]\n[tool.uv.workspace]\nmembers = []\n",
    ] {
        let other = TestContext::with_index(&server);
        other.write("pyproject.toml", text);
        let run = other.run(&["add", "idna", "--gpu", "none"]).expect(2);
        assert!(run.flat().contains("then run `envlock resolve`"), "{}", run.shown());
        assert_eq!(other.read("pyproject.toml"), text);
    }
    // What cannot be solved is taken back.
    context.write("envlock.toml", &list("[\"idna\"]"));
    let before = context.read("envlock.toml");
    context.run(&["add", "nosuchpackage"]).expect(1);
    assert_eq!(context.read("envlock.toml"), before);
    context.run(&["remove", "nosuchpackage"]).expect(2);
    assert_eq!(
        context.run(&["resolve", "torch"]).expect(2).stderr.lines().next().unwrap(),
        "error: packages cannot be named on the command line beside envlock.toml"
    );
    // The table of a package with extras is changed, and no second requirement is written beside it.
    let stack = TestContext::new();
    stack.write(
        "envlock.toml",
        "[project]\nname = \"x\"\n[stack]\ntorch = { version = \">=2\", extras = [\"opt-einsum\"] }\n",
    );
    stack.run(&["add", "torch[opt-einsum]<2.10", "--gpu", "none", "--stack-only"]).expect(0);
    assert!(
        stack.read("envlock.toml").contains("torch = { version = \"<2.10\", extras = [\"opt-einsum\"] }")
    );
    let asked = context.run(&["resolve", "idna", "--gpu", "none", "--dry-run"]).expect(0);
    assert!(asked.stdout.contains("solved 1 package"), "{}", asked.shown());
    assert_eq!(context.read("envlock.toml"), before);
}

#[test]
fn init_writes_what_can_be_read() {
    let context = TestContext::new();
    context.write("requirements.txt", "# deps\ntorch==2.9.1 --hash=sha256:00\nnumpy>=1.26 ; python_version >= '3.9'\n-r other.txt\n-c limits.txt\n--index-url https://x/\n\nrequests[socks]\n");
    context.write("other.txt", "idna\n");
    context.write("limits.txt", "idna<4\n");
    context.run(&["init", "--from", "requirements.txt", "--python", ">=3.11"]).expect(0);
    insta::assert_snapshot!("init_from_requirements", context.read("envlock.toml"));
    let again = context.run(&["init"]).expect(2);
    assert!(again.stderr.contains("exists"), "{}", again.shown());
    let conda = TestContext::new();
    conda.write("env.yml", "name: x\ndependencies:\n  - python=3.11\n  - pytorch=2.5\n  - pytorch-cuda=12.4\n  - pip:\n    - transformers>=4\n");
    conda.run(&["init", "--from", "env.yml"]).expect(0);
    insta::assert_snapshot!("init_from_environment", conda.read("envlock.toml"));
    let other = TestContext::new();
    other.write("pyproject.toml", "[project]\nname = \"x\"\ndependencies = [\"numpy\"]\n");
    other.run(&["init", "--from", "pyproject.toml"]).expect(0);
    assert!(!other.read("envlock.toml").contains("torch"), "what was not asked for is not added");
    other.run(&["init", "--from", "setup.py", "--force"]).expect(2);
    // A setup.py is read, not run; also where pyproject.toml states no requirements.
    let setup = TestContext::new();
    setup.write("setup.py", "from setuptools import setup\nreqs = ['idna>=3', 'requests']\nsetup(name='x', version='1', python_requires='>=3.10', install_requires=reqs, extras_require={'dev': ['pytest']})\n");
    setup.write("pyproject.toml", "[build-system]\nrequires = [\"setuptools\"]\n");
    for (file, rest) in [("setup.py", &[][..]), ("pyproject.toml", &[]), ("setup.py", &["--extra", "dev"])] {
        let run = setup.run(&[&["init", "--force", "--from", file], rest].concat()).expect(0);
        let manifest = setup.read("envlock.toml");
        assert!(manifest.contains("\"idna>=3\"") && manifest.contains("python = \">=3.10\""), "{manifest}");
        assert_eq!(manifest.contains("pytest"), !rest.is_empty(), "{manifest}");
        assert_eq!(run.stderr.contains("`--extra dev` imports it"), rest.is_empty(), "{}", run.shown());
    }
    setup.run(&["init", "--force", "--from", "setup.py", "--extra", "nope"]).expect(2);
    setup.write(
        "setup.py",
        "import os\nfrom setuptools import setup\nsetup(install_requires=[os.environ['X']])\n",
    );
    let run = setup.run(&["init", "--force", "--from", "setup.py"]).expect(2);
    assert!(run.flat().contains("`install_requires` depends on `os.environ`"), "{}", run.shown());
    let fresh = TestContext::new();
    fresh.write(".python-version", "3.11.7\n");
    fresh.run(&["init", "--torch", ">=2.8"]).expect(0);
    let manifest = fresh.read("envlock.toml");
    assert!(manifest.contains("torch = \">=2.8\"") && manifest.contains("python = \">=3.11\""), "{manifest}");
    let bad = TestContext::new();
    bad.run(&["init", "--torch", ">=two"]).expect(2);
    assert!(!bad.exists("envlock.toml"));
}

#[test]
fn two_at_once_corrupt_nothing() {
    let server = server();
    let context = TestContext::with_index(&server);
    let children: Vec<_> = (0..4)
        .map(|_| {
            context
                .command()
                .args(resolve(&["torch==2.9.1"], &H200))
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    context.run(&["export", "requirements.txt"]).expect(0);
    assert_eq!(leftovers(&context.project()), Vec::<String>::new());
}

#[test]
fn stack_only_needs_no_network() {
    let context = TestContext::new();
    let run = context
        .run(&resolve(
            &["torch", "transformers"],
            &[&H200[..], &["--stack-only", "--only-index", "pypi"]].concat(),
        ))
        .expect(0);
    insta::assert_snapshot!("stack_only", run.shown());
    assert!(!context.exists("environment.yml"));
    let export = context.run(&["export", "requirements.txt"]).expect(2);
    assert!(export.stderr.contains("--stack-only"), "{}", export.shown());
}

#[test]
fn stack_only_does_not_replace_a_full_lock() {
    let server = server();
    let context = TestContext::with_index(&server);
    context.run(&resolve(&["torch"], &H200)).expect(0);
    let full = context.read("envlock.lock");
    let stack = |rest: &[&'static str]| resolve(&["torch", "--stack-only"], &[&H200[..], rest].concat());
    let run = context.run(&stack(&[])).expect(2);
    assert!(run.flat().contains("`--stack-only` would drop them"), "{}", run.shown());
    context.run(&stack(&["--dry-run"])).expect(0);
    assert_eq!(context.read("envlock.lock"), full);
    context.run(&stack(&["--force"])).expect(0);
    assert!(context.read("envlock.lock").contains("level = \"stack\""));
}

#[test]
fn help_version_completions_and_man() {
    let context = TestContext::new();
    let version = context.run(&["--version"]).expect(0);
    assert!(version.stdout.contains("(registry 20"), "{}", version.shown());
    assert!(context.run(&["completions", "bash"]).expect(0).stdout.contains("_envlock"));
    // As it is: the output of `run` has no spaces at the ends of lines.
    let page = String::from_utf8(context.command().arg("man").output().unwrap().stdout).unwrap();
    assert!(page.contains(".TH envlock"));
    // The wheel has the page, and completions that ask the program.
    let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging/data/share");
    let there = std::fs::read_to_string(packaging.join("man/man1/envlock.1")).unwrap();
    assert!(page == there, "run `envlock man > packaging/data/share/man/man1/envlock.1`");
    #[cfg(unix)]
    {
        let folder = std::path::Path::new(env!("CARGO_BIN_EXE_envlock")).parent().unwrap();
        let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
        let script = packaging.join("bash-completion/completions/envlock");
        let line = format!("source '{}' && complete -p envlock", script.display());
        match std::process::Command::new("bash").args(["-c", &line]).env("PATH", path).output() {
            Ok(out) => assert!(
                String::from_utf8_lossy(&out.stdout).contains("_envlock"),
                "{}",
                String::from_utf8_lossy(&out.stderr)
            ),
            Err(_) => super::context::skipped("no bash is here: its completions are not loaded"),
        }
    }
    insta::assert_snapshot!("help", context.run(&["--help"]).expect(0).stdout);
    assert!(context.run(&["registry", "lint"]).expect(0).stdout.contains("no problems"));
    assert!(context.run(&["registry", "show", "torch", "2.9.1"]).expect(0).stdout.contains("9.10.2.21"));
    context.run(&["registry", "show", "torch", "9.9.9"]).expect(1);
}

#[test]
fn questions_that_are_not_the_ones_meant() {
    let context = TestContext::new();
    let table: [(&[&str], &str); 3] = [
        (&["torch", "--stack-only", "--driver", "100"], "no release of the driver branch `100` is known"),
        (&["torch", "--stack-only", "--driver", "12.2"], "`12.2` is not a driver version"),
        (&["numpy", "--stack-only", "--gpu", "H200"], "none of them is requested"),
    ];
    for (arguments, expected) in table {
        let run = context.run(&resolve(arguments, &[])).expect(2);
        assert!(run.flat().contains(expected), "{}", run.shown());
        assert!(!context.exists("envlock.lock"));
    }
}

#[test]
fn a_pyproject_is_a_manifest() {
    let server = server();
    let context = TestContext::with_index(&server);
    let text = "[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \">=3.11,<3.14\"\ndependencies = [\"requests\"]  # mine\n\n[build-system]\nrequires = [\"x\"]\n\n[tool.envlock.stack]\ntorch = \">=2.8\"\n\n[tool.envlock.target.box]\ngpus = [\"H200\"]\ndriver = \"580.159.04\"\n";
    // Without our table it is other tools' alone.
    context.write("pyproject.toml", "[project]\nname = \"demo\"\n");
    let run = context.run(&["resolve"]).expect(2);
    assert!(run.stderr.contains("there is no envlock.toml here"), "{}", run.shown());
    context.write("pyproject.toml", text);
    let run = context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    assert!(run.stdout.contains("newest of >=3.11,<3.14"), "{}", run.shown());
    assert!(context.read("environment.yml").contains("name: demo\n"));
    context.run(&["add", "idna", "torch>=2.9", "--only-index", "pypi"]).expect(0);
    let after = context.read("pyproject.toml");
    assert!(
        after.contains("[\"requests\", \"idna\"]  # mine") && after.contains("torch = \">=2.9\""),
        "{after}"
    );
    context.run(&["remove", "torch", "--only-index", "pypi"]).expect(0);
    assert!(!context.read("envlock.lock").contains("name = \"torch\""));
    context.run(&["resolve", "--locked", "--only-index", "pypi"]).expect(0);
    let wrong = text.replace("torch = \">=2.8\"", "torch = 3");
    context.write("pyproject.toml", &wrong);
    let run = context.run(&["resolve"]).expect(2);
    assert!(run.stderr.contains("pyproject.toml:11: `torch` must be a specifier"), "{}", run.shown());
    context.write("pyproject.toml", &text.replace(".stack]", ".stak]"));
    let run = context.run(&["resolve"]).expect(2);
    assert!(run.stderr.contains("unknown field `stak`"), "{}", run.shown());
    // A list that the build computes is named.
    let dynamic = text.replace("version = \"1\"", "version = \"1\"\ndynamic = [\"optional-dependencies\"]");
    context.write("pyproject.toml", &dynamic);
    let run = context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    assert!(
        run.flat().contains("`optional-dependencies` of pyproject.toml is not locked"),
        "{}",
        run.shown()
    );
    // Where both stand, envlock.toml is the manifest.
    context.write("envlock.toml", "[project]\ndependencies = [\"filelock\"]\n");
    context.run(&["resolve", "--gpu", "none"]).expect(0);
    assert!(context.read("envlock.lock").contains("name = \"filelock\""));
}

/// An index that does not answer takes only its own ways out with it.
#[test]
fn leaving_out_a_request_is_a_way_out_where_the_other_index_is_silent() {
    let mut all = little_pypi();
    all.push(("pypi", wheel("onlysource", "1.0").tags("cp36-cp36m-win32")));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&server);
    context.set("ENVLOCK_PYTORCH_INDEX_URL", "http://127.0.0.1:9/whl");
    let only = ["--only-index", "pypi"];
    let run = context.run(&resolve(&["torch", "onlysource", "idna"], &[&H200[..], &only].concat())).expect(1);
    assert!(run.stdout.contains("without onlysource"), "{}", run.shown());
}

/// A driver branch means its oldest release in cuda.toml, and that is said.
#[test]
fn a_driver_branch_means_its_oldest_release() {
    let context = TestContext::new();
    for (branch, release) in [("535", "535.54.03"), ("580", "580.65.06"), ("525", "525.60.13")] {
        let run = context
            .run(&resolve(&["torch"], &["--stack-only", "--dry-run", "--gpu", "A100", "--driver", branch]))
            .expect(0);
        let said = format!("driver branch {branch}: using its oldest known release, {release}");
        assert!(run.flat().contains(&said), "{}", run.shown());
    }
    let unknown = context.run(&resolve(&["torch"], &["--stack-only", "--driver", "541"])).expect(2);
    assert!(
        unknown.flat().contains("nearest branches with a known release are `535` and `545`"),
        "{}",
        unknown.shown()
    );
    context
        .write("envlock.toml", "[stack]\ntorch = \"*\"\n[target.a]\ngpus = [\"A100\"]\ndriver = \"535\"\n");
    let run = context.run(&["resolve", "--stack-only", "--dry-run"]).expect(0);
    assert!(
        run.flat().contains("driver branch 535: using its oldest known release, 535.54.03"),
        "{}",
        run.shown()
    );
}

#[test]
fn no_requested_package_is_sacrificed_for_another() {
    let mut all = little_pypi();
    // The old release bounds nothing; the newer ones follow torch.
    all.push(("pypi", wheel("engine", "0.2").needs("torch>=2.0")));
    all.push(("pypi", wheel("engine", "0.9").needs("torch==2.10.0")));
    all.push(("pypi", wheel("engine", "1.0").needs("torch==2.10.0").needs("idna>=99")));
    all.push(("pypi", wheel("follower", "1.0").needs("torch>=2.0")));
    all.push(("pypi", wheel("follower", "2.0").needs("torch==2.10.0")));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let machine = ["--gpu", "H200", "--driver", "580.159.04"];
    for packages in [["torch", "engine"], ["engine", "torch"]] {
        let run = context.run(&[&["resolve", "--force"], &packages[..], &machine[..]].concat()).expect(0);
        assert!(run.flat().contains("torch 2.10.0") && run.flat().contains("engine 0.9"), "{}", run.shown());
    }
    // The old release could not foresee a torch that all later ones exclude.
    let pinned = ["resolve", "--force", "torch==2.15.0", "engine"];
    let run = context.run(&[&pinned[..], &machine[..]].concat()).expect(1);
    let told = "engine 0.9 needs torch==2.10.0: an older engine without such a bound is not taken beside a newer torch";
    assert!(run.flat().contains(told), "{}", run.shown());
    // Unless the user says so.
    let own = ["resolve", "--force", "torch==2.15.0", "engine==0.2"];
    let run = context.run(&[&own[..], &machine[..]].concat()).expect(0);
    assert!(run.flat().contains("engine 0.2"), "{}", run.shown());
    let stated = TestContext::with_index(&server);
    stated.write(
        "envlock.toml",
        "[project]\ndependencies = [\"engine\"]\n[stack]\ntorch = \"==2.15.0\"\n\
         [[metadata]]\nname = \"engine\"\nversion = \"0.2\"\nrequires-dist = [\"torch>=2.0\"]\n",
    );
    let run = stated.run(&[&["resolve"], &machine[..]].concat()).expect(0);
    assert!(run.flat().contains("engine 0.2"), "{}", run.shown());
    // All but the stack can be the newest: one that does not depend on it does not step back either.
    let run =
        context.run(&[&["resolve", "--force", "torch", "follower", "idna"], &machine[..]].concat()).expect(0);
    assert!(run.flat().contains("torch 2.10.0") && run.flat().contains("idna 3.11"), "{}", run.shown());
    context.run(&[&["resolve", "--force", "engine", "torch"], &machine[..]].concat()).expect(0);
    // What is locked stays.
    let lock = context.read("envlock.lock");
    context.run(&[&["resolve", "engine", "torch"], &machine[..]].concat()).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
}

/// A bound of the metadata that is hardly above the newest is not why a package is old.
#[test]
fn the_tightest_bound_is_told_whoever_states_it() {
    let mut all = little_pypi();
    for version in ["2.4.0", "2.6.0"] {
        all.push(("pypi", wheel("numpy", version).tags("cp311-cp311-manylinux2014_x86_64")));
    }
    all.push(("pypi", wheel("sci", "1.0").needs("numpy>=1.23,<2.5")));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let machine = ["--gpu", "V100", "--driver", "580.65.06", "--python", "3.11", "--only-index", "pypi"];
    let run = context.run(&[&["resolve", "torch==2.0.1", "sci", "numpy"], &machine[..]].concat()).expect(0);
    let told = "numpy 1.26.4 is a major version behind 2.6.0: torch before 2.3 was compiled against NumPy 1";
    assert!(run.flat().contains(told), "{}", run.shown());
}

#[test]
fn who_keeps_a_requested_package_far_behind_is_told() {
    let mut all = vec![
        ("pypi", wheel("part", "1.4")),
        ("pypi", wheel("part", "2.0")),
        ("pypi", wheel("part", "3.0rc1")),
        ("pypi", wheel("user", "1.0").needs("part<2")),
        ("pypi", wheel("other", "1.0").needs("part!=2.0")),
        ("pypi", wheel("deep", "1.0")),
        ("pypi", wheel("deep", "2.0").needs("part>=2")),
        ("pypi", wheel("pair", "1.0")),
        ("pypi", wheel("pair", "2.0")),
        ("pypi", wheel("pair", "2.1")),
        ("pypi", wheel("a-loose", "1.0").needs("pair<2.1")),
        ("pypi", wheel("tight", "1.0").needs("pair<2")),
        ("pypi", wheel("yearly", "2024.1")),
        ("pypi", wheel("yearly", "2026.1")),
        ("pypi", wheel("yearly-user", "1.0").needs("yearly<2025")),
        ("pypi", wheel("many-user", "1.0").needs("many==0.0")),
        // A newer release of the same line is no step.
        ("pypi", wheel("many", "0.0.1")),
    ];
    all.extend((0..=10).map(|minor| ("pypi", wheel("many", &format!("0.{minor}")))));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let table: &[(&[&str], Option<&str>)] = &[
        (&["part"], None),
        (&["part<2"], None),
        (&["part", "part<2"], None),
        (&["part", "user"], Some("note: part 1.4 is a major version behind 2.0: user 1.0 requires `part<2`")),
        (&["part", "user", "other"], Some("other 1.0 requires `part!=2.0`; 1 more package excludes it")),
        (&["user"], None),
        // What excludes it does not stand in the answer: the command that proves it is named.
        (
            &["deep", "user"],
            Some("deep 1.0 is a major version behind 2.0: see `envlock why --not 'deep==2.0'`"),
        ),
        (&["yearly", "yearly-user"], None),
        // Of two bounds the one that leaves less.
        (
            &["pair", "a-loose", "tight"],
            Some("pair 1.0 is a major version behind 2.1: tight 1.0 requires `pair<2`"),
        ),
        (
            &["many", "many-user"],
            Some("many 0.0 is 10 minor lines behind 0.10: many-user 1.0 requires `many==0.0`"),
        ),
    ];
    for (packages, expected) in table {
        let context = TestContext::with_index(&server);
        let run = context.run(&resolve(packages, &["--gpu", "none"])).expect(0);
        match expected {
            Some(text) => assert!(run.flat().contains(text), "{packages:?} {}", run.shown()),
            None => assert!(!run.flat().contains(" behind "), "{packages:?} {}", run.shown()),
        }
        if packages.contains(&"deep") {
            let why = context.run(&["why", "--not", "deep==2.0"]).expect(0);
            assert!(why.flat().contains("part"), "{}", why.shown());
        }
        // What is locked was told when it was locked.
        let again = context.run(&resolve(packages, &[])).expect(0);
        assert!(!again.flat().contains(" behind "), "{packages:?} {}", again.shown());
    }
}

#[test]
fn patch_releases_of_python_that_the_request_and_the_packages_allow() {
    let server = IndexServer::start(
        vec![
            ("pypi", wheel("early", "1.0").python(">=3.12.3")),
            ("pypi", wheel("late", "1.0").python("<3.12.9")),
            ("pypi", wheel("plain", "1.0")),
            ("pypi", wheel("marked", "1.0").needs("early; python_full_version < '3.11.3'")),
        ],
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    let context = TestContext::with_index(&server);
    let lock = |packages: &[&str], python: &str| {
        let _ = std::fs::remove_file(context.project().join("envlock.lock"));
        context.run(&resolve(packages, &["--gpu", "none", "--python", python])).expect(0);
        context.run(&["resolve", "--locked"]).expect(0);
        let lock = context.read("envlock.lock");
        lock.lines().find_map(|line| line.strip_prefix("python-patches = ")).map(str::to_owned)
    };
    assert_eq!(lock(&["plain"], ">=3.11,<3.13"), None);
    // For earlier ones, a marker requires what is not locked.
    assert_eq!(lock(&["marked"], "3.11").as_deref(), Some("\">=3.11.3\""));
    assert_eq!(lock(&["plain"], ">=3.12.4,<3.13").as_deref(), Some("\">=3.12.4\""));
    assert_eq!(lock(&["early", "late"], ">=3.12,<3.13").as_deref(), Some("\">=3.12.3,<3.12.9\""));
    // What verify and sync hold an environment against.
    let prefix = context.dir.path().join("env");
    let site = prefix.join("lib/python3.12/site-packages");
    std::fs::create_dir_all(&site).unwrap();
    super::verify::interpreter(&prefix);
    super::verify::install(&site, &wheel("early", "1.0").python(">=3.12.3"));
    super::verify::install(&site, &wheel("late", "1.0").python("<3.12.9"));
    let named = prefix.display().to_string();
    for (version, code) in [("3.12.1", 1), ("3.12.3", 0), ("3.12.8", 0), ("3.12.9", 1)] {
        std::fs::write(prefix.join("pyvenv.cfg"), format!("home = /usr/bin\nversion = {version}\n")).unwrap();
        let run = context.run(&["verify", "--prefix", &named, "--smoke", "off"]).expect(code);
        let told = format!("the environment has Python {version}, the lock is for 3.12 (>=3.12.3,<3.12.9)");
        assert_eq!(run.flat().contains(&told), code == 1, "{}", run.shown());
    }
}

/// As pip and uv: the newest release is taken, and the extra that it does not have is said.
#[test]
fn an_extra_that_does_not_exist_is_a_warning() {
    let server = server();
    let context = TestContext::with_index(&server);
    let run = context.run(&resolve(&["requests[nope]", "idna"], &["--gpu", "none"])).expect(0);
    assert!(
        run.flat().contains("has no extra `nope`, which is ignored; its extras: socks"),
        "{}",
        run.shown()
    );
    context.run(&["resolve", "--locked"]).expect(0);
}

/// Where no single change helps, sets of changes do: each with one change less has no solution.
#[test]
fn changes_that_only_help_together() {
    let mut all = little_pypi();
    all.push(("pypi", wheel("left", "1.0").needs("middle<2")));
    all.push(("pypi", wheel("left", "2.0").needs("middle")));
    all.push(("pypi", wheel("right", "1.0").needs("middle>=3")));
    all.push(("pypi", wheel("right", "2.0").needs("middle")));
    for version in ["1.0", "2.0", "3.0"] {
        all.push(("pypi", wheel("middle", version)));
    }
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let asked = ["left==1.0", "middle==2.0", "right==1.0"];
    let run = context.run(&resolve(&asked, &["--gpu", "none", "--python", "3.12"])).expect(1);
    insta::assert_snapshot!("changes_that_only_help_together", run.shown());
    // What is offered is true, and nothing in it is needless.
    let pairs = [["left==2.0", "middle==2.0", "right==2.0"], ["left==2.0", "middle==3.0", "right==1.0"]];
    for pair in pairs {
        context.run(&resolve(&pair, &["--gpu", "none", "--python", "3.12", "--dry-run"])).expect(0);
    }
}

/// Two causes have one way out: two packages change together.
#[test]
fn independent_causes_have_ways_out_of_all() {
    let server = server();
    let context = TestContext::with_index(&server);
    let options = ["--gpu", "none", "--python", "3.12"];
    let run = context.run(&resolve(&["requests==99", "idna==77"], &options)).expect(1);
    let (_, of_all) =
        run.stdout.split_once("ways out of all of it, each of them solved:").expect("no way out");
    let change = of_all.trim().split_once("  ").unwrap().0.to_owned();
    let asked: Vec<String> = change.split(" and ").map(|one| one.replace(' ', "==")).collect();
    let asked: Vec<&str> = asked.iter().map(String::as_str).collect();
    assert_eq!(asked.len(), 2, "{}", run.shown());
    context.run(&resolve(&asked, &options)).expect(0);
}

/// Each cause with its ways out, which are solved with the rest out of the way.
#[test]
fn every_independent_cause_is_named() {
    let server = server();
    let context = TestContext::with_index(&server);
    let asked = ["requests==99", "idna==77", "no-such-thing", "torchvision==0.15.0", "torch"];
    let options = ["--gpu", "A100", "--driver", "580.65.06", "--only-index", "pypi"];
    let run = context.run(&resolve(&asked, &options)).expect(1);
    insta::assert_snapshot!("several_causes", run.shown());
    let json = context.run(&resolve(&asked, &[&options[..], &["--json"]].concat())).expect(1).json();
    let also = json["conflict"]["also"].as_array().unwrap();
    assert_eq!(also.len(), 3);
    assert!(also.iter().all(|cause| !cause["would_work_if"].as_array().unwrap().is_empty()), "{json:#}");
    // An index that does not answer is not said to lack a package.
    let mut silent = TestContext::with_index(&server);
    silent.set("ENVLOCK_INDEX_URL", "http://127.0.0.1:9/simple");
    let run = silent.run(&resolve(&asked, &options)).expect(1);
    let told = || run.stdout.lines().filter(|line| !line.starts_with("      envlock "));
    assert!(
        !told().any(|line| line.contains("no-such-thing") || line.contains("requests==")),
        "{}",
        run.shown()
    );
    assert!(run.flat().contains("the command asks for the rest, too: torchvision"), "{}", run.shown());
    assert!(run.flat().contains("without an answer of the index pypi"), "{}", run.shown());
}

/// The locks of uv and poetry bound the versions of what the pyproject.toml beside them requires.
#[test]
fn init_from_the_locks_of_uv_and_poetry() {
    let all = ["2.31.0", "2.32.0"].map(|version| ("pypi", wheel("requests", version).needs("idna>=3")));
    let mut all = all.to_vec();
    all.extend(["3.10", "3.11"].map(|version| ("pypi", wheel("idna", version))));
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let project = "[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \">=3.11\"\ndependencies = [\"requests>=2\"]\n";
    let package = |name: &str, version: &str, source: &str| {
        format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n{source}\n")
    };
    let of_uv = "source = { registry = \"https://i.example/simple\" }";
    let of_git = "source = { type = \"git\", url = \"https://h.example/o/tool.git\" }";
    let lock = |source: &str| {
        let torch = match source.is_empty() {
            true => "[package.dependencies]\nnvidia-cublas-cu12 = \"12.8.4.1\"\n",
            false => "dependencies = [{ name = \"nvidia-cublas-cu12\" }]\n",
        };
        let packages = [
            package("Requests", "2.31.0", source),
            package("idna", "3.10", source),
            package("torch", "2.9.1+cu128", &format!("{source}\n{torch}")),
            package("nvidia-cublas-cu12", "12.8.4.1", source),
            package("nvidia-ml-py", "13.0", source),
            package("", "1.0", source),
            package("tool", "1.0", of_git),
            package("numpy", "2.2.6", source),
            package("numpy", "2.3.0", source),
            package("odd", "no version", source),
        ];
        packages.concat()
    };
    for (file, source) in [("uv.lock", of_uv), ("poetry.lock", "")] {
        let context = TestContext::with_index(&server);
        context.write("pyproject.toml", project);
        context.write(file, &lock(source));
        let run = context.run(&["init", "--from", file]).expect(0);
        let text = context.read("envlock.toml");
        assert!(text.contains("\"requests>=2\"") && text.contains("python = \">=3.11\""), "{text}");
        let bounds: Vec<&str> = text.lines().filter(|line| line.contains("==")).map(str::trim).collect();
        assert_eq!(
            bounds,
            ["\"idna==3.10\",", "\"nvidia-ml-py==13.0\",", "\"requests==2.31.0\",", "\"torch==2.9.1\","],
            "{text}"
        );
        for left_out in ["the version of numpy", "the commit of tool"] {
            assert!(run.flat().contains(left_out), "{}", run.shown());
        }
        context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
        let lock = context.read("envlock.lock");
        assert!(lock.contains("version = \"2.31.0\"") && lock.contains("version = \"3.10\""), "{lock}");
    }
    let context = TestContext::new();
    context.write("uv.lock", &lock(of_uv));
    let run = context.run(&["init", "--from", "uv.lock"]).expect(2);
    assert!(run.flat().contains("`uv.lock` does not say what the project requires"), "{}", run.shown());
    context.write("pyproject.toml", "[tool.uv.workspace]\nmembers = [\"pkgs/*\"]\n");
    let run = context.run(&["init", "--from", "uv.lock"]).expect(2);
    assert!(run.flat().contains("that of a workspace"), "{}", run.shown());
    context.write("pyproject.toml", project);
    context.write("uv.lock", "[[package]]\nname = 1\n");
    let run = context.run(&["init", "--from", "uv.lock"]).expect(2);
    assert!(run.flat().contains("uv.lock:2: "), "{}", run.shown());
}

#[test]
fn init_from_the_locks_of_pixi_and_conda_lock() {
    let conda = |name: &str, version: &str, build: &str| {
        format!("https://c.example/conda-forge/linux-64/{name}-{version}-{build}.conda")
    };
    let records = [
        ("python", "3.12.7", "hc5c86c4_0_cpython"),
        ("numpy", "2.2.6", "py312h72c5963_0"),
        ("pytorch", "2.7.1", "cuda129_mkl_py312_h6bb0a4e_304"),
        ("requests", "2.31.0", "pyhd8ed1ab_0"),
        // No Python package, although PyPI has one of this name.
        ("xz", "5.8.1", "hbcc6ac9_2"),
        ("triton", "3.5.1", "cuda129py312h_0"),
    ];
    let listed: Vec<String> =
        records.iter().map(|(n, v, b)| format!("      - conda: {}\n", conda(n, v, b))).collect();
    let packages: Vec<String> =
        records.iter().map(|(n, v, b)| format!("- conda: {}\n", conda(n, v, b))).collect();
    let pixi = format!(
        "version: 6\nenvironments:\n  default:\n    channels: []\n    packages:\n      linux-64:\n{}      - pypi: https://f.example/einops-0.8.1-py3-none-any.whl\npackages:\n{}- pypi: https://f.example/einops-0.8.1-py3-none-any.whl\n  name: einops\n  version: 0.8.1\n",
        listed.concat(),
        packages.concat()
    );
    let packages: Vec<String> = records
        .iter()
        .map(|(n, v, b)| {
            format!("- name: {n}\n  version: {v}\n  manager: conda\n  platform: linux-64\n  dependencies: {{}}\n  url: {}\n  hash:\n    md5: aa\n  category: main\n  optional: false\n", conda(n, v, b))
        })
        .collect();
    let conda_lock = format!(
        "version: 1\nmetadata:\n  sources:\n  - env/base.yml\npackage:\n{}- name: einops\n  version: 0.8.1\n  manager: pip\n  platform: linux-64\n  dependencies: {{}}\n  url: https://f.example/einops-0.8.1-py3-none-any.whl\n  hash:\n    sha256: bb\n  category: main\n  optional: false\n",
        packages.concat()
    );
    let context = TestContext::new();
    for (file, lock, manifest, stated) in [
        (
            "pixi.lock",
            &pixi,
            "pixi.toml",
            "[workspace]\nchannels = [\"conda-forge\"]\nplatforms = [\"linux-64\"]\n[dependencies]\npytorch = \">=2.5\"\nrequests = \"*\"\n[pypi-dependencies]\neinops = \"*\"\n",
        ),
        (
            "conda-lock.yml",
            &conda_lock,
            "env/base.yml",
            "channels: [conda-forge]\ndependencies:\n- pytorch >=2.5\n- requests\n- pip:\n  - einops\n",
        ),
    ] {
        context.write(file, lock);
        let run = context.run(&["init", "--force", "--from", file]).expect(2);
        assert!(run.flat().contains(&format!("that is in `{manifest}`")), "{}", run.shown());
        context.write(manifest, stated);
        context.run(&["init", "--force", "--from", file]).expect(0);
        let text = context.read("envlock.toml");
        assert!(text.contains("torch = \">=2.5\"") && text.contains("\"einops\""), "{text}");
        let bounds: Vec<&str> = text.lines().filter(|line| line.contains("==")).map(str::trim).collect();
        assert_eq!(
            bounds,
            ["\"einops==0.8.1\",", "\"numpy==2.2.6\",", "\"requests==2.31.0\","],
            "{file}: {text}"
        );
        if cfg!(feature = "conda") {
            context.run(&["init", "--force", "--conda", "--from", file]).expect(0);
            let text = context.read("envlock.toml");
            let kept = text.split("[conda]").nth(1).unwrap_or_default();
            assert!(
                kept.contains("\"requests") && text.contains("source = \"conda-forge\""),
                "{file}: {text}"
            );
        }
    }
}
