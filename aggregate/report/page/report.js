"use strict";
// The report page: tables that fit any screen, pictures that a click enlarges, and the table of slides, which sorts and
// filters. The page is complete without it.

// Each cell knows its column's name, for screens on which a row is a block of lines.
for (const table of document.querySelectorAll("table:has(thead)")) {
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  for (const row of table.tBodies[0].rows)
    [...row.cells].forEach((cell, i) => { if (cell.tagName === "TD" && names[i]) cell.dataset.l = names[i]; });
}

// A table that is wider than its section is shown as blocks of lines.
function fit() {
  for (const table of document.querySelectorAll("table:has(thead)")) {
    table.classList.remove("rows");
    const box = table.parentElement, style = getComputedStyle(box);
    const room = box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    table.classList.toggle("rows", table.scrollWidth > room + 1);
  }
}
fit();
addEventListener("resize", fit);
document.addEventListener("toggle", fit, true);
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((details) => { details.open = true; }));

const large = document.getElementById("large");
if (large) {
  large.querySelector("button").addEventListener("click", () => large.close());
  for (const button of document.querySelectorAll("button.zoom")) {
    button.addEventListener("click", () => {
      const from = button.firstElementChild, to = large.querySelector("img");
      to.src = from.src;
      to.alt = from.alt;
      large.querySelector("p").textContent = from.alt;
      large.showModal();
    });
  }
}

// What a cell sorts by: its number (data-k; "" is none and comes last), or its text.
function sortKey(row, column) {
  const cell = row.cells[column], number = cell.dataset.k;
  return number === undefined ? cell.textContent : number === "" ? null : Number(number);
}

function compare(x, y, isUp) {
  if (x === null || y === null) return (x === null) - (y === null);
  const order = typeof x === "number" ? x - y : x.localeCompare(y, undefined, { numeric: true });
  return isUp ? order : -order;
}

const slides = document.getElementById("slides");
if (slides) {
  const body = slides.tBodies[0], rows = [...body.rows];
  const find = document.getElementById("find"), pick = document.getElementById("pick"), shown = document.getElementById("shown");
  for (const button of slides.querySelectorAll("th button")) {
    const head = button.parentNode;
    button.addEventListener("click", () => {
      const isUp = head.getAttribute("aria-sort") !== "ascending", column = head.cellIndex;
      slides.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      rows.sort((p, q) => compare(sortKey(p, column), sortKey(q, column), isUp));
      body.append(...rows);
    });
  }
  const filter = () => {
    const text = find.value.toLowerCase(), kind = pick.value;
    let n = 0;
    for (const row of rows) {
      const isShown = (!text || row.dataset.n.toLowerCase().includes(text)) && (!kind || row.dataset.s.split(" ").includes(kind));
      row.hidden = !isShown;
      n += isShown;
    }
    shown.textContent = n + " of " + rows.length + (slides.dataset.all ? " here, " + slides.dataset.all + " in all" : "");
  };
  find.addEventListener("input", filter);
  pick.addEventListener("change", filter);
  filter();
}
