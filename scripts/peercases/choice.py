"""What a choice of format, codec and block size costs: the figures of docs/guide/choosing.md.

All programs of these cases are packfs; the labels are settings. Builds leave their images where the reading cases find
them, so the reading cases build only what is missing. They mount images and need root.
"""
from dataclasses import dataclass

from . import Case, Step
from .erofs import DROP_CACHES, KERNEL


@dataclass(frozen=True)
class Setting:
    """A format with codec and block size, and the options that build it."""

    format: str
    codec: str
    block: str

    @property
    def label(self):
        return f"{self.format} {self.codec} {self.block}"

    def image(self, tmp):
        return f"{tmp}/choice-{self.label.replace(' ', '-').replace(':', '-')}.image"

    def build(self, source, tmp):
        kernel = f" --target-kernel {KERNEL}" if self.format == "erofs" else ""
        return (f"packfs build {source} -o {self.image(tmp)} --format {self.format} -c {self.codec} -b {self.block}"
                f"{kernel} -f -q -j 2")


# What people choose from: every codec at its default level and block size, then what changes with level and block size.
SETTINGS = [Setting(*line.split()) for line in """
    squashfs none    128K
    squashfs lz4     128K
    squashfs lz4hc   128K
    squashfs lzo     128K
    squashfs gzip:6  128K
    squashfs gzip:9  128K
    squashfs zstd:3  128K
    squashfs zstd:15 32K
    squashfs zstd:15 128K
    squashfs zstd:15 1M
    squashfs zstd:22 1M
    squashfs xz      128K
    squashfs xz      1M
    erofs    none    4K
    erofs    lz4     4K
    erofs    lz4     64K
    erofs    lz4hc:9 16K
    erofs    lz4hc:9 64K
    erofs    lz4hc:9 256K
    erofs    deflate 64K
    erofs    zstd:3  64K
    erofs    zstd:15 64K
    erofs    zstd:15 256K
    erofs    lzma    64K
""".strip().splitlines()]

READS = {
    "choice-cold": ("sequential", "all files from start to end, on a fresh mount"),
    "choice-warm": ("again", "the same once more"),
    "choice-page": ("page", "a page of 4 KiB anywhere, nothing cached: seconds a page"),
}


def cases(data, tmp):
    root = f"{data}/debroot"
    builds = {setting.label: Step(setting.build(root, tmp), setting.image(tmp)) for setting in SETTINGS}
    out = {"choice-build": Case("a Debian root", builds, usual=False, kernels=True)}
    prepare = tuple(f"sh -c 'test -e {setting.image(tmp)} || {setting.build(root, tmp)}'" for setting in SETTINGS)
    for name, (mode, what) in READS.items():
        steps = {setting.label: Step(f"read-image.py {mode} {setting.image(tmp)}", setting.image(tmp), True)
                 for setting in SETTINGS}
        out[name] = Case(what, steps, prepare, DROP_CACHES, usual=False)
    return out
