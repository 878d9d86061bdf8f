import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from index.errors import FormatUnknownError, ParametersDifferError
from index.index import Index
from index.matching.distance import hamming
from index.matching.minhash import Banding, banding_for
from index.matching.root import RootRule
from index.matching.second_look import CosineLook, MetadataLook
from index.storage.parameters import Parameters
from tests.support.plain_frames import framed_distances

MAP_BYTES_MAX = 2**24
STORED = Parameters(64, 3, "unique", {"features": "words", "weight": "tf"})


def test_the_message_names_every_setting_that_differs_and_what_to_do(tmp_path: Path) -> None:
    Index.open(tmp_path, STORED, map_bytes_max=MAP_BYTES_MAX).close()
    asked = Parameters(128, 3, "root", {"features": "shingles", "weight": "tf", "shingle_words": "2"}, root=RootRule(6))
    with pytest.raises(ParametersDifferError) as raised:
        Index.open(tmp_path, asked, map_bytes_max=MAP_BYTES_MAX)
    assert str(raised.value) == (
        f"The index in {tmp_path} was built with other settings:\n"
        "  bits: stored 64, asked 128\n"
        "  fingerprint.features: stored words, asked shingles\n"
        "  fingerprint.shingle_words: stored (not set), asked 2\n"
        "  insert: stored unique, asked root\n"
        "  root.distance_max: stored (not set), asked 6\n"
        "  root.member_distance_min: stored (not set), asked 0\n"
        "Thresholds may be stricter than the stored ones, not looser.\n"
        "Use the stored settings, rebuild the index with these (streamer index rebuild DIRECTORY), or begin a new one in "
        "another directory (index.directory)."
    )


def test_the_message_names_similarities_of_minhash_and_the_scheme_alone_where_that_differs(tmp_path: Path) -> None:
    stored = Parameters(512, 3_000, "unique", {"scheme": "minhash"}, Banding(64, 8, 11, 4))
    Index.open(tmp_path, stored, map_bytes_max=MAP_BYTES_MAX).close()
    farther = replace(stored, distance_max=4_000, banding=Banding(64, 8, 21, 3))
    told = []
    for asked in (farther, STORED):
        with pytest.raises(ParametersDifferError) as raised:
            Index.open(tmp_path, asked, map_bytes_max=MAP_BYTES_MAX)
        told.append(str(raised.value).splitlines()[1:-1])
    assert told == [
        [
            "  banding.bands: stored 11, asked 21",
            "  banding.rows: stored 4, asked 3",
            "  similarity_min: stored 0.7, asked 0.6",
            "Thresholds may be stricter than the stored ones, not looser.",
        ],
        ["  scheme: stored minhash, asked simhash"],
    ]


@pytest.mark.parametrize(
    "asked",
    [
        Parameters(64, 2, "root", STORED.fingerprint, root=RootRule(4)),
        Parameters(64, 4, "unique", STORED.fingerprint),
        Parameters(64, 3, "unique", {"features": "words"}),
    ],
)
def test_any_difference_is_refused_and_the_index_stays_usable(asked: Parameters, tmp_path: Path) -> None:
    Index.open(tmp_path, STORED, map_bytes_max=MAP_BYTES_MAX).close()
    for read_only in (False, True):
        with pytest.raises(ParametersDifferError):
            Index.open(tmp_path, asked, map_bytes_max=MAP_BYTES_MAX, read_only=read_only)
    with Index.open(tmp_path, STORED, map_bytes_max=MAP_BYTES_MAX) as index:
        assert index.parameters == STORED


@pytest.mark.parametrize("look", [CosineLook(256, 0.85), MetadataLook(100, 0.9, 0.25)])
def test_a_second_look_is_stamped_with_its_thresholds(look: CosineLook | MetadataLook, tmp_path: Path) -> None:
    with_look = Parameters(64, 5, "unique", look=look)
    assert Parameters.from_stamp(with_look.stamp(), "here") == with_look
    Index.open(tmp_path, with_look, map_bytes_max=MAP_BYTES_MAX).close()
    with pytest.raises(ParametersDifferError, match=rf"look.kind: stored {look.kind}, asked \(not set\)"):
        Index.open(tmp_path, Parameters(64, 5, "unique"), map_bytes_max=MAP_BYTES_MAX)
    other = CosineLook(256, 0.8) if isinstance(look, CosineLook) else MetadataLook(100, 0.9, 0.248)
    with pytest.raises(ParametersDifferError, match=r"_min: stored 0.\d+, asked 0.\d+\n"):
        Index.open(tmp_path, Parameters(64, 5, "unique", look=other), map_bytes_max=MAP_BYTES_MAX)


