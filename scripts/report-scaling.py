#!/usr/bin/env python3
"""Writes the tables of docs/scaling.md from the results of scripts/measure-scaling.py.

    report-scaling.py [--check]

Reads docs/results/scaling.jsonl and scaling-reads.jsonl, and replaces what lies between the scaling marks of the page.
With --check it changes nothing and exits with 1 if the page differs.
"""
import collections
import json
import os
import statistics
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGE = os.path.join(ROOT, "docs", "scaling.md")
BEGIN = "<!-- scaling:begin -->\n"
END = "<!-- scaling:end -->\n"


def load(name):
    """The session line of a results file, and its samples as {(kind, tool, format, codec, features): {threads: [sample]}}."""
    session = None
    samples = collections.defaultdict(lambda: collections.defaultdict(list))
    with open(os.path.join(ROOT, "docs", "results", name), encoding="utf-8") as file:
        for line in map(json.loads, file):
            if line["kind"] == "session":
                session = line
                continue
            key = (line["kind"], line["tool"], line["format"], line["codec"], line["features"])
            samples[key][line["threads"]].append(line)
    return session, samples


def wall(lines):
    return statistics.median(line["time"]["wall"] / 1e9 for line in lines)


def spread(lines):
    """Half the range of the samples, in percent of their median."""
    walls = [line["time"]["wall"] for line in lines]
    return (max(walls) - min(walls)) / 2 / statistics.median(walls) * 100


def table(heads, rows):
    yield "| " + " | ".join(head.removesuffix(":") for head in heads) + " |"
    yield "|" + "---|" * (len(heads) - sum(head.endswith(":") for head in heads)) + "--:|" * sum(head.endswith(":") for head in heads)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def scaling_rows(samples, work, columns):
    """A row for each series of packfs: seconds on one thread, speed-up for each number of threads, efficiency, system
    time of the last as a share of its processor time, and the widest spread."""
    for key, series in sorted(samples.items()):
        if key[0] != work or key[1] != "packfs" or series.keys() <= {0, 1} or 1 not in series:
            continue
        single = wall(series[1])
        row = [f"{key[2]} {key[3]}", {"": "plain", "fragments,dedupe": "fragments, dedupe"}.get(key[4], key[4])]
        row.append(f"{single:.2f}")
        threads = sorted(count for count in series if count > 1)
        # Each of several processes does all of the work.
        speed_ups = {count: single / wall(series[count]) * (count if work == "processes" else 1) for count in threads}
        row += [f"{speed_ups[count]:.1f}" if count in speed_ups else "" for count in columns]
        row += [f"{speed_ups[count] / count * 100:.0f} %" if count in speed_ups else "" for count in columns if count in (8, 16)]
        most = series[threads[-1]]
        processor = [line["time"]["cpu"] / 1e9 for line in most]
        row.append(f"{statistics.median(line['system'] for line in most) / statistics.median(processor) * 100:.0f} %")
        row.append(f"{statistics.median(processor) / statistics.median(line['time']['cpu'] / 1e9 for line in series[1]):.2f}")
        row.append(f"{max(spread(lines) for lines in series.values()):.0f} %")
        yield row


def peer_rows(samples, work):
    """A row for each series of a peer: its best time, packfs's at the same work and threads, and their ratio."""
    for key, series in sorted(samples.items()):
        if key[0] != work or key[1] == "packfs":
            continue
        own = samples.get((work, "packfs", *key[2:]), {})
        for count in sorted(set(series) & set(own)):
            theirs, ours = wall(series[count]), wall(own[count])
            cpu = lambda lines: statistics.median(line["time"]["cpu"] / 1e9 for line in lines)
            yield [key[1], f"{key[2]} {key[3]}", key[4] or "plain", str(count), f"{theirs:.3f}", f"{ours:.3f}",
                   f"{ours / theirs:.2f}", f"{cpu(own[count]) / cpu(series[count]):.2f}"]


def section():
    session, builds = load("scaling.jsonl")
    _, reads = load("scaling-reads.jsonl")
    machine = session["machine"]
    threads = sorted({count for series in builds.values() for count in series if count > 1})
    heads = ["work", "features", "1 thread, s:", *(f"{count} threads:" for count in threads),
             *(f"efficiency {count}:" for count in threads if count in (8, 16)), "system time:", "processor time:", "spread:"]
    peers = ["program", "work", "features", "threads:", "peer, s:", "packfs, s:", "time:", "processor time:"]
    yield f"{machine['processors']} processors ({machine['cpu']}), {machine['memory'] / 2**30:.0f} GiB, {machine['kernel']},"
    yield "everything in memory. Programs:"
    yield ""
    yield from (f"- {version}" for version in session["libraries"].values())
    yield ""
    yield "Data, files of that machine:"
    yield ""
    yield from (f"- {name}: {text}" for name, text in session["settings"].items() if "bytes" in text)
    yield ""
    yield "Columns of the tables:"
    yield ""
    yield "- `2 threads` and so on: speed-up over one thread. `efficiency`: speed-up divided by the number of threads."
    yield "- `system time`: the kernel's share of the processor time with most threads."
    yield "- `processor time`: that with most threads, divided by that with one thread; in tables with peers, packfs's divided by"
    yield "  the peer's. `time` there is the same ratio of wall time."
    yield "- `spread`: the largest spread of the samples of one number of threads."
    yield ""
    yield "### Building"
    yield ""
    yield from table(heads, scaling_rows(builds, "build", threads))
    yield ""
    yield "Other programs with the same number of threads; only packfs verifies what it writes:"
    yield ""
    yield from table(peers, peer_rows(builds, "build"))
    others = [
        ("processes", "The machine itself", "Several processes of one thread each, instead of threads:"),
        ("extract", "Extracting", ""),
        ("tar", "Archives, to a pipe that discards them", ""),
        ("check", "Checking", ""),
        ("split", "Splitting a stream into four parts", ""),
        ("join", "Joining four parts", ""),
    ]
    for work, what, note in others:
        yield ""
        yield f"### {what}"
        yield ""
        if note:
            yield note
            yield ""
        yield from table(heads, scaling_rows(reads, work, threads))
        rows = list(peer_rows(reads, work))
        if rows:
            yield ""
            yield from table(peers, rows)


def main():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    made = before + BEGIN + "\n".join(line.rstrip() for line in section()) + "\n" + END + after
    if "--check" in sys.argv[1:]:
        sys.exit(made != page and "docs/scaling.md differs from docs/results/scaling*.jsonl: run scripts/report-scaling.py")
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(made)


if __name__ == "__main__":
    main()
