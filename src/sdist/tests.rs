//! Tests of reading source trees: tables of `setup.py` files, and hostile archives.

use std::io::{Cursor, Write as _};

use super::archive::Contents;
use super::*;
use crate::model::source::BuildKind;

/// A source tree with PKG-INFO of version 2.1, an egg-info without requirements, and a `setup.py`.
fn with_setup(setup: &str, requires_txt: &str) -> SourceTree {
    let files = [
        ("PKG-INFO", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"),
        ("demo.egg-info/PKG-INFO", "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"),
        ("demo.egg-info/requires.txt", requires_txt),
        ("setup.py", setup),
    ];
    read(&Contents::of_texts(files.map(|(path, text)| (path.to_owned(), text.to_owned())))).unwrap()
}

fn tree(files: &[(&str, &str)]) -> Result<SourceTree, Unreadable> {
    read(&Contents::of_texts(files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))))
}

fn requires(tree: &SourceTree) -> Vec<&str> {
    tree.headers.lines().filter_map(|line| line.strip_prefix("Requires-Dist: ")).collect()
}

/// distutils wrote no list of requirements into archives: where nothing could state one, there is none.
#[test]
fn a_setup_that_can_state_no_requirement_has_none() {
    let call = "setup(name='demo', ext_modules=[Extension('x', ['x.c'])] if '--c' in sys.argv else [])\n";
    let splat = "setup(name='demo', **json.load(open('x')))\n";
    for (setup, cfg, known) in [
        (call.to_owned(), "", Some(0)),
        (format!("options = {{}}\nlicense = 'distribution'\n{call}"), "", Some(0)),
        (splat.to_owned(), "", None),
        (format!("exec(open('more.py').read())\n{call}"), "", None),
        (format!("class D: distclass = 1\n{call}"), "", None),
        (format!("options = {{}}\n{call}"), "[metadata]\nrequires-dist = a\n", None),
    ] {
        let setup = format!("from distutils.core import setup, Extension\nimport sys, json\n{setup}");
        let files = [
            ("PKG-INFO", "Metadata-Version: 1.1\nName: demo\nVersion: 1.0\n"),
            ("setup.py", &setup),
            ("setup.cfg", cfg),
        ];
        let tree = tree(&files).unwrap();
        let found = tree.facts.unknown.is_none().then(|| requires(&tree).len());
        assert_eq!(found, known, "{setup} {cfg}: {:?}", tree.facts);
    }
}

/// Whichever `setup` is called, and whatever else a file computes: without a word for requirements there are none, and a list
/// that stands there is that list.
#[test]
fn requirements_that_nothing_computes() {
    let twice = "import os\nfrom distutils.core import setup\nclass D: pass\nk = dict(name='demo', distclass=D)\ndef run(c):\n    o = dict(k)\n    setup(**o)\nif os.environ.get('C'):\n    run(True)\nelse:\n    run(False)\n";
    let of_platform = "from distutils.core import setup\nimport platform\nif platform.system() == 'Linux':\n    setup(name='demo')\nelse:\n    setup(name='demo', py_modules=['x'])\n";
    let local = "import os, more\nfrom distutils.core import setup\nsetup(name='demo', **more.k)\n";
    let literal = "import ast\nfrom distutils.core import setup\nfor n in ast.walk(x()):\n    v = n\nsetup(name='demo', version=v, install_requires=['six'])\n";
    let installed = "from pkg_resources import get_distribution\nfrom setuptools import setup\nr = ['a', 'b' if get_distribution('b') else 'c']\nsetup(name='demo', install_requires=r)\n";
    let decided = "import sys\nfrom setuptools import setup\nsetup(name='demo', extras_require={'t': ['a<2' if sys.version_info.major < 3 else 'a']})\n";
    for (setup, list, known) in [
        (twice, None, Some(0)),
        (of_platform, None, Some(0)),
        (local, None, None),
        (literal, None, Some(1)),
        (installed, Some("a\nc\n"), Some(2)),
        (decided, Some("\n[t]\na\n"), Some(1)),
        (
            "import time\nfrom setuptools import setup\nsetup(name='demo', version=str(time.time()))\n",
            Some("\n"),
            None,
        ),
    ] {
        let mut files = vec![
            ("PKG-INFO", "Metadata-Version: 1.1\nName: demo\nVersion: 1.0\n"),
            ("setup.py", setup),
            ("more.py", "k = {}\n"),
        ];
        files.extend(list.map(|list| ("demo.egg-info/requires.txt", list)));
        let tree = tree(&files).unwrap();
        let found = tree.facts.unknown.is_none().then(|| requires(&tree).len());
        assert_eq!(found, known, "{setup}: {:?}", tree.facts);
    }
}

