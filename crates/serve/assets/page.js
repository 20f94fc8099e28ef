// The page: brings its parts together. The address names the entry that is shown.

async function start() {
  const whole = place("model");
  let raw = whole && JSON.parse(whole.textContent);
  if (!raw) {
    const answer = await fetch("api/model");
    if (!answer.ok) throw new Error(`the server answers ${answer.status}: ${(await answer.text()).slice(0, 200)}`);
    raw = await answer.json();
  }
  const entries = new Entries(raw);
  const files = place("contents") && JSON.parse(place("contents").textContent);
  whole?.remove();
  explore(entries, whole ? new Embedded(entries, files ?? {}) : new Served(entries), files);
}

function explore(entries, contents, files) {
  heading(entries, files);
  let [folder, colour] = [undefined, entries.facts.changes ? "changes" : "type"];
  const tables = new Tables(entries, place("tables"), n => open(n));
  const panel = new Panel(entries, place("panel"), contents, n => open(n));
  const tree = new Tree(entries, place("tree"), n => show(n));
  const map = new Treemap(entries, place("treemap"), {
    tell: n => { place("under").textContent = `${entries.shown(n)}: ${bytes(entries.sum.stored[n])} stored, ${percent(entries.sum.stored[n], entries.sum.data[n])} of its data`; },
    // The arrows go on from there, also after a click.
    open: (n, focused = n) => {
      open(n);
      map.focus(focused);
    },
  });

  const drawMap = () => {
    const painted = COLOURS[colour].of(entries, folder);
    const sums = new Map(entries.groups(folder, painted.class).map(group => [group.name, group.stored]));
    const value = at => make("span", { class: "value" }, percent(sums.get(at) ?? 0, entries.sum.stored[folder]));
    place("legend").replaceChildren(...painted.legend.map((item, at) => legendItem(item, value(at))));
    map.show(folder, painted);
    place("under").textContent = `${entries.shown(folder)}: ${bytes(entries.sum.stored[folder])} stored. Click a folder to enter it, a file to see it.`;
  };
  const show = n => {
    panel.show(n);
    remember(entries.path(n));
    const next = entries.kind[n] === FOLDER && n < entries.count ? n : entries.parent[n];
    if (next !== folder) {
      folder = next;
      crumbs(entries, folder, open);
      drawMap();
      tables.show(folder);
    }
    map.mark(n);
  };
  const open = n => {
    tree.reveal(n);
    show(n);
    // A file is chosen to be seen; a folder is seen in the treemap.
    if (entries.kind[n] === FILE) place("panel").scrollIntoView({ block: "nearest" });
  };

  const orders = [["stored", "stored"], ["size", "size"], ["ratio", "ratio"], ["name", "name"]];
  place("order").append(choice("Sort by", orders, "stored", order => tree.sort(order)));
  const colours = Object.entries(COLOURS).filter(([name]) => name !== "changes" || entries.facts.changes);
  place("colours").append(choice("Colour by", colours.map(([name, { title }]) => [name, title]), colour, name => {
    colour = name;
    drawMap();
  }));
  searching(entries, open, found => map.find(found));
  const at = () => entries.find(decodeHash()) ?? 0;
  addEventListener("hashchange", () => { if (at() !== tree.current) open(at()); });
  tree.expanded.add(0);
  open(at());
  document.body.classList.add("ready");
}

// The path in the address of the page. It is text as names are: %XX is a byte.
const decodeHash = () => {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return "";
  }
};

function remember(path) {
  const hash = path ? `#${encodeURIComponent(path).replace(/%2F/g, "/")}` : "";
  if (hash === location.hash || decodeHash() === path) return;
  location.hash = hash;
}

