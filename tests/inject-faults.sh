#!/usr/bin/env bash
# Injects faults into clones of a real torch environment and says what finds them.
#
#   tests/inject-faults.sh ENVLOCK PREFIX PROJECT [OLD]
#
# PREFIX is a venv that was installed from PROJECT's lock (`envlock init --from-prefix PREFIX` makes one). Clones are made
# of hard links beside it; a file is replaced, never written into. `pip check` of the environment is asked too, where it
# has one. OLD is a venv with an older torch and torchvision, whose files stand in for those of another release.
set -eu
envlock=$(realpath "$1") prefix=$(realpath "$2") project=$(realpath "$3") older=${4:+$(realpath "$4")}
work=$(mktemp -d "$(dirname "$prefix")/faults.XXXXXX")
trap 'rm -rf "$work"' EXIT
site_of() { ls -d "$1"/lib/python3.*/site-packages; }
failed=0

# also CODE NAME: the findings of the same fault have the code too.
also() { inject() { :; }; grep -q "\"code\": \"$1\"" "$work/found.json" && printf 'found   %-20s %s\n' "$1" "$2" || { printf 'MISSED  %-20s %s\n' "$1" "$2"; failed=1; }; }

# fault CODE NAME: runs the function `inject` on a fresh clone. The first error has to have the code; where the code is a
# warning, it has to be among the findings. `variables` go into the environment of the check, `options` to the command, and
# the check runs in the folder `here`.
fault() {
    clone=$work/env
    rm -rf "$clone"; cp -al "$prefix" "$clone"
    site=$(site_of "$clone") variables= options= here=$work
    inject
    # A venv's scripts name the folder that they were installed into; only its interpreter is used.
    pip=$(env $variables "$clone/bin/python" -m pip check >/dev/null 2>&1 && echo passes || echo fails)
    (cd "$here" && env $variables "$envlock" verify --project "$project" --prefix "$clone" --smoke off $options --json || true) >"$work/found.json"
    word=$(python3 - "$1" "$work/found.json" <<'END'
import json, sys
findings = json.load(open(sys.argv[2]))["findings"]
errors = [f["code"] for f in findings if f["severity"] == "error"]
warnings = [f["code"] for f in findings if f["severity"] == "warning"]
if errors and errors[0] == sys.argv[1] or not errors and sys.argv[1] in warnings:
    print("found")
else:
    print("MISSED" if not errors else "OTHER " + errors[0] if sys.argv[1] not in errors else "LATER " + errors[0])
END
    )
    [ "$word" = found ] || failed=1
    printf '%-7s %-20s %-58s pip check %s\n' "$word" "$1" "$2" "$pip"
}

