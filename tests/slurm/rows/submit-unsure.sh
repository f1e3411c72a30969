# fault: sbatch fails, but the job was taken
# how: sbatch says "Socket timed out" (2nd call) and is killed before its answer (3rd)
# on: fake
# promise: looked for by name and found: exactly one job for each task
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
printf '%s\n' "sbatch 2 lost 1 sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" "sbatch 3 die" >"$HRF_FAKE_SLURM/faults"
other_jobs=1
start --set executor.patches_per_job=7
finish
started_once
