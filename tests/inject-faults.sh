#!/bin/sh
# Injects faults into clones of a real torch environment and says what finds them.
#
#   tests/inject-faults.sh ENVLOCK PREFIX PROJECT
#
# PREFIX is a venv that was installed from PROJECT's lock. Clones are made of hard links beside it; a file is
# replaced, never written into. `pip check` of the environment is asked too, where it has one.
set -eu
envlock=$(realpath "$1") prefix=$(realpath "$2") project=$(realpath "$3")
work=$(mktemp -d "$(dirname "$prefix")/faults.XXXXXX")
trap 'rm -rf "$work"' EXIT
site_of() { ls -d "$1"/lib/python3.*/site-packages; }
failed=0

# fault CODE NAME: runs the function `inject` on a fresh clone and looks for the code. `variables` go into the
# environment of the check.
fault() {
    clone=$work/env
    rm -rf "$clone"; cp -al "$prefix" "$clone"
    site=$(site_of "$clone") variables=
    inject
    # A venv's scripts name the folder that they were installed into; only its interpreter is used.
    pip=$(env $variables "$clone/bin/python" -m pip check >/dev/null 2>&1 && echo passes || echo fails)
    found=$(env $variables "$envlock" verify --project "$project" --prefix "$clone" --smoke off --json || true)
    if printf '%s' "$found" | grep -q "\"code\": \"$1\""; then word=found; else word=MISSED; failed=1; fi
    printf '%-7s %-20s %-58s pip check %s\n' "$word" "$1" "$2" "$pip"
}

inject() { :; }
clone=$work/env; cp -al "$prefix" "$clone"
if "$envlock" verify --project "$project" --prefix "$clone" --smoke off >/dev/null; then
    echo "clean   as installed"
else
    echo "MISSED  the environment is not clean to begin with"; failed=1
fi

inject() { rm "$site/nvidia/cudnn/lib/libcudnn_cnn.so.9"; }
fault missing-file "libcudnn_cnn.so.9 deleted"
fault missing-library "the same, as the loader sees it"

inject() {
    f=$site/nvidia/cudnn/lib/libcudnn_cnn.so.9
    head -c 1000 "$f" >"$f.cut"; mv "$f.cut" "$f"
}
fault altered-file "libcudnn_cnn.so.9 cut to 1 kB"

stub() { # FOLDER FILE SONAME [SOURCE]
    mkdir -p "$1"; printf '%s\n' "${4:-int x;}" >"$work/s.c"
    gcc -shared -fPIC -nostdlib -o "$1/$2" "$work/s.c" -Wl,-soname,"$3"
}
inject() {
    stub "$work/alien" libcudnn_graph.so.9 libcudnn_graph.so.9 'const unsigned cudnn_graph_version = 0x00090501;'
    variables="LD_LIBRARY_PATH=$work/alien"
}
fault shadowed-library "another cuDNN's libcudnn_graph first in LD_LIBRARY_PATH"

inject() {
    stub "$work/cuda/lib64" libnvJitLink.so.12.1.105 libnvJitLink.so.12
    ln -sf libnvJitLink.so.12.1.105 "$work/cuda/lib64/libnvJitLink.so.12"
    variables="LD_LIBRARY_PATH=$work/cuda/lib64"
}
fault shadowed-library "an older toolkit's libnvJitLink in LD_LIBRARY_PATH"

inject() { stub "$work/cuda/lib64/stubs" libcuda.so.1 libcuda.so.1; variables="LD_LIBRARY_PATH=$work/cuda/lib64/stubs"; }
fault stub-library "the toolkit's stubs in LD_LIBRARY_PATH"

inject() {
    stub "$work/other" libcudart.so.12 libcudart.so.12
    variables="LD_PRELOAD=$work/other/libcudart.so.12"
}
fault shadowed-library "another libcudart in LD_PRELOAD"

inject() { mv "$site/torch/version.py" "$site/torch/v"; sed "s/+cu[0-9]*/+cpu/" "$site/torch/v" >"$site/torch/version.py"; rm "$site/torch/v"; }
fault wrong-variant "a CPU build where a CUDA build is locked"

