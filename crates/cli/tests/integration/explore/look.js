// Runs in a frame of the tested width, behind the page's own scripts: looks at the page, does what a person would do, and
// hands what it saw to the page around it.
addEventListener("load", async () => {
  const seen = await everything().catch(error => ({ error: `${error}\n${error.stack}` }));
  if (seen.error) problems.push(seen.error);
  parent.postMessage(JSON.stringify({ problems, ...seen }), "*");
});

const pause = ms => new Promise(done => setTimeout(done, ms));
const texts = query => [...document.querySelectorAll(query)].map(one => one.textContent);
const until = async (what, test) => {
  for (let tries = 0; !test(); tries += 1) {
    if (tries > 100) throw new Error(`waited in vain for ${what}`);
    await pause(50);
  }
};
const type = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));

async function everything() {
  await until("the page", () => document.body.classList.contains("ready"));
  const seen = {};
  await pause(100);
  seen.paper = getComputedStyle(document.body).backgroundColor;
  seen.legend = texts("#legend .term");
  seen.rows = document.querySelectorAll(".row").length;
  seen.parts = [...document.querySelectorAll("#parts .value")].map(one => Number(one.dataset.value));
  const first = layout();
  seen.areas = await areas();
  seen.entered = await drill();
  seen.clicked = await click();
  seen.heads = texts(".heads span");
  seen.types = await table("by type");
  seen.ratios = await table("by ratio");
  seen.largest = (await table("largest files")).map(row => row[1]);
  const changes = await table("changes");
  seen.changes = changes.map(row => row.slice(0, 2));
  seen.growth = changes.map(row => [row[0], row[2]]);
  if (task.search) Object.assign(seen, search(task.search));
  if (task.picture) seen.picture = await picture(task.picture);
  if (task.list) seen.listed = await list(task.list);
  if (task.text) seen.text = await text(task.text);
  seen.images = document.querySelectorAll("img").length;
  const last = layout();
  Object.assign(seen, last, { labels: first.labels, overlaps: [...first.overlaps, ...last.overlaps], outside: [...first.outside, ...last.outside] });
  if (window.axe) {
    const found = await axe.run(document, { resultTypes: ["violations"], rules: { "label-content-name-mismatch": { enabled: true } } });
    seen.violations = found.violations.map(one => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map(node => node.html).join(" | ")}`);
  }
  return seen;
}

const here = () => texts("#crumbs button").join("/");

// Enters the largest area of the treemap by the keyboard, and leaves it.
async function drill() {
  const places = [here()];
  const map = document.getElementById("treemap");
  const first = map.querySelector("button[tabindex='0']");
  first.focus();
  // A press of Enter on a button is a click without a pointer.
  first.click();
  await pause(20);
  places.push(here());
  if (!map.contains(document.activeElement)) problems.push("the treemap lost the focus");
  type(document.activeElement, "ArrowRight");
  type(document.activeElement, "ArrowDown");
  if (!map.contains(document.activeElement)) problems.push("arrows left the treemap");
  type(document.activeElement, "Escape");
  await pause(20);
  places.push(here());
  return places;
}

// Colours of the legend by their names.
const colours = () => Object.fromEntries([...document.querySelectorAll("#legend li")].map(item =>
  [item.querySelector(".term").textContent, item.querySelector(".key").style.getPropertyValue("--hue")]));

// Clicks the largest area: arrows go on from there, and names keep their colours. Returns the folders.
async function click() {
  const map = document.getElementById("treemap");
  const places = [here()];
  const before = colours();
  map.querySelector("button:not(:disabled)").dispatchEvent(new MouseEvent("click", { bubbles: true, detail: 1 }));
  await pause(20);
  places.push(here());
  if (!map.contains(document.activeElement)) problems.push("a click took the focus from the treemap");
  for (const [name, hue] of Object.entries(colours())) {
    if (name !== "others" && name in before && before[name] !== hue) problems.push(`${name} has another colour in a folder`);
  }
  type(document.activeElement, "Escape");
  await pause(20);
  if (!map.contains(document.activeElement)) problems.push("Escape took the focus from the treemap");
  places.push(here());
  return places;
}

// The rows of a table: names, and exact values.
async function table(title) {
  const button = [...document.querySelectorAll("#tables .toggles button")].find(one => one.textContent === title);
  if (!button) return [];
  button.click();
  await pause(20);
  return [...document.querySelectorAll("#tables tbody tr")].map(row => [...row.children]
    .filter(cell => cell.tagName === "TH" || !/^(< |[0-9.]+ %$|–$)/.test(cell.textContent) || cell.dataset.value !== undefined)
    .map(cell => cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value)));
}

function search(text) {
  const field = document.getElementById("search");
  field.value = text;
  field.dispatchEvent(new Event("input"));
  return { hits: texts("#hits .path").sort(), marked: document.querySelectorAll("#treemap .found").length };
}

async function go(path) {
  location.hash = `#${encodeURIComponent(path)}`;
  await until(path, () => document.querySelector(".row[aria-selected=true]") && decodeHash() === path);
  await pause(100);
}

async function picture(path) {
  await go(path);
  await until("the picture", () => document.querySelector("#panel img")?.complete);
  const image = document.querySelector("#panel img");
  return [image.naturalWidth, image.naturalHeight];
}

async function text(path) {
  await go(path);
  await until("the text", () => document.querySelector("#panel pre"));
  await until("the block map", () => document.querySelector("#panel .blocks"));
  return [document.querySelector("#panel pre").textContent, document.querySelector("#panel .short caption").textContent];
}

// The names below a folder in the tree, which the keyboard opens.
async function list(path) {
  await go(path);
  const tree = document.getElementById("tree");
  tree.focus();
  type(tree, "ArrowRight");
  await pause(20);
  return [...document.querySelectorAll(".row[aria-level='3'] .entry-name")].map(one => one.firstChild.textContent);
}

// What is wrong with the areas of the treemap, now and in a frame of another height: they fill the frame, each folder's
// areas are shared by stored bytes, and no area is blank.
async function areas() {
  const map = document.getElementById("treemap");
  const wrong = unequal(map);
  for (const height of ["260px", "430px"]) {
    map.style.height = height;
    // The browser tells of new sizes when it draws.
    let found = unequal(map);
    for (let tries = 0; found.length && tries < 40; tries += 1) {
      await pause(50);
      found = unequal(map);
    }
    wrong.push(...found.map(one => `at ${height}: ${one}`));
  }
  map.style.height = "";
  await pause(100);
  return wrong.slice(0, 10);
}

function unequal(map) {
  const wrong = [];
  const size = one => Number(one.dataset.value);
  const box = one => one.getBoundingClientRect();
  for (const folder of [map, ...map.querySelectorAll(".cell")]) {
    const inner = [...folder.children].filter(one => one.classList.contains("cell"));
    const name = folder.querySelector(".label")?.textContent ?? "an area";
    if (!inner.length) {
      if (!folder.classList.contains("painted")) wrong.push(`${name} is blank`);
      continue;
    }
    const all = inner.reduce((sum, one) => sum + size(one), 0);
    const [top, bottom] = [Math.min(...inner.map(one => box(one).top)), Math.max(...inner.map(one => box(one).bottom))];
    const [left, right] = [Math.min(...inner.map(one => box(one).left)), Math.max(...inner.map(one => box(one).right))];
    const space = (right - left) * (bottom - top);
    for (const one of inner) {
      const [is, want] = [box(one).width * box(one).height, space * size(one) / all];
      // What is too small to be drawn leaves its area to nobody, and boxes end between pixels.
      if (!(Math.abs(is - want) <= 4 + want * 0.01)) wrong.push(`${name}: ${is} square pixels instead of ${want}`);
    }
    const frame = { width: folder.clientWidth, height: folder.clientHeight };
    const strip = folder === map ? 0 : 20;
    if (right - left < frame.width - 3 || bottom - top < frame.height - strip - 3) {
      wrong.push(`${name}: ${right - left} by ${bottom - top} of ${frame.width} by ${frame.height} pixels are used`);
    }
  }
  return wrong;
}

// Boxes outside of the screen or of what holds them, and words that cover one another.
function layout() {
  const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const boxes = query => [...document.querySelectorAll(query)].map(one => ({ one, text: one.textContent.slice(0, 60), box: one.getBoundingClientRect() }))
    .filter(({ box }) => box.width > 0 && box.height > 0);
  const labels = boxes("#treemap .label");
  const words = boxes("h1, h2, #answer, #about, #features, .legend li, .toggles button, .search, #found, #under, dt, dd, #crumbs li");
  const overlaps = [labels, words].flatMap(all => all.flatMap((a, n) => all.slice(n + 1)
    .filter(b => over(a.box, b.box) && !a.one.contains(b.one)).map(b => [a.text, b.text])));
  const cells = boxes("#treemap .cell, #treemap .label");
  const outside = [
    ...words.filter(({ box }) => box.left < -1 || box.right > innerWidth + 1),
    ...cells.filter(({ one, box }) => {
      const frame = one.parentElement.getBoundingClientRect();
      return box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
    }),
  ].map(one => one.text || "an area");
  return { labels: labels.length, overlaps, outside, width: document.documentElement.scrollWidth, window: innerWidth };
}
