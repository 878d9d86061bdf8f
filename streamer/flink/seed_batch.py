"""Batches of index entries that seed a job: a fingerprint batch, and the index's data on it. Pure.

The envelope is that of `streamer.parts.envelope`; its heading names the partition and the input:

    documents  uint8 [bytes], the entries as a fingerprint batch; empty in a partition's last batch
    number     int64, of the first entry
    members    uint32 [m], rows that count by another document
    roots      uint64 [m, 2], their keys
    words      fingerprints of the roots uint64 [m, words], their looks uint8 [m, look bytes], and their letters uint32 [m]
    history    `index.dataflow.HISTORY` [n], if entries may leave
    ends       uint64 [e], the offsets below which all is decided, and streams as texts; only in the last batch
    ages       behind the ends: `until_ms` int64, then streams as texts, then for each age its watermark int64, its
               numbers uint64 [6], its latest times and its notes

A batch with a sample has its group's number, from 1 on, before the columns, and `documents` holds the sample.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from index.dataflow import HISTORY, NO_NUMBER, NOTE, Seeds, SourceAge
from streamer.parts.envelope import Heading, Packer, Unpacker
from streamer.parts.fingerprint_batch import FingerprintBatch, pack_fingerprints, unpack_fingerprints

MAGIC = b"NDSD"


def pack_seeds(batch: FingerprintBatch, seeds: Seeds) -> bytes:
    """Bytes of a batch, without `seeds.ends`."""
    documents = np.frombuffer(pack_fingerprints(batch), np.uint8)
    history = np.empty(0, HISTORY) if seeds.history is None else seeds.history
    sizes = len(documents), seeds.fingerprints.shape[1], seeds.looks.shape[1], 0, 0, len(history)
    packer = _begun(batch.heading, len(seeds.members), sizes, seeds.number)
    packer.column(documents, "u1")
    packer.column(seeds.members, "<u4")
    packer.column(seeds.roots, "<u8")
    packer.column(seeds.fingerprints, "<u8")
    packer.column(seeds.looks, "u1")
    packer.column(seeds.letters, "<u4")
    packer.column(history.view(np.uint8), "u1")
    return packer.sealed()


def pack_ends(
    heading: Heading,
    ends: Mapping[str, int],
    ages: Sequence[SourceAge] = (),
    *,
    until_ms: int = -1,
    number: int = NO_NUMBER,
) -> bytes:
    """Bytes of a partition's last batch."""
    packer = _begun(heading, 0, (0, 0, 0, 1 + len(ends), 0, 0), number)
    packer.column(np.fromiter(ends.values(), np.uint64, len(ends)), "<u8")
    packer.texts(list(ends))
    packer.column(np.array([until_ms]), "<i8")
    packer.number(len(ages))
    packer.texts([age.stream for age in ages])
    for age in ages:
        packer.column(np.array([age.watermark_ms]), "<i8")
        packer.column(np.array([*age.begin, *age.end, len(age.latest_ms), len(age.notes)], np.uint64), "<u8")
        packer.column(age.latest_ms, "<i8")
        packer.column(age.notes.view(np.uint8), "u1")
    return packer.sealed()


def pack_sample(heading: Heading, group: int, content: bytes) -> bytes:
    """Bytes of a batch with a content of `samples_of`."""
    packer = _begun(heading, 0, (len(content), 0, 0, 0, 1 + group, 0), NO_NUMBER)
    packer.column(np.frombuffer(content, np.uint8), "u1")
    return packer.sealed()


def _begun(heading: Heading, members: int, sizes: Sequence[int], number: int) -> Packer:
    packer = Packer(MAGIC, heading, members)
    for size in sizes:
        packer.number(size)
    packer.column(np.array([number]), "<i8")
    return packer


def unpack_seeds(content: bytes, where: str) -> tuple[Heading, FingerprintBatch | None, Seeds]:
    """Inverse of all; only the first has documents. Raises BatchUnreadable.

    where  the record's topic, partition and offset, for messages
    """
    unpacker = Unpacker(MAGIC, content, where)
    count = unpacker.count
    size, words, look_bytes, ends, group, records = (unpacker.number() for _ in range(6))
    number = int(unpacker.column(np.int64, 1)[0])
    documents = unpacker.column(np.uint8, size).tobytes()
    members = unpacker.column(np.uint32, count).astype(np.int64)
    roots = unpacker.column(np.uint64, count, 2)
    columns = unpacker.column(np.uint64, count, words), unpacker.column(np.uint8, count, look_bytes)
    letters = unpacker.column(np.uint32, count)
    history = unpacker.column(np.uint8, records * HISTORY.itemsize).view(HISTORY)
    stream_ends: dict[str, int] | None = None
    ages: Sequence[SourceAge] = ()
    until_ms = -1
    if ends:
        offsets = unpacker.column(np.uint64, ends - 1).tolist()
        stream_ends = dict(zip(map(str, unpacker.texts(ends - 1)), offsets, strict=True))
        until_ms = int(unpacker.column(np.int64, 1)[0])
        ages = [_age(unpacker, str(stream)) for stream in unpacker.texts(unpacker.number())]
    unpacker.finish()
    batch = unpack_fingerprints(documents, where) if size and not group else None
    sample = (group - 1, documents) if group else None
    if batch is not None and records not in (0, len(batch.entries)):
        raise unpacker.unreadable("its history has other rows than its documents")
    histories = history if records else None
    seeds = Seeds(members, roots, *columns, letters, histories, number, stream_ends, ages, until_ms, sample)
    return unpacker.heading, batch, seeds


def _age(unpacker: Unpacker, stream: str) -> SourceAge:
    watermark_ms = int(unpacker.column(np.int64, 1)[0])
    begin_high, begin_low, end_high, end_low, latest, notes = unpacker.column(np.uint64, 6).tolist()
    return SourceAge(
        stream,
        watermark_ms,
        unpacker.column(np.int64, latest),
        (begin_high, begin_low),
        (end_high, end_low),
        unpacker.column(np.uint8, notes * NOTE.itemsize).view(NOTE),
    )


def holds_seeds(content: bytes) -> bool:
    """Whether these bytes have this format."""
    return content[: len(MAGIC)] == MAGIC
