"""Envelope for batches between parts through Kafka: heading, columns, checksum. docs/formats.md has every byte.

Other engines use these bytes too, so `envelope`, `fingerprint_batch` and `verdict_batch` import nothing else from the
streamer.
"""

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

VERSION = 4
"""Version of both formats. A reader refuses any other."""

DOCUMENTS_MAX = 256
"""Maximum documents per written batch. Readers take any number."""

_FIXED = struct.Struct("<4sHHIIQQ")
_NUMBER = struct.Struct("<I")
_NO_TEXT = 2**32 - 1
_ALL_ABSENT, _SOME_PRESENT = 0, 1

Item = TypeVar("Item", bound=np.generic)


class BatchUnreadable(ValueError):
    """Bytes that are damaged, or no batch in this format. The message begins with their place."""


@dataclass(frozen=True, slots=True)
class Heading:
    """Scope of a batch: the offsets [begin, end) in one input partition, all of them accounted for.

    stamp   canonical text of everything that changes a fingerprint, see `stamp_text`
    stream  id of the input topic, never reused
    topic   its name, for people

    Offsets without a document are transaction marks, or compacted records.

    >>> heading = Heading("", "stream", "pages", partition=3, begin=100, end=250)
    >>> [offset for offset in (99, 100, 250) if heading.begin <= offset < heading.end]
    [100]
    """

    stamp: str
    stream: str
    topic: str
    partition: int
    begin: int
    end: int


