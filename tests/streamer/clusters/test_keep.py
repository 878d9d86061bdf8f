"""The policies, each against what its name says."""

from pathlib import Path

import pytest

from streamer.clusters.keep import Rank, rank_by
from streamer.errors import SettingsError
from streamer.settings.settings import Decode

TIMED = Decode(time="/time")


def order(rank: Rank, *documents: tuple[str | None, int | None, float]) -> list[int]:
    """The documents' places, the best first, ties in their order."""
    return sorted(range(len(documents)), key=lambda place: rank(*documents[place]))


def test_the_first_stays_first_whatever_it_is() -> None:
    assert order(rank_by("first", TIMED), ("b.example", 1, 0.9), ("a.example", 2, 1.5)) == [0, 1]


def test_the_longest_comes_first() -> None:
    assert order(rank_by("longest", TIMED), (None, 1, 0.9), (None, 1, 1.5), (None, 1, 1.5)) == [1, 2, 0]


def test_the_newest_comes_first_and_a_document_without_a_time_last_even_after_one_before_1970() -> None:
    assert order(rank_by("newest", TIMED), (None, None, 1), (None, -5_000, 1), (None, 7, 1)) == [2, 1, 0]


def test_hosts_go_in_the_order_of_their_file_and_others_last(tmp_path: Path) -> None:
    file = tmp_path / "hosts"
    file.write_text("First.example\n\nhttps://second.example/x\nfirst.example\n")
    documents = [(host, 0, 1.0) for host in (None, "other.example", "second.example", "first.example")]
    assert order(rank_by(f"host-order={file}", TIMED), *documents) == [3, 2, 0, 1]


def test_the_order_of_hosts_is_that_of_every_scope(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("first.example\nsecond.example\n")
    rank = rank_by(f"host-order={tmp_path / 'hosts'}", Decode(scope="/tenant"))
    documents = [
        (host, 0, 1.0) for host in (None, "tenant-a/other.example", "/second.example", "tenant-a/first.example")
    ]
    assert order(rank, *documents) == [3, 2, 0, 1]


@pytest.mark.parametrize("words", ["nearest", "first=x", "host-order", ""])
def test_other_words_are_refused_with_those_that_there_are(words: str) -> None:
    with pytest.raises(SettingsError, match="name first, longest, newest or host-order=FILE"):
        rank_by(words, TIMED)


def test_a_file_without_hosts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text("\n\n")
    with pytest.raises(SettingsError, match="names no host"):
        rank_by(f"host-order={tmp_path / 'hosts'}", TIMED)


def test_a_file_that_cannot_be_read_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_bytes(b"\xff\xfe")
    for name in ("hosts", "nowhere"):
        with pytest.raises(SettingsError, match=f"{name}: the file cannot be read"):
            rank_by(f"host-order={tmp_path / name}", TIMED)


def test_the_newest_needs_a_field_with_the_time_which_some_presets_name() -> None:
    with pytest.raises(SettingsError, match=r"set decode\.time"):
        rank_by("newest", Decode())
    assert rank_by("newest", Decode(preset="warc"))(None, 1, 1.0) == -1
