//! What a bundle has besides wheels: commits of git, wheels of sources, a Python, a signature; and an image that is built from one.

use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use dockerfile_parser::Dockerfile;

use super::common::synced::{BUILD_SYSTEM, Synced, backend};
use super::wheels::wheel;

const DEAD: &str = "http://127.0.0.1:9";

fn without_network(env: &mut Synced) {
    env.context.set("ENVLOCK_INDEX_URL", DEAD);
    env.context.set("ENVLOCK_PYTORCH_INDEX_URL", DEAD);
    // What is built or fetched already stays out of it.
    env.context.set("UV_CACHE_DIR", &env.context.dir.path().join("another-cache").display().to_string());
}

/// A project without requirements for its build, in a repository; its commit.
fn repository(folder: &Path) -> String {
    std::fs::create_dir_all(folder).unwrap();
    let project = format!("[project]\nname = \"mine\"\nversion = \"0.3\"\n{BUILD_SYSTEM}");
    std::fs::write(folder.join("pyproject.toml"), project).unwrap();
    std::fs::write(folder.join("backend.py"), backend("mine", "0.3")).unwrap();
    git(folder, &["init", "--quiet"]);
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "one"]);
    std::fs::write(folder.join("later.txt"), "more").unwrap();
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "two"]);
    git(folder, &["rev-parse", "HEAD"])
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(arguments);
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "a").env(format!("GIT_{who}_EMAIL"), "a@b");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The only file of a bundle that ends so.
fn file_of(env: &Synced, end: &str) -> PathBuf {
    let folders = std::fs::read_dir(env.context.project().join("b/files")).unwrap();
    let mut files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    files
        .find(|file| file.as_ref().unwrap().file_name().to_str().unwrap().ends_with(end))
        .unwrap()
        .unwrap()
        .path()
}

/// The commit's name, which the lock has, vouches for the files; the address is the one that is locked.
#[test]
fn a_commit_is_bundled_and_installed_without_its_repository() {
    let Some(mut env) = Synced::new(true) else { return };
    with_git(&mut env);
    let folder = env.context.dir.path().join("repository");
    let commit = repository(&folder);
    let address = format!("file://{}", folder.display());
    env.lock(&format!("\"mine @ git+{address}\", \"beta\""), STATED);
    let run = env.context.run(&["bundle", "--python", "none", "--dry-run"]).expect(0);
    assert!(
        run.stdout.starts_with("default        3 files, ") && run.stdout.contains("1 file of unknown size"),
        "{}",
        run.shown()
    );
    let run = env.context.run(&["bundle", "--python", "none", "-o", "b"]).expect(0);
    assert!(run.stdout.starts_with("default        3 files, "), "{}", run.shown());
    assert!(run.flat().contains("built from source on the other side: `mine`"), "{}", run.shown());
    std::fs::rename(&folder, folder.with_extension("away")).unwrap();
    // What is there is kept, also where the repository is gone.
    env.context.run(&["bundle", "--python", "none", "-o", "b"]).expect(0);
    let run = env.context.run(&["bundle", "--python", "none", "-o", "c"]).expect(3);
    assert!(run.flat().contains("check the network and the repository"), "{}", run.shown());
    without_network(&mut env);
    env.context.run(&["verify", "--bundle", "b"]).expect(0);
    env.sync(&["--bundle", "b", "--build"]).expect(0);
    assert_eq!(env.prints("import mine; print(mine.built)"), "True");
    let origin = "import importlib.metadata as m; print(m.distribution('mine').read_text('direct_url.json'))";
    let origin = env.prints(origin);
    assert!(origin.contains(&address) && origin.contains(&commit), "{origin}");
    // Nothing is left to do.
    let run = env.sync(&["--bundle", "b", "--build"]).expect(0);
    assert!(run.stdout.starts_with("environment .venv"), "{}", run.shown());
    for (arguments, expected) in [
        (&["export", "requirements.txt", "--bundle", "b"][..], "is a commit of git, which is no file"),
        (&["bundle", "--wheelhouse", "-o", "w"], "the lock takes `mine` from a git repository"),
    ] {
        let run = env.context.run(arguments).expect(2);
        assert!(run.flat().contains(expected), "{}", run.shown());
    }
    // Another commit under the same name: whoever writes the manifest cannot make git believe it.
    std::fs::rename(folder.with_extension("away"), &folder).unwrap();
    std::fs::remove_dir_all(env.context.project().join(".venv")).unwrap();
    let pack = file_of(&env, ".pack");
    let bytes = std::fs::read(&pack).unwrap();
    let other = env.context.dir.path().join("other");
    std::fs::create_dir_all(&other).unwrap();
    std::fs::write(other.join("evil.py"), "").unwrap();
    git(&other, &["init", "--quiet"]);
    git(&other, &["add", "."]);
    git(&other, &["commit", "--quiet", "-m", "evil"]);
    git(&other, &["repack", "-a", "-q"]);
    let packs =
        std::fs::read_dir(other.join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
    let evil = packs.into_iter().find(|path| path.extension().is_some_and(|e| e == "pack")).unwrap();
    let evil = std::fs::read(evil).unwrap();
    let hash = |bytes: &[u8]| {
        use sha2::Digest as _;
        hex::encode(sha2::Sha256::digest(bytes))
    };
    let name = pack.file_name().unwrap().to_str().unwrap();
    let place = env.context.project().join("b/files").join(hash(&evil));
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join(name), &evil).unwrap();
    std::fs::remove_dir_all(pack.parent().unwrap()).unwrap();
    let manifest = env.context.read("b/bundle.toml").replace(&hash(&bytes), &hash(&evil));
    let size = format!("size = {}\n", bytes.len());
    env.context.write("b/bundle.toml", &manifest.replace(&size, &format!("size = {}\n", evil.len())));
    let run = env.sync(&["--bundle", "b", "--build"]).expect(2);
    assert!(run.flat().contains("cannot read the repository"), "{}", run.shown());
    assert!(!env.context.exists(".venv"));
}

