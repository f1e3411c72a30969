#!/bin/sh
# What ptxas says of every CUDA kernel, for the generation that gpu.md's figures are about: no spills,
# no local memory beyond what is listed, and at most 64 registers, so that half of an SM's 2,048
# threads are resident. Kernels that need more are listed with what they have.
cd "$(dirname "$0")/../.." || exit 2
# depthwise: 32 sums a thread; to_queries, to_keys: places in four and in seven arrays of attention's gradient
most_registers='pool_window 80  max_packs 72  depthwise 80  to_queries 80  to_keys 104'
local_bytes='pointwise 32  derive 32' # an array of coordinates that a variable indexes; a sine's argument reduced
scratch=$(mktemp) || exit 2
trap 'rm -f "$scratch"' EXIT
for file in engine/backend/cuda/*.cu; do # what the build kept
    cat "$HRF_BIN_DIR/../${file}.said" >>"$scratch" || exit 1
done
if ! grep -q "for 'sm_90a'" "$scratch"; then
    echo "skipped: this build has no kernels for sm_90a"
    exit 77
fi
c++filt <"$scratch" | awk -v registers="$most_registers" -v stacks="$local_bytes" '
    function limits(text, into,    n, words, i) {
        n = split(text, words, " ")
        for (i = 1; i < n; i += 2) into[words[i]] = words[i + 1]
    }
    BEGIN { limits(registers, most); limits(stacks, most_stack) }
    /warning/ { print; bad = 1 }
    /Compiling entry function/ { ours = / for .sm_90a/ }
    !ours { next }
    /Compiling entry function/ {
        name = $0; sub(/^[^\047]*\047(void )?/, "", name); sub(/[<(].*/, "", name)
        n_kernels++
    }
    /bytes stack frame/ {
        if ($1 > most_stack[name] + 0) { print name ": " $1 " bytes of local memory"; bad = 1 }
        if ($5 + $9 > 0) { print name ": spills: " $0; bad = 1 }
    }
    /Used [0-9]+ registers/ {
        match($0, /Used [0-9]+/); used = substr($0, RSTART + 5, RLENGTH - 5) + 0
        limit = name in most ? most[name] : 64
        if (used > limit) { print name ": " used " registers, at most " limit; bad = 1 }
        n_used++
    }
    END {
        if (n_kernels == 0 || n_used != n_kernels) {
            print "ptxas spoke of " n_kernels + 0 " kernels and the registers of " n_used + 0; bad = 1
        }
        print n_kernels + 0 " kernels"
        exit bad
    }'
