//! Environments that `sync` finds in any state, that it fills at the same time as others, or on a disk that is too small: what
//! is locked is whole in the end.

use std::process::{Command, Stdio};

use super::common::synced::Synced;
use super::context::skipped;
use super::wheels::{Wheel, wheel};

/// The number of environments in each of the two kinds of project.
fn rounds() -> usize {
    std::env::var("ENVLOCK_ENVIRONMENTS").ok().and_then(|text| text.parse().ok()).unwrap_or(6)
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }

    fn of<'l, T>(&mut self, list: &'l [T]) -> &'l T {
        &list[self.below(list.len())]
    }

    fn some<T: Clone>(&mut self, list: &[T]) -> Vec<T> {
        list.iter().filter(|_| self.below(2) == 0).cloned().collect()
    }
}

/// Packages of which some own the same files: in each line, those that do.
const FAMILIES: [&[&str]; 5] = [
    &["cublas-cu12", "cublas"],
    &["view-full", "view-headless", "view-contrib"],
    &["space-a", "space-b"],
    &["plain"],
    &["needs-cublas"],
];
/// Of these families no two members are locked together: nobody can have both whole.
const RIVALS: usize = 2;

fn overlapping() -> Vec<(&'static str, Wheel)> {
    let mut all = Vec::new();
    for version in ["1.0", "2.0"] {
        for name in ["cublas-cu12", "cublas"] {
            let library = format!("{name} {version}");
            let own = format!("nvidia/{}/a.py", name.replace('-', "_"));
            // All say the same of the folder.
            let made = wheel(name, version).file("nvidia/__init__.py", "").file(&own, "");
            all.push(("pypi", made.file("nvidia/lib/libcublas.so.12", &library)));
        }
        for name in ["view-full", "view-headless", "view-contrib"] {
            let made = wheel(name, version).file("view/__init__.py", &format!("n = '{name} {version}'\n"));
            all.push(("pypi", made.file("view/native.so", &format!("{name} {version} native"))));
        }
        for name in ["space-a", "space-b"] {
            let own = format!("space/{}.py", name.replace('-', "_"));
            all.push(("pypi", wheel(name, version).file("space/__init__.py", "\n").file(&own, version)));
        }
        all.push(("pypi", wheel("plain", version).file("plain.py", version).file("tests/a.py", version)));
        all.push(("pypi", wheel("needs-cublas", version).needs("cublas").file("needs_cublas.py", "\n")));
    }
    all
}

/// Says which files of some packages are not as RECORD says.
const WHOLE: &str = "
import base64, hashlib, importlib.metadata, sys
for name in sys.argv[1:]:
    for file in importlib.metadata.distribution(name).files:
        try: own = base64.urlsafe_b64encode(hashlib.sha256(file.read_binary()).digest()).rstrip(b'=').decode()
        except OSError: own = 'missing'
        if file.hash and own != file.hash.value: print(name, file, own)
";

struct World {
    env: Synced,
    is_of_uv: bool,
}

impl World {
    fn new(is_of_uv: bool) -> Option<World> {
        let mut env = Synced::with(true, overlapping())?;
        if is_of_uv {
            env.context.set("UV_PYTHON_DOWNLOADS", "never");
            env.context.set("UV_DEFAULT_INDEX", &format!("{}/pypi", env.server.address));
        }
        Some(World { env, is_of_uv })
    }

