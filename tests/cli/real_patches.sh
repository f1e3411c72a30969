#!/bin/sh
# Patches that are new to the calibration, real ones where there are any: BF16, FP16 and INT8 label
# them as FP32 does.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
any_patches
python=/usr/bin/python3
$python -c 'import numpy, openslide, PIL' 2>/dev/null || { echo "$python has no numpy, openslide and PIL"; exit 77; }
if [ "$patches" = synthetic ]; then
    "$HRF_BIN_DIR/../tests/make_mosaic" synthetic "$scratch/mosaics" 6
    patches=$scratch/patches
    $python "$HRF_SOURCE_DIR/tests/cli/mosaic_patches.py" "$scratch/mosaics" "$patches"
fi
"$flow" demo-data "$scratch/cohort" --slides 4 --size 2600 --difficulty 0 >/dev/null 2>&1
$python "$HRF_SOURCE_DIR/tools/reference/fit_methods.py" --bin "$HRF_BIN_DIR" --model "$HRF_SOURCE_DIR/models/demo.onnx" \
    --cohort "$scratch/cohort" --patches "$patches" --samples 128 --json >"$scratch/out" || fail "fit_methods.py"
$python - "$scratch/out" <<'END' || fail "a precision does not agree with FP32"
import json, sys
result = json.load(open(sys.argv[1]))
assert result["patches"] > 50
for row in result["rows"]:
    print(row)
    # These two may clip what made-up tissue does not have: one patch of the 57, near 0.5, changes side.
    narrow = row["precision"] in ("int8 percentile", "int8 entropy")
    assert row["agreement"] >= (0.95 if narrow else 0.99), row
    assert row["accuracy"] > 0.9, row  # all precisions may not agree on nonsense
END
echo "1 passed, 0 failed"
