#!/bin/sh
# What plan says of ranks, before anything runs: by measured costs, by a machine file, in JSON.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
export XDG_CACHE_HOME="$scratch/cache"
model="$HRF_SOURCE_DIR/tests/golden/classifier.onnx"
machine="$HRF_SOURCE_DIR/machines/h200-8.yaml"

# Nothing measured yet: it says so, and how to measure.
expect_code 0 "$flow" plan "$scratch/w.yaml"
expect_text "network   fp32: about "
expect_text "costs: assumed; 'profile' of the network would measure them"
# Patches, time and disk of slides that nobody has tiled: the estimate and what it is from.
expect_text "patches   about "
expect_text "by a look at all 3 of them"
expect_text "from 2 times a look at each of 3 slides just now"
expect_text "disk      about "
expect_text "test_004.tif' is cut short"
expect_text "; whole batches are 86 patches (engine.batch)"
! grep -q "^ranks\|rank stage" "$scratch/out" || fail "a table of ranks for one rank"
"$flow" plan "$scratch/w.yaml" --set model.output=embedding --json >"$scratch/plan.json" || fail "plan of embeddings"
python3 - "$scratch/plan.json" <<'END' || fail "the disk of embeddings"
import json, sys
forecast = json.load(open(sys.argv[1]))["forecast"] # two numbers of 4 bytes and two of 8 for each patch
assert forecast["disk"]["embeddings"] == round(forecast["patches"]["expected"] * (2 * 4 + 2 * 8)) > 0, forecast
END
expect_code 0 "$flow" plan "$scratch/w.yaml" --layout single
expect_text "ranks     fp32, predicted for one batch:"
expect_text "assumed; 'tune-comm' would measure it"
expect_text "assumed; 'profile' of the network would measure them"

# Measured: both tables are found again.
expect_code 0 "$flow" tune-comm --largest 65536
expect_text "loop, same process"
expect_code 0 "$flow" profile --model "$model" --size 64 --runs 1 --ranks 1
expect_text "kept in $scratch/cache/hires-flow/costs/"
expect_code 0 "$flow" plan "$scratch/w.yaml" --layout spatial=2
expect_text "costs     $scratch/cache/hires-flow/costs/"
expect_text "    2  spatial=2"

# A step of training, by costs of the nodes that it alone has.
expect_code 0 "$flow" profile --train --model "$model" --size 64 --runs 1 --ranks 2
expect_text "ConvWeightGradient"
expect_code 0 "$engine" bench --model "$model" --size 64 --loss cross_entropy --device cpu --layout spatial=2 --runs 1 --predict
expect_text "rank 1: predicted work"

# Ranks that are processes: other messages, which nobody measured here.
expect_code 0 "$flow" plan "$scratch/w.yaml" --set executor.local.ranks=2 --set engine.parallel.spatial=2
expect_text "messages between processes (node) assumed: 'tune-comm --comm mpi'"

# A machine that one does not own, the best layout for every number of ranks, a picture.
expect_code 0 "$flow" plan "$scratch/w.yaml" --cluster "$machine" --ranks 1..8
expect_text "machine   H200, 8 in a node"
expect_text "    8  data="
expect_code 0 "$flow" plan "$scratch/w.yaml" --cluster "$machine" --layout spatial=N --ranks 3 \
    --timeline "$scratch/t.json"
"$HRF_SOURCE_DIR/tools/draw" timeline "$scratch/t.json" "$scratch/t.svg"
grep -q 'on 3 ranks' "$scratch/t.svg" || fail "no timeline"
[ "$(grep -c '% computing' "$scratch/t.svg")" = 3 ] || fail "not three ranks"
expect_code 2 "$engine" plan --model "$model" --size 64 --ranks 1 --timeline "$scratch/t.svg"
expect_text "name it .json"
# Two ranks of 4 s: one computes in the first quarter, one waits for two and then computes.
printf '%s' '{"title": "a <b> & \"c\"", "subtitle": "", "seconds": 4, "ranks": [[["compute", 0, 1]],
    [["wait", 0, 2], ["compute", 2, 4]]]}' >"$scratch/t.json"
"$HRF_SOURCE_DIR/tools/draw" timeline "$scratch/t.json" "$scratch/t.svg"
for part in 'a &lt;b&gt; &amp; &quot;c&quot;' '<rect x="110" y="78.0" width="250" height="20.8" fill="#0072b2"' \
    '<rect x="110" y="104.0" width="500" height="20.8" fill="#d9d9d9"' '<rect x="610" y="104.0" width="500"'; do
    grep -qF "$part" "$scratch/t.svg" || fail "no $part"
done
"$flow" plan "$scratch/w.yaml" --cluster "$machine" --ranks 2 --json > "$scratch/plan.json" ||
    fail "plan --json"