    fn uv(&self, arguments: &[&str]) -> String {
        let mut command = self.env.context.command_of("uv");
        let index = format!("{}/pypi", self.env.server.address);
        let out = command.args(arguments).env("UV_DEFAULT_INDEX", index).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "uv {arguments:?}: {text}");
        text
    }

    fn lock(&self, names: &[&str]) {
        let list: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
        let (list, series) = (list.join(", "), &self.env.series);
        if !self.is_of_uv {
            return self.env.lock(&list, "");
        }
        self.env.context.write(
            "pyproject.toml",
            &format!("[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \">={series}\"\ndependencies = [{list}]\n[tool.envlock]\n"),
        );
        self.uv(&["lock"]);
        self.env.context.run(&["resolve", "--gpu", "none", "--python", series]).expect(0);
    }

    /// An environment that somebody made by hand. What was done, in words.
    fn start(&self, random: &mut Random) -> Vec<String> {
        let venv = self.env.context.project().join(".venv");
        let _ = std::fs::remove_dir_all(&venv);
        let mut done = Vec::new();
        if random.below(4) == 0 {
            return done;
        }
        self.uv(&["venv", "--quiet", "--python", &self.env.series, ".venv"]);
        for _ in 0..random.below(8) {
            let package = format!("{}=={}.0", random.of(&FAMILIES.concat()), 1 + random.below(2));
            self.uv(&["pip", "install", "--quiet", "--no-deps", &package]);
            done.push(package);
        }
        let site = self.env.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
        for file in ["nvidia/lib/libcublas.so.12", "view/native.so", "space/__init__.py", "plain.py"] {
            if random.below(6) == 0 && std::fs::remove_file(format!("{site}/{file}")).is_ok() {
                done.push(format!("removed {file}"));
            }
        }
        done
    }

    /// The files of the locked packages that are not whole.
    fn faults(&self, names: &[&str]) -> String {
        let out = Command::new(self.env.python()).args(["-I", "-c", WHOLE]).args(names).output().unwrap();
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
    }

    fn any_state(&self) {
        let mut random = Random(if self.is_of_uv { 7 } else { 5 });
        for round in 0..rounds() {
            let mut locked: Vec<&str> = FAMILIES[..RIVALS].iter().map(|family| *random.of(family)).collect();
            locked.extend(random.some(&FAMILIES[RIVALS..4].concat()));
            self.lock(&locked);
            let mut done = self.start(&mut random);
            let all: &[&[&str]] = &[&["sync"], &["sync", "--exact"], &["uv", "sync", "--quiet"]];
            let choices = if self.is_of_uv { all } else { &all[..2] };
            for _ in 0..random.below(3) {
                // Other packages in between: a lock of before.
                if random.below(2) == 0 {
                    let before: Vec<&str> = FAMILIES.iter().map(|family| *random.of(family)).collect();
                    self.lock(if before.contains(&"needs-cublas") { &before[1..] } else { &before });
                    done.push(format!("sync of {before:?}"));
                    self.env.sync(&["--smoke", "off"]);
                    self.lock(&locked);
                }
            }
            let what = |done: &[String]| format!("round {round}, {locked:?} after {done:?}");
            let run = self.env.sync(&["--smoke", "off"]);
            done.push("sync".to_owned());
            assert!(run.code < 2, "{}: {}", what(&done), run.shown());
            assert_eq!(self.faults(&locked), "", "{}: {}", what(&done), run.shown());
            // What requires a rival that is not locked keeps it, and `verify` says so.
            let is_kept = run.flat().contains("also recorded by");
            let is_of_another = run.flat().contains("missing-file");
            assert!(run.code == 0 || is_kept || is_of_another, "{}: {}", what(&done), run.shown());
            for _ in 0..random.below(4) {
                let next = *random.of(choices);
                done.push(next.join(" "));
                let is_of_uv = next[0] == "uv";
                let run = match next {
                    ["uv", arguments @ ..] => {
                        self.uv(arguments);
                        String::new()
                    }
                    arguments => self.env.context.run(&[arguments, &["--smoke", "off"]].concat()).shown(),
                };
                // uv takes what both say of a folder with the one that goes, as it does without envlock; the folder is imported
                // without it.
                let faults = self.faults(&locked);
                let is_shared = |line: &str| is_of_uv && line.ends_with("space/__init__.py missing");
                let is_whole = faults.lines().all(is_shared);
                assert!(is_kept || is_whole, "{}: {run}\n{faults}", what(&done));
            }
            let run = self.env.sync(&["--smoke", "off"]);
            assert_eq!(self.faults(&locked), "", "{}: {}", what(&done), run.shown());
        }
    }
}

#[test]
fn from_any_state_what_is_locked_is_whole() {
    if let Some(world) = World::new(false) {
        world.any_state();
    }
}

#[test]
fn from_any_state_what_is_locked_is_whole_in_a_project_of_uv() {
    if let Some(world) = World::new(true) {
        world.any_state();
    }
}

/// Twenty at once: each waits until it is alone, and succeeds.
fn at_once(with_uv: bool) {
    let Some(env) = Synced::new(with_uv) else { return };
    env.lock("\"beta\", \"gamma\"", "");
    let start = || env.context.command().arg("sync").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let children: Vec<_> = (0..if with_uv { 20 } else { 6 }).map(|_| start().unwrap()).collect();
    for child in children {
        let out = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(out.status.success(), "{:?}: {said}", out.status);
    }
    env.sync(&[]).expect(0);
    assert_eq!(env.prints("import beta, gamma, alpha; print(alpha.x)"), "2");
}

#[test]
fn many_syncs_of_pip_at_once() {
    at_once(false);
}

#[test]
fn many_syncs_of_uv_at_once() {
    at_once(true);
}

