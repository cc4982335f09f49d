//! What is exported for a scheduler, held against `compatibility`: the exported text is evaluated on the facts that the scheduler
//! publishes of a machine.

mod expression;

use std::collections::BTreeMap;

use envlock::compatibility::{CudaRun, Drivers, Needs, Policy, check_host};
use envlock::export::schedule::{
    Cluster, Job, Machines, NodesBy, ScheduleError, Span, Stated, htcondor, kubernetes,
};
use envlock::model::capability::ComputeCapability;
use envlock::model::host::{Driver, Gpu, Host};
use envlock::model::platform::{Arch, Libc, Os, Platform};
use envlock::model::version::DottedVersion;
use envlock::registry::{Build, Cited, Registry};
use expression::{Value, evaluate};

/// A small generator of numbers: the same worlds on every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).unwrap()
    }

    fn of<'t, T>(&mut self, all: &'t [T]) -> &'t T {
        &all[self.below(all.len())]
    }
}

/// A machine with one GPU, the driver as it is written.
struct Machine {
    platform: Platform,
    driver: String,
    capability: ComputeCapability,
}

impl Machine {
    fn host(&self) -> Host {
        let driver =
            Driver { version: self.driver.parse().unwrap(), cuda: None, compat: None, found_by: "t".into() };
        let mut host = Host::open(self.platform, "t");
        host.system.libc = Some(Libc::Glibc("2.99".parse().unwrap()));
        Host { driver: Some(driver), gpus: Some(vec![Gpu::of_capability(self.capability, "t")]), ..host }
    }

    fn numbers(&self) -> Vec<u64> {
        self.driver.split('.').map(|part| part.parse().unwrap()).collect()
    }

    /// `amd64`, as Kubernetes calls it.
    fn arch(&self) -> &'static str {
        if self.platform.arch == Arch::X86_64 { "amd64" } else { "arm64" }
    }

    /// The attributes that NVIDIA's driver for dynamic resource allocation publishes: versions of three numbers.
    fn attributes(&self) -> Value {
        let mut driver = self.numbers();
        driver.resize(3, 0);
        let capability = vec![u64::from(self.capability.major), u64::from(self.capability.minor), 0];
        Value::Map(BTreeMap::from([
            ("type".to_owned(), Value::Text("gpu".to_owned())),
            ("cudaComputeCapability".to_owned(), Value::Semver(capability)),
            ("driverVersion".to_owned(), Value::Semver(driver)),
        ]))
    }

    /// The labels of NVIDIA's GPU feature discovery: the parts of the driver as they are written, nothing for a missing one.
    fn labels(&self) -> BTreeMap<String, String> {
        let mut parts = self.driver.split('.');
        let mut next = || parts.next().unwrap_or("").to_owned();
        [
            ("gpu.compute.major", self.capability.major.to_string()),
            ("gpu.compute.minor", self.capability.minor.to_string()),
            ("cuda.driver-version.major", next()),
            ("cuda.driver-version.minor", next()),
            ("cuda.driver-version.revision", next()),
        ]
        .into_iter()
        .map(|(name, value)| (format!("nvidia.com/{name}"), value))
        .collect()
    }
}

/// The drivers that are tried: those that some row names, and their neighbours, with and without leading zeros.
fn drivers(registry: &Registry) -> Vec<String> {
    let mut all: Vec<String> =
        ["470.57.02", "455.06", "580.65.6", "580.65", "999.1.2"].map(str::to_owned).into();
    let named = registry.toolkits().iter().filter_map(|toolkit| toolkit.linux.as_ref());
    for driver in named.chain(registry.minor_version_compatibility().iter().map(|row| &row.linux)) {
        let numbers: Vec<u64> = driver.as_str().split('.').map(|part| part.parse().unwrap()).collect();
        all.push(driver.to_string());
        for place in 0..numbers.len() {
            for number in [numbers[place].saturating_sub(1), numbers[place] + 1] {
                let mut other = numbers.clone();
                other[place] = number;
                all.push(other.iter().map(|part| format!("{part:02}")).collect::<Vec<_>>().join("."));
            }
        }
    }
    for branch in registry.branches() {
        all.extend([format!("{}.10", branch.branch), format!("{}.99.99", branch.branch)]);
    }
    all
}

