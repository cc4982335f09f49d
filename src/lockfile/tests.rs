//! The lock as text and back.

use std::collections::BTreeSet;

use super::*;
use crate::model::capability::{CodeTargets, ComputeCapability, Via};
use crate::model::choice::Choice;
use crate::model::evidence::Evidence;
use crate::model::host::{Driver, Gpu};
use crate::model::owner::{Owner, PackageLock};
use crate::model::part::Part;
use crate::model::patches::Patches;
use crate::model::platform::Libc;
use crate::model::request::{Request, UserRequirement};
use crate::model::solution::{ChosenFile, Coverage, Edge, Framework};
use crate::model::source::{BuildKind, BuildRequirement, MetadataFrom, Source, SourceBuild};

fn request(requirements: &[&str]) -> Request {
    Request {
        requirements: requirements.iter().map(|r| UserRequirement::parse(r, "t".into()).unwrap()).collect(),
        ..Request::default()
    }
}

fn text_of(lock: &Lockfile) -> String {
    render(lock, "envlock.toml")
}

fn sample() -> Lockfile {
    let platform = Platform::LINUX_X86_64;
    let mut host = Host::open(platform, "nvml");
    host.system.libc = Some(Libc::Glibc("2.35".parse().unwrap()));
    host.driver = Some(Driver {
        version: "580.159.04".parse().unwrap(),
        cuda: None,
        compat: Some("595.45.04".parse().unwrap()),
        found_by: "nvml".into(),
    });
    host.gpus = Some(vec![Gpu {
        index: 0,
        name: Some("NVIDIA H200".into()),
        capability: Some(ComputeCapability::new(9, 0)),
        memory_mib: None,
        uuid: None,
        pci_id: None,
        found_by: "lock".into(),
    }]);
    Lockfile {
        format: FORMAT,
        registry_digest: "d".repeat(64),
        registry_date: "2026-11-21".into(),
        packages_in: None,
        request: request_lines(&request(&["torch>=2.8", "numpy"])),
        files: Vec::new(),
        targets: vec![Target {
            image: None,
            patches: Patches::default(),
            name: "default".into(),
            python: Python::new(12),
            platform,
            level: Level::Full,
            stack: Some(Stack {
                framework: "torch".into(),
                version: "2.9.1".parse().unwrap(),
                variant: "cu128".into(),
                cuda: Some(semver::Version::new(12, 8, 0)),
                cudnn: Some("9.10.2.21".parse().unwrap()),
                nccl: Some("2.27.5".parse().unwrap()),
                triton: Some("==3.5.1".into()),
                companions: [("torchvision".to_owned(), "0.24.1".parse().unwrap())].into(),
                index: "pypi".into(),
                evidence: Evidence::Measured,
                driver_mode: None,
                native_driver: Some("570.26".parse().unwrap()),
                wheel_bytes: None,
            }),
            frameworks: Vec::new(),
            envelope: Envelope {
                driver: Some("525.60.13".parse().unwrap()),
                glibc: Some("2.28".parse().unwrap()),
                platform,
                coverage: vec![Coverage {
                    compute_capability: ComputeCapability::new(7, 0),
                    via: Via::Sass,
                    driver_min: Some("525.60.13".parse().unwrap()),
                    driver_below: Some("590".parse().unwrap()),
                }],
            },
            host,
            packages: vec![
                ChosenPackage {
                    name: "numpy".into(),
                    version: "2.3.5".parse().unwrap(),
                    source: Source::Index("pypi".into()),
                    build: None,
                    groups: vec![],
                    files: vec![ChosenFile {
                        name: "numpy-2.3.5-cp312-cp312-linux_x86_64.whl".into(),
                        sha256: Some("a".repeat(64)),
                        hash_computed: true,
                        size: Some(5),
                    }],
                    metadata_sha256: Some("b".repeat(64)),
                    requires: vec![],
                    reason: Choice::Said("newest that \"fits\"".into()),
                    targets: None,
                    variant: None,
                },
                ChosenPackage {
                    name: "torch".into(),
                    version: "2.9.1".parse().unwrap(),
                    source: Source::Index("pypi".into()),
                    build: None,
                    groups: vec![],
                    files: vec![ChosenFile {
                        name: "torch-2.9.1-cp312-cp312-manylinux_2_28_x86_64.whl".into(),
                        sha256: Some("c".repeat(64)),
                        hash_computed: false,
                        size: Some(7),
                    }],
                    metadata_sha256: None,
                    requires: vec![Edge { to: "numpy".into(), requirement: "numpy>=1".into() }],
                    reason: Choice::Newest,
                    targets: Some((
                        CodeTargets {
                            sass: vec!["7.0".parse().unwrap(), "9.0".parse().unwrap()],
                            ptx: vec!["9.0".parse().unwrap()],
                        },
                        Evidence::Measured,
                    )),
                    variant: Some("cu128".into()),
                },
            ],
            conda: vec![],
        }],
    }
}

