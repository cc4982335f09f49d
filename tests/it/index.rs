//! The index client in all shapes of servers.

use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{little_pypi, wheel};

const ARGUMENTS: [&str; 6] = ["resolve", "torch==2.9.1", "--gpu", "H200", "--driver", "580.159.04"];

#[test]
fn every_shape_gives_the_same_lock() {
    let mut locks = Vec::new();
    for json in [false, true] {
        for metadata in [false, true] {
            for no_ranges in [false, true] {
                let shape = Shape { json, metadata, no_ranges, ..Shape::default() };
                let server = IndexServer::start(little_pypi(), shape);
                let context = TestContext::with_index(&server);
                context.run(&ARGUMENTS).expect(0);
                let lock = context.read("envlock.lock");
                locks.push(lock);
            }
        }
    }
    locks.dedup();
    assert_eq!(locks.len(), 1, "{}", locks.join("\n=====\n"));
}

/// A server with a project of many releases, of which one fits.
fn with_a_walker() -> IndexServer {
    let mut wheels: Vec<_> = (1..=60)
        .map(|i| {
            ("pypi", wheel("walker", &format!("1.{i}")).needs(if i == 7 { "dep==1.0" } else { "dep==2.0" }))
        })
        .collect();
    wheels.push(("pypi", wheel("dep", "1.0")));
    IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() })
}

/// Going back through many releases comes out as it would one by one, and no file is read twice.
#[test]
fn a_long_way_back() {
    let server = with_a_walker();
    let mut context = TestContext::with_index(&server);
    // On a busy machine an answer takes longer than the other tests wait.
    context.set("ENVLOCK_HTTP_TIMEOUT", "60");
    let run = context.run(&["resolve", "walker", "--gpu", "none", "--python", "3.12"]).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("name = \"walker\"\nversion = \"1.7\""), "{}\n{lock}", run.shown());
    let mut asked = server.paths();
    let count = asked.len();
    asked.sort();
    asked.dedup();
    // A request that the busy little server dropped is sent again; else nothing is.
    assert!(count - asked.len() <= 4, "{count} requests for {asked:?}");
}

/// What a constraint excludes is not looked at.
#[test]
fn what_a_constraint_excludes_is_not_read() {
    let server = with_a_walker();
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", "[project]\ndependencies = [\"walker\"]\nconstraints = [\"walker<1.8\"]\n");
    let run = context.run(&["resolve", "--gpu", "none", "--python", "3.12"]).expect(0);
    assert!(context.read("envlock.lock").contains("name = \"walker\"\nversion = \"1.7\""), "{}", run.shown());
    let of_walker = server.paths().into_iter().filter(|path| path.contains("walker-")).count();
    assert!(of_walker <= 3, "{of_walker} files of walker were read: {:?}", server.paths());
}

/// Each answer of the index costs a solve from the beginning: who asks for older and older releases is given more of
/// them with each answer.
#[test]
fn older_releases_are_read_ahead_of_who_walks_back() {
    use envlock::index::{Fetched, Guess, IndexClient, IndexConfig};
    use envlock::model::solution::Need;
    let server = with_a_walker();
    let folder = tempfile::tempdir().unwrap();
    let client = IndexClient::new(IndexConfig {
        addresses: vec![("pypi".to_owned(), format!("{}/pypi", server.address))],
        cache_dir: folder.path().to_path_buf(),
        offline: false,
        netrc: None,
        certificates: Vec::new(),
        until: None,
        timeout_s: 30,
    });
    let python = envlock::model::wheel::Python::new(12);
    let platform = envlock::model::platform::Platform::LINUX_X86_64;
    let guess = Guess {
        python,
        platform,
        libc: None,
        environment: envlock::model::marker::marker_environment(python, platform),
        not_prefetched: vec!["dep".to_owned()],
        owners: Vec::new(),
        takes_sources: true,
        exclude_newer: Default::default(),
        wanted: Vec::new(),
    };
    let ask = |need: Need| -> Vec<String> {
        let answers = client.fetch(&[need], Some(&guess), &mut |_, _| {}).unwrap();
        let files = answers.into_iter().filter_map(|answer| match answer {
            Fetched::Metadata { filename, .. } => Some(filename),
            Fetched::Page { .. } => None,
        });
        files.collect()
    };
    let release = |minor: u32| Need::Metadata {
        index: "pypi".to_owned(),
        project: "walker".to_owned(),
        filename: format!("walker-1.{minor}-py3-none-any.whl"),
    };
    ask(Need::Page { index: "pypi".to_owned(), project: "walker".to_owned() });
    let counts: Vec<usize> = [60, 59, 58, 55, 50].map(|minor| ask(release(minor)).len()).to_vec();
    assert_eq!(counts, [1, 1, 3, 5, 9]);
    // Asking for a newer one again is no walk.
    assert_eq!(ask(release(60)).len(), 1);
}

