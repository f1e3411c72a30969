"use strict";
// The viewer's page: what is asked of the server, and what is drawn over the slide.

const at = (id) => document.getElementById(id);
const TILE = 256;
const GALLERY = 12;
let run = null; // run.json
let shown = null; // { slide, zoom, patches, scores: {precision: {classes, values}}, ...layers }
let map = null;

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

function tell(text) {
  at("message").textContent = text;
  at("message").hidden = text === "";
}

// Viridis (van der Walt and Smith, 2015) at nine places; blue to red for differences.
const VIRIDIS = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129],
  [92, 200, 99], [170, 220, 50], [253, 231, 37]];
const DIVERGING = [[33, 102, 172], [103, 169, 207], [209, 229, 240], [247, 247, 247], [253, 219, 199], [239, 138, 98],
  [178, 24, 43]];

function colour(table, t) {
  const x = Math.min(Math.max(t, 0), 1) * (table.length - 1);
  const i = Math.min(Math.floor(x), table.length - 2);
  return table[i].map((low, c) => Math.round(low + (table[i + 1][c] - low) * (x - i)));
}

// What the chosen layer says of patch i: a number, its range, and the colours of it.
function layerOf() {
  const precision = at("precision").value;
  const [kind, number] = at("layer").value.split(":");
  const scores = shown && shown.scores[precision];
  if (!scores || kind === "none") return null;
  const k = Number(number);
  const own = (i) => scores.values[i * scores.classes + k];
  if (kind === "class") {
    return { low: 0, high: 1, zero: 0, table: VIRIDIS, name: run.classes[k] || "output " + k, of: own };
  }
  const first = shown.scores[run.precisions[0]];
  if (!first) return null;
  const of = (i) => own(i) - first.values[i * first.classes + k];
  let most = 0;
  for (let i = 0; i < shown.patches.xy.length / 2; i++) most = Math.max(most, Math.abs(of(i)));
  const name = precision + " less " + run.precisions[0] + ", " + run.classes[k];
  return { low: -(most || 1), high: most || 1, zero: 0.5, table: DIVERGING, name, of };
}

// One pixel for each place of the patches' grid: as quick for a hundred thousand as for ten.
function drawOverlay() {
  if (shown.overlay) shown.overlay.remove();
  shown.overlay = null;
  const layer = layerOf();
  drawBar(layer);
  if (!layer) return;
  const { xy, stride, patch } = shown.patches;
  const cell = [Math.min(stride[0], patch[0]), Math.min(stride[1], patch[1])];
  let right = 0, bottom = 0, left = Infinity, top = Infinity;
  for (let i = 0; i < xy.length; i += 2) {
    left = Math.min(left, xy[i]); right = Math.max(right, xy[i]);
    top = Math.min(top, xy[i + 1]); bottom = Math.max(bottom, xy[i + 1]);
  }
  if (right < left) return;
  const canvas = document.createElement("canvas");
  canvas.width = Math.round((right - left) / cell[0]) + 1;
  canvas.height = Math.round((bottom - top) / cell[1]) + 1;
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  for (let i = 0; i < xy.length / 2; i++) {
    const column = Math.round((xy[2 * i] - left) / cell[0]), row = Math.round((xy[2 * i + 1] - top) / cell[1]);
    const value = layer.of(i);
    const t = (value - layer.low) / (layer.high - layer.low);
    const rgb = value === null ? [120, 120, 120] : colour(layer.table, t);
    const strength = Math.min(1, Math.abs(t - layer.zero) / (1 - layer.zero)); // the tissue stays visible where nothing is
    image.data.set([...rgb, 70 + 185 * strength], (row * canvas.width + column) * 4);
  }
  context.putImageData(image, 0, 0);
  const bounds = L.latLngBounds(point(left, top), point(left + canvas.width * cell[0], top + canvas.height * cell[1]));
  shown.overlay = L.imageOverlay(canvas.toDataURL(), bounds, { opacity: Number(at("opacity").value), className: "overlay" });
  shown.overlay.addTo(map);
}

function drawBar(layer) {
  const canvas = at("colours"), context = canvas.getContext("2d");
  at("bar").style.visibility = layer ? "visible" : "hidden";
  if (!layer) return;
  for (let x = 0; x < canvas.width; x++) {
    context.fillStyle = "rgb(" + colour(layer.table, x / (canvas.width - 1)).join() + ")";
    context.fillRect(x, 0, 1, canvas.height);
  }
  at("low").textContent = layer.low.toPrecision(2);
  at("high").textContent = layer.high.toPrecision(2);
  at("shown").textContent = layer.name;
}

const point = (x, y) => map.unproject([x, y], shown.zoom.highest);

