# two_runs.sh - what rows with two runs of one user share: how often which driver asks squeue, and
# that both end as they should. The other run's directory is $other, what it says is in $other.out.
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
other=$scratch/other
other_driver=
watch_squeue() { # what names who asks, in the words of a shell; each question takes 0.3 s
    wrap squeue "mkdir '$scratch/asking' 2>/dev/null || $1 >>'$scratch/overlaps'
$1 >>'$scratch/askers'
sleep 0.3
code=0; real \"\$@\" || code=\$?
rmdir '$scratch/asking' 2>/dev/null
exit \$code"
}
start_other() { # what starts a program where that run is driven: on n4, env...
    "$@" "$flow" run "$cohort/w.yaml" --out "$other" --executor slurm >"$other.out" 2>&1 &
    other_driver=$!
}
finish_both() {
    release
    code=0
    wait "$other_driver" || code=$?
    [ "$code" = 3 ] || { cat "$other.out"; tell "the other run ended with $code"; }
    finish
    diff -r "$cohort/clean/results" "$other/results" >/dev/null || tell "other bytes in the other run"
    [ ! -e "$scratch/overlaps" ] || tell "two drivers asked at a time"
}
