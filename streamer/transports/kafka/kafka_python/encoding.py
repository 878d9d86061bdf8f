"""Encoding of records for kafka-python 3.0.12: the client's bytes, joined from parts that are equal for most records."""

from kafka.record.default_records import DefaultRecordBatchBuilder, DefaultRecordMetadata
from kafka.record.memory_records import MemoryRecordsBuilder
from kafka.record.util import encode_varint, size_of_varint

from streamer.records.record import Headers

_FORMAT = 2
_ABSENT, _EMPTY = b"\x01", b"\x00"
"""The lengths -1 and 0."""

_KEPT_MAX, _NAMES_KEPT_MAX = 2**14, 2**10


def make_builder(compression: int, batch_bytes: int) -> MemoryRecordsBuilder:
    """Builder of a client batch, as the client makes it, with the encoder of this module.

    compression  the client's number of a codec
    batch_bytes  largest size before compression; a single record may exceed it

    >>> builders = [make_builder(0, 1_000), MemoryRecordsBuilder(2, 0, 1_000)]
    >>> sizes = [builder.append(5, b"key", b"value", [("name", b"content")]).size for builder in builders]
    >>> sizes[0] == sizes[1]
    True
    """
    builder = MemoryRecordsBuilder(_FORMAT, compression, batch_bytes)
    builder._builder.__class__ = _Encoder
    return builder


class _Encoder(DefaultRecordBatchBuilder):  # type: ignore[misc]
    __slots__ = ()

    def append(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> DefaultRecordMetadata | None:
        """As the client's: None if the batch is full. Key and value are bytes, the time is known, and a header has a value."""
        is_first = self._first_timestamp is None  # type: ignore[has-type]
        if is_first:
            self._first_timestamp = self._max_timestamp = timestamp  # type: ignore[misc]
        varints, names = _VARINTS, _NAMES
        parts = [b"\x00", varints[timestamp - self._first_timestamp], varints[offset]]
        add = parts.append
        for content in (key, value):
            if content is None:
                add(_ABSENT)
            else:
                add(varints[len(content)])
                add(content)
        add(varints[len(headers)])
        for name, content in headers:
            add(names[name])
            if content:
                add(varints[len(content)])
                add(content)
            else:
                add(_EMPTY)
        body = b"".join(parts)
        size = len(body) + size_of_varint(len(body))
        if size + len(self._buffer) > self._batch_size and not is_first:
            return None
        if self._max_timestamp < timestamp:
            self._max_timestamp = timestamp  # type: ignore[misc]
        self._num_records += 1
        self._last_offset = offset  # type: ignore[misc]
        self._buffer += varints[len(body)]
        self._buffer += body
        return DefaultRecordMetadata(offset, size, timestamp)


class _Varints(dict[int, bytes]):
    """Numbers as the format writes them; the small ones are kept."""

    def __missing__(self, number: int) -> bytes:
        encoded = bytearray()
        encode_varint(number, encoded.append)
        if 0 <= number < _KEPT_MAX:
            self[number] = bytes(encoded)
        return bytes(encoded)


class _Names(dict[str, bytes]):
    """Names of headers with their lengths before them; the first ones are kept."""

    def __missing__(self, name: str) -> bytes:
        encoded = name.encode("utf-8")
        written = _VARINTS[len(encoded)] + encoded
        if len(self) < _NAMES_KEPT_MAX:
            self[name] = written
        return written


_VARINTS, _NAMES = _Varints(), _Names()
