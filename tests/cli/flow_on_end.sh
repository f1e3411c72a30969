#!/bin/sh
# Others are told: the command of on_end or --notify once at each end of a run, whatever the end, and
# its failure changes nothing; the file of metrics is valid at every moment.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
make_workflow "$scratch/w.yaml"
cat >"$scratch/tell" <<'END2'
#!/bin/sh
n=$(($(ls "$told" | wc -l) + 1))
printf '%s\n' "$@" >"$told/$n.words"
cat >"$told.tmp" && mv "$told.tmp" "$told/$((n)).json"
[ ! -e "$told.fails" ] || { echo "the mail server is away" >&2; exit 7; }
END2
chmod +x "$scratch/tell"
mkdir "$scratch/told"
export told=$scratch/told
last() { ls -t "$told"/*.json | head -n 1; }
holds() { python3 -c 'import json,sys; v=json.load(open(sys.argv[1])); assert eval(sys.argv[2]), v' "$(last)" "$1" || fail "not so: $1"; }
count() { ls "$told"/*.json 2>/dev/null | wc -l; }

# --notify: words with spaces and quotes, no shell; the exit code is the run's.
metrics=$scratch/collector.prom
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set metrics="$metrics" \
    --notify "'$scratch/tell' \"two words\" \$HOME; it\\'s *"
[ "$(count)" = 1 ] || fail "told $(count) times"
printf 'two words\n$HOME;\nit'"'"'s\n*\n' | cmp - "$told/1.words" || fail "other words: $(cat "$told/1.words")"
holds 'v["end"] == "done" and v["exit_code"] == 3 and v["error"] is None and v["number"] == 1 and len(v["run_id"]) == 32'
holds 'v["slides"] == {"total": 4, "done": 3, "failed": 1, "no_tissue": 0, "excluded": 0} and [f["slide"] for f in v["failed"]] == ["test_004"]'
valid_metrics() {
    python3 - "$metrics" "$1" <<'END2' || fail "metrics"
import re, sys
text, wanted = open(sys.argv[1]).read(), sys.argv[2]
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as new
    from prometheus_client.parser import text_string_to_metric_families as old
    families = {f.name: f for f in new(text)}
    assert {f.name for f in old(text)} == set(families)
    values = {(s.name, tuple(v for k, v in sorted(s.labels.items()) if k not in ("run", "directory"))): s.value for f in families.values() for s in f.samples}
except ImportError:  # a plain reading of the same lines
    values = {}
    assert text.endswith("\n# EOF\n")
    for line in text.splitlines()[:-1]:
        if line.startswith("# "):
            assert re.fullmatch(r"# (HELP \w+ .*|TYPE \w+ gauge)", line), line
            continue
        name, labels, value = re.fullmatch(r'(\w+)\{((?:\w+="(?:[^"\\]|\\.)*",?)+)\} (\S+)', line).groups()
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels)
        assert {"run", "directory"} <= {k for k, _ in pairs}
        values[name, tuple(v for k, v in sorted(pairs) if k not in ("run", "directory"))] = float(value)
assert eval(wanted), values
END2
}
valid_metrics 'values["hires_flow_slides", ("done",)] == 3 and values["hires_flow_slides", ("failed",)] == 1 and values["hires_flow_driven", ()] == 0 and values["hires_flow_jobs", ()] == 0'
valid_metrics 'values["hires_flow_patches_scored", ()] == values["hires_flow_patches_known", ()] == 77 and values["hires_flow_tasks", ("infer", "done")] == 6'
! ls "$metrics".tmp.* 2>/dev/null || fail "a temporary file is left"

# In the workflow; its failure is said and changes nothing; the next end has the next number.
echo "on_end: [$scratch/tell, again]" >>"$scratch/w.yaml"
touch "$told.fails"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set "name='a \"b\" \\ c'" --set metrics="$metrics"
expect_text "hires-flow run: on_end: '$scratch/tell' ended with exit code 7: the mail server is away"
[ "$(count)" = 2 ] || fail "told $(count) times"
holds 'v["number"] == 2 and v["name"] == "a \"b\" \\ c"'
valid_metrics 'values["hires_flow_driven", ()] == 0'
rm "$told.fails"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set 'on_end=[/no/such/command]' --set metrics="$scratch/no/folder/x.prom"
expect_text "hires-flow run: on_end: "
expect_text "warning run: metrics: "
[ "$(count)" = 2 ] || fail "another command was started"

# Killed before the end: nobody is told; the one who continues tells once.
expect_code 137 env HRF_CRASH_AT=run.report.before "$flow" run "$scratch/w.yaml" --out "$scratch/killed"
[ "$(count)" = 2 ] || fail "told of no end"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/killed"
[ "$(count)" = 3 ] || fail "told $(count) times"
holds 'v["number"] == 1 and v["end"] == "done"'

# One that never begins
expect_code 2 "$flow" run "$scratch/w.yaml" --out "$scratch/never" --set model.file=/no/model.onnx
[ ! -e "$scratch/never" ] || fail "it began"
expect_code 2 "$flow" run "$scratch/w.yaml" --notify "'open"
expect_text "a quote is not closed"
expect_code 0 "$flow" infer "$scratch/cohort/testing/images/test_001.tif" --model "$HRF_SOURCE_DIR/tests/golden/classifier.onnx" --size 64 --out "$scratch/one" --notify "$scratch/tell one"
holds 'v["exit_code"] == 0 and v["slides"]["done"] == 1'
echo "1 passed, 0 failed"
