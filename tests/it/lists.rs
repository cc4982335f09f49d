//! Indexes that are lists of files: a folder of wheels, a page of links.

use super::common::synced::Synced;
use super::context::{IndexServer, Shape, TestContext};
use super::wheels::{Wheel, wheel};

/// Writes wheels into a folder of the project.
fn fill(context: &TestContext, folder: &str, wheels: &[Wheel]) {
    for wheel in wheels {
        let (page, bytes, _) = wheel.build();
        let path = context.project().join(folder).join(page.filename);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

fn manifest(dependencies: &str, url: &str, packages: &str) -> String {
    format!(
        "[project]\nname = \"demo\"\ndependencies = [{dependencies}]\n[[index]]\nname = \"own\"\nurl = \"{url}\"\n\
         packages = [{packages}]\n"
    )
}

const RESOLVE: [&str; 5] = ["resolve", "--gpu", "none", "--python", "3.12"];

#[test]
fn a_folder_of_wheels_is_an_index() {
    let server = IndexServer::start(
        vec![("pypi", wheel("idna", "3.11")), ("pypi", wheel("mine", "9.0"))],
        Shape { json: true, metadata: true, ..Shape::default() },
    );
    let context = TestContext::with_index(&server);
    let own = [
        wheel("mine", "1.0"),
        wheel("mine", "2.0").needs("idna"),
        wheel("mine", "3.0").tags("cp27-cp27m-win32"),
    ];
    fill(&context, "wheels", &own);
    let absolute = format!("file://{}", context.project().join("wheels").display());
    for url in ["./wheels", "wheels/", absolute.as_str()] {
        context.write("envlock.toml", &manifest("\"mine\"", url, "\"mine\""));
        context.run(&[&RESOLVE[..], &["--upgrade"]].concat()).expect(0);
        let lock = context.read("envlock.lock");
        let (page, _, _) = own[1].build();
        let sha256 = page.sha256;
        assert!(lock.contains("name = \"mine\"\nversion = \"2.0\"\nindex = \"own\""), "{url}: {lock}");
        assert!(lock.contains(&format!("sha256 = \"{sha256}\", hash-from = \"computed\"")), "{url}: {lock}");
        assert!(
            !lock.contains(&context.project().display().to_string()),
            "{url}: the place is no part of the lock"
        );
    }
    assert!(server.paths().iter().all(|path| !path.contains("mine")), "{:?}", server.paths());
    // What the network gave is in the cache; the folder is there.
    context.run(&[&RESOLVE[..], &["--upgrade", "--offline"]].concat()).expect(0);
}

/// Folders do not state `Requires-Python`, and pages of links seldom do: the METADATA does.
#[test]
fn what_no_list_states_is_read_from_the_file() {
    let server = IndexServer::start(vec![("pypi", wheel("idna", "3.11"))], Shape::default());
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", &manifest("\"mine\"", "wheels", "\"mine\""));
    let old = Wheel { requires_python: ">=3.8".to_owned(), ..wheel("mine", "0.9") };
    fill(&context, "wheels", &[Wheel { requires_python: ">=3.13".to_owned(), ..wheel("mine", "1.0") }]);
    let run = context.run(&RESOLVE).expect(1);
    assert!(run.stdout.contains("mine 1.0 requires Python >=3.13"), "{}", run.shown());
    fill(&context, "wheels", &[old]);
    context.run(&RESOLVE).expect(0);
    assert!(context.read("envlock.lock").contains("name = \"mine\"\nversion = \"0.9\""));
}

/// A name that no lock can have, a file twice, a pipe: what a list may hold besides.
#[test]
fn odd_entries_are_no_files() {
    let server = IndexServer::start(vec![("pypi", wheel("idna", "3.11"))], Shape::default());
    let context = TestContext::with_index(&server);
    fill(&context, "wheels", &[wheel("mine", "1.0")]);
    let folder = context.project().join("wheels");
    std::fs::write(folder.join("mine-1.0-1#x-py3-none-any.whl"), "x").unwrap();
    std::os::unix::fs::symlink("gone", folder.join("mine-3.0-py3-none-any.whl")).unwrap();
    let pipe = folder.join("mine-2.0-py3-none-any.whl");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let links = "<a href=wheels/mine-1.0-py3-none-any.whl>a</a><a href=wheels/mine-1.0-py3-none-any.whl>a</a>\
                 <a href=wheels/mine-2.0-py3-none-any.whl>a</a>";
    context.write("links.html", links);
    for url in ["wheels", "./links.html"] {
        context.write("envlock.toml", &manifest("\"mine\"", url, "\"mine\""));
        context.run(&[&RESOLVE[..], &["--upgrade"]].concat()).expect(0);
        let lock = context.read("envlock.lock");
        assert_eq!(lock.matches("mine-1.0").count(), 1, "{lock}");
    }
}

