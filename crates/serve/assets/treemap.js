// The treemap: areas are stored bytes. The children of a folder are buttons; what is in them is drawn inside.

// Rows of at most this many children; the rest is one area.
const CELLS = 200;
// Areas drawn within the children.
const INNER = 1500;
const INNER_MOST = 120;
const LABEL = { width: 44, height: 17 };

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
  // `tell` gets the entry below the pointer or the focus; `open` gets the chosen one.
  constructor(entries, frame, { tell, open }) {
    Object.assign(this, { entries, frame, tell, open });
    const found = event => event.target.closest("[data-entry]");
    const entry = event => Number(found(event)?.dataset.entry ?? NaN);
    frame.addEventListener("pointermove", event => { if (found(event)) tell(entry(event)); });
    frame.addEventListener("focusin", event => { if (found(event)) tell(entry(event)); });
    frame.addEventListener("click", event => {
      if (!found(event)) return;
      // The keyboard opens what has the focus, the pointer what is below it.
      open(event.detail === 0 ? Number(event.target.closest("button").dataset.entry) : entry(event), event.detail === 0);
    });
    frame.addEventListener("keydown", event => this.key(event));
    new ResizeObserver(() => { if (frame.clientWidth !== this.width) this.draw(); }).observe(frame);
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

  // The children of a folder that take space, the largest first; of too many the smallest are one, without a number.
  parts(folder, most) {
    const { stored } = this.entries.sum;
    const all = [...this.entries.children(folder)].filter(n => stored[n] > 0).sort((a, b) => stored[b] - stored[a]);
    const parts = all.slice(0, all.length > most ? most - 1 : most).map(n => ({ n, size: stored[n] }));
    const others = all.slice(parts.length);
    if (others.length) parts.push({ count: others.length, size: others.reduce((sum, n) => sum + stored[n], 0) });
    return parts.sort((a, b) => b.size - a.size);
  }

  draw() {
    if (this.folder === undefined) return;
    this.width = this.frame.clientWidth;
    const box = { left: 0, top: 0, width: this.width, height: this.frame.clientHeight };
    this.left = INNER;
    const parts = this.parts(this.folder, CELLS);
    const boxes = squarify(parts.map(part => part.size), box);
    const cells = parts.map((part, at) => canBeSeen(boxes[at]) && this.cell("button", part, boxes[at], true)).filter(Boolean);
    if (!cells.length) cells.push(make("p", { class: "empty" }, "Nothing in this folder takes space for data."));
    this.frame.replaceChildren(...cells);
    const first = this.frame.querySelector("button:not(:disabled)");
    if (first) first.tabIndex = 0;
    this.mark(this.current);
  }

  cell(tag, { n, count, size }, box, top) {
    const { entries } = this;
    const cell = make(tag, tag === "button" ? { type: "button", tabindex: -1 } : {});
    cell.className = "cell";
    for (const [side, value] of Object.entries(box)) cell.style[side] = `${value}px`;
    const label = n === undefined ? `${plural(count, "other")}` : entries.label(n);
    if (n === undefined) cell.disabled = true;
    else cell.dataset.entry = n;
    if (top) cell.setAttribute("aria-label", n === undefined ? `${label}, ${bytes(size)}` : this.words(n));
    const fits = box.width >= LABEL.width && box.height >= LABEL.height;
    if (fits) cell.append(make("span", { class: "label" }, label));
    if (n !== undefined && entries.kind[n] === FOLDER) {
      cell.classList.add("folder");
      const strip = fits ? LABEL.height : 1;
      const inner = { left: 1, top: strip, width: box.width - 4, height: box.height - strip - 3 };
      if (inner.width > 6 && inner.height > 6) this.fill(cell, n, inner);
    } else if (n === undefined) {
      cell.classList.add("others");
    } else {
      paint(cell, this.colour.legend[this.colour.class(n)][1]);
    }
    return cell;
  }

  // Draws what is in a folder, as long as there is room for it.
  fill(cell, folder, box) {
    const most = Math.min(this.left, Math.max(2, Math.floor(box.width * box.height / 150)), INNER_MOST);
    if (most < 2) return;
    const parts = this.parts(folder, most);
    this.left -= parts.length;
    const boxes = squarify(parts.map(part => part.size), box);
    parts.forEach((part, at) => {
      if (canBeSeen(boxes[at])) cell.append(this.cell("span", part, boxes[at], false));
    });
  }

  words(n) {
    const { stored } = this.entries.sum;
    const whole = stored[this.folder];
    return `${this.entries.label(n)}, ${this.entries.describe(n)}, ${bytes(stored[n])} stored, ${percent(stored[n], whole)}`;
  }

  focus() {
    this.frame.querySelector("button[tabindex='0']")?.focus();
  }

  // Arrows go to the nearest area in their direction.
  key(event) {
    const toward = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Escape" || event.key === "Backspace") {
      event.preventDefault();
      this.open(this.entries.parent[this.folder], true);
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
