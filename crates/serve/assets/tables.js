// Tables about a folder and everything below it.

// Files in a table.
const MOST = 50;

class Tables {
  constructor(entries, frame, open) {
    Object.assign(this, { entries, frame, open, kind: entries.facts.changes ? "changes" : "types" });
    this.kinds = {
      types: ["by type", () => this.groups("Type", entries.types(this.folder), group => typeName(entries, group.name))],
      ratios: ["by ratio", () => this.ratios()],
      largest: ["largest files", () => this.files("Largest files", entries.sum.stored)],
      duplicates: ["duplicates", () => this.files("Files with most duplicate data", entries.sum.duplicate)],
    };
    if (entries.facts.changes) this.kinds.changes = ["changes", () => this.changes()];
    const options = Object.entries(this.kinds).map(([kind, [title]]) => [kind, title]);
    this.body = make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" });
    frame.append(choice("Table", options, this.kind, kind => { this.kind = kind; this.draw(); }), this.body);
  }

  show(folder) {
    this.folder = folder;
    this.draw();
  }

  draw() {
    this.body.replaceChildren(this.kinds[this.kind][1]());
  }

  ratios() {
    const { entries } = this;
    const groups = entries.groups(this.folder, n => entries.ratio(n)).sort((a, b) => a.name - b.name);
    return this.groups("Stored of data", groups, group => entries.facts.ratios[group.name]?.[1] ?? "no data");
  }

  // Groups of files, and all of them as the last row.
  groups(title, groups, name) {
    const whole = this.entries.sum;
    const all = Object.fromEntries(SUMS.map(one => [one, whole[one][this.folder]]));
    const rows = groups.map(group => this.row(name(group), group));
    return this.table(title, ["Files", "Stored", "Share", "Of data", "Size", "Duplicate"], [...rows, this.row("all", all)]);
  }

  row(name, { files, size, data, stored, duplicate }) {
    const whole = this.entries.sum.stored[this.folder];
    const cell = (text, value) => make("td", { class: "number", "data-value": value }, text);
    return make("tr", {}, make("th", { scope: "row" }, name), cell(number(files), files), cell(bytes(stored), stored),
      cell(percent(stored, whole), undefined), cell(percent(stored, data), data), cell(bytes(size), size),
      cell(bytes(duplicate), duplicate));
  }

  files(title, column) {
    const { entries } = this;
    const rows = entries.most(this.folder, column, MOST).map(n => {
      const { size, stored, data, duplicate } = entries;
      const row = this.row(this.link(n), { files: 1, size: size[n], data: data[n], stored: stored[n], duplicate: duplicate[n] });
      row.children[1].remove();
      return row;
    });
    if (!rows.length) return make("p", {}, column === entries.sum.duplicate ? "No file here shares its data." : "No files here.");
    return this.table(title, ["Stored", "Share", "Of data", "Size", "Duplicate"], rows);
  }

  link(n) {
    const { entries } = this;
    return make("button", { type: "button", class: "link", on: { click: () => this.open(n) } }, entries.shown(n));
  }

  changes() {
    const { entries } = this;
    const rows = [];
    // A folder that is new or gone stands for what is in it.
    for (let n = 0; n < entries.parent.length; n += 1) {
      const change = entries.change[n];
      const inside = this.folder === 0 || n >= entries.count ? this.contains(n) : n >= this.folder && n < entries.end[this.folder];
      if (change === SAME || !inside || (change === ADDED && entries.change[entries.parent[n]] === ADDED)) continue;
      rows.push(n);
    }
    const growth = new Map(rows.map(n => [n, entries.growth(n)]));
    rows.sort((a, b) => Math.abs(growth.get(b)) - Math.abs(growth.get(a)));
    if (!rows.length) return make("p", {}, "Nothing here differs.");
    const shown = rows.slice(0, CHANGES_MOST).map(n => {
      const size = growth.get(n);
      const what = (entries.differences.get(n)?.[2] ?? []).map(([aspect]) => aspect).join(", ");
      const change = make("span", { class: `mark ${CHANGES[entries.change[n]]}` }, CHANGES[entries.change[n]]);
      const grew = `${size < 0 ? "−" : size > 0 ? "+" : ""}${bytes(Math.abs(size))}`;
      return make("tr", {}, make("th", { scope: "row" }, this.link(n)), make("td", {}, change),
        make("td", { class: "number", "data-value": size }, grew), make("td", {}, what));
    });
    const counts = [ADDED, CHANGED, REMOVED].map(change => `${number(rows.filter(n => entries.change[n] === change).length)} ${CHANGES[change]}`);
    const cut = rows.length > shown.length ? `; the ${number(shown.length)} largest changes` : "";
    const title = `Since ${show(entries.facts.changes.against)}: ${counts.join(", ")}${cut}`;
    return this.table(title, ["Change", "Growth", "Aspects"], shown);
  }

  contains(n) {
    for (; n !== 0 && n !== this.folder; n = this.entries.parent[n]);
    return n === this.folder;
  }

  table(title, columns, rows) {
    const heads = columns.map(text => make("th", { scope: "col", class: ["Change", "Aspects"].includes(text) ? "" : "number" }, text));
    return make("table", {}, make("caption", {}, title), make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Name"), ...heads)),
      make("tbody", {}, ...rows));
  }
}

const CHANGES_MOST = 500;
