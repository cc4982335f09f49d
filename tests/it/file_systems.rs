//! `image` on SquashFS and SIF files, the images of Enroot and Apptainer. The file systems are written by mksquashfs.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::context::skipped;
use super::images::Images;

/// Packs a folder; `None` where there is no mksquashfs.
fn squashfs(folder: &Path, image: &Path, options: &[&str]) -> Option<()> {
    let mut command = Command::new("mksquashfs");
    command.args([folder, image]).args(["-noappend", "-quiet", "-no-progress", "-all-root"]).args(options);
    match command.output() {
        Ok(done) => {
            assert!(done.status.success(), "{options:?}: {}", String::from_utf8_lossy(&done.stderr));
            Some(())
        }
        Err(_) => {
            skipped("no mksquashfs here");
            None
        }
    }
}

/// A SIF file as Apptainer writes it: a header, descriptors, the definition file and the file system.
fn sif(system: &[u8], arch: &str, format: u32, purpose: u32, free: u64) -> Vec<u8> {
    const START: u64 = 32_768;
    let descriptor = |kind: u32, start: u64, length: u64, specific: [u32; 2]| {
        let mut bytes = Vec::new();
        bytes.extend(kind.to_le_bytes());
        bytes.push(1);
        [1_u32, 0xf000_0001, 0].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        [start, length, length, 0, 0, 0, 0].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.resize(585 - 384, 0);
        specific.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        bytes.extend(format!("{arch}\0").bytes());
        bytes.resize(585, 0);
        bytes
    };
    let mut out = b"#!/usr/bin/env run-singularity\n\0SIF_MAGIC\x0001\0".to_vec();
    out.extend(format!("{arch}\0").bytes());
    out.extend([7; 16]);
    let numbers = [0, 0, free, 48, 4_096, 48 * 585, START, system.len() as u64];
    numbers.iter().for_each(|number: &u64| out.extend(number.to_le_bytes()));
    out.resize(4_096, 0);
    out.extend(descriptor(0x4001, 31_000, 10, [0, 0]));
    out.extend(descriptor(0x4004, START, system.len() as u64, [format, purpose]));
    out.resize(START as usize, 0);
    out.extend(system);
    out
}

/// A root file system with the environment of the tests in `/opt/venv`, and what SquashFS writes in a way of its own: small
/// files that share a fragment, a folder of many files, holes, hard links, a pipe.
fn root(images: &Images) -> PathBuf {
    let folder = images.env.context.dir.path();
    let root = folder.join("root");
    fs_err::create_dir_all(root.join("opt")).unwrap();
    let copied = Command::new("cp").arg("-a").args([folder.join("env"), root.join("opt/venv")]).status();
    assert!(copied.unwrap().success());
    fs_err::create_dir_all(root.join("many")).unwrap();
    for number in 0..600 {
        fs_err::write(root.join(format!("many/{number}.py")), format!("x = {number}\n")).unwrap();
    }
    fs_err::hard_link(root.join("many/1.py"), root.join("many/same.py")).unwrap();
    let hole = fs_err::File::create(root.join("many/hole.so")).unwrap();
    hole.set_len(5 << 20).unwrap();
    let _ = Command::new("mkfifo").arg(root.join("many/pipe")).status();
    fs_err::create_dir_all(root.join(".singularity.d/env")).unwrap();
    fs_err::write(
        root.join(".singularity.d/env/10-docker2singularity.sh"),
        "#!/bin/sh\nexport PATH=\"/opt/venv/bin:/usr/bin\"\nexport CUDA_VERSION=\"${CUDA_VERSION:-\"12.8.1\"}\"\n",
    )
    .unwrap();
    root
}

