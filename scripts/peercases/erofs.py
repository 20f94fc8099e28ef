"""EROFS against erofs-utils 1.9.3 or newer (scripts/build-peers.sh): same algorithm, level, cluster size and features.

`read-*` mount images on the running kernel and need root. Each run mounts afresh after dropping the page cache, so
it reads and decodes everything anew; the image itself is in a tmpfs.
"""
from . import Case, Step

# The newest kernel that anything here needs, so that nothing is refused.
KERNEL = "6.15"
# Not in the published tables, because they say what others say: together they take an hour.
RARE = ("erofs-deflate", "erofs-libdeflate", "erofs-lzma", "erofs-encoded", "erofs-dedupe", "erofs-dedupe-repeating",
        "erofs-small-files", "erofs-lz4hc-4k", "erofs-lz4hc-16k", "erofs-lz4hc-128k", "erofs-extract-all-fragments",
        "erofs-tar-all-fragments")
DROP_CACHES = "sh -c 'sync; echo 3 > /proc/sys/vm/drop_caches'"


def cases(data, tmp):
    root = f"{data}/debroot"

    def ours(source, options, name="p"):
        image = f"{tmp}/{name}.erofs"
        return Step(f"packfs build {source} -o {image} -f -q -j 2 --target-kernel {KERNEL} {options}", image)

    def mkfs(source, options, name="m"):
        image = f"{tmp}/{name}.erofs"
        return Step(f"mkfs.erofs --quiet --workers=2 {options} {image} {source}", image)

    def pair(what, our_options, their_options, source=root, more=()):
        return Case(what, {"packfs": ours(source, our_options), "mkfs.erofs": mkfs(source, their_options), **dict(more)})

    out = {}
    big = "-C131072 -Efragments"
    out["erofs-zstd"] = pair("Debian root to EROFS, zstd 15, 128K clusters, fragments",
                             "-c zstd:15 -b 128K", f"-zzstd,level=15 {big}")
    out["erofs-deflate"] = pair("Debian root to EROFS, deflate 9, 128K clusters, fragments", "-c deflate:9 -b 128K", f"-zdeflate,level=9 {big}")
    out["erofs-libdeflate"] = pair("Debian root to EROFS, deflate 12, 128K clusters, fragments", "-c deflate:12 -b 128K", f"-zlibdeflate,level=12 {big}")
    out["erofs-lzma"] = pair("Debian root to EROFS, lzma 6, 128K clusters, fragments", "-c lzma:6 -b 128K", f"-zlzma,level=6 {big}")
    for size in (4, 16, 64, 128):
        squashfs = Step(f"mksquashfs {root} {tmp}/s.sqfs -noappend -quiet -no-progress -processors 2 -comp lz4 -Xhc "
                        f"-b {size}K", f"{tmp}/s.sqfs")
        out[f"erofs-lz4hc-{size}k"] = pair(f"Debian root to EROFS, lz4hc 12, {size}K clusters, fragments", f"-c lz4hc:12 -b {size}K",
                                           f"-zlz4hc,level=12 -C{size << 10} -Efragments",
                                           more=[("mksquashfs -Xhc", squashfs)])
    out["erofs-default"] = pair("Debian root to EROFS, packfs's defaults", "",
                                "-zlz4hc -C65536 -Efragments,dedupe")
    out["erofs-lz4"] = pair("Debian root to EROFS, lz4, 4K clusters, no fragments",
                            "-c lz4 -b 4K --fragments none", "-zlz4")
    out["erofs-none"] = pair("Debian root to EROFS, uncompressed", "-c none", "")
    dedupe = ("-c lz4hc:12 -b 4K --features dedupe", "-zlz4hc,level=12 -Efragments,dedupe")
    out["erofs-dedupe"] = pair("Debian root to EROFS, lz4hc 12, fragments, dedupe", *dedupe)
    out["erofs-dedupe-repeating"] = pair("a tree whose content repeats to EROFS, lz4hc 12, fragments, dedupe", *dedupe,
                                         source=f"{data}/repeating")
    out["erofs-encoded"] = pair("Debian root to EROFS, zstd 15, 128K clusters, encoded extents",
                                "-c zstd:15 -b 128K --features 48bit", f"-zzstd,level=15 -C131072 -Efragments,48bit")
    out["erofs-small-files"] = pair("40,000 files of 1,000 bytes to EROFS, lz4", "-c lz4 -b 4K --fragments none", "-zlz4",
                                    source=f"{data}/small40k")
    out.update(extracting(root, tmp, mkfs))
    out.update(converting(root, tmp))
    out.update(reading(root, tmp, ours, mkfs))
    for name in RARE:
        out[name].usual = False
    return out


