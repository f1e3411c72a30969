# fault: controller down while jobs end
# how: kill -9 of slurmctld with jobs running, started again when they have ended
# on: cluster
# promise: the jobs' own word counts: nothing goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
controller_kill
release
until_true "a job's end" eval 'ls "$run"/jobs/infer-*/done.json'
sleep 1
controller_start
finish
started_once