/// The sample with everything that format 2 has a place for.
fn with_sources() -> Lockfile {
    let mut lock = sample();
    let target = &mut lock.targets[0];
    let like = target.packages[0].clone();
    let digest = |c: char| c.to_string().repeat(64);
    let package = |name: &str, source: Source| ChosenPackage {
        name: name.into(),
        version: "1.0".parse().unwrap(),
        source,
        ..like.clone()
    };
    let commit = "0123456789abcdef0123456789abcdef01234567".to_owned();
    let repository = "https://example.org/team/repo.git".to_owned();
    target.packages = vec![
        ChosenPackage {
            build: Some(SourceBuild {
                metadata_from: MetadataFrom::AsPublished,
                kind: BuildKind::Cuda,
                newest_wheel: None,
                asks: Vec::new(),
                needs: vec!["torch".into()],
                requires: vec![BuildRequirement {
                    name: "setuptools".into(),
                    version: "80.9.0".parse().unwrap(),
                    file: "setuptools-80.9.0-py3-none-any.whl".into(),
                    sha256: digest('d'),
                }],
            }),
            groups: vec![Part::group("dev"), Part::extra("train")],
            files: vec![ChosenFile { name: "a_sdist-1.0.tar.gz".into(), ..like.files[0].clone() }],
            ..package("a-sdist", Source::Index("pypi".into()))
        },
        ChosenPackage {
            files: vec![ChosenFile { name: "b-1.0-py3-none-any.whl".into(), ..like.files[0].clone() }],
            ..package("b-url", Source::Url("https://example.org/b-1.0-py3-none-any.whl".into()))
        },
        ChosenPackage {
            files: vec![],
            build: Some(pure()),
            ..package("c-git", Source::Git { repository, commit, subdirectory: Some("sub".into()) })
        },
        ChosenPackage {
            files: vec![],
            build: Some(pure()),
            ..package("d-path", Source::Path("../libs/d".into()))
        },
    ];
    target.conda = vec![sample_of_conda_package()];
    lock.format = FORMAT_WITH_SOURCES;
    lock
}

fn sample_of_conda_package() -> CondaPackage {
    CondaPackage {
        name: "ffmpeg".into(),
        version: "7.1.1".into(),
        build: "gpl_h127656b_906".into(),
        channel: "conda-forge".into(),
        subdir: "linux-64".into(),
        file: "ffmpeg-7.1.1-gpl_h127656b_906.conda".into(),
        sha256: "e".repeat(64),
        md5: "f".repeat(32),
        size: 10_300_000,
        depends: vec!["libgcc >=13".into(), "__glibc >=2.17,<3.0.a0".into()],
        constrains: Vec::new(),
    }
}

/// The build of Python files alone.
fn pure() -> SourceBuild {
    SourceBuild {
        metadata_from: MetadataFrom::Exact,
        kind: BuildKind::Pure,
        newest_wheel: None,
        asks: Vec::new(),
        needs: Vec::new(),
        requires: Vec::new(),
    }
}

#[test]
fn sources_and_conda_packages_are_written_and_read_back() {
    let lock = with_sources();
    assert_eq!(lock.targets[0].format(), FORMAT_WITH_SOURCES);
    assert_eq!(sample().targets[0].format(), FORMAT);
    let text = text_of(&lock);
    assert_eq!(parse(&text).unwrap(), lock);
    assert_eq!(text_of(&parse(&text).unwrap()), text);
    insta::assert_snapshot!("lock_with_sources", text[text.find("[[package]]").unwrap()..].to_owned());
    // A second target that has the same of all is written with it.
    let mut two = lock.clone();
    two.targets.push(Target { name: "other".into(), ..two.targets[0].clone() });
    let text = text_of(&two);
    assert_eq!(text.matches("[[conda-package]]").count(), 1);
    assert_eq!(parse(&text).unwrap(), two);
}

#[test]
fn sources_in_a_lock_of_an_older_format_are_refused() {
    let text = text_of(&Lockfile { format: FORMAT_WITH_FRAMEWORKS, ..with_sources() });
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.contains("`a-sdist` has keys of format 2.0.0"), "{error}");
}

