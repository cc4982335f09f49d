//! Detects whether cuDNN is used: compares time and kernels of a convolution with and without cuDNN.
//!
//! No fixed ratio is right for every GPU and release: torch's own kernels have beaten cuDNN on a healthy V100
//! (pytorch/pytorch#32370). So the threshold is measured: batches with and without cuDNN alternate, and a ratio is
//! significant if it exceeds the spread between batches of one kind. A failure needs both signs: the same kernels and
//! the same time.

use serde::{Deserialize, Serialize};

/// Maximum number of batches and of kernel names kept for a case.
const MAX_ENTRIES: usize = 64;

/// A convolution that was run alternately with and without cuDNN.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Compared {
    /// `first-layer`, `training`.
    pub case: String,
    /// `cuda:0`.
    pub device: String,
    /// Seconds of each batch with cuDNN.
    pub with: Vec<f64>,
    /// Seconds of each batch without it.
    pub without: Vec<f64>,
    /// Names of the kernels that ran with cuDNN; empty if the profiler recorded none.
    pub kernels_with: Vec<String>,
    /// Names of the kernels that ran without cuDNN; empty if the profiler recorded none.
    pub kernels_without: Vec<String>,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CudnnUse {
    /// cuDNN is used: other kernels ran, or the run with cuDNN was significantly faster.
    Used,
    /// cuDNN is not used: the same kernels ran in the same time.
    NotUsed,
    /// Undecided: the time is the same, and the kernels are unknown.
    Open,
}

/// The verdict on a comparison, with the figures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    pub verdict: CudnnUse,
    /// Median time without cuDNN divided by median time with cuDNN.
    pub ratio: f64,
    /// The threshold for `ratio`: the largest ratio of two batches of one kind.
    pub spread: f64,
}

impl Compared {
    /// The verdict; `None` if the times are missing or invalid.
    pub(super) fn judge(&self) -> Option<Judged> {
        let (with, without) = (Times::of(&self.with)?, Times::of(&self.without)?);
        let ratio = without.median / with.median;
        let spread = with.spread.max(without.spread);
        let faster = ratio > spread;
        let known = !self.kernels_with.is_empty() && !self.kernels_without.is_empty();
        let verdict = match (known, sorted(&self.kernels_with) == sorted(&self.kernels_without)) {
            (true, false) => CudnnUse::Used,
            _ if faster => CudnnUse::Used,
            (true, true) => CudnnUse::NotUsed,
            (false, _) => CudnnUse::Open,
        };
        Some(Judged { verdict, ratio, spread })
    }

    /// The comparison as text, for a check's detail.
    pub(super) fn describe(&self, judged: &Judged) -> String {
        let Judged { verdict, ratio, spread } = judged;
        let kernels = |names: &[String]| {
            let mut text = names.iter().take(3).map(|name| brief(name)).collect::<Vec<_>>().join(", ");
            if names.len() > 3 {
                text.push_str(&format!(" and {} more", names.len() - 3));
            }
            text
        };
        match verdict {
            CudnnUse::Used => {
                let ran = kernels(&self.kernels_with);
                format!(
                    "cuDNN {ratio:.1}x (spread {spread:.2}x){}",
                    if ran.is_empty() { ran } else { format!(": {ran}") }
                )
            }
            CudnnUse::NotUsed => format!(
                "cuDNN changes nothing: the same kernels run with and without it ({}), in the same time \
                 ({ratio:.2}x; batches of one kind differ by up to {spread:.2}x)",
                kernels(&self.kernels_with)
            ),
            CudnnUse::Open => format!(
                "cuDNN {ratio:.2}x, within the spread of {spread:.2}x; the profiler recorded no kernels"
            ),
        }
    }

    /// Truncates the lists: the child's output is untrusted.
    pub(super) fn bounded(mut self) -> Compared {
        for times in [&mut self.with, &mut self.without] {
            times.truncate(MAX_ENTRIES);
        }
        for kernels in [&mut self.kernels_with, &mut self.kernels_without] {
            kernels.truncate(MAX_ENTRIES);
        }
        self
    }
}

/// Statistics of the batches of one kind.
struct Times {
    median: f64,
    /// Longest time divided by shortest.
    spread: f64,
}

