# fault: munge down
# how: kill -9 of munged with jobs running and others to come, started again after 4 s
# on: cluster
# promise: the state is kept, nothing goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
munge_kill
release
sleep 4
munge_start
finish
started_once
