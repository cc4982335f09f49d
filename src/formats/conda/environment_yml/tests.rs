//! What environment files become.

use super::*;
use crate::formats::imported::nothing;

fn read(text: &str, part: CondaPart) -> Result<Imported, ImportError> {
    environment(Imported::default(), nothing(), text, ("environment.yml", Path::new(".")), part)
}

#[test]
#[cfg(feature = "conda")]
fn names_by_channel() {
    let text = "channels: [conda-forge, https://host/bioconda/linux-64]\ndependencies:\n  - xz\n  - samtools\n  - bioconda::hmmer\n  - conda-forge::samtools\n  - Matplotlib-Base\n  - pytorch::pytorch-cpu=2.5\n  - cuda\n";
    let out = read(text, CondaPart::Pypi).unwrap();
    let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(written, ["samtools", "matplotlib", "torch==2.5.*"]);
    assert_eq!(out.limits, [("variant", "cpu".to_owned())]);
    assert_eq!(
        out.left_out,
        [
            "`cuda`: without a version it limits nothing; torch's wheels bring CUDA's libraries, and no compiler",
            "`channels: https://host/bioconda/linux-64`: the packages are PyPI's of the same names: check that they are the ones of this channel",
            "`channels: conda-forge`: the conda packages became PyPI's, for which no channel is read; `--conda` keeps them as conda's",
            "3 conda packages that hold no Python package, to install with conda or the system: xz, samtools, hmmer"
        ]
    );
}

#[test]
#[cfg(feature = "conda")]
fn an_environment() {
    let text = "name: x\nchannels: [pytorch, nvidia]\ndependencies:\n  - python=3.11\n  - pytorch=2.5\n  - pytorch-cuda=12.4\n  - pip\n  - numpy>=1.26|<1\n  - ffmpeg\n  - opencv=4.9\n  - pip:\n    - transformers>=4 --hash=sha256:00\n    - --extra-index-url https://x/\n";
    let out = read(text, CondaPart::Pypi).unwrap();
    let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
    assert_eq!(written, ["torch==2.5.*", "opencv-python==4.9.*", "transformers>=4"]);
    assert_eq!((out.python.as_deref(), out.limits), (Some("3.11"), vec![("cuda", "12.4".to_owned())]));
    assert_eq!(
        out.left_out,
        [
            "`numpy >=1.26|<1` is not supported in envlock.toml",
            "`channels: pytorch, nvidia`: the conda packages became PyPI's, for which no channel is read; `--conda` keeps them as conda's",
            "`ffmpeg`: conda's package holds no Python package: to install with conda or the system",
            "`--hash`: the lock has the hashes that the index states",
            "`--extra-index-url https://x/`: an index has a table of its own in envlock.toml"
        ]
    );
    for bad in [
        "",
        "# nothing\n",
        "channels: x",
        "dependencies: [numpy==]",
        "dependencies: 3",
        "a: [",
        "dependencies:\n  - {pip: 3}",
        "\u{0}",
        "dependencies: ['numpy[version=1']",
        "dependencies: [numpy >=1.2 py36 extra]",
        "dependencies: [numpy=1.26.*=]",
        "dependencies: ['']",
        "channels: [{conda-forge: true}]\ndependencies: [numpy]",
        "dependencies: [a]\ndependencies: [b]",
        "dependencies: [a]\n---\ndependencies: [b]",
    ] {
        for part in [CondaPart::Pypi, CondaPart::Conda] {
            let read = read(bad, part);
            // No word of the library that reads YAML.
            let foreign = ["error:", "Options", "from_str", "budget"];
            assert!(read.is_err_and(|e| !foreign.iter().any(|word| e.message.contains(word))), "{bad:?}");
        }
    }
    // What `conda env export` writes: the builds of Anaconda's channels are on no other.
    #[cfg(feature = "conda")]
    for (channel, expected) in [
        ("conda-forge", ["openssl=3.0.13=h7f8727e_0", "numpy=1.26.4=py311_0"]),
        ("defaults", ["openssl==3.0.13", "numpy==1.26.4"]),
    ] {
        let text = format!(
            "channels: ['{channel}']\ndependencies: [openssl=3.0.13=h7f8727e_0, numpy=1.26.4=py311_0]"
        );
        let read = read(&text, CondaPart::Auto);
        assert_eq!(read.unwrap().conda.unwrap().specs, expected, "{channel}");
    }
    // Each of Anaconda's channels is named, however it is written.
    for channel in ["defaults", "pkgs/main", "https://repo.anaconda.com/pkgs/r", "main"] {
        let text = format!("channels: ['{channel}']\ndependencies: [numpy]");
        for part in [CondaPart::Pypi, CondaPart::Conda] {
            let read = read(&text, part);
            assert!(read.unwrap().left_out[0].contains("licence"), "{channel}");
        }
    }
}

