#!/usr/bin/env python3
"""Writes the table of the README from those of docs/benchmarking.md.

    report-front.py [--check]

Both programs of a row do the same work at the same level. With --check it changes nothing and exits with 1 if the README
differs.
"""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
BEGIN = "<!-- bench:begin -->\n"
END = "<!-- bench:end -->"

# What a row says, the heading below which its table is, how packfs's row begins, and how the other program's does. Where
# both are in one row, there is no second one.
ROWS = [
    ("SquashFS, gzip 9, from a directory", "## Under the names of other programs", "`mksquashfs ... -comp gzip`", None),
    ("SquashFS, zstd 15, from a directory", "## Under the names of other programs", "`... -comp zstd`", None),
    ("SquashFS, xz, from a directory", "## Under the names of other programs", "`... -comp xz`", None),
    ("SquashFS, lz4, from tar", "### build-lz4", "packfs (tar)", "tar2sqfs"),
    ("SquashFS, not compressed, from a directory", "### build-none", "packfs", "mksquashfs"),
    ("EROFS, lz4hc 9, 64K, fragments, dedupe", "## EROFS", "with packfs's defaults", None),
    ("EROFS, zstd 15, 128K, fragments", "## EROFS", "zstd 15, 128K clusters", None),
    ("extract SquashFS, zstd", "### extract-zstd", "packfs", "unsquashfs"),
    ("SquashFS to tar, zstd", "### tar-zstd", "packfs", "sqfs2tar"),
    ("list 57,000 entries", "### list", "packfs", "unsquashfs"),
]
# Programs of tables that have both in one row.
PEERS = {"## Under the names of other programs": "mksquashfs", "## EROFS": "mkfs.erofs"}


def table_row(page, heading, label, rest=""):
    """The cells after the first of the row whose first cell is a label and a rest, in the first table below a heading that
    has one."""
    section = page[page.index("\n" + heading):]
    found = re.search(rf"^\| {re.escape(label)}{rest} \|(.*)\|$", section, re.M)
    if not found:
        sys.exit(f"docs/benchmarking.md has no row {label} below {heading}")
    return [cell.strip() for cell in found[1].split("|")]


def seconds_and_bytes(cell):
    """The figures of a cell such as `1.77 s (1.74-1.79), 61.49 MB`."""
    seconds = float(re.search(r"([\d.]+) s", cell)[1])
    size = re.search(r"([\d.]+) MB", cell)
    return seconds, float(size[1]) * 1e6 if size else None


def measured(page, heading, label):
    """Seconds and bytes of a program in a table with a row for each program."""
    cells = table_row(page, heading, label)
    size = cells[3].replace(",", "")
    return float(cells[0].split()[0]), float(size) if size else None


def row(page, what, heading, label, other):
    if other:
        ours, theirs = measured(page, heading, label), measured(page, heading, other)
    else:
        ours, theirs = map(seconds_and_bytes, table_row(page, heading, label, "[^|]*")[1:3])
    program = other or PEERS[heading]
    size = f"{(ours[1] / theirs[1] - 1) * 100:+.1f} %" if ours[1] and theirs[1] else ""
    return f"| {what} | {ours[0]:.2f} s | {program} {theirs[0]:.2f} s | {ours[0] / theirs[0]:.2f} | {size} |"


def main():
    with open(os.path.join(ROOT, "docs", "benchmarking.md"), encoding="utf-8") as file:
        page = file.read()
    lines = ["| work | packfs, verified | other program | time | size |", "|---|--:|--:|--:|--:|"]
    lines += [row(page, *entry) for entry in ROWS]
    path = os.path.join(ROOT, "README.md")
    with open(path, encoding="utf-8") as file:
        readme = file.read()
    before, rest = readme.split(BEGIN)
    _, after = rest.split(END)
    made = before + BEGIN + "\n".join(lines) + "\n" + END + after
    if "--check" in sys.argv[1:]:
        sys.exit(made != readme and "README.md differs from docs/benchmarking.md: run scripts/report-front.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(made)


main()
