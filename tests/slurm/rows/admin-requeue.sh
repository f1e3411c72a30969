# fault: requeue by an operator
# how: scontrol requeue of every running job
# on: cluster, fake
# promise: followed
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 1
jobs=$(squeue -h -r -t all -o '%i %t' | awk '$2 == "R" {print $1}')
for job in $jobs; do scontrol requeue "$job"; done
for job in $jobs; do until_true "the requeue of $job" was_requeued "$job"; done
finish
