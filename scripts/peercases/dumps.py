"""Splitting a crash dump of Linux against makedumpfile, and joining it beside `cp`. Neither stores pages of zeros."""
from . import Case, Step


def cases(data, tmp):
    core = f"{tmp}/core"
    # makedumpfile does not read the header that QEMU writes, but the one that `join` does.
    prepare = (f"packfs split {data}/vmcore/core.kdump -o {tmp}/j.1 -o {tmp}/j.2 -f -q",
               f"packfs join {tmp}/j.1 {tmp}/j.2 -o {core} -f -q")
    out = {}
    for name, codec, option in [("lzo", "lzo", "-l"), ("gzip", "gzip:1", "-c")]:
        split = f"packfs split {core} -o {tmp}/p.1 -o {tmp}/p.2 -f -q -j 2 -c {codec}"
        out[f"split-{name}"] = Case(f"a crash dump of Linux into two parts, {codec.replace(':', ' ')}", {
            "packfs": Step(split),
            "packfs --no-verify": Step(f"{split} --no-verify"),
            "makedumpfile": Step(f"makedumpfile --message-level 0 -f -d 1 {option} --split {core} {tmp}/m.1 {tmp}/m.2"),
        }, prepare, usual=False)
    out["join"] = Case("two parts of a crash dump to the whole, lz4", {
        "packfs": Step(f"packfs join {tmp}/j.1 {tmp}/j.2 -o {tmp}/p.core -f -q -j 2", f"{tmp}/p.core"),
        "cp": Step(f"cp --sparse=never {core} {tmp}/m.core", f"{tmp}/m.core"),
    }, prepare, usual=False)
    return out
