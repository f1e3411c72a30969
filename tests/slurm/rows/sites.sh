# fault: none, profiles of sites
# how: workflows/overnight.yaml with each of workflows/sites
# on: fake
# promise: it is valid, and sbatch is asked for what the profile says
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
with() { # profile, words that sbatch must see...
    local words=(--set "executor.slurm.profile=$HRF_SOURCE_DIR/workflows/sites/$1.yaml") word
    sed '/nodes: 2 /d; /_per_rank/d; /_per_node/d; /time:/d; s|^\( *\)# profile:.*|\1nodes: 1|' \
        "$HRF_SOURCE_DIR/workflows/overnight.yaml" | sed "s|root: .*|root: $cohort/cohort|; s|file: .*|file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx|" >"$scratch/night.yaml"
    expect_code 0 "$flow" check "$scratch/night.yaml" "${words[@]}"
    expect_code 0 "$flow" plan "$scratch/night.yaml" "${words[@]}"
    shift
    for word; do expect_text "$word"; done
}
with cpu --partition=compute --account=lab --ntasks-per-node=2 --cpus-per-task=32 --mem=131072M --distribution=block:block
with gpu --partition=gpu --qos=normal --constraint=h100 --ntasks-per-node=4 --gres=gpu:4
with preemptible --partition=scavenger --qos=standby --time=30
with container --partition=gpu --gres=gpu:2