#[test]
fn what_is_static_is_exact() {
    let dynamic =
        "Metadata-Version: 2.4\nName: demo\nVersion: 1.0\nDynamic: requires-dist\nRequires-Dist: a\n\n";
    let plain = "Metadata-Version: 2.4\nName: demo\nVersion: 1.0\nLicense: MIT\n        \n        text\nRequires-Dist: a\n\n";
    let silent = "Metadata-Version: 2.4\nName: demo\nVersion: 1.0\nDynamic: Requires-Dist\n\n";
    let project = "[project]\nname = 'demo'\nversion = '1.0'\ndependencies = ['b']\n[project.optional-dependencies]\nx = ['c; python_version < \"3.9\"']\n";
    let computed = "[project]\nname = 'demo'\nversion = '1.0'\ndynamic = ['dependencies']\n";
    let table: [(&[(&str, &str)], MetadataFrom, &[&str], bool); 6] = [
        (&[("PKG-INFO", plain)], MetadataFrom::Exact, &["a"], true),
        (&[("PKG-INFO", dynamic)], MetadataFrom::AsPublished, &["a"], true),
        (&[("PKG-INFO", silent)], MetadataFrom::AsPublished, &[], false),
        (
            &[("PKG-INFO", dynamic), ("pyproject.toml", project)],
            MetadataFrom::Exact,
            &["b", "c; (python_version < \"3.9\") and extra == 'x'"],
            true,
        ),
        (&[("PKG-INFO", dynamic), ("pyproject.toml", computed)], MetadataFrom::AsPublished, &["a"], true),
        // No PKG-INFO: a repository.
        (
            &[("pyproject.toml", project)],
            MetadataFrom::Exact,
            &["b", "c; (python_version < \"3.9\") and extra == 'x'"],
            true,
        ),
    ];
    for (files, from, expected, is_known) in table {
        let tree = tree(files).unwrap();
        assert_eq!((tree.facts.metadata_from, requires(&tree).as_slice()), (from, expected), "{files:?}");
        assert_eq!(tree.facts.unknown.is_none(), is_known, "{:?}", tree.facts);
    }
}

#[test]
fn an_empty_static_list_beside_a_requires_txt_is_not_believed() {
    // A licence with an empty line ends the headers before Requires-Dist.
    let cut = "Metadata-Version: 2.4\nName: demo\nVersion: 1.0\nLicense: MIT\n\ntext\nRequires-Dist: a\n\n";
    let files = [("PKG-INFO", cut), ("demo.egg-info/requires.txt", "a\n")];
    let tree = tree(&files).unwrap();
    assert_eq!((tree.facts.metadata_from, requires(&tree)), (MetadataFrom::AsPublished, vec!["a"]));
}

#[test]
fn requires_txt_with_sections() {
    let tree = with_setup(
        "from setuptools import setup\nsetup()",
        "a>=1\n\n[:python_version < \"3.8\"]\nb\n\n[x]\nc\n\n[x:sys_platform == \"win32\"]\nd; os_name == 'nt'\n",
    );
    assert_eq!(
        requires(&tree),
        [
            "a>=1",
            "b; (python_version < \"3.8\")",
            "c; extra == 'x'",
            "d; (os_name == 'nt') and (sys_platform == \"win32\") and extra == 'x'"
        ]
    );
    for malformed in ["[", "[x\na", "[]\na"] {
        let tree = with_setup("from setuptools import setup\nsetup()", malformed);
        assert!(tree.facts.unknown.is_some(), "{malformed:?}");
    }
}

