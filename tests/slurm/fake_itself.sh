#!/bin/bash
# The scripted Slurm's faults: what a submission leaves behind, and what is printed.
set -eu
export HRF_FAKE_SLURM=$(mktemp -d)
trap 'rm -rf "$HRF_FAKE_SLURM"' EXIT
PATH=$HRF_BIN_DIR/../tests/slurm_fake:$PATH
cd "$HRF_FAKE_SLURM"
passed=0
is() { # what, wanted, got
    [ "$2" = "$3" ] || { echo "FAILED: $1: '$3', not '$2'"; exit 1; }
    passed=$((passed + 1))
}
faults() { printf '%s\n' "$@" >faults; rm -f calls; }
tried() { "$@" 2>&1 || echo "=> $?"; }
jobs() { squeue -h -r -t all -o '%F%t' | xargs; }
printf '#!/bin/bash\nexec sleep 60\n' >job.sh
echo Run=no >config

faults "sbatch 1 fail 1 no" "sbatch 2 lost 1 Socket timed out" "sbatch 3 forget" "sbatch 5 cut 2"
is "refused" "no => 1" "$(tried sbatch --parsable job.sh | xargs)"
is "refused, the queue" "" "$(jobs)"
is "taken but not told" "Socket timed out => 1" "$(tried sbatch --parsable job.sh | xargs)"
is "taken but not told, the queue" "1PD" "$(jobs)"
is "forgotten" 2 "$(sbatch --parsable job.sh)"
is "forgotten, the queue" "1PD" "$(jobs)"
is "its number again" 2 "$(sbatch --parsable job.sh)"
is "its number again, the queue" "1PD 2PD" "$(jobs)"
is "an answer cut short" "" "$(sbatch --parsable job.sh)"

faults "squeue 2-3 fail 1 no controller" "squeue 4- banner Maintenance on Sunday"
is "before" 3 "$(squeue -h | wc -l)"
is "down" "no controller => 1 no controller => 1" "$(tried squeue | xargs) $(tried squeue | xargs)"
is "up, with a banner" "Maintenance on Sunday" "$(squeue -h | head -1)"
faults "squeue * wait 0.3" "sbatch * deaf" "scancel * die"
before=$(date +%s%N)
squeue >/dev/null
is "late" 1 "$((($(date +%s%N) - before) / 300000000 > 0))"
is "no answer" 124 "$(timeout 0.3 sbatch job.sh; echo $?)"
is "killed" 137 "$(bash -c 'scancel 1; exit $?' 2>/dev/null; echo $?)"
rm faults
is "no answer and killed, the queue" "1CA 2PD 3PD" "$(jobs)"
slurm_fake set 2 TELEPORTING
is "a state of nobody's" TELEPORTING "$(squeue -h -r -t all -j 2,2 -o %T)"
is "calls" "1 3" "$(grep -c '^scancel ' calls || true) $(grep -c '^squeue ' calls)"

# Jobs run; a lost node's processes go on; nothing outlives the folder.
mark=$((200000 + $$))
rm config && printf 'RequeueDelay=0\nSlots=1\n' >config
printf '#!/bin/bash\nexec sleep %s\n' $mark >job.sh
sleepers() { pgrep -fxc "[^ ]*sleep $mark" || true; }
wait_for() { for tries in $(seq 1800); do [ "$(sleepers)" = "$1" ] && break; sleep 0.05; done; is "processes" "$1" "$(sleepers)"; }
scancel 2 3
id=$(sbatch --parsable job.sh)
wait_for 1
is "on the lost node" 1 "$(slurm_fake fail-node all)"
wait_for 2
is "again" "$id 1" "$(scontrol show job "$id" | grep -oE 'JobId=[0-9]+|Restarts=[0-9]+' | cut -d= -f2 | xargs)"
scancel "$id"
wait_for 1
rm queue
wait_for 0
echo "$passed passed, 0 failed"
