//! `run` and `guard`.

use std::process::Command;
use std::time::Duration;

use super::context::{TestContext, skipped};
use super::native::Environment;
use super::verify::install;
use super::wheels::wheel;

fn run(env: &Environment, rest: &[&str]) -> super::context::Run {
    let prefix = env.context.dir.path().join("env").display().to_string();
    env.context.run(&[&["run", "--prefix", &prefix][..], rest].concat())
}

#[test]
fn a_clean_environment_runs_the_command_in_its_place() {
    let Some(mut env) = Environment::new() else { return };
    env.context.set("PATH", "/usr/bin:/bin");
    // What changed a moment ago may have changed while it was judged: that is not kept.
    std::thread::sleep(Duration::from_millis(200));
    // Status and output are the command's own; the environment is the active one.
    let first = run(&env, &["--", "sh", "-c", "echo $VIRTUAL_ENV; exit 7"]).expect(7);
    assert_eq!(first.stdout, "[DIR]/env\n", "{}", first.shown());
    // Nothing changed: it is not looked at again, and what is found only by a look is not found.
    env.put("torch/version.py", "__version__ = '2.9.1+cu129'\n");
    run(&env, &["--", "true"]).expect(0);
    // A library that changed is.
    std::fs::remove_file(env.site.join("nvidia/cudnn/lib/libcudnn_ops.so.9")).unwrap();
    let refused = run(&env, &["--", "touch", "started"]).expect(125);
    assert!(refused.stdout.contains("error[missing-library]"), "{}", refused.shown());
    assert!(refused.stderr.contains("was not started"), "{}", refused.shown());
    assert!(!env.context.exists("started"));
    run(&env, &["--no-verify", "--", "touch", "started"]).expect(0);
    assert!(env.context.exists("started"));
    run(&env, &["--no-verify", "--", "no-such-command"]).expect(125);
    run(&env, &[]).expect(2);
}

#[test]
fn what_is_kept_depends_on_variables_too() {
    let Some(mut env) = Environment::new() else { return };
    env.context.set("PATH", "/usr/bin:/bin");
    run(&env, &["--", "true"]).expect(0);
    let stub = env.context.dir.path().join("stubs/libcuda.so.1").display().to_string();
    env.library(&stub, &Default::default());
    env.context.set("LD_LIBRARY_PATH", &env.context.dir.path().join("stubs").display().to_string());
    let refused = run(&env, &["--", "true"]).expect(125);
    assert!(refused.stdout.contains("stub-library"), "{}", refused.shown());
}

