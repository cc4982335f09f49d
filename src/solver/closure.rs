//! The Python closure: METADATA as dependencies.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use pep440_rs::{Operator, Version, VersionSpecifiers};
use pep508_rs::{ExtraName, MarkerEnvironment, Requirement, VerbatimUrl, VersionOrUrl};

use super::inputs::Depth;
use super::memory::{Applied, only_one};
use super::node::Node;
use super::problem::{Candidate, Problem, RequestNames, UserBound};
use super::tables::{BuildRow, Set, TRITON_PACKAGE, fact, is_stack_package, ordinals};
use crate::model::metadata::CoreMetadata;
use crate::model::project::{ReleaseFile, specifiers_allow};
use crate::model::request::UserRequirement;
use crate::model::solution::Need;
use crate::model::version::public;
use crate::model::wheel::Python;
use crate::registry::Effect;
use crate::registry::STACK_PACKAGES;

/// The search needs more metadata to continue; the list is in [`Problem::needs`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("metadata must be fetched first")]
pub(super) struct Missing;

/// Why a candidate cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unusable {
    /// The index has no such project or version.
    NotOnIndex(String),
    /// The release has no wheel for the platform and cannot be built from source.
    NoWheel,
    /// It was uploaded after the cutoff of the request, as written.
    Late(String),
    /// There is a cutoff, and the index does not state when its files were uploaded.
    Undated(String),
    /// It exists only as source, and its requirements cannot be known without running it.
    UnknownMetadata(String),
    /// It has wheels, for other Pythons or platforms alone, and the requirements of its source cannot be known.
    UnknownHere(String),
    /// It exists only as a stub, which fetches this when it is built, from this index if it names one.
    Stub { fetches: String, index: Option<String> },
    /// The name is that of another project than the one that is meant, which is this.
    OtherProject(String),
    /// It exists only as source that never builds, and why.
    NeverBuilds(String),
    /// The metadata cannot be read or contradicts its file.
    Metadata(String),
    /// The release has a direct URL requirement, which is not supported.
    Refused(String),
    /// The index is not allowed.
    IndexNotAllowed(String),
    /// It lacks an extra that the user requires.
    NoExtra(String),
}

impl Unusable {
    /// What is said of one release, or of `several`, as a predicate: `is not on the index pypi`.
    pub fn of(&self, several: bool) -> String {
        self.of_place(several, "this Python and platform")
    }

    /// The same with the Pythons and the platform that there is no wheel for: `Python 3.10 to 3.15 on linux-x86_64`.
    pub fn of_place(&self, several: bool, place: &str) -> String {
        let verb = |one, many| if several { many } else { one };
        let (is, was, has) = (verb("is", "are"), verb("was", "were"), verb("has", "have"));
        match self {
            Unusable::NotOnIndex(index) => format!("{is} not on the index {index}"),
            Unusable::NoWheel => format!("{has} no wheel for {place}"),
            Unusable::Late(cutoff) => format!("{was} uploaded later (`exclude-newer` is {cutoff})"),
            Unusable::Undated(index) => {
                format!("{has} no time of upload on the index {index}, which `exclude-newer` requires")
            }
            Unusable::UnknownMetadata(why) => {
                let exists = verb("exists only as source, and its", "exist only as source, and their");
                format!("{exists} requirements are not known: {why}")
            }
            Unusable::UnknownHere(why) => {
                let its = verb("its", "their");
                format!(
                    "{has} no wheel for {place}, and the requirements of {its} source are not known: {why}"
                )
            }
            Unusable::Stub { fetches, .. } => {
                let exists = verb("exists only as a stub", "exist only as stubs");
                format!("{exists}, whose build fetches {fetches}")
            }
            Unusable::OtherProject(what) => format!("{is} {what}"),
            Unusable::NeverBuilds(why) => {
                format!("{} that never builds: {why}", verb("exists only as source", "exist only as source"))
            }
            Unusable::Metadata(why) => format!("{has} unusable metadata: {why}"),
            Unusable::NoExtra(extra) => format!("{has} no extra `{extra}`"),
            Unusable::Refused(what) => {
                format!(
                    "{} `{what}`, which the request does not name: name it too",
                    verb("requires", "require")
                )
            }
            Unusable::IndexNotAllowed(index) => format!("{is} on the index {index}, which is not allowed"),
        }
    }
}

