# fault: the machines' clocks differ
# how: the launchers' clocks two hours behind, the workers' three hours ahead (preloaded library); the driver crashes once
# on: cluster, fake, local
# promise: nothing is decided by them
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
trouble "hires-flow launch" CLOCK_S=-7200
echo 'export HRF_TROUBLE_FOR="hires-engine infer" HRF_TROUBLE_CLOCK_S=10800' >"$gate/do"
hold
start
held 1
crash
start
finish
started_once
[ "$(date +%s)" -gt $(($(sed 's/.*"start_ms":\([0-9]*\)[0-9]\{3\},.*/\1/' "$run/jobs/$(job_of 1)/start.json") + 7000)) ] ||
    tell "the clocks did not differ"
