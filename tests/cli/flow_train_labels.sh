#!/bin/sh
# Networks of patches are trained on several labels a picture and on numbers, out of tables in both
# forms; each label has its figures, the page shows what is asked, and a run takes the models.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side

# Pictures that are red or not, checked or not, and more or less bright; 3 of each of 24 patients.
python3 - <<'END'
import os, random, struct, zlib
random.seed(5)
os.makedirs("data")
def write(path, n, value):
    rows = b"".join(b"\0" + b"".join(bytes(max(0, min(255, int(v))) for v in value(x, y)) for x in range(n)) for y in range(n))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", n, n, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
lists, columns, values, two = ["path,label,patient"], ["path,red,checked,patient"], ["path,value,patient"], ["path,light,lack,patient"]
for i in range(72):
    red, checked, light = random.random() < 0.4, random.random() < 0.4, random.uniform(40, 140)
    name = f"data/{i}.png"
    write(name, 32, lambda x, y: [light + (50 if red and c == 0 else 0) + random.randint(-10, 10) + (90 if checked and (x // 2 + y // 2) % 2 else 0)
                                  for c in range(3)])
    lists.append(f"{name},{';'.join(w for w, is_there in (('red', red), ('checked', checked)) if is_there)},p{i // 3}")
    columns.append(f"{name},{int(red)},{int(checked)},p{i // 3}")
    values.append(f"{name},{light * 10:.3f},p{i // 3}")
    two.append(f"{name},{light * 10:.3f},{-light / 500:.5f},p{i // 3}")
for name, table in (("lists", lists), ("columns", columns), ("values", values), ("two", two)):
    open(name + ".csv", "w").write("\n".join(table) + "\n")
END
recipe() { # file, table, output, classes, more of train
    cat >"$1.yaml" <<END
version: 1
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx, output: $3, last_layer: fresh}
data: {csv: $2.csv}
classes: $4
split: {folds: 3}
augment: {colour: 0, stain: 0}
train: {batch: 8, optimizer: adamw, learning_rate: 0.002$5}
out: out-$1
END
}
holds() { # what is true of s, the summary
    python3 -c "import json,sys; s = json.load(open(sys.argv[1])); p = s['pooled']; sys.exit(not ($2))" "$1/summary.json" || {
        cat "$1/summary.json"
        fail "not: $2"
    }
}
filled() { # page
    ! grep -qE "\{\{|[ >\"](nan|inf|-nan)" "$1" || fail "the page is not filled: $(grep -oE ".{30}(\{\{|[ >\"](nan|inf|-nan)).{20}" "$1" | head -3)"
}

# Several labels: as lists, and as a column for each, which are the same training.
recipe lists lists sigmoid "[red, checked]" ", epochs: 24"
expect_code 0 "$flow" train lists.yaml --jobs 2
holds out-lists "p['auc']['mean'] > 0.85 and [c['class'] for c in p['classes']] == ['red', 'checked']"
holds out-lists "abs(p['auc']['mean'] - sum(c['auc']['mean'] for c in p['classes']) / 2) < 1e-9 and p['balanced_accuracy']['mean'] > 0.7"
cat out-lists/fold-*/predictions.csv | grep -c ',testing,' | grep -qx 72 || fail "not every picture is tested once"
grep -q ',testing,"*red;checked"*,[01]' out-lists/fold-*/predictions.csv || fail "no picture of both labels"
head -1 out-lists/fold-0-seed-1/predictions.csv | grep -qx "path,patient,part,truth,score_red,score_checked" || fail "titles"
grep -q "each label" out-lists/report/index.html && grep -q "<h2>Labels</h2>" out-lists/report/index.html || fail "the page lacks something"
! grep -q "<h2>Confusion" out-lists/report/index.html || fail "labels are not confused with each other"
filled out-lists/report/index.html
recipe columns columns sigmoid "[red, checked]" ", epochs: 2"
recipe short lists sigmoid "[red, checked]" ", epochs: 2"
for name in columns short; do expect_code 0 "$flow" train $name.yaml --fold 0 --seed 1; done
diff -r out-columns out-short || fail "a column for each label is another training than their list"

# Numbers: in any unit; the same bytes when it is killed; several of them.
recipe values values none "[light]" ", epochs: 16"
expect_code 0 "$flow" train values.yaml --jobs 2
holds out-values "p['r2']['mean'] > 0.7 and p['mean_absolute_error']['mean'] < 250 and p['spearman']['mean'] > 0.8"
expect_text "R2 for testing: 0."
head -1 out-values/fold-0-seed-1/history.csv | grep -qx "epoch,training_loss,validation_loss,validation_r2,learning_rate" || fail "titles"
grep -q 'circle cx=' out-values/report/index.html || fail "no points"
filled out-values/report/index.html
recipe killed values none "[light]" ", epochs: 2"
expect_code 0 "$flow" train killed.yaml --fold 0 --seed 1
mv out-killed clean-killed
HRF_PART_MS=0 HRF_CRASH_AT=train.step:7 "$flow" train killed.yaml --fold 0 --seed 1 2>/dev/null && fail "it was not killed"
expect_code 0 "$flow" train killed.yaml --fold 0 --seed 1
diff -r clean-killed out-killed || fail "other bytes after a kill"
recipe two two none "[light, lack]" ", epochs: 8"
expect_code 0 "$flow" train two.yaml --jobs 2
holds out-two "len(p['classes']) == 2 and p['classes'][1]['mean_absolute_error']['mean'] < 1 < p['classes'][0]['mean_absolute_error']['mean']"

# A run takes the models, with the same word of model.output.
make_cohort
for name in lists values; do
    make_workflow run.yaml
    output=sigmoid classes="[red, checked]"
    [ $name = lists ] || output=none classes="[light]"
    sed -i "s|model: .*|model: {file: $scratch/out-$name/fold-0-seed-1/model.onnx, output: $output, classes: $classes}|" run.yaml
    expect_code 3 "$flow" run run.yaml --out run-$name # one of the slides is cut short
done

# Mistakes, all at once.
bad() { # recipe, words of the error
    expect_code 2 "$flow" train "$1.yaml"
    shift
    for words; do expect_text "$words"; done
    ! grep -q "epoch 1:" "$scratch/err" || fail "trained before it was told: $1"
}
recipe bad lists sigmoid "[red, dark]" ", epochs: 1"
bad bad "label 'checked' is none of 'classes'"
recipe bad columns sigmoid "[red, dark]" ", epochs: 1"
bad bad "there is neither a column 'label' nor one 'dark'"
sed -i '3s/,[01],/,2,/; 4s/,[01],/,,/' columns.csv
recipe bad columns sigmoid "[red, checked]" ", epochs: 1"
bad bad "'red' is '2'; it has to be 0 or 1" "'red' is ''; it has to be 0 or 1"
sed -i '3s|,[0-9.]*,|,many,|' values.csv
recipe bad values none "[light]" ", epochs: 1"
bad bad "'many' is no number of 'classes'"
sed -i 's|csv: .*}|folders: data}|; s/\[light\]/[a;b]/; s/output: none/output: sigmoid/' bad.yaml
bad bad "'model.output' is sigmoid: labels have to be in 'data.csv'" "'classes' has 'a;b', and lists of labels are written with ';'"
