#!/usr/bin/env bash
# Ranks that are processes, their tensors on emulated GPUs: taken out of each other's memory (CUDA
# IPC), through host memory and MPI, or by NCCL they give the bytes of one rank in INT8; what cannot be
# carried is told with the reason and the way out.
. "$HRF_SOURCE_DIR/tests/mpi/lib.sh"
modules=$HRF_BIN_DIR/../tests/emulated-cuda
[ -e "$modules/hrf_cuda.so" ] || { echo "no emulated GPU in this build"; exit 77; }
mkdir "$scratch/modules"
ln -s "$(realpath "$modules")"/hrf_*.so "$HRF_BIN_DIR/../lib/hires-flow/hrf_mpi.so" "$scratch/modules/"
export HRF_MODULE_DIR=$scratch/modules
images=$HRF_SOURCE_DIR/tests/golden/qdq/trained.x.npy # 2 of 3 x 16 x 16
evaluate() { # output, arguments...
    out=$1
    shift
    "${starter[@]}" "$engine" eval "$scratch/model.onnx" --input "$images" --output "$out" --threads 1 \
        --device cuda "$@" </dev/null # which mpirun would read
}

"$engine" model make unet:2,8 --size 16 --classes 3 --output "$scratch/model.onnx" >/dev/null
starter=()
evaluate "$scratch/alone.npy" --precision int8
while read -r ranks layout way; do
    starter=(ranks "$ranks")
    rm -f "$scratch/y.npy"
    evaluate "$scratch/y.npy" --precision int8 --layout "$layout" --comm "$way"
    cmp "$scratch/y.npy" "$scratch/alone.npy" || fail "$layout by $way: not one rank's bytes"
    echo "$layout by $way, $ranks processes: one rank's bytes"
done <<END
2 spatial=2 mpi
2 spatial=2 ipc
4 spatial=2x2 ipc
4 spatial=2,stages=2,microbatches=2 ipc
2 stages=2,microbatches=2,bidirectional ipc
3 spatial=3 auto
END

# Each rank says where it stands.
HRF_EMULATED_CUDA=devices=2 evaluate "$scratch/y.npy" --precision int8 --layout spatial=3 --comm ipc \
    2>"$scratch/err"
cmp "$scratch/y.npy" "$scratch/alone.npy" || fail "3 ranks on 2 GPUs: not one rank's bytes"
expect_text "rank 2 of 3 on this node takes GPU 0 of 2 (0000:3b:00.0), as 1 other does"
expect_text "rank 1 of 3 on this node takes GPU 1 of 2 (0000:3c:00.0)"
grep -q "kernel by kernel" "$scratch/err" && fail "flags were not used"

# GPUs that cannot set each other's flags say so; the host announces what they exchange.
starter=(ranks 2)
HRF_EMULATED_CUDA=no-peer-flags evaluate "$scratch/y.npy" --precision int8 --layout spatial=2 --comm ipc \
    2>"$scratch/err"
cmp "$scratch/y.npy" "$scratch/alone.npy" || fail "2 ranks without flags: not one rank's bytes"
expect_text "kernel by kernel, not as one CUDA graph: CUDA, memory operations of streams"

# A rank keeps to the processors near its GPU, which the test chooses: one each.
if [ "$(nproc)" -gt 1 ]; then
    for gpu in 3b 3c; do
        mkdir -p "$scratch/sys/bus/pci/devices/0000:$gpu:00.0"
        echo 0 >"$scratch/sys/bus/pci/devices/0000:$gpu:00.0/local_cpulist"
    done
    starter=(ranks 2)
    SLURM_CPUS_PER_TASK=1 HRF_SYSFS=$scratch/sys HRF_EMULATED_CUDA=devices=2 evaluate \
        "$scratch/y.npy" --precision int8 --layout spatial=2 --comm ipc 2>"$scratch/err"
    cmp "$scratch/y.npy" "$scratch/alone.npy" || fail "2 bound ranks: not one rank's bytes"
    for gpu in 3b 3c; do
        expect_text "(0000:$gpu:00.0); all its processors (0) are near it, which it now keeps to"
    done
fi

# One rank calibrates and tunes for all: no plan is built twice. Ranks that differ in their GPU say so, and
# both tune.
starter=(ranks 2)
while read -r gpus precision; do
    XDG_CACHE_HOME=$scratch/$gpus HRF_EMULATED_CUDA=$gpus HRF_EMULATED_CUDNN=told=$scratch/$gpus.txt evaluate \
        "$scratch/y.npy" --precision "$precision" --layout data=2 --comm mpi >"$scratch/out" 2>"$scratch/err"