/// What a value depends on, and what it does not.
#[test]
fn what_setup_py_computes() {
    let depends = [
        "reqs = ['a']\nif os.environ.get('X'):\n    reqs.append('b')\nsetup(install_requires=reqs)",
        "reqs = ['a']\nif sys.platform == 'win32':\n    reqs += ['b']\nsetup(install_requires=reqs)",
        "def reqs():\n    if platform.system() == 'Linux':\n        return ['a']\n    return []\nsetup(install_requires=reqs())",
        "try:\n    import torch\n    has = True\nexcept ImportError:\n    has = False\nsetup(install_requires=['a'] if has else [])",
        "import torch\nsetup(version='1+cu' + torch.version.cuda)",
        "def v():\n    out = subprocess.check_output(['git', 'describe'])\n    return out.decode()\nsetup(version=v())",
        "kwargs = dict(install_requires=['a'])\nkwargs['version'] = '1' if os.getenv('X') else '2'\nsetup(**kwargs)",
        "from os import environ as e\nsetup(install_requires=[e['X']])",
        "setup(install_requires=['a' if sys.version_info >= (3, 9) else 'b'])",
        "if torch.cuda.is_available():\n    setup(install_requires=['a'])\nelse:\n    setup(install_requires=['b'])",
        "try:\n    get_distribution('x')\n    r = ['a']\nexcept Exception:\n    r = ['b']\nsetup(install_requires=r)",
        "try:\n    os.environ['X']\n    r = ['a']\nexcept KeyError:\n    r = ['b']\nsetup(install_requires=r)",
        "match sys.platform:\n    case 'win32':\n        r = ['a']\n    case _:\n        r = ['b']\nsetup(install_requires=r)",
        "r = ['a']\nsys.platform == 'win32' and r.append('b')\nsetup(install_requires=r)",
        "r = ['a', 'b']\nif os.name == 'nt':\n    r.pop()\nsetup(install_requires=r)",
        "r = ['a']\nif os.name == 'nt':\n    del r[0]\nsetup(install_requires=r)",
        "r = []\ndef add():\n    global r\n    if os.name == 'nt':\n        r = ['b']\nadd()\nsetup(install_requires=r)",
        "kw = {}\nif os.name == 'nt':\n    kw['install_requires'] = ['a']\nsetup(**kw)",
        "kw = {'install_requires': ['a']} if os.name == 'nt' else {}\nsetup(**kw)",
        "def main(reqs):\n    setup(install_requires=reqs)\nmain([os.environ['X']])",
        "from mymeta import reqs\nsetup(install_requires=reqs)",
        "from os import *\nsetup(install_requires=[environ['X']])",
        "setup(install_requires=eval('reqs'))",
        "o = os\nsetup(install_requires=[os . environ['X']])",
        "setup(install_requires=[(os).environ['X']])",
        "def f():\n    import json as os\nsetup(install_requires=[os.environ['X']])",
        "PY2 = bool(os.environ.get('X'))\nr = []\nif PY2:\n    r.append('a')\nsetup(install_requires=r)",
        "class C:\n    r = ['a']\nsetup(install_requires=C.r)",
        "from contextlib import suppress\nr = []\nwith suppress(ImportError):\n    import torch\n    r.append('a')\nsetup(install_requires=r)",
        "s = setup\ns(install_requires=[])",
        "version = __import__('torch').__version__\nsetup(version=version)",
    ];
    let head = "import os, sys, platform, subprocess\nimport torch\nfrom setuptools import setup\n";
    for text in depends {
        let tree = with_setup(&format!("{head}{text}\n"), "a\n");
        assert!(tree.facts.unknown.is_some(), "{text}");
    }
    // What depends on it is named, where it is one argument of a dictionary.
    let of = |text: &str| with_setup(&format!("{head}{text}\n"), "a\n").facts.unknown.unwrap();
    let version = of(
        "kw = {'version': '1'}\nif os.environ.get('X'):\n    kw['version'] += '+cu'\nsetup(install_requires=['a'], **kw)",
    );
    assert!(version.contains("`version` depends on `os.environ` (line 5)"), "{version}");
    let any = of("setup(**make(os.environ['X']))");
    assert!(any.contains("what it passes as `**` depends on"), "{any}");
    let does_not = [
        "setup(install_requires=['a'])",
        "reqs = open('requirements.txt').read().splitlines()\nsetup(install_requires=reqs)",
        "def v():\n    with open('demo/v.py') as f:\n        exec(f.read())\n    return locals()['__version__']\nsetup(version=v(), install_requires=['a'])",
        "path = os.path.join(os.path.dirname(__file__), 'r.txt')\nsetup(install_requires=open(path).read().split())",
        "reqs = ['a']\nif sys.version_info[0] < 3:\n    reqs.append('zz')\nsetup(install_requires=reqs)",
        "if sys.version_info < (3, 6):\n    sys.exit('old')\nsetup(install_requires=['a'])",
        "if os.environ.get('CUDA'):\n    ext = [1]\nelse:\n    ext = []\nsetup(install_requires=['a'], ext_modules=ext)",
        "def r():\n    if not sys.version.startswith('3.4'):\n        return ['a']\n    return []\nsetup(install_requires=r())",
        "if __name__ == '__main__':\n    setup(install_requires=['a'])",
        "print 'python 2'\nsetup(install_requires=['a'])",
        "IS3 = sys.hexversion >= 0x03000000\nt = ['x']\nif IS3:\n    t += ['y']\nsetup(install_requires=['a'], extras_require={'t': t})",
        "if os.getenv('X'):\n    kw = dict(cmdclass={})\nelse:\n    kw = dict()\nsetup(install_requires=['a'], **kw)",
    ];
    for text in does_not {
        let tree = with_setup(&format!("{head}{text}\n"), "a\n");
        assert_eq!(tree.facts.unknown, None, "{text}");
    }
}

