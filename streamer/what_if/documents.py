"""Delivered documents, a row each, in temporary files: an index's data for deciding them again.

Only the rows in use are in memory. Row numbers follow arrival.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from index import Entries, Parameters, Position, Source
from streamer.records.output_headers import OutputHeaders
from streamer.verification.position_table import NO_VERDICT, NONE, PositionTable, Rows, mapped

_NO_SOURCE = 2**32 - 1


def row_of(parameters: Parameters) -> np.dtype[np.void]:
    """Row type.

    source, offset        position in the input; sources are numbered
    arrived_ms            the record's timestamp; not positive without one
    verdict               as delivered; NO_VERDICT if unknown
    distance              as delivered; `by_similarity`: in ten-thousandths of 1 - similarity, else in bits
    original_source, original_offset  as delivered
    id_end, host_end      ends of id and host in the file of names; each begins at the previous end
    named, kind, reason, time_ms, fingerprint, look, digests, length  as in `Entries`
    """
    return np.dtype(
        [
            ("source", "<u4"),
            ("offset", "<u8"),
            ("arrived_ms", "<i8"),
            ("verdict", "u1"),
            ("distance", "<i2"),
            ("by_similarity", "?"),
            ("original_source", "<u4"),
            ("original_offset", "<u8"),
            ("id_end", "<u8"),
            ("host_end", "<u8"),
            ("named", "?"),
            ("kind", "u1"),
            ("reason", "u1"),
            ("time_ms", "<i8"),
            ("fingerprint", "<u8", (parameters.words,)),
            ("look", "u1", (parameters.look_bytes,)),
            ("digests", "<u8", (2,)),
            ("length", "<u4"),
        ]
    )


class DocumentsWriter(ExitStack):
    """Writer for rows. As a context it closes its files.

    >>> numbers, words, times = np.array([7], np.uint64), np.array([[5]], np.uint64), np.zeros(1, np.int64)
    >>> columns = (Source("id", 0),), np.zeros(1, np.uint32), numbers, *np.zeros((2, 1), np.uint8), words, times, ["a"]
    >>> with DocumentsWriter(folder, Parameters(), {"id": "pages"}) as writer:
    ...     writer.add(Entries(*columns, digests=np.zeros((1, 2), np.uint64)), arrived_ms=[0], headers=[None])
    ...     writer.documents().text(0)
    'pages/0/7'
    """

    def __init__(self, folder: Path, parameters: Parameters, stream_names: Mapping[str, str]) -> None:
        super().__init__()
        self._stream_names = stream_names
        self._row = row_of(parameters)
        self._paths = folder / "rows", folder / "names"
        self._rows, self._names = (self.enter_context(path.open("wb")) for path in self._paths)
        self._numbers: dict[Source, int] = {}
        self._names_bytes = 0

    def add(self, entries: Entries, arrived_ms: Sequence[int], headers: Sequence[OutputHeaders | None]) -> None:
        """Append documents. `headers`: their outputs', or None."""
        rows = np.zeros(len(entries), self._row)
        numbers = np.array([self._number(source) for source in entries.sources], np.uint32)
        rows["source"] = numbers[entries.source_numbers]
        rows["offset"], rows["arrived_ms"] = entries.offsets, arrived_ms
        rows["kind"], rows["reason"], rows["time_ms"] = entries.kinds, entries.reasons, entries.times_ms
        rows["named"] = True if entries.named is None else entries.named
        rows["fingerprint"], rows["look"] = entries.fingerprints, entries.look_rows
        rows["digests"] = 0 if entries.digests is None else entries.digests
        rows["length"] = 0 if entries.lengths is None else entries.lengths
        rows["verdict"], rows["original_source"] = NO_VERDICT, _NO_SOURCE
        for place, each in enumerate(headers):
            if each is None or each.verdict is None:
                continue
            rows["verdict"][place], rows["distance"][place] = each.verdict, each.distance
            rows["by_similarity"][place] = each.by_similarity
            if each.verdict.names_original and each.original is not None:
                rows["original_source"][place] = self._number(each.original.source)
                rows["original_offset"][place] = each.original.offset
        names = [(identity or "", host or "") for identity, host in zip(entries.ids, _hosts(entries), strict=True)]
        encoded = [text.encode(errors="surrogatepass") for pair in names for text in pair]
        ends = np.cumsum([len(octets) for octets in encoded], dtype=np.uint64) + np.uint64(self._names_bytes)
        rows["id_end"], rows["host_end"] = ends[::2], ends[1::2]
        self._names_bytes += self._names.write(b"".join(encoded))
        self._rows.write(rows.tobytes())

    def documents(self) -> "Documents":
        """All documents added so far."""
        self._rows.flush()
        self._names.flush()
        rows, names = self._paths
        return Documents(mapped(rows, self._row), mapped(names, np.uint8), [*self._numbers], self._stream_names)

    def _number(self, source: Source) -> int:
        return self._numbers.setdefault(source, len(self._numbers))


