//! What `sync` hands to installers: a forged lock, a planted folder and the surroundings build and install nothing that
//! nobody allowed.

use std::os::unix::fs::symlink;
use std::path::Path;

use super::common::installed::with_checksum;
use super::common::synced::{BUILD_SYSTEM, Synced, backend, source};
use super::context::Run;
use super::wheels::wheel;

/// A source distribution that leaves a file where its code ran.
fn leaves(name: &str, version: &str, mark: &Path) -> super::wheels::Wheel {
    let mut own = source(name, version);
    let code = format!("open({:?}, 'a').write({name:?} + '\\n')\n", mark.display().to_string());
    for (path, text) in &mut own.files {
        if path == "backend.py" {
            text.extend(code.as_bytes());
        }
    }
    own
}

/// The names of what ran.
fn ran(mark: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(mark).unwrap_or_default();
    let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Replaces the row of a file in a lock.
fn forge(env: &Synced, from: &str, to: &str) {
    let text = env.context.read("envlock.lock");
    assert!(text.contains(from), "{from}\n{text}");
    env.context.write("envlock.lock", &with_checksum(&text.replacen(from, to, 1)));
}

/// The SHA-256 that the lock has for a file.
fn hash_of(env: &Synced, file: &str) -> String {
    let text = env.context.read("envlock.lock");
    let at = text.find(&format!("{file}\", sha256 = \"")).unwrap_or_else(|| panic!("{file}\n{text}"));
    let at = at + file.len() + "\", sha256 = \"".len();
    text[at..at + 64].to_owned()
}

fn refused(run: &Run) {
    assert!(run.code == 2, "{}", run.shown());
}

/// A wheel's row gets the hash of the source distribution of the same release, beside a package that may be built.
fn a_hash_of_another_file_builds_nothing(with_uv: bool) {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let evil = leaves("alpha", "2.0", &mark);
    let (page, ..) = evil.build();
    let Some(env) = Synced::with(with_uv, vec![("pypi", evil), ("pypi", leaves("made", "1.0", &mark))])
    else {
        return;
    };
    env.lock("\"alpha\", \"made\"", "[sync]\nallow-build = [\"made\"]\n");
    let own = hash_of(&env, "alpha-2.0-py3-none-any.whl");
    forge(&env, &own, &page.sha256);
    refused(&env.sync(&[]));
    assert!(ran(&mark).iter().all(|name| name == "made"), "{:?}", ran(&mark));
    // The hash belongs to the file that the lock names.
    let checked = env.context.run(&["resolve", "--check-hashes"]).expect(1);
    assert!(checked.flat().contains("disagree on `alpha-2.0-py3-none-any.whl`"), "{}", checked.shown());
    env.context.run(&["resolve", "--upgrade"]).expect(0);
    env.sync(&[]).expect(0);
    assert_eq!(ran(&mark), ["made"]);
}

#[test]
fn a_hash_of_another_file_builds_nothing_with_pip() {
    a_hash_of_another_file_builds_nothing(false);
}

#[test]
fn a_hash_of_another_file_builds_nothing_with_uv() {
    a_hash_of_another_file_builds_nothing(true);
}

/// A package that may be built requires another one for that, which exists only as source.
fn what_a_build_requires_is_not_built(with_uv: bool) {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let mut made = leaves("made", "1.0", &mark);
    for (path, text) in &mut made.files {
        if path == "pyproject.toml" {
            *text = String::from_utf8(text.clone())
                .unwrap()
                .replace("requires = []", "requires = [\"helper\"]")
                .into();
        }
    }
    let Some(env) = Synced::with(with_uv, vec![("pypi", made), ("pypi", leaves("helper", "1.0", &mark))])
    else {
        return;
    };
    env.lock("\"made\"", "[sync]\nallow-build = [\"made\"]\n");
    refused(&env.sync(&[]));
    assert_eq!(ran(&mark), [""; 0]);
}

#[test]
fn what_a_build_requires_is_not_built_with_pip() {
    what_a_build_requires_is_not_built(false);
}

#[test]
fn what_a_build_requires_is_not_built_with_uv() {
    what_a_build_requires_is_not_built(true);
}

/// A folder below the project is built unasked only if the request names it, and if it is there.
#[test]
fn a_folder_that_the_request_does_not_name_is_not_built() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let Some(env) = Synced::new(false) else { return };
    let put = |place: &Path, name: &str| {
        std::fs::create_dir_all(place).unwrap();
        let pyproject =
            format!("[project]\nname = {name:?}\nversion = \"1.0\"\ndependencies = []\n{BUILD_SYSTEM}");
        std::fs::write(place.join("pyproject.toml"), pyproject).unwrap();
        let code = format!("open({:?}, 'a').write({name:?} + '\\n')\n", mark.display().to_string());
        std::fs::write(place.join("backend.py"), backend(name, "1.0") + &code).unwrap();
    };
    let project = env.context.project();
    put(&project.join("libs/own"), "own");
    put(&project.join("libs/other"), "other");
    put(&folder.path().join("elsewhere"), "own");
    let metadata = "[[metadata]]\nname = \"own\"\nrequires-dist = []\n";
    env.lock("\"own @ ./libs/own\"", metadata);
    env.sync(&[]).expect(0);
    assert_eq!(ran(&mark), ["own"]);
    let honest = env.context.read("envlock.lock");
    std::fs::remove_dir_all(project.join(".venv")).unwrap();
    std::fs::remove_file(&mark).unwrap();
    forge(&env, "path = \"libs/own\"", "path = \"libs/other\"");
    let run = env.sync(&[]);
    refused(&run);
    assert!(run.flat().contains("`own` exists only as source"), "{}", run.shown());
    // A link leads out of the project.
    env.context.write("envlock.lock", &honest);
    std::fs::remove_dir_all(project.join("libs/own")).unwrap();
    symlink(folder.path().join("elsewhere"), project.join("libs/own")).unwrap();
    refused(&env.sync(&[]));
    assert_eq!(ran(&mark), [""; 0]);
    env.sync(&["--build"]).expect(0);
    assert_eq!(ran(&mark), ["own"]);
}

