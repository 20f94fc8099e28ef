// The panel of an entry: its attributes, what it takes, what is in it, and where that is stored.

// Rows of a block map that are shown as text, and pieces that are drawn.
const PIECES = 200;
const DRAWN = 2000;

class Panel {
  constructor(entries, frame, contents, open) {
    Object.assign(this, { entries, frame, contents, open });
  }

  show(n) {
    const { entries } = this;
    this.current = n;
    const facts = make("dl", { class: "facts" });
    for (const [term, value, exact] of this.facts(n)) {
      facts.append(make("div", {}, make("dt", {}, term), make("dd", exact === undefined ? {} : { "data-value": exact }, value)));
    }
    const path = entries.path(entries.parent[n]);
    const above = n === 0 ? [] : [make("p", { class: "about" }, `in /${show(path)}`)];
    this.frame.replaceChildren(make("h2", {}, entries.label(n)), ...above, facts, ...this.more(n));
    const old = entries.differences?.get(n);
    if (old) this.frame.append(this.differences(old[2]));
    if (entries.kind[n] === FILE && n < entries.count) this.file(n);
  }

  *facts(n) {
    const { entries } = this;
    const { sum, mode, uid, gid, mtime } = entries;
    const removed = entries.old.get(n);
    yield ["Type", entries.describe(n)];
    if (removed) {
      yield ["Was stored in", bytes(removed.stored), removed.stored];
      yield ["Size", bytes(removed.size), removed.size];
      if (entries.kind[n] === FOLDER) yield ["Files", number(removed.files), removed.files];
      return;
    }
    if (n in entries.facts.targets) yield ["Target", show(entries.facts.targets[n])];
    if (n in entries.facts.links) yield ["First name", this.link(entries.original(n))];
    if (entries.kind[n] === FOLDER) yield ["Files", number(sum.files[n]), sum.files[n]];
    const of = entries.original(n);
    if (entries.kind[n] === FOLDER || entries.kind[n] === FILE) {
      yield ["Size", bytes(sum.size[of]), sum.size[of]];
      if (sum.data[of] !== sum.size[of]) yield ["Outside holes", bytes(sum.data[of]), sum.data[of]];
      yield ["Stored", `${bytes(sum.stored[of])}, ${percent(sum.stored[of], sum.data[of])} of the data`, sum.stored[of]];
      yield ["Of the image", percent(sum.stored[of], entries.facts.image_bytes)];
      if (sum.duplicate[of]) yield ["Duplicates", `${bytes(sum.duplicate[of])}, stored once`, sum.duplicate[of]];
      if (sum.fragment[of]) yield ["In fragments", bytes(sum.fragment[of]), sum.fragment[of]];
    }
    yield ["Mode", mode[n].toString(8).padStart(4, "0")];
    yield ["Owner", `${uid[n]}:${gid[n]}`];
    yield ["Modified", date(mtime[n])];
  }

  link(n) {
    return make("button", { type: "button", class: "link", on: { click: () => this.open(n) } }, this.entries.shown(n));
  }

  // Downloads, where there is something to download from.
  *more(n) {
    const { entries, contents } = this;
    if (n >= entries.count) return;
    if (entries.kind[n] === FILE && contents.has(n)) {
      yield make("p", {}, make("a", contents.download(n), "Download"));
    }
    if (entries.kind[n] === FOLDER && contents.archive) {
      yield make("p", {}, make("a", contents.archive(n), "Download as tar"));
    }
  }

