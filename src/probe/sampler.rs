//! Samples GPU utilization, memory, power and clocks by NVML.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError};
use serde::Serialize;

use super::Surroundings;

/// One sample of one GPU. Values that NVML does not provide are `None`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start.
    pub seconds: f64,
    /// NVML's index.
    pub gpu: u32,
    /// Percentage of time in which a kernel ran.
    pub sm_percent: Option<u32>,
    /// Percentage of time in which memory was read or written.
    pub memory_percent: Option<u32>,
    /// Memory in use in MiB.
    pub memory_used_mib: Option<u64>,
    /// Total memory in MiB.
    pub memory_total_mib: Option<u64>,
    /// Power in watts.
    pub power_watts: Option<f64>,
    /// SM clock in MHz.
    pub sm_mhz: Option<u32>,
    /// Memory clock in MHz.
    pub memory_mhz: Option<u32>,
    /// Uncorrected memory errors since the driver was loaded.
    pub uncorrected_errors: Option<u64>,
    /// Reasons for clock throttling.
    pub throttled_by: Vec<String>,
}

/// The throttle reasons that are reported, with their text.
const REASONS: [(ThrottleReasons, &str); 5] = [
    (ThrottleReasons::SW_POWER_CAP, "power cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "heat"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "heat"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
];

/// Samples the GPUs.
pub struct Sampler(Nvml);

impl Sampler {
    /// Opens NVML, from wherever the program that is watched would load it; `None` if it is not available.
    pub fn new(around: &Surroundings<'_>) -> Option<Sampler> {
        super::nvml::open_any(around).ok().map(Sampler)
    }

    /// One sample of every GPU.
    pub fn sample(&self, seconds: f64) -> Vec<Sample> {
        let count = self.0.device_count().unwrap_or_default().min(256);
        let look = |gpu: u32| {
            let device = self.0.device_by_index(gpu).ok()?;
            let utilization = device.utilization_rates().ok();
            let memory = device.memory_info().ok();
            let reasons = device.current_throttle_reasons().unwrap_or_else(|_| ThrottleReasons::empty());
            let mut throttled_by: Vec<String> = REASONS
                .iter()
                .filter(|(bit, _)| reasons.contains(*bit))
                .map(|(_, name)| (*name).to_owned())
                .collect();
            throttled_by.dedup();
            Some(Sample {
                seconds,
                gpu,
                sm_percent: utilization.as_ref().map(|u| u.gpu),
                memory_percent: utilization.as_ref().map(|u| u.memory),
                memory_used_mib: memory.as_ref().map(|m| m.used >> 20),
                memory_total_mib: memory.as_ref().map(|m| m.total >> 20),
                power_watts: device.power_usage().ok().map(|milliwatts| f64::from(milliwatts) / 1000.0),
                sm_mhz: device.clock_info(Clock::SM).ok(),
                memory_mhz: device.clock_info(Clock::Memory).ok(),
                uncorrected_errors: device
                    .total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)
                    .ok(),
                throttled_by,
            })
        };
        (0..count).filter_map(look).collect()
    }
}