/// A lock's text with one change, and with a checksum of the change: an attacker computes it too.
fn forged(text: &str, from: &str, to: &str) -> Result<Lockfile, LockError> {
    assert!(text.contains(from), "{from}");
    let changed = text.replacen(from, to, 1);
    let body = changed[changed.find("registry = ").unwrap()..].to_owned();
    let head = changed[..changed.find("checksum = ").unwrap()].to_owned();
    parse(&format!("{head}checksum = \"{}\"\n{body}", super::render::checksum(&body)))
}

#[test]
fn forged_texts_are_refused() {
    let text = text_of(&sample());
    assert!(forged(&text, "size = 5", "size = 6").is_ok());
    for (from, to) in [
        ("name = \"numpy\"", "name = \"good==1.0\\n--index-url http://evil.example/\\nx\""),
        ("name = \"numpy\"", "name = \"numpy --pre\""),
        ("name = \"numpy\"", "name = \"NumPy\""),
        ("name = \"numpy\"", "name = \"\""),
        ("version = \"2.3.5\"", "version = \"1.0 @ http://evil.example/x.whl\""),
        ("index = \"pypi\"\nreason", "index = \"pytorch/../../evil\"\nreason"),
        ("index = \"pypi\"\nreason", "index = \"pytorch\\n--trusted-host x\"\nreason"),
        ("index = \"pypi\"\nreason", "index = \"\"\nreason"),
        ("index = \"pypi\"\nevidence", "index = \"x\\n--pre\"\nevidence"),
        ("numpy-2.3.5-cp312", "../numpy-2.3.5-cp312"),
        ("numpy-2.3.5-cp312", "numpy-2.3.5 -cp312"),
        // A file of another package, of another version.
        ("numpy-2.3.5-cp312", "evil-2.3.5-cp312"),
        ("numpy-2.3.5-cp312", "numpy-2.3.4-cp312"),
        ("numpy-2.3.5-cp312", "numpy-2.3.5+evil-cp312"),
        ("name = \"numpy\"", "name = \"torch\""),
        ("name = \"default\"", "name = \"x>requirements.txt\""),
        ("name = \"default\"", "name = \"--prefix=*\""),
        ("\"NVIDIA H200\"", "\"NVIDIA \u{202e}H200\""),
        ("\"numpy>=1\"", "\"numpy>=1\u{2028}x\""),
        ("\"aaaa", "\"AAAA"),
        ("\"aaaa", "\"aa\\n"),
        ("\"bbbb", "\"bb"),
        ("\"dddd", "\"../dd"),
        ("\"numpy>=1\"", "\"numpy>=1\\nx\""),
        ("\"numpy>=1\"", "\"--pre\""),
        ("triton = \"==3.5.1\"", "triton = \"==3.5.1\\nRUN x\""),
        ("variant = \"cu128\"", "variant = \"cu128\\nx\""),
        ("\"NVIDIA H200\"", "\"NVIDIA H200\\nRUN x\""),
        ("date = \"2026-11-21\"", "date = \"2026\\n\""),
    ] {
        let result = forged(&text, from, to);
        assert!(matches!(result, Err(LockError::Malformed(_))), "{from} -> {to}: {result:?}");
    }
}

