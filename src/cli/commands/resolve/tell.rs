//! What `resolve` prints before and after the solve.

use std::collections::BTreeSet;

use super::stack_only;
use crate::cli::printer::{Printer, wrap};
use crate::cli::report::{self, label};
use crate::cli::view::Resolution;
use crate::formats::write::environment_name;
use crate::lockfile::{Change, TargetChanges};
use crate::model::bytes::Bytes;
use crate::model::choice::Choice;
use crate::model::count::Count;
use crate::model::owner::Owner;
use crate::model::request::{Preferences, PythonRequest, Request};
use crate::model::solution::{Note, Solution, Stack};
use crate::model::text::{clean, shell_word};
use crate::model::version::public;
use crate::model::wheel::Python;
use crate::probe::conda_client::{self, CondaClient};
use crate::registry::Registry;
use crate::session::Interface as _;
use crate::session::data_folder;
use crate::session::files;
use crate::session::manifest::NotLocked;
use crate::session::owner::{self, CONDA_ENVIRONMENT};
use crate::session::resolve::machines::Machine;
use crate::session::resolve::{Prepared, ResolveRun, Resolved, writing};
use crate::session::settings;
use crate::session::variables;

/// Prints the machine and the notes that precede the answer.
pub(super) fn before(prepared: &Prepared<'_>, printer: &Printer) {
    let Prepared { machines, asked, .. } = prepared;
    let ResolveRun { project, options: args, registry, .. } = asked;
    for machine in machines {
        // With several targets, each answer has its own heading.
        if !printer.json && !printer.quiet && machines.len() == 1 {
            let from = if machine.kept { "; kept from the lock, `--redetect` detects it again" } else { "" };
            let line = format!("{}{from}", report::host_line(&machine.host, registry));
            printer.out(&format!("host   {}", wrap(&line, 7)));
        }
        for note in &machine.host.notes {
            printer.note(&note.to_string());
        }
        let described =
            args.host.describe_a_machine() || project.manifest.iter().any(|m| !m.targets.is_empty());
        if machine.host.has_no_gpu() && !described && !machine.kept {
            printer
                .note("no NVIDIA GPU was found: solving for the CPU (describe another machine with `--gpu`)");
        }
    }
    let pypi = settings::indexes(project, args.index_url.as_deref()).1;
    for name in project.manifest.iter().flat_map(|m| &m.redefined) {
        match pypi.as_ref().filter(|_| name == "pypi") {
            Some(located) if located.found_by != "envlock.toml" => printer.note(&format!(
                "the index `pypi` of envlock.toml is not used: `{}` is set",
                located.found_by
            )),
            _ => printer.note(&format!("envlock.toml redefines the index `{name}`")),
        }
    }
    for variable in pypi.iter().flat_map(|located| &located.overruled) {
        printer.note(&format!("`{variable}` is not used: envlock.toml names the index `pypi`"));
    }
    for left_out in project.manifest.iter().flat_map(|manifest| &manifest.not_locked) {
        tell_left_out(left_out, owner::of(project), printer);
    }
}

/// Says what of a pyproject.toml is not locked.
fn tell_left_out(left_out: &NotLocked, owner: Option<Owner>, printer: &Printer) {
    match left_out {
        NotLocked::Dynamic(key) => {
            printer.warning(&format!(
                "`{}` of pyproject.toml is not locked: the build computes it",
                clean(key, 80)
            ));
            printer.hint(
                "state it under `[project]`, or write a manifest: `envlock init --from pyproject.toml`",
            );
        }
        NotLocked::Conflicting(part) if owner == Some(Owner::Uv) => {
            printer.warning(&format!(
                "the {} is uv's alone (`[tool.uv] conflicts`): its stack is not chosen for the machine",
                clean(&part.to_string(), 80)
            ));
            printer.hint("`envlock plan --lock uv.lock` says whether it runs there");
        }
        NotLocked::Conflicting(part) => {
            printer.warning(&format!(
                "the {} is not locked: `[tool.uv] conflicts` excludes it from a common installation",
                clean(&part.to_string(), 80)
            ));
        }
        NotLocked::Absent(part) => {
            printer.warning(&format!("pyproject.toml has no {}", clean(&part.to_string(), 80)));
        }
        NotLocked::Entry(part, text) => {
            printer
                .warning(&format!("`{text}` of the {} is not a requirement", clean(&part.to_string(), 80)));
        }
    }
}

