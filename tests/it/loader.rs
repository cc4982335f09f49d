//! The simulated loader against the real one: small libraries built by gcc, and a program that says which
//! files it ended up with.

use std::path::{Path, PathBuf};
use std::process::Command;

use envlock::inspect::ThisMachine;
use envlock::inspect::loader::{Loader, Surroundings};

use super::context::skipped;

/// Opens what its arguments name, one after another, and prints every object it then consists of. An argument
/// `A:B` opens B in the name of A, by A's own function.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
static int show(struct dl_phdr_info *i, size_t n, void *d) { puts(i->dlpi_name); return 0; }
int main(int c, char **v) {
  for (int i = 1; i < c; i++) {
    char *colon = strchr(v[i], ':');
    if (!colon) { dlopen(v[i], RTLD_NOW); continue; }
    *colon = 0;
    void *h = dlopen(v[i], RTLD_NOW);
    void *(*f)(const char *) = h ? (void *(*)(const char *))dlsym(h, "open_for_me") : 0;
    if (f) f(colon + 1);
  }
  dl_iterate_phdr(show, 0);
}
"#;
const LIBRARY: &str = r#"
#include <dlfcn.h>
void *open_for_me(const char *name) { return dlopen(name, RTLD_NOW); }
"#;

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Option<Bench> {
        let bench = Bench { folder: tempfile::tempdir().unwrap() };
        std::fs::write(bench.path("main.c"), PROGRAM).unwrap();
        std::fs::write(bench.path("lib.c"), LIBRARY).unwrap();
        match Command::new("gcc").arg("--version").output() {
            Ok(found) if found.status.success() => Some(bench),
            _ => {
                skipped("no gcc here");
                None
            }
        }
    }

    fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn gcc(&self, arguments: &[&str]) {
        let out = Command::new("gcc").args(arguments).current_dir(self.folder.path()).output().unwrap();
        assert!(out.status.success(), "gcc {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    }

    /// Builds `FOLDER/libNAME.so.1` that needs others by SONAME.
    fn library(&self, at: &str, needs: &[&str], flags: &[&str]) {
        let name = at.rsplit('/').next().unwrap();
        if let Some(folder) = Path::new(at).parent() {
            std::fs::create_dir_all(self.path(folder)).unwrap();
        }
        let soname = format!("-Wl,-soname,{name}");
        let needs: Vec<String> = needs.iter().map(|n| format!("-l:{n}")).collect();
        let mut arguments =
            vec!["-shared", "-fPIC", "-o", at, "lib.c", &soname, "-Wl,--no-as-needed", "-Lstub"];
        arguments.extend(needs.iter().map(String::as_str));
        arguments.extend(["-Wl,--allow-shlib-undefined", "-ldl"]);
        arguments.extend(flags);
        self.gcc(&arguments);
    }

    /// Builds the program.
    fn program(&self, needs: &[&str], flags: &[&str]) {
        let needs: Vec<String> = needs.iter().map(|n| format!("-l:{n}")).collect();
        let mut arguments = vec!["-o", "main", "main.c", "-Wl,--no-as-needed", "-Lstub"];
        arguments.extend(needs.iter().map(String::as_str));
        arguments.extend(["-Wl,--allow-shlib-undefined", "-ldl"]);
        arguments.extend(flags);
        self.gcc(&arguments);
    }

    /// What both say, as sorted lists of our own files.
    fn agree(&self, opens: &[&str], library_path: Option<&str>, preload: Option<&str>) -> Vec<String> {
        let mut command = Command::new(self.path("main"));
        command.args(opens).current_dir(self.folder.path()).env_clear();
        let here = |list: &str| {
            let entries = list.split(':').map(|e| {
                if e.starts_with('/') || e.is_empty() { e.into() } else { self.path(e).display().to_string() }
            });
            entries.collect::<Vec<_>>().join(":")
        };
        let library_path = library_path.map(here);
        let preload = preload.map(|p| if p.contains('/') { here(p) } else { p.to_owned() });
        command.envs(library_path.iter().map(|v| ("LD_LIBRARY_PATH", v)));
        command.envs(preload.iter().map(|v| ("LD_PRELOAD", v)));
        let out = command.output().unwrap();
        let own = |text: &str| -> Option<String> {
            // The loader names what it found in the working folder without it.
            let real = self.path(text).canonicalize().ok().filter(|path| path.is_file())?;
            let inside = real.strip_prefix(self.folder.path().canonicalize().ok()?).ok()?;
            inside.to_str().map(str::to_owned)
        };
        let mut real: Vec<String> = String::from_utf8_lossy(&out.stdout).lines().filter_map(own).collect();
        real.sort();
        let around = Surroundings {
            tree: &ThisMachine,
            root: "/".into(),
            library_path,
            preload,
            conda: Vec::new(),
            working_folder: self.folder.path().to_path_buf(),
        };
        let mut loader = Loader::start(&self.path("main"), &around).unwrap();
        for open in opens {
            match open.split_once(':') {
                None => drop(loader.open(&[(*open).to_owned()], 0)),
                Some((first, second)) => {
                    let by = loader.open(&[first.to_owned()], 0).unwrap();
                    loader.open(&[second.to_owned()], by);
                }
            }
        }
        let objects = &loader.process().objects[1..];
        let mut ours: Vec<String> = objects.iter().filter_map(|o| own(o.path.to_str()?)).collect();
        ours.sort();
        if out.status.success() {
            assert_eq!(ours, real, "{opens:?} {:?}\n{:#?}", around.library_path, loader.process());
        } else {
            let missing = loader.process().missing.iter().any(|m| !m.later);
            assert!(missing, "the real loader failed: {}", String::from_utf8_lossy(&out.stderr));
        }
        ours
    }
}

const OLD: &str = "-Wl,--disable-new-dtags";
const NEW: &str = "-Wl,--enable-new-dtags";

#[test]
fn rpath_beats_the_variable_and_runpath_loses() {
    let Some(bench) = Bench::new() else { return };
    bench.library("stub/liba.so.1", &[], &[]);
    bench.library("own/liba.so.1", &[], &[]);
    bench.library("other/liba.so.1", &[], &[]);
    bench.program(&["liba.so.1"], &["-Wl,-rpath,$ORIGIN/own", OLD]);
    assert_eq!(bench.agree(&[], Some("other"), None), ["own/liba.so.1"]);
    bench.program(&["liba.so.1"], &["-Wl,-rpath,$ORIGIN/own", NEW]);
    assert_eq!(bench.agree(&[], Some("other"), None), ["other/liba.so.1"]);
    assert_eq!(bench.agree(&[], Some("nowhere:other"), None), ["other/liba.so.1"]);
    assert_eq!(bench.agree(&[], Some("nowhere"), None), ["own/liba.so.1"]);
    assert_eq!(bench.agree(&[], None, None), ["own/liba.so.1"]);
    bench.program(&["liba.so.1"], &[]);
    assert_eq!(bench.agree(&[], None, None), [""; 0]);
    bench.program(&["liba.so.1"], &["-Wl,-rpath,${ORIGIN}/own", OLD]);
    assert_eq!(bench.agree(&[], None, None), ["own/liba.so.1"]);
}

#[test]
fn rpath_is_inherited_and_runpath_is_not() {
    let Some(bench) = Bench::new() else { return };
    bench.library("stub/libb.so.1", &[], &[]);
    bench.library("deep/libb.so.1", &[], &[]);
    bench.library("own/liba.so.1", &["libb.so.1"], &[]);
    bench.library("stub/liba.so.1", &[], &[]);
    bench.program(&["liba.so.1"], &["-Wl,-rpath,$ORIGIN/own:$ORIGIN/deep", OLD]);
    assert_eq!(bench.agree(&[], None, None), ["deep/libb.so.1", "own/liba.so.1"]);
    bench.program(&["liba.so.1"], &["-Wl,-rpath,$ORIGIN/own:$ORIGIN/deep", NEW]);
    bench.agree(&[], None, None);
    // A RUNPATH of the library shuts out the program's RPATH.
    bench.library("own/liba.so.1", &["libb.so.1"], &["-Wl,-rpath,$ORIGIN/../nowhere", NEW]);
    bench.program(&["liba.so.1"], &["-Wl,-rpath,$ORIGIN/own:$ORIGIN/deep", OLD]);
    bench.agree(&[], None, None);
    assert_eq!(bench.agree(&[], Some("deep"), None), ["deep/libb.so.1", "own/liba.so.1"]);
}

#[test]
fn who_is_loaded_first_under_a_name_stays() {
    let Some(bench) = Bench::new() else { return };
    for folder in ["stub", "first", "second"] {
        bench.library(&format!("{folder}/libb.so.1"), &[], &[]);
    }
    bench.library("own/liba.so.1", &["libb.so.1"], &["-Wl,-rpath,$ORIGIN/../second", OLD]);
    bench.library("stub/liba.so.1", &[], &[]);
    let first = bench.path("first/libb.so.1");
    bench.program(&[], &["-Wl,-rpath,$ORIGIN/own", OLD]);
    let opens = [first.to_str().unwrap(), "liba.so.1"];
    assert_eq!(bench.agree(&opens, None, None), ["first/libb.so.1", "own/liba.so.1"]);
    assert_eq!(bench.agree(&["liba.so.1"], None, None), ["own/liba.so.1", "second/libb.so.1"]);
    // LD_PRELOAD comes before all others.
    assert_eq!(
        bench.agree(&["liba.so.1"], None, Some("first/libb.so.1")),
        ["first/libb.so.1", "own/liba.so.1"]
    );
    // A link to a file is the file.
    std::os::unix::fs::symlink(&first, bench.path("own/libc2.so.1")).unwrap();
    assert_eq!(bench.agree(&["libc2.so.1", "liba.so.1"], None, None), ["first/libb.so.1", "own/liba.so.1"]);
}

#[test]
fn what_a_library_opens_is_found_by_its_own_paths() {
    let Some(bench) = Bench::new() else { return };
    for folder in ["stub", "parts", "alien"] {
        bench.library(&format!("{folder}/libpart.so.1"), &[], &[]);
    }
    // As cuDNN does: the shim beside its parts, found by RUNPATH, which loses to the variable.
    bench.library("parts/libshim.so.1", &[], &["-Wl,-rpath,$ORIGIN", NEW]);
    bench.program(&[], &["-Wl,-rpath,$ORIGIN/parts", OLD]);
    let opens = ["libshim.so.1:libpart.so.1"];
    assert_eq!(bench.agree(&opens, None, None), ["parts/libpart.so.1", "parts/libshim.so.1"]);
    assert_eq!(bench.agree(&opens, Some("alien"), None), ["alien/libpart.so.1", "parts/libshim.so.1"]);
    bench.library("parts/libshim.so.1", &[], &["-Wl,-rpath,$ORIGIN", OLD]);
    assert_eq!(bench.agree(&opens, Some("alien"), None), ["parts/libpart.so.1", "parts/libshim.so.1"]);
}

#[test]
fn folders_for_newer_processors_and_files_of_other_kinds() {
    let Some(bench) = Bench::new() else { return };
    bench.library("stub/liba.so.1", &[], &[]);
    bench.library("own/liba.so.1", &[], &[]);
    for level in ["x86-64-v2", "x86-64-v3", "x86-64-v4"] {
        bench.library(&format!("own/glibc-hwcaps/{level}/liba.so.1"), &[], &[]);
    }
    bench.program(&["liba.so.1"], &["-Wl,-rpath,$ORIGIN/own", OLD]);
    assert_eq!(bench.agree(&[], None, None).len(), 1);
    // A library for another processor is passed over.
    let mut bytes = std::fs::read(bench.path("own/liba.so.1")).unwrap();
    bytes[18] = 0xf3;
    std::fs::create_dir_all(bench.path("alien")).unwrap();
    std::fs::write(bench.path("alien/liba.so.1"), bytes).unwrap();
    bench.program(&["liba.so.1"], &["-Wl,-rpath,$ORIGIN/alien:$ORIGIN/own", OLD]);
    bench.agree(&[], None, None);
    // An empty entry of the variable is the working folder.
    std::fs::copy(bench.path("stub/liba.so.1"), bench.path("liba.so.1")).unwrap();
    bench.program(&["liba.so.1"], &[]);
    assert_eq!(bench.agree(&[], Some("nowhere:"), None), ["liba.so.1"]);
}
