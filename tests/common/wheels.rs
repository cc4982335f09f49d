//! Small wheels made by the tests.

use std::io::Write as _;

use sha2::{Digest, Sha256};

/// The tags of what is a source distribution.
const SOURCE: &str = "source";

/// A wheel to be made.
#[derive(Debug, Clone)]
pub struct Wheel {
    pub name: String,
    pub version: String,
    pub tags: String,
    pub requires: Vec<String>,
    pub requires_python: String,
    pub yanked: bool,
    /// When it was uploaded, RFC 3339.
    pub uploaded: Option<String>,
    /// What METADATA says, where it differs from the file name.
    pub metadata_version: Option<String>,
    pub files: Vec<(String, Vec<u8>)>,
    /// Bytes of filler, to push the METADATA out of a first range.
    pub filler: usize,
}

/// A wheel as an index page lists it.
#[derive(Debug, Clone)]
pub struct Page {
    pub project: String,
    pub filename: String,
    pub sha256: String,
    pub metadata_sha256: String,
    pub size: usize,
    pub requires_python: String,
    pub yanked: bool,
    pub uploaded: Option<String>,
}

pub fn wheel(name: &str, version: &str) -> Wheel {
    Wheel {
        name: name.to_owned(),
        version: version.to_owned(),
        tags: "py3-none-any".to_owned(),
        requires: Vec::new(),
        requires_python: ">=3.8".to_owned(),
        yanked: false,
        uploaded: None,
        metadata_version: None,
        files: Vec::new(),
        filler: 0,
    }
}

/// Larger files are compressed. In bytes.
const LARGE: usize = 1 << 20;

impl Wheel {
    pub fn tags(mut self, tags: &str) -> Wheel {
        self.tags = tags.to_owned();
        self
    }

    pub fn needs(mut self, requirement: &str) -> Wheel {
        self.requires.push(requirement.to_owned());
        self
    }

    pub fn python(mut self, specifier: &str) -> Wheel {
        self.requires_python = specifier.to_owned();
        self
    }

    pub fn yanked(mut self) -> Wheel {
        self.yanked = true;
        self
    }

    pub fn uploaded(mut self, time: &str) -> Wheel {
        self.uploaded = Some(time.to_owned());
        self
    }

    pub fn says_version(mut self, version: &str) -> Wheel {
        self.metadata_version = Some(version.to_owned());
        self
    }

    pub fn file(self, path: &str, text: &str) -> Wheel {
        self.bytes(path, text.as_bytes())
    }

    pub fn bytes(mut self, path: &str, bytes: &[u8]) -> Wheel {
        self.files.push((path.to_owned(), bytes.to_vec()));
        self
    }

    pub fn filler(mut self, bytes: usize) -> Wheel {
        self.filler = bytes;
        self
    }

    pub fn metadata(&self) -> String {
        let mut text = format!(
            "Metadata-Version: 2.1\nName: {}\nVersion: {}\nRequires-Python: {}\n",
            self.name,
            self.metadata_version.as_ref().unwrap_or(&self.version),
            self.requires_python
        );
        for requirement in &self.requires {
            text.push_str(&format!("Requires-Dist: {requirement}\n"));
        }
        let mut extras: Vec<&str> =
            self.requires.iter().filter_map(|r| r.split_once("extra == '")?.1.split('\'').next()).collect();
        extras.dedup();
        for extra in extras {
            text.push_str(&format!("Provides-Extra: {extra}\n"));
        }
        text.push_str("\nA description.\n");
        text
    }

    /// A source distribution instead of a wheel, with this `setup.py`.
    pub fn source(self, setup_py: &str) -> Wheel {
        self.tags(SOURCE).file("setup.py", setup_py)
    }

