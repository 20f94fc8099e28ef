"use strict";
// Points and lines over two axes. Lines of many codecs become small multiples: a small chart for each codec, all with
// the same axes, so that no legend is needed.

// Maximum number of lines before they become small multiples.
const LINES = 8;
const PANEL = { width: 250, height: 150 };
const PLOT = 300;
const TITLE = 20;
const DASHES = ["7 4", "2 3", "9 3 2 3", "12 4"];

const isGuide = series => series.role === "guide" || series.role === "model";
const own = chart => chart.series.filter(series => !isGuide(series));

// The panels of a chart: one for each codec, or for each program if all have the same codec. Published figures are in
// all of them.
function panels(chart) {
  const measured = own(chart).filter(series => series.role === "measured");
  if (chart.kind === "points" || own(chart).length <= LINES) return [{ title: "", series: chart.series, ghosts: [] }];
  const groups = new Map();
  const by = new Set(measured.map(series => family(series.name))).size > 1 ? family : program;
  for (const series of measured) {
    const name = by(series.name) ?? series.name;
    groups.set(name, [...(groups.get(name) ?? []), series]);
  }
  const common = chart.series.filter(series => series.role === "guide" || series.role === "published");
  const models = series => chart.series.filter(other => other.role === "model" && series.some(one => one.name === other.name));
  return [...groups].map(([title, series]) => ({
    title,
    series: [...models(series), ...common, ...series],
    ghosts: measured.filter(other => !series.includes(other)),
  }));
}

// Both scales of a chart. They include models and published figures, so that nothing is cut off.
function scales(chart, state) {
  const of = (key, range) => chart.series.flatMap(series =>
    series.points.flatMap(point => [point[key], ...(point[range] ?? [])]));
  const one = (axis, key, range) => {
    const values = of(key, range);
    if (typeof values[0] === "string") return nameScale(values);
    const log = state[key] ?? (axis.log && Math.min(...values) > 0 || isLog(values));
    return scale(values, log && Math.min(...values) > 0, false, chart.kind === "points" ? 1 / 4 : 1 / 2);
  };
  const longest = [...chart.series].sort((a, b) => b.points.length - a.points.length);
  const ordered = { ...chart, series: longest };
  return { x: one(ordered.x, "x", "x_range"), y: one(ordered.y, "y", "y_range") };
}

// Draws a chart into an SVG of a given width, and returns it with its marks.
function plot(chart, width, state) {
  const [all, axes, marks] = [panels(chart), scales(chart, state), []];
  const columns = all.length === 1 ? 1 : Math.max(1, Math.floor(width / PANEL.width));
  const across = Math.floor(width / columns);
  const [ticksX, texts] = [axes.x.ticks(4), axes.y.ticks(10)];
  const left = Math.max(...texts.map(tick => textWidth(tickText(axes.y, tick)))) + 10;
  const drawn = svg("svg", {});
  let top = TITLE;
  drawn.append(words([`${chart.y.title} (up), ${chart.x.title} (across)`], 2, 12, { class: "axis-title" }));
  const every = all.map(panel => panelParts(chart, panel, across, axes));
  const right = Math.max(...every.map(part => part.right));
  for (let row = 0; row < all.length; row += columns) {
    const parts = every.slice(row, row + columns);
    const height = Math.max(...parts.map(part => part.height));
    parts.forEach((part, n) => {
      const area = { x: n * across + left, y: top + part.head, w: across - left - right - 6, h: height };
      drawn.append(panelGroup(chart, part, area, axes, marks, state));
    });
    top += height + (parts[0].head + 28);
  }
  drawn.setAttribute("viewBox", `0 0 ${width} ${top + 4}`);
  drawn.setAttribute("height", top + 4);
  return { drawn, marks };
}

// Layout of a panel: room for the names at the ends of its lines, and their height.
function panelParts(chart, panel, across, axes) {
  const several = panel.title !== "";
  const base = several ? PANEL.height : PLOT;
  const part = { panel, head: several ? 22 : 8, height: base, right: 14, ends: [] };
  if (chart.kind === "points") return part;
  const most = Math.max(60, Math.min(130, 0.3 * across));
  const last = series => axes.x.share(series.points.at(-1).x);
  const visible = panel.series.filter(series => series.points.length);
  const far = Math.max(...visible.map(last));
  for (const series of visible) {
    const twin = series.role !== "model" && visible.some(other => other.role === "model" && other.name === series.name);
    if (last(series) < far - 0.01 || twin) continue;
    const rows = lines(endName(series), most);
    part.ends.push({ series, rows, height: rows.length * LINE + 2, wish: 0 });
  }
  part.right = Math.max(14, ...part.ends.map(end => 16 + Math.max(...end.rows.map(row => textWidth(row)))));
  part.height = Math.max(base, part.ends.reduce((sum, end) => sum + end.height, 0) + 4);
  return part;
}

