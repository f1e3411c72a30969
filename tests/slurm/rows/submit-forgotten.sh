# fault: sbatch answers, but the job is lost
# how: the controller forgets the 2nd submission and gives its number again
# on: fake
# promise: the lost job is noticed and goes again; the number's next owner is not mistaken for it
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
echo "sbatch 2 forget" >"$HRF_FAKE_SLURM/faults"
other_jobs=1
start --set executor.patches_per_job=7
finish
started_once
