# fault: none, Slurm binds the ranks to processors
# how: TaskPlugin=task/affinity; a job of 2 machines with a rank on each, bound to one processor
# on: cluster --set TaskPlugin=task/affinity
# promise: the local run's bytes; each rank tells the processor that it was given
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
start --set executor.slurm.nodes=2 --set executor.max_jobs=1
finish
for record in "$run"/jobs/infer*/rank-000[01].json; do
    cpus=$(sed -n 's/.*"cpus": "\([^"]*\)".*/\1/p' "$record")
    grep -q '"n_cpus": 1,' "$record" && [[ $cpus =~ ^[0-9]+$ ]] || tell "it is not bound to one processor: '$cpus' in $record"
done
[ "$(ls "$run"/jobs/infer*/rank-0001.json | wc -l)" -ge 3 ] || tell "no job had 2 ranks"
