#!/bin/sh
# The viewer: what it answers and to whom, and its page in a browser: a slide's patches over its
# pixels, no error on the console, and a slide's name that is markup shown as text.
. "$HRF_SOURCE_DIR/tests/cli/lib.sh"
make_cohort
images=$scratch/cohort/testing/images
odd='<img src=x onerror=alert(1)>'
mv "$images/test_002.tif" "$images/$odd.tif"
cat >"$scratch/w.yaml" <<END
version: 1
name: "view </title><b>"
dataset: {layout: files, files: ["$images/*.tif"]}
tiler: {patch: {size: 64, mpp: 0.5}, tissue: {min_patches: 4}}
model: {file: $HRF_SOURCE_DIR/tests/golden/classifier.onnx}
precision: [fp32, bf16]
engine: {batch: 8}
END
expect_code 2 "$flow" view "$scratch/nothing"
expect_text "there is no run"
expect_code 3 "$flow" run "$scratch/w.yaml" --out "$scratch/run"
expect_code 4 "$flow" view "$scratch/run" --leaflet "$scratch"
expect_text "libjs-leaflet"
expect_code 2 "$flow" view "$scratch/run" --port 70000
[ -e /usr/share/javascript/leaflet/leaflet.js ] || { echo "libjs-leaflet is missing" >&2; exit 77; }

"$flow" view "$scratch/run" --json >"$scratch/url" &
viewer=$!
live=
trap 'kill $viewer $live 2>/dev/null || true; "$flow" cancel "$scratch/live" >/dev/null 2>&1 || true; rm -rf "$scratch" 2>/dev/null || true' EXIT
until [ -s "$scratch/url" ]; do kill -0 $viewer || fail "the viewer ended"; sleep 0.05; done

make_deadly_slide "$images/test_004.tif" # since it was scored
cat >"$scratch/ask.py" <<'END'
import csv, glob, http.client, json, os, shutil, socket, sys
url, run, odd, deadly = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3], sys.argv[4]
token = url["url"].split("/")[3]

def ask(path, method="GET", host=None):
    connection = http.client.HTTPConnection("127.0.0.1", url["port"])
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    return answer.status, answer.read(), answer

def get(path):
    status, body, answer = ask(f"/{token}/{path}")
    assert status == 200, (path, status, body)
    return body, answer

# Only with the token, only by GET, only as this machine.
for path in ("/", "/run.json", "/" + "0" * len(token) + "/", "/" + token[:-1] + "/", "/" + token):
    assert ask(path)[0] == 403, path
assert ask(f"/{token}/", host="evil.example")[0] == 403
assert ask(f"/{token}/", host="localhost:9999")[0] == 200
assert ask(f"/{token}/", method="POST")[0] == 405
for path in ("../run.db", "slide/1/tile/0/0/0.jpg/x", "slide/x/zoom.json", "slide/99/zoom.json", "slide/1/scores/../x.json",
             "slide/1/tile/99/0/0.jpg", "slide/1/tile/2/-1/0.jpg", "slide/1/tile/2/99999999999/0.jpg", "slide/-1/tissue.png"):
    assert ask(f"/{token}/{path}")[0] == 404, path
page, answer = get("")
assert "script-src 'self'" in answer.getheader("Content-Security-Policy") and answer.getheader("Referrer-Policy") == "no-referrer"

data = json.loads(get("run.json")[0])
colours = data["colours"]  # the report's: viridis, red and blue on white, and the positive class red
assert (colours["rising"][0], colours["diverging"][16], colours["classes"]) == ([71, 1, 85], [247, 247, 247], [[47, 120, 183], [200, 69, 47]]), colours
slides = {slide["name"]: slide for slide in data["slides"]}
assert odd in slides and data["precisions"] == ["fp32", "bf16"]
assert sum(slide["state"] == "failed" for slide in slides.values()) == 1
assert json.loads(get("status.json")[0])["slides"]["failed"] == 1

# The scores are those of the run's table, patch by patch.
slide = slides["test_001"]
patches = json.loads(get(f"slide/{slide['id']}/patches.json")[0])
scores = json.loads(get(f"slide/{slide['id']}/scores/bf16.json")[0])
rows = list(csv.DictReader(open(f"{run}/results/bf16/model-outputs-csv/test_001.csv")))
assert len(rows) * 2 == len(patches["xy"]) == len(scores["values"]) and scores["classes"] == 2
for i, row in enumerate(rows):
    assert (int(row["minx"]), int(row["miny"])) == tuple(patches["xy"][2 * i : 2 * i + 2])
    assert abs(float(row["prob_tumor"]) - scores["values"][2 * i + 1]) < 1e-4

