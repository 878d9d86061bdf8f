"""Batches of fingerprints and ids, from `fingerprint` to `decide` through Kafka. Pure.

docs/formats.md has every byte. From the streamer, this module imports only the envelope.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from index import Entries, Kind, Source
from streamer.parts.envelope import Heading, Packer, Unpacker

MAGIC = b"NDFP"

FEATURES_MAX = 2**16
"""Most features in a written batch's samples, 256 KiB: Kafka refuses too large a record."""

Samples = Mapping[int, tuple[int, npt.NDArray[np.uint32]]]
"""Rows of the audit's sample, each with its least feature and all its features; see `fingerprint.sample`."""


@dataclass(frozen=True, slots=True)
class FingerprintBatch:
    """Fingerprints for a heading's documents.

    entries  n rows from one source; every row has an id, even with kind DEAD_LETTER
    details  n texts for people on dead letters; None elsewhere

    >>> numbers, words, times = np.array([100], np.uint64), np.array([[5]], np.uint64), np.zeros(1, np.int64)
    >>> columns = np.zeros(1, np.uint32), numbers, *np.zeros((2, 1), np.uint8), words, times, ["a"]
    >>> batch = FingerprintBatch(Heading("{}", "id", "pages", 3, 100, 250), Entries((Source("id", 3),), *columns), details=[None])
    >>> unpack_fingerprints(pack_fingerprints(batch), "fingerprints/3/7").entries.ids
    ['a']
    """

    heading: Heading
    entries: Entries
    details: Sequence[str | None]
    samples: Samples = field(default_factory=dict)

    @property
    def output_ids(self) -> list[str | None]:
        """Ids as outputs have them: None for a dead letter without one, which an index knows by its position."""
        entries = self.entries
        columns = entries.ids, _positions(self.heading, entries.offsets.tolist()), entries.kinds.tolist()
        return [None if kind == Kind.DEAD_LETTER and id_ == at else id_ for id_, at, kind in zip(*columns, strict=True)]


def pack_fingerprints(batch: FingerprintBatch) -> bytes:
    """A batch's bytes; ids that are the record's position are omitted."""
    heading, entries = batch.heading, batch.entries
    packer = Packer(MAGIC, heading, len(entries))
    packer.number(entries.fingerprints.shape[1])
    packer.number(0 if entries.looks is None else 1 + entries.looks.shape[1])
    packer.column(entries.offsets, "<u8")
    packer.column(entries.times_ms, "<i8")
    packer.column(entries.kinds, "u1")
    packer.column(entries.reasons, "u1")
    packer.column(np.ones(len(entries), np.bool_) if entries.named is None else entries.named, "u1")
    packer.column(entries.fingerprints, "<u8")
    packer.column(_digests(entries), "<u8")
    packer.column(entries.letters, "<u4")
    packer.column(entries.look_rows, "u1")
    positions = _positions(heading, entries.offsets.tolist())
    packer.texts([None if given == position else given for given, position in zip(entries.ids, positions, strict=True)])
    packer.texts([None] * len(entries) if entries.hosts is None else [host or None for host in entries.hosts])
    packer.texts(batch.details)
    packer.number(len(batch.samples))
    sets = [features for _, features in batch.samples.values()]
    packer.column(np.array(list(batch.samples), np.uint32), "<u4")
    packer.column(np.array([least for least, _ in batch.samples.values()], np.uint64), "<u8")
    packer.column(np.array([len(features) for features in sets], np.uint32), "<u4")
    packer.column(np.concatenate([np.empty(0, np.uint32), *sets]), "<u4")
    return packer.sealed()


