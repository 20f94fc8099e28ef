#!/usr/bin/env python3
"""Writes the tables that compare packfs with its peers, in docs/benchmarking.md and README.md, and those that compare
formats and codecs, in docs/guide/choosing.md, from the results of scripts/compare-peers.py and scripts/python-bench.py.

    report-peers.py [--check]

Every page says which run its figures come from: docs/results has one file for each. With --check it changes nothing and
exits with 1 if a page differs.
"""
import json
import os
import re
import statistics
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
RESULTS = os.path.join(ROOT, "docs", "results")

# Region of docs/benchmarking.md -> cases that its table has, by a regular expression of their names.
TABLES = {
    "builds": r"build-.*|small-files|mixed-files|twice",
    "reading": r"(tar|extract)-(gzip|zstd|xz|lz4)|list",
    "names": r"as-.*",
    "erofs": r"erofs-(?!extract|tar).*",
    "erofs-reading": r"erofs-(extract|tar)-.*|convert",
    "kernel": r"read-.*",
}
# The same for the results that have a file of their own, docs/results/mounts.jsonl.
MORE_TABLES = {"mounts": r"mount-.*", "dumps": r"split-.*|join", "shards": r"shards-.*"}

# Cases of scripts/python-bench.py: how a row begins, and the image or database that it reads.
PYTHON = {
    "read, packfs, SquashFS": ("`read`, SquashFS", "set.sqfs"),
    "read, packfs, EROFS": ("`read`, EROFS", "set.erofs"),
    "read, PySquashfsImage": ("PySquashfsImage, the same SquashFS image", "set.sqfs"),
    "read, LMDB with zstd": ("LMDB with zstd a file", "compact/data.mdb"),
    "read_many, packfs, SquashFS": ("`read_many`, shuffled, SquashFS", "set.sqfs"),
    "read_many, packfs, EROFS": ("`read_many`, shuffled, EROFS", "set.erofs"),
    "read_many, packfs, SquashFS 16 KiB": ("`read_many`, shuffled, SquashFS in blocks of 16 KiB", "set16.sqfs"),
    "read_many, packfs, EROFS 16 KiB": ("`read_many`, shuffled, EROFS in clusters of 16 KiB", "set16.erofs"),
    "read_many, packfs, SquashFS alone": ("`read_many`, shuffled, SquashFS without fragments", "alone.sqfs"),
    "read_many, packfs, EROFS alone": ("`read_many`, shuffled, EROFS without fragments", "alone.erofs"),
    "shuffled, LMDB with zstd": ("LMDB with zstd a file, shuffled", "compact/data.mdb"),
    "names and sizes, packfs": ("names and sizes of an image of 10^6 files", None),
    "loader, packfs": ("8 processes, `read_many`, stored files", "photos.sqfs"),
    "loader, packfs mount": ("8 processes, files of `packfs mount`", "photos.sqfs"),
    "loader, LMDB": ("8 processes, LMDB", "photos.lmdb/data.mdb"),
    "loader, HDF5": ("8 processes, HDF5", "photos.h5"),
}

# The README: what a row says, its case, and the programs that it compares. Both do the same work at the same level.
FRONT = [
    ("SquashFS, gzip 9, from a directory", "build-gzip-9", "packfs", "mksquashfs"),
    ("SquashFS, zstd 15, from a directory", "build-zstd-15", "packfs", "mksquashfs"),
    ("SquashFS, xz, from a directory", "build-xz", "packfs", "mksquashfs"),
    ("SquashFS, lz4, from tar", "build-lz4", "packfs (tar)", "tar2sqfs"),
    ("40,000 small files of mixed lengths", "mixed-files", "packfs", "mksquashfs"),
    ("EROFS, lz4hc 9, 64K, fragments, dedupe", "erofs-default", "packfs", "mkfs.erofs"),
    ("EROFS, zstd 15, 128K, fragments", "erofs-zstd", "packfs", "mkfs.erofs"),
    ("extract SquashFS, zstd", "extract-zstd", "packfs", "unsquashfs"),
    ("SquashFS to tar, zstd", "tar-zstd", "packfs", "sqfs2tar"),
    ("list 57,000 entries", "list", "packfs", "unsquashfs"),
]


