//! `export kubernetes`, `slurm` and `htcondor`: what is written, what is refused, and what the programs that read it say.

use std::process::Command;

use super::context::{IndexServer, Shape, TestContext};
use super::fleet::{Slurm, has_slurm};
use super::tools;
use super::wheels::{little_pypi, little_pytorch};

const MANIFEST: &str = "[project]\nname = \"My Train\"\npython = \"3.13\"\ndependencies = [\"torch==2.9.1\"]\n\
    [target.default]\ngpus = [\"H200\"]\ndriver = \"580.159.04\"\n";

const NODES: &str = "[schedule.slurm.ampere]\ntype = \"a100\"\nfeature = \"amp\"\ngpus = [\"A100-SXM4-80GB\"]\n\
    driver = \"535.129.03\"\nglibc = \"2.34\"\n\
    [schedule.slurm.hopper]\ntype = \"h100\"\nfeature = \"hop\"\ngpus = [\"H100\"]\ndriver = \"580.65.06\"\n\
    [schedule.slurm.kepler]\ntype = \"k80\"\ngpus = [\"K80\"]\ndriver = \"470.129.06\"\nglibc = \"2.34\"\n";

/// A project that is locked with `more` in its manifest.
fn locked(more: &str) -> (IndexServer, TestContext) {
    let wheels = little_pypi().into_iter().chain(little_pytorch()).collect();
    let server = IndexServer::start(wheels, Shape { json: true, metadata: true, ..Shape::default() });
    let context = TestContext::with_index(&server);
    context.write("envlock.toml", &format!("{MANIFEST}{more}"));
    context.run(&["resolve", "--only-index", "pypi"]).expect(0);
    (server, context)
}

