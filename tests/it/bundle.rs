//! `bundle`, and what reads one: `sync --bundle`, `verify --bundle`, `export requirements.txt --bundle`.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::common::synced::Synced;
use super::context::{Run, Shape, TestContext};
use super::tools;
use super::wheels::wheel;

const DEAD: &str = "http://127.0.0.1:9";

/// From here on no index answers.
fn without_network(env: &mut Synced) {
    env.context.set("ENVLOCK_INDEX_URL", DEAD);
    env.context.set("ENVLOCK_PYTORCH_INDEX_URL", DEAD);
}

fn bundled(env: &Synced, arguments: &[&str]) -> Run {
    env.context.run(&[&["bundle", "--python", "none"], arguments].concat())
}

/// The only file of a bundle with this start.
fn file_of(context: &TestContext, bundle: &str, start: &str) -> PathBuf {
    let folders = std::fs::read_dir(context.project().join(bundle).join("files")).unwrap();
    let files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let mut files = files.map(|file| file.unwrap().path());
    files.find(|path| path.file_name().unwrap().to_str().unwrap().starts_with(start)).unwrap()
}

fn installs_without_a_network(with_uv: bool) {
    let Some(mut env) = Synced::new(with_uv) else { return };
    env.lock("\"beta\", \"built\"", "");
    let run = bundled(&env, &["--dry-run"]).expect(0);
    assert!(
        run.stdout.contains("nothing was downloaded") && !env.context.exists("envlock-bundle"),
        "{}",
        run.shown()
    );
    let run = bundled(&env, &["--self"]).expect(0);
    assert!(run.stderr.contains("the index pypi has no wheel of `uv`"), "{}", run.shown());
    assert!(run.stdout.starts_with("default        4 files, "), "{}", run.shown());
    let manifest = env.context.read("envlock-bundle/bundle.toml");
    without_network(&mut env);
    let asked = env.server.paths().len();
    let run = env.context.run(&["verify", "--bundle", "envlock-bundle"]).expect(0);
    assert!(run.stdout.ends_with("\nwhole\n"), "{}", run.shown());
    let run = env.sync(&["--bundle", "envlock-bundle", "--build"]).expect(0);
    assert!(run.stdout.contains("installed 3 with") && run.stdout.contains("3 as locked"), "{}", run.shown());
    assert_eq!(env.prints("import beta, alpha, built; print(alpha.x, built.built)"), "2 True");
    assert_eq!(env.server.paths().len(), asked);
    // What is whole is kept, and the manifest is the same.
    env.context.unset("ENVLOCK_INDEX_URL");
    env.context.set("ENVLOCK_INDEX_URL", &format!("{}/pypi", env.server.address));
    let run = bundled(&env, &["--self"]).expect(0);
    assert!(run.stdout.contains(", 4 there before"), "{}", run.shown());
    assert_eq!(env.context.read("envlock-bundle/bundle.toml"), manifest);
}

#[test]
fn uv_installs_from_a_bundle() {
    installs_without_a_network(true);
}

#[test]
fn pip_installs_from_a_bundle() {
    installs_without_a_network(false);
}

/// The installer comes with the bundle, and the lock, for a folder that has nothing.
#[test]
fn a_bundle_brings_its_installer_and_the_lock() {
    let Some(uv) = tools::uv() else { return };
    let script = format!("#!/bin/sh\necho from the bundle >>\"$0.log\"\nexec {} \"$@\"\n", uv.display());
    let own = wheel("uv", "1.0").file("uv-1.0.data/scripts/uv", &script);
    let Some(mut env) = Synced::with(false, vec![("pypi", own)]) else { return };
    env.lock("\"beta\"", "");
    let run = bundled(&env, &["-o", "b.tar"]).expect(0);
    assert!(run.stdout.starts_with("default        3 files, "), "{}", run.shown());
    assert!(!env.context.exists("b.tar.parts") && !env.context.exists("b.tar.part"));
    without_network(&mut env);
    for name in ["envlock.lock", "envlock.toml"] {
        std::fs::remove_file(env.context.project().join(name)).unwrap();
    }
    env.context.run(&["verify", "--bundle", "b.tar"]).expect(0);
    let run = env.sync(&["--bundle", "b.tar"]).expect(0);
    assert!(run.stderr.contains("wrote envlock.lock, which is the bundle's"), "{}", run.shown());
    assert!(run.stdout.contains("installed 2 with uv"), "{}", run.shown());
    // pip takes the same files.
    let unpacked = env.context.project().join("un packed");
    std::fs::create_dir_all(&unpacked).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&unpacked).arg("-xf").arg(env.context.project().join("b.tar"));
    assert!(tar.status().unwrap().success());
    env.context.run(&["verify", "--bundle", "un packed"]).expect(0);
    let run =
        env.context.run(&["export", "requirements.txt", "--bundle", "un packed", "-o", "r.txt"]).expect(0);
    assert!(env.context.read("r.txt").contains("\n--no-index\n--find-links file:///"), "{}", run.shown());
    let pip = Command::new(env.python())
        .args(["-I", "-m", "venv", "v"])
        .current_dir(env.context.project())
        .status();
    assert!(pip.unwrap().success());
    let pip = Command::new(env.context.project().join("v/bin/pip"))
        .args(["install", "-q", "--require-hashes", "-r", "r.txt"])
        .env("PIP_INDEX_URL", DEAD)
        .current_dir(env.context.project())
        .output()
        .unwrap();
    assert!(pip.status.success(), "{}", String::from_utf8_lossy(&pip.stderr));
}

