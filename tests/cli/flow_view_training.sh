#!/bin/sh
# The viewer shows trainings while they run: their curves grow as epochs end, to nobody without the token, and the page of
# all is there when they are done.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
cd "$scratch"
export OMP_WAIT_POLICY=passive # tests run side by side
python3 "$HRF_SOURCE_DIR/tests/cli/train_pictures.py" data 24 24
python3 "$HRF_SOURCE_DIR/tests/cli/small_network.py" small.onnx
cat >train.yaml <<END
version: 1
model: {file: small.onnx, last_layer: fresh}
data: {folders: data, patient_until: _}
classes: [normal, tumor]
split: {folds: 2}
train: {batch: 8, epochs: 3, layers: 1}
out: "out <b>"
END
# One epoch of the first fold is done, and two steps of the next one, and then it is killed.
HRF_CRASH_AT=train.step:4 HRF_PART_MS=0 "$flow" train train.yaml 2>/dev/null && fail "train.step was not passed"
[ "$(wc -l <"out <b>/fold-0-seed-1/history.csv")" = 2 ] || fail "no line of the first epoch"

"$flow" view "out <b>" --leaflet "$scratch/nothing" --json >url &
viewer=$!
trap 'kill $viewer 2>/dev/null || true; rm -rf "$scratch"' EXIT
until [ -s url ]; do kill -0 $viewer || fail "the viewer ended"; sleep 0.05; done
cat >ask.py <<'END'
import http.client, json, os, sys
url = json.load(open("url"))
token = url["url"].split("/")[3]
def ask(path):
    connection = http.client.HTTPConnection("127.0.0.1", url["port"])
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read()
def training():
    status, body = ask(f"/{token}/training.json")
    assert status == 200, (status, body)
    return json.loads(body)
def row(of):
    return [of["name"], of["state"], len(of["epochs"])]
data = training()
assert data["name"] == "out <b>", data
if sys.argv[1] == "live":
    assert [row(t) for t in data["trainings"]] == [["fold-0-seed-1", "under way", 1]] and not data["has_report"], data
    progress = data["trainings"][0]["progress"]
    assert [progress[k] for k in ("epoch", "step", "steps")] == [2, 1, 3] and 0 < progress["loss"] < 5, progress
    columns = data["trainings"][0]["columns"]
    assert columns == ["epoch", "training_loss", "validation_loss", "validation_auc", "learning_rate"], columns
    loss = data["trainings"][0]["epochs"][0][1]
    line = open("out <b>/fold-0-seed-1/history.csv").read().splitlines()[1]
    assert abs(loss - float(line.split(",")[1])) < 1e-8 * loss, (loss, line)
    for path in ("/", "/training.json", "/" + token[:-1] + ("1" if token[-1] == "0" else "0") + "/training.json"):
        assert ask(path)[0] == 403, path
    for path in ("report.html", "run.json", "../train.yaml", "fold-0-seed-1/history.csv", "slide/1/zoom.json"):
        assert ask(f"/{token}/{path}")[0] == 404, path
    for path, text in (("", b"training_view.js"), ("training_view.js", b"training.json"), ("training_view.css", b"svg")):
        assert ask(f"/{token}/{path}")[0] == 200 and text in ask(f"/{token}/{path}")[1], path
    # A history that is a link, or a FIFO, is not followed.
    kept = "out <b>/fold-0-seed-1/history.csv"
    os.rename(kept, "kept")
    os.symlink(os.path.abspath("kept"), kept)
    assert row(training()["trainings"][0])[2] == 0
    os.unlink(kept)
    os.mkfifo(kept)
    assert row(training()["trainings"][0])[2] == 0
    os.unlink(kept)
    os.rename("kept", kept)
    # Progress that is not whole is not shown.
    for text in ("", "{", '{"epoch":2,"step":3,"steps":2,"loss":1}', '{"epoch":0,"step":1,"steps":2,"loss":1}', "[1]", "x" * 5000):
        with open("out <b>/fold-0-seed-1/progress.json", "w") as f: f.write(text)
        assert training()["trainings"][0]["progress"] is None, text
else:
    assert [row(t) for t in data["trainings"]] == [[f"fold-{k}-seed-1", "done", 3] for k in (0, 1)] and data["has_report"], data
    assert all(t["progress"] is None for t in data["trainings"]) and not os.path.exists("out <b>/fold-0-seed-1/progress.json"), data
    status, body = ask(f"/{token}/report.html")
    assert status == 200 and body == open("out <b>/report/index.html", "rb").read()
END
expect_code 0 python3 ask.py live
expect_code 0 "$flow" train train.yaml
expect_code 0 python3 ask.py done
kill $viewer
wait $viewer || fail "the viewer ended with $?"