def stamp_text(stamp: Mapping[str, str]) -> str:
    """Canonical text of a stamp: equal stamps have equal texts.

    >>> stamp_text({"scheme": "simhash", "bits": "64"})
    '{"bits":"64","scheme":"simhash"}'
    """
    return json.dumps(dict(stamp), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@lru_cache(64)
def differing(ours: str, theirs: str) -> str:
    """Difference between two stamps, in words; empty if equal."""
    if ours == theirs:
        return ""
    our_stamp, their_stamp = _stamp(ours), _stamp(theirs)
    return ", ".join(
        f"{name} is {our_stamp.get(name, 'not set')!s} here and {their_stamp.get(name, 'not set')!s} there"
        for name in sorted(our_stamp.keys() | their_stamp.keys())
        if our_stamp.get(name) != their_stamp.get(name)
    )


def _stamp(text: str) -> dict[str, object]:
    try:
        stamp = json.loads(text)
    except ValueError:
        stamp = None
    return stamp if isinstance(stamp, dict) else {"stamp": text}


class Packer:
    """Writer for one batch: heading, columns in call order, checksum.

    >>> heading = Heading(stamp="{}", stream="id", topic="pages", partition=0, begin=7, end=9)
    >>> packer = Packer(b"DEMO", heading, count=2)
    >>> packer.texts(["one", None])
    >>> Unpacker(b"DEMO", packer.sealed(), where="verdicts/0/0").texts(2)
    ['one', None]
    """

    def __init__(self, magic: bytes, heading: Heading, count: int) -> None:
        self._parts = [_FIXED.pack(magic, VERSION, 0, heading.partition, count, heading.begin, heading.end)]
        for text in (heading.stamp, heading.stream, heading.topic):
            self.text(text)

    def number(self, value: int) -> None:
        """A 32-bit number."""
        self._parts.append(_NUMBER.pack(value))

    def text(self, text: str) -> None:
        """A text: its length in bytes, then UTF-8."""
        encoded = text.encode(errors="backslashreplace")
        self._parts += [_NUMBER.pack(len(encoded)), encoded]

    def column(self, column: npt.NDArray[Any], kind: str) -> None:
        """Items of any shape, row by row, as the little-endian numpy type `kind`."""
        self._parts.append(np.ascontiguousarray(column, kind).tobytes())

    def texts(self, texts: Sequence[str | None]) -> None:
        """A column of texts: 0 if all are absent; else 1, lengths in bytes (2^32 - 1: absent), and UTF-8."""
        if all(text is None for text in texts):
            self._parts.append(bytes([_ALL_ABSENT]))
            return
        encoded = [None if text is None else text.encode(errors="backslashreplace") for text in texts]
        lengths = np.array([_NO_TEXT if each is None else len(each) for each in encoded], "<u4")
        self._parts += [bytes([_SOME_PRESENT]), lengths.tobytes(), *(each for each in encoded if each)]

    def sealed(self) -> bytes:
        """The batch's bytes, with the checksum."""
        body = b"".join(self._parts)
        return body + _NUMBER.pack(zlib.crc32(body))


class Unpacker:
    """Reader for one batch, in the order of `Packer`. Every call raises BatchUnreadable if the bytes do not fit.

    >>> sealed = Packer(b"DEMO", Heading("{}", "stream", "pages", 3, 100, 250), count=0).sealed()
    >>> unpacker = Unpacker(b"DEMO", sealed, where="verdicts/3/7")
    >>> unpacker.finish()
    >>> unpacker.heading.end
    250
    """

    def __init__(self, magic: bytes, content: bytes | None, where: str) -> None:
        """Check magic, version and checksum. `where`: the record's topic, partition and offset."""
        self._content = content or b""
        self._where = where
        self._at = 0
        self._end = len(self._content) - _NUMBER.size
        if self._content[:4] != magic:
            raise self.unreadable(f"it does not begin with {magic.decode()}: something else was written to this topic")
        if len(self._content) < _FIXED.size + _NUMBER.size:
            raise self.unreadable(f"it was cut to {len(self._content)} bytes")
        _, version, flags, partition, self.count, begin, end = _FIXED.unpack_from(self._content)
        if version != VERSION or flags:
            raise self.unreadable(
                f"its format is version {version} with flags {flags:#x}, and this program reads version {VERSION} without: "
                "update the older one of the two programs"
            )
        if zlib.crc32(memoryview(self._content)[: self._end]) != _NUMBER.unpack_from(self._content, self._end)[0]:
            raise self.unreadable("it is damaged or was cut: its checksum does not fit")
        self._at = _FIXED.size
        stamp, stream, topic = self.text(), self.text(), self.text()
        if begin > end:
            raise self.unreadable(f"it begins at offset {begin} and ends before that, at {end}")
        self.heading = Heading(stamp, stream, topic, partition, begin, end)

    def unreadable(self, why: str) -> BatchUnreadable:
        """Error with the batch's place."""
        return BatchUnreadable(f"{self._where}: no batch can be read there: {why}")

    def number(self) -> int:
        """See `Packer.number`."""
        value: int = _NUMBER.unpack(self._take(_NUMBER.size))[0]
        return value

    def text(self) -> str:
        """See `Packer.text`."""
        return self._decoded(self._take(self.number()))

    def column(self, kind: type[Item], *shape: int) -> npt.NDArray[Item]:
        """An array of this type and shape, aligned and writable."""
        wanted = np.dtype(kind).newbyteorder("<")
        size = wanted.itemsize
        for length in shape:
            size *= length
        return np.frombuffer(self._take(size), wanted).astype(kind).reshape(shape)

    def offsets(self) -> npt.NDArray[np.uint64]:
        """The documents' offsets, uint64 [count]: increasing, and within the heading's."""
        offsets = self.column(np.uint64, self.count)
        if self.count and (int(offsets.min()) < self.heading.begin or int(offsets.max()) >= self.heading.end):
            raise self.unreadable("its rows do not lie within its offsets")
        if (offsets[1:] <= offsets[:-1]).any():
            raise self.unreadable("its rows are not in the order of their offsets")
        return offsets

    def texts(self, count: int) -> list[str | None]:
        """See `Packer.texts`."""
        form = self._take(1)[0]
        if form == _ALL_ABSENT:
            return [None] * count
        if form != _SOME_PRESENT:
            raise self.unreadable(f"a column of texts has the unknown form {form}")
        lengths: list[int] = self.column(np.uint32, count).tolist()
        return [None if length == _NO_TEXT else self._decoded(self._take(length)) for length in lengths]

    def finish(self) -> None:
        """Raise BatchUnreadable if bytes are left."""
        if self._at != self._end:
            raise self.unreadable(f"{self._end - self._at} bytes are left over behind its columns")

    def _take(self, size: int) -> bytes:
        begin, self._at = self._at, self._at + size
        if self._at > self._end:
            raise self.unreadable(f"its columns need more than its {len(self._content)} bytes")
        return self._content[begin : self._at]

    def _decoded(self, encoded: bytes) -> str:
        try:
            return encoded.decode()
        except UnicodeDecodeError as error:
            raise self.unreadable(f"a text in it is no UTF-8: {error}") from error
