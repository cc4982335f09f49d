#!/bin/sh
# Node features for Kubernetes: which locks run on this node. Run it from a timer on each node, with the locks as
# arguments. node-feature-discovery reads the file, and jobs select `envlock.dev/lock-DIGEST: "true"`. A lock whose
# answer is not known gets no label.
set -u
folder=${NFD_FEATURES:-/etc/kubernetes/node-feature-discovery/features.d}
hidden=$folder/.envlock.new
: >"$hidden" || exit 1
for lock in "$@"; do
    digest=$(sha256sum "$lock" | cut -c 1-12)
    "${ENVLOCK:-envlock}" verify --host --lock "$lock" --format line >/dev/null 2>&1
    case $? in
    0) echo "envlock.dev/lock-$digest=true" ;;
    1) echo "envlock.dev/lock-$digest=false" ;;
    esac >>"$hidden"
done
mv "$hidden" "$folder/envlock"
