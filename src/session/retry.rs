//! The command that takes a way out of a conflict, in the form in which the request was made.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pep440_rs::VersionSpecifiers;
use pep508_rs::{ExtraName, VersionOrUrl};

use crate::model::conflict::{Change, Conflict, Party, ReasonKind, WayOut};
use crate::model::request::{Origin, PythonRequest, Request, UserRequirement};
use crate::model::text::{plain_address, shell_word};
use crate::session::options::{Global, SolveOptions};
use crate::session::settings;

/// How a request was made.
pub(crate) struct TypedRequest<'a> {
    pub global: &'a Global,
    pub request: &'a Request,
    pub options: &'a SolveOptions,
    /// The name of the manifest.
    pub manifest_name: Option<&'a str>,
    /// The Pythons that the manifest allows.
    pub manifest_python: Option<&'a PythonRequest>,
    /// Whether a target of the manifest has a limit of its own on Python.
    pub has_python_of_target: bool,
    /// What states the packages.
    pub form: Form,
    /// The packages of the command line, where there is none.
    pub packages: &'a [String],
    /// The requirements files that stand for one.
    pub files: &'a [PathBuf],
}

/// Where the packages of a request are stated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The command line, or a lock that was made by one.
    CommandLine,
    /// A manifest.
    Manifest,
    /// A manifest to which packages of the command line were to be added.
    Added,
}

/// What changes of a command.
struct Changed {
    /// By package: the requirement, or none.
    requirements: BTreeMap<String, Option<String>>,
    /// Packages that the manifest no longer bounds.
    unbounded: Vec<String>,
    /// The constraint that is left of several on a package in the manifest.
    bounded: Vec<String>,
    /// Constraints of files that are no longer there.
    lines: Vec<String>,
    options: SolveOptions,
}