#[test]
fn hostile_sources_are_refused() {
    let text = text_of(&with_sources());
    assert!(forged(&text, "size = 10300000", "size = 10300001").is_ok());
    for (from, to) in [
        ("https://example.org/b-1.0", "https://user:pw@example.org/b-1.0"),
        ("https://example.org/b-1.0", "file:///etc/b-1.0"),
        ("b-1.0-py3-none-any.whl\"", "b-1.0-py3-none-any.whl?token=0123456789abcdef\""),
        ("https://example.org/b-1.0", "https://example.org/b 1.0"),
        ("https://example.org/b-1.0", "https://example.org/b\\n--index-url x"),
        ("https://example.org/team", "--upload-pack=x"),
        ("0123456789abcdef0123456789abcdef01234567", "main"),
        ("\"../libs/d\"", "\"/etc\""),
        ("\"../libs/d\"", "\"d\\n-e x\""),
        ("\"../libs/d\"", "\"\""),
        ("\"../libs/d\"", "\"x\u{2028}cryptominer==6.6\""),
        ("\"../libs/d\"", "\"x --config-settings=k=v\""),
        ("a_sdist-1.0.tar.gz", "a_sdist-66.0.tar.gz"),
        ("file = \"setuptools-80", "file = \"anything-80"),
        ("file = \"setuptools-80.9.0", "file = \"setuptools-1.0"),
        ("path = \"../libs/d\"", "path = \"d\"\nindex = \"pypi\""),
        ("path = \"../libs/d\"\n", ""),
        ("build = \"cuda\"\n", ""),
        // The file that is downloaded is that of the address.
        ("org/b-1.0-py3-none-any.whl", "org/b-1.0.tar.gz"),
        ("org/b-1.0-py3", "org/${TOKEN}/b-1.0-py3"),
        ("org/b-1.0-py3-none-any.whl", "org/b-1.0-py3-none-any.whl#egg=evil"),
        ("team/repo.git", "team/repo.git#"),
        ("team/repo.git", "team/${TOKEN}.git"),
        ("\"../libs/d\"", "\"libs/x[evil]\""),
        ("\"../libs/d\"", "\"libs/x;os_name<os_name\""),
        ("subdirectory = \"sub\"", "subdirectory = \"sub&egg=evil\""),
        (
            "files = [\n    { name = \"a_sdist-1.0.tar.gz\"",
            "files = [\n    { name = \"a_sdist-1.0-py3-none-any.whl\", sha256 = \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\" },\n    { name = \"a_sdist-1.0.tar.gz\"",
        ),
        // Whether something is built decides whether its code runs at the installation.
        ("build = \"pure\"\nmetadata-from = \"exact\"\n", ""),
        (
            "/b-1.0-py3-none-any.whl\"\n",
            "/b-1.0-py3-none-any.whl\"\nbuild = \"pure\"\nmetadata-from = \"exact\"\n",
        ),
        ("build = \"cuda\"", "build = \"odd\""),
        ("build-needs = [\"torch\"]", "build-needs = [\"torch --pre\"]"),
        ("groups = [\"dev\"", "groups = [\"-x\""),
        ("\"extra:train\"", "\"extra:--pre\""),
        ("\"extra:train\"", "\"other:train\""),
        ("file = \"setuptools-", "file = \"../setuptools-"),
        ("\"dddd", "\"xxxx"),
        ("\"eeee", "\"EEEE"),
        ("\"ffff", "\"ff"),
        ("channel = \"conda-forge\"", "channel = \"../x\""),
        ("channel = \"conda-forge\"", "channel = \"https://example.org\""),
        ("\"libgcc >=13\"", "\"libgcc\\n@EXPLICIT\""),
    ] {
        let Err(LockError::Malformed(why)) = forged(&text, from, to) else { panic!("{from} -> {to}") };
        assert!(!why.contains("user:pw"), "{why}");
    }
    let with_login =
        forged(&text_of(&sample()), "requires = [", "requires = [\"x @ https://u:pw@h/x.whl\", ");
    let why = with_login.unwrap_err().to_string();
    assert!(why.contains("`x @ https://h/x.whl` is not a requirement without a login"), "{why}");
}

#[test]
fn text_and_back_and_the_same_text() {
    let lock = sample();
    let text = text_of(&lock);
    let back = parse(&text).unwrap();
    assert_eq!(back, lock);
    assert_eq!(text_of(&back), text);
    let mut shuffled = lock;
    shuffled.targets[0].packages.reverse();
    assert_eq!(text_of(&shuffled), text);
    assert!(!text.contains('\u{1b}'));
}

#[test]
fn accidents_are_noticed() {
    let text = text_of(&sample());
    assert_eq!(parse(&text.replace("2.3.5", "2.3.6")), Err(LockError::Edited));
    assert!(matches!(parse(&text[..text.len() / 2]), Err(LockError::Edited | LockError::Malformed(_))));
    let newer = text.replace("format = \"1.0.0\"", "format = \"3.0.0\"");
    assert_eq!(
        parse(&newer).unwrap_err().to_string(),
        "the lock has format 3.0.0, but this version of envlock reads 1.x and 2.x"
    );
    let merged = format!("<<<<<<< ours\n{text}");
    assert_eq!(parse(&merged), Err(LockError::MergeConflict { line: 1 }));
    assert!(matches!(parse(""), Err(LockError::Malformed(_))));
    assert!(matches!(parse("format = \"1.0.0\""), Err(LockError::Malformed(_))));
    // Any cut of the file is an error and never a panic.
    for cut in (0..text.len()).step_by(37) {
        if text.is_char_boundary(cut) {
            assert!(parse(&text[..cut]).is_err());
        }
    }
}

#[test]
fn currency() {
    let registry = crate::registry::frozen();
    let lock = sample();
    assert_eq!(stale(&lock, &request(&["numpy", "torch>=2.8"]), &registry), []);
    let changed = stale(&lock, &request(&["numpy", "torch>=2.9"]), &registry);
    assert_eq!(changed.len(), 2, "{changed:?}");
}

/// A change of a lock that only its content shows: the lines of its request are those of the manifest.
fn content(change: impl FnOnce(&mut Target), request: &Request) -> Vec<String> {
    let mut lock = sample();
    lock.request = request_lines(request);
    change(&mut lock.targets[0]);
    stale(&lock, request, &crate::registry::frozen()).iter().map(ToString::to_string).collect()
}

