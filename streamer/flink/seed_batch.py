"""Batches of index entries that seed a job: a fingerprint batch, and the index's data on it. Pure.

The envelope is that of `streamer.parts.envelope`; its heading names the partition and the input:

    documents  uint8 [bytes], the entries as a fingerprint batch; empty in a partition's last batch
    members    uint32 [m], rows that count by another document
    roots      uint64 [m, 2], their keys
    words      fingerprints of the roots uint64 [m, words], their looks uint8 [m, look bytes], and their letters uint32 [m]
    ends       streams as texts, and uint64 [e], the offsets below which all is decided; only in the last batch

A batch with a sample has its group's number, from 1 on, before the columns, and `documents` holds the sample.
"""

from collections.abc import Mapping

import numpy as np

from index.dataflow import Seeds
from streamer.parts.envelope import Heading, Packer, Unpacker
from streamer.parts.fingerprint_batch import FingerprintBatch, pack_fingerprints, unpack_fingerprints

MAGIC = b"NDSD"


def pack_seeds(batch: FingerprintBatch, seeds: Seeds) -> bytes:
    """Bytes of a batch, without `seeds.ends`."""
    documents = np.frombuffer(pack_fingerprints(batch), np.uint8)
    packer = Packer(MAGIC, batch.heading, len(seeds.members))
    for number in (len(documents), seeds.fingerprints.shape[1], seeds.looks.shape[1], 0, 0):
        packer.number(number)
    packer.column(documents, "u1")
    packer.column(seeds.members, "<u4")
    packer.column(seeds.roots, "<u8")
    packer.column(seeds.fingerprints, "<u8")
    packer.column(seeds.looks, "u1")
    packer.column(seeds.letters, "<u4")
    return packer.sealed()


def pack_ends(heading: Heading, ends: Mapping[str, int]) -> bytes:
    """Bytes of a partition's last batch."""
    packer = Packer(MAGIC, heading, 0)
    for number in (0, 0, 0, 1 + len(ends), 0):
        packer.number(number)
    packer.column(np.fromiter(ends.values(), np.uint64, len(ends)), "<u8")
    packer.texts(list(ends))
    return packer.sealed()


def pack_sample(heading: Heading, group: int, content: bytes) -> bytes:
    """Bytes of a batch with a content of `samples_of`."""
    packer = Packer(MAGIC, heading, 0)
    for number in (len(content), 0, 0, 0, 1 + group):
        packer.number(number)
    packer.column(np.frombuffer(content, np.uint8), "u1")
    return packer.sealed()


def unpack_seeds(content: bytes, where: str) -> tuple[Heading, FingerprintBatch | None, Seeds]:
    """Inverse of all; only the first has documents. Raises BatchUnreadable.

    where  the record's topic, partition and offset, for messages
    """
    unpacker = Unpacker(MAGIC, content, where)
    count = unpacker.count
    size, words, look_bytes, ends, group = (unpacker.number() for _ in range(5))
    documents = unpacker.column(np.uint8, size).tobytes()
    members = unpacker.column(np.uint32, count).astype(np.int64)
    roots = unpacker.column(np.uint64, count, 2)
    columns = unpacker.column(np.uint64, count, words), unpacker.column(np.uint8, count, look_bytes)
    letters = unpacker.column(np.uint32, count)
    of_streams: dict[str, int] | None = None
    if ends:
        offsets = unpacker.column(np.uint64, ends - 1).tolist()
        of_streams = dict(zip(map(str, unpacker.texts(ends - 1)), offsets, strict=True))
    unpacker.finish()
    batch = unpack_fingerprints(documents, where) if size and not group else None
    sample = (group - 1, documents) if group else None
    return unpacker.heading, batch, Seeds(members, roots, *columns, letters, of_streams, sample)


def holds_seeds(content: bytes) -> bool:
    """Whether these bytes have this format."""
    return content[: len(MAGIC)] == MAGIC
