//! GPU products and their compute capabilities.

use serde::Deserialize;

use crate::model::capability::ComputeCapability;
use crate::model::evidence::Evidence;

/// Data on Tegra (Jetson).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tegra {
    /// The compute capabilities.
    pub capabilities: Vec<ComputeCapability>,
    /// A note on available builds, for messages.
    pub note: String,
    /// Source ids of the note.
    pub note_source: Vec<String>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids of the capabilities.
    pub source: Vec<String>,
}

/// A GPU product.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuRow {
    /// Product name.
    pub name: String,
    /// Compute capability.
    pub capability: ComputeCapability,
    /// `datacenter`, `geforce`, `workstation`, `jetson`, `mining`.
    pub class: Option<String>,
    /// PCI device ids of vendor 10de.
    #[serde(default)]
    pub pci: Vec<String>,
    /// Evidence.
    pub evidence: Evidence,
    /// Source ids.
    pub source: Vec<String>,
}
