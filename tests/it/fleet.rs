//! `fleet`: nodes out of host files, out of a Slurm whose commands are scripts, and out of a real one
//! (`ENVLOCK_TEST_SLURM=1`, with slurmctld, slurmd, slurm-client and munge installed, as root).

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::context::{IndexServer, Shape, TestContext, skipped};
use super::wheels::{little_pypi, little_pytorch};

/// A project that is locked for an A100, with the wheels of PyPI.
fn locked() -> (IndexServer, TestContext) {
    let mut all = little_pypi();
    all.extend(little_pytorch());
    let server = IndexServer::start(all, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    let machine = ["--gpu", "A100", "--driver", "580.65.06", "--only-index", "pypi", "--python", "3.12"];
    context.run(&[&["resolve", "torch==2.9.1"], &machine[..]].concat()).expect(0);
    (server, context)
}

fn host(context: &TestContext, name: &str, gpu: &str, count: usize, driver: &str) {
    let gpu = format!("[[gpu]]\nname = \"{gpu}\"\n").repeat(count);
    let text = format!("schema = 1\n[driver]\nversion = \"{driver}\"\n{gpu}[system]\nglibc = \"2.35\"\n");
    context.write(&format!("nodes/{name}.toml"), &text);
}

#[test]
fn equal_nodes_are_one_line() {
    let (_server, context) = locked();
    for n in 1..=12 {
        host(&context, &format!("n{n}"), "NVIDIA A100-SXM4-80GB", 4, "580.65.06");
    }
    host(&context, "n13", "NVIDIA A100-SXM4-80GB", 4, "470.57.02");
    context.write("nodes/old.toml", "schema = 7\n");
    insta::assert_snapshot!("fleet_hosts", context.run(&["fleet", "hosts", "nodes"]).expect(1).shown());
    let json = context.run(&["fleet", "hosts", "nodes", "--json"]).expect(1).json();
    let classes = &json["locks"][0]["classes"];
    assert_eq!(classes[0]["nodes"].as_array().unwrap().len(), 12);
    assert_eq!((&classes[0]["verdict"], &classes[1]["verdict"]), (&"ok".into(), &"differs".into()));
    assert_eq!(classes[1]["driver"], "525.60.13");
    assert_eq!(json["differences"][0]["fact"], "driver");
    assert_eq!(json["unanswered"][0]["node"], "old");
    // Without the two that cannot, all is well; a node without an answer alone is no `no`.
    std::fs::remove_file(context.project().join("nodes/n13.toml")).unwrap();
    context.run(&["fleet", "hosts", "nodes"]).expect(2);
    std::fs::remove_file(context.project().join("nodes/old.toml")).unwrap();
    context.run(&["fleet", "hosts", "nodes"]).expect(0);
    context.run(&["fleet", "hosts", "."]).expect(2);
}

/// The first name of a long list does not stand for all; a file that cannot be read is no `differs`.
#[test]
fn many_nodes_that_say_no() {
    let (_server, context) = locked();
    for n in (1..200).step_by(7) {
        host(&context, &format!("gpu-{n}"), "NVIDIA A100-SXM4-80GB", 1, "470.57.02");
    }
    host(&context, "ok", "NVIDIA A100-SXM4-80GB", 1, "580.65.06");
    let run = context.run(&["fleet", "hosts", "nodes"]).expect(1);
    assert!(run.stdout.contains("no       gpu-[1,8,15,"), "{}", run.shown());
    assert!(run.stdout.contains(",...] (29 nodes)"), "{}", run.shown());
    let all = context.run(&["fleet", "hosts", "nodes", "-v"]).expect(1);
    assert!(all.stdout.contains(",190,197]"), "{}", all.shown());
    context.write("nodes/bad.toml", "schema = 7\n");
    context.write("nodes/empty.toml", "schema = 1\n");
    let json = context.run(&["verify", "--host", "nodes", "--json"]).json();
    let verdict = |name: &str| {
        let hosts = json["hosts"].as_array().unwrap().iter();
        hosts
            .filter(|h| h["file"].as_str().unwrap().ends_with(name))
            .map(|h| h["verdict"].clone())
            .next()
            .unwrap()
    };
    let verdicts = ["bad.toml", "empty.toml", "gpu-1.toml", "ok.toml"].map(verdict);
    assert_eq!(verdicts, ["unknown", "unknown", "differs", "ok"]);
}

#[test]
fn several_locks_are_a_table() {
    let (_server, context) = locked();
    host(&context, "a1", "NVIDIA A100-SXM4-80GB", 1, "580.65.06");
    host(&context, "v1", "Tesla V100-SXM2-32GB", 1, "470.129.06");
    context.write("locks/one.lock", &context.read("envlock.lock"));
    context.write(
        "locks/pylock.toml",
        "lock-version = \"1.0\"\ncreated-by = \"x\"\n[[packages]]\nname = \"torch\"\nversion = \"99.0\"\nwheels = []\n",
    );
    let run = context.run(&["fleet", "hosts", "nodes", "--lock", "locks"]).expect(1);
    insta::assert_snapshot!("fleet_locks", run.shown());
}

/// Scripts in the place of Slurm's commands.
fn scripts(context: &mut TestContext, sinfo: &str, srun: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = context.dir.path().join("slurm");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("sinfo", sinfo), ("srun", srun)] {
        let path = folder.join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    context.set("PATH", &format!("{}:{path}", folder.display()));
}

#[test]
fn answers_of_nodes_are_from_outside() {
    let (_server, mut context) = locked();
    let host = "schema = 1\\n[driver]\\nversion = \\\"580.65.06\\\"\\n[[gpu]]\\nname = \\\"NVIDIA A100-SXM4-80GB\\\"";
    let answer = |task: u32, node: &str, text: &str| {
        format!("printf '{task}: # node {node}\\n'; printf \"{text}\\n\" | sed 's/^/{task}: /'")
    };
    let noise = "i=0; while [ $i -lt 20000 ]; do echo 'srun: error: noise' >&2; i=$((i+1)); done";
    let good = [
        answer(0, "n1", host),
        answer(1, "n2", "schema = 1\\n[driver"),
        answer(2, "n3", ""),
        answer(3, "n4", host),
        answer(4, "n4", host),
        "echo '2: sh: envlock: not found' >&2".to_owned(),
        noise.to_owned(),
        "exit 3".to_owned(),
    ];
    scripts(
        &mut context,
        "printf 'n1|idle\\nn2|mixed\\nn3|idle\\nn4|idle\\nn5|idle\\nn6|allocated\\nn7|drained*\\nn1|idle\\n'",
        &good.join("\n"),
    );
    let json = context.run(&["fleet", "slurm", "--json"]).expect(2).json();
    assert_eq!(json["locks"][0]["classes"][0]["nodes"], serde_json::json!(["n1"]), "{json:#}");
    let why = |node: &str| -> String {
        let all = json["unanswered"].as_array().unwrap();
        all.iter().find(|one| one["node"] == node).map(|one| one["why"].as_str().unwrap().to_owned()).unwrap()
    };
    assert_eq!(why("n3"), "sh: envlock: not found");
    assert_eq!(why("n4"), "two nodes answered by this name");
    assert_eq!(why("n5"), "it gave no answer");
    assert_eq!((why("n6"), why("n7")), ("not asked: allocated".into(), "not asked: drained".into()));
    assert!(why("n2").contains("unclosed table"), "{}", why("n2"));
    scripts(&mut context, "echo n1\\|idle", "echo 'srun: error: Unable to allocate resources' >&2; exit 1");
    let refused = context.run(&["fleet", "slurm"]).expect(2);
    assert!(refused.flat().contains("`srun` failed: Unable to allocate resources"), "{}", refused.shown());
    scripts(&mut context, "echo 'sinfo: error: no controller' >&2; exit 1", "exit 0");
    context.run(&["fleet", "slurm"]).expect(2);
    scripts(&mut context, "echo n1\\|down", "exit 9");
    let down = context.run(&["fleet", "slurm"]).expect(2);
    assert!(down.flat().contains("n1: not asked: down"), "{}", down.shown());
    context.set("PATH", "");
    let none = context.run(&["fleet", "slurm"]).expect(2);
    assert!(none.flat().contains("`sinfo` cannot be started"), "{}", none.shown());
}

/// Each node verifies its own copy of the environment, against the lock that is judged.
#[test]
fn environments_of_nodes() {
    let mut laid = super::verify::laid();
    let file = laid.site.join("locks.py").display().to_string();
    let srun = format!(
        "while [ \"$1\" != envlock-fleet ]; do shift; done; shift\n\
         one() {{ echo \"$1: # node $2\"; n=$1; shift 2; \"$@\" | sed \"s/^/$n: /\"; }}\n\
         one 0 n1 \"$@\"\none 1 n2 \"$@\"\nmv '{file}' '{file}.away'\none 2 n3 \"$@\"\nmv '{file}.away' '{file}'"
    );
    scripts(&mut laid.context, "printf 'n1|idle\\nn2|idle\\nn3|idle\\nn4|idle\\n'", &srun);
    let run = laid.context.run(&["fleet", "slurm", "--prefix", &laid.prefix]).expect(1);
    let shown = run.shown().replace(&laid.prefix, "/shared/env");
    assert!(shown.contains("no       n3\n         locks.py of filelock is missing"), "{shown}");
    assert!(shown.contains("yes      n[1-2]\n         clean"), "{shown}");
    assert!(shown.contains("unknown  n4\n         it gave no answer"), "{shown}");
    let json = laid.context.run(&["fleet", "slurm", "--prefix", &laid.prefix, "--json"]).expect(1).json();
    let classes = &json["environment"]["classes"];
    assert_eq!(classes[0]["nodes"], serde_json::json!(["n3"]), "{json:#}");
    assert_eq!(classes[0]["findings"][0]["code"], "missing-file");
    assert_eq!(json["differences"][0]["fact"], "environment");
    // A folder without an environment is not known.
    let none = laid.context.run(&["fleet", "slurm", "--prefix", "/nonexistent", "--json"]).expect(2).json();
    let class = &none["environment"]["classes"][0];
    assert_eq!(
        (&class["verdict"], class["nodes"].as_array().unwrap().len()),
        (&"unknown".into(), 3),
        "{none:#}"
    );
}

/// A controller and three nodes on this machine; they end with the value.
pub struct Slurm {
    pub folder: tempfile::TempDir,
    daemons: Vec<PathBuf>,
}

impl Slurm {
    pub fn start() -> Slurm {
        Slurm::start_with("", &|_| {})
    }

    /// With more lines for slurm.conf, in which `{dir}` is the folder, and files put into the folder before.
    pub fn start_with(more: &str, prepare: &dyn Fn(&Path)) -> Slurm {
        let folder = tempfile::Builder::new().prefix("slurm").tempdir_in("/tmp").unwrap();
        let dir = folder.path().display().to_string();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        for part in ["run", "state", "log", "spool/n1", "spool/n2", "spool/n3"] {
            std::fs::create_dir_all(folder.path().join(part)).unwrap();
        }
        write("cgroup.conf", "CgroupAutomount=no\n");
        prepare(folder.path());
        let more = more.replace("{dir}", &dir);
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let port = 20_000 + std::process::id() % 20_000 + 10 * STARTED.fetch_add(1, Ordering::Relaxed);
        let nodes: String = (1..=3)
            .map(|n| {
                format!("NodeName=n{n} NodeHostname=localhost Port={} CPUs=2 RealMemory=500\n", port + n)
            })
            .collect();
        write(
            "slurm.conf",
            &format!(
                "ClusterName=t\nSlurmctldHost=localhost\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
                 AuthInfo=socket={dir}/run/munge.sock\nCryptoType=crypto/munge\nSlurmctldPort={port}\n\
                 StateSaveLocation={dir}/state\nSlurmdSpoolDir={dir}/spool/%n\n\
                 SlurmctldPidFile={dir}/run/slurmctld.pid\nSlurmdPidFile={dir}/run/slurmd-%n.pid\n\
                 SlurmctldLogFile={dir}/log/slurmctld.log\nSlurmdLogFile={dir}/log/slurmd-%n.log\n\
                 ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
                 SelectTypeParameters=CR_Core\nMpiDefault=none\nReturnToService=2\n\
                 AccountingStorageType=accounting_storage/none\nJobCompType=jobcomp/none\n\
                 JobAcctGatherType=jobacct_gather/none\nSlurmdParameters=config_overrides\n{more}{nodes}\
                 PartitionName=all Nodes=n1,n2,n3 Default=YES MaxTime=INFINITE State=UP\n"
            ),
        );
        let key = folder.path().join("key");
        std::fs::write(&key, (0..128u8).map(|n| n.wrapping_mul(37) ^ 0x5a).collect::<Vec<_>>()).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o400)).unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let run = |program: &str, arguments: &[String]| {
            let done =
                Command::new(program).args(arguments).stdout(Stdio::null()).stderr(Stdio::null()).status();
            assert!(done.unwrap().success(), "{program}");
        };
        let files = [("--key-file", "key"), ("--socket", "run/munge.sock"), ("--pid-file", "run/munge.pid")];
        let more = [("--log-file", "log/munge.log"), ("--seed-file", "seed")];
        let munge = files.into_iter().chain(more).map(|(option, file)| format!("{option}={dir}/{file}"));
        run("munged", &[vec!["--force".to_owned()], munge.collect()].concat());
        let config = format!("{dir}/slurm.conf");
        run("slurmctld", &["-f".to_owned(), config.clone(), "-c".to_owned()]);
        for n in 1..=3 {
            run("slurmd", &["-f".to_owned(), config.clone(), "-N".to_owned(), format!("n{n}")]);
        }
        let pids = ["slurmd-n1", "slurmd-n2", "slurmd-n3", "slurmctld", "munge"];
        let daemons = pids.map(|name| folder.path().join(format!("run/{name}.pid"))).to_vec();
        let slurm = Slurm { folder, daemons };
        let start = Instant::now();
        while slurm.command("sinfo", &["-h", "-N", "-o", "%T"]).split_whitespace().ne(["idle"; 3]) {
            assert!(start.elapsed() < Duration::from_secs(60), "the cluster does not come up");
            std::thread::sleep(Duration::from_millis(200));
        }
        slurm
    }

    pub fn config(&self) -> String {
        self.folder.path().join("slurm.conf").display().to_string()
    }

    pub fn command(&self, program: &str, arguments: &[&str]) -> String {
        let out = Command::new(program).args(arguments).env("SLURM_CONF", self.config()).output().unwrap();
        String::from_utf8_lossy(&out.stdout).into_owned()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Jobs end before the daemons do.
        self.command("scancel", &["--signal=KILL", "--me"]);
        self.command("scancel", &["--me"]);
        std::thread::sleep(Duration::from_secs(1));
        for file in &self.daemons {
            let pid = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<i32>().ok());
            let Some(pid) = pid else { continue };
            // SAFETY: sends signals; the daemon wrote its own process id.
            let signal = |signal| unsafe { libc::kill(pid, signal) } == 0;
            let start = Instant::now();
            signal(libc::SIGTERM);
            while signal(0) && start.elapsed() < Duration::from_secs(3) {
                std::thread::sleep(Duration::from_millis(50));
            }
            if start.elapsed() >= Duration::from_secs(3) {
                signal(libc::SIGKILL);
            }
        }
    }
}

