#!/bin/sh
# A run from nothing, again, with other settings; its exit codes, files and messages.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"

expect_code 0 "$flow" check "$scratch/w.yaml"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_text "4 slides: 3 done, 1 failed"
expect_text "failed: test_004"
for file in results/labels.csv report/index.html report/report.json workflow.yaml run.db \
    results/fp32/model-outputs-csv/test_001.csv results/fp32/heatmaps/test_002.png \
    results/fp32/model-outputs-geojson/test_002.geojson.gz; do
    [ -s "$scratch/run/$file" ] || fail "$file is missing"
done
head -n 1 "$scratch/run/results/labels.csv" | grep -qx 'slide,label,score,precision,truth,state,reason,score_normal,score_tumor' || fail "header"
cp -r "$scratch/run/results" "$scratch/first"

# Again: nothing is done twice, the bytes stay.
n=$(sqlite3 "$scratch/run/run.db" "SELECT count(*) FROM event WHERE subject='task'")
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
[ "$n" = "$(sqlite3 "$scratch/run/run.db" "SELECT count(*) FROM event WHERE subject='task'")" ] || fail "work done twice"
diff -r "$scratch/first" "$scratch/run/results" || fail "the results changed"

# Another threshold aggregates only; another directory gives the same bytes.
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set aggregate.threshold=0.99
[ "$n" = "$(sqlite3 "$scratch/run/run.db" "SELECT count(*) FROM event WHERE subject='task'")" ] || fail "a threshold scored again"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/other" --set executor.max_jobs=1 --set executor.patches_per_job=7
diff -r "$scratch/first" "$scratch/other/results" || fail "job sizes change the results"

expect_code 0 "$flow" status "$scratch/run"
expect_text "3 done, 1 failed"
expect_code 0 "$flow" why "$scratch/run" test_004
expect_text "test_004: failed"
expect_code 0 "$flow" report "$scratch/run"
expect_code 0 "$flow" plan "$scratch/w.yaml"
expect_code 2 "$flow" why "$scratch/run" nobody
expect_code 0 "$flow" why "$scratch/run"
expect_text "test_004: failed: "
expect_text "3 of 4 slides are done"
expect_code 0 "$flow" why "$scratch/run" --json
python3 - "$scratch/out" <<'END'
import json, sys
v = json.load(open(sys.argv[1]))
assert v["slides"] == {"total": 4, "done": 3}, v
assert [(s["slide"], s["state"]) for s in v["not_done"]] == [("test_004", "failed")], v
assert "is cut short" in v["not_done"][0]["reason"], v
END
expect_code 0 "$flow" why "$scratch/run" test_004 --json
job=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["tasks"][0]["jobs"][0]["job"])' "$scratch/out")
expect_code 0 "$flow" why "$scratch/run" "$job" --json
python3 - "$scratch/out" "$job" <<'END'
import json, sys
v = json.load(open(sys.argv[1]))
assert v["job"] == sys.argv[2] and v["attempts"][0]["attempt"] == 1 and v["attempts"][0]["ended"], v
assert "test_004" in [t["slide"] for t in v["attempts"][0]["tasks"]], v
END
expect_code 2 "$flow" status "$scratch/nowhere"

# What cannot be run is refused with a sentence.
expect_code 2 "$flow" run "$scratch/w.yaml" --out "$scratch/x" --set precision='[tf32]'
expect_text "tf32 belongs to GPUs"
expect_code 2 "$flow" run "$scratch/w.yaml" --out "$scratch/x" --set model.file=/nonexistent.onnx
expect_text "does not exist"
expect_code 2 "$flow" run "$scratch/w.yaml" --set tilr.patch.size=3
expect_text "did you mean"
expect_code 2 "$flow" run
expect_code 2 "$flow" rnu
expect_text "did you mean 'run'"
expect_code 0 "$flow" --help
expect_code 0 "$flow" run --help
echo "1 passed, 0 failed"
