"""Mounts against squashfuse and erofs-utils, and beside the kernel: the same images and the same readings.

Each run mounts afresh, as root; the image is in a tmpfs, and its pages stay there. Processor time is that of the readers
and of the program that serves them; the kernel's decoding counts as the readers'.
"""
from . import Case, Step

READINGS = {
    "sequential": "all files from start to end",
    "parallel": "all files, 4 readers",
    "random": "20,000 pages of 4K",
    "stat": "attributes of all entries",
}


def cases(data, tmp):
    out = {}
    for name, what, suffix, options, peer in [
        ("squashfs", "SquashFS, zstd 15", "sqfs", "--format squashfs -c zstd:15", "squashfuse_ll"),
        ("erofs", "EROFS, lz4hc 9, 64K", "erofs", "--format erofs -c lz4hc:9 -b 64K", "erofsfuse"),
    ]:
        image = f"{tmp}/mounted.{suffix}"
        prepare = (f"packfs build {data}/debroot -o {image} -f -q {options}",)
        for reading, how in READINGS.items():
            steps = {program: Step(f"read-image.py {reading} {image} {program}", reports=True)
                     for program in ("packfs", peer, "kernel")}
            out[f"mount-{name}-{reading}"] = Case(f"{what}: {how}", steps, prepare, usual=False)
    return out
