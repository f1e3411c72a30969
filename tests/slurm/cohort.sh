#!/bin/sh
# What every row of the fault table compares with: a cohort, its workflow, and a local run of it.
# --if-older: only if the one that is there was not made by these very programs.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
to=$HRF_BIN_DIR/../tests/slurm_cohort
exec 9>"$to.lock" && flock 9 # two who call `faults` after a build
build=$(sha256sum "$flow" "$engine" "$0" | sha256sum)
[ "${1-}" != --if-older ] || [ "$(cat "$to/build" 2>/dev/null)" != "$build" ] || exit 0
rm -rf "$to"
mkdir -p "$to"
"$flow" demo-data "$to/cohort" --slides 4 --size 1300 --difficulty 0 >/dev/null 2>&1
cat >"$to/w.yaml" <<END
version: 1
name: faults
dataset: {layout: camelyon16, root: $to/cohort}
tiler: {patch: {size: 64, mpp: 0.5}, tissue: {min_patches: 4}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
executor: {patches_per_job: 30, max_jobs: 4, slurm: {partition: main, time: "00:05:00", mem_per_node: 800M}}
engine: {batch: 8}
END
expect_code 3 "$flow" run "$to/w.yaml" --out "$to/clean"
echo "$(sqlite3 "$to/clean/run.db" "SELECT count(*) FROM event WHERE subject='task'") tasks"
echo "$build" >"$to/build"
