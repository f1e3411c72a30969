# lib.sh - what the rows of the fault table share. A row starts a run, waits for its jobs to be held
# by the gate, does its harm, opens the gate, and ends with `finish`: the same final bytes as the
# clean local run, and each task's result recorded exactly once.
#
# The gate: jobs run hires-engine through a script that counts its starts in $gate/starts, does
# what $gate/do says (a piece of shell; $1 $2 are the engine's words, $job the job), and waits while
# $gate/hold is there.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
here=$HRF_SOURCE_DIR/tests/slurm
cohort=$HRF_BIN_DIR/../tests/slurm_cohort
[ -d "$cohort/clean" ] || fail "no cohort: tests/slurm/cohort.sh makes it"
[ ! -e /run/cluster/munge.key ] || . "$here/control.sh"
run=$scratch/run
gate=$scratch/gate
mkdir -p "$gate/starts"
driver=
# Waits of the executor in a fifth of their time (a twentieth for the scripted Slurm, which answers
# in milliseconds); jobs tell of themselves every half second.
export HRF_SLURM_WAIT_PERCENT=20 HRF_BEAT_MS=500
export HRF_ENGINE=$scratch/engine
printf '#!/bin/bash\ngate=%q engine=%q\n' "$gate" "$engine" >"$HRF_ENGINE" # jobs get little environment
cat >>"$HRF_ENGINE" <<'END'
[ "$1" = infer ] || [ "$1" = observe ] || [ "$1" = train-networks ] || exec "$engine" "$@"
job=$(basename "$(dirname "$2")")
: >"$gate/starts/$job.${SLURMD_NODENAME:-here}.${SLURM_PROCID:-0}.$$"
[ ! -e "$gate/do" ] || . "$gate/do"
while [ -e "$gate/hold" ]; do sleep 0.05; done
exec "$engine" "$@"
END
chmod +x "$HRF_ENGINE"
case ${HRF_FAULT_ON:-cluster} in
cluster) executor=slurm ;;
local) executor=local ;;
fake)
    executor=slurm
    HRF_SLURM_WAIT_PERCENT=5
    export HRF_FAKE_SLURM=$scratch/fake PATH=$HRF_BIN_DIR/../tests/slurm_fake:$PATH
    mkdir "$HRF_FAKE_SLURM"
    printf 'RequeueDelay=0.2\nKillWait=2\n' >"$HRF_FAKE_SLURM/config"
    ;;
esac

