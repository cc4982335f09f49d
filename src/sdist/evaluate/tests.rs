//! What is evaluated, and what must not be: each line against what Python does.

use crate::sdist::{Contents, read};

/// What a tree without PKG-INFO declares: version and requirements, `?` where its build computes them.
fn declared(files: &[(&str, &str)]) -> (String, String) {
    let describing = ["setup.py", "setup.cfg", "pyproject.toml", "PKG-INFO", "demo.egg-info/PKG-INFO"];
    let at_top = files.iter().filter(|(path, _)| describing.contains(path));
    let mut contents = Contents::of_texts(at_top.map(|(path, text)| (path.to_string(), text.to_string())));
    contents
        .complete(|wanted| files.iter().find(|(path, _)| *path == wanted).map(|(_, text)| text.to_string()));
    let header = |headers: &str, key: &str| -> Vec<String> {
        headers.lines().filter_map(|line| line.strip_prefix(key)).map(str::to_owned).collect()
    };
    let version = match read(&contents) {
        Ok(tree) => header(&tree.headers, "Version: ").concat(),
        Err(_) => "?".to_owned(),
    };
    let tree = read(&contents).or_else(|_| {
        contents.state("demo", "1");
        read(&contents)
    });
    let tree = tree.unwrap();
    let lines = header(&tree.headers, "Requires-Dist: ").join(" | ");
    (version, if tree.facts.unknown.is_some() { "?".to_owned() } else { lines })
}

const IMPORTS: &str =
    "import io, os, sys, pkg_resources\nfrom pathlib import Path\nfrom setuptools import setup\n";
const FILES: [(&str, &str); 5] = [
    ("requirements.txt", "# first\na>=1\n\nb ; python_version < '3'\n"),
    ("lib/version.py", "import os\n__version__ = '1.5'\n"),
    ("lib/other.py", "__version__ = compute()\n"),
    ("VERSION", "2.0\n"),
    ("options.txt", "-r other.txt\na\n"),
];

/// What a `setup.py` declares.
fn evaluated(text: &str) -> (String, String) {
    let setup = format!("{IMPORTS}{text}\n").replace("setup(", "setup(name='demo', ");
    declared(&[&[("setup.py", setup.as_str())], &FILES[..]].concat())
}

#[test]
fn requirements_that_are_the_same_everywhere() {
    let file = "a>=1 | b ; python_version < '3'";
    let table = [
        ("setup(install_requires=['a', 'b>=2'])", "a | b>=2"),
        ("setup(install_requires=open('requirements.txt').read().splitlines())", file),
        (
            "setup(install_requires=[l.strip() for l in open('requirements.txt') if not l.startswith('#')])",
            file,
        ),
        (
            "here = os.path.dirname(os.path.abspath(__file__))\n\
             with open(os.path.join(here, 'requirements.txt')) as f:\n    r = f.read()\n\
             setup(install_requires=r)",
            file,
        ),
        ("r = Path(__file__).parent / 'requirements.txt'\nsetup(install_requires=r.read_text())", file),
        (
            "def load(name='requirements.txt'):\n    out = []\n    for line in open(name):\n        line = line.strip()\n        \
             if line and not line.startswith('#'):\n            out.append(line)\n    return out\n\
             setup(install_requires=load())",
            file,
        ),
        (
            "setup(install_requires=[str(r) for r in pkg_resources.parse_requirements(open('requirements.txt'))])",
            file,
        ),
        (
            "extras = {}\nextras['x'] = ['c']\nextras['y'] = extras['x'] + ['d']\nsetup(extras_require=extras)",
            "c; extra == 'x' | c; extra == 'y' | d; extra == 'y'",
        ),
        ("r = ['a']\nr += ['b']\nr.append('c')\nr.extend(['d'])\nsetup(install_requires=r)", "a | b | c | d"),
        (
            "kw = dict(install_requires=['a'], extras_require={':os_name == \"nt\"': ['b']})\nkw.update({'version': '1'})\nsetup(**kw)",
            "a | b; (os_name == \"nt\")",
        ),
        (
            "def main():\n    setup(install_requires=R)\nR = ['a']\nif __name__ == '__main__':\n    main()",
            "a",
        ),
        ("r = ['a']\nq = r\nq.append('b')\nsetup(install_requires=r)", "a | b"),
        ("r = ['a']\nq = {'k': {'l': r}}\nq['k']['l'].append('b')\nsetup(install_requires=r)", "a | b"),
        ("def f():\n    r.append('b')\nr = ['a']\nf()\nsetup(install_requires=r)", "a | b"),
        ("try:\n    import torch\nexcept ImportError:\n    torch = None\nsetup(install_requires=['a'])", "a"),
        ("setup(install_requires=['a'])\nr = ['b']", "a"),
        ("setup()", ""),
        ("setup(install_requires=None)", ""),
        (
            "import re\n_deps = ['a>=1', 'b[x]==2', 'c']\n\
             deps = {b: a for a, b in (re.findall(r'^(([^!=<>~ \\[\\]]+)(?:\\[[^\\]]+\\])?(?:[!=<>~ ].*)?$)', x)[0] for x in _deps)}\n\
             def deps_list(*pkgs):\n    return [deps[pkg] for pkg in pkgs]\n\
             extras = {}\nextras['t'] = deps_list('c', 'a')\n\
             setup(install_requires=[deps['a'], deps['b']], extras_require=extras)",
            "a>=1 | b[x]==2 | c; extra == 't' | a>=1; extra == 't'",
        ),
        (
            "import shutil\nstale_egg_info = Path(__file__).parent / 'demo.egg-info'\n\
             if stale_egg_info.exists():\n    print('stale')\n    shutil.rmtree(stale_egg_info)\nsetup(install_requires=['a'])",
            "a",
        ),
        ("d = {x: x for x in ['a', 'b']}\nsetup(install_requires=[d['b'], d['a']])", "b | a"),
        ("import re\nsetup(install_requires=re.findall('[a-z]+', 'a, bc'))", "a | bc"),
    ];
    for (text, expected) in table {
        assert_eq!(evaluated(text).1, expected, "{text}");
    }
}

