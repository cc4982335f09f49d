//! The samples of `run --monitor`: the summary that is printed, and the file that is written.

use std::time::Duration;

use serde_json::json;

use crate::probe::Sample;

/// A GPU whose memory is at least this full, in percent, while its SM utilization is below [`IDLE`], gets a hint.
const FULL: u64 = 90;
const IDLE: f64 = 10.0;

/// One line for each GPU, and a hint if it was idle with its memory full.
pub(super) fn summary(samples: &[Sample], elapsed: Duration) -> Vec<String> {
    let mut out = Vec::new();
    let mut cards: Vec<u32> = samples.iter().map(|sample| sample.gpu).collect();
    cards.sort_unstable();
    cards.dedup();
    for card in cards {
        let own: Vec<&Sample> = samples.iter().filter(|sample| sample.gpu == card).collect();
        let mean = |value: &dyn Fn(&Sample) -> Option<f64>| {
            let values: Vec<f64> = own.iter().filter_map(|sample| value(sample)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let sm = mean(&|s| s.sm_percent.map(f64::from));
        let watts = mean(&|s| s.power_watts);
        let used = own.iter().filter_map(|s| s.memory_used_mib).max();
        let total = own.iter().filter_map(|s| s.memory_total_mib).max();
        let mut text = format!("GPU {card}, {:.0} s:", elapsed.as_secs_f64());
        if let Some(sm) = sm {
            text.push_str(&format!(" SM {sm:.0} % on average,"));
        }
        if let Some(memory) = mean(&|s| s.memory_percent.map(f64::from)) {
            text.push_str(&format!(" memory {memory:.0} %,"));
        }
        if let (Some(used), Some(total)) = (used, total) {
            text.push_str(&format!(" at most {used} of {total} MiB,"));
        }
        if let Some(watts) = watts {
            text.push_str(&format!(" {watts:.0} W,"));
        }
        if let Some(sm) = mean(&|s| s.sm_mhz.map(f64::from)) {
            text.push_str(&format!(" {sm:.0} MHz,"));
        }
        let mut reasons: Vec<&str> =
            own.iter().flat_map(|s| s.throttled_by.iter().map(String::as_str)).collect();
        reasons.sort_unstable();
        reasons.dedup();
        if !reasons.is_empty() {
            text.push_str(&format!(" throttled by {},", reasons.join(", ")));
        }
        let errors = own.iter().filter_map(|s| s.uncorrected_errors).max().unwrap_or_default();
        if errors > 0 {
            text.push_str(&format!(" {errors} uncorrected memory errors,"));
        }
        out.push(text.trim_end_matches([',', ':']).to_owned());
        if let (Some(sm), Some(used), Some(total)) = (sm, used, total)
            && total > 0
            && used * 100 / total >= FULL
            && sm < IDLE
        {
            out.push(format!(
                "GPU {card} was idle while its memory was full: the program waits for something else, most often for data"
            ));
        }
    }
    out
}

pub(super) fn as_json(samples: &[Sample]) -> String {
    format!("{:#}\n", json!({ "samples": samples }))
}

pub(super) fn as_csv(samples: &[Sample]) -> String {
    let mut out = String::from(
        "seconds,gpu,sm_percent,memory_percent,memory_used_mib,memory_total_mib,power_watts,sm_mhz,memory_mhz,uncorrected_errors,throttled_by\n",
    );
    let text = |value: Option<String>| value.unwrap_or_default();
    for s in samples {
        out.push_str(&format!(
            "{:.1},{},{},{},{},{},{},{},{},{},{}\n",
            s.seconds,
            s.gpu,
            text(s.sm_percent.map(|v| v.to_string())),
            text(s.memory_percent.map(|v| v.to_string())),
            text(s.memory_used_mib.map(|v| v.to_string())),
            text(s.memory_total_mib.map(|v| v.to_string())),
            text(s.power_watts.map(|v| format!("{v:.1}"))),
            text(s.sm_mhz.map(|v| v.to_string())),
            text(s.memory_mhz.map(|v| v.to_string())),
            text(s.uncorrected_errors.map(|v| v.to_string())),
            s.throttled_by.join(" ")
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_says_when_a_card_waited() {
        let sample = |seconds: f64, sm| Sample {
            seconds,
            gpu: 0,
            sm_percent: Some(sm),
            memory_used_mib: Some(79_000),
            memory_total_mib: Some(81_920),
            power_watts: Some(100.0),
            throttled_by: vec!["power cap".to_owned()],
            ..Sample::default()
        };
        let told = summary(&[sample(0.0, 4), sample(1.0, 6)], Duration::from_secs(2));
        assert_eq!(
            told[0],
            "GPU 0, 2 s: SM 5 % on average, at most 79000 of 81920 MiB, 100 W, throttled by power cap"
        );
        assert!(told[1].contains("waits for something else"));
        assert_eq!(summary(&[sample(0.0, 90)], Duration::from_secs(1)).len(), 1);
        assert!(as_csv(&[sample(0.0, 4)]).ends_with("0.0,0,4,,79000,81920,100.0,,,,power cap\n"));
        assert!(as_json(&[sample(0.0, 4)]).contains("\"sm_percent\": 4"));
    }
}
