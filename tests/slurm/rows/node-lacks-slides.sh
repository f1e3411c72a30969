# fault: one node does not see the slides, all others do
# how: an empty folder mounted over the cohort on n1, which takes jobs first
# on: cluster
# promise: told with node, file and what the driver sees; no slide is lost, no try used up
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
on n1 mount -t tmpfs none "$cohort/cohort" || tell "cannot hide the cohort"
start
finish
told "node n1 does not see '.*/slurm_cohort/cohort/.*' \(No such file or directory\), which this machine does" ||
    tell "node, file and what each sees"
told 'this does not use up a try' || tell "a try was used up"
[ "$(sqlite3 "$run/run.db" "SELECT max(n_attempts) FROM task WHERE state=2")" = 0 ] || tell "tries were used up"
