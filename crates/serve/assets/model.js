// An image: its entries as columns, and what follows from them.

const KINDS = ["folder", "file", "symbolic link", "character device", "block device", "named pipe", "socket"];
const [FOLDER, FILE] = [0, 1];
const SUMS = ["files", "size", "data", "stored", "duplicate", "fragment"];
// Entries against an older image.
const CHANGES = ["unchanged", "added", "changed", "removed"];
const [SAME, ADDED, CHANGED, REMOVED] = [0, 1, 2, 3];

class Entries {
  constructor(raw) {
    this.facts = raw;
    Object.assign(this, raw.entries);
    // What the older image alone has comes last, where sums and ranges do not meet it.
    this.count = this.parent.length;
    this.old = new Map();
    if (raw.changes) this.append(raw.changes.removed);
    this.sum = Object.fromEntries(SUMS.map(one => [one, Float64Array.from(this[one] ?? this.kind, one === "files"
      ? (kind, n) => Number(kind === FILE && n < this.count && !(n in raw.links)) : undefined)]));
    // Entries of a folder follow it: those of `n` are before `end[n]`.
    this.end = Uint32Array.from(this.parent, (_, n) => n + 1);
    for (let n = this.count - 1; n > 0; n -= 1) {
      const above = this.parent[n];
      for (const one of SUMS) this.sum[one][above] += this.sum[one][n];
      if (this.end[above] < this.end[n]) this.end[above] = this.end[n];
    }
    this.listChildren();
    if (raw.changes) this.mark(raw.changes);
  }

  append(removed) {
    const known = this.index();
    for (const one of removed) {
      const cut = one.path.lastIndexOf("/");
      const above = known.get(cut < 0 ? "" : one.path.slice(0, cut));
      if (above === undefined) continue;
      this.old.set(this.parent.length, one);
      const kind = one.kind === "directory" ? FOLDER : one.kind === "file" ? FILE : KINDS.indexOf(one.kind);
      const row = { parent: above, name: one.path.slice(cut + 1), kind, type: 0, mode: 0, uid: 0, gid: 0, mtime: 0, size: 0,
        data: 0, stored: 0, duplicate: 0, fragment: 0 };
      for (const [column, value] of Object.entries(row)) this[column].push(value);
    }
  }

  // Positions of all paths.
  index() {
    const paths = new Array(this.parent.length);
    paths[0] = "";
    const known = new Map([["", 0]]);
    for (let n = 1; n < this.parent.length; n += 1) {
      const above = paths[this.parent[n]];
      paths[n] = above ? `${above}/${this.name[n]}` : this.name[n];
      known.set(paths[n], n);
    }
    return known;
  }

  listChildren() {
    const all = this.parent.length;
    this.first = new Uint32Array(all + 1);
    for (let n = 1; n < all; n += 1) this.first[this.parent[n] + 1] += 1;
    for (let n = 0; n < all; n += 1) this.first[n + 1] += this.first[n];
    const next = this.first.slice();
    this.list = new Uint32Array(all);
    for (let n = 1; n < all; n += 1) this.list[next[this.parent[n]]++] = n;
  }

  mark({ added, removed, changed }) {
    this.change = new Uint8Array(this.parent.length).fill(REMOVED, this.count);
    // Number of entries below a folder that differ.
    this.changes = new Uint32Array(this.parent.length);
    const known = this.index();
    const at = path => known.get(path) ?? 0;
    this.differences = new Map(changed.map(one => [at(one[0]), one]));
    for (const n of this.differences.keys()) this.change[n] = CHANGED;
    this.grown = new Map([...added, ...changed].map(one => [at(one[0]), one[1]]));
    for (const [path] of added) this.change.fill(ADDED, at(path), this.end[at(path)]);
    for (let n = this.parent.length - 1; n > 0; n -= 1) {
      this.changes[this.parent[n]] += this.changes[n] + Number(this.change[n] !== SAME);
    }
  }

  children(n) {
    return this.list.subarray(this.first[n], this.first[n + 1]);
  }

  path(n) {
    const names = [];
    for (; n !== 0; n = this.parent[n]) names.push(this.name[n]);
    return names.reverse().join("/");
  }

  // A path as people read it; the root has the image's name.
  shown(n) {
    return n === 0 ? show(this.facts.name) : show(this.path(n));
  }

  label(n) {
    return n === 0 ? show(this.facts.name) : show(this.name[n]);
  }

  // The entry at a path, step by step: few are asked for.
  find(path) {
    let at = 0;
    for (const name of path === "" ? [] : path.split("/")) {
      at = this.children(at).find(n => this.name[n] === name);
      if (at === undefined) return undefined;
    }
    return at;
  }

  depth(n) {
    let depth = 0;
    for (; n !== 0; n = this.parent[n]) depth += 1;
    return depth;
  }

  isFile(n) {
    return this.kind[n] === FILE && n < this.count && !(n in this.facts.links);
  }

  // The entry that has the bytes of an entry: the first of its names.
  original(n) {
    return this.facts.links[n] ?? n;
  }

  // What an entry is, in words.
  describe(n) {
    if (this.change?.[n] === REMOVED) return `removed ${KINDS[this.kind[n]]}`;
    return n in this.facts.links ? "hard link" : KINDS[this.kind[n]];
  }

  // Class of a ratio; the last one is for what has no data.
  ratio(n) {
    const { data, stored } = this.sum;
    if (data[n] === 0) return this.facts.ratios.length;
    const percent = Math.floor(stored[n] * 100 / data[n]);
    return this.facts.ratios.findIndex(([least]) => percent >= least);
  }

  // Files below a folder, with those of equal `key` as one group.
  groups(folder, key) {
    const groups = new Map();
    for (let n = folder; n < this.end[folder]; n += 1) {
      if (!this.isFile(n)) continue;
      const name = key(n);
      let group = groups.get(name);
      if (!group) groups.set(name, group = { name, files: 0, size: 0, data: 0, stored: 0, duplicate: 0 });
      group.files += 1;
      for (const one of ["size", "data", "stored", "duplicate"]) group[one] += this[one][n];
    }
    return [...groups.values()];
  }

  // Stored bytes of the entry that no file with the same data in both images has, less those in the older image.
  growth(n) {
    return this.grown.get(n) ?? this.old.get(n)?.growth ?? 0;
  }

  types(folder) {
    return this.groups(folder, n => this.type[n]).sort((a, b) => b.stored - a.stored || b.size - a.size);
  }

  // The files below a folder that have most of something.
  most(folder, column, count) {
    const files = [];
    for (let n = folder; n < this.end[folder]; n += 1) if (this.isFile(n) && column[n] > 0) files.push(n);
    return files.sort((a, b) => column[b] - column[a]).slice(0, count);
  }
}