/// Marks versions that were kept from the old lock as kept, not as the newest. Only the printed answer
/// changes: solving again must write a lock with the same bytes.
fn mark_kept_versions(solution: &mut Solution, preferences: &Preferences) {
    for package in &mut solution.packages {
        let locked = preferences.versions.get(&package.name);
        // uv holds PyPI's build of a version, and the stack needs another one of it.
        let is_kept = locked.is_some_and(|locked| public(locked) == public(&package.version));
        if is_kept && package.reason.is_newest() {
            package.reason = Choice::Kept;
        }
    }
}

/// Says with the newest versions that a cutoff excludes newer ones. Only the printed answer changes.
fn mark_cutoff(solution: &mut Solution, request: &Request) {
    for package in solution.packages.iter_mut().filter(|package| package.reason == Choice::Newest) {
        let index = package.source.index();
        if let Some(cutoff) = index.and_then(|index| request.exclude_newer.of(index, &package.name)) {
            package.reason = Choice::Said(format!("{} (`exclude-newer` is {})", package.reason, cutoff.text));
        }
    }
}

/// Says with the newest versions that no index was asked for newer ones. Only the printed answer changes.
fn mark_registry(solution: &mut Solution, date: &str) {
    for package in &mut solution.packages {
        let among = match &package.reason {
            Choice::Newest => "compatible".to_owned(),
            Choice::NewestAllowed(bounds) => format!("allowed by `{bounds}`"),
            _ => continue,
        };
        package.reason = Choice::Said(format!("newest {among} in the registry of {date}"));
    }
}

/// Prints what was solved and written.
pub(super) fn resolved(prepared: &Prepared<'_>, mut resolved: Resolved, printer: &Printer) {
    let Prepared { machines, asked, .. } = prepared;
    for (solution, preferences) in resolved.solutions.iter_mut().zip(&resolved.preferences) {
        mark_kept_versions(solution, preferences);
        if asked.options.stack_only {
            mark_registry(solution, &asked.registry.meta().date);
        }
        if !printer.json {
            mark_cutoff(solution, &asked.request);
        }
    }
    if printer.json {
        let named = machines.iter().map(|m| m.name.as_str()).zip(&resolved.solutions);
        return printer.json(&Resolution::solved(named));
    }
    Told {
        machines,
        solutions: &resolved.solutions,
        request: &asked.request,
        project: &asked.project.name(),
        preferences: &resolved.preferences,
        is_dry: asked.options.dry_run,
        is_full: !asked.options.stack_only,
        written: &resolved.written,
        changed: &resolved.changed,
        changes: &resolved.changes,
        python: prepared.python,
        owner: prepared.owner,
        seconds: prepared.asked.seconds(),
        printer,
    }
    .tell(&asked.registry);
    stack_only::print_other_frameworks(machines, &resolved.series, printer);
    writing::report_stale_environment_files(asked.project, asked.old.as_ref(), &resolved.written, printer);
}

/// How many changed packages are named; `envlock diff` names all of them.
const CHANGES: usize = 8;

/// A solved request and what is printed about it.
struct Told<'a> {
    pub machines: &'a [Machine],
    pub solutions: &'a [Solution],
    pub request: &'a Request,
    /// The name of the project.
    pub project: &'a str,
    /// The preferences from the old lock, for each machine.
    pub preferences: &'a [Preferences],
    /// Whether nothing is to be written.
    pub is_dry: bool,
    /// Whether all packages are locked, not the stack alone.
    pub is_full: bool,
    /// The files written, none with `--dry-run`.
    pub written: &'a [String],
    /// Those of them that are not as they were.
    pub changed: &'a [String],
    /// What differs from the old lock.
    pub changes: &'a [TargetChanges],
    /// The tool that holds the packages.
    pub owner: Option<Owner>,
    /// The Python that uv takes, and why, where uv holds the packages.
    pub python: Option<(Python, &'static str)>,
    /// The time that it took.
    pub seconds: f64,
    pub printer: &'a Printer,
}