/// A commit with another repository in it has not all its files.
#[test]
fn a_commit_with_submodules_is_refused() {
    let Some(mut env) = Synced::new(true) else { return };
    with_git(&mut env);
    let folder = env.context.dir.path().join("repository");
    let commit = repository(&folder);
    std::fs::write(folder.join(".gitmodules"), "[submodule \"inner\"]\n\tpath = inner\n\turl = ../x\n")
        .unwrap();
    git(&folder, &["update-index", "--add", "--cacheinfo", &format!("160000,{commit},inner")]);
    git(&folder, &["add", ".gitmodules"]);
    git(&folder, &["commit", "--quiet", "-m", "three"]);
    env.lock(&format!("\"mine @ git+file://{}\"", folder.display()), STATED);
    let run = env.context.run(&["bundle", "--python", "none", "-o", "b"]).expect(2);
    assert!(run.flat().contains("has submodules, which are other repositories"), "{}", run.shown());
}

/// What the project cannot state: it has a build backend of its own.
const STATED: &str = "[[metadata]]\nname = \"mine\"\nversion = \"0.3\"\nrequires-dist = []\n";

/// git is of several programs.
fn with_git(env: &mut Synced) {
    let path = std::env::var("PATH").unwrap_or_default();
    env.context.set("PATH", &format!("{}:{path}", env.context.dir.path().join("bin").display()));
}

