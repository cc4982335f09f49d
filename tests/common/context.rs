//! `TestContext`: a temporary folder, a clean environment, a loopback index server.

pub use super::tools::skipped;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use super::wheels::{Page, Wheel};

/// How the server answers, to try the client in all shapes.
#[derive(Debug, Clone, Default)]
pub struct Shape {
    /// PEP 691 JSON instead of PEP 503 HTML.
    pub json: bool,
    /// State PEP 658 metadata and serve it.
    pub metadata: bool,
    /// Ignore Range headers.
    pub no_ranges: bool,
    /// Answer every request with this status.
    pub status: Option<u16>,
    /// Answer pages with this body.
    pub body: Option<&'static str>,
    /// Close the connection after half of each body.
    pub half: bool,
    /// Serve this many ranges of a file, then the whole file in answer to a range.
    pub ranges: Option<usize>,
    /// Close the connection after half of each file, not of pages.
    pub half_files: bool,
    /// Send half of each wheel that is asked for whole, and nothing more.
    pub cut_files: bool,
    /// Answer ranges with other bytes than asked.
    pub wrong_range: bool,
    /// Serve a METADATA that is not the wheel's, while stating the wheel's digest.
    pub lying_metadata: bool,
    /// Require this `Authorization` header.
    pub authorization: Option<String>,
    /// Redirect pages to this base address.
    pub redirect: Option<String>,
    /// State no hashes.
    pub no_hashes: bool,
    /// Send an ETag and answer 304 to it.
    pub etag: bool,
}

/// A package index on loopback. Paths are `/<index>/<project>/` and `/files/<name>`.
pub struct IndexServer {
    pub address: String,
    server: Arc<tiny_http::Server>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Method, path and `Authorization` of each request.
    pub log: Arc<Mutex<Vec<(String, Option<String>)>>>,
}

type Pages = BTreeMap<String, Vec<Page>>;

impl IndexServer {
    /// Serves wheels by index name (`pypi`, `whl/cu126`).
    pub fn start(wheels: Vec<(&str, Wheel)>, shape: Shape) -> IndexServer {
        let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").unwrap());
        let address = format!("http://{}", server.server_addr());
        let mut pages: Pages = BTreeMap::new();
        let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
        for (index, wheel) in wheels {
            let (page, bytes, metadata) = wheel.build();
            pages.entry(format!("{index}/{}", page.project)).or_default().push(page.clone());
            files.insert(format!("{}.metadata", page.filename), metadata);
            files.insert(page.filename, bytes);
        }
        let log = Arc::new(Mutex::new(Vec::new()));
        let thread = {
            let (server, log, address) = (server.clone(), log.clone(), address.clone());
            std::thread::spawn(move || {
                for request in server.incoming_requests() {
                    let authorization = header(&request, "Authorization");
                    let mut log = log.lock().unwrap();
                    let before = log.iter().filter(|(path, _)| path == request.url()).count();
                    log.push((request.url().to_owned(), authorization));
                    drop(log);
                    let mut shape = shape.clone();
                    shape.no_ranges |= shape.ranges.is_some_and(|served| before >= served);
                    answer(request, &pages, &files, &shape, &address);
                }
            })
        };
        IndexServer { address, server, thread: Some(thread), log }
    }

    /// The paths asked for so far.
    pub fn paths(&self) -> Vec<String> {
        self.log.lock().unwrap().iter().map(|(path, _)| path.clone()).collect()
    }
}