#[test]
fn content_that_does_not_answer_the_request_is_told() {
    let asked = request(&["numpy<3", "torch>=2.8"]);
    let none: [&str; 0] = [];
    assert_eq!(content(|_| {}, &asked), none);
    fn limit<T: std::str::FromStr>(text: &str) -> crate::model::request::Limit<T> {
        crate::model::request::Limit { value: text.parse().ok().unwrap(), origin: "t".into() }
    }
    let package = |name: &str, source: Source| ChosenPackage {
        name: name.into(),
        version: "6.6".parse().unwrap(),
        source,
        files: vec![ChosenFile {
            name: format!("{}-6.6-py3-none-any.whl", name.replace('-', "_")),
            sha256: Some("e".repeat(64)),
            hash_computed: false,
            size: Some(1),
        }],
        requires: vec![],
        ..sample().targets[0].packages[0].clone()
    };
    let pypi = || Source::Index("pypi".into());

    let newer = |target: &mut Target| target.packages[0].version = "66.0".parse().unwrap();
    assert_eq!(content(newer, &asked), ["the request has `numpy<3`, but the lock has numpy 66.0"]);
    let absent = |target: &mut Target| drop(target.packages.remove(0));
    assert_eq!(
        content(absent, &asked),
        [
            "the request has `numpy<3`, but the lock has no such package",
            "torch 2.9.1 requires `numpy>=1`, but the lock has no such package"
        ]
    );
    let miner = |target: &mut Target| target.packages.push(package("cryptominer", pypi()));
    assert_eq!(content(miner, &asked), ["the lock has cryptominer 6.6, which no request needs"]);
    let older = |target: &mut Target| target.packages[0].version = "0.9".parse().unwrap();
    assert_eq!(content(older, &asked), ["torch 2.9.1 requires `numpy>=1`, but the lock has numpy 0.9"]);
    let other_torch = |target: &mut Target| target.packages[1].version = "2.8.0".parse().unwrap();
    assert_eq!(
        content(other_torch, &asked),
        ["the lock's stack says torch 2.9.1, but its package is torch 2.8.0"]
    );
    let windows = |target: &mut Target| {
        target.packages[0].files[0].name = "numpy-2.3.5-cp312-cp312-win_amd64.whl".into();
    };
    assert_eq!(content(windows, &asked), ["numpy 2.3.5 has no file for Python 3.12 on linux-x86_64"]);

    let cpu = Request { variant: Some(limit("cpu")), ..request(&["numpy", "torch"]) };
    assert_eq!(content(|_| {}, &cpu), ["the request has `variant cpu`, but the lock has cu128"]);
    let cuda = Request { cuda: Some(limit(">=12.9")), ..request(&["numpy", "torch"]) };
    assert_eq!(content(|_| {}, &cuda), ["the request has `cuda >=12.9`, but the lock has CUDA 12.8.0"]);
    // A request that does not apply needs nothing.
    let elsewhere = request(&["numpy<3", "torch", "cryptominer==1.0; sys_platform == 'win32'"]);
    assert_eq!(content(miner, &elsewhere), ["the lock has cryptominer 6.6, which no request needs"]);
    let stack_alone = |target: &mut Target| {
        target.level = Level::Stack;
        target.packages[1].version = "1.0.0".parse().unwrap();
    };
    assert_eq!(content(stack_alone, &asked), ["the request has `torch>=2.8`, but the lock has torch 1.0.0"]);

    // A bound on a package that is not requested; an override replaces what packages require.
    let bounded = Request { constraints: request(&["numpy<2"]).requirements, ..request(&["torch"]) };
    assert_eq!(content(|_| {}, &bounded), ["the request has `numpy<2`, but the lock has numpy 2.3.5"]);
    let overridden = Request { overrides: request(&["numpy<1"]).requirements, ..request(&["torch"]) };
    assert_eq!(content(older, &overridden), none);
    assert_eq!(
        content(|_| {}, &overridden),
        ["torch 2.9.1 requires `numpy>=1`, but the lock has numpy 2.3.5"]
    );

    // A private package that moved to PyPI; one that moved to a private index.
    let owners =
        vec![crate::model::index_owner::IndexOwner { index: "corp".into(), patterns: vec!["corp-*".into()] }];
    let private = Request { owners, ..request(&["corp-tool", "torch"]) };
    let add = |source: Source| move |target: &mut Target| target.packages.push(package("corp-tool", source));
    assert_eq!(
        content(add(pypi()), &private),
        ["corp-tool 6.6 is locked from `pypi`, but the request takes it from the index `corp`"]
    );
    assert_eq!(content(add(Source::Index("corp".into())), &private), none);
    let moved = |target: &mut Target| target.packages[0].source = Source::Index("corp".into());
    assert_eq!(
        content(moved, &asked),
        ["numpy 2.3.5 is locked from `corp`, but the request takes it from the index `pypi`"]
    );
    let url = |target: &mut Target| {
        target.packages[0].source = Source::Url("https://evil.example/numpy-2.3.5-py3-none-any.whl".into());
    };
    assert_eq!(content(url, &asked).len(), 1);
    // What the lock says of the stack is what torch and the registry have.
    let no_stack = |target: &mut Target| target.stack = None;
    assert_eq!(content(no_stack, &asked).len(), 1);
    let other_cudnn =
        |target: &mut Target| target.stack.as_mut().unwrap().cudnn = Some("8.0.1".parse().unwrap());
    assert_eq!(content(other_cudnn, &asked).len(), 1);
    let other_build = |target: &mut Target| target.packages[1].variant = Some("cpu".into());
    assert!(!content(other_build, &asked).is_empty());
    let smuggled = |target: &mut Target| {
        target.frameworks.push(Framework {
            name: "antigravity".into(),
            package: "numpy".into(),
            version: target.packages[0].version.clone(),
            cuda: semver::Version::new(12, 8, 0),
            cudnn: None,
            cuda_from_system: true,
            conda: vec!["evilpkg=1.0".into()],
            evidence: Evidence::Measured,
            driver_mode: None,
            native_driver: None,
        });
    };
    assert_eq!(content(smuggled, &asked).len(), 1);
    // The pytorch index has the stack alone, and only for the variant of the build.
    let cu128 = Source::Index("pytorch/cu128".into());
    let of_stack = |target: &mut Target| target.packages[1].source = cu128.clone();
    assert_eq!(content(of_stack, &asked), none);
    let not_of_stack = |target: &mut Target| target.packages[0].source = cu128.clone();
    assert_eq!(content(not_of_stack, &asked).len(), 1);
    let other_variant = |target: &mut Target| target.packages[1].source = Source::Index("pytorch/cpu".into());
    assert_eq!(content(other_variant, &asked).len(), 1);
}

