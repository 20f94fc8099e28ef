"""SquashFS against squashfs-tools and squashfs-tools-ng."""
from . import Case, Step

QUIET = "-noappend -quiet -no-progress -processors 2"


def cases(data, tmp):
    root, tar = f"{data}/debroot", f"{data}/debroot.tar"

    def ours(source, codec, name="p"):
        image = f"{tmp}/{name}.image"
        return Step(f"packfs build {source} -o {image} --format squashfs -f -q -j 2 -c {codec}", image)

    def mk(source, how):
        return Step(f"mksquashfs {source} {tmp}/m.image {QUIET} {how}", f"{tmp}/m.image")

    out = {}
    # Level for packfs, options of mksquashfs, and whether the programs of squashfs-tools-ng have that level by default.
    for name, codec, how, is_default in [
        ("gzip-6", "gzip:6", "-comp gzip -Xcompression-level 6", False),
        ("gzip-9", "gzip:9", "-comp gzip -Xcompression-level 9", True),
        ("zstd-3", "zstd:3", "-comp zstd -Xcompression-level 3", False),
        ("zstd-15", "zstd:15", "-comp zstd -Xcompression-level 15", True),
        ("xz", "xz", "-comp xz", True),
        ("lzo", "lzo", "-comp lzo", True),
        ("lz4", "lz4", "-comp lz4", True),
        ("lz4hc", "lz4hc:12", "-comp lz4 -Xhc", False),
    ]:
        steps = {"packfs": ours(root, codec), "packfs --no-verify": ours(root, codec + " --no-verify"),
                 "mksquashfs": mk(root, how)}
        if is_default:
            of_ng = codec.split(":")[0]
            steps |= {
                "packfs (tar)": ours(tar, codec),
                "gensquashfs": Step(f"gensquashfs -q -f -k -j 2 -D {root} -c {of_ng} {tmp}/g.image", f"{tmp}/g.image"),
                "tar2sqfs": Step(f"tar2sqfs -q -f -j 2 -c {of_ng} {tmp}/n.image < {tar}", f"{tmp}/n.image"),
            }
        out[f"build-{name}"] = Case(f"Debian root to SquashFS, {codec.replace(':', ' ')}", steps)
    plain = "-noI -noD -noF -noX"
    out["build-none"] = Case("Debian root to SquashFS, uncompressed", {
        "packfs": ours(root, "none"), "packfs (tar)": ours(tar, "none"), "mksquashfs": mk(root, plain)})
    for name, folder, what in [
        ("small-files", "small40k", "40,000 files of 1,000 bytes, uncompressed"),
        ("mixed-files", "mixed40k", "40,000 files of 0 to 4,095 bytes, uncompressed"),
    ]:
        out[name] = Case(what, {"packfs": ours(f"{data}/{folder}", "none"), "mksquashfs": mk(f"{data}/{folder}", plain)})
    out["twice"] = Case("the same root twice, zstd 15", {
        "packfs, once": ours(root, "zstd:15"), "packfs, twice": ours(f"{data}/twice", "zstd:15", "t")})
    for name, where in [("million", "10,000 directories"), ("flat", "one directory")]:
        made = f"{tmp}/{name}.sqfs"
        out[name] = Case(f"1,000,000 files of up to 4 KiB in {where} to SquashFS, lz4", {
            "packfs": ours(f"{data}/{name}", "lz4"), "mksquashfs": mk(f"{data}/{name}", "-comp lz4")},
            usual=False)
        out[f"extract-{name}"] = Case(f"1,000,000 files in {where}, from an image to a directory", {
            "packfs": Step(f"packfs extract {made} -C {tmp}/p.dir -q -j 2"),
            "unsquashfs": Step(f"unsquashfs -q -n -p 2 -d {tmp}/m.dir {made}")},
            (f"packfs build {data}/{name} -o {made} -f -q -c lz4",), usual=False)
    for codec in ["gzip", "zstd", "xz", "lz4"]:
        made = f"{tmp}/{codec}.sqfs"
        prepare = (f"packfs build {root} -o {made} -f -q -c {codec}",)
        out[f"tar-{codec}"] = Case(f"image to tar, {codec}", {
            "packfs": Step(f"packfs tar {made} -o {tmp}/p.tar -f -q -j 2", f"{tmp}/p.tar"),
            "sqfs2tar": Step(f"sqfs2tar {made} > {tmp}/n.tar", f"{tmp}/n.tar")}, prepare)
        out[f"extract-{codec}"] = Case(f"image to a directory, {codec}", {
            "packfs": Step(f"packfs extract {made} -C {tmp}/p.dir -q -j 2"),
            "unsquashfs": Step(f"unsquashfs -q -n -p 2 -d {tmp}/m.dir {made}")}, prepare)
    many = f"{tmp}/many.sqfs"
    out["list"] = Case("long listing of 57,000 entries", {
        "packfs": Step(f"packfs list -l {many} > {tmp}/p.txt"),
        "unsquashfs": Step(f"unsquashfs -q -n -lls {many} > {tmp}/m.txt")},
        (f"packfs build {data}/many57k -o {many} -f -q -c gzip",))
    return out
