# cluster_inside.sh - what the private cluster must be, seen from its login node.
set -eu
. "$HRF_SOURCE_DIR/tests/slurm/control.sh"
fail() { echo "FAILED: $*"; exit 1; }
passed=0
is() { # what, wanted, got
    [ "$2" = "$3" ] || fail "$1: '$3', not '$2'"
    passed=$((passed + 1))
}
will_be() { # what, wanted, command...: in five minutes at most, far beyond what it takes
    local what=$1 wanted=$2 tries
    shift 2
    for tries in $(seq 3000); do
        [ "$("$@")" = "$wanted" ] && passed=$((passed + 1)) && return
        sleep 0.1
    done
    fail "$what: never '$wanted'"
}

is "the login node's name" login "$(hostname)"
is "4 idle nodes" 4 "$(sinfo -h -p main -t idle -o %D)"
is "a step on every node" "n1 n2 n3 n4" "$(srun -N4 hostname | sort | xargs)"
is "addresses of their own" 4 "$(srun -N4 ip -4 -o addr show eth0 | awk '{print $4}' | sort -u | wc -l)"
is "a node sees its own processes only" 1 "$(on n1 sh -c 'pgrep -xc slurmd')"
is "boots of their own" 4 "$(srun -N4 cat /proc/sys/kernel/random/boot_id | sort -u | wc -l)"

# /tmp is a node's own, /run/shared is everyone's.
on n1 touch /tmp/mine
is "a file in /tmp of n1, seen from n2" no "$(on n2 sh -c '[ -e /tmp/mine ] && echo yes || echo no')"
on n1 touch "$TMPDIR/ours"
is "a file in TMPDIR of n1, seen from n2" yes "$(on n2 sh -c "[ -e $TMPDIR/ours ] && echo yes || echo no")"

is "fake GPUs, one for each rank" "0 1" \
    "$(srun -N1 -n2 --mem=100 --gpus-per-task=1 sh -c 'echo $CUDA_VISIBLE_DEVICES' | sort | xargs)"
is "accounting" "Slurm accounting storage is disabled" "$(sacct 2>&1 || true)"
srun --mpi=list 2>&1 | grep -q pmix || fail "no PMIx"

# A cut cable is a node that nobody reaches; mended, it comes back.
# (A fresh cable takes a moment: addresses are asked for once a second.)
answers() { timeout 1 bash -c '</dev/tcp/10.73.0.3/6818' 2>/dev/null && echo yes || echo no; }
will_be "n3 answers" yes answers
node_cut n3
is "n3 answers with its cable cut" no "$(answers)"
node_mend n3
will_be "n3 answers, mended" yes answers
# A node switched off takes its processes with it, and boots again.
on n4 setsid sh -c 'sleep 4321 & sleep 4321' >/dev/null 2>&1 &
will_be "two processes of n4" 2 pgrep -fxc 'sleep 4321'
node_off n4
is "processes of n4, switched off" 0 "$(pgrep -fxc 'sleep 4321' || true)"
node_boot n4
is "n4 after its boot" n4 "$(srun -w n4 hostname)"
slurmd_kill n2
slurmd_start n2
is "n2 after its daemon's restart" n2 "$(srun -w n2 hostname)"
controller_kill
controller_start
is "after the controller's restart" n1 "$(srun -w n1 hostname)"
munge_kill
munge_start
is "after munge's restart" n1 "$(srun -w n1 hostname)"
is "a setting of ours" 7 "$(scontrol show config | awk '$1 == "MinJobAge" {print $3}')"
echo "$passed passed, 0 failed"
