//! The recipes of docs/cluster.md: on a real Slurm (`ENVLOCK_TEST_SLURM=1`), and by the contracts of what calls them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::context::{TestContext, skipped};
use super::fleet::{Slurm, has_slurm};
use super::tools;

fn recipes() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cluster")
}

/// Writes a script.
pub fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Makes a node's GPU lose its driver, or gives it back.
fn set_sound(folder: &Path, node: &str, is_sound: bool) {
    let bus = folder.join(format!("root-{node}/sys/bus/pci/devices"));
    let _ = std::fs::remove_dir_all(&bus);
    std::fs::create_dir_all(folder.join(format!("root-{node}/proc"))).unwrap();
    std::fs::create_dir_all(bus.join("gpu")).unwrap();
    for (file, text) in [("vendor", "0x10de"), ("class", if is_sound { "0x020000" } else { "0x030200" })] {
        std::fs::write(bus.join("gpu").join(file), text).unwrap();
    }
}

#[test]
fn an_unsound_node_is_drained_and_a_wrong_lock_drains_nothing() {
    if !has_slurm() {
        return;
    }
    let envlock = env!("CARGO_BIN_EXE_envlock");
    let recipes = recipes().display().to_string();
    let prepare = |folder: &Path| {
        for node in ["n1", "n2", "n3"] {
            set_sound(folder, node, true);
        }
        let dir = folder.display();
        // A share of three nodes: one.
        let health = format!(
            "export SLURM_CONF={dir}/slurm.conf ENVLOCK={envlock} ENVLOCK_MAX_DRAINED=34 HOME={dir} PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
             export ENVLOCK_SYSROOT={dir}/root-$SLURMD_NODENAME\nexec sh {recipes}/envlock-health.sh >>{dir}/log/health 2>&1"
        );
        script(&folder.join("health.sh"), &health);
        let prolog = format!(
            "[ -e {dir}/prolog ] || exit 0\nexport ENVLOCK={envlock} HOME={dir} ENVLOCK_SYSROOT={dir}/root-$SLURMD_NODENAME\n\
             exec sh {recipes}/prolog.sh >>{dir}/log/prolog"
        );
        script(&folder.join("prolog.sh"), &prolog);
    };
    let more = "HealthCheckProgram={dir}/health.sh\nHealthCheckInterval=3\nProlog={dir}/prolog.sh\n";
    let slurm = Slurm::start_with(more, &prepare);
    let folder = slurm.folder.path().to_owned();
    // A state with its reason, if there is one: `n1 drained envlock: ...`.
    let nodes = || slurm.command("sinfo", &["-h", "-N", "-o", "%N %T %E"]);
    let wait = |what: &str, is_so: &dyn Fn(&str) -> bool| {
        let start = Instant::now();
        loop {
            let now = nodes();
            if is_so(&now) {
                return now;
            }
            let log = || std::fs::read_to_string(folder.join("log/health")).unwrap_or_default();
            assert!(start.elapsed() < Duration::from_secs(60), "{what}: {now}\n{}", log());
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let drained =
        |now: &str, node: &str| now.contains(&format!("{node} drained envlock: driver-not-loaded: "));
    let idle = |now: &str, node: &str| now.contains(&format!("{node} idle"));
    // What an administrator drained stays drained, sound or not.
    slurm.command("scontrol", &["update", "nodename=n2", "state=drain", "reason=a disk"]);
    set_sound(&folder, "n3", false);
    let now = wait("n3 is not drained", &|now| drained(now, "n3"));
    assert!(idle(&now, "n1") && now.contains("n2 drained a disk"), "{now}");
    set_sound(&folder, "n3", true);
    let now = wait("n3 is not undrained", &|now| idle(now, "n3"));
    assert!(idle(&now, "n1") && now.contains("n2 drained a disk"), "{now}");
    // Nodes that somebody took out in another way stay as they are, sound or not.
    slurm.command("scontrol", &["update", "nodename=n2", "state=resume"]);
    slurm.command("scontrol", &["update", "nodename=n1", "state=fail", "reason=ticket"]);
    set_sound(&folder, "n1", false);
    std::thread::sleep(Duration::from_secs(5));
    let now = nodes();
    assert!(now.contains("n1 fail ticket"), "{now}");
    set_sound(&folder, "n1", true);
    slurm.command("scontrol", &["update", "nodename=n1", "state=resume"]);
    wait("they do not return", &|now| idle(now, "n1") && idle(now, "n2"));
    slurm.command("scontrol", &["update", "nodename=n2", "state=drain", "reason=a disk"]);
    // Of two unsound nodes, one is drained: more is over the share.
    set_sound(&folder, "n1", false);
    set_sound(&folder, "n3", false);
    wait("neither is drained", &|now| drained(now, "n1") || drained(now, "n3"));
    std::thread::sleep(Duration::from_secs(7));
    let now = nodes();
    assert!(drained(&now, "n1") != drained(&now, "n3"), "{now}");
    set_sound(&folder, "n1", true);
    set_sound(&folder, "n3", true);
    wait("not both are undrained", &|now| idle(now, "n1") && idle(now, "n3"));
    // A lock that does not run there fails the job, and says nothing about the node.
    let context = TestContext::new();
    context
        .run(&["resolve", "torch==2.9.1", "--stack-only", "--gpu", "A100", "--driver", "580.65.06"])
        .expect(0);
    context.write(
        "host.toml",
        "schema = 1\n[driver]\nversion = \"470.57.02\"\n[[gpu]]\nname = \"NVIDIA A100-SXM4-80GB\"\n",
    );
    let job = |arguments: &[&str]| {
        let mut command = Command::new("srun");
        command.args(["-w", "n1", "-n1", envlock, "verify"]).args(arguments).current_dir(context.project());
        command.env("SLURM_CONF", slurm.config()).env("ENVLOCK_SYSROOT", folder.join("root-n1"));
        command.output().unwrap().status.code()
    };
    assert_eq!(job(&["--host", "host.toml"]), Some(1));
    assert_eq!(job(&["--host", "--require-gpu"]), Some(1));
    assert_eq!(job(&["--host", "nowhere.toml"]), Some(2));
    assert_eq!(job(&["--only", "machine"]), Some(0));
    std::thread::sleep(Duration::from_secs(4));
    let now = nodes();
    assert!(idle(&now, "n1") && idle(&now, "n3"), "{now}");
    // A Prolog that fails: Slurm itself drains the node.
    script(&folder.join("health.sh"), "exit 0");
    std::fs::write(folder.join("prolog"), "").unwrap();
    let submit = |node: &str| {
        let output = folder.join(format!("job-{node}")).display().to_string();
        slurm.command("sbatch", &["-w", node, "-n1", "-D", "/", "-o", &output, "--wrap", "echo done"]);
        folder.join(format!("job-{node}"))
    };
    let done = submit("n3");
    wait("the job on a sound node does not run", &|_| {
        std::fs::read_to_string(&done).is_ok_and(|t| t == "done\n")
    });
    set_sound(&folder, "n1", false);
    submit("n1");
    wait("the Prolog does not drain", &|now| {
        now.lines().any(|l| l.starts_with("n1 drain") && l.contains("Prolog error"))
    });
}

/// Node Problem Detector: 0 is well, 1 a problem; the message is cut at 80 bytes.
#[test]
fn node_problem_detector_calls_what_the_configuration_says() {
    let text = std::fs::read_to_string(recipes().join("node-problem-detector.json")).unwrap();
    let config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let arguments: Vec<&str> =
        config["rules"][0]["args"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
    let limit = config["pluginConfig"]["max_output_length"].as_u64().unwrap() as usize;
    let context = TestContext::new();
    assert_eq!(context.run(&arguments).expect(0).stdout, "envlock: ok: no NVIDIA GPU\n");
    set_sound(context.dir.path(), "x", false);
    std::fs::rename(context.dir.path().join("root-x"), context.dir.path().join("other")).unwrap();
    let mut context = context;
    let root = context.dir.path().join("other").display().to_string();
    context.set("ENVLOCK_SYSROOT", &root);
    let line = context.run(&arguments).expect(1).stdout;
    assert!(line.trim_end().len() <= limit && line.contains("driver-not-loaded"), "{line}");
}

/// node-feature-discovery: lines `name=value` in a file that is written beside and renamed.
#[test]
fn node_features_name_the_locks_that_run() {
    let context = TestContext::new();
    context
        .run(&["resolve", "torch==2.9.1", "--stack-only", "--gpu", "A100", "--driver", "580.65.06"])
        .expect(0);
    let features = context.dir.path().join("features");
    std::fs::create_dir_all(&features).unwrap();
    let registry = context.command();
    let registry: Vec<_> = registry.get_args().map(|a| a.to_string_lossy().into_owned()).collect();
    let program = context.dir.path().join("envlock");
    script(&program, &format!("exec {} {} \"$@\"", env!("CARGO_BIN_EXE_envlock"), registry.join(" ")));
    let run = |more: &[(&str, &str)]| {
        let mut command = context.command_of("sh");
        command.arg(recipes().join("envlock-nfd.sh")).args(["envlock.lock", "missing.lock"]);
        command.env("NFD_FEATURES", &features).env("ENVLOCK", &program).env("PATH", "/usr/bin:/bin");
        command.envs(more.iter().copied());
        assert!(command.status().unwrap().success());
        std::fs::read_to_string(features.join("envlock")).unwrap()
    };
    let digest = &super::wheels::hex(context.read("envlock.lock").as_bytes())[..12];
    // A lock that uses a GPU does not run on this node, one for the CPU does.
    assert_eq!(run(&[]), format!("envlock.dev/lock-{digest}=false\n"));
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    context.run(&["resolve", "torch==2.9.1", "--stack-only", "--gpu", "none"]).expect(0);
    let digest = &super::wheels::hex(context.read("envlock.lock").as_bytes())[..12];
    assert_eq!(run(&[]), format!("envlock.dev/lock-{digest}=true\n"));
    let left: Vec<_> = std::fs::read_dir(&features).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["envlock"]);
}

/// Node Health Check calls a function that ends with `die`.
#[test]
fn node_health_check_dies_of_a_fault_alone() {
    let context = TestContext::new();
    let check = recipes().join("envlock.nhc").display().to_string();
    let program = env!("CARGO_BIN_EXE_envlock");
    let text = format!(
        "die() {{ shift; echo \"died: $1\"; }}; ENVLOCK={program}; . {check}; check_envlock; echo \"rc $?\""
    );
    let run = |root: &Path| {
        let mut command = context.command_of("bash");
        command.args(["-c", &text]).env("PATH", "/usr/bin:/bin").env("ENVLOCK_SYSROOT", root);
        let Ok(output) = command.output() else {
            skipped("no bash here");
            return None;
        };
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let Some(sound) = run(&context.dir.path().join("sysroot")) else { return };
    assert_eq!(sound, "rc 0\n");
    set_sound(context.dir.path(), "x", false);
    let unsound = run(&context.dir.path().join("root-x")).unwrap();
    assert!(unsound.starts_with("died: check_envlock:  driver-not-loaded: "), "{unsound}");
    assert!(unsound.ends_with("rc 1\n"), "{unsound}");
}

#[test]
fn the_kubernetes_job_is_valid() {
    let Some(python) = tools::python_with("kubernetes_validate") else { return };
    let validate = python.with_file_name("kubernetes-validate");
    let checked = Command::new(validate).arg("--strict").arg(recipes().join("job.yaml")).output().unwrap();
    let told =
        String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{told}");
}
