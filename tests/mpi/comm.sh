#!/usr/bin/env bash
# Messages between MPI ranks: longer than MPI takes at once (by a small limit), and in groups.
. "$(dirname "$0")/lib.sh"
export HRF_MODULE_DIR=$HRF_BIN_DIR/../lib/hires-flow
ranks 4 "$HRF_BIN_DIR/../tests/comm_itself"