    /// A gzipped tar archive as setuptools wrote them: PKG-INFO without requirements, and `requires.txt`.
    fn build_source(&self) -> (Page, Vec<u8>, Vec<u8>) {
        let stem = format!("{}-{}", self.name, self.version);
        let mut tar = tar::Builder::new(Vec::new());
        let mut add = |path: &str, text: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, format!("{stem}/{path}"), text).unwrap();
        };
        let info = format!("Metadata-Version: 2.1\nName: {}\nVersion: {}\n", self.name, self.version);
        let egg = format!("{}.egg-info", self.name.replace('-', "_"));
        add("PKG-INFO", info.as_bytes());
        add(&format!("{egg}/PKG-INFO"), info.as_bytes());
        add(&format!("{egg}/requires.txt"), self.requires.join("\n").as_bytes());
        for (path, bytes) in &self.files {
            add(path, bytes);
        }
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(&tar.into_inner().unwrap()).unwrap();
        let bytes = gz.finish().unwrap();
        let page = Page {
            project: self.name.replace(['_', '.'], "-").to_lowercase(),
            filename: format!("{stem}.tar.gz"),
            sha256: hex(&bytes),
            metadata_sha256: hex(&[]),
            size: bytes.len(),
            requires_python: self.requires_python.clone(),
            yanked: self.yanked,
            uploaded: self.uploaded.clone(),
        };
        (page, bytes, Vec::new())
    }

    /// The page row, the wheel's bytes, and its METADATA.
    pub fn build(&self) -> (Page, Vec<u8>, Vec<u8>) {
        if self.tags == SOURCE {
            return self.build_source();
        }
        let stem = format!("{}-{}", self.name.replace('-', "_"), self.version);
        let info = format!("{stem}.dist-info");
        let metadata = self.metadata();
        // No two packages own a file.
        let filler = format!("{stem}.bin");
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options =
            zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
        // As in the wheels of torch.
        let packed = options.compression_method(zip::CompressionMethod::Deflated);
        let mut add = |path: &str, text: &[u8]| {
            archive.start_file(path, if text.len() > LARGE { packed } else { options }).unwrap();
            archive.write_all(text).unwrap();
        };
        add(&format!("{info}/METADATA"), metadata.as_bytes());
        for (path, bytes) in &self.files {
            add(path, bytes);
        }
        add(&filler, &vec![7; self.filler]);
        let mut about = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n".to_owned();
        let tags: Vec<Vec<&str>> = self.tags.split('-').map(|part| part.split('.').collect()).collect();
        if let [pythons, abis, platforms] = tags.as_slice() {
            about.push_str(&format!("Tag: {}-{}-{}\n", pythons[0], abis[0], platforms[0]));
        }
        add(&format!("{info}/WHEEL"), about.as_bytes());
        let line = |path: &str, bytes: &[u8]| {
            format!("{path},sha256={},{}\n", super::installed::base64(&Sha256::digest(bytes)), bytes.len())
        };
        let mut record: String = self.files.iter().map(|(path, bytes)| line(path, bytes)).collect();
        record.push_str(&line(&filler, &vec![7; self.filler]));
        record.push_str(&line(&format!("{info}/METADATA"), metadata.as_bytes()));
        record.push_str(&line(&format!("{info}/WHEEL"), about.as_bytes()));
        record.push_str(&format!("{info}/RECORD,,\n"));
        add(&format!("{info}/RECORD"), record.as_bytes());
        let bytes = archive.finish().unwrap().into_inner();
        let page = Page {
            project: self.name.replace(['_', '.'], "-").to_lowercase(),
            filename: format!("{stem}-{}.whl", self.tags),
            sha256: hex(&bytes),
            metadata_sha256: hex(metadata.as_bytes()),
            size: bytes.len(),
            requires_python: self.requires_python.clone(),
            yanked: self.yanked,
            uploaded: self.uploaded.clone(),
        };
        (page, bytes, metadata.into_bytes())
    }
}

