//! A lock as a constraint of a scheduler: what is asked, what the site states, and how its kinds of nodes fare.

use super::{ExportOptions, Format};
use crate::compatibility::Drivers;
use crate::export::schedule::{
    self, Cluster, Job, KindVerdict, Machines, NodesBy, NodesOfKind, ScheduleError, Span, Stated,
};
use crate::lockfile::{Lockfile, Target};
use crate::model::capability::ComputeCapability;
use crate::model::text::{clean, shell_word};
use crate::registry::Registry;
use crate::session::failure::Failure;
use crate::session::manifest::{NodeKind, SiteNodes};
use crate::session::options::Global;
use crate::session::settings::Project;
use crate::session::verify::{Candidates, on_machine};
use crate::session::{chosen_host, project_lock};
use crate::verify::{self, Facts, Locked, Verdict};

/// What a scheduler is asked for.
#[derive(Debug, Default)]
pub struct ScheduleOptions {
    /// Who publishes the facts of Kubernetes nodes.
    pub nodes_by: Option<NodesBy>,
    /// GPUs of the job, of each node.
    pub gpus: Option<u32>,
    /// Nodes of the job.
    pub nodes: Option<u32>,
    /// The profile of MIG devices.
    pub mig: Option<String>,
    /// The container image that the job runs in.
    pub job_image: Option<String>,
    /// Whether machines are admitted of which the published facts do not decide it.
    pub admit_undecided: bool,
}

impl ScheduleOptions {
    /// Refuses options that say nothing about a format.
    pub(super) fn refuse_elsewhere(&self, format: Format) -> Result<(), Failure> {
        use Format::{Htcondor, Kubernetes, Slurm};
        let given: [(&str, bool, &[Format]); 6] = [
            ("--nodes-by", self.nodes_by.is_some(), &[Kubernetes]),
            ("--gpus", self.gpus.is_some(), &[Kubernetes, Slurm, Htcondor]),
            ("--nodes", self.nodes.is_some(), &[Slurm]),
            ("--mig", self.mig.is_some(), &[Kubernetes]),
            ("--job-image", self.job_image.is_some(), &[Kubernetes, Htcondor]),
            ("--admit-undecided", self.admit_undecided, &[Kubernetes, Slurm, Htcondor]),
        ];
        let Some((option, _, formats)) =
            given.into_iter().find(|(_, is_given, formats)| *is_given && !formats.contains(&format))
        else {
            return Ok(());
        };
        let names: Vec<String> = formats.iter().map(|format| format!("`{}`", format.about().name)).collect();
        Err(Failure::usage(format!("`{option}` is for {}", names.join(", "))).hint("remove it"))
    }
}

/// A target as a constraint.
pub(super) fn rendered(
    global: &Global,
    options: &ExportOptions,
    project: &Project,
    (lock, target): (&Lockfile, &Target),
) -> Result<String, Failure> {
    let registry = project.registry(global)?;
    if target.host.has_no_gpu() || !target.uses_cuda() {
        return Err(told(ScheduleError::NoGpu, project));
    }
    let asked = &options.schedule;
    let named = match lock.targets.len() {
        0 | 1 => String::new(),
        _ => format!(" --target {}", shell_word(&target.name)),
    };
    let job = Job {
        name: schedule::object_name(&project_lock::environment_name(project, lock, target)),
        target: named,
        gpus: asked.gpus.unwrap_or(1),
        nodes: asked.nodes.unwrap_or(1),
        image: asked.job_image.clone(),
        admit_undecided: asked.admit_undecided,
    };
    let nothing = SiteNodes::default();
    let site = project.manifest.as_ref().map_or(&nothing, |manifest| &manifest.schedule);
    let machines = Machines::of(&target.envelope, Locked::own(target, &registry).code_is_known);
    let text = match options.format {
        Format::Slurm => {
            if site.kinds.is_empty() {
                return Err(no_kinds(project));
            }
            let kinds = kinds(site, (lock, target), &registry)?;
            schedule::slurm(&kinds, &job)
        }
        Format::Htcondor => {
            let cuda = |span: &Span| {
                let (from, below) = (span.from.as_ref(), span.below.as_ref());
                Drivers { from, below, lowest: site.driver.as_ref() }.as_cuda(&registry, job.admit_undecided)
            };
            schedule::htcondor(&machines, &job, Stated { glibc: site.glibc.as_ref() }, &cuda)
        }
        _ => {
            let by = asked.nodes_by.unwrap_or(NodesBy::Dra);
            let cluster = Cluster {
                by,
                profile: asked.mig.as_deref().map(profile).transpose()?,
                values: by.cloud_label().map(|key| values(key, &registry)).unwrap_or_default(),
                lowest: site.driver.as_ref(),
            };
            schedule::kubernetes(&machines, &job, &cluster)
        }
    };
    text.map_err(|error| told(error, project))
}

