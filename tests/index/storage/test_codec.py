import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.storage import codec
from index.storage.codec import LOG_ORIGINAL, LOG_ROW, LOG_SOURCE, Tombstones
from index.storage.file.checksums import CHECKSUM
from index.storage.layout import unpack_text

IDS = st.one_of(st.text(max_size=6), st.sampled_from(["", "é", "名前", "\ud800", "a\udfffb", "𝄞"]))
"""Ids of all widths in UTF-8; a lone surrogate, which JSON can hold, is no character of UTF-8."""

COLUMNS = st.integers(0, 2**32).map(np.random.default_rng)


def any_rows(generator: np.random.Generator, dtype: np.dtype, count: int) -> np.ndarray:
    """Structured rows of any bytes."""
    return np.frombuffer(generator.bytes(count * dtype.itemsize), dtype, count).copy()


def texts_of(joined: memoryview, ends: np.ndarray) -> list[str]:
    """The texts that stand one behind the other, by a loop."""
    begin, found = 0, []
    for end in ends.tolist():
        found.append(unpack_text(bytes(joined[begin:end])))
        begin = end
    return found


def packed(
    generator: np.random.Generator, ids: list[str], original_ids: list[str], words: int, look_bytes: int
) -> tuple[bytes, dict[str, np.ndarray]]:
    """A value of `log`, of which every second row entered, and what went into it."""
    parts = {
        "sources": any_rows(generator, LOG_SOURCE, int(generator.integers(0, 4))),
        "rows": any_rows(generator, LOG_ROW, len(ids)),
        "fingerprints": generator.integers(0, 2**64, (len(ids) // 2, words), dtype=np.uint64),
        "looks": generator.integers(0, 256, (len(ids) // 2, look_bytes), dtype=np.uint8),
        "originals": any_rows(generator, LOG_ORIGINAL, len(original_ids)),
    }
    value = codec.pack_batch(
        parts["sources"],
        parts["rows"],
        parts["fingerprints"],
        ids,
        parts["originals"],
        original_ids,
        parts["looks"] if look_bytes else None,
    )
    return value, parts


@settings(max_examples=60)
@given(COLUMNS, st.lists(IDS, max_size=9), st.lists(IDS, max_size=5), st.sampled_from([1, 2, 32]), st.integers(0, 5))
def test_a_batch_comes_back_as_it_was_packed(
    generator: np.random.Generator, ids: list[str], original_ids: list[str], words: int, look_bytes: int
) -> None:
    value, parts = packed(generator, ids, original_ids, words, look_bytes)
    lines = codec.unpack_batch(memoryview(value))
    for name, part in parts.items():
        found = getattr(lines, name)
        assert (found.shape, found.tobytes()) == (part.shape, part.tobytes()), name
    assert texts_of(lines.ids, lines.rows["id_end"]) == ids
    assert texts_of(lines.original_ids, lines.originals["id_end"]) == original_ids


@settings(max_examples=30)
@given(COLUMNS, st.lists(IDS, min_size=1, max_size=5), st.lists(IDS, max_size=3), st.data())
def test_a_batch_that_is_cut_off_before_its_ids_is_no_batch(
    generator: np.random.Generator, ids: list[str], original_ids: list[str], data: st.DataObject
) -> None:
    value, _ = packed(generator, ids, original_ids, 2, 3)
    texts = b"".join(text.encode("utf-8", "surrogatepass") for text in [*ids, *original_ids])
    assert value.endswith(texts)
    cut = data.draw(st.integers(0, len(value) - len(texts) - 1))
    with pytest.raises((ValueError, struct.error)):
        codec.unpack_batch(memoryview(value)[:cut])


@settings(max_examples=40)
@given(COLUMNS, st.integers(0, 20), st.sampled_from([1, 2, 16]))
def test_tombstones_come_back_as_they_were_packed(generator: np.random.Generator, count: int, words: int) -> None:
    tombstones = Tombstones(
        generator.integers(0, 2**64, count, dtype=np.uint64),
        generator.integers(0, 2**64, (count, words), dtype=np.uint64),
        generator.integers(0, 3, count, dtype=np.uint8),
    )
    value = codec.pack_tombstones(tombstones)
    for found, expected in zip(codec.unpack_tombstones(value, words), tombstones, strict=True):
        assert (found.shape, found.dtype, found.tolist()) == (expected.shape, expected.dtype, expected.tolist())
    for cut in range(len(value)):
        with pytest.raises((ValueError, struct.error)):
            codec.unpack_tombstones(value[:cut], words)


@given(st.integers(0, 70), st.sampled_from([4, 5, 8]), st.booleans(), st.data())
def test_segments_come_back_as_they_were_packed(count: int, width: int, numbered: bool, data: st.DataObject) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 99)))
    columns = generator.integers(0, 2**16, (width, count), dtype=np.uint16)
    numbers = generator.integers(0, 2**40, count if numbered else 0, dtype=np.uint64)
    value = codec.pack_segment(columns, numbers)
    found, found_numbers = codec.unpack_segment(value, width, numbered=numbered)
    assert found.tolist() == columns.tolist()
    assert found_numbers.tolist() == numbers.tolist()
    if numbered and count:
        places = generator.integers(0, count, 9)
        assert codec.segment_numbers(memoryview(value), places, width).tolist() == numbers[places].tolist()
    for column in range(width):
        assert codec.segment_column(memoryview(value), column).tolist() == columns[column].tolist()
    filled = 8 + count * codec.segment_entry_bytes(width, numbered=numbered)
    assert len(value) >= filled
    with pytest.raises((ValueError, struct.error)):
        codec.unpack_segment(value[: data.draw(st.integers(0, filled - 1))], width, numbered=numbered)
    assert (len(value) + CHECKSUM.size + 16) % 4_096 == 0


def test_a_number_that_does_not_fit_is_never_cut_off() -> None:
    with pytest.raises(AssertionError, match="40 bits"):
        codec.pack_segment(np.zeros((4, 1), np.uint16), np.array([2**40], np.uint64))


def test_the_sizes_of_segments_are_few_and_waste_little() -> None:
    columns = [np.zeros((4, count), np.uint16) for count in range(1, 34_000, 97)]
    sizes = [len(codec.pack_segment(column, np.empty(0, np.uint64))) for column in columns]
    assert len(set(sizes)) <= 49
    wasted = [size - 8 * column.shape[1] - 8 for size, column in zip(sizes, columns, strict=True)]
    assert all(waste <= max(4_096, size / 16 + 4_096) for waste, size in zip(wasted, sizes, strict=True))
