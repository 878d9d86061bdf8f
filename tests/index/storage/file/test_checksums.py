from hypothesis import given
from hypothesis import strategies as st

from index.storage.file.checksums import checksum_of, first_wrong, with_checksums
from index.storage.layout import Table


@given(
    st.dictionaries(st.binary(min_size=1, max_size=30), st.binary(max_size=20), max_size=8),
    st.data(),
)
def test_checksums_of_many_values_are_those_of_each_and_a_changed_value_fits_none(
    filed: dict[bytes, bytes], data: st.DataObject
) -> None:
    keys, values = list(filed), list(filed.values())
    stored = with_checksums(Table.EXACT, keys, values)
    assert stored == [value + checksum_of(Table.EXACT, key, value) for key, value in filed.items()]
    pairs = [(key, memoryview(value)) for key, value in zip(keys, stored, strict=True)]
    assert first_wrong(Table.EXACT, pairs) is None
    if pairs:
        which = data.draw(st.integers(0, len(pairs) - 1))
        changed = bytearray(stored[which])
        changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
        pairs[which] = (keys[which], memoryview(bytes(changed)))
        assert first_wrong(Table.EXACT, pairs) == pairs[which]
