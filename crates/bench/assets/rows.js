"use strict";
// Values of named things: a row each, with the name at the left and the value as a number. Bars if the scale begins at
// zero, points if it is logarithmic, where a bar has no beginning.

const isRows = chart => chart.kind === "bars" || chart.kind === "ratios";
const LANE = 13;
const GAP = 6;

function rowScale(chart, state) {
  const values = chart.series.flatMap(series => series.points.flatMap(point => [point.y, ...(point.y_range ?? [])]));
  if (chart.band) return scale([...values, ...chart.band, 1], state.y ?? true);
  const log = state.y ?? (chart.y.log && Math.min(...values) > 0 && isLog(values) || isLog(values));
  return scale(values, log && Math.min(...values) > 0, true);
}

function rows(chart, width, state) {
  const [axis, marks, drawn] = [rowScale(chart, state), [], svg("svg", {})];
  const points = chart.series.flatMap(series => series.points);
  if (chart.kind === "ratios") points.sort((a, b) => b.y - a.y);
  const names = [...new Set(points.map(point => point.x))];
  const widest = Math.max(...names.map(name => textWidth(short(name), 12)));
  // Names wider than a third of the chart are above their rows.
  const above = widest > width / 3;
  const left = above ? 4 : widest + 12;
  const figures = Math.max(...chart.series.flatMap(series => series.points.map(point => textWidth(three(point.y))))) + 10;
  const area = { x: left, w: width - left - figures - 8 };
  const at = value => area.x + area.w * Math.max(0, axis.share(value));
  drawn.append(words([chart.y.title], 2, 12, { class: "axis-title" }));
  const group = svg("g", {});
  let y = TITLE + 4;
  for (const name of names) {
    const hit = state.query && name.toLowerCase().includes(state.query);
    const title = above ? lines(short(name), width - 10, 12) : [short(name)];
    const lanes = chart.series.map(series => [series, series.points.find(point => point.x === name)]).filter(([, point]) => point);
    const top = y + (above ? title.length * LINE + 2 : 0);
    const middle = top + lanes.length * LANE / 2;
    group.append(words(title, above ? 2 : left - 8, above ? y + LINE - 2 : middle + 4,
      { class: hit ? "row hit" : "row", "text-anchor": above ? undefined : "end" }));
    lanes.forEach(([series, point], n) => group.append(lane(chart, series, point, top + (n + 0.5) * LANE, axis, at, marks, hit)));
    y = top + lanes.length * LANE + GAP;
  }
  if (chart.band) drawn.append(noiseBand(chart.band, at, y));
  drawn.append(rowGrid(axis, area, at, y), group);
  drawn.setAttribute("viewBox", `0 0 ${width} ${y + 22}`);
  drawn.setAttribute("height", y + 22);
  return { drawn, marks };
}

// Series of a chart of rows: the second of a program is hollow.
function rowLook(chart, series) {
  const at = chart.series.indexOf(series);
  if (isGuide(series)) return { kind: ["bar", "cross"][chart.series.filter(isGuide).indexOf(series) % 2], hollow: false };
  const same = chart.series.filter(other => !isGuide(other) && shape(other.name) === shape(series.name));
  return { kind: shape(series.name), hollow: series.hollow || same.indexOf(series) % 2 === 1, place: at };
}

function lane(chart, series, point, y, axis, at, marks, hit) {
  const { kind, hollow } = rowLook(chart, series);
  // A row belongs to a codec, unless the series does.
  const style = paint(family(series.name) ? series.name : point.x);
  const group = svg("g", { class: `series ${series.role}${hit ? " hit" : ""}`, style: series.role === "guide" ? undefined : style });
  const [from, to] = [chart.band ? at(1) : axis.log ? at(axis.low) : at(0), at(point.y)];
  const [x, w] = [Math.min(from, to), Math.abs(to - from)];
  if (axis.log || chart.band || isGuide(series)) {
    group.append(svg("path", { class: "track", d: `M${x},${y}h${w}` }), mark(kind, to, y, 4.5, hollow));
  } else {
    const several = chart.series.length > 1;
    group.append(svg("rect", { class: several ? "bar thin" : "mark bar", x, y: y - (several ? 2 : 4), width: Math.max(1, w), height: several ? 4 : 8 }));
    if (several) group.append(mark(kind, to, y, 4, hollow));
  }
  let end = to;
  if (point.y_range) {
    const [low, high] = point.y_range.map(at);
    group.append(svg("path", { class: "whisker", d: `M${low},${y}H${high}` }));
    end = Math.max(end, high);
  }
  group.append(words([three(point.y)], end + 8, y + 4, { class: "value" }));
  marks.push({ x: to, y, series, point });
  return group;
}

// The range of noise, and the line of no change.
function noiseBand([low, high], at, bottom) {
  const [x, top] = [at(low), TITLE];
  return svg("g", { class: "band" }, svg("rect", { x, y: top, width: at(high) - x, height: bottom - top }),
    svg("path", { d: `M${at(1).toFixed(1)},${top}V${bottom}` }));
}

function rowGrid(axis, area, at, bottom) {
  const group = svg("g", { class: "grid" });
  const widest = Math.max(...axis.ticks(12).map(tick => textWidth(plain(tick))));
  for (const tick of axis.ticks(Math.max(2, Math.floor(area.w / (widest + 16))))) {
    const x = at(tick);
    group.append(svg("path", { d: `M${x.toFixed(1)},${TITLE}V${bottom}` }),
      words([plain(tick)], x, bottom + 15, { class: "tick", "text-anchor": "middle" }));
  }
  return group;
}

// The legend of shapes above a chart of rows.
function rowLegend(chart) {
  if (chart.series.length < 2 && !chart.band) return [];
  const items = chart.series.map(series => {
    const { kind, hollow } = rowLook(chart, series);
    const icon = svg("svg", { width: 14, height: 14, viewBox: "-7 -7 14 14", "aria-hidden": "true" });
    icon.append(svg("g", { class: `series ${series.role}`, style: family(series.name) ? paint(series.name) : undefined }, mark(kind, 0, 0, 4.5, hollow)));
    return html("li", {}, icon, short(series.name));
  });
  return [html("ul", { class: "legend" }, ...items)];
}
