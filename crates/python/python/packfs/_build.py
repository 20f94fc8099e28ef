"""Builds images."""

from __future__ import annotations

import calendar
import io
import os
import stat as stat_bits
import tarfile
import zipfile
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, Optional, Tuple, Union

from . import _packfs
from ._errors import InvalidArgument
from ._image import Image
from ._image import open as open_image

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Report = Callable[[str, int, int], Any]


class BuildSummary(NamedTuple):
    """Numbers of regular files, and of bytes of the image without the padding after it."""

    files: int
    image_bytes: int


@dataclass
class Attributes:
    """Attributes of an entry. A directory, link or pipe has its type in ``kind``, and no data.

    ``mtime_ns`` is in nanoseconds since 1970. ``target`` is what a link leads to: for kind "link", an earlier entry.
    ``size`` is the number of bytes that a stream gives. Without it, a stream that cannot seek is read into memory.
    """

    kind: str = "file"
    mode: Optional[int] = None
    uid: int = 0
    gid: int = 0
    mtime_ns: int = 0
    target: Optional[Path] = None
    size: Optional[int] = None
    xattrs: Dict[str, bytes] = field(default_factory=dict)


class _Entry:
    """An entry as the compiled part takes it."""

    __slots__ = ("path", "kind", "data", "stream", "mode", "owner", "mtime", "xattrs")

    def __init__(self, path: Path, data: Any, attributes: Attributes) -> None:
        self.path = os.fsencode(path)
        self.kind = attributes.kind
        self.data: Optional[bytes] = None
        self.stream: Optional[Tuple[Any, int]] = None
        self.mode = attributes.mode
        self.owner = (attributes.uid, attributes.gid)
        self.mtime = divmod(attributes.mtime_ns, 1_000_000_000)
        self.xattrs = [(os.fsencode(name), bytes(value)) for name, value in attributes.xattrs.items()]
        if attributes.target is not None:
            self.data = os.fsencode(attributes.target)
        elif hasattr(data, "read"):
            self.stream = _sized(data, attributes.size)
        elif data is not None:
            self.data = bytes(data)


def _sized(stream: Any, size: Optional[int]) -> Tuple[Any, int]:
    """Returns a stream with the number of bytes it has; reads it into memory if only that tells."""
    if size is None and getattr(stream, "seekable", lambda: False)():
        at = stream.tell()
        size = stream.seek(0, io.SEEK_END) - at
        stream.seek(at)
    if size is None:
        content = stream.read()
        stream, size = io.BytesIO(content), len(content)
    return stream, size


def _entries(source: Iterable[Any]) -> Iterator[_Entry]:
    for item in source:
        name, data, *rest = item
        attributes = rest[0] if rest and rest[0] is not None else Attributes()
        if isinstance(attributes, dict):
            attributes = Attributes(**attributes)
        yield _Entry(name, data, attributes)


def _tar_entries(archive: tarfile.TarFile) -> Iterator[_Entry]:
    for member in archive:
        kinds = {tarfile.DIRTYPE: "dir", tarfile.SYMTYPE: "symlink", tarfile.LNKTYPE: "link", tarfile.FIFOTYPE: "fifo"}
        kind = "file" if member.isreg() else kinds.get(member.type)
        if kind is None:
            raise InvalidArgument(f"{member.name}: a tarfile.TarFile with devices; give the file's path instead")
        attributes = Attributes(
            kind=kind,
            mode=member.mode,
            uid=member.uid,
            gid=member.gid,
            mtime_ns=int(member.mtime * 1_000_000_000),
            target=member.linkname if kind in ("symlink", "link") else None,
            size=member.size,
        )
        yield _Entry(member.name, archive.extractfile(member) if kind == "file" else None, attributes)


