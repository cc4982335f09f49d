#!/usr/bin/env bash
# Whole commands, side by side with uv in one run. Needs hyperfine and uv on PATH, `cargo build --profile dist`, and
# for the last figure an environment installed from the lock (PREFIX).
set -euo pipefail
envlock=${ENVLOCK:-$(cd "$(dirname "$0")/.." && pwd)/target/dist/envlock}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf 'torch==2.9.1\ntorchvision\nnumpy\ntransformers\n' >req.in
set_="torch==2.9.1 torchvision numpy transformers --python 3.11"
host=(--only-index pypi --gpu "NVIDIA H200" --driver 580.159.04)
quoted="--only-index pypi --gpu 'NVIDIA H200' --driver 580.159.04"
# shellcheck disable=SC2086
"$envlock" resolve $set_ "${host[@]}" --cache-dir "$work/cache" --quiet >/dev/null
UV_CACHE_DIR=$work/uv uv pip compile -q --generate-hashes --python-version 3.11 req.in -o uv.txt

hyperfine -N --warmup 2 \
  -n "resolve --stack-only" "$envlock resolve torch --stack-only --dry-run --quiet $quoted" \
  -n "resolve --locked" "$envlock resolve --locked $set_ --only-index pypi"
hyperfine --warmup 2 \
  -n "resolve --offline, warm" "$envlock resolve --offline --upgrade --dry-run --quiet --cache-dir $work/cache $set_ $quoted" \
  -n "uv pip compile --offline, warm" "UV_CACHE_DIR=$work/uv uv pip compile -q --generate-hashes --offline --python-version 3.11 req.in -o uv.txt"
hyperfine --runs 5 --prepare "rm -rf $work/cold $work/uvcold" \
  -n "resolve, cold" "$envlock resolve --upgrade --dry-run --quiet --cache-dir $work/cold $set_ $quoted" \
  -n "uv pip compile, cold" "UV_CACHE_DIR=$work/uvcold uv pip compile -q --generate-hashes --python-version 3.11 req.in -o uv.txt"
if [ -n "${PREFIX:-}" ]; then
  hyperfine -N --warmup 2 -n "verify --smoke off" "$envlock verify --prefix $PREFIX --smoke off --quiet"
fi
