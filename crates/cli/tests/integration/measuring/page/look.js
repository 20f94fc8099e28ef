// Runs in a frame of the tested width, behind the page's own scripts: draws everything, looks at every chart, and hands
// what it saw to the page around it.
addEventListener("load", async () => {
  const seen = await everything().catch(error => ({ problems: [String(error), error.stack] }));
  const result = parent.document.createElement("pre");
  result.id = "seen";
  result.textContent = JSON.stringify({ problems, ...seen });
  parent.document.body.append(result);
});

async function everything() {
  const pause = ms => new Promise(done => setTimeout(done, ms));
  await pause(100);
  const links = [...document.querySelectorAll("nav a, .findings a")].map(link => link.getAttribute("href").slice(1));
  const seen = {
    menu: document.querySelector("nav details").open, links: links.length,
    dangling: links.filter(id => !document.getElementById(id)), findings: document.querySelectorAll(".findings li").length,
    paper: getComputedStyle(document.body).backgroundColor, charts: [],
    headings: [...document.querySelectorAll("h2")].map(one => one.textContent),
  };
  for (const part of document.querySelectorAll("main details")) part.open = true;
  if (window.printed) dispatchEvent(new Event("beforeprint"));
  drawAll();
  await pause(50);
  if (window.axe) return { ...seen, violations: await violations() };
  seen.width = document.documentElement.scrollWidth;
  seen.window = innerWidth;
  for (const chart of charts) seen.charts.push({ id: chart.id, ...look(chart), hover: hover(chart) });
  // The search names what it highlights, in all charts.
  const field = document.getElementById("search");
  field.value = "zstd";
  field.dispatchEvent(new Event("input"));
  seen.hits = document.querySelectorAll(".series.hit").length;
  seen.searched = charts.map(look).flatMap(one => [...one.overlaps, ...one.outside]);
  return seen;
}

// What axe finds.
async function violations() {
  // One row of a table is like another, and so is one chart of a kind, which its id ends with: axe takes minutes for all.
  for (const row of document.querySelectorAll("tbody tr:nth-child(n + 3)")) row.remove();
  const kinds = new Set();
  for (const chart of charts) {
    const kind = chart.id.split("-").pop();
    if (kinds.has(kind)) document.getElementById(chart.id).closest("figure").remove();
    kinds.add(kind);
  }
  const found = await axe.run(document, { resultTypes: ["violations"], rules: { "label-content-name-mismatch": { enabled: true } } });
  return found.violations.map(one => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map(node => node.html).join(" | ")}`);
}

// Every box of a chart: words that cover one another, words and marks outside, a legend over the drawing.
function look(chart) {
  const figure = document.getElementById(chart.id).closest("figure");
  const drawn = figure.querySelector(".chart > svg");
  const frame = figure.getBoundingClientRect();
  const plot = drawn.getBoundingClientRect();
  const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const out = (a, b) => a.left < b.left - 1 || a.right > b.right + 1 || a.top < b.top - 1 || a.bottom > b.bottom + 1;
  const boxes = query => [...figure.querySelectorAll(query)].map(one => ({ node: one, text: one.textContent, box: one.getBoundingClientRect() }))
    .filter(one => one.box.width > 0);
  const words = boxes("svg text, figcaption, .toggles button, .legend li");
  const marks = boxes(".chart > svg .mark");
  const legends = boxes(".legend");
  const overlaps = words.flatMap((a, n) => words.slice(n + 1).filter(b => over(a.box, b.box)).map(b => [a.text, b.text]));
  const outside = [...words.filter(one => out(one.box, frame)), ...words.filter(one => drawn.contains(one.node) && out(one.box, plot)),
    ...marks.filter(one => out(one.box, plot))].map(one => one.text || "a mark");
  const covered = legends.filter(one => over(one.box, plot)).length;
  const numbers = words.map(one => one.text).filter(text => /\de[+-]?\d/.test(text));
  const pressed = [...figure.querySelectorAll("[data-axis]")].every(group => group.querySelectorAll("[aria-pressed=true]").length === 1);
  return { words: words.length, marks: marks.length, overlaps, outside, covered, numbers, pressed };
}

// What is shown when the pointer is on a mark in the middle, and whether it can be seen whole.
function hover(chart) {
  const drawn = document.getElementById(chart.id).querySelector(":scope > svg");
  drawn.scrollIntoView({ block: "center" });
  const marks = [...drawn.querySelectorAll(".mark")];
  const box = marks[Math.floor(marks.length / 2)].getBoundingClientRect();
  const at = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, bubbles: true };
  drawn.dispatchEvent(new PointerEvent("pointermove", at));
  const tip = document.getElementById("tip");
  const shown = tip.getBoundingClientRect();
  const whole = shown.left >= 0 && shown.top >= 0 && shown.right <= innerWidth + 1 && shown.bottom <= innerHeight + 1;
  const text = tip.hidden ? "" : tip.innerText;
  drawn.dispatchEvent(new PointerEvent("pointerleave", { bubbles: true }));
  return { text, whole };
}