/// A disk of each size up to that of the environment: `sync` says that it is full, and completes it when there is room.
fn small_disks(with_uv: bool) {
    let more = vec![("pypi", wheel("large", "1.0").filler(600_000))];
    let Some(env) = Synced::with(with_uv, more) else { return };
    env.lock("\"beta\", \"large\"", "");
    let script = r#"
        own=$PATH size=$1
        shift
        PATH=/usr/sbin:/usr/bin:/sbin:/bin
        mkdir disk && mount -t tmpfs -o size="$size"k none disk || exit 99
        cp envlock.toml envlock.lock disk/ && cd disk || exit 98
        PATH=$own "$@" sync > ../said 2>&1
        code=$?
        mount -o remount,size=200m . || exit 97
        PATH=$own "$@" sync > ../again 2>&1 || { cat ../said ../again >&2; exit 96; }
        .venv/bin/python -I -c 'import beta, alpha; assert alpha.x == 2' || exit 95
        exit $code
    "#;
    let project = env.context.project();
    let mut codes = Vec::new();
    let sizes: &[usize] = if with_uv { &[64, 100, 200, 400, 700, 1000, 4000] } else { &[64, 3000, 60_000] };
    for size in sizes {
        let envlock = env.context.command();
        let mut command = env.context.command_of("/usr/bin/unshare");
        command.args(["-rm", "/bin/sh", "-c", script, "sh", &size.to_string()]);
        command.arg(envlock.get_program()).args(envlock.get_args());
        let Ok(out) = command.current_dir(&project).output() else {
            return skipped("no unshare here");
        };
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        let code = out.status.code().unwrap_or(-1);
        if code == 99 || said.contains("unshare failed") || said.contains("Operation not permitted") {
            return skipped("no namespace with a file system of its own here");
        }
        assert!(code == 0 || code == 2, "{size} kB: {code}: {said}");
        codes.push(code);
        if code == 2 {
            let said = std::fs::read_to_string(project.join("said")).unwrap_or(said);
            assert!(said.contains("error: ") && !said.contains("panicked"), "{size} kB: {said}");
        }
        std::fs::remove_dir(project.join("disk")).unwrap();
    }
    assert!(codes.first() == Some(&2) && codes.last() == Some(&0), "{codes:?}");
}

#[test]
fn small_disks_with_pip() {
    small_disks(false);
}

#[test]
fn small_disks_with_uv() {
    small_disks(true);
}

/// A crash or a full disk cuts RECORD: the package is not called whole, and `sync` installs it again.
#[test]
fn a_record_that_was_cut_is_noticed() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"alpha\"", "");
    env.sync(&[]).expect(0);
    let site = env.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
    let site = std::path::Path::new(&site);
    let record = site.join("alpha-2.0.dist-info/RECORD");
    let whole = std::fs::read_to_string(&record).unwrap();
    // Nothing, a part of a line, and some whole lines.
    let lines: usize = whole.split_inclusive('\n').take(1).map(str::len).sum();
    for length in [0, 30, lines] {
        std::fs::write(&record, &whole[..length]).unwrap();
        std::fs::remove_dir_all(site.join("alpha")).unwrap();
        let run = env.context.run(&["verify", "--smoke", "off"]);
        assert!(run.flat().contains("alpha has no readable RECORD"), "{length}: {}", run.shown());
        env.sync(&[]).expect(0);
        assert_eq!(env.prints("import alpha; print(alpha.x)"), "2", "{length}");
    }
}

/// Packages that tools of old installed have an `.egg-info` and no RECORD: they are installed all the same.
#[test]
fn packages_without_a_record_are_named() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"alpha\"", "");
    env.sync(&[]).expect(0);
    let site = env.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
    let site = std::path::Path::new(&site);
    for (name, version) in [("evil", "1.0"), ("alpha", "0.1")] {
        let folder = site.join(format!("{name}-{version}.egg-info"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("PKG-INFO"), format!("Name: {name}\nVersion: {version}\n")).unwrap();
    }
    std::fs::write(site.join("old-1.0-py3.egg-info"), "Name: old\nVersion: 1.0\n").unwrap();
    let verify = || env.context.run(&["verify", "--exact", "--smoke", "off"]);
    let run = verify().expect(1);
    for what in [
        "alpha is installed 2 times: 2.0, 0.1",
        "evil 1.0 is installed and not locked",
        "old 1.0 is installed and not locked",
    ] {
        assert!(run.flat().contains(what), "{what}: {}", run.shown());
    }
    env.sync(&[]).expect(0);
    assert!(!site.join("alpha-0.1.egg-info").exists());
    assert!(!verify().flat().contains("2 times"));
}

