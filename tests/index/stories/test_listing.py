"""A list by prefix is the list of all stories without those of other prefixes, whatever it reads at once."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from index import Index, Story
from index.matching.root import RootRule
from index.storage import log
from index.storage.parameters import Parameters
from index.stories import listing
from tests.support.entries import ONE, Row, ends_of, entries_of
from tests.support.examples import examples
from tests.support.indexes import opened

PARAMETERS = Parameters(64, 3, "root", root=RootRule(6, 0))
SCOPES = ("a/", "ab/", "b/", "/")


def rows_of(stories: list[tuple[str, int]]) -> list[Row]:
    """For each story, by the scope of its root and its documents, equal documents; no two stories resemble each other."""
    sized = [(place, scope) for place, (scope, documents) in enumerate(stories) for _ in range(documents)]
    return [
        Row(
            offset,
            place * 0x9E3779B97F4A7C15 % 2**64,
            ONE,
            time_ms=offset + 1,
            id=f"{scope}{offset}",
            host=f"{scope}host",
        )
        for offset, (place, scope) in enumerate(sized)
    ]


def admitted(index: Index, stories: list[tuple[str, int]]) -> None:
    rows = rows_of(stories)
    for begin in range(0, len(rows), 7):
        index.admit(entries_of(rows[begin : begin + 7]), ends_of(rows[begin : begin + 7]))


@pytest.fixture
def ids_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many documents each portion had, with portions of three."""
    monkeypatch.setattr(listing, "IDS_AT_ONCE", 3)
    read: list[int] = []
    documents = log.documents

    def counted(transaction: Any, numbers: Any, words: int) -> log.Documents:
        read.append(len(numbers))
        return documents(transaction, numbers, words)

    monkeypatch.setattr(listing.log, "documents", counted)
    return read


def expected(index: Index, prefix: str, limit: int) -> list[Story]:
    """By brute force: all stories, then those with the prefix."""
    return [story for story in index.stories(10_000) if (story.root.id or "").startswith(prefix)][:limit]


@examples(20)
@given(
    st.lists(st.tuples(st.sampled_from(SCOPES), st.integers(1, 4)), max_size=25), st.integers(1, 8), st.integers(1, 9)
)
def test_a_list_by_prefix_is_the_whole_list_without_the_others(
    stories: list[tuple[str, int]], limit: int, at_once: int
) -> None:
    with TemporaryDirectory() as folder, opened(Path(folder), PARAMETERS, stories=True) as index:
        admitted(index, stories)
        assert len(index.stories(10_000)) == sum(documents > 1 for _, documents in stories)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(listing, "IDS_AT_ONCE", at_once)
            for prefix in (*SCOPES, "a", "none/"):
                assert index.stories(limit, prefix=prefix) == expected(index, prefix, limit)


def test_a_list_reads_ids_until_it_is_full_and_all_of_them_if_it_never_is(tmp_path: Path, ids_read: list[int]) -> None:
    # The largest stories are of "a/" and "b/" in turn; one small story of "c/" comes last.
    stories = [(("a/", "b/")[place % 2], 20 - place) for place in range(10)]
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        admitted(index, [*stories, ("c/", 2)])
        ids_read.clear()
        assert [story.documents for story in index.stories(2, prefix="a/")] == [20, 18]
        assert ids_read == [3]
        ids_read.clear()
        assert [story.documents for story in index.stories(3, prefix="b/")] == [19, 17, 15]
        assert ids_read == [3, 3]
        ids_read.clear()
        assert [story.documents for story in index.stories(2, prefix="c/")] == [2]
        assert ids_read == [3, 3, 3, 2]
        ids_read.clear()
        index.stories(5)
        assert ids_read == []


def test_a_prefix_joins_a_host_and_a_time(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        admitted(index, [("a/", 4), ("b/", 3), ("a/", 2)])
        assert [story.documents for story in index.stories(9, prefix="a/", host="a/host")] == [4, 2]
        assert index.stories(9, prefix="a/", host="b/host") == []
        assert [story.documents for story in index.stories(9, since_ms=8, prefix="a/")] == [2]


def test_a_story_whose_root_is_forgotten_leaves_its_list(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        admitted(index, [("a/", 3), ("a/", 2), ("b/", 2)])
        index.forget(["a/0"])
        assert [story.root.id for story in index.stories(9, prefix="a/")] == ["a/3"]


def test_a_root_that_its_position_names_is_in_no_list_by_prefix(tmp_path: Path) -> None:
    with opened(tmp_path, PARAMETERS, stories=True) as index:
        index.begin(ONE, "a", 0)
        admitted(index, [("a/0/", 3), ("a/", 2)])
        assert [story.root.id for story in index.stories(9, prefix="a/")] == ["a/3"]
        assert [story.root.id for story in index.stories(9)] == ["a/0/0", "a/3"]
