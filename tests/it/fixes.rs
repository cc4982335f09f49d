//! The commands that `verify` prints as fixes: each environment is broken, the command is run with a real installer
//! against a loopback index, and the environment is clean again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::context::{IndexServer, Shape, TestContext, skipped};
use super::native::{fatbin, gcc};
use super::tools;
use super::wheels::{Wheel, wheel};

/// A real venv with real installed packages, and the installer that put them there.
struct Repaired {
    context: TestContext,
    prefix: PathBuf,
    site: PathBuf,
    index: String,
    uv: Option<PathBuf>,
    _server: IndexServer,
}

/// A library with a symbol of another one, GPU code and room to damage.
fn libraries() -> Option<(Vec<u8>, Vec<u8>)> {
    if !Command::new("gcc").arg("--version").output().is_ok_and(|o| o.status.success()) {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let build = |name: &str, source: &str, more: &[&str]| {
        let (c, out) = (dir.path().join("l.c"), dir.path().join(name));
        std::fs::write(&c, source).unwrap();
        let (c, shown) = (c.display().to_string(), out.display().to_string());
        gcc(&[&["-shared", "-fPIC", "-nostdlib", "-o", &shown, &c], more].concat());
        std::fs::read(&out).unwrap()
    };
    let own = build("libown.so", "int own_function(void) { return 1; }\n", &["-Wl,-soname,libown.so"]);
    let code: Vec<String> = fatbin(&[&[(2, 90), (2, 80)]]).iter().map(ToString::to_string).collect();
    let source = format!(
        "int own_function(void); int f(void) {{ return own_function(); }}\n\
         __attribute__((section(\".nv_fatbin\"), used)) static const unsigned char code[] = {{{}}};\n",
        code.join(",")
    );
    let folder = format!("-L{}", dir.path().display());
    let module = build("_core.so", &source, &[&folder, "-lown", "-Wl,-rpath,$ORIGIN"]);
    Some((own, module))
}

fn packages() -> Option<Vec<(&'static str, Wheel)>> {
    let (own, module) = libraries()?;
    let machine = std::env::consts::ARCH;
    let tags = format!("py3-none-manylinux_2_17_{machine}");
    Some(vec![
        ("pypi", wheel("alpha", "1.0").file("alpha/__init__.py", "x = 1\n")),
        ("pypi", wheel("alpha", "2.0").file("alpha/__init__.py", "x = 2\n").file("alpha/more.py", "y = 2\n")),
        ("pypi", wheel("beta", "1.0").needs("alpha>=2").file("beta/__init__.py", "import alpha\n")),
        (
            "pypi",
            wheel("native", "1.0")
                .tags(&tags)
                .file("native/__init__.py", "from . import _core\n")
                .bytes("native/_core.so", &module)
                .bytes("native/libown.so", &own),
        ),
        ("pypi", wheel("pytorch-lightning", "1.9.5").file("pytorch_lightning/__init__.py", "x = 1\n")),
        ("pypi", wheel("setuptools", "70.0.0").file("setuptools/__init__.py", "x = 70\n")),
        ("pypi", wheel("setuptools", "82.0.0").file("setuptools/__init__.py", "x = 82\n")),
        ("pypi", wheel("alpha-gpu", "2.0").file("alpha/__init__.py", "x = 'on the GPU'\n")),
    ])
}

impl Repaired {
    /// `with_uv`: installed by uv, else by pip. Nothing where the tools are missing.
    fn new(with_uv: bool) -> Option<Repaired> {
        let Some(packages) = packages() else {
            skipped("no gcc here");
            return None;
        };
        let uv = if with_uv { Some(tools::uv()?) } else { None };
        let server = IndexServer::start(packages, Shape::default());
        let context = TestContext::with_index(&server);
        let prefix = context.dir.path().join("env");
        if !super::common::venv::make(&prefix) {
            skipped("no python3 with venv and pip here");
            return None;
        }
        let python = prefix.join("bin/python");
        let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
        let site = Command::new(&python).args(["-c", ask]).output().unwrap();
        let site = PathBuf::from(String::from_utf8_lossy(&site.stdout).trim());
        let index = format!("{}/pypi", server.address);
        let env = Repaired { context, prefix, site, index, uv, _server: server };
        let install = match &env.uv {
            Some(uv) => format!("{} pip install --python {}", uv.display(), env.prefix.display()),
            None => format!("{} -m pip install", python.display()),
        };
        let out = env.shell(&format!("{install} beta native"));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        Some(env)
    }

    /// The series of the environment's Python: `3.12`.
    fn series(&self) -> String {
        let folder = self.site.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        folder.trim_start_matches("python").to_owned()
    }

    /// Runs a command line as the user would, in the project's folder.
    fn shell(&self, line: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        let envlock = Path::new(env!("CARGO_BIN_EXE_envlock")).parent().unwrap();
        let uv = self.uv.as_ref().and_then(|uv| uv.parent()).map(|p| p.display().to_string());
        let path = format!("{}:{}:{path}", envlock.display(), uv.unwrap_or_default());
        Command::new("sh")
            .args(["-c", line])
            .current_dir(self.context.project())
            .env("PATH", path)
            .env("PIP_INDEX_URL", &self.index)
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .env("PIP_NO_CACHE_DIR", "1")
            .env("UV_INDEX_URL", &self.index)
            .env("UV_CACHE_DIR", self.context.dir.path().join("uv-cache"))
            .env("UV_LINK_MODE", "copy")
            .env("ENVLOCK_INDEX_URL", &self.index)
            .output()
            .unwrap()
    }

    /// Errors and warnings: severity, code and fix.
    fn findings(&self) -> Vec<(String, Option<String>)> {
        let prefix = self.prefix.display().to_string();
        let run = self.context.run(&["verify", "--prefix", &prefix, "--smoke", "off", "--json"]);
        let json = run.json();
        let all = json["findings"].as_array().unwrap_or_else(|| panic!("{}", run.shown())).clone();
        let counted = all.iter().filter(|f| f["severity"] != "info");
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        counted.map(|f| (text(&f["code"]).unwrap(), text(&f["fix"]))).collect()
    }

    /// Breaks the environment, runs the fix of the first finding, and expects a clean environment.
    fn repairs(&self, code: &str, damage: impl Fn(&Path)) {
        assert_eq!(self.findings(), [], "not clean before {code}");
        damage(&self.site);
        let found = self.findings();
        let Some((first, Some(fix))) = found.first() else { panic!("{code}: {found:?}") };
        assert_eq!(first, code, "{found:?}");
        // The context's folder is shown as [DIR].
        let fix = fix.replace("[DIR]", &self.context.dir.path().display().to_string());
        let out = self.shell(&fix);
        let told =
            format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{code}: `{fix}`: {told}");
        assert_eq!(self.findings(), [], "`{fix}` does not repair {code}: {told}");
    }
}

/// Writes other bytes over the first place where `old` stands; the size stays.
fn overwrite(file: &Path, old: &[u8], new: &[u8]) {
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(old.len()).position(|window| window == old).unwrap();
    bytes[at..at + new.len()].copy_from_slice(new);
    std::fs::write(file, bytes).unwrap();
}

fn every_fix_repairs(env: &Repaired) {
    env.repairs("missing-file", |site| std::fs::remove_file(site.join("alpha/more.py")).unwrap());
    env.repairs("unreadable-library", |site| {
        overwrite(&site.join("native/_core.so"), b"\x7fELF", &[0; 64]);
    });
    env.repairs("unreadable-library", |site| {
        let machine = std::fs::read(site.join("native/_core.so")).unwrap()[18];
        let other = if machine == 62 { 183 } else { 62 };
        let file = site.join("native/libown.so");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[18] = other;
        std::fs::write(file, bytes).unwrap();
    });
    env.repairs("undefined-symbol", |site| {
        overwrite(&site.join("native/_core.so"), b"own_function", b"xyz_function");
    });
    env.repairs("unreadable-gpu-code", |site| {
        overwrite(&site.join("native/_core.so"), &fatbin(&[&[(2, 90), (2, 80)]])[88..], &[0; 72]);
    });
    env.repairs("unreadable-record", |site| {
        std::fs::remove_file(site.join("alpha-2.0.dist-info/RECORD")).unwrap();
    });
    env.repairs("altered-file", |site| {
        std::fs::write(site.join("alpha/more.py"), "y = 'longer than before'\n").unwrap()
    });
    let install = |requirement: &str| {
        let line = match &env.uv {
            Some(uv) => format!("{} pip install --python {} --no-deps", uv.display(), env.prefix.display()),
            None => format!("{}/bin/python -m pip install --no-deps", env.prefix.display()),
        };
        assert!(env.shell(&format!("{line} {requirement}")).status.success());
    };
    env.repairs("leftover-folder", |site| std::fs::create_dir(site.join("~lpha")).unwrap());
    env.repairs("broken-requirement", |_| install("alpha==1.0"));
    // The locked packages are installed again from the lock.
    env.context.run(&["resolve", "beta", "native", "--python", &env.series()]).expect(0);
    env.repairs("wrong-version", |_| install("alpha==1.0"));
    // What requires another release of it agrees with the lock: the same command repairs both.
    install("alpha==1.0");
    let found = env.findings();
    let fixes: BTreeSet<&Option<String>> = found.iter().map(|(_, fix)| fix).collect();
    assert_eq!((found.len(), fixes.len()), (2, 1), "{found:?}");
    env.context.run(&["sync", "--prefix", &env.prefix.display().to_string(), "--smoke", "off"]).expect(0);
    env.repairs("missing-package", |site| {
        std::fs::remove_dir_all(site.join("alpha")).unwrap();
        std::fs::remove_dir_all(site.join("alpha-2.0.dist-info")).unwrap();
    });
    std::fs::remove_file(env.context.project().join("envlock.lock")).unwrap();
    env.repairs("file-owned-twice", |_| {
        install("alpha-gpu");
        install(if env.uv.is_some() { "--reinstall alpha==2.0" } else { "--force-reinstall alpha==2.0" });
    });
    env.repairs("known-incompatible", |_| install("pytorch-lightning==1.9.5 setuptools==82.0.0"));
}

#[test]
fn fixes_repair_an_environment_of_pip() {
    let Some(env) = Repaired::new(false) else { return };
    every_fix_repairs(&env);
}

#[test]
fn fixes_repair_an_environment_of_uv() {
    let Some(env) = Repaired::new(true) else { return };
    every_fix_repairs(&env);
}
