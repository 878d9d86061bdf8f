from hypothesis import given, settings
from hypothesis import strategies as st

from index.storage.codec import seal_of, sealed_all, seals_of, unsealed
from index.storage.layout import Table

VALUES = st.lists(st.binary(min_size=8, max_size=8), max_size=5)


@settings(deadline=None)
@given(st.lists(st.tuples(st.binary(min_size=1, max_size=30), st.binary(min_size=8, max_size=8)), max_size=20))
def test_seals_of_many_short_values_are_those_of_each(pairs: list[tuple[bytes, bytes]]) -> None:
    expected = [seal_of(Table.REPEATS, key, value) for key, value in pairs]
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    assert seals_of(Table.REPEATS, keys, values) == expected
    assert sealed_all(Table.REPEATS, keys, values) == [
        value + seal for value, seal in zip(values, expected, strict=True)
    ]


@settings(deadline=None)
@given(st.dictionaries(st.binary(min_size=10, max_size=10), VALUES, max_size=8), st.data())
def test_values_come_back_by_their_keys_and_what_was_not_written_does_not(
    filed: dict[bytes, list[bytes]], data: st.DataObject
) -> None:
    keys, written = list(filed), [(key, value) for key, values in filed.items() for value in values]
    sealed = bytearray(b"".join(key + value + seal_of(Table.REPEATS, key, value) for key, value in written))
    counts, values, wrong = unsealed(Table.REPEATS, keys, bytes(sealed))
    assert (counts.tolist(), values, wrong) == (
        [len(values) for values in filed.values()],
        b"".join(value for _, value in written),
        None,
    )
    if sealed:
        place = data.draw(st.integers(0, len(sealed) - 1))
        sealed[place] ^= data.draw(st.integers(1, 255))
        assert unsealed(Table.REPEATS, keys, bytes(sealed))[2] is not None
