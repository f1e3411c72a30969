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

// The colour at t (0 to 1) of a map of run.colours, whose entries are at even steps.
function colour(table, t) {
  const x = Math.min(Math.max(t, 0), 1) * (table.length - 1);
  const i = Math.min(Math.floor(x), table.length - 2);
  return table[i].map((low, c) => Math.round(low + (table[i + 1][c] - low) * (x - i)));
}

// 256 steps of a layer's colours, with how much of each is put over the tissue: it stays visible where nothing is.
function palette(layer) {
  const steps = new Uint8ClampedArray(256 * 4);
  for (let i = 0; i < 256; i++) {
    const t = i / 255, strength = Math.min(1, Math.abs(t - layer.zero) / (1 - layer.zero));
    steps.set([...colour(layer.table, t), 70 + 185 * strength], i * 4);
  }
  return steps;
}

// What the chosen layer says of patch i: a number, its range, and the colours of it.
function layerOf() {
  const precision = at("precision").value;
  const [kind, number] = at("layer").value.split(":");
  const scores = shown && shown.scores[precision];
  if (!scores || kind === "none" || kind === "pixels") return null;
  const k = Number(number);
  const own = (i) => scores.values[i * scores.classes + k];
  if (kind === "class") {
    return { low: 0, high: 1, zero: 0, table: run.colours.rising, name: run.classes[k] || "output " + k, of: own };
  }
  const first = shown.scores[run.precisions[0]];
  if (!first) return null;
  const of = (i) => own(i) - first.values[i * first.classes + k];
  let largest = 0;
  for (let i = 0; i < shown.patches.xy.length / 2; i++) largest = Math.max(largest, Math.abs(of(i)));
  const name = precision + " less " + run.precisions[0] + ", " + run.classes[k];
  return { low: -(largest || 1), high: largest || 1, zero: 0.5, table: run.colours.diverging, name, of };
}

// Which patch is at each place of the patches' grid, so that nothing is searched for at every move of the pointer.
function gridOf(patches) {
  const { xy, stride, patch } = patches;
  const cell = [Math.min(stride[0], patch[0]), Math.min(stride[1], patch[1])];
  let right = -Infinity, bottom = -Infinity, left = Infinity, top = Infinity;
  for (let i = 0; i < xy.length; i += 2) {
    left = Math.min(left, xy[i]); right = Math.max(right, xy[i]);
    top = Math.min(top, xy[i + 1]); bottom = Math.max(bottom, xy[i + 1]);
  }
  if (right < left) return { left: 0, top: 0, cell, columns: 0, rows: 0, owner: new Int32Array(0) };
  const columns = Math.round((right - left) / cell[0]) + 1, rows = Math.round((bottom - top) / cell[1]) + 1;
  const owner = new Int32Array(columns * rows).fill(-1);
  for (let i = 0; i < xy.length / 2; i++)
    owner[Math.round((xy[2 * i + 1] - top) / cell[1]) * columns + Math.round((xy[2 * i] - left) / cell[0])] = i;
  return { left, top, cell, columns, rows, owner };
}

// The patch at a place of the slide, or -1: the nearest one above and left of it that reaches there.
function patchAt(x, y) {
  const { left, top, cell, columns, rows, owner } = shown.grid, { xy, patch } = shown.patches;
  const column = Math.floor((x - left) / cell[0]), row = Math.floor((y - top) / cell[1]);
  for (const [c, r] of [[column, row], [column - 1, row], [column, row - 1], [column - 1, row - 1], [column + 1, row], [column, row + 1]]) {
    if (c < 0 || r < 0 || c >= columns || r >= rows) continue;
    const i = owner[r * columns + c];
    if (i >= 0 && x >= xy[2 * i] && x < xy[2 * i] + patch[0] && y >= xy[2 * i + 1] && y < xy[2 * i + 1] + patch[1]) return i;
  }
  return -1;
}

