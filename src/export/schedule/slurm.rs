//! Slurm: a batch script for the kinds of nodes that run the target. Slurm publishes types of GRES and features of nodes, which mean
//! what the site says that they mean.

use std::fmt::Write as _;

use super::{Job, SLURM_MARK, ScheduleError};

/// How a kind of node fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KindVerdict {
    /// It runs the target.
    Runs,
    /// It does not.
    DoesNotRun,
    /// What the site states does not decide it.
    Undecided,
}

/// Nodes that are alike.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesOfKind {
    /// What the site calls them.
    pub name: String,
    /// Their type of GRES: letters, digits, `_`, `-`, `.`.
    pub gres: Option<String>,
    /// Their feature, of the same form.
    pub feature: Option<String>,
    /// How they fare.
    pub verdict: KindVerdict,
    /// Why.
    pub line: String,
}

/// What a job asks for.
#[derive(Debug, PartialEq, Eq)]
enum Selector {
    /// One type of GRES.
    Type(String),
    /// Any of these features.
    Features(Vec<String>),
}

/// A batch script.
///
/// # Errors
/// [`ScheduleError::NoKind`] and [`ScheduleError::Undecided`].
pub fn slurm(kinds: &[NodesOfKind], job: &Job) -> Result<String, ScheduleError> {
    let is_admitted = |kind: &NodesOfKind| match kind.verdict {
        KindVerdict::Runs => true,
        KindVerdict::Undecided => job.admit_undecided,
        KindVerdict::DoesNotRun => false,
    };
    let chosen = selectors(kinds, &is_admitted);
    let Some((first, others)) = chosen.split_first() else {
        return Err(none(kinds, &is_admitted));
    };
    let mut out = format!("{SLURM_MARK}; change the manifest and run `envlock resolve`.\n");
    out.push_str("# Kinds of nodes, as `[schedule.slurm]` states them:\n");
    for kind in kinds {
        let state = match (kind.verdict, is_admitted(kind)) {
            (KindVerdict::Runs, _) => "admitted".to_owned(),
            (KindVerdict::Undecided, true) => format!("admitted, though undecided: {}", kind.line),
            (KindVerdict::Undecided, false) => format!("not admitted, as undecided: {}", kind.line),
            (KindVerdict::DoesNotRun, _) => format!("not admitted: {}", kind.line),
        };
        let _ = writeln!(out, "# * {}: {state}", kind.name);
    }
    for other in others {
        let _ =
            writeln!(out, "# Or, of other nodes: {}", directives(other, job).trim_end().replace('\n', " "));
    }
    let _ = write!(
        out,
        "#SBATCH --nodes={0}\n#SBATCH --ntasks-per-node=1\n{1}\nset -euo pipefail\n\
         # Each node answers before the work starts.\n\
         srun --ntasks={0} --ntasks-per-node=1 envlock verify --host --require-gpu{2}\n\
         srun envlock run --require-gpu{2} -- \"$@\"\n",
        job.nodes,
        directives(first, job),
        job.target,
    );
    Ok(out)
}

/// The lines that ask for GPUs. The nodes of one job are of one kind: `[a|b]`.
fn directives(selector: &Selector, job: &Job) -> String {
    let gpus = job.gpus;
    match selector {
        Selector::Type(name) => format!("#SBATCH --gres=gpu:{name}:{gpus}\n"),
        Selector::Features(names) => {
            let any = names.join("|");
            let any = if names.len() > 1 && job.nodes > 1 { format!("[{any}]") } else { any };
            format!("#SBATCH --gres=gpu:{gpus}\n#SBATCH --constraint=\"{any}\"\n")
        }
    }
}

