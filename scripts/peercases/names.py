"""packfs under the names of other programs against these programs: the same command line for both.

Start-up is that of printing the version.
"""
from . import Case, Step

CODECS = ("gzip", "zstd", "lz4")


def cases(data, tmp):
    root = f"{data}/debroot"

    def pair(what, program, options, suffix):
        """One command line; `IMAGE` in `options` stands for the image of each."""
        def step(line, name):
            image = f"{tmp}/{name}.{suffix}"
            return Step(f"{line} {options}".replace("IMAGE", image), image)

        return Case(what, {f"packfs as {program}": step(f"packfs as {program}", "p"), program: step(program, "m")})

    out = {}
    for codec in CODECS:
        out[f"as-mksquashfs-{codec}"] = pair(
            f"Debian root by mksquashfs's command line, {codec}", "mksquashfs",
            f"{root} IMAGE -comp {codec} -noappend -quiet -no-progress -processors 2", "sqfs")
    out["as-mkfs.erofs"] = pair("Debian root by mkfs.erofs's command line, lz4hc 12, 64K clusters, fragments", "mkfs.erofs",
                                f"-zlz4hc,12 -C65536 -Efragments --workers=2 --quiet IMAGE {root}", "erofs")
    start = {f"packfs as {name}": Step(f"packfs as {name} {option}") for name, option in
             (("mksquashfs", "-version"), ("mkfs.erofs", "-V"))}
    start |= {"mksquashfs": Step("mksquashfs -version"), "mkfs.erofs": Step("mkfs.erofs -V")}
    out["as-start"] = Case("start-up: the version", start)
    return out
