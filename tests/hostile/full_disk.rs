//! A disk that is full at each write in turn, by a library that is loaded before libc: what a run leaves is the state
//! before or after it, or `--locked` says what differs, and `resolve` repairs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::context::{IndexServer, Run, Shape, TestContext, leftovers, skipped};
use super::wheels::wheel;

/// Counts what changes files below a folder and fails the one with the number in `FAIL_AT` as a full disk does.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
static int count;
static int is_below(const char *path) {
    const char *folder = getenv("FAIL_BELOW");
    return folder && strncmp(path, folder, strlen(folder)) == 0;
}
static int of_descriptor(int fd) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0) return 0;
    path[n] = 0;
    return is_below(path);
}
static int fails(int counts) {
    const char *at = getenv("FAIL_AT");
    if (!counts || !at) return 0;
    if (__sync_add_and_fetch(&count, 1) != atoi(at)) return 0;
    FILE *reached = fopen(getenv("FAIL_TOLD"), "w");
    if (reached) fclose(reached);
    errno = ENOSPC;
    return 1;
}
#define REAL(name) static __typeof__(&name) real; if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
ssize_t write(int fd, const void *bytes, size_t n) { REAL(write); return fails(of_descriptor(fd)) ? -1 : real(fd, bytes, n); }
int fsync(int fd) { REAL(fsync); return fails(of_descriptor(fd)) ? -1 : real(fd); }
int fdatasync(int fd) { REAL(fdatasync); return fails(of_descriptor(fd)) ? -1 : real(fd); }
int rename(const char *from, const char *to) { REAL(rename); return fails(is_below(to)) ? -1 : real(from, to); }
int linkat(int a, const char *from, int b, const char *to, int flags) { REAL(linkat); return fails(is_below(to)) ? -1 : real(a, from, b, to, flags); }
"#;

/// The library; nothing where there is no gcc.
fn shim(folder: &Path) -> Option<PathBuf> {
    let (source, library) = (folder.join("full.c"), folder.join("libfull.so"));
    std::fs::write(&source, SHIM).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
    match gcc.status() {
        Ok(status) => {
            assert!(status.success());
            Some(library)
        }
        Err(_) => {
            skipped("no gcc here");
            None
        }
    }
}

/// The state of a project, as far as its three files tell: the version of `other` in each.
fn versions(context: &TestContext) -> [Option<String>; 3] {
    let of = |file: &str, before: &str| {
        let text = context.read(file);
        let tail = &text[text.find(before)? + before.len()..];
        Some(tail.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect())
    };
    [
        of("envlock.toml", "other=="),
        of("environment.yml", "- other=="),
        of("envlock.lock", "name = \"other\"\nversion = \""),
    ]
}

#[test]
fn a_full_disk_leaves_nothing_half_done() {
    let shape = Shape { json: true, metadata: true, ..Shape::default() };
    let releases = ["1.0", "2.0"].map(|version| ("pypi", wheel("other", version)));
    let index = IndexServer::start(releases.into(), shape);
    let mut context = TestContext::with_index(&index);
    let Some(library) = shim(context.dir.path()) else { return };
    context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = [\"other==1.0\"]\n");
    context.run(&["resolve", "--gpu", "none", "--python", "3.12"]).expect(0);
    let reached = context.dir.path().join("reached");
    let project = context.project().display().to_string();
    context.set("FAIL_BELOW", &project);
    context.set("FAIL_TOLD", &reached.display().to_string());
    for at in 1..100 {
        let version = if at % 2 == 0 { "1.0" } else { "2.0" };
        context.set("LD_PRELOAD", &library.display().to_string());
        context.set("FAIL_AT", &at.to_string());
        let run: Run = context.run(&["add", &format!("other=={version}")]);
        context.set("LD_PRELOAD", "");
        let was_reached = std::fs::remove_file(&reached).is_ok();
        assert_eq!(leftovers(&context.project()), Vec::<String>::new(), "write {at}");
        let states = versions(&context);
        let agree = states.iter().all(|state| *state == states[0]);
        let locked = context.run(&["resolve", "--locked"]);
        assert_eq!(locked.code, i32::from(!agree), "write {at}: {states:?} {}", locked.shown());
        if !was_reached {
            // Every write of a run was tried.
            assert!(at > 5, "{at}");
            assert_eq!(run.code, 0, "{}", run.shown());
            return;
        }
        // A failure is told, and `nothing was changed` only where it is so.
        if run.code == 0 {
            assert!(agree && states[0].as_deref() == Some(version), "write {at}: {states:?} {}", run.shown());
        } else {
            assert_eq!(run.code, 2, "write {at}: {}", run.shown());
            assert!(run.flat().contains("No space left on device"), "write {at}: {}", run.shown());
            let changed = states.iter().any(|state| state.as_deref() == Some(version));
            assert!(
                !(run.flat().contains("nothing was changed") && changed),
                "write {at}: {states:?} {}",
                run.shown()
            );
        }
        context.run(&["resolve"]).expect(0);
        context.run(&["resolve", "--locked"]).expect(0);
        let repaired = versions(&context);
        if repaired[0].as_deref() != Some(version) {
            context.run(&["add", &format!("other=={version}")]).expect(0);
        }
    }
    panic!("a run has more than 100 writes");
}
