#!/bin/bash
# scale.sh [N_JOBS [SECONDS]] - what a run of many jobs costs the login node, on the scripted Slurm: JSON.
#
#   submit_seconds         until all stand in the queue
#   idle_cpu_ms            the driver's own CPU in SECONDS (20) with nothing happening
#   attach_seconds         from start to "jobs that went on", on a directory with all those jobs
#   attach_cpu_ms          its own CPU until then: the other figure on a busy machine
#   attach_calls           scheduler calls until its first question for the queue, that one too
#   busy_cpu_ms, busy_queries   its CPU and its questions in SECONDS, asking 12 times as often as it does
#   peak_memory_bytes      of the driver
# HRF_SOURCE_DIR, HRF_BIN_DIR: build/release by default. A tick is a quarter of a second: 80 in 20 s. Fewer
# than 3600 jobs are patches further apart.
set -eu
export LC_ALL=C # numbers with a point, whatever the locale
jobs=${1:-10000} seconds=${2:-20}
export HRF_FAULT_ON=fake
export HRF_SOURCE_DIR=${HRF_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
export HRF_BIN_DIR=${HRF_BIN_DIR:-$HRF_SOURCE_DIR/build/release/bin}
"$HRF_SOURCE_DIR/tests/slurm/cohort.sh" --if-older >/dev/null
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
printf 'Slots=2\nMaxArraySize=100001\nMaxJobCount=300000\n' >"$HRF_FAKE_SLURM/config"
# Three slides that can be read; so large that their tissue holds the wanted number of patches.
side=$(awk -v n="$jobs" 'BEGIN { s = int(18.5 * sqrt(n)); print s < 1100 ? 1100 : s }')
stride=$(awk -v n="$jobs" 'BEGIN { s = int(16 * 1100 / (18.5 * sqrt(n))); print s < 16 ? 16 : s }')
mkdir "$scratch/big"
"$flow" demo-data "$scratch/big/cohort" --slides 4 --size "$side" --difficulty 0 >/dev/null
cat >"$scratch/big/w.yaml" <<END
version: 1
name: scale
dataset: {layout: camelyon16, root: $scratch/big/cohort}
tiler: {patch: {size: 64, mpp: 0.25, stride: $stride}, tissue: {min_patches: 4}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
executor: {type: slurm, patches_per_job: 1, max_jobs: 100000, slurm: {partition: main, time: "00:59:00"}}
END
now() { date +%s%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.3f", (b - a) / 1e9 }'; }
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) * 1000 / hz }' "/proc/$driver/stat"; }
peak() { awk '$1 == "VmHWM:" { print $2 * 1024 }' "/proc/$driver/status"; }
queued() { squeue -h -r -t all -o %i | wc -l; }
begin() {
    HRF_SLURM_WAIT_PERCENT=${1:-100} "$flow" run "$scratch/big/w.yaml" --out "$run" >"$scratch/driver.out" 2>"$scratch/driver.err" &
    driver=$!
}
hold
started=$(now)
begin
all_in() { # every task is a job, and every job in the queue
    [ "$(sqlite3 "$run/run.db" "SELECT count(*) > 20 AND count(*) = (SELECT count(*) FROM attempt WHERE state > 0) FROM task WHERE NOT EXISTS (SELECT 1 FROM task WHERE kind = 0 AND state < 2)")" = 1 ]
}
until all_in 2>/dev/null; do sleep 1; driver_gone && tell "it ended"; done
submit=$(since "$started")
n=$(queued)
memory=$(peak)
: >"$HRF_FAKE_SLURM/calls"
sample() { # CPU of so many seconds
    local c
    c=$(cpu_ms)
    sleep "$seconds"
    awk -v a="$c" -v b="$(cpu_ms)" 'BEGIN { print b - a }'
}
idle=$(sample)
crash
: >"$HRF_FAKE_SLURM/calls"
started=$(now)
begin 8
until says 'jobs that went on'; do sleep 0.01; driver_gone && tell "it ended"; done
attach=$(since "$started")
attach_cpu=$(cpu_ms)
until grep -q ^squeue "$HRF_FAKE_SLURM/calls"; do sleep 0.01; done
calls=$(awk '{ n++ } /^squeue/ { print n; exit }' "$HRF_FAKE_SLURM/calls")
sleep 2
: >"$HRF_FAKE_SLURM/calls"
busy=$(sample)
queries=$(grep -c ^squeue "$HRF_FAKE_SLURM/calls" || true)
[ "$(peak)" -le "$memory" ] || memory=$(peak)
crash
printf '{"jobs": %s, "submit_seconds": %s, "idle_cpu_ms": %s, "attach_seconds": %s, "attach_cpu_ms": %s, "attach_calls": %s, "busy_cpu_ms": %s, "busy_queries": %s, "peak_memory_bytes": %s}\n' \
    "$n" "$submit" "$idle" "$attach" "$attach_cpu" "$calls" "$busy" "$queries" "$memory"