/// What selects admitted nodes and no others: a type or feature is good if every kind that has it is admitted. A job names one type
/// or several features; where one type does not reach all admitted kinds, and their features do, it names these.
fn selectors(kinds: &[NodesOfKind], is_admitted: &impl Fn(&NodesOfKind) -> bool) -> Vec<Selector> {
    let good = |of: &dyn Fn(&NodesOfKind) -> Option<String>| {
        let mut found: Vec<String> = Vec::new();
        for value in kinds.iter().filter(|kind| is_admitted(kind)).filter_map(of) {
            let all_are = kinds.iter().filter(|kind| of(kind).as_ref() == Some(&value)).all(is_admitted);
            if all_are && !found.contains(&value) {
                found.push(value);
            }
        }
        found
    };
    let types = good(&|kind| kind.gres.clone());
    let features = good(&|kind| kind.feature.clone());
    let reached = |kind: &&NodesOfKind| kind.feature.as_ref().is_some_and(|own| features.contains(own));
    let admitted = || kinds.iter().filter(|kind| is_admitted(kind));
    let by_type = |name: &String| admitted().filter(|kind| kind.gres.as_ref() == Some(name)).count();
    let best_type = types.iter().map(by_type).max().unwrap_or(0);
    let mut all: Vec<Selector> = types.into_iter().map(Selector::Type).collect();
    let by_features = (!features.is_empty()).then(|| admitted().filter(reached).count());
    if by_features.is_some_and(|count| count > best_type) {
        return vec![Selector::Features(features)];
    }
    all.sort_by_key(|selector| match selector {
        Selector::Type(name) => std::cmp::Reverse(by_type(name)),
        Selector::Features(_) => std::cmp::Reverse(0),
    });
    all
}

/// Why nothing can be asked for.
fn none(kinds: &[NodesOfKind], is_admitted: &impl Fn(&NodesOfKind) -> bool) -> ScheduleError {
    let told = |kind: &NodesOfKind| format!("{}: {}", kind.name, kind.line);
    if let Some(kind) = kinds.iter().find(|kind| is_admitted(kind)) {
        return ScheduleError::NoKind(format!(
            "`{}` does, but others have the same type or feature and do not",
            kind.name
        ));
    }
    let undecided: Vec<String> =
        kinds.iter().filter(|kind| kind.verdict == KindVerdict::Undecided).map(told).collect();
    match undecided.is_empty() {
        true => ScheduleError::NoKind(kinds.iter().map(told).collect::<Vec<_>>().join("; ")),
        false => ScheduleError::Undecided {
            scheduler: "`[schedule.slurm]`",
            facts: undecided.join("; "),
            stated_by: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(name: &str, gres: &str, feature: &str, verdict: KindVerdict) -> NodesOfKind {
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        NodesOfKind {
            name: name.to_owned(),
            gres: some(gres),
            feature: some(feature),
            verdict,
            line: "why".to_owned(),
        }
    }

    #[test]
    fn what_is_asked_for_has_no_node_that_does_not_run_it() {
        use KindVerdict::{DoesNotRun, Runs, Undecided};
        let job = |nodes, admit_undecided| Job {
            name: "j".to_owned(),
            target: String::new(),
            gpus: 2,
            nodes,
            image: None,
            admit_undecided,
        };
        let one = [kind("a", "a100", "", Runs), kind("v", "v100", "", DoesNotRun)];
        let two = [kind("a", "a100", "amp", Runs), kind("h", "h100", "hop", Runs)];
        let plain = [kind("a", "a100", "", Runs), kind("h", "h100", "", Runs)];
        let mixed = [kind("new", "a100", "el9", Runs), kind("old", "a100", "el7", DoesNotRun)];
        let open = [kind("a", "a100", "", Undecided)];
        let shared = [kind("a", "gpu", "", Runs), kind("b", "gpu", "", DoesNotRun)];
        let table: [(&[NodesOfKind], u32, bool, &str); 9] = [
            (&one, 1, false, "#SBATCH --gres=gpu:a100:2\n"),
            (&two, 1, false, "#SBATCH --gres=gpu:2\n#SBATCH --constraint=\"amp|hop\"\n"),
            (&two, 4, false, "#SBATCH --gres=gpu:2\n#SBATCH --constraint=\"[amp|hop]\"\n"),
            (&plain, 1, false, "# Or, of other nodes: #SBATCH --gres=gpu:h100:2\n"),
            (&plain, 1, false, "\n#SBATCH --gres=gpu:a100:2\n"),
            (&mixed, 2, false, "#SBATCH --gres=gpu:2\n#SBATCH --constraint=\"el9\"\n"),
            (&open, 1, true, "#SBATCH --gres=gpu:a100:2\n"),
            (&open, 1, false, "`[schedule.slurm]` does not publish a: why"),
            (&shared, 1, false, "`a` does, but others have the same type"),
        ];
        for (kinds, nodes, undecided, expected) in table {
            let text = slurm(kinds, &job(nodes, undecided)).unwrap_or_else(|error| error.to_string());
            assert!(text.contains(expected), "{expected}\n{text}");
        }
    }
}
