# fault: the folder of a job's output is gone
# how: removed while the jobs wait; Slurm cannot open the file (JobLaunchFailure, 0:53)
# on: cluster
# promise: the jobs go again, in folders that are there
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
for node in n1 n2 n3 n4; do scontrol update NodeName=$node State=DRAIN Reason=test; done
start
until_true "jobs that wait" queue_has '^PENDING'
rm -rf "$run"/jobs/array-*
for node in n1 n2 n3 n4; do scontrol update NodeName=$node State=RESUME; done
finish
# Slurm 24.05 makes the folder itself.
ls -d "$run"/jobs/array-0001/*.out 2>/dev/null || told 'JobLaunchFailure' || tell "it is not told why"