MINHASH = Parameters(1_024, 3_000, "root", {"bins": "128"}, banding_for(128, 8, 0.7), root=RootRule(5_000, 1_000))
COSINE, METADATA = Parameters(64, 7, look=CosineLook(256, 0.85)), Parameters(64, 5, look=MetadataLook(100, 0.9, 0.25))
STRICTER = [
    (STORED, replace(STORED, distance_max=0), replace(STORED, distance_max=0)),
    # The bands that fit a similarity are another matter, and so is how far members lie apart.
    (
        MINHASH,
        replace(MINHASH, distance_max=1_000, banding=banding_for(128, 8, 0.9), root=RootRule(4_000, 333)),
        replace(MINHASH, distance_max=1_000, root=RootRule(4_000, 1_000)),
    ),
    (MINHASH, replace(MINHASH, root=RootRule(4_000, 1_000)), replace(MINHASH, root=RootRule(4_000, 1_000))),
    (COSINE, Parameters(64, 7, look=CosineLook(256, 0.9)), Parameters(64, 7, look=CosineLook(256, 0.9))),
    (COSINE, Parameters(64, 6, look=CosineLook(256, 0.9)), Parameters(64, 6, look=CosineLook(256, 0.9))),
    (METADATA, *[Parameters(64, 3, look=MetadataLook(100, 0.9, 0.3))] * 2),
    (replace(METADATA, look=MetadataLook(100, 0.9, 0.245)), METADATA, METADATA),
]


@pytest.mark.parametrize(("stored", "asked", "deciding"), STRICTER)
def test_an_index_is_opened_with_stricter_thresholds_and_keeps_its_own(
    tmp_path: Path, stored: Parameters, asked: Parameters, deciding: Parameters
) -> None:
    Index.open(tmp_path, stored, map_bytes_max=MAP_BYTES_MAX).close()
    with Index.open(tmp_path, asked, map_bytes_max=MAP_BYTES_MAX) as index:
        assert index.parameters == deciding
    with Index.open(tmp_path, None, map_bytes_max=MAP_BYTES_MAX, read_only=True) as index:
        assert index.parameters == stored


LOOSER = [
    (STORED, replace(STORED, distance_max=4), ["distance_max"]),
    (MINHASH, replace(MINHASH, distance_max=3_001), ["similarity_min"]),
    (MINHASH, replace(MINHASH, root=RootRule(5_001, 1_000)), ["root.distance_max"]),
    (MINHASH, replace(MINHASH, distance_max=1_000, root=RootRule(5_001, 333)), ["root.distance_max"]),
    (COSINE, Parameters(64, 6, look=CosineLook(256, 0.8)), ["look.cosine_min"]),
    (METADATA, Parameters(64, 5, look=MetadataLook(100, 0.9, 0.2499)), ["look.similarity_min"]),
]


@pytest.mark.parametrize(("stored", "asked", "names"), LOOSER)
def test_a_looser_threshold_is_refused_and_which_way_is_open_is_told(
    tmp_path: Path, stored: Parameters, asked: Parameters, names: list[str]
) -> None:
    Index.open(tmp_path, stored, map_bytes_max=MAP_BYTES_MAX).close()
    with pytest.raises(ParametersDifferError) as raised:
        Index.open(tmp_path, asked, map_bytes_max=MAP_BYTES_MAX)
    lines = str(raised.value).splitlines()
    assert [line.split(":")[0].strip() for line in lines[1:-2]] == names
    assert lines[-2] == "Thresholds may be stricter than the stored ones, not looser."
    assert "streamer index rebuild" in lines[-1]


OTHER_THAN_STRICTER = [
    (MINHASH, replace(MINHASH, distance_max=1_000, banding=Banding(256, 4, 40, 6)), "banding.bins"),
    (MINHASH, replace(MINHASH, banding=banding_for(128, 8, 0.9)), "banding.rows"),
    (COSINE, Parameters(64, 6, look=CosineLook(128, 0.9)), "look.cells"),
    (COSINE, Parameters(64, 3, look=MetadataLook(256, 0.9, 0.3)), "look.kind"),
    (METADATA, Parameters(64, 3, look=MetadataLook(100, 0.8, 0.4)), "look.content_weight"),
    (METADATA, Parameters(64, 3, look=MetadataLook(128, 0.9, 0.3)), "look.functions"),
    (METADATA, Parameters(64, 3), "look.kind"),
    (STORED, Parameters(64, 2, "unique", {"features": "words"}), "fingerprint.weight"),
]