impl Drop for IndexServer {
    fn drop(&mut self) {
        self.server.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn header(request: &tiny_http::Request, name: &str) -> Option<String> {
    request
        .headers()
        .iter()
        .find(|h| h.field.as_str().as_str().eq_ignore_ascii_case(name))
        .map(|h| h.value.as_str().to_owned())
}

fn field(name: &str, value: &str) -> tiny_http::Header {
    tiny_http::Header::from_bytes(name.as_bytes(), value.as_bytes()).unwrap()
}

fn answer(
    request: tiny_http::Request,
    pages: &Pages,
    files: &BTreeMap<String, Vec<u8>>,
    shape: &Shape,
    address: &str,
) {
    use tiny_http::Response;
    let path = request.url().trim_matches('/').replace("%2B", "+");
    if let Some(wanted) = &shape.authorization
        && header(&request, "Authorization").as_ref() != Some(wanted)
    {
        let _ = request.respond(Response::from_string("no").with_status_code(401));
        return;
    }
    if let Some(status) = shape.status {
        let _ = request.respond(Response::from_string("status").with_status_code(status));
        return;
    }
    if let Some(name) = path.strip_prefix("files/") {
        let hidden = name.ends_with(".metadata") && !shape.metadata;
        let Some(bytes) = files.get(name).filter(|_| !hidden) else {
            let _ = request.respond(Response::from_string("none").with_status_code(404));
            return;
        };
        if name.ends_with(".metadata") && shape.lying_metadata {
            let _ = request.respond(Response::from_string("Metadata-Version: 2.1\nName: lie\nVersion: 9\n"));
            return;
        }
        if let Some(range) = header(&request, "Range").filter(|_| !shape.no_ranges) {
            let total = bytes.len();
            let spec = range.strip_prefix("bytes=").unwrap();
            let (start, end) = match spec.strip_prefix('-') {
                Some(n) => (total.saturating_sub(n.parse().unwrap()), total - 1),
                None => {
                    let (a, b) = spec.split_once('-').unwrap();
                    (a.parse().unwrap(), b.parse::<usize>().unwrap_or(usize::MAX).min(total - 1))
                }
            };
            let said = if shape.wrong_range { start + 1 } else { start };
            let response = Response::from_data(&bytes[start..=end])
                .with_status_code(206)
                .with_header(field("Content-Range", &format!("bytes {said}-{end}/{total}")));
            let _ = request.respond(response);
            return;
        }
        let kind = if name.ends_with(".metadata") { "text/plain" } else { "application/octet-stream" };
        send(request, bytes.clone(), kind, shape);
        return;
    }
    if let Some(base) = &shape.redirect {
        let target = format!("{base}/{path}/");
        let _ = request
            .respond(Response::from_string("").with_status_code(302).with_header(field("Location", &target)));
        return;
    }
    if let Some(body) = shape.body {
        send(request, body.as_bytes().to_vec(), "text/html", shape);
        return;
    }
    // The pytorch index has its files beside its pages: `whl/cu126/torch-....whl`.
    if let Some(bytes) =
        path.rsplit('/').next().filter(|name| name.ends_with(".whl")).and_then(|n| files.get(n))
    {
        send(request, bytes.clone(), "application/octet-stream", shape);
        return;
    }
    // A page of links: all files of an index.
    let listed = path.strip_suffix(".html").and_then(|path| path.split('/').next()).map(|index| {
        let of_index = pages.iter().filter(|(page, _)| page.starts_with(&format!("{index}/")));
        of_index.flat_map(|(_, list)| list.clone()).collect::<Vec<Page>>()
    });
    let listed = listed.filter(|list| !list.is_empty());
    let Some(list) = listed.as_ref().or_else(|| pages.get(&path)) else {
        let _ = request.respond(Response::from_string("none").with_status_code(404));
        return;
    };
    if shape.etag && header(&request, "If-None-Match").as_deref() == Some("\"one\"") {
        let _ = request.respond(Response::from_string("").with_status_code(304));
        return;
    }
    let (text, kind) = if shape.json {
        (json_page(list, address, shape), "application/vnd.pypi.simple.v1+json")
    } else {
        (html_page(list, address, shape), "text/html")
    };
    send(request, text.into_bytes(), kind, shape);
}

fn send(request: tiny_http::Request, body: Vec<u8>, kind: &str, shape: &Shape) {
    use tiny_http::Response;
    let length = body.len();
    let is_file = kind == "application/octet-stream";
    if shape.cut_files && is_file {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n");
        let mut writer = request.into_writer();
        let _ = writer.write_all(&[head.as_bytes(), &body[..length / 2]].concat());
        let _ = writer.flush();
        return;
    }
    if shape.half || (shape.half_files && is_file) {
        // Says the whole length, sends half.
        let half = body[..length / 2].to_vec();
        let response = Response::new(
            tiny_http::StatusCode(200),
            vec![field("Content-Type", kind)],
            std::io::Cursor::new(half),
            Some(length),
            None,
        );
        let _ = request.respond(response);
        return;
    }
    let mut response = Response::from_data(body).with_header(field("Content-Type", kind));
    if shape.etag {
        response = response.with_header(field("ETag", "\"one\""));
    }
    let _ = request.respond(response);
}

fn html_page(list: &[Page], address: &str, shape: &Shape) -> String {
    let mut out = String::from("<!DOCTYPE html>\n<html><body>\n");
    for p in list {
        let metadata = if shape.metadata {
            format!(" data-core-metadata=\"sha256={}\"", p.metadata_sha256)
        } else {
            String::new()
        };
        let yanked = if p.yanked { " data-yanked=\"\"" } else { "" };
        let requires = p.requires_python.replace('>', "&gt;").replace('<', "&lt;");
        let _ = writeln!(
            out,
            "<a href=\"{address}/files/{}{}\" data-requires-python=\"{requires}\"{metadata}{yanked}>{}</a>",
            p.filename.replace('+', "%2B"),
            if shape.no_hashes { String::new() } else { format!("#sha256={}", p.sha256) },
            p.filename
        );
    }
    out.push_str("</body></html>\n");
    out
}

fn json_page(list: &[Page], address: &str, shape: &Shape) -> String {
    let files: Vec<serde_json::Value> = list
        .iter()
        .map(|p| {
            let mut file = serde_json::json!({
                "filename": p.filename,
                "url": format!("{address}/files/{}", p.filename.replace('+', "%2B")),
                "hashes": {"sha256": p.sha256},
                "size": p.size,
                "requires-python": p.requires_python,
                "yanked": p.yanked,
            });
            if let Some(time) = &p.uploaded {
                file["upload-time"] = time.as_str().into();
            }
            if shape.metadata {
                file["core-metadata"] = serde_json::json!({"sha256": p.metadata_sha256});
            }
            file
        })
        .collect();
    serde_json::json!({"meta": {"api-version": "1.1"}, "name": "x", "files": files}).to_string()
}

/// A small copy of the registry as it was on a day: new rows do not change the expected values of tests of the code.
pub const FROZEN_REGISTRY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/registry");

/// A project folder and a clean environment to run the program in.
pub struct TestContext {
    pub dir: tempfile::TempDir,
    variables: Vec<(String, String)>,
    /// Use the registry that the program ships, not the frozen one of the tests.
    pub shipped_registry: bool,
}

/// What a run gave, as snapshots show it.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl TestContext {
    pub fn new() -> TestContext {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("project")).unwrap();
        std::fs::create_dir_all(dir.path().join("sysroot/proc")).unwrap();
        std::fs::create_dir_all(dir.path().join("sysroot/sys/bus/pci/devices")).unwrap();
        TestContext { dir, variables: Vec::new(), shipped_registry: false }
    }