/// Nothing is installed from a bundle that is not what it was.
#[test]
fn a_bundle_that_is_not_whole_is_refused() {
    let Some(env) = Synced::new(true) else { return };
    env.lock("\"beta\"", "");
    bundled(&env, &["-o", "b"]).expect(0);
    let context = &env.context;
    let folder = context.project().join("b");
    let alpha = file_of(context, "b", "alpha-");
    let manifest = context.read("b/bundle.toml");
    type Fault<'f> = (&'f str, &'f dyn Fn(), &'f dyn Fn());
    let bytes = std::fs::read(&alpha).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    let lock = context.read("b/envlock.lock");
    let longer = manifest.replacen("lock = \"", "lock = \"0", 1);
    let faults: [Fault<'_>; 11] = [
        (
            "`alpha-2.0-py3-none-any.whl` was changed",
            &|| std::fs::write(&alpha, [&bytes[..bytes.len() - 1], b"x"].concat()).unwrap(),
            &|| std::fs::write(&alpha, &bytes).unwrap(),
        ),
        ("`alpha-2.0-py3-none-any.whl` is missing", &|| std::fs::remove_file(&alpha).unwrap(), &|| {
            std::fs::write(&alpha, &bytes).unwrap();
        }),
        (
            "`files/evil-1.0-py3-none-any.whl` is there",
            &|| write("files/evil-1.0-py3-none-any.whl", "x"),
            &|| {
                std::fs::remove_file(folder.join("files/evil-1.0-py3-none-any.whl")).unwrap();
            },
        ),
        ("`sitecustomize.py` is there", &|| write("sitecustomize.py", "x"), &|| {
            std::fs::remove_file(folder.join("sitecustomize.py")).unwrap();
        }),
        (
            "`alpha-2.0-py3-none-any.whl` is a link or a special file",
            &|| {
                std::fs::rename(&alpha, folder.join("a")).unwrap();
                std::os::unix::fs::symlink(folder.join("a"), &alpha).unwrap();
            },
            &|| std::fs::rename(folder.join("a"), &alpha).unwrap(),
        ),
        ("its copy of envlock.lock was changed", &|| write("envlock.lock", "#"), &|| {
            write("envlock.lock", &lock)
        }),
        (
            "it has no copy of envlock.lock",
            &|| std::fs::remove_file(folder.join("envlock.lock")).unwrap(),
            &|| write("envlock.lock", &lock),
        ),
        (
            "`files/0",
            // Named as what an older bundle had, with another content.
            &|| {
                let hash = "0".repeat(64);
                let superseded = format!("superseded = [\"{hash}\"]\n\n[[file]]");
                write("bundle.toml", &manifest.replacen("[[file]]", &superseded, 1));
                std::fs::create_dir_all(folder.join("files").join(&hash)).unwrap();
                write(&format!("files/{hash}/x.whl"), "x");
            },
            &|| {
                std::fs::remove_dir_all(folder.join("files").join("0".repeat(64))).unwrap();
                write("bundle.toml", &manifest);
            },
        ),
        (
            "the manifest states another size of",
            &|| write("bundle.toml", &manifest.replacen("size = ", "size = 9", 1)),
            &|| write("bundle.toml", &manifest),
        ),
        ("is not a SHA-256", &|| write("bundle.toml", &longer), &|| write("bundle.toml", &manifest)),
        (
            "`alpha-2.0-py3-none-any.whl`, which the lock needs, is not in its manifest",
            &|| write("bundle.toml", &manifest.replacen("role = \"package\"", "role = \"python\"", 1)),
            &|| write("bundle.toml", &manifest),
        ),
    ];
    for (expected, harm, repair) in &faults {
        harm();
        // A manifest that cannot be read is an error of the input, not a finding.
        let code = if *expected == "is not a SHA-256" { 2 } else { 1 };
        for run in [context.run(&["verify", "--bundle", "b"]), env.sync(&["--bundle", "b"])] {
            let run = run.expect(code);
            assert!(run.flat().contains(expected), "{expected}\n{}", run.shown());
        }
        assert!(!context.exists(".venv"), "{expected}");
        repair();
    }
    write("bundle.toml", &manifest.replacen("targets = [\"default\"]", "targets = [\"other\"]", 1));
    let run = context.run(&["verify", "--bundle", "b"]).expect(1);
    assert!(run.flat().contains("the target `other`, which the lock does not have"), "{}", run.shown());
    let file = manifest.split("[[file]]").nth(1).unwrap();
    write("bundle.toml", &format!("{manifest}[[file]]{file}"));
    let run = context.run(&["verify", "--bundle", "b"]).expect(2);
    assert!(run.flat().contains("it lists `"), "{}", run.shown());
    write("bundle.toml", &manifest);
    // A folder without a lock gets none from a bundle that is not whole.
    let extra = folder.join("sitecustomize.py");
    std::fs::write(&extra, "x").unwrap();
    std::fs::rename(context.project().join("envlock.lock"), context.project().join("own.lock")).unwrap();
    env.sync(&["--bundle", "b"]).expect(1);
    assert!(!context.exists("envlock.lock"));
    std::fs::rename(context.project().join("own.lock"), context.project().join("envlock.lock")).unwrap();
    std::fs::remove_file(extra).unwrap();
    // Nobody's own files are removed.
    context.write("data/files/notes.txt", "x");
    let run = bundled(&env, &["-o", "data"]).expect(2);
    assert!(
        run.flat().contains("it has `notes.txt`") && context.exists("data/files/notes.txt"),
        "{}",
        run.shown()
    );
    // What an older bundle has whole is no reason to fail.
    bundled(&env, &["-o", "nothing-new", "--since", "b"]).expect(0);
    assert!(context.exists("nothing-new/bundle.toml"));
    // The lock was resolved again.
    env.lock("\"beta\", \"gamma\"", "");
    let run = context.run(&["verify", "--bundle", "b", "--json"]).expect(1).json();
    assert_eq!(run["findings"][0]["code"], "bundle-differs", "{run}");
    let message = run["findings"][0]["message"].as_str().unwrap();
    assert!(message.starts_with("it was made for another lock"), "{message}");
    // An interrupted run leaves no manifest.
    std::fs::remove_file(folder.join("bundle.toml")).unwrap();
    let run = env.sync(&["--bundle", "b"]).expect(2);
    assert!(run.flat().contains("it has no `bundle.toml`"), "{}", run.shown());
}

