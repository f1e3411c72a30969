#!/bin/sh
# A module that another build of the same version left: programs name the file and what to do, whichever
# of the modules it is. And what counts as another build.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
modules=$scratch/modules
mkdir "$modules"
for name in cuda mpi nccl hdf5 forest; do
    cp "$HRF_BIN_DIR/../lib/hires-flow/hrf_test.so" "$modules/hrf_$name.so"
done
refusal() { echo "'$modules/hrf_$1.so' is of build a test, and this program needs build 0.2.0+"; }
refuses() { # module, command...
    name=$1
    shift
    expect_code 2 env HRF_MODULE_DIR="$modules" "$@"
    expect_text "$(refusal "$name")"
    expect_text "what helps: build or install programs and modules together"
}
expect_code 0 env HRF_MODULE_DIR="$modules" "$engine" version
for name in cuda mpi nccl; do
    expect_text "$(refusal $name)"
done
refuses cuda "$engine" bench resnet18 --size 32 --device cuda
refuses mpi "$engine" ranks --expect 2
make_cohort
make_workflow "$scratch/w.yaml"
expect_code 4 env HRF_MODULE_DIR="$modules" "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set model.output=embedding
expect_text "HDF5 files can be neither read nor written: $(refusal hdf5)"

# The build of a module follows from its own files and every header that they reach, and from no other.
builds() { # source tree
    cmake -DSOURCE="$1" -DOUT="$scratch/builds.h" -DVERSION=0.2.0 \
        -P "$HRF_SOURCE_DIR/cmake/module_builds.cmake"
    cat "$scratch/builds.h"
}
build_of() { sed -n "s/^#define HRF_BUILD_$1 //p" "$2"; }
tree=$scratch/tree
mkdir "$tree"
(cd "$HRF_SOURCE_DIR" && find base schema engine aggregate -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' |
    tar -cf - -T -) | tar -xf - -C "$tree"
builds "$tree" >"$scratch/first"
builds "$HRF_SOURCE_DIR" | cmp - "$scratch/first"
echo "/* changed */" >>"$tree/engine/ir/op.h" # which cuda's files reach by other headers
builds "$tree" >"$scratch/second"
[ "$(build_of CUDA "$scratch/first")" != "$(build_of CUDA "$scratch/second")" ] || fail "cuda kept its build"
for name in MPI NCCL HDF5 FOREST; do
    [ -n "$(build_of $name "$scratch/first")" ] || fail "$name has no build"
    [ "$(build_of $name "$scratch/first")" = "$(build_of $name "$scratch/second")" ] ||
        fail "$name changed by a header of cuda's"
done
echo "/* changed */" >>"$tree/base/error.h"
builds "$tree" >"$scratch/third"
for name in CUDA MPI NCCL HDF5 FOREST; do
    [ "$(build_of $name "$scratch/second")" != "$(build_of $name "$scratch/third")" ] ||
        fail "$name kept its build"
done