/usr/bin/python3 - "$scratch/plan.json" <<'END' || fail "the JSON is not as it should be"
import json, sys
layout = json.load(open(sys.argv[1]))["layouts"][0]
assert layout["known"]["machine"]["name"] == "H200, 8 in a node"
best = layout["layouts"][0]
assert best["ranks"] == 2 and len(best["per_rank"]) == 2 and best["fits"]
assert 0 < best["efficiency"] <= 1.0001 and best["cost_origins"]["modelled"] == 1
END

# What an option asks for and cannot be had is an error, told beside the rest of the plan.
expect_code 2 "$flow" plan "$scratch/w.yaml" --ranks x
expect_text "hires-flow plan: --ranks 'x' is not a list of numbers"
expect_code 2 "$flow" plan "$scratch/w.yaml" --cluster "$scratch/nowhere.yaml" --json
expect_text '"error":"cannot open'

# A sweep: every layout simulated, those of two ranks measured too where there are two processors.
expect_code 0 "$flow" bench sweep --model "$model" --size 64 --batch 2 --ranks 4 \
    --precisions fp32,int8 --measure --runs 1 --out "$scratch/sweep"
"$HRF_SOURCE_DIR/tools/draw" sweep "$scratch/sweep" >/dev/null || fail "no charts"
for picture in memory throughput pipeline bidirectional; do
    grep -q '<circle' "$scratch/sweep/$picture.svg" || fail "$picture.svg is empty"
done
grep -q '^spatial,fp32,1,"single",measured' "$scratch/sweep/sweep.csv" || fail "nothing measured"
grep -q '^spatial + bidirectional,int8,4,"spatial=2,stages=2,microbatches=2,bidirectional",simulated' \
    "$scratch/sweep/sweep.csv" || fail "a row is missing"
[ "$(grep -c '<svg' "$scratch/sweep/index.html")" = 4 ] || fail "the page lacks a picture"
# 440 px for 1 to 4 ranks by doubling, 220 px for 0 to 10 images/s; what was measured is filled.
head=family,precision,ranks,layout,origin,images_per_second,seconds_per_batch,efficiency,peak_memory_bytes,model,size,batch,machine,costs
more=1,1,0,m,64,2,a,b
printf '%s\n' "$head" "spatial,fp32,1,single,measured,10,$more" "layers,fp32,2,x,simulated,5,$more" \
    "layers,fp32,4,x,simulated,0,$more" >"$scratch/sweep/sweep.csv"
"$HRF_SOURCE_DIR/tools/draw" sweep "$scratch/sweep" >/dev/null || fail "no charts"
for part in 'cx="80.0" cy="40.0" r="3.5" fill="#0072b2"' 'd="M300.0 150.0L520.0 260.0"' \
    'cx="300.0" cy="150.0" r="3.5" fill="white"'; do
    grep -qF "$part" "$scratch/sweep/pipeline.svg" || fail "no $part"
done
expect_code 2 "$flow" bench sweep --model "$model" --batch 3 --out "$scratch/sweep"
expect_text "must be even"

# The layout that is chosen runs.
expect_code 0 "$flow" bench engine --model "$model" --size 64 --batch 2 --runs 1 --layout auto --json
expect_text '"layout":"'

# What cannot be is refused with what would do.
engine="$HRF_BIN_DIR/hires-engine"
expect_code 2 "$engine" plan --model "$model" --layout stages=400
expect_text "at most stages="
expect_code 2 "$engine" plan --model "$model" --ranks 0..4
expect_text "--ranks '0..4' is not a list of numbers"
expect_code 2 "$engine" plan --model "$model"
expect_text "--ranks gives the numbers of ranks to find a layout for"
expect_code 2 "$engine" plan --model "$model" --layout spatial=2 --ranks 2
expect_text "write N where --ranks is to give it"
expect_code 1 "$engine" plan --model "$model" --cluster /nowhere.yaml --ranks 2
expect_text "/nowhere.yaml"
expect_code 2 "$engine" plan --model "$model" --size 256 --ranks 2 --memory 0.001
expect_text "no layout of 2 ranks keeps below 0.00 GiB a rank"

# One rank that holds too much: how many bands, what is kept or computed twice. Of this machine the
# weights are counted as its kernels hold them.
expect_code 0 "$engine" plan --model resnet18 --size 2048 --layout single --memory 0.25 \
    --cluster "$HRF_SOURCE_DIR/machines/h200-8.yaml"
expect_text "  does not fit"
expect_text "in 4 bands, "
expect_code 0 "$engine" plan --model resnet18 --size 2048 --layout bands=keep --memory 0.3
expect_text " MiB of rows kept"
expect_code 0 "$engine" plan --model resnet18 --size 2048 --layout bands=recompute --memory 0.3
expect_text " % computed twice"
expect_code 2 "$engine" plan --model resnet18 --size 2048 --layout spatial=2,bands=keep
expect_text "has 2 ranks, and bands are for one"
expect_code 2 "$engine" plan --model resnet18 --size 2048 --layout bands=some
expect_text "bands=auto, keep or recompute"
expect_code 0 "$engine" plan --model resnet18 --size 2048 --layout single --memory 0.001
expect_text "nor in bands: "
echo "1 passed, 0 failed"
