# fault: no node has the program at the place where the driver has it
# how: job scripts start a program that is not there; then, in one job alone
# on: cluster, fake
# promise: the third such end ends the run with node, path and sentence; one alone is tried again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
start --set 'executor.slurm.prologue=["exec /nowhere/hires-flow launch"]'
until_end
[ "$code" = 1 ] || tell "the run ended with $code, not 1"
says '3 jobs in a row ended before they began, so the rest is not tried' || tell "it did not end for that"
says 'its script failed on the node; the scheduler says FAILED .* on .*/nowhere/hires-flow: No such file' || tell "node, path and sentence"
says "This machine sees the program '.*hires-flow' and the run directory '$run'" || tell "what the driver sees"
says 'WARN|warning.*job tile-.*it ended before it began' || tell "not told at once"
start --set "executor.slurm.prologue=['! mkdir $gate/once 2>&1 || exec /nowhere/hires-flow launch']"
finish
