//! Frameworks in other folders of Python's path than the environment's own site-packages: they are judged where they lie.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::context::Run;
use super::images::Images;

/// A root file system with the environment of the tests on ELF files, whose packages can be moved.
struct Root {
    images: Images,
    root: PathBuf,
}

const SITE: &str = "opt/venv/lib/python3.12/site-packages";

impl Root {
    fn new() -> Option<Root> {
        let images = Images::new()?;
        let folder = images.env.context.dir.path();
        let root = folder.join("root");
        fs_err::create_dir_all(root.join("opt")).unwrap();
        let copied = Command::new("cp").arg("-a").args([folder.join("env"), root.join("opt/venv")]).status();
        assert!(copied.unwrap().success());
        Some(Root { images, root })
    }

    /// Moves what belongs to packages to another folder.
    fn move_packages(&self, is_moved: &dyn Fn(&str) -> bool, to: &str) {
        fs_err::create_dir_all(self.root.join(to)).unwrap();
        for entry in fs_err::read_dir(self.root.join(SITE)).unwrap().map(|entry| entry.unwrap()) {
            let name = entry.file_name().into_string().unwrap();
            if is_moved(&name) {
                fs_err::rename(entry.path(), self.root.join(to).join(&name)).unwrap();
            }
        }
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root.join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(path, text).unwrap();
    }

    fn verify(&self, rest: &[&str]) -> Run {
        let root = self.root.display().to_string();
        let base = ["verify", "--root", &root, "--host", &self.images.host, "--prefix", "/opt/venv"];
        self.images.env.context.run(&[&base, rest].concat())
    }
}

/// A package by its folders: `torch`, `torch-2.9.1.dist-info`.
fn of(package: &'static str) -> impl Fn(&str) -> bool {
    move |name| name == package || name.starts_with(&format!("{package}-"))
}

/// Whether a finding names a library.
fn names(run: &Run, library: &str) -> bool {
    let json = run.json();
    let findings = json["findings"].as_array().unwrap().iter();
    findings.filter(|f| f["severity"] == "error").any(|f| f.to_string().contains(library))
}

#[test]
fn frameworks_are_judged_where_they_lie() {
    type Arrange = fn(&Root);
    let arrangements: [(&str, &str, Arrange); 3] = [
        ("the base Python's", "usr/lib/python3.12/site-packages", |root| {
            root.write(
                "opt/venv/pyvenv.cfg",
                "home = /usr/bin\ninclude-system-site-packages = true\nversion = 3.12.1\n",
            );
        }),
        ("a folder in a .pth file", "opt/extra", |root| {
            root.write(&format!("{SITE}/extra.pth"), "/opt/extra\n");
        }),
        ("lib64 of a system", "opt/venv/lib64/python3.12/site-packages", |_| {}),
    ];
    for (what, folder, arrange) in arrangements {
        let Some(root) = Root::new() else { return };
        root.move_packages(
            &|name| of("torch")(name) || (what != "lib64 of a system" && name.starts_with("nvidia")),
            folder,
        );
        arrange(&root);
        let run = root.verify(&["--json"]).expect(0);
        assert_eq!(run.json()["verdict"], "ok", "{what}: {}", run.shown());
        // What it loads is looked at there.
        let whole = root.verify(&[]).expect(0);
        assert!(whole.flat().contains("cuDNN 9.10.2, one copy"), "{what}: {}", whole.shown());
        let told = whole.flat().contains("; torch is imported from");
        assert_eq!(told, what != "lib64 of a system", "{what}: {}", whole.shown());
        let torch = root.root.join(folder).join("torch/lib/libtorch_cuda.so");
        assert!(torch.is_file(), "{what}");
        fs_err::remove_file(&torch).unwrap();
        let run = root.verify(&["--json"]).expect(1);
        assert!(names(&run, "libtorch_cuda.so"), "{what}: {}", run.shown());
    }
}

/// What an environment lacks to run at all, and a link in the place of its library folder.
#[test]
fn environments_that_are_put_together_otherwise() {
    let Some(root) = Root::new() else { return };
    root.write("opt/venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.1\n");
    let lib = root.root.join("opt/venv/lib/python3.12");
    fs_err::create_dir_all(root.root.join("data")).unwrap();
    fs_err::rename(&lib, root.root.join("data/pylib")).unwrap();
    std::os::unix::fs::symlink("/data/pylib", &lib).unwrap();
    root.verify(&["--json"]).expect(0);
    for name in ["python", "python3", "python3.12"] {
        let _ = fs_err::remove_file(root.root.join("opt/venv/bin").join(name));
    }
    let run = root.verify(&["--json"]).expect(1);
    assert!(names(&run, "no interpreter in bin"), "{}", run.shown());
}

/// A wheel for another processor, which says so, is no warning.
#[test]
fn wheels_for_another_processor() {
    let Some(root) = Root::new() else { return };
    let machine = if cfg!(target_arch = "x86_64") { "aarch64" } else { "x86_64" };
    let info = fs_err::read_dir(root.root.join(SITE)).unwrap().map(|entry| entry.unwrap().path());
    let info: Vec<PathBuf> = info.filter(|path| is_info_of(path, "torch-")).collect();
    fs_err::write(
        info[0].join("WHEEL"),
        format!("Wheel-Version: 1.0\nTag: cp312-cp312-manylinux_2_28_{machine}\n"),
    )
    .unwrap();
    let run = root.verify(&["--json"]).expect(1);
    assert!(names(&run, &format!("manylinux_2_28_{machine}")), "{}", run.shown());
}

fn is_info_of(path: &Path, start: &str) -> bool {
    let name = path.file_name().unwrap().to_string_lossy().into_owned();
    name.starts_with(start) && name.ends_with(".dist-info")
}