@pytest.mark.parametrize(("stored", "asked", "name"), OTHER_THAN_STRICTER)
def test_nothing_else_may_differ_beside_a_stricter_threshold(
    tmp_path: Path, stored: Parameters, asked: Parameters, name: str
) -> None:
    Index.open(tmp_path, stored, map_bytes_max=MAP_BYTES_MAX).close()
    with pytest.raises(ParametersDifferError, match=rf"\n  {name}: stored"):
        Index.open(tmp_path, asked, map_bytes_max=MAP_BYTES_MAX)


def test_thresholds_are_taken_over_where_entries_stay_what_they_are() -> None:
    stored = Parameters(64, 7, "unique", STORED.fingerprint, look=CosineLook(256, 0.85))
    asked = Parameters(64, 4, "root", root=RootRule(8), look=CosineLook(256, 0.5))
    assert stored.with_thresholds(asked) == Parameters(64, 4, "unique", STORED.fingerprint, look=CosineLook(256, 0.5))
    one, other = MetadataLook(100, 0.9, 0.25), MetadataLook(100, 0.9, 0.3)
    assert Parameters(64, 5, look=one).with_thresholds(Parameters(64, 3, look=other)) == Parameters(64, 3, look=other)
    for unlike in (CosineLook(128, 0.85), MetadataLook(256, 0.9, 0.3), None):
        assert stored.with_thresholds(Parameters(64, 3, look=unlike)) == stored


@pytest.mark.parametrize("parameters", [STORED, Parameters(512, 3_000, banding=Banding(64, 8, 11, 4))])
def test_distances_are_told_in_the_unit_of_the_scheme(parameters: Parameters) -> None:
    left, right = np.random.default_rng(1).integers(1, 2**64, (2, 9, parameters.words), dtype=np.uint64)
    right[0] = left[0]
    of_scheme = hamming(left, right) if parameters.banding is None else framed_distances(left, right, 8)
    found = parameters.distances(left, right)
    assert found.tolist() == of_scheme.tolist()
    assert found[0] == 0
    assert 0 < found[1:].max() <= (64 if parameters.banding is None else parameters.distance_limit)


def test_parameters_come_back_from_their_fields() -> None:
    for parameters in (
        STORED,
        Parameters(512, 3_000, banding=Banding(64, 8, 11, 4)),
        Parameters(look=CosineLook(8, 0.5)),
    ):
        assert Parameters.from_fields(json.loads(json.dumps(parameters.fields()))) == parameters


def test_a_second_look_that_does_not_fit_the_rest_is_refused() -> None:
    with pytest.raises(ValueError, match="distance_max must be 5, as far as"):
        Parameters(64, 4, look=MetadataLook(100, 0.9, 0.25))
    with pytest.raises(ValueError, match="no second look at MinHash"):
        Parameters(1024, 3_000, banding=banding_for(128, 8, 0.7), look=CosineLook(256, 0.8))


@pytest.mark.parametrize("version", [*range(14), 15, "14", None])
def test_another_format_version_is_refused(version: object) -> None:
    stamp = json.loads(STORED.stamp()) | {"format": version}
    with pytest.raises(FormatUnknownError, match=r"of format version .*; this program knows version 14"):
        Parameters.from_stamp(json.dumps(stamp).encode(), "here")


@pytest.mark.parametrize("stamp", [b"", b"\xff", b"[]", b"{}", b"1"])
def test_a_stamp_that_cannot_be_read_is_refused(stamp: bytes) -> None:
    with pytest.raises(FormatUnknownError, match="no readable stamp"):
        Parameters.from_stamp(stamp, "here")


@pytest.mark.parametrize(
    ("bits", "distance_max", "insert"), [(32, 3, "unique"), (64, 8, "unique"), (64, -1, "unique"), (64, 3, "all")]
)
def test_parameters_out_of_range_are_refused(bits: int, distance_max: int, insert: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        Parameters(bits, distance_max, insert)  # type: ignore[arg-type]
