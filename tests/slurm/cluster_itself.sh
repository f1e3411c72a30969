#!/bin/bash
# The private cluster: four machines to every program, any number at one time, nothing left behind.
set -eu
here=$HRF_SOURCE_DIR/tests/slurm
fail() { echo "FAILED: $*"; exit 1; }
# How often the cluster of this name is up.
ours() { "$here/cluster" status | grep -c "'$1'" || true; }

code=0
"$here/cluster" run --set MinJobAge=7 -- bash "$here/cluster_inside.sh" || code=$?
[ "$code" = 0 ] || exit "$code"

# The exit code is the command's.
code=0
"$here/cluster" run --nodes 1 -- sh -c 'exit 9' || code=$?
[ "$code" = 9 ] || fail "a command's exit code 9 came back as $code"

# One that is not up in time is given up, with all that it has started.
code=0
HRF_CLUSTER_START_S=0.01 "$here/cluster" run -- true 2>/dev/null || code=$?
[ "$code" = 1 ] || fail "a cluster that did not start ended with $code"

# Two by hand at one time, with the same addresses and ports; each is its own.
a=self-$$-a b=self-$$-b
"$here/cluster" up "$a" --nodes 1 >/dev/null
"$here/cluster" up "$b" --nodes 2 >/dev/null
trap '"$here/cluster" down "$a" 2>/dev/null; "$here/cluster" down "$b" 2>/dev/null' EXIT
[ "$("$here/cluster" sh "$a" -- sinfo -h -p main -o %D)" = 1 ] || fail "cluster a is not a"
[ "$("$here/cluster" sh "$b" -- sinfo -h -p main -o %D)" = 2 ] || fail "cluster b is not b"
"$here/cluster" up "$a" >/dev/null 2>&1 && fail "a cluster was started twice"
[ "$("$here/cluster" sh "$b" --node n2 -- hostname)" = n2 ] || fail "no shell on a node"
"$here/cluster" down "$a"
"$here/cluster" down "$b"
[ "$(ours "$a")$(ours "$b")" = 00 ] || fail "a cluster is still there after down"

# kill -9 of the script ends the daemons, the nodes and the jobs, and no file is left.
export TMPDIR=$(mktemp -d)
mark=$((100000 + $$))
sleepers() { pgrep -fxc "[^ ]*sleep $mark" || true; }
"$here/cluster" run -- srun -N4 sleep $mark >/dev/null 2>&1 &
script=$!
trap 'kill -KILL $script 2>/dev/null || true; rm -rf "$TMPDIR"' EXIT
for tries in $(seq 1800); do [ "$(sleepers)" = 4 ] && break; sleep 0.05; done
[ "$(sleepers)" = 4 ] || fail "the job on 4 nodes did not start"
kill -KILL $script
for tries in $(seq 1800); do [ "$(sleepers)" = 0 ] && break; sleep 0.05; done
[ "$(sleepers)" = 0 ] || fail "processes outlive a killed script"
[ "$(ours "run-$script")" = 0 ] || fail "the cluster outlives a killed script"
[ -z "$(ls -A "$TMPDIR")" ] || fail "files outlive a killed script"
grep -q hrf-run /proc/mounts && fail "a mount outlives the cluster"
ip link show br0 >/dev/null 2>&1 && fail "a bridge outlives the cluster"
echo "1 passed, 0 failed"
