#!/usr/bin/env python3
"""Checks the pages of a site: check-links.py DIRECTORY

Every link leads to a file of the site, every fragment to an element of it, every picture is there, and nothing is loaded
from elsewhere, so that the site works offline.
"""
import html.parser
import os
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """Anchors, links and loaded resources of a page."""

    def __init__(self, path):
        super().__init__()
        self.anchors = set()
        self.links = []
        self.loads = []
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(filter(None, (attrs.get("id"), attrs.get("name"))))
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        loaded = attrs.get("src") if tag in ("img", "script", "iframe") else attrs.get("href") if tag == "link" else None
        if loaded and not loaded.startswith("data:"):
            self.loads.append(loaded)


def problems(root):
    """A message for each link that leads nowhere."""
    paths = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names if name.endswith(".html")]
    # Pages that packfs made are tested with it; as one file each, they have no links into the site.
    pages = {path: Page(path) for path in paths if f"{os.sep}live{os.sep}" not in path}
    for path, page in sorted(pages.items()):
        name = os.path.relpath(path, root)
        for target in page.links + page.loads:
            scheme = urllib.parse.urlsplit(target).scheme
            if scheme:
                if target in page.loads:
                    yield f"{name}: loads {target} from elsewhere"
                continue
            place, _, anchor = target.partition("#")
            place = urllib.parse.unquote(place.partition("?")[0])
            file = os.path.normpath(os.path.join(os.path.dirname(path), place)) if place else path
            if os.path.isdir(file):
                file = os.path.join(file, "index.html")
            if not os.path.exists(file):
                yield f"{name}: {target} does not exist"
            elif anchor and file in pages and urllib.parse.unquote(anchor) not in pages[file].anchors:
                yield f"{name}: {target}: the page has no such anchor"


def main():
    found = sorted(set(problems(sys.argv[1])))
    for problem in found:
        print(problem)
    sys.exit(1 if found else 0)


main()
