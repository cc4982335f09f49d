//! Images that state more than they are: each digest counts once, and limits are those of the bytes that arrived.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use envlock::image::{Choice, Image, ImageError, Progress};
use sha2::{Digest as _, Sha256};

use super::context::TestContext;

struct Silent;

impl Progress for Silent {
    fn layer(&self, _number: usize, _of: usize, _size: u64) {}
    fn read(&self, _bytes: u64) {}
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// An OCI layout.
struct Layout(tempfile::TempDir);

impl Layout {
    fn new() -> Layout {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("blobs/sha256")).unwrap();
        Layout(folder)
    }

    fn path(&self) -> PathBuf {
        self.0.path().to_path_buf()
    }

    /// Puts a blob, and returns its descriptor.
    fn blob(&self, kind: &str, bytes: &[u8]) -> serde_json::Value {
        let hash = digest(bytes);
        std::fs::write(self.path().join("blobs/sha256").join(&hash), bytes).unwrap();
        serde_json::json!({
            "mediaType": format!("application/vnd.oci.image.{kind}"), "digest": format!("sha256:{hash}"), "size": bytes.len(),
        })
    }

    fn index(&self, manifests: &[serde_json::Value]) {
        let text = serde_json::json!({ "schemaVersion": 2, "manifests": manifests }).to_string();
        std::fs::write(self.path().join("index.json"), text).unwrap();
    }

    /// An image of these layers, given as a descriptor and the digest of what it unpacks to.
    fn image(&self, layers: &[(serde_json::Value, String)]) -> serde_json::Value {
        self.image_with(layers, serde_json::json!({}))
    }

    /// An image whose programs are started so.
    fn image_with(
        &self,
        layers: &[(serde_json::Value, String)],
        start: serde_json::Value,
    ) -> serde_json::Value {
        let diff_ids: Vec<String> = layers.iter().map(|(_, id)| format!("sha256:{id}")).collect();
        let config = serde_json::json!({
            "architecture": "amd64", "os": "linux", "config": start,
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        let config = self.blob("config.v1+json", config.to_string().as_bytes());
        let layers: Vec<&serde_json::Value> = layers.iter().map(|(layer, _)| layer).collect();
        let manifest = serde_json::json!({ "schemaVersion": 2, "config": config, "layers": layers });
        self.blob("manifest.v1+json", manifest.to_string().as_bytes())
    }

    /// A layer with one file.
    fn layer(&self, path: &str, content: &[u8]) -> (serde_json::Value, String) {
        let mut tar = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, content).unwrap();
        self.packed(&tar.into_inner().unwrap())
    }

    /// A layer with these files, which are empty or links.
    fn layer_of(&self, files: impl Iterator<Item = (String, Link)>) -> (serde_json::Value, String) {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, link) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            header.set_mode(0o644);
            match link {
                Link::No => tar.append_data(&mut header, path, &[][..]).unwrap(),
                Link::Soft(target) => {
                    header.set_entry_type(tar::EntryType::Symlink);
                    tar.append_link(&mut header, path, target).unwrap();
                }
                Link::Hard(target) => {
                    header.set_entry_type(tar::EntryType::Link);
                    tar.append_link(&mut header, path, target).unwrap();
                }
            }
        }
        self.packed(&tar.into_inner().unwrap())
    }

    /// A layer of texts, with their modes, and of links.
    fn layer_of_texts(
        &self,
        files: &[(String, u32, String)],
        links: &[(&str, &str)],
    ) -> (serde_json::Value, String) {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, mode, text) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(*mode);
            tar.append_data(&mut header, path, text.as_bytes()).unwrap();
        }
        for (path, target) in links {
            let mut header = tar::Header::new_gnu();
            header.set_size(0);
            header.set_entry_type(tar::EntryType::Symlink);
            tar.append_link(&mut header, path, target).unwrap();
        }
        self.packed(&tar.into_inner().unwrap())
    }

    fn packed(&self, tar: &[u8]) -> (serde_json::Value, String) {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(tar).unwrap();
        (self.blob("layer.v1.tar+gzip", &gz.finish().unwrap()), digest(tar))
    }

    fn read(&self) -> Result<Image, ImageError> {
        envlock::image::read(&self.path(), &Choice::default(), &Silent)
    }
}

enum Link {
    No,
    Soft(String),
    Hard(String),
}

