"use strict";
// The page: draws charts when they come near the window, and again when its width, a scale or the search changes; shows
// values for the pointer and the arrow keys; keeps the contents visible.

const charts = JSON.parse(document.getElementById("charts").textContent);
const states = new Map(charts.map(chart => [chart.id, { query: "" }]));
const marksOf = new Map();
const holder = chart => document.getElementById(chart.id);

// Buttons that switch a scale; the active one is marked.
function toggles(chart) {
  const bars = isRows(chart);
  const pairs = bars ? [["y", ""]] : [["y", "up "], ["x", "across "]];
  const state = states.get(chart.id);
  const one = ([key, word]) => {
    const axis = bars ? rowScale(chart, state) : scales(chart, state)[key];
    if (axis.names || Math.min(...chart.series.flatMap(series => series.points.map(point => point[key]))) <= 0) return [];
    const button = (text, log) => {
      const made = html("button", { type: "button", "aria-pressed": String(axis.log === log) }, text);
      made.addEventListener("click", () => { state[key] = log; draw(chart); holder(chart).querySelector(`[data-axis=${key}] [aria-pressed=true]`)?.focus(); });
      return made;
    };
    return [html("span", { role: "group", "aria-label": `scale ${word}`.trim(), "data-axis": key }, word, button("log", true), button("linear", false))];
  };
  return html("div", { class: "toggles" }, ...pairs.flatMap(one));
}

function draw(chart, width = holder(chart).clientWidth) {
  if (!width) return;
  const div = holder(chart);
  const state = states.get(chart.id);
  const { drawn, marks } = (isRows(chart) ? rows : plot)(chart, width, state);
  const what = own(chart).length === 1 ? "1 series" : `${own(chart).length} series`;
  drawn.setAttribute("role", "img");
  drawn.setAttribute("tabindex", "0");
  drawn.setAttribute("aria-label", `${chart.title}: ${chart.y.title} by ${chart.x.title}, ${what}. Arrow keys show the values.`);
  if (state.query) drawn.setAttribute("class", "searching");
  div.replaceChildren(...(isRows(chart) ? rowLegend : pointLegend)(chart), toggles(chart), drawn);
  div.dataset.width = width;
  marksOf.set(chart.id, marks);
  listen(chart, drawn, marks);
}

// The value under the pointer with its details.
const tip = document.getElementById("tip");

function tell(chart, { series, point }) {
  const row = (title, value) => html("div", {}, `${title}: `, html("b", {}, value));
  const value = (axis, key) => typeof point[key] === "string" ? short(point[key]) : three(point[key]);
  const range = point.y_range ?? point.x_range;
  const parts = [html("strong", {}, short(series.name) + (series.role === "published" ? " (other hardware)" : ""))];
  parts.push(row(chart.x.title, value(chart.x, "x")), row(chart.y.title, value(chart.y, "y")));
  if (range) parts.push(row("samples", `${three(range[0])} to ${three(range[1])}`));
  if (point.runs) parts.push(row("runs", String(point.runs) + (point.spread === undefined ? "" : `, spread ${three(point.spread)} %`)));
  if (point.command) parts.push(html("code", {}, point.command));
  tip.replaceChildren(...parts);
}

function show(chart, drawn, found) {
  drawn.querySelector(".halo")?.remove();
  if (!found) { tip.hidden = true; return; }
  drawn.append(svg("circle", { class: "halo", cx: found.x, cy: found.y, r: 8 }));
  tell(chart, found);
  tip.hidden = false;
  const [frame, box] = [drawn.getBoundingClientRect(), tip.getBoundingClientRect()];
  const scale = frame.width / drawn.viewBox.baseVal.width;
  const [x, y] = [frame.left + found.x * scale, frame.top + found.y * scale];
  const left = x + 14 + box.width < innerWidth ? x + 14 : Math.max(4, x - 14 - box.width);
  tip.style.left = `${left}px`;
  tip.style.top = `${Math.max(4, Math.min(y + 12, innerHeight - box.height - 4))}px`;
}

