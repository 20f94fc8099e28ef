"use strict";
// Names, colours and shapes: a codec has one colour and a program one shape in every chart of the page. The style sheet
// has the actual colours, so that dark mode and print change them without redrawing.

const HUES = {
  lz4: [215, 75], lz4hc: [190, 80], lzo: [250, 60], snappy: [280, 55], zstd: [12, 75], gzip: [145, 55], zlib: [160, 65],
  "zlib-rs": [172, 60], deflate: [130, 50], xz: [330, 65], lzma: [305, 50], lzjb: [40, 75], quicklz: [62, 70],
  none: [210, 8], raw: [210, 8], memcpy: [210, 8],
};
const CODECS = new RegExp(
  `(?:^|[ ,(/])(${Object.keys(HUES).sort((a, b) => b.length - a.length).join("|")})(?=$|[ :,)/])`);
const SHAPES = {
  packfs: "circle", mksquashfs: "square", tar2sqfs: "diamond", "mkfs.erofs": "triangle", unsquashfs: "square",
  sqfs2tar: "diamond", "fsck.erofs": "triangle", nsplit: "cross", makedumpfile: "bowtie",
};

// Short names of codecs.
const short = name => name.replace(/lzo:algorithm=lzo1x_1\b/g, "lzo-fast").replace(/not compressed/g, "none");
const family = name => CODECS.exec(name)?.[1];
const program = name => Object.keys(SHAPES).find(one => new RegExp(`(^|[ ,])${one}($|[ ,])`).test(name));
const shape = name => SHAPES[program(name)] ?? "circle";

// Hue and saturation of a name: of its codec, else by its position among the names of the chart.
function paint(name, place = 0) {
  const [hue, saturation] = HUES[family(name)] ?? [(205 + 137 * place) % 360, program(name) ? 10 : 45];
  return `--hue:${hue};--sat:${saturation}%`;
}

const NAMESPACE = "http://www.w3.org/2000/svg";

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function html(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const OUTLINES = {
  square: r => `M${-r},${-r}H${r}V${r}H${-r}Z`,
  diamond: r => `M0,${-1.35 * r}L${1.35 * r},0L0,${1.35 * r}L${-1.35 * r},0Z`,
  triangle: r => `M0,${-1.2 * r}L${1.2 * r},${r}H${-1.2 * r}Z`,
  cross: r => `M${-r},${-r}L${r},${r}M${-r},${r}L${r},${-r}`,
  bowtie: r => `M${-r},${-r}V${r}L${r},${-r}V${r}Z`,
  bar: r => `M0,${-1.3 * r}V${1.3 * r}`,
};

// A mark at a position; hollow ones are a second kind by the same program.
function mark(kind, x, y, radius, hollow) {
  const look = { class: hollow ? "mark hollow" : "mark" };
  if (kind === "circle") return svg("circle", { ...look, cx: x.toFixed(1), cy: y.toFixed(1), r: radius });
  const place = `translate(${x.toFixed(1)},${y.toFixed(1)})`;
  return svg("path", { ...look, d: OUTLINES[kind](radius - 0.5), transform: place });
}

// Width of a text in pixels.
const pen = document.createElement("canvas").getContext("2d");
const FONT = 11;
function textWidth(text, size = FONT, bold = false) {
  pen.font = `${bold ? "600 " : ""}${size}px system-ui, sans-serif`;
  return pen.measureText(text).width;
}

// Breaks a text between words into lines of a maximum width.
function lines(text, most, size = FONT) {
  const all = [];
  for (const word of text.split(" ")) {
    const longer = all.length ? `${all.at(-1)} ${word}` : word;
    if (all.length && textWidth(longer, size) <= most) all[all.length - 1] = longer;
    else all.push(word);
  }
  return all;
}

// Text of several lines.
function words(rows, x, y, attributes) {
  const spans = rows.map((row, n) => svg("tspan", { x: x.toFixed(1), y: (y + LINE * n).toFixed(1) }, row));
  return svg("text", attributes, ...spans);
}
const LINE = 13;
