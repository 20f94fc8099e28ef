// The search over all paths: a part of them in any case, or a glob.

const HITS = 100;

class Search {
  constructor(entries) {
    this.entries = entries;
  }

  // Paths as people read them, in lower case, made when they are first needed.
  paths() {
    if (!this.lower) {
      const { parent, name } = this.entries;
      this.lower = new Array(parent.length);
      this.lower[0] = "";
      for (let n = 1; n < parent.length; n += 1) {
        const own = show(name[n]).toLowerCase();
        this.lower[n] = parent[n] === 0 ? own : `${this.lower[parent[n]]}/${own}`;
      }
    }
    return this.lower;
  }

  // All entries whose path matches, those with most stored bytes first.
  find(text) {
    const paths = this.paths();
    const test = matcher(text.toLowerCase());
    const found = [];
    for (let n = 1; n < paths.length; n += 1) if (test(paths[n])) found.push(n);
    const { stored } = this.entries.sum;
    return found.sort((a, b) => stored[b] - stored[a]);
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