# zero FILE OFFSET BYTES: writes zeros into a copy of a file.
zero() { cp "$1" "$1.z"; dd if=/dev/zero of="$1.z" bs=1 seek="$2" count="$3" conv=notrunc status=none; mv "$1.z" "$1"; }
# section FILE NAME: the offset of a section in a file.
section() { readelf -SW "$1" | sed -n "s/.*\] *$2 *[A-Z]* *[0-9a-f]* *\([0-9a-f]*\).*/\1/p" | { read -r hex; echo $((16#$hex)); }; }

inject() { :; }
clone=$work/env; cp -al "$prefix" "$clone"
if "$envlock" verify --project "$project" --prefix "$clone" --smoke off >/dev/null; then
    echo "clean   as installed"
else
    echo "MISSED  the environment is not clean to begin with"; failed=1
fi

inject() { rm "$site/nvidia/cudnn/lib/libcudnn_cnn.so.9"; }
fault missing-file "libcudnn_cnn.so.9 deleted"
also missing-library "the same, as the loader sees it"

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
also mixed-cudnn "the same, as the loader sees it"

inject() {
    mkdir -p "$clone/conda-meta"
    printf '{"name": "pytorch", "version": "2.5.1", "build": "py3.11_cuda12.4_cudnn9.1.0_0"}\n' \
        >"$clone/conda-meta/pytorch-2.5.1-x.json"
}
fault mixed-installers "conda's pytorch under pip's torch"

inject() { stub "$site/nvidia/cudnn/lib" libcudnn_ops_infer.so.8 libcudnn_ops_infer.so.8; }
fault leftover-folder "a part of cuDNN 8 that nobody records"


inject() {
    mkdir -p "$site/solver"; printf 'from . import _core\n' >"$site/solver/__init__.py"
    printf 'int nobody_has_this(void); int f(void) { return nobody_has_this(); }\n' >"$work/s.c"
    gcc -shared -fPIC -o "$site/solver/_core.abi3.so" "$work/s.c"
    mkdir "$site/solver-1.0.dist-info"; printf 'Metadata-Version: 2.1\nName: solver\nVersion: 1.0\n' >"$site/solver-1.0.dist-info/METADATA"
    printf 'solver/__init__.py,,\nsolver/_core.abi3.so,,\nsolver-1.0.dist-info/METADATA,,\n' >"$site/solver-1.0.dist-info/RECORD"
}
fault undefined-symbol "an extension needs a symbol that nobody exports"

inject() { f=$site/torch/lib/libtorch_cuda.so; zero "$f" $(($(section "$f" .nv_fatbin) + 300000)) 262144; }
fault unreadable-gpu-code "256 kB zeroed inside the GPU code of libtorch_cuda"

inject() { zero "$site/torch/lib/libtorch_cpu.so" 100000000 262144; options=--deep; }
fault altered-file "256 kB zeroed inside libtorch_cpu, --deep"

inject() { f=$(ls "$site"/numpy/__init__.py); cp "$f" "$f.z"; printf '# x\n' >>"$f.z"; mv "$f.z" "$f"; }
fault altered-file "numpy/__init__.py altered"

inject() { here=$work/here; rm -rf "$here"; mkdir -p "$here/torch"; : >"$here/torch/__init__.py"; }
fault shadowed-package "a folder torch in the current folder"
inject() { here=$work/here; rm -rf "$here"; mkdir -p "$here"; : >"$here/torch.py"; }
fault shadowed-package "torch.py in the current folder"

inject() { mkdir -p "$work/mine/torch"; : >"$work/mine/torch/__init__.py"; printf 'import sys\nsys.path.insert(0, "%s")\n' "$work/mine" >"$site/sitecustomize.py"; }
fault startup-code "sitecustomize inserts a path before site-packages"
inject() { mkdir -p "$work/mine/torch"; : >"$work/mine/torch/__init__.py"; printf 'import sys; sys.path.insert(0, "%s")\n' "$work/mine" >"$site/a.pth"; }
fault startup-code "a .pth file inserts a path before site-packages"

inject() { f=$site/torch/serialization.py; zero "$f" 100 4096; options=--deep; }
fault altered-file "4 kB of a module zeroed, --deep"

inject() { info=$(ls -d "$site"/torch-*.dist-info); grep -v libtorch_cpu.so "$info/RECORD" >"$info/R"; mv "$info/R" "$info/RECORD"; rm "$site/torch/lib/libtorch_cpu.so"; }
fault missing-library "RECORD edited, libtorch_cpu.so gone"

inject() { rm "$(ls -d "$site"/torch-*.dist-info)/RECORD"; }
fault unreadable-record "RECORD of torch gone"

inject() { f=$site/nvidia/cudnn/lib/libcudnn_cnn.so.9; rm "$f"; ln -s gone.so "$f"; }
fault missing-file "libcudnn_cnn a dangling link"

inject() { f=$site/nvidia/cudnn/lib/libcudnn_ops.so.9; cp "$f" "$f.z"; printf '\267' | dd of="$f.z" bs=1 seek=18 conv=notrunc status=none; mv "$f.z" "$f"; }
fault unreadable-library "libcudnn_ops for aarch64"

inject() { rm -r "$site/numpy"; }
fault missing-file "the folder of numpy is gone"

inject() { mkdir -p "$work/p"; for v in 10 11 13; do printf '#!/bin/sh\n' >"$work/p/python3.$v"; chmod +x "$work/p/python3.$v"; done; other=$(ls -d "$site" | grep -q 3.13 && echo 3.11 || echo 3.13); rm "$clone/bin/python"; ln -s "$work/p/python$other" "$clone/bin/python"; }
fault wrong-python "bin/python of another series than lib/"

inject() { info=$(ls -d "$site"/nvidia_nccl_cu*.dist-info); mv "$info" "${info%-*}-2.1.0.dist-info"; sed -i.bak 's/^Version: .*/Version: 2.1.0/' "${info%-*}-2.1.0.dist-info/METADATA"; }
fault wrong-version "NCCL of another release than torch pins"

inject() { mkdir -p "$work/cuda/stubs" "$work/l"; stub "$work/cuda/stubs" libcuda.so libcuda.so.1; ln -sf "$work/cuda/stubs/libcuda.so" "$work/l/libcuda.so.1"; variables="LD_LIBRARY_PATH=$work/l"; }
fault stub-library "libcuda.so.1 a link to the toolkit's stub"

inject() { cp -r "$site"/numpy-*.dist-info "$site/numpy-1.0.dist-info"; sed -i 's/^Version: .*/Version: 1.0/' "$site/numpy-1.0.dist-info/METADATA"; }
fault duplicate-package "two dist-info folders of numpy"

inject() { f=$site/nvidia/nccl/lib/libnccl.so.2; zero "$f" 0 4096; }
fault unreadable-library "the first 4 kB of libnccl zeroed"

inject() { f=$site/nvidia/nccl/lib/libnccl.so.2; zero "$f" $(($(stat -c %s "$f") - 1024)) 1024; }
fault unreadable-library "the section headers of libnccl zeroed"

inject() { rm "$clone/bin/python"; ln -s /gone/python3 "$clone/bin/python"; }
fault missing-interpreter "the base Python is removed"

inject() { printf 'x = 1\n' >>"$site/torch/v"; cat "$site/torch/version.py" >>"$site/torch/v"; mv "$site/torch/v" "$site/torch/version.py"; }
fault altered-file "torch/version.py altered"

if [ -n "$older" ]; then
    before=$(site_of "$older")
    # padded FROM TO: another release's file, filled up to the size of this one.
    padded() { size=$(stat -c %s "$2"); cp "$1" "$2.z"; truncate -s "$size" "$2.z"; mv "$2.z" "$2"; }
    inject() { padded "$before/torch/lib/libtorch_cuda.so" "$site/torch/lib/libtorch_cuda.so"; }
    fault undefined-symbol "libtorch_cuda of an older torch, padded to size"
    inject() { cp -r --remove-destination "$before/torchvision/." "$site/torchvision/"; }
    fault altered-file "the files of an older torchvision under a new dist-info"
    inject() { cp --remove-destination "$before/torchvision/_C.so" "$site/torchvision/_C.so"; }
    fault altered-file "_C.so of an older torchvision under a new dist-info"
fi

exit $failed
