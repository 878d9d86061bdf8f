import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from index.storage import codec
from index.storage.codec import LOG_ORIGINAL, LOG_ROW, LOG_SOURCE, Tombstones
from index.storage.layout import unpack_text
from tests.support.examples import examples

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


@examples(60)
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


@examples(30)
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


@examples(40)
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