/// The dependencies of a candidate.
pub(super) type Dependencies = Vec<(Node, Set)>;

impl<'a> Problem<'a> {
    /// The dependencies of one requirement of the request.
    pub fn requirement(
        &self,
        requirement: &Requirement<VerbatimUrl>,
    ) -> Result<Result<Dependencies, Unusable>, Missing> {
        self.requirement_of(None, requirement)
    }

    /// The dependencies of one requirement, which may stand in METADATA.
    fn requirement_of(
        &self,
        of: Option<&Arc<CoreMetadata>>,
        requirement: &Requirement<VerbatimUrl>,
    ) -> Result<Result<Dependencies, Unusable>, Missing> {
        let name: &str = requirement.name.as_ref();
        let mut overrides = self.asked.request.overrides.iter().map(|user| &user.requirement);
        let replaced = overrides.find(|other| other.name == requirement.name);
        let applies = |other: &Requirement<VerbatimUrl>| {
            self.pythons.environments.iter().all(|e| other.marker.evaluate(e, &[]))
        };
        if replaced.is_some_and(|other| !applies(other)) {
            // An override whose marker is false takes the requirement away.
            return Ok(Ok(Vec::new()));
        }
        let bound = replaced.unwrap_or(requirement);
        let specifiers = match &bound.version_or_url {
            None => None,
            Some(VersionOrUrl::VersionSpecifier(s)) => Some(s),
            // The reference itself, or one of a package that the user also names.
            Some(VersionOrUrl::Url(_)) if self.universe.direct(name).is_some() => None,
            Some(VersionOrUrl::Url(_)) => {
                return Ok(Err(Unusable::Refused(crate::model::text::clean(&requirement.to_string(), 120))));
            }
        };
        let set = match of.filter(|_| replaced.is_none()) {
            Some(metadata) => self.matching_of(metadata, bound)?,
            None => self.matching(name, specifiers)?,
        };
        let mut out = vec![(Node::package(name), set.clone())];
        if let Some(specifiers) = specifiers
            && let Some(table) = self.stack.get(name)
            && specifiers.iter().any(|s| s.version().is_local())
        {
            // `torch==2.9.1+cu128` names a build: compare the variant as the local version.
            let builds = ordinals(table.builds.len(), |i| {
                self.local_version(&table.builds[i]).is_some_and(|version| specifiers.contains(&version))
            });
            out.push((Node::build(name), builds));
        }
        for extra in &requirement.extras {
            let extra_node = Node::Extra(Arc::from(name), Arc::from(extra.as_ref() as &str));
            let set = if is_stack_package(name) { Set::full() } else { set.clone() };
            out.push((extra_node, set));
        }
        Ok(Ok(out))
    }

