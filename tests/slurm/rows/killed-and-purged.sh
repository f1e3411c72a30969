# fault: a job dies without a word and is forgotten
# how: kill -9 of launcher and worker, MinJobAge=2, the driver killed before
# on: cluster --set MinJobAge=2
# promise: believed lost only by an answer that can be trusted, then it goes again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
hold
start
held 4 # all
crash
for node in n1 n2 n3 n4; do on $node pkill -KILL -f "$scratch" || true; done # scancel would be another's cancel
until_true "the purge" eval '[ -z "$(squeue -h -t all)" ]'
release
again