fn job(admit_undecided: bool) -> Job {
    let (name, target) = ("job".to_owned(), String::new());
    Job { name, target, gpus: 1, nodes: 1, image: Some("i:1".to_owned()), admit_undecided }
}

fn cluster(by: NodesBy) -> Cluster<'static> {
    Cluster { by, profile: None, values: Vec::new(), lowest: None }
}

/// The CEL expression of a manifest.
fn cel(text: &str) -> String {
    let lines = text.lines().skip_while(|line| !line.trim_start().starts_with("expression: |-")).skip(1);
    lines.take_while(|line| line.starts_with("                    ")).collect()
}

/// Whether a machine fulfils the affinity of a manifest: one term of which every requirement holds.
fn has_affinity(text: &str, labels: &BTreeMap<String, String>) -> bool {
    let mut terms: Vec<bool> = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if line == "- matchExpressions:" {
            terms.push(true);
        }
        let Some(inner) = line.strip_prefix("- {key: ") else { continue };
        let (key, rest) = inner.split_once(", operator: ").unwrap();
        let (operator, rest) = rest.split_once(", values: [").unwrap();
        let values: Vec<&str> =
            rest.strip_suffix("]}").unwrap().split(", ").map(|value| value.trim_matches('"')).collect();
        let label = labels.get(key);
        let number = |text: &str| text.parse::<i64>().ok();
        let holds = match operator {
            "In" => label.is_some_and(|label| values.contains(&label.as_str())),
            "Gt" | "Lt" => {
                let [value] = values.as_slice() else { panic!("one value: {line}") };
                let value = number(value).expect("a number, else the pod is refused");
                label.and_then(|label| number(label)).is_some_and(|own| match operator {
                    "Gt" => own > value,
                    _ => own < value,
                })
            }
            _ => panic!("{line}"),
        };
        *terms.last_mut().unwrap() &= holds;
    }
    terms.contains(&true)
}

fn runs(registry: &Registry, build: &Cited<Build>, host: &Host) -> bool {
    // No driver of such a release serves such a GPU.
    check_host(registry, host).is_ok()
        && Needs::of_torch(build).violations(registry, host, Policy::Minor).is_empty()
}

/// Builds for Linux with CUDA whose code was read.
fn builds(registry: &Registry) -> Vec<&Cited<Build>> {
    let is_meant = |build: &&Cited<Build>| {
        build.platform.os == Os::Linux && build.cuda.is_some() && build.targets.is_some()
    };
    registry.builds().iter().filter(is_meant).collect()
}

#[test]
fn what_a_scheduler_admits_is_what_runs() {
    let registry = envlock::registry::Registry::embedded();
    let (builds, drivers) = (builds(&registry), drivers(&registry));
    let capabilities: Vec<ComputeCapability> = [
        "3.7", "5.0", "6.1", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0",
        "12.0", "12.1",
    ]
    .map(|text| text.parse().unwrap())
    .into();
    let mut numbers = Numbers(0x5eed);
    let mut admitted = 0;
    for world in 0..crate::worlds(3_000) {
        let build = *numbers.of(&builds);
        let machine = Machine {
            platform: if numbers.below(8) == 0 {
                Platform { os: Os::Linux, arch: Arch::Aarch64 }
            } else {
                build.platform
            },
            driver: numbers.of(&drivers).clone(),
            capability: *numbers.of(&capabilities),
        };
        let host = machine.host();
        let envelope = Needs::of_torch(build).envelope(&registry);
        let machines = Machines::of(&envelope, true);
        let expected = runs(&registry, build, &host);
        let told = || {
            format!(
                "world {world}: {} {}, {} on {}",
                build.version, build.variant, machine.driver, machine.capability
            )
        };
        let claim = match kubernetes(&machines, &job(false), &cluster(NodesBy::Dra)) {
            Err(ScheduleError::NoMachine) => {
                assert!(!expected, "{}", told());
                continue;
            }
            text => text.unwrap(),
        };
        let is_of_arch = claim.contains(&format!("kubernetes.io/arch: {}\n", machine.arch()));
        let attributes = BTreeMap::from([("gpu.nvidia.com".to_owned(), machine.attributes())]);
        let device = Value::Map(BTreeMap::from([("attributes".to_owned(), Value::Map(attributes))]));
        let by_claim = evaluate(&cel(&claim), &BTreeMap::from([("device".to_owned(), device)]));
        assert_eq!(is_of_arch && by_claim == Ok(Value::Bool(true)), expected, "{}\n{claim}", told());
        assert!(by_claim.is_ok(), "an error stops the allocation: {}\n{claim}", told());

        let pod = kubernetes(&machines, &job(false), &cluster(NodesBy::Gfd)).unwrap();
        assert_eq!(is_of_arch && has_affinity(&pod, &machine.labels()), expected, "{}\n{pod}", told());
        admitted += u32::from(expected);
        of_htcondor(&registry, &machines, (&machine, build), &mut numbers);
    }
    assert!(admitted > 100, "{admitted}");
}

