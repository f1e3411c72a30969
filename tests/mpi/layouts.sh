#!/usr/bin/env bash
# The ranks of a layout as MPI processes give the bytes that threads give, and in INT8 those of one
# rank; a job with the wrong number of ranks, and one that loses a rank, ends with a message.
. "$(dirname "$0")/lib.sh"
images=$HRF_SOURCE_DIR/tests/golden/qdq/trained.x.npy # 2 of 3 x 16 x 16
# One of 3 x 64 x 64 of the same numbers, for the transformer.
LC_ALL=C sed '1s/(2, 3, 16, 16)/(1, 3, 64, 64)/' "$images" | head -c 128 >"$scratch/image.npy"
for _ in 1 2 3 4 5 6 7 8; do tail -c +129 "$images"; done >>"$scratch/image.npy"
evaluate() { # model, output, arguments...
    model=$1 out=$2
    shift 2
    "${starter[@]}" "$engine" eval "$model" --input "$images" --output "$out" --threads 1 "$@"
}

compare() { # model, ranks, layout, precision, arguments...
    starter=()
    evaluate "$1" "$scratch/threads.npy" --precision "$4" --layout "$3" "${@:5}"
    evaluate "$1" "$scratch/alone.npy" --precision "$4" "${@:5}"
    starter=(ranks "$2")
    evaluate "$1" "$scratch/mpi.npy" --precision "$4" --layout "$3" --comm mpi "${@:5}"
    cmp "$scratch/mpi.npy" "$scratch/threads.npy" || fail "$3 in $4: processes are not threads"
    [ "$4" != int8 ] || cmp "$scratch/mpi.npy" "$scratch/alone.npy" || fail "$3: not one rank's bits"
    echo "$3, $4, $2 ranks: the same bytes"
}

"$engine" model make resnet:2,8 --size 32 --classes 5 --output "$scratch/resnet.onnx" >/dev/null
"$engine" model make unet:2,8 --size 16 --classes 3 --output "$scratch/unet.onnx" >/dev/null
vit=$HRF_SOURCE_DIR/tests/golden/bits/small_vit.onnx
for precision in fp32 int8; do
    compare "$scratch/resnet.onnx" 4 spatial=2,stages=2,microbatches=2 $precision
    compare "$scratch/unet.onnx" 6 spatial=3,stages=2 $precision
    compare "$scratch/resnet.onnx" 4 data=2,stages=2 $precision
    compare "$scratch/unet.onnx" 4 data=2,spatial=2,halos=overlap $precision
    compare "$scratch/unet.onnx" 4 spatial=2x2,halos=overlap $precision
    compare "$vit" 3 tensor=3 $precision --output-name logits --input "$scratch/image.npy"
    compare "$vit" 4 spatial=2,tensor=2 $precision --output-name logits --input "$scratch/image.npy"
done

# A loss and its gradients, which go both ways between stages and are added over micro-batches.
starter=()
evaluate "$scratch/resnet.onnx" "$scratch/target.npy"
gradient() { # output, arguments...
    out=$1
    shift
    "${starter[@]}" "$engine" gradient "$scratch/resnet.onnx" --input "$images" --target "$scratch/target.npy" --loss bce \
        --threads 1 --output "$out" "$@" >/dev/null
}
for layout in data=2,stages=2 spatial=2,stages=2,microbatches=2 spatial=4 \
    spatial=2,stages=2,microbatches=2,bidirectional; do
    starter=() && gradient "$scratch/gradients-of-threads" --layout $layout
    starter=(ranks 4) && gradient "$scratch/gradients-by-mpi" --layout $layout --comm mpi
    diff -r "$scratch/gradients-of-threads" "$scratch/gradients-by-mpi" || fail "$layout: other gradients by processes"
done

# Layers that a budget takes out of INT8, some of them here for BF16 whatever this machine has: every
# rank has the same list. (Not with data=2, where FP32 may round otherwise for one image than for two.
# A calibration is sealed by the checksum of its text without the seal.)
"$engine" eval "$scratch/resnet.onnx" --input "$images" --output "$scratch/y.npy" --precision int8 \
    --budget 1e-9 --save-scales "$scratch/budget.json" 2>/dev/null
sed -e 's/\("name":"layer[13][^"]*","precision":\)"fp32"/\1"bf16"/g' -e 's/"sha256":"[0-9a-f]*",//' \
    "$scratch/budget.json" >"$scratch/mixed"
seal=$(tr -d '\n' <"$scratch/mixed" | sha256sum | cut -d' ' -f1)
sed "s/\"tensors\":/\"sha256\":\"$seal\",\"tensors\":/" "$scratch/mixed" >"$scratch/mixed.json"
for layout in spatial=2,stages=2 spatial=2x2; do
    compare "$scratch/resnet.onnx" 4 $layout int8 --scales "$scratch/mixed.json" 2>"$scratch/notes"
    grep -q "stays in bfloat16" "$scratch/notes" || fail "no layer is in BF16"
    grep -q "stays in float32" "$scratch/notes" || fail "no layer is in FP32"
done

# What each rank sent is what it sends as a thread.
count() { # JSON of a bench
    tr '{' '\n' <"$1" | grep -o '"bytes":[0-9]*,"gb_per_s":[^,]*,"messages":[0-9]*,"operation":"[a-z]*"' |
        sed 's/"gb_per_s":[^,]*,//'
}
measure() { # output, arguments...
    out=$1
    shift
    "${starter[@]}" "$engine" bench --model "$scratch/resnet.onnx" --size 32 --batch 2 --runs 2 --threads 1 \
        --layout spatial=4,halos=plain --json "$@" >"$out"
}
starter=() && measure "$scratch/threads.json"
starter=(ranks 4) && measure "$scratch/mpi.json" --comm mpi
[ "$(count "$scratch/mpi.json" | grep -c exchange)" = 4 ] || fail "not every rank told what it sent"
diff <(count "$scratch/threads.json") <(count "$scratch/mpi.json") || fail "processes send other things"

# The wrong number of ranks, and a rank that is killed: no hanging, and a word on why.
expect_code 2 "$engine" eval "$scratch/resnet.onnx" --input "$images" --output "$scratch/y.npy" --comm mpi
expect_text "needs a --layout"
starter=(ranks 3)
if evaluate "$scratch/resnet.onnx" "$scratch/y.npy" --layout spatial=2 --comm mpi \
    >"$scratch/out" 2>"$scratch/err"; then fail "3 ranks ran a layout of 2"; fi
expect_text "3"
cat >"$scratch/one-dies" <<END
#!/bin/sh
[ "\$OMPI_COMM_WORLD_RANK" = 1 ] && HRF_CRASH_AT=none && (sleep 0.3; kill -9 \$\$) &
exec "\$@"
END
chmod +x "$scratch/one-dies"
code=0
mpirun --oversubscribe --bind-to none -n 2 "$scratch/one-dies" "$engine" bench --model resnet50 \
    --size 512 --batch 1 --runs 500 --layout spatial=2 --comm mpi \
    >"$scratch/out" 2>"$scratch/err" || code=$?
[ $code != 0 ] || fail "a job went on without a rank"
echo "a job that lost a rank ended with exit code $code"
