"""Tables of records by position, in memory-mapped temporary files: only pages in use take memory."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from index import Position, Source
from streamer.explain.positions import position_text

NONE = -1
"""No row, in a column of rows."""

NO_VERDICT = 255

ROWS_AT_ONCE = 1 << 20

Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
"""Columns: rows of a table, truth values, and offsets, digests or parts of fingerprints."""


class PositionTable:
    """Rows addressed by position.

    >>> offsets = {Source("stream", 0): np.array([3, 7], np.uint64)}
    >>> table = PositionTable(offsets, lambda _, places: places + 10, {"stream": "documents"})
    >>> table.rows_of(Source("stream", 0), np.array([7, 4], np.uint64)).tolist()
    [11, -1]
    >>> table.position_text(Position(Source("stream", 0), 7))
    'documents/0/7'
    """

    def __init__(
        self, offsets: Mapping[Source, Words], rows_at: Callable[[Source, Rows], Rows], stream_names: Mapping[str, str]
    ) -> None:
        """
        offsets       by source, uint64 [n] ascending
        rows_at       rows of a source for places among its offsets
        stream_names  stream -> name for people
        """
        self._offsets, self._rows_at, self._stream_names = offsets, rows_at, stream_names

    def rows_of(self, source: Source, offsets: Words) -> Rows:
        """Row for each offset in a source, int64 [n]; NONE without a record."""
        rows = np.full(len(offsets), NONE)
        known = self._offsets.get(source)
        if known is not None:
            places = np.searchsorted(known, offsets)
            inside = np.flatnonzero(places < len(known))
            inside = inside[known[places[inside]] == offsets[inside]]
            rows[inside] = self._rows_at(source, places[inside])
        return rows

    def rows_at(self, positions: Sequence[Position | None]) -> Rows:
        """Row for each position, int64 [n]; NONE without a record."""
        rows = np.full(len(positions), NONE)
        for source, places in places_by(position and position.source for position in positions).items():
            offsets = [position.offset for place in places if (position := positions[place])]
            rows[places] = self.rows_of(source, np.array(offsets, np.uint64))
        return rows

    def position_text(self, position: Position) -> str:
        """`topic/partition/offset`, with the stream's id for a missing name."""
        return position_text(position, self._stream_names)


def places_by(sources: Iterable[Source | None]) -> dict[Source, list[int]]:
    """Each source's places, among n sources."""
    places: dict[Source, list[int]] = {}
    for place, source in enumerate(sources):
        if source is not None:
            places.setdefault(source, []).append(place)
    return places


def column(path: Path, dtype: npt.DTypeLike, rows: int, width: int | None = None) -> npt.NDArray[Any]:
    """New column of zeros in a file: dtype [rows] or [rows, width]."""
    shape = (rows,) if width is None else (rows, width)
    if 0 in shape:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "w+", shape=shape)


def mapped(path: Path, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A memory-mapped column file."""
    return np.memmap(path, dtype, "r") if path.stat().st_size else np.zeros(0, dtype)


def chunks(rows: int, size: int = ROWS_AT_ONCE) -> Iterator[slice]:
    """Slices with at most `size` rows."""
    return (slice(begin, min(begin + size, rows)) for begin in range(0, rows, size))
