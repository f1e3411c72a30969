# fault: controller stalls for longer than anything waits
# how: SIGSTOP of slurmctld for 40 s during sbatch, with jobs running; MessageTimeout=10, all waits as they are for a user
# on: cluster
# promise: said once, jobs go on; exactly one job for each task
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
export HRF_SLURM_WAIT_PERCENT=100
wrap sbatch 'if [ $n = 2 ]; then
    controller_stall; date +%s >"'"$scratch"'/stalled"
    (sleep 40; controller_resume; date +%s >"'"$scratch"'/resumed") >/dev/null 2>&1 &
fi; real "$@"; code=$?; echo "$n $code" >>"'"$scratch"'/codes"; exit $code'
start
finish
grep -q '^2 [1-9]' "$scratch/codes" || tell "sbatch did not fail"
[ "$(cat "$scratch/stalled")" -le $(($(cat "$scratch/resumed") - 40)) ] || tell "it did not stall for so long"
says 'does not answer, jobs go on' || tell "it is not told"
[ "$(grep -c 'does not answer' "$scratch/driver.err")" = 1 ] || tell "it is told again and again"
started_once
