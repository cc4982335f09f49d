//! `registry update` and `registry pack`: newer data, signed; from a file and from an index.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use minisign::KeyPair;

use super::context::{IndexServer, Run, Shape, TestContext, leftovers};
use super::wheels::{Wheel, wheel};

/// The day of the data that these tests sign.
const LATER: &str = "2099-01-05";

/// Where it is 2099-01-10: data of later days are refused.
const TODAY: &str = "4071686400";

/// A place in which data are taken.
fn user() -> TestContext {
    let mut context = TestContext::new().with_shipped_registry();
    context.set("SOURCE_DATE_EPOCH", TODAY);
    context
}

/// Who makes data.
struct Publisher {
    context: TestContext,
    keys: KeyPair,
}

/// Signed data.
#[derive(Clone)]
struct Signed {
    payload: Vec<u8>,
    signature: String,
}

impl Publisher {
    fn new() -> Publisher {
        let context = user();
        let keys = KeyPair::generate_unencrypted_keypair().unwrap();
        std::fs::write(context.project().join("key.pub"), keys.pk.to_box().unwrap().into_string()).unwrap();
        Publisher { context, keys }
    }

    fn key(&self) -> String {
        self.context.project().join("key.pub").display().to_string()
    }

    /// The shipped registry, as it is on a later day: with a GPU more.
    fn folder(&self, day: &str) -> PathBuf {
        let to = self.context.project().join(day);
        copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("registry"), &to);
        let change = |file: &str, from: &str, into: &str| {
            let text = std::fs::read_to_string(to.join(file)).unwrap();
            assert!(text.contains(from));
            std::fs::write(to.join(file), text.replacen(from, into, 1)).unwrap();
        };
        change("sources.toml", "read 2026-11-28", &format!("read {day}"));
        change("gpus.toml", "gpu = [\n", "gpu = [\n  { name = \"RTX 7777\", capability = \"12.0\" },\n");
        to
    }

    fn sign(&self, folder: &Path) -> Signed {
        let data = self.context.project().join("registry.json");
        let _ = std::fs::remove_file(&data);
        let packed = self
            .context
            .run(&["registry", "pack", "--registry", folder.to_str().unwrap(), "-o", data.to_str().unwrap()])
            .expect(0);
        let statement = packed.stdout.split('\'').nth(1).unwrap().to_owned();
        let payload = std::fs::read(data).unwrap();
        let signature =
            minisign::sign(Some(&self.keys.pk), &self.keys.sk, Cursor::new(&payload), Some(&statement), None);
        Signed { payload, signature: signature.unwrap().into_string() }
    }

    fn of_day(&self, day: &str) -> Signed {
        self.sign(&self.folder(day))
    }

    /// The wheel, made as a release is.
    fn wheel(&self, day: &str) -> PathBuf {
        let folder = self.folder(day);
        let signed = self.sign(&folder);
        let signature = self.context.write("registry.json.minisig", &signed.signature);
        let out = self.context.project().join(format!("{day}.whl"));
        let (folder, signature, out_) =
            (folder.display().to_string(), signature.display().to_string(), out.display().to_string());
        let arguments = [
            "registry",
            "pack",
            "--registry",
            &folder,
            "--signature",
            &signature,
            "--key",
            &self.key(),
            "-o",
            &out_,
        ];
        self.context.run(&arguments).expect(0);
        out
    }
}

impl Signed {
    /// The wheel on an index, under a version.
    fn served(&self, version: &str) -> Wheel {
        wheel("envlock_gpu_registry", version)
            .tags("py3-none-any")
            .bytes("envlock_gpu_registry/registry.json", &self.payload)
            .bytes("envlock_gpu_registry/registry.json.minisig", self.signature.as_bytes())
    }
}

pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let place = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &place);
        } else if path.extension().is_some_and(|e| e == "toml") {
            std::fs::copy(&path, place).unwrap();
        }
    }
}

fn update(context: &TestContext, more: &[&str]) -> Run {
    context.run(&[&["registry", "update"], more].concat())
}

/// The day of the data that a context answers from.
fn day_in_use(context: &TestContext) -> String {
    context.run(&["registry", "show", "--json"]).expect(0).json()["date"].as_str().unwrap().to_owned()
}

