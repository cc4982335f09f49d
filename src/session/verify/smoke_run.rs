//! Running the smoke test for `verify`.

use std::path::Path;
use std::time::Duration;

use super::judge::Judged;
use crate::model::smoke_test::{End, SmokeOutcome};
use crate::session::Interface;
use crate::session::variables;
use crate::smoke;
use crate::verify::smoke::{Wanted, plan};

/// How long a layer of the smoke test may take; `ENVLOCK_SMOKE_TIMEOUT` changes it.
const SMOKE_LIMIT_S: u64 = 300;

/// Runs the layers of the smoke test on an environment without errors.
pub(crate) fn run(prefix: &Path, judged: &Judged, wanted: Wanted, interface: &dyn Interface) -> SmokeOutcome {
    let Judged { installed, native, machine, .. } = judged;
    let has_gpus = machine.gpus.as_ref().is_some_and(|gpus| !gpus.is_empty()) && !judged.given_no_gpu;
    let seconds = variables::number("ENVLOCK_SMOKE_TIMEOUT").unwrap_or(SMOKE_LIMIT_S);
    let library = |start: &str| {
        let objects = native.process.iter().flat_map(|process| &process.objects);
        let found = objects.filter(|o| o.soname.as_deref().is_some_and(|soname| soname.starts_with(start)));
        found.map(|object| object.file.clone()).next()
    };
    let layers = smoke::Plan {
        prefix: prefix.to_path_buf(),
        python: installed.python.map(|p| p.minor),
        limit: Duration::from_secs(seconds),
        program: std::env::current_exe().unwrap_or_else(|_| "envlock".into()),
        runtime: library("libcudart.so."),
        cublas: library("libcublas.so."),
        cudnn: library("libcudnn.so."),
        frameworks: plan(installed, &judged.locked_frameworks, wanted, has_gpus),
        visible: judged.visible.clone(),
        triton: installed.distributions.iter().any(|d| d.name == "triton"),
    };
    let bar = interface.progress("smoke test");
    bar.enable_steady_tick(Duration::from_millis(100));
    let outcome = smoke::run(&layers, &mut |layer| bar.set_message(format!("smoke test: {layer}")));
    bar.finish_and_clear();
    #[cfg(unix)]
    if let End::Interrupted(signal) = outcome.end {
        // Cleanup is done; now the signal takes its default action.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    outcome
}