impl TypedRequest<'_> {
    /// A question about a project, beside what its manifest requires: what meets it is to be added.
    ///
    /// `spec`: the question, a requirement.
    pub fn name_commands_of_question(&self, spec: &str, conflict: &mut Conflict) {
        let Ok(asked) = settings::requirement(spec) else { return };
        self.name_commands(conflict);
        // A change of the project's own requirement on the package in question is the question itself.
        let is_own = |change: &Change| match change {
            Change::Below { package, .. } | Change::Release { package, .. } => package == asked.name(),
            _ => false,
        };
        for way in whole(conflict).iter_mut().filter(|way| is_own(&way.change)) {
            way.command = Some(format!("envlock add {}{}", shell_word(spec.trim()), self.global.given()));
        }
    }

    /// Names the commands of the ways out. The command of one that was solved for the stack alone asks for
    /// the rest, too.
    pub fn name_commands(&self, conflict: &mut Conflict) {
        for way in whole(conflict).iter_mut().filter(|way| way.set.is_none() && !way.is_of_one_target) {
            way.command = self.command(&way.change);
            way.edit = match way.command {
                Some(_) => None,
                None => self.edit(&way.change),
            };
        }
        self.name_right_names(conflict);
    }

    /// Names the commands with the right names of packages that no index has.
    fn name_right_names(&self, conflict: &mut Conflict) {
        let also = conflict.also.iter_mut().flat_map(|other| &mut other.reasons);
        for reason in conflict.reasons.iter_mut().chain(also) {
            let [Party::Package(typed)] = reason.parties.as_slice() else { continue };
            if let ReasonKind::NoProject { nearest: Some(nearest), command } = &mut reason.kind {
                *command = self.with_name(typed, nearest);
            }
        }
    }

    /// The command that asks for a package by another name.
    fn with_name(&self, typed: &str, meant: &str) -> Option<String> {
        let mut requirement = self.only(typed)?.requirement.clone();
        requirement.name = meant.parse().ok()?;
        let mut changed = self.unchanged();
        changed.requirements.insert(typed.to_owned(), Some(requirement.to_string()));
        let command = self.command_of(&changed)?;
        // The manifest has the wrong name as well.
        Some(match self.form == Form::Manifest && self.files.is_empty() {
            // Without a change of the file, the second part would ask for the wrong name again.
            true if self.options.dry_run => return None,
            true => {
                let mut without = self.unchanged();
                without.requirements.insert(typed.to_owned(), None);
                format!("{} && {command}", self.command_of(&without)?)
            }
            false => command,
        })
    }

    /// The lines of requirements files with a change; `None` if it is one of something else.
    fn edit(&self, change: &Change) -> Option<String> {
        let mut changed = self.unchanged();
        self.apply(change, &mut changed).filter(|()| !self.files.is_empty())?;
        let lines = changed.requirements.iter().map(|(name, line)| {
            let Origin::File(file) = &self.only(name)?.origin else { return None };
            Some(match line {
                Some(line) => format!("in {file}: {line}"),
                None => format!("in {file}: no line for {name}"),
            })
        });
        let mut lines: Vec<String> = lines.collect::<Option<_>>()?;
        lines.extend(changed.lines);
        let is_of_manifest = !changed.unbounded.is_empty() || !changed.bounded.is_empty();
        let is_of_files = !is_of_manifest && changed.options.given() == self.options.given();
        (is_of_files && !lines.is_empty()).then(|| lines.join("; "))
    }

    fn unchanged(&self) -> Changed {
        Changed {
            requirements: BTreeMap::new(),
            unbounded: Vec::new(),
            bounded: Vec::new(),
            lines: Vec::new(),
            options: self.options.clone(),
        }
    }

    /// The command with a change; `None` if it takes an edit of a file, or another machine.
    fn command(&self, change: &Change) -> Option<String> {
        let mut changed = self.unchanged();
        self.apply(change, &mut changed)?;
        self.command_of(&changed)
    }

    fn command_of(&self, changed: &Changed) -> Option<String> {
        let options =
            format!("{}{}{}", changed.options.given(), changed.options.modes(), self.global.given());
        if changed.options.index_url.as_ref().is_some_and(|url| plain_address(url) != *url) {
            return None;
        }
        let requirements = &changed.requirements;
        let (unbounded, bounded) = (&changed.unbounded, &changed.bounded);
        let is_alone = requirements.is_empty() && self.form == Form::Manifest;
        match (unbounded.is_empty(), bounded.is_empty(), changed.lines.is_empty()) {
            (true, true, true) => {}
            (false, true, true) if is_alone => {
                let names = words(unbounded.iter().collect());
                return Some(format!("envlock remove --constraint{names}{options}"));
            }
            (true, false, true) if is_alone => {
                let left = words(bounded.iter().collect());
                return Some(format!("envlock add --constraint{left}{options}"));
            }
            _ => return None,
        }
        if !self.files.is_empty() {
            let files: String = self
                .files
                .iter()
                .map(|file| format!(" -r {}", shell_word(&file.display().to_string())))
                .collect();
            let is_typed = |user: &&UserRequirement| user.origin == Origin::CommandLine;
            let typed = self.request.requirements.iter().filter(is_typed);
            let typed: Vec<String> = typed.map(|user| user.requirement.to_string()).collect();
            let named = words(typed.iter().collect());
            return requirements.is_empty().then(|| format!("envlock resolve{named}{files}{options}"));
        }
        match self.form {
            Form::CommandLine => {}
            Form::Manifest => return self.of_manifest(requirements, &options),
            Form::Added => return self.of_added(requirements, &options),
        }
        let mut packages: Vec<String> = Vec::new();
        for text in self.packages {
            let name = settings::requirement(text).ok()?.name().to_owned();
            match requirements.get(&name) {
                None => packages.push(text.clone()),
                Some(changed) => packages.extend(changed.clone()),
            }
        }
        // The request is in the lock alone.
        (!packages.is_empty())
            .then(|| format!("envlock resolve{}{options}", words(packages.iter().collect())))
    }

    /// `add` replaces what the manifest requires, `remove` drops it.
    fn of_manifest(&self, requirements: &BTreeMap<String, Option<String>>, options: &str) -> Option<String> {
        let changed: Vec<&String> = requirements.values().flatten().collect();
        let dropped = requirements.len() - changed.len();
        match (changed.is_empty(), dropped) {
            (true, 0) => Some(format!("envlock resolve{options}")),
            (false, 0) => Some(format!("envlock add{}{options}", words(changed))),
            (true, _) => Some(format!("envlock remove{}{options}", words(requirements.keys().collect()))),
            (false, _) => None,
        }
    }

    /// The manifest is as it was: what was typed has to be typed again.
    fn of_added(&self, requirements: &BTreeMap<String, Option<String>>, options: &str) -> Option<String> {
        // A constraint that was typed is no package to add.
        if self.request.constraints.iter().any(|bound| bound.origin == Origin::CommandLine) {
            return None;
        }
        let mut added: Vec<String> = Vec::new();
        for user in self.request.requirements.iter().filter(|user| user.origin == Origin::CommandLine) {
            match requirements.get(user.name()) {
                None => added.push(user.requirement.to_string()),
                Some(changed) => added.extend(changed.clone()),
            }
        }
        let is_typed = |name: &String| self.only(name).is_some_and(|user| user.origin == Origin::CommandLine);
        for (_, changed) in requirements.iter().filter(|(name, _)| !is_typed(name)) {
            added.push(changed.clone()?);
        }
        (!added.is_empty()).then(|| format!("envlock add{}{options}", words(added.iter().collect())))
    }

    fn apply(&self, change: &Change, to: &mut Changed) -> Option<()> {
        let options = &mut to.options;
        match change {
            Change::Together(changes) => return changes.iter().try_for_each(|one| self.apply(one, to)),
            Change::Below { package, version } => self.set(package, &format!("<{version}"), to)?,
            Change::Release { package, version } => self.set(package, &format!("=={version}"), to)?,
            Change::Series { package, releases } => self.set(package, &format!("=={releases}"), to)?,
            Change::Extras { package, extras } => self.set_extras(package, to, &|own| {
                *own = extras.iter().filter_map(|extra| extra.parse().ok()).collect();
            })?,
            Change::WithoutExtra { package, extra } => self.set_extras(package, to, &|own| {
                own.retain(|own| own.as_ref() != extra);
            })?,
            Change::WithoutRequest(package) => {
                self.only(package)?;
                to.requirements.insert(package.clone(), None);
            }
            // Options that describe another machine.
            Change::Driver(version) => *options.host.driver.as_mut()? = version.to_string(),
            Change::Glibc(version) => *options.host.glibc.as_mut()? = version.to_string(),
            // What a manifest says is changed there: the next run would not have the option.
            Change::Variant(_) if options.variant.is_none() && self.request.variant.is_some() => return None,
            Change::Variant(name) => options.variant = Some(name.clone()),
            Change::OtherVariant(_) => drop(options.variant.take()?),
            Change::Python(_) if self.has_python_of_target => return None,
            Change::Python(python) if self.manifest_python.is_some_and(|own| !own.allows(*python)) => {
                return None;
            }
            Change::Python(python) => options.python = Some(python.to_string()),
            Change::AllowIndexes(names) => {
                let allowed = options.only_index.as_mut()?;
                *allowed = format!("{allowed},{}", names.join(","));
            }
            Change::AllowSources if options.no_sources => options.no_sources = false,
            Change::WithoutLimit { what: "cuda", .. } => drop(options.cuda.take()?),
            Change::WithoutLimit { what: "exclude-newer", .. } => drop(options.exclude_newer.take()?),
            Change::WithoutConstraint(bound) => return self.without_constraint(bound, to),
            // These take an edit of a file, or another machine.
            Change::AllowSources
            | Change::WithoutLimit { .. }
            | Change::CudaCompat { .. }
            | Change::WithoutOverride(_)
            | Change::AllowCompatibilityMode
            | Change::FromPypi(_)
            | Change::FromChannel { .. }
            | Change::StackFrom(_)
            | Change::OnlyGpus { .. }
            | Change::OtherGpu(_) => return None,
        }
        Some(())
    }

    /// Takes a constraint away: from the manifest, which has one on a package or another that stays, or its line of a file.
    fn without_constraint(&self, bound: &UserRequirement, to: &mut Changed) -> Option<()> {
        let of_package = || self.request.constraints.iter().filter(|own| own.name() == bound.name());
        let is_of_manifest = |own: &UserRequirement| {
            self.manifest_name.is_some_and(|name| own.origin == Origin::File(name.to_owned()))
        };
        let others: Vec<&UserRequirement> = of_package().filter(|own| *own != bound).collect();
        match (others.as_slice(), &bound.origin) {
            ([], _) if is_of_manifest(bound) => to.unbounded.push(bound.name().to_owned()),
            ([left], _)
                if of_package().all(is_of_manifest)
                    && left.requirement.marker == bound.requirement.marker =>
            {
                to.bounded.push(left.requirement.to_string());
            }
            (_, Origin::File(place)) if !self.files.is_empty() => {
                to.lines.push(format!("in {place}: no line for {}", bound.name()));
            }
            _ => return None,
        }
        Some(())
    }

    /// The only requirement on a package; `None` if there are several, it belongs to an extra or a group, or is one of conda.
    fn only(&self, package: &str) -> Option<&UserRequirement> {
        let mut all = self.request.requirements.iter().filter(|user| user.name() == package);
        let one = all.next().filter(|_| all.next().is_none())?;
        (one.part.is_none() && self.request.conda.is_empty()).then_some(one)
    }

    fn set(&self, package: &str, bound: &str, to: &mut Changed) -> Option<()> {
        let mut requirement = self.only(package).filter(|user| user.direct().is_none())?.requirement.clone();
        let bounds: VersionSpecifiers = bound.parse().ok()?;
        requirement.version_or_url = Some(VersionOrUrl::VersionSpecifier(bounds));
        to.requirements.insert(package.to_owned(), Some(requirement.to_string()));
        Some(())
    }

    fn set_extras(&self, package: &str, to: &mut Changed, edit: &dyn Fn(&mut Vec<ExtraName>)) -> Option<()> {
        let mut requirement = self.only(package)?.requirement.clone();
        edit(&mut requirement.extras);
        to.requirements.insert(package.to_owned(), Some(requirement.to_string()));
        Some(())
    }
}

/// The ways out of all of a conflict: of several causes, a change of one removes that one.
fn whole(conflict: &mut Conflict) -> &mut Vec<WayOut> {
    match conflict.also.is_empty() {
        true => &mut conflict.would_work_if,
        false => &mut conflict.resolves_all,
    }
}

fn words(texts: Vec<&String>) -> String {
    texts.iter().map(|text| format!(" {}", shell_word(text))).collect()
}
