//! What is asked of channels: specs, folders that are not there, the order of channels.

use std::path::Path;
use std::sync::Arc;

use super::channels::{Channels, world, write_channel};
use super::context::{IndexServer, Shape, TestContext};
use super::wheels::wheel;

/// What does not apply here asks for nothing that conda lacks.
#[test]
fn extras_of_another_platform() {
    let world = world();
    world.resolve("\"numpy[x]; sys_platform == 'win32'\"", "\"numpy\"", &[]).expect(0);
    let run = world.resolve("\"numpy[x]\"", "\"numpy\"", &["--force"]).expect(2);
    assert!(run.flat().contains("asks for extras"), "{}", run.shown());
}

/// A folder that a channel does not have is not there with `--offline` either; a server that refuses access is not one without the
/// channel.
#[test]
fn folders_that_are_absent_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/conda/conda-forge");
    for (from, to) in [
        ("linux-64", "conda-forge/linux-64"),
        ("noarch", "conda-forge/noarch"),
        ("linux-64", "mine/linux-64"),
    ] {
        let place = folder.path().join(to);
        std::fs::create_dir_all(&place).unwrap();
        std::fs::copy(own.join(from).join("repodata.json"), place.join("repodata.json")).unwrap();
    }
    let index = IndexServer::start(vec![("pypi", wheel("tqdm", "4.0"))], Shape::default());
    let channels = Channels::start(folder.path().to_owned());
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    context.write("envlock.toml", "[project]\nname = \"x\"\n[conda]\nchannels = [\"conda-forge\", \"mine\"]\ndependencies = [\"libzlib\"]\n");
    let resolve = ["resolve", "--gpu", "none", "--only-index", "pypi,conda-forge,mine"];
    context.run(&resolve).expect(0);
    std::fs::remove_file(context.project().join("envlock.lock")).unwrap();
    context.run(&[&resolve[..], &["--offline"]].concat()).expect(0);

    let server = Arc::new(tiny_http::Server::http("127.0.0.1:0").unwrap());
    let address = format!("http://{}", server.server_addr());
    let serving = Arc::clone(&server);
    let thread = std::thread::spawn(move || {
        while let Ok(request) = serving.recv() {
            let _ = request.respond(tiny_http::Response::empty(403));
        }
    });
    let token = format!("{address}/t/tk-SECRET");
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &token);
    let run = context.run(&[&resolve[..], &["--force"]].concat()).expect(3);
    assert!(
        run.flat().contains("the server of the channel `conda-forge` refuses access (403)"),
        "{}",
        run.shown()
    );
    server.unblock();
    thread.join().unwrap();
    // Nothing answers now: no hint has the token.
    drop(server);
    let run = context.run(&[&resolve[..], &["--force"]].concat()).expect(3);
    assert!(!run.shown().contains("SECRET"), "{}", run.shown());
}

/// Only the first channel that has a package is asked for it, and that is said.
#[test]
fn a_channel_that_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let python: &[&str] = &["python"];
    let common = [("python", "3.12.4", &[][..]), ("pip", "25.0", python)];
    write_channel(&folder.path().join("conda-forge"), &[&common[..], &[("foo", "3.0", &[])]].concat());
    write_channel(&folder.path().join("mine"), &[("foo", "2.0", &[])]);
    let channels = Channels::start(folder.path().to_owned());
    let index = IndexServer::start(vec![("pypi", wheel("tqdm", "4.0"))], Shape::default());
    let mut context = TestContext::with_index(&index);
    context.set("ENVLOCK_CONDA_CHANNEL_ALIAS", &channels.address);
    let resolve = |spec: &str| {
        let text = format!(
            "[project]\nname = \"x\"\n[conda]\nchannels = [\"mine\", \"conda-forge\"]\ndependencies = [\"{spec}\"]\n"
        );
        context.write("envlock.toml", &text);
        context.run(&["resolve", "--force", "--gpu", "none", "--only-index", "pypi,conda-forge,mine"])
    };
    let run = resolve("foo>2").expect(1);
    for expected in
        ["mine has foo too and comes first, so those of conda-forge are not taken", "conda-forge::foo>2"]
    {
        assert!(run.flat().contains(expected), "{expected}: {}", run.shown());
    }
    resolve("conda-forge::foo>2").expect(0);
}
