#!/bin/bash
# scale.sh [N_JOBS] - what a run of many jobs costs the login node, on the scripted Slurm: JSON.
#
#   submit_seconds         until all stand in the queue
#   tick_cpu_ms            the driver's own CPU for one scheduler query and all that follows from it
#   idle_cpu_percent       of one core, with nothing happening, sampled over 10 s
#   queries_per_tick       squeue calls over ticks; must not pass 1
#   attach_seconds         from start to the first answer taken in, on a directory with N_JOBS jobs
#   attach_calls           scheduler calls until then
#   peak_memory_bytes      of the driver
set -eu
jobs=${1:-10000}
export HRF_FAULT_ON=fake
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
printf 'Slots=2\nMaxArraySize=100001\nMaxJobCount=300000\n' >"$HRF_FAKE_SLURM/config"
# Three slides that can be read; so large that their tissue holds the wanted number of patches.
side=$(awk -v n="$jobs" 'BEGIN { print int(18.5 * sqrt(n) + 1100) }')
mkdir "$scratch/big"
"$flow" demo-data "$scratch/big/cohort" --slides 4 --size "$side" >/dev/null
cat >"$scratch/big/w.yaml" <<END
version: 1
name: scale
dataset: {layout: camelyon16, root: $scratch/big/cohort}
tiler: {patch: {size: 64, mpp: 0.25, stride: 16}, tissue: {min_patches: 4}}
model: {file: $HRF_SOURCE_DIR/models/demo.onnx}
executor: {type: slurm, patches_per_job: 1, max_jobs: 100000, slurm: {partition: main, time: "00:59:00"}}
END
now() { date +%s%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.3f", (b - a) / 1e9 }'; }
cpu_ms() { awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) * 1000 / hz }' "/proc/$driver/stat"; }
peak() { awk '$1 == "VmHWM:" { print $2 * 1024 }' "/proc/$driver/status"; }
calls() { wc -l <"$HRF_FAKE_SLURM/calls"; }
queued() { squeue -h -r -t all -o %i | wc -l; }
begin() {
    HRF_SLURM_WAIT_PERCENT=100 "$flow" run "$scratch/big/w.yaml" --out "$run" >"$scratch/driver.out" 2>"$scratch/driver.err" &
    driver=$!
}
hold
started=$(now)
begin
before=-1
while [ "$(queued)" -lt 20 ] || [ "$(queued)" != "$before" ]; do before=$(queued); sleep 3; driver_gone && tell "it ended"; done
submit=$(since "$started")
n=$(queued)
memory=$(peak)
: >"$HRF_FAKE_SLURM/calls"
c=$(cpu_ms)
sleep 20
c=$(awk -v a="$c" -v b="$(cpu_ms)" 'BEGIN { print b - a }')
ticks=$(grep -c ^squeue "$HRF_FAKE_SLURM/calls" || true)
idle=$(awk -v c="$c" 'BEGIN { printf "%.2f", c / 200 }')
crash
: >"$HRF_FAKE_SLURM/calls"
started=$(now)
begin
until says 'jobs that went on'; do sleep 0.01; driver_gone && tell "it ended"; done
attach=$(since "$started")
until grep -q ^squeue "$HRF_FAKE_SLURM/calls"; do sleep 0.01; done
attach_calls=$(calls)
sleep 2
attach_cpu=$(cpu_ms)
[ "$(peak)" -le "$memory" ] || memory=$(peak)
crash
printf '{"jobs": %s, "submit_seconds": %s, "cpu_ms_of_20_s": %s, "queries_of_20_s": %s, "idle_cpu_percent": %s, "attach_seconds": %s, "attach_calls": %s, "attach_cpu_ms": %s, "peak_memory_bytes": %s}\n' \
    "$n" "$submit" "$c" "$ticks" "$idle" "$attach" "$attach_calls" "$attach_cpu" "$memory"
