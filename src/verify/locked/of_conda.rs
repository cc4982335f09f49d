//! Frameworks that are conda packages in another tool's lock, and what conda packages ask of the machine.

use pep440_rs::Version;
use semver::Version as Semver;

use super::of_frameworks::framework;
use super::{Locked, NoCuda};
use crate::compatibility::{Needs, Policy, UnreadSpec, asked_driver, required_driver, with_machine_specs};
use crate::formats::CondaRecord;
use crate::model::conda::CUDNN;
use crate::model::evidence::Evidence;
use crate::model::platform::{Os, Platform};
use crate::model::solution::Envelope;
use crate::model::version::DottedVersion;
use crate::registry::Registry;
use crate::registry::conda_names::{OfFramework, framework_packages};

impl Locked<'_> {
    /// Frameworks that are conda packages. Which GPUs their code is for is not in the registry.
    pub(super) fn conda_frameworks(&mut self, registry: &Registry, platform: Platform) -> Vec<Envelope> {
        let toolkit = self.conda.iter().find(|record| record.name == "cuda-version");
        let toolkit = toolkit.and_then(|record| {
            let mut parts = record.version.split('.');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        });
        let mut envelopes = Vec::new();
        let with_code = framework_packages().filter(|one| one.has_code);
        for OfFramework { name, framework: framework_name, .. } in with_code {
            let Some(record) = self.conda.iter().find(|record| record.name == name) else { continue };
            let known = format!("{framework_name} {} (conda, {})", record.version, record.build);
            if self.target.frameworks.iter().any(|framework| framework.name == framework_name)
                || self.without_cuda.iter().any(|known| known.name == framework_name)
            {
                continue;
            }
            let cuda = record.cuda().or_else(|| toolkit.filter(|_| !record.is_for_cpu()));
            let Some((major, minor)) = cuda else {
                if record.is_for_cpu() {
                    self.no_cuda(framework_name, known, NoCuda::CpuBuild);
                } else if record.build.is_empty() {
                    let version = &record.version;
                    self.unknown.push(format!("the lock does not state the build of {name} {version}"));
                } else if platform.os != Os::Macos {
                    self.unknown
                        .push(format!("which CUDA {known} is built for, if any, its build does not say"));
                }
                continue;
            };
            let cuda = Semver::new(major, minor, 0);
            let version = record.version.parse().unwrap_or_else(|_| Version::new([0]));
            let from = (framework_name, name, version);
            self.target.to_mut().frameworks.push(framework(
                from,
                &cuda,
                (None, false),
                Evidence::Documented,
                (registry, platform),
            ));
            let row = record.recipe_build().and_then(|number| {
                registry.conda_build("pytorch", &record.version, &cuda, (number, platform))
            });
            // conda-forge's libtorch and pytorch are built together.
            if let Some(row) = row.filter(|_| framework_name == "torch") {
                let cudnn = self.conda.iter().find(|record| CUDNN.contains(&record.name.as_str()));
                let cudnn: Option<DottedVersion> = cudnn.and_then(|record| record.version.parse().ok());
                let floor = cudnn.as_ref().and_then(|cudnn| registry.cudnn_floor(cudnn));
                self.cudnn_floor = cudnn.clone().zip(floor.map(|floor| floor.min));
                let needs = Needs {
                    cuda: Some(&row.cuda),
                    cudnn: cudnn.as_ref(),
                    targets: Some(&row.targets),
                    glibc: row.glibc.as_ref(),
                    platform,
                    source: &row.source,
                };
                envelopes.push(needs.envelope(registry));
                let major = |version: &DottedVersion| u64::from(version.major());
                if let (Some(locked), Some(own)) = (&cudnn, row.cudnn)
                    && major(locked) != own
                {
                    self.impossible
                        .push(format!("cuDNN {locked} is locked, {known} was built with cuDNN {own}"));
                }
                continue;
            }
            let floor =
                required_driver(registry, &cuda, platform.os, Policy::Minor).map(|driver| driver.value);
            envelopes.push(Envelope { driver: floor, coverage: Vec::new(), glibc: None, platform });
            self.unknown.push(format!("which GPUs the code of {known} is for is not in envlock's data"));
        }
        self.conda_users_of_cuda();
        envelopes
    }

    /// conda packages that are built for CUDA where the lock has no framework: what they run on is not known.
    fn conda_users_of_cuda(&mut self) {
        if self.target.stack.is_some() || !self.target.frameworks.is_empty() || !self.without_cuda.is_empty()
        {
            return;
        }
        let built: Vec<&CondaRecord> = self.conda.iter().filter(|record| record.cuda().is_some()).collect();
        let Some(first) = built.first() else { return };
        let more = match built.len() - 1 {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        self.unknown.push(format!(
            "which GPUs the code of {} {} (conda, {}){more} is for is not in envlock's data",
            first.name, first.version, first.build
        ));
    }

    /// What conda packages ask of the machine.
    pub(super) fn machine_specs(&mut self, registry: &Registry) {
        let of = |get: fn(&CondaRecord) -> &Vec<String>| {
            let all = self.conda.iter();
            all.flat_map(move |record| get(record).iter().map(|spec| (record.name.as_str(), spec.as_str())))
        };
        let named = self.conda.iter().flat_map(|record| {
            let all = record.requires.iter().chain(&record.constrains);
            all.map(move |spec| (format!("{} {}", record.name, record.version), spec.as_str()))
        });
        // Where the frameworks need that driver too, they are what to change.
        let of_frameworks = self.target.envelope.driver.clone();
        self.asked_driver = asked_driver(registry, self.target.platform.os, named)
            .filter(|asked| of_frameworks.as_ref().is_none_or(|driver| asked.driver > *driver));
        let specs = of(|record| &record.requires).chain(of(|record| &record.constrains));
        let unread = with_machine_specs(registry, &mut self.target.to_mut().envelope, specs);
        self.unknown.extend(unread.into_iter().map(|spec| match spec {
            UnreadSpec::Cuda { package, cuda } => {
                format!("{package} needs a driver for CUDA {cuda}, which is not in envlock's data")
            }
            UnreadSpec::Processor(level) => {
                format!("its packages need a processor of level {level}, which a host file does not state")
            }
        }));
    }
}
