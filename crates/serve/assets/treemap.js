// The treemap: areas are stored bytes. The children of a folder are buttons; what is in them is drawn inside, the largest
// first. What is too small to be drawn is one area with the rest of its folder, in the colour of most of it.

// At most this many children; the rest is one area.
const CELLS = 200;
// Areas drawn within the children, in all and of one folder.
const INNER = 4000;
const INNER_MOST = 250;
// Square pixels of the smallest area that is drawn by itself.
const SMALLEST = 16;
const LABEL = { width: 44, height: 17 };
// The least boxes in which a size is written beside a name, and below one.
const SIZE_BESIDE = { width: 110 };
const SIZE_BELOW = { width: 62, height: 2 * LABEL.height };
// A strip for a name takes place from what is in a folder, so only folders of this height have one.
const STRIP_FROM = 3 * LABEL.height;

// Divides a box among sizes, which descend, into boxes as square as possible (Bruls, Huizing, van Wijk).
function squarify(sizes, box) {
  const boxes = [];
  let { left, top, width, height } = box;
  let rest = sizes.reduce((sum, size) => sum + size, 0);
  for (let from = 0; from < sizes.length;) {
    const side = Math.min(width, height);
    const scale = rest > 0 ? width * height / rest : 0;
    const worst = (sum, most, least) => Math.max(side * side * most / (sum * sum), sum * sum / (side * side * least));
    let [sum, to] = [sizes[from] * scale, from + 1];
    while (to < sizes.length) {
      const longer = sum + sizes[to] * scale;
      const [most, before] = [sizes[from] * scale, sizes[to - 1] * scale];
      if (worst(longer, most, sizes[to] * scale) > worst(sum, most, before)) break;
      [sum, to] = [longer, to + 1];
    }
    const thick = side > 0 ? Math.min(sum / side, Math.max(width, height)) : 0;
    const wide = width >= height;
    let along = wide ? top : left;
    for (; from < to; from += 1) {
      const long = thick > 0 ? sizes[from] * scale / thick : 0;
      boxes.push(wide ? { left, top: along, width: thick, height: long } : { left: along, top, width: long, height: thick });
      along += long;
      rest -= sizes[from];
    }
    if (wide) [left, width] = [left + thick, Math.max(0, width - thick)];
    else [top, height] = [top + thick, Math.max(0, height - thick)];
  }
  return boxes;
}

// Smaller areas have no room inside their borders.
const canBeSeen = box => box.width >= 2 && box.height >= 2;

class Treemap {
  // `tell` gets the entry below the pointer or the focus; `open` gets the chosen one, and the one that has the focus then.
  constructor(entries, frame, { tell, open }) {
    Object.assign(this, { entries, frame, tell, open });
    const found = event => event.target.closest("[data-entry]");
    const entry = event => Number(found(event)?.dataset.entry ?? NaN);
    frame.addEventListener("pointermove", event => { if (found(event)) tell(entry(event)); });
    frame.addEventListener("focusin", event => { if (found(event)) tell(entry(event)); });
    frame.addEventListener("click", event => {
      if (!found(event)) return;
      // The keyboard opens what has the focus, the pointer what is below it.
      open(event.detail === 0 ? Number(event.target.closest("button").dataset.entry) : entry(event));
    });
    frame.addEventListener("keydown", event => this.key(event));
    const changed = () => frame.clientWidth !== this.width || frame.clientHeight !== this.height;
    new ResizeObserver(() => { if (changed()) this.draw(); }).observe(frame);
  }

  show(folder, colour) {
    Object.assign(this, { folder, colour });
    this.draw();
  }

  // Tells which area is the chosen file.
  mark(n) {
    this.current = n;
    this.frame.querySelector(".current")?.classList.remove("current");
    this.frame.querySelector(`[data-entry="${n}"]`)?.classList.add("current");
  }

  // The children of a folder that take space, the largest first. If there are too many for the box, the smallest are one
  // part without a number.
  parts(folder, most, box) {
    const { stored } = this.entries.sum;
    const all = [...this.entries.children(folder)].filter(n => stored[n] > 0).sort((a, b) => stored[b] - stored[a]);
    const least = stored[folder] * SMALLEST / (box.width * box.height);
    let count = Math.min(most, all.length);
    while (count > 1 && stored[all[count - 1]] < least) count -= 1;
    // One that is left over is drawn instead of a part for it.
    if (count >= all.length - 1) count = all.length;
    else if (count === most) count -= 1;
    const parts = all.slice(0, count).map(n => ({ n, size: stored[n], of: [n] }));
    const others = all.slice(count);
    if (others.length) parts.push({ size: others.reduce((sum, n) => sum + stored[n], 0), of: others });
    return parts.sort((a, b) => b.size - a.size);
  }

  draw() {
    if (this.folder === undefined) return;
    [this.width, this.height] = [this.frame.clientWidth, this.frame.clientHeight];
    this.left = INNER;
    const box = { left: 0, top: 0, width: this.width, height: this.height };
    let level = [];
    const cells = this.cells("button", this.folder, CELLS, box, level);
    // Level by level, so that a deep folder takes no areas from its neighbours.
    while (level.length) {
      const below = [];
      for (const folder of level.sort((a, b) => b.box.width * b.box.height - a.box.width * a.box.height)) this.fill(folder, below);
      level = below;
    }
    if (!cells.length) cells.push(make("p", { class: "empty" }, "Nothing in this folder takes space for data."));
    this.frame.replaceChildren(...cells);
    const first = this.frame.querySelector("button:not(:disabled)");
    if (first) first.tabIndex = 0;
    this.mark(this.current);
    this.markFound();
  }

