"use strict";
// Draws the charts that the page carries as data. Colours follow the page, and change with it.
const charts = JSON.parse(document.getElementById("charts").textContent);
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const palette = [
  "#4c8dff", "#e5734b", "#34a56f", "#b07cf0", "#d9a514", "#2fb0c7", "#e0619c", "#8a9a3b",
  "#8f6f52", "#6c7ae0", "#c75050", "#3f9b9b",
];
const symbols = ["circle", "square", "diamond", "triangle-up", "cross", "star"];

const named = chart => typeof chart.series[0]?.x[0] === "string";

function traces(chart) {
  const across = chart.x.title + ": %{x" + (named(chart) ? "}" : ":.4~g}");
  const hover = across + "<br>" + chart.y.title + ": %{y:.4~g}<extra>%{fullData.name}</extra>";
  const look = name => chart.series.findIndex(series => !series.guide && series.name === name);
  return chart.series.map((series, at) => {
    // A model is a dashed line in the colour of what was measured, any other guide one in the text's colour.
    const modelled = series.guide ? look(series.name.replace(/, model$/, "")) : at;
    const color = modelled < 0 ? style("--faint") : palette[modelled % palette.length];
    const trace = { name: series.name, x: series.x, y: series.y };
    if (chart.kind === "bars") {
      return { ...trace, type: "bar", marker: { color }, hovertemplate: hover };
    }
    const alone = chart.kind === "points" && !series.guide;
    return {
      ...trace,
      type: "scatter",
      mode: alone ? "markers+text" : series.guide ? "lines" : "lines+markers",
      text: alone ? series.x.map(() => series.name) : undefined,
      textposition: "top center",
      textfont: { size: 10, color: style("--ink") },
      hoverinfo: series.guide ? "skip" : undefined,
      hovertemplate: series.guide ? undefined : hover,
      line: { color, dash: series.guide ? "dash" : "solid", width: series.guide ? 1.5 : 2 },
      marker: { color, size: 9, symbol: symbols[Math.floor(at / palette.length) % symbols.length] },
    };
  });
}

function axis(spec, more) {
  return {
    title: { text: spec.title, font: { size: 12 } },
    type: spec.log ? "log" : undefined,
    gridcolor: style("--line"),
    linecolor: style("--line"),
    zerolinecolor: style("--line"),
    automargin: true,
    ...more,
  };
}

// Buttons that switch the scales of those axes that have numbers.
function scales(chart) {
  const button = (name, key, log) => ({
    label: name,
    method: "relayout",
    args: [{ [key]: log ? "linear" : "log" }],
    args2: [{ [key]: log ? "log" : "linear" }],
  });
  const buttons = [button("y: log or linear", "yaxis.type", chart.y.log)];
  if (!named(chart) && chart.kind === "points") {
    buttons.push(button("x: log or linear", "xaxis.type", chart.x.log));
  }
  const at = { xanchor: "left", yanchor: "bottom", y: 1.02, pad: { r: 4, t: 0 } };
  return buttons.map((one, n) => ({
    ...at, type: "buttons", direction: "left", x: n * 0.34, showactive: false, buttons: [one],
    font: { size: 10, color: style("--faint") }, bgcolor: style("--wash"), bordercolor: style("--line"),
  }));
}

function layout(chart) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: style("--ink"), size: 12, family: "system-ui, sans-serif" },
    margin: { l: 50, r: 10, t: 40, b: 40 },
    barmode: "group",
    hovermode: "closest",
    showlegend: chart.kind !== "points",
    legend: { orientation: "h", y: -0.25, font: { size: 11 } },
    xaxis: axis(chart.x, named(chart) ? { type: "category", tickangle: -45, title: undefined } : {}),
    yaxis: axis(chart.y, {}),
    updatemenus: scales(chart),
    modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--faint"), activecolor: style("--ink") },
  };
}

function draw(chart) {
  const config = { responsive: true, displaylogo: false, modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]] };
  Plotly.react(chart.id, traces(chart), layout(chart), config);
}

// One chart at a time, from the top: a page of many can be read and scrolled while the rest is drawn.
let drawn = 0;
function drawNext() {
  if (drawn < charts.length) {
    draw(charts[drawn++]);
    setTimeout(drawNext);
  }
}

drawNext();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.slice(0, drawn).forEach(draw));
addEventListener("beforeprint", () => {
  while (drawn < charts.length) draw(charts[drawn++]);
});