/// The SHA-256 of nothing.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/// With `--build` nothing is built on the other side.
fn wheels_stand_for_sources(with_uv: bool) {
    let Some(mut env) = Synced::new(with_uv) else { return };
    env.lock("\"beta\", \"built\"", "");
    let run = env.context.run(&["bundle", "--python", "none", "-o", "b"]).expect(0);
    assert!(run.flat().contains("built from source on the other side: `built`"), "{}", run.shown());
    let run = env.context.run(&["bundle", "--python", "none", "-o", "b", "--build"]).expect(0);
    assert!(run.stdout.contains("default        4 files"), "{}", run.shown());
    let manifest = env.context.read("b/bundle.toml");
    assert!(manifest.contains("role = \"built\""), "{manifest}");
    // What is built is kept, in an archive too: its file is not built a second time.
    env.context.run(&["bundle", "--python", "none", "-o", "b", "--build"]).expect(0);
    assert_eq!(env.context.read("b/bundle.toml"), manifest);
    let archive = ["bundle", "--python", "none", "-o", "b.tar", "--build"];
    env.context.run(&archive).expect(0);
    let packed = std::fs::read(env.context.project().join("b.tar")).unwrap();
    let run = env.context.run(&archive).expect(0);
    assert!(run.stdout.contains(", 3 there before"), "{}", run.shown());
    assert_eq!(std::fs::read(env.context.project().join("b.tar")).unwrap(), packed);
    without_network(&mut env);
    env.context.run(&["verify", "--bundle", "b"]).expect(0);
    env.sync(&["--bundle", "b"]).expect(0);
    assert_eq!(env.prints("import beta, built; print(built.built)"), "True");
    let run = env.sync(&["--bundle", "b"]).expect(0);
    assert!(run.stdout.starts_with("environment .venv"), "{}", run.shown());
    let run = env.context.run(&["export", "requirements.txt", "--bundle", "b"]).expect(0);
    assert!(
        run.stdout.contains("--only-binary") || !run.stdout.contains("built-1.0.tar.gz"),
        "{}",
        run.shown()
    );
    // A wheel that stands for a package that is locked as a wheel, or for none, is not taken.
    for name in ["beta-1.0-py3-none-any.whl", "other-1.0-py3-none-any.whl", "built-2.0-py3-none-any.whl"] {
        let place = env.context.project().join("b/files").join(EMPTY);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::write(place.join(name), "").unwrap();
        let file = format!(
            "\n[[file]]\nname = \"{name}\"\nsha256 = \"{EMPTY}\"\nsize = 0\nrole = \"built\"\ntargets = [\"default\"]\n"
        );
        env.context.write("b/bundle.toml", &format!("{manifest}{file}"));
        let run = env.sync(&["--bundle", "b"]).expect(1);
        let expected = format!("`{name}` is listed as a package, and the lock does not have it");
        assert!(run.flat().contains(&expected), "{}", run.shown());
        std::fs::remove_dir_all(&place).unwrap();
    }
}

/// What a build imports is installed before, from the bundle's own files.
#[test]
fn a_build_that_imports_another_package_has_it() {
    for with_uv in [true, false] {
        let numpy = wheel("numpy", "2.1.0").file("numpy/__init__.py", "");
        let setup = "import numpy\nfrom setuptools import setup\nsetup()\n";
        let needy = wheel("needy", "1.0").needs("numpy").source(setup);
        // A setuptools that runs no setup.py.
        let meta = format!(
            "import numpy\n{}\nclass __legacy__:\n    build_wheel = staticmethod(build_wheel)\n",
            backend("needy", "1.0")
        );
        let setuptools = wheel("setuptools", "84.0")
            .file("setuptools/__init__.py", "")
            .file("setuptools/build_meta.py", &meta);
        let all = [numpy, needy, setuptools, wheel("wheel", "0.48")].map(|own| ("pypi", own));
        let Some(mut env) = Synced::with(with_uv, all.to_vec()) else { return };
        env.lock("\"needy\"", "");
        assert!(env.context.read("envlock.lock").contains("build-needs = [\"numpy\"]"));
        let run = env.context.run(&["bundle", "--python", "none", "-o", "b"]).expect(0);
        assert!(run.flat().contains("`needy` (needs numpy)"), "{}", run.shown());
        env.context.run(&["bundle", "--python", "none", "-o", "b", "--build"]).expect(0);
        without_network(&mut env);
        env.sync(&["--bundle", "b"]).expect(0);
        assert_eq!(env.prints("import needy; print(needy.built)"), "True");
    }
}

#[test]
fn uv_builds_wheels_for_a_bundle() {
    wheels_stand_for_sources(true);
}

#[test]
fn pip_builds_wheels_for_a_bundle() {
    wheels_stand_for_sources(false);
}