// The labels of a segmentation network, each class in a colour of its own, the positive one red.
async function drawPixels() {
  const asked = shown, precision = at("precision").value;
  const image = new Image();
  image.src = "slide/" + asked.slide.id + "/labels/" + precision + ".png";
  try {
    await image.decode();
  } catch (error) {
    tell("The labels of this slide are not there yet.");
    return;
  }
  if (shown !== asked || at("layer").value !== "pixels" || at("precision").value !== precision) return;
  const canvas = document.createElement("canvas");
  canvas.width = image.width;
  canvas.height = image.height;
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const pixels = context.getImageData(0, 0, image.width, image.height), data = pixels.data;
  const colours = run.colours.classes.map((rgb) => [...rgb, 200]);
  for (let i = 0; i < data.length; i += 4) data.set(colours[data[i] - 1] || [0, 0, 0, 0], i);
  context.putImageData(pixels, 0, 0);
  const bounds = L.latLngBounds(point(0, 0), point(asked.patches.width, asked.patches.height));
  if (asked.overlay) asked.overlay.remove();
  asked.overlay = L.imageOverlay(canvas.toDataURL(), bounds, { opacity: Number(at("opacity").value), className: "overlay pixels" });
  asked.overlay.addTo(map);
}

// One pixel for each place of the patches' grid: as quick for a hundred thousand as for ten.
function drawOverlay() {
  if (shown.overlay) shown.overlay.remove();
  shown.overlay = null;
  if (at("layer").value === "pixels") {
    drawBar(null);
    drawPixels();
    return;
  }
  const layer = layerOf();
  drawBar(layer);
  if (!layer) return;
  const { left, top, cell, columns, rows, owner } = shown.grid;
  if (columns === 0) return;
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const steps = palette(layer), scale = 255 / (layer.high - layer.low), data = image.data;
  for (let at = 0; at < owner.length; at++) {
    if (owner[at] < 0) continue;
    const value = layer.of(owner[at]);
    if (value === null) {
      data.set([120, 120, 120, 120], at * 4);
      continue;
    }
    const step = 4 * Math.min(255, Math.max(0, Math.round((value - layer.low) * scale)));
    for (let c = 0; c < 4; c++) data[at * 4 + c] = steps[step + c];
  }
  context.putImageData(image, 0, 0);
  const bounds = L.latLngBounds(point(left, top), point(left + columns * cell[0], top + rows * cell[1]));
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
  if (!slide.is_tiled) {
    tell(slide.reason || "This slide has no patches yet.");
    return;
  }
  try {
    asked.patches = await ask("slide/" + slide.id + "/patches.json");
  } catch (error) {
    tell(slide.reason || error.message);
    return;
  }
  await Promise.all([...run.precisions.map((p) => loadScores(asked, p)), loadOutlines(asked)]);
  if (shown !== asked) return;
  asked.grid = gridOf(asked.patches);
  drawTissue();
  drawOverlay();
  drawGallery();
}

