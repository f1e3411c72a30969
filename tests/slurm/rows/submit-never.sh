# fault: sbatch fails, and the job was not taken
# how: "Unable to contact slurm controller" at the 1st and 3rd call
# on: fake
# promise: submitted again once an answer says that it is not there
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
printf '%s\n' "sbatch 1 fail 1 sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)" "sbatch 3 fail 1 sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)" >"$HRF_FAKE_SLURM/faults"
start
finish
started_once