#[test]
fn the_conda_part_is_kept() {
    let of = |text: &str, part: CondaPart| {
        let out = read(text, part).unwrap();
        let written: Vec<String> = out.requirements.into_iter().map(|(text, _)| text).collect();
        (written, out.limits, out.conda)
    };
    let old = "channels: [pytorch, nvidia, defaults, bioconda]\ndependencies:\n  - python=3.11\n  - pytorch=2.5\n  - pytorch-cuda=12.4\n  - nvidia::cuda-nvcc=12.4\n  - bioconda::samtools\n  - numpy>=1.26|<1\n  - pip:\n    - einops\n";
    let (written, limits, kept) = of(old, CondaPart::Conda);
    // torch of the old channel is PyPI's.
    assert_eq!(written, ["torch==2.5.*", "einops"]);
    assert_eq!(limits, [("cuda", "12.4".to_owned())]);
    let kept = kept.unwrap();
    assert_eq!(
        (kept.channels.as_slice(), kept.has_stack),
        (["bioconda".to_owned(), "conda-forge".to_owned()].as_slice(), false)
    );
    assert_eq!(kept.specs, ["cuda-nvcc=12.4", "bioconda::samtools", "numpy>=1.26|<1"]);
    // What is no name of a channel is not written where it would be refused.
    let odd = "channels: [-c, ..]\ndependencies:\n  - \"::x\"\n  - samtools\n";
    let kept = of(odd, CondaPart::Conda).2.unwrap();
    assert_eq!((kept.channels, kept.specs), (vec!["conda-forge".to_owned()], vec!["samtools".to_owned()]));
    // PyPI's, as long as it has all of them.
    let plain =
        "channels: [conda-forge]\ndependencies:\n  - pytorch=2.9=cuda*\n  - cuda-version=12.9\n  - numpy\n";
    assert_eq!(of(plain, CondaPart::Auto).2, None);
    let with_compiler = format!("{plain}  - gcc_linux-64\n");
    assert_eq!(of(&with_compiler, CondaPart::Pypi).2, None);
    #[cfg(feature = "conda")]
    {
        let (written, limits, kept) = of(&with_compiler, CondaPart::Auto);
        assert_eq!((written, limits), (vec![], vec![]));
        let kept = kept.unwrap();
        assert!(kept.has_stack);
        assert_eq!(kept.specs, ["pytorch=2.9=cuda*", "cuda-version=12.9", "numpy", "gcc_linux-64"]);
    }
}

#[test]
fn versions_and_builds_have_their_counterparts() {
    let text = "channels: [conda-forge]\nvariables: {A: '1'}\nplatforms: [linux-64]\nprefix: /opt/x\ndependencies:\n  - python=3\n  - pytorch=2.5.*=*cuda*\n  - scipy=1.11.*=py311*\n  - jaxlib=0.4.*=*cuda*\n  - setuptools<70\n  - tensorflow-gpu>=2.15\n  - msgpack-python\n  - faiss\n  - mamba\n  - numpy=*\n";
    let of = |text: &str| read(text, CondaPart::Pypi).unwrap();
    let out = of(text);
    let written: Vec<&str> = out.requirements.iter().map(|(text, _)| text.as_str()).collect();
    let expected = [
        "torch==2.5.*",
        "scipy==1.11.*",
        "jaxlib==0.4.*",
        "setuptools<70",
        "tensorflow[and-cuda]>=2.15",
        "msgpack",
        "faiss-cpu",
        "numpy",
    ];
    assert_eq!(written, expected);
    assert_eq!((out.python.as_deref(), out.limits), (Some(">=3,<4"), vec![]));
    let told = [
        "`prefix: /opt/x`:",
        "`variables: A`:",
        "`platforms: linux-64`:",
        "`jaxlib: *cuda*`:",
        "`channels: conda-forge`: the conda packages became PyPI's",
        "`mamba`:",
    ];
    assert_eq!(out.left_out.len(), told.len(), "{:#?}", out.left_out);
    for (line, start) in out.left_out.iter().zip(told) {
        assert!(line.starts_with(start), "{line}");
    }
    // The build of torch is a limit of the stack.
    for (spec, limits) in [
        ("pytorch=2.4.1=*cpu*", vec![("variant", "cpu".to_owned())]),
        ("pytorch=2.3.1=py3.11_cuda12.1_cudnn8.9.2_0", vec![("cuda", "12.1".to_owned())]),
        ("pytorch=*=cuda*", vec![]),
    ] {
        assert_eq!(of(&format!("dependencies:\n  - {spec}\n")).limits, limits, "{spec}");
    }
    // What conda takes for a comment, and two versions of CUDA.
    let twice = of(
        "dependencies:\n  - \"numpy=1.26 # pinned\"\n  - cuda-version=12.4\n  - cuda-toolkit=11.8\n  - cudatoolkit=12.4\n",
    );
    assert_eq!(twice.requirements[0].0, "numpy==1.26.*");
    assert_eq!(twice.limits, [("cuda", "12.4".to_owned())]);
    assert_eq!(twice.left_out, ["`cuda 11.8`: the file also has cuda 12.4"]);
    // YAML's own ways to say a thing twice.
    let anchors = "base: &base [numpy]\ndependencies: *base\n";
    assert_eq!(of(anchors).requirements.len(), 1);
}