def _zip_entries(archive: zipfile.ZipFile) -> Iterator[_Entry]:
    for member in archive.infolist():
        mode = member.external_attr >> 16
        # As the library reads them from a zip archive: of an unknown time zone, so as if it were UTC.
        mtime = calendar.timegm((*member.date_time, 0, 0, 0))
        attributes = Attributes(mode=mode & 0o7777 or None, size=member.file_size, mtime_ns=mtime * 1_000_000_000)
        if member.is_dir():
            attributes.kind = "dir"
            yield _Entry(member.filename.rstrip("/"), None, attributes)
        elif stat_bits.S_ISLNK(mode):
            attributes.kind = "symlink"
            attributes.target = archive.read(member)
            yield _Entry(member.filename, None, attributes)
        else:
            yield _Entry(member.filename, archive.open(member), attributes)


def _format_of(target: Path) -> str:
    ending = os.path.splitext(os.fsdecode(target))[1]
    return "erofs" if ending == ".erofs" else "squashfs"


def build(
    target: Path,
    source: Any,
    *,
    format: Optional[str] = None,
    codec: Optional[str] = None,
    block_size: Optional[int] = None,
    kernel: Optional[Tuple[int, int]] = None,
    threads: Optional[int] = None,
    force: bool = False,
    progress: Optional[Report] = None,
) -> BuildSummary:
    """Builds an image at ``target``, which appears whole or not at all.

    ``source`` is the path of a directory or archive (tar, cpio or zip, by its bytes), a binary stream with a tar or cpio
    archive, a :class:`tarfile.TarFile`, a :class:`zipfile.ZipFile`, an :class:`Image`, or an iterable of ``(name, data)`` or
    ``(name, data, attributes)``: data are bytes or a binary stream, attributes are :class:`Attributes`. Iterables and
    streams are used on another thread.

    ``format`` is "squashfs" or "erofs", by default by the target's ending. ``codec`` is written as for the program:
    "zstd", "zstd:19". ``kernel`` is the oldest Linux that has to read an EROFS image. ``progress`` is called with the
    phase, and the bytes done and in total; an exception of it ends the build.

    >>> import packfs
    >>> packfs.build("one.erofs", [("etc/motd", b"Welcome.", {"mode": 0o600})]).files
    1
    """
    settings = {
        "format": format or _format_of(target),
        "codec": codec,
        "block_size": block_size,
        "kernel": kernel,
        "threads": threads,
        "force": force,
    }
    given: Any
    if isinstance(source, (str, bytes, os.PathLike)):
        kind, given = "path", os.fsencode(source)
    elif isinstance(source, Image):
        kind, given = "image", source._reader()
    elif isinstance(source, tarfile.TarFile):
        kind, given = "entries", _tar_entries(source)
    elif isinstance(source, zipfile.ZipFile):
        kind, given = "entries", _zip_entries(source)
    elif hasattr(source, "read"):
        kind, given = "tar", source
    else:
        kind, given = "entries", _entries(source)
    return BuildSummary(*_packfs.build(os.fsencode(target), kind, given, settings, progress))


def convert(
    source: Any,
    target: Path,
    *,
    format: Optional[str] = None,
    codec: Optional[str] = None,
    block_size: Optional[int] = None,
    kernel: Optional[Tuple[int, int]] = None,
    threads: Optional[int] = None,
    force: bool = False,
    progress: Optional[Report] = None,
) -> BuildSummary:
    """Builds an image with the contents of another one: in the other format, with another codec or block size.

    ``source`` is an :class:`Image`, or anything that :func:`open` takes: a path, an address, bytes or a file object. Nothing
    is extracted. Owners, modes, times, extended attributes, hard links, devices and holes are kept, as far as the format
    holds them: SquashFS has whole seconds and no POSIX ACLs. The other arguments are those of :func:`build`.

    >>> import packfs
    >>> packfs.build("old.sqfs", [("etc/motd", b"Welcome.")]).files
    1
    >>> packfs.convert("old.sqfs", "new.erofs").files
    1
    >>> packfs.open("old.sqfs").diff(packfs.open("new.erofs"))
    []
    """
    image = source if isinstance(source, Image) else open_image(source)
    try:
        return build(
            target,
            image,
            format=format,
            codec=codec,
            block_size=block_size,
            kernel=kernel,
            threads=threads,
            force=force,
            progress=progress,
        )
    finally:
        if image is not source:
            image.close()