function heading(entries, files) {
  const { facts, sum } = entries;
  document.title = `${show(facts.name)} – packfs`;
  place("title").textContent = show(facts.name);
  const codecs = facts.codecs.join(", ") || "not compressed";
  const about = [`${facts.format}, ${codecs}, blocks of ${bytes(facts.block_size)}`,
    `${plural(entries.count, "entry", "entries")}, ${plural(sum.files[0], "file")} of ${bytes(sum.size[0])}`,
    `made ${date(facts.created)}`];
  place("about").textContent = `${about.join(" · ")}`;
  const features = facts.features.length ? `Features: ${facts.features.join(", ")}. ` : "";
  const embedded = Object.keys(files ?? {}).length ? `This page contains the contents of ${plural(Object.keys(files).length, "file")}.` : "";
  place("features").textContent = features + embedded;
  const duplicates = sum.duplicate[0] ? `; ${bytes(sum.duplicate[0])} of duplicates are stored once` : "";
  const changes = facts.changes ? `; ${growth(facts.image_bytes - facts.changes.image_bytes)} than ${show(facts.changes.against)}` : "";
  place("answer").textContent = `The image has ${bytes(facts.image_bytes)}: files take ${bytes(sum.stored[0])}, `
    + `${percent(sum.stored[0], sum.data[0])} of their data${duplicates}${changes}.`;
  space(facts, sum.stored[0]);
}

const growth = more => more < 0 ? `${bytes(-more)} smaller` : more > 0 ? `${bytes(more)} larger` : "no larger";

// What takes up space in the image: files, kinds of metadata, and nothing.
function space(facts, stored) {
  const kinds = facts.metadata.map(([name, count], n) => [name, count, [[30, 80], [280, 45], [145, 45], [350, 60], [185, 60], [60, 55]][n % 6]]);
  const parts = [["files", stored, [215, 70]], ...kinds, ["unused or padding", facts.unused_bytes, GREY]].filter(([, count]) => count > 0);
  for (const [name, count, colour] of parts) {
    const part = paint(make("span", {}), colour);
    part.style.flexGrow = count;
    place("space").append(part);
    const value = make("span", { class: "value", "data-value": count }, `${bytes(count)}, ${percent(count, facts.image_bytes)}`);
    place("parts").append(legendItem([name, colour], value));
  }
}

// The folders above a folder, and the folder itself.
function crumbs(entries, folder, open) {
  const list = [];
  for (let n = folder; ; n = entries.parent[n]) {
    const here = n === folder;
    list.unshift(make("li", {}, make("button", {
      type: "button", class: "link", "aria-current": here ? "location" : undefined, on: { click: () => open(n) },
    }, entries.label(n))));
    if (n === 0) break;
  }
  place("crumbs").replaceChildren(...list);
}

// Lists the entries found, and passes them on to be marked elsewhere.
function searching(entries, open, mark) {
  const search = new Search(entries);
  const field = place("search");
  const draw = () => {
    const text = field.value.trim();
    const found = text ? search.find(text) : [];
    mark(found);
    const { stored } = entries.sum;
    const row = n => make("li", {}, make("button", { type: "button", class: "hit", on: { click: () => open(n) } },
      make("span", { class: "path" }, entries.shown(n)), make("span", { class: "number" }, bytes(stored[n]))));
    place("hits").replaceChildren(...Array.from(found.slice(0, HITS), row));
    place("hits").hidden = !found.length;
    const files = found.reduce((sum, n) => sum + (entries.isFile(n) ? stored[n] : 0), 0);
    const shown = found.length > HITS ? `, the ${HITS} largest are listed` : "";
    place("found").textContent = text ? `${plural(found.length, "path")} of ${number(entries.parent.length - 1)}, `
      + `files among them take ${bytes(files)}${shown}` : "";
  };
  field.addEventListener("input", draw);
  setTimeout(() => search.prepare(), 200);
  field.addEventListener("keydown", event => { if (event.key === "Enter") place("hits").querySelector("button")?.click(); });
}

start().catch(error => {
  place("answer").textContent = `The image cannot be shown: ${error.message}`;
  place("answer").setAttribute("role", "alert");
  throw error;
});