const endName = series => short(series.name) + (series.role === "model" ? " (model)" : "");

function panelGroup(chart, part, area, axes, marks, state) {
  const { panel } = part;
  const group = svg("g", { class: "panel" });
  const at = point => [area.x + area.w * axes.x.share(point.x), area.y + area.h * (1 - axes.y.share(point.y))];
  const place = chart.series.filter(series => !isGuide(series));
  if (panel.title) group.append(words([panel.title], area.x, area.y - 8, { class: "panel-title", style: paint(panel.title) }));
  group.append(grid(area, axes));
  for (const ghost of panel.ghosts) group.append(svg("path", { class: "ghost", d: path(ghost.points.map(at)) }));
  const taken = [];
  let guides = 0;
  for (const series of panel.series) {
    const style = paint(series.name, place.findIndex(one => one.name === series.name));
    const hit = state.query && series.name.toLowerCase().includes(state.query);
    const one = svg("g", { class: `series ${series.role}${hit ? " hit" : ""}`, style: series.role === "guide" ? undefined : style });
    const places = series.points.map(at);
    if (chart.kind === "lines" || isGuide(series)) {
      const dash = isGuide(series) ? DASHES[series.role === "model" ? 0 : 1 + guides++ % 3] : series.role === "published" ? "1 3" : undefined;
      one.append(svg("path", { class: "line", d: path(places), "stroke-dasharray": dash }));
    }
    if (!isGuide(series)) {
      series.points.forEach((point, n) => {
        const [x, y] = places[n];
        whiskers(one, point, at, x, y);
        if (series.recommended) one.append(svg("circle", { class: "ring", cx: x.toFixed(1), cy: y.toFixed(1), r: 8 }));
        one.append(mark(shape(series.name), x, y, chart.kind === "points" ? 4.5 : 4, series.hollow || series.role === "published"));
        marks.push({ x, y, series, point });
        taken.push({ x: x - 5, y: y - 5, w: 10, h: 10 });
        taken.push(...whiskerBoxes(point, at, x, y));
      });
    }
    group.append(one);
  }
  name(group, chart, part, area, at, taken, state);
  return group;
}

// Names at the ends of lines, beside lines that end early, on guides, and beside selected points.
function name(group, chart, part, area, at, taken, state) {
  const { panel, ends } = part;
  for (const end of ends) end.wish = at(end.series.points.at(-1))[1];
  spread(ends, area.y, area.y + area.h);
  for (const end of ends) {
    const [x, y] = at(end.series.points.at(-1));
    const to = area.x + area.w + 12;
    const style = end.series.role === "guide" ? undefined : paint(end.series.name, own(chart).findIndex(one => one.name === end.series.name));
    const one = svg("g", { class: `name ${end.series.role}`, style });
    const middle = end.y + end.height / 2;
    if (Math.abs(middle - y) > 4 || to - x > 20) one.append(svg("path", { class: "leader", d: `M${x + 5},${y}L${to - 2},${middle}` }));
    one.append(words(end.rows, to, end.y + LINE - 2, { class: "label" }));
    group.append(one);
  }
  const frame = { x: area.x - 4, y: area.y - 4, w: area.w + (chart.kind === "points" ? 12 : 4), h: area.h + 4 };
  const paths = panel.series.filter(series => chart.kind === "lines" || isGuide(series)).flatMap(series => alongBoxes(series.points.map(at)));
  const put = (text, places, attributes) => {
    const found = settle(text, places, frame, taken, paths) ?? settle(text, places, frame, taken, []);
    if (found) group.append(settled(found, text, attributes));
  };
  const ended = new Set(ends.map(end => end.series.name));
  // Guides first, because a line without a name means nothing; then search results, the front, and the other lines.
  const guides = panel.series.filter(series => series.role === "guide" && !ended.has(series.name) && series.points.length);
  for (const series of guides) {
    const places = series.points.map(at);
    const middles = places.slice(1).map(([x, y], n) => [(x + places[n][0]) / 2, (y + places[n][1]) / 2]);
    put(series.name, [...middles, ...places].slice(0, 12), { class: "name guide" });
  }
  const rank = series => series.recommended || state.query && series.name.toLowerCase().includes(state.query) ? 0 : 1;
  for (const series of own({ series: panel.series }).filter(one => !ended.has(one.name) && one.points.length).sort((a, b) => rank(a) - rank(b))) {
    const where = chart.kind === "lines" ? [series.points.at(-1)] : series.points.filter(point => rank(series) === 0 || stands(chart, point));
    const style = paint(series.name, own(chart).indexOf(series));
    for (const point of where) put(short(series.name), [at(point)], { class: "name", style });
  }
}

