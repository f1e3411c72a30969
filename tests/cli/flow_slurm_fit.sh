#!/bin/sh
# What Slurm would refuse is said before anything is written, with what was asked and what the
# partition's nodes have; keys that are not set are cut to what there is. On the scripted Slurm.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
mkdir "$scratch/slurm" "$scratch/empty"
printf 'NodeCpus=2\nNodeMemory=1000\n' >"$scratch/slurm/config"
export HRF_FAKE_SLURM=$scratch/slurm
real=$PATH
PATH=$HRF_BIN_DIR/../tests/slurm_fake:$PATH
ask="--set executor.type=slurm --set executor.slurm.ranks_per_node=2 --set executor.slurm.cpus_per_rank=4 --set executor.slurm.mem_per_node=16G"
numbers="16 GiB and 8 processors of a node asked for 2 ranks, the nodes of main have at most 0.977 GiB and 2 processors; lower mem_per_node, cpus_per_rank, ranks_per_node (executor.slurm)"
for command in check run "run --dry-run"; do
    out="--out $scratch/run"
    [ "$command" != check ] || out=
    expect_code 2 "$flow" $command "$scratch/w.yaml" $ask $out
    expect_text "Slurm would not run the infer jobs: $numbers"
    [ ! -e "$scratch/run" ] || fail "$command: something was written"
done
expect_code 2 "$flow" check "$scratch/w.yaml" $ask --json
expect_text '"where":"executor.slurm"'
expect_code 2 "$flow" check "$scratch/w.yaml" $ask --submit
expect_text "infer: it would not run: $numbers"
expect_code 4 "$flow" doctor "$scratch/w.yaml" $ask --no-probe
expect_text "BAD  fit         infer jobs: $numbers"
expect_code 2 "$flow" infer "$scratch/cohort/testing/images/test_001.tif" --model "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" --size 64 --out "$scratch/run" $ask
expect_text "hires-flow infer: Slurm would not run"
[ ! -e "$scratch/run" ] || fail "infer: something was written"
# Two nodes' worth of ranks that no node has, on more nodes than there are; a time that is too long.
expect_code 2 "$flow" check "$scratch/w.yaml" --set executor.type=slurm --set executor.slurm.nodes=5
expect_text "executor.slurm.nodes is 5, partition main has 4"
expect_code 2 "$flow" check "$scratch/w.yaml" --set executor.type=slurm --set executor.slurm.time=2-00:00:00
expect_text "executor.slurm.time is 2880 minutes, partition main gives at most 1440"

# The defaults fit: 2 GiB for a rank are cut to what a node has.
expect_code 0 "$flow" check "$scratch/w.yaml" --set executor.type=slurm
expect_code 0 "$flow" plan "$scratch/w.yaml" --set executor.type=slurm
expect_text " --mem=1000M --time=60 "
expect_code 3 "$flow" run "$scratch/w.yaml" --set executor.type=slurm --out "$scratch/run"
# What only the submission meets is explained in the same words: the nodes have changed meanwhile.
printf 'sbatch * fail 1 error: Batch job submission failed: Requested node configuration is not available\n' >"$scratch/slurm/faults"
expect_code 1 "$flow" run "$scratch/w.yaml" --set executor.type=slurm --out "$scratch/refused"
expect_text "Slurm refuses the jobs: Batch job submission failed: Requested node configuration is not available"
rm "$scratch/slurm/faults"

# No Slurm at all.
PATH=$scratch/empty expect_code 4 "$flow" run "$scratch/w.yaml" --set executor.type=slurm --out "$scratch/none"
expect_text "executor.type is slurm:"
[ ! -e "$scratch/none" ] || fail "something was written"
PATH=$scratch/empty expect_code 0 "$flow" check "$scratch/w.yaml" --set executor.type=slurm
PATH=$real
echo "1 passed, 0 failed"
