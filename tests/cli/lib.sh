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

# The folder of real patches as $patches; where there is none, the word that has make_mosaic draw some.
any_patches() {
    patches=$HRF_SHARED_DATA/camelyon16-patches
    [ -d "$patches" ] || { echo "skipped: real patches, for there is no $patches; made-up ones instead"; patches=synthetic; }
}
need_data() { # name of HRF_SHARED_DATA: what comes after it needs that
    [ -e "$HRF_SHARED_DATA/$1" ] || { echo "skipped: there is no $HRF_SHARED_DATA/$1 (CONTRIBUTING.md, Real data)"; exit 77; }
}

# Three small slides that can be read and one that is cut short.
make_cohort() { "$flow" demo-data "$scratch/cohort" --slides 4 --size 1300 --difficulty 0 >/dev/null 2>&1; }
# A slide that ends the process which reads its pixels: a tile of 2^40 pixels, for which GLib has no
# memory. It can be opened.
make_deadly_slide() { # file
    python3 - "$1" <<'END'
import struct, sys
side = 1 << 20
tags = [(256, 4, side), (257, 4, side), (258, 3, 8), (259, 3, 1), (262, 3, 2), (277, 3, 3), (284, 3, 1),
        (322, 4, side), (323, 4, side), (324, 4, 8), (325, 4, 64)]
with open(sys.argv[1], "wb") as f:
    f.write(b"II*\0" + struct.pack("<I", 72) + b"\x55" * 64 + struct.pack("<H", len(tags)) +
            b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags) + b"\0" * 4)
END
}
# golden/classifier.onnx: a residual net of 128 px patches as PyTorch exports one, norms folded, of open sizes and with
# Softmax at its end; it knows the cohort above.
make_workflow() { # file
    cat >"$1" <<END
version: 1
name: test
dataset: {layout: camelyon16, root: $scratch/cohort}
tiler: {patch: {size: 64, mpp: 0.5}, tissue: {min_patches: 4}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
executor: {patches_per_job: 20, max_jobs: 2}
engine: {batch: 8}
END
}