/// Whether two targets are printed alike, apart from their machines.
fn is_same(a: &Solution, b: &Solution) -> bool {
    (a.python, a.patches, a.platform) == (b.python, b.patches, b.platform)
        && (&a.stack, &a.frameworks) == (&b.stack, &b.frameworks)
        && (&a.envelope, &a.packages) == (&b.envelope, &b.packages)
}

impl Told<'_> {
    fn tell(&self, registry: &Registry) {
        let printer = self.printer;
        let seconds = self.seconds;
        if let [one] = self.solutions {
            printer.out(&format!("solved {} in {seconds:.1} s", amount(one)));
        } else {
            printer.out(&format!("solved {} targets in {seconds:.1} s", self.solutions.len()));
        }
        if printer.quiet {
            return;
        }
        self.solutions(registry);
        self.changes();
        self.files();
        self.builds();
        self.notes(registry);
    }

    /// What was solved for each machine.
    fn solutions(&self, registry: &Registry) {
        let printer = self.printer;
        let held = self.machines.iter().zip(self.preferences);
        for (i, ((machine, preferences), solution)) in held.zip(self.solutions).enumerate() {
            if self.solutions.len() > 1 {
                printer.out("");
                let line = format!("{}; {}", report::host_line(&machine.host, registry), amount(solution));
                printer.out(&format!("{}{}", label(printer, &machine.name), wrap(&line, 15)));
            }
            if let Some(first) = self.solutions[..i].iter().position(|first| is_same(first, solution)) {
                report::same_as(printer, &self.machines[first].name, solution, &machine.host);
                continue;
            }
            let python = match self.python {
                Some((own, why)) if own.minor == solution.python.minor => why.to_owned(),
                _ => why_python(self.request, machine, preferences, solution, registry),
            };
            report::solution(printer, solution, self.request, &machine.host, &python);
        }
        if self.solutions.len() > 1 {
            printer.out("");
        }
    }

    /// What changed against the old lock, the same of several targets once.
    fn changes(&self) {
        let changed = |change: &Change| {
            let name = clean(&change.what, 60);
            let [old, new] = [&change.old, &change.new].map(|side| side.as_ref().map(|text| clean(text, 60)));
            Some(match (old, new) {
                (Some(old), Some(new)) => format!("{name} {old} -> {new}"),
                (None, Some(new)) => format!("{name} {new} added"),
                (Some(old), None) => format!("{name} {old} removed"),
                (None, None) => return None,
            })
        };
        // A target that is new has not changed.
        let targets = || self.changes.iter().filter(|target| !target.added);
        let packages = targets().flat_map(|target| &target.packages).filter_map(changed);
        let files = targets().flat_map(|target| &target.files);
        let files = files.map(|name| format!("{} with other files", clean(name, 60)));
        let all: BTreeSet<String> = packages.chain(files).collect();
        if all.is_empty() {
            return;
        }
        let mut shown: Vec<String> = all.iter().take(CHANGES).cloned().collect();
        if all.len() > CHANGES {
            shown.push(format!("and {} more", all.len() - CHANGES));
        }
        let (printer, text) = (self.printer, shown.join(", "));
        printer.out(&format!("{}{}", label(printer, "changed"), wrap(&text, 15)));
    }

    /// What was written, and the commands that come next.
    fn files(&self) {
        let printer = self.printer;
        let files = match (self.written.is_empty(), self.is_dry) {
            (true, true) => "nothing (--dry-run)".to_owned(),
            (true, false) => "nothing: the files are current".to_owned(),
            (false, _) if self.changed.is_empty() => self.written.join(", "),
            (false, _) => self.changed.join(", "),
        };
        let is_as_before = !self.written.is_empty() && self.changed.is_empty();
        let what = if is_as_before { "unchanged" } else { "wrote" };
        printer.out(&format!("{}{}", label(printer, what), wrap(&files, 15)));
        if self.owner.is_some() && !self.is_dry {
            printer.out(&format!("{}{}", label(printer, "next"), printer.command("envlock sync")));
        }
        for solution in self.solutions {
            let other = self.python.filter(|(own, _)| own.minor != solution.python.minor);
            if let Some((own, why)) = other {
                printer.warning(&format!(
                    "the lock is for Python {}, and uv takes {own} ({why}): `uv run` would make the environment again",
                    solution.python
                ));
            }
        }
        if self.owner.is_none() && self.is_full && self.written.iter().any(|w| w == files::LOCK) {
            for (i, next) in self.next().iter().enumerate() {
                let or = if next.is_other { "or " } else { "" };
                let what = label(printer, if i == 0 { "next" } else { "" });
                printer.out(&format!("{what}{or}{}", printer.command(&next.command)));
            }
        }
    }

    /// What is built from source.
    fn builds(&self) {
        let printer = self.printer;
        let packages = self.solutions.iter().flat_map(|solution| &solution.packages);
        let mut built: Vec<&str> = packages
            .filter(|p| p.build.as_ref().is_some_and(|build| !build.needs.is_empty()))
            .map(|p| p.name.as_str())
            .collect();
        built.sort_unstable();
        built.dedup();
        let of_conda = self.solutions.iter().any(|solution| !solution.conda.is_empty());
        if !built.is_empty() && of_conda {
            printer.hint(&format!(
                "{} {} built from source: `envlock sync --build` builds after the other packages are installed",
                built.join(", "),
                Count(built.len()).is()
            ));
        } else if !built.is_empty() {
            printer.hint(&format!(
                "{} {} built after the other packages are installed: `envlock export requirements-build.txt` says how",
                built.join(", "),
                Count(built.len()).is()
            ));
        }
    }

    fn notes(&self, registry: &Registry) {
        let printer = self.printer;
        if self.solutions.iter().any(|solution| !solution.frameworks.is_empty()) {
            stack_only::note_limits(self.request, printer);
        }
        data_folder::age(registry).iter().for_each(|text| printer.note(text));
        let mut told: Vec<&Note> = Vec::new();
        for note in self.solutions.iter().flat_map(|s| &s.notes) {
            if told.contains(&note) {
                continue;
            }
            told.push(note);
            match &note.source {
                Some(source) => printer.warning(&format!("{} [{source}]", note.text)),
                None => printer.warning(&note.text),
            }
        }
        let with_torch = self
            .machines
            .iter()
            .zip(self.solutions)
            .filter(|(_, s)| s.stack.as_ref().is_some_and(|s| s.cuda.is_some()));
        let ended =
            with_torch.filter_map(|(machine, _)| report::last_build(&machine.host, registry, printer));
        ended.collect::<BTreeSet<_>>().iter().for_each(|text| printer.note(text));
        let behind = self.solutions.iter().flat_map(|solution| &solution.behind);
        for text in behind.map(|note| &note.text).collect::<BTreeSet<_>>() {
            printer.note(text);
        }
    }
}

