"use strict";
// The curves of trainings as their epochs end, and how far each is.
const $ = (id) => document.getElementById(id);
const COLOURS = ["#2f6fde", "#c8452f", "#2c8a57", "#8452c9", "#a86a00", "#0f8f9a", "#c23b8e", "#7b8494"];
const colour = (i) => COLOURS[i % COLOURS.length];

function element(parent, name, attributes, text) {
  const made = document.createElementNS(parent.namespaceURI === "http://www.w3.org/2000/svg" || name === "svg"
    ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml", name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

const words = (column) => column.replaceAll("_", " ");
const shown = (value) => value === null || value === undefined ? "–" : String(+value.toPrecision(4));
const column = (training, name) => {
  const at = training.columns.indexOf(name);
  return at < 0 ? [] : training.epochs.map((epoch) => epoch[at]);
};

// One chart of a column: a line for each training.
function chart(parent, name, trainings) {
  const lines = trainings.map((training) => column(training, name));
  const values = lines.flat().filter((value) => value !== null);
  if (!values.length) return;
  const epochs = Math.max(...lines.map((line) => line.length), 2);
  const low = Math.min(0, ...values), most = Math.max(...values), high = most > low ? most : low + 1;
  const x = (epoch) => 54 + 256 * (epoch - 1) / (epochs - 1), y = (value) => 168 - 160 * (value - low) / (high - low);
  const section = element(parent, "section");
  element(section, "h2", {}, words(name));
  const svg = element(section, "svg", { viewBox: "0 0 320 200", role: "img", "aria-label": words(name) + " by epoch" });
  element(svg, "path", { class: "axis", d: "M54 8V168H310" });
  for (const value of [low, high])
    element(svg, "text", { x: 50, y: y(value) + 4, "text-anchor": "end" }, shown(value));
  element(svg, "text", { x: 54, y: 184 }, "epoch 1");
  element(svg, "text", { x: 310, y: 184, "text-anchor": "end" }, epochs);
  lines.forEach((line, i) => {
    let path = "", is_begun = false;
    line.forEach((value, e) => {
      if (value === null) return;
      path += (is_begun ? "L" : "M") + x(e + 1).toFixed(1) + " " + y(value).toFixed(1);
      is_begun = true;
    });
    if (line.length === 1 && is_begun) path += "h0.1";
    element(svg, "path", { class: "curve", stroke: colour(i), "stroke-linecap": "round", d: path });
  });
}

const age = (ms) => {
  const seconds = Math.max(0, Math.round((Date.now() - ms) / 1000));
  return seconds < 120 ? seconds + " s ago" : seconds < 7200 ? Math.round(seconds / 60) + " min ago" : Math.round(seconds / 3600) + " h ago";
};

// "epoch 3: 17 of 120 steps, loss 0.5123"
const within = (training) => {
  const at = training.state === "done" ? null : training.progress;
  return at ? `epoch ${at.epoch}: ${at.step} of ${at.steps} steps, loss ${shown(at.loss)}` : "";
};

function row(parent, cell, texts) {
  const made = element(parent, "tr");
  texts.forEach((text) => element(made, cell, {}, text));
  return made;
}

function show(data) {
  const trainings = data.trainings;
  const done = trainings.filter((training) => training.state === "done").length;
  const columns = trainings.reduce((most, training) => training.columns.length > most.length ? training.columns : most, []);
  const drawn = columns.filter((name) => name !== "epoch" && name !== "learning_rate");
  $("name").textContent = data.name;
  document.title = data.name + " · hires-flow training";
  $("state").textContent = `${trainings.length} trainings begun, ${done} done`;
  $("report").hidden = !data.has_report;
  $("charts").replaceChildren();
  for (const name of drawn) chart($("charts"), name, trainings);
  $("titles").replaceChildren();
  row($("titles"), "th", ["training", "state", "epochs", "within the epoch", "best epoch", ...drawn.map(words), "last sign"]);
  $("trainings").replaceChildren();
  trainings.forEach((training, i) => {
    const losses = column(training, "validation_loss");
    const known = losses.filter((value) => value !== null);
    const best = known.length ? losses.indexOf(Math.min(...known)) + 1 : training.epochs.length;
    const last = drawn.map((name) => shown(column(training, name).at(-1)));
    const made = row($("trainings"), "td", ["", training.state, training.epochs.length, within(training), best, ...last, age(training.changed_ms)]);
    element(made.firstChild, "span", { class: "mark", style: "background:" + colour(i) });
    made.firstChild.append(training.name);
  });
  return done === trainings.length;
}

async function refresh() {
  let wait = 2000;
  try {
    const answer = await fetch("training.json");
    if (!answer.ok) throw new Error(await answer.text());
    if (show(await answer.json())) wait = 10000;
    $("message").hidden = true;
  } catch (error) {
    $("message").textContent = error.message;
    $("message").hidden = false;
  }
  setTimeout(refresh, wait);
}
refresh();
