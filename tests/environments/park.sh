#!/usr/bin/env bash
# Builds real environments with uv from PyPI, one after the other, and prints what `envlock verify` reports for each:
# without a lock, and with the lock that `init --from-prefix` makes. Run by hand: it downloads tens of gigabytes and
# removes each environment after it. Exits with 1 where the errors and warnings are not the expected ones.
#
#   tests/environments/park.sh              all
#   tests/environments/park.sh jax opencv   those whose name begins with a word
#
# ENVLOCK (default: envlock on PATH), UV (default: uv), PARK (a folder for environments and uv's cache).
set -u
ENVLOCK=${ENVLOCK:-envlock}
UV=${UV:-uv}
PARK=${PARK:-$(mktemp -d)}
export UV_CACHE_DIR="$PARK/cache"
wanted=("$@")
status=0

# The errors and warnings of a report, `error:code` each, without duplicates.
codes() {
    python3 -c '
import json, sys
found = json.load(open(sys.argv[1]))["findings"]
print(",".join(sorted({f["severity"] + ":" + f["code"] for f in found if f["severity"] != "info"})) or "clean")
' "$1" 2>/dev/null || echo "no answer"
}

# one NAME PYTHON EXPECTED REQUIREMENT...  (EXPECTED: one answer, or several separated by `|`)
one() {
    local name=$1 python=$2 expected=$3
    shift 3
    if [ "${#wanted[@]}" -gt 0 ]; then
        local word chosen=
        for word in "${wanted[@]}"; do [[ $name == "$word"* ]] && chosen=1; done
        [ -n "$chosen" ] || return
    fi
    cd "$PARK" && rm -rf env project && mkdir project && cd project || return
    if ! "$UV" venv -q --python "$python" ../env 2>../uv.log || ! "$UV" pip install -q --python ../env "$@" 2>>../uv.log; then
        printf '%-22s skipped: %s\n' "$name" "$(tail -1 ../uv.log)"
        return
    fi
    "$ENVLOCK" verify --prefix ../env --smoke off --json >../plain.json 2>/dev/null
    local plain locked="no lock"
    plain=$(codes ../plain.json)
    if "$ENVLOCK" init --from-prefix ../env --gpu A100 --driver 595.45.04 >../init.log 2>&1; then
        "$ENVLOCK" verify --prefix ../env --smoke off --json >../locked.json 2>/dev/null
        locked=$(codes ../locked.json)
    fi
    local verdict=as-expected
    case "|$expected|" in *"|$plain|"*) ;; *) verdict=DIFFERS; status=1 ;; esac
    printf '%-22s %-12s expected %s; without a lock %s; with its lock %s\n' "$name" "$verdict" "$expected" "$plain" "$locked"
}

one torch-2.0.1 3.10 clean torch==2.0.1 torchvision==0.15.2 torchaudio==2.0.2 'numpy<2'
one torch-2.3.1 3.11 clean torch==2.3.1 torchvision==0.18.1 torchaudio==2.3.1 'numpy<2'
one torch-2.5.1 3.12 clean torch==2.5.1 torchvision==0.20.1 torchaudio==2.5.1
one torch-2.6.0 3.12 clean torch==2.6.0 torchvision==0.21.0 torchaudio==2.6.0
one torch-newest 3.13 clean torch torchvision
# vllm 0.32 installs cuda-python 12.6 beside cuda-bindings 13.5, which record the same files: where uv writes those of
# cuda-python last, `import cuda.core` fails.
one vllm 3.12 'clean|error:file-owned-twice' vllm
# xformers 0.0.35 is built for CUDA 12, torch of today for 13: its import says that attention is not available.
one xformers 3.12 warning:missing-library xformers
one bitsandbytes 3.12 clean bitsandbytes
one flash-linear-attention 3.12 clean flash-linear-attention
one faster-whisper 3.12 clean faster-whisper torch
one onnxruntime-gpu 3.12 clean onnxruntime-gpu
one tensorflow-2.15 3.11 clean 'tensorflow[and-cuda]==2.15.1'
one tensorflow-newest 3.12 clean 'tensorflow[and-cuda]'
one jax-cuda12 3.12 clean 'jax[cuda12]'
one jax-cuda13 3.12 clean 'jax[cuda13]'
one cupy 3.12 clean cupy-cuda12x
one lightning 3.12 clean lightning mmcv-lite
one opencv 3.12 clean opencv-python opencv-python-headless
one torchcodec 3.12 clean torch torchcodec numpy
# An import of these fails or loses the GPU: found is right, clean is a miss.
one bad-torchaudio 3.12 error:known-incompatible torch==2.15.0 torchaudio==2.11.0
one bad-pkg-resources 3.12 error:known-incompatible torch==2.15.0 pytorch-lightning==1.9.5 setuptools==82.0.0

# Environments of another make: packages of the base Python, of the user, of a folder.
# made NAME SETUP  (SETUP: a function that makes ../env)
made() {
    local name=$1 word chosen=
    for word in "${wanted[@]:-}"; do [[ $name == "$word"* ]] && chosen=1; done
    [ -n "$chosen" ] || return
    cd "$PARK" && rm -rf env project home && mkdir project home && cd project || return
    if ! "$2" >../uv.log 2>&1; then
        printf '%-22s skipped: %s\n' "$name" "$(tail -1 ../uv.log)"
        return
    fi
    HOME=$PARK/home "$ENVLOCK" verify --prefix ../env --smoke off --json >../plain.json 2>/dev/null
    local plain verdict=as-expected
    plain=$(codes ../plain.json)
    [ "$plain" = clean ] || { verdict=DIFFERS; status=1; }
    printf '%-22s %-12s expected clean; without a lock %s\n' "$name" "$verdict" "$plain"
}
system_site() { "$UV" venv -q --python 3.12 --system-site-packages ../env && "$UV" pip install -q --python ../env rich; }
user_site() {
    "$UV" venv -q --python 3.12 --system-site-packages ../env &&
        "$UV" pip install -q --target "$PARK/home/.local/lib/python3.12/site-packages" markdown-it-py mdurl pygments &&
        "$UV" pip install -q --no-deps --python ../env rich
}
editable() {
    mkdir -p own/src/own && touch own/src/own/__init__.py &&
        printf '[project]\nname = "own"\nversion = "1.0"\ndependencies = ["requests"]\n[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n' >own/pyproject.toml &&
        "$UV" venv -q --python 3.12 ../env && "$UV" pip install -q --python ../env -e ./own
}
made system-site system_site
made user-site user_site
made editable editable
rm -rf "$PARK/env" "$PARK/project" "$PARK/home"
exit "$status"
