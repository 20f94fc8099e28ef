"""The most used settings on larger trees that others made: a desktop system and the source of Linux.

Levels are chosen such that a case takes seconds to minutes: what differs from a minimal root is the number of files, the
share of text, and that content no longer fits the caches of the processor.
"""
from . import Case, Step
from .erofs import KERNEL
from .squashfs import QUIET

TREES = {"desktop": "an Xfce desktop", "source": "the source of Linux"}


def cases(data, tmp):
    out = {}
    for name, what in TREES.items():
        root = f"{data}/{name}"

        def packfs(options):
            return Step(f"packfs build {root} -o {tmp}/p.image -f -q -j 2 {options}", f"{tmp}/p.image")

        def mksquashfs(options):
            return Step(f"mksquashfs {root} {tmp}/m.image {QUIET} {options}", f"{tmp}/m.image")

        for codec, ours, theirs in [
            ("lz4", "lz4", "-comp lz4"),
            ("gzip 6", "gzip:6", "-comp gzip -Xcompression-level 6"),
            ("zstd 3", "zstd:3", "-comp zstd -Xcompression-level 3"),
            ("zstd 15", "zstd:15", "-comp zstd -Xcompression-level 15"),
        ]:
            out[f"{name}-{codec.replace(' ', '-')}"] = Case(f"{what} to SquashFS, {codec}", {
                "packfs": packfs(f"--format squashfs -c {ours}"), "mksquashfs": mksquashfs(theirs)}, usual=False)
        erofs = Step(f"mkfs.erofs --quiet --workers=2 -zlz4hc -C65536 -Efragments,dedupe {tmp}/m.image {root}", f"{tmp}/m.image")
        out[f"{name}-erofs"] = Case(f"{what} to EROFS, packfs's defaults", {
            "packfs": packfs(f"--format erofs --target-kernel {KERNEL}"), "mkfs.erofs": erofs}, usual=False)
        made = f"{tmp}/{name}.sqfs"
        out[f"{name}-extract"] = Case(f"{what} from an image to a directory, zstd 3", {
            "packfs": Step(f"packfs extract {made} -C {tmp}/p.dir -q -j 2"),
            "unsquashfs": Step(f"unsquashfs -q -n -p 2 -d {tmp}/m.dir {made}")},
            (f"packfs build {root} -o {made} -f -q -c zstd:3",), usual=False)
    return out