    /// With an index server as `pypi` and `pytorch`.
    pub fn with_index(server: &IndexServer) -> TestContext {
        let mut context = TestContext::new();
        context.set("ENVLOCK_INDEX_URL", &format!("{}/pypi", server.address));
        context.set("ENVLOCK_PYTORCH_INDEX_URL", &format!("{}/whl", server.address));
        context
    }

    /// With the registry that the program ships: for tests of the shipped rows.
    pub fn with_shipped_registry(mut self) -> TestContext {
        self.shipped_registry = true;
        self
    }

    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub fn unset(&mut self, name: &str) {
        self.variables.retain(|(own, _)| own != name);
    }

    pub fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.project().join(name)).unwrap()
    }

    pub fn exists(&self, name: &str) -> bool {
        self.project().join(name).exists()
    }

    pub fn command(&self) -> Command {
        let mut command = self.command_of(env!("CARGO_BIN_EXE_envlock"));
        if !self.shipped_registry {
            command.arg("--registry").arg(FROZEN_REGISTRY);
        }
        command
    }

    /// Another program in the same surroundings.
    pub fn command_of(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.project())
            .env_clear()
            // An empty PATH: no nvidia-smi and no Python of this machine is found.
            .env("PATH", self.dir.path().join("bin"))
            .env("HOME", self.dir.path().join("home"))
            .env("ENVLOCK_CACHE_DIR", self.dir.path().join("cache"))
            .env("ENVLOCK_SYSROOT", self.dir.path().join("sysroot"))
            .env("ENVLOCK_HTTP_TIMEOUT", "2")
            // The tests' data do not get old.
            .env("SOURCE_DATE_EPOCH", "1795737600")
            // No test asks the real channels.
            .env("ENVLOCK_CONDA_CHANNEL_ALIAS", "http://127.0.0.1:9");
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        // A shell that runs the tests in the background ignores interrupts, and children inherit that.
        #[cfg(unix)]
        {
            use std::os::unix::process::CommandExt as _;
            let reset = || {
                for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                    // SAFETY: `signal` is async-signal-safe, and nothing of this process is touched.
                    unsafe { libc::signal(signal, libc::SIG_DFL) };
                }
                Ok(())
            };
            // SAFETY: see above.
            unsafe { command.pre_exec(reset) };
        }
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Run {
        let output = self.command().args(arguments).output().unwrap();
        let refuses = match arguments.first() {
            Some(&"resolve" | &"add" | &"remove") => output.status.code() == Some(1),
            Some(&"why") => arguments.contains(&"--not") && output.status.success(),
            _ => false,
        };
        if refuses {
            self.take_ways_out(arguments, &String::from_utf8_lossy(&output.stdout));
        }
        self.finish(output)
    }

    /// Runs every command that a refusal prints: each leads to a lock, but for those of ways that were solved for the stack
    /// or for a target alone: these are understood.
    fn take_ways_out(&self, arguments: &[&str], refusal: &str) {
        let mut is_of_stack = false;
        for line in refusal.lines() {
            if !line.starts_with("      envlock ") {
                let is_heading = line.starts_with("ways out");
                let is_partial =
                    ["solved for the stack", "the command asks for"].iter().any(|of| line.contains(of));
                is_of_stack = is_partial || is_of_stack && !is_heading;
                continue;
            }
            let words = line.trim().strip_prefix("envlock").unwrap();
            let dry_run = if words.contains(" --dry-run") { "" } else { " --dry-run" };
            // No server is waited for.
            let offline = if is_of_stack && !words.contains(" --offline") { " --offline" } else { "" };
            let mut command = self.command_of("/bin/sh");
            command
                .arg("-c")
                .arg(format!("\"$0\" \"$@\" {words}{dry_run}{offline}"))
                .arg(env!("CARGO_BIN_EXE_envlock"));
            for pair in arguments.windows(2).filter(|pair| pair[0] == "--cache-dir") {
                command.args(pair);
            }
            let run = self.finish(command.output().unwrap());
            // The tests' index of PyTorch has few builds.
            let is_silent = run.code == 3 && run.flat().contains("cannot read");
            if is_silent || run.stdout.contains("on the index pytorch/") || is_of_stack && run.code != 2 {
                continue;
            }
            assert_eq!(
                run.code,
                0,
                "a way out of {arguments:?} that does not lead to a lock: {line}\n{}",
                run.shown()
            );
        }
    }

    pub fn finish(&self, output: Output) -> Run {
        let filter = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            let folder = self.dir.path().display().to_string();
            let mut out = String::new();
            // Commands that are shown name the tests' registry, too.
            let text = text.replace(&format!(" --registry {FROZEN_REGISTRY}"), "");
            for line in text.replace(&folder, "[DIR]").lines() {
                // Times differ from run to run.
                let line = match (line.find(" in "), line.ends_with(" s")) {
                    (Some(at), true) if line.starts_with("solved") => format!("{} in [TIME]", &line[..at]),
                    _ => line.to_owned(),
                };
                out.push_str(line.trim_end());
                out.push('\n');
            }
            out
        };
        Run {
            code: output.status.code().unwrap_or(-1),
            stdout: filter(&output.stdout),
            stderr: filter(&output.stderr),
        }
    }
}

impl Run {
    /// Exit code, stdout and stderr in one text.
    pub fn shown(&self) -> String {
        format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.stdout, self.stderr)
    }

    /// Both outputs with broken lines joined, to look for sentences.
    pub fn flat(&self) -> String {
        let text = format!("{}{}", self.stdout, self.stderr);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Run {
        assert_eq!(self.code, code, "{}", self.shown());
        self
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.shown()))
    }
}

/// Whether every file below a folder is whole: no temporary file was left.
pub fn leftovers(folder: &Path) -> Vec<String> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .filter(|n| n.starts_with(".envlock-") || n.starts_with(".tmp"))
        .collect()
}

/// Makes a file a program.
#[cfg(unix)]
pub fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}
