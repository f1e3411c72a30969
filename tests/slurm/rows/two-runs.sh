# fault: none, two runs of one user
# how: two runs at one time; squeue takes 0.3 s and is watched
# on: cluster, fake
# promise: one driver asks for both, never two at a time
. "$HRF_SOURCE_DIR/tests/slurm/two_runs.sh"
hold
watch_squeue 'echo $PPID'
start_other env
start
held 2
sleep 2
finish_both
echo "$(wc -l <"$scratch/askers") questions of $(sort -u "$scratch/askers" | wc -l) drivers"
