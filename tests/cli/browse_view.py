"""Uses `hires-flow view` in a browser as a person does: clicks, keys, the pointer.

usage: browse_view.py URL RUN SLIDE HOSTILE_SLIDE FOLDER
"""
import csv, glob, os, re, sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from devtools import Browser

url, run, slide, hostile, folder = sys.argv[1:]
picture = lambda page, name: page.picture(os.path.join(folder, name + ".png"))
LOADED = "shown && shown.grid && document.querySelectorAll('#gallery button').length > 0"
OVERLAY = "document.querySelector('img.leaflet-image-layer.overlay')"


def choose_slide(page, name):
    page.click("#search")
    page.value("document.getElementById('search').select()")
    page.type(name)
    assert page.value("document.querySelectorAll('#slides button').length") == 1, "the search finds one slide"
    page.click("#slides button")
    page.wait(f"shown.slide.name === {name!r} && {LOADED}")


def chosen(page, selector):
    return page.value(f"document.querySelector({selector!r}).value")


def scores_of(precision):
    rows = csv.DictReader(open(f"{run}/results/{precision}/model-outputs-csv/{slide}.csv"))
    return [(int(r["minx"]), int(r["miny"]), int(r["width"]), float(r["prob_normal"]), float(r["prob_tumor"])) for r in rows]


def screen_place(page, x, y):
    """Where a place of the slide is on the screen."""
    return page.value(f"(() => {{ const p = map.latLngToContainerPoint(point({x}, {y})), r = map.getContainer().getBoundingClientRect(); "
                      "return [p.x + r.x, p.y + r.y]; })()")


