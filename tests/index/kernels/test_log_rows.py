"""The loops over batches of the log against the parts that the codec gives."""

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from index.entry import Verdict
from index.kernels import log_rows
from index.kernels.scan import address_of
from index.storage.codec import LOG_ORIGINAL, LOG_ROW, LOG_SOURCE, Lines, pack_batch, unpack_batch
from index.storage.file.checksums import CHECKSUM
from index.storage.layout import pack_text
from tests.support.examples import examples

IDS = ("", "a", "plain", "é", "名前", "\ud800x")


def some_batch(random: Random, words: int, first: int) -> memoryview:
    """A batch of random columns, with some bytes behind it as in the file.

    first  number of its first document: UNIQUE rows that entered have their own numbers
    """
    generator = np.random.default_rng(random.randrange(2**32))
    count, sources, duplicates = random.choice((random.randrange(8), 80)), random.randrange(1, 4), random.randrange(3)
    rows = generator.integers(0, 256, (count, LOG_ROW.itemsize), np.uint8).view(LOG_ROW)[:, 0]
    rows["source"] %= sources
    rows["filing"] = generator.random(count) < random.choice((0.1, 0.5, 0.9, 1))
    rows["verdict"] = generator.integers(0, random.choice((1, 2, 8)), count)
    entered = int(np.count_nonzero(rows["filing"]))
    unique = (rows["filing"] != 0) & (rows["verdict"] == Verdict.UNIQUE)
    rows["number"][unique] = first + np.cumsum(rows["filing"] != 0)[unique] - 1
    value = pack_batch(
        generator.integers(0, 256, (sources, LOG_SOURCE.itemsize), np.uint8).view(LOG_SOURCE)[:, 0],
        rows,
        generator.integers(0, 2**64, (entered, words), np.uint64),
        random.choices(IDS, k=count),
        np.zeros(duplicates, LOG_ORIGINAL),
        random.choices(IDS, k=duplicates),
        generator.integers(0, 256, (entered, random.randrange(3)), np.uint8),
    )
    return memoryview(value + bytes(CHECKSUM.size))


def entered_of(batch: Lines) -> np.ndarray:
    return np.flatnonzero(batch.rows["filing"])


@examples(60)
@given(st.integers(0, 2**64).map(Random), st.integers(1, 3))
def test_documents_of_many_batches_are_read_as_those_of_each(random: Random, words: int) -> None:
    numbers = [random.randrange(2**40) for _ in range(random.randrange(5))]
    values = [some_batch(random, words, number) for number in numbers]
    batches = [unpack_batch(value) for value in values]
    chosen = [
        np.array([place for place in range(len(entered_of(batch))) if random.random() < 0.6], np.int64)
        for batch in batches
    ]
    addresses, firsts = (
        np.repeat(np.array(column, np.uint64), [*map(len, chosen)])
        for column in ([address_of(value) for value in values], numbers)
    )
    documents = np.concatenate([np.empty(0, np.int64), *chosen])

    at = log_rows.places(addresses, firsts, documents)
    rows = [entered_of(batch)[some] for batch, some in zip(batches, chosen, strict=True)]
    assert at.tolist() == [row for of_batch in rows for row in of_batch.tolist()]

    packed, sources = log_rows.rows(addresses, at)
    octets = packed.astype("<u8").view(np.uint8)[:, : LOG_ROW.itemsize].tobytes()
    assert octets == b"".join(batch.rows[some].tobytes() for batch, some in zip(batches, rows, strict=True))
    assert sources.tobytes() == b"".join(
        batch.sources[batch.rows["source"][some]].tobytes() for batch, some in zip(batches, rows, strict=True)
    )
    assert log_rows.fingerprints(addresses, documents, words).tolist() == [
        fingerprint.tolist()
        for batch, some in zip(batches, chosen, strict=True)
        for fingerprint in batch.fingerprints[some]
    ]

    found, id_ends = log_rows.ids(addresses, at)
    texts = np.split(found, id_ends)[:-1]
    expected = []
    for batch, some in zip(batches, rows, strict=True):
        id_begins = np.append(0, batch.rows["id_end"])
        expected += [bytes(batch.ids[id_begins[row] : id_begins[row + 1]]) for row in some.tolist()]
    assert [text.tobytes() for text in texts] == expected
    assert set(expected) <= set(map(pack_text, IDS))


@examples(60)
@given(st.lists(st.integers(0, 40), unique=True), st.lists(st.integers(0, 40), unique=True))
def test_a_document_stands_in_the_batch_whose_numbers_hold_its_own(edges: list[int], asked: list[int]) -> None:
    begins = sorted(edges)[::2]
    ends = [each + 1 for each in sorted(edges)[1::2]]
    begins = begins[: len(ends)]
    expected = [
        next((at for at, (begin, end) in enumerate(zip(begins, ends, strict=True)) if begin <= number < end), -1)
        for number in sorted(asked)
    ]
    columns = (np.array(column, np.uint64) for column in (sorted(asked), begins, ends))
    assert log_rows.batches_of(*columns).tolist() == expected