#[test]
fn a_list_published_with_python_2_is_not_believed() {
    let setup = "import sys\nfrom setuptools import setup\nreqs = ['six']\nif sys.version_info[0] == 2:\n    reqs.append('mock>=1')\nsetup(install_requires=reqs)\n";
    assert!(with_setup(setup, "six\n").facts.unknown.is_none());
    let unknown = with_setup(setup, "six\nmock>=1\n").facts.unknown.unwrap();
    assert_eq!(unknown, "they were published with Python 2 (`mock`)");
}

#[test]
fn a_repository_states_its_requirements_in_setup_py() {
    let setup = "from setuptools import setup\nREQ = ['a>=1', 'b']\nsetup(name='demo', version='2.0', install_requires=REQ, extras_require={'x': ['c']}, python_requires='>=3.8')\n";
    let found = tree(&[("setup.py", setup)]).unwrap();
    assert_eq!(requires(&found), ["a>=1", "b", "c; extra == 'x'"]);
    assert!(found.facts.unknown.is_none() && found.headers.contains("Requires-Python: >=3.8\n"));
    let computed =
        "from setuptools import setup\nsetup(name='demo', version='2.0', install_requires=make())\n";
    assert!(tree(&[("setup.py", computed)]).unwrap().facts.unknown.is_some());
    assert!(tree(&[("setup.py", "print(1)")]).is_err());
    assert!(tree(&[]).is_err());
}