def unpack_fingerprints(content: bytes | None, where: str) -> FingerprintBatch:
    """The reverse of `pack_fingerprints`. Raises BatchUnreadable, with the position `where`."""
    unpacker = Unpacker(MAGIC, content, where)
    heading, count = unpacker.heading, unpacker.count
    words, looks = unpacker.number(), unpacker.number()
    offsets = unpacker.offsets()
    times_ms = unpacker.column(np.int64, count)
    kinds, reasons, named = (unpacker.column(np.uint8, count) for _ in range(3))
    fingerprints = unpacker.column(np.uint64, count, words)
    digests, lengths = unpacker.column(np.uint64, count, 2), unpacker.column(np.uint32, count)
    look_rows = unpacker.column(np.uint8, count, max(0, looks - 1))
    ids, hosts, details = (unpacker.texts(count) for _ in range(3))
    samples = _samples(unpacker)
    unpacker.finish()
    if count and int(kinds.max()) > max(Kind):
        raise unpacker.unreadable(f"a document in it is of the unknown kind {int(kinds.max())}")
    positions = _positions(heading, offsets.tolist())
    entries = Entries(
        sources=(Source(heading.stream, heading.partition),),
        source_numbers=np.zeros(count, np.uint32),
        offsets=offsets,
        kinds=kinds,
        reasons=reasons,
        fingerprints=fingerprints,
        times_ms=times_ms,
        ids=[position if given is None else given for given, position in zip(ids, positions, strict=True)],
        looks=look_rows if looks else None,
        hosts=hosts,
        named=named.astype(np.bool_),
        digests=digests,
        lengths=lengths,
    )
    return FingerprintBatch(heading, entries, details, samples)


def fitting(samples: Samples) -> Samples:
    """The samples that one batch has room for, in their order."""
    room, chosen = FEATURES_MAX, {}
    for row, (least, features) in samples.items():
        if len(features) <= room:
            room -= len(features)
            chosen[row] = (least, features)
    return chosen


def joined_samples(batches: Sequence[FingerprintBatch]) -> Samples:
    """Samples of all batches, by rows of `joined`."""
    begins = np.cumsum([0, *(len(each.entries) for each in batches)]).tolist()
    return {
        begin + row: sample
        for begin, each in zip(begins, batches, strict=False)
        for row, sample in each.samples.items()
    }


def _samples(unpacker: Unpacker) -> Samples:
    sampled = unpacker.number()
    rows, leasts = unpacker.column(np.uint32, sampled), unpacker.column(np.uint64, sampled)
    counts = unpacker.column(np.uint32, sampled)
    features = unpacker.column(np.uint32, int(counts.sum()))
    if sampled and (int(rows.max()) >= unpacker.count or not counts.all()):
        raise unpacker.unreadable("a sample in it has no row or no features")
    sets = np.split(features, np.cumsum(counts)[:-1])
    return dict(zip(rows.tolist(), zip(leasts.tolist(), sets, strict=False), strict=False))


def joined(batches: Sequence[FingerprintBatch]) -> Entries:
    """Entries of at least one batch from one source. Raises ValueError for different widths of fingerprints or looks."""
    parts = [each.entries for each in batches]
    numbers = {source: number for number, source in enumerate(dict.fromkeys(part.sources[0] for part in parts))}
    names = ("offsets", "kinds", "reasons", "fingerprints", "times_ms", "named", "looks")
    pieces = {name: [getattr(part, name) for part in parts if getattr(part, name) is not None] for name in names}
    columns: dict[str, Any] = {name: np.concatenate(each) if each else None for name, each in pieces.items()}
    return replace(
        parts[0],
        sources=tuple(numbers),
        source_numbers=np.concatenate([np.full(len(part), numbers[part.sources[0]], np.uint32) for part in parts]),
        ids=[each for part in parts for each in part.ids],
        hosts=[each for part in parts for each in part.hosts or ()],
        digests=np.concatenate([_digests(part) for part in parts]),
        lengths=np.concatenate([part.letters for part in parts]),
        **columns,
    )


def _digests(entries: Entries) -> npt.NDArray[np.uint64]:
    """Digests of texts, uint64 [n, 2]; zeros if not needed."""
    return np.zeros((len(entries), 2), np.uint64) if entries.digests is None else entries.digests


def _positions(heading: Heading, offsets: Sequence[int]) -> list[str]:
    prefix = f"{heading.topic}/{heading.partition}/"
    return [f"{prefix}{offset}" for offset in offsets]
