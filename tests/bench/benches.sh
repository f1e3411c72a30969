#!/bin/sh
# The programs and scripts that measure, each at its smallest size: it ends with 0, and every field that its
# readers use is there and is a number that can be. That nothing is run by nobody is checked at the end.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
tests=$HRF_BIN_DIR/../tests
python=/usr/bin/python3 # with Debian's PyTorch and h5py
export HRF_SEED=1
fields() { # file of JSON objects, then field:condition ...
    "$python" - "$@" <<'END' || { cat "$scratch/out" "$scratch/err"; fail "$1: a field is missing or wrong"; }
import json, math, sys
text, lines, at = "\n" + open(sys.argv[1]).read(), [], 0
while (at := text.find("\n{", at)) >= 0:
    line, at = json.JSONDecoder().raw_decode(text, at + 1)
    lines.append(line)
assert lines, "no JSON"
for line in lines:
    for wanted in sys.argv[2:]:
        name, condition = wanted.split(":", 1)
        v = line
        for key in name.split("."):
            v = v[int(key)] if isinstance(v, list) else v[key]
        assert isinstance(v, (int, float)) and math.isfinite(v) and eval("v" + condition), f"{name} is {v}"
END
}

expect_code 0 "$tests/bench_orchestrator" --slides 20 --tasks 100 --jobs 5 --ticks 2
fields "$scratch/out" slides:==20 tasks:'>=100' jobs:==5 ticks:==2 ingest_one_stem_seconds:'>0' ingest_many_stems_seconds:'>0' \
    plan_seconds:'>0' plan_cpu_seconds:'>0' return_seconds:'>0' return_calls:==1 tick_cpu_ms_mean:'>=0' \
    tick_cpu_ms_max:'>=0' queries:'>0' queries_per_tick_max:'>=0' peak_memory_bytes:'>1e6'
make_cohort
make_workflow "$scratch/w.yaml"
expect_code 0 "$tests/bench_cohort" "$scratch/w.yaml" --out "$scratch/made"
fields "$scratch/out" slides:==4 ingest_seconds:'>=0' patches:'>0' fill_seconds:'>=0'
expect_code 0 "$tests/bench_tiler" --side 512 --runs 1
fields "$scratch/out" side:==512 mpp:==0.25 file_bytes:'>0' runs:==1 $(for i in 0 1 2 3; do
    echo "plans.$i.patches:>=0 plans.$i.tissue_fraction:>=0 plans.$i.seconds:>0 plans.$i.seconds_min:>0 plans.$i.seconds_max:>0" \
        "plans.$i.processor_seconds:>0 plans.$i.peak_memory_bytes:>1e6"
done)
expect_code 0 "$tests/bench_feed" --model "$HRF_SOURCE_DIR/models/demo.onnx" --patches 16 --size 64 --batch 4 --threads 1
fields "$scratch/out" batch:==4 both.patches_per_second:'>0' both.wait_fraction:'>=0' both.decode_seconds:'>=0' both.cores:'>0' \
    compute.patches_per_second:'>0' decoder.patches_per_second:'>0' decoding.0.of_decoder:'>0' decoding.0.tiles_decoded:'>0'
expect_code 0 "$tests/bench_resize" 64 48 32 bilinear 3
fields "$scratch/out" images_per_second:'>0'
# Waits for a driver to be idle: a second each, in place of 20.
expect_code 0 "$HRF_SOURCE_DIR/tests/slurm/scale.sh" 25 1
fields "$scratch/out" jobs:'>20' submit_seconds:'>0' idle_cpu_ms:'>=0' attach_seconds:'>0' attach_cpu_ms:'>=0' \
    attach_calls:'>0' busy_cpu_ms:'>=0' busy_queries:'>=0' peak_memory_bytes:'>1e6'

code=0
HRF_ENGINE=$engine "$HRF_SOURCE_DIR/tools/measure-layouts" --quick --precision fp32 --model resnet18 --runs 1 >"$scratch/out" 2>"$scratch/err" || code=$?
case $code in
0)
    [ "$(grep -cE '^(single|spatial=2|stages=2[^ ]*) +[0-9]+ px, batch +[0-9]+: +[0-9.]+ images/s, predicted / taken [0-9.]+$' "$scratch/out")" -ge 5 ] ||
        { cat "$scratch/out"; fail "measure-layouts: rows are missing"; }
    grep -qE 'two ranks over one: [0-9.]+$' "$scratch/out" && grep -qE 'pipeline over layer by layer: [0-9.]+$' "$scratch/out" ||
        fail "measure-layouts: no ratios"
    ;;