#[test]
fn what_a_build_makes_and_needs() {
    let of = |setup: &str, files: &[(&str, &str)]| {
        let mut all = vec![("PKG-INFO", "Metadata-Version: 2.1\nName: d\nVersion: 1\n"), ("setup.py", setup)];
        all.extend(files);
        tree(&all).unwrap().facts
    };
    let pure = of("from setuptools import setup\nsetup()", &[("d/x.c", "")]);
    assert_eq!(
        (pure.kind, pure.requires),
        (BuildKind::Pure, vec!["setuptools".to_owned(), "wheel".to_owned()])
    );
    let native = of(
        "import numpy\nfrom setuptools import setup, Extension\nsetup(ext_modules=[Extension('a', ['a.c'])])",
        &[("a.c", ""), ("vendored-meson/meson/test cases/cuda/1 simple/prog.cu", "")],
    );
    assert_eq!(
        (native.kind, native.modules),
        (BuildKind::Native, vec!["numpy".to_owned(), "setuptools".to_owned()])
    );
    let cuda = of(
        "from torch.utils.cpp_extension import CUDAExtension\nsetup(ext_modules=[CUDAExtension('a', ['a.cu'])])",
        &[("a.cu", "")],
    );
    assert_eq!((cuda.kind, cuda.needs), (BuildKind::Cuda, vec!["torch".to_owned()]));
    let rust = "[build-system]\nrequires = ['maturin>=1']\nbuild-backend = 'maturin'\n[project]\nname = 'd'\nversion = '1'\n";
    assert_eq!(tree(&[("pyproject.toml", rust)]).unwrap().facts.kind, BuildKind::Native);
    let stub = "[build-system]\nrequires = ['wheel-stub']\nbuild-backend = 'wheel_stub.buildapi'\n[project]\nname = 'd'\nversion = '1'\n";
    assert!(tree(&[("pyproject.toml", stub)]).unwrap().facts.fetches.is_some());
    let fetching = "import subprocess, sys\nfrom setuptools import setup\nsubprocess.check_call([sys.executable, '-m', 'pip', 'install', 'x'])\nsetup()";
    assert!(of(fetching, &[]).fetches.is_some() && of("print('pip install x')", &[]).fetches.is_none());
}

/// A gzipped tar archive of regular files.
fn targz(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(text.len() as u64);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        tar.append(&header, *text).unwrap();
    }
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&tar.into_inner().unwrap()).unwrap();
    gz.finish().unwrap()
}

