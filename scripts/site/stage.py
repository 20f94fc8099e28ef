#!/usr/bin/env python3
"""Lays out the pages of the repository as sources of mdBook: stage.py DIRECTORY [MADE] | --for-package PAGE

The folders stay as they are, so that links between pages hold. Links to source code become plain text, and SUMMARY.md
gets the pages of folders whose entry is a README. Fails if a page is missing in docs/SUMMARY.md. MADE is a folder of pages that the program made: reference has those of reference.py, live
has report.html and explore.html, to which the page of all pages links.
With --for-package, prints a page with links into the manual of a package.
"""
import os
import re
import shutil
import sys

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
OUTSIDE_DOCS = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
LIVE = """
## Made by the program

- [Reference](reference/index.md): every option of every command, and of the programs whose command lines packfs takes

- [A report of `packfs bench`](live/report.html), with all charts and tables
- [A page of `packfs explore`](live/explore.html): what takes up space in an image of this manual's sources
"""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def pages():
    """Paths of all pages, relative to the root of the repository."""
    found = [page for page in OUTSIDE_DOCS if os.path.exists(os.path.join(ROOT, page))]
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        found += [os.path.relpath(os.path.join(folder, name), ROOT) for name in names
                  if name.endswith(".md") and name != "SUMMARY.md"]
    return sorted(found)


def title(page):
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return next(line[2:].strip() for line in file if line.startswith("# "))


def outside_code(text, change):
    """Applies a change to the lines of a page that are not in a fenced block."""
    fenced = False
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        yield line if fenced else change(line)


def relink(page, known):
    """Returns a function that changes the links of a line: only pages and pictures are part of the site."""
    def change(match):
        bang, text, target = match.groups()
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        place = os.path.normpath(os.path.join(os.path.dirname(page), path))
        if place in known:
            path = re.sub(r"README\.md$", "index.md", path)
            return f"{bang}[{text}]({path}{'#' + anchor if anchor else ''})"
        if place.startswith(("docs/pictures/", "docs/live/", "docs/reference/")):
            return match[0]
        if not os.path.exists(os.path.join(ROOT, place)):
            sys.exit(f"{page}: {target} does not exist")
        return text
    return lambda line: LINK.sub(change, line)


def summary(known):
    """docs/SUMMARY.md with paths from the root, and the pages of folders below the entries of their README."""
    listed = set()
    lines = []
    with open(os.path.join(ROOT, "docs", "SUMMARY.md"), encoding="utf-8") as file:
        for line in file.read().split("\n"):
            match = LINK.search(line)
            if not match:
                lines.append(line)
                continue
            place = os.path.normpath(os.path.join("docs", match[3]))
            listed.add(place)
            lines.append(line.replace(f"({match[3]})", f"({place})"))
            folder = os.path.dirname(place)
            if place.endswith("/README.md") and folder != "docs":
                for page in known:
                    if os.path.dirname(page) == folder and page != place and page not in listed:
                        listed.add(page)
                        lines.append(f"    - [{title(page)}]({page})")
    missing = [page for page in known if page not in listed]
    if missing:
        sys.exit(f"docs/SUMMARY.md lacks {', '.join(missing)}")
    return "\n".join(lines)


def packaged(page, known):
    """A page of the root as packages have it, with the manual in the folder html beside it."""
    def change(match):
        bang, text, target = match.groups()
        path, _, anchor = target.partition("#")
        if "://" in target or not path:
            return match[0]
        if path in known:
            path = re.sub(r"README\.html$", "index.html", re.sub(r"\.md$", ".html", path))
            return f"{bang}[{text}](html/{path}{'#' + anchor if anchor else ''})"
        if path.startswith("docs/pictures/"):
            return f"{bang}[{text}](html/{path})"
        return text
    with open(os.path.join(ROOT, page), encoding="utf-8") as file:
        return "\n".join(outside_code(file.read(), lambda line: LINK.sub(change, line)))


def with_reference(text, made):
    """The summary with the pages of reference, before those of the formats."""
    lines = ["# Reference", "", "- [All options](docs/reference/README.md)"]
    for name in sorted(os.listdir(os.path.join(made, "reference"))):
        if name != "README.md":
            with open(os.path.join(made, "reference", name), encoding="utf-8") as file:
                lines.append(f"    - [{file.readline()[2:].strip()}](docs/reference/{name})")
    return text.replace("# Formats", "\n".join(lines) + "\n\n# Formats", 1)


def main():
    known = pages()
    if sys.argv[1] == "--for-package":
        print(packaged(sys.argv[2], set(known)), end="")
        return
    target = sys.argv[1]
    made = sys.argv[2] if len(sys.argv) > 2 else None
    for page in known:
        with open(os.path.join(ROOT, page), encoding="utf-8") as file:
            text = file.read()
        if page == "docs/README.md" and made:
            text = text.replace("\n## Glossary", LIVE + "\n## Glossary")
        text = "\n".join(outside_code(text, relink(page, set(known))))
        place = os.path.join(target, page)
        os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
        with open(place, "w", encoding="utf-8") as file:
            file.write(text)
    with open(os.path.join(target, "SUMMARY.md"), "w", encoding="utf-8") as file:
        file.write(with_reference(summary(known), made) if made else summary(known))
    if made:
        shutil.copytree(os.path.join(made, "reference"), os.path.join(target, "docs", "reference"))
        shutil.copytree(os.path.join(made, "live"), os.path.join(target, "docs", "live"))
    shutil.copytree(os.path.join(ROOT, "docs", "pictures"), os.path.join(target, "docs", "pictures"), dirs_exist_ok=True)


if __name__ == "__main__":
    main()