#[test]
fn metadata_far_from_the_end_of_a_wheel() {
    let big = wheel("big", "1.0").filler(300_000).needs("idna");
    let server = IndexServer::start(vec![("pypi", big), ("pypi", wheel("idna", "3.11"))], Shape::default());
    let context = TestContext::with_index(&server);
    context.run(&["resolve", "big", "--gpu", "H200"]).expect(0);
    assert!(context.read("envlock.lock").contains("name = \"idna\""));
}

#[test]
fn servers_that_fail_or_lie() {
    let table: &[(Shape, i32, &str)] = &[
        (Shape { status: Some(404), ..Shape::default() }, 1, "torch 2.9.1 is not on the index pypi"),
        (Shape { status: Some(500), ..Shape::default() }, 3, "the server answered 500 (4 attempts)"),
        (Shape { status: Some(403), ..Shape::default() }, 3, "check the credentials"),
        (Shape { body: Some("\u{0}garbage"), ..Shape::default() }, 3, "not an index page"),
        (Shape { half: true, ..Shape::default() }, 3, "the request timed out (4 attempts)"),
        (Shape { wrong_range: true, ..Shape::default() }, 1, "other bytes than the requested range"),
        (
            Shape { metadata: true, lying_metadata: true, ..Shape::default() },
            1,
            "its SHA-256 differs from the index",
        ),
    ];
    for (shape, code, expected) in table {
        let server = IndexServer::start(little_pypi(), shape.clone());
        let context = TestContext::with_index(&server);
        let run = context.run(&[&ARGUMENTS[..], &["--only-index", "pypi"]].concat()).expect(*code);
        assert!(run.flat().contains(expected), "{shape:?}: {}", run.shown());
        assert!(!context.exists("envlock.lock"));
    }
}

#[test]
fn wheels_whose_metadata_is_another_packages() {
    let server =
        IndexServer::start(vec![("pypi", wheel("liar", "1.0").says_version("2.0"))], Shape::default());
    let context = TestContext::with_index(&server);
    let run = context.run(&["resolve", "liar", "--gpu", "H200"]).expect(1);
    assert!(run.flat().contains("contains version 2.0"), "{}", run.shown());
}

#[test]
fn a_server_that_never_answers() {
    // Accepts connections and says nothing.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/simple", listener.local_addr().unwrap());
    let mut context = TestContext::new();
    context.set("ENVLOCK_INDEX_URL", &address);
    context.set("ENVLOCK_HTTP_TIMEOUT", "1");
    let run = context.run(&["resolve", "idna", "--gpu", "H200"]).expect(3);
    assert!(run.flat().contains("the request timed out"), "{}", run.shown());
    drop(listener);
    let run = context.run(&["resolve", "idna", "--gpu", "H200"]).expect(3);
    assert!(run.stderr.contains("cannot connect"), "{}", run.shown());
}