/// An archive with the Python that is here, as `bin/python3.N` of a folder.
fn archive_of_python(
    env: &Synced,
    name: &str,
    add: &dyn Fn(&mut tar::Builder<flate2::write::GzEncoder<std::fs::File>>),
) {
    let ask = "import os, sys; print(os.path.realpath(sys.executable))";
    let python = Command::new("python3").args(["-I", "-c", ask]).output().unwrap().stdout;
    let python = String::from_utf8(python).unwrap();
    let file = std::fs::File::create(env.context.project().join(name)).unwrap();
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast()));
    builder.append_path_with_name(python.trim(), format!("python/bin/python{}", env.series)).unwrap();
    add(&mut builder);
    builder.into_inner().unwrap().finish().unwrap();
}

#[test]
fn an_environment_is_made_with_the_python_of_the_bundle() {
    let Some(mut env) = Synced::new(true) else { return };
    env.lock("\"beta\"", "");
    let data = env.context.dir.path().join("data");
    env.context.set("ENVLOCK_DATA_DIR", &data.display().to_string());
    archive_of_python(&env, "python.tar.gz", &|_| {});
    let run = env.context.run(&["bundle", "--python", "python.tar.gz", "-o", "b"]).expect(0);
    assert!(run.stdout.starts_with("default        3 files, "), "{}", run.shown());
    without_network(&mut env);
    let run = env.sync(&["--bundle", "b", "--dry-run"]).expect(0);
    assert!(run.flat().contains("made with the bundle's Python") && !data.exists(), "{}", run.shown());
    let run = env.sync(&["--bundle", "b"]).expect(0);
    assert!(run.stdout.contains("installed 2 with uv"), "{}", run.shown());
    let text = std::fs::read_to_string(env.context.project().join(".venv/pyvenv.cfg")).unwrap();
    assert!(text.contains("data/pythons/"), "{text}");
    // It is there, and the environment has it.
    env.sync(&["--bundle", "b"]).expect(0);
    let there = std::fs::read_dir(data.join("pythons")).unwrap().count();
    assert_eq!(there, 1);
    for (link, expected) in [("/etc/passwd", "leads out of it"), ("../../../x", "leads out of it")] {
        std::fs::remove_dir_all(env.context.project().join(".venv")).unwrap_or_default();
        archive_of_python(&env, "evil.tar.gz", &|builder| {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            builder.append_link(&mut header, "python/bin/link", link).unwrap();
        });
        env.context.set("ENVLOCK_INDEX_URL", &format!("{}/pypi", env.server.address));
        env.context.run(&["bundle", "--python", "evil.tar.gz", "-o", "evil"]).expect(0);
        let run = env.sync(&["--bundle", "evil"]).expect(2);
        assert!(run.flat().contains(expected), "{}", run.shown());
        std::fs::remove_dir_all(env.context.project().join("evil")).unwrap();
    }
    assert_eq!(std::fs::read_dir(data.join("pythons")).unwrap().count(), 1);
    // One that no target is for.
    let none = env.context.project().join("none.tar.gz");
    std::fs::write(&none, b"\x1f\x8b").unwrap();
    let run = env.context.run(&["bundle", "--python", "none.tar.gz", "-o", "c"]).expect(2);
    assert!(run.flat().contains("is not an archive with a Python"), "{}", run.shown());
}

