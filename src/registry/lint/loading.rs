//! Checks `loading.toml`.

use super::{Linter, Placed};
use crate::model::native::{FrameworkLoads, Opened, Provider};
use crate::registry::RegistryFile;
use crate::registry::rows::*;

impl Linter {
    pub(super) fn loading(&mut self, file: &RegistryFile) {
        let opens: Vec<Placed<Opened>> = self.rows(file, "opens");
        self.ordered(&opens, |r| (r.by.clone(), r.name.clone()));
        let loads: Vec<Placed<FrameworkLoads>> = self.rows(file, "framework");
        self.ordered(&loads, |r| r.package.clone());
        for Placed { row, path, line } in loads {
            if row.starts.is_empty() {
                self.problem(&path, line, "`starts` is empty");
            }
            if row.starts.iter().any(|pattern| pattern.matches('*').count() > 1) {
                self.problem(&path, line, "a pattern in `starts` can have at most one `*`");
            }
        }
        let isa: Vec<Placed<PtxIsa>> = self.rows(file, "ptx_isa");
        self.ordered(&isa, |r| r.isa);
        let cuda: Vec<Placed<SameCuda>> = self.rows(file, "same_cuda");
        self.ordered(&cuda, |r| r.package.clone());
        let releases: Vec<Placed<SameRelease>> = self.rows(file, "same_release");
        self.ordered(&releases, |r| r.package.clone());
        let providers: Vec<Placed<Provider>> = self.rows(file, "provider");
        self.ordered(&providers, |r| r.package.clone());
        let libraries: Vec<Placed<CudaLibraries>> = self.rows(file, "cuda_libraries");
        self.ordered(&libraries, |r| (r.package.clone(), r.versions.as_ref().map(ToString::to_string)));
        self.sorted_names(libraries, |r| &r.names);
        let shims: Vec<Placed<TorchShim>> = self.rows(file, "torch_shim");
        self.ordered(&shims, |r| r.torch.clone());
        self.sorted_names(shims, |r| &r.names);
        let stdlib: Vec<Placed<StdlibImport>> = self.rows(file, "stdlib_import");
        self.ordered(&stdlib, |r| r.package.clone());
        let same: Vec<Placed<SameFile>> = self.rows(file, "same_file");
        self.ordered(&same, |r| r.file.clone());
        for Placed { row, path, line } in same {
            if row.packages.len() < 2 {
                self.problem(&path, line, "`packages` must have at least two packages");
            }
        }
    }

    /// Checks that the names in each row are sorted, each of them once.
    fn sorted_names<T>(&mut self, rows: Vec<Placed<T>>, names: impl Fn(&T) -> &Vec<String>) {
        for Placed { row, path, line } in rows {
            if !names(&row).is_sorted_by(|one, next| one < next) {
                self.problem(&path, line, "`names` must be sorted, each of them once");
            }
        }
    }
}
