# fault: controller out of reach while the last job in the queue ends
# how: one job at a time; squeue fails from the start until that job's end is taken in, with tasks left
# on: fake
# promise: the job's own word counts; nothing is submitted meanwhile, and the rest when it answers
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
none_lives() { [ "$(sqlite3 "$run/run.db" "SELECT count(*) FROM attempt WHERE ended_ms = 0")" = 0 ]; }
echo "squeue * fail 1 slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >"$HRF_FAKE_SLURM/faults"
start --set executor.max_jobs=1
until_true "the warning" says 'does not answer, jobs go on'
until_true "the end of the only job" none_lives
tells_why() { "$flow" status "$run" | grep "the scheduler does not answer: Unable to contact"; }
until_true "a status that says why it waits" tells_why
rm "$HRF_FAKE_SLURM/faults"
finish
started_once
