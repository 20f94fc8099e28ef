// The search over all paths: a part of them in any case, or a glob.

const HITS = 100;

class Search {
  constructor(entries) {
    this.entries = entries;
  }

  // Lists the paths as people read them, in lower case, and the entries with those of most stored bytes first. It takes as
  // long as many searches, so the page does it when it has nothing else to do.
  prepare() {
    if (this.order) return;
    const { parent, name, sum } = this.entries;
    this.paths = new Array(parent.length);
    this.paths[0] = "";
    for (let n = 1; n < parent.length; n += 1) {
      const own = show(name[n]).toLowerCase();
      this.paths[n] = parent[n] === 0 ? own : `${this.paths[parent[n]]}/${own}`;
    }
    this.order = Uint32Array.from(parent, (_, n) => n).subarray(1).sort((a, b) => sum.stored[b] - sum.stored[a] || a - b);
  }

  // All entries whose path matches, those with most stored bytes first.
  find(text) {
    this.prepare();
    const test = matcher(text.toLowerCase());
    return this.order.filter(n => test(this.paths[n]));
  }
}

// A test of paths: `*` and `?` do not match `/`, `**` does. A glob without `/` is for names, in any folder.
function matcher(text) {
  if (!/[*?]/.test(text)) return path => path.includes(text);
  const escaped = part => part.replace(/[\\^$.|+()[\]{}]/g, "\\$&");
  const translated = text.replace(/^\//, "").split(/(\*\*+\/?|\*|\?)/).map(part =>
    part.startsWith("**") ? ".*" : part === "*" ? "[^/]*" : part === "?" ? "[^/]" : escaped(part)).join("");
  const expression = new RegExp(`^${text.includes("/") ? "" : "(?:.*/)?"}${translated}$`, "s");
  return path => expression.test(path);
}