  // Marks the areas of entries that a search found, and of folders that contain some.
  find(found) {
    this.found = Uint32Array.from(found).sort();
    this.markFound();
  }

  markFound() {
    for (const cell of this.frame.querySelectorAll("[data-entry]")) {
      cell.classList.toggle("found", this.hasFound(Number(cell.dataset.entry)));
    }
  }

  // Returns true if an entry or anything below it was found.
  hasFound(n) {
    const { found, entries } = this;
    let [from, to] = [0, found?.length ?? 0];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (found[middle] < n) from = middle + 1;
      else to = middle;
    }
    return found !== undefined && from < found.length && found[from] < entries.end[n];
  }

  // The areas of a folder in a box. Folders among them whose content can be drawn are added to `level`.
  cells(tag, folder, most, box, level) {
    const parts = this.parts(folder, most, box);
    const boxes = squarify(parts.map(part => part.size), box);
    return parts.map((part, at) => canBeSeen(boxes[at]) && this.cell(tag, part, boxes[at], level)).filter(Boolean);
  }

  cell(tag, { n, size, of }, box, level) {
    const { entries } = this;
    const top = tag === "button";
    const cell = make(tag, top ? { type: "button", tabindex: -1 } : {});
    cell.className = "cell";
    cell.dataset.value = size;
    for (const [side, value] of Object.entries(box)) cell.style[side] = `${value}px`;
    const label = n === undefined ? `${plural(of.length, "other")}` : entries.label(n);
    if (n === undefined) cell.classList.add("others");
    if (n === undefined && top) cell.disabled = true;
    if (n !== undefined) cell.dataset.entry = n;
    // What is drawn inside is hidden from those who listen: names without their context.
    if (top) cell.append(make("span", { class: "spoken" }, n === undefined ? `${label}, ${bytes(size)}` : this.words(n)));
    else cell.setAttribute("aria-hidden", true);
    const isFolder = n !== undefined && entries.kind[n] === FOLDER;
    const strip = box.height >= STRIP_FROM && box.width >= LABEL.width ? LABEL.height : 0;
    const inner = { left: 0, top: strip, width: box.width - 2, height: box.height - 2 - strip };
    const opens = isFolder && inner.width * inner.height > 3 * SMALLEST && inner.width > 4 && inner.height > 4;
    if (opens ? strip > 0 : box.width >= LABEL.width && box.height >= LABEL.height) cell.append(...this.label(label, size, box, opens));
    if (isFolder) cell.classList.add("folder");
    if (opens) level.push({ cell, n, box: inner });
    else this.paint(cell, of);
    return cell;
  }

  // The name of an area, and its bytes where there is room: beside the name of a folder, below that of a file.
  label(text, size, box, isStrip) {
    const name = make("span", { class: "label", "aria-hidden": true }, text);
    if (isStrip && box.width >= SIZE_BESIDE.width) name.append(make("span", { class: "size" }, bytes(size)));
    if (isStrip || box.width < SIZE_BELOW.width || box.height < SIZE_BELOW.height) return [name];
    return [name, make("span", { class: "label below", "aria-hidden": true }, bytes(size))];
  }

  // Draws what is in a folder, as long as areas are left; then it is one.
  fill({ cell, n, box }, below) {
    const cells = this.left > 1 ? this.cells("span", n, Math.min(this.left, INNER_MOST), box, below) : [];
    this.left -= cells.length;
    if (cells.length) cell.append(...cells);
    else this.paint(cell, [n]);
  }

  // Gives an area the colour of most bytes of some entries and what is below them.
  paint(cell, of) {
    const { entries, colour } = this;
    const { stored } = entries.sum;
    const sums = new Array(colour.legend.length).fill(0);
    for (const top of of) for (let n = top; n < entries.end[top]; n += 1) if (entries.isFile(n)) sums[colour.class(n)] += stored[n];
    paint(cell, colour.legend[sums.indexOf(Math.max(...sums))][1]);
  }

  words(n) {
    const { stored } = this.entries.sum;
    const whole = stored[this.folder];
    return `${this.entries.label(n)}, ${this.entries.describe(n)}, ${bytes(stored[n])} stored, ${percent(stored[n], whole)}`;
  }

  // Gives the focus to the area of an entry, or to the first one, after areas were drawn anew. The page does not
  // scroll.
  focus(n) {
    const buttons = [...this.frame.querySelectorAll("button:not(:disabled)")];
    const chosen = buttons.find(one => Number(one.dataset.entry) === n) ?? buttons[0];
    if (!chosen) return;
    for (const one of buttons) one.tabIndex = one === chosen ? 0 : -1;
    chosen.focus({ preventScroll: true });
  }

  // Arrows go to the nearest area in their direction.
  key(event) {
    const toward = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape" || event.key === "Backspace") {
      event.preventDefault();
      this.open(this.entries.parent[this.folder], this.folder);
    }
    if (!toward) return;
    event.preventDefault();
    const buttons = [...this.frame.querySelectorAll("button:not(:disabled)")];
    const centre = one => [one.offsetLeft + one.offsetWidth / 2, one.offsetTop + one.offsetHeight / 2];
    const [x, y] = centre(event.target);
    let [best, nearest] = [Infinity, undefined];
    for (const one of buttons) {
      const [dx, dy] = [centre(one)[0] - x, centre(one)[1] - y];
      const ahead = dx * toward[0] + dy * toward[1];
      const aside = Math.abs(dx * toward[1]) + Math.abs(dy * toward[0]);
      if (one !== event.target && ahead > 0.5 && ahead + 2 * aside < best) [best, nearest] = [ahead + 2 * aside, one];
    }
    if (!nearest) return;
    event.target.tabIndex = -1;
    nearest.tabIndex = 0;
    nearest.focus();
  }
}
