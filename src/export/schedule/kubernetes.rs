//! Kubernetes: a claim for a GPU by dynamic resource allocation, or an affinity to labels of nodes.

use std::fmt::Write as _;

use super::{Job, KUBERNETES_MARK, Machines, ScheduleError, Span, list};
use crate::export::dockerfile::is_image;
use crate::model::capability::ComputeCapability;
use crate::model::platform::{Arch, Os};
use crate::model::version::DottedVersion;

/// Who publishes the facts of the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodesBy {
    /// NVIDIA's driver for dynamic resource allocation: driver and compute capability of each GPU.
    Dra,
    /// NVIDIA's GPU feature discovery: labels of each node, of one GPU.
    Gfd,
    /// Google's Kubernetes Engine: a label with the GPU.
    Gke,
    /// Karpenter on AWS: a label with the GPU.
    Karpenter,
}

impl NodesBy {
    /// The label by which a cloud names the GPU of a node.
    pub fn cloud_label(self) -> Option<&'static str> {
        match self {
            NodesBy::Dra | NodesBy::Gfd => None,
            NodesBy::Gke => Some("cloud.google.com/gke-accelerator"),
            NodesBy::Karpenter => Some("karpenter.k8s.aws/instance-gpu-name"),
        }
    }
}

/// The nodes of a cluster.
#[derive(Debug, Clone)]
pub struct Cluster<'c> {
    /// Who publishes their facts.
    pub by: NodesBy,
    /// The profile of MIG devices, in place of GPUs.
    pub profile: Option<&'c str>,
    /// Values of the cloud's label, and the compute capability of the GPU.
    pub values: Vec<(String, ComputeCapability)>,
    /// The lowest driver of all nodes, if the site states it.
    pub lowest: Option<&'c DottedVersion>,
}

/// Maximum length of a CEL expression. Source: kubernetes, staging/src/k8s.io/api/resource/v1/types.go,
/// `CELSelectorExpressionMaxLength`.
const MAX_EXPRESSION: usize = 10 * 1024;

/// A claim template and a pod that uses it, or a pod with an affinity.
///
/// # Errors
/// See [`ScheduleError`].
pub fn kubernetes(machines: &Machines, job: &Job, cluster: &Cluster<'_>) -> Result<String, ScheduleError> {
    let (by, profile) = (cluster.by, cluster.profile);
    if machines.platform.os != Os::Linux {
        return Err(ScheduleError::NotLinux(machines.platform));
    }
    if machines.spans.is_empty() {
        return Err(ScheduleError::NoMachine);
    }
    if !machines.code_is_known && !job.admit_undecided {
        return Err(ScheduleError::Undecided {
            scheduler: "Kubernetes",
            facts: "which GPUs the target's code is for, and envlock's data do not know it".to_owned(),
            stated_by: None,
        });
    }
    let image = job.image.as_deref().unwrap_or("IMAGE");
    if job.image.is_some() && !is_image(image) {
        return Err(ScheduleError::NotAnImage(crate::model::text::clean(image, 120)));
    }
    let terms = match by {
        NodesBy::Dra => Vec::new(),
        NodesBy::Gfd => machines.spans.iter().flat_map(terms_of_labels).collect(),
        NodesBy::Gke | NodesBy::Karpenter => vec![term_of_cloud(machines, job, cluster)?],
    };
    let mut out = format!("{KUBERNETES_MARK}; change the manifest and run `envlock resolve`.\n");
    comment(machines, job, cluster, &mut out);
    let claim = format!("{}-gpu", job.name);
    if by == NodesBy::Dra {
        claim_template(machines, job, &claim, profile, &mut out)?;
        out.push_str("---\n");
    }
    pod((machines, job), (cluster, &terms), (&claim, image), &mut out);
    Ok(out)
}

/// What is admitted, and what nobody publishes.
fn comment(machines: &Machines, job: &Job, cluster: &Cluster<'_>, out: &mut String) {
    let needed = if cluster.by.cloud_label().is_some() { "Needed" } else { "Admitted" };
    let _ = writeln!(out, "# {needed}:");
    for line in machines.lines() {
        let _ = writeln!(out, "# * {line}");
    }
    out.push_str("# Not published, and so decided by `envlock verify --host` when the job starts:\n");
    if let Some(glibc) = &machines.glibc {
        let _ = writeln!(out, "# * glibc of the image: >= {glibc}");
    }
    out.push_str("# * cuda-compat in the image: with it, older drivers may do; they are not admitted\n");
    if cluster.by.cloud_label().is_some() {
        match cluster.lowest {
            Some(lowest) => {
                let _ = writeln!(out, "# * the driver: `[schedule]` states it as >= {lowest} on all nodes");
            }
            None => out.push_str("# * the driver\n"),
        }
    }
    if cluster.by == NodesBy::Gfd {
        out.push_str("# * further GPUs of a node with several models: the labels are of one of them\n");
    }
    if !machines.code_is_known {
        out.push_str("# * which GPUs the target's code is for\n");
    }
    if job.image.is_none() {
        out.push_str(
            "# Replace IMAGE by an image with envlock and the environment (`envlock export Dockerfile`).\n",
        );
    }
}

