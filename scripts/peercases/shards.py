"""A build in 16 shards, one after the other on one machine, beside a build of the whole: what sharding costs."""
from . import Case, Step

SHARDS = 16


def cases(data, tmp):
    out = {}
    for name, what, options in [
        ("squashfs", "SquashFS, zstd 3", "--format squashfs -c zstd:3"),
        ("erofs", "EROFS, lz4hc 9, 64K", "--format erofs -c lz4hc:9 -b 64K"),
    ]:
        plan, parts, image = f"{tmp}/{name}.plan", f"{tmp}/{name}.parts", f"{tmp}/{name}.image"
        # Arguments of `sh -c`, because a step is one program.
        steps = (f"packfs plan {data}/debroot -o {plan} --shards {SHARDS} -f -q {options}",
                 f"for shard in $(seq 0 {SHARDS - 1}); do packfs shard {plan} $shard -o {parts} -q -j 2; done",
                 f"packfs assemble {plan} {parts} -o {image} -f -q -j 2")
        out[f"shards-{name}"] = Case(f"Debian root to {what}, in {SHARDS} shards", {
            "packfs build": Step(f"packfs build {data}/debroot -o {tmp}/p.image -f -q -j 2 {options}", f"{tmp}/p.image"),
            "packfs plan, shard, assemble": Step(f"sh -ec '{'; '.join(steps)}'", image),
        }, before=f"rm -rf {parts}", usual=False)
    return out