    /// The METADATA of a release: that of its best wheel, else that of its source distribution.
    pub fn metadata_of(
        &self,
        candidate: &Candidate<'_>,
        name: &str,
    ) -> Result<Result<&'a Arc<CoreMetadata>, Unusable>, Missing> {
        match self.read_for(candidate) {
            Some(file) => self.metadata_in(candidate, name, file),
            None => Ok(Err(self.cut(candidate, name).unwrap_or(Unusable::NoWheel))),
        }
    }

    /// Records that the METADATA of a release is needed, unless it can be had without waiting: most of what is recorded ahead
    /// is never looked at.
    pub fn read_ahead(&self, candidate: &Candidate<'_>, name: &str) {
        let (release, on) = (std::ptr::from_ref(candidate.release), only_one(&self.pythons.series));
        if self.memory.is_release_at_hand(release, on) {
            return;
        }
        match self.read_for(candidate) {
            Some(file) if !self.universe.has_metadata(candidate.index, file) => {
                self.need_metadata(candidate, name, file);
            }
            _ => self.memory.note_at_hand(release, on),
        }
    }

    fn need_metadata(&self, candidate: &Candidate<'_>, name: &str, file: &ReleaseFile) {
        self.memo.needs.borrow_mut().insert(Need::Metadata {
            index: candidate.index.to_owned(),
            project: name.to_owned(),
            filename: file.filename.clone(),
        });
    }

    /// The METADATA of a release in one of its files.
    pub fn metadata_in(
        &self,
        candidate: &Candidate<'_>,
        name: &str,
        file: &ReleaseFile,
    ) -> Result<Result<&'a Arc<CoreMetadata>, Unusable>, Missing> {
        match self.universe.metadata(candidate.index, file) {
            None => {
                self.need_metadata(candidate, name, file);
                Err(Missing)
            }
            Some(Err(why)) => Ok(Err(Unusable::Metadata(why.to_owned()))),
            Some(Ok(metadata)) => {
                if (metadata.name.as_ref() as &str) != name {
                    return Ok(Err(Unusable::Metadata(format!("its name is `{}`", metadata.name))));
                }
                if public(&metadata.version) != public(&candidate.release.version) {
                    return Ok(Err(Unusable::Metadata(format!(
                        "{} contains version {}",
                        file.filename, metadata.version
                    ))));
                }
                Ok(self.accepted(metadata).map(|()| metadata).map_err(|unusable| match unusable {
                    Unusable::UnknownMetadata(why) if candidate.release.has_wheel => {
                        Unusable::UnknownHere(why)
                    }
                    other => other,
                }))
            }
        }
    }

    /// The dependencies of an ordinary package's release (or of its extra).
    pub fn package_dependencies(
        &self,
        name: &str,
        ordinal: u32,
        extra: Option<&str>,
    ) -> Result<Result<Dependencies, Unusable>, Missing> {
        let candidates = self.candidates(name)?;
        let candidate = candidates[ordinal as usize];
        if !self.index_allowed(candidate.index) {
            return Ok(Err(Unusable::IndexNotAllowed(candidate.index.to_owned())));
        }
        if candidate.index == "pypi"
            && let Some(row) = self.registry.other_project(name)
        {
            return Ok(Err(Unusable::OtherProject(row.text())));
        }
        let version = &candidate.release.version;
        let mut out = self.runtime_dependencies(name, version, extra);
        if !self.machine_allows_runtime(name, version, extra) {
            // Already excluded by the machine: do not fetch METADATA.
            return Ok(Ok(out));
        }
        if extra.is_none() {
            self.wheel_dependencies(&candidate, &mut out);
            if name == TRITON_PACKAGE && self.indexes.iter().any(|i| i == candidate.index) {
                // CPU builds have no triton on their sub-index: PyPI's triton is compatible with them.
                let set = ordinals(self.indexes.len(), |i| {
                    let index = &self.indexes[i];
                    index == candidate.index || (candidate.index == "pypi" && index.ends_with("/cpu"))
                });
                out.push((Node::StackIndex, set));
            }
            if let Some(set) = self.bound(name, &candidate.release.version) {
                out.push((Node::Bound(Arc::from(name)), set));
            }
            self.advisory_dependencies(name, &candidate.release.version, &mut out);
            out.extend(self.pythons_of_backport(name).map(|pythons| (Node::Python, pythons)));
            out.extend(self.pythons_of_limit(name, version).map(|pythons| (Node::Python, pythons)));
        } else {
            out.push((Node::package(name), Set::singleton(ordinal)));
        }
        Ok(self.required_by(&candidate, name, extra)?.map(|more| {
            out.extend(more);
            out
        }))
    }

    /// The requirements in a release's METADATA that apply in the problem's environments.
    pub fn required_by(
        &self,
        candidate: &Candidate<'_>,
        name: &str,
        extra: Option<&str>,
    ) -> Result<Result<Dependencies, Unusable>, Missing> {
        match self.metadata_of(candidate, name)? {
            Ok(metadata) if extra.is_some_and(|extra| self.lacks_extra(metadata, name, extra)) => {
                Ok(Err(Unusable::NoExtra(extra.unwrap_or_default().to_owned())))
            }
            Ok(metadata) if extra.is_some() => self.metadata_dependencies(metadata, extra),
            Ok(metadata) => {
                let required = self.metadata_dependencies(metadata, extra)?;
                let avoided = self.avoided(candidate, name, metadata)?;
                Ok(required.map(|mut out| {
                    out.extend(self.pythons_of_setup(metadata).map(|pythons| (Node::Python, pythons)));
                    out.extend(
                        self.unstated_pythons(candidate, metadata).map(|pythons| (Node::Python, pythons)),
                    );
                    out.extend(avoided);
                    out
                }))
            }
            Err(unusable) => Ok(Err(unusable)),
        }
    }

    /// The Python series that a release's METADATA is for, where the index does not state it; `None` if it is for all.
    fn unstated_pythons(&self, candidate: &Candidate<'_>, metadata: &CoreMetadata) -> Option<Set> {
        let range = metadata.requires_python.as_ref()?;
        self.representative(candidate).filter(|file| file.requires_python.is_none())?;
        let series = &self.pythons.series;
        let is_for = |python: &Python| specifiers_allow(range, *python);
        (!series.iter().all(is_for)).then(|| ordinals(series.len(), |i| is_for(&series[i])))
    }

    /// Whether a release lacks an extra that the user requires and that decides whether a GPU is used: `jax[cuda13]`
    /// excludes releases without that extra. All other missing extras are ignored, as installers do.
    fn lacks_extra(&self, metadata: &CoreMetadata, name: &str, extra: &str) -> bool {
        if !self.registry.frameworks().iter().any(|row| row.framework == name || row.package == name) {
            return false;
        }
        let Ok(extra) = extra.parse::<ExtraName>() else { return false };
        let mut users = self.asked.request.requirements.iter().map(|user| &user.requirement);
        users.any(|r| r.name.as_ref() as &str == name && r.extras.contains(&extra))
            && !metadata.has_extra(&extra)
    }

    fn wheel_dependencies(&self, candidate: &Candidate<'_>, out: &mut Dependencies) {
        let pythons = self.candidate_pythons(candidate);
        out.extend(self.candidate_patches(candidate).map(|patches| (Node::Patch, patches)));
        if pythons == Set::full() {
            return;
        }
        // There are wheels for a newer libc only: then libc is the party.
        let any_libc = ordinals(self.pythons.series.len(), |i| {
            candidate.page.has_usable(candidate.release, self.pythons.series[i], self.machine.platform, None)
        });
        if pythons.is_empty() && !any_libc.is_empty() {
            out.push((Node::Glibc, Set::empty()));
        } else {
            out.push((Node::Python, pythons));
        }
    }

    /// The requirements of a METADATA file that apply on all Pythons of the problem that the release is for. There is more
    /// than one only in the search for a proof.
    fn metadata_dependencies(
        &self,
        metadata: &Arc<CoreMetadata>,
        extra: Option<&str>,
    ) -> Result<Result<Dependencies, Unusable>, Missing> {
        let applied = self.applied(metadata, extra);
        let numbers = match applied.as_ref() {
            Ok(numbers) => numbers,
            Err(text) => {
                return Ok(Err(Unusable::Metadata(format!("`{text}` is not a valid requirement"))));
            }
        };
        let mut out = Vec::new();
        let mut missing = false;
        for (requirement, _) in numbers.iter().filter_map(|number| metadata.requirement(*number)) {
            if self.is_left_out(requirement.name.as_ref()) {
                continue;
            }
            match self.requirement_of(Some(metadata), requirement) {
                Err(Missing) => missing = true,
                Ok(Ok(more)) => out.extend(more),
                Ok(Err(unusable)) => return Ok(Err(unusable)),
            }
        }
        if missing { Err(Missing) } else { Ok(Ok(out)) }
    }

    /// The requirements that apply on all Pythons of the problem that the release is for: on the others it is not chosen, so
    /// `sympy; python_version >= "3.9"` of a release with `Requires-Python: >=3.9` applies.
    pub fn applied(&self, metadata: &Arc<CoreMetadata>, extra: Option<&str>) -> Applied {
        let key = (Arc::as_ptr(metadata) as usize, extra.map(str::to_owned));
        if let Some((_, known)) = self.memo.applying.borrow().get(&key) {
            return known.clone();
        }
        let extra = extra.and_then(|extra| extra.parse().ok());
        let applied = Rc::new(metadata.applying(&self.environments_for(metadata), extra));
        self.memo.applying.borrow_mut().insert(key, (metadata.clone(), applied.clone()));
        applied
    }

    /// The Pythons of the problem that a release is for; all of them if it is for none.
    pub fn environments_for(&self, metadata: &CoreMetadata) -> Vec<&MarkerEnvironment> {
        let is_for = |python: &Python| {
            metadata.requires_python.as_ref().is_none_or(|range| specifiers_allow(range, *python))
        };
        let all = || self.pythons.series.iter().zip(&self.pythons.environments);
        let fit: Vec<_> =
            all().filter(|(python, _)| is_for(python)).map(|(_, environment)| environment).collect();
        match fit.is_empty() {
            true => self.pythons.environments.iter().collect(),
            false => fit,
        }
    }

    /// Whether the user's constraints admit a version, as a full or empty set; `None` without constraints.
    pub fn bound(&self, name: &str, version: &Version) -> Option<Set> {
        let mut bounds = self.bounds_on(name).peekable();
        bounds.peek()?;
        let is_stack = self.stack.contains_key(name);
        Some(fact(bounds.all(|(_, specifiers)| match is_stack {
            true => plain_specifiers_contain(specifiers, version),
            false => specifiers.contains(version),
        })))
    }

    /// Whether the user's constraints with a local version (`torch==2.9.1+cu128`) admit a build, as a full or empty set;
    /// `None` without such constraints.
    pub fn bound_of_build(&self, name: &str, build: &BuildRow<'_>) -> Option<Set> {
        let names_build = |specifiers: &&VersionSpecifiers| specifiers.iter().any(|s| s.version().is_local());
        let mut bounds =
            self.bounds_on(name).map(|(_, specifiers)| specifiers).filter(names_build).peekable();
        bounds.peek()?;
        let version = self.local_version(build);
        Some(fact(version.is_some_and(|version| bounds.all(|specifiers| specifiers.contains(&version)))))
    }

    /// The version of a build with its variant as the local version.
    fn local_version(&self, build: &BuildRow<'_>) -> Option<Version> {
        format!("{}+{}", build.version, self.variants[build.variant as usize].name).parse().ok()
    }

    /// The user's constraints on a package that apply in all environments of the problem.
    pub fn bounds_on(&self, name: &str) -> impl Iterator<Item = UserBound<'a>> {
        self.named().bounds.get(name).into_iter().flatten().copied()
    }

    /// The packages that the request names: a search asks for them at each of its decisions.
    pub fn named(&self) -> &RequestNames<'a> {
        self.memo.named.get_or_init(|| {
            let request = self.asked.request;
            let mut bounds: HashMap<&str, Vec<UserBound<'a>>> = HashMap::new();
            for constraint in self.user_constraints() {
                if let Some(VersionOrUrl::VersionSpecifier(specifiers)) =
                    &constraint.requirement.version_or_url
                {
                    bounds.entry(constraint.name()).or_default().push((constraint, specifiers));
                }
            }
            let requested = request.requirements.iter().map(UserRequirement::name).collect();
            RequestNames { requested, bounds }
        })
    }

    /// Adds the dependencies of a package on advisories, for both packages of each advisory.
    pub fn advisory_dependencies(&self, name: &str, version: &Version, out: &mut Dependencies) {
        for (i, advisory) in self.advisories.iter().enumerate() {
            if advisory.package == name && advisory.versions.contains(version) {
                if matches!(advisory.effect, Effect::Avoid(_)) {
                    // Decided with the metadata of the release: see `Problem::avoided`.
                    continue;
                }
                out.push((Node::Advisory(i), Set::singleton(1)));
            }
            if let Some(requirement) = advisory.effect.requirement()
                && (requirement.name.as_ref() as &str) == name
                && let Some(VersionOrUrl::VersionSpecifier(s)) = &requirement.version_or_url
                && !s.contains(version)
            {
                out.push((Node::Advisory(i), Set::singleton(0)));
            }
        }
    }

    /// The user's requirements that apply in all environments of the problem.
    pub fn user_requirements(&self) -> impl Iterator<Item = &UserRequirement> {
        self.asked.request.requirements.iter().filter(|r| {
            (self.asked.depth == Depth::Full || STACK_PACKAGES.contains(&r.name()))
                && self.pythons.environments.iter().all(|e| r.requirement.marker.evaluate(e, &[]))
        })
    }

    /// The user's constraints that apply in all environments of the problem.
    pub fn user_constraints(&self) -> impl Iterator<Item = &'a UserRequirement> {
        let applies = |c: &&UserRequirement| {
            self.pythons.environments.iter().all(|e| c.requirement.marker.evaluate(e, &[]))
        };
        self.asked.request.constraints.iter().filter(applies)
    }
}

/// `contains` for a public version that has several builds: `==2.7.1+cu118` matches 2.7.1, and the build is selected
/// elsewhere.
pub(super) fn plain_specifiers_contain(specifiers: &VersionSpecifiers, version: &Version) -> bool {
    specifiers.iter().all(|s| {
        if s.version().is_local() {
            match s.operator() {
                Operator::Equal | Operator::ExactEqual => public(s.version()) == *version,
                _ => true,
            }
        } else {
            s.contains(version)
        }
    })
}