/// A command that comes next.
struct Next {
    /// Whether it is instead of the ones before it.
    is_other: bool,
    command: String,
}

impl Told<'_> {
    /// The commands that install the answer, by what this person has.
    fn next(&self) -> Vec<Next> {
        let with_conda = |i: &usize| !self.solutions[*i].conda.is_empty();
        let of_conda: Vec<usize> = (0..self.solutions.len()).filter(with_conda).collect();
        let client = CondaClient::in_use(&|name| variables::raw(name));
        let has_client = owner::with_places(conda_client::program).is_some();
        let mut commands = Vec::new();
        if of_conda.first() != Some(&0) || has_client {
            commands.push(Next { is_other: false, command: "envlock sync".to_owned() });
        }
        if of_conda.is_empty()
            && self.written.iter().any(|file| file == files::ENVIRONMENT)
            && let Some(client) = client
        {
            let command = client.create(&environment_name(self.project), files::ENVIRONMENT);
            commands.push(Next { is_other: true, command });
        }
        for i in of_conda {
            let target = match self.machines.len() {
                1 => String::new(),
                _ => format!(" --target {}", shell_word(&self.machines[i].name)),
            };
            match has_client {
                true if i == 0 => {}
                true => commands.push(Next { is_other: true, command: format!("envlock sync{target}") }),
                // The explicit file consults no channel, and so no `defaults`.
                false => {
                    let is_other = !commands.is_empty();
                    let name = client.map_or("conda", CondaClient::name);
                    let list = format!("envlock export conda-explicit{target} -o conda-explicit.txt");
                    let create = format!("{name} create -p {CONDA_ENVIRONMENT} --file conda-explicit.txt");
                    let sync = format!("envlock sync --prefix {CONDA_ENVIRONMENT}{target}");
                    commands.push(Next { is_other, command: list });
                    commands.extend([create, sync].map(|command| Next { is_other: false, command }));
                }
            }
        }
        commands
    }
}

