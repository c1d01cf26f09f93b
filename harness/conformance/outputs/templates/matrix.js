"use strict";
// A filter over the rows: words, outcome and area at once.
const filter = document.getElementById("filter");
const rows = [...document.querySelectorAll("tbody tr")].map((row) => ({
  row,
  text: `${row.id} ${row.querySelector("summary").textContent}`.toLowerCase(),
}));

function narrow() {
  const words = filter.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const { value: outcome } = filter.elements.outcome;
  const { value: area } = filter.elements.area;
  let shown = 0;
  for (const { row, text } of rows) {
    const fits =
      (!area || row.dataset.area === area) &&
      (!outcome || row.dataset.outcomes.includes(`|${outcome}|`)) &&
      words.every((word) => text.includes(word));
    row.hidden = !fits;
    shown += fits;
  }
  for (const group of document.querySelectorAll(".group")) {
    const count = group.querySelectorAll("tbody tr:not([hidden])").length;
    group.hidden = !count;
    group.querySelector("small").textContent = count;
  }
  document.getElementById("shown").textContent = `${shown} of ${rows.length} cases`;
}

filter.hidden = false;
filter.addEventListener("input", narrow);
filter.addEventListener("submit", (event) => event.preventDefault());

// On paper everything is open, and afterwards as before.
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const one of opened) one.open = true;
});
addEventListener("afterprint", () => {
  for (const one of opened) one.open = false;
});