done <<END
devices=2 int8
two-kinds fp32
END
expect_text "cuDNN 91900; Emulated GPU; sm 9.0; driver 13000 by rank 0 for 1 of 2."
expect_text "Other emulated GPU; sm 9.0; driver 13000 by rank 1 for 1 of 2."
[ -s "$scratch/devices=2.txt" ] || fail "nothing was tuned"
[ -z "$(sort "$scratch/devices=2.txt" | uniq -d)" ] || fail "a plan was built twice"
[ "$(sort "$scratch/two-kinds.txt" | uniq)" = "$(sort "$scratch/two-kinds.txt" | uniq -d)" ] ||
    fail "two kinds of GPU were tuned as one"

# The real NCCL, where it was built in: every name is found in it, and its version is told.
if [ -e "$HRF_BIN_DIR/../lib/hires-flow/hrf_nccl.so" ]; then
    HRF_MODULE_DIR=$HRF_BIN_DIR/../lib/hires-flow "$engine" version >"$scratch/out"
    grep -q '^nccl: 2\.[0-9]*\.[0-9]*, built with 2\.' "$scratch/out" || fail "the real NCCL: $(tail -n 1 "$scratch/out")"
fi

# NCCL: a GPU for each rank.
while read -r ranks layout; do
    starter=(ranks "$ranks")
    rm -f "$scratch/y.npy"
    HRF_EMULATED_CUDA=devices=4 evaluate "$scratch/y.npy" --precision int8 --layout "$layout" --comm nccl
    cmp "$scratch/y.npy" "$scratch/alone.npy" || fail "$layout by nccl: not one rank's bytes"
    echo "$layout by nccl, $ranks processes: one rank's bytes"
done <<END
4 spatial=2x2
4 spatial=2,stages=2,microbatches=2
END
starter=(ranks 2)
if evaluate "$scratch/y.npy" --precision fp32 --layout spatial=2 --comm nccl >"$scratch/out" 2>"$scratch/err"; then
    fail "NCCL took two ranks on one GPU"
fi
expect_text "ranks 0 and 1 share the GPU 0000:3b:00.0"
expect_text "use --comm ipc"
if HRF_EMULATED_CUDA=devices=2 HRF_EMULATED_NCCL=breaks=1:4 evaluate "$scratch/y.npy" --precision fp32 \
    --layout spatial=2 --comm nccl >"$scratch/out" 2>"$scratch/err"; then fail "NCCL broke and nobody said so"; fi
expect_text "socket closed by rank 7"

# What tune-comm finds between GPUs serves --comm auto.
starter=(ranks 2)
HRF_EMULATED_CUDA=devices=2 "${starter[@]}" "$engine" tune-comm --device cuda --largest 4096 \
    </dev/null >"$scratch/out" 2>"$scratch/err"
for comm in ipc mpi nccl; do
    expect_text "$comm, ranks 0 and 1, same node: in both directions at once"
    expect_text "$comm between GPUs, same node: time of a message in microseconds"
done
HRF_EMULATED_CUDA=devices=2 evaluate "$scratch/y.npy" --precision int8 --layout spatial=2 --comm auto
cmp "$scratch/y.npy" "$scratch/alone.npy" || fail "auto by a table: not one rank's bytes"
"${starter[@]}" "$engine" tune-comm --device cuda --largest 256 </dev/null >"$scratch/out" 2>"$scratch/err"
expect_text "NCCL is skipped: --comm nccl cannot carry the messages of these ranks: ranks 0 and 1 share the GPU"
expect_code 2 "$engine" tune-comm --device cuda
expect_text "mpirun -n 2 hires-flow tune-comm --device cuda"

# What cannot be: said by a rank, with the way out.
starter=(ranks 2)
if HRF_EMULATED_CUDA=no-ipc evaluate "$scratch/y.npy" --precision fp32 --layout spatial=2 --comm ipc \
    >"$scratch/out" 2>"$scratch/err"; then fail "a GPU without IPC carried messages by it"; fi
expect_text "cannot be shared with another (CUDA IPC)"
expect_text "use --comm mpi"
if "${starter[@]}" "$engine" eval "$scratch/model.onnx" --input "$images" --output "$scratch/y.npy" \
    --layout spatial=2 --comm ipc >"$scratch/out" 2>"$scratch/err"; then fail "ipc on processors"; fi
expect_text "and the device is cpu: use --comm mpi"
expect_code 2 "$engine" eval "$scratch/model.onnx" --input "$images" --output "$scratch/y.npy" --comm pigeon
expect_text "ipc"
