//! HTCondor: a submit description. It publishes the compute capability of each GPU and the CUDA of its driver, not the driver.

use std::fmt::Write as _;

use super::{HTCONDOR_MARK, Job, Machines, ScheduleError, Span};
use crate::compatibility::CudaRun;
use crate::export::dockerfile::is_image;
use crate::model::platform::{Arch, Os};
use crate::model::version::DottedVersion;

/// What the site states of its nodes, which HTCondor does not publish.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stated<'s> {
    /// The lowest glibc of all nodes.
    pub glibc: Option<&'s DottedVersion>,
}

/// A submit description. `cuda`: the CUDA versions of the drivers of a span.
///
/// # Errors
/// See [`ScheduleError`].
pub fn htcondor(
    machines: &Machines,
    job: &Job,
    stated: Stated<'_>,
    cuda: &dyn Fn(&Span) -> Vec<CudaRun>,
) -> Result<String, ScheduleError> {
    if machines.platform.os != Os::Linux {
        return Err(ScheduleError::NotLinux(machines.platform));
    }
    if machines.spans.is_empty() {
        return Err(ScheduleError::NoMachine);
    }
    if let Some(image) = job.image.as_deref().filter(|image| !is_image(image)) {
        return Err(ScheduleError::NotAnImage(crate::model::text::clean(image, 120)));
    }
    let glibc = glibc(machines, job, stated)?;
    let undecided =
        |facts: String, stated_by| ScheduleError::Undecided { scheduler: "HTCondor", facts, stated_by };
    if !machines.code_is_known && !job.admit_undecided {
        let facts = "which GPUs the target's code is for, and envlock's data do not know it".to_owned();
        return Err(undecided(facts, None));
    }
    let parts: Vec<String> = machines.spans.iter().filter_map(|span| expression(span, &cuda(span))).collect();
    if parts.is_empty() {
        let from = machines.spans.iter().filter_map(|span| span.from.as_ref()).min();
        let facts =
            from.map_or_else(|| "drivers".to_owned(), |from| format!("whether a driver is at least {from}"));
        return Err(undecided(facts, Some("driver = \"...\"")));
    }
    let mut out = format!("{HTCONDOR_MARK}; change the manifest and run `envlock resolve`.\n# Needed:\n");
    for line in machines.lines() {
        let _ = writeln!(out, "# * {line}");
    }
    out.push_str(
        "# HTCondor publishes the CUDA of a driver, not its release: a CUDA version of which only some drivers do is\n",
    );
    out.push_str(match job.admit_undecided {
        true => "# admitted here, and `envlock verify --host` decides when the job starts.\n",
        false => "# not admitted.\n",
    });
    if let Some(line) = glibc {
        let _ = writeln!(out, "# {line}");
    }
    body(machines, job, &parts, &mut out);
    Ok(out)
}

fn body(machines: &Machines, job: &Job, parts: &[String], out: &mut String) {
    let arch = match machines.platform.arch {
        Arch::X86_64 => "X86_64",
        Arch::Aarch64 => "aarch64",
    };
    match &job.image {
        Some(image) => {
            let _ = write!(out, "universe = container\ncontainer_image = docker://{image}\n");
        }
        None => out.push_str("universe = vanilla\n"),
    }
    let _ = write!(
        out,
        "requirements = (Arch == \"{arch}\") && (OpSys == \"LINUX\")\nrequest_gpus = {}\nrequire_gpus = {}\n\
         # Checks the machine, then runs the command.\n",
        job.gpus,
        parts.join(" || "),
    );
    let _ = write!(
        out,
        "executable = envlock\ntransfer_executable = {}\ntransfer_input_files = envlock.lock\n\
         arguments = run --require-gpu{} -- $(command:python train.py)\nlog = envlock.log\noutput = envlock.out\nerror = envlock.err\nqueue\n",
        job.image.is_none(),
        job.target,
    );
}

/// What is to be said of the C library, which is the node's, or the image's where the job has one.
fn glibc(machines: &Machines, job: &Job, stated: Stated<'_>) -> Result<Option<String>, ScheduleError> {
    let Some(need) = &machines.glibc else { return Ok(None) };
    if job.image.is_some() {
        return Ok(Some(format!("The image needs glibc >= {need}.")));
    }
    match stated.glibc {
        Some(have) if have >= need => {
            Ok(Some(format!("All nodes have glibc >= {have}, as `[schedule]` states.")))
        }
        Some(have) => Err(ScheduleError::NoKind(format!(
            "it needs glibc >= {need}, and `[schedule]` states that of the nodes as {have}"
        ))),
        None if job.admit_undecided => Ok(Some(format!("Not published: glibc, which has to be >= {need}."))),
        None => Err(ScheduleError::Undecided {
            scheduler: "HTCondor",
            facts: format!("the glibc of its nodes, which has to be >= {need}"),
            stated_by: Some("glibc = \"...\""),
        }),
    }
}

/// `((Capability == 8.0 || Capability == 8.6) && MaxSupportedVersion >= 12010)`. `None` if no CUDA version is admitted.
fn expression(span: &Span, runs: &[CudaRun]) -> Option<String> {
    let gpus: Vec<String> =
        span.capabilities.iter().map(|capability| format!("Capability == {capability}")).collect();
    // CUDA 12.8 is 12080.
    let number = |cuda: &semver::Version| cuda.major * 1_000 + cuda.minor * 10;
    let has_bounds = span.from.is_some() || span.below.is_some();
    let runs: Vec<String> = runs
        .iter()
        .map(|run| {
            let below =
                run.below.as_ref().map(|below| format!(" && MaxSupportedVersion < {}", number(below)));
            format!("MaxSupportedVersion >= {}{}", number(&run.from), below.unwrap_or_default())
        })
        .collect();
    let any = |parts: &[String]| match parts {
        [one] => one.clone(),
        several => format!("({})", several.join(" || ")),
    };
    match (gpus.is_empty(), has_bounds) {
        (_, true) if runs.is_empty() => None,
        (true, true) => Some(any(&runs)),
        (false, true) => Some(format!("({} && {})", any(&gpus), any(&runs))),
        (false, false) => Some(any(&gpus)),
        (true, false) => Some("true".to_owned()),
    }
}
