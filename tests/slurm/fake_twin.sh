#!/bin/bash
# The scripted Slurm answers as the real one does: the same commands on both, what they print side
# by side, with numbers, times and nodes' names taken out.
set -eu
here=$HRF_SOURCE_DIR/tests/slurm
fail() { echo "FAILED: $*"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/play.sh" <<'END'
cd "$(mktemp -d)" && trap 'rm -rf "$PWD"' EXIT
say() { echo "--- $*"; "$@" 2>&1; echo "=> $?"; }
contract='%i|%F|%K|%T|%t|%r|%N|%j|%k|%D|%P|%u'
wait_for() { for tries in $(seq 1800); do [ "$(squeue -h -r -t all -o %t | sort | uniq -c | xargs)" = "$1" ] && return; sleep 0.05; done; squeue -h -r -t all -o "$contract"; echo "never: $1"; }
printf '#!/bin/bash\necho "$SLURM_ARRAY_JOB_ID"; sleep 0.3; exit $((SLURM_ARRAY_TASK_ID == 2 ? 7 : 0))\n' >job.sh
printf '#!/bin/bash\nexec sleep 1000\n' >long.sh
options="--parsable --partition=main --ntasks=1 --mem=100M --time=5 --job-name=hf-x-1 --comment=hires --requeue"
say sbatch $options --array=0-3 --output=%a.out job.sh
wait_for "3 CD 1 F"
say squeue -h -r -t all -u "$(id -u)" -o "$contract" | sort
cat *.out
say scontrol -o show job 1_2 | grep -oE '^[-=].*|(JobState|Reason|Requeue|Restarts|ExitCode|ArrayTaskId|JobName|Comment)=[^ ]*'
say sbatch --parsable --time=5 --mem=100M --array=0-29%1 --output=/dev/null long.sh
wait_for "3 CD 1 F 29 PD 1 R"
# Why a job waits is known when the scheduler has looked at it, not when it is in the queue.
for tries in $(seq 1800); do squeue -h -t PD -o %r | grep -qx None || break; sleep 0.05; done
say squeue -h -t all -o '%i|%T|%r' | sort | sed 's/Priority\|Resources/JobArrayTaskLimit/'
say squeue -h -t all -o '%T|%K|%F' | sort
say squeue -h -r -t PD,F -o '%i|%t' | sort
say scontrol update JobId=5 ArrayTaskThrottle=2
say scancel '5_[3-29]'
say scancel 77
say squeue -h -j 77
say squeue -h -j 77,78
say sacct
say sbatch --parsable --partition=nope job.sh
say sbatch --parsable --array=0-9999 job.sh
say sbatch --parsable missing.sh
say sbatch --parsable --time=5 --mem=100M --output=missing/%j.out job.sh
for tries in $(seq 1800); do squeue -h -t F -o '%r' -t all | grep -q JobLaunch && break; sleep 0.05; done
squeue -h -t all -o '%T|%r' | grep JobLaunch || true
say scontrol show partition -o | grep -oE '^PartitionName=main|Default=[A-Z]*' | head -2
say scontrol show config | grep -oE '^(MaxArraySize|MinJobAge|AccountingStorageType|MessageTimeout|KillWait) += .*'
say sbatch --version | sed s,slurm-wlm,slurm,
END
play() { bash "$work/play.sh" | sed -E "s/\bn[0-9]+\b/NODE/g; s/^[0-9]+$/ID/"; }
export HRF_FAKE_SLURM=$work/fake
mkdir "$HRF_FAKE_SLURM"
printf 'MinJobAge=300 sec\nKillWait=5 sec\nSlots=8\nNodes=4\n' >"$HRF_FAKE_SLURM/config"
export -f play
export work
"$here/cluster" run -- bash -c play >"$work/real" || exit $?
PATH=$HRF_BIN_DIR/../tests/slurm_fake:$PATH play >"$work/scripted"
diff "$work/real" "$work/scripted" || fail "the scripted Slurm (>) prints other than the real one (<)"
lines=$(wc -l <"$work/real")
[ "$lines" -gt 50 ] || fail "only $lines lines were compared"
echo "$lines passed, 0 failed"