#[test]
fn requirements_that_may_differ_are_unknown() {
    let table = [
        "r = ['a']\nif os.environ.get('X'):\n    r.append('b')\nsetup(install_requires=r)",
        "r = ['a']\ntry:\n    import torch\nexcept ImportError:\n    r = ['torch']\nsetup(install_requires=r)",
        "r = ['a']\nwith quiet(ImportError):\n    import torch\n    r.append('b')\nsetup(install_requires=r)",
        "r = ['a']\nchange(r)\nsetup(install_requires=r)",
        "r = ['a']\nq = {'k': r}\nchange(q)\nsetup(install_requires=r)",
        "r = ['a']\nq = [r]\nq[0].append('b')\nsetup(install_requires=r)",
        "r = ['a']\nfor x in things():\n    r.append(x)\nsetup(install_requires=r)",
        "r = ['a']\nwhile more():\n    r.append('b')\nsetup(install_requires=r)",
        "def f():\n    global r\n    r = ['b']\nr = ['a']\nf()\nsetup(install_requires=r)",
        "def f():\n    r.append('b')\nr = ['a']\ncall(f)\nsetup(install_requires=r)",
        "def f():\n    if os.environ.get('X'):\n        return ['b']\n    return ['a']\nsetup(install_requires=f())",
        "def f():\n    for x in ['a', 'b']:\n        if x in os.environ:\n            return [x]\n    return []\nsetup(install_requires=f())",
        "r = ['a']\nexec(code())\nsetup(install_requires=r)",
        "import shutil\nif x():\n    shutil.rmtree('.')\nsetup(install_requires=open('requirements.txt').read())",
        "import shutil\nshutil.move('x', 'requirements.txt')\nsetup(install_requires=open('requirements.txt').read())",
        "import re\nsetup(install_requires=re.findall(r'(?<=x)a', 'xa'))",
        "import re\nsetup(install_requires=re.findall('a*', 'ab'))",
        "n = 'a'\nv = '1'\nsetup(install_requires=[n for n, v in [('b', '2'), ('c', '3')]])",
        "b = 'old'\nsetup(install_requires=[b for a, b in ['xy']])",
        "def f(v, *p):\n    return [v for n, v in p]\nsetup(install_requires=f('q', ('a', 'b')))",
        "k = 'x'\nv = 'y'\nsetup(extras_require={k: v for k, v in (l.split(':') for l in ['dev:pytest'])})",
        "import re\nsetup(install_requires=['x' + re.findall('[^,]*', 'a,b')[1]])",
        "import re\nsetup(install_requires=re.findall(r'([a-z]+)\\>=', 'a>=1'))",
        "import re\nsetup(install_requires=['z'] + re.findall('[a-z]++z', 'abcz'))",
        "import re\nsetup(install_requires=['a' + x for x in re.findall('(a*)+b', 'aab')])",
        "import re\nsetup(install_requires=['z'] + re.findall('[a[:alpha:]]+', 'bcd'))",
        "s = []\nsetup(install_requires=[''.join(s) for x in (s.append(y) for y in ['a', 'b'])])",
        "r = ['a']\nx = [r.append(x + 'b') for x in r if not x.endswith('bb')]\nsetup(install_requires=r)",
        "def t(*p):\n    return p\nb = t('a')\nc = b\nc += t('d')\nsetup(install_requires=list(b))",
        "from urllib.request import urlretrieve\ntry:\n    urlretrieve('x', 'requirements.txt')\nexcept OSError:\n    pass\nsetup(install_requires=open('requirements.txt').read())",
        "if os.environ.get('X'):\n    os.replace('VERSION', 'requirements.txt')\nsetup(install_requires=open('requirements.txt').read())",
        "p = Path('VERSION')\nif x():\n    p.replace('requirements.txt')\nsetup(install_requires=open('requirements.txt').read())",
        "with open('VERSION') as f:\n    r = [f.read().strip() for x in ['1', '2']]\nsetup(install_requires=r)",
        "setup(install_requires=[list({'b', 'a'})[0]])",
        "setup(install_requires=io.open('requirements.txt', 'r', -1, 'utf-7').read())",
        "setup(install_requires=open('requirements.txt', **{'encoding': 'utf-7'}).read())",
        "setup(install_requires=open(os.path.join('lib', os.path.abspath('requirements.txt'))).read())",
        "setup(install_requires=(Path('lib', 'x').parent / 'requirements.txt').read_text())",
        "r = ['x'] if ''.join(['a', 'b']) is 'ab' else ['y']\nsetup(install_requires=r)",
        "r = ['a']\ndef f(x: r.append('b')):\n    pass\nsetup(install_requires=r)",
        "r = ['a']\n\u{ff52} = ['b']\nsetup(install_requires=r)",
        "d = {'a': ['c']}\nd['a', 'b'] = ['x']\nsetup(install_requires=d['a'])",
        "def f():\n    raise SystemExit\nf()\nr = ['a']\nsetup(install_requires=r)",
        "p = Path('lib/x/..').parent\nsetup(install_requires=(p / 'requirements.txt').read_text())",
        "r = pkg_resources.parse_requirements('')\nsetup(install_requires=['b'] if not r else ['a'])",
        "r = [str(r) for r in pkg_resources.parse_requirements('a >= 1')]\nsetup(install_requires=[x for x in r if x != 'a>=1'])",
        "d = {}\nd['a'] = d\nsetup(install_requires=d['a'])",
        "d = {}\nd.update({'a': d})\nsetup(install_requires=d['a'])",
        "g = (x for x in ['a'])\nsetup(install_requires=list(g))",
        "d = {x: x for x in things()}\nsetup(install_requires=[d['a']])",
        "def f(*r):\n    r.append('b')\n    return r\nsetup(install_requires=f(*['a']))",
        "r = ['a']\ndef f(*l):\n    l[0].append('b')\nf(r)\nsetup(install_requires=r)",
        "r = ['a']\nif x():\n    exec(code())\nsetup(install_requires=r)",
        "r = ['a']\nglobals()['r'] = ['b']\nsetup(install_requires=r)",
        "open('requirements.txt', 'w').write('z')\nsetup(install_requires=open('requirements.txt').read())",
        "Path('requirements.txt').write_text('z')\nsetup(install_requires=open('requirements.txt').read())",
        "def w():\n    with open(where(), 'w') as f:\n        f.write('z')\nw()\nsetup(install_requires=open('requirements.txt').read())",
        "setup(install_requires=open('../requirements.txt').read())",
        "setup(install_requires=open('/requirements.txt').read())",
        "setup(install_requires=open('absent.txt').read())",
        "setup(install_requires=open('options.txt').read())",
        "setup(install_requires=['a'], **more())",
        "if x():\n    setup(install_requires=['a'])\nelse:\n    setup(install_requires=['b'])",
        "setup(install_requires=['a'])\nsetup(install_requires=['b'])",
        "class E(egg_info):\n    pass\nsetup(install_requires=['a'], cmdclass={'egg_info': E})",
        "r = ['a']\nr.append(r)\nsetup(install_requires=r)",
        "r = ['a']\nr.sort(key=f)\nsetup(install_requires=r)",
        "r = ['a'] if sys.platform == 'linux' else ['b']\nsetup(install_requires=r)",
        "r = sys.platform == 'win32' and ['a'] or ['b']\nsetup(install_requires=r)",
        "r = ['a']\nlambda: r.append('b')\nsetup(install_requires=r)",
        "r = ['a', 'b']\ndel r[0]\nsetup(install_requires=r)",
        "r = ['a']\n[r.append(x) for x in things()]\nsetup(install_requires=r)",
        "r = ['a']\n(r if x() else []).append('b')\nsetup(install_requires=r)",
        "def f():\n    def g():\n        l.append('b')\n    l = ['a']\n    g()\n    return l\nsetup(install_requires=f())",
        "def f():\n    x = 'a'\n    def g():\n        nonlocal x\n        x = 'b'\n    g()\n    return [x]\nsetup(install_requires=f())",
        "@wrap\ndef f():\n    r.append('b')\nr = ['a']\nf()\nsetup(install_requires=r)",
        "class C:\n    def m(self):\n        r.append('b')\nr = ['a']\nC().m()\nsetup(install_requires=r)",
        "def f():\n    r.append('b')\n    yield 1\nr = ['a']\nlist(f())\nsetup(install_requires=r)",
        "from other import *\nr = ['a']\nsetup(install_requires=open('requirements.txt').read())",
        "r = ['a']\nfrom other import *\nsetup(install_requires=r)",
        "os.path.join = other\nsetup(install_requires=open(os.path.join('requirements.txt')).read())",
        "os.chdir('lib')\nsetup(install_requires=open('requirements.txt').read())",
        "r = ['a']\nassert r.append('b') is None\nsetup(install_requires=r)",
        "x = 'a'\ny = [x := z for z in ['b']]\nsetup(install_requires=[x])",
        "r = ['a']\nfor i in []:\n    pass\nelse:\n    r.append('b')\nsetup(install_requires=r)",
        "def f(r):\n    def g():\n        s.append('b')\n    g()\n    return r\ns = ['a']\nsetup(install_requires=f(s))",
        "r = ['-'.join(x())]\nsetup(install_requires=r)",
        "r = ['a']\nfor x in r:\n    r.append('b') if len(r) < 2 else None\nsetup(install_requires=r)",
        "r = ['a']\nx = (r.append('b') if True # c\n else None)\nsetup(install_requires=r)",
        "def g():\n    r.append('b')\nd = {'x': g}\nr = ['a']\nd['x']()\nsetup(install_requires=r)",
        "d = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))\nsetup(install_requires=open(os.path.join(d, 'requirements.txt')).read())",
        "with open('requirements.txt') as f:\n    f.readline()\n    r = f.read()\nsetup(install_requires=r)",
        "os.replace('options.txt', 'requirements.txt')\nsetup(install_requires=open('requirements.txt').read())",
        "o = open\no('requirements.txt', 'w').close()\nsetup(install_requires=open('requirements.txt').read())",
        "b = ('a',)\nc = b\nc += ('d',)\nsetup(install_requires=b)",
        "x.r = r = ['a']\nx.r.append('b')\nsetup(install_requires=r)",
        "setup(install_requires=['a'], distclass=D)",
        "setup(install_requires=['a'], options={'egg_info': {}})",
        "def f(s=g()):\n    return s\nsetup(install_requires=f())",
    ];
    for text in table {
        assert_eq!(evaluated(text).1, "?", "{text}");
    }
}

