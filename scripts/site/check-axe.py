#!/usr/bin/env python3
"""Looks for problems of accessibility in pages of a site: check-axe.py SITE AXE.js PAGE ...   (needs chromium)

Each page is loaded at 390 and at 1400 pixels, in a light and in a dark theme. A page that is wider than its window is a
problem, too.
"""
import html
import json
import os
import re
import subprocess
import sys
import tempfile

RUN = """<script>
addEventListener("load", async () => {
  const result = await axe.run(document, { resultTypes: ["violations"], rules: { "label-content-name-mismatch": { enabled: true } } });
  const problems = result.violations.map(one => `${one.id}: ${one.help}: ${one.nodes[0].html.slice(0, 160)}`);
  if (document.documentElement.scrollWidth > innerWidth) problems.push(`wider than its window: ${document.documentElement.scrollWidth}`);
  const element = document.createElement("pre");
  element.id = "problems";
  element.textContent = JSON.stringify(problems);
  document.body.append(element);
});
</script></body>"""


def problems(path, script, width, theme):
    with open(path, encoding="utf-8") as file:
        page = file.read()
    # The explorer's page forbids scripts other than its own.
    page = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    page = page.replace("<head>", f"<head><script>localStorage.setItem('mdbook-theme', '{theme}')</script>", 1)
    page = page.replace("</body>", f"<script>{script}</script>{RUN}")
    copy = path + ".axe.html"
    with open(copy, "w", encoding="utf-8") as file:
        file.write(page)
    try:
        with tempfile.TemporaryDirectory() as profile:
            dom = subprocess.run(
                ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", "--virtual-time-budget=30000",
                 f"--window-size={width},1000", f"--user-data-dir={profile}", f"file://{os.path.abspath(copy)}"],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, encoding="utf-8", timeout=120,
            ).stdout
    finally:
        os.remove(copy)
    found = re.search(r'<pre id="problems">(.*?)</pre>', dom, re.DOTALL)
    return json.loads(html.unescape(found[1])) if found else ["axe did not finish"]


def main():
    site, axe = sys.argv[1:3]
    with open(axe, encoding="utf-8") as file:
        script = file.read()
    count = 0
    for page in sys.argv[3:]:
        for width in (390, 1400):
            for theme in ("light", "navy"):
                for problem in problems(os.path.join(site, page), script, width, theme):
                    print(f"{page}, {width} pixels, {theme}: {problem}")
                    count += 1
    sys.exit(1 if count else 0)


main()
