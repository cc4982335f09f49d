#!/bin/sh
# Slurm HealthCheckProgram: drains this node while envlock finds it unsound, and undrains it when it is sound again.
#
# - It asks about the machine alone. A lock that does not run here never drains a node.
# - It drains only a node that works (idle, mixed, allocated, completing) and has no reason, and undrains only what it
#   drained: reasons that begin with "envlock:". Nodes that are down, failing or out for another reason are left alone.
# - Of each partition it drains at most $percent percent. When several nodes decide at once, those behind the limit, by
#   name, undrain themselves.
# - A question that has no answer changes nothing: neither envlock's nor Slurm's.
#
# Slurm runs it as root on each node, without arguments and with SLURMD_NODENAME alone: settings stand here.
set -u

envlock=${ENVLOCK:-/usr/local/bin/envlock}
percent=${ENVLOCK_MAX_DRAINED:-10}
# Where sinfo and scontrol are, and the configuration if it is not in its usual place.
PATH=${ENVLOCK_PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
# SLURM_CONF=/opt/slurm/etc/slurm.conf; export SLURM_CONF

node=${SLURMD_NODENAME:-$(hostname -s)}
percent=${percent%\%}
case $percent in
'' | *[!0-9]*) echo "envlock-health: the limit is not a number of percent" >&2 && exit 0 ;;
esac

line=$(timeout -k 5 50 "$envlock" verify --host --only machine --format line)
status=$?
[ $status -eq 0 ] || [ $status -eq 1 ] || exit 0

# "STATE|REASON" of this node, without the signs that Slurm appends to a state.
current=$(sinfo --noheader --Node --nodes="$node" --format='%T|%E' | head -n 1 | sed 's/^\([a-z]*\)[^a-z|]*|/\1|/') || exit 0
case $current in
drained'|envlock:'* | draining'|envlock:'*) drained=ours ;;
idle'|none' | mixed'|none' | allocated'|none' | completing'|none') drained=no ;;
*) exit 0 ;;
esac

partitions=$(sinfo --noheader --Node --nodes="$node" --format='%R' | sort -u) || exit 0
[ -n "$partitions" ] || exit 0

# Whether a partition has more nodes out for our reasons than the limit allows. $1: `this`, to count this node and those
# before it by name; `one more`, to count all of them and one more.
is_beyond() {
    for partition in $partitions; do
        all=$(sinfo --noheader --Node --partition="$partition" --format='%N|%T|%E' | sort -u)
        [ -n "$all" ] || return 0
        total=$(printf '%s\n' "$all" | wc -l)
        ours=$(printf '%s\n' "$all" | grep -E '\|drain[^|]*\|envlock:' | cut -d'|' -f1)
        case $1 in
        this) count=$({ printf '%s\n' "$ours"; echo "$node"; } | grep . | sort -u | grep -n -x -F "$node" | cut -d: -f1) ;;
        *) count=$(($(printf '%s\n' "$ours" | grep -c .) + 1)) ;;
        esac
        [ $((count * 100)) -le $((percent * total)) ] || return 0
    done
    return 1
}

undrain() {
    scontrol update nodename="$node" state=undrain
}

case $status-$drained in
0-ours) undrain ;;
1-ours) if is_beyond this; then undrain; fi ;;
1-no)
    if is_beyond 'one more'; then
        logger -t envlock "$line; not drained: $percent % of a partition is the limit" 2>/dev/null
    else
        scontrol update nodename="$node" state=drain reason="$line"
        if is_beyond this; then undrain; fi
    fi
    ;;
esac
exit 0