class Documents(PositionTable):
    """Rows for all delivered documents; see `row_of`.

    >>> rows = np.zeros(2, row_of(Parameters()))
    >>> rows["offset"] = 9, 7
    >>> documents = Documents(rows, np.zeros(0, np.uint8), [Source("id", 0)], {"id": "pages"})
    >>> documents.by_position(), documents.text(0)
    (array([1, 0]), 'pages/0/9')
    """

    def __init__(
        self,
        rows: npt.NDArray[Any],
        names: npt.NDArray[np.uint8],
        sources: Sequence[Source],
        stream_names: Mapping[str, str],
    ) -> None:
        self.rows, self.sources, self._names = rows, sources, names
        self._by_position = np.lexsort((rows["offset"], rows["source"]))
        edges = np.searchsorted(rows["source"][self._by_position], np.arange(len(sources) + 1))
        parts = {source: self._by_position[slice(*edges[n : n + 2])] for n, source in enumerate(sources)}
        offsets = {source: rows["offset"][part] for source, part in parts.items()}
        super().__init__(offsets, lambda source, places: parts[source][places], stream_names)

    def __len__(self) -> int:
        return len(self.rows)

    def by_position(self) -> Rows:
        """All rows by source and offset; a repeated position comes again."""
        return self._by_position

    def originals(self) -> Rows:
        """Each row's original by its output, as a row; NONE without one."""
        originals, sources = np.full(len(self), NONE), np.ascontiguousarray(self.rows["original_source"])
        for number, source in enumerate(self.sources):
            naming = np.flatnonzero(sources == number)
            originals[naming] = self.rows_of(source, self.rows["original_offset"][naming])
        return originals

    def text(self, row: int) -> str:
        """`topic/partition/offset` of a row."""
        source = self.sources[int(self.rows["source"][row])]
        return self.position_text(Position(source, int(self.rows["offset"][row])))

    def name(self, row: int) -> str:
        """A row's id, or ""."""
        return self._text(int(self.rows["host_end"][row - 1]) if row else 0, int(self.rows["id_end"][row]))

    def host(self, row: int) -> str:
        """A row's host, or ""."""
        return self._text(int(self.rows["id_end"][row]), int(self.rows["host_end"][row]))

    def entries(self, rows: Rows, first_offset: int) -> Entries:
        """These rows as a batch, with consecutive offsets from `first_offset` on."""
        chosen = self.rows[rows]
        numbers, source_numbers = np.unique(chosen["source"], return_inverse=True)
        return Entries(
            sources=tuple(self.sources[number] for number in numbers.tolist()),
            source_numbers=source_numbers.astype(np.uint32),
            offsets=np.arange(first_offset, first_offset + len(rows), dtype=np.uint64),
            kinds=chosen["kind"],
            reasons=chosen["reason"],
            fingerprints=np.ascontiguousarray(chosen["fingerprint"], np.uint64),
            times_ms=chosen["time_ms"],
            ids=[self.name(row) for row in rows.tolist()],
            looks=np.ascontiguousarray(chosen["look"]) if chosen["look"].shape[1] else None,
            hosts=[self.host(row) for row in rows.tolist()],
            named=chosen["named"],
            digests=np.ascontiguousarray(chosen["digests"], np.uint64),
            lengths=np.ascontiguousarray(chosen["length"], np.uint32),
        )

    def _text(self, begin: int, end: int) -> str:
        return self._names[begin:end].tobytes().decode(errors="surrogatepass")


def _hosts(entries: Entries) -> Sequence[str | None]:
    return [None] * len(entries) if entries.hosts is None else entries.hosts
