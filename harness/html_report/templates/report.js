"use strict";
const page = JSON.parse(document.getElementById("values").textContent);
const SVG = "http://www.w3.org/2000/svg";

for (const one of document.querySelectorAll(".scripted")) one.hidden = false;

// What the charts say at one time: a line through all of them, and the numbers below.
const readout = document.getElementById("readout");
const charts = [...document.querySelectorAll(".over-time svg")];
const lines = charts.map((chart) => {
  const line = document.createElementNS(SVG, "line");
  const height = chart.viewBox.baseVal.height;
  line.setAttribute("class", "cross");
  line.setAttribute("y1", 8);
  line.setAttribute("y2", height - 20);
  line.setAttribute("visibility", "hidden");
  chart.append(line);
  return line;
});
const span = page.width - page.left - page.right;

function shown(value, unit) {
  if (value < 0) return "no data";
  if (unit !== "us") return value.toLocaleString("en");
  if (value < 1e3) return `${value} µs`;
  return value < 1e6 ? `${(value / 1e3).toPrecision(3)} ms` : `${(value / 1e6).toPrecision(3)} s`;
}

function show(time) {
  const x = page.left + (span * Math.min(Math.max(time, 0), page.end_s)) / page.end_s;
  for (const line of lines) {
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    line.setAttribute("visibility", "visible");
  }
  const at = Math.min(Math.floor(time / page.slice_s), page.rows.length ? page.rows[0].values.length - 1 : 0);
  const parts = page.rows.map((row) => `${row.name} ${shown(row.values[at], row.unit)}`);
  const on = page.faults.filter((one) => one.start <= time && time <= one.end).map((one) => one.name);
  const from = at * page.slice_s;
  readout.textContent =
    `${from} to ${from + page.slice_s} s: ${parts.join("; ")}` + (on.length ? `; faults: ${on.join(", ")}` : "");
  readout.hidden = false;
}

for (const chart of charts) {
  chart.addEventListener("pointermove", (event) => {
    const box = chart.getBoundingClientRect();
    const x = ((event.clientX - box.left) * page.width) / box.width;
    if (x >= page.left && x <= page.width - page.right) show(((x - page.left) * page.end_s) / span);
  });
}

// The life of a witness: each event can be picked, and the charts show its time.
for (const life of document.querySelectorAll("details.life")) {
  const rows = [...life.querySelectorAll("tr[data-time]")];
  if (!rows.length) continue;
  let picked = -1;
  const pick = (number) => {
    if (number < 0 || number >= rows.length) return;
    if (picked >= 0) rows[picked].classList.remove("picked");
    picked = number;
    rows[picked].classList.add("picked");
    rows[picked].scrollIntoView({ block: "nearest" });
    show(Number(rows[picked].dataset.time));
  };
  rows.forEach((row, number) => {
    const cell = row.querySelector("td");
    const button = document.createElement("button");
    button.type = "button";
    button.className = "time";
    button.textContent = cell.textContent;
    cell.replaceChildren(button);
    row.addEventListener("click", () => pick(number));
  });
  life.querySelector(".previous").addEventListener("click", () => pick(picked < 0 ? rows.length - 1 : picked - 1));
  life.querySelector(".next").addEventListener("click", () => pick(picked + 1));
}

// A link to a witness opens it.
function open_target() {
  const id = decodeURIComponent(location.hash.slice(1));
  const target = id && document.getElementById(id);
  if (target instanceof HTMLDetailsElement) {
    target.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", open_target);
open_target();

for (const button of document.querySelectorAll("button[data-copies]")) {
  button.addEventListener("click", async () => {
    const text = document.getElementById(button.dataset.copies).textContent;
    const words = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      const range = document.createRange();
      range.selectNodeContents(document.getElementById(button.dataset.copies));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = "Selected: copy it with the keyboard";
    }
    setTimeout(() => { button.textContent = words; }, 2000);
  });
}

const filter = document.getElementById("filter");
if (filter) {
  filter.addEventListener("change", () => {
    for (const row of document.querySelectorAll("#findings-table tbody tr"))
      row.hidden = filter.value !== "" && row.dataset.anomaly !== filter.value;
  });
}

// On paper everything is open, and afterwards as before.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const one of opened) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of opened) one.open = false;
});
