# fault: out of memory, a rank of several
# how: one of 2 ranks on 2 nodes takes 600 MB of its 300 MB; Slurm kills the step (OverMemoryKill)
# on: cluster
# promise: named; it goes again with more memory
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
one_does 'head -c 600M /dev/zero | tail -c 600M | { sleep 30; cat >/dev/null; }'
start --set executor.slurm.nodes=2 --set executor.slurm.mem_per_node=300M
finish
told 'memory' || tell "the lack of memory is not named"
squeue -h -t all -O 'MinMemory:20' | grep -q 450M || tell "it was not given more memory"