#[test]
fn what_pypi_has_under_another_name() {
    let of = |text: &str, part: CondaPart| read(text, part).unwrap();
    let written =
        |out: &Imported| -> Vec<String> { out.requirements.iter().map(|(text, _)| text.clone()).collect() };
    // A channel with names of its own: what nobody knows by that name is not taken from PyPI.
    let text = "channels: [mycorp, conda-forge]\ndependencies: [corp-secret-lib=2.1, numpy, krb5, conda-forge::obscure-thing]\n";
    let out = of(text, CondaPart::Pypi);
    assert_eq!(written(&out), ["numpy", "obscure-thing"]);
    assert!(out.left_out.iter().any(|line| line.contains("PyPI may have others")), "{out:?}");
    #[cfg(feature = "conda")]
    assert!(of(text, CondaPart::Auto).conda.is_some());
    // What is asked of the channel `pytorch` is its own.
    let text = "channels: [pytorch, conda-forge]\ndependencies: [pytorch::ignite, pytorch::torchvision, pytorch=2.1.0=py3.10_cuda12.1_cudnn8.9.2_0]\n";
    let out = of(text, CondaPart::Pypi);
    assert_eq!(written(&out), ["torchvision", "torch==2.1.0"]);
    assert_eq!(out.python.as_deref(), Some("3.10"));
    // bioconda's list does not know its old copies of conda-forge's packages.
    let out = of("channels: [conda-forge, bioconda]\ndependencies: [tqdm, samtools]\n", CondaPart::Pypi);
    assert_eq!(written(&out), ["tqdm"]);
    for (spec, expected) in [
        ("tensorflow-gpu=2.10", "tensorflow==2.10.*"),
        ("tensorflow-gpu>=2.15", "tensorflow[and-cuda]>=2.15"),
        ("tensorflow-gpu", "tensorflow[and-cuda]"),
        ("tensorflow-gpu=1.15", "tensorflow-gpu==1.15.*"),
    ] {
        assert_eq!(written(&of(&format!("dependencies: ['{spec}']\n"), CondaPart::Pypi)), [expected]);
    }
    let out = of(
        "dependencies: [pytorch=1.12, cudatoolkit=11.3.1, cudnn=8.2.1.32, wheel=0.37=py]\n",
        CondaPart::Pypi,
    );
    assert_eq!(out.limits, [("cuda", "11.3".to_owned())]);
    assert_eq!(out.left_out.len(), 2, "{:?}", out.left_out);
    let out = of("dependencies: [pytorch, cpuonly, cudatoolkit=11.8.0]\n", CondaPart::Pypi);
    assert_eq!(out.limits, [("variant", "cpu".to_owned())]);
    let out = of("dependencies:\n  - pip:\n    - 'einops  # comment'\n", CondaPart::Pypi);
    assert_eq!(written(&out), ["einops"]);
}

#[test]
fn channels_keep_who_they_are() {
    let text = "channels: ['https://repo.example.com/conda/custom', bioconda/label/main, conda-forge]\ndependencies:\n  - samtools\n  - nvidia::cuda-nvcc\n  - 'https://repo.example.com/conda/custom::foo=1.2'\n  - other::bwa\n";
    let out = read(text, CondaPart::Conda).unwrap();
    let kept = out.conda.unwrap();
    assert_eq!(kept.channels, ["bioconda", "conda-forge", "other"]);
    assert_eq!(kept.specs, ["samtools", "cuda-nvcc", "other::bwa"]);
    assert_eq!(out.left_out.len(), 3, "{:#?}", out.left_out);
    // As PyPI's packages, none takes the name of one that is pinned to another server.
    let out = read(text, CondaPart::Pypi).unwrap();
    assert!(!out.requirements.iter().any(|(text, _)| text.starts_with("foo")), "{:?}", out.requirements);
    assert!(
        out.left_out.iter().any(|line| line.contains("PyPI may have another package")),
        "{:#?}",
        out.left_out
    );
}
