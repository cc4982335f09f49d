#!/usr/bin/env bash
# `envlock image` on an OCI layout with a large image, against unpacking and hashing its layers once, in the same run.
# usage: ENVLOCK=target/dist/envlock bash benches/image.sh LAYOUT [RUNS]
set -euo pipefail
layout=$1
runs=${2:-3}
envlock=${ENVLOCK:-target/dist/envlock}
largest=$(find "$layout/blobs/sha256" -type f -printf '%s %p\n' | sort -rn | sed -n '1s/^[0-9]* //p')
case $(head -c 2 "$largest" | od -An -tx1 | tr -d ' ') in
    1f8b) unpack=(gzip -dc) ;;
    28b5) unpack=(zstd -q -dc) ;;
    *) unpack=(cat) ;;
esac
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
timed() { /usr/bin/time -f '%e %M' -o "$times" -a "$@" >/dev/null; }
cat "$largest" >/dev/null
own=$(mktemp) other=$(mktemp)
trap 'rm -f "$own" "$other"' EXIT
for _ in $(seq "$runs"); do
    times=$own timed "$envlock" image "$layout" -q
    times=$other timed sh -c '"$@" | sha256sum' sh "${unpack[@]}" "$largest"
done
echo "layer $(stat -c %s "$largest") bytes, packed with ${unpack[0]}; medians of $runs runs"
echo "envlock image            $(cut -d' ' -f1 "$own" | median) s, $(cut -d' ' -f2 "$own" | median) KiB"
echo "${unpack[*]} | sha256sum  $(cut -d' ' -f1 "$other" | median) s"
