"""Gzip members and Zstandard frames, one after the other. After damage an archive goes on at a later one."""

import re
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import zstandard

from streamer.transports.files import warc

# One step's memory is what 8 KiB can grow to: 8 MiB from gzip (1032 : 1), 256 MiB from zstd (32768 : 1).
READ_BYTES = 8 * 2**10
"""Most bytes that are decompressed in one step."""

_BACK_BYTES = READ_BYTES
_LOOK_BYTES = 1024  # in a frame, to know its first plain bytes
_FAILURES_MAX = 16  # frames tried in the same bytes
_WINDOW_BYTES_MAX = 2**31  # zstd --long=31; a frame takes only what its header asks for

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class Damaged(Exception):
    """Unreadable bytes; callers get InputUnreadable."""


class _Frame(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Decompressor:
    """Decompressor for consecutive frames, in blocks of any size.

    >>> from gzip import compress
    >>> frames = Decompressor(lambda: zlib.decompressobj(31), _GZIP_BEGINS, padding=b"\\0")
    >>> b"".join(frames.decode(compress(b"one line, ") + compress(b"another")))
    b'one line, another'
    >>> frames.finish()
    """

    def __init__(
        self,
        new_frame: Callable[[], _Frame],
        begins: re.Pattern[bytes],
        *,
        padding: bytes = b"",
        magic: bytes = b"",
        may_begin: Callable[[bytes], bool] = lambda _: True,
    ) -> None:
        """
        begins     what a frame begins with, _BEGIN_BYTES long, or less at the input's end
        padding    bytes to ignore between frames. Gzip allows zeros
        magic      first bytes in a frame
        may_begin  whether a frame's first bytes may begin an archive
        """
        self._new_frame = new_frame
        self._begins, self._padding = begins, padding
        self._magic, self._may_begin = magic, may_begin
        self._before = b""
        """The last bytes before the present ones, and after the last whole frame."""
        self._under_way = b""
        self._failures = 0
        self._is_seeking = False
        self._frame: _Frame | None = None
        self._frames = 0
        self._between = b""
        self.tail_bytes = 0
        """Bytes after the last frame that are no frame."""
        self.rest_bytes: int | None = None
        """Bytes not yet used, if a frame has just ended."""

    def decode(self, data: bytes) -> Iterator[bytes]:
        """Yield the plain text of `data`, frame by frame. Raises Damaged."""
        self._failures = 0
        if self._is_seeking:
            yield from self.resume(data)
            return
        yield from self._frames_of(data)
        self._before = (self._before + self._under_way)[-_BACK_BYTES:]

    def resume(self, data: bytes = b"") -> Iterator[bytes]:
        """Go on at the next frame that begins as an archive's does, after Damaged or a former call without one.

        The frame may begin before the bytes at which the damage shows: a cut frame is noticed within the next ones.
        """
        held = self._before + self._under_way + data
        self._failures += 1
        self._between, self.tail_bytes = b"", 0
        begin = -1 if self._failures > _FAILURES_MAX else self._archive_in(held)
        self._is_seeking = begin < 0
        self._before, self._under_way, self._frame = (held[-_LOOK_BYTES:] if self._is_seeking else b""), b"", None
        if not self._is_seeking:
            yield from self._frames_of(held[begin:])
            self._before = self._under_way[-_BACK_BYTES:]

    def _archive_in(self, held: bytes) -> int:
        # The failed frame begins at the first byte, if all of it is held.
        begin = held.find(self._magic, 1)
        while begin >= 0 and not self._may_begin(held[begin : begin + _LOOK_BYTES]):
            begin = held.find(self._magic, begin + 1)
        return begin

    def _frames_of(self, data: bytes) -> Iterator[bytes]:
        self._under_way = data
        while data:
            if self._frame is None:
                data = self._next_frame(data) if self._frames else data
                if not data:
                    return
                self._frame = self._new_frame()
                self._frames += 1
            try:
                plain = self._frame.decompress(data)
            except (zlib.error, zstandard.ZstdError) as error:
                raise Damaged(f"the compressed data is damaged ({error})") from error
            data, self.rest_bytes = b"", None
            if self._frame.eof:
                data = self._frame.unused_data
                self._frame, self.rest_bytes = None, len(data)
                self._before, self._under_way = b"", data
            yield plain

    def _next_frame(self, data: bytes) -> bytes:
        """What begins a frame; empty while too little has come, and for a tail. Raises Damaged for a frame behind a tail."""
        data, self._between = self._between + data, b""
        if not self.tail_bytes:
            data = data.lstrip(self._padding) if self._padding else data
            if len(data) < _BEGIN_BYTES:
                self._between = data
                return b""
            if self._begins.match(data):
                return data
        if self._begins.search(data):
            raise Damaged("between two compressed parts of the file there is something else")
        self._between = data[1 - _BEGIN_BYTES :]
        self.tail_bytes += len(data) - len(self._between)
        return b""

    def finish(self, *, may_have_tail: bool = False) -> None:
        """End the input. Raises Damaged without a complete last frame, and for a tail unless it may be there."""
        if self._is_seeking:
            return
        is_begun = not self.tail_bytes and bool(self._begins.match(self._between))
        if self._frames and not is_begun:
            self.tail_bytes += len(self._between)
        if self._frame is not None or not self._frames or is_begun:
            raise Damaged("the compressed data ends too early: the file is truncated")
        if self.tail_bytes and not may_have_tail:
            raise Damaged("the compressed data is damaged (something else follows it)")


_BEGIN_BYTES = 4
_GZIP_BEGINS = re.compile(rb"\x1f(?:\x8b(?:\x08(?:[\0-\x1f]|\Z)|\Z)|\Z)")
_ZSTD_BEGINS = re.compile(rb"\x28(?:\xb5(?:\x2f(?:\xfd|\Z)|\Z)|\Z)|[\x50-\x5f](?:\x2a(?:\x4d(?:\x18|\Z)|\Z)|\Z)")


def _may_begin_archive(member: bytes) -> bool:
    try:
        return warc.BEGIN.startswith(zlib.decompressobj(wbits=31).decompress(member, len(warc.BEGIN)))
    except zlib.error:
        return False


DECOMPRESSORS: dict[str, Callable[[], Decompressor]] = {
    "gz": lambda: Decompressor(
        lambda: zlib.decompressobj(wbits=31),
        _GZIP_BEGINS,
        padding=b"\0",
        magic=GZIP_MAGIC + b"\x08",
        may_begin=_may_begin_archive,
    ),
    "zst": lambda: Decompressor(
        zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX).decompressobj, _ZSTD_BEGINS, magic=ZSTD_MAGIC
    ),
}
"""By suffix."""
