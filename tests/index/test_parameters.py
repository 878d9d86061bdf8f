import json
from pathlib import Path

import pytest

from index.admission import Index
from index.errors import FormatUnknown, ParametersDiffer
from index.parameters import Parameters, read_stamp, stamp_of

MAP_BYTES_MAX = 2**24
STORED = Parameters(64, 3, "unique", {"features": "words", "weight": "tf"})


def test_the_message_names_every_setting_that_differs_and_what_to_do(tmp_path: Path) -> None:
    Index.open(tmp_path, STORED, map_bytes_max=MAP_BYTES_MAX).close()
    asked = Parameters(128, 3, "all", {"features": "shingles", "weight": "tf", "shingle_words": "2"})
    with pytest.raises(ParametersDiffer) as raised:
        Index.open(tmp_path, asked, map_bytes_max=MAP_BYTES_MAX)
    assert str(raised.value) == (
        f"The index in {tmp_path} was built with other settings:\n"
        "  bits: stored 64, asked 128\n"
        "  fingerprint.features: stored words, asked shingles\n"
        "  fingerprint.shingle_words: stored (not set), asked 2\n"
        "  insert: stored unique, asked all\n"
        "Use the stored settings, or begin a new index in another directory (index.directory)."
    )


@pytest.mark.parametrize(
    "asked",
    [
        Parameters(64, 2, "unique", STORED.fingerprint),
        Parameters(64, 4, "unique", STORED.fingerprint),
        Parameters(64, 3, "unique", {"features": "words"}),
    ],
)
def test_any_difference_is_refused_and_the_index_stays_usable(asked: Parameters, tmp_path: Path) -> None:
    Index.open(tmp_path, STORED, map_bytes_max=MAP_BYTES_MAX).close()
    for read_only in (False, True):
        with pytest.raises(ParametersDiffer):
            Index.open(tmp_path, asked, map_bytes_max=MAP_BYTES_MAX, read_only=read_only)
    with Index.open(tmp_path, STORED, map_bytes_max=MAP_BYTES_MAX) as index:
        assert index.parameters == STORED


def test_the_stamp_comes_back_as_it_was_written() -> None:
    assert read_stamp(stamp_of(STORED), "here") == STORED


@pytest.mark.parametrize("version", [0, 1, 3, "2", None])
def test_another_format_version_is_refused(version: object) -> None:
    stamp = json.loads(stamp_of(STORED)) | {"format": version}
    with pytest.raises(FormatUnknown, match=r"of format version .*; this program knows version 2"):
        read_stamp(json.dumps(stamp).encode(), "here")


@pytest.mark.parametrize("stamp", [b"", b"\xff", b"[]", b"{}", b"1"])
def test_a_stamp_that_cannot_be_read_is_refused(stamp: bytes) -> None:
    with pytest.raises(FormatUnknown, match="no readable stamp"):
        read_stamp(stamp, "here")


@pytest.mark.parametrize(
    ("bits", "distance_max", "insert"), [(32, 3, "unique"), (64, 8, "all"), (64, -1, "all"), (64, 3, "some")]
)
def test_parameters_out_of_range_are_refused(bits: int, distance_max: int, insert: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        Parameters(bits, distance_max, insert)  # type: ignore[arg-type]