// A tile layer whose zoom levels are the server's.
function addTiles(slide, zoom) {
  return L.tileLayer("slide/" + slide.id + "/tile/{z}/{x}/{y}.jpg", {
    tileSize: TILE, noWrap: true, minZoom: zoom.lowest, maxZoom: zoom.highest + 3, maxNativeZoom: zoom.highest,
    bounds: L.latLngBounds(map.unproject([0, 0], zoom.highest), map.unproject([zoom.width, zoom.height], zoom.highest)),
  }).on("tileerror", () => tell("A part of this slide cannot be read; `hires-flow why` says more.")).addTo(map);
}

async function show(slide) {
  tell("");
  if (shown && shown.layers) shown.layers.forEach((layer) => layer.remove());
  if (shown && shown.overlay) shown.overlay.remove();
  at("gallery").replaceChildren();
  at("pointer").textContent = "";
  location.hash = String(slide.id);
  const asked = (shown = { slide, scores: {}, layers: [], overlay: null });
  listSlides();
  try {
    asked.zoom = await ask("slide/" + slide.id + "/zoom.json");
  } catch (error) {
    tell(slide.name + ": " + error.message);
    return;
  }
  if (shown !== asked) return;
  map.setMinZoom(asked.zoom.lowest).setMaxZoom(asked.zoom.highest + 3);
  asked.layers.push(addTiles(slide, asked.zoom));
  map.fitBounds(L.latLngBounds(point(0, 0), point(asked.zoom.width, asked.zoom.height)), { animate: false });
  try {
    asked.patches = await ask("slide/" + slide.id + "/patches.json");
  } catch (error) {
    tell(slide.reason || error.message);
    return;
  }
  await Promise.all([...run.precisions.map((p) => loadScores(asked, p)), loadOutlines(asked)]);
  if (shown !== asked) return;
  drawTissue();
  drawOverlay();
  drawGallery();
}

async function loadScores(asked, precision) {
  if (run.is_embedding) return;
  try {
    asked.scores[precision] = await ask("slide/" + asked.slide.id + "/scores/" + precision + ".json");
  } catch (error) {
    if (shown === asked) tell(precision + ": " + error.message);
  }
}

async function loadOutlines(asked) {
  const outlines = await ask("slide/" + asked.slide.id + "/outlines.json").catch(() => []);
  if (shown !== asked) return;
  asked.lesions = L.layerGroup(outlines.map((outline) =>
    L.polygon(outline.map(([x, y]) => point(x, y)), { color: "#000", weight: 2, fill: false, interactive: false })));
  if (at("lesions").checked) asked.lesions.addTo(map);
  asked.layers.push(asked.lesions);
}

function drawTissue() {
  if (!shown || !shown.patches) return;
  if (shown.tissue) shown.tissue.remove();
  if (!at("tissue").checked) return;
  const bounds = L.latLngBounds(point(0, 0), point(shown.patches.width, shown.patches.height));
  shown.tissue = L.imageOverlay("slide/" + shown.slide.id + "/tissue.png", bounds, { opacity: 0.35, className: "overlay" });
  shown.tissue.addTo(map);
  shown.layers.push(shown.tissue);
}

// The pixels of one patch, from tiles of the zoom at which it is about as large as its picture.
function drawPatch(canvas, x, y) {
  const side = shown.patches.patch[0], zoom = shown.zoom;
  let z = zoom.highest;
  while (z > zoom.lowest && side / 2 ** (zoom.highest - z) > 2 * canvas.width) z--;
  const reduced = 2 ** (zoom.highest - z), span = TILE * reduced, scale = canvas.width / side;
  const context = canvas.getContext("2d");
  for (let row = Math.floor(y / span); row * span < y + side; row++) {
    for (let column = Math.floor(x / span); column * span < x + side; column++) {
      const image = new Image();
      image.onload = () => context.drawImage(image, (column * span - x) * scale, (row * span - y) * scale, span * scale, span * scale);
      image.src = "slide/" + shown.slide.id + "/tile/" + z + "/" + column + "/" + row + ".jpg";
    }
  }
}

function drawGallery() {
  at("gallery").replaceChildren();
  const layer = layerOf();
  if (!layer) return;
  const order = Array.from({ length: shown.patches.xy.length / 2 }, (_, i) => i)
    .filter((i) => layer.of(i) !== null)
    .sort((a, b) => Math.abs(layer.of(b)) - Math.abs(layer.of(a))).slice(0, GALLERY);
  for (const i of order) {
    const x = shown.patches.xy[2 * i], y = shown.patches.xy[2 * i + 1];
    const button = document.createElement("button"), canvas = document.createElement("canvas");
    canvas.width = canvas.height = 144;
    button.type = "button";
    button.append(canvas, layer.of(i).toFixed(4));
    button.title = "at " + x + ", " + y;
    button.onclick = () => map.fitBounds(L.latLngBounds(point(x, y),
      point(x + shown.patches.patch[0], y + shown.patches.patch[1])).pad(1));
    drawPatch(canvas, x, y);
    at("gallery").append(button);
  }
}