/// A download that ends half-way goes on where it ended.
#[test]
fn a_download_goes_on_where_it_ended() {
    let shape = Shape { json: true, metadata: true, cut_files: true, ..Shape::default() };
    let large = wheel("large", "1.0").filler(300_000);
    let Some(env) = Synced::of_shape(true, vec![("pypi", large)], shape) else { return };
    env.lock("\"large\"", "");
    bundled(&env, &["-o", "b"]).expect(0);
    env.context.run(&["verify", "--bundle", "b"]).expect(0);
    let large = file_of(&env.context, "b", "large-");
    let there = std::fs::read_dir(large.parent().unwrap()).unwrap();
    assert_eq!(there.count(), 1, "the part is gone");
    let asked = env.server.paths().iter().filter(|path| path.ends_with("large-1.0-py3-none-any.whl")).count();
    assert_eq!(asked, 2, "the whole file, then its rest");
}

/// Who signed the manifest answers for the installer in it.
#[test]
fn a_signed_bundle_is_held_against_the_key() {
    let Some(env) = Synced::new(true) else { return };
    env.lock("\"beta\"", "");
    bundled(&env, &["-o", "b"]).expect(0);
    let context = &env.context;
    let sign = |name: &str| {
        let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
        context.write(name, &pair.pk.to_box().unwrap().to_string());
        let text = std::io::Cursor::new(context.read("b/bundle.toml"));
        minisign::sign(None, &pair.sk, text, None, None).unwrap().into_string()
    };
    let own = ["verify", "--bundle", "b", "--pubkey", "a.pub"];
    let signature = sign("a.pub");
    sign("other.pub");
    let run = context.run(&own).expect(2);
    assert!(run.flat().contains("it is not signed"), "{}", run.shown());
    context.write("b/bundle.toml.minisig", &signature);
    context.run(&own).expect(0);
    let run = context.run(&["verify", "--bundle", "b", "--pubkey", "other.pub"]).expect(2);
    assert!(run.flat().contains("its manifest is not signed by this key"), "{}", run.shown());
    let manifest = context.read("b/bundle.toml");
    context.write("b/bundle.toml", &manifest.replace("role = \"package\"", "role = \"program\""));
    let run = env.sync(&["--bundle", "b", "--pubkey", "a.pub"]).expect(2);
    assert!(run.flat().contains("its manifest is not signed by this key"), "{}", run.shown());
}