#[test]
fn another_target_and_a_new_library_are_looked_at() {
    let Some(mut env) = Environment::new() else { return };
    env.context.set("PATH", "/usr/bin:/bin");
    let folder = env.context.dir.path().join("mine");
    std::fs::create_dir_all(&folder).unwrap();
    env.context.set("LD_LIBRARY_PATH", &folder.display().to_string());
    run(&env, &["--", "true"]).expect(0);
    // What is put into a folder of the variable afterwards is seen.
    env.library(&folder.join("libcuda.so.1").display().to_string(), &Default::default());
    std::fs::rename(&folder, env.context.dir.path().join("stubs")).unwrap();
    std::os::unix::fs::symlink(env.context.dir.path().join("stubs"), &folder).unwrap();
    let other = super::native::Build { needs: &["libnothere.so"], ..Default::default() };
    env.library(&folder.join("libnvJitLink.so.12").display().to_string(), &other);
    let refused = run(&env, &["--", "true"]).expect(125);
    assert!(refused.stdout.contains("missing-library"), "{}", refused.shown());
    // A library that was exchanged with its size and times kept is another file.
    let Some(mut env) = Environment::new() else { return };
    env.context.set("PATH", "/usr/bin:/bin");
    run(&env, &["--", "true"]).expect(0);
    let library = env.site.join("nvidia/cudnn/lib/libcudnn_ops.so.9");
    let mut bytes = std::fs::read(&library).unwrap();
    let times = std::fs::metadata(&library).unwrap().modified().unwrap();
    bytes[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
    std::fs::write(&library, bytes).unwrap();
    std::fs::File::options().append(true).open(&library).unwrap().set_modified(times).unwrap();
    run(&env, &["--", "true"]).expect(125);
}

/// Nothing else of a folder without libraries is part of what is kept.
#[test]
fn a_folder_of_a_package_that_was_deleted_is_missed() {
    let Some(mut env) = Environment::new() else { return };
    env.context.set("PATH", "/usr/bin:/bin");
    let wheel = wheel("protobuf", "6.0").file("google/protobuf/__init__.py", "x = 1\n");
    install(&env.site, &wheel.file("google/other/__init__.py", "x = 1\n"));
    std::thread::sleep(Duration::from_millis(200));
    run(&env, &["--", "true"]).expect(0);
    // What Python writes is no change.
    std::fs::create_dir(env.site.join("google/protobuf/__pycache__")).unwrap();
    env.put("torch/version.py", "__version__ = '2.9.1+cu129'\n");
    run(&env, &["--", "true"]).expect(0);
    std::fs::remove_dir_all(env.site.join("google/protobuf")).unwrap();
    let refused = run(&env, &["--", "true"]).expect(125);
    assert!(refused.stdout.contains("missing-file"), "{}", refused.shown());
}

#[test]
fn a_signal_reaches_the_command_and_the_watch_says_what_it_saw() {
    let Some(mut env) = Environment::new() else { return };
    env.context.set("PATH", "/usr/bin:/bin");
    let prefix = env.context.dir.path().join("env").display().to_string();
    let script = "touch started; exec sleep 3600";
    let arguments = ["run", "--prefix", &prefix, "--monitor-out", "m.csv", "--", "sh", "-c", script];
    let mut child = env.context.command().args(arguments).spawn().unwrap();
    while !env.context.exists("started") {
        assert!(child.try_wait().unwrap().is_none(), "the command did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    Command::new("kill").arg(child.id().to_string()).status().unwrap();
    let status = child.wait().unwrap();
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(status.signal(), Some(15), "as it ends without being watched");
    assert!(env.context.read("m.csv").starts_with("seconds,gpu,sm_percent"));
    let watched = run(&env, &["--monitor", "--", "true"]).expect(0);
    assert!(watched.stderr.contains("NVML is not available"), "{}", watched.shown());
}

#[test]
fn the_snippet_stops_a_script_that_has_another_torch() {
    let context = TestContext::new();
    let arguments = [
        "resolve",
        "torch==2.9.1",
        "--stack-only",
        "--gpu",
        "H200",
        "--driver",
        "580.159.04",
        "--python",
        "3.12",
    ];
    context.run(&arguments).expect(0);
    let snippet = context.run(&["guard"]).expect(0).stdout;
    let script = format!("{snippet}print('trained')\n");
    context.write("train.py", &script);
    let torch = |version: &str, cudnn: u32, capability: &str| {
        context.write("torch.py", &format!(
            "__version__ = '{version}'\nclass cuda:\n    is_available = lambda: True\n    device_count = lambda: 1\n    \
             get_device_capability = lambda i: {capability}\n    get_device_name = lambda i: 'card'\n\
             class backends:\n    class cudnn:\n        version = lambda: {cudnn}\n"
        ));
        // The lock is for Python 3.12; the one that is here plays it.
        let text = script
            .replace("\"python\": \"3.12\"", "\"python\": python")
            .replace("    python = \"%d", "    python = locked_python = \"%d");
        let text =
            text.replace("    locked = {", "    python = \"%d.%d\" % sys.version_info[:2]\n    locked = {");
        context.write("train.py", &text);
        Command::new("python3").arg(context.project().join("train.py")).output()
    };
    let Ok(good) = torch("2.9.1+cu128", 91002, "(9, 0)") else { return skipped("no python3 here") };
    assert_eq!(
        String::from_utf8_lossy(&good.stdout),
        "trained\n",
        "{}",
        String::from_utf8_lossy(&good.stderr)
    );
    for (version, cudnn, capability, code) in [
        ("2.9.0+cu128", 91002, "(9, 0)", "wrong-version"),
        ("2.9.1+cu126", 91002, "(9, 0)", "wrong-variant"),
        ("2.9.1+cu128", 90501, "(9, 0)", "shadowed-library"),
        ("2.9.1+cu128", 91002, "(6, 1)", "gpu-not-covered"),
    ] {
        let out = torch(version, cudnn, capability).unwrap();
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && text.contains(&format!("error[{code}]")), "{code}: {text}");
    }
}

/// On GPUs whose last driver branch is known, the snippet asks for the kernel module's release.
#[test]
fn the_snippet_knows_the_last_driver_of_a_gpu() {
    let context = TestContext::new();
    let machine = ["--gpu", "V100", "--driver", "580.159.04", "--python", "3.12"];
    context.run(&[&["resolve", "torch==2.9.1", "--stack-only"], &machine[..]].concat()).expect(0);
    let snippet = context.run(&["guard"]).expect(0).stdout;
    context.write(
        "torch.py",
        "__version__ = '2.9.1+cu128'\nclass cuda:\n    is_available = lambda: True\n    device_count = lambda: 1\n    \
         get_device_capability = lambda i: (7, 0)\n    get_device_name = lambda i: 'V100'\n\
         class backends:\n    class cudnn:\n        version = lambda: 91002\n",
    );
    let run = |module: &str| {
        let file = context.write("version", &format!("{module}\n"));
        // A file of the test stands for the kernel module's, and the Python that is here for the locked one.
        let script = snippet
            .replace("/sys/module/nvidia/version", &file.display().to_string())
            .replace("if python != locked[\"python\"]:", "if False:");
        context.write("train.py", &format!("{script}print('trained')\n"));
        Command::new("python3").arg(context.project().join("train.py")).output()
    };
    let Ok(good) = run("580.159.04") else { return skipped("no python3 here") };
    assert_eq!(
        String::from_utf8_lossy(&good.stdout),
        "trained\n",
        "{}",
        String::from_utf8_lossy(&good.stderr)
    );
    let text = String::from_utf8_lossy(&run("595.45.04").unwrap().stderr).into_owned();
    assert!(text.contains("error[driver-too-new]: driver 595.45.04 no longer supports V100 (7.0)"), "{text}");
    let text = String::from_utf8_lossy(&run("470.57.02").unwrap().stderr).into_owned();
    assert!(text.contains("error[driver-too-old]"), "{text}");
}

/// Whatever stands in the place of torch, the snippet says what is wrong and never fails itself.
#[test]
fn the_snippet_has_no_traceback() {
    let context = TestContext::new();
    let machine = ["--gpu", "V100", "--driver", "580.159.04", "--python", "3.12"];
    context.run(&[&["resolve", "torch==2.9.1", "--stack-only"], &machine[..]].concat()).expect(0);
    let snippet = context.run(&["guard"]).expect(0).stdout;
    let script = snippet.replace("if python != locked[\"python\"]:", "if False:");
    context.write("train.py", &format!("{script}print('trained')\n"));
    let cuda = "class backends:\n    class cudnn:\n        version = lambda: 91002\nclass cuda:\n";
    for (torch, expected) in [
        (String::new(), "error[shadowed-package]: `import torch` finds"),
        ("__version__ = 2\n".to_owned(), "error[shadowed-package]"),
        (
            "raise OSError('libcudart.so.12: cannot open')\n".to_owned(),
            "cannot be imported: OSError: libcudart",
        ),
        ("1 / 0\n".to_owned(), "cannot be imported: ZeroDivisionError"),
        ("__version__ = '2.9.1+cu128'\n".to_owned(), "cannot query the GPUs: AttributeError"),
        (
            format!("__version__ = '2.9.1+cu128'\n{cuda}    is_available = lambda: 1 / 0\n"),
            "cannot query the GPUs: ZeroDivisionError",
        ),
        (
            format!("__version__ = '2.9.1+cu128'\n{cuda}    is_available = lambda: False\n"),
            "CUDA_VISIBLE_DEVICES is '7'. Check: `nvidia-smi` lists the GPUs",
        ),
    ] {
        context.write("torch.py", &torch);
        let mut python = Command::new("python3");
        python.arg(context.project().join("train.py")).env("CUDA_VISIBLE_DEVICES", "7");
        let Ok(out) = python.env("PYTHONDONTWRITEBYTECODE", "1").output() else {
            return skipped("no python3 here");
        };
        let text = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && text.contains(expected), "{expected}: {text}");
        assert!(!text.contains("Traceback"), "{text}");
    }
}

#[test]
fn venv_beside_the_lock_is_found_and_not_executed() {
    let Some(mut env) = Environment::new() else { return };
    env.context.set("PATH", "/usr/bin:/bin");
    let prefix = env.context.dir.path().join("env");
    std::fs::write(prefix.join("pyvenv.cfg"), "home = /usr/bin\nversion = 3.12.1\n").unwrap();
    let venv = env.context.project().join(".venv");
    std::os::unix::fs::symlink(&prefix, &venv).unwrap();
    env.context.write("envlock.toml", "[project]\nname = \"demo\"\ndependencies = [\"torch\"]\n");
    // Found from a folder below the project too; a test that runs code needs a word.
    let below = env.context.project().join("src");
    std::fs::create_dir_all(&below).unwrap();
    let mut command = env.context.command();
    let verify = env.context.finish(command.current_dir(&below).arg("verify").output().unwrap()).expect(0);
    assert!(verify.stdout.starts_with("environment [DIR]/project/.venv"), "{}", verify.shown());
    assert!(verify.flat().contains("the project's own"), "{}", verify.shown());
    assert!(
        verify.flat().contains("smoke test not run, as the environment is not active"),
        "{}",
        verify.shown()
    );
    let run = env.context.run(&["run", "--", "sh", "-c", "echo $VIRTUAL_ENV"]).expect(0);
    assert_eq!(run.stdout, "[DIR]/project/.venv\n", "{}", run.shown());
    assert!(run.stderr.contains("the project's own"), "{}", run.shown());
    let here = env.context.run(&["diagnose", "--here", "--json"]).expect(0).json();
    assert_eq!(here["facts"]["torch"], "2.9.1+cu128", "{here:#}");
    // conda's base environment, active in every shell of many machines, is not the project's.
    env.context.set("CONDA_PREFIX", "/opt/conda");
    env.context.set("CONDA_DEFAULT_ENV", "base");
    env.context.run(&["run", "--", "true"]).expect(0);
    std::fs::remove_file(&venv).unwrap();
    let base = env.context.run(&["verify"]).expect(3);
    assert!(
        base.flat().contains("only conda's base environment is active: `/opt/conda`"),
        "{}",
        base.shown()
    );
    assert!(base.flat().contains("--prefix /opt/conda"), "{}", base.shown());
}

/// What is started with the program and belongs to no package is named, once until something changes.
#[test]
#[cfg(unix)]
fn what_comes_before_the_program_is_named() {
    let Some(mut env) = Environment::new() else { return };
    env.context.set("PATH", "/usr/bin:/bin");
    let prefix = env.context.dir.path().join("env").display().to_string();
    let run =
        |env: &Environment| env.context.run(&["run", "--prefix", &prefix, "--", "true"]).expect(0).stderr;
    let quiet = run(&env);
    assert!(!quiet.contains("startup-code"), "{quiet}");
    env.context.write("random.py", "");
    let text = run(&env);
    assert!(text.contains("warning: shadowed-package: "), "{text}");
    std::fs::remove_file(env.context.project().join("random.py")).unwrap();
    run(&env);
    std::fs::write(env.site.join("zz.pth"), "import os\n").unwrap();
    let text = run(&env);
    assert!(text.contains("warning: startup-code: zz.pth is executed"), "{text}");
    std::fs::write(env.site.join("zz.pth"), "").unwrap();
    env.context.set("LD_PRELOAD", "/nowhere/libspy.so");
    let text = run(&env);
    assert!(text.contains("LD_PRELOAD loads /nowhere/libspy.so into every"), "{text}");
    env.context.unset("LD_PRELOAD");
    env.context.set("LD_AUDIT", "libaudit-of-none.so");
    assert!(run(&env).contains("LD_AUDIT loads libaudit-of-none.so"));
}