fn why_python(
    request: &Request,
    machine: &Machine,
    preferences: &Preferences,
    solution: &Solution,
    registry: &Registry,
) -> String {
    let asked = machine.python.as_ref().or(request.python.as_ref());
    let names_it = asked.is_some_and(|asked| asked.text == solution.python.to_string());
    if !names_it && preferences.python.is_some_and(|locked| locked.minor == solution.python.minor) {
        return "kept from the lock".to_owned();
    }
    if let Some(alone) = solution.python_alone {
        return format!("one for all targets; alone {alone}");
    }
    if !names_it && !solution.conda.is_empty() {
        return "both halves have packages for it".to_owned();
    }
    // Without the index, only the registry lists wheels, and its list is incomplete.
    let known =
        |stack: &Stack| registry.build(&stack.version, &stack.variant, solution.platform)?.pythons.as_ref();
    let from_index = solution.packages.iter().any(|p| !p.files.is_empty());
    if !from_index && solution.stack.as_ref().is_some_and(|stack| known(stack).is_none()) {
        return "newest that torch's requires-python allows; the wheels are not known".to_owned();
    }
    if let (Some(newer), false) = (solution.newer_python, names_it) {
        return format!("requested packages are older with Python {newer}");
    }
    let has_builds = solution.packages.iter().any(|package| package.build.is_some());
    let is_installed = preferences.installed.contains(&solution.python.minor);
    let is_settled = registry.is_settled(solution.python);
    // A newer series than those of two years, though an older one is allowed.
    let mut allowed = asked_pythons(registry, asked);
    if !names_it && !is_installed && !is_settled && allowed.any(|python| python < solution.python) {
        return "older ones lack something that is asked for, or need builds from source".to_owned();
    }
    let mut known_ones = registry.pythons().iter();
    // Of series whose age is not known nothing is said.
    let age = match known_ones.all(|minor| registry.is_settled(Python::new(*minor))) || is_installed {
        true => "",
        false => " of at least two years",
    };
    match asked {
        Some(_) if names_it && registry.pythons().last() < Some(&solution.python.minor) => {
            "asked for; newer than the registry".to_owned()
        }
        Some(_) if names_it => "asked for".to_owned(),
        Some(asked) if is_installed && !has_builds => {
            format!("newest of {} that is installed here and has wheels for all packages", asked.text)
        }
        Some(asked) if !is_settled => format!("oldest of {}", asked.text),
        Some(asked) if has_builds => {
            format!("newest of {}{age} without further builds from source", asked.text)
        }
        None if is_installed && !has_builds => {
            "newest that is installed here and has wheels for all packages".to_owned()
        }
        None if has_builds => format!("newest{age} without further builds from source"),
        Some(asked) => format!("newest of {}{age} with wheels for all packages", asked.text),
        None => format!("newest{age} with wheels for all packages"),
    }
}

/// The Python series that may be chosen.
fn asked_pythons<'r>(
    registry: &'r Registry,
    asked: Option<&'r PythonRequest>,
) -> impl Iterator<Item = Python> + 'r {
    let all = registry.pythons().iter().map(|minor| Python::new(*minor));
    all.filter(move |python| asked.is_none_or(|asked| asked.allows(*python)))
}

/// `56 packages, 3.4 GB to download`
fn amount(solution: &Solution) -> String {
    let count = solution.packages.len();
    let of_conda = solution.conda.iter().fold(0, |sum: u64, package| sum.saturating_add(package.size));
    let bytes: u64 = solution.packages.iter().filter_map(|p| p.files.first()?.size).sum();
    let bytes = bytes.saturating_add(of_conda);
    let download = if bytes > 0 { format!(", {} to download", Bytes(bytes)) } else { String::new() };
    let packages = match (count, solution.conda.len()) {
        (count, 0) => Count(count).of("package"),
        (0, conda) => format!("{} of conda", Count(conda).of("package")),
        (count, conda) => format!("{} and {conda} of conda", Count(count).of("package")),
    };
    format!("{packages}{download}")
}
