# fault: Slurm forgets ended jobs
# how: MinJobAge=2, no accounting; the driver killed, jobs end and are purged, the run goes on
# on: cluster --set MinJobAge=2
# promise: the jobs' own word counts: nothing goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
n=$(ls "$gate/starts" | wc -l)
crash
release
until_true "the purge" eval '[ -z "$(squeue -h -t all)" ]'
again
started_once
