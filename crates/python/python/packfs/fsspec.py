"""An fsspec file system: ``packfs`` in pandas, pyarrow, zarr and everything else that takes fsspec addresses.

``packfs://data/a.csv::file:///images/set.sqfs`` is a file in an image, which may itself be behind any protocol.
"""

from __future__ import annotations

import os
import stat as stat_bits
from typing import Any, Dict, List, Optional, Sequence

import fsspec
from fsspec.archive import AbstractArchiveFileSystem
from fsspec.utils import tokenize

from . import _image


class PackfsFileSystem(AbstractArchiveFileSystem):  # type: ignore[misc]
    """The files of an image, which is ``fo``: a path, an address, a file object, or an open image."""

    protocol = "packfs"
    root_marker = ""
    cachable = False

    def __init__(
        self,
        fo: Any = "",
        target_protocol: Optional[str] = None,
        target_options: Optional[Dict[str, Any]] = None,
        cache: int = _image.DEFAULT_CACHE,
        offset: int = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if isinstance(fo, (str, os.PathLike)) and target_protocol not in (None, "file", "local"):
            fo = fsspec.open(fo, mode="rb", protocol=target_protocol, **(target_options or {})).open()
        elif isinstance(fo, str) and fo.startswith("file://"):
            fo = fo[len("file://") :]
        self.image = fo if isinstance(fo, _image.Image) else _image.open(fo, cache=cache, offset=offset)

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        return super()._strip_protocol(path).lstrip("/")

    def _info(self, path: str, status: os.stat_result) -> Dict[str, Any]:
        kinds = {stat_bits.S_IFDIR: "directory", stat_bits.S_IFREG: "file"}
        return {
            "name": path,
            "size": status.st_size,
            "type": kinds.get(stat_bits.S_IFMT(status.st_mode), "other"),
            "mode": status.st_mode,
            "uid": status.st_uid,
            "gid": status.st_gid,
            "mtime": status.st_mtime,
        }

    def info(self, path: str, **kwargs: Any) -> Dict[str, Any]:
        path = self._strip_protocol(path)
        return self._info(path, self.image.stat("/" + path))

    def exists(self, path: str, **kwargs: Any) -> bool:
        return self.image.exists("/" + self._strip_protocol(path))

    def ukey(self, path: str) -> str:
        return str(tokenize(self.info(path), repr(self.image), self.image._pinned))

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> List[Any]:
        path = self._strip_protocol(path)
        own = self.info(path)
        if own["type"] != "directory":
            return [own] if detail else [path]
        listed = []
        for entry in self.image.scandir("/" + path):
            # A link to a directory is listed as a link, as fsspec does for local files: `find` would follow loops.
            status = entry.stat(follow_symlinks=entry.is_file())
            listed.append(self._info(f"{path}/{entry.name}" if path else entry.name, status))
        return listed if detail else [one["name"] for one in listed]

    def _open(self, path: str, mode: str = "rb", block_size: Optional[int] = None, **kwargs: Any) -> Any:
        if mode != "rb":
            raise NotImplementedError("images can only be read")
        return self.image.open("/" + self._strip_protocol(path))

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **kwargs: Any) -> bytes:
        return self.cat_ranges([path], [start], [end], on_error="raise")[0]

    def cat_ranges(
        self,
        paths: Sequence[str],
        starts: Any,
        ends: Any,
        max_gap: Optional[int] = None,
        on_error: str = "return",
        **kwargs: Any,
    ) -> List[Any]:
        """Reads all ranges in one call; each block of the image is decoded once."""
        if not isinstance(starts, (list, tuple)):
            starts = [starts] * len(paths)
        if not isinstance(ends, (list, tuple)):
            ends = [ends] * len(paths)
        ranges = [self._range(*one) for one in zip(paths, starts, ends)] if on_error == "raise" else None
        if ranges is not None:
            return [bytes(view) for view in self.image.read_ranges(ranges)]
        try:
            return self.cat_ranges(paths, starts, ends, on_error="raise")
        except Exception:
            return [self._cat_or_error(*one) for one in zip(paths, starts, ends)]

    def _cat_or_error(self, path: str, start: Optional[int], end: Optional[int]) -> Any:
        try:
            return self.cat_file(path, start, end)
        except Exception as error:
            return error

    def _range(self, path: str, start: Optional[int], end: Optional[int]) -> Any:
        path = "/" + self._strip_protocol(path)
        start = start or 0
        if start < 0 or (end is not None and end < 0):
            size = self.image.stat(path).st_size
            start = max(size + start, 0) if start < 0 else start
            end = size + end if end is not None and end < 0 else end
        end = _image._END if end is None else max(end, start)
        return path, start, end
