//! `envlock image`: prints what is in a container image, and whether it runs on a machine.

mod report;

use crate::cli::args::ImageArgs;
use crate::cli::printer::Printer;
use crate::session::exit;
use crate::session::failure::Failure;
use crate::session::image::{self, ImageOptions};
use crate::session::options::Global;
use crate::verify::Verdict;
use report::Shown;

/// Variables of an image that decide which GPUs and libraries its programs see.
const TOLD: [&str; 9] = [
    "CUDA_HOME",
    "CUDA_VERSION",
    "CUDA_VISIBLE_DEVICES",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "NVIDIA_DRIVER_CAPABILITIES",
    "NVIDIA_REQUIRE_CUDA",
    "NVIDIA_VISIBLE_DEVICES",
    "PYTHONPATH",
];
pub(super) fn run(global: &Global, args: &ImageArgs, printer: &Printer) -> Result<u8, Failure> {
    let options = ImageOptions {
        path: args.path.clone(),
        lock: args.lock.clone(),
        host: args.host.clone(),
        prefix: args.prefix.clone(),
        tag: args.tag.clone(),
        platform: args.platform,
        target: args.target.clone(),
    };
    let answer = image::judge(global, &options, printer)?;
    match printer.json {
        true => printer.json(&Shown(&answer).json()),
        false => Shown(&answer).text(&args.path, printer),
    }
    Ok(match answer.verdict() {
        Verdict::Ok => exit::YES,
        Verdict::Differs => exit::NO,
        Verdict::Unknown => exit::NOT_KNOWN,
    })
}