fn data_folder(context: &TestContext) -> PathBuf {
    context.dir.path().join("home/.local/share/envlock")
}

#[test]
fn newer_data_are_used_from_then_on() {
    let publisher = Publisher::new();
    let file = publisher.wheel(LATER);
    let (file, key) = (file.to_str().unwrap(), publisher.key());
    let context = user();
    let shipped = day_in_use(&context);
    context.run(&["registry", "show", "gpu", "RTX 7777"]).expect(1);
    let said = update(&context, &["--from", file, "--key", &key]).expect(0);
    assert!(said.stdout.starts_with("registry 2099-01-05: "), "{}", said.shown());
    context.run(&["registry", "show", "gpu", "RTX 7777"]).expect(0);
    context.run(&["plan", "--gpu", "RTX 7777", "--driver", "580.65.06"]).expect(0);
    context.run(&["registry", "show", "gpu", "RTX 7777", "--registry", "embedded"]).expect(1);
    let version = context.run(&["--version"]).expect(0).stdout;
    assert!(version.contains(&format!("(registry {LATER}, updated; {shipped} in the program)")), "{version}");
    let shown = context.run(&["registry", "show"]).expect(0).stdout;
    assert!(shown.starts_with("registry 2099-01-05, from `registry update`\n"), "{shown}");
    // A lock records what it was made with.
    context
        .run(&["resolve", "torch", "--stack-only", "--gpu", "RTX 7777", "--driver", "580.65.06"])
        .expect(0);
    assert!(context.read("envlock.lock").contains(&format!("registry = {{ date = \"{LATER}\"")));
    let again = update(&context, &["--from", file, "--key", &key]).expect(0);
    assert!(again.stdout.starts_with("nothing newer: registry 2099-01-05 is in use"), "{}", again.shown());
    // Cleaning the cache brings nothing older back.
    context.run(&["cache", "clean"]).expect(0);
    assert_eq!(day_in_use(&context), LATER);
    // The form that is read fastest answers as the rows do, and is made again where it is gone or damaged.
    let ready = data_folder(&context).join("registry.json");
    let whole = std::fs::read(&ready).unwrap();
    for damaged in [None, Some(&b"{"[..]), Some(&whole[..whole.len() - 9])] {
        match damaged {
            None => std::fs::remove_file(&ready).unwrap(),
            Some(bytes) => std::fs::write(&ready, bytes).unwrap(),
        }
        context.run(&["registry", "show", "gpu", "RTX 7777"]).expect(0);
        assert_eq!(std::fs::read(&ready).unwrap(), whole);
    }
    let answers = |registry: &str| {
        let plan = ["plan", "--gpu", "H200", "--driver", "580.65.06", "--json", "--registry", registry];
        context.run(&plan).expect(0).json()
    };
    let folder = publisher.context.project().join(LATER);
    let stored = context.run(&["plan", "--gpu", "H200", "--driver", "580.65.06", "--json"]).expect(0).json();
    assert_eq!(stored, answers(folder.to_str().unwrap()));
    assert_eq!(leftovers(&data_folder(&context)), Vec::<String>::new());
}