function tellPointer(event) {
  if (!shown || !shown.patches || !shown.zoom) return;
  const { x, y } = map.project(event.latlng, shown.zoom.highest);
  const { xy, patch } = shown.patches;
  let text = "x " + Math.round(x) + ", y " + Math.round(y);
  for (let i = 0; i < xy.length / 2; i++) {
    if (x < xy[2 * i] || x >= xy[2 * i] + patch[0] || y < xy[2 * i + 1] || y >= xy[2 * i + 1] + patch[1]) continue;
    for (const precision of run.precisions) {
      const scores = shown.scores[precision];
      if (!scores) continue;
      const words = run.classes.map((name, k) => name + " " + Number(scores.values[i * scores.classes + k]).toFixed(4));
      text += " · " + precision + ": " + words.join(", ");
    }
    break;
  }
  at("pointer").textContent = text;
}

const scoreText = (slide) => Object.entries(slide.scores).map(([p, s]) => p + " " + (s === null ? "-" : s.toFixed(3))).join(", ");

function listSlides() {
  const wanted = at("search").value.toLowerCase();
  const items = [];
  for (const slide of run.slides) {
    const below = [slide.state, slide.truth === "unknown" ? "" : "truth: " + slide.truth, scoreText(slide)].filter(Boolean).join(" · ");
    if (!(slide.name + " " + below + " " + (slide.label || "")).toLowerCase().includes(wanted)) continue;
    const item = document.createElement("li"), button = document.createElement("button"), small = document.createElement("small");
    button.type = "button";
    small.textContent = below;
    button.append(slide.name, small);
    button.title = slide.reason || slide.name;
    if (shown && shown.slide.id === slide.id) button.setAttribute("aria-current", "true");
    button.onclick = () => show(slide);
    item.append(button);
    items.push(item);
    if (items.length >= 500) break; // the search finds the others
  }
  at("slides").replaceChildren(...items);
}

function choose(select, entries) {
  select.replaceChildren(...entries.map(([value, text]) => new Option(text, value)));
}

let before = null; // the patches that were scored at the last reading, and when
async function tellState() {
  try {
    const s = await ask("status.json");
    const now = Date.now(), { done, total } = s.patches;
    const rate = before && before.done < done ? (done - before.done) / (now - before.at) * 1000 : 0;
    before = { done, at: now };
    const lines = [Object.entries(s.slides).filter(([, n]) => n > 0).map(([state, n]) => n + " " + state.replace("_", " ")).join(", "),
      done + " of " + total + " patches"];
    if (s.driver > 0) lines.push("running" + (rate > 0 ? ", " + rate.toFixed(0) + " patches/s, " + Math.ceil((total - done) / rate) + " s left" : ""));
    lines.push(...s.silent.map((line) => "silent: " + line));
    at("state").textContent = lines.join("\n");
    at("progress").value = total > 0 ? done / total : 0;
    if (s.driver > 0) setTimeout(tellState, 2000);
    return s.driver > 0;
  } catch (error) {
    at("state").textContent = error.message;
    setTimeout(tellState, 5000);
    return false;
  }
}

async function refreshRun() {
  run = await ask("run.json");
  listSlides();
  setTimeout(() => refreshRun().catch(() => {}), 10000);
}

async function begin() {
  map = L.map("map", { crs: L.CRS.Simple, attributionControl: false, zoomSnap: 0.5 });
  map.setView([0, 0], 0);
  map.on("mousemove", tellPointer);
  await refreshRun();
  document.title = run.name + " - hires-flow";
  at("name").textContent = run.name;
  choose(at("precision"), run.precisions.map((p) => [p, p]));
  const layers = run.classes.map((name, k) => ["class:" + k, name]);
  if (run.precisions.length > 1) layers.push(...run.classes.map((name, k) => ["difference:" + k, name + ", difference to " + run.precisions[0]]));
  choose(at("layer"), [...layers, ["none", "nothing"]]);
  const positive = run.classes.indexOf(run.positive);
  if (positive >= 0) at("layer").value = "class:" + positive;
  for (const id of ["precision", "layer"]) at(id).onchange = () => { if (shown && shown.patches) { drawOverlay(); drawGallery(); } };
  at("opacity").oninput = () => shown && shown.overlay && shown.overlay.setOpacity(Number(at("opacity").value));
  at("tissue").onchange = drawTissue;
  at("lesions").onchange = () => { if (shown && shown.lesions) at("lesions").checked ? shown.lesions.addTo(map) : shown.lesions.remove(); };
  at("search").oninput = listSlides;
  at("controls").onsubmit = (event) => event.preventDefault();
  tellState();
  const first = run.slides.find((s) => String(s.id) === location.hash.slice(1)) || run.slides.find((s) => s.state === "done") || run.slides[0];
  if (first) await show(first);
}

begin().catch((error) => tell(error.message));