/// A folder that only looks like an environment of sync, by files that a repository can have, is not emptied.
#[test]
fn what_is_no_environment_is_not_emptied() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"alpha\"", "");
    let project = env.context.project();
    let mark = format!(
        "envlock sync made this environment and may remove packages, for the project\n{}\n",
        project.canonicalize().unwrap().display()
    );
    env.context.write("data/notes", "precious");
    let venv = project.join(".venv");
    let refused = |what: &str| {
        let run = env.sync(&[]).expect(2);
        assert!(run.flat().contains(what), "{what}: {}", run.shown());
        assert_eq!(std::fs::read_to_string(project.join("data/notes")).unwrap(), "precious");
        assert!(project.join("envlock.lock").exists());
    };
    let looks_like_one = ("native", "it is a link to a folder of the project");
    env.context.write("native/src/notes", "precious");
    for (folder, why) in
        [(".", "the project is in it"), ("data", "it is a link to a folder of the project"), looks_like_one]
    {
        env.context.write(&format!("{folder}/.envlock/made-by-sync"), &mark);
        env.context.write(&format!("{folder}/pyvenv.cfg"), "home = /nonexistent/bin\n");
        std::os::unix::fs::symlink(folder, &venv).unwrap();
        refused(why);
        std::fs::remove_file(&venv).unwrap();
    }
    std::fs::rename(project.join("data"), &venv).unwrap();
    std::os::unix::fs::symlink(".venv", project.join("data")).unwrap();
    refused("sync did not put `notes` there");
    std::fs::remove_file(venv.join("notes")).unwrap();
    env.sync(&[]).expect(0);
}

/// What tools of old left of a locked package is not the locked file, and is replaced.
fn old_tools(with_uv: bool) {
    let Some(env) = Synced::new(with_uv) else { return };
    env.lock("\"alpha\"", "");
    env.sync(&[]).expect(0);
    let site = env.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
    let site = std::path::Path::new(&site);
    let verify = || env.context.run(&["verify", "--deep", "--exact", "--smoke", "off"]);
    let remove = || {
        std::fs::remove_dir_all(site.join("alpha")).unwrap();
        std::fs::remove_dir_all(site.join("alpha-2.0.dist-info")).unwrap();
    };
    let about = "Metadata-Version: 2.1\nName: alpha\nVersion: 2.0\n";
    remove();
    std::fs::write(site.join("alpha-2.0-py3.egg-info"), about).unwrap();
    let run = verify();
    assert!(run.flat().contains("alpha has an `.egg-info` and no RECORD"), "{}", run.shown());
    assert!(run.flat().contains("0 of 1 as locked"), "{}", run.shown());
    env.sync(&[]).expect(0);
    assert_eq!(env.prints("import alpha; print(alpha.x)"), "2");
    remove();
    let source = env.context.dir.path().join("source");
    std::fs::create_dir_all(source.join("alpha.egg-info")).unwrap();
    std::fs::write(source.join("alpha.egg-info/PKG-INFO"), about).unwrap();
    std::fs::write(source.join("alpha.py"), "x = 'other'\n").unwrap();
    std::fs::write(site.join("alpha.egg-link"), format!("{}\n.", source.display())).unwrap();
    std::fs::write(site.join("easy-install.pth"), format!("{}\n", source.display())).unwrap();
    let run = verify().expect(1);
    assert!(run.flat().contains("was not installed from the locked file: `alpha.egg-link` takes it from"));
    env.sync(&[]).expect(0);
    assert_eq!(env.prints("import alpha; print(alpha.x)"), "2");
    assert!(!site.join("alpha.egg-link").exists());
    // What Python sees elsewhere, as packages of the system are, is no failure.
    let elsewhere = env.context.dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    for name in ["alpha", "alpha-2.0.dist-info"] {
        std::fs::rename(site.join(name), elsewhere.join(name)).unwrap();
    }
    std::fs::write(site.join("easy-install.pth"), format!("{}\n", elsewhere.display())).unwrap();
    env.sync(&[]).expect(0);
    assert_eq!(env.prints("import alpha; print(alpha.x)"), "2");
}

