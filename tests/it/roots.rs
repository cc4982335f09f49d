//! `verify --root` and `inspect --root`: an environment in another root file system, read without leaving it.

use std::os::unix::fs::symlink;

use envlock::inspect::{ThisMachine, system_of};

use super::context::Run;
use super::native::Environment;

/// `verify --root` on the folder that the environment lies in.
fn verify(env: &Environment, rest: &[&str]) -> Run {
    let root = env.context.dir.path().display().to_string();
    env.context.run(&[&["verify", "--root", &root], rest].concat())
}

fn codes(run: &Run) -> Vec<String> {
    let json = run.json();
    let findings = json["findings"].as_array().unwrap().iter();
    findings.filter(|f| f["severity"] != "info").map(|f| f["code"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn an_environment_in_another_root() {
    let Some(env) = Environment::new() else { return };
    let host = env.host("9.0", "580.159.04");
    // The only environment in that root is found; its paths are those that its programs see.
    let run = verify(&env, &["--host", &host]).expect(0);
    assert!(
        run.flat().contains("environment /env (Python 3.12), the only one in that root"),
        "{}",
        run.shown()
    );
    assert!(run.flat().contains("nothing in another root is run"), "{}", run.shown());
    let run = verify(&env, &["--host", &host, "--prefix", "/env", "--json"]).expect(0);
    assert_eq!(codes(&run), [""; 0]);
    // The machine's facts are those of the host file: its GPU has no code here.
    let old = env.host("6.1", "580.159.04");
    let run = verify(&env, &["--host", &old, "--json"]).expect(1);
    assert!(codes(&run).contains(&"no-kernel-image".to_owned()), "{}", run.shown());
}

#[test]
fn links_lead_to_places_in_that_root() {
    let Some(env) = Environment::new() else { return };
    let host = env.host("9.0", "580.159.04");
    let library = env.site.join("nvidia/nvjitlink/lib/libnvJitLink.so.12");
    let elsewhere = env.context.dir.path().join("opt/lib");
    std::fs::create_dir_all(&elsewhere).unwrap();
    std::fs::rename(&library, elsewhere.join("libnvJitLink.so.12")).unwrap();
    // Absolute in that root, where this machine has no such file.
    symlink("/opt/lib/libnvJitLink.so.12", &library).unwrap();
    assert_eq!(codes(&verify(&env, &["--host", &host, "--json"])), [""; 0]);
    // There on this machine, and not in that root.
    std::fs::remove_file(&library).unwrap();
    symlink(elsewhere.join("libnvJitLink.so.12"), &library).unwrap();
    assert!(library.exists());
    let run = verify(&env, &["--host", &host, "--json"]).expect(1);
    assert!(codes(&run).contains(&"missing-file".to_owned()), "{}", run.shown());
    assert!(codes(&run).contains(&"missing-library".to_owned()), "{}", run.shown());
}

#[test]
fn variables_of_this_shell_play_no_part() {
    let Some(mut env) = Environment::new() else { return };
    let host = env.host("9.0", "580.159.04");
    let other = env.context.dir.path().join("other/libcudnn_ops.so.9").display().to_string();
    env.library(&other, &super::native::Build::default());
    let folder = env.context.dir.path().join("other").display().to_string();
    env.context.set("LD_LIBRARY_PATH", &folder);
    env.context.set("PYTHONHOME", "/nowhere");
    assert!(!env.codes(&["--host", &host]).is_empty());
    assert_eq!(codes(&verify(&env, &["--host", &host, "--json"])), [""; 0]);
}

#[test]
fn inspect_follows_links_in_the_root() {
    let Some(env) = Environment::new() else { return };
    let root = env.context.dir.path();
    symlink("/env/lib/python3.12/site-packages/nvidia/cudnn/lib", root.join("cudnn")).unwrap();
    let root = root.display().to_string();
    let run =
        env.context.run(&["inspect", "--root", &root, "/cudnn/libcudnn_graph.so.9", "--json"]).expect(0);
    let file = &run.json()["files"][0];
    assert_eq!(file["path"], "/cudnn/libcudnn_graph.so.9");
    assert_eq!(file["version"], "9.10.2");
    let run = env.context.run(&["inspect", "--root", &root, "cudnn", "--json"]).expect(0);
    assert_eq!(run.json()["files"].as_array().unwrap().len(), 8);
    env.context.run(&["inspect", "--root", &root, "/../../../../../bin/sh"]).expect(2);
}

/// What glibc's loader would do says nothing about musl's.
#[test]
fn an_interpreter_for_musl() {
    let Some(env) = Environment::new() else { return };
    let host = env.host("9.0", "580.159.04");
    let needs = &["libc.musl-x86_64.so.1"];
    env.library("../../../bin/python", &super::native::Build { needs, ..Default::default() });
    let run = verify(&env, &["--host", &host]).expect(0);
    assert!(
        run.flat().contains("its interpreter is built for musl, whose loader is not simulated"),
        "{}",
        run.shown()
    );
    assert!(!run.flat().contains("missing-library"), "{}", run.shown());
}

/// Debian's Python has the packages that pip installs in `/usr/local`, and its interpreter in `/usr`.
#[test]
fn packages_of_debians_python() {
    let Some(env) = Environment::new() else { return };
    let root = env.context.dir.path();
    let host = env.host("9.0", "580.159.04");
    let lib = root.join("usr/local/lib/python3.12");
    std::fs::create_dir_all(&lib).unwrap();
    std::fs::create_dir_all(root.join("usr/bin")).unwrap();
    std::fs::rename(&env.site, lib.join("dist-packages")).unwrap();
    std::fs::rename(root.join("env/bin/python"), root.join("usr/bin/python3.12")).unwrap();
    let run = verify(&env, &["--host", &host]).expect(0);
    assert!(run.flat().contains("environment /usr/local (Python 3.12), the only one"), "{}", run.shown());
    assert!(run.flat().contains("cuDNN 9.10.2, one copy"), "{}", run.shown());
    assert_eq!(codes(&verify(&env, &["--host", &host, "--json"])), [""; 0]);
}

#[test]
fn what_contradicts_another_root() {
    let Some(env) = Environment::new() else { return };
    for (rest, said) in [
        (&["--only", "machine"][..], "`--root` contradicts `--only machine`"),
        (&["--host"], "`--root` contradicts `--host without a value`"),
        (&["--smoke", "cpu"], "`--root` contradicts `--smoke`"),
        (&["--prefix", "/nowhere"], "`/nowhere` is not a folder"),
    ] {
        let run = verify(&env, rest).expect(2);
        assert!(run.flat().contains(said), "{}", run.shown());
    }
    std::fs::create_dir_all(
        env.context.dir.path().join("opt/lib/python3.11/site-packages/six-1.0.dist-info"),
    )
    .unwrap();
    // Packages without an interpreter are no environment beside one that has it.
    verify(&env, &[]).expect(0);
    std::fs::write(env.context.dir.path().join("opt/pyvenv.cfg"), "version = 3.11.9\n").unwrap();
    let run = verify(&env, &[]).expect(3);
    assert!(
        run.flat().contains("contains 2 Python environments: `/env` (5 packages), `/opt` (1 package)"),
        "{}",
        run.shown()
    );
    let run = env.context.run(&["verify", "--root", &env.context.project().display().to_string()]).expect(3);
    assert!(run.flat().contains("contains no Python environment with packages"), "{}", run.shown());
}

/// The C library's release as its banner says, and as this process asked the library itself.
#[test]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn the_c_library_of_a_root() {
    let own = std::env::current_exe().unwrap();
    let system = system_of(&ThisMachine, &own).unwrap();
    let known = envlock::probe::system();
    assert_eq!((system.platform, system.libc), (known.platform, known.libc));
}