crash() { # the driver, as a power cut would
    kill -KILL "$driver"
    wait "$driver" 2>/dev/null || true
    driver=
}
tell() { # what went wrong: with all that helps to see why
    set +e
    echo "--- driver"; tail -n 15 "$scratch/driver.err" 2>/dev/null
    echo "--- queue"; squeue -h -r -t all -o '%i|%T|%r|%N|%j' 2>/dev/null | tail -n 20
    echo "--- jobs"; ls -d "$run"/jobs/*.a* 2>/dev/null; ls "$gate/starts"
    echo "--- attempts"; sqlite3 "$run/run.db" "SELECT * FROM attempt" 2>/dev/null | tail -n 20
    echo "--- events"; sqlite3 "$run/run.db" "SELECT * FROM event" 2>/dev/null | tail -n 20
    echo "--- files"; find "$run"/jobs/*.a* -type f -printf '%P %s\n' 2>/dev/null | tail -n 60
    tail -n 3 "$run"/jobs/*/log "$run"/jobs/array*/*.out 2>/dev/null | tail -n 30
    echo "FAILED: $*"
    [ -z "$driver" ] || kill -KILL "$driver" 2>/dev/null
    exit 1
}
fail() { tell "$@"; } # also of what tests/cli/lib.sh expects: the driver ends with the row
# Polls a condition, for at most five minutes: far beyond what it takes, but not for ever.
until_true() { # what, command...
    local what=$1 tries
    shift
    for tries in $(seq 3000); do
        "$@" >/dev/null 2>&1 && return
        [ -z "$driver" ] || [ -d "/proc/$driver" ] || [ "$what" = "the run's end" ] ||
            tell "the run ended before: $what"
        sleep 0.1
    done
    tell "never: $what"
}
hold() { : >"$gate/hold"; }
release() { rm -f "$gate/hold"; }
start() { # more words for the run
    local preload=() # a job gets it from the workflow alone
    [ -z "${LD_PRELOAD-}" ] || [ $executor = local ] || preload=(--set "executor.slurm.prologue=[\"export LD_PRELOAD=$LD_PRELOAD\"]")
    "$flow" run "$cohort/w.yaml" --out "$run" --executor "$executor" "${preload[@]}" "$@" \
        >"$scratch/driver.out" 2>"$scratch/driver.err" &
    driver=$!
}
n_starts() { [ "$(ls "$gate/starts" | wc -l)" -ge "$1" ]; }
held() { until_true "$1 held jobs" n_starts "$1"; } # number of starts so far
a_start() { ls -tr "$gate/starts" | head -n "${1:-1}" | tail -n 1; } # the K-th: JOB.aK.NODE.RANK.PID
node_of() { a_start "${1:-1}" | cut -d. -f3; }
job_of() { a_start "${1:-1}" | cut -d. -f1,2; }
# Slurm's number of the array element of that job, by its own record.
queue_has() { squeue -h -r -t all -o '%T %r %N' | grep -qE "$1"; }
was_requeued() { scontrol -o show job "$1" | grep -q 'Restarts=[1-9]'; } # unlike its state, that lasts
says() { grep -qE "$1" "$scratch/driver.err" "$scratch/driver.out"; }
told() { sqlite3 "$run/run.db" "SELECT text FROM event" | grep -qE "$1"; }
driver_gone() { [ ! -d "/proc/$driver" ] || grep -q '^State:.Z' "/proc/$driver/status"; }
until_end() { # $code is the driver's exit code
    code=0
    until_true "the run's end" driver_gone
    wait "$driver" || code=$?
    driver=
}
ended() { # wanted exit code
    until_end
    [ "$code" = "$1" ] || tell "the run ended with $code, not $1"
}
same() {
    diff -r "$cohort/clean/results" "$run/results" >"$scratch/diff" 2>&1 || {
        head -n 5 "$scratch/diff"
        tell "other bytes than the clean run"
    }
    once
}
once() { # other_jobs is set where the row cuts the work another way
    local recorded wanted twice
    recorded=$(sqlite3 "$run/run.db" "SELECT count(*) FROM event WHERE subject='task'")
    wanted=$(sqlite3 "$cohort/clean/run.db" "SELECT count(DISTINCT text) FROM event WHERE subject='task'")
    twice=$(sqlite3 "$run/run.db" "SELECT count(*) - count(DISTINCT text) FROM event WHERE subject='task'")
    [ "$recorded" = "$wanted" ] || [ -n "${other_jobs-}" ] || tell "$recorded results were recorded, not $wanted"
    [ "$twice" = 0 ] || tell "$twice results were recorded twice"
}
finish() {
    release
    ended 3 # one slide of the cohort is broken
    same
}
anew() { # what still ends there finds its folder elsewhere
    [ ! -e "$run" ] || mv "$run" "$(mktemp -d -p "$scratch" former.XXXXXX)"
    rm -rf "${gate:?}"/starts/*
}
again() { # another driver on the same directory, to its end
    start "$@"
    finish
}
# No job of the run was started twice by the engine's own count.
started_once() { # other_jobs is set where the row cuts the work another way
    local twice
    twice=$(ls "$gate/starts" | cut -d. -f1,4 | sort | uniq -d)
    [ -z "$twice" ] || tell "started twice: $twice"
}
# Puts a shell around one of Slurm's commands: $n is the call's number, real "$@" the command.
wrap() { # command, what to do
    mkdir -p "$scratch/bin"
    cat >"$scratch/bin/$1" <<END
#!/bin/bash
[ ! -e /run/cluster/munge.key ] || . "$here/control.sh"
real() { "$(command -v "$1")" "\$@"; }
n=\$((\$(cat "$scratch/$1.calls" 2>/dev/null || echo 0) + 1))
echo \$n >"$scratch/$1.calls"
$2
END
    chmod +x "$scratch/bin/$1"
    PATH=$scratch/bin:$PATH
}
# One job of all (one rank of it) does `what` on its first start, the others go on.
one_does() { printf 'mkdir %s/one 2>/dev/null && {\n%s\n}\n' "$gate" "$1" >"$gate/do"; }
# The same, later: to the engine itself, somewhere in its first second.
one_gets() { one_does "(sleep 0.\$((RANDOM % 9))5; kill -$1 \$\$) >/dev/null 2>&1 &"; }
# The run directory on a disk of its own (ext4 on a file), the same for all machines: $disk.
disk() { # size, words for mkfs
    local size=$1
    shift
    mkdir -p "$run"
    truncate -s "$size" "$scratch/disk"
    mkfs.ext4 -q -F -m 0 -O ^has_journal "$@" "$scratch/disk" && mount_disk || { echo "no disks of files here"; exit 77; }
    trap 'each_machine umount -l "$run" 2>/dev/null; rm -rf "$scratch"' EXIT
}
mount_disk() {
    mount -o loop,errors=remount-ro "$scratch/disk" "$run" 2>/dev/null || return
    disk=$(findmnt -no SOURCE "$run")
    other_machines mount -o errors=remount-ro "$disk" "$run"
}
other_machines() {
    local node
    [ "$executor$HRF_FAULT_ON" = slurmcluster ] || return 0
    for node in n1 n2 n3 n4; do on $node "$@" || return; done
}
each_machine() { "$@" && other_machines "$@"; }
disk_fails() { echo 1 >"/sys/fs/ext4/${disk#/dev/}/trigger_fs_error"; } # what the kernel does then is real
disk_mended() { # as somebody would: unmounted everywhere, and mounted again
    until_true "nobody who uses the disk" each_machine sh -c "! mountpoint -q '$run' || umount '$run'"
    until_true "the disk" mount_disk
}
# The preloaded library of trouble.c, for processes called as $1: NAME=VALUE...
trouble() {
    local library=$HRF_BIN_DIR/../tests/hrf_trouble.so setting
    [ -e "$library" ] || fail "no $library"
    ! nm -D "$HRF_BIN_DIR/hires-flow" | grep -q __asan_init || { echo "not under sanitizers"; exit 77; }
    # LD_PRELOAD is cut at spaces and colons, which the folder of the build may have in its name.
    case $scratch in *[[:space:]:]*) echo "LD_PRELOAD takes no path like '$scratch'"; exit 77 ;; esac
    [ -e "$scratch/hrf_trouble.so" ] || cp "$library" "$scratch/" # it may be in use already
    export HRF_TROUBLE_FOR=$1 HRF_TROUBLE_PATH=$run LD_PRELOAD=$scratch/hrf_trouble.so
    shift
    for setting; do export "HRF_TROUBLE_$setting"; done
}
untrouble() { unset LD_PRELOAD HRF_TROUBLE_FOR; }
ranks="--set executor.slurm.nodes=2 --set executor.slurm.ranks_per_node=2 --set executor.slurm.mem_per_node=1600M"
attempts() { sqlite3 "$run/run.db" "SELECT count(*) FROM attempt WHERE job_id LIKE 'infer%'" ; }
