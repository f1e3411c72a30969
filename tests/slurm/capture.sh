#!/bin/bash
# capture.sh FOLDER - what this machine's Slurm prints, for tests/golden/slurm-output. Run as
#   tests/slurm/cluster run --set SlurmdTimeout=3 -- tests/slurm/capture.sh tests/golden/slurm-output/22.05
# A queue with a job in every state that a private cluster can bring about, then each command's
# answers and refusals. stdout and stderr of a command stand in NAME.out and NAME.err.
set -u
out=$(realpath -m "$1")
. "$(dirname "$0")/control.sh"
mkdir -p "$out"
cd "$(mktemp -d)" || exit 1
keep() { # name, command...
    local name=$1
    shift
    "$@" >"$out/$name.out" 2>"$out/$name.err"
    echo "$? $*" >>"$out/commands"
    [ -s "$out/$name.err" ] || rm -f "$out/$name.err"
    [ -s "$out/$name.out" ] || rm -f "$out/$name.out"
}
: >"$out/commands"
contract='%i|%T|%r|%N|%j'
job() { # body, options...
    printf '#!/bin/bash\n%s\n' "$1" >job.sh
    shift
    sbatch --parsable --job-name=hf-RUN-1 --ntasks=1 --mem=100M --time=5 --output=/dev/null "$@" job.sh
}
settled() { for tries in $(seq 600); do [ "$(squeue -h -r -t "$1" -o x | wc -l)" -ge "$2" ] && return; sleep 0.05; done; echo "never $2 $1" >&2; }

failed=$(job 'exit 7' --array=0-2)
job 'kill -KILL $$' >/dev/null
job 'exit 0' --output=missing/log >/dev/null
settled F 5
job 'exec sleep 600' --array=0-1 --partition=low --exclude=n4 --cpus-per-task=4 --requeue >/dev/null
job 'exec sleep 600' --partition=lowcancel --exclude=n4 --cpus-per-task=4 --no-requeue >/dev/null
settled R 3
job 'exec sleep 600' --array=0-2 --partition=high --exclude=n4 --cpus-per-task=4 --job-name='a name | with "everything" é' >/dev/null
settled R 3
settled PR 1
job 'exec sleep 600' -w n4 --no-requeue >/dev/null
settled R 4
node_off n4
settled NF 1
job 'exec sleep 600' --array=1-40:3%2 --hold >/dev/null
job 'exec sleep 600' --array=0-99 --partition=down >/dev/null
job 'exec sleep 600' --dependency=afterok:1 >/dev/null
job 'exec sleep 600' --begin=now+1hour >/dev/null
id=$(job 'exec sleep 600' --nodes=9)
keep sbatch-taken job 'exec sleep 600' --array=0-9%1
sleep 3
keep squeue squeue -h -t all -u 0 -o "$contract"
SLURM_BITSTR_LEN=0 keep squeue-each squeue -h -r -t all -u 0 -o "$contract"
keep squeue-cut env SLURM_BITSTR_LEN=8 squeue -h -t all -u 0 -o "$contract"
keep scontrol-job scontrol -o show job "$id"
keep scontrol-job-failed scontrol -o show job "${failed}_1"
keep scontrol-jobs scontrol -o show job
keep scontrol-config scontrol show config
keep scontrol-partition scontrol show partition -o
keep scontrol-node scontrol show node -o
keep scontrol-ping scontrol ping
keep sinfo sinfo -N -h -p main -o '%N|%T|%E'
keep version sbatch --version
keep mpi-list srun --mpi=list
keep squeue-gone squeue -h -j 99999
keep scontrol-gone scontrol -o show job 99999
keep sacct-none sacct -X -n -P -o JobName,State,ExitCode,NodeList
keep sbatch-partition job : --partition=nowhere
keep sbatch-array job : --array=0-99999
keep sbatch-gpus job : --gres=gpu:9
keep sbatch-memory job : --mem=999G
keep sbatch-nodes job : --nodes=1 --ntasks=999
keep sbatch-time job : --time=banana
keep sbatch-option job : --no-such-option
keep sbatch-missing sbatch missing.sh
keep sbatch-constraint job : --constraint=bignode
keep sbatch-account job : --account=nobody
keep sbatch-test-only job : --test-only
controller_stall
keep squeue-stalled timeout 60 squeue -h -t all -u 0 -o "$contract"
keep sbatch-stalled job 'exec sleep 600'
controller_resume
sleep 1
controller_kill
keep squeue-down squeue -h -t all -u 0 -o "$contract"
keep sbatch-down job 'exec sleep 600'
keep scontrol-down scontrol ping
controller_start
sleep 1
munge_kill
keep squeue-munge timeout 20 squeue -h -t all -u 0 -o "$contract"