#[test]
fn gpus_of_kubernetes() {
    let (_server, context) = locked("");
    let claim = context.run(&["export", "kubernetes"]).expect(0).stdout;
    insta::assert_snapshot!(claim, @r#"
        # Written by envlock as kubernetes; change the manifest and run `envlock resolve`.
        # Admitted:
        # * compute capability 7.0: driver >= 525.60.13, driver < 590
        # * compute capability 7.5, 8.0, 8.6, 8.9, 9.0: driver >= 525.60.13
        # * compute capability 10.0, 12.0: driver >= 570
        # * compute capability 10.3, 12.1: driver >= 575
        # Not published, and so decided by `envlock verify --host` when the job starts:
        # * glibc of the image: >= 2.28
        # * cuda-compat in the image: with it, older drivers may do; they are not admitted
        # Replace IMAGE by an image with envlock and the environment (`envlock export Dockerfile`).
        apiVersion: resource.k8s.io/v1
        kind: ResourceClaimTemplate
        metadata:
          name: my-train-gpu
        spec:
          spec:
            devices:
              requests:
                - name: gpu
                  exactly:
                    deviceClassName: gpu.nvidia.com
                    allocationMode: ExactCount
                    count: 1
                    selectors:
                      - cel:
                          expression: |-
                            cel.bind(gpu, device.attributes['gpu.nvidia.com'],
                              'cudaComputeCapability' in gpu && cel.bind(sm, gpu.cudaComputeCapability,
                              'driverVersion' in gpu && cel.bind(driver, gpu.driverVersion,
                                sm.major() == 7 && sm.minor() in [0] && driver.compareTo(semver('525.60.13')) >= 0 && driver.compareTo(semver('590.0.0')) < 0 ||
                                (sm.major() == 7 && sm.minor() in [5] || sm.major() == 8 && sm.minor() in [0, 6, 9] || sm.major() == 9 && sm.minor() in [0]) && driver.compareTo(semver('525.60.13')) >= 0 ||
                                (sm.major() == 10 && sm.minor() in [0] || sm.major() == 12 && sm.minor() in [0]) && driver.compareTo(semver('570.0.0')) >= 0 ||
                                (sm.major() == 10 && sm.minor() in [3] || sm.major() == 12 && sm.minor() in [1]) && driver.compareTo(semver('575.0.0')) >= 0
                            )))
        ---
        apiVersion: v1
        kind: Pod
        metadata:
          name: my-train
        spec:
          restartPolicy: Never
          nodeSelector:
            kubernetes.io/os: linux
            kubernetes.io/arch: amd64
          resourceClaims:
            - name: gpu
              resourceClaimTemplateName: my-train-gpu
          initContainers:
            - name: envlock
              image: "IMAGE"
              command: ["envlock", "verify", "--host", "--require-gpu"]
              resources:
                claims: [{name: gpu}]
          containers:
            - name: main
              image: "IMAGE"
              resources:
                claims: [{name: gpu}]
        "#);
    let own =
        ["export", "kubernetes", "--nodes-by", "gfd", "--gpus", "2", "--job-image", "reg.example.org/t:1"];
    let pod = context.run(&own).expect(0).stdout;
    assert!(pod.contains("limits: {nvidia.com/gpu: 2}"), "{pod}");
    let mig = context.run(&["export", "kubernetes", "--mig", "1g.10gb+me"]).expect(0).stdout;
    assert!(
        mig.contains("deviceClassName: mig.nvidia.com") && mig.contains("gpu.profile == '1g.10gb+me'"),
        "{mig}"
    );
    let Some(python) = tools::python_with("kubernetes_validate") else { return };
    for (name, text) in [("claim.yaml", &claim), ("pod.yaml", &pod), ("mig.yaml", &mig)] {
        let file = context.write(name, text);
        let validate = python.with_file_name("kubernetes-validate");
        let checked = Command::new(validate).arg("--strict").arg(file).output().unwrap();
        let told = String::from_utf8_lossy(&checked.stdout) + String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{told}");
    }
}

/// A cloud's label names the GPU, and nobody publishes the driver.
#[test]
fn labels_of_clouds() {
    let (_server, context) = locked("");
    let context = context.with_shipped_registry();
    let own = ["export", "kubernetes", "--nodes-by", "gke"];
    let run = context.run(&own).expect(2);
    assert!(run.flat().contains("`[schedule]` with `driver = \"...\"`"), "{}", run.shown());
    let undecided = context.run(&[&own[..], &["--admit-undecided"]].concat()).expect(0).stdout;
    assert!(
        undecided.contains("\"nvidia-l4\"") && undecided.contains("\"nvidia-tesla-v100\""),
        "{undecided}"
    );
    assert!(!undecided.contains("\"nvidia-tesla-k80\""), "{undecided}");
    // From the stated driver on, a GPU that newer drivers give up is undecided, and one that needs a newer one too.
    context.write("envlock.toml", &format!("{MANIFEST}[schedule]\ndriver = \"535.129.03\"\n"));
    let stated = context.run(&own).expect(0).stdout;
    assert!(stated.contains("\"nvidia-l4\""), "{stated}");
    for other in ["nvidia-tesla-v100", "nvidia-b200", "nvidia-rtx-pro-6000"] {
        assert!(!stated.contains(&format!("\"{other}\"")), "{stated}");
    }
    let aws = ["export", "kubernetes", "--nodes-by", "karpenter", "--mig", "1g.10gb+me"];
    let aws = context.run(&aws).expect(0).stdout;
    assert!(aws.contains("karpenter.k8s.aws/instance-gpu-name"), "{aws}");
    assert!(aws.contains("limits: {nvidia.com/mig-1g.10gb.me: 1}"), "{aws}");
}

#[test]
fn nodes_of_slurm() {
    let (_server, context) = locked(NODES);
    insta::assert_snapshot!(context.run(&["export", "slurm", "--gpus", "2"]).expect(0).stdout, @r#"
        #!/bin/bash
        # Written by envlock as slurm; change the manifest and run `envlock resolve`.
        # Kinds of nodes, as `[schedule.slurm]` states them:
        # * ampere: admitted
        # * hopper: not admitted, as undecided: its glibc is not stated, and >= 2.28 is needed
        # * kepler: not admitted: Tesla K80 (3.7) is not covered: the stack supports compute capability 7.0, 7.5, 8.0, 8.6, 8.9, 9.0, 10.0, 10.3, 12.0, 12.1
        #SBATCH --nodes=1
        #SBATCH --ntasks-per-node=1
        #SBATCH --gres=gpu:a100:2

        set -euo pipefail
        # Each node answers before the work starts.
        srun --ntasks=1 --ntasks-per-node=1 envlock verify --host --require-gpu
        srun envlock run --require-gpu -- "$@"
        "#);
    let own = ["export", "slurm", "--nodes", "2", "--admit-undecided", "-o", "job.sh"];
    context.run(&own).expect(0);
    let text = context.read("job.sh");
    assert!(text.contains("#SBATCH --gres=gpu:1\n#SBATCH --constraint=\"[amp|hop]\"\n"), "{text}");
    // The same file is written again.
    context.run(&own).expect(0);
    if !has_slurm() {
        return;
    }
    let slurm = Slurm::start_with(
        "GresTypes=gpu\nSuspendProgram=/bin/true\nResumeProgram=/bin/true\n\
         NodeName=a[1-2] CPUs=2 RealMemory=500 Gres=gpu:a100:4 Feature=amp State=CLOUD\n\
         NodeName=h1 CPUs=2 RealMemory=500 Gres=gpu:h100:4 Feature=hop State=CLOUD\n\
         PartitionName=gpu Nodes=a[1-2],h1 MaxTime=INFINITE State=UP\n",
        &|_| {},
    );
    for (options, expected) in
        [(&["--gpus", "2"][..], "nodes a1"), (&["--nodes", "2", "--admit-undecided"], "nodes a[1-2]")]
    {
        let script = context.run(&[&["export", "slurm"], options].concat()).expect(0).stdout;
        let script = context.write("own.sh", &script);
        let asked = Command::new("sbatch")
            .args(["--test-only", "--partition", "gpu"])
            .arg(script)
            .env("SLURM_CONF", slurm.config())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&asked.stderr).into_owned();
        assert!(asked.status.success() && told.contains(expected), "{told}");
    }
}

#[test]
fn gpus_of_htcondor() {
    let (_server, context) = locked("[schedule]\nglibc = \"2.34\"\ndriver = \"580.65.06\"\n");
    insta::assert_snapshot!(context.run(&["export", "htcondor"]).expect(0).stdout, @r#"
        # Written by envlock as htcondor; change the manifest and run `envlock resolve`.
        # Needed:
        # * compute capability 7.0: driver >= 525.60.13, driver < 590
        # * compute capability 7.5, 8.0, 8.6, 8.9, 9.0: driver >= 525.60.13
        # * compute capability 10.0, 12.0: driver >= 570
        # * compute capability 10.3, 12.1: driver >= 575
        # HTCondor publishes the CUDA of a driver, not its release: a CUDA version of which only some drivers do is
        # not admitted.
        # All nodes have glibc >= 2.34, as `[schedule]` states.
        universe = vanilla
        requirements = (Arch == "X86_64") && (OpSys == "LINUX")
        request_gpus = 1
        require_gpus = (Capability == 7.0 && MaxSupportedVersion >= 13000 && MaxSupportedVersion < 13010) || ((Capability == 7.5 || Capability == 8.0 || Capability == 8.6 || Capability == 8.9 || Capability == 9.0) && MaxSupportedVersion >= 13000) || ((Capability == 10.0 || Capability == 12.0) && MaxSupportedVersion >= 13000) || ((Capability == 10.3 || Capability == 12.1) && MaxSupportedVersion >= 13000)
        # Checks the machine, then runs the command.
        executable = envlock
        transfer_executable = true
        transfer_input_files = envlock.lock
        arguments = run --require-gpu -- $(command:python train.py)
        log = envlock.log
        output = envlock.out
        error = envlock.err
        queue
        "#);
    let (_server, context) = locked("");
    insta::assert_snapshot!(context.run(&["export", "htcondor"]).expect(2).shown(), @r#"
        exit 2
        --- stdout
        --- stderr
        error: HTCondor does not publish the glibc of its nodes, which has to be >=
               2.28: whether a machine that it offers runs the target is undecided

        hint: state it in envlock.toml, `[schedule]` with `glibc = "..."`: the lowest of
              all nodes; or `--admit-undecided`: `envlock verify --host` then decides
              when the job starts
        "#);
    let own = ["export", "htcondor", "--job-image", "reg.example.org/t:1"];
    assert!(context.run(&own).expect(0).stdout.contains("MaxSupportedVersion >= 12010"));
}

#[test]
fn what_a_scheduler_is_not_asked() {
    let (_server, context) = locked("");
    for (arguments, expected) in [
        (&["export", "slurm"][..], "state the kinds of nodes in envlock.toml"),
        (&["export", "slurm", "--mig", "1g.10gb"], "`--mig` is for `kubernetes`"),
        (&["export", "requirements.txt", "--gpus", "2"], "`--gpus` is for `kubernetes`, `slurm`, `htcondor`"),
        (&["export", "kubernetes", "--mig", "a' || true"], "`a' || true` is not a MIG profile"),
        (&["export", "kubernetes", "--job-image", "x\"\n  evil: true"], "is not an image name"),
        (&["export", "htcondor", "--job-image", "x y"], "is not an image name"),
        (&["export", "kubernetes", "--gpus", "0"], "invalid value '0'"),
    ] {
        let run = context.run(arguments).expect(2);
        assert!(run.flat().contains(expected), "{}", run.shown());
    }
    for (table, expected) in [
        ("[schedule]\nglibc = \"new\"\n", "envlock.toml:9: `new` is not a"),
        ("[schedule.slurm.x]\ngpus = [\"H100\"]\n", "envlock.toml:8: a kind of node has a GRES `type`"),
        ("[schedule.slurm.x]\ntype = \"a,b\"\ngpus = [\"H100\"]\n", "`a,b` is not the name of a GRES type"),
        ("[schedule.slurm.x]\ntype = \"a\"\n", "missing field `gpus`"),
    ] {
        context.write("envlock.toml", &format!("{MANIFEST}{table}"));
        let run = context.run(&["export", "slurm"]).expect(2);
        assert!(run.flat().contains(expected), "{}", run.shown());
    }
    // A GPU that nobody knows has its place.
    context.write("envlock.toml", &format!("{MANIFEST}[schedule.slurm.x]\ntype = \"a\"\ngpus = [\"Q9\"]\n"));
    let run = context.run(&["export", "slurm"]).expect(2);
    assert!(run.flat().contains("envlock.toml:8: [schedule.slurm.x]:"), "{}", run.shown());
    // A lock for the CPU asks for no GPU.
    context.write(
        "envlock.toml",
        &MANIFEST.replace("\"H200\"", "\"none\"").replace("driver = \"580.159.04\"\n", ""),
    );
    context.run(&["resolve"]).expect(0);
    let run = context.run(&["export", "kubernetes"]).expect(2);
    assert!(run.flat().contains("the target needs no GPU"), "{}", run.shown());
}