/// Only the variables that SECURITY.md lists reach an installer; `-v` names the others.
#[test]
fn variables_that_would_redirect_an_installer_do_not_reach_it() {
    let Some(mut env) = Synced::new(false) else { return };
    let seen = env.context.dir.path().join("seen");
    let bin = env.context.dir.path().join("bin");
    let uv = format!("#!/bin/sh\n/usr/bin/env >> {}\nexit 1\n", seen.display());
    std::fs::write(bin.join("uv"), uv).unwrap();
    super::context::executable(&bin.join("uv"));
    env.lock("\"alpha\"", "[sync]\npass-env = [\"CORP_SITE\"]\n");
    for (name, value) in [
        ("UV_CONFIG_FILE", "evil.toml"),
        ("UV_EXCLUDE", "alpha"),
        ("UV_WORKING_DIRECTORY", "/"),
        ("UV_NOT_YET_INVENTED", "1"),
        ("PIP_TARGET", "/tmp/x"),
        ("LD_PRELOAD", ""),
        ("PYTHONPATH", "."),
        ("SSL_CERT_DIR", "/certificates"),
        ("UV_CONCURRENT_DOWNLOADS", "3"),
        ("CORP_SITE", "5"),
    ] {
        env.context.set(name, value);
    }
    let run = env.sync(&["-v"]);
    refused(&run);
    let seen = std::fs::read_to_string(seen).unwrap();
    let has = |name: &str| seen.lines().any(|line| line.starts_with(&format!("{name}=")));
    for name in [
        "UV_CONFIG_FILE",
        "UV_EXCLUDE",
        "UV_WORKING_DIRECTORY",
        "UV_NOT_YET_INVENTED",
        "PIP_TARGET",
        "PYTHONPATH",
    ] {
        assert!(!has(name), "{name}\n{seen}");
        assert!(run.flat().contains(name), "{name}\n{}", run.shown());
    }
    for name in ["PATH", "SSL_CERT_DIR", "UV_CONCURRENT_DOWNLOADS", "CORP_SITE"] {
        assert!(has(name), "{name}\n{seen}");
    }
}

