# fault: the run directory is the login node's own
# how: --out in /tmp, which every node has for itself
# on: cluster
# promise: the third job that cannot begin ends the run with node, path and sentence
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
own=$(mktemp -d -p /tmp)
run=$own/run
trap 'rm -rf "$own" "$scratch"' EXIT
start
until_end
[ "$code" = 1 ] || tell "the run ended with $code, not 1"
says 'the scheduler says FAILED \(JobLaunchFailure\) on n[1-4]; last: it said nothing.* the run directory is not on the node' || tell "node and sentence"
says "This machine sees the program '.*hires-flow' and the run directory '$run'" || tell "what the driver sees"