#[test]
fn a_wheel_that_changed_is_read_again() {
    let server = IndexServer::start(vec![("pypi", wheel("idna", "3.11"))], Shape::default());
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", &manifest("\"mine\"", "wheels", "\"mine\""));
    let mut hashes = Vec::new();
    for content in ["one", "two"] {
        fill(&context, "wheels", &[wheel("mine", "1.0").file("mine.py", content).needs("idna")]);
        context.run(&[&RESOLVE[..], &["--upgrade"]].concat()).expect(0);
        let lock = context.read("envlock.lock");
        hashes.push(lock.lines().find(|line| line.contains("mine-1.0")).unwrap().to_owned());
    }
    assert_ne!(hashes[0], hashes[1]);
}

/// What a run changes against the lock, and why where nobody asked for it.
#[test]
fn what_changed_is_said() {
    let server = IndexServer::start(
        vec![("pypi", wheel("idna", "3.11")), ("pypi", wheel("certifi", "2026.1.1"))],
        Shape::default(),
    );
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", &manifest("\"mine\"", "wheels", "\"mine\""));
    fill(&context, "wheels", &[wheel("mine", "1.0").needs("idna"), wheel("mine", "1.1").needs("certifi")]);
    let run = context.run(&RESOLVE).expect(0);
    assert!(!run.stdout.contains("\nchanged "), "{}", run.shown());
    let run = context.run(&RESOLVE).expect(0);
    assert!(!run.stdout.contains("\nchanged "), "{}", run.shown());
    std::fs::remove_file(context.project().join("wheels/mine-1.1-py3-none-any.whl")).unwrap();
    let run = context.run(&RESOLVE).expect(0);
    assert!(
        run.stdout.contains("changed        certifi 2026.1.1 removed, idna 3.11 added, mine 1.1 -> 1.0\n"),
        "{}",
        run.shown()
    );
    assert!(
        run.flat().contains("warning: mine 1.1 -> 1.0: the index own no longer has 1.1"),
        "{}",
        run.shown()
    );
    // Asked for, it is no warning.
    fill(&context, "wheels", &[wheel("mine", "1.2")]);
    let run = context.run(&[&RESOLVE[..], &["--upgrade"]].concat()).expect(0);
    assert!(run.stdout.contains("changed        idna 3.11 removed, mine 1.0 -> 1.2\n"), "{}", run.shown());
    assert!(!run.stderr.contains("no longer"), "{}", run.shown());
}

#[test]
fn a_page_of_links_is_an_index() {
    for shape in [
        Shape::default(),
        Shape { no_hashes: true, no_ranges: true, ..Shape::default() },
        Shape { json: true, metadata: true, etag: true, ..Shape::default() },
    ] {
        let wheels = vec![
            ("pypi", wheel("idna", "3.11")),
            ("pypi", wheel("mm-ops", "9.0")),
            ("links", wheel("mm-ops", "2.1.2+cu121").needs("idna")),
            ("links", wheel("mm-cv", "0.6.18+cu121").needs("mm-ops")),
        ];
        let server = IndexServer::start(wheels, shape.clone());
        let context = TestContext::with_index(&server);
        let url = format!("{}/links/cu121+x.html", server.address);
        context.write("envlock.toml", &manifest("\"mm-cv\"", &url, "\"mm-*\""));
        context.run(&RESOLVE).expect(0);
        let lock = context.read("envlock.lock");
        assert!(lock.contains("name = \"mm-ops\"\nversion = \"2.1.2+cu121\"\nindex = \"own\""), "{lock}");
        assert_eq!(lock.contains("hash-from = \"computed\""), shape.no_hashes, "{lock}");
        context.run(&[&RESOLVE[..], &["--upgrade", "--offline"]].concat()).expect(0);
        assert_eq!(context.read("envlock.lock"), lock);
        for (format, line) in [
            ("requirements.txt", format!("--find-links {url}")),
            ("environment.yml", format!("- --find-links {url}")),
            ("uv", "format = \"flat\"\nexplicit = true".to_owned()),
            ("pixi", format!("find-links = [{{ url = \"{url}\" }}]")),
        ] {
            let run = context.run(&["export", format]);
            assert!(run.stdout.contains(&line), "{format}: {}", run.shown());
        }
    }
}

/// A server must not make envlock read files of this machine.
#[test]
fn a_page_of_a_server_names_no_file_of_this_machine() {
    let place = tempfile::tempdir().unwrap();
    let (page, bytes, _) = wheel("mine", "1.0").build();
    let file = place.path().join(page.filename);
    std::fs::write(&file, bytes).unwrap();
    let (name, folder) = (file.file_name().unwrap().to_str().unwrap(), place.path().display());
    for body in [
        format!("<a href=\"file://{folder}/{name}\">mine</a>"),
        format!("<base href=\"file://{folder}/\"><a href=\"{name}\">mine</a>"),
    ] {
        let server =
            IndexServer::start(vec![], Shape { body: Some(body.clone().leak()), ..Shape::default() });
        let context = TestContext::with_index(&server);
        for url in [format!("{}/links.html", server.address), format!("{}/simple", server.address)] {
            context.write("envlock.toml", &manifest("\"mine\"", &url, "\"mine\""));
            let run = context.run(&RESOLVE);
            assert!(run.code != 0 && !context.exists("envlock.lock"), "{body}: {}", run.shown());
        }
    }
}