/// A project that uv holds: what nobody allowed is not built, whatever its settings, groups, markers and files say.
#[test]
fn uv_builds_nothing_that_was_not_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let far = "cp38-abi3-manylinux_2_99_x86_64";
    let more = vec![
        ("pypi", leaves("evil", "1.0", &mark)),
        ("pypi", leaves("both", "1.0", &mark)),
        ("pypi", wheel("both", "1.0").file("both.py", "")),
        ("pypi", leaves("far", "1.0", &mark)),
        ("pypi", wheel("far", "1.0").tags(far).file("far.py", "")),
    ];
    let Some(mut env) = Synced::with(true, more) else { return };
    env.context.set("UV_PYTHON_DOWNLOADS", "never");
    env.context.set("UV_DEFAULT_INDEX", &format!("{}/pypi", env.server.address));
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let marker = format!("; platform_release == '{}'", release.trim());
    let groups = "[dependency-groups]\nother_Group = [\"evil\"]\n";
    for (what, dependencies, tables, settings) in [
        ("every group", "", groups, "default-groups = \"all\""),
        ("a group's name", "", groups, "default-groups = [\"Other.group\"]"),
        ("a marker on the kernel", &format!("\"evil{marker}\""), "", ""),
        ("a marker on a patch", "\"evil; python_full_version >= '3.8.1'\"", "", ""),
        ("a wheel for a newer glibc", "\"far\"", "", ""),
        ("a setting", "\"both\"", "", "no-binary-package = [\"Both\"]"),
        ("all by a setting", "\"both\"", "", "no-binary = true"),
        ("a file of settings too large to read", "\"both\"", "", ""),
    ] {
        let _ = std::fs::remove_dir_all(env.context.project().join(".venv"));
        let _ = std::fs::remove_file(env.context.project().join("uv.lock"));
        let _ = std::fs::remove_file(env.context.project().join("envlock.lock"));
        let text = format!(
            "[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \">={}\"\ndependencies = [{dependencies}]\n{tables}[tool.uv]\n{settings}\n[tool.envlock]\n",
            env.series
        );
        env.context.write("pyproject.toml", &text);
        // The lock is made by who forges it; reading metadata may build there.
        let made = env.context.command_of("uv").arg("lock").output().unwrap();
        assert!(made.status.success(), "{what}: {}", String::from_utf8_lossy(&made.stderr));
        env.context.run(&["resolve", "--gpu", "none", "--python", &env.series]).expect(0);
        let _ = std::fs::remove_file(&mark);
        let _ = std::fs::remove_dir_all(env.context.dir.path().join("uv-cache"));
        if what.contains("too large") {
            env.context
                .write("uv.toml", &format!("no-binary-package = [\"both\"]\n{}", "\n".repeat(65 << 20)));
        }
        let run = env.sync(&[]);
        assert_eq!(run.code, 2, "{what}: {}", run.shown());
        assert_eq!(ran(&mark), [""; 0], "{what}: {}", run.shown());
        // Allowed, it is built.
        if what == "a marker on a patch" {
            let allowed = text.replace("[tool.envlock]\n", "[tool.envlock.sync]\nallow-build = [\"evil\"]\n");
            env.context.write("pyproject.toml", &allowed);
            env.sync(&[]).expect(0);
            assert_eq!(ran(&mark), ["evil"]);
        }
    }
}