/// Names, links and whiteouts that take no space in a layer, and much time or memory to apply.
#[test]
fn names_links_and_whiteouts_are_counted() {
    let long = "x".repeat(255);
    let deep = "d/".repeat(1_500);
    let chain = (0..39).map(|at| (format!("l{at}"), Link::Soft(format!("l{}", at + 1))));
    let many = |n: usize, name: &dyn Fn(usize) -> String, link: &dyn Fn() -> Link| -> Vec<(String, Link)> {
        (0..n).map(|at| (name(at), link())).collect()
    };
    let hidden = many(60_000, &|at| format!("big/{at}"), &|| Link::No);
    let whiteouts: Vec<(String, Link)> = (0..1_000).map(|_| (".wh.big".to_owned(), Link::No)).collect();
    let target = [("t".to_owned(), Link::Soft("y/".repeat(2_000)))];
    for (what, files, said) in [
        ("a folder hidden again and again", hidden.into_iter().chain(whiteouts).collect::<Vec<_>>(), None),
        (
            "hard links to a long link",
            target
                .into_iter()
                .chain(many(80_000, &|at| format!("h{at}"), &|| Link::Hard("t".to_owned())))
                .collect(),
            Some("more than 256 MiB"),
        ),
        ("a long name", vec![(format!("a/{long}x"), Link::No)], Some("a name is longer than 255 bytes")),
        ("long paths", many(30_000, &|at| format!("{deep}{at}"), &|| Link::No), Some("steps")),
        (
            "links through links",
            chain
                .chain(many(40_000, &|at| format!("lib/{at}.so"), &|| Link::Soft("/l0".to_owned())))
                .collect(),
            None,
        ),
    ] {
        let layout = Layout::new();
        layout.index(&[layout.image(&[layout.layer_of(files.into_iter())])]);
        let start = Instant::now();
        let read = layout.read();
        // Without the limits it takes hours or all memory; a loaded machine stays far below this.
        assert!(start.elapsed() < Duration::from_secs(240), "{what}: {:?}", start.elapsed());
        match (said, read) {
            (Some(said), Err(error)) => assert!(error.to_string().contains(said), "{what}: {error}"),
            (None, read) => drop(read.unwrap()),
            (Some(_), Ok(_)) => panic!("{what}: not refused"),
        }
    }
}

const LIBRARY: &str = "opt/v/lib/python3.12/site-packages/a/lib.so";

#[test]
fn a_layer_that_is_listed_often_takes_its_space_once() {
    let layout = Layout::new();
    let content: Vec<u8> = b"0123456789abcdef".repeat(4 << 16);
    let layer = layout.layer(LIBRARY, &content);
    let image = layout.image(&vec![layer; 30]);
    layout.index(&[image]);
    let image = layout.read().unwrap();
    assert_eq!(image.layers, 30);
    assert!(image.spooled <= 2 * content.len() as u64, "{} of {}", image.spooled, content.len());
    // The content is there.
    let opened = envlock::inspect::FileTree::start(&image.tree, &Path::new("/").join(LIBRARY), 1 << 30);
    assert_eq!(opened.unwrap(), content);
}

#[test]
fn holes_stay_holes() {
    let layout = Layout::new();
    let mut content = vec![0; 48 << 20];
    content[20 << 20] = 7;
    *content.last_mut().unwrap() = 9;
    layout.index(&[layout.image(&[layout.layer(LIBRARY, &content)])]);
    let image = layout.read().unwrap();
    assert!(image.spooled <= 1 << 20, "{}", image.spooled);
    let opened = envlock::inspect::FileTree::start(&image.tree, &Path::new("/").join(LIBRARY), 1 << 30);
    assert!(opened.unwrap() == content);
}

#[test]
fn more_layers_and_names_than_any_image_has_are_refused() {
    let layout = Layout::new();
    let layer = layout.layer("etc/x", b"x");
    layout.index(&[layout.image(&vec![layer; 1_001])]);
    assert!(layout.read().err().unwrap().to_string().contains("more than 1000 layers"));
    // An index that names an index 2,000 times, which names another one 2,000 times.
    let image = layout.image(&[layout.layer("etc/y", b"y")]);
    let mut inner = image;
    for _ in 0..3 {
        let text = serde_json::json!({ "schemaVersion": 2, "manifests": vec![inner; 2_000] }).to_string();
        inner = layout.blob("index.v1+json", text.as_bytes());
    }
    layout.index(&[inner]);
    let start = Instant::now();
    let read = layout.read();
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    // One image, by however many names.
    assert_eq!(read.unwrap().layers, 1);
}

