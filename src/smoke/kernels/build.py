#!/usr/bin/env python3
"""Builds kernels.toml: one small kernel as machine code and as PTX, by the ptxas of many CUDA releases.

    python3 src/smoke/kernels/build.py DIR

DIR receives ptxas out of the wheels on PyPI (nvidia-cuda-nvcc and nvidia-cuda-nvcc-cu11, -cu12), 1 GB. What a ptxas
compiles for, and which version of PTX it accepts, is asked of it, not listed here. The output is the same on every
run: nothing of the kernels depends on the time or on DIR.
"""

import base64
import pathlib
import re
import subprocess
import sys
import zipfile
import zlib

HERE = pathlib.Path(__file__).parent

# One release of each minor version; of a major version, the first and the last also compile machine code.
TOOLKITS = [
    ("nvidia-cuda-nvcc-cu11", "11.7.99"),
    ("nvidia-cuda-nvcc-cu11", "11.8.89"),
    ("nvidia-cuda-nvcc-cu12", "12.0.140"),
    ("nvidia-cuda-nvcc-cu12", "12.1.105"),
    ("nvidia-cuda-nvcc-cu12", "12.2.140"),
    ("nvidia-cuda-nvcc-cu12", "12.3.107"),
    ("nvidia-cuda-nvcc-cu12", "12.4.131"),
    ("nvidia-cuda-nvcc-cu12", "12.5.82"),
    ("nvidia-cuda-nvcc-cu12", "12.6.85"),
    ("nvidia-cuda-nvcc-cu12", "12.8.93"),
    ("nvidia-cuda-nvcc-cu12", "12.9.86"),
    ("nvidia-cuda-nvcc", "13.0.88"),
    ("nvidia-cuda-nvcc", "13.1.115"),
    ("nvidia-cuda-nvcc", "13.2.86"),
    ("nvidia-cuda-nvcc", "13.3.73"),
    ("nvidia-cuda-nvcc", "13.4.92"),
    ("nvidia-cuda-nvcc", "13.5.37"),
]

# Thread i writes 3 * i + 7 to element i.
KERNEL = """\
.version {version}
.target {target}
.address_size 64
.visible .entry answer(.param .u64 out)
{{
.reg .b64 %a;
.reg .b64 %o;
.reg .b32 %i;
.reg .b32 %v;
ld.param.u64 %a, [out];
cvta.to.global.u64 %a, %a;
mov.u32 %i, %tid.x;
mul.wide.u32 %o, %i, 4;
add.s64 %a, %a, %o;
mad.lo.s32 %v, %i, 3, 7;
st.global.u32 [%a], %v;
ret;
}}
"""


def series(version):
    """`13.0.88` as `13.0`."""
    return ".".join(version.split(".")[:2])


def ptxas_of(folder, package, version):
    """The path of a release's ptxas, fetched once."""
    program = folder / f"{package}-{version}"
    if not program.exists():
        wheels = folder / "wheels"
        command = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--platform", "manylinux2014_x86_64",
                   "--platform", "manylinux_2_17_x86_64", "--platform", "manylinux1_x86_64",
                   "--platform", "manylinux2010_x86_64", "--platform", "manylinux_2_12_x86_64",
                   "--python-version", "3.12", "--dest", wheels, f"{package}=={version}"]
        subprocess.run([sys.executable, "-m", "pip", *command], check=True)
        (wheel,) = wheels.glob(f"{package.replace('-', '_')}-{version}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            (member,) = [name for name in archive.namelist() if name.endswith("/bin/ptxas")]
            program.write_bytes(archive.read(member))
        program.chmod(0o755)
        wheel.unlink()
    return program


def accepts(ptxas, folder, version, target, out=None):
    """Whether ptxas takes PTX of a version for a target; the machine code goes to `out`."""
    source = folder / "answer.ptx"
    source.write_text(KERNEL.format(version=version, target=target))
    result = subprocess.run([ptxas, "--gpu-name", target, "answer.ptx", "-o", out or "/dev/null"], cwd=folder,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return result.returncode == 0


def targets_of(ptxas):
    """The targets that ptxas compiles machine code for, by its own help, oldest first."""
    text = subprocess.run([ptxas, "--help"], check=True, capture_output=True, text=True).stdout
    names = set(re.findall(r"'(sm_\d+[af]?)'", text))
    return sorted(names, key=lambda name: (int(re.sub(r"\D", "", name)), name))


def ptx_version(ptxas, folder, target):
    """The newest version of PTX that ptxas accepts."""
    versions = [f"{major}.{minor}" for major in range(6, 12) for minor in range(0, 10)]
    return [version for version in versions if accepts(ptxas, folder, version, target)][-1]


def capability(target):
    """`sm_103f` as `10.3f`."""
    number, suffix = re.fullmatch(r"sm_(\d+)([af]?)", target).groups()
    return f"{number[:-1]}.{number[-1]}{suffix}"


def row(form, target, cuda, code):
    """A row of the table. Codes are compressed, so that the program stays small."""
    text = base64.b64encode(zlib.compress(code, 9)).decode()
    lines = "\n".join(text[i:i + 110] for i in range(0, len(text), 110))
    return f'[[kernel]]\nform = "{form}"\ntarget = "{capability(target)}"\ncuda = "{cuda}"\ncode = """\n{lines}"""\n'


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    (folder / "wheels").mkdir(parents=True, exist_ok=True)
    tools = [(series(version), ptxas_of(folder, package, version)) for package, version in TOOLKITS]
    majors = {}
    for cuda, _ in tools:
        majors.setdefault(cuda.split(".")[0], []).append(cuda)
    ends = {cuda for of_major in majors.values() for cuda in (of_major[0], of_major[-1])}
    rows, oldest_ptx, versions = [], {}, {}
    for cuda, ptxas in tools:
        targets = targets_of(ptxas)
        # The version of PTX decides which driver takes it: a row for the first release of each, for a target that all of
        # these releases know.
        version = ptx_version(ptxas, folder, "sm_75")
        if version not in versions:
            rows.append(row("ptx", "sm_75", cuda, KERNEL.format(version=version, target="sm_75").encode() + b"\0"))
        versions.setdefault(version, cuda)
        for target in targets:
            if cuda in ends:
                assert accepts(ptxas, folder, version, target, "answer.cubin"), (cuda, target)
                rows.append(row("sass", target, cuda, (folder / "answer.cubin").read_bytes()))
            if target != "sm_75" and target not in oldest_ptx and accepts(ptxas, folder, version, target):
                oldest_ptx[target] = cuda
                rows.append(row("ptx", target, versions[version], KERNEL.format(version=version, target=target).encode() + b"\0"))
    head = "# Written by build.py, which says what this is.\n\n"
    (HERE / "kernels.toml").write_text(head + "\n".join(rows))
    print(f"{len(rows)} kernels")


main()
