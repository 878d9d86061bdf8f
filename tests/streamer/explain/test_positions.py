"""Positions as people write them."""

from hypothesis import given
from hypothesis import strategies as st

from index.entry import Position, Source
from streamer.explain.positions import line_text, position_text, positions_of

NAMES = {"id-1": "news", "id-2": "dir/news.jsonl", "id-3": "news", "id-4": ""}


@given(st.sampled_from(sorted(NAMES)), st.integers(0, 10**6), st.integers(0, 2**40))
def test_what_is_written_is_read_again(stream: str, partition: int, offset: int) -> None:
    position = Position(Source(stream, partition), offset)
    assert position in positions_of(position_text(position, NAMES), NAMES)


def test_a_name_means_every_stream_that_had_it_the_newest_first() -> None:
    assert positions_of("news/2/7", NAMES) == [Position(Source("id-3", 2), 7), Position(Source("id-1", 2), 7)]
    assert positions_of("id-1/2/7", NAMES) == [Position(Source("id-1", 2), 7)]


def test_a_line_of_a_file_is_its_offset_and_one() -> None:
    at = [Position(Source("id-2", 0), 4)]
    assert positions_of("dir/news.jsonl:5", NAMES, over_files=True) == at
    assert line_text(position_text(at[0], NAMES)) == "dir/news.jsonl:5"
    assert positions_of("dir/news.jsonl:0", NAMES, over_files=True) == []
    assert positions_of("dir/news.jsonl:5", NAMES) == []


def test_an_id_that_looks_like_a_position_is_none() -> None:
    for text in ("http://news/2026/5", "news/2", "news/-1/2", "news/1/2 ", "", "news/1/" + "9" * 19):
        assert positions_of(text, NAMES) == []
