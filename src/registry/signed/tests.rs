//! What is signed is taken as it is, and nothing else.

use std::io::Cursor;

use minisign::KeyPair;

use super::*;

struct Signer(KeyPair);

impl Signer {
    fn new() -> Signer {
        Signer(KeyPair::generate_unencrypted_keypair().unwrap())
    }

    fn key(&self) -> PublicKey {
        key(&self.0.pk.to_box().unwrap().into_string()).unwrap()
    }

    fn sign(&self, payload: &[u8], comment: &str) -> DataWheel {
        let signature =
            minisign::sign(Some(&self.0.pk), &self.0.sk, Cursor::new(payload), Some(comment), None);
        DataWheel { payload: payload.to_vec(), signature: signature.unwrap().into_string() }
    }
}

/// The frozen registry with one file changed, and what is true of it.
fn changed(path: &str, from: &str, to: &str) -> (Vec<u8>, String) {
    let mut files = crate::registry::frozen().files().to_vec();
    let file = files.iter_mut().find(|file| file.path == path).unwrap();
    assert!(file.text.contains(from), "{path} has no {from}");
    file.text = file.text.replacen(from, to, 1).into();
    let statement = Registry::from_files(files.clone()).map(|registry| Statement::of(&registry).to_string());
    (payload(&files), statement.unwrap_or_default())
}

fn taken(wheel: &DataWheel, keys: &[PublicKey]) -> Result<String, String> {
    let statement = wheel.verified(keys).map_err(|why| why.to_string())?;
    wheel.registry(&statement).map(|registry| registry.meta().date.clone()).map_err(|why| why.to_string())
}

#[test]
fn signed_data_is_taken() {
    let (signer, reserve) = (Signer::new(), Signer::new());
    let (data, statement) = to_sign(&crate::registry::frozen());
    let wheel = signer.sign(&data, &statement.to_string());
    assert_eq!(taken(&wheel, &[reserve.key(), signer.key()]).as_deref(), Ok("2026-11-21"));
    // As a wheel and back, the same bytes each time.
    let bytes = write(&wheel, &statement).unwrap();
    assert_eq!(bytes, write(&wheel, &statement).unwrap());
    assert_eq!(read(Cursor::new(&bytes)).unwrap(), wheel);
    assert_eq!(file_name(&statement), "envlock_gpu_registry-2026.11.21-py3-none-any.whl");
}

#[test]
fn what_was_not_signed_is_refused() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    let (data, statement) = to_sign(&crate::registry::frozen());
    let good = signer.sign(&data, &statement.to_string());
    let refused = |wheel: &DataWheel, keys: &[PublicKey], expected: &str| {
        let why = taken(wheel, keys).expect_err(expected);
        assert!(why.contains(expected), "{why}");
    };
    refused(&good, &[], "no key is known");
    refused(&good, &[stranger.key()], "the signature does not hold");
    let mut other = good.clone();
    let last = other.payload.len() - 3;
    other.payload[last] ^= 1;
    refused(&other, &[signer.key()], "the signature does not hold");
    // The statement is signed with the data.
    let later = good.signature.replace("date=2026-11-21", "date=2027-11-21");
    refused(&DataWheel { signature: later, ..good.clone() }, &[signer.key()], "the signature does not hold");
    for damaged in ["", "untrusted comment: x\n", &good.signature[..good.signature.len() / 2]] {
        let wheel = DataWheel { signature: damaged.to_owned(), ..good.clone() };
        refused(&wheel, &[signer.key()], "the signature does not hold");
    }
}

/// Who has the key makes mistakes, too.
#[test]
fn what_is_signed_and_wrong_is_refused() {
    let signer = Signer::new();
    let refused = |data: &[u8], comment: &str, expected: &str| {
        let why = taken(&signer.sign(data, comment), &[signer.key()]).expect_err(expected);
        assert!(why.contains(expected), "{why}");
    };
    let (data, statement) = to_sign(&crate::registry::frozen());
    let statement = statement.to_string();
    refused(&data, "", "is not about a registry");
    refused(&data, "envlock registry", "has not just a date");
    refused(&data, &statement.replace("2026-11-21", "2026-13-41"), "`2026-13-41` is not a day");
    refused(&data, &statement.replace("2026-11-21", "2027-01-01"), "the statement says");
    refused(&data, &statement.replace("schema=1.0.0", "schema=1.0.1"), "the statement says");
    refused(&data, &statement.replace("schema=1.0.0", "schema=9.0.0"), "the data has format 9.0.0");
    refused(&data, &format!("{}0", &statement[..statement.len() - 1]), "the statement says");
    refused(&data, &format!("{statement} more=1"), "has not just a date");
    let (other, _) = changed("registry.toml", "1.0.0", "1.0.1");
    refused(&other, &statement, "the statement says");
    let (wrong, _) = changed("cuda.toml", "cuda_major = 12", "cuda_major = \"twelve\"");
    refused(&wrong, &statement, "its rows have 1 problems, the first: cuda.toml:");
    refused(b"{\"a\": 1}", &statement, "the data cannot be read");
    for path in ["../escape.toml", "/abs.toml", "torch//x.toml", ".hidden.toml", "readme.md"] {
        let data = serde_json::to_vec(&std::collections::BTreeMap::from([(path, "")])).unwrap();
        refused(&data, &statement, "is not the path of a registry file");
    }
}

#[test]
fn archives_that_are_no_data_wheels() {
    for (bytes, expected) in [(&b"no zip"[..], "it is no wheel"), (b"", "it is no wheel")] {
        assert!(read(Cursor::new(bytes)).unwrap_err().to_string().contains(expected));
    }
    let archive = |name: &str, size: usize| {
        let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut archive, &vec![b' '; size]).unwrap();
        archive.finish().unwrap()
    };
    let why = read(archive("other/registry.json", 2)).unwrap_err().to_string();
    assert!(why.contains("`envlock_gpu_registry/registry.json` in it cannot be read"), "{why}");
    // A small file that would fill the memory.
    let bomb = archive("envlock_gpu_registry/registry.json", MAX_PAYLOAD as usize + 10);
    let why = read(bomb).unwrap_err().to_string();
    assert!(why.contains("it has more than"), "{why}");
}

/// The line of every key can be read: a key that cannot would be left out without a word.
#[test]
fn keys_of_releases() {
    for line in KEYS.lines().filter(|line| !line.starts_with('#')) {
        let (purpose, key) = line.split_once(' ').expect("a purpose and a key");
        assert!(["active", "reserve"].contains(&purpose), "{line}");
        assert!(PublicKey::from_base64(key.trim()).is_ok(), "{line}");
    }
}