#[test]
fn what_is_refused_changes_nothing() {
    let publisher = Publisher::new();
    let newer = publisher.wheel(LATER);
    let older = publisher.wheel("2098-12-31");
    let stranger = Publisher::new();
    let forged = stranger.wheel("2099-02-01");
    let context = user();
    let key = publisher.key();
    update(&context, &["--from", newer.to_str().unwrap(), "--key", &key]).expect(0);
    let refused = |arguments: &[&str], code: i32, expected: &str| {
        let said = update(&context, arguments).expect(code);
        assert!(said.flat().contains(expected), "{}", said.shown());
        assert_eq!(day_in_use(&context), LATER);
    };
    refused(
        &["--from", older.to_str().unwrap(), "--key", &key],
        2,
        "is of 2098-12-31, older than the data in use, of 2099-01-05",
    );
    refused(&["--from", forged.to_str().unwrap(), "--key", &key], 2, "the signature does not hold");
    refused(&["--from", newer.to_str().unwrap()], 2, "has no keys of releases");
    refused(&["--from", "nothing.whl", "--key", &key], 2, "cannot read `nothing.whl`");
    refused(&["--from", "/dev/zero", "--key", &key], 2, "it is not a regular file");
    refused(&["--from", newer.to_str().unwrap(), "--key", newer.to_str().unwrap()], 2, ".whl`");
    let ahead = publisher.wheel("2099-02-20");
    refused(&["--from", ahead.to_str().unwrap(), "--key", &key], 2, "it is of 2099-02-20, a day to come");
    refused(&["--registry", "x", "--from", "x", "--key", &key], 2, "without `--registry`");
    refused(&["--offline", "--key", &key], 3, "`--offline` is set");
    // Other data of the same day.
    let folder = publisher.context.project().join(LATER);
    let text = std::fs::read_to_string(folder.join("gpus.toml")).unwrap();
    std::fs::write(folder.join("gpus.toml"), text.replace("RTX 7777", "RTX 8888")).unwrap();
    let other = publisher.sign(&folder);
    let server = IndexServer::start(vec![("pypi", other.served("2099.1.5"))], Shape::default());
    let same =
        update(&context, &["--key", &key, "--index-url", &format!("{}/pypi", server.address)]).expect(0);
    assert!(same.stdout.contains("nothing newer"), "{}", same.shown());
    let server = IndexServer::start(vec![("pypi", other.served("2099.1.6"))], Shape::default());
    refused(
        &["--key", &key, "--index-url", &format!("{}/pypi", server.address)],
        2,
        "the data in it are of 2099-01-05",
    );
    // What is too large by its index is not downloaded.
    let mut state = 1u64;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 56) as u8
    });
    let noise: Vec<u8> = noise.take(33 << 20).collect();
    let large = other.served("2099.1.7").bytes("envlock_gpu_registry/noise", &noise);
    let server = IndexServer::start(vec![("pypi", large)], Shape { json: true, ..Shape::default() });
    refused(&["--key", &key, "--index-url", &format!("{}/pypi", server.address)], 2, "more than 32 MiB");
    assert!(!server.paths().iter().any(|path| path.ends_with(".whl")), "{:?}", server.paths());
}

#[test]
fn from_an_index() {
    let publisher = Publisher::new();
    let key = publisher.key();
    let (first, second) = (publisher.of_day(LATER), publisher.of_day("2099-01-20"));
    let serve = |wheels: Vec<Wheel>, shape: Shape| {
        IndexServer::start(wheels.into_iter().map(|wheel| ("pypi", wheel)).collect(), shape)
    };
    let context = user();
    let from = |server: &IndexServer| {
        update(&context, &["--key", &key, "--index-url", &format!("{}/pypi", server.address)])
    };
    let both = serve(vec![second.served("2099.1.20"), first.served("2099.1.5")], Shape::default());
    // Without a key nothing is asked.
    let said = update(&context, &["--index-url", &format!("{}/pypi", both.address)]).expect(2);
    assert!(said.flat().contains("has no keys of releases") && both.paths().is_empty(), "{}", said.shown());
    let one = serve(vec![first.served("2099.1.5")], Shape::default());
    from(&one).expect(0);
    assert_eq!(day_in_use(&context), LATER);
    assert!(from(&one).expect(0).stdout.contains("nothing newer: registry 2099-01-05 is in use"));
    from(&both).expect(0);
    assert_eq!(day_in_use(&context), "2099-01-20");
    // An index that is behind.
    assert!(from(&one).expect(0).stdout.contains("nothing newer: registry 2099-01-20 is in use"));
    // What cannot be asked is not known.
    from(&serve(vec![wheel("other", "1.0")], Shape::default())).expect(3);
    from(&serve(vec![first.served("2099.1.5")], Shape { status: Some(503), ..Shape::default() })).expect(3);
    from(&serve(
        vec![publisher.of_day("2099-02-03").served("2099.2.3")],
        Shape { half_files: true, ..Shape::default() },
    ))
    .expect(2);
    assert_eq!(day_in_use(&context), "2099-01-20");
}

