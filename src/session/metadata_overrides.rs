//! Who has a say on what a release requires, beside its own metadata.

use std::sync::Arc;

use crate::model::built_for::BuiltFor;
use crate::model::metadata::CoreMetadata;
use crate::model::request::StatedMetadata;
use crate::model::wheel::WheelName;
use crate::registry::{Registry, STACK_PACKAGES};

/// The user, the registry, and the name of the file.
#[derive(Clone, Copy)]
pub(crate) struct MetadataOverrides<'s> {
    /// The user's statements, which replace those of a release.
    pub stated: &'s [StatedMetadata],
    /// The registry, which adds what a release needs and does not declare.
    pub registry: &'s Registry,
}

impl MetadataOverrides<'_> {
    /// The metadata of a file, as the solver is to read it.
    pub fn apply(&self, metadata: Arc<CoreMetadata>, filename: &str) -> Arc<CoreMetadata> {
        let (name, version) = (metadata.name.as_ref(), &metadata.version);
        if let Some(row) = self.stated.iter().find(|row| row.is_about(name, version)) {
            return metadata.with_requirements(&row.requires).into();
        }
        let mut lines = self.registry.undeclared(name, version);
        lines.extend(self.registry.undeclared_frameworks(&metadata));
        if !STACK_PACKAGES.contains(&name) {
            // METADATA may lack the local version that its project added to the name of the file.
            let wheel = filename.parse::<WheelName>().ok();
            lines.extend(
                wheel.and_then(|wheel| BuiltFor::of(&wheel.version)).map(|built| built.requirement()),
            );
        }
        match lines.as_slice() {
            [] => metadata,
            lines => metadata.with_more(lines).into(),
        }
    }
}
