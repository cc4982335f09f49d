//! `image`: container images as files. Layouts and archives are written here, or by the tools that write them elsewhere.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::Digest as _;

use super::context::{Run, skipped};
use super::native::{Build, Environment};

/// A member of a layer that is not read from disk.
enum Added<'a> {
    File(&'a str, &'a [u8]),
    Symlink(&'a str, &'a str),
    HardLink(&'a str, &'a str),
    /// A header that states this size, and no content.
    Empty(&'a str, u64),
}

#[derive(Clone, Copy)]
enum Packing {
    None,
    Gzip,
    Zstd,
}

/// A tar archive of a folder's files below `at`, and members.
fn layer(folder: Option<(&Path, &str)>, members: &[Added<'_>]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.follow_symlinks(false);
    if let Some((folder, at)) = folder {
        builder.append_dir_all(at, folder).unwrap();
    }
    for member in members {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o755);
        header.set_mtime(1_700_000_000);
        header.set_size(0);
        // The library refuses names that hostile archives have.
        let name = |header: &mut tar::Header, name: &str| {
            header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        };
        match member {
            Added::File(path, content) => {
                header.set_entry_type(tar::EntryType::Regular);
                header.set_size(content.len() as u64);
                name(&mut header, path);
                header.set_cksum();
                builder.append(&header, *content).unwrap();
            }
            Added::Symlink(path, target) | Added::HardLink(path, target) => {
                let is_hard = matches!(member, Added::HardLink(..));
                header.set_entry_type(if is_hard { tar::EntryType::Link } else { tar::EntryType::Symlink });
                name(&mut header, path);
                header.set_link_name_literal(target).unwrap();
                header.set_cksum();
                builder.append(&header, std::io::empty()).unwrap();
            }
            Added::Empty(path, size) => {
                header.set_entry_type(tar::EntryType::Regular);
                header.set_size(*size);
                name(&mut header, path);
                header.set_cksum();
                builder.append(&header, std::io::empty()).unwrap();
            }
        }
    }
    builder.into_inner().unwrap()
}

fn packed(layer: &[u8], packing: Packing) -> Vec<u8> {
    match packing {
        Packing::None => layer.to_vec(),
        Packing::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(layer).unwrap();
            encoder.finish().unwrap()
        }
        Packing::Zstd => zstd::encode_all(layer, 1).unwrap(),
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(sha2::Sha256::digest(bytes)))
}

/// An OCI layout that is being written.
pub(super) struct Layout {
    pub folder: PathBuf,
    manifests: Vec<Value>,
}

impl Layout {
    fn new(folder: PathBuf) -> Layout {
        std::fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
        std::fs::write(folder.join("oci-layout"), "{\"imageLayoutVersion\":\"1.0.0\"}").unwrap();
        Layout { folder, manifests: Vec::new() }
    }

    fn blob(&self, bytes: &[u8]) -> (String, usize) {
        let digest = digest(bytes);
        std::fs::write(self.path(&digest), bytes).unwrap();
        (digest, bytes.len())
    }

    fn path(&self, digest: &str) -> PathBuf {
        self.folder.join("blobs/sha256").join(digest.strip_prefix("sha256:").unwrap())
    }