#[test]
fn a_bundle_is_signed_as_it_is_written() {
    let Some(env) = Synced::new(true) else { return };
    env.lock("\"beta\"", "");
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    env.context.write("own.pub", &pair.pk.to_box().unwrap().to_string());
    env.context.write("own.key", &pair.sk.to_box(None).unwrap().to_string());
    // As `minisign -G -W` writes it: without the checksum.
    let mut plain = pair.sk.to_bytes();
    let checksum = plain.len() - 32;
    plain[checksum..].fill(0);
    let plain = base64::prelude::BASE64_STANDARD.encode(plain);
    env.context.write("plain.key", &format!("untrusted comment: minisign unencrypted secret key\n{plain}\n"));
    env.context.run(&["bundle", "--python", "none", "--sign", "plain.key", "-o", "b"]).expect(0);
    env.context.run(&["verify", "--bundle", "b", "--pubkey", "own.pub"]).expect(0);
    let run = env.context.run(&["bundle", "--python", "none", "--sign", "own.key", "-o", "b"]).expect(0);
    assert!(run.flat().contains("--pubkey"), "{}", run.shown());
    env.context.run(&["bundle", "--python", "none", "--sign", "own.key", "-o", "b.tar"]).expect(0);
    for bundle in ["b", "b.tar"] {
        env.context.run(&["verify", "--bundle", bundle, "--pubkey", "own.pub"]).expect(0);
    }
    env.sync(&["--bundle", "b.tar", "--pubkey", "own.pub"]).expect(0);
    // Without a key the older signature does not stay.
    env.context.run(&["bundle", "--python", "none", "-o", "b"]).expect(0);
    let run = env.context.run(&["verify", "--bundle", "b", "--pubkey", "own.pub"]).expect(2);
    assert!(run.flat().contains("it is not signed"), "{}", run.shown());
    env.context.write("wrong.key", "untrusted comment: x\nnothing\n");
    let sealed = minisign::KeyPair::generate_encrypted_keypair(Some("secret".to_owned())).unwrap();
    env.context.write("sealed.key", &sealed.sk.to_box(None).unwrap().to_string());
    for (key, expected) in [
        ("none.key", "it does not exist"),
        ("wrong.key", "`wrong.key` cannot sign: it is no secret key of minisign"),
        ("own.pub", "`own.pub` cannot sign: it is no secret key of minisign"),
        ("sealed.key", "it has a password, and no terminal is here"),
    ] {
        let run = env.context.run(&["bundle", "--python", "none", "--sign", key, "-o", "c"]).expect(2);
        assert!(run.flat().contains(expected), "{key}: {}", run.shown());
        assert!(!env.context.exists("c"));
    }
}

/// A wheel that an earlier run built has no hash in the lock: whoever signs builds it.
#[test]
fn who_signs_builds_anew() {
    let Some(env) = Synced::new(true) else { return };
    env.lock("\"built\"", "");
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    env.context.write("own.key", &pair.sk.to_box(None).unwrap().to_string());
    let build = ["bundle", "--python", "none", "--build", "-o", "b"];
    env.context.run(&build).expect(0);
    // The wheel and its hash in the manifest are changed: an empty file.
    let manifest = env.context.read("b/bundle.toml");
    let entry = manifest.split("[[file]]").find(|entry| entry.contains("role = \"built\"")).unwrap();
    let of = |key: &str| entry.lines().find(|line| line.starts_with(key)).unwrap();
    let name = of("name").split('"').nth(1).unwrap();
    let place = env.context.project().join("b/files").join(EMPTY);
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join(name), "").unwrap();
    let forged =
        entry.replace(of("sha256"), &format!("sha256 = \"{EMPTY}\"")).replace(of("size"), "size = 0");
    env.context.write("b/bundle.toml", &manifest.replace(entry, &forged));
    env.context.run(&[&build[..], &["--sign", "own.key"]].concat()).expect(0);
    assert!(!env.context.read("b/bundle.toml").contains(EMPTY));
    env.context.run(&["verify", "--bundle", "b"]).expect(0);
}