#[test]
fn file_systems_of_every_compressor() {
    let Some(images) = Images::new() else { return };
    let root = root(&images);
    let image = images.env.context.dir.path().join("image.sqsh");
    let options: [&[&str]; 8] = [
        &["-comp", "gzip"],
        &["-comp", "zstd"],
        &["-comp", "xz"],
        &["-comp", "lz4"],
        // Enroot's own.
        &["-comp", "lzo", "-noD"],
        &["-comp", "lzo"],
        &["-comp", "gzip", "-no-fragments", "-b", "4096"],
        &["-comp", "zstd", "-b", "1M", "-noI"],
    ];
    for options in options {
        let Some(()) = squashfs(&root, &image, options) else { return };
        let path = image.display().to_string();
        let json = images.run(&[&path, "--host", &images.host, "--json"]).expect(0).json();
        assert_eq!((&json["verdict"], &json["config_digest"]), (&json!("ok"), &json!(null)), "{options:?}");
        let environment = &json["environments"][0];
        assert_eq!((&environment["prefix"], &environment["python"]), (&json!("/opt/venv"), &json!("3.12")));
        assert_eq!((&environment["cudnn"], &environment["cuda"]), (&json!("9.10.2"), &json!("12.8")));
        assert_eq!(json["variables"]["CUDA_VERSION"], "12.8.1", "{options:?}");
    }
    // A damaged library is found in a file system as in a folder.
    let cudnn = "opt/venv/lib/python3.12/site-packages/nvidia/cudnn/lib/libcudnn.so.9";
    fs_err::write(root.join(cudnn), "").unwrap();
    squashfs(&root, &image, &["-comp", "zstd"]).unwrap();
    let run = images.run(&[&image.display().to_string(), "--json"]).expect(1);
    assert!(run.stdout.contains("libcudnn.so.9"), "{}", run.shown());
}

#[test]
fn sif_files() {
    let Some(images) = Images::new() else { return };
    let root = root(&images);
    let folder = images.env.context.dir.path();
    let Some(()) = squashfs(&root, &folder.join("system"), &[]) else { return };
    let system = fs_err::read(folder.join("system")).unwrap();
    let image = folder.join("image.sif");
    let path = image.display().to_string();
    fs_err::write(&image, sif(&system, "02", 1, 2, 46)).unwrap();
    let run = images.run(&[&path, "--host", &images.host]).expect(0);
    assert!(run.flat().contains("image.sif: linux/amd64, SIF, "), "{}", run.shown());
    assert!(run.flat().contains("torch 2.9.1+cu128, CUDA 12.8, cuDNN 9.10.2"), "{}", run.shown());
    let run = images.run(&[&path, "--platform", "linux-aarch64"]).expect(2);
    assert!(
        run.flat().contains("it contains no image for linux-aarch64; it has one for linux-x86_64"),
        "{}",
        run.shown()
    );
    for (bytes, said) in [
        (sif(&system, "02", 5, 2, 46), "its file system is encrypted"),
        (sif(&system, "02", 2, 2, 46), "an old ext3 image"),
        (sif(&system, "02", 1, 4, 46), "it has an overlay"),
        (sif(&system, "02", 1, 3, 46), "no partition with a system"),
        (sif(&system, "02", 1, 2, 46)[..33_000].to_vec(), "it is cut off"),
        (sif(b"not one", "02", 1, 2, 46), "it is cut off"),
        (sif(&[b'x'; 500], "02", 1, 2, 46), "it is no SquashFS file system"),
    ] {
        fs_err::write(&image, bytes).unwrap();
        let run = images.run(&[&path]).expect(2);
        assert!(run.flat().contains(said), "{said}: {}", run.shown());
    }
}

/// Whatever is changed in a file system, it is read, or refused with a reason: no panic, nothing without end.
#[test]
fn damaged_file_systems() {
    let Some(images) = Images::new() else { return };
    let folder = images.env.context.dir.path();
    let root = folder.join("small");
    fs_err::create_dir_all(root.join("etc/deep/er")).unwrap();
    for number in 0..50 {
        fs_err::write(root.join(format!("etc/{number}.py")), "y".repeat(number * 100)).unwrap();
    }
    let image = folder.join("image.sqsh");
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for compressor in ["gzip", "zstd", "xz", "lz4", "lzo"] {
        let Some(()) = squashfs(&root, &image, &["-comp", compressor]) else { return };
        let whole = fs_err::read(&image).unwrap();
        let used = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
        for _ in 0..25 {
            let mut bytes = whole.clone();
            for _ in 0..=random(3) {
                let at = if random(3) == 0 { random(96) } else { random(used) };
                bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random(5)];
            }
            fs_err::write(&image, bytes).unwrap();
            let run = images.run(&[&image.display().to_string()]);
            assert!([2, 3].contains(&run.code), "{compressor}: {}", run.shown());
            assert!(run.code != 2 || run.stderr.starts_with("error: "), "{compressor}: {}", run.shown());
        }
    }
}