/// A stored file that cannot be used is said, not passed over: older data would answer otherwise.
#[test]
fn stored_data_that_cannot_be_used() {
    let publisher = Publisher::new();
    let file = publisher.wheel(LATER);
    let (file, key) = (file.to_str().unwrap(), publisher.key());
    let context = user();
    update(&context, &["--from", file, "--key", &key]).expect(0);
    let stored = data_folder(&context).join("registry.whl");
    std::fs::write(&stored, b"no wheel").unwrap();
    let said = context.run(&["plan", "--gpu", "H200"]).expect(2);
    assert!(said.flat().contains("`--registry embedded` answers from the program's own"), "{}", said.shown());
    context.run(&["plan", "--gpu", "H200", "--registry", "embedded"]).expect(0);
    update(&context, &["--from", file, "--key", &key]).expect(0);
    assert_eq!(day_in_use(&context), LATER);
    // Rows that are not what is stated: the same wheel repairs them.
    let mut archive = zip::ZipArchive::new(std::fs::File::open(&stored).unwrap()).unwrap();
    let mut member = |name: &str| {
        let mut bytes = Vec::new();
        let mut entry = archive.by_name(&format!("envlock_gpu_registry/{name}")).unwrap();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        bytes
    };
    let (mut payload, signature) = (member("registry.json"), member("registry.json.minisig"));
    let last = payload.len() - 3;
    payload[last] ^= 1;
    let other = Signed { payload, signature: String::from_utf8(signature).unwrap() };
    let (_, bytes, _) = other.served("2099.1.5").build();
    std::fs::write(&stored, bytes).unwrap();
    std::fs::remove_file(data_folder(&context).join("registry.json")).unwrap();
    context.run(&["plan", "--gpu", "H200"]).expect(2);
    update(&context, &["--from", file, "--key", &key]).expect(0);
    assert_eq!(day_in_use(&context), LATER);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = data_folder(&context);
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        for file in ["registry.whl", "registry.json"] {
            assert_eq!(mode(&folder.join(file)), 0o600, "{file}");
        }
        // What would wait for a writer, and what others can write to.
        let ready = folder.join("registry.json");
        std::fs::remove_file(&ready).unwrap();
        let pipe = std::ffi::CString::new(ready.to_str().unwrap()).unwrap();
        // SAFETY: a path without NUL.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert_eq!(day_in_use(&context), LATER);
        let _ = std::fs::remove_file(&ready);
        let place = folder.join("registry.whl");
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o666)).unwrap();
        let said = context.run(&["plan", "--gpu", "H200"]).expect(2);
        assert!(said.flat().contains("others can write to it"), "{}", said.shown());
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o600)).unwrap();
        let lock = folder.join("registry.lock");
        std::fs::remove_file(&lock).unwrap();
        let victim = context.write("victim", "text");
        std::os::unix::fs::symlink(&victim, &lock).unwrap();
        update(&context, &["--from", file, "--key", &key]).expect(2);
        assert_eq!(context.read("victim"), "text");
        std::fs::remove_file(&lock).unwrap();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let said = context.run(&["plan", "--gpu", "H200"]).expect(2);
        assert!(said.flat().contains("can be written by every user"), "{}", said.shown());
        update(&context, &["--from", file, "--key", &key]).expect(2);
    }
}