def read_results(name):
    """The session, and the records of each case by program, in the order of the file."""
    with open(os.path.join(RESULTS, name), encoding="utf-8") as file:
        session, *records = map(json.loads, file)
    cases = {}
    for record in records:
        cases.setdefault(record["case"], {})[record["program"]] = record
    return session, cases


def seconds(value):
    """Three significant figures."""
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def peer_of(programs):
    """The fastest program that is not packfs. The kernel is none: it takes root, and often a newer one."""
    peers = [label for label in programs if not label.startswith(("packfs", "kernel"))]
    return min(peers, key=lambda label: statistics.median(programs[label]["wall"]), default=None)


def relative(programs, label, peer):
    """Time and size of a program in proportion to a peer's."""
    ours, theirs = programs[label], programs[peer]
    ratio = statistics.median(ours["wall"]) / statistics.median(theirs["wall"])
    time = f"{ratio:.2f}" if ratio >= 0.05 else f"{ratio:.4f}"
    if not ours["bytes"] or not theirs["bytes"]:
        return time, ""
    percent = round((ours["bytes"] / theirs["bytes"] - 1) * 100, 1)
    return time, f"{percent:+.1f} %" if percent else "0.0 %"


def table(cases, pattern):
    lines = ["| work | program | seconds: median (range) | CPU s | MiB | MB | time | size |",
             "|---|---|--:|--:|--:|--:|--:|--:|"]
    for case, programs in sorted(cases.items()):
        if not re.fullmatch(pattern, case):
            continue
        peer = peer_of(programs)
        what = f"{next(iter(programs.values()))['what']} (`{case}`)"
        for label, record in programs.items():
            wall = record["wall"]
            spread = f" ({seconds(min(wall))}-{seconds(max(wall))})" if len(wall) > 1 else ", once"
            size = f"{record['bytes'] / 1e6:.2f}" if record["bytes"] else ""
            if peer is None:
                time = bytes_ratio = ""
            elif label == peer:
                time, bytes_ratio = "1", ""
            else:
                time, bytes_ratio = relative(programs, label, peer)
            lines.append(f"| {what} | {label} | {seconds(statistics.median(wall))}{spread} "
                         f"| {seconds(statistics.median(record['cpu']))} | {record['peak_kib'] / 1024:.0f} | {size} "
                         f"| {time} | {bytes_ratio} |")
            what = ""
    return "\n".join(lines)


def about(session):
    machine = session["machine"]
    lines = [f"Measured on {session['date']} at commit {session['commit'][:12]}, on {machine['cores']} cores of "
             f"{machine['cpu']}, Linux {machine['kernel']}:", ""]
    lines += [f"- {version}" for version in session["versions"].values()]
    return "\n".join(lines)


def about_packfs(session):
    """The same in a sentence, for pages on which only packfs runs."""
    machine = session["machine"]
    return (f"Measured on {session['date']} at commit {session['commit'][:12]}, on {machine['cores']} cores of "
            f"{machine['cpu']}, Linux {machine['kernel']}.")


def front(cases):
    lines = ["| work | packfs, verified | other program | time | size |", "|---|--:|--:|--:|--:|"]
    for what, case, ours, theirs in FRONT:
        programs = cases[case]
        time, size = relative(programs, ours, theirs)
        ours_wall, theirs_wall = (statistics.median(programs[label]["wall"]) for label in (ours, theirs))
        lines.append(f"| {what} | {seconds(ours_wall)} s | {theirs} {seconds(theirs_wall)} s | {time} | {size} |")
    return "\n".join(lines)