async function loadScores(asked, precision) {
  if (run.is_embedding || asked.slide.state === "pending") return; // refreshRun() shows it again when it is done
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

// The patches with the largest values, sorted, in one pass.
function strongest(layer) {
  const best = [];
  for (let i = 0; i < shown.patches.xy.length / 2; i++) {
    const value = layer.of(i), size = Math.abs(value);
    if (value === null || (best.length === GALLERY && size <= best[GALLERY - 1].size)) continue;
    let at = best.length;
    while (at > 0 && best[at - 1].size < size) at--;
    best.splice(at, 0, { i, size });
    best.length = Math.min(best.length, GALLERY);
  }
  return best.map((one) => one.i);
}

function drawGallery() {
  at("gallery").replaceChildren();
  const layer = layerOf();
  if (!layer) return;
  for (const i of strongest(layer)) {
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
  if (!shown || !shown.grid || !shown.zoom) return;
  const { x, y } = map.project(event.latlng, shown.zoom.highest);
  let text = "x " + Math.round(x) + ", y " + Math.round(y);
  const i = patchAt(x, y);
  for (const precision of i < 0 ? [] : run.precisions) {
    const scores = shown.scores[precision];
    if (!scores) continue;
    const words = run.classes.map((name, k) => name + " " + Number(scores.values[i * scores.classes + k]).toFixed(4));
    text += " · " + precision + ": " + words.join(", ");
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

// As hrf_duration_text() of the programs: "12.3 s", "4 min 05 s", "3 h 07 min".
function duration(seconds) {
  if (seconds < 60) return seconds.toFixed(seconds < 10 ? 2 : 1) + " s";
  const s = Math.round(seconds), two = (n) => String(n).padStart(2, "0");
  return s < 3600 ? Math.floor(s / 60) + " min " + two(s % 60) + " s" : Math.floor(s / 3600) + " h " + two(Math.floor(s / 60) % 60) + " min";
}

// A line for each job that lives, and its log at a click.
function listJobs(jobs) {
  at("live").hidden = jobs.length === 0;
  const focused = document.activeElement && document.activeElement.dataset.job;
  at("jobs").replaceChildren(...jobs.map((job) => {
    const item = document.createElement("li"), button = document.createElement("button");
    button.type = "button";
    button.dataset.job = job.job;
    button.textContent = [job.job + " " + job.state, job.host, job.tasks_done + " of " + job.tasks + " tasks",
      job.patches_per_second > 0 ? job.patches_per_second.toFixed(0) + " patches/s" : "", job.text].filter(Boolean).join(", ");
    button.onclick = () => { at("log").open = true; showLog(job.job); };
    item.append(button);
    return item;
  }));
  if (focused) [...at("jobs").querySelectorAll("button")].filter((b) => b.dataset.job === focused).forEach((b) => b.focus());
}

function listFailures() {
  const failed = run.slides.filter((slide) => slide.state === "failed");
  at("failures").hidden = failed.length === 0;
  at("failures").querySelector("summary").textContent = failed.length + (failed.length === 1 ? " failure" : " failures");
  at("failed").replaceChildren(...failed.slice(0, 200).map((slide) => {
    const item = document.createElement("li"), name = document.createElement("b");
    name.textContent = slide.name;
    item.append(name, " " + (slide.reason || "no reason given"));
    return item;
  }));
}

let logOf = null; // the job whose log is shown; null: the run's events
async function showLog(job) {
  if (job !== undefined) logOf = job;
  if (!at("log").open) return;
  at("logname").textContent = logOf || "events of the run, the newest first";
  try {
    if (logOf) {
      const answer = await fetch("job/" + encodeURIComponent(logOf) + "/log.txt");
      at("logtext").textContent = await answer.text();
    } else {
      const events = await ask("events.json");
      at("logtext").textContent = events.map((e) => new Date(e.at_ms).toLocaleTimeString() + " " + e.subject + ": " + e.text).join("\n") || "none";
    }
  } catch (error) {
    at("logtext").textContent = error.message;
  }
}

async function tellState() {
  try {
    const s = await ask("status.json");
    const { done, total } = s.patches, rate = s.patches_per_second;
    const lines = [Object.entries(s.slides).filter(([, n]) => n > 0).map(([state, n]) => n + " " + state.replace("_", " ")).join(", "),
      done + " of " + total + " patches"];
    if (s.driver > 0) lines.push("running" + (rate > 0 ? ", " + rate.toFixed(0) + " patches/s, " + duration((total - done) / rate) + " left" : ""));
    listJobs(s.jobs);
    if (s.driver > 0) showLog();
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
  listFailures();
  const now = shown && run.slides.find((s) => s.id === shown.slide.id);
  if (now && (now.state !== shown.slide.state || now.is_tiled !== shown.slide.is_tiled)) show(now); // it has come further meanwhile
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
  if (run.is_segmentation) layers.unshift(["pixels", "classes of pixels: " + run.classes.join(", ")]);
  choose(at("layer"), [...layers, ["none", "nothing"]]);
  const positive = run.classes.indexOf(run.positive);
  if (positive >= 0 && !run.is_segmentation) at("layer").value = "class:" + positive;
  for (const id of ["precision", "layer"]) at(id).onchange = () => { if (shown && shown.grid) { drawOverlay(); drawGallery(); } };
  at("opacity").oninput = () => shown && shown.overlay && shown.overlay.setOpacity(Number(at("opacity").value));
  at("tissue").onchange = drawTissue;
  at("lesions").onchange = () => { if (shown && shown.lesions) at("lesions").checked ? shown.lesions.addTo(map) : shown.lesions.remove(); };
  at("search").oninput = listSlides;
  at("log").ontoggle = () => showLog(at("log").open ? undefined : null);
  at("controls").onsubmit = (event) => event.preventDefault();
  tellState();
  const first = run.slides.find((s) => String(s.id) === location.hash.slice(1)) || run.slides.find((s) => s.state === "done") || run.slides[0];
  if (first) await show(first);
}

begin().catch((error) => tell(error.message));
