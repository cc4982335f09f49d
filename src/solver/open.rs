//! Whether a refusal is one: what nobody read may meet the request.

use super::inputs::{Catalogue, Depth, Inputs};
use super::{Budget, Memory, Question, Universe, requested};
use crate::compatibility::{Beyond, Open, Supposed, UnknownGpu};
use crate::model::host::Host;
use crate::model::request::{Preferences, Request};
use crate::model::solution::Solution;
use crate::registry::Registry;
use crate::solver::pythons::Outcome;

/// What may meet a request whose stack is refused, as far as the data knows: what is not known of a known build, else a companion,
/// else a build that no row has. `None` where the refusal rests on nothing of the kind, and where the stack is not refused.
///
/// What PyPI has is known where its pages were read (`has_read_index`).
pub fn open_question(
    registry: &Registry,
    host: &Host,
    request: &Request,
    has_read_index: bool,
) -> Option<Open> {
    let suppose = |beyond| {
        let supposed = Supposed::new(registry, host, request, has_read_index, beyond)?;
        let solution = solution(&supposed.registry, &supposed.host, request)?;
        supposed.assumed_by(&solution)
    };
    // What all of it together does not meet, no part of it does.
    let widest = suppose(Beyond::Builds)?;
    // A solve takes a GPU of which nothing is known as one that runs all.
    if UnknownGpu::of(registry, host).is_none() && solution(registry, host, request).is_some() {
        return None;
    }
    suppose(Beyond::Facts).or_else(|| suppose(Beyond::Companions)).or(Some(widest))
}

