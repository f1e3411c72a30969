# fault: preemption by requeue
# how: a job of a higher partition takes all nodes for 2 s
# on: cluster
# promise: Slurm starts it again, the run follows
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start --set executor.slurm.partition=low
held 1
job=$(squeue -h -r -t R -o %i | head -n 1)
sbatch -p high -N4 --exclusive -t 1 -o /dev/null --wrap 'sleep 2' >/dev/null
until_true "the preemption" was_requeued "$job"
finish
