# fault: requeue by an operator
# how: scontrol requeue of every running job
# on: cluster, fake
# promise: followed
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
for job in $(squeue -h -r -t all -o '%i %t' | awk '$2 == "R" {print $1}'); do scontrol requeue "$job"; done
until_true "the requeue" queue_has 'PENDING BeginTime'
finish