/// A delta has what an older bundle lacks, and is laid over it.
#[test]
fn a_delta_is_laid_over_the_older_bundle() {
    let Some(env) = Synced::new(true) else { return };
    let context = &env.context;
    env.lock("\"beta\", \"alpha<2\"", "");
    bundled(&env, &["-o", "old"]).expect(0);
    env.lock("\"beta\", \"gamma\", \"alpha>1\"", "");
    let run = bundled(&env, &["-o", "new", "--since", "old"]).expect(0);
    assert!(run.stdout.contains(", 1 there before"), "{}", run.shown());
    assert!(run.flat().contains("on the other side: `cp -r new/. OLD`, where `OLD` is"), "{}", run.shown());
    let packed = bundled(&env, &["-o", "new.tar", "--since", "old"]).expect(0);
    assert!(packed.flat().contains("on the other side: `tar -xf new.tar -C OLD`,"), "{}", packed.shown());
    let run = context.run(&["verify", "--bundle", "new"]).expect(1);
    assert!(run.flat().contains("`beta-1.0-py3-none-any.whl` is missing"), "{}", run.shown());
    let copied = Command::new("cp").args(["-r", "new/.", "old/"]).current_dir(context.project()).status();
    assert!(copied.unwrap().success());
    context.run(&["verify", "--bundle", "old"]).expect(0);
    env.sync(&["--bundle", "old"]).expect(0);
    assert_eq!(env.prints("import beta, alpha, gamma; print(alpha.x)"), "2");
}

#[test]
fn a_wheelhouse_is_what_plain_pip_takes() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"beta\"", "");
    let run = env.context.run(&["bundle", "--wheelhouse", "-o", "w"]).expect(0);
    assert!(run.stderr.contains("pip install --no-index --find-links w"), "{}", run.shown());
    let folder = env.context.project();
    let made = Command::new("python3").args(["-I", "-m", "venv", "v"]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    let pip = Command::new(folder.join("v/bin/pip"))
        .args([
            "install",
            "-q",
            "--no-index",
            "--find-links",
            "w",
            "--require-hashes",
            "-r",
            "w/requirements.txt",
        ])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(pip.status.success(), "{}", String::from_utf8_lossy(&pip.stderr));
}

