# fault: the launcher dies
# how: the launchers of one submission killed at each of their crash points, in turn
# on: fake
# promise: no word and no job: they go again, nothing twice
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
wrap sbatch "case \"\$*\" in *hires-flow\\ infer*)
    mkdir $scratch/once 2>/dev/null && export HRF_CRASH_AT=launch.\$(cat $scratch/point) ;;
esac
real \"\$@\""
for point in reserve.before start.before start.after worker.before worker.after done.before done.after; do
    anew
    rm -rf "$scratch/once"
    echo "$point" | tee "$scratch/point"
    start --set executor.max_jobs=2 # three jobs in a row that never begin would end the run
    finish
    [ -d "$scratch/once" ] || tell "no launcher was killed"
done
