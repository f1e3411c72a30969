# fault: preemption of trainings, requeued at once
# how: the scripted Slurm preempts every running job
# on: fake
# promise: Slurm starts them again, the run follows
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
. "$here/training.sh"
hold
start
held 1
for job in $(squeue -h -r -t all -o '%i %t' | awk '$2 == "R" {print $1}'); do slurm_fake preempt "$job" >/dev/null; done
until_true "the preemption" queue_has 'PENDING BeginTime'
finish
