#!/bin/sh
# What only a GPU can show: whether envlock's statements about a machine are what the machine does.
#
#     tests/on-gpu.sh ENVLOCK PYTHON [OUT [STEP...]]
#
# ENVLOCK is the program, PYTHON the interpreter of an environment with torch for CUDA. It needs no network and changes
# nothing. STEP: only these functions of tests/on-gpu. Prints a table of what is expected and seen, and writes it to OUT/on-gpu.json, with the logs of the failures
# that it causes. Exit 1 on a difference, 3 without a GPU.
set -eu
[ $# -ge 2 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2; }
envlock=$1 python=$2 out=${3:-.}
shift 2; [ $# -eq 0 ] || shift
exec "$python" "$(dirname "$0")/on-gpu/main.py" "$envlock" "$out" "$@"