#[test]
fn what_cannot_be_bundled_is_said() {
    let Some(env) = Synced::new(true) else { return };
    let context = &env.context;
    env.lock("\"beta\"", "");
    context.write("mine/notes.txt", "precious");
    context.write("python.zip", "");
    context.write("photos.tar", "precious");
    context.write("made/bundle.toml", "");
    for (arguments, expected) in [
        (&["bundle", "-o", "mine"][..], "`mine` is no bundle: it has `notes.txt`"),
        (&["bundle", "--python", "python.zip"], "is not an archive `NAME.tar.gz` with a Python"),
        (&["bundle", "--target", "moon"], "no target `moon`"),
        (&["bundle", "--since", "nowhere"], "`nowhere` is not a bundle that can be used"),
        (&["bundle", "--wheelhouse", "--self"], "a wheelhouse has the files of the lock alone"),
        (&["bundle", "--wheelhouse", "-o", "w.tar"], "a wheelhouse is a folder, and no archive"),
        (&["bundle", "--wheelhouse", "-o", "made"], "`made` is a bundle, and a wheelhouse in it"),
        (&["bundle", "--wheelhouse", "--build"], "a wheelhouse has the files of the lock alone"),
        (&["bundle", "-o", "b.tar.gz"], "a bundle is a folder or `NAME.tar`, and `b.tar.gz` names neither"),
        (&["bundle", "-o", "b.ZIP"], "`b.ZIP` names neither"),
        (&["bundle", "-o", "photos.tar"], "`photos.tar` is there, and is no bundle"),
        (&["bundle", "-o", "envlock.toml"], "`envlock.toml` is there, and is no bundle"),
        (&["verify", "--bundle", "mine"], "it has no `bundle.toml`"),
        (&["verify", "--bundle", "python.zip"], "it has no `bundle.toml`"),
        (
            &["export", "pylock.toml", "--bundle", "b"],
            "`--bundle` is for `requirements.txt` and `Dockerfile`",
        ),
        (&["sync", "--pubkey", "k"], "--bundle"),
    ] {
        let run = context.run(arguments).expect(2);
        assert!(run.flat().contains(expected), "{expected}\n{}", run.shown());
    }
    assert_eq!(context.read("mine/notes.txt"), "precious");
    assert_eq!(context.read("photos.tar"), "precious");
    let stack = ["resolve", "--force", "--stack-only", "--gpu", "none", "--only-index", "pypi"];
    context.write("envlock.toml", "[project]\ndependencies = [\"torch\"]\n");
    context.run(&stack).expect(0);
    let run = context.run(&["bundle"]).expect(2);
    assert!(run.flat().contains("`--stack-only`: it has no files"), "{}", run.shown());
}

/// Members of an archive that would be written elsewhere.
#[test]
fn hostile_archives_are_refused() {
    let Some(env) = Synced::new(true) else { return };
    env.lock("\"beta\"", "");
    bundled(&env, &["-o", "b"]).expect(0);
    let folder = env.context.project();
    let pack = |name: &str, add: &dyn Fn(&mut tar::Builder<std::fs::File>)| {
        let mut builder = tar::Builder::new(std::fs::File::create(folder.join(name)).unwrap());
        builder.append_dir_all(".", folder.join("b")).unwrap();
        add(&mut builder);
        builder.finish().unwrap();
    };
    let member = |builder: &mut tar::Builder<std::fs::File>, path: &str, kind: tar::EntryType| {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(kind);
        header.set_size(0);
        if kind == tar::EntryType::Symlink {
            header.set_link_name("/etc").unwrap();
        }
        header.set_cksum();
        builder.append(&header, std::io::empty()).unwrap();
    };
    pack("sound.tar", &|_| {});
    env.context.run(&["verify", "--bundle", "sound.tar"]).expect(0);
    let mut bytes = std::fs::read(env.context.project().join("sound.tar")).unwrap();
    bytes.extend([0; 512]);
    std::fs::write(env.context.project().join("padded.tar"), &bytes).unwrap();
    env.context.run(&["verify", "--bundle", "padded.tar"]).expect(0);
    bytes.extend(b"more");
    std::fs::write(env.context.project().join("longer.tar"), &bytes).unwrap();
    let run = env.context.run(&["verify", "--bundle", "longer.tar"]).expect(2);
    assert!(run.flat().contains("something follows the end of the archive"), "{}", run.shown());
    for (path, kind, expected) in [
        ("../evil", tar::EntryType::Regular, "its member `../evil` is not a file with a plain path"),
        ("/tmp/evil", tar::EntryType::Regular, "is not a file with a plain path"),
        ("files/link", tar::EntryType::Symlink, "its member `files/link` is not a file with a plain path"),
        ("files/pipe", tar::EntryType::Fifo, "is not a file with a plain path"),
        ("bundle.toml", tar::EntryType::Regular, "is not a bundle that can be used"),
    ] {
        pack("evil.tar", &|builder| member(builder, path, kind));
        let run = env.sync(&["--bundle", "evil.tar"]).expect(2);
        assert!(run.flat().contains(expected), "{path}: {}", run.shown());
    }
    assert!(!Path::new("/tmp/evil").exists());
}

