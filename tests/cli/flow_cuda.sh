#!/bin/sh
# A run on the emulated GPU: the same labels as on the cpu, the device in the report, and what is said
# where there is no GPU.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
emulated=$HRF_BIN_DIR/../tests/emulated-cuda
[ -e "$emulated/hrf_cuda.so" ] || { echo "the emulated GPU is not built (no C++ compiler)"; exit 77; }
make_cohort
make_workflow "$scratch/w.yaml"
sed -i 's/size: 64, mpp: 0.5/size: 64, mpp: 0.5, stride: 160/; s/min_patches: 4/min_patches: 1/' "$scratch/w.yaml"
echo 'calibrate: {samples: 16}' >>"$scratch/w.yaml"

expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/cpu"
export HRF_MODULE_DIR=$emulated
export HRF_NVML=$HRF_BIN_DIR/../tests/emulated-nvml/libnvidia-ml.so HRF_EMULATED_NVML=$scratch/nvml
printf 'energy rising\npid own bytes 123456789\n' >"$scratch/nvml"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/cuda" --set engine.device=cuda \
    --set 'precision=[tf32, int8]'
python3 - "$scratch" <<'END'
import csv, json, sys
def labels(run, precision):
    rows = csv.DictReader(open(f"{sys.argv[1]}/{run}/results/labels.csv"))
    return {r["slide"]: (r["label"], float(r["score"])) for r in rows if r["precision"] == precision and r["score"]}
cpu, gpu, low = labels("cpu", "fp32"), labels("cuda", "tf32"), labels("cuda", "int8")
assert cpu and set(cpu) == set(gpu) == set(low), (cpu, gpu, low)
for slide, (label, score) in cpu.items():
    assert gpu[slide][0] == label and abs(gpu[slide][1] - score) < 1e-4, (slide, cpu, gpu)
    assert low[slide][0] == label and abs(low[slide][1] - score) < 0.1, (slide, cpu, low)
report = json.load(open(f"{sys.argv[1]}/cuda/report/report.json"))
for p in report["precisions"]:
    assert p["device"] == "cuda" and p["hardware"] == [{
        "model": "Emulated GPU", "path": "compute capability 9.0", "driver": "580.82.07 (CUDA 13.0)",
        "libraries": "cuDNN 9.19.0, CUDA runtime 13.0"}], p["hardware"]
    t = p["timing"]
    assert t["copy"] > 0 and t["kernels"] > 0 and t["decode"] > 0 and t["compute"] > 0, t
    assert p["gpu_energy_joules_per_patch"] > 0 and p["device_memory_bytes"] == 123456789, p
p = json.load(open(f"{sys.argv[1]}/cpu/report/report.json"))["precisions"][0]
assert p["hardware"][0]["libraries"].startswith("oneDNN ") and p["hardware"][0]["driver"] is None, p
assert p["timing"]["kernels"] is None and p["timing"]["kernels_reason"], p["timing"]
assert p["gpu_energy_joules_per_patch_reason"] == "no GPU computed", p
assert p["device_memory_bytes"] is None and p["device_memory_bytes_reason"] == "no GPU computed", p
END
grep -q "Emulated GPU, compute capability 9.0, 4.0 GiB, driver for 580.82.07 (CUDA 13.0)" "$scratch"/cuda/jobs/*/log ||
    fail "no job's log says what it computed on"

# Tiles that the GPU decodes: the emulated nvJPEG has the CPU's pixels, so every score has its bits.
export HRF_NVJPEG=$emulated/libnvjpeg_emulated.so
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/nvjpeg" --set engine.device=cuda \
    --set 'precision=[tf32, int8]' --set engine.decode=gpu
for precision in tf32 int8; do
    diff -r "$scratch/cuda/results/$precision/model-outputs-csv" "$scratch/nvjpeg/results/$precision/model-outputs-csv" ||
        fail "$precision: other scores where the GPU decodes"
done
grep -qF 'CUDA runtime 13.0, nvJPEG 13.3.2 (JPEG engines)"' "$scratch/nvjpeg/report/report.json" ||
    fail "the report does not say what decoded"
HRF_EMULATED_NVJPEG=skips=0 expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/wrong" --set engine.device=cuda \
    --set 'precision=[tf32]' --set engine.decode=gpu
grep -q "has not written all of it; use engine.decode=cpu" "$scratch/wrong/report/report.json" || fail "a tile that is not there passed"
HRF_EMULATED_NVJPEG=refuses expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/either" --set engine.device=cuda \
    --set 'precision=[tf32]' --set engine.decode=auto
diff -r "$scratch/cuda/results/tf32/model-outputs-csv" "$scratch/either/results/tf32/model-outputs-csv"
grep -q "are decoded by the CPU: nvJPEG 13.3.2: nvJPEG, starting it: ARCH_MISMATCH (7)" "$scratch"/either/jobs/*/log ||
    fail "no log says who decoded"

expect_code 0 "$flow" doctor --dir "$scratch"
expect_text "Emulated GPU, compute capability 9.0"
expect_text "nvJPEG 13.3.2 (engine.decode=gpu and auto decode tiles of slides by it)"
expect_code 0 "$engine" check --quick --json
expect_text '"good":true'
export HRF_EMULATED_CUDA=no-driver
expect_code 2 "$engine" check --quick
expect_text "no NVIDIA driver is installed"
expect_code 0 "$flow" doctor --dir "$scratch"
expect_text "no NVIDIA driver is installed"
code=0
"$flow" run "$scratch/w.yaml" --out "$scratch/none" --set engine.device=cuda >"$scratch/out" 2>"$scratch/err" || code=$?
[ "$code" != 0 ] || fail "a run on a GPU that is not there succeeded"
expect_text "no NVIDIA driver is installed"
expect_text "use device cpu instead"
expect_code 2 "$flow" run "$scratch/w.yaml" --out "$scratch/x" --set 'precision=[tf32]'
expect_text "tf32 belongs to GPUs"
