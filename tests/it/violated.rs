//! Every fault that `verify` knows, as a folder of its own: `tests/fixtures/prefixes/violated/CODE/*.toml` says what is done
//! to a healthy environment and what has to be found. See the README there for the format.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::context::{TestContext, skipped};
use super::native::{Build, Environment, gcc};
use super::verify::{Laid, install, laid};
use super::wheels::wheel;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/prefixes/violated");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fault {
    /// One sentence for the reader.
    about: String,
    base: Base,
    severity: String,
    /// Words of the message.
    #[serde(default)]
    says: Vec<String>,
    #[serde(default)]
    arguments: Vec<String>,
    #[serde(default)]
    smoke: Option<String>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    variables: BTreeMap<String, String>,
    #[serde(default)]
    host: Option<Machine>,
}

/// The healthy environment that is broken.
#[derive(Deserialize, Clone, Copy, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Base {
    /// A locked project and its environment, of text files.
    Locked,
    /// An environment of real ELF files, without a lock.
    Torch,
    /// An empty environment on a machine with two cards, by a stub of NVML.
    Cards,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Machine {
    capability: String,
    driver: String,
    #[serde(default)]
    arch: Option<String>,
    #[serde(default)]
    glibc: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "lowercase", deny_unknown_fields)]
enum Step {
    /// Takes a file or a folder away.
    Remove { path: String },
    /// Makes a folder.
    Folder { path: String },
    /// Writes a file.
    Write { path: String, text: String },
    /// Changes a file's text.
    Replace { path: String, old: String, new: String },
    /// Writes bytes over others: `at` is where, or what stands there.
    Patch { path: String, at: At, bytes: Vec<u8> },
    /// Writes zeros over the last bytes.
    Zero { path: String, last: usize },
    /// Makes a link.
    Link { path: String, to: String },
    /// Sets the permissions of a file.
    Mode { path: String, mode: u32 },
    /// Builds a library.
    Library {
        path: String,
        #[serde(default)]
        source: String,
        #[serde(default)]
        soname: Option<String>,
        #[serde(default)]
        needs: Vec<String>,
        #[serde(default)]
        rpath: Option<String>,
        #[serde(default)]
        runpath: Option<String>,
        /// Containers of device code: in each, pairs of kind (2 machine code, 1 PTX) and target.
        #[serde(default)]
        code: Vec<Vec<(u16, u32)>>,
    },
    /// Calls the C compiler with these arguments.
    Gcc { arguments: Vec<String> },
    /// Writes a package's dist-info anew, of what lies in its folders.
    Record {
        name: String,
        version: String,
        #[serde(default)]
        requires: Vec<String>,
    },
    /// Installs a package of text files.
    Install {
        name: String,
        version: String,
        #[serde(default)]
        requires: Vec<String>,
        #[serde(default)]
        files: BTreeMap<String, String>,
    },
    /// Lets a script play the environment's Python.
    Python { script: String },
    /// Runs envlock in the project first.
    Envlock { arguments: Vec<String> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum At {
    Offset(usize),
    /// So many bytes after these.
    After(Vec<u8>, usize),
}

/// A base with what keeps it alive.
enum Held {
    Locked(Laid),
    Torch(Box<Environment>),
    Cards(Box<TestContext>),
}

impl Held {
    fn new(base: Base) -> Option<Held> {
        Some(match base {
            Base::Locked => Held::Locked(laid()),
            Base::Torch => Held::Torch(Box::new(Environment::new()?)),
            Base::Cards => {
                let context = super::probe::with_stub(&["-DMEMORY"])?;
                std::fs::create_dir_all(context.dir.path().join("env/lib/python3.12/site-packages")).unwrap();
                Held::Cards(Box::new(context))
            }
        })
    }

    fn context(&self) -> &TestContext {
        match self {
            Held::Locked(laid) => &laid.context,
            Held::Torch(env) => &env.context,
            Held::Cards(context) => context,
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        match self {
            Held::Locked(laid) => laid.context.set(name, value),
            Held::Torch(env) => env.context.set(name, value),
            Held::Cards(context) => context.set(name, value),
        }
    }

    fn folder(&self) -> PathBuf {
        self.context().dir.path().to_path_buf()
    }

    /// `@env/x`, `@root/x` (the machine's root), `@home/x`, `@project/x`, `@/x`; else below site-packages.
    fn path(&self, text: &str) -> PathBuf {
        let folder = self.folder();
        let places = [("@env/", "env"), ("@root/", "sysroot"), ("@home/", "home"), ("@/", "")];
        if let Some(inside) = text.strip_prefix("@project/") {
            return self.context().project().join(inside);
        }
        let found =
            places.iter().find_map(|(mark, place)| Some(folder.join(place).join(text.strip_prefix(mark)?)));
        found.unwrap_or_else(|| folder.join("env/lib/python3.12/site-packages").join(text))
    }

    /// Text with `{dir}`, the test's folder, put in.
    fn filled(&self, text: &str) -> String {
        text.replace("{dir}", &self.folder().display().to_string())
    }

    fn step(&self, step: &Step) {
        let parent = |path: &Path| std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match step {
            Step::Remove { path } => {
                let path = self.path(path);
                if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
                    .unwrap();
            }
            Step::Folder { path } => std::fs::create_dir_all(self.path(path)).unwrap(),
            Step::Write { path, text } => {
                let path = self.path(path);
                parent(&path);
                std::fs::write(path, self.filled(text)).unwrap();
            }
            Step::Replace { path, old, new } => {
                let path = self.path(path);
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(text.contains(old), "{}: {text}", path.display());
                std::fs::write(path, text.replace(old, new)).unwrap();
            }
            Step::Patch { path, at, bytes } => {
                let path = self.path(path);
                let mut content = std::fs::read(&path).unwrap();
                let at = match at {
                    At::Offset(at) => *at,
                    At::After(mark, more) => {
                        content.windows(mark.len()).position(|w| w == mark).unwrap() + more
                    }
                };
                content[at..at + bytes.len()].copy_from_slice(bytes);
                std::fs::write(path, content).unwrap();
            }
            Step::Zero { path, last } => {
                let path = self.path(path);
                let mut content = std::fs::read(&path).unwrap();
                let from = content.len() - last;
                content[from..].fill(0);
                std::fs::write(path, content).unwrap();
            }
            Step::Link { path, to } => {
                let path = self.path(path);
                parent(&path);
                let _ = std::fs::remove_file(&path);
                std::os::unix::fs::symlink(self.filled(to), path).unwrap();
            }
            Step::Mode { path, mode } => {
                use std::os::unix::fs::PermissionsExt as _;
                std::fs::set_permissions(self.path(path), std::fs::Permissions::from_mode(*mode)).unwrap();
            }
            Step::Gcc { arguments } => {
                let arguments: Vec<String> = arguments.iter().map(|a| self.filled(a)).collect();
                gcc(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            }
            Step::Library { path, source, soname, needs, rpath, runpath, code } => {
                let Held::Torch(env) = self else { panic!("`library` needs the base `torch`") };
                let needs: Vec<&str> = needs.iter().map(String::as_str).collect();
                let code: Vec<&[(u16, u32)]> = code.iter().map(Vec::as_slice).collect();
                let how = Build {
                    needs: &needs,
                    rpath: rpath.as_deref(),
                    runpath: runpath.as_deref(),
                    code: &code,
                    source,
                    soname: soname.as_deref(),
                };
                env.library(&self.path(path).display().to_string(), &how);
            }
            Step::Record { name, version, requires } => {
                let Held::Torch(env) = self else { panic!("`record` needs the base `torch`") };
                env.record(name, version, &requires.iter().map(String::as_str).collect::<Vec<_>>());
            }
            Step::Install { name, version, requires, files } => {
                let wheel = requires.iter().fold(wheel(name, version), |wheel, line| wheel.needs(line));
                let wheel = files.iter().fold(wheel, |wheel, (path, text)| wheel.file(path, text));
                install(&self.path(""), &wheel);
            }
            Step::Python { script } => {
                use std::os::unix::fs::PermissionsExt as _;
                let python = self.path("@env/bin/python");
                parent(&python);
                std::fs::write(&python, format!("#!/bin/sh\n{script}\n")).unwrap();
                std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
            }
            Step::Envlock { arguments } => {
                self.context().run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()).expect(0);
            }
        }
    }
}

/// How many faults are tried at the same time.
const WORKERS: usize = 3;

#[test]
#[cfg(unix)]
fn each_fault_is_found_by_its_code() {
    let mut folders: Vec<_> = std::fs::read_dir(FOLDER).unwrap().flatten().map(|e| e.path()).collect();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    let names: BTreeSet<String> =
        folders.iter().map(|f| f.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    // Those of images have their faults in images.rs, those of bundles in bundle.rs.
    let elsewhere = ["wrong-image", "image-requirement", "package-lock-changed", "bundle-differs"];
    let codes = envlock::model::finding::Code::ALL.iter().map(|code| code.as_str());
    let codes: BTreeSet<String> = codes.filter(|code| !elsewhere.contains(code)).map(str::to_owned).collect();
    assert_eq!(names, codes, "each code has a folder with a fault, and nothing else has");
    let mut faults = Vec::new();
    for folder in folders {
        let code = folder.file_name().unwrap().to_str().unwrap().to_owned();
        let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().map(|e| e.path()).collect();
        files.sort();
        assert!(!files.is_empty(), "{code} has no fault");
        faults.extend(files.into_iter().map(|file| (code.clone(), file)));
    }
    // The tests before it have ended by then: the processors are free.
    let share = |own: usize| {
        let own = faults.iter().skip(own).step_by(WORKERS);
        own.filter_map(|(code, file)| tried(code, file)).collect::<Vec<String>>()
    };
    let share = &share;
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|own| scope.spawn(move || share(own))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// What is wrong with the answer to a fault; nothing where it is found as it should be.
fn tried(code: &str, file: &Path) -> Option<String> {
    let name = file.strip_prefix(FOLDER).unwrap().display().to_string();
    let text = std::fs::read_to_string(file).unwrap();
    let fault: Fault = toml::from_str(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(!fault.about.is_empty(), "{name}");
    let Some(mut held) = Held::new(fault.base) else {
        skipped(&name);
        return None;
    };
    fault.steps.iter().for_each(|step| held.step(step));
    for (variable, value) in &fault.variables {
        let value = held.filled(value);
        held.set(variable, &value);
    }
    let prefix = held.path("@env/").display().to_string();
    let mut arguments: Vec<String> = ["verify", "--json", "--prefix", &prefix].map(str::to_owned).to_vec();
    arguments.extend(["--smoke".to_owned(), fault.smoke.clone().unwrap_or_else(|| "off".to_owned())]);
    if let Some(machine) = &fault.host {
        let mut text = format!(
            "schema = 1\n[driver]\nversion = \"{}\"\n[[gpu]]\ncompute_capability = \"{}\"\n[system]\n",
            machine.driver, machine.capability
        );
        for (key, value) in [("arch", &machine.arch), ("glibc", &machine.glibc)] {
            text.extend(value.iter().map(|value| format!("{key} = \"{value}\"\n")));
        }
        let file = held.context().write("host.toml", &text);
        arguments.extend(["--host".to_owned(), file.display().to_string()]);
    }
    arguments.extend(fault.arguments.iter().cloned());
    let run = held.context().run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    let json = run.json();
    let Some(findings) = json["findings"].as_array() else { return Some(format!("{name}: {}", run.shown())) };
    let found: Vec<_> = findings.iter().filter(|finding| finding["code"] == code).collect();
    let right = found.iter().any(|finding| {
        let message = finding["message"].as_str().unwrap();
        finding["severity"] == fault.severity.as_str()
            && fault.says.iter().all(|words| message.contains(words))
    });
    let differs = findings.iter().any(|finding| finding["severity"] == "error");
    if !right || run.code != i32::from(differs) {
        return Some(format!("{name}: {json:#}"));
    }
    None
}
