# fault: none, a network finds the tissue and INT8 is calibrated by jobs
# how: a run of fp32 and int8, then another run directory with the same cache
# on: cluster, fake
# promise: the second run finds the scales (cached, 0 s, no calibrate job) and gives the bytes of the first
. "$HRF_SOURCE_DIR/tests/slurm/lib.sh"
network=$HRF_SOURCE_DIR/tests/golden/tissue/purple.onnx
both=(--set precision="[fp32,int8]" --set calibrate.samples=24 --set tiler.tissue.method=onnx
    --set "tiler.tissue.model=$network" --set tiler.tissue.mpp=2 --set tiler.tissue.size=64
    --set tiler.tissue.mean="[0,0,0]" --set tiler.tissue.std="[1,1,1]")
start "${both[@]}"
ended 3
[ "$(ls -d "$run"/jobs/calibrate-* | wc -l)" -ge 1 ] || tell "no calibrate job"
[ "$(squeue -h -r -t all -o '%j %T' | grep -c COMPLETED)" -ge 3 ] || tell "they were no jobs of Slurm"
grep -q "$(sha256sum <"$network" | cut -d' ' -f1)" "$run/report/report.json" || tell "no tissue by the network"
mv "$run" "$scratch/first"
start "${both[@]}"
ended 3
! ls -d "$run"/jobs/calibrate-* 2>/dev/null || tell "it was calibrated again"
python3 - "$scratch/first" "$run" <<'END' || tell "the reports do not say so"
import json, sys
first, second = (json.load(open(d + "/report/report.json"))["calibration"] for d in sys.argv[1:])
print(first, second)
assert first["key"] == second["key"] and not first["cached"] and first["seconds"] > 0
assert second["cached"] and second["seconds"] == 0
END
diff -r "$scratch/first/results" "$run/results" >/dev/null || tell "other bytes in the second run"
expect_code 3 "$flow" run "$cohort/w.yaml" --out "$scratch/local" --executor local "${both[@]}"
diff -r "$scratch/local/results" "$run/results" >/dev/null || tell "other bytes than a local run with these scales"
