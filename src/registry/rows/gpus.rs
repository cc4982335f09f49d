//! GPU products and their capabilities.

use super::super::schema::{RawGpu, RawTegra};
use super::{RowError, parse};
use crate::model::capability::ComputeCapability;

/// What is known of Tegra (Jetson) parts.
#[derive(Debug, Clone, Default)]
pub struct Tegra {
    /// Their capabilities.
    pub capabilities: Vec<ComputeCapability>,
    /// Which builds there are for them and which there are not, for people.
    pub note: String,
    /// Where the note comes from.
    pub note_source: Vec<String>,
}

/// A GPU product.
#[derive(Debug, Clone)]
pub struct GpuRow {
    /// Product name.
    pub name: String,
    /// Capability.
    pub capability: ComputeCapability,
    /// `datacenter`, `geforce`, `workstation`, `jetson`, `mining`.
    pub class: Option<String>,
    /// PCI device ids of vendor 10de.
    pub pci: Vec<String>,
    /// Source ids.
    pub source: Vec<String>,
}

impl TryFrom<&RawGpu> for GpuRow {
    type Error = RowError;

    fn try_from(raw: &RawGpu) -> Result<Self, RowError> {
        Ok(GpuRow {
            name: raw.name.clone(),
            capability: parse("capability", &raw.capability)?,
            class: raw.class.clone(),
            pci: raw.pci.clone(),
            source: raw.source.clone(),
        })
    }
}

impl From<RawTegra> for Tegra {
    fn from(raw: RawTegra) -> Tegra {
        Tegra {
            capabilities: raw.capabilities.iter().filter_map(|c| c.parse().ok()).collect(),
            note: raw.note,
            note_source: raw.note_source,
        }
    }
}