/// Whether a real Slurm is to be tested; else it is said that it was not.
pub fn has_slurm() -> bool {
    let is_there = |program: &str| {
        ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]
            .iter()
            .any(|folder| Path::new(folder).join(program).exists())
    };
    let has = std::env::var_os("ENVLOCK_TEST_SLURM").is_some()
        && ["srun", "slurmctld", "slurmd", "munged"].into_iter().all(is_there);
    if !has {
        skipped("no Slurm was asked for (ENVLOCK_TEST_SLURM=1), or it is not installed");
    }
    has
}

#[test]
fn a_real_cluster_is_asked() {
    if !has_slurm() {
        return;
    }
    let slurm = Slurm::start();
    let (_server, mut context) = locked();
    context.set("SLURM_CONF", &slurm.config());
    context.set("PATH", &std::env::var("PATH").unwrap());
    let json = context.run(&["fleet", "slurm", "--json"]).expect(0).json();
    assert_eq!(json["locks"][0]["classes"][0]["nodes"], serde_json::json!(["n1", "n2", "n3"]), "{json:#}");
    assert_eq!(json["environment"], serde_json::Value::Null);
    // An environment that all nodes see.
    let laid = super::verify::laid();
    let own = ["fleet", "slurm", "--json", "--prefix", &laid.prefix, "--lock"];
    let lock = laid.context.project().join("envlock.lock").display().to_string();
    let json = context.run(&[&own[..], &[&lock]].concat()).expect(0).json();
    let class = &json["environment"]["classes"][0];
    assert_eq!(
        (&class["verdict"], &class["nodes"]),
        (&"ok".into(), &serde_json::json!(["n1", "n2", "n3"])),
        "{json:#}"
    );
    // A busy node and a drained one are not asked.
    let mut busy = Command::new("srun")
        .args(["-w", "n2", "-n1", "-c2", "sleep", "300"])
        .env("SLURM_CONF", slurm.config())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !slurm.command("sinfo", &["-h", "-N", "-n", "n2", "-o", "%T"]).contains("allocated") {
        assert!(start.elapsed() < Duration::from_secs(30), "n2 does not get busy");
        std::thread::sleep(Duration::from_millis(100));
    }
    slurm.command("scontrol", &["update", "nodename=n3", "state=drain", "reason=test"]);
    let json = context.run(&["fleet", "slurm", "--json"]).expect(2).json();
    assert_eq!(json["locks"][0]["classes"][0]["nodes"], serde_json::json!(["n1"]), "{json:#}");
    let unanswered = serde_json::json!([
        { "node": "n2", "why": "not asked: allocated" },
        { "node": "n3", "why": "not asked: drained" },
    ]);
    assert_eq!(json["unanswered"], unanswered);
    let missing = context.run(&["fleet", "slurm", "-w", "n1", "--program", "/nonexistent/envlock"]).expect(2);
    assert!(missing.flat().contains("not found"), "{}", missing.shown());
    let _ = busy.kill();
    let _ = busy.wait();
}

