//! What the GPUs are doing, moment by moment, by NVML.

use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError};
use serde::Serialize;

/// One look at one card. What its library does not tell is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Seconds since the start.
    pub seconds: f64,
    /// NVML's index.
    pub gpu: u32,
    /// How much of the time some kernel ran, in percent.
    pub sm_percent: Option<u32>,
    /// How much of the time memory was read or written, in percent.
    pub memory_percent: Option<u32>,
    /// Memory in use in MiB.
    pub memory_used_mib: Option<u64>,
    /// Memory in all in MiB.
    pub memory_total_mib: Option<u64>,
    /// Power in watts.
    pub power_watts: Option<f64>,
    /// The processors' clock in MHz.
    pub sm_mhz: Option<u32>,
    /// The memory's clock in MHz.
    pub memory_mhz: Option<u32>,
    /// Uncorrected memory errors since the driver was loaded.
    pub uncorrected_errors: Option<u64>,
    /// What keeps the clock down.
    pub throttled_by: Vec<String>,
}

/// Reasons that are worth a word, as a person knows them.
const REASONS: [(ThrottleReasons, &str); 5] = [
    (ThrottleReasons::SW_POWER_CAP, "power cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hardware slowdown"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "heat"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "heat"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "power brake"),
];

/// Looks at the cards.
pub struct Sampler(Nvml);

impl Sampler {
    /// Nothing where NVML is not there.
    pub fn new() -> Option<Sampler> {
        super::nvml::open(std::path::Path::new("/")).ok().map(Sampler)
    }

    /// One look at every card.
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
