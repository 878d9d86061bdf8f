from hypothesis import given
from hypothesis import strategies as st

from index.dataflow.message import pack_texts, unpack_texts


@given(st.lists(st.text()), st.binary(max_size=5))
def test_texts_come_back_as_they_were(texts: list[str], before: bytes) -> None:
    assert unpack_texts(before + pack_texts(texts), len(before)) == texts


def test_a_lone_surrogate_comes_back() -> None:
    assert unpack_texts(pack_texts(["\ud800"])) == ["\ud800"]
