//! TensorFlow and JAX's plugins: every row of the shipped registry, every capability, every driver branch.

use std::sync::Arc;

use envlock::compatibility::check_host;
use envlock::model::host::{Gpu, Host};
use envlock::model::metadata::CoreMetadata;
use envlock::model::platform::Platform;
use envlock::model::project::{ProjectPage, RawFile};
use envlock::model::request::{Preferences, Request};
use envlock::model::solution::Answer;
use envlock::registry::{CudaFrom, FrameworkBuild, Registry};
use envlock::solver::{Budget, Catalogue, Depth, Inputs, Memory, Question, Universe, solve};

use super::rules::BruteForce;
use super::shipped::drivers;
use super::worlds::requirement;

/// The first release that a row speaks of: `2.9.0` of `==2.9.*`, `0.6` of `>=0.6,<0.7.1`.
fn release(row: &FrameworkBuild) -> String {
    row.versions.iter().next().unwrap().version().to_string()
}

/// A page with one wheel of a release, which has the extra where the row asks for one.
fn universe(row: &FrameworkBuild) -> Universe<'static> {
    let (package, version) = (&row.package, release(row));
    let filename = format!("{}-{version}-py3-none-any.whl", package.replace('-', "_"));
    let extra = match &row.cuda_from {
        CudaFrom::Extra(name) => format!("Provides-Extra: {name}\n"),
        _ => String::new(),
    };
    let text = format!("Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{extra}");
    let universe = Universe::default();
    universe.add_metadata(
        "pypi",
        &filename,
        Ok(Arc::new(CoreMetadata::parse(&text, "0".repeat(64)).unwrap())),
    );
    let file = RawFile {
        url: format!("http://host/{filename}"),
        filename,
        has_metadata: true,
        ..RawFile::default()
    };
    universe.add_page("pypi", package, Some(Arc::new(ProjectPage::from_files(package, [file]))));
    universe
}

/// Of the drivers one in so many is tried with each GPU.
const STEP: usize = 7;

#[test]
fn frameworks_run_exactly_where_their_rows_say() {
    let registry = Registry::embedded();
    let catalogue = Catalogue::new(&registry, Platform::LINUX_X86_64);
    let drivers = drivers(&registry);
    let capabilities: Vec<_> = registry.architectures().iter().flat_map(|a| a.capabilities.clone()).collect();
    let (mut runs, mut not) = (0, 0);
    for row in registry.frameworks().iter().filter(|row| row.platform == Platform::LINUX_X86_64) {
        let universe = universe(row);
        let extra = match &row.cuda_from {
            CudaFrom::Extra(name) => format!("[{name}]"),
            _ => String::new(),
        };
        let request = Request {
            requirements: vec![requirement(&format!("{}{extra}=={}", row.package, release(row)))],
            ..Request::default()
        };
        for (i, capability) in capabilities.iter().enumerate() {
            // Every seventh combination, others in other rows; all of them take two minutes.
            for driver in drivers.iter().skip(i % STEP).step_by(STEP) {
                let mut host = Host::open(Platform::LINUX_X86_64, "proof");
                host.driver = Some(driver.clone());
                host.gpus = Some(vec![Gpu {
                    index: 0,
                    name: None,
                    capability: Some(*capability),
                    memory_mib: None,
                    uuid: None,
                    pci_id: None,
                    found_by: "proof".into(),
                }]);
                if check_host(&registry, &host).is_err() {
                    continue;
                }
                let question = BruteForce { registry: &registry, host: &host, request: &request };
                let cuda = &row.cuda;
                let (sass, ptx) = (&row.targets.sass, &row.targets.ptx);
                let by_code = question.serves(sass, ptx, *capability, question.native(Some(cuda)));
                let floor = row.cudnn.as_ref().and_then(|v| registry.cudnn_floor(v));
                let expected = question.driver_allows(cuda)
                    && by_code
                    && floor.is_none_or(|floor| *capability >= floor.min);
                let nothing_kept = Preferences::default();
                let inputs = Inputs {
                    catalogue: &catalogue,
                    universe: &universe,
                    memory: &Memory::default(),
                    budget: &Budget::default(),
                    question: &Question::new(&host, &request, &nothing_kept),
                };
                let place =
                    || format!("{} {} on {capability}, driver {}", row.package, row.versions, driver.version);
                match solve(&inputs, Depth::Full) {
                    Answer::Solution(solution) => {
                        assert!(expected, "{}: solved", place());
                        assert_eq!(solution.frameworks.len(), 1, "{}", place());
                        // What is promised to any machine holds of this one.
                        let promised =
                            solution.envelope.coverage.iter().find(|c| c.compute_capability == *capability);
                        assert!(promised.is_some(), "{}", place());
                        let enough = promised
                            .and_then(|c| c.driver_min.as_ref())
                            .is_none_or(|min| driver.version >= *min);
                        assert!(enough, "{}: {promised:?}", place());
                        runs += 1;
                    }
                    Answer::Conflict(conflict) => {
                        assert!(!expected, "{}: {:?}", place(), conflict.reasons);
                        not += 1;
                    }
                    other => panic!("{}: {other:?}", place()),
                }
            }
        }
    }
    assert!(runs > 200 && not > 200, "{runs} run, {not} do not");
}
