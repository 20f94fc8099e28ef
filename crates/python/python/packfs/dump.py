"""Splits one large stream, such as a crash dump or a disk image, over several disks at once, and joins the parts.

>>> import packfs
>>> with open("core", "wb") as file:
...     _ = file.write(bytes(1000) + b"end")
>>> packfs.dump.split("core", ["a.part", "b.part"], codec="zstd:3").size
1003
>>> packfs.dump.join(["b.part", "a.part"], "back").lost
[]
>>> with open("back", "rb") as file:
...     file.read()[-3:]
b'end'
"""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, List, NamedTuple, Optional, Tuple, Union

from . import _packfs
from ._errors import Incomplete, InvalidArgument
from ._image import _listed

__all__ = ["JoinSummary", "LostRange", "RestoredPart", "SplitPart", "SplitSummary", "join", "split"]

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Report = Callable[[str, int, int], Any]


class SplitPart(NamedTuple):
    """A part: its path, its length in bytes, and why it was abandoned, if it was."""

    path: str
    size: int
    error: Optional[str]


class SplitSummary(NamedTuple):
    """Result of a split.

    ``set`` is the name that all parts have. ``size`` is the length of the dump, of which ``resumed_bytes`` had been written
    before. ``decoded`` is true if the ELF core in a file of makedumpfile was stored. ``problems`` did not stop the split,
    ``notes`` are no problems.
    """

    set: str
    size: int
    resumed_bytes: int
    decoded: bool
    parts: List[SplitPart]
    problems: List[str]
    notes: List[str]


class LostRange(NamedTuple):
    """Bytes ``start`` to ``end`` of the dump, which are lost, and why."""

    start: int
    end: int
    why: str


class RestoredPart(NamedTuple):
    """Bytes that parity restored: of the damaged part at ``path``, or of all missing parts. ``start`` is the first."""

    path: Optional[str]
    size: int
    start: int


class JoinSummary(NamedTuple):
    """Result of a join.

    ``size`` is the length of the dump, of which ``hole_bytes`` are zeros that became holes. ``lost`` has what is lost, and
    ``open_end`` why the end may be missing; without ``partial``, nothing is.
    """

    size: int
    hole_bytes: int
    lost: List[LostRange]
    open_end: Optional[str]
    restored: List[RestoredPart]


def split(
    source: Path,
    parts: Iterable[Path],
    *,
    codec: str = "lz4",
    chunk_size: Optional[int] = None,
    parity: int = 0,
    threads: Optional[int] = None,
    memory: Optional[int] = None,
    checkpoint: Optional[int] = None,
    dedup: bool = False,
    direct: bool = False,
    resume: bool = False,
    verify: bool = True,
    as_is: bool = False,
    force: bool = False,
    progress: Optional[Report] = None,
) -> SplitSummary:
    """Compresses the file, block device or FIFO at ``source`` onto several parts at once, which are best on as many disks.

    The arguments are the options of ``packfs split``, with the same defaults. ``codec`` is written as for the program:
    "zstd:3"; without a level it is the fastest. ``chunk_size`` is the number of bytes that are compressed together. ``parity`` parts
    may be lost without losing data. ``memory`` is a limit in bytes. ``resume`` continues an interrupted split of the same
    source. ``progress`` is called with the phase, and the bytes done and in total; an exception of it ends the split, which
    ``resume`` can continue.

    :class:`packfs.Incomplete` is raised if the split went on without something that was asked for: a part that failed, or
    the end of a source that could not be read. Its ``summary`` lists the problems; what is in the parts stays readable.

    >>> import packfs
    >>> with open("memory", "wb") as file:
    ...     _ = file.write(b"page" * 100_000)
    >>> summary = packfs.dump.split("memory", ["1.part", "2.part", "3.part"], parity=1)
    >>> len(summary.parts), summary.problems
    (3, [])
    """
    encoded = [_encode(part) for part in _listed(parts)]
    threads = len(os.sched_getaffinity(0)) if threads is None else threads
    settings = {
        "codec": codec,
        "chunk_size": chunk_size,
        "parity": parity,
        "threads": threads,
        "memory": _limited(64 + 16 * threads + 24 * len(encoded)) if memory is None else memory,
        "checkpoint": checkpoint,
        "dedup": dedup,
        "direct": direct,
        "resume": resume,
        "verify": verify,
        "as_is": as_is,
        "force": force,
    }
    done = _packfs.split(_encode(source), encoded, settings, progress)
    summary = SplitSummary(
        done["set"],
        done["size"],
        done["resumed_bytes"],
        done["decoded"],
        [SplitPart(os.fsdecode(path), size, error) for path, size, error in done["parts"]],
        _problems(done),
        done["notes"],
    )
    if summary.problems or not done["complete"]:
        error = Incomplete("; ".join(summary.problems) or "the parts do not have the whole source")
        error.summary = summary
        raise error
    return summary