4) echo "skipped: measure-layouts needs two processors" ;;
*) cat "$scratch/out" "$scratch/err"; fail "measure-layouts ended with $code" ;;
esac

expect_code 0 "$HRF_SOURCE_DIR/tools/compare-builds" --turns 1 --runs 1 --size 32 --batch 1 "$HRF_BIN_DIR/.." "$HRF_BIN_DIR/.." resnet18
[ "$(grep -cE '^(resnet18 (fp32|bf16|int8)|one reader, bytes) +[0-9.e-]+ +[0-9.e-]+ +[0-9.]+$' "$scratch/out")" -eq 4 ] ||
    { cat "$scratch/out"; fail "compare-builds: rows are missing"; }

if "$python" -c 'from importlib.util import find_spec as has; exit(not (has("h5py") and has("torch") and has("torchvision")))' 2>/dev/null; then
    export OMP_NUM_THREADS=1
    expect_code 0 "$python" "$HRF_SOURCE_DIR/tools/reference/head_training.py" "$HRF_BIN_DIR" --kinds mean --slides 4 \
        --patches 8 --width 8 --epochs 2 --threads 1
    grep -qE '^mean: losses [0-9.]+ to [0-9.]+, differ by [0-9.e-]+ at most, [0-9]\.[0-9]e-(0[5-9]|1[0-9]) relatively; a slide in [0-9.]+ ms, PyTorch [0-9.]+ ms$' "$scratch/out" ||
        { cat "$scratch/out"; fail "head_training.py: other words, or losses that differ"; }
    expect_code 0 "$python" "$HRF_SOURCE_DIR/tools/reference/torch_bench.py" --engine "$engine" --model resnet18 --size 32 \
        --batch 1 --precision fp32 --rounds 1
    fields "$scratch/out" size:==32 batch:==1 threads:'>0' torch_images_per_second:'>0' torch_images_per_second_max:'>0' \
        images_per_second:'>0' images_per_second_max:'>0' ratio:'>0' ratio_of_best:'>0' \
        fraction_of_convolutions_alone:'>0' activation_bytes:'>0'
    expect_code 0 "$python" "$HRF_SOURCE_DIR/tools/reference/grad_cam.py" "$engine"
    expect_code 0 "$python" "$HRF_SOURCE_DIR/tools/reference/torch_slide_labels.py" gradients "$HRF_BIN_DIR"
    [ "$(grep -c ' of the largest gradient$' "$scratch/out")" -eq 10 ] || { cat "$scratch/out"; fail "torch_slide_labels.py: rows are missing"; }
    for what in export time; do
        expect_code 0 "$python" "$HRF_SOURCE_DIR/tools/reference/step_bench.py" $what "$scratch/steps" vit_s16 --engine "$engine" \
            --size 32 --batch 1 --rounds 1 --steps 1 --threads 1
    done
    grep -qE '^vit_s16 +fp32 32 px, batch 1: [0-9.]+ s a step, PyTorch [^ ]+ [0-9.]+ s \([0-9.]+\); processor ' "$scratch/out" ||
        { cat "$scratch/out"; fail "step_bench.py: other words"; }
else
    echo "skipped: PyTorch, torchvision or h5py is missing"
fi

# Every program and script is run by a test, here or elsewhere, or says below why it is not.
cd "$HRF_SOURCE_DIR"
for script in tools/* tools/reference/*; do
    [ -f "$script" ] || continue
    case $script in
    *.py) "$python" -c 'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], "exec")' "$script" || fail "$script does not parse" ;;
    esac
    case $script in
    tools/install-deps | tools/test) continue ;;                # what runs this
    *_goldens.py | */auc_coverage.py | */clustered_auc.py) continue ;; # made what tests compare with; SciPy, scikit-*, onnx
    */check_encoders.py | */check_zoo.py | */make_zoo.py | */make_gpu_networks.py | */odd_networks.py | */peer_bench.py | */node_tests_newest) continue ;; # timm, ONNX Runtime, the newest onnx
    */train_*.py | */torch_fine_tuning.py) continue ;;         # hours, minutes and onnx
    */torch_heads.py | */zoo_heads.py) continue ;;              # parts of others
    esac
    grep -rqF --include='*.sh' --include='*.py' -- "${script#tools/}" tests || # or by what gpu_check.sh runs
        grep -qF -- "${script##*/}" tools/gpu-check || fail "$script is run by no test"
done
for program in tests/bench/bench_*.c; do
    grep -qF -- "/$(basename "$program" .c)\"" tests/bench/benches.sh || fail "$program is run by no test"
done
echo "1 passed, 0 failed"