def choice(cases):
    """A row for each format, codec and block size, by size. Columns of reads are there if they were measured."""
    builds = cases["choice-build"]
    content = max(record["bytes"] for record in builds.values())

    def median(case, label):
        return statistics.median(cases[case][label]["wall"])

    reads = {
        "cold MB/s": lambda label: f"{content / 1e6 / median('choice-cold', label):.0f}",
        "warm MB/s": lambda label: f"{content / 1e6 / median('choice-warm', label):.0f}",
        "page ms": lambda label: f"{median('choice-page', label) * 1000:.2f}",
    } if "choice-page" in cases else {}
    heads = ["MB", "of content", "build s", "memory MiB", *reads, "Linux"]
    lines = [f"| format | codec | block | {' | '.join(heads)} |", "|---|---|" + "--:|" * (len(heads) + 1)]
    for label, record in sorted(builds.items(), key=lambda pair: (pair[0].startswith("erofs"), pair[1]["bytes"])):
        form, codec, block = label.split()
        cells = [f"{record['bytes'] / 1e6:.1f}", f"{record['bytes'] / content:.0%}", seconds(statistics.median(record["wall"])),
                 f"{record['peak_kib'] / 1024:.0f}", *(cell(label) for cell in reads.values()), record["needs_linux"]]
        lines.append(f"| {form} | `{codec}` | {block} | {' | '.join(cells)} |")
    return "\n".join(lines)


def python():
    """Where the figures of the Python package come from, and its table. Loaders are compared by the time of a clock, all
    else by processor time."""
    with open(os.path.join(RESULTS, "python.jsonl"), encoding="utf-8") as file:
        session, *records = map(json.loads, file)
    versions = ", ".join(f"{name} {version}" for name, version in session["versions"].items())
    machine = session["machine"]
    lines = [f"Measured on {session['date']} at commit {session['commit'][:12]}, on {machine['cores']} cores, Linux "
             f"{machine['kernel']}, in {session['rounds']} rounds, with {versions}: {session['files']:,} files, and "
             f"{session['photos']:,} photos for loaders.", "",
             "| case | MB/CPU s | CPU s | seconds: median (range) | peak MiB | MB stored |", "|---|--:|--:|--:|--:|--:|"]
    samples = {record["case"]: record["samples"] for record in records}
    for case, (what, stored) in PYTHON.items():
        cpu, wall, peak = ([one[key] for one in samples[case]] for key in ("cpu", "wall", "peak_mib"))
        rate = f"{samples[case][0]['bytes'] / 1e6 / statistics.median(cpu):.0f}" if stored else ""
        size = f"{session['sizes'][stored] / 1e6:.1f}" if stored else ""
        lines.append(f"| {what} | {rate} | {seconds(statistics.median(cpu))} | {seconds(statistics.median(wall))} "
                     f"({seconds(min(wall))}-{seconds(max(wall))}) | {max(peak):.0f} | {size} |")
    return "\n".join(lines)


def main():
    session, cases = read_results("peers.jsonl")
    regions = {name: table(cases, pattern) for name, pattern in TABLES.items()}
    session_of_more, more = read_results("mounts.jsonl")
    regions |= {name: table(more, pattern) for name, pattern in MORE_TABLES.items()}
    regions["about-mounts"] = about(session_of_more)
    session_of_trees, trees = read_results("trees.jsonl")
    regions |= {"about": about(session), "trees": f"{about_packfs(session_of_trees)}\n\n{table(trees, '.*')}", "python": python()}
    session_of_choice, choices = read_results("choice.jsonl")
    pages = {
        os.path.join("docs", "benchmarking.md"): regions,
        "README.md": {"front": front(cases)},
        os.path.join("docs", "guide", "choosing.md"): {
            "choice": choice(choices), "about": about_packfs(session_of_choice)},
    }
    differing = []
    for name, parts in pages.items():
        path = os.path.join(ROOT, name)
        with open(path, encoding="utf-8") as file:
            page = file.read()
        made = page
        for part, text in parts.items():
            begin, end = f"<!-- {part}:begin -->\n", f"<!-- {part}:end -->"
            head, _, rest = made.partition(begin)
            _, found, tail = rest.partition(end)
            if not found:
                sys.exit(f"{name} has no region {part}")
            made = head + begin + text + "\n" + end + tail
        if made != page:
            differing.append(name)
            if "--check" not in sys.argv[1:]:
                with open(path, "w", encoding="utf-8") as file:
                    file.write(made)
    if differing and "--check" in sys.argv[1:]:
        sys.exit(f"{', '.join(differing)}: the tables differ from docs/results; run scripts/report-peers.py")


main()