#[test]
fn the_pytorch_index_out_of_reach_is_named() {
    let server = IndexServer::start(little_pypi(), Shape { json: true, metadata: true, ..Shape::default() });
    let mut context = TestContext::with_index(&server);
    context.set("ENVLOCK_PYTORCH_INDEX_URL", "http://127.0.0.1:9");
    let run = context.run(&["resolve", "torch", "--gpu", "V100", "--driver", "580.65.06"]).expect(3);
    assert!(
        run.stderr.contains("`pytorch/cu126`") && run.stderr.contains("--only-index pypi"),
        "{}",
        run.shown()
    );
}

#[test]
fn offline_answers_from_the_cache() {
    let server = IndexServer::start(little_pypi(), Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let none = context.run(&[&ARGUMENTS[..], &["--offline"]].concat()).expect(3);
    assert!(none.stderr.contains("is not in the cache"), "{}", none.shown());
    context.run(&ARGUMENTS).expect(0);
    let lock = context.read("envlock.lock");
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    let asked = server.paths().len();
    context.run(&[&ARGUMENTS[..], &["--offline"]].concat()).expect(0);
    assert_eq!(context.read("envlock.lock"), lock);
    assert_eq!(server.paths().len(), asked, "nothing was asked");
    context.run(&["cache", "clean"]).expect(0);
    context.run(&[&ARGUMENTS[..], &["--offline"]].concat()).expect(3);
}

#[test]
fn pages_are_revalidated() {
    let server = IndexServer::start(little_pypi(), Shape { etag: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.run(&["resolve", "idna", "--gpu", "H200"]).expect(0);
    let first = server.paths().len();
    context.run(&["resolve", "idna", "--gpu", "H200"]).expect(0);
    let again: Vec<String> = server.paths()[first..].to_vec();
    assert_eq!(again, ["/pypi/idna/"], "the page by its tag, the metadata not at all");
}

#[test]
fn credentials_stay_with_their_host_and_are_not_printed() {
    let secret = "Basic bWU6czNjcmV0";
    let other = IndexServer::start(little_pypi(), Shape::default());
    let shape = Shape {
        authorization: Some(secret.to_owned()),
        redirect: Some(other.address.clone()),
        ..Shape::default()
    };
    let server = IndexServer::start(Vec::new(), shape);
    let mut context = TestContext::new();
    let with_login = server.address.replace("http://", "http://me:s3cret@");
    context.set("ENVLOCK_INDEX_URL", &format!("{with_login}/pypi"));
    let run = context.run(&["resolve", "idna", "--gpu", "H200"]).expect(0);
    let lock = context.read("envlock.lock");
    for text in [&run.stdout, &run.stderr, &lock, &context.read("environment.yml")] {
        assert!(!text.contains("s3cret"), "{text}");
    }
    assert!(server.log.lock().unwrap().iter().all(|(_, a)| a.as_deref() == Some(secret)));
    assert!(other.log.lock().unwrap().iter().all(|(_, a)| a.is_none()), "never across a redirect");

    // netrc, and no credentials at all.
    let guarded = IndexServer::start(
        little_pypi(),
        Shape { authorization: Some(secret.to_owned()), ..Shape::default() },
    );
    let mut context = TestContext::with_index(&guarded);
    let denied = context.run(&["resolve", "idna", "--gpu", "H200"]).expect(3);
    assert!(denied.flat().contains("check the credentials"), "{}", denied.shown());
    let netrc = context.write("netrc", "machine 127.0.0.1 login me password s3cret\n");
    context.set("NETRC", &netrc.display().to_string());
    context.run(&["resolve", "idna", "--gpu", "H200"]).expect(0);
    // A netrc that cannot be read says why.
    let mut context = TestContext::with_index(&guarded);
    std::fs::write(&netrc, b"machine \xff").unwrap();
    context.set("NETRC", &netrc.display().to_string());
    let denied = context.run(&["resolve", "idna", "--gpu", "H200"]).expect(3);
    assert!(denied.flat().contains("check the credentials; "), "{}", denied.shown());
    assert!(denied.flat().contains("valid UTF-8"), "{}", denied.shown());
}

#[test]
fn a_login_in_the_address_is_for_the_files_too() {
    let secret = "Basic bWU6czNjcmV0";
    // No PEP 658: the wheels themselves must be read.
    let shape = Shape { authorization: Some(secret.to_owned()), ..Shape::default() };
    let server = IndexServer::start(little_pypi(), shape);
    let mut context = TestContext::new();
    let login = server.address.replace("http://", "http://me:s3cret@");
    context.write(
        "envlock.toml",
        &format!("[project]\ndependencies = [\"idna\"]\n[[index]]\nname = \"corp\"\nurl = \"{login}/pypi\"\npackages = [\"idna\"]\n"),
    );
    context.set("ENVLOCK_INDEX_URL", &format!("{}/pypi", server.address));
    context.run(&["resolve", "--gpu", "H200"]).expect(0);
    for text in
        [context.read("environment.yml"), context.run(&["export", "requirements.txt"]).expect(0).stdout]
    {
        assert!(text.contains("--extra-index-url") && !text.contains("s3cret"), "{text}");
    }
}

#[test]
fn a_cache_that_cannot_be_written_is_no_error() {
    let server = IndexServer::start(little_pypi(), Shape::default());
    let context = TestContext::with_index(&server);
    context.run(&[&ARGUMENTS[..], &["--cache-dir", "/proc/nowhere"]].concat()).expect(0);
}

#[test]
fn an_index_without_hashes_has_its_files_hashed() {
    for no_ranges in [false, true] {
        let big = wheel("big", "1.0").filler(20 << 20);
        let server = IndexServer::start(
            vec![("pypi", big.clone())],
            Shape { no_hashes: true, no_ranges, ..Shape::default() },
        );
        let context = TestContext::with_index(&server);
        context.run(&["resolve", "big", "--gpu", "H200"]).expect(0);
        let lock = context.read("envlock.lock");
        let expected = format!("sha256 = \"{}\", hash-from = \"computed\"", big.build().0.sha256);
        assert!(lock.contains(&expected), "{lock}");
    }
}

#[test]
fn hostile_file_names_on_a_page() {
    let page = "<html><body><a href=\"/files/=x-1.0-py3-none-any.whl\">x</a>\n\
        <a href=\"/files/other-1.0-py3-none-any.whl\">other</a></body></html>";
    let server = IndexServer::start(Vec::new(), Shape { body: Some(page), ..Shape::default() });
    let context = TestContext::with_index(&server);
    let run = context.run(&["resolve", "idna", "--gpu", "H200"]).expect(1);
    assert!(!run.stderr.contains("panicked"), "{}", run.shown());
}

#[test]
fn an_index_that_owns_packages() {
    let corp = IndexServer::start(
        vec![("simple", wheel("corp-tool", "1.0").needs("idna")), ("simple", wheel("idna", "99.0"))],
        Shape::default(),
    );
    let pypi = IndexServer::start(little_pypi(), Shape::default());
    let context = TestContext::with_index(&pypi);
    context.write(
        "envlock.toml",
        &format!(
            "[project]\ndependencies = [\"corp-tool\"]\n[[index]]\nname = \"corp\"\nurl = \"{}/simple\"\npackages = [\"corp-*\"]\n",
            corp.address
        ),
    );
    context.run(&["resolve", "--gpu", "H200"]).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("name = \"corp-tool\"\nversion = \"1.0\"\nindex = \"corp\""), "{lock}");
    assert!(lock.contains("name = \"idna\"\nversion = \"3.11\"\nindex = \"pypi\""), "{lock}");
    assert!(pypi.paths().iter().all(|p| !p.contains("corp")), "its name is not told to another index");
    let requirements = context.run(&["export", "requirements.txt"]).expect(0);
    assert!(requirements.stdout.contains(&format!("--extra-index-url {}/simple", corp.address)));
    // Without it the way out names it, and no other index.
    let run = context.run(&["resolve", "--gpu", "H200", "--only-index", "pypi", "--force"]).expect(1);
    assert!(run.stdout.contains("allow the corp index"), "{}", run.shown());
    assert!(!run.stdout.contains("pytorch index"), "{}", run.shown());
}

/// A package without a wheel is a conflict whether or not the pytorch index answers.
#[test]
fn a_package_without_a_wheel_is_a_conflict_without_the_pytorch_index() {
    let wheels = vec![
        ("pypi", wheel("torch", "2.10.0").tags("cp312-cp312-manylinux_2_28_x86_64")),
        ("pypi", wheel("deepspeed", "0.16.5").tags("cp312-cp312-win_amd64")),
    ];
    let server = IndexServer::start(wheels, Shape::default());
    let mut context = TestContext::with_index(&server);
    // Nothing listens there.
    context.set("ENVLOCK_PYTORCH_INDEX_URL", "http://127.0.0.1:9/whl");
    let run = context.run(&["resolve", "torch", "deepspeed", "--gpu", "A100", "--dry-run"]).expect(1);
    assert!(run.flat().contains("without deepspeed"), "{}", run.shown());
    assert!(!run.flat().contains("pytorch"), "{}", run.shown());
    // Where builds of the index could help, it is named.
    let gpu = ["resolve", "torch", "--gpu", "V100", "--driver", "580.65.06", "--dry-run"];
    let run = context.run(&gpu).expect(3);
    assert!(run.stderr.contains("pytorch/cu126"), "{}", run.shown());
}

/// A mirror without torch's builds, or a mistyped address, must not silently give an older torch.
#[test]
fn builds_that_the_pytorch_index_lacks_are_reported() {
    let wheels = vec![("pypi", wheel("torch", "2.10.0").tags("cp312-cp312-manylinux_2_28_x86_64"))];
    let server = IndexServer::start(wheels, Shape::default());
    let context = TestContext::with_index(&server);
    let run = context.run(&["resolve", "torch", "--gpu", "V100", "--driver", "580.65.06"]).expect(0);
    assert!(run.flat().contains("the index pytorch has no torch for cu129 and 5 more"), "{}", run.shown());
    assert!(run.flat().contains("these builds were left out"), "{}", run.shown());
}

#[test]
fn where_the_index_is_found() {
    let a = IndexServer::start(vec![("simple", wheel("idna", "1.0"))], Shape::default());
    let b = IndexServer::start(vec![("simple", wheel("idna", "2.0"))], Shape::default());
    let mut context = TestContext::new();
    context.set("PIP_INDEX_URL", &format!("{}/simple", a.address));
    context.run(&["resolve", "idna", "--gpu", "H200"]).expect(0);
    assert!(context.read("envlock.lock").contains("1.0\""));
    context
        .run(&[
            "resolve",
            "idna",
            "--gpu",
            "H200",
            "--upgrade",
            "--index-url",
            &format!("{}/simple", b.address),
        ])
        .expect(0);
    assert!(context.read("envlock.lock").contains("2.0\""));
}

/// Patch releases of Python that leave none together are no answer; an older release is, where there is one.
#[test]
fn patch_releases_that_exclude_each_other() {
    let wheels = |old: bool| {
        let mut all = vec![
            ("pypi", wheel("late", "1.0").python(">=3.11.4")),
            ("pypi", wheel("early", "2.0").python("<3.11.4")),
            ("pypi", wheel("wide", "1.0").python(">=3.8")),
            ("pypi", wheel("middle", "1.0").python(">=3.11.4,<3.11.9")),
            ("pypi", wheel("exact", "1.0").python("==3.11.5")),
            ("pypi", wheel("several", "1.0").tags("py3-none-win_amd64").python(">=3.11.6")),
            ("pypi", wheel("several", "1.0").tags("py3-none-manylinux_2_17_x86_64").python("<3.11.2")),
        ];
        if old {
            all.push(("pypi", wheel("early", "1.0").python(">=3.8")));
        }
        all
    };
    let python = ["--gpu", "none", "--python", "3.11"];
    let server = IndexServer::start(wheels(false), Shape::default());
    let context = TestContext::with_index(&server);
    let run = context.run(&[&["resolve", "late", "early", "wide"], &python[..]].concat()).expect(1);
    let shown = run.shown();
    for part in ["late 1.0 requires Python >=3.11.4", "early 2.0 requires Python <3.11.4"] {
        assert!(shown.contains(part), "{shown}");
    }
    assert!(!shown.contains("you require wide"), "{shown}");
    // The request bounds the patch release too.
    let run = context.run(&["resolve", "late", "--gpu", "none", "--python", ">=3.11,<3.11.3"]).expect(1);
    assert!(run.shown().contains("late 1.0 requires Python >=3.11.4"), "{}", run.shown());
    assert!(run.shown().contains("you require Python"), "{}", run.shown());
    context.run(&["resolve", "early", "--gpu", "none", "--python", "3.11.2"]).expect(0);

    for (packages, expected) in [
        (&["middle"][..], ">=3.11.4,<3.11.9"),
        (&["middle", "exact", "late"], ">=3.11.5,<3.11.6"),
        (&["several"], "<3.11.2"),
    ] {
        context.run(&[&["resolve"], packages, &python[..]].concat()).expect(0);
        let lock = context.read("envlock.lock");
        assert!(lock.contains(&format!("python-patches = \"{expected}\"")), "{expected}: {lock}");
        std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    }
    // What is exported is for these patch releases too.
    context.run(&[&["resolve", "several"], &python[..]].concat()).expect(0);
    assert!(context.read("environment.yml").contains("- python>=3.11,<3.11.2\n"));
    for (format, expected) in [
        ("pylock.toml", "requires-python = \">=3.11,<3.11.2\""),
        ("Dockerfile", "FROM python:3.11.1-slim"),
        ("github", "python-version: \">=3.11 <3.11.2\""),
    ] {
        let text = context.run(&["export", format]).expect(0).stdout;
        assert!(text.contains(expected), "{expected}: {text}");
    }
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    context.run(&["resolve", "middle", "--gpu", "none", "--python", ">=3.11.2,<3.11.6"]).expect(0);
    for packages in [&["several", "late"][..], &["exact", "early"]] {
        context.run(&[&["resolve"], packages, &python[..]].concat()).expect(1);
    }

    let server = IndexServer::start(wheels(true), Shape::default());
    let context = TestContext::with_index(&server);
    context.run(&[&["resolve", "late", "early", "wide"], &python[..]].concat()).expect(0);
    let lock = context.read("envlock.lock");
    assert!(lock.contains("name = \"early\"\nversion = \"1.0\""), "{lock}");
    assert!(lock.contains(">=3.11.4"), "{lock}");
}

/// A mirror that lacks torch, of which the registry knows builds: a conflict, whatever is asked of it.
#[test]
fn an_index_without_torch() {
    let needs_torch = wheel("linked", "1.0").tags("cp313-cp313-manylinux_2_17_x86_64").needs("torch");
    let index = IndexServer::start(vec![("pypi", needs_torch)], Shape { json: true, ..Shape::default() });
    let context = TestContext::with_index(&index).with_shipped_registry();
    for (gpu, options) in
        [("H100", vec![]), ("none", vec!["--only-index", "pypi"]), ("V100", vec!["--python", "3.13"])]
    {
        for asked in [vec!["linked"], vec!["linked", "torch"], vec!["torch>=2.9"]] {
            let host = ["resolve", "--dry-run", "--gpu", gpu, "--driver", "580.65.06"];
            let host = if gpu == "none" { &host[..4] } else { &host[..] };
            let run = context.run(&[host, &options, &asked].concat()).expect(1);
            assert!(run.shown().contains("error:"), "{}", run.shown());
        }
    }
}
