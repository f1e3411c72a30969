# fault: jobs begin between the driver's last question and its taking them back
# how: squeue answers as before while a job is held, another requeued, and the newest begins; throttle --jobs 3, 2
# on: cluster, fake
# promise: what has begun goes on and what waits is taken back in its place, also what had run before; no try is used up
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
wrap squeue "case \"\$*\" in *' -u '*) # the driver's, not ours
    if [ -e '$scratch/still' ]; then cat '$scratch/answer'; exit; fi
    real -r \"\$@\" >'$scratch/answer.'\$\$ || exit
    [ -e '$scratch/still' ] || mv '$scratch/answer.'\$\$ '$scratch/answer'
    cat '$scratch/answer'
    exit ;;
esac
real \"\$@\""
if [ "$HRF_FAULT_ON" = cluster ]; then # two of the jobs find room, the others wait
    for node in n2 n3 n4; do scontrol update NodeName=$node State=DRAIN Reason=test; done
    set -- --set executor.slurm.mem_per_node=2000M
fi
ids() { squeue -h -r -t all -o '%i %T' | awk -v state="$1" '$2 == state { print $1 }' | sort -V; } # the newest last
folder() { sqlite3 "$run/run.db" "SELECT directory FROM attempt WHERE pid = ${1%_*} AND place = ${1#*_}"; }
n_of() { awk -v state="$2" '$0 ~ state { n++ } END { print n + 0 }' <<<"$1"; }
two_wait() { # by Slurm, and by the driver's last answer: of the four jobs two run, and no other does
    local now answer
    now=$(squeue -h -r -t all -o %T) answer=$(cat "$scratch/answer")
    for state in RUNNING PENDING; do
        [ "$(n_of "$now" $state) $(n_of "$answer" $state)" = "2 2" ] || return
    done
}
taken_back() { [ -e "$run/$(folder "$1")/revoked" ]; }

hold
start "$@"
held 2
until_true "two jobs that run and two that wait" two_wait
running=$(ids RUNNING | head -n 1) older=$(ids PENDING | head -n 1) newest=$(ids PENDING | tail -n 1)
scontrol hold "$older"
: >"$scratch/still"
scontrol requeuehold "$running"
held 3
ids RUNNING | grep -qx "$newest" || tell "another one than the newest began"
"$flow" throttle "$run" --jobs 3 >"$scratch/out"
until_true "one taken back" eval 'taken_back "$older" || taken_back "$newest"'
! taken_back "$newest" || tell "what had begun was ended"
rm "$scratch/still"
"$flow" throttle "$run" --jobs 2 >"$scratch/out"
until_true "what had run and waits again taken back" taken_back "$running"
until_true "the queue without them" eval '[ -z "$(ids PENDING)" ]'
[ "$(ids RUNNING | wc -l)" = 2 ] || tell "what ran was ended too"
release
"$flow" throttle "$run" --off >"$scratch/out"
finish
told 'cancelled by somebody else' && tell "it is not known that it was us"
[ "$(sqlite3 "$run/run.db" "SELECT max(n_attempts) FROM task WHERE state = 2")" = 0 ] || tell "a try was used up"