/// A fleet of four kinds: a driver that is too old, one that runs by minor-version compatibility, Volta, and no GPU.
fn fleet_of_four(context: &TestContext) {
    for n in 1..=3 {
        host(context, &format!("a{n}"), "NVIDIA A100-SXM4-80GB", 4, "470.57.02");
    }
    for n in 1..=20 {
        host(context, &format!("b{n}"), "NVIDIA A100-SXM4-80GB", 8, "535.129.03");
    }
    host(context, "v1", "NVIDIA V100", 1, "535.129.03");
    context.write("nodes/login.toml", "schema = 1\ngpu = []\n[system]\nglibc = \"2.35\"\n");
}

#[test]
fn a_driver_is_rehearsed() {
    let (_server, context) = locked();
    fleet_of_four(&context);
    let run = context.run(&["fleet", "rehearse", "nodes", "--driver", "595.45.04"]).expect(1);
    insta::assert_snapshot!(run.shown(), @r#"
    exit 1
    --- stdout
    driver 595.45.04 on 24 of 25 nodes

    lock envlock.lock: runs on 22 of 25 nodes now, on 24 then
    stops      v1
               now:  machine code, minor-version compatibility
               then: driver 595.45.04 does not support NVIDIA V100 (7.0): the last
               branch for Volta is 580 (docs.nvidia.com/datacenter/tesla/drivers
               (R615 edition))
    starts     a[1-3]
               now:  driver 470.57.02 is below 525.60.13, which NVIDIA
               A100-SXM4-80GB (8.0) needs for this stack
               then: machine code
    changed    b[1-20]
               now:  machine code, minor-version compatibility
               then: machine code
    as before  yes on 1 node

    drain first: v1
               1 node: there a lock runs now, and then does not, or is not known to
    try it on: a1,b1,v1
               these 3 show every change on every kind of GPU, and no fewer do
    --- stderr
    "#);
    let run = context
        .run(&["fleet", "rehearse", "nodes", "--driver", "595.45.04", "--format", "markdown"])
        .expect(1);
    insta::assert_snapshot!(run.shown(), @r#"
    exit 1
    --- stdout
    ## driver 595.45.04 on 24 of 25 nodes

    | lock | nodes now | nodes then | stops | not known | starts | unclear | changed |
    | --- | --- | --- | --- | --- | --- | --- | --- |
    | envlock.lock | 22 | 24 | 1 | - | 3 | - | 20 |

    ### envlock.lock

    | effect | nodes | now | then |
    | --- | --- | --- | --- |
    | **stops** | v1 | machine code, minor-version compatibility | driver 595.45.04 does not support NVIDIA V100 (7.0): the last branch for Volta is 580 (docs.nvidia.com/datacenter/tesla/drivers (R615 edition)) |
    | **starts** | a\[1-3\] | driver 470.57.02 is below 525.60.13, which NVIDIA A100-SXM4-80GB (8.0) needs for this stack | machine code |
    | **changed** | b\[1-20\] | machine code, minor-version compatibility | machine code |
    | as before | yes on 1 node |  |  |

    **drain first:** v1 (1 node: there a lock runs now, and then does not, or is not known to)

    **try it on:** a1,b1,v1 (these 3 show every change on every kind of GPU, and no fewer do)
    --- stderr
    "#);
    let json = ["fleet", "rehearse", "nodes", "--driver", "595.45.04", "--format", "json"];
    let json = context.run(&json).expect(1).json();
    let outcomes = json["locks"][0]["outcomes"].as_array().unwrap();
    let effects: Vec<&str> = outcomes.iter().map(|one| one["effect"].as_str().unwrap()).collect();
    assert_eq!(effects, ["stops", "starts", "path", "same"], "{json:#}");
    assert_eq!(outcomes[2]["before"]["path"]["minor_version"], true);
    assert_eq!(json["locks"][0]["runs_on"], serde_json::json!({"before": 22, "after": 24}));
    // What `fleet` says of the nodes with that driver is what was rehearsed.
    for name in std::fs::read_dir(context.project().join("nodes")).unwrap() {
        let path = name.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.replace("470.57.02", "595.45.04").replace("535.129.03", "595.45.04");
        std::fs::write(&path, text).unwrap();
    }
    let json = context.run(&["fleet", "hosts", "nodes", "--json"]).expect(1).json();
    let classes = json["locks"][0]["classes"].as_array().unwrap();
    let no = classes.iter().find(|class| class["verdict"] == "differs").unwrap();
    assert_eq!((&no["nodes"], &no["line"]), (&serde_json::json!(["v1"]), &outcomes[0]["after"]["line"]));
}

#[test]
fn only_some_nodes_get_other_gpus() {
    let (_server, mut context) = locked();
    fleet_of_four(&context);
    let run = context.run(&["fleet", "rehearse", "nodes", "--gpu", "H100", "-w", "v1,b3"]).expect(0);
    insta::assert_snapshot!(run.shown(), @r#"
    exit 0
    --- stdout
    NVIDIA H100 (9.0) on 2 of 25 nodes

    lock envlock.lock: runs on 22 of 25 nodes
    as before  yes on 22 nodes, no on 3 nodes
    --- stderr
    "#);
    let none = context.run(&["fleet", "rehearse", "nodes", "--gpu", "H100", "-w", "x9"]).expect(2);
    assert!(none.flat().contains("the node that is named has no host file"), "{}", none.shown());
    let unknown = context.run(&["fleet", "rehearse", "nodes", "--gpu", "H1000"]).expect(2);
    assert!(unknown.flat().contains("`H1000`"), "{}", unknown.shown());
    let nothing = context.run(&["fleet", "rehearse", "nodes"]).expect(2);
    assert!(nothing.flat().contains("nothing is to be changed"), "{}", nothing.shown());
    // A partition is what Slurm says it is; a node of it without a host file has no answer.
    scripts(&mut context, "printf 'a1|idle\\na2|idle\\nzz|idle\\n'", "exit 9");
    let args = ["fleet", "rehearse", "nodes", "--driver", "580.65.06", "-p", "old", "--json"];
    let json = context.run(&args).expect(2).json();
    assert_eq!(json["change"]["nodes"], 2, "{json:#}");
    assert_eq!(json["locks"][0]["outcomes"][0]["nodes"], serde_json::json!(["a1", "a2"]));
    assert_eq!(json["unanswered"], serde_json::json!([{"node": "zz", "why": "it has no host file"}]));
    assert_eq!(json["first"], serde_json::json!({"nodes": ["a1"], "smallest": true}));
}

#[test]
fn a_lock_is_rehearsed_against_another() {
    let (_server, mut context) = locked();
    context.set("PATH", &std::env::var("PATH").unwrap_or_default());
    fleet_of_four(&context);
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=t", "-c", "user.email=t@t"];
        let run = Command::new("git").args(identity).args(args).current_dir(context.project()).output();
        run.is_ok_and(|run| run.status.success())
    };
    if !git(&["init", "-q"]) {
        return skipped("no git is here");
    }
    assert!(git(&["add", "envlock.lock"]) && git(&["commit", "-qm", "x"]));
    context.write("old/envlock.lock", &context.read("envlock.lock"));
    let machine = ["--gpu", "A100", "--driver", "580.65.06", "--only-index", "pypi", "--python", "3.12"];
    context.run(&[&["resolve", "torch==2.15.0"], &machine[..]].concat()).expect(0);
    let run = context.run(&["fleet", "rehearse", "nodes", "--against", "HEAD"]).expect(1);
    insta::assert_snapshot!(run.shown(), @r#"
    exit 1
    --- stdout
    another lock on 25 of 25 nodes

    lock envlock.lock in place of HEAD: runs on 22 of 25 nodes now, on 1 then
    stops      v1
               now:  machine code, minor-version compatibility
               then: NVIDIA V100 (7.0) is not covered: the stack supports compute
               capability 7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 10.3, 12.0, 12.1
    stops      b[1-20]
               now:  machine code, minor-version compatibility
               then: driver 535.129.03 is below 580.65.06, which NVIDIA
               A100-SXM4-80GB (8.0) needs for this stack
    as before  yes on 1 node, no on 3 nodes

    not on: b[1-20],v1
               21 nodes: there the lock runs now, and the new one does not, or is
               not known to
    try it on: b1,v1
               these 2 show every change on every kind of GPU, and no fewer do
    --- stderr
    "#);
    context.write("new/envlock.lock", &context.read("envlock.lock"));
    context.write("new/other.lock", &context.read("envlock.lock"));
    let folders = ["fleet", "rehearse", "nodes", "--lock", "new", "--against", "old"];
    let run = context.run(&folders).expect(1);
    assert!(run.stderr.contains("`new/other.lock` is new"), "{}", run.shown());
    let two = ["--against", "HEAD", "--against", "HEAD"];
    let uneven = [&["fleet", "rehearse", "nodes", "--lock", "new/envlock.lock"], &two[..]].concat();
    let run = context.run(&uneven).expect(2);
    assert!(run.flat().contains("1 lock is compared with 2 locks"), "{}", run.shown());
    let run = context.run(&["diff", "HEAD", "--format", "markdown"]).expect(0);
    insta::assert_snapshot!(run.shown(), @r#"
    exit 0
    --- stdout
    ### Target default

    **What machines need has changed**

    |  | before | after |
    | --- | --- | --- |
    | driver | >= 525.60.13 | >= 580.65.06 |
    | dropped GPUs | compute capability 7.0 |  |
    | GPUs 10.0, 12.0 | machine code, driver >= 570 | machine code, driver >= 580.65.06 |
    | GPUs 10.3, 12.1 | machine code, driver >= 575 | machine code, driver >= 580.65.06 |

    | stack | before | after |
    | --- | --- | --- |
    | torch | 2.9.1 cu128 | 2.15.0 cu132 |
    | cudnn | 9.10.2.21 | 9.26.0.51 |

    4 packages: 2 changed, 1 added, 1 removed

    | package | before | after |
    | --- | --- | --- |
    | nvidia-cudnn-cu12 | 9.10.2.21 |  |
    | nvidia-cudnn-cu13 |  | 9.26.0.51 |
    | torch | 2.9.1+cu128 | 2.15.0+cu132 |
    | triton | 3.5.1 | 3.9.0 |
    --- stderr
    "#);
    let json = context.run(&["diff", "HEAD", "--format", "json"]).expect(0).json();
    assert_eq!(json, context.run(&["diff", "HEAD", "--json"]).expect(0).json());
    // All GPUs after none are a need, no GPUs that are new.
    let own = context.read("envlock.lock");
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    context.run(&["resolve", "filelock", "--gpu", "none", "--python", "3.12"]).expect(0);
    context.write("without.lock", &context.read("envlock.lock"));
    context.write("envlock.lock", &own);
    let run = context.run(&["diff", "without.lock", "envlock.lock", "--format", "markdown"]).expect(0);
    assert!(run.stdout.contains("| gpu | none required | compute capability 7.5, "), "{}", run.shown());
    assert!(!run.stdout.contains("new GPUs"), "{}", run.shown());
    let same = context.run(&["diff", "envlock.lock", "envlock.lock", "--format", "markdown"]).expect(0);
    assert_eq!(same.stdout, "No change in packages or in requirements on the machine.\n");
}

/// Where nothing uses a GPU, its driver does not matter; what is unknown before and after is no consequence of the change.
#[test]
fn what_a_change_does_not_do() {
    let (_server, context) = locked();
    context.run(&["resolve", "filelock", "--gpu", "none", "--python", "3.12"]).expect(0);
    host(&context, "v1", "NVIDIA V100", 1, "535.129.03");
    host(&context, "x1", "NVIDIA FooBar 9000", 1, "535.129.03");
    context.write("nodes/unstated.toml", "schema = 1\n");
    let args = ["fleet", "rehearse", "nodes", "--driver", "595.45.04", "--json"];
    let json = context.run(&args).expect(0).json();
    let outcomes = json["locks"][0]["outcomes"].as_array().unwrap();
    assert!(outcomes.iter().all(|one| one["effect"] == "same" && one["after"]["line"].is_null()), "{json:#}");
    assert_eq!((&json["change"]["nodes"], &json["drain"]), (&2.into(), &serde_json::json!([])));
    let machine = ["--gpu", "A100", "--driver", "580.65.06", "--only-index", "pypi", "--python", "3.12"];
    context.run(&[&["resolve", "torch==2.9.1"], &machine[..]].concat()).expect(0);
    let json = context.run(&args).expect(1).json();
    assert_eq!(json["drain"], serde_json::json!(["v1"]), "{json:#}");
    host(&context, "x1", "NVIDIA FooBar 9000", 1, "470.57.02");
    let json = context.run(&[&args[..], &["-w", "x[1-1]"]].concat()).expect(0).json();
    assert_eq!(json["locks"][0]["outcomes"][0]["effect"], "unclear", "{json:#}");
    let run = context.run(&["fleet", "rehearse", "nodes", "--gpu", "none"]).expect(0);
    assert!(run.stdout.starts_with("no GPU on 2 of 3 nodes"), "{}", run.shown());
    let run = context.run(&["fleet", "rehearse", "nodes", "--gpu", "H100", "-w", "n[1-"]).expect(2);
    assert!(run.flat().contains("`n[1-` is no list of nodes"), "{}", run.shown());
}