/// HTCondor publishes the CUDA of the driver. What is admitted runs with every driver of that CUDA; what is not, does not run with some;
/// with the undecided ones, what is not admitted runs with none.
fn of_htcondor(
    registry: &Registry,
    machines: &Machines,
    (machine, build): (&Machine, &Cited<Build>),
    numbers: &mut Numbers,
) {
    let driver: DottedVersion = machine.driver.parse().unwrap();
    let Some(own) = registry.branches().iter().find(|row| row.branch == driver.major()) else { return };
    let lowest: Option<DottedVersion> = (numbers.below(3) == 0).then(|| driver.clone());
    let admits = |admit_undecided: bool| {
        let cuda = |span: &Span| -> Vec<CudaRun> {
            let (from, below) = (span.from.as_ref(), span.below.as_ref());
            Drivers { from, below, lowest: lowest.as_ref() }.as_cuda(registry, admit_undecided)
        };
        let text = match htcondor(machines, &job(admit_undecided), Stated::default(), &cuda) {
            Err(ScheduleError::Undecided { .. }) => return false,
            text => text.unwrap(),
        };
        let line = |key: &str| {
            let lines = text.lines().find_map(|line| line.strip_prefix(key));
            lines.unwrap_or_else(|| panic!("{key}\n{text}")).to_owned()
        };
        let arch = if machine.platform.arch == Arch::X86_64 { "X86_64" } else { "aarch64" };
        let facts = BTreeMap::from([
            ("Capability".to_owned(), Value::Real(machine.capability.to_string().parse().unwrap())),
            ("MaxSupportedVersion".to_owned(), {
                let cuda = own.cuda.major * 1_000 + own.cuda.minor * 10;
                Value::Int(i64::try_from(cuda).unwrap())
            }),
            ("Arch".to_owned(), Value::Text(arch.to_owned())),
            ("OpSys".to_owned(), Value::Text("LINUX".to_owned())),
        ]);
        ["requirements = ", "require_gpus = "]
            .iter()
            .all(|key| evaluate(&line(key), &facts) == Ok(Value::Bool(true)))
    };
    let branches: Vec<u32> =
        registry.branches().iter().filter(|row| row.cuda == own.cuda).map(|row| row.branch).collect();
    // Drivers of this CUDA that such a site may have: the first and the last of each branch.
    let some: Vec<bool> = branches
        .iter()
        .flat_map(|branch| [format!("{branch}.0"), format!("{branch}.999.99")])
        .filter(|text| lowest.as_ref().is_none_or(|lowest| text.parse::<DottedVersion>().unwrap() >= *lowest))
        .chain(lowest.iter().filter(|own| branches.contains(&own.major())).map(ToString::to_string))
        .map(|driver| {
            let (platform, capability) = (machine.platform, machine.capability);
            runs(registry, build, &Machine { platform, driver, capability }.host())
        })
        .collect();
    let told =
        format!("{} {} on {}, lowest {lowest:?}, {some:?}", build.version, own.cuda, machine.capability);
    assert_eq!(admits(false), some.iter().all(|runs| *runs), "{told}");
    assert_eq!(admits(true), some.contains(&true), "undecided: {told}");
}