pub fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// A little PyPI: torch builds as the registry knows them, and some packages around.
pub fn little_pypi() -> Vec<(&'static str, Wheel)> {
    let linux = |minor: u32| format!("cp3{minor}-cp3{minor}-manylinux_2_28_x86_64");
    let mut all = vec![
        ("pypi", wheel("filelock", "3.20.0")),
        ("pypi", wheel("filelock", "3.19.0")),
        ("pypi", wheel("typing-extensions", "4.15.0")),
        ("pypi", wheel("numpy", "2.3.5").tags(&linux(12)).python(">=3.11")),
        ("pypi", wheel("numpy", "2.3.5").tags(&linux(13)).python(">=3.11")),
        ("pypi", wheel("numpy", "1.26.4").tags(&linux(12))),
        ("pypi", wheel("numpy", "1.26.4").tags("cp311-cp311-manylinux2014_x86_64")),
        ("pypi", wheel("nvidia-cudnn-cu12", "9.10.2.21").tags("py3-none-manylinux_2_27_x86_64")),
        ("pypi", wheel("nvidia-cudnn-cu13", "9.26.0.51").tags("py3-none-manylinux_2_27_x86_64")),
        ("pypi", wheel("requests", "2.32.0").needs("idna>=3").needs("pysocks; extra == 'socks'")),
        ("pypi", wheel("idna", "3.11")),
        ("pypi", wheel("idna", "3.12").yanked()),
        ("pypi", wheel("pysocks", "1.7.1")),
    ];
    let torch = |version: &str, minors: &[u32], cudnn: &str, triton: &str| -> Vec<(&'static str, Wheel)> {
        minors
            .iter()
            .map(|m| {
                let w = wheel("torch", version)
                    .tags(&linux(*m))
                    .needs("filelock")
                    .needs("typing-extensions>=4.10")
                    .needs(&format!("{cudnn}; platform_system == \"Linux\""))
                    .needs(&format!("triton{triton}; platform_system == \"Linux\""));
                ("pypi", w)
            })
            .collect()
    };
    all.extend(torch("2.9.1", &[10, 11, 12, 13, 14], "nvidia-cudnn-cu12==9.10.2.21", "==3.5.1"));
    all.extend(torch("2.10.0", &[10, 11, 12, 13, 14], "nvidia-cudnn-cu12==9.10.2.21", "==3.6.0"));
    all.extend(torch("2.15.0", &[11, 12, 13, 14, 15], "nvidia-cudnn-cu13==9.26.0.51", "~=3.9.0"));
    all.extend(torch("2.0.1", &[8, 9, 10, 11], "nvidia-cudnn-cu11==8.5.0.96", "==2.0.0"));
    for version in ["3.5.1", "3.6.0", "3.9.0"] {
        for minor in 10..=15 {
            all.push(("pypi", wheel("triton", version).tags(&linux(minor))));
        }
    }
    // triton 2.0 needs torch back: a legal cycle.
    all.push(("pypi", wheel("triton", "2.0.0").tags("cp311-cp311-manylinux2014_x86_64").needs("torch")));
    all.push(("pypi", wheel("nvidia-cudnn-cu11", "8.5.0.96").tags("py3-none-manylinux1_x86_64")));
    for (torch, vision) in [("2.9.1", "0.24.1"), ("2.10.0", "0.25.0")] {
        for minor in 10..=14 {
            let w = wheel("torchvision", vision)
                .tags(&linux(minor))
                .needs(&format!("torch=={torch}"))
                .needs("numpy");
            all.push(("pypi", w));
        }
    }
    all
}

/// What the pytorch index has beside it, in its own sub-indexes.
pub fn little_pytorch() -> Vec<(&'static str, Wheel)> {
    let linux = |minor: u32| format!("cp3{minor}-cp3{minor}-manylinux_2_28_x86_64");
    let mut all = Vec::new();
    for minor in [11, 12, 13] {
        let cu126 = wheel("torch", "2.14.1+cu126")
            .tags(&linux(minor))
            .needs("filelock")
            .needs("nvidia-cudnn-cu12==9.10.2.21; platform_system == \"Linux\"")
            .needs("triton~=3.8.0; platform_system == \"Linux\"");
        all.push(("whl/cu126", cu126));
        all.push(("whl/cu126", wheel("triton", "3.8.1").tags(&linux(minor))));
        let cpu = wheel("torch", "2.15.0+cpu").tags(&linux(minor)).needs("filelock");
        all.push(("whl/cpu", cpu));
    }
    let cu118 = wheel("torch", "2.7.1+cu118")
        .tags(&linux(12))
        .needs("filelock")
        .needs("triton==3.3.1; platform_system == \"Linux\"");
    all.push(("whl/cu118", cu118));
    all.push(("whl/cu118", wheel("triton", "3.3.1").tags(&linux(12))));
    all
}