fn claim_template(
    machines: &Machines,
    job: &Job,
    claim: &str,
    profile: Option<&str>,
    out: &mut String,
) -> Result<(), ScheduleError> {
    let class = if profile.is_some() { "mig.nvidia.com" } else { "gpu.nvidia.com" };
    let expression = cel(machines, profile);
    let length: usize = expression.iter().map(|line| line.len() + 1).sum();
    if length > MAX_EXPRESSION {
        return Err(ScheduleError::TooLong { scheduler: "Kubernetes", length, limit: MAX_EXPRESSION });
    }
    let _ = write!(
        out,
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaimTemplate\nmetadata:\n  name: {claim}\nspec:\n  spec:\n    \
         devices:\n      requests:\n        - name: gpu\n          exactly:\n            deviceClassName: {class}\n            \
         allocationMode: ExactCount\n            count: {}\n            selectors:\n              - cel:\n                  \
         expression: |-\n",
        job.gpus
    );
    for line in expression {
        let _ = writeln!(out, "                    {line}");
    }
    Ok(())
}

/// The expression that a device has to fulfil, in lines. An attribute that a device lacks would be an error, which stops the
/// allocation of the whole claim: each one is looked for first.
fn cel(machines: &Machines, profile: Option<&str>) -> Vec<String> {
    let mut lines = vec!["cel.bind(gpu, device.attributes['gpu.nvidia.com'],".to_owned()];
    if let Some(profile) = profile {
        lines.push(format!("  'profile' in gpu && gpu.profile == '{profile}' &&"));
    }
    let spans = &machines.spans;
    let asks_for_gpus = spans.iter().any(|span| !span.capabilities.is_empty());
    let asks_for_driver = spans.iter().any(|span| span.from.is_some() || span.below.is_some());
    let mut bound = 0;
    for (attribute, name, _) in
        [("cudaComputeCapability", "sm", asks_for_gpus), ("driverVersion", "driver", asks_for_driver)]
            .iter()
            .filter(|(.., is_asked)| *is_asked)
    {
        lines.push(format!("  '{attribute}' in gpu && cel.bind({name}, gpu.{attribute},"));
        bound += 1;
    }
    let last = spans.len() - 1;
    for (place, span) in spans.iter().enumerate() {
        let parts: Vec<String> = cel_of_gpus(span).into_iter().chain(cel_of_drivers(span)).collect();
        let all = if parts.is_empty() { "true".to_owned() } else { parts.join(" && ") };
        lines.push(format!("    {all}{}", if place == last { "" } else { " ||" }));
    }
    lines.push(")".repeat(1 + bound));
    lines
}

/// `(sm.major() == 8 && sm.minor() in [0, 6, 9] || sm.major() == 9 && sm.minor() in [0])`
fn cel_of_gpus(span: &Span) -> Option<String> {
    let parts: Vec<String> = span
        .by_major()
        .iter()
        .map(|(major, minors)| format!("sm.major() == {major} && sm.minor() in [{}]", list(minors)))
        .collect();
    match parts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("({})", several.join(" || "))),
    }
}

fn cel_of_drivers(span: &Span) -> impl Iterator<Item = String> {
    let compare = |version: &DottedVersion, operator: &str| {
        format!("driver.compareTo(semver('{}')) {operator} 0", semver(version))
    };
    let from = span.from.iter().map(move |from| compare(from, ">="));
    from.chain(span.below.iter().map(move |below| compare(below, "<")))
}

