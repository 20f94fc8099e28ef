#!/usr/bin/env python3
"""Runs the session of the README and draws it: record-terminal.py PACKFS OUTPUT.svg

The picture has what the commands print, except times: those say more about the machine than about packfs.
"""
import html
import os
import re
import subprocess
import sys
import tempfile

SESSION = [
    "packfs build /usr/share/perl -o perl.sqfs",
    "packfs check perl.sqfs --against /usr/share/perl",
    "mkdir mnt && packfs mount perl.sqfs mnt",
    "du -sh --apparent-size mnt perl.sqfs",
    "packfs umount mnt",
    "packfs build perl.sqfs -o perl.erofs --quiet",
    "packfs diff perl.sqfs perl.erofs && echo equal",
]
# A line of progress shows on a slow machine only.
LEFT_OUT = ("took", "packfs: packing")
TIME = re.compile(r" in [0-9.]+ s\b")
CHARACTER, LINE, MARGIN = 7.83, 19, 16
COLUMNS = 84
# Seconds between lines, so that the session can be followed.
PACE = 0.35


def record(packfs):
    """Commands with their output, as lines; a line of a command begins with `$ `."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        bin_folder = os.path.join(folder, "bin")
        work = os.path.join(folder, "work")
        os.makedirs(bin_folder)
        os.makedirs(work)
        os.symlink(os.path.realpath(packfs), os.path.join(bin_folder, "packfs"))
        env = dict(os.environ, PATH=f"{bin_folder}:{os.environ['PATH']}")
        try:
            for command in SESSION:
                done = subprocess.run(["bash", "-c", command], cwd=work, env=env, text=True, check=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                lines.append(f"$ {command}")
                lines += [TIME.sub("", line) for line in done.stdout.splitlines() if not line.startswith(LEFT_OUT)]
        finally:
            mount_point = os.path.join(work, "mnt")
            if os.path.ismount(mount_point):
                subprocess.run(["umount", mount_point], check=False)
    return [line.replace("\t", "    ")[:COLUMNS] for line in lines]


def draw(lines):
    width, height = COLUMNS * CHARACTER + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN + 8
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
           f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">')
    yield f"<title>{html.escape('; '.join(SESSION))}</title>"
    yield ("<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d8dee9;white-space:pre}"
           ".command{fill:#fff;font-weight:600}.prompt{fill:#8fbc8f}"
           "@media (prefers-reduced-motion:no-preference){g{animation:show .1s backwards}}"
           "@keyframes show{from{opacity:0}}</style>")
    yield f'<rect width="{width:.0f}" height="{height:.0f}" rx="8" fill="#1e2430"/>'
    for number, line in enumerate(lines):
        y = MARGIN + (number + 1) * LINE - 4
        text = html.escape(line)
        if line.startswith("$ "):
            text = f'<tspan class="prompt">$</tspan><tspan class="command">{text[1:]}</tspan>'
        yield f'<g style="animation-delay:{number * PACE:.2f}s"><text x="{MARGIN}" y="{y}">{text}</text></g>'
    yield "</svg>"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    picture = "\n".join(draw(record(sys.argv[1]))) + "\n"
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write(picture)


main()
