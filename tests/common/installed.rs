//! What is made by hand: environments, as an installer lays them out, and locks, as one forges them.

use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::wheels::Wheel;

/// Gives an environment an interpreter, which is not run.
pub fn interpreter(prefix: &Path) {
    let python = prefix.join("bin/python");
    std::fs::create_dir_all(python.parent().unwrap()).unwrap();
    std::fs::write(&python, "#!/bin/sh\nexit 9\n").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&python, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Lays a wheel out in a site-packages folder, as an installer does.
pub fn install(site: &Path, wheel: &Wheel) {
    let stem = format!("{}-{}", wheel.name.replace('-', "_"), wheel.version);
    let info = format!("{stem}.dist-info");
    let mut record = String::new();
    let mut put = |path: &str, text: &str| {
        let full = site.join(path);
        std::fs::create_dir_all(full.parent().unwrap()).unwrap();
        std::fs::write(full, text).unwrap();
        let digest = sha2::Sha256::digest(text.as_bytes());
        record.push_str(&format!("{path},sha256={},{}\n", base64(&digest), text.len()));
    };
    for (path, text) in &wheel.files {
        put(path, std::str::from_utf8(text).unwrap());
    }
    put(&format!("{info}/METADATA"), &wheel.metadata());
    put(&format!("{info}/INSTALLER"), "pip\n");
    record.push_str(&format!("{info}/RECORD,,\n"));
    std::fs::write(site.join(&info).join("RECORD"), record).unwrap();
}

pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let n = chunk.iter().fold(0u32, |a, b| a << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
        for i in 0..=chunk.len() {
            out.push(char::from(ALPHABET[(n >> (18 - 6 * i) & 63) as usize]));
        }
    }
    out
}

/// A changed lock with the checksums of what it says.
pub fn with_checksum(lock: &str) -> String {
    let read: toml::Table = lock.parse().unwrap();
    let lines = read["request"]["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap());
    let of_request = hex::encode(Sha256::digest(lines.collect::<Vec<_>>().join("\n").as_bytes()));
    let stated = read["request"]["sha256"].as_str().unwrap();
    let body = lock[lock.find("registry = ").unwrap()..].replacen(stated, &of_request, 1);
    let head = &lock[..lock.find("checksum = ").unwrap()];
    format!("{head}checksum = \"{}\"\n{body}", hex::encode(Sha256::digest(body.as_bytes())))
}