    /// Adds an image and returns the digests of its manifest, configuration and layers.
    fn image(&mut self, name: &str, arch: &str, env: &[&str], layers: &[(Vec<u8>, Packing)]) -> Vec<String> {
        let diff_ids: Vec<String> = layers.iter().map(|(layer, _)| digest(layer)).collect();
        let config = json!({
            "architecture": arch,
            "os": "linux",
            "config": { "Env": env, "WorkingDir": "/work" },
            "rootfs": { "type": "layers", "diff_ids": diff_ids },
        });
        let config = self.blob(config.to_string().as_bytes());
        let rows: Vec<(String, usize)> =
            layers.iter().map(|(layer, packing)| self.blob(&packed(layer, *packing))).collect();
        let descriptors: Vec<Value> = rows
            .iter()
            .map(|(digest, size)| json!({ "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest, "size": size }))
            .collect();
        let manifest = json!({
            "schemaVersion": 2,
            "config": { "mediaType": "application/vnd.oci.image.config.v1+json", "digest": config.0, "size": config.1 },
            "layers": descriptors,
        });
        let manifest = self.blob(manifest.to_string().as_bytes());
        self.manifests.push(json!({
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": manifest.0,
            "size": manifest.1,
            "platform": { "architecture": arch, "os": "linux" },
            "annotations": { "org.opencontainers.image.ref.name": name },
        }));
        let index = json!({ "schemaVersion": 2, "manifests": self.manifests });
        std::fs::write(self.folder.join("index.json"), index.to_string()).unwrap();
        [manifest.0, config.0].into_iter().chain(rows.into_iter().map(|(digest, _)| digest)).collect()
    }

    fn shown(&self) -> String {
        self.folder.display().to_string()
    }
}

impl Layout {
    /// An image as `docker save` wrote it before it had OCI layouts; its layer is not packed. `digests` as of [`Layout::image`].
    fn docker(&self, digests: &[String]) -> Vec<u8> {
        let hex = |digest: &str| digest.strip_prefix("sha256:").unwrap().to_owned();
        let blob = |digest: &str| std::fs::read(self.folder.join("blobs/sha256").join(hex(digest))).unwrap();
        let (config, one) = (blob(&digests[1]), blob(&digests[2]));
        let name = format!("{}.json", hex(&digests[1]));
        let manifest = json!([{ "Config": name, "RepoTags": ["app:1"], "Layers": ["1.tar"] }]).to_string();
        let manifest = Added::File("manifest.json", manifest.as_bytes());
        layer(None, &[Added::File("1.tar", &one), Added::File(&name, &config), manifest])
    }
}

/// The environment of the tests on ELF files, in images.
pub(super) struct Images {
    pub env: Environment,
    pub host: String,
}

impl Images {
    pub fn new() -> Option<Images> {
        let env = Environment::new()?;
        let host = env.host("9.0", "580.159.04");
        Some(Images { env, host })
    }

    /// The layer with the environment in `/opt/venv`.
    fn base(&self) -> Vec<u8> {
        layer(Some((&self.env.context.dir.path().join("env"), "opt/venv")), &[])
    }

    fn layout(&self) -> Layout {
        Layout::new(self.env.context.dir.path().join("image"))
    }

    pub fn run(&self, rest: &[&str]) -> Run {
        self.env.context.run(&[&["image"], rest].concat())
    }

    /// The codes of what is wrong with an image of these layers, with the environment in the first one.
    fn codes(&self, env: &[&str], members: &[&[Added<'_>]]) -> Vec<String> {
        let mut layout = self.layout();
        let above = members.iter().map(|members| (layer(None, members), Packing::Gzip));
        let layers: Vec<_> = std::iter::once((self.base(), Packing::Zstd)).chain(above).collect();
        layout.image("latest", "amd64", env, &layers);
        let run = self.run(&[&layout.shown(), "--host", &self.host, "--json"]);
        std::fs::remove_dir_all(&layout.folder).unwrap();
        let json = run.json();
        let findings = json["findings"].as_array().unwrap_or_else(|| panic!("{}", run.shown())).iter();
        findings.filter(|f| f["severity"] != "info").map(|f| f["code"].as_str().unwrap().to_owned()).collect()
    }
}

const SITE: &str = "opt/venv/lib/python3.12/site-packages";

#[test]
fn an_image_is_judged_like_its_environment() {
    let Some(images) = Images::new() else { return };
    for packing in [Packing::None, Packing::Gzip, Packing::Zstd] {
        let mut layout = images.layout();
        let env = ["PATH=/opt/venv/bin:/usr/bin", "NVIDIA_VISIBLE_DEVICES=all"];
        let digests = layout.image("latest", "amd64", &env, &[(images.base(), packing)]);
        let json = images.run(&[&layout.shown(), "--host", &images.host, "--json"]).expect(0).json();
        assert_eq!(json["manifest_digest"], *digests[0]);
        assert_eq!(json["config_digest"], *digests[1]);
        assert_eq!((&json["architecture"], &json["verdict"]), (&json!("amd64"), &json!("ok")));
        let environment = &json["environments"][0];
        assert_eq!((&environment["prefix"], &environment["python"]), (&json!("/opt/venv"), &json!("3.12")));
        assert_eq!((&environment["cudnn"], &environment["cuda"]), (&json!("9.10.2"), &json!("12.8")));
        assert_eq!(environment["packages"]["torch"], "2.9.1");
        assert_eq!(json["host_needs"]["driver"], "525.60.13");
        assert_eq!(json["variables"]["NVIDIA_VISIBLE_DEVICES"], "all");
        // Without a host file no machine is judged.
        let run = images.run(&[&layout.shown()]).expect(0);
        for said in [
            "torch 2.9.1+cu128, CUDA 12.8, cuDNN 9.10.2",
            "host needs driver >= 525.60.13; compute capability ",
            "clean",
        ] {
            assert!(run.flat().contains(said), "{said}: {}", run.shown());
        }
        assert!(
            run.stdout.lines().all(|line| line.chars().count() <= 80 || line.contains("sha256:")),
            "{}",
            run.stdout
        );
        std::fs::remove_dir_all(&layout.folder).unwrap();
    }
}

/// What an image says of itself need not be true.
#[test]
fn an_image_that_states_another_processor() {
    let Some(images) = Images::new() else { return };
    let mut layout = images.layout();
    let other = if cfg!(target_arch = "x86_64") { "arm64" } else { "amd64" };
    layout.image("latest", other, &[], &[(images.base(), Packing::None)]);
    let run = images.run(&[&layout.shown()]).expect(1);
    assert!(
        run.flat().contains("error[wrong-platform]: the image says that it is for linux-"),
        "{}",
        run.shown()
    );
}

/// Of an interpreter that is a script, the platform that the image states is what is known of its programs.
#[test]
fn an_image_for_another_processor_than_the_machines() {
    let Some(images) = Images::new() else { return };
    let mut layout = images.layout();
    let script = layer(None, &[Added::File("opt/venv/bin/python", b"#!/bin/sh\n")]);
    let other = if cfg!(target_arch = "x86_64") { "arm64" } else { "amd64" };
    layout.image("latest", other, &[], &[(images.base(), Packing::None), (script, Packing::None)]);
    let run = images.run(&[&layout.shown(), "--host", &images.host]).expect(1);
    assert!(
        run.flat().contains("error[wrong-platform]: the programs in it are for linux-"),
        "{}",
        run.shown()
    );
}

/// A target of a lock names an image by the digest of its manifest or configuration.
#[test]
fn the_image_of_a_target() {
    let Some(images) = Images::new() else { return };
    let context = &images.env.context;
    let mut layout = images.layout();
    let digests = layout.image("latest", "amd64", &[], &[(images.base(), Packing::None)]);
    let text = |digest: &str| {
        format!(
            "[stack]\ntorch = \"==2.9.1\"\n[target.node]\ngpus = [\"H100\"]\ndriver = \"580.65.06\"\nimage = \"{digest}\"\n"
        )
    };
    let codes = |archive: &str| -> Vec<String> {
        let json = images.run(&[archive, "--lock", "envlock.lock", "--json"]).json();
        let findings = json["findings"].as_array().unwrap().iter();
        let of_image = findings.filter(|f| f["environment"] == Value::Null);
        of_image.map(|f| f["code"].as_str().unwrap().to_owned()).collect()
    };
    let docker = context.write("docker.tar", "").display().to_string();
    std::fs::write(&docker, layout.docker(&digests)).unwrap();
    for (digest, of_layout, of_docker) in [
        (digests[0].as_str(), &[][..], &["not-judged"][..]),
        (&digests[1], &[], &[]),
        (&format!("sha256:{}", "0".repeat(64)), &["wrong-image"], &["not-judged"]),
    ] {
        context.write("envlock.toml", &text(digest));
        context.run(&["resolve", "--stack-only"]).expect(0);
        assert!(context.read("envlock.lock").contains(&format!("image = \"{digest}\"")));
        context.run(&["resolve", "--stack-only", "--locked"]).expect(0);
        assert_eq!(codes(&layout.shown()), of_layout, "{digest}");
        assert_eq!(codes(&docker), of_docker, "{digest}");
    }
    // Another image in the manifest, or in the lock alone.
    context.write("envlock.toml", &text(&digests[1]));
    context.run(&["resolve", "--stack-only", "--locked"]).expect(1);
    context.write("envlock.toml", &text("sha256:00"));
    let refused = context.run(&["resolve", "--stack-only"]).expect(2);
    assert!(refused.flat().contains("`sha256:00` is not the digest of an image"), "{}", refused.shown());
}

/// What the image demands of the machine.
#[test]
fn demands_of_an_image() {
    let Some(images) = Images::new() else { return };
    assert_eq!(
        images.codes(&["NVIDIA_REQUIRE_CUDA=cuda>=12.8 brand=tesla,driver>=470,driver<471"], &[]),
        [""; 0]
    );
    assert_eq!(images.codes(&["CUDA_VERSION=99.1"], &[]), ["image-requirement"]);
    assert_eq!(images.codes(&["CUDA_VERSION=99.1", "NVIDIA_DISABLE_REQUIRE=true"], &[]), [""; 0]);
}

/// Six faults that an image can have and a build of it does not show.
#[test]
fn faults_in_an_image() {
    let Some(images) = Images::new() else { return };
    assert_eq!(images.codes(&[], &[]), [""; 0]);
    // A layer above deletes a part of cuDNN, to make the image smaller.
    let gone = format!("{SITE}/nvidia/cudnn/lib/.wh.libcudnn_graph.so.9");
    let codes = images.codes(&[], &[&[Added::File(&gone, b"")]]);
    assert!(codes.contains(&"missing-file".to_owned()), "{codes:?}");
    assert!(codes.contains(&"missing-library".to_owned()), "{codes:?}");
    // A variable of the image puts another cuDNN first.
    let other = images.env.library(
        &images.env.context.dir.path().join("other/libcudnn_ops.so.9").display().to_string(),
        &Build { source: "int x;", ..Build::default() },
    );
    let other = std::fs::read(other).unwrap();
    let added: &[Added<'_>] = &[Added::File("usr/local/cuda/lib64/libcudnn_ops.so.9", &other)];
    assert_eq!(images.codes(&[], &[added]), [""; 0]);
    assert_eq!(images.codes(&["LD_LIBRARY_PATH=/usr/local/cuda/lib64"], &[added]), ["shadowed-library"]);
    // A layer above overwrites a library with one of another size.
    let replaced = format!("{SITE}/torch/lib/libtorch_cuda_linalg.so");
    let codes = images.codes(&[], &[&[Added::File(&replaced, &other)]]);
    assert!(codes.contains(&"altered-file".to_owned()), "{codes:?}");
    // A second installation leaves another version's metadata.
    let twice = format!("{SITE}/torch-2.8.0.dist-info/METADATA");
    let codes =
        images.codes(&[], &[&[Added::File(&twice, b"Metadata-Version: 2.1\nName: torch\nVersion: 2.8.0\n")]]);
    assert!(codes.contains(&"duplicate-package".to_owned()), "{codes:?}");
    // The interpreter was removed with the packages that brought it.
    let codes = images.codes(&[], &[&[Added::Symlink("opt/venv/bin/python", "/usr/bin/python3.12")]]);
    assert!(codes.contains(&"missing-interpreter".to_owned()), "{codes:?}");
    // Its programs are for another processor than the machine's.
    let arm = images.env.context.write(
        "arm.toml",
        "schema = 1\n[driver]\nversion = \"580.159.04\"\n[[gpu]]\ncompute_capability = \"9.0\"\n[system]\nos = \"linux\"\narch = \"aarch64\"\n",
    );
    let mut layout = images.layout();
    layout.image("latest", "amd64", &[], &[(images.base(), Packing::Gzip)]);
    let run = images.run(&[&layout.shown(), "--host", &arm.display().to_string()]).expect(1);
    assert!(
        run.flat().contains("the programs in it are for linux-x86_64, the machine is linux-aarch64"),
        "{}",
        run.shown()
    );
}

#[test]
fn layers_lie_over_each_other() {
    let Some(images) = Images::new() else { return };
    let init = format!("{SITE}/sitecustomize.py");
    let file: &[Added<'_>] = &[Added::File(&init, b"import sys\n")];
    assert_eq!(images.codes(&[], &[file]), ["startup-code"]);
    // A whiteout hides it, also when it comes before the folder's other members.
    let hidden = format!("{SITE}/.wh.sitecustomize.py");
    assert_eq!(images.codes(&[], &[file, &[Added::File(&hidden, b"")]]), [""; 0]);
    // It does not hide what the same layer brings.
    let both: &[Added<'_>] = &[Added::File(&init, b"import sys\n"), Added::File(&hidden, b"")];
    assert_eq!(images.codes(&[], &[both]), ["startup-code"]);
    // An opaque folder hides all below it, and nothing of its own layer.
    let opaque = format!("{SITE}/nvidia/cudnn/lib/.wh..wh..opq");
    let codes = images.codes(&[], &[&[Added::File(&opaque, b"")]]);
    assert!(codes.contains(&"missing-file".to_owned()), "{codes:?}");
    // A layer may write through a link of a layer below, as runtimes do.
    let link: &[Added<'_>] = &[Added::Symlink("venv", "/opt/../opt/venv")];
    let through = "venv/lib/python3.12/site-packages/sitecustomize.py";
    assert_eq!(images.codes(&[], &[link, &[Added::File(through, b"import sys\n")]]), ["startup-code"]);
    // A hard link is a second name of a file below.
    let hard: &[Added<'_>] = &[Added::File("startup", b"import sys\n"), Added::HardLink(&init, "startup")];
    assert_eq!(images.codes(&[], &[hard]), ["startup-code"]);
}

/// The archive that `docker save` wrote before it was an OCI layout, and the one of two images.
#[test]
fn archives_of_docker() {
    let Some(images) = Images::new() else { return };
    let base = images.base();
    let config = json!({
        "architecture": "amd64", "os": "linux", "config": { "Env": ["PATH=/opt/venv/bin"] },
        "rootfs": { "type": "layers", "diff_ids": [digest(&base)] },
    })
    .to_string();
    let name = format!("{}.json", digest(config.as_bytes()).strip_prefix("sha256:").unwrap());
    let save = |manifest: Value, config: &str| {
        let bytes = layer(
            None,
            &[
                Added::File("1/layer.tar", &base),
                Added::Symlink("2/layer.tar", "../1/layer.tar"),
                Added::File(&name, config.as_bytes()),
                Added::File("manifest.json", manifest.to_string().as_bytes()),
            ],
        );
        let path = images.env.context.dir.path().join("saved.tar");
        std::fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let row = |tag: &str, layer: &str| json!({ "Config": name, "RepoTags": [tag], "Layers": [layer] });
    let path = save(json!([row("app:1", "2/layer.tar")]), &config);
    let json = images.run(&[&path, "--json"]).expect(0).json();
    assert_eq!(json["manifest_digest"], Value::Null);
    assert_eq!(json["config_digest"], digest(config.as_bytes()));
    assert_eq!(json["environments"][0]["cudnn"], "9.10.2");
    let path = save(json!([row("app:1", "1/layer.tar"), row("app:2", "2/layer.tar")]), &config);
    let run = images.run(&[&path]).expect(2);
    assert!(run.flat().contains("it contains 2 images: app:1, app:2"), "{}", run.shown());
    images.run(&[&path, "--tag", "2"]).expect(0);
    images.run(&[&path, "--tag", "app:1"]).expect(0);
    let run = images.run(&[&path, "--tag", "3"]).expect(2);
    assert!(run.flat().contains("it contains no image `3`; it has app:1, app:2"), "{}", run.shown());
    // A configuration that was changed after it was saved.
    let path = save(json!([row("app:1", "1/layer.tar")]), &config.replace("/opt/venv/bin", "/opt/evil/bin"));
    let run = images.run(&[&path]).expect(2);
    assert!(run.flat().contains("the archive is damaged or was changed"), "{}", run.shown());
}

#[test]
fn several_platforms_and_tags() {
    let Some(images) = Images::new() else { return };
    let mut layout = images.layout();
    layout.image("cuda", "amd64", &[], &[(images.base(), Packing::Gzip)]);
    let empty = layer(None, &[Added::File("etc/os-release", b"ID=x\n")]);
    layout.image("cuda", "arm64", &[], &[(empty, Packing::Gzip)]);
    let run = images.run(&[&layout.shown()]).expect(2);
    assert!(run.flat().contains("it contains 2 images: cuda linux/a"), "{}", run.shown());
    images.run(&[&layout.shown(), "--platform", "linux-x86_64"]).expect(0);
    let run = images.run(&[&layout.shown(), "--platform", "linux-aarch64"]).expect(3);
    assert!(run.flat().contains("no Python environment with packages was found"), "{}", run.shown());
}

#[test]
fn a_lock_of_an_image() {
    let Some(images) = Images::new() else { return };
    let mut layout = images.layout();
    layout.image("latest", "amd64", &["PATH=/opt/venv/bin"], &[(images.base(), Packing::Gzip)]);
    let lock = images.env.context.write("requirements.txt", "torch==2.9.1\n");
    let run = images.run(&[&layout.shown(), "--lock", &lock.display().to_string()]);
    assert!(run.flat().contains("environment /opt/venv (Python 3.12), lock "), "{}", run.shown());
    let lock = images.env.context.write("requirements.txt", "torch==2.8.0\n");
    let run = images.run(&[&layout.shown(), "--lock", &lock.display().to_string(), "--json"]).expect(1);
    let json = run.json();
    let codes: Vec<&str> =
        json["findings"].as_array().unwrap().iter().filter_map(|f| f["code"].as_str()).collect();
    assert!(codes.contains(&"wrong-version"), "{codes:?}");
}

#[test]
fn hostile_images() {
    let Some(images) = Images::new() else { return };
    let small = || vec![(layer(None, &[Added::File("etc/x", b"x")]), Packing::Gzip)];
    let fails = |layout: &Layout, said: &str| {
        let run = images.run(&[&layout.shown()]).expect(2);
        assert!(run.flat().contains(said), "{said}: {}", run.shown());
        std::fs::remove_dir_all(&layout.folder).unwrap();
    };
    let of = |layers: &[(Vec<u8>, Packing)]| {
        let mut layout = images.layout();
        let digests = layout.image("latest", "amd64", &[], layers);
        (layout, digests)
    };
    for members in [&[Added::File("../../etc/passwd", b"x")][..], &[Added::Symlink("a/../../b", "x")]] {
        let (layout, _) = of(&[(layer(None, members), Packing::Gzip)]);
        fails(&layout, "leaves the root");
    }
    let (layout, _) = of(&[(layer(None, &[Added::HardLink("a", "/etc/shadow")]), Packing::Gzip)]);
    fails(&layout, "a hard link leads to `/etc/shadow`, which is no file");
    // A bomb: zeros, packed a thousand to one.
    let size = 5u64 << 30;
    let zeros = zstd::encode_all(std::io::Read::take(std::io::repeat(0), size), 1).unwrap();
    let mut header = layer(None, &[Added::Empty("zeros", size)]);
    header.truncate(512);
    let (mut layout, _) = of(&small());
    let bomb = [zstd::encode_all(header.as_slice(), 1).unwrap(), zeros].concat();
    layout.manifests.clear();
    layout.image("latest", "amd64", &[], &[(bomb, Packing::None)]);
    fails(&layout, "unpacks to far more than its size");
    // Sizes and digests that lie.
    let (layout, digests) = of(&small());
    let blob = std::fs::read(layout.path(&digests[2])).unwrap();
    std::fs::write(layout.path(&digests[2]), &blob[..blob.len() - 20]).unwrap();
    fails(&layout, "layer 1 of 1");
    let (layout, digests) = of(&small());
    std::fs::write(
        layout.path(&digests[2]),
        packed(&layer(None, &[Added::File("etc/y", b"y")]), Packing::Gzip),
    )
    .unwrap();
    fails(&layout, "as stated: the archive is damaged or was changed");
    let (layout, digests) = of(&small());
    std::fs::remove_file(layout.path(&digests[2])).unwrap();
    fails(&layout, "it is not in the archive");
    let (layout, digests) = of(&small());
    std::fs::write(layout.path(&digests[1]), "{}").unwrap();
    fails(&layout, "as stated");
    let (layout, _) = of(&small());
    std::fs::write(layout.folder.join("index.json"), "[1, 2").unwrap();
    fails(&layout, "cannot read `index.json`");
    // A digest that is a path.
    let (layout, _) = of(&small());
    let index = json!({ "manifests": [{ "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": "sha256:../../../etc/passwd" }] });
    std::fs::write(layout.folder.join("index.json"), index.to_string()).unwrap();
    fails(&layout, "it contains no image");
    // Links in a circle.
    let (layout, _) = of(&[(
        layer(None, &[Added::Symlink("a", "b"), Added::Symlink("b", "a"), Added::File("a/x", b"")]),
        Packing::Gzip,
    )]);
    fails(&layout, "too many levels of symbolic links");
    // No image at all.
    let text = images.env.context.write("note.txt", "hello").display().to_string();
    let run = images.run(&[&text]).expect(2);
    assert!(
        run.flat().contains("is neither an archive of `docker save`, an OCI layout nor a SIF"),
        "{}",
        run.shown()
    );
    let run = images.run(&["pytorch/pytorch:2.9.1"]).expect(2);
    assert!(run.flat().contains("docker save pytorch/pytorch:2.9.1 -o image.tar"), "{}", run.shown());
}

/// Images that umoci and skopeo wrote.
#[test]
fn images_of_other_tools() {
    let Some(images) = Images::new() else { return };
    let root = images.env.context.dir.path();
    let tool = |program: &str, arguments: &[&str]| {
        let done = Command::new(program).args(arguments).current_dir(root).env("HOME", root).output();
        match done {
            Ok(done) => {
                assert!(
                    done.status.success(),
                    "{program} {arguments:?}: {}",
                    String::from_utf8_lossy(&done.stderr)
                );
                true
            }
            Err(_) => false,
        }
    };
    if !tool("umoci", &["--version"]) || !tool("skopeo", &["--version"]) {
        skipped("no umoci or skopeo here");
        return;
    }
    let bin = root.join("env/bin");
    std::fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    std::fs::write(root.join("layer.tar"), images.base()).unwrap();
    tool("umoci", &["init", "--layout", "oci"]);
    tool("umoci", &["new", "--image", "oci:latest"]);
    tool("umoci", &["raw", "add-layer", "--image", "oci:latest", "layer.tar"]);
    tool(
        "umoci",
        &["config", "--image", "oci:latest", "--config.env", "LD_LIBRARY_PATH=/usr/local/cuda/lib64"],
    );
    // A user who may not enter the folder of the interpreter.
    tool("umoci", &["config", "--image", "oci:latest", "--config.user", "1000"]);
    let copy = |from: &str, to: &str| tool("skopeo", &["--insecure-policy", "copy", "-q", from, to]);
    copy("oci:oci:latest", "docker-archive:docker.tar:app:1");
    copy("oci:oci:latest", "oci-archive:oci.tar:app:1");
    for (name, has_manifest) in [("oci", true), ("docker.tar", false), ("oci.tar", true)] {
        let path = root.join(name).display().to_string();
        let json = images.run(&[&path, "--host", &images.host, "--json"]).expect(0).json();
        assert_eq!(json["manifest_digest"].is_string(), has_manifest, "{name}");
        assert_eq!(json["environments"][0]["cudnn"], "9.10.2", "{name}");
        assert_eq!(json["variables"]["LD_LIBRARY_PATH"], "/usr/local/cuda/lib64", "{name}");
        assert!(json["findings"].to_string().contains("not everybody may enter /opt/venv/bin"), "{name}");
    }
}

/// Which environments an image has, and which is the one of its programs.
#[test]
fn environments_of_an_image() {
    let Some(images) = Images::new() else { return };
    let six = |prefix: &str, version: &str| {
        let info = format!("{prefix}/lib/python3.12/site-packages/six-{version}.dist-info");
        let metadata = format!("Metadata-Version: 2.1\nName: six\nVersion: {version}\n");
        (format!("{info}/METADATA"), metadata, format!("{info}/RECORD"))
    };
    let prefixes = |env: &[&str], more: &[Added<'_>], rest: &[&str]| -> Vec<String> {
        let mut layout = images.layout();
        layout.image(
            "latest",
            "amd64",
            env,
            &[(images.base(), Packing::None), (layer(None, more), Packing::Gzip)],
        );
        let run = images.run(&[&[&layout.shown(), "--json"], rest].concat());
        std::fs::remove_dir_all(&layout.folder).unwrap();
        let json = run.json();
        let all = json["environments"].as_array().unwrap_or_else(|| panic!("{}", run.shown())).iter();
        all.map(|one| one["prefix"].as_str().unwrap().to_owned()).collect()
    };
    let (tool, cache) = (six("opt/tool", "1.17.0"), six("opt/conda/pkgs/six-1.17.0", "1.17.0"));
    let others = [
        Added::File(&tool.0, tool.1.as_bytes()),
        Added::File(&tool.2, b""),
        Added::File("opt/tool/pyvenv.cfg", b"version = 3.12.1\n"),
        Added::File("opt/tool/bin/python", b"#!"),
        // conda's package cache is no environment, and neither is an empty folder of Debian's Python.
        Added::File("opt/conda/conda-meta/history", b""),
        Added::File(&cache.0, cache.1.as_bytes()),
        Added::File(&cache.2, b""),
        Added::File("opt/venv/lib/python3.13/dist-packages/.keep", b""),
    ];
    assert_eq!(prefixes(&["PATH=/opt/venv/bin"], &others, &[]), ["/opt/venv"]);
    assert_eq!(prefixes(&["PATH=/opt/tool/bin"], &others, &[]), ["/opt/venv"], "the one with a framework");
    let lock = images.env.context.write("requirements.txt", "six==1.17.0\n").display().to_string();
    for (variable, expected) in [
        ("PATH=/opt/tool/bin:/opt/venv/bin", "/opt/tool"),
        ("PATH=/opt/venv/bin:/opt/tool/bin", "/opt/venv"),
        // It does not change what `python` is.
        ("VIRTUAL_ENV=/opt/tool", "/opt/venv"),
        ("A=b", "/opt/venv"),
    ] {
        assert_eq!(prefixes(&[variable], &others, &["--lock", &lock]), [expected], "{variable}");
    }
}

/// Contents whose own name does not say that they matter: a link does, or another name.
#[test]
fn contents_under_other_names() {
    let Some(images) = Images::new() else { return };
    let library =
        images.env.context.dir.path().join("env/lib/python3.12/site-packages/torch/lib/libtorch_python.so");
    let bytes = std::fs::read(&library).unwrap();
    let place = format!("{SITE}/torch/lib/libtorch_python.so");
    let linked = [Added::File("cas/0123", &bytes), Added::Symlink(&place, "/cas/0123")];
    assert_eq!(images.codes(&[], &[&linked]), [""; 0]);
    let chain = [
        Added::File("cas/0123", &bytes),
        Added::HardLink("cas/4567", "cas/0123"),
        Added::HardLink(&place, "cas/4567"),
    ];
    assert_eq!(images.codes(&[], &[&chain]), [""; 0]);
    // A whiteout below what is a file now.
    let module = format!("{SITE}/torch/lib");
    let below = format!("{module}/.wh.libtorch_python.so");
    let codes = images.codes(&[], &[&[Added::File(&module, b"a file")], &[Added::File(&below, b"")]]);
    assert!(codes.contains(&"missing-file".to_owned()), "{codes:?}");
}

/// Documents of an image in a folder do not name files outside it.
#[test]
fn documents_stay_in_their_folder() {
    let Some(images) = Images::new() else { return };
    let secret = images.env.context.write("secret", "text").display().to_string();
    for name in [secret.as_str(), "../secret", "link"] {
        let folder = images.env.context.dir.path().join("docker");
        std::fs::create_dir_all(&folder).unwrap();
        let _ = std::os::unix::fs::symlink(&secret, folder.join("link"));
        let manifest = json!([{ "Config": name, "RepoTags": ["a:1"], "Layers": [] }]);
        std::fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
        let run = images.run(&[&folder.display().to_string()]).expect(2);
        assert!(run.flat().contains("is not in the archive"), "{}", run.shown());
        assert!(!run.shown().contains("982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"));
    }
}
