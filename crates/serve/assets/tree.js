// The tree: only the rows that can be seen exist, however many entries the image has.

const ROW = 26;
const SPARE = 8;
const ORDERS = {
  stored: (entries, a, b) => entries.sum.stored[b] - entries.sum.stored[a],
  size: (entries, a, b) => entries.sum.size[b] - entries.sum.size[a],
  ratio: (entries, a, b) => share(entries, b) - share(entries, a),
};
const share = ({ sum }, n) => sum.data[n] > 0 ? sum.stored[n] / sum.data[n] : -1;

class Tree {
  constructor(entries, frame, open) {
    Object.assign(this, { entries, frame, open, expanded: new Set([0]), current: 0, order: "stored" });
    this.body = make("div", { class: "rows", role: "presentation" });
    const heads = ["Stored", "Of data"].map(text => make("span", { class: "number" }, text));
    heads[1].classList.add("ratio");
    this.heads = make("div", { class: "heads", "aria-hidden": "true" }, make("span", { class: "entry-name" }, "Name"),
      make("span", { class: "part-head" }, "Share"), ...heads);
    frame.before(this.heads);
    frame.append(this.body);
    frame.addEventListener("scroll", () => this.draw());
    frame.addEventListener("keydown", event => this.key(event));
    frame.addEventListener("click", event => this.click(event));
    new ResizeObserver(() => this.draw()).observe(frame);
    this.list();
  }

  sort(order) {
    this.order = order;
    this.list();
    this.reveal(this.current);
  }

  // The children of a folder in the chosen order; equal ones stay in that of their names.
  sorted(folder) {
    const children = this.entries.children(folder);
    const order = ORDERS[this.order];
    return order ? Array.from(children).sort((a, b) => order(this.entries, a, b)) : children;
  }

  // Lists the entries whose folders are all open.
  list() {
    const rows = [];
    const add = (n, depth, place, of) => {
      rows.push({ n, depth, place, of });
      if (!this.expanded.has(n)) return;
      const children = this.sorted(n);
      children.forEach((child, at) => add(child, depth + 1, at + 1, children.length));
    };
    add(0, 1, 1, 1);
    this.rows = rows;
    this.places = new Map(rows.map((row, at) => [row.n, at]));
    this.body.style.height = `${rows.length * ROW}px`;
    this.draw();
  }

  draw() {
    const from = Math.max(0, Math.floor(this.frame.scrollTop / ROW) - SPARE);
    const to = Math.min(this.rows.length, from + Math.ceil(this.frame.clientHeight / ROW) + 2 * SPARE);
    // The current row exists even out of sight: it is what the focus is on.
    const at = this.places.get(this.current);
    const seen = at === undefined || (at >= from && at < to) ? [] : [at];
    for (let row = from; row < to; row += 1) seen.push(row);
    this.body.replaceChildren(...seen.map(row => this.row(row)));
    if (at !== undefined) this.frame.setAttribute("aria-activedescendant", `row-${this.current}`);
  }

  row(at) {
    const { n, depth, place, of } = this.rows[at];
    const { entries } = this;
    const { stored, data } = entries.sum;
    const folder = entries.kind[n] === FOLDER && entries.children(n).length > 0;
    const row = make("div", {
      role: "treeitem", class: "row", id: `row-${n}`, "aria-level": depth, "aria-posinset": place, "aria-setsize": of,
      "aria-expanded": folder ? String(this.expanded.has(n)) : undefined, "aria-selected": String(n === this.current),
      "data-entry": n,
    });
    const change = entries.change?.[n] ?? SAME;
    const inside = change === SAME && entries.changes?.[n] > 0 ? ` (${number(entries.changes[n])} differ)` : "";
    const words = change === SAME ? inside : ` (${CHANGES[change]})`;
    row.style.top = `${at * ROW}px`;
    row.style.setProperty("--depth", Math.min(depth - 1, 12));
    const bar = make("span", { class: "part", "aria-hidden": "true" });
    // Of its folder: parts of the whole image would be nothing a few folders down.
    if (stored[n] > 0) bar.style.setProperty("--part", stored[n] / stored[entries.parent[n]]);
    else bar.classList.add("none");
    const name = make("span", { class: "entry-name" }, entries.label(n), make("span", { class: "note" }, words));
    if (change !== SAME) row.classList.add(CHANGES[change]);
    row.append(make("span", { class: "twisty", "aria-hidden": "true" }, folder ? this.expanded.has(n) ? "▾" : "▸" : ""), name, bar,
      make("span", { class: "number" }, bytes(stored[n])), make("span", { class: "number ratio" }, percent(stored[n], data[n])));
    return row;
  }

  click(event) {
    const row = event.target.closest(".row");
    if (!row) return;
    const n = Number(row.dataset.entry);
    if (event.target.closest(".twisty")) this.toggle(n);
    else if (n === this.current) this.toggle(n);
    this.go(n);
  }

  toggle(n) {
    if (this.entries.kind[n] !== FOLDER) return;
    if (!this.expanded.delete(n)) this.expanded.add(n);
    this.list();
  }

  // Makes an entry the current one, and opens it.
  go(n) {
    this.reveal(n);
    this.open(n);
  }

  // Makes an entry the current one, in sight, with all folders above it open.
  reveal(n) {
    this.current = n;
    let hidden = false;
    for (let above = n; above !== 0;) {
      above = this.entries.parent[above];
      if (!this.expanded.has(above)) {
        this.expanded.add(above);
        hidden = true;
      }
    }
    if (hidden) this.list();
    const top = (this.places.get(n) ?? 0) * ROW;
    const { scrollTop, clientHeight } = this.frame;
    if (top < scrollTop || top + ROW > scrollTop + clientHeight) this.frame.scrollTop = Math.max(0, top - clientHeight / 3);
    this.draw();
  }

  key(event) {
    const { entries, current, rows } = this;
    const at = this.places.get(current) ?? 0;
    const open = this.expanded.has(current);
    const page = Math.max(1, Math.floor(this.frame.clientHeight / ROW) - 1);
    const step = by => this.go(rows[Math.max(0, Math.min(rows.length - 1, at + by))].n);
    const folder = entries.kind[current] === FOLDER && entries.children(current).length > 0;
    const actions = {
      ArrowDown: () => step(1), ArrowUp: () => step(-1), PageDown: () => step(page), PageUp: () => step(-page),
      Home: () => step(-rows.length), End: () => step(rows.length),
      ArrowRight: () => { if (folder) open ? step(1) : this.toggle(current); },
      ArrowLeft: () => folder && open ? this.toggle(current) : this.go(entries.parent[current]),
      Enter: () => folder ? this.toggle(current) : this.open(current), " ": () => this.open(current),
    };
    if (!actions[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    actions[event.key]();
  }
}
