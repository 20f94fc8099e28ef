#!/usr/bin/env python3
"""Saves charts of a report as pictures: draw-charts.py REPORT.html DIRECTORY [ID=NAME ...]  (needs chromium)

Each chart of that ID in the page is drawn by the page's own script and written to DIRECTORY/NAME.svg; without any, the
IDs are listed with what the charts show.
"""
import html
import json
import os
import re
import subprocess
import sys
import tempfile

# Runs in the page behind its own scripts: draws each chart, with its captions as the title and on white paper.
SAVE = """<script>
addEventListener("load", async () => {
  dispatchEvent(new Event("beforeprint"));
  const pictures = {};
  for (const id of %s) {
    const chart = document.getElementById(id);
    const title = chart.closest("section").querySelector("h2").textContent + "<br><sub>" +
      chart.closest("figure").querySelector("figcaption").textContent + "</sub>";
    const layout = { ...chart.layout, updatemenus: [], paper_bgcolor: "#fff", autosize: false,
      title: { text: title, font: { size: 15 }, x: 0.02, xanchor: "left" }, margin: { l: 50, r: 20, t: 60, b: 40 } };
    const url = await Plotly.toImage({ data: chart.data, layout }, { format: "svg", width: 900, height: 520 });
    pictures[id] = decodeURIComponent(url.slice(url.indexOf(",") + 1));
  }
  const result = document.createElement("pre");
  result.id = "pictures";
  result.textContent = JSON.stringify(pictures);
  document.body.append(result);
});
</script></body>"""


def charts(page):
    """The IDs of all charts, each with its section and caption."""
    section, found = "", []
    for heading, chart, caption in re.findall(
        r'<h2>(.*?)</h2>|<figure><figcaption>(?=.*?id="(.*?)")(.*?)</figcaption>', page
    ):
        section = heading or section
        if chart:
            found.append((chart, html.unescape(f"{section}: {caption}")))
    return found


def draw(page, ids):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page.replace("</body>", SAVE % json.dumps(ids)))
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=120000"]
        dom = subprocess.run(
            ["chromium", *options, "--window-size=1200,900", f"--user-data-dir={folder}/profile", f"file://{path}"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, encoding="utf-8",
        ).stdout
    found = re.search(r'<pre id="pictures">(.*?)</pre>', dom, re.DOTALL)
    if not found:
        sys.exit("the page has not drawn its charts")
    return json.loads(html.unescape(found[1]))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        page = file.read()
    known = charts(page)
    wanted = [argument.partition("=")[::2] for argument in sys.argv[3:]]
    missing = [chart for chart, _ in wanted if chart not in dict(known)]
    if missing or not wanted:
        for chart, what in known:
            print(f"{chart:60} {what}")
        sys.exit(f"there is no chart {missing[0]}" if missing else 0)
    os.makedirs(sys.argv[2], exist_ok=True)
    pictures = draw(page, [chart for chart, _ in wanted])
    for chart, name in wanted:
        path = os.path.join(sys.argv[2], f"{name}.svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(pictures[chart] + "\n")
        print(f"{path}: {os.path.getsize(path)} bytes")


main()
