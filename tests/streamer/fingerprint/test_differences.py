"""An index that was made otherwise is refused by the names of settings, each of which can be set."""

from pathlib import Path

import pytest

from index.errors import ParametersDifferError
from streamer.service.wiring import open_with_scheme
from streamer.settings.settings import Settings, load
from streamer.settings.values import fields


def made(directory: Path, *overrides: str) -> Settings:
    settings = load(None, [f"index.directory={directory}", "fingerprint.key=public", *overrides], {}, over_files=True)
    open_with_scheme(settings)[0].close()
    return settings


@pytest.mark.parametrize(
    ("stored", "asked", "lines"),
    [
        ((), ("minhash.bins=64",), ["minhash.bins: stored 128, asked 64"]),
        ((), ("minhash.similarity_min=0.6",), ["minhash.similarity_min: stored 0.7, asked 0.6"]),
        ((), ("minhash.bin_bits=4",), ["minhash.bin_bits: stored 8, asked 4"]),
        ((), ("index.templates=false",), ["index.templates: stored true, asked false"]),
        ((), ("index.root_similarity_min=0.4",), ["index.root_similarity_min: stored 0.5, asked 0.4"]),
        ((), ("fingerprint.scheme=simhash",), ["fingerprint.scheme: stored minhash, asked simhash"]),
        ((), ("fingerprint.markup=html",), ["fingerprint.markup: stored "]),
        (
            ("fingerprint.scheme=simhash",),
            ("fingerprint.second_look=none",),
            ["fingerprint.second_look: stored cosine, asked (not set)"],
        ),
        (("fingerprint.scheme=simhash",), ("fingerprint.bits=128",), ["fingerprint.bits: stored 64, asked 128"]),
        (
            ("fingerprint.scheme=simhash", "index.distance_max=3"),
            ("fingerprint.scheme=simhash", "index.distance_max=5"),
            ["index.distance_max: stored 3, asked 5"],
        ),
    ],
)
def test_what_differs_is_named_as_it_is_set(
    tmp_path: Path, stored: tuple[str, ...], asked: tuple[str, ...], lines: list[str]
) -> None:
    made(tmp_path, *stored)
    with pytest.raises(ParametersDifferError) as refused:
        made(tmp_path, *stored, *asked)
    told = [line.strip() for line in str(refused.value).splitlines() if line.startswith("  ")]
    for line in lines:
        assert any(each.startswith(line) for each in told), told
    keys = [line.split(":")[0] for line in told]
    assert set(keys) <= fields(Settings).keys()
    assert len(set(keys)) == len(keys)


def test_what_no_setting_decides_is_told_as_the_program_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path)
    monkeypatch.setattr("streamer.fingerprint.minhash.minhash.FORMAT_VERSION", 99)
    with pytest.raises(
        ParametersDifferError, match=r"fingerprint\.format \(the program's, no setting\): stored \d+, asked 99"
    ):
        made(tmp_path)