/// The steps of a Dockerfile as a builder runs them: what they mount is put in its place, and no index is there.
#[test]
fn an_image_is_built_from_a_bundle() {
    let Some(uv) = super::tools::uv() else { return };
    let large = wheel("large", "1.0").file("large.py", "x = 3\n").filler(60 << 20);
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", uv.display());
    let own = wheel("uv", "1.0").file("uv-1.0.data/scripts/uv", &script);
    let Some(mut env) = Synced::with(false, vec![("pypi", large), ("pypi", own)]) else { return };
    env.lock("\"beta\", \"large\"", "");
    env.context.run(&["bundle", "--python", "none", "--self"]).expect(0);
    without_network(&mut env);
    let run = env.context.run(&["export", "Dockerfile", "--bundle", "envlock-bundle"]).expect(0);
    let parsed = Dockerfile::parse(&run.stdout).unwrap();
    let layers: Vec<String> =
        parsed.instructions.iter().filter_map(|one| Some(one.as_run()?.as_shell()?.to_string())).collect();
    assert_eq!(layers.len(), 2, "{}", run.shown());
    assert!(layers[0].contains("large==1.0") && !layers[0].contains("beta"), "{}", layers[0]);
    let root = env.context.dir.path().join("root");
    std::fs::create_dir_all(root.join("app")).unwrap();
    std::fs::copy(env.context.project().join("envlock-bundle/envlock.lock"), root.join("app/envlock.lock"))
        .unwrap();
    for layer in &layers {
        let mut words: Vec<String> = layer.split_whitespace().map(str::to_owned).collect();
        assert_eq!(words.remove(0), "--network=none", "{layer}");
        while let Some(mount) = words[0].strip_prefix("--mount=type=bind,source=") {
            let (source, target) = mount.split_once(",target=").unwrap();
            let place = root.join(target.trim_start_matches('/'));
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(env.context.project().join(source), place).unwrap();
            words.remove(0);
        }
        let there = |word: &String| match word.starts_with("/opt")
            || word.starts_with("/wheels")
            || word == "/bundle"
        {
            true => format!("{}{word}", root.display()),
            false if word == "envlock" => env!("CARGO_BIN_EXE_envlock").to_owned(),
            false => word.clone(),
        };
        let line = words.iter().map(there).collect::<Vec<_>>().join(" ");
        let mut shell = env.context.command_of("/bin/sh");
        let path = std::env::var("PATH").unwrap_or_default();
        shell.args(["-c", &line]).current_dir(root.join("app")).env("PIP_INDEX_URL", DEAD).env("PATH", path);
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let python = root.join("opt/env/bin/python");
    let says =
        Command::new(python).args(["-I", "-c", "import beta, large; print(large.x)"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&says.stdout).trim(), "3");
    let fold = |text: &str| {
        let hash = |word: &str| word.len() >= 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
        let parts = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
        let name = |part: &str| match hash(part.trim_end_matches(['/', ' '])) {
            true => format!("HASH{}", part.trim_start_matches(|c: char| c.is_ascii_hexdigit())),
            false => part.to_owned(),
        };
        parts.map(name).collect::<String>()
    };
    insta::assert_snapshot!(fold(&run.stdout).replace(&format!("python:{}", env.series), "python:3.N"), @r#"
    # Written by envlock as Dockerfile; change the manifest and run `envlock resolve`.
    # Build context: `envlock-bundle`. No step uses the network: the base image has to be here (`docker load`).
    # BuildKit reads the bundle where it lies: it is in no layer.
    FROM python:3.N-slim

    WORKDIR /app
    # The large packages, which change seldom.
    RUN --network=none \
        --mount=type=bind,source=envlock-bundle/files/HASH/large-1.0-py3-none-any.whl,target=/wheels/large-1.0-py3-none-any.whl \
        printf '%s *%s\n' \
            HASH /wheels/large-1.0-py3-none-any.whl \
        | sha256sum -c \
        && python3 -m venv /opt/env \
        && /opt/env/bin/pip install --no-cache-dir --no-index --no-deps --find-links /wheels \
        large==1.0
    COPY --chmod=755 envlock-bundle/files/HASH/envlock /usr/local/bin/envlock
    COPY envlock-bundle/envlock.lock ./
    # All that is left. Files are hashed first, the environment is verified after; this needs no GPU.
    RUN --network=none --mount=type=bind,source=envlock-bundle,target=/bundle \
        envlock sync --bundle /bundle --prefix /opt/env --smoke off
    ENV VIRTUAL_ENV=/opt/env \
        PATH="/opt/env/bin:$PATH"

    # Checks driver and GPU against the lock before the command starts.
    ENTRYPOINT ["envlock", "run", "--"]
    CMD ["python"]
    "#);
    // A bundle elsewhere is in no build context.
    let run = env.context.run(&["export", "Dockerfile", "--bundle", "../elsewhere"]);
    run.expect(2);
    let away = env.context.dir.path().join("away");
    std::fs::rename(env.context.project().join("envlock-bundle"), &away).unwrap();
    let run = env.context.run(&["export", "Dockerfile", "--bundle", &away.display().to_string()]).expect(2);
    assert!(run.flat().contains("is not below the folder of the lock"), "{}", run.shown());
}
