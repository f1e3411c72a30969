# fault: preemption by cancel
# how: a job of a higher partition takes all nodes for 2 s
# on: cluster
# promise: a new job is submitted; no try is used up
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start --set executor.slurm.partition=lowcancel
held 1
sbatch -p high -N4 --exclusive -t 1 -o /dev/null --wrap 'sleep 2' >/dev/null
until_true "the preemption" queue_has PREEMPTED
finish
told 'preempted' || tell "the preemption is not told of"
