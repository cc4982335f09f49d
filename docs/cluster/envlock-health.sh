#!/bin/sh
# Slurm HealthCheckProgram: drains this node while envlock finds it unsound, and undrains it when it is sound again.
#
# - It asks about the machine alone. A lock that does not run here never drains a node.
# - It drains no node that is drained already, and undrains only what it drained: reasons that begin with "envlock:".
# - Of each partition it drains at most ENVLOCK_MAX_DRAINED percent (default 10). When several nodes decide at once,
#   those behind the limit, by name, undrain themselves.
# - A question that has no answer changes nothing.
#
# Slurm runs it as root on each node, without arguments, with SLURMD_NODENAME set.
set -u

envlock=${ENVLOCK:-/usr/local/bin/envlock}
percent=${ENVLOCK_MAX_DRAINED:-10}
node=${SLURMD_NODENAME:-$(hostname -s)}

line=$(timeout 50 "$envlock" verify --host --only machine --format line)
status=$?

# "STATE|REASON" of this node.
state_and_reason() {
    sinfo --noheader --Node --nodes="$node" --format='%T|%E' | head -n 1
}

# Whether more nodes of a partition are drained for our reasons than the limit allows, this node or an earlier one last.
is_over() {
    for partition in $(sinfo --noheader --Node --nodes="$node" --format='%R' | sort -u); do
        all=$(sinfo --noheader --Node --partition="$partition" --format='%N|%T|%E' | sort -u)
        total=$(printf '%s\n' "$all" | wc -l)
        place=$({ printf '%s\n' "$all" | grep -E '\|drain[^|]*\|envlock:' | cut -d'|' -f1; echo "$node"; } |
            sort -u | grep -n -x -F "$node" | cut -d: -f1)
        [ $((place * 100)) -le $((percent * total)) ] || return 0
    done
    return 1
}

# Whether other nodes use up the limit already.
is_full() {
    for partition in $(sinfo --noheader --Node --nodes="$node" --format='%R' | sort -u); do
        all=$(sinfo --noheader --Node --partition="$partition" --format='%N|%T|%E' | sort -u)
        total=$(printf '%s\n' "$all" | wc -l)
        ours=$(printf '%s\n' "$all" | grep -c -E '\|drain[^|]*\|envlock:')
        [ $(((ours + 1) * 100)) -le $((percent * total)) ] || return 0
    done
    return 1
}

undrain() {
    scontrol update nodename="$node" state=undrain
}

current=$(state_and_reason)
case $current in
drain*'|envlock:'*) drained=ours ;;
drain*) drained=others ;;
*) drained=no ;;
esac

case $status-$drained in
0-ours) undrain ;;
1-ours) if is_over; then undrain; fi ;;
1-no)
    if is_full; then
        logger -t envlock "$line; not drained: $percent % of a partition is the limit" 2>/dev/null
    else
        scontrol update nodename="$node" state=drain reason="$line"
        if is_over; then undrain; fi
    fi
    ;;
esac
exit 0
