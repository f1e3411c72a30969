# fault: controller killed after sbatch
# how: kill -9 of slurmctld as soon as sbatch has told the number, its last state lost; the number is given again
# on: cluster
# promise: the lost job is noticed and goes again; the number's next owner is not mistaken for it
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
wrap sbatch 'if [ $n = 2 ]; then
    cp -a /run/cluster/state /run/cluster/state.before
    real "$@"; code=$?
    controller_kill; rm -rf /run/cluster/state; mv /run/cluster/state.before /run/cluster/state
    (controller_start) >/dev/null 2>&1
    exit $code
fi; real "$@"'
start
finish
[ "$(cat "$scratch/sbatch.calls")" -gt 2 ] || tell "nothing was submitted again"
