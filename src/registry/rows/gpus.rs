//! GPU products and their compute capabilities.

use serde::Deserialize;

use crate::model::capability::ComputeCapability;
use crate::registry::table::Fault;

/// Data on Tegra (Jetson).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tegra {
    /// The compute capabilities.
    pub capabilities: Vec<ComputeCapability>,
    /// Those for which no wheel of PyPI or the pytorch index has code: for them unread code is no code.
    #[serde(default)]
    pub without_wheels: Vec<ComputeCapability>,
    /// A note on available builds, for messages.
    pub note: String,
    /// Source ids of the note.
    pub note_source: Vec<String>,
}

/// What drivers and hypervisors print in the place of a product's name.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuNames {
    /// Letters of vGPU profiles that have the board's compute capability: `C`, `Q`.
    pub vgpu_compute: Vec<String>,
    /// Letters of vGPU profiles for displays, which in general have no CUDA: `A`, `B`.
    pub vgpu_display: Vec<String>,
    /// Letters that follow the board's name in a profile: `DX` of `A100DX-40C`. The longest first.
    pub vgpu_board: Vec<String>,
    /// Words that are added to a name: `with Max-Q Design`.
    pub added: Vec<String>,
}

/// GPUs of a maker other than NVIDIA, which run no CUDA.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherMaker {
    /// The maker: `AMD`.
    pub maker: String,
    /// Words, in small letters, of which one is in the name of each of its products: `radeon`.
    pub words: Vec<String>,
    /// The options that ask for a machine with such a GPU, each in backticks.
    pub instead: String,
}

/// A label of Kubernetes nodes by which a cloud names a GPU.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeLabel {
    /// The label: `cloud.google.com/gke-accelerator`.
    pub key: String,
    /// What stands for the GPU: `nvidia-l4`.
    pub value: String,
    /// The name of its product.
    pub gpu: String,
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
}

impl GpuRow {
    pub(in crate::registry) fn problems(&self) -> Vec<Fault> {
        const CLASSES: [&str; 5] = ["datacenter", "geforce", "jetson", "mining", "workstation"];
        let mut problems = Vec::new();
        if self.name.trim().is_empty() || self.name.trim() != self.name {
            problems.push(Fault::at("name", "`name` is empty, or has spaces around it"));
        }
        if let Some(class) = self.class.as_deref().filter(|class| !CLASSES.contains(class)) {
            problems
                .push(Fault::at("class", format!("`class`: `{class}` is none of {}", CLASSES.join(", "))));
        }
        let is_id = |pci: &&String| pci.len() == 4 && pci.bytes().all(|b| b.is_ascii_hexdigit());
        let invalid = self.pci.iter().filter(|pci| !is_id(pci));
        problems.extend(
            invalid.map(|pci| Fault::at("pci", format!("`pci`: `{pci}` is not a device id such as `2684`"))),
        );
        problems
    }
}