function listen(chart, drawn, marks) {
  let at = -1;
  const near = event => {
    const frame = drawn.getBoundingClientRect();
    const scale = frame.width / drawn.viewBox.baseVal.width;
    const [x, y] = [(event.clientX - frame.left) / scale, (event.clientY - frame.top) / scale];
    const far = one => Math.hypot(one.x - x, isRows(chart) ? 4 * (one.y - y) : one.y - y);
    const best = marks.reduce((least, one) => !least || far(one) < far(least) ? one : least, null);
    return best && (isRows(chart) ? Math.abs(best.y - y) < LANE : far(best) < 40) ? best : null;
  };
  drawn.addEventListener("pointermove", event => show(chart, drawn, near(event)));
  drawn.addEventListener("pointerdown", event => show(chart, drawn, near(event)));
  drawn.addEventListener("pointerleave", () => show(chart, drawn, null));
  drawn.addEventListener("blur", () => show(chart, drawn, null));
  drawn.addEventListener("keydown", event => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") show(chart, drawn, null);
    if (!step || !marks.length) return;
    event.preventDefault();
    at = (at + step + marks.length) % marks.length;
    show(chart, drawn, marks[at]);
  });
}

// Charts near the window are drawn; those in folded parts when they are unfolded.
const watcher = new IntersectionObserver(entries => {
  for (const { isIntersecting, target } of entries) {
    if (isIntersecting && !target.dataset.width) draw(charts.find(chart => chart.id === target.id));
  }
}, { rootMargin: "1000px" });
const resized = new ResizeObserver(entries => {
  for (const { target } of entries) {
    const { width } = target.dataset;
    if (width && target.clientWidth && target.clientWidth !== Number(width)) draw(charts.find(chart => chart.id === target.id));
  }
});
for (const chart of charts) {
  watcher.observe(holder(chart));
  resized.observe(holder(chart));
}

function drawAll() {
  for (const chart of charts) if (!holder(chart).dataset.width) draw(chart, holder(chart).clientWidth || 640);
}

addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("main details")) part.open = true;
  drawAll();
});

// The legend of colours and shapes.
function key() {
  const names = charts.flatMap(chart => own(chart).flatMap(series => [series.name, ...series.points.map(point => String(point.x))]));
  const codecs = [...new Set(names.map(family).filter(Boolean))];
  const programs = [...new Set(names.map(program).filter(Boolean))];
  const item = (name, kind, style) => {
    const icon = svg("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" });
    icon.append(svg("g", { class: "series", style }, mark(kind, 0, 0, 4.5)));
    return html("li", {}, icon, name);
  };
  const list = items => html("ul", { class: "legend" }, ...items);
  document.getElementById("key")?.replaceChildren(
    list(codecs.map(name => item(name, "circle", paint(name)))), list(programs.map(name => item(name, SHAPES[name]))));
}
key();

// Commands get a button that copies them, or selects them where the browser allows no more.
for (const code of document.querySelectorAll("code.command")) {
  const button = html("button", { type: "button", class: "copy" }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  code.after(" ", button);
}

const search = document.getElementById("search");
search?.addEventListener("input", () => {
  for (const chart of charts) {
    states.get(chart.id).query = search.value.trim().toLowerCase();
    if (holder(chart).dataset.width) draw(chart);
  }
});

// The contents are beside the page if there is room, else a menu.
const contents = document.querySelector("nav details");
const wide = matchMedia("(min-width: 75rem)");
const unfold = () => { contents.open = wide.matches; };
unfold();
wide.addEventListener("change", unfold);
contents.addEventListener("click", event => {
  if (event.target.closest("a") && !wide.matches) contents.open = false;
});

// A link to a folded part unfolds it.
function reveal() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target?.closest("details:not(nav details)");
  if (folded && !folded.open) { folded.open = true; target.scrollIntoView(); }
}
addEventListener("hashchange", reveal);
reveal();
