#!/bin/sh
# Slurm Prolog: refuses jobs on an unsound node. Slurm itself drains a node whose Prolog fails and requeues the job, and
# knows no limit. It asks about the machine alone, and only "no" fails.
timeout -k 5 50 "${ENVLOCK:-/usr/local/bin/envlock}" verify --host --only machine --format line
[ $? -ne 1 ]