#[test]
fn versions() {
    let table = [
        ("setup(version='1.0')", "1.0"),
        ("setup(version=open('VERSION').read().strip())", "2.0"),
        (
            "for line in open('lib/version.py'):\n    if line.startswith('__version__'):\n        v = line.split('=')[1].strip().strip(\"'\")\nsetup(version=v)",
            "1.5",
        ),
        ("v = '1.0'\nif os.environ.get('DEV'):\n    v += '.dev0'\nsetup(version=v)", "?"),
        ("v = ''\nexec(open('lib/other.py').read())\nsetup(version=__version__)", "?"),
        ("v = None\nwith opened('lib/version.py') as f:\n    exec(f.read())\nsetup(version=v)", "?"),
        ("setup(version=open('VERSION').read())", "2.0"),
        ("setup(version='a\\nb')", "?"),
        // What setuptools takes where nothing states a version.
        ("setup()", "0.0.0"),
        ("setup(use_scm_version=True)", "?"),
        ("setup(setup_requires=['some-plugin'])", "?"),
        ("setup(**more())", "?"),
    ];
    for (text, expected) in table {
        assert_eq!(evaluated(text).0, expected, "{text}");
    }
}

#[test]
fn tables_of_build_backends() {
    let setuptools = "[build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n";
    let project = |dynamic: &str, rest: &str| {
        format!("[project]\nname = 'demo'\ndynamic = [{dynamic}]\n{rest}{setuptools}")
    };
    let attr = project(
        "'version', 'dependencies', 'optional-dependencies'",
        "[tool.setuptools.dynamic]\nversion = {attr = 'demo.about.__version__'}\n\
         dependencies = {file = ['requirements.txt']}\noptional-dependencies.x = {file = 'x.txt'}\n",
    );
    let in_setup = project("'version', 'dependencies'", "");
    let cfg = "[metadata]\nname = demo\nversion = attr: demo.about.__version__\n[options]\ninstall_requires =\n    a>=1\n    \
               b; python_version<'3'\n[options.extras_require]\nx =\n    c\n";
    let (referring, tagged) = (format!("{cfg}y = %(x)s\n"), format!("{cfg}[egg_info]\ntag_build = dev\n"));
    let hatch = "[project]\nname = 'demo'\ndynamic = ['version']\ndependencies = ['a']\n[build-system]\n\
                 requires = ['hatchling']\nbuild-backend = 'hatchling.build'\n[tool.hatch.version]\npath = 'src/demo/about.py'\n";
    let flit = "[project]\nname = 'demo'\ndynamic = ['version']\n[build-system]\nrequires = ['flit_core']\n\
                build-backend = 'flit_core.buildapi'\n";
    let scm = project("'version'", "[tool.setuptools_scm]\n")
        .replace("['setuptools']", "['setuptools', 'setuptools-scm']");
    let poetry = "[tool.poetry]\nname = 'demo'\nversion = '1'\n[tool.poetry.dependencies]\npython = '^3.8'\na = '^1.2'\n\
                  b = {version = '*', extras = ['x'], markers = \"os_name == 'nt'\"}\nc = {version = '2', optional = true}\n\
                  e = '*'\n[tool.poetry.extras]\ny = ['C', 'e']\n[build-system]\n\
                  requires = ['poetry-core']\nbuild-backend = 'poetry.core.masonry.api'\n";
    let nowhere = poetry.replace("e = '*'", "e = {version = '*', optional = true}").replace(", 'e'", "");
    let of_git = poetry.replace("'^1.2'", "{git = 'https://h.example/a'}");
    let plugin = poetry.replace("poetry.core.masonry.api", "poetry_dynamic_versioning.backend");
    let others = [
        ("src/demo/about.py", "__version__ = '3.1'\n"),
        ("src/demo/__init__.py", "'''Demo'''\n__version__ = '3.2'\n"),
        ("requirements.txt", "a\n"),
        ("x.txt", "c\n"),
    ];
    let plain = "from setuptools import setup\nsetup()\n";
    let own = "from setuptools import setup\nsetup(version='4', install_requires=['d'])\n";
    let in_cfg = "a>=1 | b; python_version<'3' | c; extra == 'x'";
    let empty = "from setuptools import setup\nsetup(version='', install_requires=[], extras_require={})\n";
    let stated = format!("[project]\nname = 'demo'\nversion = '1'\n{setuptools}");
    let tag = "[egg_info]\ntag_build = .dev1\n";
    let twice = [("src/demo/about.py", "__version__ = '3.1'\n"), ("demo/about.py", "__version__ = '9'\n")];
    assert_eq!(declared(&[&[("pyproject.toml", attr.as_str())], &twice[..], &others[2..]].concat()).0, "?");
    let again = [("src/demo/about.py", "__version__ = '3.1'\n__version__ += 'a'\n")];
    assert_eq!(declared(&[&[("pyproject.toml", attr.as_str())], &again[..], &others[2..]].concat()).0, "?");
    let own_backend = stated.replace("build-backend", "backend-path = ['.']\nbuild-backend");
    let table: [(&[(&str, &str)], &str, &str); 22] = [
        (&[("setup.cfg", cfg), ("setup.py", empty)], "3.1", in_cfg),
        (&[("pyproject.toml", &stated), ("setup.cfg", tag)], "?", ""),
        (&[("pyproject.toml", &own_backend)], "1", "?"),
        (&[("setup.cfg", &cfg.replace("[options]", "[Options]")), ("setup.py", plain)], "?", "?"),
        (
            &[("setup.cfg", &cfg.replace("install_requires", "install-requires")), ("setup.py", plain)],
            "?",
            "?",
        ),
        (&[("setup.cfg", &format!("[DEFAULT]\nx = y\n{cfg}")), ("setup.py", plain)], "?", "?"),
        (
            &[
                ("setup.cfg", cfg),
                ("demo.egg-info/PKG-INFO", "Metadata-Version: 2.2\nName: demo\nVersion: 0\n"),
                ("setup.py", plain),
            ],
            "3.1",
            in_cfg,
        ),
        (
            &[
                ("setup.cfg", cfg),
                ("PKG-INFO", "Metadata-Version: 2.2\nName: demo\nVersion: 0\n"),
                ("setup.py", plain),
            ],
            "3.1",
            in_cfg,
        ),
        (&[("pyproject.toml", &attr)], "3.1", "a | c; extra == 'x'"),
        (&[("pyproject.toml", &in_setup), ("setup.py", own)], "4", "d"),
        (&[("setup.cfg", cfg), ("setup.py", plain)], "3.1", in_cfg),
        (&[("setup.cfg", cfg), ("pyproject.toml", setuptools)], "3.1", in_cfg),
        // What `setup` is passed comes before setup.cfg.
        (&[("setup.cfg", cfg), ("setup.py", own)], "4", "d | c; extra == 'x'"),
        (&[("setup.cfg", &referring), ("setup.py", plain)], "?", "?"),
        (&[("setup.cfg", &tagged), ("setup.py", plain)], "?", in_cfg),
        (&[("pyproject.toml", hatch)], "3.1", "a"),
        (&[("pyproject.toml", flit)], "3.2", ""),
        (&[("pyproject.toml", &scm)], "?", ""),
        (
            &[("pyproject.toml", poetry)],
            "1",
            "a>=1.2,<2 | b[x]; (os_name == 'nt') | c==2; (extra == 'y') | e; (extra == 'y')",
        ),
        (&[("pyproject.toml", &of_git)], "1", "?"),
        (&[("pyproject.toml", &nowhere)], "1", "?"),
        (&[("pyproject.toml", &plugin)], "?", ""),
    ];
    for (files, version, requires) in table {
        let all = [files, &others[..]].concat();
        assert_eq!(declared(&all), (version.to_owned(), requires.to_owned()), "{files:?}");
    }
}

