#!/bin/sh
# The real module on a machine without a GPU: what it says without a driver and with the toolkit's stub;
# plans that are made there.
#   start.sh STUB-FOLDER
set -eu
engine=$HRF_BIN_DIR/hires-engine
[ -e /dev/nvidiactl ] && { echo "this machine has a driver"; exit 77; }
[ -e "$HRF_BIN_DIR/../lib/hires-flow/hrf_cuda.so" ] || { echo "the module is not built"; exit 1; }
other=$(mktemp -d)
trap 'rm -rf "$other"' EXIT
expect() { # words, output
    case $2 in *"$1"*) ;; *) echo "no '$1' in: $2"; exit 1 ;; esac
}
expect "cuda: missing: no NVIDIA driver is installed on this machine (libcuda.so.1 is not found)" "$("$engine" version)"
expect "is the toolkit's stub, not a driver" "$(LD_LIBRARY_PATH=$1 "$engine" version)"
bench() { "$engine" bench --model resnet18 --size 32 --batch 1 --runs 1 "$@"; }
code=0
said=$(bench --device cuda 2>&1) || code=$?
[ "$code" = 2 ] || { echo "exit $code, not 2: $said"; exit 1; }
expect "use device cpu instead" "$said"
expect '"device": "cpu"' "$(bench --device auto --json | sed 's/":"/": "/g')"
# cuDNN keeps its handles of cuBLAS until the process ends.
printf 'leak:libcudnn\nleak:libcublas\n' >"$other/leaks"
export LSAN_OPTIONS="suppressions=$other/leaks:print_suppressions=0"
# Plans for a GPU that is only described. Those of fp32 are not compiled, which takes seconds.
plans() { "$HRF_BIN_DIR/hires-cuda-plans" make --network unet:2,4:fp32:16:1 --out "$other/set" --read-back "$@"; }
said=$(plans --device "$HRF_SOURCE_DIR/engine/cuda_plans/h200.json" 2>&1)
expect "7 more convolutions" "$said"
expect "plans of 7 convolutions read back" "$said"
code=0
said=$(plans --network nosuch --device "$HRF_SOURCE_DIR/engine/cuda_plans/h200.json" 2>&1) || code=$?
[ "$code" = 2 ] || { echo "exit $code, not 2: $said"; exit 1; }
expect "'nosuch' is no network" "$said"
# The same set again is not made but found, another one is not that.
plan_set() { XDG_CACHE_HOME=$other/cache "$HRF_SOURCE_DIR/tools/gpu-plans" "$HRF_BIN_DIR/.." "$@" 2>/dev/null; }
expect ": made, and kept as" "$(plan_set "$other/one" --network unet:2,4:fp32:16:1)"
expect ", which was made from the same" "$(plan_set "$other/two" --network unet:2,4:fp32:16:1)"
diff -r "$other/one" "$other/two"
expect ": made, and kept as" "$(plan_set "$other/three" --network unet:2,4:fp32:32:1)"
# A module whose libraries are missing is told as such.
said=$(HRF_MODULE_DIR=$other/none bench --device cuda 2>&1) || true
expect "this installation has no cuda module" "$said"