#[test]
fn direct_references_are_those_of_the_request() {
    let asked = request(&["numpy @ https://example.org/numpy-2.3.5-py3-none-any.whl", "torch"]);
    let from =
        |url: &'static str| move |target: &mut Target| target.packages[0].source = Source::Url(url.into());
    let none: [&str; 0] = [];
    assert_eq!(content(from("https://example.org/numpy-2.3.5-py3-none-any.whl"), &asked), none);
    assert_eq!(content(from("https://evil.example/numpy-2.3.5-py3-none-any.whl"), &asked).len(), 1);
    assert_eq!(content(|_| {}, &asked).len(), 1);
    let asked = request(&["numpy @ git+https://example.org/numpy.git@main#subdirectory=py", "torch"]);
    let from = |repository: &'static str, folder: &'static str| {
        move |target: &mut Target| {
            let (repository, commit) = (repository.to_owned(), "1".repeat(40));
            target.packages[0].source = Source::Git { repository, commit, subdirectory: Some(folder.into()) };
        }
    };
    assert_eq!(content(from("https://example.org/numpy.git", "py"), &asked), none);
    assert_eq!(content(from("https://example.org/other.git", "py"), &asked).len(), 1);
    assert_eq!(content(from("https://example.org/numpy.git", "evil"), &asked).len(), 1);
    let pinned = |commit: String| {
        request(&[&format!("numpy @ git+https://example.org/numpy.git@{commit}#subdirectory=py"), "torch"])
    };
    assert_eq!(content(from("https://example.org/numpy.git", "py"), &pinned("1".repeat(40))), none);
    assert_eq!(content(from("https://example.org/numpy.git", "py"), &pinned("2".repeat(40))).len(), 1);
    let file = "https://example.org/numpy-2.3.5-py3-none-any.whl";
    let hashed = |digit: &str| request(&[&format!("numpy @ {file}#sha256={}", digit.repeat(64)), "torch"]);
    let url = |target: &mut Target| target.packages[0].source = Source::Url(file.into());
    assert_eq!(content(url, &hashed("a")), none);
    assert_eq!(content(url, &hashed("b")).len(), 1);
    let folder =
        |path: &'static str| move |target: &mut Target| target.packages[0].source = Source::Path(path.into());
    let local = |path: &str| request(&[&format!("numpy @ {path}"), "torch"]);
    assert_eq!(content(folder("../libs/d"), &local("./../libs/x/../d")), none);
    assert_eq!(content(folder("node_modules/evil"), &local("../libs/d")).len(), 1);
    let in_folder = |path: &str| Request { folder: Some("/srv/app".into()), ..local(path) };
    assert_eq!(content(folder("../libs/d"), &in_folder("/srv/libs/d")), none);
    assert_eq!(content(folder("d"), &in_folder("../app/d")), none);
    assert_eq!(content(folder("evil"), &in_folder("/srv/libs/d")).len(), 1);
    // `sources = false` is about what an index offers, not about a source that the request names.
    let built = |target: &mut Target| {
        let repository = "https://example.org/numpy.git".to_owned();
        let package = &mut target.packages[0];
        package.source = Source::Git { repository, commit: "1".repeat(40), subdirectory: None };
        package.files.clear();
        package.build = Some(pure());
    };
    let limit = || Some(crate::model::request::Limit { value: (), origin: "t".into() });
    let named = request(&["numpy @ git+https://example.org/numpy.git", "torch"]);
    assert_eq!(content(built, &Request { no_sources: limit(), ..named }), none);
    let of_index = |target: &mut Target| {
        built(target);
        target.packages[0].source = Source::Index("pypi".into());
        target.packages[0].files = vec![ChosenFile {
            name: "numpy-2.3.5.tar.gz".into(),
            ..sample().targets[0].packages[0].files[0].clone()
        }];
    };
    let plain = || request(&["numpy", "torch"]);
    assert_eq!(content(of_index, &plain()), none);
    assert_eq!(
        content(of_index, &Request { no_sources: limit(), ..plain() }),
        ["numpy 2.3.5 is locked from source: the request refuses sources"]
    );
}