/// The answer of the stack alone; `None` if it is refused, for whatever cause.
fn solution(registry: &Registry, host: &Host, request: &Request) -> Option<Box<Solution>> {
    let catalogue = Catalogue::new(registry, host.system.platform);
    let preferences = Preferences::default();
    let inputs = Inputs {
        catalogue: &catalogue,
        universe: &Universe::default(),
        memory: &Memory::default(),
        budget: &Budget::default(),
        question: &Question::new(host, request, &preferences),
    };
    match requested::attempt_fairly(&inputs, &catalogue.tables, Depth::Stack) {
        Outcome::Solved(solution) => Some(solution),
        Outcome::Impossible | Outcome::Need(_) | Outcome::TooLong => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compatibility::{LackingRow, Unread, UnreadBuild, UnreadCompanion};
    use crate::model::host::{Driver, Gpu};
    use crate::model::platform::Platform;
    use crate::model::request::{Limit, Origin, PythonRequest, UserRequirement};
    use crate::registry::LearnedRow;

    fn of_torch(
        registry: &Registry,
        host: &Host,
        request: &Request,
        has_read_index: bool,
    ) -> Option<UnreadBuild> {
        match open_question(registry, host, request, has_read_index)? {
            Open::Build(build) => Some(build),
            Open::Companion(companion) => panic!("{companion}"),
        }
    }

    fn of_companion(registry: &Registry, request: &Request, has_read_index: bool) -> Option<UnreadCompanion> {
        let host = Host::open(Platform::LINUX_X86_64, "t");
        match open_question(registry, &host, request, has_read_index)? {
            Open::Companion(companion) => Some(companion),
            Open::Build(build) => panic!("{build}"),
        }
    }

    fn machine(gpu: &str, driver: &str, platform: Platform) -> Host {
        let mut host = Host::open(platform, "t");
        host.driver =
            Some(Driver { version: driver.parse().unwrap(), cuda: None, compat: None, found_by: "t".into() });
        host.gpus = Some(vec![Gpu::of_capability(gpu.parse().unwrap(), "t")]);
        host
    }

    #[test]
    fn what_no_row_says_is_open_unless_cuda_decides() {
        use Unread::{Build, Needs, Newer, Older};
        let registry = crate::registry::frozen();
        let arm: Platform = "linux-aarch64".parse().unwrap();
        let x86 = Platform::LINUX_X86_64;
        for (torch, variant, gpu, driver, platform, expected) in [
            // A variant, a release and a nightly that no row has.
            ("torch==2.9.0", Some("cu129"), "9.0", "550.163.01", x86, Some(Build)),
            ("torch==2.9.0+cu129", None, "9.0", "550.163.01", x86, Some(Build)),
            ("torch==2.99.0", None, "9.0", "580.65.06", x86, Some(Build)),
            ("torch==2.6.0.dev20241112", Some("cu124"), "9.0", "550.54.15", x86, Some(Build)),
            // The release is for newer Pythons, whatever its builds are.
            ("torch==2.9.0 --python 3.8", Some("cu129"), "9.0", "550.163.01", x86, None),
            // The driver is below the floor of CUDA 12, and CUDA 13 does not compile for Volta.
            ("torch==2.9.0", Some("cu129"), "8.0", "470.57.02", x86, None),
            ("torch==2.99.0", Some("cu130"), "7.0", "580.65.06", x86, None),
            // A row has it.
            ("torch==2.9.1", Some("cu128"), "9.0", "580.65.06", x86, None),
            // A newer release may be for a newer Python, but not for an older machine.
            ("torch>=2.14 --python 3.18", None, "9.0", "580.65.06", x86, Some(Newer)),
            ("torch --python 3.18", None, "9.0", "580.65.06", x86, Some(Newer)),
            ("torch>=2.14 --python 3.7", None, "9.0", "580.65.06", x86, None),
            ("torch>=2.14,<2.15 --python 3.18", None, "9.0", "580.65.06", x86, None),
            ("torch>=2.14 --python 3.18", None, "3.7", "470.57.02", x86, None),
            // Two pins of one build.
            ("torch==2.99.0 --also torch==2.99.0+cu130", None, "9.0", "580.65.06", x86, Some(Build)),
            // Nobody read for which GPUs these builds have code; none has code for Orin.
            ("torch==2.9.1", None, "9.0", "580.65.06", arm, Some(Needs)),
            ("torch==2.9.1", Some("cu126"), "8.7", "580.65.06", arm, None),
        ] {
            let (torch, also) = torch.split_once(" --also ").map_or((torch, None), |(a, b)| (a, Some(b)));
            let (torch, python) = torch.split_once(" --python ").unwrap_or((torch, ">=3.8"));
            let request = Request {
                requirements: [Some(torch), also]
                    .into_iter()
                    .flatten()
                    .map(|line| UserRequirement::parse(line, Origin::Question).unwrap())
                    .collect(),
                python: Some(PythonRequest::parse(python, Origin::Question).unwrap()),
                variant: variant.map(|v| Limit { value: v.to_owned(), origin: Origin::Question }),
                ..Request::default()
            };
            let host = machine(gpu, driver, platform);
            let found = of_torch(&registry, &host, &request, false);
            let shown = format!("{torch} {variant:?} on {gpu}, {driver}, {platform}: {found:?}");
            assert_eq!(found.map(|build| build.what), expected, "{shown}");
        }
        // Bounds that exclude each other admit no release that may exist.
        let request = Request {
            requirements: vec![UserRequirement::parse("torch>=2.99,<2.98", Origin::Question).unwrap()],
            ..Request::default()
        };
        assert_eq!(of_torch(&registry, &machine("9.0", "580.65.06", x86), &request, false), None);
        // What PyPI does not have may be on the pytorch index.
        for (torch, only, gpu, expected) in [
            ("torch==2.99.0", None, "9.0", Some(Build)),
            ("torch>=2.99", None, "9.0", Some(Build)),
            ("torch==2.99.0", Some("pypi"), "9.0", None),
            ("torch<1.8", None, "7.0", Some(Older)),
            // Of what is older, PyPI is read where nothing else is asked for.
            ("torch<1.14", Some("pypi"), "3.5", Some(Older)),
            ("torch<1.8", Some("pypi"), "7.0", None),
            // What is older than the data has no code for a newer GPU.
            ("torch<1.8", None, "9.0", None),
            // Where PyPI was read, its builds are known.
            ("torch>=2.9", None, "9.0", None),
        ] {
            let request = Request {
                requirements: vec![UserRequirement::parse(torch, Origin::Question).unwrap()],
                only_index: only.map(|only| Limit { value: only.parse().unwrap(), origin: Origin::Question }),
                ..Request::default()
            };
            let found = of_torch(&registry, &machine(gpu, "580.65.06", x86), &request, true);
            assert_eq!(found.map(|build| build.what), expected, "{torch} {only:?}");
        }
    }

    #[test]
    fn a_companion_without_a_row_may_exist() {
        let frozen = crate::registry::frozen();
        let row = "[[build]]\nversion = \"2.99.0\"\nvariant = \"cpu\"\nplatform = \"linux-x86_64\"\n\
                   index = \"pypi\"\nevidence = \"measured\"\nsource = []\n";
        let learned = frozen.with_rows(&[LearnedRow::parse("torch", row.to_owned()).unwrap()]);
        for (lines, is_open) in [
            (&["torch==2.99.0", "torchvision"][..], true),
            (&["torch==2.99.0", "torchvision>=0.20"], true),
            // Its row is for another torch.
            (&["torch==2.99.0", "torchvision==0.24.1"], false),
            (&["torch==2.99.0", "torchvision<0.25"], false),
            (&["torch==2.99.0"], false),
            (&["torch==2.9.1", "torchvision"], false),
            (&["torch", "torchvision"], false),
        ] {
            let requirements =
                lines.iter().map(|line| UserRequirement::parse(line, Origin::Question).unwrap()).collect();
            let request = Request { requirements, ..Request::default() };
            let found = of_companion(&learned, &request, false);
            let expected = UnreadCompanion {
                package: "torchvision",
                bounds: lines.get(1).map_or("", |line| &line["torchvision".len()..]).to_owned(),
                torch: Some("2.99.0".parse().unwrap()),
                lacks: LackingRow::OfCompanion,
            };
            assert_eq!(found, is_open.then_some(expected), "{lines:?}");
        }
    }

    /// What stands between known rows may be missing: a variant, a platform, a companion. What ended does not.
    #[test]
    fn what_is_missing_between_known_rows_may_exist() {
        let frozen = crate::registry::frozen();
        let windows: Platform = "windows-x86_64".parse().unwrap();
        let mac: Platform = "macos-x86_64".parse().unwrap();
        let x86 = Platform::LINUX_X86_64;
        let without = |registry: &Registry, release: &str, variant: &str, platform: Option<Platform>| {
            let is_it = |build: &&crate::registry::Cited<crate::registry::Build>| {
                build.version.to_string().starts_with(release)
                    && build.variant.starts_with(variant)
                    && platform.is_none_or(|own| own == build.platform)
            };
            let builds = registry.builds().iter().filter(|build| !is_it(build)).cloned().collect();
            registry.with_torch(builds, registry.companions().to_vec())
        };
        let of_frozen = |release, variant, platform| without(&frozen, release, variant, platform);
        let embedded = Registry::embedded();
        let shipped = without(&embedded, "2.14.", "cu126", None);
        let mut lone = frozen.builds().to_vec();
        lone.iter_mut().filter(|build| build.version.to_string() == "2.9.1").for_each(|build| {
            build.torchvision = None;
        });
        let is_other = |row: &&crate::registry::Cited<crate::registry::Companion>| {
            row.package != "torchvision" || row.version.to_string() != "0.24.1"
        };
        let lone = frozen.with_torch(lone, frozen.companions().iter().filter(is_other).cloned().collect());
        for (registry, asked, gpu, driver, platform, is_open) in [
            (&frozen, &["torch==2.9.1"][..], "6.0", "535.54.03", x86, false),
            (&of_frozen("2.9.", "cu126", None), &["torch==2.9.1"], "6.0", "535.54.03", x86, true),
            (&of_frozen("2.9.", "cu126", None), &["torch>=2.9,<2.10"], "6.0", "535.54.03", x86, true),
            // The data says that 2.14 has builds for these GPUs, and newer releases have none.
            (&shipped, &["torch==2.14.1"], "7.0", "580.65.06", x86, true),
            (&embedded, &["torch==2.15.0"], "7.0", "580.65.06", x86, false),
            // Another release of the series has the variant, the first and the last of its builds.
            (&of_frozen("2.7.1", "cu118", None), &["torch==2.7.1"], "8.0", "450.80.02", x86, true),
            (&of_frozen("2.7.0", "cu128", None), &["torch==2.7.0"], "12.0", "580.65.06", x86, true),
            (&frozen, &["torch==2.6.0"], "12.0", "580.65.06", x86, false),
            (&frozen, &["torch==2.8.0"], "8.0", "450.80.02", x86, false),
            (&of_frozen("2.9.", "cu", Some(windows)), &["torch==2.9.1"], "8.9", "580.88", windows, true),
            (&of_frozen("2.9.", "", Some(windows)), &["torch==2.9.1"], "8.9", "580.88", windows, true),
            // Intel's Macs have no newer release.
            (&frozen, &["torch==2.9.1"], "8.9", "580.88", mac, false),
            (&of_frozen("2.2.2", "", Some(mac)), &["torch==2.2.2"], "none", "", mac, true),
            (&of_frozen("2.2.2", "", Some(mac)), &["torch==2.3.0"], "none", "", mac, false),
            (&of_frozen("2.15", "", Some(windows)), &["torch==2.15.0"], "8.9", "596.49", windows, true),
            (&lone, &["torchvision==0.24.1"], "9.0", "580.65.06", x86, true),
            (&lone, &["torch==2.9.1", "torchvision"], "9.0", "580.65.06", x86, true),
            (&lone, &["torch==2.9.1", "torchvision==0.24.1"], "9.0", "580.65.06", x86, true),
            (&lone, &["torch==2.9.1", "torchvision==0.24.0"], "9.0", "580.65.06", x86, false),
            (&frozen, &["torchvision==0.24.7"], "9.0", "580.65.06", x86, true),
        ] {
            let requirements =
                asked.iter().map(|line| UserRequirement::parse(line, Origin::Question).unwrap()).collect();
            let request = Request { requirements, ..Request::default() };
            let host = match gpu {
                "none" => Host { gpus: Some(Vec::new()), ..Host::open(platform, "t") },
                gpu => machine(gpu, driver, platform),
            };
            let found = open_question(registry, &host, &request, false);
            assert_eq!(found.is_some(), is_open, "{asked:?} on {gpu}, {driver}, {platform}: {found:?}");
        }
    }

    #[test]
    fn a_torch_that_a_known_companion_needs_may_exist() {
        let frozen = crate::registry::frozen();
        let row = |version: &str, torch: &str, variant: &str| {
            let row = format!(
                "[[companion]]\npackage = \"torchvision\"\nversion = \"{version}\"\ntorch = \"{torch}\"\n\
                 variant = \"{variant}\"\nplatform = \"linux-x86_64\"\nevidence = \"measured\"\nsource = []\n"
            );
            LearnedRow::parse("torchvision", row).unwrap()
        };
        let learned =
            frozen.with_rows(&[row("0.6.1", "==1.5.1", "cu102"), row("0.99.0", "==2.98.0", "cu130")]);
        for (lines, has_read_index, lacks) in [
            (&["torchvision==0.6.1"][..], true, Some(("0.6.1", "==1.5.1"))),
            (&["torchvision==0.99.0"], false, Some(("0.99.0", "==2.98.0"))),
            // The index was asked: what is newer was read.
            (&["torchvision==0.99.0"], true, None),
            // The request excludes that torch.
            (&["torchvision==0.99.0", "torch<2.98"], false, None),
        ] {
            let requirements =
                lines.iter().map(|line| UserRequirement::parse(line, Origin::Question).unwrap()).collect();
            let request = Request { requirements, ..Request::default() };
            let found = of_companion(&learned, &request, has_read_index);
            let lacks = lacks.map(|(version, bounds)| {
                LackingRow::OfTorch(version.parse().unwrap(), bounds.parse().unwrap())
            });
            assert_eq!(found.map(|found| found.lacks), lacks, "{lines:?}");
        }
    }
}
