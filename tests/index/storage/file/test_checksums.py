from hypothesis import given, settings
from hypothesis import strategies as st

from index.storage.file.checksums import checked_values, checksum_of, short_checksums, with_checksums
from index.storage.layout import Table

VALUES = st.lists(st.binary(min_size=8, max_size=8), max_size=5)


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(min_size=1, max_size=30), st.binary(min_size=8, max_size=8)), max_size=20))
def test_checksums_of_many_short_values_are_those_of_each(pairs: list[tuple[bytes, bytes]]) -> None:
    expected = [checksum_of(Table.REPEATS, key, value) for key, value in pairs]
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    assert short_checksums(Table.REPEATS, keys, values) == expected
    assert with_checksums(Table.REPEATS, keys, values) == [
        value + checksum for value, checksum in zip(values, expected, strict=True)
    ]


@settings(deadline=None)
@given(st.dictionaries(st.binary(min_size=10, max_size=10), VALUES, max_size=8), st.data())
def test_values_come_back_by_their_keys_and_what_was_not_written_does_not(
    filed: dict[bytes, list[bytes]], data: st.DataObject
) -> None:
    keys, written = list(filed), [(key, value) for key, values in filed.items() for value in values]
    pairs = bytearray(b"".join(key + value + checksum_of(Table.REPEATS, key, value) for key, value in written))
    counts, values, wrong = checked_values(Table.REPEATS, keys, bytes(pairs))
    assert (counts.tolist(), values, wrong) == (
        [len(values) for values in filed.values()],
        b"".join(value for _, value in written),
        None,
    )
    if pairs:
        place = data.draw(st.integers(0, len(pairs) - 1))
        pairs[place] ^= data.draw(st.integers(1, 255))
        assert checked_values(Table.REPEATS, keys, bytes(pairs))[2] is not None