def extracting(root, tmp, mkfs):
    out = {}
    for name, what, options in [
        ("lz4", "lz4", "-zlz4"),
        ("zstd", "zstd 3, 64K clusters", "-zzstd,level=3 -C65536"),
        ("deflate", "deflate 9, 64K clusters", "-zdeflate,level=9 -C65536"),
        ("lzma", "lzma 6, 64K clusters", "-zlzma,level=6 -C65536"),
        ("all-fragments", "lz4hc 12, 64K clusters, all-fragments", "-zlz4hc,level=12 -C65536 -Eall-fragments"),
    ]:
        made = mkfs(root, options, name)
        extract = f"fsck.erofs --extract={tmp}/m.dir --preserve --xattrs {made.output}"
        out[f"erofs-extract-{name}"] = Case(f"mkfs.erofs's image to a directory, {what}", {
            "packfs": Step(f"packfs extract {made.output} -C {tmp}/p.dir -q -j 2"),
            "fsck.erofs": Step(extract),
        }, (made.line,))
        archive = f"tar --xattrs -C {tmp}/m.dir -cf {tmp}/m.tar ."
        out[f"erofs-tar-{name}"] = Case(f"mkfs.erofs's image to tar, {what}", {
            "packfs": Step(f"packfs tar {made.output} -o {tmp}/p.tar -f -q -j 2", f"{tmp}/p.tar"),
            "fsck.erofs, tar": Step(f"sh -c '{extract} && {archive}'", f"{tmp}/m.tar"),
        }, (made.line,))
    return out


def converting(root, tmp):
    made = f"{tmp}/from.sqfs"
    peers = f"sh -c 'unsquashfs -q -n -p 2 -d {tmp}/m.dir {made} && mkfs.erofs --quiet --workers=2 -zlz4 {tmp}/m.erofs {tmp}/m.dir'"
    return {"convert": Case("SquashFS (zstd) to EROFS lz4", {
        "packfs": Step(f"packfs build {made} -o {tmp}/p.erofs -f -q -j 2 -c lz4 -b 4K --fragments none", f"{tmp}/p.erofs"),
        "unsquashfs, mkfs.erofs": Step(peers, f"{tmp}/m.erofs"),
    }, (f"packfs build {root} -o {made} -f -q",))}


def reading(root, tmp, ours, mkfs):
    """Reads through the kernel. The programs read the same files in the same order, so only the images differ."""
    images = {
        "packfs": ours(root, "-c lz4 -b 64K --fragments none", "read-p"),
        "packfs, 48bit": ours(root, "-c lz4 -b 64K --fragments none --features 48bit", "read-48"),
        "packfs, unaligned": ours(root, "-c lz4 -b 64K --fragments none --features unaligned", "read-un"),
        "mkfs.erofs": mkfs(root, "-zlz4 -C65536", "read-m"),
    }
    prepare = tuple(step.line for step in images.values())
    out = {}
    for name, what in [("sequential", "all files from start to end"), ("random", "20,000 pages of 4K"), ("stat", "find")]:
        steps = {label: Step(f"read-image.py {name} {step.output}", step.output, True) for label, step in images.items()}
        out[f"read-{name}"] = Case(f"a fresh mount, lz4 in 64K clusters: {what}", steps, prepare, DROP_CACHES)
    return out