def _problems(done: Any) -> List[str]:
    problems = []
    if done["input_error"] is not None:
        problems.append(f"the source: {done['input_error']}")
    problems += [f"{os.fsdecode(path)}: abandoned: {error}" for path, _, error in done["parts"] if error is not None]
    for start, end in done["suspect"]:
        problems.append(
            f"bytes {start} to {end} may be lost: the part that had them failed, and a stream cannot be read again"
        )
    if done["weak_stripes"]:
        problems.append(f"{done['weak_stripes']} stripes got less parity than requested, because too few parts were left")
    return problems


def join(
    parts: Iterable[Path],
    target: Any,
    *,
    partial: bool = False,
    threads: Optional[int] = None,
    memory: Optional[int] = None,
    force: bool = False,
    progress: Optional[Report] = None,
) -> JoinSummary:
    """Restores a dump from its parts, given in any order, and verifies every byte.

    ``target`` is the path of a file, in which zeros become holes and which appears whole or not at all; of a block device,
    with ``force``; or a binary file object, to which the bytes are written in order, on another thread. Damaged and missing
    parts are restored from parity. If bytes are lost nevertheless, :class:`packfs.Incomplete` is raised; with ``partial``
    they are written as zeros, and the summary lists them.

    >>> import io, packfs
    >>> with open("disk", "wb") as file:
    ...     _ = file.write(b"block" * 100_000)
    >>> _ = packfs.dump.split("disk", ["x.part", "y.part", "z.part"], parity=1)
    >>> target = io.BytesIO()
    >>> packfs.dump.join(["x.part", "z.part"], target).size
    500000
    """
    encoded = [_encode(part) for part in _listed(parts)]
    given: Any = target
    if not hasattr(target, "write"):
        given = _encode(target)
        for part in encoded:
            if os.path.exists(given) and os.path.exists(part) and os.path.samefile(given, part):
                raise InvalidArgument(f"{os.fsdecode(given)}: it is one of the parts")
    threads = len(os.sched_getaffinity(0)) if threads is None else threads
    settings = {
        "partial": partial,
        "threads": threads,
        "memory": _limited(16 + 16 * threads) if memory is None else memory,
        "force": force,
    }
    done = _packfs.join(encoded, given, settings, progress)
    return JoinSummary(
        done["size"],
        done["hole_bytes"],
        [LostRange(*lost) for lost in done["lost"]],
        done["open_end"],
        [RestoredPart(None if path is None else os.fsdecode(path), *rest) for path, *rest in done["repaired"]],
    )


def _encode(path: Path) -> bytes:
    encoded = os.fsencode(path)
    # For the library it is standard input.
    return b"./-" if encoded == b"-" else encoded


def _limited(mebibytes: int) -> int:
    """Returns as many bytes, but at most a quarter of the memory of the machine; a split takes no less than 64 MiB."""
    quarter = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    return max(min(mebibytes << 20, quarter), 64 << 20)
