"""The setting that selects the scheme, and the parameters of the index that follow."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

from index import RootRule
from index.errors import ParametersDifferError
from index.matching.minhash import Banding
from streamer.fingerprint.minhash.minhash import MinHasher
from streamer.fingerprint.scheme import parameters_for, scheme_for
from streamer.fingerprint.simhash.fingerprinter import Fingerprinter
from streamer.service.file_job import filter_files
from streamer.service.wiring import open_index
from streamer.settings.settings import Settings, load
from tests.support.pinned_signatures import TEXTS


def chosen(*overrides: str) -> Settings:
    return load(None, ["fingerprint.key=public", *overrides], {})


def test_the_scheme_is_chosen_by_name_and_minhash_is_the_default() -> None:
    assert isinstance(scheme_for(chosen()), MinHasher)
    assert isinstance(scheme_for(chosen("fingerprint.scheme=minhash")), MinHasher)
    assert isinstance(scheme_for(chosen("fingerprint.scheme=simhash")), Fingerprinter)


@pytest.mark.parametrize(
    ("overrides", "banding", "distance_max"),
    [
        ((), Banding(128, 8, 17, 5), 3_000),
        (("minhash.similarity_min=0.8",), Banding(128, 8, 13, 7), 2_000),
        (("minhash.bins=256", "minhash.bin_bits=4"), Banding(256, 4, 35, 7), 3_000),
    ],
)
def test_the_parameters_of_the_index_follow_the_settings(
    overrides: tuple[str, ...], banding: Banding, distance_max: int
) -> None:
    settings = chosen("index.insert=unique", *overrides)
    parameters = parameters_for(settings, {"a": "stamp"})
    assert (parameters.banding, parameters.bits, parameters.distance_max) == (banding, banding.bits, distance_max)
    assert (parameters.insert, parameters.fingerprint) == ("unique", {"a": "stamp"})


@pytest.mark.parametrize(
    ("overrides", "rule"),
    [
        ((), RootRule(5_000, 1_000)),
        (("index.root_similarity_min=0.6", "minhash.similarity_min=0.8"), RootRule(4_000, 666)),
        (("fingerprint.scheme=simhash", "index.distance_max=4"), RootRule(8, 1)),
        (("fingerprint.scheme=simhash", "index.distance_max=3", "index.root_distance_max=5"), RootRule(5, 1)),
        (("fingerprint.scheme=simhash", "fingerprint.second_look=cosine", "index.distance_max=7"), RootRule(14, 2)),
    ],
)
def test_the_limits_of_a_root_follow_the_settings(overrides: tuple[str, ...], rule: RootRule) -> None:
    assert parameters_for(chosen("index.insert=root", *overrides), {}).root == rule
    assert parameters_for(chosen("index.insert=unique", *overrides), {}).root is None


def test_the_settings_of_one_scheme_mean_nothing_to_the_other() -> None:
    simhash = "fingerprint.scheme=simhash"
    plain = parameters_for(chosen(simhash), {})
    assert parameters_for(chosen(simhash, "minhash.similarity_min=0.9", "minhash.bins=64"), {}) == plain
    assert (plain.banding, plain.bits, plain.distance_max) == (None, 64, 7)
    shipped = parameters_for(chosen(), {})
    assert parameters_for(chosen("index.distance_max=7", "fingerprint.bits=128"), {}) == shipped
    assert shipped.scheme == "minhash"


@pytest.mark.parametrize("scheme", ["simhash", "minhash"])
def test_both_schemes_take_off_mark_up_and_traditional_writing(scheme: str) -> None:
    plain = "许多道路被倒下的树木阻断，居民自发清理。The lights of the bridge are on.\n" * 3
    other = "<p class='x'>許多道路被倒下的樹木阻斷，居民自發清理。<b>The lights</b> of the bridge are on.</p>" * 3
    none, both = chosen("fingerprint.markup=none"), chosen("fingerprint.markup=html", "fingerprint.simplify=true")
    for own, alike in ((none, False), (both, True)):
        settings = own.model_copy(update={"fingerprint": own.fingerprint.model_copy(update={"scheme": scheme})})
        made = scheme_for(settings)
        one, two = made.fingerprint([plain, other]).fingerprints
        assert (one == two).all() == alike
        assert ("markup" in made.stamp()) == ("simplify" in made.stamp()) == alike


def filtered(directory: Path, settings: Settings) -> list[Any]:
    documents = directory / "in.jsonl"
    lines = [{"id": f"{number}", "text": text} for number, text in enumerate(TEXTS * 2)]
    documents.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    filter_files(settings, [documents], directory / "out", Console(quiet=True))
    return [orjson.loads(line) for line in (directory / "out" / "verdicts.jsonl").read_bytes().splitlines()]


def test_files_are_filtered_by_minhash_and_an_index_of_the_other_scheme_is_refused(tmp_path: Path) -> None:
    settings = chosen(f"index.directory={tmp_path / 'index'}")
    verdicts = filtered(tmp_path, settings)
    assert [line["verdict"] for line in verdicts] == ["unique"] * 4 + ["duplicate"] * 4
    assert [line["original"] for line in verdicts[4:]] == ["0", "1", "2", "3"]
    assert [line.get("similarity") for line in verdicts] == [None] * 4 + [1.0] * 4
    assert all(line["distance"] is None for line in verdicts)
    assert filtered(tmp_path, settings) == verdicts
    other = chosen("fingerprint.scheme=simhash", f"index.directory={tmp_path / 'index'}")
    with pytest.raises(ParametersDifferError, match="scheme: stored minhash, asked simhash"):
        open_index(other, scheme_for(other))


# --- the second look -------------------------------------------------------------------------------------------------

TEXT = "长江是中华民族的母亲河，也是中华民族发展的重要支撑。长江流域的生态保护工作取得了很大进展。"


def filtered_lines(directory: Path, settings: Settings, lines: list[dict[str, object]]) -> list[Any]:
    documents = directory / "lines.jsonl"
    documents.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    filter_files(settings, [documents], directory / "out", Console(quiet=True))
    return [orjson.loads(line) for line in (directory / "out" / "verdicts.jsonl").read_bytes().splitlines()]


def test_files_are_filtered_with_metadata_and_show_the_combined_similarity(tmp_path: Path) -> None:
    settings = chosen(
        "fingerprint.scheme=simhash",
        "fingerprint.second_look=metadata",
        "fingerprint.features_min=1",
        "decode.metadata=/tags,/topic",
        f"index.directory={tmp_path / 'index'}",
    )
    tags: list[dict[str, object]] = [
        {"tags": ["River", "生态"], "topic": "长江"},
        {"tags": ["river ", "长江", "生态"]},
        {"tags": ["sports"]},
        {},
    ]
    lines = [{"id": f"{number}", "text": TEXT, **each} for number, each in enumerate(tags)]
    verdicts = filtered_lines(tmp_path, settings, lines)
    assert [line["verdict"] for line in verdicts] == ["unique"] + ["duplicate"] * 3
    # The same set, however it is written; another set; and none.
    assert [line.get("similarity") for line in verdicts] == [None, 1.0, 0.9, 0.9]
    assert all(line["distance"] is None for line in verdicts)
    changed = ("fingerprint.scheme=simhash", "fingerprint.second_look=none", "index.distance_max=5")
    other = chosen(*changed, f"index.directory={tmp_path / 'index'}")
    with pytest.raises(ParametersDifferError, match=r"fingerprint.second_look: stored metadata, asked \(not set\)"):
        open_index(other, scheme_for(other))


def test_files_are_filtered_with_a_cosine_and_show_distances(tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(40)]
    lines: list[dict[str, object]] = [
        {"id": "first", "text": " ".join(words)},
        {"id": "same", "text": " ".join(words)},
        {"id": "near", "text": " ".join(words[:39])},
        {"id": "far", "text": " ".join(words[:36])},
    ]
    asked = (
        "fingerprint.scheme=simhash",
        "fingerprint.second_look=cosine",
        "index.distance_max=7",
        "fingerprint.features=words",
        "index.insert=root",
    )
    # Of 40 words 39: 4 bits and a cosine of .987; of 40 words 36: 7 bits and .949, farther from all others.
    for cosine_min, expected in (("0.9", "first same near far"), ("0.97", "first same near")):
        directory = tmp_path / cosine_min
        directory.mkdir()
        settings = chosen(*asked, f"second_look.cosine_min={cosine_min}", f"index.directory={directory / 'index'}")
        verdicts = filtered_lines(directory, settings, lines)
        found = ["first", *(line["id"] for line in verdicts if line["verdict"] == "duplicate")]
        assert found == expected.split()
        assert all("similarity" not in line for line in verdicts)
        assert [line["distance"] for line in verdicts[:2]] == [None, 0]
