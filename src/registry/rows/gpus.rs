//! GPU products and their compute capabilities.

use super::super::schema::{RawGpu, RawTegra};
use super::{RowError, parse};
use crate::model::capability::ComputeCapability;

/// Data on Tegra (Jetson).
#[derive(Debug, Clone, Default)]
pub struct Tegra {
    /// The compute capabilities.
    pub capabilities: Vec<ComputeCapability>,
    /// A note on available builds, for messages.
    pub note: String,
    /// Source ids of the note.
    pub note_source: Vec<String>,
}

/// A GPU product.
#[derive(Debug, Clone)]
pub struct GpuRow {
    /// Product name.
    pub name: String,
    /// Compute capability.
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
