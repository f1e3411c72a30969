# fault: output that nobody expects
# how: banners before every answer of squeue and sbatch, a state nobody knows, lines cut short
# on: fake
# promise: survives, and believes nothing of it
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
printf '%s\n' "squeue 2-3 banner Maintenance on Sunday|all|day|long|" "squeue 5 cut 9" "sbatch 1 banner Dear user" "squeue 7 print nothing" "squeue 8-9 fail 1 slurm_load_jobs error: Zero Bytes were transmitted or received" >"$HRF_FAKE_SLURM/faults"
: >"$HRF_FAKE_SLURM/nothing"
hold
start
held 1
# All that run: the driver has given one up, maybe, and asks for it no more.
in_state() { squeue -h -r -t all -o '%i %T' | awk -v state="$1" '$2 == state {print $1}'; }
for job in $(in_state RUNNING); do slurm_fake set "$job" TELEPORTING; done
until_true "the warning" says TELEPORTING
for job in $(in_state TELEPORTING); do slurm_fake set "$job" RUNNING; done
finish
started_once