/// Whatever ends an update, the data in use are the old or the new.
#[cfg(unix)]
#[test]
fn killed_full_and_at_once() {
    let publisher = Publisher::new();
    let (old, new) = (publisher.wheel("2099-01-01"), publisher.wheel("2099-01-02"));
    let key = publisher.key();
    let context = user();
    let begin = |file: &Path| {
        let mut command = context.command();
        command.args(["registry", "update", "--key", &key, "--from"]).arg(file);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let folder = data_folder(&context);
    for n in 0..6 {
        let _ = std::fs::remove_dir_all(&folder);
        begin(&old).wait().unwrap();
        let mut child = begin(&new);
        std::thread::sleep(Duration::from_millis(n * 50));
        let _ = child.kill();
        child.wait().unwrap();
        let day = day_in_use(&context);
        assert!(["2099-01-01", "2099-01-02"].contains(&day.as_str()), "{day}");
        // And it can be completed.
        begin(&new).wait().unwrap();
        assert_eq!(day_in_use(&context), "2099-01-02");
    }
    // Many at once, the newest wins whoever is last.
    for _ in 0..3 {
        let _ = std::fs::remove_dir_all(&folder);
        let children: Vec<_> = (0..8).map(|n| begin(if n % 2 == 0 { &new } else { &old })).collect();
        for mut child in children {
            child.wait().unwrap();
        }
        assert_eq!(day_in_use(&context), "2099-01-02");
    }
    // A full disk: no file can grow beyond 64 blocks.
    let _ = std::fs::remove_dir_all(&folder);
    begin(&old).wait().unwrap();
    let mut shell = context.command_of("/bin/sh");
    shell.args(["-c", "ulimit -f 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_envlock")]);
    shell.args(["registry", "update", "--key", &key, "--from"]).arg(&new);
    let full = context.finish(shell.output().unwrap()).expect(2);
    assert!(full.flat().contains("cannot write"), "{}", full.shown());
    assert_eq!(day_in_use(&context), "2099-01-01");
    assert_eq!(leftovers(&folder), Vec::<String>::new());
}

#[test]
fn what_packs() {
    let publisher = Publisher::new();
    let folder = publisher.folder(LATER);
    let of_folder = ["registry", "pack", "--registry", folder.to_str().unwrap()];
    let run = |more: &[&str]| publisher.context.run(&[&of_folder[..], more].concat());
    assert!(run(&["-o", "x.whl"]).expect(2).flat().contains("a data wheel has a signature"));
    let signed = publisher.sign(&folder);
    publisher.context.write("a.minisig", &signed.signature);
    // Rows that were changed after they were signed.
    let text = std::fs::read_to_string(folder.join("gpus.toml")).unwrap();
    std::fs::write(folder.join("gpus.toml"), text.replace("RTX 7777", "RTX 7778")).unwrap();
    let said = run(&["-o", "x.whl", "--signature", "a.minisig", "--key", &publisher.key()]).expect(2);
    assert!(said.flat().contains("the signature is not one of these data"), "{}", said.shown());
    assert!(!publisher.context.exists("x.whl"));
}

/// `[registry] minimum` holds a team together.
#[test]
fn data_that_are_older_than_the_project_takes() {
    let mut context = TestContext::new();
    context.write(
        "envlock.toml",
        "[project]\nname = \"demo\"\n[registry]\nminimum = \"2026-11-22\"\n[stack]\ntorch = \">=2.8\"\n",
    );
    let arguments = ["resolve", "--stack-only", "--gpu", "A100", "--driver", "580.65.06"];
    insta::assert_snapshot!(context.run(&arguments).shown(), @r"
    exit 3
    --- stdout
    --- stderr
    error: envlock.toml asks for compatibility data of 2026-11-22 or newer; these
           are of 2026-11-21

    hint: `envlock registry update --from FILE --key FILE` takes newer ones
    ");
    for other in [&["plan", "--gpu", "A100"][..], &["probe", "--gpu", "A100"], &["diagnose", "envlock.toml"]]
    {
        context.run(other).expect(3);
    }
    let text = context.read("envlock.toml");
    context.write("envlock.toml", &text.replace("2026-11-22", "2026-11-21"));
    context.run(&arguments).expect(0);
    context.write("envlock.toml", &text.replace("2026-11-22", "2026-22-11"));
    let said = context.run(&arguments).expect(2);
    assert!(
        said.flat().contains("envlock.toml:4: `2026-22-11` is not a day such as `2026-11-20`"),
        "{}",
        said.shown()
    );
    // What is old is said, by the day that the surroundings state.
    context.write("envlock.toml", &text.replace("2026-11-22", "2026-11-21"));
    context.set("SOURCE_DATE_EPOCH", "1803513600");
    let said = context.run(&arguments).expect(0);
    assert!(said.flat().contains("the compatibility data are of 2026-11-21, "), "{}", said.shown());
    assert!(said.flat().contains("days ago"), "{}", said.shown());
}
