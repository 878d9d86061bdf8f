"""Texts in messages and state: number, lengths, concatenated UTF-8."""

import struct
from collections.abc import Sequence

_COUNT = struct.Struct("<I")


def pack_texts(texts: Sequence[str]) -> bytes:
    """Bytes of texts, including surrogates.

    >>> unpack_texts(pack_texts(["page", ""]))
    ['page', '']
    """
    encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
    return struct.pack(f"<{1 + len(encoded)}I", len(encoded), *map(len, encoded)) + b"".join(encoded)


def unpack_texts(content: bytes, begin: int = 0) -> list[str]:
    """Revert `pack_texts`, from this byte on."""
    (count,) = _COUNT.unpack_from(content, begin)
    lengths = struct.unpack_from(f"<{count}I", content, begin + _COUNT.size)
    at, texts = begin + _COUNT.size * (1 + count), []
    for length in lengths:
        texts.append(content[at : at + length].decode("utf-8", "surrogatepass"))
        at += length
    return texts
