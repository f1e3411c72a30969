# fault: output that nobody expects
# how: banners before every answer of squeue and sbatch, a state nobody knows, lines cut short
# on: fake
# promise: survives, and believes nothing of it
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
printf '%s\n' "squeue 2-3 banner Maintenance on Sunday|all|day|long|" "squeue 5 cut 9" "sbatch 1 banner Dear user" "squeue 7 print nothing" "squeue 8-9 fail 1 slurm_load_jobs error: Zero Bytes were transmitted or received" >"$HRF_FAKE_SLURM/faults"
: >"$HRF_FAKE_SLURM/nothing"
# Our own questions are asked in another folder with the same queue: all faults are the driver's.
mkdir "$scratch/aside"
ln -s "$HRF_FAKE_SLURM/queue" "$scratch/aside/queue"
in_state() { HRF_FAKE_SLURM=$scratch/aside squeue -h -r -t all -o '%i %T' | awk -v state="$1" '$2 == state {print $1}'; }
# All that run, as often as need be: the driver may have given one up, and asks for it no more.
teleport() {
    for job in $(in_state RUNNING); do slurm_fake set "$job" TELEPORTING; done
    says TELEPORTING
}
hold
start
held 1
until_true "the warning" teleport
for job in $(in_state TELEPORTING); do slurm_fake set "$job" RUNNING; done
finish
started_once
! ls -d "$run"/jobs/*.a2 2>/dev/null || tell "a job was given up"
