# lib.sh - what the tests of ranks that are processes share.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
[ -e "$HRF_BIN_DIR/../lib/hires-flow/hrf_mpi.so" ] || { echo "no MPI in this build"; exit 77; }
command -v mpirun >/dev/null || { echo "mpirun is not installed"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Open MPI ends with memory that it never gave back; ours is watched in every other test.
export ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0
ranks() { # number, command...
    number=$1
    shift
    mpirun --oversubscribe --bind-to none -n "$number" "$@"
}