#[test]
fn hostile_scripts_end_soon() {
    let start = std::time::Instant::now();
    let table = [
        "s = 'a' * 10\nfor i in open('requirements.txt'):\n    s = s + s\nsetup(version=s)".to_owned(),
        format!("x = 'aaaaaaaa'\n{}setup(version=x)", "x = x + x\n".repeat(1000)),
        format!("x = ['a']\n{}setup(install_requires=x)", "x += x\n".repeat(1000)),
        format!("x = []\n{}setup(install_requires=x)", "x = [x]\n".repeat(4_000)),
        format!("x = {{}}\n{}setup(extras_require=x)", "x = {'a': x}\n".repeat(4_000)),
        "def f(x):\n    return f(x) + f(x)\nsetup(install_requires=f(1))".to_owned(),
        format!("{}setup()", "def f():\n    f()\nf()\n".repeat(2000)),
        "r = re.search('(a{1000}){1000}{1000}', 'a').group(1)\nsetup(version=r)".to_owned(),
        format!("{}setup()", "exec(open('lib/version.py').read())\n".repeat(1000)),
        format!(
            "x = ['{}']\n{}setup(install_requires=x)",
            "a".repeat(100_000),
            "y = [z for z in x for w in x]\n".repeat(500)
        ),
    ];
    for text in table {
        let _ = evaluated(&text);
    }
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}