inject() {
    info=$(ls -d "$site"/torchvision-*.dist-info); old=$site/torchvision-0.20.1.dist-info
    mv "$info" "$old"; sed 's/^Version: .*/Version: 0.20.1/' "$old/METADATA" >"$old/M"; mv "$old/M" "$old/METADATA"
}
fault wrong-version "torchvision of another torch"

inject() { cp -r "$site"/filelock-*.dist-info "$site/filelock-3.0.dist-info"; }
fault duplicate-package "two dist-info folders of one package"

inject() { mkdir "$site/~orch"; }
fault leftover-folder "a folder that pip left behind"

inject() { mkdir -p "$work/mine/torch"; : >"$work/mine/torch/__init__.py"; variables="PYTHONPATH=$work/mine"; }
fault shadowed-package "a folder torch in PYTHONPATH"

inject() {
    mkdir -p "$site/flash"
    printf '%s\n' 'int _ZN3c103foo3barEv(void); int f(void) { return _ZN3c103foo3barEv(); }' >"$work/s.c"
    gcc -shared -fPIC -nostdlib -o "$site/flash/_C.so" "$work/s.c" -L"$site/torch/lib" -Wl,--no-as-needed -lc10 \
        -Wl,--allow-shlib-undefined
    mkdir "$site/flash-1.0.dist-info"
    printf 'Metadata-Version: 2.1\nName: flash\nVersion: 1.0\nRequires-Dist: torch\n' >"$site/flash-1.0.dist-info/METADATA"
    printf 'flash/_C.so,,\n' >"$site/flash-1.0.dist-info/RECORD"
}
fault extension-abi "an extension that was built for another torch"

inject() {
    version=$(ls -d "$site"/nvidia_cudnn_cu*.dist-info | sed 's/.*-\([0-9]*\.[0-9]*\.[0-9]*\)\..*/\1/')
    stub "$work/whole" "libcudnn_graph.so.$version" libcudnn_graph.so.9 'const unsigned cudnn_graph_version = 0x00090501;'
    variables="LD_LIBRARY_PATH=$work/whole"
}
fault shadowed-library "another cuDNN's libcudnn_graph under its whole version"

inject() {
    printf 'GLIBCXX_3.4 { global: x; };\n' >"$work/v.map"; printf 'int x;\n' >"$work/s.c"; mkdir -p "$work/cxx"
    gcc -shared -fPIC -nostdlib -o "$work/cxx/libstdc++.so.6" "$work/s.c" -Wl,-soname,libstdc++.so.6 \
        -Wl,--version-script="$work/v.map"
    variables="LD_LIBRARY_PATH=$work/cxx"
}
fault missing-symbol-version "an older libstdc++ in LD_LIBRARY_PATH"

inject() {
    # As pip leaves it: the second package's files over the first's, both recorded.
    old=$(ls -d "$site"/nvidia_cudnn_cu12-*.dist-info); new=$site/nvidia_cudnn_cu13-9.28.0.42.dist-info
    mkdir "$new"; sed 's/^Name: .*/Name: nvidia-cudnn-cu13/; s/^Version: .*/Version: 9.28.0.42/' "$old/METADATA" >"$new/METADATA"
    stub "$work/new" libcudnn_ops.so.9 libcudnn_ops.so.9 'const unsigned cudnn_ops_infer_version = 0x00091c00;'
    rm "$site/nvidia/cudnn/lib/libcudnn_ops.so.9"; cp "$work/new/libcudnn_ops.so.9" "$site/nvidia/cudnn/lib/"
    printf 'nvidia/cudnn/lib/libcudnn_ops.so.9,sha256=AA,%s\n' "$(stat -c %s "$work/new/libcudnn_ops.so.9")" >"$new/RECORD"
}
fault file-owned-twice "cuDNN for CUDA 13 installed over the one for CUDA 12"
fault mixed-cudnn "the same, as the loader sees it"

inject() {
    mkdir -p "$clone/conda-meta"
    printf '{"name": "pytorch", "version": "2.5.1", "build": "py3.11_cuda12.4_cudnn9.1.0_0"}\n' \
        >"$clone/conda-meta/pytorch-2.5.1-x.json"
}
fault mixed-installers "conda's pytorch under pip's torch"

inject() { stub "$site/nvidia/cudnn/lib" libcudnn_ops_infer.so.8 libcudnn_ops_infer.so.8; }
fault leftover-folder "a part of cuDNN 8 that nobody records"

exit $failed