#[test]
fn hostile_archives_are_refused() {
    const INFO: &[u8] = b"Metadata-Version: 2.2\nName: d\nVersion: 1\n";
    let large = vec![b'#'; 5 << 20];
    let good = targz(&[("d-1/PKG-INFO", INFO), ("d-1/d/x.py", b"")]);
    assert!(read_archive(Cursor::new(good.clone()), "d-1.tar.gz").is_ok());
    let table: [(&[(&str, &[u8])], &str); 6] = [
        (&[("d-1/PKG-INFO", INFO), ("d-1/PKG-INFO", INFO)], "two files"),
        (&[("d-1/../PKG-INFO", INFO)], "outside"),
        (&[("/d-1/PKG-INFO", INFO)], "outside"),
        (&[("d-1/PKG-INFO", INFO), ("d-1/setup.py", &large)], "larger than 4 MB"),
        (&[("PKG-INFO", INFO)], "neither PKG-INFO nor"),
        // A second folder is not the tree's.
        (&[("other/x", b""), ("d-1/PKG-INFO", INFO)], "neither PKG-INFO nor"),
    ];
    for (files, expected) in table {
        let error = read_archive(Cursor::new(targz(files)), "d-1.tar.gz").unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    for cut in (0..good.len()).step_by(7) {
        let _ = read_archive(Cursor::new(good[..cut].to_vec()), "d-1.tar.gz");
    }
    assert!(read_archive(Cursor::new(b"not an archive".to_vec()), "d-1.zip").is_err());
    assert!(read_archive(Cursor::new(b"not an archive".to_vec()), "d-1.tar.gz").is_err());
}

#[test]
fn deep_nesting_is_no_stack_overflow() {
    let deep = format!(
        "from setuptools import setup\nx = {}1{}\nsetup(install_requires=x)\n",
        "(".repeat(50_000),
        ")".repeat(50_000)
    );
    let _ = with_setup(&deep, "a\n");
    let many = format!("from setuptools import setup\nx = 1{}\nsetup(version=x)\n", " + 1".repeat(50_000));
    let _ = with_setup(&many, "a\n");
}

#[test]
fn many_names_take_linear_time() {
    let texts = [
        format!("def f():\n{}f()\n", "    exec(a)\n".repeat(20_000)),
        format!("{}{}", "t = 1\n".repeat(20_000), "t.a\n".repeat(20_000)),
        format!("{}{}", "def f():0\n".repeat(6_000), "f()\n".repeat(20_000)),
    ];
    for text in texts {
        let start = std::time::Instant::now();
        let _ = with_setup(&text, "a\n");
        // Quadratic time took over 25 s in a release build.
        assert!(start.elapsed().as_secs() < 20);
    }
}

#[test]
fn what_a_setup_py_certainly_uses() {
    let uses = |setup: &str, files: &[(&str, &str)], name: &str| {
        let mut all = vec![("PKG-INFO", "Metadata-Version: 2.1\nName: d\nVersion: 1\n"), ("setup.py", setup)];
        all.extend(files);
        let uses = tree(&all).unwrap().facts.uses;
        uses.iter().any(|names| names.join(" or ") == name)
    };
    let exec = "def version():\n    exec(compile(open('v').read(), 'v', 'exec'))\n    return locals()['v']\n";
    let called = format!("{exec}setup(version=version())\n");
    let alternatives =
        "try:\n    import cfg as c\nexcept ImportError:\n    import Cfg as c\nsetup(version=c.Safe().x)\n";
    let table: &[(&str, &str, bool)] = &[
        ("import imp\nsetup()\n", "imp", true),
        ("import os, imp as i\nsetup()\n", "imp", true),
        ("from imp import load_source\nsetup()\n", "imp.load_source", true),
        ("try:\n    import imp\nexcept ImportError:\n    imp = None\n", "imp", false),
        ("import sys\nif sys.version_info < (3,):\n    import imp\n", "imp", false),
        ("def version():\n    import imp\nsetup(version=version())\n", "imp", true),
        ("def version():\n    import imp\nsetup()\n", "imp", false),
        ("def a():\n    import imp\ndef b():\n    a()\nsetup(version=b())\n", "imp", true),
        ("def a():\n    a()\n    import imp\nsetup()\n", "imp", false),
        ("class C:\n    import imp\nsetup()\n", "imp", false),
        ("def a():\n    if x:\n        return\n    import imp\na()\n", "imp", false),
        ("import os\ndef a():\n    return os.getcwdu()\na()\n", "os.getcwdu", true),
        ("if __name__ == '__main__':\n    import imp\nelse:\n    import other\n", "imp", true),
        ("if __name__ == '__main__':\n    import imp\nelse:\n    import other\n", "other", false),
        ("import platform\nsetup(name=platform.dist()[0])\n", "platform.dist", true),
        ("import platform\nplatform = mine()\nsetup(name=platform.dist())\n", "platform.dist", false),
        ("import platform\ndef f(platform):\n    platform.dist()\nf(1)\n", "platform.dist", false),
        (alternatives, "cfg.Safe or Cfg.Safe", true),
        ("import time\ntime.clock = time.time\ntime.clock()\n", "time.clock", false),
        ("import time as t\nsetattr(t, 'clock', 1)\nt.clock()\n", "time.clock", false),
        ("import time\nclass time:\n    pass\ntime.clock()\n", "time.clock", false),
        ("import sys\nsys.modules['imp'] = sys\nimport imp\n", "imp", false),
        ("import sys\nsys.modules.setdefault('imp', sys)\nimport imp\n", "imp", false),
        ("if __name__ != '__main__':\n    import imp\n", "imp", false),
        ("if (__name__ == \"__main__\"):\n    import imp\n", "imp", true),
        ("if __name__ == '__main__' and old:\n    import imp\n", "imp", false),
        ("with (\n    suppress(ImportError)):\n    import imp\n", "imp", false),
        ("with quiet(ImportError) as x:\n    import imp\n", "imp", false),
        ("import os\nwith io.open('x') as f:\n    os.getcwdu()\n", "os.getcwdu", true),
        ("def f():\n    import imp\ndef f():\n    pass\nf()\n", "imp", false),
        ("def f():\n    import imp\nf = lambda: 1\nf()\n", "imp", false),
        ("def f():\n    import imp\nfrom x import f\nf()\n", "imp", false),
        ("def f():\n    import imp\ndef g(f):\n    f()\ng(int)\n", "imp", false),
        ("def f():\n    import imp\n    yield 1\nf()\n", "imp", false),
        ("async def f():\n    import imp\nf()\n", "imp", false),
        ("def open(a, b):\n    pass\nopen('x', 'rU')\n", "open() with mode U", false),
        ("def f(v):\n    exec('x')\n    return locals()['v']\nf(1)\n", "locals() after exec()", false),
        ("def f():\n    exec('x')\n    locals()['v'] = 1\nf()\n", "locals() after exec()", false),
        ("text = open('README', 'rU').read()\n", "open() with mode U", true),
        ("text = open('README', mode='r').read()\n", "open() with mode U", false),
        (&called, "locals() after exec()", true),
        (exec, "locals() after exec()", false),
        (
            "def f():\n    d = {}\n    exec('x', d)\n    return locals()['d']\nf()\n",
            "locals() after exec()",
            false,
        ),
        ("def f():\n    exec('x')\n    return locals()\nf()\n", "locals() after exec()", false),
    ];
    for (setup, name, expected) in table {
        assert_eq!(uses(setup, &[], name), *expected, "{name}: {setup}");
    }
    // What stands beside `setup.py` is not Python's.
    assert!(!uses("import imp\nsetup()\n", &[("imp.py", "")], "imp"));
    assert!(!uses("import imp\nsetup()\n", &[("imp/__init__.py", "")], "imp"));
    let guarded = "import sys\nif x:\n    sys.path.append('lib')\nimport imp\n";
    assert!(!uses(guarded, &[("lib/imp.py", "")], "imp"));
    let elsewhere = "import sys\nsys.path.insert(0, 'tools')\nimport imp\nsetup()\n";
    assert!(!uses(elsewhere, &[("tools/imp.py", "")], "imp"));
    assert!(uses(elsewhere, &[], "imp") && uses("import imp\nsetup()\n", &[("tools/x/imp.py", "")], "imp"));
    // The copy of versioneer, as far as it is entered.
    let versioneer = "import configparser\ndef config():\n    return configparser.Safe()\ndef get_version():\n    return config()\n";
    let with = "import versioneer\nsetup(version=versioneer.get_version())\n";
    assert!(uses(with, &[("versioneer.py", versioneer)], "configparser.Safe"));
    assert!(!uses("import versioneer\nsetup()\n", &[("versioneer.py", versioneer)], "configparser.Safe"));
    let listed =
        "[build-system]\nrequires = ['setuptools', 'versioneer']\nbuild-backend = 'setuptools.build_meta'\n";
    assert!(!uses(with, &[("versioneer.py", versioneer), ("pyproject.toml", listed)], "configparser.Safe"));
    // Only setuptools runs `setup.py`.
    let poetry = "[build-system]\nrequires = ['poetry-core']\nbuild-backend = 'poetry.core.masonry.api'\n";
    assert!(!uses("import imp\n", &[("pyproject.toml", poetry)], "imp"));
}

#[test]
fn setup_requires_is_a_build_requirement() {
    let found = with_setup("from setuptools import setup\nsetup(setup_requires=['scm>=1', 'b'])\n", "a\n");
    assert_eq!(found.facts.requires, ["setuptools", "wheel", "scm>=1", "b"]);
}
