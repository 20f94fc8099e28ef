// The search over all paths: a part of them in any case, or a glob. Brackets are both: a set of characters in a glob, and
// characters of many names.

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

// A set of a glob: `]` may come first, and `!` or `^` before it means all others.
const SET = /\[[!^]?\]?[^\]/]*\]/;
const GLOB_PARTS = new RegExp(`(\\*\\*+/?|\\*|\\?|${SET.source})`);

// A test of paths: `*`, `?` and sets do not match `/`, `**` does. A glob without `/` is for names, in any folder.
function matcher(text) {
  const includes = path => path.includes(text);
  if (!/[*?]/.test(text) && !SET.test(text)) return includes;
  const escaped = part => part.replace(/[\\^$.|+()[\]{}]/g, "\\$&");
  const translated = text.replace(/^\//, "").split(GLOB_PARTS).map((part, at) =>
    at % 2 === 0 ? escaped(part) : part.startsWith("**") ? ".*" : part === "*" ? "[^/]*" : part === "?" ? "[^/]" : set(part)).join("");
  const expression = expressionOf(`^${text.includes("/") ? "" : "(?:.*/)?"}${translated}$`);
  return path => expression?.test(path) || includes(path);
}

// A set in the syntax of regular expressions; no set contains `/`.
function set(part) {
  const negated = /^\[[!^]/.test(part);
  const inside = part.slice(negated ? 2 : 1, -1).replace(/[\\\]^[]/g, "\\$&");
  return `(?!/)[${negated ? "^" : ""}${inside}]`;
}

// Undefined for a range that ends before it begins.
function expressionOf(source) {
  try {
    return new RegExp(source, "s");
  } catch {
    return undefined;
  }
}
