//! Does cuDNN do the work? The same convolution timed with cuDNN and without it, and the kernels that ran.
//!
//! No fixed ratio would be right for every card and every release: torch's own kernels have beaten cuDNN on a
//! healthy V100 (pytorch/pytorch#32370). So the threshold is measured with the ratio. Batches with and without
//! cuDNN take turns, and how far batches of one kind lie apart is what a ratio has to exceed to mean anything. The
//! kernels are the second witness, and only both together convict: the same kernels in the same time.

use serde::{Deserialize, Serialize};

/// What no more is kept of: batches of a case, kernels of a case.
const MAX_ENTRIES: usize = 64;

/// A convolution that was run with cuDNN and without it, in turns.
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
    /// The names of the kernels that ran with cuDNN; empty where the profiler saw none.
    pub kernels_with: Vec<String>,
    /// The same without it.
    pub kernels_without: Vec<String>,
}

/// What a comparison says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Verdict {
    /// cuDNN's kernels ran, or the time can only be explained by them.
    Used,
    /// The same kernels in the same time: switched on, cuDNN changes nothing.
    NotUsed,
    /// The time is the same and nothing says which kernels ran.
    Open,
}

/// A comparison in figures.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Judged {
    pub verdict: Verdict,
    /// How many times as long it takes without cuDNN, by the medians.
    pub ratio: f64,
    /// The measured threshold: the largest ratio of two batches of one kind.
    pub spread: f64,
}

impl Compared {
    /// Judges the comparison; `None` where the times are none.
    pub(super) fn judge(&self) -> Option<Judged> {
        let (with, without) = (Times::of(&self.with)?, Times::of(&self.without)?);
        let ratio = without.median / with.median;
        let spread = with.spread.max(without.spread);
        let faster = ratio > spread;
        let known = !self.kernels_with.is_empty() && !self.kernels_without.is_empty();
        let verdict = match (known, sorted(&self.kernels_with) == sorted(&self.kernels_without)) {
            (true, false) => Verdict::Used,
            _ if faster => Verdict::Used,
            (true, true) => Verdict::NotUsed,
            (false, _) => Verdict::Open,
        };
        Some(Judged { verdict, ratio, spread })
    }

    /// The comparison in words, for a check's detail.
    pub(super) fn told(&self, judged: &Judged) -> String {
        let Judged { verdict, ratio, spread } = judged;
        let kernels = |names: &[String]| {
            let mut text = names.iter().take(3).map(|name| brief(name)).collect::<Vec<_>>().join(", ");
            if names.len() > 3 {
                text.push_str(&format!(" and {} more", names.len() - 3));
            }
            text
        };
        match verdict {
            Verdict::Used => {
                let ran = kernels(&self.kernels_with);
                format!(
                    "cuDNN {ratio:.1}x (spread {spread:.2}x){}",
                    if ran.is_empty() { ran } else { format!(": {ran}") }
                )
            }
            Verdict::NotUsed => format!(
                "cuDNN changes nothing: with it and without it the same kernels run ({}) in the same time \
                 ({ratio:.2}x, while batches of one kind differ by up to {spread:.2}x)",
                kernels(&self.kernels_with)
            ),
            Verdict::Open => format!(
                "cuDNN {ratio:.2}x, not told apart from a spread of {spread:.2}x, and the profiler saw no kernels"
            ),
        }
    }

    /// Bounds what a child may make us keep.
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

/// Batches of one kind.
struct Times {
    median: f64,
    /// The longest by the shortest.
    spread: f64,
}

impl Times {
    fn of(seconds: &[f64]) -> Option<Times> {
        let mut sorted = seconds.to_vec();
        // Also turns away what is no number.
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

/// A kernel's name without its types: `void at::native::im2col_kernel<float>(long, ...)` is `im2col_kernel`.
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
    fn both_witnesses_convict() {
        let cudnn: &[&str] = &["sm80_xmma_fprop_implicit_gemm_f32f32"];
        let own: &[&str] = &["void at::native::im2col_kernel<float>(long)", "ampere_sgemm_128x64_nn"];
        // Seconds with and without, kernels with and without, the verdict.
        type Row<'a> = (&'a [f64], &'a [f64], [&'a [&'a str]; 2], Verdict);
        let table: [Row<'_>; 8] = [
            (&[1.0, 1.1, 1.0], &[9.0, 9.1, 9.2], [cudnn, own], Verdict::Used),
            (&[9.0, 9.1, 9.2], &[9.1, 9.0, 9.2], [own, own], Verdict::NotUsed),
            // In another order they are the same kernels.
            (&[9.0], &[9.0], [own, &["ampere_sgemm_128x64_nn", own[0]]], Verdict::NotUsed),
            // cuDNN that is slow is cuDNN that is used.
            (&[9.0, 9.1], &[3.0, 3.1], [cudnn, own], Verdict::Used),
            // Much faster with the same names: whatever they are called, something else ran.
            (&[1.0, 1.1], &[9.0, 9.1], [own, own], Verdict::Used),
            // Twice as fast on a machine that wavers by three says nothing.
            (&[1.0, 3.0, 1.0], &[2.0, 2.1, 2.0], [own, own], Verdict::NotUsed),
            (&[1.0, 1.1], &[9.0, 9.1], [&[], &[]], Verdict::Used),
            (&[9.0, 9.1], &[9.0, 9.1], [&[], own], Verdict::Open),
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
            same.told(&same.judge().unwrap()),
            "cuDNN changes nothing: with it and without it the same kernels run (im2col_kernel, \
             ampere_sgemm_128x64_nn) in the same time (0.98x, while batches of one kind differ by up to 1.05x)"
        );
        let used = compared(&[1.0], &[4.1], [&["a", "b", "c", "d"], own]);
        assert_eq!(used.told(&used.judge().unwrap()), "cuDNN 4.1x (spread 1.00x): a, b, c and 1 more");
    }
}
