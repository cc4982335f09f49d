//! Servers, folders and programs that somebody else controls: each attempt ends with a sentence that names the limit or
//! the folder.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::common::synced::Synced;
use super::context::{IndexServer, Run, Shape, TestContext, leftovers, skipped};
use super::tools;
use super::wheels::wheel;

/// A server whose every answer is written by a function, given the path that was asked for; it ends with the test
/// process.
fn server(answer: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let answer = answer.clone();
            std::thread::spawn(move || {
                let mut request = [0; 4096];
                let length = stream.read(&mut request).unwrap_or(0);
                let request = String::from_utf8_lossy(&request[..length]).into_owned();
                let _ = answer(request.split(' ').nth(1).unwrap_or("/"), &mut stream);
            });
        }
    });
    address
}

/// Resolves `demo` from a server with a time limit of one second.
fn resolve(address: &str) -> (Run, Duration) {
    let mut context = TestContext::new();
    context.set("ENVLOCK_INDEX_URL", address);
    context.set("ENVLOCK_HTTP_TIMEOUT", "1");
    let start = Instant::now();
    let run = context.run(&["resolve", "demo", "--gpu", "none", "--python", "3.12"]);
    (run, start.elapsed())
}

#[test]
fn a_server_that_keeps_a_run_waiting_is_left() {
    let slow_body = |_: &str, stream: &mut TcpStream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n")?;
        loop {
            stream.write_all(b"<")?;
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let endless_headers = |_: &str, stream: &mut TcpStream| {
        stream.write_all(b"HTTP/1.1 200 OK\r\n")?;
        loop {
            stream.write_all(b"X-A: b\r\n")?;
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let (run, time) = resolve(&server(slow_body));
    assert!(run.flat().contains("less than 1 kB/s for 1 s"), "{}", run.shown());
    assert!(time < Duration::from_secs(20), "{time:?}");
    run.expect(3);
    let (run, time) = resolve(&server(endless_headers));
    assert!(
        ["no answer within 1 s", "timed out"].iter().any(|text| run.flat().contains(text)),
        "{}",
        run.shown()
    );
    assert!(time < Duration::from_secs(20), "{time:?}");
    run.expect(3);
}

#[test]
fn a_page_that_unpacks_to_gigabytes_is_refused_in_little_memory() {
    fn bomb(_: &str, stream: &mut TcpStream) -> std::io::Result<()> {
        stream.write_all(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n",
        )?;
        let mut out = flate2::write::GzEncoder::new(stream, flate2::Compression::fast());
        let links = "<a href='x-1-py3-none-any.whl'>a</a>".repeat(10_000);
        for _ in 0..3_000 {
            out.write_all(links.as_bytes())?;
        }
        out.finish().map(drop)
    }
    let mut context = TestContext::new();
    context.set("ENVLOCK_INDEX_URL", &server(bomb));
    context.set("ENVLOCK_HTTP_TIMEOUT", "30");
    let mut command = context.command();
    command.args(["resolve", "demo", "--gpu", "none", "--python", "3.12"]);
    let (text, peak_kib) = peak_of(command);
    assert!(text.contains("larger than 64 MiB"), "{text}");
    assert!(peak_kib < 200 << 10, "{peak_kib} KiB");
}

/// What a command says on stdout and stderr, in one line, and its peak of memory in KiB: without the pages of files, the program's own among
/// them, which is large where it is not optimized. 0 where that is not known.
fn peak_of(mut command: Command) -> (String, u64) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    while child.try_wait().unwrap().is_none() {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let now = line.and_then(|text| text.trim().trim_end_matches(" kB").parse().ok());
        peak_kib = now.unwrap_or(0).max(peak_kib);
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(peak_kib > 0 || !cfg!(target_os = "linux"));
    (text.split_whitespace().collect::<Vec<_>>().join(" "), peak_kib)
}

/// The records of a large channel are not held in memory.
#[test]
fn a_large_channel_is_read_in_little_memory() {
    fn channel(path: &str, stream: &mut TcpStream) -> std::io::Result<()> {
        if !path.ends_with("linux-64/repodata.json.zst") {
            return stream
                .write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
        let mut out = zstd::Encoder::new(stream, 1)?;
        out.write_all(b"{\"packages\": {}, \"packages.conda\": {")?;
        // Of random bytes, as half of a record is: its hashes.
        let mut hash = 1u64;
        for at in 0..250_000 {
            let comma = if at > 0 { "," } else { "" };
            write!(
                out,
                "{comma}\"other-1.{at}-0.conda\": {{\"name\": \"other\", \"depends\": [], \"sha256\": \""
            )?;
            for _ in 0..16 {
                hash = hash.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                write!(out, "{hash:016x}")?;
            }
            write!(out, "\", \"license\": \"{}\"}}", "x".repeat(250))?;
        }
        out.write_all(b"}}")?;
        out.finish().map(drop)
    }
    let index = IndexServer::start(Vec::new(), Shape::default());
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &server(channel));
    context.set("ENVLOCK_HTTP_TIMEOUT", "60");
    context.write("envlock.toml", "[project]\nname = \"x\"\n[conda]\ndependencies = [\"zlib\"]\n");
    let mut command = context.command();
    command.args(["resolve", "--gpu", "none", "--python", "3.12", "--only-index", "conda-forge"]);
    let (text, peak_kib) = peak_of(command);
    assert!(text.contains("no Python 3.12 can be installed from conda-forge"), "{text}");
    assert!(peak_kib < 120 << 10, "{peak_kib} KiB");
}

/// Answers with a page of one release, or with METADATA that has these requirements.
fn answer_with(path: &str, stream: &mut TcpStream, requires: &[String]) -> std::io::Result<()> {
    let name = path.trim_matches('/').split(['/', '-']).next().unwrap_or_default();
    let (kind, body) = match path.ends_with(".metadata") {
        true => {
            let requires: String = requires.iter().map(|name| format!("Requires-Dist: {name}\n")).collect();
            ("text/plain", format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}\n"))
        }
        false => {
            let link = format!("<a href='/{name}-1.0-py3-none-any.whl' data-core-metadata='true'>a</a>");
            ("text/html", format!("<html>{link}</html>"))
        }
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[test]
fn an_index_that_always_has_more_is_left() {
    // Each package requires the next one, without end.
    let chain = |path: &str, stream: &mut TcpStream| {
        let number = path.trim_matches('/').split(['/', '-']).next().unwrap_or_default();
        let next = number.trim_start_matches("demo").parse().unwrap_or(0u32) + 1;
        answer_with(path, stream, &[format!("demo{next}")])
    };
    let (run, time) = resolve(&server(chain));
    assert!(run.flat().contains("5000 project pages, which is the limit"), "{}", run.shown());
    assert!(time < Duration::from_secs(120), "{time:?}");
    run.expect(2);
    // One package requires all others.
    let wide = |path: &str, stream: &mut TcpStream| {
        let requires: Vec<String> = (0..200_000).map(|n| format!("other{n}")).collect();
        answer_with(path, stream, if path.contains("demo") { &requires } else { &[] })
    };
    let (run, time) = resolve(&server(wide));
    assert!(run.flat().contains("more than 20000 dependencies"), "{}", run.shown());
    assert!(time < Duration::from_secs(60), "{time:?}");
}

#[test]
fn files_that_belong_together_are_compared() {
    let shape = Shape { json: true, metadata: true, ..Shape::default() };
    let index =
        IndexServer::start(vec![("pypi", wheel("demo", "1.0")), ("pypi", wheel("other", "2.0"))], shape);
    let context = TestContext::with_index(&index);
    let described = ["--gpu", "none", "--python", "3.12"];
    let with = |first: &[&'static str]| [first, &described[..]].concat();
    context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = [\"demo\"]\n");
    context.run(&with(&["resolve"])).expect(0);
    let before = context.read("environment.yml");
    context.run(&["add", "other"]).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    // What a kill between the two files leaves.
    context.write("environment.yml", &before);
    let run = context.run(&["resolve", "--locked"]).expect(1);
    assert!(
        run.stdout.contains("`environment.yml` is not the environment that the lock gives"),
        "{}",
        run.shown()
    );
    context.run(&["resolve"]).expect(0);
    context.run(&["resolve", "--locked"]).expect(0);
    // What a line is made of counts as a whole.
    let honest = context.read("environment.yml");
    for (from, to) in [
        ("- conda-forge", "- http://evil.example/conda-forge"),
        ("      - demo==1.0", "      - evil==6.6 # - --extra-index-url x\n      - demo==1.0"),
        ("      - demo==1.0", "      - --extra-index-url http://evil.example/simple\n      - demo==1.0"),
        ("      - demo==1.0", "      - demo==6.6"),
    ] {
        assert!(honest.contains(from), "{honest}");
        context.write("environment.yml", &format!("\n{}", honest.replacen(from, to, 1)));
        context.run(&["resolve", "--locked"]).expect(1);
    }
    context.write("environment.yml", "dependencies: [evil]\n");
    let run = context.run(&["resolve", "--locked"]).expect(0);
    assert!(run.flat().contains("was not written by envlock"), "{}", run.shown());
    context.write("environment.yml", &honest);
    // Another name and a comment are no difference, and a project may commit the lock alone.
    let text = context.read("environment.yml");
    context.write("environment.yml", &text.replacen("name: x", "name: y", 1));
    context.run(&["resolve", "--locked"]).expect(0);
    std::fs::remove_file(context.project().join("environment.yml")).unwrap();
    let run = context.run(&["resolve", "--locked"]).expect(0);
    assert!(run.stderr.contains("`environment.yml` is not there"), "{}", run.shown());
    assert_eq!(leftovers(&context.project()), Vec::<String>::new());
    // A link to a device is no place for a lock.
    symlink("/dev/null", context.project().join("environment.yml")).unwrap();
    let run = context.run(&["add", "other==2.0"]).expect(2);
    assert!(run.stderr.contains("is not a regular file"), "{}", run.shown());
    // Neither is a pipe, and nothing waits for it.
    std::fs::remove_file(context.project().join("environment.yml")).unwrap();
    for name in ["environment.yml", "envlock.lock"] {
        let _ = std::fs::remove_file(context.project().join(name));
        let made = std::process::Command::new("mkfifo").arg(context.project().join(name)).status().unwrap();
        assert!(made.success());
        let run = context.run(&["add", "other==2.0"]).expect(2);
        assert!(run.stderr.contains("is not a regular file"), "{}", run.shown());
        std::fs::remove_file(context.project().join(name)).unwrap();
    }
}

#[test]
fn a_manifest_that_changes_while_it_is_resolved_is_not_overwritten() {
    let pause = |path: &str, stream: &mut TcpStream| {
        std::thread::sleep(Duration::from_millis(400));
        answer_with(path, stream, &[])
    };
    let mut context = TestContext::new();
    context.set("ENVLOCK_INDEX_URL", &server(pause));
    context.set("ENVLOCK_HTTP_TIMEOUT", "30");
    let text = "[project]\nname = \"x\"\ndependencies = []\n";
    context.write("envlock.toml", text);
    let mut command = context.command();
    command.args(["add", "demo", "--gpu", "none", "--python", "3.12"]);
    let child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let edited = format!("# mine\n{text}");
    context.write("envlock.toml", &edited);
    let run = context.finish(child.wait_with_output().unwrap()).expect(2);
    assert!(run.flat().contains("was changed while the packages were resolved"), "{}", run.shown());
    assert_eq!(context.read("envlock.toml"), edited);
    assert!(!context.exists("envlock.lock"));
}

#[test]
fn a_cache_that_others_can_write_to_is_not_used() {
    let mut context = TestContext::new();
    let open = context.dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    let named = context.run(&["--cache-dir", open.to_str().unwrap(), "cache", "dir"]).expect(2);
    assert!(named.stderr.contains("can be written by every user"), "{}", named.shown());
    // Above it, and in it.
    let below = open.join("mine");
    std::fs::create_dir(&below).unwrap();
    let run = context.run(&["--cache-dir", below.to_str().unwrap(), "cache", "dir"]).expect(2);
    assert!(
        run.flat().contains("lies in `[DIR]/open`, which can be written by every user"),
        "{}",
        run.shown()
    );
    let whole = context.dir.path().join("whole");
    std::fs::create_dir_all(whole.join("simple")).unwrap();
    std::fs::set_permissions(whole.join("simple"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let run = context.run(&["--cache-dir", whole.to_str().unwrap(), "cache", "dir"]).expect(2);
    assert!(run.flat().contains("contains `[DIR]/whole/simple`, which can be"), "{}", run.shown());
    // What needs no cache does not look at it.
    context.run(&["--cache-dir", open.to_str().unwrap(), "probe"]).expect(0);
    context.set("ENVLOCK_CACHE_DIR", "");
    let xdg = context.dir.path().join("xdg").display().to_string();
    context.set("XDG_CACHE_HOME", &xdg);
    let users = context.dir.path().join("xdg/envlock");
    std::fs::create_dir_all(&users).unwrap();
    std::fs::set_permissions(&users, std::fs::Permissions::from_mode(0o777)).unwrap();
    let run = context.run(&["cache", "dir"]).expect(0);
    assert!(run.stderr.contains("it is not used") && run.stdout.trim() == "/dev/null", "{}", run.shown());
    // Without a home folder: a folder of our own.
    context.set("XDG_CACHE_HOME", "");
    context.set("HOME", "");
    let own = context.dir.path().display().to_string();
    context.set("TMPDIR", &own);
    let run = context.run(&["cache", "dir"]).expect(0);
    let folder = std::fs::metadata(run.stdout.trim().replace("[DIR]", &own)).unwrap();
    assert_eq!(folder.permissions().mode() & 0o777, 0o700, "{}", run.shown());
}

#[test]
fn a_manifest_of_another_user_above_is_not_used() {
    let context = TestContext::new();
    let path = context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = []\n");
    let below = context.project().join("below");
    std::fs::create_dir(&below).unwrap();
    if std::os::unix::fs::chown(&path, Some(4242), None).is_err() {
        return skipped("only root can give a file to another user");
    }
    let run = |folder: &Path, arguments: &[&str]| {
        let mut command = context.command();
        command.current_dir(folder).args(arguments);
        context.finish(command.output().unwrap())
    };
    let found = run(&below, &["resolve", "--locked"]).expect(2);
    assert!(found.flat().contains("belongs to another user"), "{}", found.shown());
    // Named, or in the current folder, it is what the user means.
    let project = context.project();
    let named = run(&below, &["resolve", "--locked", "--project", project.to_str().unwrap()]);
    assert!(!named.flat().contains("another user"), "{}", named.shown());
    let here = run(&project, &["resolve", "--locked"]);
    assert!(!here.flat().contains("another user"), "{}", here.shown());
}

#[test]
fn a_planted_program_is_not_run_and_an_open_pipe_does_not_hang() {
    let context = TestContext::new();
    let bin = context.dir.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let mark = context.dir.path().join("mark");
    let script = format!("#!/bin/sh\ntouch {}\n/bin/sleep 60 &\necho started\n", mark.display());
    std::fs::write(bin.join("nvidia-smi"), script).unwrap();
    std::fs::set_permissions(bin.join("nvidia-smi"), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&bin, std::fs::Permissions::from_mode(0o777)).unwrap();
    context.run(&["probe"]).expect(0);
    assert!(!mark.exists(), "a program in a folder that everybody can write to was run");
    std::fs::set_permissions(&bin, std::fs::Permissions::from_mode(0o755)).unwrap();
    let start = Instant::now();
    context.run(&["probe"]).expect(0);
    assert!(start.elapsed() < Duration::from_secs(40), "its child keeps the pipe open for a minute");
}

#[test]
fn few_file_descriptors_are_an_error() {
    let context = TestContext::new();
    context.write("envlock.toml", "[project]\nname = \"x\"\ndependencies = [\"demo\"]\n");
    let program = format!("ulimit -n 6; exec {} resolve --gpu none", env!("CARGO_BIN_EXE_envlock"));
    let output = context.command_of("/bin/sh").args(["-c", &program]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!text.contains("panicked"), "{text}");
    assert!(matches!(output.status.code(), Some(2 | 3)), "{:?} {text}", output.status);
}

#[test]
fn an_argument_that_is_repeated_does_not_control_the_terminal() {
    let context = TestContext::new();
    for arguments in
        [["resolve", "--x\u{1b}]0;evil\u{7}"], ["verify", "a\u{9b}2Jb"], ["\u{1b}[2Jresolv", "x"]]
    {
        let run = context.run(&arguments).expect(2);
        let evil = ['\u{7}', '\u{9b}'].iter().any(|c| run.stderr.contains(*c));
        assert!(
            !evil && !run.stderr.contains("\u{1b}]") && !run.stderr.contains("\u{1b}[2J"),
            "{}",
            run.shown()
        );
    }
}

/// The parser takes quadratic time on some texts that are no Python: it is stopped.
#[test]
fn a_setup_py_that_keeps_the_parser_busy_is_left() {
    let context = TestContext::new();
    let end = "\nsetup(name='slow', version='1.0')\n";
    for text in [
        format!("x={}", "*".repeat(100_000)),
        format!("f({}", "**".repeat(50_000)),
        format!("x={}", "\\\n".repeat(100_000)),
    ] {
        context.write("slow/setup.py", &format!("from setuptools import setup\n{text}1{end}"));
        context.write("envlock.toml", "[project]\ndependencies = [\"slow @ ./slow\"]\n");
        let start = Instant::now();
        let run = context.run(&["resolve", "--gpu", "none", "--index-url", "http://127.0.0.1:9/simple"]);
        assert!(run.code == 2 && run.flat().contains("`./slow` cannot be read"), "{}", run.shown());
        assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    }
}

/// What a loop looks at is counted, whatever it does: 26 s for one release without that.
#[test]
fn loops_of_a_setup_py_are_counted() {
    let context = TestContext::new();
    let one = "1,".repeat(64_000);
    let letters = "'a',".repeat(20_000);
    for text in [
        format!("L = [{one}]\nfor x in L:\n    pass\n"),
        format!("L = [{letters}]\nfor x in L:\n    for y in L:\n        pass\n"),
        format!("L = [{letters}]\nM = [x for x in L for y in L]\n"),
        format!("L = [{letters}]\nfor x in L:\n    if x in L:\n        pass\n"),
        format!("L = [{letters}]\n{}", "y = L[3]\n".repeat(9_000)),
    ] {
        context.write(
            "own/setup.py",
            &format!("from setuptools import setup\n{text}setup(name='own', version='1')\n"),
        );
        context.write("envlock.toml", "[project]\ndependencies = [\"own @ ./own\"]\n");
        let start = Instant::now();
        context.run(&["resolve", "--gpu", "none", "--index-url", "http://127.0.0.1:9/simple", "--dry-run"]);
        assert!(start.elapsed() < Duration::from_secs(30), "{:?}: {}", start.elapsed(), &text[..40]);
    }
}

/// A planted `.venv/bin/python` and a planted uv below the project are not run by commands that only look or lock.
#[test]
fn nothing_below_the_project_is_run_by_static_commands() {
    let mut context = TestContext::new();
    let mark = context.dir.path().join("mark");
    let script = format!("#!/bin/sh\necho $0 $@ >> {}\nexit 1\n", mark.display());
    for program in [
        ".venv/bin/python",
        ".venv/bin/python3",
        ".venv/bin/uv",
        ".venv/bin/nvidia-smi",
        ".venv/bin/git",
        ".venv/bin/ssh",
    ] {
        let path = context.write(program, &script);
        super::context::executable(&path);
    }
    context.write(".venv/pyvenv.cfg", "home = /usr/bin\nversion = 3.12.1\n");
    context.write(
        "pyproject.toml",
        "[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \">=3.9\"\n[tool.envlock]\n",
    );
    let mut path = context.project().join(".venv/bin").display().to_string();
    if let Some(uv) = tools::uv() {
        path = format!("{path}:{}", Path::new(&uv).parent().unwrap().display());
    }
    // The system's git, which finds the planted ssh on PATH unless it is told otherwise.
    path = format!("{path}:/usr/bin:/usr/local/bin");
    context.set("PATH", &path);
    // The machine as it is: a made-up root has its programs on PATH.
    context.set("ENVLOCK_SYSROOT", "/");
    context.set("VIRTUAL_ENV", &context.project().join(".venv").display().to_string());
    for arguments in [
        &["probe"][..],
        &["plan", "--gpu", "none"],
        &["resolve", "--stack-only", "--gpu", "none"],
        &["resolve", "torch", "--stack-only", "--gpu", "none", "--dry-run"],
        &["resolve", "own @ git+ssh://git@127.0.0.1:9/own.git", "--gpu", "none", "--dry-run"],
        &["verify", "--smoke", "off"],
        &["diagnose", "pyproject.toml"],
        &["outdated", "--offline"],
    ] {
        context.run(arguments);
        let ran = std::fs::read_to_string(&mark).unwrap_or_default();
        assert!(ran.is_empty(), "{arguments:?}: {ran}");
    }
}

/// uv, which `resolve` starts, is shown no environment of the project and no program of one: it would run the Python of it.
#[test]
fn what_uv_locks_runs_nothing_of_the_project() {
    let Some(mut env) = Synced::new(true) else { return };
    let mark = env.context.dir.path().join("mark");
    let script = format!("#!/bin/sh\necho $0 $@ >> {}\nexec /usr/bin/python3 \"$@\"\n", mark.display());
    for program in [".venv/bin/python", ".venv/bin/python3", ".venv/bin/uv", ".venv/bin/git"] {
        super::context::executable(&env.context.write(program, &script));
    }
    env.context.write(".venv/pyvenv.cfg", &format!("home = /usr/bin\nversion = {}.1\n", env.series));
    let text = format!(
        "[project]\nname = \"demo\"\nversion = \"1\"\nrequires-python = \">={}\"\ndependencies = [\"alpha\"]\n[tool.uv]\n[tool.envlock]\n",
        env.series
    );
    env.context.write("pyproject.toml", &text);
    env.context.write(".python-version", &format!("{}\n", env.series));
    let empty = format!("version = 1\nrevision = 3\nrequires-python = \">={}\"\n", env.series);
    env.context.write("uv.lock", &empty);
    let venv = env.context.project().join(".venv");
    let bin = env.context.dir.path().join("bin");
    let folders = [venv.join("bin"), bin, "/usr/bin".into()];
    env.context.set("PATH", std::env::join_paths(folders).unwrap().to_str().unwrap());
    env.context.set("VIRTUAL_ENV", venv.to_str().unwrap());
    env.context.set("UV_DEFAULT_INDEX", &format!("{}/pypi", env.server.address));
    let run = env.context.run(&["resolve", "--gpu", "none"]);
    let ran = std::fs::read_to_string(&mark).unwrap_or_default();
    assert!(ran.is_empty(), "{ran}");
    run.expect(0);
    assert!(env.context.read("uv.lock").contains("name = \"alpha\""));
}

/// The name of a folder is text wherever an export puts it: neither YAML nor an expression of a workflow.
#[test]
fn folders_of_odd_names_are_text_in_exports() {
    let context = TestContext::new();
    std::fs::create_dir_all(context.project().join(".git")).unwrap();
    let mut usual = std::collections::BTreeMap::new();
    for name in [
        "plain",
        "a: b",
        "a #b",
        "it's ${{ github.token }}",
        "two\nlines: x",
        "- x",
        "{x}",
        "a\"b",
        "${localEnv:HOME}",
        "a\u{85}      - run: echo PWNED\u{2028}      #",
    ] {
        context.write(&format!("{name}/envlock.toml"), "[stack]\ntorch = \"*\"\n");
        let folder = context.project().join(name);
        let run = |arguments: &[&str]| {
            context.finish(context.command().current_dir(&folder).args(arguments).output().unwrap())
        };
        run(&["resolve", "--stack-only", "--gpu", "none"]).expect(0);
        // Of devcontainer.json only envlock's own variables are expanded.
        let made = run(&["export", "devcontainer"]).expect(0).stdout;
        let document: serde_json::Value = serde_json::from_str(made.split_once('\n').unwrap().1).unwrap();
        let text = document.to_string().replace("${localEnv:ENVLOCK_WHEEL}", "");
        let text = text.replace("${containerWorkspaceFolder}", "").replace("${ENVLOCK_WHEEL:?", "");
        assert!(!text.contains("${"), "{name:?}: {text}");
        for format in ["github", "pre-commit"] {
            let made = run(&["export", format]).expect(0).stdout;
            // The command of the summary is a block of one line, or a text in quotes.
            let lines = made.lines().count() + usize::from(!made.contains("run: |"));
            assert_eq!(*usual.entry(format).or_insert(lines), lines, "{name:?} {format}\n{made}");
            let mut is_block = false;
            for line in made.lines().filter(|line| !line.trim_start().starts_with('#')) {
                let value = line.trim_start().trim_start_matches("- ").split_once(": ");
                let value = value.map_or("", |(_, value)| value);
                // `uses: ACTION@COMMIT # v7.0.1`: the form's own comment, a word of the version alone.
                let is_action = line.contains("uses: ") && line.matches('#').count() == 1;
                let value = if is_action { value.split(" # v").next().unwrap() } else { value };
                let is_text = is_block || value.starts_with('"');
                is_block = value == "|";
                assert!(is_text || !value.contains(": ") && !value.contains(" #"), "{name:?}: {line}");
                let expressions = line.replace("${{ '${{' }}", "");
                assert!(format == "pre-commit" || !expressions.contains("${{ github"), "{name:?}: {line}");
            }
        }
    }
}

/// What a lock of another tool has is counted before it takes a hundred times its space.
#[test]
fn a_lock_with_millions_of_edges_is_refused() {
    let context = TestContext::new();
    let edges = "{ name = \"a\" },\n".repeat(1_000_000);
    context.write(
        "uv.lock",
        &format!("version = 1\n[[package]]\nname = \"a\"\nversion = \"1\"\nsource = {{ registry = \"x\" }}\ndependencies = [\n{edges}]\n"),
    );
    let start = Instant::now();
    let run = context.run(&["plan", "--gpu", "A100", "--lock", "uv.lock"]).expect(2);
    assert!(run.flat().contains("more than 400000 requirements and files"), "{}", run.shown());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// Locks of other tools that take a hundred times their size, or a minute.
#[test]
fn locks_of_other_tools_have_limits() {
    let context = TestContext::new();
    let repeated = |part: &str| part.repeat((56 << 20) / part.len());
    let uv = |more: &str| format!("version = 1\nx = {more}\n");
    let extras: Vec<String> = (0..3_000).map(|at| format!("\"e{at}\"")).collect();
    let package = "[[packages]]\nname = \"a\"\nversion = \"1\"\n".repeat(40_000);
    let pylock = format!("lock-version = \"1.0\"\nextras = [{}]\n{package}", extras.join(", "));
    for (file, text, said) in [
        ("uv.lock", uv(&format!("[{}]", repeated("1,"))), "more than 3000000 values"),
        ("uv.lock", uv(&format!("[{}]", repeated("\"\","))), "more than 3000000 values"),
        ("uv.lock", format!("version = 1\n{}b = 1\n", repeated("a.")), "more than 3000000 values"),
        ("uv.lock", format!("version = 1\n{}", repeated("[[z]]\n")), "more than 3000000 values"),
        ("uv.lock", format!("version = 1\n{}", repeated("\n")), "more than 3000000 values"),
        ("uv.lock", uv(&repeated("[")), "more than 3000000 values"),
        ("uv.lock", format!("version = 1\n#{}", repeated("x")), "larger than 24 MiB"),
        ("pylock.toml", pylock, "are more than 500000"),
        ("requirements.txt", format!("{}a==1\n", repeated("\n")), "more than 3000000 values"),
    ] {
        context.write(file, &text);
        let mut command = context.command();
        command.args(["plan", "--gpu", "A100", "--lock", file]);
        let start = Instant::now();
        let (shown, peak_kib) = peak_of(command);
        assert!(shown.contains(said), "{file}, {said}: {shown}");
        assert!(start.elapsed() < Duration::from_secs(120), "{file}, {said}: {:?}", start.elapsed());
        assert!(peak_kib < 300 << 10, "{file}, {said}: {peak_kib} KiB");
    }
}

/// A requirements file as a lock: what it includes is not passed over, and logins are not shown.
#[test]
fn lines_of_a_requirements_lock() {
    let context = TestContext::new();
    for line in [
        "-r other.txt",
        "-rother.txt",
        "--requirement=other.txt",
        "--pre -r other.txt",
        "-i https://me:SECRETpw@h.example/simple -r other.txt",
        "# a comment\u{2028}-r other.txt",
        "a==1 # a\u{c}-r other.txt",
    ] {
        context.write("requirements.txt", &format!("torch==2.9.1\n{line}\n"));
        let run = context.run(&["plan", "--gpu", "A100", "--lock", "requirements.txt"]).expect(2);
        assert!(run.flat().contains("includes another file"), "{line:?}: {}", run.shown());
        assert!(!run.shown().contains("SECRET"), "{line:?}: {}", run.shown());
    }
    // `init` reads the other file, however it is named.
    context.write("other.txt", "six==1.17.0\n");
    for line in [
        "-r other.txt",
        "-rother.txt",
        "--pre -r other.txt",
        "# a comment\u{c}-r other.txt",
        "a==1\r-r other.txt",
    ] {
        context.write("requirements.txt", &format!("{line}\n"));
        context.run(&["init", "--force", "--from", "requirements.txt"]).expect(0);
        assert!(context.read("envlock.toml").contains("six==1.17.0"), "{line:?}");
    }
    std::fs::remove_file(context.project().join("envlock.toml")).unwrap();
    for line in [
        "git+https://ghp_SECRETSECRETSECRETSECRETSECRETSECRET1@github.com/a/b.git",
        "-r https://user:SECRETpw@h.example/r.txt",
        "a==1 ; 'https://user:SECRETpw@h.example' is 3",
        "a>=1 # https://user:SECRETpw@h.example",
    ] {
        context.write("requirements.txt", &format!("{line}\n"));
        let run = context.run(&["plan", "--gpu", "A100", "--lock", "requirements.txt"]).expect(2);
        assert!(!run.shown().contains("SECRET"), "{line:?}: {}", run.shown());
    }
}

/// An address of an index is one word in the lists that pip and others read, whatever is written in it.
#[test]
fn addresses_of_indexes_are_one_word() {
    let index = IndexServer::start(vec![("pypi", wheel("demo", "1.0"))], Shape::default());
    let evil = format!("{}/pypi/${{AWS_SECRET_ACCESS_KEY}} --no-binary demo", index.address);
    for (manifest, variable) in [(true, false), (false, true)] {
        let mut context = TestContext::new();
        let own = format!("[[index]]\nname = \"corp\"\nurl = \"{evil}\"\npackages = [\"demo\"]\n");
        let own = if manifest { own } else { String::new() };
        context.write("envlock.toml", &format!("[project]\nname = \"x\"\ndependencies = [\"demo\"]\n{own}"));
        context.set("ENVLOCK_INDEX_URL", &format!("{}/pypi", index.address));
        context.run(&["resolve", "--gpu", "none", "--python", "3.12"]);
        // The lock is made; the address is changed afterwards.
        if !context.exists("envlock.lock") {
            let good = context.read("envlock.toml").replace(&evil, &format!("{}/pypi", index.address));
            let bad = context.read("envlock.toml");
            context.write("envlock.toml", &good);
            context.run(&["resolve", "--gpu", "none", "--python", "3.12"]).expect(0);
            context.write("envlock.toml", &bad);
        }
        if variable {
            context.set("ENVLOCK_INDEX_URL", &evil);
        }
        for format in ["requirements.txt", "environment.yml", "uv", "pixi", "pylock.toml"] {
            let made = context.run(&["export", format]).stdout;
            assert!(!made.contains("${") && !made.contains(" --no-binary"), "{format}: {made}");
        }
    }
}

/// A login or a signature in an address reaches neither a message nor a file.
#[test]
fn secrets_of_addresses_are_not_shown_and_not_kept() {
    let context = TestContext::new();
    context.run(&["resolve", "--stack-only", "torch==2.9.1", "--gpu", "none"]).expect(0);
    let login = "evil @ https://me:SECRETpw@127.0.0.1:1/evil-1.0-py3-none-any.whl";
    let signed = "evil @ https://127.0.0.1:1/e-1.0-py3-none-any.whl?signature=SECRETSECRET1234567";
    for arguments in [
        &["resolve", "--locked", login][..],
        &["resolve", "--locked", login, "--format", "junit"],
        &["resolve", signed, "--dry-run"],
    ] {
        let run = context.run(arguments);
        assert!(run.code != 0 && !run.shown().contains("SECRET"), "{arguments:?}: {}", run.shown());
    }
    context.write("envlock.toml", "[stack]\ntorch = \"*\"\n");
    for text in [login, signed] {
        let run = context.run(&["resolve", text]);
        assert!(run.code != 0 && !run.shown().contains("SECRET"), "{}", run.shown());
    }
    let kept = [
        "ok1 @ https://h.example/ok1-1.0-py3-none-any.whl?key=builds/2025/nightly-cp311",
        "ok2 @ https://h.example/ok2-1.0-py3-none-any.whl?cache_key=0123456789abcdef0123",
    ];
    let refused = [
        "?q-sign-algorithm=sha1&q-ak=AK&q-signature=SECRET0123456789abcdef",
        "?x-oss-signature=SECRET0123456789abcdef",
        "?Authorization=SECRET0123456789abcdef",
        "?dl=ghp_SECRET56789012345678901234567890123456",
        "?hdnts=exp=1700000000~acl=/*~hmac=SECRET0123456789abcdef",
        "?token=SECRETshort12",
        "?signatur%65=SECRET0123456789",
        "#egg=a&token=SECRET0123456789",
    ];
    let lines = refused.iter().enumerate();
    let lines =
        lines.map(|(i, query)| format!("a{i} @ https://h.example/a{i}-1.0-py3-none-any.whl{query}\n"));
    let text: String = lines.chain(kept.iter().map(|line| format!("{line}\n"))).collect();
    context.write("requirements.txt", &text);
    let run = context.run(&["init", "--force", "--from", "requirements.txt"]).expect(0);
    assert!(!run.shown().contains("SECRET"), "{}", run.shown());
    let manifest = context.read("envlock.toml");
    assert!(!manifest.contains("SECRET"), "{manifest}");
    assert!(kept.iter().all(|line| manifest.contains(line)), "{manifest}");
}

/// Markers on extras are evaluated once for each of them.
#[test]
fn a_pylock_with_choices_without_end_is_refused() {
    let context = TestContext::new();
    let names = |kind: &str| (0..150).map(|i| format!("\"{kind}{i}\"")).collect::<Vec<_>>().join(",");
    let mut text = format!(
        "lock-version = \"1.0\"\ncreated-by = \"x\"\nextras = [{}]\ndependency-groups = [{}]\n",
        names("e"),
        names("g")
    );
    for i in 0..150 {
        let marker: Vec<String> = (0..60).map(|k| format!("'e{}' in extras", (i + k) % 150)).collect();
        let marker = marker.join(" or ");
        text.push_str(&format!("[[packages]]\nname = \"p{i}\"\nversion = \"1.0\"\nmarker = \"{marker}\"\n"));
    }
    context.write("pylock.toml", &text);
    let start = Instant::now();
    let run = context.run(&["plan", "--gpu", "none", "--lock", "pylock.toml"]).expect(2);
    assert!(run.flat().contains("4 MiB") && start.elapsed() < Duration::from_secs(10), "{}", run.shown());
}

/// A requirements file includes any file: what stands in it is shown without its secrets, and its lines have an end.
#[test]
fn what_a_requirements_file_includes() {
    let context = TestContext::new();
    let netrc = context.write("netrc", "machine host.example login ci password hunter2secret\n");
    context.write("requirements.txt", &format!("-r {}\n", netrc.display()));
    let run = context.run(&["init", "--from", "requirements.txt"]).expect(2);
    assert!(run.flat().contains("netrc:1") && !run.shown().contains("hunter2"), "{}", run.shown());
    let many: String = (0..60_000).map(|number| format!("p{number}\n")).collect();
    context.write("requirements.txt", &many);
    let start = Instant::now();
    let run = context.run(&["init", "--from", "requirements.txt"]).expect(2);
    assert!(run.flat().contains("more than 50000 requirements"), "{}", run.shown());
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// A marker of a few kilobytes makes a decision diagram of gigabytes.
#[test]
fn markers_that_multiply_are_refused() {
    let clauses = |n: usize| -> String {
        let parts = (0..n).map(|i| format!("(os_name=='{i}' or extra=='e{i}')"));
        parts.collect::<Vec<_>>().join(" and ")
    };
    let context = TestContext::new();
    context.write("requirements.txt", &format!("six==1.0 ; {}\n", clauses(300)));
    let mut command = context.command();
    command.args(["plan", "--lock", "requirements.txt", "--gpu", "none"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let (text, peak) = peak_of(command);
    assert!(peak < 300 << 10, "{peak} kB: {text}");
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("more comparisons by `and` and `or` than envlock reads"), "{text}");
}

/// A lock that leaves out all that is required, and says that it is one of the stack alone.
#[test]
fn a_lock_without_packages_is_stale() {
    let Some(env) = Synced::new(false) else { return };
    env.lock("\"alpha\"", "");
    let honest = env.context.read("envlock.lock");
    let head = honest.split("\n[[package]]").next().unwrap().replace("level = \"full\"", "level = \"stack\"");
    env.context.write("envlock.lock", &super::common::installed::with_checksum(&head));
    let run = env.context.run(&["resolve", "--locked"]).expect(1);
    assert!(
        run.flat().contains("target default has no packages, and `alpha` is required"),
        "{}",
        run.shown()
    );
}