# Every tile of every zoom is a picture.
zoom = json.loads(get(f"slide/{slide['id']}/zoom.json")[0])
assert 256 << zoom["highest"] >= max(zoom["width"], zoom["height"])
n = 0
for z in range(zoom["lowest"], zoom["highest"] + 1):
    span = 256 << (zoom["highest"] - z)
    for x in range(-(-zoom["width"] // span)):
        for y in range(-(-zoom["height"] // span)):
            assert get(f"slide/{slide['id']}/tile/{z}/{x}/{y}.jpg")[0][:3] == b"\xff\xd8\xff"
            n += 1
assert get(f"slide/{slide['id']}/tissue.png")[0][:4] == b"\x89PNG"

# A slide that ends the process which reads it: it is named, each time, and others are still shown.
for _ in range(6):
    status, body, _ = ask(f"/{token}/slide/{slides[deadly]['id']}/tile/8/0/0.jpg")
    assert status == 404 and b"ends the process that reads it" in body and deadly.encode() in body, body
    assert get(f"slide/{slide['id']}/tile/{zoom['highest']}/0/0.jpg")[0][:3] == b"\xff\xd8\xff"
print(n, "tiles")

# A log is a regular file of the run: a link to one elsewhere, also as the attempt's folder, and a FIFO are refused.
job = os.path.basename(glob.glob(run + "/jobs/tile-*.a1")[0])
folder, name = f"{run}/jobs/{job}", job.split(".a")[0]
log = lambda: ask(f"/{token}/job/{name}/log.txt")
assert log()[0] == 200, log()
outside = os.path.dirname(run) + "/outside"
os.makedirs(outside)
open(outside + "/log", "w").write("secret\n")
os.rename(folder, folder + ".kept")
os.symlink(outside, folder)
assert log()[0] == 404 and b"through a link" in log()[1], log()
os.unlink(folder)
os.makedirs(folder)
os.symlink(outside + "/log", folder + "/log")
assert log()[0] == 404 and b"through a link" in log()[1], log()
os.unlink(folder + "/log")
os.mkfifo(folder + "/log")
assert log()[0] == 404 and b"is a FIFO" in log()[1], log()
shutil.rmtree(folder)
os.rename(folder + ".kept", folder)

# Who does not show the token is closed soon, and keeps nobody out; who does is not.
mine = http.client.HTTPConnection("127.0.0.1", url["port"])
for _ in range(2):
    mine.request("GET", f"/{token}/status.json")
    assert mine.getresponse().read()
    silent = [socket.create_connection(("127.0.0.1", url["port"])) for _ in range(20)]
    assert all(s.recv(1) == b"" for s in silent)
END
expect_code 0 python3 "$scratch/ask.py" "$scratch/url" "$scratch/run" "$odd" test_004
cat "$scratch/out"

# In a browser: clicks, keys, the pointer.
if command -v chromium >/dev/null; then
    address() { python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["url"])' "$1"; }
    expect_code 0 python3 "$HRF_SOURCE_DIR/tests/cli/browse_view.py" "$(address "$scratch/url")" "$scratch/run" test_001 "$odd" "$scratch"
    cat "$scratch/out"

    # A run while it runs: its jobs with their logs, patches a second, the time left.
    "$flow" run "$scratch/w.yaml" --out "$scratch/live" --set tiler.patch.stride=1 --set tiler.patch.size=16 --set engine.batch=4 \
        --set report.geojson=false --set report.csv=false >"$scratch/live.log" 2>&1 &
    until [ -e "$scratch/live/run.db" ] && "$flow" status "$scratch/live" >/dev/null 2>&1; do sleep 0.1; done
    "$flow" view "$scratch/live" --json >"$scratch/live-url" &
    live=$!
    until [ -s "$scratch/live-url" ]; do kill -0 $live || fail "the viewer ended"; sleep 0.05; done
    expect_code 0 python3 "$HRF_SOURCE_DIR/tests/cli/browse_live.py" "$(address "$scratch/live-url")" "$scratch"
    cat "$scratch/out"
    "$flow" cancel "$scratch/live" >/dev/null 2>&1 || true
    kill $live
fi
kill $viewer
wait $viewer || fail "the viewer ended with $?"