/// A name that is a folder of the project for one extra and a package of an index for another: uv allows builds by name.
#[test]
fn a_folder_of_one_extra_allows_no_build_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let more =
        vec![("pypi", leaves("epsi", "1.0", &mark)), ("pypi", wheel("epsi", "1.0").file("epsi.py", ""))];
    let Some(mut env) = Synced::with(true, more) else { return };
    env.context.set("UV_PYTHON_DOWNLOADS", "never");
    env.context.set("UV_DEFAULT_INDEX", &format!("{}/pypi", env.server.address));
    let own = env.context.project().join("libs/epsi");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(
        own.join("pyproject.toml"),
        format!("[project]\nname = \"epsi\"\nversion = \"1.0\"\n{BUILD_SYSTEM}"),
    )
    .unwrap();
    std::fs::write(own.join("backend.py"), backend("epsi", "1.0")).unwrap();
    let (series, index) = (&env.series, format!("{}/pypi", env.server.address));
    env.context.write(
        "pyproject.toml",
        &format!(
            "[project]\nname = \"root\"\nversion = \"0\"\nrequires-python = \"=={series}.*\"\ndependencies = [\"gamma\"]\n\
             [project.optional-dependencies]\na = [\"epsi\"]\nb = [\"epsi\"]\n[tool.uv]\npackage = false\n\
             conflicts = [[{{ extra = \"a\" }}, {{ extra = \"b\" }}]]\n[tool.uv.sources]\n\
             epsi = [{{ path = \"libs/epsi\", extra = \"b\" }}, {{ index = \"corp\", extra = \"a\" }}]\n\
             [[tool.uv.index]]\nname = \"corp\"\nurl = \"{index}\"\n[tool.envlock]\n"
        ),
    );
    let made = env.context.command_of("uv").arg("lock").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    env.context.run(&["resolve", "--gpu", "none", "--python", series]).expect(0);
    let _ = std::fs::remove_file(&mark);
    env.sync(&["--extra", "a", "--smoke", "off"]).expect(0);
    assert_eq!(ran(&mark), [""; 0]);
    assert_eq!(env.prints("import epsi"), "");
}

/// What the build of a folder needs is read from it again: a lock that says something else is stale.
#[test]
fn the_build_of_a_folder_is_compared() {
    let Some(env) = Synced::new(false) else { return };
    let project = env.context.project().join("own");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(
        project.join("pyproject.toml"),
        format!("[project]\nname = \"own\"\nversion = \"1.0\"\ndependencies = []\n{BUILD_SYSTEM}"),
    )
    .unwrap();
    std::fs::write(project.join("backend.py"), backend("own", "1.0")).unwrap();
    env.lock("\"own @ ./own\", \"alpha\"", "[[metadata]]\nname = \"own\"\nrequires-dist = []\n");
    let honest = env.context.read("envlock.lock");
    let locked = || env.context.run(&["resolve", "--locked"]);
    locked().expect(0);
    for (from, to, what) in [
        ("build = \"pure\"\n", "build = \"pure\"\nbuild-needs = [\"alpha\"]\n", "does not need `alpha`"),
        ("build = \"pure\"\n", "build = \"cuda\"\n", "makes something else"),
    ] {
        env.context.write("envlock.lock", &honest);
        forge(&env, from, to);
        let run = locked().expect(1);
        assert!(run.flat().contains(what), "{}", run.shown());
    }
}

/// A folder below a project of uv that `uv.lock` names for a package of an index is not built: pyproject.toml does not name it.
#[test]
fn a_folder_that_only_uv_lock_names_is_not_built() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().join("ran");
    let Some(mut env) = Synced::new(true) else { return };
    env.lock_by_uv("\"alpha\"");
    let place = env.context.project().join("evil");
    std::fs::create_dir_all(&place).unwrap();
    let pyproject =
        format!("[project]\nname = \"alpha\"\nversion = \"2.0\"\ndependencies = []\n{BUILD_SYSTEM}");
    std::fs::write(place.join("pyproject.toml"), pyproject).unwrap();
    let code = format!("open({:?}, 'a').write('alpha\\n')\n", mark.display().to_string());
    std::fs::write(place.join("backend.py"), backend("alpha", "2.0") + &code).unwrap();
    let lock = env.context.read("uv.lock");
    let at = lock.find("source = { registry").unwrap();
    let end = at + lock[at..].find('\n').unwrap();
    let forged = format!("{}source = {{ directory = \"evil\" }}{}", &lock[..at], &lock[end..]);
    let cut = forged.find("sdist = ").or(forged.find("wheels = ")).unwrap();
    let rest = forged[cut..].find("\n\n").map_or("", |end| &forged[cut + end..]);
    env.context.write("uv.lock", &format!("{}{rest}", &forged[..cut]));
    let run = env.sync(&[]).expect(2);
    assert_eq!(ran(&mark), [""; 0], "{}", run.shown());
    assert!(run.flat().contains("`alpha` exists only as source"), "{}", run.shown());
}
