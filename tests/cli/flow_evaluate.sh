#!/bin/sh
# `evaluate` on the golden data set (tools/reference/froc_goldens.py): the official arithmetic to the
# digit, from folders and from the archive, and what is missing or wrong in a sentence.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
golden=$HRF_SOURCE_DIR/tests/golden/froc
python=/usr/bin/python3
holds() { $python -c 'import json,sys; v=json.load(open(sys.argv[1])); assert eval(sys.argv[2]), v' "$scratch/out" "$1" || fail "not so: $1"; }

compare() { # truth
    for case in plain ties hits; do
        expect_code 0 "$flow" evaluate --truth "$1" --lesions "$golden/$case" --json
        $python - "$scratch/out" "$golden/expected.json" "$case" <<'END' || fail "$case differs from the script"
import json, sys
found, wanted = json.load(open(sys.argv[1]))["froc"], json.load(open(sys.argv[2]))[sys.argv[3]]
for key, value in wanted.items():
    assert found[key] == value, (key, found[key], value)
assert found["score_ci"] is None and "lesions on 6 slides are too few: a bootstrap over slides needs 20" in found["score_ci_reason"], found
assert found["slides"] == 12 and found["missing_slides"] == []
END
    done
}
compare "$golden/truth"

# As downloaded: the annotations are still in their archive.
cp -r "$golden/truth" "$scratch/zipped"
(cd "$scratch/zipped/testing" && $python -m zipfile -c lesion_annotations.zip lesion_annotations && rm -r lesion_annotations)
compare "$scratch/zipped"

# The other rules.
expect_code 0 "$flow" evaluate --truth "$golden/truth" --lesions "$golden/plain" --evaluation jama --json
holds 'v["froc"]["slides_averaged"] == 6 and v["froc"]["evaluation"] == "jama"'

# Missing and unknown slides are one line each.
cp -r "$golden/plain" "$scratch/some"
rm "$scratch/some"/test_00[1-4].csv
echo "0.5,1,2" >"$scratch/some/test_099.csv"
expect_code 0 "$flow" evaluate --truth "$golden/truth" --lesions "$scratch/some"
expect_text "slides    8: 4 positive, 4 negative"
expect_text "4 with a truth are not in the submission (test_001, test_002, test_003, test_004)"
expect_text "1 of the submission have no truth (test_099.csv)"
expect_code 0 "$flow" evaluate --truth "$golden/truth" --lesions "$scratch/some" --evaluation strict --json
holds 'v["froc"]["slides"] == 12 and len(v["froc"]["missing_slides"]) == 4 and v["froc"]["lesions"] == 24'

# Known exclusions, and switching them off.
cp -r "$golden/truth" "$scratch/more"
cp -r "$golden/plain" "$scratch/more-plain"
(
    cd "$scratch/more/testing"
    echo "test_114,Tumor,ILC,Macro" >>reference.csv
    cp lesion_annotations/test_001.xml lesion_annotations/test_114.xml
    echo "0.9,1,2" >"$scratch/more-plain/test_114.csv"
)
for i in 01 02 03 04 05 06 07 08 09 10 11 12; do echo "Test_0$i.tif,0.$i"; done >"$scratch/scores.csv"
echo "test_114,0.99" >>"$scratch/scores.csv"
expect_code 0 "$flow" evaluate --truth "$scratch/more" --lesions "$scratch/more-plain" --slides "$scratch/scores.csv"
expect_text "excluded    test_114 (lesion task): not exhaustively annotated"
expect_code 0 "$flow" evaluate --truth "$scratch/more" --lesions "$scratch/more-plain" --slides "$scratch/scores.csv" --json
holds 'v["froc"]["slides"] == 12 and v["slide_task"]["slides"] == 13'
# Pairs of 7 positive (0.01 0.03 ... 0.11, 0.99) and 6 negative (0.02 ... 0.12): 15 + 6 of 42.
holds 'abs(v["slide_auc"] - 21 / 42) < 1e-12 and v["slide_auc_ci"][0] < 0.5 < v["slide_auc_ci"][1]'
expect_code 0 "$flow" evaluate --truth "$scratch/more" --lesions "$scratch/more-plain" --no-exclusions --exclude test_001 --json
holds 'v["froc"]["slides"] == 12 and v["excluded"][0]["reason"] == "excluded by the command line"'

# One class; an AUC of 1 has an interval with a width.
printf 'test_001,1\ntest_003,0.2\n' >"$scratch/one.csv"
expect_code 0 "$flow" evaluate --truth "$golden/truth" --slides "$scratch/one.csv" --json
holds 'v["slide_auc"] is None and "only one class among the 2 labelled slides" in v["slide_auc_reason"]'
printf 'test_001,1\ntest_003,0.7\ntest_002,0.1\ntest_004,0.2\n' >"$scratch/four.csv"
expect_code 0 "$flow" evaluate --truth "$golden/truth" --slides "$scratch/four.csv"
expect_text "1.0000 (95 % interval 0.3"
expect_text "a bootstrap has no width here"

