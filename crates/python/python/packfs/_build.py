"""Builds images."""

from __future__ import annotations

import calendar
import io
import operator
import os
import stat as stat_bits
import tarfile
import zipfile
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, Optional, Tuple, Union

from . import _packfs
from ._errors import InvalidArgument
from ._image import Image
from ._image import open as open_image

Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Report = Callable[[str, int, int], Any]

_KINDS = ("file", "dir", "symlink", "link", "fifo")
_OWNERS = range(1 << 32)
_SIZES = range(1 << 63)
# Seconds have 64 bits in the compiled part, which knows what the formats hold.
_SECOND = 1_000_000_000
_TIMES = range(-_SECOND << 63, _SECOND << 63)
# In a header of a tar archive, before the name of an extended attribute.
_TAR_XATTR = "SCHILY.xattr."


class BuildSummary(NamedTuple):
    """Numbers of regular files, and of bytes of the image without the padding after it."""

    files: int
    image_bytes: int


@dataclass
class Attributes:
    """Attributes of an entry. A directory, link or pipe has its type in ``kind``, and no data.

    ``mode`` has the permissions only. ``mtime_ns`` is in nanoseconds since 1970. ``target`` is what a link leads to: for
    kind "link", an earlier entry. ``size`` is the number of bytes that a stream gives. Without it, a stream that cannot seek
    is read into memory.
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
        shown = os.fsdecode(self.path)
        self.kind = attributes.kind
        if self.kind not in _KINDS:
            raise InvalidArgument(f"{shown}: kind: {self.kind!r} is not one of {', '.join(_KINDS)}")
        self.data: Optional[bytes] = None
        self.stream: Optional[Tuple[Any, int]] = None
        mode, uid, gid = attributes.mode, attributes.uid, attributes.gid
        self.mode = None if mode is None else _number(shown, "mode", mode, range(0o10000))
        self.owner = (_number(shown, "uid", uid, _OWNERS), _number(shown, "gid", gid, _OWNERS))
        self.mtime = divmod(_number(shown, "mtime_ns", attributes.mtime_ns, _TIMES), _SECOND)
        self.xattrs = [
            (os.fsencode(name), _bytes_of(f"{shown}: {os.fsdecode(name)}", value))
            for name, value in attributes.xattrs.items()
        ]
        if attributes.target is not None:
            if self.kind not in ("symlink", "link"):
                raise InvalidArgument(f"{shown}: target: only of kinds symlink and link, not {self.kind}")
            self.data = os.fsencode(attributes.target)
        elif hasattr(data, "read"):
            self.stream = _sized(shown, data, attributes.size)
        elif data is not None or self.kind == "file":
            self.data = _bytes_of(f"{shown}: data", data)


def _number(entry: str, name: str, value: Any, valid: range) -> int:
    """Returns an attribute of an entry, which is a number in a range."""
    try:
        number = operator.index(value)
    except TypeError as error:
        raise TypeError(f"{entry}: {name}: {error}") from None
    if number not in valid:
        raise InvalidArgument(f"{entry}: {name}: {number} is not in the range from {valid[0]} to {valid[-1]}")
    return number


def _bytes_of(name: str, value: Any) -> bytes:
    # Not by bytes() alone, which makes zeros of a number.
    try:
        return bytes(memoryview(value))
    except TypeError:
        raise TypeError(f"{name}: bytes are needed, not {type(value).__name__}") from None


def _sized(entry: str, stream: Any, size: Optional[int]) -> Tuple[Any, int]:
    """Returns a stream with the number of bytes it has; reads it into memory if only that tells."""
    if size is None and getattr(stream, "seekable", lambda: False)():
        at = stream.tell()
        size = stream.seek(0, io.SEEK_END) - at
        stream.seek(at)
    if size is None:
        content = stream.read()
        stream, size = io.BytesIO(content), len(content)
    return stream, _number(entry, "size", size, _SIZES)


def _entries(source: Iterable[Any]) -> Iterator[_Entry]:
    for item in source:
        name, data, *rest = item
        attributes = rest[0] if rest and rest[0] is not None else Attributes()
        if isinstance(attributes, dict):
            attributes = Attributes(**attributes)
        yield _Entry(name, data, attributes)


def _tar_entries(archive: tarfile.TarFile) -> Iterator[_Entry]:
    if archive.closed or archive.mode != "r":  # type: ignore[attr-defined]
        raise InvalidArgument("a tarfile.TarFile that is not open for reading")
    for member in archive:
        kinds = {tarfile.DIRTYPE: "dir", tarfile.SYMTYPE: "symlink", tarfile.LNKTYPE: "link", tarfile.FIFOTYPE: "fifo"}
        kind = "file" if member.isreg() else kinds.get(member.type)
        if kind is None:
            raise InvalidArgument(f"{member.name}: a tarfile.TarFile with devices; give the file's path instead")
        # A hard link has the attributes of its first name.
        headers = {} if kind == "link" else member.pax_headers
        attributes = Attributes(
            kind=kind,
            mode=member.mode & 0o7777,
            uid=member.uid,
            gid=member.gid,
            mtime_ns=_tar_time(member),
            target=member.linkname if kind in ("symlink", "link") else None,
            size=member.size,
            xattrs={
                name[len(_TAR_XATTR) :]: value.encode("utf-8", "surrogateescape")
                for name, value in headers.items()
                if name.startswith(_TAR_XATTR)
            },
        )
        yield _Entry(member.name, archive.extractfile(member) if kind == "file" else None, attributes)


def _tar_time(member: tarfile.TarInfo) -> int:
    """Returns a time in nanoseconds, of which the header of a pax archive has more digits than a float."""
    try:
        return int(Decimal(member.pax_headers.get("mtime", member.mtime)) * _SECOND)
    except (ArithmeticError, ValueError):
        raise InvalidArgument(f"{member.name}: mtime: not a number") from None


def _zip_entries(archive: zipfile.ZipFile) -> Iterator[_Entry]:
    if archive.fp is None or archive.mode != "r":
        raise InvalidArgument("a zipfile.ZipFile that is not open for reading")
    for member in archive.infolist():
        mode = member.external_attr >> 16
        # As the library reads them from a zip archive: of an unknown time zone, so as if it were UTC; and some writers
        # leave month and day out.
        year, month, day, *time = member.date_time
        mtime = calendar.timegm((year, max(month, 1), max(day, 1), *time, 0, 0, 0))
        attributes = Attributes(mode=mode & 0o7777 or None, size=member.file_size, mtime_ns=mtime * _SECOND)
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
    fragments: bool = True,
    kernel: Optional[Tuple[int, int]] = None,
    threads: Optional[int] = None,
    force: bool = False,
    progress: Optional[Report] = None,
) -> BuildSummary:
    """Builds an image at ``target``, which appears whole or not at all.

    ``source`` is the path of a directory, an image or an archive (tar, cpio or zip, by its bytes), a binary stream with a
    tar or cpio archive, a :class:`tarfile.TarFile`, a :class:`zipfile.ZipFile`, an :class:`Image`, or an iterable of
    ``(name, data)`` or ``(name, data, attributes)``: data are bytes or a binary stream, attributes are :class:`Attributes`. A
    later entry of the same name replaces an earlier one. Iterables and streams are used on another thread.

    ``format`` is "squashfs" or "erofs", by default by the target's ending. ``codec`` is written as for the program:
    "zstd", "zstd:19". Without ``fragments``, small files are not packed together: the image is larger, but to read one of
    them, as in random order, decodes that file only. ``kernel`` is the oldest Linux that has to read an EROFS image.
    ``progress`` is called with the phase, and the bytes done and in total; an exception of it ends the build.

    >>> import packfs
    >>> packfs.build("one.erofs", [("etc/motd", b"Welcome.", {"mode": 0o600})]).files
    1
    """
    settings = {
        "format": format or _format_of(target),
        "codec": codec,
        "block_size": block_size,
        "fragments": fragments,
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
    fragments: bool = True,
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
            fragments=fragments,
            kernel=kernel,
            threads=threads,
            force=force,
            progress=progress,
        )
    finally:
        if image is not source:
            image.close()