/// An environment with packages that require nothing, or that much each.
fn environment(prefix: &str, packages: usize, requirements: usize) -> Vec<(String, u32, String)> {
    let mut files =
        vec![(format!("{prefix}/pyvenv.cfg"), 0o644, "home = /usr/bin\nversion = 3.12.1\n".to_owned())];
    for package in 0..packages {
        let info = format!("p{package}-1.0.dist-info");
        let place = format!("{prefix}/lib/python3.12/site-packages/{info}");
        let mut text = format!("Metadata-Version: 2.1\nName: p{package}\nVersion: 1.0\n");
        (0..requirements).for_each(|number| text.push_str(&format!("Requires-Dist: q{number}\n")));
        files.push((format!("{place}/METADATA"), 0o644, text));
        files.push((format!("{place}/RECORD"), 0o644, format!("{info}/METADATA,,\n{info}/RECORD,,\n")));
    }
    files
}

/// The environment that an image's program runs in is judged, wherever it lies and however many files are beside it.
#[test]
fn the_environment_of_the_program_is_found() {
    let python = ("usr/bin/python3.12".to_owned(), 0o755, "\u{7f}ELF".to_owned());
    let own = "srv/node_modules/venv";
    let shebang = format!("#!/{own}/bin/python\nimport p0\n");
    let through = "#!/bin/sh\nexec \"$@\"\n".to_owned();
    let program = format!("/{own}/bin/python");
    for (what, scripts, entry) in [
        (
            "a console script",
            vec![(format!("{own}/bin/torchrun"), shebang.clone())],
            vec![format!("/{own}/bin/torchrun")],
        ),
        ("a script without an ending", vec![("app".to_owned(), shebang)], vec!["/app".to_owned()]),
        (
            "a script that starts what follows",
            vec![("run.sh".to_owned(), through)],
            vec!["/run.sh".to_owned(), program.clone(), "x.py".to_owned()],
        ),
        ("the Python itself", Vec::new(), vec![program, "x.py".to_owned()]),
    ] {
        let layout = Layout::new();
        let mut files = vec![python.clone()];
        files.extend(environment("opt/venv", 3, 0));
        files.extend(environment(own, 2, 0));
        files.extend((0..110_000).map(|number| (format!("srv/n{number}"), 0o644, String::new())));
        files.extend(scripts.into_iter().map(|(path, text)| (path, 0o755, text)));
        let bin = format!("{own}/bin/python");
        let links = [("opt/venv/bin/python", "/usr/bin/python3.12"), (bin.as_str(), "/usr/bin/python3.12")];
        let start = serde_json::json!({ "Env": ["PATH=/opt/venv/bin:/usr/bin"], "Entrypoint": entry });
        layout.index(&[layout.image_with(&[layout.layer_of_texts(&files, &links)], start)]);
        let run = TestContext::new().run(&["image", layout.path().to_str().unwrap()]);
        let first = run.stdout.lines().find(|line| line.starts_with("environment "));
        assert!(first.is_some_and(|line| line.contains(own)), "{what}: {}", run.shown());
    }
}

/// Packages whose requirements are many together.
#[test]
fn requirements_of_an_environment_are_counted() {
    let layout = Layout::new();
    let files = environment("opt/venv", 400, 1_000);
    layout.index(&[
        layout.image(&[layout.layer_of_texts(&files, &[("opt/venv/bin/python", "/usr/bin/python3")])])
    ]);
    let run = TestContext::new().run(&["image", layout.path().to_str().unwrap()]);
    assert!(run.code != 0 && run.flat().contains("more than 200000 requirements"), "{}", run.shown());
}

/// A METADATA that is larger than what is kept of a layer says nothing of what the package requires.
#[test]
fn metadata_that_is_not_read_is_no_agreement() {
    let layout = Layout::new();
    let mut files = environment("opt/venv", 1, 1);
    files[1].2.push_str(&format!("\n{}", "x".repeat(65 << 20)));
    layout.index(&[
        layout.image(&[layout.layer_of_texts(&files, &[("opt/venv/bin/python", "/usr/bin/python3")])])
    ]);
    let run = TestContext::new().run(&["image", layout.path().to_str().unwrap()]);
    assert!(run.code == 1 && run.flat().contains("METADATA of p0 cannot be read"), "{}", run.shown());
}

/// The number of images is that of all, however many are named.
#[test]
fn several_images_are_counted() {
    let layout = Layout::new();
    let images: Vec<_> = (0..12)
        .map(|number| {
            let file = (format!("file{number}"), 0o644, String::new());
            layout.image(&[layout.layer_of_texts(&[file], &[])])
        })
        .collect();
    layout.index(&images);
    let said = TestContext::new().run(&["image", layout.path().to_str().unwrap()]).expect(2);
    assert!(said.flat().contains("it contains 12 images: "), "{}", said.shown());
    assert!(said.flat().contains(", ..."), "{}", said.shown());
    layout.index(&[]);
    let said = TestContext::new().run(&["image", layout.path().to_str().unwrap()]).expect(2);
    assert!(said.flat().contains("it contains no image"), "{}", said.shown());
}