  differences(aspects) {
    const value = (aspect, text) => text === null ? "none" : aspect === "mtime" ? date(Number(text)) : text;
    const rows = aspects.map(([aspect, old, now]) => make("tr", {}, make("th", { scope: "row" }, show(aspect)),
      make("td", {}, value(aspect, old)), make("td", {}, value(aspect, now))));
    const head = ["Aspect", "Was", "Is"].map(text => make("th", { scope: "col" }, text));
    return make("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Differences" },
      make("table", {}, make("caption", {}, "Differences"), make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
  }

  file(n) {
    const { contents } = this;
    const preview = make("div", { class: "preview" });
    const map = make("div", { class: "map" });
    this.frame.append(preview, map);
    if (contents.has(n)) this.until(n, preview, this.preview(n, preview));
    else preview.append(make("p", { class: "about" }, "The contents of this file are not in this page: packfs explore --contents includes more, packfs serve shows all."));
    if (this.entries.size[this.entries.original(n)] > 0) this.until(n, map, this.map(n, map));
  }

  // Shows why something cannot be shown, if it is still wanted.
  until(n, frame, work) {
    work.catch(error => {
      if (this.current === n) frame.replaceChildren(make("p", { class: "about", role: "alert" }, `Cannot be read: ${error.message}`));
    });
  }

  async preview(n, frame) {
    const { entries, contents } = this;
    const size = entries.size[entries.original(n)];
    if (size === 0) return frame.append(make("p", { class: "about" }, "The file is empty."));
    const data = await contents.read(n, PREVIEW);
    if (this.current !== n) return undefined;
    const ways = {};
    const type = pictureType(data);
    if (type && size <= PICTURE) ways.picture = () => this.picture(n, type, data);
    const text = textOf(data);
    if (text !== undefined) ways.text = () => this.pre("Text", visible(text));
    ways.hex = () => this.pre("Bytes", hex(data));
    const names = Object.keys(ways);
    const shown = make("div", {});
    const draw = way => shown.replaceChildren(ways[way]());
    const cut = size > data.length ? [make("p", { class: "about" }, `The first ${bytes(data.length)} of ${bytes(size)}.`)] : [];
    frame.replaceChildren(choice("Show as", names.map(way => [way, way]), names[0], draw), shown, ...cut);
    draw(names[0]);
    return undefined;
  }

  pre(label, text) {
    return make("pre", { tabindex: 0, role: "region", "aria-label": label }, text);
  }

  picture(n, type, data) {
    const { entries, contents } = this;
    const image = make("img", { alt: `The picture ${entries.label(n)}` });
    const whole = data.length < entries.size[entries.original(n)] ? contents.read(n, PICTURE) : Promise.resolve(data);
    whole.then(all => {
      const url = URL.createObjectURL(new Blob([all], { type }));
      const done = () => URL.revokeObjectURL(url);
      image.addEventListener("load", done);
      image.addEventListener("error", () => { done(); image.replaceWith(make("p", { class: "about" }, "The picture cannot be shown.")); });
      image.src = url;
    }).catch(error => image.replaceWith(make("p", { class: "about", role: "alert" }, `Cannot be read: ${error.message}`)));
    return image;
  }

  async map(n, frame) {
    const pieces = await this.contents.map(n);
    if (this.current !== n || !pieces) return;
    const size = this.entries.size[this.entries.original(n)];
    const kinds = [...new Set(pieces.map(pieceKind))];
    const drawn = make("canvas", { class: "blocks", role: "img", "aria-label": `${plural(pieces.length, "piece")} of the file by their ratios` });
    const rows = pieces.slice(0, PIECES).map(piece => {
      const stored = piece.stored;
      const where = !stored ? "–" : `${number(stored.position)}${stored.area === "image" ? "" : ` in ${stored.area}`}`;
      const cells = [number(piece.offset), bytes(piece.length), where, stored ? bytes(stored.length) : "–"];
      return make("tr", {}, ...cells.map(text => make("td", { class: "number" }, text)), make("td", {}, describePiece(piece)));
    });
    const head = ["Offset", "Length", "Stored at", "Stored", "How"].map((text, at) =>
      make("th", { scope: "col", class: at < 4 ? "number" : "" }, text));
    const title = pieces.length > PIECES ? `The first ${PIECES} of ${plural(pieces.length, "piece")}` : plural(pieces.length, "piece");
    frame.replaceChildren(make("h3", {}, "Where it is stored"), drawn,
      make("ul", { class: "legend" }, ...kinds.sort().map(kind => legendItem(PIECE_KINDS[kind]))),
      make("div", { class: "scroll short", tabindex: 0, role: "region", "aria-label": "Pieces" },
        make("table", {}, make("caption", {}, title), make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))));
    drawPieces(drawn, pieces, size);
  }
}

const PIECE_KINDS = [["hole", GREY], ["in fragments", [280, 45]], ["not compressed", RATIO_HUES[0]], ["above half its size", RATIO_HUES[2]],
  ["half its size or less", RATIO_HUES[4]]];

function pieceKind({ hole, fragment, stored, length }) {
  if (hole) return 0;
  if (fragment) return 1;
  if (!stored.codec) return 2;
  return stored.length * 2 > length ? 3 : 4;
}

function describePiece({ hole, fragment, stored }) {
  if (hole) return "hole";
  const where = fragment ? fragment.index === null ? ", in the packed inode" : `, in fragment block ${number(fragment.index)}` : "";
  const shared = stored.partial ? ", shared" : "";
  return `${stored.codec ?? "as it is"}${where}${stored.inline ? ", behind the inode" : ""}${shared}`;
}

// Draws the pieces side by side; colours are those of the style sheet.
function drawPieces(canvas, pieces, size) {
  const scale = devicePixelRatio || 1;
  [canvas.width, canvas.height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
  const pen = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  const colour = ([hue, saturation]) => `hsl(${hue} ${saturation}% ${style.getPropertyValue("--cell-lum")})`;
  const gap = pieces.length < DRAWN / 10 ? scale : 0;
  for (const piece of pieces) {
    const [from, to] = [piece.offset, piece.offset + piece.length].map(at => at / size * canvas.width);
    pen.fillStyle = colour(PIECE_KINDS[pieceKind(piece)][1]);
    pen.fillRect(from, 0, Math.max(0.5, to - from - gap), canvas.height);
  }
}
