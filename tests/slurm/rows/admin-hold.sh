# fault: requeue and hold by an operator
# how: scontrol requeuehold of every running job, release 3 s later
# on: cluster, fake
# promise: it waits for the release, then goes on
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
jobs=$(squeue -h -r -t all -o '%i %t' | awk '$2 == "R" {print $1}')
for job in $jobs; do scontrol requeuehold "$job"; done
until_true "the hold" queue_has 'PENDING (JobHeld|job requeued in held state)'
sleep 3
for job in $jobs; do scontrol release "$job"; done
finish