// The legend of a chart of points: colours of codecs, marks of formats, and the recommended one.
function pointLegend(chart) {
  const series = own(chart);
  const formats = ["squashfs", "erofs"].filter(format => series.some(one => one.name.split(" ").includes(format)));
  const recommended = series.find(one => one.recommended);
  if (formats.length < 2 && !recommended) return [];
  const item = (name, style, ...marks) => {
    const icon = svg("svg", { width: 18, height: 18, viewBox: "-9 -9 18 18", "aria-hidden": "true" });
    icon.append(svg("g", { class: "series", style }, ...marks));
    return html("li", {}, icon, name);
  };
  const codecs = [...new Set(series.map(one => family(one.name)).filter(Boolean))];
  const items = codecs.map(codec => item(codec, paint(codec), mark("circle", 0, 0, 4.5)));
  if (formats.length > 1) items.push(item("SquashFS", undefined, mark("circle", 0, 0, 4.5)), item("EROFS", undefined, mark("circle", 0, 0, 4.5, true)));
  if (recommended) items.push(item("recommended", undefined, svg("circle", { class: "ring", cx: 0, cy: 0, r: 8 })));
  return [html("ul", { class: "legend" }, ...items)];
}

// Points on a front get a name if not all can have one.
function stands(chart, point) {
  const guides = chart.series.filter(other => other.role === "guide");
  return !guides.length || guides.some(guide => guide.points.some(on => on.x === point.x && on.y === point.y));
}

const path = places => places.map(([x, y], n) => `${n ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

// Whiskers from the smallest to the largest sample.
function whiskers(group, point, at, x, y) {
  const line = (from, to) => group.append(svg("path", { class: "whisker", d: path([from, to]) }));
  if (point.y_range) line([x, at({ ...point, y: point.y_range[0] })[1]], [x, at({ ...point, y: point.y_range[1] })[1]]);
  if (point.x_range) line([at({ ...point, x: point.x_range[0] })[0], y], [at({ ...point, x: point.x_range[1] })[0], y]);
}

function whiskerBoxes(point, at, x, y) {
  const box = ([x1, y1], [x2, y2]) => ({ x: Math.min(x1, x2) - 1, y: Math.min(y1, y2) - 1, w: Math.abs(x2 - x1) + 2, h: Math.abs(y2 - y1) + 2 });
  const ends = (key, range) => point[range].map(value => at({ ...point, [key]: value }));
  return [["x", "x_range"], ["y", "y_range"]].filter(([, range]) => point[range]).map(pair => box(...ends(...pair)));
}

// Small boxes along a line, which names avoid if possible.
function alongBoxes(places) {
  const boxes = [];
  places.slice(1).forEach(([x, y], n) => {
    const [fromX, fromY] = places[n];
    const steps = Math.ceil(Math.hypot(x - fromX, y - fromY) / 6);
    for (let step = 0; step <= steps; step++) {
      boxes.push({ x: fromX + (x - fromX) * step / steps - 1, y: fromY + (y - fromY) * step / steps - 1, w: 2, h: 2 });
    }
  });
  return boxes;
}

function grid(area, axes) {
  const group = svg("g", { class: "grid" });
  const bottom = area.y + area.h;
  for (const tick of axes.y.ticks(Math.max(2, Math.floor(area.h / 28)))) {
    const y = area.y + area.h * (1 - axes.y.share(tick));
    group.append(svg("path", { d: `M${area.x},${y.toFixed(1)}h${area.w}` }),
      words([tickText(axes.y, tick)], area.x - 6, y + 4, { class: "tick", "text-anchor": "end" }));
  }
  const widest = Math.max(...axes.x.ticks(12).map(tick => textWidth(tickText(axes.x, tick))));
  for (const tick of axes.x.ticks(Math.max(2, Math.floor(area.w / (widest + 14))))) {
    const x = area.x + area.w * axes.x.share(tick);
    group.append(svg("path", { d: `M${x.toFixed(1)},${bottom}v-${area.h}` }),
      words([tickText(axes.x, tick)], x, bottom + 18, { class: "tick", "text-anchor": "middle" }));
  }
  group.append(svg("path", { class: "axis", d: `M${area.x},${area.y}V${bottom}h${area.w}` }));
  return group;
}
