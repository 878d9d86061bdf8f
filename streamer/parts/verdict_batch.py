"""Batches of verdicts, from `decide` to `route` through Kafka: everything that an output shows. Pure.

docs/formats.md has every byte. From the streamer, this module imports only the envelope.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from index import Position, Source, Verdict
from streamer.parts.envelope import Heading, Packer, Unpacker

MAGIC = b"NDVD"


@dataclass(frozen=True, slots=True)
class VerdictBatch:
    """Verdicts on a heading's documents.

    heading             that of the decided fingerprints
    decider             id of the deciding index or engine
    offsets             uint64 [n], strictly increasing
    verdicts            uint8 [n], values of `Verdict`
    reasons             uint8 [n], values of `Reason`
    distances           int16 [n], as in `Decisions`
    ratios              uint16 [n], as in `Decisions`
    replayed            bool [n], decided by an earlier call; for people and metrics
    kinds               uint8 [n], values of `Kind`
    fingerprints        uint64 [n, words]
    ids                 None for a dead letter without one
    details             n texts for people on dead letters; None elsewhere
    names               topics of the originals' streams, as far as known

    >>> offsets, small, distances = np.array([100], np.uint64), np.zeros((3, 1), np.uint8), np.array([-1], np.int16)
    >>> rest = np.zeros(1, np.uint16), np.zeros(1, np.bool_), small[2], np.array([[5]], np.uint64)
    >>> columns = offsets, small[0], small[1], distances, *rest, ["a"], [None], [None], [None]
    >>> batch = VerdictBatch(Heading("{}", "id", "pages", 3, 100, 250), "index", *columns, names={})
    >>> Verdict(unpack_verdicts(pack_verdicts(batch), "verdicts/3/7").verdicts[0]).label
    'unique'
    """

    heading: Heading
    decider: str
    offsets: npt.NDArray[np.uint64]
    verdicts: npt.NDArray[np.uint8]
    reasons: npt.NDArray[np.uint8]
    distances: npt.NDArray[np.int16]
    ratios: npt.NDArray[np.uint16]
    replayed: npt.NDArray[np.bool_]
    kinds: npt.NDArray[np.uint8]
    fingerprints: npt.NDArray[np.uint64]
    ids: Sequence[str | None]
    details: Sequence[str | None]
    original_ids: Sequence[str | None]
    original_positions: Sequence[Position | None]
    names: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.offsets)


def pack_verdicts(batch: VerdictBatch) -> bytes:
    """The bytes of a batch."""
    packer = Packer(MAGIC, batch.heading, len(batch))
    packer.text(batch.decider)
    packer.number(batch.fingerprints.shape[1])
    packer.column(batch.offsets, "<u8")
    for column in (batch.verdicts, batch.reasons, batch.replayed, batch.kinds):
        packer.column(column, "u1")
    packer.column(batch.distances, "<i2")
    packer.column(batch.ratios, "<u2")
    packer.column(batch.fingerprints, "<u8")
    packer.texts(batch.ids)
    packer.texts(batch.details)
    _pack_originals(packer, batch)
    return packer.sealed()


def _pack_originals(packer: Packer, batch: VerdictBatch) -> None:
    rows = [row for row, position in enumerate(batch.original_positions) if position is not None]
    named = [position for position in batch.original_positions if position is not None]
    numbers: dict[Source, int] = {}
    source_numbers = [numbers.setdefault(position.source, len(numbers)) for position in named]
    packer.number(len(numbers))
    for source in numbers:
        packer.text(source.stream)
        packer.text(batch.names.get(source.stream, ""))
        packer.number(source.partition)
    packer.number(len(rows))
    packer.column(np.array(rows, np.uint32), "<u4")
    packer.column(np.array(source_numbers, np.uint32), "<u4")
    packer.column(np.array([position.offset for position in named], np.uint64), "<u8")
    packer.texts([batch.original_ids[row] for row in rows])


def unpack_verdicts(content: bytes | None, where: str) -> VerdictBatch:
    """The reverse of `pack_verdicts`. Raises BatchUnreadable, with the position `where`."""
    unpacker = Unpacker(MAGIC, content, where)
    heading, count = unpacker.heading, unpacker.count
    decider, words = unpacker.text(), unpacker.number()
    offsets = unpacker.offsets()
    verdicts, reasons, replayed, kinds = (unpacker.column(np.uint8, count) for _ in range(4))
    distances, ratios = unpacker.column(np.int16, count), unpacker.column(np.uint16, count)
    fingerprints = unpacker.column(np.uint64, count, words)
    ids, details = unpacker.texts(count), unpacker.texts(count)
    original_ids: list[str | None] = [None] * count
    positions: list[Position | None] = [None] * count
    names = _unpack_originals(unpacker, original_ids, positions)
    unpacker.finish()
    if count and int(verdicts.max()) > max(Verdict):
        raise unpacker.unreadable(f"it holds the unknown verdict {int(verdicts.max())}")
    columns = offsets, verdicts, reasons, distances, ratios, replayed.astype(np.bool_), kinds, fingerprints
    return VerdictBatch(heading, decider, *columns, ids, details, original_ids, positions, names)


def _unpack_originals(
    unpacker: Unpacker, original_ids: list[str | None], positions: list[Position | None]
) -> dict[str, str]:
    sources, names = [], {}
    for _ in range(unpacker.number()):
        stream, name = unpacker.text(), unpacker.text()
        sources.append(Source(stream, unpacker.number()))
        if name:
            names[stream] = name
    count = unpacker.number()
    rows, source_numbers = unpacker.column(np.uint32, count), unpacker.column(np.uint32, count)
    offsets, ids = unpacker.column(np.uint64, count), unpacker.texts(count)
    if count and (int(rows.max()) >= len(positions) or int(source_numbers.max()) >= len(sources)):
        raise unpacker.unreadable("an original in it belongs to no document, or to no source")
    columns = (rows.tolist(), source_numbers.tolist(), offsets.tolist(), ids)
    for row, number, offset, original_id in zip(*columns, strict=True):
        positions[row] = Position(sources[number], offset)
        original_ids[row] = original_id
    return names