/// The numbers of a driver: branch, minor, patch; those that are not stated are zero.
fn numbers(driver: &DottedVersion) -> [u32; 3] {
    let mut parts = driver.as_str().split('.').map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

/// A driver as the semantic version that NVIDIA's driver publishes: three numbers without leading zeros, `580.65.6`.
fn semver(driver: &DottedVersion) -> String {
    numbers(driver).map(|number| number.to_string()).join(".")
}

fn pod(
    (machines, job): (&Machines, &Job),
    (cluster, terms): (&Cluster<'_>, &[String]),
    (claim, image): (&str, &str),
    out: &mut String,
) {
    let by = cluster.by;
    let arch = match machines.platform.arch {
        Arch::X86_64 => "amd64",
        Arch::Aarch64 => "arm64",
    };
    let _ = write!(
        out,
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {}\nspec:\n  restartPolicy: Never\n",
        job.name
    );
    let _ = write!(out, "  nodeSelector:\n    kubernetes.io/os: linux\n    kubernetes.io/arch: {arch}\n");
    if !terms.is_empty() {
        out.push_str(
            "  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n        nodeSelectorTerms:\n",
        );
        for term in terms {
            out.push_str("          - matchExpressions:\n");
            for line in term.lines() {
                let _ = writeln!(out, "              {line}");
            }
        }
    }
    if by == NodesBy::Dra {
        let _ = write!(out, "  resourceClaims:\n    - name: gpu\n      resourceClaimTemplateName: {claim}\n");
    } else if by == NodesBy::Gfd {
        out.push_str("  # Where containerd's default is another one.\n  runtimeClassName: nvidia\n");
    }
    let resources = match (by, cluster.profile) {
        (NodesBy::Dra, _) => "claims: [{name: gpu}]".to_owned(),
        (_, None) => format!("limits: {{nvidia.com/gpu: {}}}", job.gpus),
        // The device plugin's strategy `mixed`; a resource has no `+` in its name.
        (_, Some(profile)) => {
            format!("limits: {{nvidia.com/mig-{}: {}}}", profile.replace('+', "."), job.gpus)
        }
    };
    let _ = write!(
        out,
        "  initContainers:\n    - name: envlock\n      image: \"{image}\"\n      \
         command: [\"envlock\", \"verify\", \"--host\", \"--require-gpu\"{0}]\n      resources:\n        {resources}\n  \
         containers:\n    - name: main\n      image: \"{image}\"\n      resources:\n        {resources}\n",
        job.target.split_whitespace().map(|word| format!(", \"{word}\"")).collect::<String>(),
    );
}

/// The terms of an affinity, of which one has to hold: for each major capability, the drivers from the lowest on, number by number.
/// Numbers are compared as numbers (`Gt`, `Lt`): the labels keep leading zeros.
fn terms_of_labels(span: &Span) -> Vec<String> {
    let label = |name: &str, operator: &str, values: &str| {
        format!("- {{key: nvidia.com/{name}, operator: {operator}, values: [{values}]}}\n")
    };
    let gpus: Vec<String> = match span.by_major() {
        all if all.is_empty() => vec![label_exists("gpu.compute.major")],
        all => all
            .iter()
            .map(|(major, minors)| {
                let minors: Vec<String> = minors.iter().map(|minor| format!("\"{minor}\"")).collect();
                label("gpu.compute.major", "In", &format!("\"{major}\""))
                    + &label("gpu.compute.minor", "In", &minors.join(", "))
            })
            .collect(),
    };
    let names = ["cuda.driver-version.major", "cuda.driver-version.minor", "cuda.driver-version.revision"];
    let more = |name: &str, number: u32| label(name, "Gt", &format!("\"{number}\""));
    let less = |name: &str, number: u32| label(name, "Lt", &format!("\"{number}\""));
    let below = span.below.as_ref().map(|below| less(names[0], below.major())).unwrap_or_default();
    let drivers: Vec<String> = match span.from.as_ref().map(numbers) {
        None => vec![String::new()],
        Some(from) => {
            let same = |place: usize| match from[place].checked_sub(1) {
                Some(before) => more(names[place], before) + &less(names[place], from[place] + 1),
                None => less(names[place], 1),
            };
            // A number that is zero is reached by every one.
            let last = from.iter().rposition(|number| *number > 0).unwrap_or(0);
            (0..=last)
                .map(|place| {
                    let before: String = (0..place).map(same).collect();
                    let own = if place == last { from[place].saturating_sub(1) } else { from[place] };
                    before + &more(names[place], own)
                })
                .collect()
        }
    };
    let with_drivers = |gpu: &String| -> Vec<String> {
        drivers.iter().map(|driver| format!("{gpu}{driver}{below}")).collect()
    };
    gpus.iter().flat_map(with_drivers).collect()
}

/// The term of an affinity to a cloud's label: the values whose GPUs run it with every driver that a node may have.
fn term_of_cloud(machines: &Machines, job: &Job, cluster: &Cluster<'_>) -> Result<String, ScheduleError> {
    let is_decided = |span: &&Span| {
        let reaches = |from: &DottedVersion| cluster.lowest.is_some_and(|lowest| lowest >= from);
        span.from.as_ref().is_none_or(reaches) && span.below.is_none()
    };
    let spans = || machines.spans.iter().filter(|span| job.admit_undecided || is_decided(span));
    let serves = |capability: &ComputeCapability| {
        spans().any(|span| span.capabilities.is_empty() || span.capabilities.contains(capability))
    };
    let values: Vec<String> = cluster
        .values
        .iter()
        .filter(|(_, capability)| serves(capability))
        .map(|(value, _)| format!("\"{value}\""))
        .collect();
    let key = cluster.by.cloud_label().unwrap_or_default();
    if values.is_empty() {
        return match spans().next() {
            Some(_) => Err(ScheduleError::NoMachine),
            None => Err(ScheduleError::Undecided {
                scheduler: "the label of the cloud",
                facts: "the driver".to_owned(),
                stated_by: Some("driver = \"...\""),
            }),
        };
    }
    Ok(format!("- {{key: {key}, operator: In, values: [{}]}}\n", values.join(", ")))
}

fn label_exists(name: &str) -> String {
    format!("- {{key: nvidia.com/{name}, operator: Exists}}\n")
}
