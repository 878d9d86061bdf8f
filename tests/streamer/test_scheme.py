"""The setting that selects the scheme, and what the index is told of it."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from rich.console import Console

from index.bands import Banding
from index.errors import ParametersDiffer
from streamer.backfill import filter_files
from streamer.config import Settings, load
from streamer.fingerprint import Fingerprinter
from streamer.minhash import MinHasher
from streamer.scheme import parameters_for, scheme_for
from streamer.wiring import open_index
from tests.support.pinned_signatures import TEXTS


def chosen(*overrides: str) -> Settings:
    return load(None, overrides, {})


def test_the_scheme_is_chosen_by_name_and_simhash_is_the_default() -> None:
    assert isinstance(scheme_for(chosen()), Fingerprinter)
    assert isinstance(scheme_for(chosen("fingerprint.scheme=minhash")), MinHasher)


@pytest.mark.parametrize(
    ("overrides", "banding", "distance_max"),
    [
        ((), Banding(128, 8, 17, 5), 3_000),
        (("minhash.similarity_min=0.8",), Banding(128, 8, 13, 7), 2_000),
        (("minhash.bins=256", "minhash.bin_bits=4"), Banding(256, 4, 35, 7), 3_000),
    ],
)
def test_the_index_is_told_the_shape_that_the_settings_ask_for(
    overrides: tuple[str, ...], banding: Banding, distance_max: int
) -> None:
    settings = chosen("fingerprint.scheme=minhash", "index.insert=all", *overrides)
    parameters = parameters_for(settings, {"a": "stamp"})
    assert (parameters.banding, parameters.bits, parameters.distance_max) == (banding, banding.bits, distance_max)
    assert (parameters.insert, parameters.fingerprint) == ("all", {"a": "stamp"})


def test_the_settings_of_one_scheme_mean_nothing_to_the_other() -> None:
    plain = parameters_for(chosen(), {})
    assert parameters_for(chosen("minhash.similarity_min=0.9", "minhash.bins=64"), {}) == plain
    assert plain.banding is None


@pytest.mark.parametrize("scheme", ["simhash", "minhash"])
def test_mark_up_and_traditional_writing_are_taken_off_for_both_schemes(scheme: str) -> None:
    plain = "许多道路被倒下的树木阻断，居民自发清理。The lights of the bridge are on.\n" * 3
    other = "<p class='x'>許多道路被倒下的樹木阻斷，居民自發清理。<b>The lights</b> of the bridge are on.</p>" * 3
    for own, alike in ((chosen(), False), (chosen("fingerprint.markup=html", "fingerprint.simplify=true"), True)):
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
    settings = chosen("fingerprint.scheme=minhash", f"index.directory={tmp_path / 'index'}")
    verdicts = filtered(tmp_path, settings)
    assert [line["verdict"] for line in verdicts] == ["unique"] * 4 + ["duplicate"] * 4
    assert [line["original"] for line in verdicts[4:]] == ["0", "1", "2", "3"]
    assert [line.get("similarity") for line in verdicts] == [None] * 4 + [1.0] * 4
    assert all(line["distance"] is None for line in verdicts)
    assert filtered(tmp_path, settings) == verdicts
    other = chosen(f"index.directory={tmp_path / 'index'}")
    with pytest.raises(ParametersDiffer, match="scheme: stored minhash, asked simhash"):
        open_index(other, scheme_for(other))
