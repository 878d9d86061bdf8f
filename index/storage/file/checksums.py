"""Checksums: XXH64 of a value, seeded with its key's, seeded with the table name's.

A value moved to another key or table does not fit its checksum.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import repeat

import xxhash

from index.storage.layout import Table

CHECKSUM = struct.Struct("<Q")

REMEMBERED_MAX = 2**20
"""Maximum remembered checksums: 64 MiB."""

_DIGEST = xxhash.xxh64_intdigest
_SEEDS = {table: _DIGEST(table.value) for table in Table}


def checksum_of(table: Table, key: bytes, content: bytes | memoryview) -> bytes:
    """A value's checksum."""
    return CHECKSUM.pack(_DIGEST(content, _DIGEST(key, _SEEDS[table])))


def is_of_older_format(table: Table, key: bytes, value: bytes) -> bool:
    """Whether a value ends with the checksum of format versions 3 to 7: XXH3."""
    digest = xxhash.xxh3_64_intdigest
    checksum = digest(value[: -CHECKSUM.size], digest(key, digest(table.value)))
    return value[-CHECKSUM.size :] == CHECKSUM.pack(checksum)


def first_wrong(table: Table, pairs: Iterable[tuple[bytes, memoryview]]) -> tuple[bytes, memoryview] | None:
    """The first pair whose value does not fit its checksum, or None."""
    seed, digest = _SEEDS[table], _DIGEST
    for key, value in pairs:
        checksum = digest(value[: -CHECKSUM.size], digest(key, seed))
        if len(value) < CHECKSUM.size or checksum != int.from_bytes(value[-CHECKSUM.size :], "little"):
            return key, value
    return None


def with_checksums(table: Table, keys: Sequence[bytes], contents: Sequence[bytes]) -> list[bytes]:
    """Each content followed by its `checksum_of`."""
    digests = map(_DIGEST, contents, map(_DIGEST, keys, repeat(_SEEDS[table])))
    # Half the time of a loop over `checksum_of`.
    return [content + checksum for content, checksum in zip(contents, map(CHECKSUM.pack, digests), strict=True)]


class Checksums:
    """Checks a file's values. A value `read_in_parts` is checked once; up to REMEMBERED_MAX are remembered.

    >>> checksums, key = Checksums(), b"counters"
    >>> value = b"content" + checksums.of(Table.META, key, b"content")
    >>> checksums.fits(Table.META, key, memoryview(value)), checksums.fits(Table.META, b"horizon", memoryview(value))
    (True, False)
    """

    def __init__(self) -> None:
        self._fitting: set[bytes] = set()

    def of(self, table: Table, key: bytes, content: bytes | memoryview) -> bytes:
        """As `checksum_of`; the value then needs no check."""
        checksum = checksum_of(table, key, content)
        if table.read_in_parts:
            if len(self._fitting) >= REMEMBERED_MAX:
                self._fitting.clear()
            self._fitting.add(checksum)
        return checksum

    def fits(self, table: Table, key: bytes, value: memoryview, *, recheck: bool = False) -> bool:
        """Whether a value fits its checksum. `recheck` reads all of it, even after an earlier check."""
        if not table.read_in_parts:
            return first_wrong(table, [(key, value)]) is None
        if len(value) < CHECKSUM.size:
            return False
        checksum = value[-CHECKSUM.size :].tobytes()
        # The checksum also distinguishes two versions of a value.
        if checksum in self._fitting and not recheck:
            return True
        return checksum == self.of(table, key, value[: -CHECKSUM.size])

    def forget(self) -> None:
        """Check every value again."""
        self._fitting.clear()