def score_under_the_pointer(page):
    own, low = scores_of("fp32"), scores_of("bf16")
    for i in (0, len(own) // 2, len(own) - 1):
        x, y, side, normal, tumor = own[i]
        page.point(*screen_place(page, x + side / 2, y + side / 2))
        text = page.value("document.getElementById('pointer').textContent")
        numbers = [float(n) for n in re.findall(r"(?:normal|tumor) ([0-9.]+)", text)]
        assert len(numbers) == 2 * page.value("run.precisions.length") and all(abs(a - b) <= 1e-4 for a, b in zip(numbers, (normal, tumor, *low[i][3:]))), (text, own[i], low[i])
    page.point(*screen_place(page, -50, -50))
    assert "fp32" not in page.value("document.getElementById('pointer').textContent")


def layers(page):
    assert chosen(page, "#layer") == "class:1" and page.value("document.getElementById('shown').textContent") == "tumor"
    drawn = {page.value(OVERLAY + ".src")}
    # By the keyboard: another precision, another class, a difference.
    page.value("document.getElementById('precision').focus()")
    page.key("ArrowDown")
    assert chosen(page, "#precision") == "bf16"
    drawn.add(page.value(OVERLAY + ".src"))
    page.key("Tab")
    assert page.value("document.activeElement.id") == "layer"
    page.key("ArrowDown")
    assert chosen(page, "#layer") == "difference:0", chosen(page, "#layer")
    drawn.add(page.value(OVERLAY + ".src"))
    page.key("ArrowDown")
    name = page.value("document.getElementById('shown').textContent")
    assert name == "bf16 less fp32, tumor", name
    low, high = (float(page.value(f"document.getElementById('{i}').textContent")) for i in ("low", "high"))
    most = max(abs(a[4] - b[4]) for a, b in zip(scores_of("fp32"), scores_of("bf16")))
    assert low == -high and abs(high - most) < 0.06 * most + 1e-5, (high, most)
    picture(page, "difference")
    drawn.add(page.value(OVERLAY + ".src"))
    assert len(drawn) >= 3, "the overlay is drawn anew"
    page.key("ArrowDown")
    assert chosen(page, "#layer") == "none" and page.value(f"{OVERLAY} === null")
    for _ in range(3):
        page.key("ArrowUp")
    assert chosen(page, "#layer") == "class:1"


def opacity_and_masks(page):
    page.value("document.getElementById('opacity').focus()")
    before = float(page.value(OVERLAY + ".style.opacity"))
    page.key("ArrowRight")
    page.key("ArrowRight")
    after = float(page.value(OVERLAY + ".style.opacity"))
    assert abs(after - before - 0.1) < 1e-6, (before, after)
    n = page.value("document.querySelectorAll('img.overlay').length")
    page.click("#tissue")
    page.wait(f"document.querySelectorAll('img.overlay').length === {n + 1} && [...document.querySelectorAll('img.overlay')].every(i => i.complete && i.naturalWidth > 0)")
    picture(page, "tissue")
    page.key(" ")
    page.wait(f"document.querySelectorAll('img.overlay').length === {n}")


def gallery_jumps(page):
    best = sorted(scores_of(chosen(page, "#precision")), key=lambda p: -p[4])
    titles = page.value("[...document.querySelectorAll('#gallery button')].map(b => b.title + ' ' + b.textContent)")
    assert len(titles) == min(12, len(best)) and abs(float(titles[0].split()[-1]) - best[0][4]) < 1e-4, titles
    page.value("document.querySelectorAll('#gallery button')[1].focus()")
    page.key("Enter")
    x, y = (int(n) for n in re.findall(r"-?\d+", titles[1])[:2])
    middle = "map.project(map.getCenter(), shown.zoom.highest)"
    page.wait(f"{middle}.x > {x} && {middle}.x < {x + best[0][2]} && {middle}.y > {y} && {middle}.y < {y + best[0][2]}")
    page.wait("[...document.querySelectorAll('.leaflet-tile-pane img')].every(i => i.complete && i.naturalWidth === 256)")
    picture(page, "jumped")


def keys_move_the_map(page):
    page.value("document.getElementById('map').focus()")
    zoom, centre = page.value("map.getZoom()"), page.value("map.getCenter().lng")
    page.key("ArrowRight")
    page.wait(f"map.getCenter().lng > {centre}")
    page.key("-")
    page.wait(f"map.getZoom() < {zoom}")


def live_parts(page):
    page.click("#failures summary")
    assert "cut short" in page.value("document.getElementById('failed').textContent")
    page.click("#log summary")
    page.wait("document.getElementById('logtext').textContent !== ''")
    job = sorted(name.split(".")[0] for name in os.listdir(run + "/jobs"))[0]
    page.value(f"showLog({job!r})")
    assert page.value("document.getElementById('logname').textContent") == job
    shown = page.value("document.getElementById('logtext').textContent")
    assert shown.strip() == open(glob.glob(f"{run}/jobs/{job}.a*/log")[-1]).read().strip(), shown
    page.click("#log summary")


with Browser(os.path.join(folder, "browser")) as browser:
    page = browser.page(1100, 760)
    page.open(url)
    page.wait(LOADED)
    choose_slide(page, slide)
    page.wait("[...document.querySelectorAll('.leaflet-tile-pane img')].every(i => i.complete && i.naturalWidth === 256)")
    picture(page, "slide")
    assert page.value("[...document.querySelectorAll('.leaflet-tile-pane img')].length") > 0
    score_under_the_pointer(page)
    layers(page)
    opacity_and_masks(page)
    gallery_jumps(page)
    keys_move_the_map(page)
    live_parts(page)
    choose_slide(page, hostile)
    assert page.value(f"document.querySelector('#slides button').firstChild.data") == hostile
    assert page.value("document.querySelectorAll('img[src=x]').length") == 0
    chosen_number = page.value("location.hash")
    page.open(url + chosen_number)
    page.wait(f"{LOADED} && shown.slide.name === {hostile!r}")
    page.size(390, 800, is_phone=True)
    page.wait("document.documentElement.scrollWidth <= innerWidth")
    picture(page, "phone")
    assert not page.complaints, page.complaints
    assert all(r.startswith((url, "data:", "about:")) for r in page.requests), [r for r in page.requests if not r.startswith(url)]
    # Without the token, or with one that is markup, there is a refusal and nothing runs.
    for bad in ("", "0" * 32, "%3Cscript%3Ealert(1)%3C%2Fscript%3E", "..%2F.."):
        page.open(url.rsplit("/", 2)[0] + "/" + bad + "/")
        assert "lacks the token" in page.value("document.body.textContent") and page.value("document.scripts.length") == 0
print("view: clicks, keys and the pointer do what they should")
