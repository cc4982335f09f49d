//! Runs that are killed at random moments: what they leave is the state before or after them, or `--locked` says what
//! differs, and `resolve` repairs it. A few kills run always; `ENVLOCK_KILLS=500` makes more.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use super::common::synced::Synced;
use super::common::torch::{TAGS, libtorch_python, torch};
use super::context::{IndexServer, Shape, TestContext, leftovers};
use super::wheels::{little_pypi, wheel};

/// The version of `other` that a file names, if it does.
fn version_of(text: &str, before: &str) -> Option<String> {
    let tail = &text[text.find(before)? + before.len()..];
    Some(tail.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect())
}

/// The number of rounds.
fn kills() -> u32 {
    std::env::var("ENVLOCK_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(12)
}

#[test]
fn a_killed_run_leaves_nothing_half_done() {
    let kills = kills();
    let shape = Shape { json: true, metadata: true, ..Shape::default() };
    let releases = ["1.0", "2.0"].map(|version| ("pypi", wheel("other", version)));
    let index = IndexServer::start(releases.into(), shape);
    let context = TestContext::with_index(&index);
    context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = [\"other==1.0\"]\n");
    context.run(&["resolve", "--gpu", "none", "--python", "3.12"]).expect(0);
    let command = |version: &str| {
        let mut command = context.command();
        command.args(["add", &format!("other=={version}")]).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let start = Instant::now();
    assert!(command("2.0").status().unwrap().success());
    let whole = start.elapsed();
    let mut seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos();
    let (mut killed, mut noticed, mut abandoned) = (0, 0, 0);
    for round in 0..kills {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut child = command(if round % 2 == 0 { "1.0" } else { "2.0" }).spawn().unwrap();
        // Most of the time around the end, where the files are written.
        let share = 0.7 + 0.4 * f64::from(seed) / f64::from(u32::MAX);
        std::thread::sleep(Duration::from_secs_f64(whole.as_secs_f64() * share));
        let signal = [libc::SIGKILL, libc::SIGTERM, libc::SIGINT][round as usize % 3];
        // SAFETY: the child has not been waited for, so that its process id is still its own.
        unsafe { libc::kill(child.id() as i32, signal) };
        let status = child.wait().unwrap();
        killed += u32::from(status.signal().is_some() || status.code() == Some(130));
        // Between the name that a file gets first and the rename, nothing but SIGKILL ends a run; a later one, ten minutes after,
        // removes what that leaves.
        let left = leftovers(&context.project());
        let most = usize::from(signal == libc::SIGKILL);
        assert!(left.len() <= most, "round {round}: {left:?}");
        abandoned += left.len();
        for name in left {
            std::fs::remove_file(context.project().join(name)).unwrap();
        }
        let lock = context.read("envlock.lock");
        let locked = version_of(&lock, "name = \"other\"\nversion = \"");
        let in_environment = version_of(&context.read("environment.yml"), "- other==");
        let in_manifest = version_of(&context.read("envlock.toml"), "other==");
        let run = context.run(&["resolve", "--locked"]);
        let same = locked == in_environment && locked == in_manifest;
        assert_eq!(run.code, i32::from(!same), "round {round}: {}", run.shown());
        noticed += u32::from(!same);
        context.run(&["resolve"]).expect(0);
        context.run(&["resolve", "--locked"]).expect(0);
    }
    println!(
        "{kills} rounds: {killed} killed, {noticed} between two files and noticed, 0 torn, {abandoned} temporary files"
    );
}

/// What is read from wheels is kept in the cache: a killed run leaves nothing there that a later one would believe.
#[test]
fn a_killed_reader_of_wheels_leaves_no_false_row() {
    let mut context = TestContext::new();
    let Some(library) = libtorch_python(&context, "sm_80 sm_90 sm_120 compute_120") else { return };
    let mut wheels = little_pypi();
    wheels.push(("pypi", torch(&library, TAGS[0])));
    let parts = [("nvidia-cudnn-cu13", "9.30.0.1"), ("nvidia-nccl-cu13", "2.31.1"), ("triton", "4.0.1")];
    wheels.extend(parts.map(|(name, version)| ("pypi", wheel(name, version))));
    let index = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    context = TestContext::with_index(&index);
    let machine = ["--gpu", "NVIDIA H200", "--driver", "615.10.01", "--only-index", "pypi", "--dry-run"];
    let arguments = [&["resolve", "torch"], &machine[..]].concat();
    let whole = context.run(&arguments).expect(0);
    let learned = |context: &TestContext| -> Vec<String> {
        let folder = context.dir.path().join("cache/learned");
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let named = files.filter(|file| !file.file_name().to_string_lossy().starts_with('.'));
        named.map(|file| std::fs::read_to_string(file.path()).unwrap_or_default()).collect()
    };
    let row = learned(&context);
    let start = Instant::now();
    context.run(&arguments).expect(0);
    let time = start.elapsed().max(Duration::from_millis(20)) * 2;
    let mut seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos();
    for round in 0..kills() {
        let _ = std::fs::remove_dir_all(context.dir.path().join("cache"));
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut command = context.command();
        let mut child = command.args(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(time.mul_f64(f64::from(seed) / f64::from(u32::MAX)));
        let _ = child.kill();
        child.wait().unwrap();
        // A row is there as a whole, or not at all.
        assert!(
            learned(&context).iter().all(|text| row.contains(text)),
            "round {round}: {:?}",
            learned(&context)
        );
        let again = context.run(&arguments).expect(0);
        assert_eq!(again.stdout, whole.stdout, "round {round}");
    }
}

/// An installation that is killed at any moment is completed by the next one: nobody has to remove a folder.
fn a_killed_sync_is_completed(with_uv: bool) {
    let Some(env) = Synced::new(with_uv) else { return };
    env.lock("\"beta\", \"gamma\"", "");
    let start = Instant::now();
    env.sync(&[]).expect(0);
    let whole = start.elapsed();
    let venv = env.context.project().join(".venv");
    let mut seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().subsec_nanos();
    // pip takes seconds to make an environment.
    let rounds = if with_uv { kills() } else { kills().div_ceil(3) };
    for round in 0..rounds {
        std::fs::remove_dir_all(&venv).unwrap();
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut command = env.context.command();
        // A group of its own, so that the installer can be killed too.
        command.arg("sync").stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut child = command.spawn().unwrap();
        std::thread::sleep(whole.mul_f64(f64::from(seed) / f64::from(u32::MAX)));
        // Every second time the installer goes on.
        match round % 2 {
            // SAFETY: the child has not been waited for, so that its process group is still its own.
            0 => _ = unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) },
            _ => child.kill().unwrap(),
        }
        child.wait().unwrap();
        let left = format!("{:?}", files_of(&venv));
        let run = env.sync(&[]);
        assert_eq!(run.code, 0, "round {round}, left {left}: {}", run.shown());
        assert_eq!(env.prints("import beta, gamma, alpha; print(alpha.x)"), "2", "round {round}");
    }
}

/// The names of what is in a folder.
fn files_of(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_killed_sync_of_pip_is_completed() {
    a_killed_sync_is_completed(false);
}

#[test]
fn a_killed_sync_of_uv_is_completed() {
    a_killed_sync_is_completed(true);
}