/// Older data neither confirm nor deny what a lock of newer ones says of a build.
#[test]
fn what_only_newer_data_know_is_no_fault_of_the_lock() {
    let registry = crate::registry::frozen();
    let asked = request(&["numpy", "torch>=2.8"]);
    let mut lock = sample();
    lock.request = request_lines(&asked);
    lock.registry_digest = "0".repeat(64);
    let whole = lock.clone();
    lock.targets[0].stack.as_mut().unwrap().version = "2.99.0".parse().unwrap();
    lock.targets[0].packages.iter_mut().filter(|one| one.name == "torch").for_each(|one| {
        let local = one.version.local().iter().map(ToString::to_string).collect::<Vec<_>>().join(".");
        one.version = format!("2.99.0+{local}").trim_end_matches('+').parse().unwrap();
    });
    let said = |lock: &Lockfile| (stale(lock, &asked, &registry).len(), needs_newer_data(lock, &registry));
    let before = said(&lock);
    assert!(!before.1, "{before:?}");
    lock.registry_date = "2027-01-01".into();
    let after = said(&lock);
    assert_eq!(after, (0, true));
    // A date that is none, and one that is to excuse what the data do know.
    for date in ["9999-99-99", "zzz"] {
        lock.registry_date = date.into();
        assert_eq!(said(&lock), before);
    }
    lock.registry_date = "2027-01-01".into();
    let mut forged = whole;
    forged.registry_date = "2027-01-01".into();
    forged.targets[0].stack.as_mut().unwrap().cudnn = Some("8.0.1".parse().unwrap());
    assert_eq!(said(&forged), (1, false));
    // conda's builds are described by their records: no date excuses what does not fit them.
    let mut of_conda = lock.clone();
    let pytorch = CondaPackage { name: "pytorch".into(), ..sample_of_conda_package() };
    of_conda.targets[0].conda = vec![pytorch];
    assert!(needs_newer_data(&of_conda, &registry));
    of_conda.targets[0].packages.retain(|package| package.name != "torch");
    assert!(!needs_newer_data(&of_conda, &registry));
    // What no data say is a fault in any case.
    lock.targets[0].packages.retain(|package| package.name != "numpy");
    assert!(said(&lock).0 > 0);
    let mut whole = sample();
    whole.registry_date = "2027-01-01".into();
    assert_eq!(said(&whole), (0, false));
}

#[test]
fn a_python_that_an_option_chose_within_the_limit_is_current() {
    let limit = |text: &str, origin: crate::model::request::Origin| {
        Some(crate::model::request::PythonRequest::parse(text, origin).unwrap())
    };
    let registry = crate::registry::frozen();
    let option = crate::model::request::Origin::Option("--python");
    let mut lock = sample();
    lock.request = request_lines(&Request { python: limit("3.12", option), ..request(&["numpy", "torch"]) });
    let manifest =
        |python: &str| Request { python: limit(python, "t".into()), ..request(&["numpy", "torch"]) };
    assert_eq!(stale(&lock, &manifest(">=3.10,<3.14"), &registry), []);
    assert_eq!(stale(&lock, &manifest(">=3.13"), &registry).len(), 1);
    assert_eq!(stale(&lock, &request(&["numpy", "torch"]), &registry), []);
}

