//! Projects that a real installer fills from a loopback index.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::context::{IndexServer, Run, Shape, TestContext, skipped};
use super::tools;
use super::wheels::{Wheel, wheel};

/// A build backend in the tree of a source distribution: it needs nothing from an index.
pub const BACKEND: &str = r#"
import base64, hashlib, os, zipfile

def wheel(folder, editable):
    name, version = NAME, VERSION
    info = f"{name}-{version}.dist-info"
    files = {f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    if editable:
        files[f"{name}.pth"] = os.getcwd() + "\n"
    else:
        files[f"{name}.py"] = "built = True\n"
    record = "".join(f"{path},,\n" for path in files) + f"{info}/RECORD,,\n"
    files[f"{info}/RECORD"] = record
    out = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, out), "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return out

def build_wheel(folder, config_settings=None, metadata_directory=None):
    return wheel(folder, False)

def build_editable(folder, config_settings=None, metadata_directory=None):
    return wheel(folder, True)
"#;

/// The tables of a pyproject.toml that uses the backend.
pub const BUILD_SYSTEM: &str =
    "[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n";

pub fn backend(name: &str, version: &str) -> String {
    BACKEND.replace("NAME, VERSION", &format!("{name:?}, {version:?}"))
}

/// A source distribution that builds without an index.
pub fn source(name: &str, version: &str) -> Wheel {
    let pyproject = format!("[project]\nname = {name:?}\nversion = {version:?}\n{BUILD_SYSTEM}");
    wheel(name, version)
        .source("from setuptools import setup\nsetup()\n")
        .file("pyproject.toml", &pyproject)
        .file("backend.py", &backend(name, version))
}

/// A project on a loopback index, with a Python and perhaps uv on its PATH.
pub struct Synced {
    pub context: TestContext,
    /// The Python's series, `3.12`.
    pub series: String,
    pub server: IndexServer,
}

impl Synced {
    /// Nothing where the tools are missing.
    pub fn new(with_uv: bool) -> Option<Synced> {
        Synced::with(with_uv, Vec::new())
    }

    /// With more packages on the index.
    pub fn with(with_uv: bool, more: Vec<(&str, Wheel)>) -> Option<Synced> {
        Synced::of_shape(with_uv, more, Shape { json: true, metadata: true, ..Shape::default() })
    }

    /// On an index that answers in another way.
    pub fn of_shape(with_uv: bool, more: Vec<(&str, Wheel)>, shape: Shape) -> Option<Synced> {
        let ask = "import sys, venv, ensurepip; print(sys.executable, '%d.%d' % sys.version_info[:2])";
        let out =
            Command::new("python3").args(["-I", "-c", ask]).output().ok().filter(|o| o.status.success());
        let Some(out) = out else {
            skipped("no python3 with venv and pip here");
            return None;
        };
        let uv = if with_uv { Some(tools::uv()?) } else { None };
        let out = String::from_utf8(out.stdout).unwrap();
        let (python, series) = out.trim().rsplit_once(' ').unwrap();
        let mut wheels = vec![
            ("pypi", wheel("alpha", "1.0").file("alpha/__init__.py", "x = 1\n")),
            ("pypi", wheel("alpha", "2.0").file("alpha/__init__.py", "x = 2\n")),
            ("pypi", wheel("beta", "1.0").needs("alpha").file("beta.py", "import alpha\n")),
            ("pypi", wheel("gamma", "1.0").file("gamma.py", "\n")),
            ("pypi", wheel("jax", "0.1").file("jax/__init__.py", "")),
            ("pypi", source("built", "1.0")),
        ];
        wheels.extend(more);
        let server = IndexServer::start(wheels, shape);
        let mut context = TestContext::with_index(&server);
        let bin = context.dir.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        super::venv::interpreter(python, &bin.join(format!("python{series}")));
        if let Some(uv) = uv {
            std::os::unix::fs::symlink(uv, bin.join("uv")).unwrap();
        }
        context.set("UV_CACHE_DIR", &context.dir.path().join("uv-cache").display().to_string());
        context.set("UV_LINK_MODE", "copy");
        context.set("PIP_NO_CACHE_DIR", "1");
        Some(Synced { context, series: series.to_owned(), server })
    }

    /// Locks these requirements.
    pub fn lock(&self, requirements: &str, more: &str) {
        let series = &self.series;
        self.context.write(
            "envlock.toml",
            &format!("[project]\nname = \"demo\"\npython = \"=={series}.*\"\ndependencies = [{requirements}]\n{more}"),
        );
        self.context.run(&["resolve", "--gpu", "none", "--only-index", "pypi"]).expect(0);
    }

    /// Locks these requirements by uv, which holds the packages from then on.
    pub fn lock_by_uv(&mut self, requirements: &str) {
        self.context.set("UV_DEFAULT_INDEX", &format!("{}/pypi", self.server.address));
        let text = format!(
            "[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \">={}\"\ndependencies = [{requirements}]\n[tool.uv]\npackage = false\n[tool.envlock]\n",
            self.series
        );
        self.context.write("pyproject.toml", &text);
        let made = self.context.command_of("uv").arg("lock").output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        self.context.run(&["resolve", "--gpu", "none", "--python", &self.series]).expect(0);
    }

    pub fn sync(&self, arguments: &[&str]) -> Run {
        self.context.run(&[&["sync"], arguments].concat())
    }

    pub fn python(&self) -> PathBuf {
        self.context.project().join(".venv/bin/python")
    }

    /// What a line of Python prints in the environment.
    pub fn prints(&self, line: &str) -> String {
        let out = Command::new(self.python()).args(["-I", "-c", line]).output().unwrap();
        String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).trim().to_owned()
    }

    /// Puts a package into the environment by hand.
    pub fn plant(&self, name: &str, version: &str, installer: &str) -> PathBuf {
        let site = self.prints("import sysconfig; print(sysconfig.get_path('purelib'))");
        plant(Path::new(&site), name, version, installer)
    }
}

pub fn plant(site: &Path, name: &str, version: &str, installer: &str) -> PathBuf {
    let info = format!("{name}-{version}.dist-info");
    let folder = site.join(&info);
    std::fs::create_dir_all(&folder).unwrap();
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    std::fs::write(folder.join("METADATA"), metadata).unwrap();
    std::fs::write(folder.join("INSTALLER"), installer).unwrap();
    std::fs::write(
        folder.join("RECORD"),
        format!("{info}/METADATA,,\n{info}/INSTALLER,,\n{info}/RECORD,,\n"),
    )
    .unwrap();
    folder
}