#[test]
fn what_cannot_be_such_a_list_is_said() {
    let server = IndexServer::start(vec![("pypi", wheel("idna", "3.11"))], Shape::default());
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", &manifest("\"mine\"", "wheels", "\"mine\""));
    let run = context.run(&RESOLVE).expect(2);
    insta::assert_snapshot!(run.stderr, @r"
    error: cannot read the files of the index `own`: failed to read directory
           `[DIR]/project/wheels`: No such file or directory (os error 2)

    hint: the `[[index]]` table of `own` in envlock.toml says where they are: `url`
    ");
    fill(&context, "wheels", &[wheel("other", "1.0")]);
    let run = context.run(&RESOLVE).expect(1);
    assert!(run.stdout.contains("own"), "{}", run.shown());
    let own = "packages = [\"mine\"]";
    for (url, more, told) in [
        ("wheels", "replaces = \"pypi\"", "the index `a` is a list of files"),
        ("my wheels", own, "`my wheels` cannot stand in a requirements file"),
        ("file:wheels", own, "must start with `http://`"),
        ("https:/h/x.html", own, "must start with `http://`"),
        ("file://host/wheels", own, "names no path on this machine"),
        (
            "wheels",
            "packages = [\"x\"]\n[[index]]\nname = \"a\"\nurl = \"w\"\npackages = [\"mine\"]",
            "two indexes are called `a`",
        ),
    ] {
        let text = format!(
            "[project]\ndependencies = [\"mine\"]\n[[index]]\nname = \"a\"\nurl = \"{url}\"\n{more}\n"
        );
        context.write("envlock.toml", &text);
        let run = context.run(&RESOLVE).expect(2);
        assert!(run.flat().contains(told) && run.stderr.contains("envlock.toml:"), "{url}: {}", run.shown());
    }
    // Only an index of the project's own is looked for beside the project.
    let mut other = TestContext::with_index(&server);
    other.set("ENVLOCK_INDEX_URL", "localhost:1/simple");
    let run = other.run(&["resolve", "idna", "--gpu", "none", "--python", "3.12"]).expect(3);
    assert!(
        run.flat().contains("`ENVLOCK_INDEX_URL`") && !run.stderr.contains("[[index]]"),
        "{}",
        run.shown()
    );
    // A list that is not there is no list without the package.
    let url = format!("{}/nope/x.html", server.address);
    context.write("envlock.toml", &manifest("\"mine\"", &url, "\"mine\""));
    let run = context.run(&RESOLVE).expect(3);
    assert!(run.flat().contains("`mine` from the index `own`: the server answered 404"), "{}", run.shown());
    assert!(run.flat().contains("the `url` of the index `own` in envlock.toml"), "{}", run.shown());
}

fn a_folder_is_installed_by_hash(with_uv: bool) {
    // PyPI has another file of that name.
    let other = wheel("mine", "1.0").file("mine.py", "x = 4\n");
    let Some(env) = Synced::with(with_uv, vec![("pypi", other)]) else { return };
    let (page, bytes, _) = wheel("mine", "1.0").needs("alpha").file("mine.py", "x = 5\n").build();
    let path = env.context.project().join("my wheels").join(page.filename);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    let url = format!("file://{}/my%20wheels", env.context.project().display());
    env.context.write("envlock.toml", &manifest("\"mine\"", &url, "\"mine\""));
    env.context.run(&["resolve", "--gpu", "none", "--python", &env.series]).expect(0);
    env.sync(&[]).expect(0);
    assert_eq!(env.prints("import mine, alpha; print(mine.x)"), "5");
    // Another file of that name is not installed.
    std::fs::remove_dir_all(env.context.project().join(".venv")).unwrap();
    let (_, bytes, _) = wheel("mine", "1.0").needs("alpha").file("mine.py", "x = 6\n").build();
    std::fs::write(&path, bytes).unwrap();
    let run = env.sync(&[]);
    // uv has kept the one that is locked.
    assert!(run.code != 0 || with_uv && env.prints("import mine; print(mine.x)") == "5", "{}", run.shown());
}

#[test]
fn pip_installs_a_folder_by_hash() {
    a_folder_is_installed_by_hash(false);
}

#[test]
fn uv_installs_a_folder_by_hash() {
    a_folder_is_installed_by_hash(true);
}
