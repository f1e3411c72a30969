# fault: the quota is used up
# how: whatever the driver wants to create fails by EDQUOT from its first infer jobs on (preloaded library)
# on: cluster, fake, local
# promise: a message that names it; the same command goes on when there is room
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
trouble "hires-flow run" ERROR=EDQUOT WHILE="$scratch/used-up"
used_up=$scratch/used-up
echo ": >'$used_up'" >"$gate/do"
start
until_true "the run's end" driver_gone
wait "$driver" && tell "it ended well without a quota"
driver=
says 'quota|No space|full' || tell "the quota is not named"
rm -f "$gate/do" "$used_up"
untrouble
again