/// Where the files of a run lie: they go with it, and what is wrong with their place is said of that place.
#[test]
fn temporary_files_have_a_place_and_go() {
    let Some(mut env) = Synced::new(true) else { return };
    env.lock("\"beta\"", "");
    bundled(&env, &["-o", "b.tar"]).expect(0);
    let verify = ["verify", "--bundle", "b.tar"];
    env.context.set("TMPDIR", "/nowhere");
    let run = env.context.run(&verify).expect(2);
    assert!(run.flat().contains("`/nowhere`, for temporary files, cannot be written"), "{}", run.shown());
    assert!(run.flat().contains("export TMPDIR=~/tmp"), "{}", run.shown());
    env.context.write("tmp/own.txt", "");
    let folder = env.context.project().join("tmp");
    env.context.set("TMPDIR", folder.to_str().unwrap());
    env.context.run(&verify).expect(0);
    // An installer that waits while the run is interrupted.
    let waits = env.context.dir.path().join("waits");
    std::fs::create_dir_all(&waits).unwrap();
    std::fs::write(
        waits.join("uv"),
        "#!/bin/sh\ncase $1 in --version) echo uv 0.9.0;; *) exec sleep 60;; esac\n",
    )
    .unwrap();
    super::context::executable(&waits.join("uv"));
    let path = format!("{}:{}", waits.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = env.context.command();
    command.args(["sync", "--bundle", "b.tar"]).env("PATH", path).stdout(std::process::Stdio::null());
    let mut sync = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
    };
    let begun = std::time::Instant::now();
    let is_there = |names: Vec<String>| names.iter().any(|name| name.starts_with("envlock-wheels-"));
    while !is_there(names()) && begun.elapsed().as_secs() < 30 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(is_there(names()), "{:?}", names());
    let killed = Command::new("kill").args(["-INT", &sync.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(sync.wait().unwrap().code(), Some(130));
    assert_eq!(names(), ["own.txt"]);
}

/// An archive as a person packs one, and a second run that finds the first one's archive.
#[test]
fn archives_of_others_and_of_an_earlier_run() {
    let Some(env) = Synced::new(true) else { return };
    env.lock("\"beta\"", "");
    bundled(&env, &["-o", "b"]).expect(0);
    let mut tar = Command::new("tar");
    let packed = tar.args(["-cf", "by-hand.tar", "b"]).current_dir(env.context.project()).status().unwrap();
    assert!(packed.success());
    env.context.run(&["verify", "--bundle", "by-hand.tar"]).expect(0);
    bundled(&env, &["-o", "own.tar"]).expect(0);
    let asked = env.server.paths().iter().filter(|path| path.ends_with(".whl")).count();
    let run = bundled(&env, &["-o", "own.tar"]).expect(0);
    assert!(run.stdout.contains(", 2 there before"), "{}", run.shown());
    assert_eq!(env.server.paths().iter().filter(|path| path.ends_with(".whl")).count(), asked);
    // Two at once: one waits for the other.
    let start = || {
        let mut command = env.context.command();
        command
            .args(["bundle", "--python", "none", "-o", "twice"])
            .stdout(std::process::Stdio::null())
            .spawn()
    };
    let both = [start().unwrap(), start().unwrap()];
    for mut child in both {
        assert!(child.wait().unwrap().success());
    }
    env.context.run(&["verify", "--bundle", "twice"]).expect(0);
}

/// A package that is a folder of the project comes with the project: to a wheelhouse it cannot, and where it is missing nothing is
/// installed.
#[test]
fn a_folder_of_the_project_is_not_in_a_bundle() {
    let Some(env) = Synced::new(true) else { return };
    let project = "[project]\nname = \"own-lib\"\nversion = \"1\"\n";
    env.context.write("libs/own/pyproject.toml", project);
    env.lock("\"beta\", \"own-lib @ ./libs/own\"", "");
    let run = env.context.run(&["bundle", "--wheelhouse", "-o", "w"]).expect(2);
    assert!(run.flat().contains("the lock takes `own-lib` from a folder"), "{}", run.shown());
    bundled(&env, &["-o", "b"]).expect(0);
    std::fs::remove_dir_all(env.context.project().join("libs")).unwrap();
    let run = env.sync(&["--bundle", "b", "--build"]).expect(2);
    assert!(run.flat().contains("`own-lib` is locked as `libs/own`, which is not there"), "{}", run.shown());
    assert!(!env.context.exists(".venv"), "{}", run.shown());
}