impl Times {
    fn of(seconds: &[f64]) -> Option<Times> {
        let mut sorted = seconds.to_vec();
        // Also rejects NaN.
        if sorted.is_empty() || !sorted.iter().all(|s| s.is_finite() && *s > 0.0) {
            return None;
        }
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median =
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 };
        Some(Times { median, spread: sorted[sorted.len() - 1] / sorted[0] })
    }
}

fn sorted(names: &[String]) -> std::collections::BTreeSet<&str> {
    names.iter().map(String::as_str).collect()
}

/// A kernel's name without namespaces and types: `im2col_kernel` for
/// `void at::native::im2col_kernel<float>(long, ...)`.
fn brief(name: &str) -> String {
    let name = name.strip_prefix("void ").unwrap_or(name);
    let end = name.find(['<', '(']).unwrap_or(name.len());
    let bare = name[..end].rsplit("::").next().unwrap_or(name);
    crate::model::text::clean(if bare.is_empty() { name } else { bare }, 48)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(with: &[f64], without: &[f64], kernels: [&[&str]; 2]) -> Compared {
        let names = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        Compared {
            case: "training".into(),
            device: "cuda:0".into(),
            with: with.to_vec(),
            without: without.to_vec(),
            kernels_with: names(kernels[0]),
            kernels_without: names(kernels[1]),
        }
    }

    #[test]
    fn not_used_needs_same_kernels_and_same_time() {
        let cudnn: &[&str] = &["sm80_xmma_fprop_implicit_gemm_f32f32"];
        let own: &[&str] = &["void at::native::im2col_kernel<float>(long)", "ampere_sgemm_128x64_nn"];
        // Seconds with and without, kernels with and without, the verdict.
        type Row<'a> = (&'a [f64], &'a [f64], [&'a [&'a str]; 2], CudnnUse);
        let table: [Row<'_>; 8] = [
            (&[1.0, 1.1, 1.0], &[9.0, 9.1, 9.2], [cudnn, own], CudnnUse::Used),
            (&[9.0, 9.1, 9.2], &[9.1, 9.0, 9.2], [own, own], CudnnUse::NotUsed),
            // The order of kernels does not matter.
            (&[9.0], &[9.0], [own, &["ampere_sgemm_128x64_nn", own[0]]], CudnnUse::NotUsed),
            // A slow cuDNN is still used.
            (&[9.0, 9.1], &[3.0, 3.1], [cudnn, own], CudnnUse::Used),
            // Much faster with the same kernel names: other kernels ran.
            (&[1.0, 1.1], &[9.0, 9.1], [own, own], CudnnUse::Used),
            // A factor of 2 with a spread of 3 is not significant.
            (&[1.0, 3.0, 1.0], &[2.0, 2.1, 2.0], [own, own], CudnnUse::NotUsed),
            (&[1.0, 1.1], &[9.0, 9.1], [&[], &[]], CudnnUse::Used),
            (&[9.0, 9.1], &[9.0, 9.1], [&[], own], CudnnUse::Open),
        ];
        for (with, without, kernels, verdict) in table {
            let compared = compared(with, without, kernels);
            assert_eq!(compared.judge().unwrap().verdict, verdict, "{compared:?}");
        }
        for times in [&[][..], &[0.0], &[f64::NAN], &[-1.0], &[f64::INFINITY]] {
            assert_eq!(compared(times, &[1.0], [own, own]).judge(), None, "{times:?}");
        }
    }

    #[test]
    fn in_words() {
        let own: &[&str] = &["void at::native::im2col_kernel<float>(long)", "ampere_sgemm_128x64_nn"];
        let same = compared(&[2.0, 2.1], &[2.0, 2.0], [own, own]);
        assert_eq!(
            same.describe(&same.judge().unwrap()),
            "cuDNN changes nothing: the same kernels run with and without it (im2col_kernel, \
             ampere_sgemm_128x64_nn), in the same time (0.98x; batches of one kind differ by up to 1.05x)"
        );
        let used = compared(&[1.0], &[4.1], [&["a", "b", "c", "d"], own]);
        assert_eq!(used.describe(&used.judge().unwrap()), "cuDNN 4.1x (spread 1.00x): a, b, c and 1 more");
    }
}
