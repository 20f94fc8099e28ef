#!/usr/bin/env python3
"""Saves charts of a report as pictures: draw-charts.py REPORT.html DIRECTORY [ID=NAME[@WIDTH] ...]  (needs chromium)

Each chart of that ID in the page is drawn by the page's own script, WIDTH pixels wide (860 unless said), and written to
DIRECTORY/NAME.svg; without any, the IDs are listed with what the charts show.
"""
import html
import json
import os
import re
import subprocess
import sys
import tempfile

# Runs in the page behind its own scripts: draws each chart as the page does, with its captions as the title, on white
# paper, and takes along the part of the style that it uses.
SAVE = """<script>
addEventListener("load", () => {
  const pictures = {};
  for (const [name, id, wide] of %s) {
    const div = document.getElementById(id);
    const heading = div.closest("section").querySelector("h3") ?? div.closest("details").querySelector("summary");
    const titles = [heading.textContent, div.closest("figure").querySelector("figcaption").textContent];
    draw(charts.find(chart => chart.id === id), wide);
    const picture = div.querySelector(":scope > svg");
    const legend = [...div.querySelectorAll(".legend li")];
    const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
    const captions = [...lines(titles[0], wide, 18).map(text => [text, 16]), ...lines(titles[1], wide, 13).map(text => [text, 13])];
    const head = 12 + 18 * captions.length;
    const top = head + 18 * legend.length + (legend.length ? 8 : 0);
    const rules = [...document.styleSheets[0].cssRules].filter(rule => rule.selectorText === ":root" ||
      rule.selectorText?.split(",").some(one => picture.querySelector(one.trim()) || one.includes(".series")));
    picture.prepend(svg("style", {}, rules.map(rule => rule.cssText).join("\\n")),
      svg("rect", { x: -12, y: -top, width: width + 24, height: height + top + 12, fill: "#fff" }),
      ...captions.map(([text, size], n) => svg("text",
        { x: 0, y: 20 + 18 * n - top, "font-size": size, "font-weight": size > 13 ? 600 : 400 }, text)));
    legend.forEach((item, n) => {
      const icon = item.querySelector("g").cloneNode(true);
      icon.setAttribute("transform", `translate(8,${head + 10 - top + 18 * n})`);
      picture.append(icon, svg("text", { x: 20, y: head + 14 - top + 18 * n }, item.textContent));
    });
    for (const [key, value] of Object.entries({ xmlns: NAMESPACE, viewBox: `-12 ${-top} ${width + 24} ${height + top + 12}`,
      width: width + 24, height: height + top + 12, style: "font: 11px system-ui, sans-serif" })) picture.setAttribute(key, value);
    for (const name of ["tabindex", "class"]) picture.removeAttribute(name);
    picture.setAttribute("aria-label", titles.join(": "));
    pictures[name] = new XMLSerializer().serializeToString(picture);
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
        r'<(?:h3|summary)>(.*?)</(?:h3|summary)>|<figure><figcaption>(?=.*?id="(.*?)")(.*?)</figcaption>', page
    ):
        section = heading or section
        if chart:
            found.append((chart, html.unescape(f"{section}: {caption}")))
    return found


def draw(page, wanted):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page.replace("</body>", SAVE % json.dumps(wanted)))
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
    wanted = [(name.partition("@")[0], chart, int(name.partition("@")[2] or 860)) for chart, name in wanted]
    missing = [chart for _, chart, _ in wanted if chart not in dict(known)]
    if missing or not wanted:
        for chart, what in known:
            print(f"{chart:60} {what}")
        sys.exit(f"there is no chart {missing[0]}" if missing else 0)
    os.makedirs(sys.argv[2], exist_ok=True)
    pictures = draw(page, wanted)
    for name, _, _ in wanted:
        path = os.path.join(sys.argv[2], f"{name}.svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write(pictures[name] + "\n")
        print(f"{path}: {os.path.getsize(path)} bytes")


main()
