"""The policies, each against what its name says."""

import re
from pathlib import Path

import pytest

from streamer.clusters.keep import Policy, rank_by
from streamer.errors import SettingsError
from streamer.settings.settings import Decode

TIMED = Decode(time="/time")


def order(policy: Policy, *documents: tuple[str | None, int | None, float]) -> list[int]:
    """The documents' places, the best first, ties in their order."""
    return sorted(range(len(documents)), key=lambda place: policy.rank(*documents[place], None))


def order_by_field(policy: Policy, *fields: str | None) -> list[str | None]:
    """The same of documents that differ in the policy's field alone."""
    return sorted(fields, key=lambda field: policy.rank(None, None, 1.0, field))


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


def test_the_largest_or_smallest_number_comes_first_and_what_is_none_last() -> None:
    values = ("7", None, "-3", "1e2", " 8.50 ", "nan", "1_000", "many", ".5", "٣")
    largest, smallest = rank_by("max:/meta/score", Decode()), rank_by("min:/meta/score", Decode())
    others = [None, "nan", "1_000", "many", "٣"]
    assert largest.pointer == smallest.pointer == "/meta/score"
    assert order_by_field(largest, *values) == ["1e2", " 8.50 ", "7", ".5", "-3", *others]
    assert order_by_field(smallest, *values) == ["-3", ".5", "7", " 8.50 ", "1e2", *others]
    huge = "9" * 400
    assert order_by_field(largest, None, "1", huge)[0] == huge


def test_listed_values_come_in_their_order_and_others_last() -> None:
    policy = rank_by("first:/source=wiki,news,7,,news", Decode())
    assert policy.pointer == "/source"
    assert order_by_field(policy, None, "blog", "7", "news", "wiki") == ["wiki", "news", "7", None, "blog"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("max:", "names no field"),
        ("max:score", "write a JSON pointer such as /score"),
        ("min:/a~2", "write a JSON pointer such as /score"),
        ("first:/source", "names no value"),
        ("first:/source=,", "names no value"),
        ("first:=a", "names no field"),
    ],
)
def test_a_policy_without_its_field_or_its_values_is_refused_with_what_to_write(words: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=f"--keep {re.escape(words)}: .*{complaint}"):
        rank_by(words, Decode())


def test_plain_text_has_no_field_to_rank_by() -> None:
    with pytest.raises(SettingsError, match=r"decode\.format"):
        rank_by("max:/score", Decode(format="text"))


@pytest.mark.parametrize("words", ["nearest", "first=x", "host-order", "", "maximum:/score", "newest:/score", "max"])
def test_other_words_are_refused_with_those_that_there_are(words: str) -> None:
    with pytest.raises(SettingsError, match=r"name first, longest, newest, max:POINTER, .* or host-order=FILE"):
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
    assert rank_by("newest", Decode(preset="warc")).rank(None, 1, 1.0, None) == -1
