# fault: controller out of reach for long
# how: every command fails for 6 s with jobs running
# on: fake
# promise: said once; the state is kept, nothing goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
echo "* * fail 1 slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >"$HRF_FAKE_SLURM/faults"
release
sleep 6
rm "$HRF_FAKE_SLURM/faults"
finish
started_once