/// What `--deep` did not compare is named.
#[test]
fn files_without_a_hash_are_named() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"alpha\"", "");
    env.sync(&[]).expect(0);
    let site = env.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
    let record = std::path::Path::new(&site).join("alpha-2.0.dist-info/RECORD");
    let verify = |options: &[&str]| {
        env.context.run(&[&["verify", "--smoke", "off"], options].concat()).expect(0).flat()
    };
    let what = "alpha/__init__.py of alpha is without a SHA-256 in RECORD, and not compared";
    assert!(!verify(&["--deep"]).contains("without a SHA-256"));
    let text = std::fs::read_to_string(&record).unwrap();
    let line = text.lines().find(|line| line.starts_with("alpha/__init__.py,")).unwrap();
    std::fs::write(&record, text.replace(line, "alpha/__init__.py,,")).unwrap();
    assert!(verify(&["--deep"]).contains(what) && !verify(&[]).contains(what));
}

#[test]
fn what_old_tools_left_is_replaced_by_pip() {
    old_tools(false);
}

#[test]
fn what_old_tools_left_is_replaced_by_uv() {
    old_tools(true);
}

/// An installer that is killed while it removes a package leaves modules that no RECORD lists.
fn interrupted(by_uv: bool) {
    let Some(mut env) = Synced::new(by_uv) else { return };
    match by_uv {
        true => env.lock_by_uv("\"alpha\""),
        false => env.lock("\"alpha\"", ""),
    }
    env.sync(&[]).expect(0);
    let site = env.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
    std::fs::write(std::path::Path::new(&site).join("alpha/old.py"), "").unwrap();
    let at_work = env.context.write(".venv/.envlock/replacing-packages", "");
    env.sync(&[]).expect(0);
    assert!(!std::path::Path::new(&site).join("alpha/old.py").exists() && !at_work.exists());
    assert_eq!(env.prints("import alpha; print(alpha.x)"), "2");
    if by_uv {
        return;
    }
    // In an environment that is not sync's, it is said.
    let site = env.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
    super::common::synced::plant(std::path::Path::new(&site), "other", "1.0", "pip");
    env.context.write(".venv/.envlock/replacing-packages", "");
    std::fs::remove_file(env.context.project().join(".venv/.envlock/made-by-sync")).unwrap();
    let run = env.sync(&[]).expect(0);
    assert!(run.flat().contains("was interrupted while it replaced packages"), "{}", run.shown());
    assert!(std::path::Path::new(&site).join("other-1.0.dist-info").exists());
}

#[test]
fn modules_that_an_interruption_left_go() {
    interrupted(false);
}

#[test]
fn modules_that_an_interruption_left_go_where_uv_holds_the_packages() {
    interrupted(true);
}

/// An environment whose Python is a script that starts another one, and a whole Python in the place of an environment:
/// nothing is installed into the other one, and nothing of it is removed.
fn another_python(with_uv: bool) {
    let Some(mut env) = Synced::new(with_uv) else { return };
    if with_uv {
        env.lock_by_uv("\"alpha\"");
    } else {
        env.lock("\"alpha\"", "");
    }
    env.sync(&[]).expect(0);
    let project = env.context.project();
    let other = env.context.dir.path().join("other");
    std::fs::rename(project.join(".venv"), &other).unwrap();
    let python = other.join("bin/python");
    let line = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let site = Command::new(&python).args(["-I", "-c", line]).output().unwrap().stdout;
    let site = String::from_utf8(site).unwrap();
    let site = std::path::PathBuf::from(site.trim());
    super::common::synced::plant(&site, "kept", "1.0", "pip");
    std::fs::remove_dir_all(site.join("alpha")).unwrap();
    std::fs::remove_dir_all(site.join("alpha-2.0.dist-info")).unwrap();
    let unchanged = || {
        assert!(site.join("kept-1.0.dist-info/RECORD").exists() && !site.join("alpha").exists());
    };
    // A wrapper in what looks like an environment.
    env.context.write(".venv/pyvenv.cfg", &format!("home = /usr/bin\nversion_info = {}.0\n", env.series));
    let script = format!("#!/bin/sh\nexec {} \"$@\"\n", python.display());
    super::context::executable(&env.context.write(".venv/bin/python", &script));
    let run = env.sync(&[]).expect(2);
    assert!(run.flat().contains("starts the Python of"), "{}", run.shown());
    unchanged();
    // A link to a whole Python, as one of the system is.
    std::fs::remove_dir_all(project.join(".venv")).unwrap();
    std::fs::remove_file(other.join("pyvenv.cfg")).unwrap();
    std::os::unix::fs::symlink(&other, project.join(".venv")).unwrap();
    let run = env.sync(&[]).expect(2);
    assert!(run.flat().contains("is neither a venv nor a conda environment"), "{}", run.shown());
    unchanged();
}

#[test]
fn another_python_is_not_changed_by_pip() {
    another_python(false);
}

#[test]
fn another_python_is_not_changed_where_uv_holds_the_packages() {
    another_python(true);
}