/// The values of a cloud's label, and the compute capability of the GPU that each stands for.
fn values(key: &str, registry: &Registry) -> Vec<(String, ComputeCapability)> {
    let rows = registry.node_labels().iter().filter(|row| row.key == key);
    rows.filter_map(|row| Some((row.value.clone(), registry.find_gpu(&row.gpu).ok()?.capability))).collect()
}

/// The profile of a MIG device as NVIDIA's driver prints it: `1g.10gb`, `1g.10gb+me`, `1c.2g.20gb`.
fn profile(text: &str) -> Result<&str, Failure> {
    let has_form = text.len() <= 24
        && text.starts_with(|c: char| c.is_ascii_digit())
        && text.contains("g.")
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".+".contains(&byte));
    match has_form {
        true => Ok(text),
        false => Err(Failure::usage(format!("`{}` is not a MIG profile such as `1g.10gb`", clean(text, 40)))
            .hint("`nvidia-smi mig -lgip` lists those of a GPU")),
    }
}

/// How the kinds of nodes that the site states fare, by the checks of `verify --host`.
fn kinds(
    site: &SiteNodes,
    (lock, target): (&Lockfile, &Target),
    registry: &Registry,
) -> Result<Vec<NodesOfKind>, Failure> {
    let candidates = Candidates::of_own(lock, Some(&target.name), true)?;
    let of = |kind: &NodeKind| {
        let origin = format!("[schedule.slurm.{}]", kind.name);
        let mut host = chosen_host::machine_of(&kind.machine, &kind.place, &origin, registry)?;
        if host.system.libc.is_none() {
            host.system.libc = site.glibc.clone().map(crate::model::platform::Libc::Glibc);
        }
        let judged = on_machine(&host, &candidates, &Facts::none(registry));
        let line = verify::line(judged.verdict, &judged.areas);
        let needs_glibc = target.envelope.glibc.as_ref().filter(|_| host.system.libc.is_none());
        let (verdict, line) = match (judged.verdict, needs_glibc) {
            (Verdict::Differs, _) => (KindVerdict::DoesNotRun, line),
            (Verdict::Unknown, _) => (KindVerdict::Undecided, line),
            // On the nodes themselves it is read; here nobody states it.
            (Verdict::Ok, Some(need)) => {
                (KindVerdict::Undecided, format!("its glibc is not stated, and >= {need} is needed"))
            }
            (Verdict::Ok, None) => (KindVerdict::Runs, line),
        };
        Ok(NodesOfKind {
            name: kind.name.clone(),
            gres: kind.gres.clone(),
            feature: kind.feature.clone(),
            verdict,
            line,
        })
    };
    site.kinds.iter().map(of).collect()
}

fn no_kinds(project: &Project) -> Failure {
    Failure::export("Slurm publishes names of GPUs and features, and nobody says what they mean".to_owned()).hint(
        format!(
            "state the kinds of nodes in {}: `[schedule.slurm.a100]` with `type = \"a100\"`, `gpus = [\"NVIDIA A100-SXM4-80GB\"]`, `driver = \"...\"`, `glibc = \"...\"`; `sinfo -h -o '%G %f' | sort -u` lists their names",
            project.manifest_name()
        ),
    )
}

/// An error with what helps.
fn told(error: ScheduleError, project: &Project) -> Failure {
    let hint = match &error {
        ScheduleError::NoGpu => "leave GPUs out of the job".to_owned(),
        ScheduleError::NoMachine => "`envlock plan` says what the target needs".to_owned(),
        ScheduleError::Undecided { stated_by: Some(key), .. } => format!(
            "state it in {}, `[schedule]` with `{key}`: the lowest of all nodes; or `--admit-undecided`: `envlock verify --host` then decides when the job starts",
            project.manifest_name()
        ),
        ScheduleError::Undecided { .. } => {
            "`--admit-undecided` admits them: `envlock verify --host` then decides when the job starts"
                .to_owned()
        }
        ScheduleError::NoKind(_) => {
            "`envlock resolve` with a `[target]` for these nodes locks what runs there".to_owned()
        }
        ScheduleError::NotAnImage(_) => "such as `registry.example.org/team/train:1.0`".to_owned(),
        ScheduleError::TooLong { .. } => "lock for fewer GPUs: `[target.NAME]` with `gpus`".to_owned(),
        ScheduleError::NotLinux(_) => "`--target` names another target".to_owned(),
    };
    Failure::export(error.to_string()).hint(hint)
}
