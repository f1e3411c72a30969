# lib.sh - what the command-line tests share: a scratch folder, a tiny cohort, a tiny model.
set -eu
flow=$HRF_BIN_DIR/hires-flow
engine=$HRF_BIN_DIR/hires-engine
scratch=$(mktemp -d)
# A job that is only just ending may still write: that is no failure of the test.
trap 'rm -rf "$scratch" 2>/dev/null || { sleep 1; rm -rf "$scratch" || true; }' EXIT
export HRF_RETRY_MS=20 XDG_CACHE_HOME=$scratch/cache

fail() { head -20 "$scratch/out" 2>/dev/null || true; echo "FAILED: $*"; exit 1; }
expect_code() { # wanted, command...
    wanted=$1
    shift
    code=0
    "$@" >"$scratch/out" 2>"$scratch/err" || code=$?
    [ "$code" = "$wanted" ] || { cat "$scratch/out" "$scratch/err"; fail "exit $code, not $wanted: $*"; }
}
expect_text() { grep -qF -- "$1" "$scratch/out" "$scratch/err" || { cat "$scratch/out" "$scratch/err"; fail "no '$1'"; }; }

# Three small slides that can be read and one that is cut short.
make_cohort() { "$flow" demo-data "$scratch/cohort" --slides 4 --size 1300 --difficulty 0 >/dev/null 2>&1; }
make_workflow() { # file
    cat >"$1" <<END
version: 1
name: test
dataset: {layout: camelyon16, root: $scratch/cohort}
tiler: {patch: {size: 64, mpp: 0.5}, tissue: {min_patches: 4}}
model: {file: $HRF_SOURCE_DIR/models/demo.onnx}
executor: {patches_per_job: 20, max_jobs: 2}
engine: {batch: 8}
END
}