#[test]
fn who_needs_a_package_and_by_what_way_also_in_a_cycle() {
    let mut lock = sample();
    let target = &mut lock.targets[0];
    target.packages[0].requires.push(Edge { to: "torch".into(), requirement: "torch".into() });
    let asked = |name: &str| [name.to_owned()].into();
    assert_eq!(chain(&target.packages, &asked("torch"), "numpy").unwrap(), ["torch", "numpy"]);
    assert_eq!(chain(&target.packages, &asked("numpy"), "numpy").unwrap(), ["numpy"]);
    assert_eq!(chain(&target.packages, &asked("other"), "numpy"), None);
    let by: Vec<_> =
        needed_by(target, "numpy").iter().map(|(from, e)| (*from, e.requirement.as_str())).collect();
    assert_eq!(by, [("torch", "numpy>=1")]);
}

#[test]
fn what_a_lock_says_in_words_has_no_control_characters() {
    let mut lock = sample();
    lock.targets[0].packages[0].reason = Choice::Said("a\u{1b}[31mEVIL\u{7}\nerror: fake\u{202e}".into());
    lock.targets[0].host.system.found_by = "\u{1b}]0;x\u{7}".into();
    let back = parse(&text_of(&lock)).unwrap();
    let said = format!("{} {}", back.targets[0].packages[0].reason, back.targets[0].host.system.found_by);
    assert!(!said.contains(|c: char| c.is_control() || c == '\u{202e}'), "{said:?}");
}

#[test]
fn what_targets_share_stands_once() {
    let mut lock = sample();
    let mut other = lock.targets[0].clone();
    other.name = "laptop".into();
    // The same torch for another reason; another numpy; nothing else.
    other.packages[1].reason = Choice::Asked;
    other.packages[0].version = "2.3.6".parse().unwrap();
    other.packages[0].files[0].name = "numpy-2.3.6-cp312-cp312-linux_x86_64.whl".into();
    lock.targets.push(other);
    let text = text_of(&lock);
    assert_eq!(text.matches("name = \"torch\"").count(), 1);
    assert_eq!(text.matches("targets = [\"default\"]").count(), 1);
    assert_eq!(text.matches("targets = [\"laptop\"]").count(), 1);
    let back = parse(&text).unwrap();
    assert_eq!(back.targets[1].package("numpy").unwrap().version.to_string(), "2.3.6");
    assert_eq!(
        back.targets[1].package("torch").unwrap().reason,
        Choice::Newest,
        "the first reason stands for all"
    );
    assert_eq!(text_of(&back), text);
    let lost = text.replace("targets = [\"laptop\"]", "targets = [\"moon\"]");
    let body = lost.split_once("checksum = ").and_then(|(_, rest)| rest.split_once('\n')).unwrap().1;
    let stated = text.lines().find(|l| l.starts_with("checksum")).unwrap();
    let lost = lost.replace(stated, &format!("checksum = \"{}\"", super::render::checksum(body)));
    assert_eq!(parse(&lost), Err(LockError::Malformed("`moon` is not one of its targets".into())));
}

#[test]
fn a_lock_whose_packages_another_tool_holds_has_the_stack_only() {
    let held = PackageLock::of(Owner::Uv, "version = 1\n");
    let lock = sample().with_packages_in(held.clone(), &BTreeSet::new());
    assert_eq!(lock.format, FORMAT_WITH_PACKAGE_LOCK);
    assert_eq!(lock.targets[0].level, Level::Stack);
    let packages: Vec<&str> = lock.targets[0].packages.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(packages, ["torch"]);
    let text = text_of(&lock);
    assert!(text.contains(&format!("packages-in = {{ file = \"uv.lock\", sha256 = \"{}\" }}", held.sha256)));
    assert_eq!(parse(&text).unwrap(), lock);
    // Another text of that lock is another answer.
    let other = sample().with_packages_in(PackageLock::of(Owner::Uv, "version = 2\n"), &BTreeSet::new());
    assert!(!same_answer(&lock, &other));
    for (from, to) in [
        ("file = \"uv.lock\"", "file = \"../uv.lock\""),
        ("file = \"uv.lock\"", "file = \"envlock.lock\""),
        (&*held.sha256, "00"),
        ("level = \"stack\"", "level = \"full\""),
    ] {
        assert!(matches!(forged(&text, from, to), Err(LockError::Malformed(_))), "{to}");
    }
}