# The operating point is chosen on other slides, and a slide in both is a leak.
printf 'test_005,0.9\ntest_007,0.6\ntest_006,0.5\ntest_008,0.65\ntest_010,0.1\n' >"$scratch/tune.csv"
expect_code 0 "$flow" evaluate --truth "$golden/truth" --slides "$scratch/four.csv" --tune "$scratch/tune.csv" --json
# At 0.6: 2 of 2 and 1 of 3 wrong, J = 2/3; at 0.9: 1 of 2, none wrong, J = 1/2.
holds 'v["operating_point"]["threshold"] == 0.6 and v["operating_point"]["slides"] == 5'
holds 'v["operating_point"]["sensitivity"] == 1 and v["operating_point"]["specificity"] == 1'
expect_code 0 "$flow" evaluate --truth "$golden/truth" --slides "$scratch/four.csv" --tune "$scratch/tune.csv" --specificity 0.9
expect_text "threshold 0.9, chosen by sensitivity at a specificity of 0.9 on the 5 slides of"
expect_text "there: sensitivity 0.5000, specificity 1.0000; here: 0.5000 and 1.0000, accuracy 0.7500"
echo "test_001,0.7" >>"$scratch/tune.csv"
expect_code 2 "$flow" evaluate --truth "$golden/truth" --slides "$scratch/four.csv" --tune "$scratch/tune.csv"
expect_text "slide test_001 is both in"

# Wrong input, each in a sentence.
wrong() { # text, words of the command...
    text=$1
    shift
    expect_code 2 "$flow" evaluate "$@"
    expect_text "$text"
}
wrong "--truth ROOT is missing" --slides "$scratch/four.csv"
wrong "nothing to judge" --truth "$golden/truth"
wrong "is not a folder" --truth "$scratch/nowhere" --slides "$scratch/four.csv"
wrong "takes official, jama or strict" --truth "$golden/truth" --slides "$scratch/four.csv" --evaluation best
printf '0.5,1.5,2\n' >"$scratch/some/test_001.csv"
wrong "test_001.csv:1: x = '1.5' is not a whole number" --truth "$golden/truth" --lesions "$scratch/some"
printf 'test_001,1\ntest_001,0\n' >"$scratch/twice.csv"
wrong "test_001 has the score 1 in line 1 and 0 in line 2" --truth "$golden/truth" --slides "$scratch/twice.csv"
echo "test_001,Normal,None,None" >>"$scratch/more/testing/reference.csv"
wrong "test_001 is Tumor in line 1 and Normal in line 14" --truth "$scratch/more" --slides "$scratch/four.csv"
cp "$HRF_SOURCE_DIR/tests/fuzz/corpus/xml/entity_bomb.xml" "$scratch/zipped/testing/test_001.xml"
wrong "declares the entity" --truth "$scratch/zipped" --lesions "$golden/plain"
: >"$scratch/zipped/testing/lesion_annotations.zip"
wrong "not a ZIP archive" --truth "$scratch/zipped" --lesions "$golden/plain"

# A run's own lesions: its report says the same as judging its files.
"$flow" demo-data "$scratch/cohort" --slides 4 --size 2600 --difficulty 0 >/dev/null 2>&1
make_workflow "$scratch/w.yaml"
# Ten slides that are not there are one line.
for i in 0 1 2 3 4 5 6 7 8 9; do echo "test_10$i,Normal,None,None"; done >>"$scratch/cohort/testing/reference.csv"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run" --set tiler.patch.size=128
expect_text "failed: 10 slides that the dataset names are not there (test_100, test_101, test_102, ...); results/labels.csv names"
expect_text "failed: test_004: "
! grep -q "^failed: test_10" "$scratch/out" || fail "absent slides are told one by one"
[ "$(grep -c "^test_10.*failed,the file '" "$scratch/run/results/labels.csv")" = 10 ] || fail "absent slides are not in labels.csv"
expect_code 0 "$flow" aggregate "$scratch/run" --set aggregate.lesions.method=components --set aggregate.lesions.threshold=0.7
expect_code 0 "$flow" evaluate --truth "$scratch/cohort" --lesions "$scratch/run/results/fp32/lesions" \
    --slides "$scratch/run/results/labels.csv" --json
cp "$scratch/out" "$scratch/judged.json"
$python - "$scratch/run/report/report.json" "$scratch/judged.json" <<'END' || fail "the report differs from evaluate"
import json, sys
report, judged = (json.load(open(f)) for f in sys.argv[1:])
own, other = report["precisions"][0]["froc"], judged["froc"]
for key, value in own.items():
    if key != "excluded":
        assert other[key] == value, (key, value, other[key])
assert own["lesions"] > 0 and own["lesions_hit"] > 0, own
assert report["precisions"][0]["slide_auc"] == judged["slide_auc"]
assert report["precisions"][0]["slide_auc_ci"] == judged["slide_auc_ci"]
assert judged["slide_task"]["missing_slides"], "a slide that failed has no score"
END
[ -s "$scratch/run/results/fp32/lesions/test_001.csv" ] || [ -s "$scratch/run/results/fp32/lesions/test_002.csv" ] || fail "no lesions"
grep -q "Lesion FROC" "$scratch/run/report/index.html" || fail "no FROC on the page"
grep -q "<h2>FROC curve" "$scratch/run/report/index.html" || fail "no FROC curve on the page"
expect_code 0 "$flow" aggregate "$scratch/run"
[ ! -e "$scratch/run/results/fp32/lesions/test_001.csv" ] || fail "stale lesions"

# Real scores of the 129 test slides: the published AUCs.
real=$HRF_SHARED_DATA/camelyon16-scores/test_truth_and_scores.csv
need_data camelyon16-scores
mkdir "$scratch/real"
cut -d, -f3-6 "$real" | tail -n +2 >"$scratch/real/reference.csv"
for pair in pred_I:0.8821 pred_II:0.7915 Method_II_noise_norm:0.9839 Method_I:0.9156; do
    expect_code 0 "$flow" evaluate --truth "$scratch/real" --slides "$real" --column "${pair%:*}"
    expect_text "AUC       ${pair#*:} (95 % interval"
done
echo "1 passed, 0 failed"
