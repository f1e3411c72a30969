# fault: a rank ends with 7
# how: exit 7 of one worker on its first start
# on: cluster, local
# promise: the code is named, the slide fails; the same command tries it again
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
one_does 'exit 7'
start
ended 3
told 'exit code 7' || tell "the code is not named"
says 'scored [0-9]+/[0-9]+ patches \([1-9][0-9]* could not be\), ended 4/4' || tell "patches that failed count as scored"
again
