#!/bin/sh
# The random forest on real heat-map features of CAMELYON16's training slides, out of fold: how good it is, that it is
# the same again, and that a leak is refused.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
python=/usr/bin/python3
[ -e "$HRF_BIN_DIR/../lib/hires-flow/hrf_forest.so" ] || { echo "built without XGBoost"; exit 77; }
real=$HRF_SHARED_DATA/camelyon16-scores
need_data camelyon16-scores

# Two folds of the 266 real training slides; the AUC of each half is that of a forest of the other.
$python - "$real" "$scratch" <<'END'
import sys
real, scratch = sys.argv[1:]
folds = [[], []]
for kind in ("normal", "tumor"):
    lines = open(f"{real}/train_features_{kind}.csv").read().splitlines()
    for i, line in enumerate(lines[1:]):
        folds[i % 2].append(line)
for i in range(2):
    open(f"{scratch}/fold{i}.csv", "w").write("\n".join([lines[0]] + folds[i]) + "\n")
END
for i in 0 1; do
    expect_code 0 "$flow" forest train "$scratch/fold$i.csv" --out "$scratch/forest$i.json" --trees 200
    expect_code 0 "$flow" forest score "$scratch/fold$((1 - i)).csv" --forest "$scratch/forest$i.json" --out "$scratch/scores$i.csv"
done
mkdir "$scratch/names"
tail -q -n +2 "$scratch"/fold?.csv | cut -d, -f2,3 | sed 's/,1/,Tumor/; s/,0/,Normal/' >"$scratch/names/reference.csv"
{ cat "$scratch/scores0.csv"; tail -n +2 "$scratch/scores1.csv"; } >"$scratch/scores.csv"
expect_code 0 "$flow" evaluate --truth "$scratch/names" --slides "$scratch/scores.csv" --json
$python -c 'import json,sys; v=json.load(open(sys.argv[1])); print(v["slide_auc"], v["slide_auc_ci"]); assert v["slide_auc"] > 0.95' "$scratch/out" || fail "the forest is worse than it was"

# The same forest again, a leak, and one that is meant.
expect_code 0 "$flow" forest train "$scratch/fold0.csv" --out "$scratch/again.json" --trees 200
cmp "$scratch/again.json" "$scratch/forest0.json" || fail "another forest of the same slides"
expect_code 2 "$flow" forest score "$scratch/fold0.csv" --forest "$scratch/forest0.json"
expect_text "a leak: the forest was trained on normal_001"
expect_code 0 "$flow" forest score "$scratch/fold0.csv" --forest "$scratch/forest0.json" --seen
expect_text "tumor_001,0."
echo '{"forest": {"features": [], "slides": []}, "xgboost": {}}' >"$scratch/other.json"
expect_code 2 "$flow" forest score "$scratch/fold1.csv" --forest "$scratch/other.json"
expect_text "is a forest of other features"
echo "1 passed, 0 failed"
